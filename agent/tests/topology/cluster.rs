//! A node with one kernel in memory, told of Kubernetes objects, and asked by clients.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use sliceproxy::convert;
use sliceproxy::engine::{Engine, Settings, Synced};
use sliceproxy::model::{
    Event, NodeName, ObjectName, Region, Service, Slice, TrafficPolicy, Zone, ZoneRegions,
};
use sliceproxy::view::{self, TopologyView};
use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::program::{PodTraffic, ProgramConfig};
use sliceproxy_dataplane::walk::{Origin, Outcome, Packet};

const POD_OF_THIS_NODE: &str = "10.244.200.1";
const OUTSIDER: &str = "203.0.113.9";
pub(crate) const CLUSTER_IP: &str = "10.96.0.1";
pub(crate) const EXTERNAL_IP: &str = "192.0.2.10";

/// What a Service says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// `sliceproxy.io/topology-keys`
    pub(crate) keys: Option<&'a str>,
    /// `sliceproxy.io/topology-min-endpoints`
    pub(crate) min: Option<&'a str>,
    /// `internalTrafficPolicy`
    pub(crate) internal: TrafficPolicy,
    /// `externalTrafficPolicy`; without it the Service has no external IP.
    pub(crate) external: Option<TrafficPolicy>,
}

/// A Service that says nothing of topology.
pub(crate) const PLAIN: Wanted<'static> =
    Wanted { keys: None, min: None, internal: TrafficPolicy::Cluster, external: None };

/// Node `n1`, the agent on it, and what the agent was told.
pub(crate) struct Cluster {
    pub(crate) engine: Engine<SharedKernel>,
    pub(crate) kernel: SharedKernel,
}

/// Regions of zones, as pairs.
pub(crate) fn regions(pairs: &[(&str, &str)]) -> ZoneRegions {
    let pair =
        |(zone, region): &(&str, &str)| (Zone::new(zone).unwrap(), Region::new(region).unwrap());
    pairs.iter().map(pair).collect()
}

impl Cluster {
    /// An agent that was told nothing yet.
    pub(crate) fn new(gate: bool, configured: &[(&str, &str)]) -> Self {
        let kernel = SharedKernel::new(FakeKernel::new());
        let settings = Settings {
            node: NodeName::new("n1").unwrap(),
            families: Family::ALL.to_vec(),
            program: ProgramConfig {
                pods_v4: PodTraffic::From("10.244.0.0/16".parse().unwrap()),
                ..ProgramConfig::default()
            },
            topology_routing: gate,
            zone_regions: regions(configured),
        };
        Self { engine: Engine::new(settings, kernel.clone()).unwrap(), kernel }
    }

    /// Tells the agent something and writes what follows from it.
    pub(crate) fn tell(&mut self, event: Event) -> Synced {
        self.engine.apply(event);
        self.engine.sync().unwrap()
    }

    /// Tells the agent everything at once that there is.
    pub(crate) fn list(&mut self, services: Vec<Arc<Service>>, slices: Vec<Arc<Slice>>) {
        self.engine.apply(Event::AllServices(services));
        self.tell(Event::AllSlices(slices));
    }

    /// Who answers a pod of this node that calls the first Service's cluster IP.
    pub(crate) fn inside(&self) -> String {
        self.call(POD_OF_THIS_NODE, CLUSTER_IP)
    }

    /// Who answers a client outside the cluster that calls the first Service's external IP.
    pub(crate) fn outside(&self) -> String {
        self.call(OUTSIDER, EXTERNAL_IP)
    }

    /// The last numbers of the addresses that may answer, or how the call fails.
    pub(crate) fn call(&self, source: &str, destination: &str) -> String {
        let packet = Packet {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: 6,
            port: 80,
            input_interface: None,
            origin: Origin::Elsewhere,
        };
        match self.kernel.lock().walk(&packet).outcome {
            Outcome::Translated { choices, lost: 0, .. } => {
                let endpoints: BTreeSet<u8> =
                    choices.iter().map(|choice| last_byte(choice.endpoint.address)).collect();
                assert_eq!(endpoints.len(), choices.len(), "an endpoint has two slots");
                assert!(choices.windows(2).all(|pair| pair[0].share == pair[1].share));
                let numbers: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
                numbers.join(" ")
            }
            Outcome::Refused { .. } => "refused".to_owned(),
            Outcome::Dropped { .. } => "dropped".to_owned(),
            other => panic!("{packet:?}: {other:?}"),
        }
    }

    /// What `dump topology` says of the Service called `web`.
    pub(crate) fn view(&self) -> TopologyView {
        let mut views = view::topology(&self.engine, &"shop/web".parse().unwrap());
        views.retain(|view| view.family == Family::V4);
        assert_eq!(views.len(), 1);
        views.remove(0)
    }
}

fn last_byte(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    }
}

/// The Service `shop/web`.
pub(crate) fn service(wanted: &Wanted<'_>) -> Arc<Service> {
    named_service("web", CLUSTER_IP, wanted)
}

