#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::IpAddr;

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel, Tampering};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::program::ProgramConfig;

use super::*;
use crate::engine::Settings;
use crate::model::{
    Conditions, Event, NodeName, ObjectName, Service, ServicePort, SliceEndpoint, SlicePort,
};

const READY: Conditions = Conditions { ready: true, serving: true, terminating: false };
const UNREADY: Conditions = Conditions { ready: false, serving: false, terminating: false };
const TERMINATING: Conditions = Conditions { ready: false, serving: true, terminating: true };

fn port(name: &str, protocol: Protocol, node_port: u16) -> ServicePort {
    let node_port = (node_port > 0).then_some(node_port);
    ServicePort { name: name.into(), protocol, port: 53, node_port }
}

/// A Service with a port 53 for UDP and one for TCP.
fn service(name: &str, last_byte: u8) -> Service {
    Service {
        created: i64::from(last_byte),
        ..Service::new(
            ObjectName::new("ns", name),
            vec![[10, 96, 0, last_byte].into()],
            vec![port("dns", Protocol::Udp, 0), port("dns", Protocol::Tcp, 0)],
        )
    }
}

fn slice(service: &str, endpoints: &[(u8, Conditions)]) -> Event {
    let slice_port = |protocol| SlicePort { name: "dns".into(), protocol, port: 5353 };
    let endpoint = |&(last_byte, conditions): &(u8, Conditions)| SliceEndpoint {
        address: [10, 244, 0, last_byte].into(),
        conditions,
        node: None,
        zone: None,
        region: None,
        hints: None,
    };
    Event::Slice(Arc::new(Slice {
        name: ObjectName::new("ns", &format!("{service}-1")),
        service: ObjectName::new("ns", service),
        family: Family::V4,
        ports: vec![slice_port(Protocol::Udp), slice_port(Protocol::Tcp)],
        endpoints: endpoints.iter().map(endpoint).collect(),
        trigger_time: None,
    }))
}

fn changed(service: Service) -> Event {
    Event::Service(Arc::new(service))
}

/// An engine on `kernel` that has the Services `a` and `b` with an endpoint each, and its checks
/// after the first sync.
fn started(kernel: &SharedKernel) -> (Engine<SharedKernel>, Vec<Check>) {
    let settings = Settings {
        node: NodeName::new("n1").unwrap(),
        families: Family::ALL.to_vec(),
        program: ProgramConfig::default(),
        topology_routing: false,
        zone_regions: BTreeMap::new(),
    };
    let mut engine = Engine::new(settings, kernel.clone()).unwrap();
    engine.apply(Event::AllSlices(vec![]));
    engine.apply(slice("a", &[(1, READY)]));
    engine.apply(slice("b", &[(2, READY)]));
    engine.apply(Event::NodePortAddresses(vec![[192, 0, 2, 1].into()]));
    engine.apply(Event::AllServices(vec![Arc::new(service("a", 1)), Arc::new(service("b", 2))]));
    let checks = synced(&mut engine);
    (engine, checks)
}

fn engine() -> Engine<SharedKernel> {
    started(&SharedKernel::new(FakeKernel::new())).0
}

/// Frontends with their owner, and the last bytes of the endpoints that may answer.
type Check = (Vec<String>, Option<String>, Vec<u8>);

fn synced(engine: &mut Engine<SharedKernel>) -> Vec<Check> {
    let checks = engine.sync().unwrap().flow_checks;
    checks.iter().map(words).collect()
}

fn words(check: &FlowCheck) -> Check {
    let last_byte = |endpoint: &Endpoint| match endpoint.address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    let mut endpoints: Vec<u8> = check.endpoints().iter().map(last_byte).collect();
    endpoints.sort_unstable();
    (
        check.frontends.iter().map(ToString::to_string).collect(),
        check.owner.as_ref().map(|owner| owner.service.name.to_string()),
        endpoints,
    )
}

fn check(frontends: &[&str], owner: &str, endpoints: &[u8]) -> Check {
    let frontends = frontends.iter().map(ToString::to_string).collect();
    (frontends, Some(owner.to_owned()).filter(|owner| !owner.is_empty()), endpoints.to_vec())
}

#[test]
fn the_first_sync_checks_every_udp_frontend() {
    let (_, checks) = started(&SharedKernel::new(FakeKernel::new()));
    let expected =
        [check(&["10.96.0.1:53/UDP"], "a", &[1]), check(&["10.96.0.2:53/UDP"], "b", &[2])];
    assert_eq!(checks, expected);
}

#[test]
fn only_endpoints_that_stop_answering_are_a_reason_to_look() {
    type Case<'a> = (&'a str, &'a [(u8, Conditions)], &'a [Check]);
    let a = "10.96.0.1:53/UDP";
    let cases: &[Case<'_>] = &[
        ("delivered again", &[(1, READY)], &[]),
        ("one joins", &[(1, READY), (3, READY)], &[]),
        ("one terminates and serves", &[(1, READY), (3, TERMINATING)], &[]),
        ("one has terminated", &[(1, READY)], &[check(&[a], "a", &[1])]),
        ("one more is there, unready", &[(1, READY), (3, UNREADY)], &[]),
        ("one is unready", &[(1, UNREADY), (3, READY)], &[check(&[a], "a", &[3])]),
        ("the last one leaves", &[], &[check(&[a], "a", &[])]),
        ("the first one comes", &[(4, READY)], &[check(&[a], "a", &[4])]),
        ("it is replaced", &[(5, READY)], &[check(&[a], "a", &[5])]),
    ];
    let mut engine = engine();
    for (what, endpoints, expected) in cases {
        engine.apply(slice("a", endpoints));
        assert_eq!(synced(&mut engine), *expected, "{what}");
    }
}

