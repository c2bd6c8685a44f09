//! Remembered clients: rows that the kernel writes by itself, and that have to follow when endpoints,
//! policies or timeouts change.
//!
//! A client is kept only for an endpoint that it could be given now. Forgetting is part of the
//! transaction that takes the endpoint away; since the kernel goes on remembering until then, it is
//! looked at once more right after.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Kernel, KernelError};
use sliceproxy_dataplane::program::PodTraffic;
use sliceproxy_dataplane::rows::{AffinityRow, RowKey};

use super::{Engine, node_addresses};

/// What becomes of a remembered client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Stays as it is.
    Kept,
    /// Stays, with another timeout and the age that it has.
    Retimed(AffinityRow),
    /// Is forgotten.
    Forgotten,
}

impl<K: Kernel> Engine<K> {
    /// A program that is replaced takes its remembered clients along. `tables` are those that exist.
    pub(super) fn keep_clients(&mut self, tables: &[Family]) -> Result<(), KernelError> {
        for family in self.ledger.to_install().clone() {
            if tables.contains(&family) {
                let rows = self.kernel.read_affinity(family)?;
                let kept = rows.into_iter().filter_map(|row| match self.fate(&row) {
                    Fate::Kept => Some(row),
                    Fate::Retimed(row) => Some(row),
                    Fate::Forgotten => None,
                });
                // A smaller map does not take them all.
                let room = usize::try_from(self.settings.program.affinity_rows);
                let kept: Vec<AffinityRow> = kept.take(room.unwrap_or(usize::MAX)).collect();
                self.ledger.remember(kept);
            }
        }
        Ok(())
    }

    /// Looks at the clients of `families` and asks for the changes with the next transaction.
    pub(super) fn review_clients(
        &mut self,
        families: &BTreeSet<Family>,
    ) -> Result<(), KernelError> {
        for family in families.difference(&self.ledger.to_install().clone()) {
            for row in self.kernel.read_affinity(*family)? {
                match self.fate(&row) {
                    Fate::Kept => {}
                    Fate::Retimed(retimed) => {
                        self.ledger.forget([row]);
                        self.ledger.remember([retimed]);
                    }
                    Fate::Forgotten => self.ledger.forget([row]),
                }
            }
        }
        Ok(())
    }

    fn fate(&self, row: &AffinityRow) -> Fate {
        match self.timeout_of(row).and_then(|seconds| retimed(row, seconds)) {
            Some(same) if same == *row => Fate::Kept,
            Some(retimed) => Fate::Retimed(retimed),
            None => Fate::Forgotten,
        }
    }

    /// For how many seconds clients are remembered where `row` is; `None` if this one must not get
    /// its endpoint any more.
    fn timeout_of(&self, row: &AffinityRow) -> Option<u32> {
        self.ledger.desired(&RowKey::StickyFrontend(row.frontend))?;
        let owner = self.claims.owner(&row.frontend)?;
        let port = self
            .ports_of(&owner.service)
            .iter()
            .filter(|port| port.pool.family() == row.frontend.family())
            .find(|port| port.name == *owner)?;
        if !port.gives(&row.frontend, &row.endpoint, self.is_inside(row.client)) {
            return None;
        }
        self.cache.service(&owner.service)?.affinity_timeout
    }

    /// Whether `client` is a pod or this node, which `externalTrafficPolicy: Local` does not bind. One
    /// that is not recognised is taken for one from outside: it may lose its endpoint, but never
    /// keeps one that it cannot reach.
    fn is_inside(&self, client: IpAddr) -> bool {
        let pods = match Family::of(client) {
            Family::V4 => &self.settings.program.pods_v4,
            Family::V6 => &self.settings.program.pods_v6,
        };
        let is_pod = match pods {
            PodTraffic::From(network) => network.contains(client),
            PodTraffic::Interface(_) | PodTraffic::InterfacePrefix(_) => {
                self.here.pod_cidrs.iter().any(|network| network.contains(client))
            }
            PodTraffic::Unknown => false,
        };
        is_pod
            || node_addresses(self.node.as_ref()).contains(&client)
            || self.node_port_addresses.contains(&client)
    }
}

/// The row with that timeout and the age that it has; `None` if it would be over by now.
fn retimed(row: &AffinityRow, seconds: u32) -> Option<AffinityRow> {
    let timeout_ms = u64::from(seconds) * 1000;
    if timeout_ms == row.timeout_ms {
        return Some(*row);
    }
    let age = row.timeout_ms.saturating_sub(row.expires_ms);
    let expires_ms = timeout_ms.checked_sub(age).filter(|left| *left > 0)?;
    Some(AffinityRow { timeout_ms, expires_ms, ..*row })
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