/// A Service in `shop`.
pub(crate) fn named_service(name: &str, cluster_ip: &str, wanted: &Wanted<'_>) -> Arc<Service> {
    let mut annotations = json!({});
    for (name, value) in [
        ("sliceproxy.io/topology-keys", wanted.keys),
        ("sliceproxy.io/topology-min-endpoints", wanted.min),
    ] {
        if let Some(value) = value {
            annotations[name] = value.into();
        }
    }
    let mut spec = json!({
        "type": "ClusterIP", "clusterIP": cluster_ip, "clusterIPs": [cluster_ip],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "internalTrafficPolicy": policy(wanted.internal),
    });
    if let Some(external) = wanted.external {
        spec["externalIPs"] = json!([EXTERNAL_IP]);
        spec["externalTrafficPolicy"] = policy(external).into();
    }
    let metadata = json!({"namespace": "shop", "name": name, "annotations": annotations});
    let text = json!({"metadata": metadata, "spec": spec}).to_string();
    Arc::new(convert::service(&serde_json::from_str(&text).unwrap()).object.unwrap())
}

fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

/// The only slice of `shop/web`.
pub(crate) fn slice(endpoints: &[&str]) -> Arc<Slice> {
    named_slice("web-1", "web", endpoints)
}

/// A slice of a Service in `shop`, of endpoints in the notation of [`endpoint`].
pub(crate) fn named_slice(name: &str, service: &str, endpoints: &[&str]) -> Arc<Slice> {
    let endpoints: Vec<Value> = endpoints.iter().map(|text| endpoint(text, "10.244.0.")).collect();
    slice_object(name, service, "IPv4", &endpoints)
}

/// A slice of `shop/web` with IPv6 addresses.
pub(crate) fn v6_slice(endpoints: &[&str]) -> Arc<Slice> {
    let endpoints: Vec<Value> = endpoints.iter().map(|text| endpoint(text, "fd00:244::")).collect();
    slice_object("web-6", "web", "IPv6", &endpoints)
}

fn slice_object(name: &str, service: &str, family: &str, endpoints: &[Value]) -> Arc<Slice> {
    let text = json!({
        "metadata": {"namespace": "shop", "name": name,
                     "labels": {"kubernetes.io/service-name": service}},
        "addressType": family,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    })
    .to_string();
    let converted = convert::slice(&serde_json::from_str(&text).unwrap());
    assert_eq!(converted.rejections, []);
    Arc::new(converted.object.unwrap())
}

/// An endpoint from `NUMBER[@NODE][/ZONE]` and words: `unready`, `draining` (serves, but is going),
/// `gone` (going, and serves no more), `zones=A,B` and `nodes=A,B` (hints), `old=NODE,ZONE,REGION`
/// (what slices called `deprecatedTopology`).
fn endpoint(text: &str, network: &str) -> Value {
    let mut words = text.split(' ');
    let place = words.next().unwrap();
    let (place, zone) = place.split_once('/').map_or((place, None), |(p, z)| (p, Some(z)));
    let (number, node) = place.split_once('@').map_or((place, None), |(n, node)| (n, Some(node)));
    let mut endpoint = json!({"addresses": [format!("{network}{number}")],
                              "conditions": conditions(true, true, false)});
    if let Some(node) = node {
        endpoint["nodeName"] = node.into();
    }
    if let Some(zone) = zone {
        endpoint["zone"] = zone.into();
    }
    let names =
        |list: &str| -> Vec<Value> { list.split(',').map(|name| json!({"name": name})).collect() };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("unready", _) => endpoint["conditions"] = conditions(false, false, false),
            ("draining", _) => endpoint["conditions"] = conditions(false, true, true),
            ("gone", _) => endpoint["conditions"] = conditions(false, false, true),
            ("zones", list) => endpoint["hints"]["forZones"] = names(list).into(),
            ("nodes", list) => endpoint["hints"]["forNodes"] = names(list).into(),
            ("old", list) => {
                for (label, value) in [
                    "kubernetes.io/hostname",
                    "topology.kubernetes.io/zone",
                    "topology.kubernetes.io/region",
                ]
                .into_iter()
                .zip(list.split(','))
                {
                    endpoint["deprecatedTopology"][label] = value.into();
                }
            }
            _ => panic!("{text}: {word}"),
        }
    }
    endpoint
}

fn conditions(ready: bool, serving: bool, terminating: bool) -> Value {
    json!({"ready": ready, "serving": serving, "terminating": terminating})
}

/// The Node `n1` with these labels; an empty one is there and empty.
pub(crate) fn node(zone: Option<&str>, region: Option<&str>) -> Event {
    let mut labels = json!({"kubernetes.io/hostname": "n1"});
    for (label, value) in
        [("topology.kubernetes.io/zone", zone), ("topology.kubernetes.io/region", region)]
    {
        if let Some(value) = value {
            labels[label] = value.into();
        }
    }
    let text = json!({"metadata": {"name": "n1", "labels": labels}}).to_string();
    let node = convert::node(&serde_json::from_str(&text).unwrap()).object.unwrap();
    Event::Node(Some(Arc::new(node)))
}

/// The name of a slice or a Service.
pub(crate) fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}
