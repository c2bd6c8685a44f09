//! Metrics: kube-proxy's under its names where the meaning is the same, and our own, which begin
//! with `sliceproxy_`. The engine calls methods; names and labels are in `registry`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::prometheus_text;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::rows::SetName;

use super::health::Health;
use super::moment::Moment;
use super::registry::{Inner, Labels};
use crate::config::FeatureGates;

/// Whether a commit wrote everything or differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// All rows were compared: at start, after a foreign change, on the slow period.
    Full,
    /// Only what changed.
    Partial,
}

/// An endpoint of the health server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `/healthz`
    Healthz,
    /// `/livez`
    Livez,
}

/// The policy that keeps traffic on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPolicy {
    /// `internalTrafficPolicy: Local`
    Internal,
    /// `externalTrafficPolicy: Local`
    External,
}

/// What a sync cost that wrote something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitCost {
    /// Transactions that the kernel took, usually 1.
    pub transactions: u64,
    /// From the first byte sent to the kernel's yes.
    pub took: Duration,
    /// Rows added and deleted.
    pub rows: u64,
    /// Netlink messages.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
}

/// All metrics. Cheap to clone; all methods take `&self` and never block for long.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// All at zero. `health` knows how long the API server has been silent.
    pub fn new(health: Arc<Health>, gates: &FeatureGates, start: Moment) -> Self {
        let inner = Inner::new(health, gates, start);
        for family in Family::ALL {
            drop(inner.kube_proxy.sync_failures.get_or_create(&of(family)));
            drop(inner.kube_proxy.cleanup_failures.get_or_create(&of(family)));
            drop(inner.kube_proxy.conntrack_deleted.get_or_create(&of(family)));
        }
        Self(Arc::new(inner))
    }

    /// The exposition in Prometheus' text format, version 0.0.4.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = prometheus_text::encode(&mut text, &self.0.registry);
        text
    }
}

/// What the engine reports.
impl Metrics {
    /// There is something to write for `family`.
    pub fn queued(&self, family: Family, at: Moment) {
        self.0.kube_proxy.last_queued.get_or_create(&of(family)).set(at.unix_seconds());
    }

    /// Everything of `family` is in the kernel, `took` after the sync began.
    pub fn synced(&self, family: Family, kind: SyncKind, took: Duration, at: Moment) {
        let seconds = took.as_secs_f64();
        self.0.kube_proxy.sync.get_or_create(&of(family)).observe(seconds);
        let by_kind = match kind {
            SyncKind::Full => &self.0.kube_proxy.sync_full,
            SyncKind::Partial => &self.0.kube_proxy.sync_partial,
        };
        by_kind.get_or_create(&of(family)).observe(seconds);
        self.0.kube_proxy.last_sync.get_or_create(&of(family)).set(at.unix_seconds());
    }

    /// A sync of `family` failed.
    pub fn sync_failed(&self, family: Family) {
        self.0.kube_proxy.sync_failures.get_or_create(&of(family)).inc();
    }

    /// An unused chain of `family` could not be removed.
    pub fn cleanup_failed(&self, family: Family) {
        self.0.kube_proxy.cleanup_failures.get_or_create(&of(family)).inc();
    }

    /// A change that the control plane stamped is in the kernel, so long after its stamp.
    pub fn programmed(&self, family: Family, latency: Duration) {
        self.0.kube_proxy.programming.get_or_create(&of(family)).observe(latency.as_secs_f64());
    }

    /// So many more changes of slices and Services were seen, and wait for the kernel.
    pub fn changes_seen(&self, slices: u64, services: u64) {
        let waiting = |changes| i64::try_from(changes).unwrap_or(i64::MAX);
        self.0.kube_proxy.endpoint_changes_pending.inc_by(waiting(slices));
        self.0.kube_proxy.service_changes_pending.inc_by(waiting(services));
        self.0.kube_proxy.endpoint_changes.inc_by(slices);
        self.0.kube_proxy.service_changes.inc_by(services);
    }

    /// So many changes of slices and Services wait for the kernel.
    pub fn changes_pending(&self, slices: usize, services: usize) {
        self.0.kube_proxy.endpoint_changes_pending.set(gauge(slices));
        self.0.kube_proxy.service_changes_pending.set(gauge(services));
    }

