#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;

use sliceproxy_dataplane::conntrack::{Flow, Scope};
use sliceproxy_dataplane::fake::FakeConntrack;
use sliceproxy_dataplane::frontend::{Endpoint, Frontend, Protocol};

use super::*;
use crate::model::{Conditions, ObjectName, ServicePortName, Slice, SliceEndpoint, SlicePort};

const LIMIT: Duration = Duration::from_secs(20);
const GONE: u8 = 1;
const READY: u8 = 2;
const TERMINATING: u8 = 3;
const UNREADY: u8 = 4;
const DECLARED_READY: u8 = 5;

fn endpoint(last_byte: u8) -> Endpoint {
    Endpoint { address: [10, 244, 0, last_byte].into(), port: 5353 }
}

fn frontend(last_byte: u8, protocol: Protocol) -> Frontend {
    Frontend { address: [10, 96, 0, last_byte].into(), protocol, port: 53 }
}

fn flow(client_port: u16, frontend: Frontend, answers_from: Endpoint) -> Flow {
    Flow { client: SocketAddr::from(([10, 1, 0, 1], client_port)), frontend, answers_from, zone: 0 }
}

/// A slice with an endpoint of every kind that there is, and a second port that is not the one.
fn slice() -> Arc<Slice> {
    let described = |last_byte, ready, serving, terminating| SliceEndpoint {
        address: endpoint(last_byte).address,
        conditions: Conditions { ready, serving, terminating },
        node: None,
        zone: None,
        region: None,
        hints: None,
    };
    let port = |name: &str, protocol, port| SlicePort { name: name.into(), protocol, port };
    Arc::new(Slice {
        name: ObjectName::new("kube-system", "dns-1"),
        service: ObjectName::new("kube-system", "dns"),
        family: Family::V4,
        ports: vec![
            port("dns", Protocol::Udp, 5353),
            port("dns", Protocol::Tcp, 5354),
            port("other", Protocol::Udp, 5355),
        ],
        endpoints: vec![
            described(READY, true, true, false),
            described(TERMINATING, false, true, true),
            described(UNREADY, false, false, false),
            described(DECLARED_READY, true, false, false),
        ],
        trigger_time: None,
    })
}

fn check(last_byte: u8) -> FlowCheck {
    FlowCheck {
        frontends: vec![frontend(last_byte, Protocol::Udp)],
        owner: Some(ServicePortName {
            service: ObjectName::new("kube-system", "dns"),
            port: "dns".into(),
            protocol: Protocol::Udp,
        }),
        slices: vec![slice()],
    }
}

fn nobodys(last_byte: u8) -> FlowCheck {
    FlowCheck { owner: None, slices: vec![], ..check(last_byte) }
}

fn swept(checks: &[FlowCheck], flows: &[Flow]) -> (FakeConntrack, Swept) {
    let mut table = FakeConntrack::default();
    table.lock().flows.extend(flows);
    let mut pending = Pending::default();
    for check in checks {
        pending.add(check);
    }
    let swept = pending.sweep(Family::V4, &mut table).unwrap().unwrap();
    assert!(pending.is_empty());
    (table, swept)
}

#[test]
fn flows_stay_with_every_endpoint_that_may_answer_and_only_with_those() {
    let ours = frontend(10, Protocol::Udp);
    let cases = [
        (GONE, false),
        (READY, true),
        (TERMINATING, true),
        (UNREADY, false),
        (DECLARED_READY, true),
    ];
    for (last_byte, stays) in cases {
        let flow = flow(4000, ours, endpoint(last_byte));
        let (table, swept) = swept(&[check(10)], &[flow]);
        assert_eq!(table.lock().flows.contains(&flow), stays, "endpoint {last_byte}");
        assert_eq!(swept.deleted, u64::from(!stays));
    }
}

#[test]
fn an_endpoint_on_the_port_of_another_protocol_or_name_may_not_answer() {
    for port in [5354, 5355] {
        let answers_from = Endpoint { port, ..endpoint(READY) };
        let (_, swept) =
            swept(&[check(10)], &[flow(4000, frontend(10, Protocol::Udp), answers_from)]);
        assert_eq!(swept.deleted, 1, "{port}");
    }
}

