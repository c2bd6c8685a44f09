#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::Ipv4Addr;
use std::sync::Arc;

use sliceproxy_dataplane::fake::FakeKernel;
use sliceproxy_dataplane::frontend::{Family, Protocol};
use sliceproxy_dataplane::program::ProgramConfig;
use sliceproxy_dataplane::rows::{RowKey, RowValue, Verdict};

use super::*;
use crate::config::Flags;
use crate::engine::Settings;
use crate::model::{
    Conditions, Event, NodeName, ObjectName, ServicePort, Slice, SliceEndpoint, SlicePort,
    TopologyAnnotations, TrafficPolicy, ZoneRegions,
};

fn engine(limits: Limits) -> Engine<FakeKernel> {
    let settings = Settings {
        node: NodeName("n1".into()),
        families: vec![Family::V4],
        program: ProgramConfig::default(),
        topology_routing: false,
        zone_regions: ZoneRegions::new(),
    };
    let mut engine = Engine::new(settings, FakeKernel::new()).unwrap();
    engine.restraint.limits = limits;
    engine.apply(Event::NodePortAddresses(vec![Ipv4Addr::new(172, 18, 0, 1).into()]));
    engine.apply(Event::AllServices(vec![]));
    engine.apply(Event::AllSlices(vec![]));
    engine
}

/// A Service with that many ports, a cluster IP, a load-balancer IP, an external IP and node ports.
fn service(number: u8, ports: u16) -> Event {
    let port = |n: u16| ServicePort {
        name: n.to_string().into(),
        protocol: Protocol::Tcp,
        port: 80 + n,
        node_port: Some(30_000 + 100 * u16::from(number) + n),
    };
    Event::Service(Arc::new(Service {
        name: ObjectName::new("shop", &number.to_string()),
        uid: "".into(),
        created: 0,
        cluster_ips: vec![Ipv4Addr::new(10, 96, 0, number).into()],
        external_ips: vec![Ipv4Addr::new(198, 51, 100, number).into()],
        load_balancer_ips: vec![Ipv4Addr::new(203, 0, 113, number).into()],
        source_ranges: vec![],
        ports: (0..ports).map(port).collect(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity_timeout: None,
        health_check_node_port: None,
        topology: TopologyAnnotations::default(),
    }))
}

fn slice(number: u8, endpoints: u8) -> Event {
    let endpoint = |last: u8| SliceEndpoint {
        address: Ipv4Addr::new(10, 244, number, last).into(),
        conditions: Conditions { ready: true, serving: true, terminating: false },
        node: None,
        zone: None,
        region: None,
        hints: None,
    };
    let port =
        |n: u16| SlicePort { name: n.to_string().into(), protocol: Protocol::Tcp, port: 8080 };
    Event::Slice(Arc::new(Slice {
        name: ObjectName::new("shop", &format!("{number}-1")),
        service: ObjectName::new("shop", &number.to_string()),
        family: Family::V4,
        ports: (0..4).map(port).collect(),
        endpoints: (1..=endpoints).map(endpoint).collect(),
        trigger_time: None,
    }))
}

fn name(number: u8) -> ServiceName {
    ServiceName::new("shop", &number.to_string())
}

/// Frontends with rows, by kind.
fn served<K: Kernel>(engine: &Engine<K>, number: u8) -> Budget {
    let mut counts = Budget::default();
    for port in engine.ports_of(&name(number)) {
        for (frontend, kind) in &port.claimed {
            let keys = [RowKey::Service(*frontend), RowKey::NoBackends(*frontend)];
            let rows = keys.iter().filter(|key| engine.ledger().desired(key).is_some()).count();
            counts[*kind as usize] += rows;
        }
    }
    counts
}

fn kinds(exceeded: &[Excess]) -> Vec<&'static str> {
    exceeded.iter().map(Excess::limit).collect()
}

#[test]
fn too_many_frontends_cost_the_least_important_ones() {
    let mut engine = engine(Limits { frontends_per_service: 9, ..Limits::default() });
    for (ports, expected, is_over) in
        [(2, [2, 2, 2, 2], false), (3, [3, 3, 3, 0], true), (4, [4, 4, 1, 0], true)]
    {
        engine.apply(service(1, ports));
        engine.apply(service(2, 1));
        let synced = engine.sync().unwrap();
        assert_eq!(served(&engine, 1), expected);
        assert_eq!(served(&engine, 2), [1, 1, 1, 1], "another Service notices nothing");
        assert_eq!(!engine.exceeded(&name(1)).is_empty(), is_over);
        let news = usize::from(ports == 3);
        assert_eq!(synced.exceeded.len(), news, "said when it begins: {:?}", synced.exceeded);
    }
    let text = engine.exceeded(&name(1))[0].to_string();
    assert!(text.starts_with("asks for 16 frontends"), "{text}");
    engine.apply(service(1, 1));
    assert_eq!((served(&engine, 1), engine.exceeded(&name(1))), ([1, 1, 1, 1], &[][..]));
    engine.apply(service(1, 4));
    engine.apply(Event::ServiceRemoved(name(1)));
    assert!(engine.exceeded(&name(1)).is_empty());
}

