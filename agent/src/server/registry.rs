//! The names of the metrics, what they mean, and their types.
//!
//! Counters are registered without their `_total`, which the encoder adds.
//! `kubeproxy_sync_proxy_rules_no_local_endpoints_total` is a gauge in kube-proxy, and so it is here.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as ByLabel;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::health::Health;
use super::latency;
use super::moment::Moment;
use super::process::Process;
use super::watches::Watches;
use crate::config::FeatureGates;
use crate::config::gates::Stage;
use crate::version;

/// A metric for each value of `N` labels.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = ByLabel<Labels<N>, Counter>;
type Gauges<const N: usize> = ByLabel<Labels<N>, Gauge>;
type Seconds = Gauge<f64, AtomicU64>;
type Histograms = ByLabel<Labels<1>, Histogram, fn() -> Histogram>;

/// Every metric, under the name that the engine's methods know it by.
pub(super) struct Inner {
    pub(super) registry: Registry,
    pub(super) pings: Counter,
    pub(super) kube_proxy: KubeProxyMetrics,
    pub(super) own: OwnMetrics,
}

/// kube-proxy's.
pub(super) struct KubeProxyMetrics {
    pub(super) sync: Histograms,
    pub(super) sync_full: Histograms,
    pub(super) sync_partial: Histograms,
    pub(super) last_sync: ByLabel<Labels<1>, Seconds>,
    pub(super) last_queued: ByLabel<Labels<1>, Seconds>,
    pub(super) programming: Histograms,
    pub(super) endpoint_changes: Counter,
    pub(super) endpoint_changes_pending: Gauge,
    pub(super) service_changes: Counter,
    pub(super) service_changes_pending: Gauge,
    pub(super) no_local_endpoints: Gauges<2>,
    pub(super) sync_failures: Counters<1>,
    pub(super) cleanup_failures: Counters<1>,
    pub(super) conntrack: Histograms,
    pub(super) conntrack_deleted: Counters<1>,
    pub(super) healthz: Counters<1>,
    pub(super) livez: Counters<1>,
}

/// Ours.
pub(super) struct OwnMetrics {
    pub(super) rows: Gauges<2>,
    pub(super) commits: Counter,
    pub(super) commit_failures: Counter,
    pub(super) commit_duration: Histogram,
    pub(super) rows_written: Counter,
    pub(super) messages: Counter,
    pub(super) bytes: Counter,
    pub(super) repairs: Counter,
    pub(super) quarantined: Gauges<1>,
    pub(super) levels: Gauges<1>,
    pub(super) rejections: Gauges<1>,
    pub(super) conflicts: Gauge,
    pub(super) limit_hits: Counters<1>,
    pub(super) relists: Counters<1>,
}

/// Registers metrics under names and explanations.
struct Register(Registry);

impl Register {
    fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.put(name, help, M::default())
    }

    fn histograms(&mut self, name: &str, help: &str, new: fn() -> Histogram) -> Histograms {
        self.put(name, help, ByLabel::new_with_constructor(new))
    }

    fn put<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }
}

impl Inner {
    /// All at zero.
    pub(super) fn new(health: Arc<Health>, gates: &FeatureGates, start: Moment) -> Self {
        let mut register = Register(Registry::default());
        register.0.register_collector(Box::new(Process::new(start)));
        register.0.register_collector(Box::new(Watches(health)));
        register_build(&mut register, gates);
        let kube_proxy = KubeProxyMetrics::register(&mut register);
        let own = OwnMetrics::register(&mut register);
        Self { registry: register.0, pings: Counter::default(), kube_proxy, own }
    }
}

