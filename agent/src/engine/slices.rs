//! From slices to Service ports: an event reaches those of its own Service, and no others.

use std::sync::Arc;

use sliceproxy_dataplane::kernel::Kernel;

use super::limits::allot;
use super::{Engine, flows, terms};
use crate::cache::SliceChange;
use crate::model::{ServiceName, Slice, SliceName};
use crate::pool::PoolChanges;

impl<K: Kernel> Engine<K> {
    pub(super) fn put_slice(&mut self, slice: Arc<Slice>) {
        let trigger = slice.trigger_time;
        if let Some(change) = self.cache.put_slice(slice)
            && self.is_listed()
        {
            self.triggers.extend(trigger);
            self.change_slice(&change);
        }
    }

    pub(super) fn remove_slice(&mut self, name: &SliceName) {
        if let Some(change) = self.cache.remove_slice(name) {
            self.change_slice(&change);
        }
    }

    fn change_slice(&mut self, change: &SliceChange) {
        for name in change.services() {
            let dirty = self.replace_endpoints(name, change);
            let ports = self.ports.get_mut(name).map(Vec::as_mut_slice).unwrap_or_default();
            if allot(ports, self.restraint.limits) {
                let all = ports.iter().map(|port| port.name.clone()).collect();
                self.render_changed(name, dirty);
                self.settle(all);
            } else {
                self.render_changed(name, dirty);
                self.note_limits(name);
            }
        }
    }

    /// Brings the pools of a Service up to date; gives what changed in each.
    fn replace_endpoints(
        &mut self,
        name: &ServiceName,
        change: &SliceChange,
    ) -> Vec<Option<PoolChanges>> {
        let Some(service) = self.cache.service(name).cloned() else { return Vec::new() };
        let of_this = |slice: &&Arc<Slice>| slice.service == *name;
        let old = change.old.as_ref().filter(of_this);
        let new = change.new.as_ref().filter(of_this);
        let wishes = self.wishes(&service);
        let mut all = Vec::new();
        for port in self.ports.get_mut(name).into_iter().flatten() {
            let before = (port.pool.tally().any_usable(), port.pool.choice().scope);
            let changes = port.pool.replace(old, new, &self.here, &wishes);
            let after = (port.pool.tally().any_usable(), port.pool.choice().scope);
            if changes.stopped_answering || (!before.0 && after.0) {
                self.flows_due.extend(flows::udp(port.owned().copied()));
            }
            self.checks_due |= service.health_check_node_port.is_some() && changes.concern_checks();
            if service.affinity_timeout.is_some() && changes.endpoints_left {
                self.affinity_due.insert(port.pool.family());
            }
            all.push((!changes.is_empty() || before != after).then_some(changes));
        }
        all
    }

    /// Renders the ports in which something changed.
    fn render_changed(&mut self, name: &ServiceName, dirty: Vec<Option<PoolChanges>>) {
        let Some(service) = self.cache.service(name).cloned() else { return };
        let terms = terms(self.node.as_ref(), self.restraint.limits);
        let ports = self.ports.get_mut(name).into_iter().flatten();
        for (port, changes) in ports.zip(dirty) {
            let Some(changes) = changes else { continue };
            let owned = port.entitled(&self.claims);
            // Where a limit takes some away.
            let lost = port.retract(&owned, &mut self.ledger);
            let gained = port.render(&service, &owned, &changes, terms, &mut self.ledger);
            self.flows_due.extend(flows::udp(lost.into_iter().chain(gained)));
        }
    }
}
