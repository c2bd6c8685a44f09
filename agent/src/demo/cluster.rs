//! The demo's cluster: one node of three, a handful of pods in three zones, four Services.
//! Made of the same values that any source delivers, and of namespaces in a [`Lab`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};

use crate::lab::{Lab, LabError, NodeAddresses, Pod, Port};
use crate::model::{
    Conditions, Event, Hints, Node, NodeName, ObjectName, Region, Service, ServiceName,
    ServicePort, Slice, SliceEndpoint, SlicePort, TopologyAnnotations, TopologyKey, Zone,
    ZoneRegions,
};

/// The node whose kernel is programmed.
pub(super) const NODE: &str = "node-a1";
/// The pod that calls the Services.
pub(super) const CLIENT: &str = "client";

const NODE_ADDRESSES: NodeAddresses = NodeAddresses {
    v4: Ipv4Addr::new(172, 18, 0, 11),
    v6: Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0xb),
};

/// A place where pods run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Name of the node.
    pub(super) node: &'static str,
    /// Its zone.
    pub(super) zone: &'static str,
    /// Its region.
    pub(super) region: &'static str,
    /// Third number of its pods' addresses.
    network: u8,
}

/// The three nodes, this one first.
pub(super) const PLACES: [Place; 3] = [
    Place { node: NODE, zone: "eu-1a", region: "eu-1", network: 1 },
    Place { node: "node-b1", zone: "eu-1b", region: "eu-1", network: 2 },
    Place { node: "node-u1", zone: "us-1a", region: "us-1", network: 3 },
];

/// One pod of the demo.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoPod {
    /// Its name; the part before the dash is its Service's.
    pub(super) name: &'static str,
    /// Where it runs.
    pub(super) place: Place,
    /// Last number of its addresses.
    number: u8,
}

impl DemoPod {
    /// Its address in that family.
    pub(super) fn address(&self, family: Family) -> IpAddr {
        let (network, number) = (self.place.network, self.number);
        match family {
            Family::V4 => Ipv4Addr::new(10, 244, network, number).into(),
            Family::V6 => {
                let (network, number) = (u16::from(network), u16::from(number));
                Ipv6Addr::new(0xfd00, 0x244, network, 0, 0, 0, 0, number).into()
            }
        }
    }

    fn service(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(service, _)| service)
    }
}

const fn pod(name: &'static str, place: usize, number: u8) -> DemoPod {
    DemoPod { name, place: PLACES[place], number }
}

/// All pods that serve.
pub(super) const PODS: [DemoPod; 8] = [
    pod("web-a", 0, 10),
    pod("web-b", 1, 10),
    pod("web-u", 2, 10),
    pod("search-a", 0, 20),
    pod("search-b", 1, 20),
    pod("search-u", 2, 20),
    pod("dns-a", 0, 53),
    pod("dns-b", 1, 53),
];

/// One Service of the demo, with a single port.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoService {
    /// Its name.
    pub(super) name: &'static str,
    /// What is special about it, in a few words.
    pub(super) wish: &'static str,
    protocol: Protocol,
    port: u16,
    target_port: u16,
    dual_stack: bool,
    everywhere: bool,
    hinted: bool,
}

const PLAIN: DemoService = DemoService {
    name: "",
    wish: "",
    protocol: Protocol::Tcp,
    port: 80,
    target_port: 8080,
    dual_stack: false,
    everywhere: false,
    hinted: false,
};

/// The Services, in the order of the tables.
pub(super) const SERVICES: [DemoService; 4] = [
    DemoService {
        name: "web",
        wish: "IPv4 and IPv6; spread over all zones",
        dual_stack: true,
        everywhere: true,
        ..PLAIN
    },
    DemoService { name: "search", wish: "stay as near as possible", ..PLAIN },
    DemoService {
        name: "dns",
        wish: "UDP; its slice says which pod is for which zone",
        protocol: Protocol::Udp,
        port: 53,
        target_port: 5353,
        hinted: true,
        ..PLAIN
    },
    DemoService { name: "empty", wish: "has no pods", ..PLAIN },
];