impl KubeProxyMetrics {
    fn register(r: &mut Register) -> Self {
        let sync_proxy_rules = latency::kube_proxy_sync;
        Self {
            sync: r.histograms(
                "kubeproxy_sync_proxy_rules_duration_seconds",
                "Duration of a sync in seconds",
                sync_proxy_rules,
            ),
            sync_full: r.histograms(
                "kubeproxy_sync_full_proxy_rules_duration_seconds",
                "Duration of a full sync in seconds",
                sync_proxy_rules,
            ),
            sync_partial: r.histograms(
                "kubeproxy_sync_partial_proxy_rules_duration_seconds",
                "Duration of a sync of differences in seconds",
                sync_proxy_rules,
            ),
            last_sync: r.add(
                "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                "Time of the last successful sync",
            ),
            last_queued: r.add(
                "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
                "Time when a sync was last asked for",
            ),
            programming: r.histograms(
                "kubeproxy_network_programming_duration_seconds",
                "Time from the change of a Pod or Service to the kernel's yes",
                latency::network_programming,
            ),
            endpoint_changes: r
                .add("kubeproxy_sync_proxy_rules_endpoint_changes", "EndpointSlice changes seen"),
            endpoint_changes_pending: r.add(
                "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
                "EndpointSlice changes that are not in the kernel",
            ),
            service_changes: r
                .add("kubeproxy_sync_proxy_rules_service_changes", "Service changes seen"),
            service_changes_pending: r.add(
                "kubeproxy_sync_proxy_rules_service_changes_pending",
                "Service changes that are not in the kernel",
            ),
            no_local_endpoints: r.add(
                "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
                "Service ports with a Local policy whose endpoints are all on other nodes",
            ),
            sync_failures: r.add(
                "kubeproxy_sync_proxy_rules_nftables_sync_failures",
                "Commits that the kernel refused",
            ),
            cleanup_failures: r.add(
                "kubeproxy_sync_proxy_rules_nftables_cleanup_failures",
                "Removals of unused chains that the kernel refused",
            ),
            conntrack: r.histograms(
                "kubeproxy_conntrack_reconciler_sync_duration_seconds",
                "Duration of a pass over the connection table in seconds",
                sync_proxy_rules,
            ),
            conntrack_deleted: r.add(
                "kubeproxy_conntrack_reconciler_deleted_entries",
                "Stale entries removed from the connection table",
            ),
            healthz: r.add("kubeproxy_proxy_healthz", "Answers of /healthz"),
            livez: r.add("kubeproxy_proxy_livez", "Answers of /livez"),
        }
    }
}

impl OwnMetrics {
    fn register(r: &mut Register) -> Self {
        Self {
            rows: r.add("sliceproxy_rows", "Rows as they should be"),
            commits: r.add("sliceproxy_commits", "Transactions that the kernel took"),
            commit_failures: r
                .add("sliceproxy_commit_failures", "Transactions that failed, for whatever reason"),
            commit_duration: r.put(
                "sliceproxy_commit_duration_seconds",
                "Time from the first byte of a transaction to the kernel's yes",
                latency::commit(),
            ),
            rows_written: r.add("sliceproxy_rows_written", "Rows added and deleted"),
            messages: r.add("sliceproxy_netlink_messages", "Netlink messages sent in transactions"),
            bytes: r.add("sliceproxy_netlink_bytes", "Bytes sent in transactions"),
            repairs: r.add("sliceproxy_repairs", "Foreign changes to our tables that were undone"),
            quarantined: r.add(
                "sliceproxy_quarantined_rows",
                "Rows that the kernel refuses and that are set aside",
            ),
            levels: r.add(
                "sliceproxy_topology_service_ports",
                "Service ports by the topology level that their traffic stays in",
            ),
            rejections: r.add(
                "sliceproxy_rejected_parts",
                "Parts of objects that are not served because they are invalid",
            ),
            conflicts: r.add(
                "sliceproxy_frontend_conflicts",
                "Frontends that more than one Service claims",
            ),
            limit_hits: r.add(
                "sliceproxy_limit_hits",
                "Times that a limit kept something from being served",
            ),
            relists: r.add("sliceproxy_relists", "Complete listings taken from the source"),
        }
    }
}

/// `kubernetes_feature_enabled` and `sliceproxy_build_info`: constants.
fn register_build(register: &mut Register, gates: &FeatureGates) {
    let features: Gauges<2> =
        register.add("kubernetes_feature_enabled", "Feature gates: stage, and 1 if on");
    for (name, stage, on) in gates.all() {
        let stage = match stage {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Stable | Stage::Locked => "",
        };
        features.get_or_create(&[("name", name), ("stage", stage)]).set(on.into());
    }
    let build: Gauges<2> = register.add("sliceproxy_build_info", "Always 1");
    build.get_or_create(&[("version", version::VERSION), ("commit", version::COMMIT)]).set(1);
}
