//! From what happens in the agent to what its servers show: events as they come in, commits as they
//! succeed or fail.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;

use super::health::Health;
use super::health_check_node_port::{HealthCheck, HealthCheckNodePorts};
use super::metrics::{CommitCost, Metrics, SyncKind};
use super::moment::Moment;
use crate::driver::Observer;
use crate::engine::{Engine, SyncError, Synced};
use crate::model::Event;
use crate::topology::LocalScope;

/// Notes an event on its way to the engine: a sign of life, and maybe news of this node.
pub fn note_event(event: &Event, health: &Health, metrics: &Metrics, at: Moment) {
    health.heard(at);
    match event {
        Event::Node(node) => health.node(node.as_ref().is_some_and(|node| node.eligible)),
        Event::Slice(_) | Event::SliceRemoved(_) => metrics.changes_seen(1, 0),
        Event::Service(_) | Event::ServiceRemoved(_) => metrics.changes_seen(0, 1),
        Event::AllSlices(slices) => {
            metrics.relisted("endpointslices");
            metrics.changes_seen(slices.len() as u64, 0);
        }
        Event::AllServices(services) => {
            metrics.relisted("services");
            metrics.changes_seen(0, services.len() as u64);
        }
        Event::ServiceCidrs(_) | Event::NodePortAddresses(_) | Event::ZoneRegions(_) => {}
    }
}

/// Keeps health, metrics and health checks in step with the engine.
#[derive(Debug)]
pub struct ServerObserver {
    health: Arc<Health>,
    metrics: Metrics,
    checks: Option<HealthCheckNodePorts>,
    start: SystemTime,
    synced_once: bool,
}

impl ServerObserver {
    /// Of an agent that started at `start`. Without `checks`, no `healthCheckNodePort` is served.
    pub fn new(
        health: Arc<Health>,
        metrics: Metrics,
        checks: Option<HealthCheckNodePorts>,
        start: Moment,
    ) -> Self {
        Self { health, metrics, checks, start: start.wall, synced_once: false }
    }

    fn note_sync<K: Kernel>(&mut self, engine: &Engine<K>, synced: &Synced, took: Duration) {
        let now = Moment::now();
        // What the first sync finds in the kernel is an earlier run's, not somebody's mischief.
        let repaired = self.synced_once && synced.repaired;
        let whole = !self.synced_once || repaired || !synced.installed.is_empty();
        let kind = if whole { SyncKind::Full } else { SyncKind::Partial };
        self.synced_once = true;
        for family in engine.settings().families.iter().copied() {
            self.metrics.synced(family, kind, took, now);
            self.health.synced(family, now);
        }
        self.metrics.changes_pending(0, 0);
        for (_, excess) in &synced.exceeded {
            self.metrics.limit_hit(excess.limit());
        }
        if synced.transactions > 0 {
            self.metrics.committed(CommitCost {
                transactions: synced.transactions.into(),
                took: synced.kernel_time,
                rows: (synced.added.len() + synced.deleted.len()) as u64,
                messages: synced.cost.messages as u64,
                bytes: synced.cost.bytes as u64,
            });
            if repaired {
                self.metrics.repaired();
            }
        }
        // Both families are in one transaction, so that either would say the same.
        let family = engine.settings().families.first().copied().unwrap_or(Family::V4);
        for latency in synced.triggers.iter().filter_map(|t| latency(*t, self.start, now.wall)) {
            self.metrics.programmed(family, latency);
        }
    }

    /// Brings health checks up to date, if they may have changed.
    fn update_checks<K: Kernel>(&mut self, engine: &Engine<K>, synced: &Synced) {
        if let Some(checks) = self.checks.as_mut().filter(|_| synced.checks_due) {
            checks.update(wanted_checks(engine));
        }
    }
}

impl<K: Kernel> Observer<K> for ServerObserver {
    fn queued(&mut self, engine: &Engine<K>) {
        // Until everything is listed there is nothing that could be late.
        if engine.is_listed() {
            let now = Moment::now();
            for family in engine.settings().families.iter().copied() {
                self.health.queued(family, now);
                self.metrics.queued(family, now);
            }
        }
    }

    fn synced(&mut self, engine: &Engine<K>, synced: &Synced, took: Duration) {
        if engine.is_listed() {
            self.note_sync(engine, synced, took);
            self.update_checks(engine, synced);
        }
    }

    fn unswept(&mut self, engine: &Engine<K>) {
        for family in engine.settings().families.iter().copied() {
            self.metrics.cleanup_failed(family);
        }
    }

    fn failed(&mut self, engine: &Engine<K>, _: &SyncError, _: Duration) {
        self.metrics.commit_failed();
        for family in engine.settings().families.iter().copied() {
            self.metrics.sync_failed(family);
        }
    }
}

/// Time from a stamp, in nanoseconds since the epoch, to `now`; `None` for what happened before
/// this process could have acted.
fn latency(trigger: i64, start: SystemTime, now: SystemTime) -> Option<Duration> {
    let stamp = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(trigger).ok()?);
    if stamp < start {
        return None;
    }
    now.duration_since(stamp).ok()
}

/// The health checks of all Services that ask for one, in each family that they have.
fn wanted_checks<K: Kernel>(engine: &Engine<K>) -> BTreeMap<(Family, u16), HealthCheck> {
    let mut wanted = BTreeMap::new();
    for service in engine.cache().services() {
        let Some(port) = service.health_check_node_port else { continue };
        for family in engine.settings().families.iter().copied() {
            if service.cluster_ip(family).is_none() {
                continue;
            }
            // Endpoints that only terminate take what they have, but should get no more.
            let ready = engine.ports_of(&service.name).iter().filter(|port| {
                port.pool.family() == family && port.pool.local_scope() == LocalScope::Ready
            });
            let addresses: BTreeSet<IpAddr> =
                ready.flat_map(|port| port.pool.local().iter()).map(|(_, e)| e.address).collect();
            let check =
                HealthCheck { service: service.name.clone(), local_endpoints: addresses.len() };
            wanted.insert((family, port), check);
        }
    }
    wanted
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "observer_checks_tests.rs"]
mod checks_tests;
