//! How endpoints stand to this node, one by one and counted.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::Level;
use crate::model::{NodeName, Region, SliceEndpoint, Zone, ZoneRegions};

/// This node's place in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// Name of this node.
    pub node: NodeName,
    /// Its zone, if its Node object has the label.
    pub zone: Option<Zone>,
    /// Its region: what the configuration says of its zone, else its own label, else what was looked
    /// up for its zone.
    pub region: Option<Region>,
    /// The regions of zones, as far as they are known.
    pub regions: ZoneRegions,
    /// Networks of this node's pods, to recognise them where a slice names no node.
    pub pod_cidrs: Vec<IpNetwork>,
}

/// How one endpoint stands to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "a record of independent answers")]
pub struct Standing {
    /// Takes new connections.
    pub ready: bool,
    /// Answers.
    pub serving: bool,
    /// Is going away.
    pub terminating: bool,
    /// Its slice names this node.
    pub same_node: bool,
    /// It is in this node's zone. An endpoint on this node always is, if the node has a zone.
    pub same_zone: bool,
    /// It is in this node's region. An endpoint in this node's zone always is, if the region is known.
    pub same_region: bool,
    /// It has a hint for some node.
    pub node_hinted: bool,
    /// It has a hint for this node.
    pub hinted_for_node: bool,
    /// It has a hint for some zone.
    pub zone_hinted: bool,
    /// It has a hint for this node's zone.
    pub hinted_for_zone: bool,
    /// It runs on this node as far as anyone can tell, so it may meet itself through a Service.
    pub hairpin: bool,
}

impl Standing {
    /// How `endpoint` stands to the node that is `here`.
    pub fn of(endpoint: &SliceEndpoint, here: &Here) -> Self {
        let same_node = endpoint.node.as_ref() == Some(&here.node);
        let in_zone = same_node || endpoint.zone == here.zone;
        let same_zone = here.zone.is_some() && in_zone;
        let of_zone = endpoint.zone.as_ref().and_then(|zone| here.regions.get(zone));
        let region = of_zone.or(endpoint.region.as_ref());
        let in_region = same_node || same_zone || region == here.region.as_ref();
        let hints = endpoint.hints.as_deref();
        let hinted_for_zone = |zone: &Zone| hints.is_some_and(|hints| hints.zones.contains(zone));
        Self {
            ready: endpoint.conditions.ready,
            serving: endpoint.conditions.serving,
            terminating: endpoint.conditions.terminating,
            same_node,
            same_zone,
            same_region: here.region.is_some() && in_region,
            node_hinted: hints.is_some_and(|hints| !hints.nodes.is_empty()),
            hinted_for_node: hints.is_some_and(|hints| hints.nodes.contains(&here.node)),
            zone_hinted: hints.is_some_and(|hints| !hints.zones.is_empty()),
            hinted_for_zone: here.zone.as_ref().is_some_and(hinted_for_zone),
            hairpin: same_node || (endpoint.node.is_none() && here.owns(endpoint.address)),
        }
    }

    /// Whether it may be used when nothing is ready: it terminates, and still serves.
    pub fn is_fallback(self) -> bool {
        !self.ready && self.serving && self.terminating
    }

    /// Whether it counts at `level`.
    pub fn is_at(self, level: Level) -> bool {
        match level {
            Level::HintedNode => self.hinted_for_node,
            Level::HintedZone => self.hinted_for_zone,
            Level::Node => self.same_node,
            Level::Zone => self.same_zone,
            Level::Region => self.same_region,
        }
    }
}

impl Here {
    /// A node of which only the name is known.
    pub fn named(node: NodeName) -> Self {
        let (zone, region, regions, pod_cidrs) = Default::default();
        Self { node, zone, region, regions, pod_cidrs }
    }

    /// Whether `address` is in a network of this node's pods.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.pod_cidrs.iter().any(|network| network.contains(address))
    }
}

/// How many endpoints of a Service port stand how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// All endpoints.
    pub all: u32,
    /// Ready ones.
    pub ready: u32,
    /// Those that terminate but serve.
    pub terminating: u32,
    /// Those on this node that terminate but serve.
    pub local_terminating: u32,
    /// Ready ones on this node.
    pub same_node: u32,
    /// Ready ones in this node's zone.
    pub same_zone: u32,
    /// Ready ones in this node's region.
    pub same_region: u32,
    /// Ready ones with a hint for some node.
    pub node_hinted: u32,
    /// Ready ones with a hint for this node.
    pub hinted_for_node: u32,
    /// Ready ones with a hint for some zone.
    pub zone_hinted: u32,
    /// Ready ones with a hint for this node's zone.
    pub hinted_for_zone: u32,
}

impl Tally {
    /// Counts an endpoint in.
    pub fn add(&mut self, standing: Standing) {
        self.each(standing, |count| *count = count.saturating_add(1));
    }

    /// Counts an endpoint out that was counted in with the same standing.
    pub fn remove(&mut self, standing: Standing) {
        self.each(standing, |count| *count = count.saturating_sub(1));
    }

    /// Whether any endpoint could take traffic, here or elsewhere.
    pub fn any_usable(&self) -> bool {
        self.ready > 0 || self.terminating > 0
    }

    fn each(&mut self, s: Standing, change: impl Fn(&mut u32)) {
        let counts = [
            (true, &mut self.all),
            (s.ready, &mut self.ready),
            (s.is_fallback(), &mut self.terminating),
            (s.is_fallback() && s.same_node, &mut self.local_terminating),
            (s.ready && s.same_node, &mut self.same_node),
            (s.ready && s.same_zone, &mut self.same_zone),
            (s.ready && s.same_region, &mut self.same_region),
            (s.ready && s.node_hinted, &mut self.node_hinted),
            (s.ready && s.hinted_for_node, &mut self.hinted_for_node),
            (s.ready && s.zone_hinted, &mut self.zone_hinted),
            (s.ready && s.hinted_for_zone, &mut self.hinted_for_zone),
        ];
        for (counts_in, count) in counts {
            if counts_in {
                change(count);
            }
        }
    }
}
