//! Whatever happens in whatever order: the rows that come out of increments are the rows that a fresh
//! start would write, the kernel holds exactly them, and no UDP flow outlives its translation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use proptest::prelude::*;
use sliceproxy::engine::{Engine, FlowCheck, Settings};
use sliceproxy::model::{
    Conditions, Event, Hints, Node, NodeName, ObjectName, Service, ServicePort, Slice,
    SliceEndpoint, SlicePort, TopologyAnnotations, TopologyKey, TrafficPolicy, Zone,
};
use sliceproxy_dataplane::conntrack::Flow;
use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend, Protocol};
use sliceproxy_dataplane::program::ProgramConfig;
use sliceproxy_dataplane::rows::{Row, RowKey, RowValue, SetName, Slot};

const PORTS: [(&str, Protocol, u16); 3] =
    [("http", Protocol::Tcp, 80), ("", Protocol::Tcp, 443), ("dns", Protocol::Udp, 53)];

/// What a test does next.
#[derive(Debug, Clone)]
enum Step {
    Event(Event),
    /// Everything that has been announced is written.
    Sync,
    /// The source starts over and lists everything again.
    Relist,
}

fn settings(topology_routing: bool) -> Settings {
    Settings {
        node: NodeName::new("n1").unwrap(),
        families: Family::ALL.to_vec(),
        program: ProgramConfig::default(),
        topology_routing,
        zone_regions: BTreeMap::new(),
    }
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    prop_oneof![3 => Just(TrafficPolicy::Cluster), 1 => Just(TrafficPolicy::Local)]
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

prop_compose! {
    fn service()(
        number in 0u8..4,
        created in 0i64..3,
        families in prop::sample::subsequence(vec![4, 6], 1..=2),
        external in any::<bool>(),
        balancer in any::<bool>(),
        ranges in any::<bool>(),
        ports in prop::sample::subsequence(vec![0usize, 1, 2], 1..=3),
        node_ports in any::<bool>(),
        policies in (policy(), policy()),
        affinity_timeout in prop::option::weighted(0.3, 1u32..3),
        keys in prop::option::weighted(0.2, prop::sample::subsequence(
            vec![TopologyKey::Hostname, TopologyKey::Zone, TopologyKey::Any], 1..=3)),
    ) -> Service {
        // Two Services share a cluster IP now and then, as after delete and create within one sync.
        let cluster_ips = families.iter().map(|family| match family {
            4 => address(&format!("10.96.0.{}", number % 3)),
            _ => address(&format!("fd00:96::{}", number % 3)),
        }).collect();
        let port = |index: usize| ServicePort {
            name: PORTS[index].0.into(),
            protocol: PORTS[index].1,
            port: PORTS[index].2,
            node_port: node_ports.then(|| 30000 + u16::try_from(index).unwrap()),
        };
        let some = |wanted: bool, list: &[&str]| -> Vec<IpAddr> {
            list.iter().filter(|_| wanted).map(|text| address(text)).collect()
        };
        Service {
            name: ObjectName::new("shop", &format!("s{number}")),
            uid: "".into(),
            created,
            cluster_ips,
            external_ips: some(external, &["192.0.2.1", "10.96.0.1"]),
            load_balancer_ips: some(balancer, &["192.0.2.2", "2001:db8::2"]),
            source_ranges: if ranges { vec!["203.0.113.0/24".parse().unwrap()] } else { vec![] },
            ports: ports.into_iter().map(port).collect(),
            internal_policy: policies.0,
            external_policy: policies.1,
            affinity_timeout,
            health_check_node_port: None,
            topology: TopologyAnnotations { keys, min_endpoints: None, ignored: None },
        }
    }
}

prop_compose! {
    fn endpoint()(
        number in 1u8..7,
        ready in prop::bool::weighted(0.7),
        serving in any::<bool>(),
        terminating in prop::bool::weighted(0.3),
        node in prop::option::of(prop::sample::select(vec!["n1", "n2"])),
        zone in prop::option::of(prop::sample::select(vec!["a", "b"])),
        hint in prop::option::weighted(0.3, prop::sample::select(vec!["a", "b"])),
    ) -> (u8, SliceEndpoint) {
        let hinted = |zone| Hints { nodes: vec![], zones: vec![Zone::new(zone).unwrap()] };
        (number, SliceEndpoint {
            address: address("10.0.0.1"),
            conditions: Conditions { ready, serving, terminating },
            node: node.and_then(NodeName::new),
            zone: zone.and_then(Zone::new),
            region: None,
            hints: hint.map(hinted).map(Arc::new),
        })
    }
}

prop_compose! {
    fn slice()(
        name in 0u8..5,
        service in 0u8..4,
        v6 in prop::bool::weighted(0.3),
        ports in prop::sample::subsequence(vec![0usize, 1, 2], 0..=3),
        endpoints in prop::collection::vec(endpoint(), 0..6),
    ) -> Slice {
        let place = |(number, mut endpoint): (u8, SliceEndpoint)| {
            let network = if v6 { "fd00:244::" } else { "10.244.0." };
            endpoint.address = address(&format!("{network}{number}"));
            endpoint
        };
        Slice {
            name: ObjectName::new("shop", &format!("slice{name}")),
            service: ObjectName::new("shop", &format!("s{service}")),
            family: if v6 { Family::V6 } else { Family::V4 },
            ports: ports.into_iter().map(|index| SlicePort {
                name: PORTS[index].0.into(),
                protocol: PORTS[index].1,
                port: 8000 + PORTS[index].2,
            }).collect(),
            endpoints: endpoints.into_iter().map(place).collect(),
            trigger_time: None,
        }
    }
}

fn node() -> impl Strategy<Value = Event> {
    let zone = prop::option::of(prop::sample::select(vec!["a", "b"]));
    (zone, any::<bool>()).prop_map(|(zone, known)| {
        let node = Node { zone: zone.and_then(Zone::new), ..Node::default() };
        Event::Node(known.then(|| Arc::new(node)))
    })
}

fn removed(kind: &str, number: u8) -> ObjectName {
    ObjectName::new("shop", &format!("{kind}{number}"))
}

fn step() -> impl Strategy<Value = Step> {
    let addresses = vec!["10.1.0.1", "192.0.2.2", "fd00::1"];
    let cidrs = vec!["10.96.0.0/16", "10.96.1.0/24", "fd00:96::/64"];
    let event = prop_oneof![
        6 => service().prop_map(|service| Event::Service(Arc::new(service))),
        1 => (0u8..4).prop_map(|number| Event::ServiceRemoved(removed("s", number))),
        8 => slice().prop_map(|slice| Event::Slice(Arc::new(slice))),
        2 => (0u8..5).prop_map(|number| Event::SliceRemoved(removed("slice", number))),
        1 => node(),
        1 => prop::sample::subsequence(addresses, 0..=3)
            .prop_map(|list| Event::NodePortAddresses(list.into_iter().map(address).collect())),
        1 => prop::sample::subsequence(cidrs, 0..=3)
            .prop_map(|list| Event::ServiceCidrs(list.iter().map(|c| c.parse().unwrap()).collect())),
    ];
    prop_oneof![20 => event.prop_map(Step::Event), 4 => Just(Step::Sync), 1 => Just(Step::Relist)]
}

type SlotSets = BTreeMap<(SetName, Frontend), BTreeSet<Endpoint>>;

/// The rows with the endpoints of a frontend as a set: their order is the only thing that history
/// may decide.
fn without_order(rows: impl IntoIterator<Item = Row>) -> (BTreeSet<Row>, SlotSets) {
    let mut plain = BTreeSet::new();
    let mut slots: BTreeMap<(SetName, Frontend), BTreeMap<Slot, Endpoint>> = BTreeMap::new();
    for row in rows {
        let (RowKey::Backend(frontend, slot) | RowKey::LocalBackend(frontend, slot)) = row.key
        else {
            plain.insert(row);
            continue;
        };
        let RowValue::Endpoint(endpoint) = row.value else { panic!("{row}: not an endpoint") };
        slots.entry((row.key.set(), frontend)).or_default().insert(slot, endpoint);
    }
    let dense = |(key, slots): ((SetName, Frontend), BTreeMap<Slot, Endpoint>)| {
        let count = slots.len();
        assert!(slots.keys().copied().eq(0..u32::try_from(count).unwrap()), "{key:?}: {slots:?}");
        let endpoints: BTreeSet<Endpoint> = slots.into_values().collect();
        assert_eq!(endpoints.len(), count, "{key:?}: an endpoint in two slots");
        (key, endpoints)
    };
    (plain, slots.into_iter().map(dense).collect())
}

/// Listings and single facts that lead to the present state at once.
#[derive(Default)]
struct World {
    services: BTreeMap<ObjectName, Arc<Service>>,
    slices: BTreeMap<ObjectName, Arc<Slice>>,
    facts: BTreeMap<&'static str, Event>,
}

impl World {
    fn note(&mut self, event: &Event) {
        match event.clone() {
            Event::Service(service) => drop(self.services.insert(service.name.clone(), service)),
            Event::ServiceRemoved(name) => drop(self.services.remove(&name)),
            Event::Slice(slice) => drop(self.slices.insert(slice.name.clone(), slice)),
            Event::SliceRemoved(name) => drop(self.slices.remove(&name)),
            // What it said last stays in force.
            Event::Node(None) => {}
            event @ Event::Node(Some(_)) => drop(self.facts.insert("node", event)),
            event @ Event::NodePortAddresses(_) => drop(self.facts.insert("addresses", event)),
            event @ Event::ServiceCidrs(_) => drop(self.facts.insert("cidrs", event)),
            other => panic!("not generated: {other:?}"),
        }
    }

    fn listing(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.facts.values().cloned().collect();
        events.push(Event::AllServices(self.services.values().cloned().collect()));
        events.push(Event::AllSlices(self.slices.values().cloned().collect()));
        events
    }
}

fn fresh(world: &World, kernel: SharedKernel, gate: bool) -> Engine<SharedKernel> {
    let mut engine = Engine::new(settings(gate), kernel).unwrap();
    world.listing().into_iter().for_each(|event| engine.apply(event));
    engine
}

fn rows_of(kernel: &SharedKernel) -> BTreeSet<Row> {
    kernel.lock().rows().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn increments_lead_where_a_fresh_start_leads(
        gate in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let kernel = SharedKernel::new(FakeKernel::new());
        let mut engine = fresh(&World::default(), kernel.clone(), gate);
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Event(event) => {
                    world.note(&event);
                    engine.apply(event);
                    continue;
                }
                Step::Sync => {}
                Step::Relist => world.listing().into_iter().for_each(|event| engine.apply(event)),
            }
            engine.sync().unwrap();
            let desired: BTreeSet<Row> = engine.ledger().desired_rows().collect();
            prop_assert_eq!(rows_of(&kernel), desired);
        }
        engine.sync().unwrap();
        let rows = rows_of(&kernel);
        prop_assert_eq!(&rows, &engine.ledger().desired_rows().collect::<BTreeSet<_>>());

        // A fresh start on an empty kernel writes the same, apart from the order of endpoints.
        let other = SharedKernel::new(FakeKernel::new());
        fresh(&world, other.clone(), gate).sync().unwrap();
        prop_assert_eq!(without_order(rows.clone()), without_order(rows_of(&other)));

        // A restart on this kernel adopts all of it.
        let commits = kernel.lock().commits();
        fresh(&world, kernel.clone(), gate).sync().unwrap();
        prop_assert_eq!(rows_of(&kernel), rows);
        prop_assert_eq!(kernel.lock().commits(), commits);

        // Chains are swept until none is left that nothing points at.
        engine.sweep().unwrap();
        prop_assert_eq!(engine.sweep().unwrap(), 0);
    }

    #[test]
    fn no_udp_flow_outlives_its_translation(
        steps in prop::collection::vec(step(), 1..40),
        while_stopped in prop::collection::vec(step(), 0..4),
    ) {
        let kernel = SharedKernel::new(FakeKernel::new());
        let mut engine = fresh(&World::default(), kernel.clone(), false);
        let mut world = World::default();
        let mut flows = BTreeSet::new();
        for step in steps {
            match step {
                Step::Event(event) => {
                    world.note(&event);
                    engine.apply(event);
                    continue;
                }
                Step::Sync => {}
                Step::Relist => world.listing().into_iter().for_each(|event| engine.apply(event)),
            }
            sweep(&mut flows, &engine.sync().unwrap().flow_checks);
            prop_assert_eq!(outlived(&flows, &engine, &world), None);
            begin(&mut flows, &engine);
        }
        sweep(&mut flows, &engine.sync().unwrap().flow_checks);
        begin(&mut flows, &engine);

        // C60: a restart without changes deletes nothing of what is translated.
        let before = flows.clone();
        let checks = fresh(&world, kernel.clone(), false).sync().unwrap().flow_checks;
        sweep(&mut flows, &checks);
        prop_assert_eq!(&flows, &before);

        // C59: changes meanwhile are seen at the next start.
        for step in while_stopped {
            if let Step::Event(event) = step {
                world.note(&event);
            }
        }
        let mut engine = fresh(&world, kernel, false);
        sweep(&mut flows, &engine.sync().unwrap().flow_checks);
        prop_assert_eq!(outlived(&flows, &engine, &world), None);
    }
}

