//! The fake connection tracking table and the real one do the same. The real one needs root, for
//! network namespaces, and fails without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use sliceproxy_dataplane::conntrack::{Conntrack, Flow, Scope};
use sliceproxy_dataplane::fake::FakeConntrack;
use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend, Protocol};
use sliceproxy_dataplane::netlink::NetlinkConntrack;

/// A table that a test can write to.
trait Planted: Conntrack {
    /// How many of `flows` were not there yet; now they are.
    fn plant(&mut self, flows: &[Flow]) -> u64;
}

impl Planted for FakeConntrack {
    fn plant(&mut self, flows: &[Flow]) -> u64 {
        let mut table = self.lock();
        flows.iter().map(|flow| u64::from(table.flows.insert(*flow))).sum()
    }
}

impl Planted for NetlinkConntrack {
    fn plant(&mut self, flows: &[Flow]) -> u64 {
        self.plant(flows).unwrap()
    }
}

type Case = (&'static str, fn(&mut dyn Planted));

const CASES: &[Case] = &[
    ("only stale flows go, and they are gone", only_stale),
    ("no other protocol is shown", only_udp),
    ("a scope is exact", scope_v4),
    ("a scope is exact in IPv6 too", scope_v6),
    ("flows differ by zone", zones),
    ("thousands at once, in one dump", thousands),
    ("an empty table is swept", empty),
];

fn flow(protocol: Protocol, client: &str, frontend: &str, endpoint: &str) -> Flow {
    let [client, frontend, endpoint] =
        [client, frontend, endpoint].map(|text| text.parse::<SocketAddr>().unwrap());
    Flow {
        client,
        frontend: Frontend { address: frontend.ip(), protocol, port: frontend.port() },
        answers_from: Endpoint { address: endpoint.ip(), port: endpoint.port() },
        zone: 0,
    }
}

fn udp(client: &str, frontend: &str, endpoint: &str) -> Flow {
    flow(Protocol::Udp, client, frontend, endpoint)
}

fn family(family: Family) -> Scope {
    Scope { family, address: None, port: None }
}

fn seen(table: &mut dyn Planted, scope: Scope) -> Vec<Flow> {
    let mut seen = Vec::new();
    let swept = table
        .sweep(&scope, &mut |flow| {
            seen.push(*flow);
            false
        })
        .unwrap();
    assert_eq!((swept.seen, swept.deleted), (seen.len() as u64, 0));
    seen.sort_unstable();
    seen
}

fn only_stale(table: &mut dyn Planted) {
    let old = udp("10.1.0.1:4000", "10.96.0.10:53", "10.244.0.1:5353");
    let good = udp("10.1.0.1:4001", "10.96.0.10:53", "10.244.0.2:5353");
    let untranslated = udp("10.1.0.1:4002", "10.96.0.10:53", "10.96.0.10:53");
    let v6 = udp("[fd00::1]:4000", "[fd00:96::10]:53", "[fd00:244::1]:5353");
    assert_eq!(table.plant(&[old, good, untranslated, v6]), 4);
    assert_eq!(seen(table, family(Family::V4)), [old, good, untranslated]);
    let swept = table.sweep(&family(Family::V4), &mut |flow| *flow != good).unwrap();
    assert_eq!((swept.dumps, swept.seen, swept.deleted), (1, 3, 2));
    assert_eq!(seen(table, family(Family::V4)), [good]);
    let swept = table.sweep(&family(Family::V6), &mut |flow| *flow == v6).unwrap();
    assert_eq!((swept.seen, swept.deleted), (1, 1));
    assert_eq!(seen(table, family(Family::V6)), []);
}

fn only_udp(table: &mut dyn Planted) {
    let others = [Protocol::Tcp, Protocol::Sctp]
        .map(|protocol| flow(protocol, "10.1.0.1:4000", "10.96.0.10:53", "10.244.0.1:5353"));
    let planted = table.plant(&others[..1]) + table.plant(&others[1..]);
    assert_eq!(planted, 2);
    let swept = table.sweep(&family(Family::V4), &mut |_| true).unwrap();
    assert_eq!((swept.seen, swept.deleted), (0, 0));
    assert_eq!(table.plant(&others), 0, "still there");
}

fn scope_v4(table: &mut dyn Planted) {
    let flows = [
        udp("10.1.0.1:4000", "10.96.0.10:53", "10.244.0.1:5353"),
        udp("10.1.0.1:4001", "10.96.0.10:54", "10.244.0.1:5353"),
        udp("10.1.0.1:4002", "10.96.0.11:53", "10.244.0.1:5353"),
        // The same address and port on the other side is no flow to them.
        udp("10.96.0.10:53", "10.1.0.1:4003", "10.1.0.1:4003"),
    ];
    scope(table, &flows);
}

/// The kernel's own filter by IPv6 address does the opposite.
fn scope_v6(table: &mut dyn Planted) {
    let flows = [
        udp("[fd01::1]:4000", "[fd96::10]:53", "[fd24::1]:5353"),
        udp("[fd01::1]:4001", "[fd96::10]:54", "[fd24::1]:5353"),
        udp("[fd01::1]:4002", "[fd96::11]:53", "[fd24::1]:5353"),
        udp("[fd96::10]:53", "[fd01::1]:4003", "[fd01::1]:4003"),
    ];
    scope(table, &flows);
}

fn scope(table: &mut dyn Planted, flows: &[Flow; 4]) {
    assert_eq!(table.plant(flows), 4);
    let [first, other_port, other_address, _] = *flows;
    for (frontends, expected) in [
        (vec![first], vec![first]),
        (vec![first, other_port], vec![first, other_port]),
        (vec![first, other_address], vec![first, other_address]),
    ] {
        let scope = Scope::around(frontends.iter().map(|flow| flow.frontend)).unwrap();
        assert_eq!(seen(table, scope), expected, "{scope:?}");
    }
}

fn zones(table: &mut dyn Planted) {
    let first = udp("10.1.0.1:4000", "10.96.0.10:53", "10.244.0.1:5353");
    let second = Flow { zone: 7, ..first };
    assert_eq!(table.plant(&[first, second]), 2);
    assert_eq!(seen(table, family(Family::V4)), [first, second]);
    let swept = table.sweep(&family(Family::V4), &mut |flow| flow.zone == 7).unwrap();
    assert_eq!(swept.deleted, 1);
    assert_eq!(seen(table, family(Family::V4)), [first]);
}

fn thousands(table: &mut dyn Planted) {
    let flows: Vec<Flow> = (0..5_000u16)
        .map(|n| Flow {
            client: SocketAddr::from(([10, 1, 0, 1], 10_000 + n)),
            ..udp("10.1.0.1:1", "10.96.0.10:53", "10.244.0.1:5353")
        })
        .collect();
    assert_eq!(table.plant(&flows), 5_000);
    let is_stale = |flow: &Flow| flow.client.port().is_multiple_of(10);
    let swept = table.sweep(&family(Family::V4), &mut |flow| is_stale(flow)).unwrap();
    assert_eq!((swept.dumps, swept.deleted), (1, 500));
    let left: Vec<Flow> = flows.into_iter().filter(|flow| !is_stale(flow)).collect();
    assert_eq!(seen(table, family(Family::V4)), left);
}

fn empty(table: &mut dyn Planted) {
    for scope in Family::ALL.map(family) {
        let swept = table.sweep(&scope, &mut |_| true).unwrap();
        assert_eq!((swept.dumps, swept.seen, swept.deleted), (1, 0, 0));
    }
}

#[test]
fn fake_table() {
    for (name, case) in CASES {
        println!("{name}");
        case(&mut FakeConntrack::default());
    }
}

#[test]
fn real_table() {
    for (name, case) in CASES {
        println!("{name}");
        // The namespace belongs to the thread and goes with it.
        let namespace = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("root, to make a network namespace");
            case(&mut NetlinkConntrack::open().unwrap());
        });
        if let Err(panic) = namespace.join() {
            resume_unwind(panic);
        }
    }
}