    /// Service ports with a Local policy that have endpoints, but none here.
    pub fn no_local_endpoints(&self, policy: LocalPolicy, family: Family, ports: usize) {
        let policy = match policy {
            LocalPolicy::Internal => "internal",
            LocalPolicy::External => "external",
        };
        let labels = [("traffic_policy", policy), ("ip_family", name_of(family))];
        self.0.kube_proxy.no_local_endpoints.get_or_create(&labels).set(gauge(ports));
    }

    /// A pass over the connection table of `family`.
    pub fn conntrack_reconciled(&self, family: Family, took: Duration, deleted: u64) {
        self.0.kube_proxy.conntrack.get_or_create(&of(family)).observe(took.as_secs_f64());
        self.0.kube_proxy.conntrack_deleted.get_or_create(&of(family)).inc_by(deleted);
    }

    /// The kernel took what had to be written.
    pub fn committed(&self, cost: CommitCost) {
        self.0.own.commits.inc_by(cost.transactions);
        self.0.own.commit_duration.observe(cost.took.as_secs_f64());
        self.0.own.rows_written.inc_by(cost.rows);
        self.0.own.messages.inc_by(cost.messages);
        self.0.own.bytes.inc_by(cost.bytes);
    }

    /// A transaction failed.
    pub fn commit_failed(&self) {
        self.0.own.commit_failures.inc();
    }

    /// Rows of a set, as they should be.
    pub fn rows(&self, set: SetName, family: Family, rows: usize) {
        let labels = [("set", set.as_str()), ("ip_family", name_of(family))];
        self.0.own.rows.get_or_create(&labels).set(gauge(rows));
    }

    /// A foreign change was undone.
    pub fn repaired(&self) {
        self.0.own.repairs.inc();
    }

    /// Rows that the kernel refuses.
    pub fn quarantined(&self, family: Family, rows: usize) {
        self.0.own.quarantined.get_or_create(&of(family)).set(gauge(rows));
    }

    /// Service ports by level; a level that is not named has none any more.
    pub fn topology_levels(&self, levels: impl IntoIterator<Item = (&'static str, usize)>) {
        self.0.own.levels.clear();
        for (level, ports) in levels {
            self.0.own.levels.get_or_create(&[("level", level)]).set(gauge(ports));
        }
    }

    /// Invalid parts of objects of a kind.
    pub fn rejected_parts(&self, kind: &'static str, parts: usize) {
        self.0.own.rejections.get_or_create(&[("kind", kind)]).set(gauge(parts));
    }

    /// Frontends that more than one Service claims.
    pub fn frontend_conflicts(&self, frontends: usize) {
        self.0.own.conflicts.set(gauge(frontends));
    }

    /// A limit kept something from being served; `limit` is its name in the configuration.
    pub fn limit_hit(&self, limit: &'static str) {
        self.0.own.limit_hits.get_or_create(&[("limit", limit)]).inc();
    }

    /// A complete listing of that resource was taken.
    pub fn relisted(&self, resource: &'static str) {
        self.0.own.relists.get_or_create(&[("resource", resource)]).inc();
    }

    /// The health server answered.
    pub fn probed(&self, probe: Probe, code: u16) {
        let code = if code == 200 { "200" } else { "503" };
        let counters = match probe {
            Probe::Healthz => &self.0.kube_proxy.healthz,
            Probe::Livez => &self.0.kube_proxy.livez,
        };
        counters.get_or_create(&[("code", code)]).inc();
    }

    /// `/healthz` of the metrics server was asked.
    pub(super) fn pinged(&self) {
        self.0.pings.inc();
    }

    /// The exposition of `/metrics/slis`: the one check of the metrics server, as in Kubernetes.
    pub(super) fn encode_slis(&self) -> String {
        format!(
            "# HELP kubernetes_healthcheck This metric records the result of a single healthcheck.\n\
             # TYPE kubernetes_healthcheck gauge\n\
             kubernetes_healthcheck{{name=\"ping\",type=\"healthz\"}} 1\n\
             # HELP kubernetes_healthchecks_total This metric records the results of all healthcheck.\n\
             # TYPE kubernetes_healthchecks_total counter\n\
             kubernetes_healthchecks_total{{name=\"ping\",status=\"success\",type=\"healthz\"}} {}\n",
            self.0.pings.get()
        )
    }
}

pub(super) fn name_of(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

fn of(family: Family) -> Labels<1> {
    [("ip_family", name_of(family))]
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
