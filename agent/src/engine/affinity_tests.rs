#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::{Endpoint, Frontend, Protocol};
use sliceproxy_dataplane::program::ProgramConfig;
use sliceproxy_dataplane::rows::{RowValue, Verdict};

use super::*;
use crate::engine::Settings;
use crate::model::{
    Conditions, Event, Node, NodeName, ObjectName, Service, ServicePort, Slice, SliceEndpoint,
    SlicePort, TrafficPolicy,
};

const READY: Conditions = Conditions { ready: true, serving: true, terminating: false };
const TERMINATING: Conditions = Conditions { ready: false, serving: true, terminating: true };
const HERE: &str = "n1";
const ELSEWHERE: &str = "n2";
const POD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 244, 0, 200));
const OUTSIDE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));
const DAY: u64 = 86_400_000;

fn service() -> Service {
    let port = |name: &str, port, node_port| ServicePort {
        name: name.into(),
        protocol: Protocol::Tcp,
        port,
        node_port: Some(node_port),
    };
    Service {
        created: 1,
        load_balancer_ips: vec![[198, 51, 100, 1].into()],
        affinity_timeout: Some(86_400),
        ..Service::new(
            ObjectName::new("ns", "a"),
            vec![[10, 96, 0, 1].into()],
            vec![port("http", 80, 30_080), port("https", 443, 30_443)],
        )
    }
}

fn slice(endpoints: &[(u8, &str, Conditions)]) -> Event {
    let endpoint = |&(last_byte, node, conditions): &(u8, &str, Conditions)| SliceEndpoint {
        address: [10, 244, 0, last_byte].into(),
        conditions,
        node: NodeName::new(node),
        zone: None,
        region: None,
        hints: None,
    };
    let port = |name: &str, port| SlicePort { name: name.into(), protocol: Protocol::Tcp, port };
    Event::Slice(Arc::new(Slice {
        name: ObjectName::new("ns", "a-1"),
        service: ObjectName::new("ns", "a"),
        family: Family::V4,
        ports: vec![port("http", 8080), port("https", 8443)],
        endpoints: endpoints.iter().map(endpoint).collect(),
        trigger_time: None,
    }))
}

fn two() -> Event {
    slice(&[(1, HERE, READY), (2, ELSEWHERE, READY)])
}

/// An engine on `kernel` that has been told of `service` and `slice`, and has written them.
fn started(kernel: &SharedKernel, service: Service, slice: Event) -> Engine<SharedKernel> {
    let settings = Settings {
        node: NodeName::new(HERE).unwrap(),
        families: Family::ALL.to_vec(),
        program: ProgramConfig {
            pods_v4: PodTraffic::From("10.244.0.0/16".parse().unwrap()),
            ..ProgramConfig::default()
        },
        topology_routing: false,
        zone_regions: BTreeMap::new(),
    };
    let mut engine = Engine::new(settings, kernel.clone()).unwrap();
    engine.apply(Event::Node(Some(Arc::new(Node::default()))));
    engine.apply(Event::NodePortAddresses(vec![[192, 0, 2, 1].into()]));
    engine.apply(Event::AllServices(vec![Arc::new(service)]));
    engine.apply(Event::AllSlices(vec![]));
    engine.apply(slice);
    engine.sync().unwrap();
    engine
}

fn cluster_ip() -> Frontend {
    Frontend { address: [10, 96, 0, 1].into(), protocol: Protocol::Tcp, port: 80 }
}

fn load_balancer() -> Frontend {
    Frontend { address: [198, 51, 100, 1].into(), ..cluster_ip() }
}

/// A client that was sent to `10.244.0.{last_byte}` some time ago.
fn client(frontend: Frontend, client: IpAddr, last_byte: u8, age_ms: u64) -> AffinityRow {
    AffinityRow {
        frontend,
        client,
        endpoint: Endpoint { address: [10, 244, 0, last_byte].into(), port: 8080 },
        timeout_ms: DAY,
        expires_ms: DAY - age_ms,
    }
}