#[test]
fn an_endpoint_that_was_not_used_may_have_flows_from_earlier() {
    let mut engine = engine();
    // Ready ones go before it, so it has no row.
    engine.apply(slice("a", &[(1, READY), (3, TERMINATING)]));
    synced(&mut engine);
    engine.apply(slice("a", &[(1, READY)]));
    let synced = engine.sync().unwrap();
    assert_eq!(synced.transactions, 0);
    assert_eq!(synced.flow_checks.len(), 1);
}

/// While a pod is moved from one slice to another, both describe it.
#[test]
fn an_endpoint_may_answer_as_long_as_any_slice_says_so() {
    let in_other_slice = |endpoints| match slice("a", endpoints) {
        Event::Slice(slice) => {
            let name = ObjectName::new("ns", "a-2");
            Event::Slice(Arc::new(Slice { name, ..(*slice).clone() }))
        }
        other => other,
    };
    let mut engine = engine();
    engine.apply(slice("a", &[(1, TERMINATING)]));
    engine.apply(in_other_slice(&[(1, UNREADY)]));
    assert_eq!(synced(&mut engine), []);
    engine.apply(slice("a", &[]));
    assert_eq!(synced(&mut engine), [check(&["10.96.0.1:53/UDP"], "a", &[])]);
}

#[test]
fn frontends_that_come_or_go_are_checked_alone() {
    let mut engine = engine();
    let external = "198.51.100.7:53/UDP";
    let mut with_external = service("a", 1);
    with_external.external_ips = vec![[198, 51, 100, 7].into()];
    engine.apply(changed(with_external.clone()));
    assert_eq!(synced(&mut engine), [check(&[external], "a", &[1])]);
    engine.apply(changed(Service { affinity_timeout: Some(10), ..with_external }));
    assert_eq!(synced(&mut engine), [], "the same frontends");
    let mut with_node_port = service("a", 1);
    with_node_port.ports[0] = port("dns", Protocol::Udp, 30_053);
    engine.apply(changed(with_node_port));
    let gone = check(&[external], "", &[]);
    assert_eq!(synced(&mut engine), [gone, check(&["192.0.2.1:30053/UDP"], "a", &[1])]);
    engine.apply(Event::ServiceRemoved(ObjectName::new("ns", "a")));
    let gone = check(&["10.96.0.1:53/UDP", "192.0.2.1:30053/UDP"], "", &[]);
    assert_eq!(synced(&mut engine), [gone]);
}

#[test]
fn a_frontend_that_changes_hands_is_checked_against_its_new_owner() {
    let mut engine = engine();
    for (name, last_byte) in [("a", 1), ("b", 2)] {
        let mut with_external = service(name, last_byte);
        with_external.external_ips = vec![[198, 51, 100, 7].into()];
        engine.apply(changed(with_external));
    }
    let external = "198.51.100.7:53/UDP";
    assert_eq!(synced(&mut engine), [check(&[external], "a", &[1])], "the older one has it");
    engine.apply(changed(service("a", 1)));
    assert_eq!(synced(&mut engine), [check(&[external], "b", &[2])]);
}

/// C64: a TCP port that is added to a UDP one must not disturb it, nor the other way round.
#[test]
fn tcp_is_no_reason_to_look() {
    let mut engine = engine();
    let mut with_more = service("a", 1);
    with_more.ports[1] = port("dns", Protocol::Tcp, 30_053);
    engine.apply(changed(with_more));
    assert_eq!(synced(&mut engine), []);
}

#[test]
fn checks_wait_for_the_commit_and_are_not_lost_when_it_fails() {
    let kernel = SharedKernel::new(FakeKernel::new());
    let (mut engine, _) = started(&kernel);
    kernel.lock().fail_sockets(1);
    engine.apply(slice("a", &[(3, READY)]));
    engine.sync().unwrap_err();
    engine.apply(slice("a", &[(4, READY)]));
    assert_eq!(synced(&mut engine), [check(&["10.96.0.1:53/UDP"], "a", &[4])]);
    assert_eq!(synced(&mut engine), []);
}

#[test]
fn services_that_went_while_the_proxy_was_stopped_are_checked() {
    let kernel = SharedKernel::new(FakeKernel::new());
    let (mut engine, _) = started(&kernel);
    engine.apply(changed(service("c", 3)));
    engine.apply(slice("c", &[(6, READY)]));
    synced(&mut engine);
    let (_, checks) = started(&kernel);
    assert_eq!(checks.first(), Some(&check(&["10.96.0.3:53/UDP"], "", &[])));
    assert_eq!(checks.len(), 3);
}

#[test]
fn frontends_that_had_to_be_repaired_are_checked() {
    let kernel = SharedKernel::new(FakeKernel::new());
    let (mut engine, _) = started(&kernel);
    kernel.lock().tamper(Tampering::DropTable(Family::V4));
    engine.distrust();
    assert_eq!(synced(&mut engine).len(), 2);
    engine.distrust();
    assert_eq!(synced(&mut engine), []);
}