#[test]
fn too_many_rows_cost_frontends_and_they_come_back() {
    // Room for 4 frontends with 10 endpoints each.
    let mut engine = engine(Limits { rows_per_service: 4 * 14, ..Limits::default() });
    engine.apply(service(1, 2));
    for (endpoints, expected) in [
        (1, [2, 2, 2, 2]),
        (3, [2, 2, 2, 2]),
        // Four of the first port; the second one's go.
        (10, [1, 1, 1, 1]),
        (20, [1, 1, 0, 0]),
        (60, [0, 0, 0, 0]),
        (10, [1, 1, 1, 1]),
        (2, [2, 2, 2, 2]),
    ] {
        engine.apply(slice(1, endpoints));
        engine.sync().unwrap();
        assert_eq!(served(&engine, 1), expected, "{endpoints} endpoints");
        let rows = engine.ledger().len();
        assert!(rows <= 4 * 14 + 2, "{rows} rows for {endpoints} endpoints");
        let is_over = expected != [2, 2, 2, 2];
        assert_eq!(kinds(engine.exceeded(&name(1))).contains(&"rowsPerService"), is_over);
    }
    // The kernel holds what a fresh start would write.
    let mut fresh = super::tests::engine(engine.restraint.limits);
    fresh.apply(service(1, 2));
    fresh.apply(slice(1, 2));
    fresh.sync().unwrap();
    let rows = |engine: &mut Engine<FakeKernel>| {
        let mut rows: Vec<_> = engine.kernel_mut().read().unwrap().rows().copied().collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(&mut engine), rows(&mut fresh));
}

#[test]
fn beyond_the_chains_that_there_may_be_the_next_smaller_number_serves() {
    let mut engine = engine(Limits { endpoint_counts: 2, ..Limits::default() });
    let used = |engine: &Engine<FakeKernel>, number: u8| {
        let port = &engine.ports_of(&name(number))[0];
        match engine.ledger().desired(&RowKey::Service(port.claimed[0].0)) {
            Some(RowValue::Verdict(Verdict::Goto(chain))) => chain.endpoints().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    for (number, endpoints, expected) in [(1, 3, 3), (2, 7, 7), (3, 5, 3), (4, 2, 1), (5, 7, 7)] {
        engine.apply(service(number, 1));
        engine.apply(slice(number, endpoints));
        engine.sync().unwrap();
        assert_eq!(used(&engine, number), expected, "Service {number}");
        let is_over = u32::from(endpoints) != expected;
        assert_eq!(kinds(engine.exceeded(&name(number))) == ["endpointCounts"], is_over);
    }
    // Its chain is there for others, whose turn comes with the next look at the kernel.
    engine.apply(Event::ServiceRemoved(name(1)));
    engine.apply(Event::ServiceRemoved(name(4)));
    engine.apply(Event::ServiceRemoved(name(2)));
    engine.apply(Event::ServiceRemoved(name(5)));
    engine.distrust();
    engine.sync().unwrap();
    assert_eq!(used(&engine, 3), 5);
    assert!(engine.exceeded(&name(3)).is_empty());
}

#[test]
fn external_ips_can_be_forbidden() {
    let mut flags = Flags::default();
    flags.source.manifests = Some("/nowhere".into());
    flags.source.node_name = Some("n1".to_owned());
    for allowed in [true, false] {
        let gates = BTreeMap::from([("AllowServiceExternalIPs".to_owned(), allowed)]);
        flags.traffic.feature_gates = vec![gates];
        let config = Config::load(&flags).unwrap().config;
        let mut engine = engine(Limits::default()).obeying(&config);
        engine.apply(service(1, 1));
        assert_eq!(served(&engine, 1), [1, 1, usize::from(allowed), 1]);
        let Event::Service(other) = service(2, 1) else { unreachable!() };
        engine.apply(Event::AllServices(vec![other]));
        assert_eq!(served(&engine, 2), [1, 1, usize::from(allowed), 1]);
    }
}