/// A flow that began before an external IP was added stays stuck on the untranslated path.
#[test]
fn a_flow_that_began_before_its_frontend_existed_goes() {
    let ours = frontend(10, Protocol::Udp);
    let untranslated = Endpoint { address: ours.address, port: ours.port };
    let (_, swept) = swept(&[check(10)], &[flow(4000, ours, untranslated)]);
    assert_eq!(swept.deleted, 1);
}

#[test]
fn unrelated_flows_stay() {
    let flows = [
        // Another Service on the same port.
        flow(4000, frontend(11, Protocol::Udp), endpoint(GONE)),
        flow(4001, frontend(10, Protocol::Tcp), endpoint(GONE)),
        flow(4002, frontend(10, Protocol::Sctp), endpoint(GONE)),
        flow(4003, Frontend { port: 54, ..frontend(10, Protocol::Udp) }, endpoint(GONE)),
        // What the frontend's address itself sends is no flow to it.
        Flow {
            client: SocketAddr::from(([10, 96, 0, 10], 53)),
            frontend: Frontend { port: 4004, ..frontend(1, Protocol::Udp) },
            answers_from: endpoint(GONE),
            zone: 0,
        },
    ];
    let (table, swept) = swept(&[check(10)], &flows);
    assert_eq!((swept.deleted, table.lock().flows.len()), (0, flows.len()));
}

#[test]
fn nobody_may_answer_for_a_frontend_that_is_gone() {
    let (_, swept) =
        swept(&[nobodys(10)], &[flow(4000, frontend(10, Protocol::Udp), endpoint(READY))]);
    assert_eq!(swept.deleted, 1);
}

#[test]
fn the_last_word_on_a_frontend_counts() {
    let flow = flow(4000, frontend(10, Protocol::Udp), endpoint(READY));
    assert_eq!(swept(&[nobodys(10), check(10)], &[flow]).1.deleted, 0);
    assert_eq!(swept(&[check(10), nobodys(10)], &[flow]).1.deleted, 1);
}

#[test]
fn many_checks_are_one_pass_over_no_more_than_they_need() {
    let (table, _) = swept(&[check(10), check(11), nobodys(12)], &[]);
    let scope = Scope { family: Family::V4, address: None, port: Some(53) };
    assert_eq!(table.lock().sweeps, [scope]);
}

/// One dump, 50 stale flows among 500.
#[test]
fn fifty_stale_flows_among_five_hundred_cost_one_dump() {
    let flows: Vec<Flow> = (0..500)
        .map(|n| {
            let last_byte = if n % 10 == 0 { GONE } else { READY };
            flow(1000 + n, frontend(10, Protocol::Udp), endpoint(last_byte))
        })
        .collect();
    let (table, swept) = swept(&[check(10)], &flows);
    assert_eq!(swept, Swept { dumps: 1, seen: 500, deleted: 50 });
    assert_eq!(table.lock().flows.len(), 450);
}

#[test]
fn what_failed_is_kept_and_tried_again() {
    let table = FakeConntrack::default();
    table.lock().flows.insert(flow(4000, frontend(10, Protocol::Udp), endpoint(GONE)));
    table.lock().failing = 2;
    let (sender, passes) = channel();
    let flows = start(table.clone(), move |pass| sender.send(pass).unwrap()).unwrap();
    flows.0.send(vec![check(10)]).unwrap();
    let pass = passes.recv_timeout(LIMIT).expect("no pass in time");
    assert_eq!((pass.family, pass.swept.deleted), (Family::V4, 1));
    assert_eq!(table.lock().failing, 0);
    assert_eq!(table.lock().sweeps.len(), 1);
}

#[test]
fn a_flood_of_checks_is_few_passes() {
    let table = FakeConntrack::default();
    let (sender, passes) = channel();
    let flows = start(table.clone(), move |pass: Pass| sender.send(pass).unwrap()).unwrap();
    let start_time = Instant::now();
    for round in 0..2_000u16 {
        flows.0.send(vec![check(u8::try_from(round % 200).unwrap())]).unwrap();
    }
    drop(flows);
    // The thread ends when it has taken everything in.
    let count = u32::try_from(passes.iter().count()).unwrap();
    assert!(count > 0 && (count - 1) * PAUSE <= start_time.elapsed(), "{count} passes");
}
