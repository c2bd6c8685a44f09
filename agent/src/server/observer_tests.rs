#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel, Tampering};
use sliceproxy_dataplane::frontend::Protocol;
use sliceproxy_dataplane::program::ProgramConfig;

use super::*;
use crate::config::FeatureGates;
use crate::engine::Settings;
use crate::model::{
    Conditions, Node, NodeName, ObjectName, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
    TopologyAnnotations, TrafficPolicy,
};
use crate::server::Survey;

pub(super) struct Agent {
    pub(super) engine: Engine<SharedKernel>,
    pub(super) kernel: SharedKernel,
    pub(super) observer: ServerObserver,
    health: Arc<Health>,
    metrics: Metrics,
}

impl Agent {
    fn new() -> Self {
        Self::with(None)
    }

    pub(super) fn with(checks: Option<HealthCheckNodePorts>) -> Self {
        let kernel = SharedKernel::new(FakeKernel::new());
        let settings = Settings {
            node: NodeName::new("n1").unwrap(),
            families: Family::ALL.to_vec(),
            program: ProgramConfig::default(),
            topology_routing: true,
            zone_regions: BTreeMap::new(),
        };
        let health = Arc::new(Health::new(Duration::from_secs(60)));
        let start = Moment::now();
        let metrics = Metrics::new(Arc::clone(&health), &FeatureGates::default(), start);
        let observer = ServerObserver::new(Arc::clone(&health), metrics.clone(), checks, start);
        let engine = Engine::new(settings, kernel.clone()).unwrap();
        Self { engine, kernel, observer, health, metrics }
    }

    /// As the driver does it.
    pub(super) fn take(&mut self, event: Event) {
        note_event(&event, &self.health, &self.metrics, Moment::now());
        self.engine.apply(event);
        self.observer.queued(&self.engine);
    }

    pub(super) fn sync(&mut self) {
        let took = Duration::from_millis(1);
        match self.engine.sync() {
            Ok(synced) => self.observer.synced(&self.engine, &synced, took),
            Err(error) => self.observer.failed(&self.engine, &error, took),
        }
    }

    fn listed() -> Self {
        let mut agent = Self::new();
        agent.take(Event::AllServices(vec![Arc::new(service())]));
        agent.take(Event::AllSlices(vec![slice(&[(1, "n1", true), (2, "n2", true)])]));
        agent
    }

    fn shows(&self, line: &str) {
        let text = self.metrics.encode();
        assert!(text.contains(&format!("\n{line}\n")), "{line}\n{text}");
    }
}

pub(super) fn service() -> Service {
    let port = |name: &str, port| ServicePort {
        name: name.into(),
        protocol: Protocol::Tcp,
        port,
        node_port: None,
    };
    Service {
        name: ObjectName::new("shop", "web"),
        uid: "".into(),
        created: 0,
        cluster_ips: vec!["10.96.0.1".parse().unwrap()],
        external_ips: vec![],
        load_balancer_ips: vec!["192.0.2.1".parse().unwrap()],
        source_ranges: vec![],
        ports: vec![port("http", 80), port("https", 443)],
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Local,
        affinity_timeout: None,
        health_check_node_port: Some(30_000),
        topology: TopologyAnnotations::default(),
    }
}

/// Endpoints by last byte, node, and whether they are ready or only terminate.
pub(super) fn slice(endpoints: &[(u8, &str, bool)]) -> Arc<Slice> {
    let endpoint = |&(last, node, ready): &(u8, &str, bool)| SliceEndpoint {
        address: [10, 244, 0, last].into(),
        conditions: Conditions { ready, serving: true, terminating: !ready },
        node: NodeName::new(node),
        zone: None,
        region: None,
        hints: None,
    };
    let port = |name: &str, port| SlicePort { name: name.into(), protocol: Protocol::Tcp, port };
    Arc::new(Slice {
        name: ObjectName::new("shop", "web-1"),
        service: ObjectName::new("shop", "web"),
        family: Family::V4,
        // The Service has no port of the third name: it must not count.
        ports: vec![port("http", 8080), port("https", 8443), port("other", 1)],
        endpoints: endpoints.iter().map(endpoint).collect(),
        trigger_time: Some(i64::MAX / 2),
    })
}

