//! This node's place in the cluster: its zone and region, from its labels and from what is known of
//! zones, in whatever order the two arrive.

use std::sync::Arc;

use sliceproxy_dataplane::kernel::Kernel;

use super::{Engine, node_addresses};
use crate::model::{Node, Region, ZoneRegions};
use crate::topology::Here;

impl<K: Kernel> Engine<K> {
    /// A Node object that is gone says nothing of the machine, which is where it was: what the object
    /// said last stays, until another one says something else.
    pub(super) fn set_node(&mut self, node: Option<Arc<Node>>) {
        if node.is_none() {
            return;
        }
        let addresses_changed = node_addresses(node.as_ref()) != node_addresses(self.node.as_ref());
        self.node = node;
        let here = self.place(self.here.regions.clone());
        if here != *self.here || addresses_changed {
            self.here = Arc::new(here);
            self.moved();
        }
    }

    /// Takes in all regions that were looked up; the configuration's win.
    pub(super) fn set_zone_regions(&mut self, mut regions: ZoneRegions) {
        regions.extend(self.settings.zone_regions.clone());
        if regions == self.here.regions {
            return;
        }
        let here = self.place(regions);
        // To a node without a region no endpoint is in the same one, whatever its zone's region is.
        let matters = here.region.is_some() || self.here.region.is_some();
        self.here = Arc::new(here);
        if matters {
            self.moved();
        }
    }

    fn place(&self, regions: ZoneRegions) -> Here {
        let node = self.node.as_deref();
        Here {
            node: self.settings.node.clone(),
            zone: node.and_then(|node| node.zone.clone()),
            region: node.and_then(|node| self.region(node, &regions)),
            pod_cidrs: node.map(|node| node.pod_cidrs.clone()).unwrap_or_default(),
            regions,
        }
    }

    /// The configuration comes first here too: whoever draws regions anew means this node as well.
    fn region(&self, node: &Node, regions: &ZoneRegions) -> Option<Region> {
        let of_zone = |regions: &ZoneRegions| regions.get(node.zone.as_ref()?).cloned();
        of_zone(&self.settings.zone_regions)
            .or_else(|| node.region.clone())
            .or_else(|| of_zone(regions))
    }

    /// This node's place changed: every Service port is looked at again. Only rows that come out
    /// differently are written.
    fn moved(&mut self) {
        self.affinity_due.extend(self.settings.families.clone());
        let all = self.ports.values().flatten().map(|port| port.name.clone()).collect();
        self.settle(all);
    }
}