/// What the agent does with the checks of a commit.
fn sweep(flows: &mut BTreeSet<Flow>, checks: &[FlowCheck]) {
    for check in checks {
        let endpoints = check.endpoints();
        flows.retain(|flow| {
            !check.frontends.contains(&flow.frontend) || endpoints.contains(&flow.answers_from)
        });
    }
}

/// Every UDP frontend that could be, whether it is one or not.
fn possible_frontends() -> impl Iterator<Item = Frontend> {
    let addresses = [
        "10.96.0.0",
        "10.96.0.1",
        "10.96.0.2",
        "fd00:96::0",
        "fd00:96::1",
        "fd00:96::2",
        "192.0.2.1",
        "192.0.2.2",
        "2001:db8::2",
        "10.1.0.1",
        "fd00::1",
    ];
    let at =
        |port| move |text: &str| Frontend { address: address(text), protocol: Protocol::Udp, port };
    addresses.into_iter().map(at(53)).chain(addresses.into_iter().map(at(30_002)))
}

/// A flow begins to every frontend and endpoint in use; and untranslated, where there is no Service.
fn begin(flows: &mut BTreeSet<Flow>, engine: &Engine<SharedKernel>) {
    let client = SocketAddr::from(([203, 0, 113, 1], 4000));
    for frontend in possible_frontends() {
        let mut flow = |answers_from| {
            flows.insert(Flow { client, frontend, answers_from, zone: 0 });
        };
        let Some(owner) = engine.claims().owner(&frontend) else {
            flow(Endpoint { address: frontend.address, port: frontend.port });
            continue;
        };
        let ports = engine.ports_of(&owner.service).iter().filter(|port| port.name == *owner);
        for port in ports.filter(|port| port.pool.family() == frontend.family()) {
            let used = port.pool.cluster().iter().chain(port.pool.local().iter());
            used.for_each(|(_, endpoint)| flow(endpoint));
        }
    }
}

/// A flow to a Service's frontend that none of its endpoints may answer, or that a Service which is
/// gone left behind.
fn outlived(flows: &BTreeSet<Flow>, engine: &Engine<SharedKernel>, world: &World) -> Option<Flow> {
    let may_stay = |flow: &&Flow| {
        let Some(owner) = engine.claims().owner(&flow.frontend) else {
            // Untranslated, which is right then.
            return flow.answers_from.address == flow.frontend.address;
        };
        let of_service = world.slices.values().filter(|slice| slice.service == owner.service);
        let described = of_service.flat_map(|slice| {
            let ports = slice.ports.iter();
            let ports =
                ports.filter(|port| port.name == owner.port && port.protocol == owner.protocol);
            ports.flat_map(|port| slice.targets(port))
        });
        let descriptions = described.filter(|(endpoint, _)| *endpoint == flow.answers_from);
        descriptions
            .into_iter()
            .any(|(_, endpoint)| endpoint.conditions.ready || endpoint.conditions.serving)
    };
    flows.iter().find(|flow| !may_stay(flow)).copied()
}