impl DemoService {
    /// The families it is served in.
    pub(super) fn families(&self) -> &'static [Family] {
        if self.dual_stack { &Family::ALL } else { &[Family::V4] }
    }

    /// What clients connect to.
    pub(super) fn frontend(&self, family: Family) -> Frontend {
        let position = SERVICES.iter().position(|service| service.name == self.name);
        let number = u8::try_from(position.unwrap_or_default() + 1).unwrap_or(u8::MAX) * 10;
        let address = match family {
            Family::V4 => Ipv4Addr::new(10, 96, 0, number).into(),
            Family::V6 => Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, u16::from(number)).into(),
        };
        Frontend { address, protocol: self.protocol, port: self.port }
    }

    /// Its name as an object.
    pub(super) fn object_name(&self) -> ServiceName {
        ObjectName::new("demo", self.name)
    }

    fn object(&self) -> Service {
        Service {
            name: self.object_name(),
            uid: "".into(),
            created: 0,
            cluster_ips: self.families().iter().map(|f| self.frontend(*f).address).collect(),
            external_ips: vec![],
            load_balancer_ips: vec![],
            source_ranges: vec![],
            ports: vec![ServicePort {
                name: "".into(),
                protocol: self.protocol,
                port: self.port,
                node_port: None,
            }],
            internal_policy: crate::model::TrafficPolicy::Cluster,
            external_policy: crate::model::TrafficPolicy::Cluster,
            affinity_timeout: None,
            health_check_node_port: None,
            topology: TopologyAnnotations {
                keys: self.everywhere.then(|| vec![TopologyKey::Any]),
                ..TopologyAnnotations::default()
            },
        }
    }

    /// Its slice in that family, in which the pods named in `unready` are not ready.
    pub(super) fn slice(&self, family: Family, unready: &[&str]) -> Slice {
        let pods = PODS.iter().filter(|pod| pod.service() == self.name);
        let endpoints = pods.map(|pod| SliceEndpoint {
            address: pod.address(family),
            conditions: Conditions {
                ready: !unready.contains(&pod.name),
                serving: !unready.contains(&pod.name),
                terminating: false,
            },
            node: NodeName::new(pod.place.node),
            zone: Zone::new(pod.place.zone),
            region: None,
            hints: self.hinted.then(|| Arc::new(hints_of(pod))),
        });
        Slice {
            name: slice_name(self, family),
            service: self.object_name(),
            family,
            ports: vec![SlicePort {
                name: "".into(),
                protocol: self.protocol,
                port: self.target_port,
            }],
            endpoints: endpoints.collect(),
            trigger_time: None,
        }
    }
}

fn slice_name(service: &DemoService, family: Family) -> ObjectName {
    ObjectName::new("demo", &format!("{}-{}", service.name, family.nft_name()))
}

/// Each pod is for its own zone; the farthest zone has none of its own and is given to node-b1's.
fn hints_of(pod: &DemoPod) -> Hints {
    let mut zones = vec![pod.place.zone];
    if pod.place.zone == PLACES[1].zone {
        zones.push(PLACES[2].zone);
    }
    Hints { nodes: vec![], zones: zones.into_iter().filter_map(Zone::new).collect() }
}

/// Everything that the API would say about this cluster.
pub(super) fn events() -> Vec<Event> {
    let regions: ZoneRegions = PLACES
        .iter()
        .filter_map(|place| Some((Zone::new(place.zone)?, Region::new(place.region)?)))
        .collect();
    let here = PLACES[0];
    let node = Node {
        zone: Zone::new(here.zone),
        region: Region::new(here.region),
        addresses: vec![NODE_ADDRESSES.v4.into(), NODE_ADDRESSES.v6.into()],
        eligible: true,
        ..Node::default()
    };
    let slices = SERVICES.iter().filter(|service| service.name != "empty").flat_map(|service| {
        service.families().iter().map(|family| Arc::new(service.slice(*family, &[])))
    });
    vec![
        Event::ZoneRegions(regions),
        Event::Node(Some(Arc::new(node))),
        Event::AllServices(SERVICES.iter().map(|service| Arc::new(service.object())).collect()),
        Event::AllSlices(slices.collect()),
    ]
}

/// The networks of all pods, by which the program recognises them.
pub(super) fn pod_networks() -> [(IpAddr, u8); 2] {
    [
        (Ipv4Addr::new(10, 244, 0, 0).into(), 16),
        (Ipv6Addr::new(0xfd00, 0x244, 0, 0, 0, 0, 0, 0).into(), 32),
    ]
}

/// The namespaces: pods of this node have one each, those of another node share one.
pub(super) fn build_lab() -> Result<Lab, LabError> {
    let mut lab = Lab::new(NODE_ADDRESSES)?;
    lab.add_outside("outside", &[Ipv4Addr::new(203, 0, 113, 9).into()])?;
    let place = PLACES[0];
    let client = DemoPod { name: CLIENT, place, number: 99 };
    lab.add_pods(&[lab_pod(&client)])?;
    let mut elsewhere: BTreeMap<&str, Vec<Pod>> = BTreeMap::new();
    for pod in &PODS {
        if pod.place.node == NODE {
            lab.add_pods(&[lab_pod(pod)])?;
        } else {
            elsewhere.entry(pod.place.node).or_default().push(lab_pod(pod));
        }
    }
    for (node, pods) in elsewhere {
        lab.add_machine(node, &pods)?;
    }
    Ok(lab)
}

fn lab_pod(pod: &DemoPod) -> Pod {
    let service = SERVICES.iter().find(|service| service.name == pod.service());
    Pod {
        name: pod.name.to_owned(),
        addresses: Family::ALL.iter().map(|family| pod.address(*family)).collect(),
        ports: service
            .map(|s| Port { protocol: s.protocol, number: s.target_port })
            .into_iter()
            .collect(),
    }
}