/// Who is remembered.
fn remembered(kernel: &SharedKernel) -> Vec<AffinityRow> {
    let mut rows = kernel.lock().read_affinity(Family::V4).unwrap();
    rows.sort_unstable();
    rows
}

fn learn(kernel: &SharedKernel, rows: &[AffinityRow]) {
    for row in rows {
        kernel.lock().learn(*row);
    }
}

fn changed(service: Service) -> Event {
    Event::Service(Arc::new(service))
}

#[test]
fn clients_of_an_endpoint_that_leaves_are_forgotten_with_it() {
    let kernel = SharedKernel::default();
    let mut engine = started(&kernel, service(), two());
    let stays = client(cluster_ip(), OUTSIDE, 1, 0);
    learn(&kernel, &[stays, client(cluster_ip(), POD, 2, 0)]);
    engine.apply(slice(&[(1, HERE, READY)]));
    let synced = engine.sync().unwrap();
    assert_eq!(synced.transactions, 1, "one with the endpoint's rows");
    assert_eq!(kernel.lock().last_transaction().forgotten, [client(cluster_ip(), POD, 2, 0)]);
    assert_eq!(remembered(&kernel), [stays]);
}

#[test]
fn clients_stay_while_their_endpoint_does() {
    let kernel = SharedKernel::default();
    let mut engine = started(&kernel, service(), two());
    let rows = [client(cluster_ip(), OUTSIDE, 1, 5), client(load_balancer(), POD, 2, 7)];
    learn(&kernel, &rows);
    engine.apply(slice(&[(1, HERE, READY), (2, ELSEWHERE, READY), (3, HERE, READY)]));
    engine.sync().unwrap();
    engine.apply(changed(Service { external_ips: vec![[198, 51, 100, 9].into()], ..service() }));
    engine.sync().unwrap();
    assert_eq!(remembered(&kernel), rows);
}

/// Found by comparing with kube-proxy: the endpoint still counted for policy Local, which the Service
/// does not have.
#[test]
fn clients_of_a_terminating_endpoint_move_when_others_are_ready() {
    let kernel = SharedKernel::default();
    let mut engine = started(&kernel, service(), two());
    learn(&kernel, &[client(load_balancer(), OUTSIDE, 1, 0)]);
    engine.apply(slice(&[(1, HERE, TERMINATING), (2, ELSEWHERE, READY)]));
    engine.sync().unwrap();
    assert_eq!(remembered(&kernel), []);
}

#[test]
fn with_policy_local_outsiders_keep_only_endpoints_of_this_node_and_pods_keep_all() {
    let kernel = SharedKernel::default();
    let mut engine = started(&kernel, service(), two());
    let outside =
        |last_byte| client(load_balancer(), [203, 0, 113, last_byte].into(), last_byte, 0);
    let pod = client(load_balancer(), POD, 2, 0);
    learn(&kernel, &[outside(1), outside(2), pod]);
    engine.apply(changed(Service { external_policy: TrafficPolicy::Local, ..service() }));
    engine.sync().unwrap();
    assert_eq!(remembered(&kernel), [pod, outside(1)]);
}

/// What an outsider got through the cluster IP may be on another node.
#[test]
fn with_policy_local_external_frontends_learn_apart_from_the_cluster_ip() {
    let kernel = SharedKernel::default();
    let local = Service { external_policy: TrafficPolicy::Local, ..service() };
    for (service, together) in [(service(), true), (local, false)] {
        let engine = started(&kernel, service, two());
        let chain = |frontend| engine.ledger().desired(&RowKey::StickyFrontend(frontend)).unwrap();
        assert_eq!(chain(cluster_ip()) == chain(load_balancer()), together);
        let node_port = Frontend { address: [192, 0, 2, 1].into(), port: 30_080, ..cluster_ip() };
        assert_eq!(chain(node_port), chain(load_balancer()));
    }
}

