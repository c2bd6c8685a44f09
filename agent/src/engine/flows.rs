//! Which UDP flows have to be looked at after a commit, because the translation that was chosen for
//! them may no longer be right: data for whoever sweeps connection tracking.
//!
//! A flow's translation is chosen with its first packet. TCP notices when its endpoint is gone; UDP
//! goes on sending. So flows to a frontend are looked at when an endpoint stopped serving, when the
//! first one came, and when the frontend itself came, went or changed hands.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use sliceproxy_dataplane::frontend::{Endpoint, Frontend, Protocol};
use sliceproxy_dataplane::kernel::{Kernel, KernelState};
use sliceproxy_dataplane::rows::{Row, RowKey};

use super::Engine;
use crate::model::{ServicePortName, Slice};

/// Frontends of one Service port, and who may answer what is sent to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowCheck {
    /// UDP frontends, sorted.
    pub frontends: Vec<Frontend>,
    /// The Service port that they belong to; nobody may answer without.
    pub owner: Option<ServicePortName>,
    /// The slices of its Service at the time of the commit.
    pub slices: Vec<Arc<Slice>>,
}

impl FlowCheck {
    /// The endpoints that may answer: all that serve, also those that terminate. Traffic policy and
    /// topology say where new flows go; they are no reason to break one that works.
    pub fn endpoints(&self) -> FxHashSet<Endpoint> {
        let Some(owner) = &self.owner else { return FxHashSet::default() };
        self.slices
            .iter()
            .flat_map(|slice| slice.ports.iter().map(move |port| (slice, port)))
            .filter(|(_, port)| port.name == owner.port && port.protocol == owner.protocol)
            .flat_map(|(slice, port)| slice.targets(port))
            .filter(|(_, endpoint)| endpoint.conditions.may_answer())
            .map(|(endpoint, _)| endpoint)
            .collect()
    }
}

/// The UDP frontends among `frontends`.
pub(super) fn udp(frontends: impl IntoIterator<Item = Frontend>) -> impl Iterator<Item = Frontend> {
    frontends.into_iter().filter(|frontend| frontend.protocol == Protocol::Udp)
}

/// The UDP frontends of rows that had to be written again: meanwhile nothing was translated.
pub(super) fn repaired(rows: &[Row]) -> impl Iterator<Item = Frontend> {
    udp(rows.iter().filter_map(|row| match row.key {
        RowKey::Service(frontend) | RowKey::LocalService(frontend) => Some(frontend),
        _ => None,
    }))
}

/// The UDP frontends that an earlier run served.
pub(super) fn adopted(state: &KernelState) -> impl Iterator<Item = Frontend> {
    udp(state.rows().filter_map(|row| row.key.frontend()))
}

impl<K: Kernel> Engine<K> {
    /// What there is to check now that the kernel holds what is desired. Takes as long as there are
    /// frontends to check and slices of their Services, however many endpoints these have.
    pub(super) fn take_flow_checks(&mut self) -> Vec<FlowCheck> {
        let mut by_owner: BTreeMap<Option<ServicePortName>, Vec<Frontend>> = BTreeMap::new();
        for frontend in std::mem::take(&mut self.flows_due) {
            let owner = self.claims.owner(&frontend).cloned();
            by_owner.entry(owner).or_default().push(frontend);
        }
        let check = |(owner, frontends): (Option<ServicePortName>, _)| {
            let service = owner.as_ref().map(|owner| &owner.service);
            let slices = service.into_iter().flat_map(|name| self.cache.slices_of(name));
            FlowCheck { frontends, slices: slices.cloned().collect(), owner }
        };
        by_owner.into_iter().map(check).collect()
    }
}

#[cfg(test)]
#[path = "flows_tests.rs"]
mod tests;