#[test]
fn a_commit_is_seen_in_health_and_metrics() {
    let mut agent = Agent::listed();
    agent.shows("kubeproxy_sync_proxy_rules_endpoint_changes_pending 1");
    let later = Moment::now().after(Duration::from_secs(60));
    assert!(!agent.health.is_healthy(later), "something waits");
    agent.sync();
    assert!(agent.health.is_healthy(later));
    agent.shows("kubeproxy_sync_proxy_rules_endpoint_changes_pending 0");
    agent.shows("kubeproxy_sync_proxy_rules_endpoint_changes_total 1");
    agent.shows("sliceproxy_commits_total 1");
    agent.shows("sliceproxy_repairs_total 0");
    agent.shows("kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1");
    agent.take(Event::Slice(slice(&[(3, "n1", true)])));
    agent.sync();
    agent.shows("kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1");
    agent.shows("sliceproxy_commits_total 2");
}

#[test]
fn foreign_changes_that_were_undone_are_counted() {
    let mut agent = Agent::listed();
    agent.sync();
    agent.kernel.lock().tamper(Tampering::DropTable(Family::V4));
    agent.engine.distrust();
    agent.sync();
    agent.shows("sliceproxy_repairs_total 1");
}

#[test]
fn a_kernel_that_refuses_from_the_start_makes_it_unhealthy() {
    let mut agent = Agent::listed();
    agent.kernel.lock().fail_sockets(100);
    agent.sync();
    assert!(agent.health.is_healthy(Moment::now()), "not yet");
    assert!(!agent.health.is_healthy(Moment::now().after(Duration::from_secs(60))));
    agent.shows("sliceproxy_commit_failures_total 1");
    agent.shows("kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 1");
}

#[test]
fn nothing_is_late_before_everything_is_listed() {
    let mut agent = Agent::new();
    agent.take(Event::AllServices(vec![Arc::new(service())]));
    agent.sync();
    assert!(agent.health.is_healthy(Moment::now().after(Duration::from_secs(1000))));
    assert_eq!(agent.health.livez(Moment::now()).1.status.len(), 0);
}

#[test]
fn the_node_decides_about_eligibility() {
    let mut agent = Agent::new();
    let node = |eligible| Event::Node(Some(Arc::new(Node { eligible, ..Node::default() })));
    for (event, eligible) in [(node(true), true), (node(false), false), (Event::Node(None), false)]
    {
        agent.take(event);
        assert_eq!(agent.health.is_node_eligible(), eligible);
    }
}

#[test]
fn a_survey_counts_rows_levels_and_ports_without_local_endpoints() {
    let mut agent = Agent::listed();
    let survey = |agent: &Agent| agent.metrics.surveyed(&Survey::of(&agent.engine));
    survey(&agent);
    agent.shows("sliceproxy_rows{set=\"cluster-ips\",ip_family=\"IPv4\"} 1");
    agent.shows("sliceproxy_rows{set=\"backends\",ip_family=\"IPv6\"} 0");
    agent.shows("sliceproxy_topology_service_ports{level=\"node\"} 2");
    agent.shows(
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"external\",ip_family=\"IPv4\"} 0",
    );
    agent.take(Event::Slice(slice(&[(2, "n2", true)])));
    survey(&agent);
    agent.shows("sliceproxy_topology_service_ports{level=\"anywhere\"} 2");
    agent.shows("sliceproxy_topology_service_ports{level=\"node\"} 0");
    agent.shows(
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"external\",ip_family=\"IPv4\"} 2",
    );
    agent.shows(
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"internal\",ip_family=\"IPv4\"} 0",
    );
    // All its traffic has policy Local: the level for policy Cluster is nobody's.
    let local = TrafficPolicy::Local;
    let internal = Service { internal_policy: local, load_balancer_ips: vec![], ..service() };
    agent.take(Event::Service(Arc::new(internal)));
    agent.take(Event::Slice(slice(&[(2, "n1", true)])));
    survey(&agent);
    agent.shows("sliceproxy_topology_service_ports{level=\"local\"} 2");
    agent.shows("sliceproxy_topology_service_ports{level=\"anywhere\"} 0");
}

#[test]
fn programming_latency_starts_with_this_process() {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
    let now = start + Duration::from_secs(10);
    let second = 1_000_000_000;
    for (trigger, expected) in [
        (99 * second, None),
        (100 * second, Some(10)),
        (107 * second, Some(3)),
        (111 * second, None),
        (-1, None),
    ] {
        assert_eq!(latency(trigger, start, now), expected.map(Duration::from_secs), "{trigger}");
    }
}