#[test]
fn each_port_of_a_service_learns_for_itself() {
    let kernel = SharedKernel::default();
    let engine = started(&kernel, service(), two());
    let Some(RowValue::Verdict(Verdict::Goto(chain))) =
        engine.ledger().desired(&RowKey::StickyFrontend(cluster_ip()))
    else {
        panic!("the cluster IP is not sticky");
    };
    let learned = engine.ledger().group(chain).unwrap().frontends.clone();
    let node_port = Frontend { address: [192, 0, 2, 1].into(), port: 30_080, ..cluster_ip() };
    assert_eq!(learned, [cluster_ip(), node_port, load_balancer()]);
}

#[test]
fn a_changed_timeout_counts_for_known_clients_too() {
    let kernel = SharedKernel::default();
    let mut engine = started(&kernel, service(), two());
    let clients = |ages: [u64; 2]| {
        let address = |n: usize| IpAddr::from([203, 0, 113, u8::try_from(n).unwrap()]);
        [0, 1].map(|n| client(cluster_ip(), address(n), 1, ages[n]))
    };
    learn(&kernel, &clients([4_000, 11_000]));
    for (seconds, left) in [(20, vec![16_000, 9_000]), (10, vec![6_000]), (3_600, vec![3_596_000])]
    {
        engine.apply(changed(Service { affinity_timeout: Some(seconds), ..service() }));
        engine.sync().unwrap();
        let times: Vec<_> =
            remembered(&kernel).iter().map(|row| (row.timeout_ms, row.expires_ms)).collect();
        let expected: Vec<_> =
            left.into_iter().map(|left| (u64::from(seconds) * 1000, left)).collect();
        assert_eq!(times, expected, "{seconds} s: the age is kept");
    }
}

#[test]
fn without_affinity_nobody_is_remembered() {
    let kernel = SharedKernel::default();
    let mut engine = started(&kernel, service(), two());
    learn(&kernel, &[client(cluster_ip(), OUTSIDE, 1, 0)]);
    engine.apply(changed(Service { affinity_timeout: None, ..service() }));
    engine.sync().unwrap();
    assert_eq!(remembered(&kernel), []);
}

#[test]
fn what_changed_while_no_agent_ran_is_made_up_for_at_start() {
    let kernel = SharedKernel::default();
    drop(started(&kernel, service(), two()));
    let kept = client(cluster_ip(), OUTSIDE, 1, 1_000);
    learn(&kernel, &[kept, client(cluster_ip(), POD, 2, 0)]);
    let only_one = || slice(&[(1, HERE, READY)]);
    drop(started(&kernel, service(), only_one()));
    assert_eq!(remembered(&kernel), [kept], "the rest survives a restart");
    drop(started(&kernel, Service { affinity_timeout: Some(10), ..service() }, only_one()));
    let retimed = AffinityRow { timeout_ms: 10_000, expires_ms: 9_000, ..kept };
    assert_eq!(remembered(&kernel), [retimed]);
}

#[test]
fn a_client_whose_time_is_up_meanwhile_does_not_come_back() {
    let row = client(cluster_ip(), OUTSIDE, 1, 1_000);
    let mut ledger = sliceproxy_dataplane::ledger::Ledger::new(vec![]);
    ledger.forget([row]);
    ledger.remember([AffinityRow { timeout_ms: 10_000, expires_ms: 9_000, ..row }]);
    ledger.drop_client(&row);
    assert!(ledger.transaction().is_empty());
}

#[test]
fn a_program_that_is_replaced_hands_its_clients_over() {
    let kernel = SharedKernel::new(FakeKernel::new());
    let mut engine = started(&kernel, service(), two());
    let row = client(cluster_ip(), OUTSIDE, 1, 1_000);
    learn(&kernel, &[row]);
    let program = ProgramConfig { masquerade_all: true, ..engine.settings().program.clone() };
    engine.set_program(program);
    let synced = engine.sync().unwrap();
    assert_eq!(synced.installed, Family::ALL);
    assert_eq!(remembered(&kernel), [row]);
}
