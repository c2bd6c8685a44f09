//! A scenario as data: a Service, its endpoints, and what becomes of connections to it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};

/// Where all Services are.
pub const NAMESPACE: &str = "side";
/// The node that both proxies are on.
pub const NODE: &str = "node-1";
/// Port that every pod answers on, TCP and UDP.
pub const POD_PORT: u16 = 8080;
/// Another one.
pub const OTHER_POD_PORT: u16 = 8081;
/// A Service's TCP and UDP port.
pub const SERVICE_PORT: u16 = 80;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// A pod of this node that is no endpoint.
    Pod,
    /// The node itself.
    Node,
    /// A client outside the cluster.
    Outside,
    /// That endpoint.
    Endpoint(&'static str),
}

/// What it is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The Service's cluster IP.
    ClusterIp,
    /// A port of the cluster IP that the Service does not have.
    UndefinedPort,
    /// The node port on the node's address.
    NodePort,
    /// The node port on the load-balancer IP.
    NodePortOfLoadBalancer,
    /// The load-balancer IP.
    LoadBalancer,
    /// A port of the load-balancer IP that the Service does not have.
    UndefinedPortOfLoadBalancer,
    /// The external IP.
    External,
    /// That port of that address.
    Address(&'static str, u16),
    /// All of these, one after the other.
    Each(&'static [To]),
}

/// Under which address an endpoint sees the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Its own.
    Itself,
    /// The node's: it was masqueraded.
    Node,
    /// Neither.
    Other(IpAddr),
}

/// What becomes of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Each of these answers some of them, and nobody else any.
    Answered(BTreeSet<String>, BTreeSet<Seen>),
    /// One of these answers all of them.
    Sticky(BTreeSet<String>),
    /// Refused at once, by reset or by ICMP.
    Refused,
    /// No answer.
    Dropped,
    /// Anything else; never expected.
    Mixed(String),
}

/// What kube-proxy does instead, and why we do otherwise.
#[derive(Debug, Clone)]
pub struct Difference {
    /// What it does.
    pub kube_proxy: Outcome,
    /// Why it is right not to do that.
    pub reason: &'static str,
}

/// Connections of one kind to one Service, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Who sends.
    pub from: From,
    /// Where to.
    pub to: To,
    /// Each of these.
    pub protocols: Vec<Protocol>,
    /// In each of these.
    pub families: Vec<Family>,
    /// With sliceproxy, and with kube-proxy unless there is a difference.
    pub expected: Outcome,
    /// Deliberate.
    pub difference: Option<Difference>,
}

impl Probe {
    /// In both families, by TCP and UDP.
    pub fn new(from: From, to: To, expected: Outcome) -> Self {
        Self {
            from,
            to,
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            families: Family::ALL.to_vec(),
            expected,
            difference: None,
        }
    }

    /// In one family only.
    #[must_use]
    pub fn family(self, family: Family) -> Self {
        Self { families: vec![family], ..self }
    }

    /// By one protocol only.
    #[must_use]
    pub fn protocol(self, protocol: Protocol) -> Self {
        Self { protocols: vec![protocol], ..self }
    }

    /// What kube-proxy does instead, and why we do otherwise.
    #[must_use]
    pub fn unlike_kube_proxy(self, kube_proxy: Outcome, reason: &'static str) -> Self {
        Self { difference: Some(Difference { kube_proxy, reason }), ..self }
    }
}

/// An endpoint in a slice.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pod: &'static str,
    conditions: Value,
    node: Option<&'static str>,
    hints: Value,
}

/// Pods: name, node, and the last bytes of their addresses.
pub const PODS: [(&str, &str, u8, u8); 4] = [
    ("near-1", NODE, 1, 1),
    ("near-2", NODE, 1, 2),
    ("far-1", "node-2", 2, 1),
    ("far-2", "node-3", 3, 1),
];

/// The nodes and their zones.
pub const NODES: [(&str, &str); 3] = [(NODE, "zone-a"), ("node-2", "zone-a"), ("node-3", "zone-b")];

/// Address of a pod by node and place.
pub fn pod_address(node: u8, place: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 244, node, place).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x244, node.into(), 0, 0, 0, 0, place.into()).into(),
    }
}

impl Endpoint {
    /// That pod, ready.
    pub fn new(pod: &'static str) -> Self {
        let node = PODS.iter().find(|(name, ..)| *name == pod).map(|(_, node, ..)| *node);
        Self { pod, conditions: json!({"ready": true}), node, hints: Value::Null }
    }

    /// With these conditions.
    #[must_use]
    pub fn conditions(self, ready: bool, serving: bool, terminating: bool) -> Self {
        let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
        Self { conditions, ..self }
    }

    /// Not ready, and nothing else said.
    #[must_use]
    pub fn unready(self) -> Self {
        self.conditions(false, false, false)
    }

    /// Terminating, and still serving.
    #[must_use]
    pub fn terminating(self) -> Self {
        self.conditions(false, true, true)
    }

    /// The slice does not say on which node it is.
    #[must_use]
    pub fn nowhere(self) -> Self {
        Self { node: None, ..self }
    }

    /// Meant for these zones.
    #[must_use]
    pub fn for_zones(mut self, zones: &[&str]) -> Self {
        let zones: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
        self.hints["forZones"] = zones.into();
        self
    }

    /// Meant for these nodes.
    #[must_use]
    pub fn for_nodes(mut self, nodes: &[&str]) -> Self {
        let nodes: Vec<_> = nodes.iter().map(|node| json!({"name": node})).collect();
        self.hints["forNodes"] = nodes.into();
        self
    }

    fn object(&self, family: Family) -> Value {
        let place = PODS.iter().find(|(name, ..)| *name == self.pod);
        let address = place.map(|(.., node, place)| pod_address(*node, *place, family));
        let zone = NODES.iter().find(|(node, _)| Some(*node) == self.node).map(|(_, zone)| *zone);
        let mut object = json!({"addresses": [address], "conditions": self.conditions});
        if let Some(node) = self.node {
            object["nodeName"] = node.into();
            object["zone"] = zone.into();
        }
        if !self.hints.is_null() {
            object["hints"] = self.hints.clone();
        }
        object
    }
}

/// A Service with its endpoints, and what is sent to it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The Service's name, and what is special about it.
    pub name: &'static str,
    /// Sent at first.
    pub probes: Vec<Probe>,
    /// Other objects at the same time.
    pub more: Vec<Value>,
    /// What happens to it then.
    pub changes: Vec<Change>,
    /// Sent after the changes.
    pub then: Vec<Probe>,
    spec: Value,
    labels: Value,
    ingress: Value,
    slices: Vec<SliceData>,
    number: u8,
}

#[derive(Debug, Clone)]
struct SliceData {
    families: Vec<Family>,
    endpoints: Vec<Endpoint>,
    ports: Value,
}

/// A change of the API's objects.
#[derive(Debug, Clone)]
pub enum Change {
    /// Applied as the other objects are.
    Apply(Value),
    /// A merge patch of the object at that path.
    Patch(String, Value),
    /// The object at that path is deleted.
    Delete(String),
}

impl Case {
    /// A Service with a cluster IP of each family, and a TCP and a UDP port of the same number.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            probes: Vec::new(),
            more: Vec::new(),
            changes: Vec::new(),
            then: Vec::new(),
            spec: json!({}),
            labels: json!({}),
            ingress: Value::Null,
            slices: Vec::new(),
            number: 0,
        }
    }

    /// Its number among all cases, of which its addresses are made.
    #[must_use]
    pub fn numbered(self, number: u8) -> Self {
        Self { number, ..self }
    }

    /// Type NodePort.
    #[must_use]
    pub fn node_port(self) -> Self {
        self.spec("type", "NodePort")
    }

    /// Type LoadBalancer, with an IP of each family.
    #[must_use]
    pub fn load_balancer(self) -> Self {
        Self { ingress: json!({}), ..self }.spec("type", "LoadBalancer")
    }

    /// As [`Case::load_balancer`], with more in each entry of the status.
    #[must_use]
    pub fn load_balancer_with(self, more: Value) -> Self {
        Self { ingress: more, ..self }.spec("type", "LoadBalancer")
    }

    /// With an external IP of each family.
    #[must_use]
    pub fn external(self) -> Self {
        self.spec("externalIPs", json!(["external"]))
    }

    /// With a field of the spec.
    #[must_use]
    pub fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.spec[field] = value.into();
        self
    }

    /// With a label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels[name] = value.into();
        self
    }

    /// With one slice of each family that lists these.
    #[must_use]
    pub fn endpoints(self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        self.slice(&Family::ALL, endpoints, &slice_ports("http", "dns", POD_PORT))
    }

    /// With one more slice of these families.
    #[must_use]
    pub fn slice(
        mut self,
        families: &[Family],
        endpoints: impl IntoIterator<Item = Endpoint>,
        ports: &Value,
    ) -> Self {
        let endpoints = endpoints.into_iter().collect();
        self.slices.push(SliceData {
            families: families.to_vec(),
            endpoints,
            ports: ports.clone(),
        });
        self
    }

    /// What is sent at first.
    #[must_use]
    pub fn probe(mut self, from: From, to: To, expected: Outcome) -> Self {
        self.probes.push(Probe::new(from, to, expected));
        self
    }

    /// The same, with more to say.
    #[must_use]
    pub fn probe_as(mut self, probe: Probe) -> Self {
        self.probes.push(probe);
        self
    }

    /// What is sent after the changes.
    #[must_use]
    pub fn then(mut self, from: From, to: To, expected: Outcome) -> Self {
        self.then.push(Probe::new(from, to, expected));
        self
    }

    /// The same, with more to say.
    #[must_use]
    pub fn then_as(mut self, probe: Probe) -> Self {
        self.then.push(probe);
        self
    }

    /// Its Service gets a merge patch.
    #[must_use]
    pub fn patch(mut self, change: Value) -> Self {
        self.changes.push(Change::Patch(service_path(self.name), change));
        self
    }

    /// Its slices of each family list these instead.
    #[must_use]
    pub fn endpoints_become(mut self, endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        let endpoints: Vec<_> = endpoints.into_iter().collect();
        for family in Family::ALL {
            let objects: Vec<_> = endpoints.iter().map(|e| e.object(family)).collect();
            self.changes.push(Change::Patch(
                slice_path(&slice_name(self.name, 0, family)),
                json!({"endpoints": objects}),
            ));
        }
        self
    }

    /// Any other change.
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Where `probe` goes, once for each of its families and protocols: more than one target at a
    /// time only for [`To::Each`].
    pub fn targets(&self, probe: &Probe) -> Vec<Vec<Frontend>> {
        let mut targets = Vec::new();
        for &family in &probe.families {
            for &protocol in &probe.protocols {
                let each = if let To::Each(each) = probe.to { each } else { &[probe.to] };
                let these: Vec<_> =
                    each.iter().filter_map(|to| self.target(*to, family, protocol)).collect();
                if !these.is_empty() {
                    targets.push(these);
                }
            }
        }
        targets
    }

    fn target(&self, to: To, family: Family, protocol: Protocol) -> Option<Frontend> {
        let number = self.number;
        let node_port = 30_000 + u16::from(number) * 2 + u16::from(protocol == Protocol::Udp);
        let node = node_address(family);
        let (address, port) = match to {
            To::ClusterIp => (cluster_ip(number, family), SERVICE_PORT),
            To::UndefinedPort => (cluster_ip(number, family), 99),
            To::NodePort => (node, node_port),
            To::NodePortOfLoadBalancer => (load_balancer_ip(number, family), node_port),
            To::LoadBalancer => (load_balancer_ip(number, family), SERVICE_PORT),
            To::UndefinedPortOfLoadBalancer => (load_balancer_ip(number, family), 99),
            To::External => (external_ip(number, family), SERVICE_PORT),
            To::Address(text, port) => {
                let address = text.parse().ok().filter(|ip| Family::of(*ip) == family)?;
                (address, port)
            }
            To::Each(_) => return None,
        };
        Some(Frontend { address, protocol, port })
    }

    /// Its objects: Service and slices.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = vec![self.service()];
        for (n, slice) in self.slices.iter().enumerate() {
            for &family in &slice.families {
                let endpoints: Vec<_> = slice.endpoints.iter().map(|e| e.object(family)).collect();
                objects.push(slice_object(
                    &slice_name(self.name, n, family),
                    self.name,
                    family,
                    &endpoints,
                    &slice.ports,
                ));
            }
        }
        objects.extend(self.more.iter().cloned());
        objects
    }

    fn service(&self) -> Value {
        let each = |address: fn(u8, Family) -> IpAddr| {
            Family::ALL.map(|family| address(self.number, family))
        };
        let node_port = 30_000 + u16::from(self.number) * 2;
        let mut ports = json!([
            {"name": "http", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": POD_PORT},
            {"name": "dns", "protocol": "UDP", "port": SERVICE_PORT, "targetPort": POD_PORT},
        ]);
        let mut spec = json!({
            "type": "ClusterIP",
            "ipFamilyPolicy": "RequireDualStack",
            "clusterIPs": each(cluster_ip),
        });
        for (field, value) in self.spec.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        if spec["externalIPs"] == json!(["external"]) {
            spec["externalIPs"] = json!(each(external_ip));
        }
        let has_node_ports = spec["type"] == "NodePort"
            || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"].is_null();
        if has_node_ports {
            ports[0]["nodePort"] = node_port.into();
            ports[1]["nodePort"] = (node_port + 1).into();
        }
        if spec["ports"].is_null() {
            spec["ports"] = ports;
        }
        if spec["clusterIP"].is_null() {
            spec["clusterIP"] = spec["clusterIPs"][0].clone();
        }
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": self.labels},
            "spec": spec,
        });
        if self.ingress.is_object() {
            let entries = each(load_balancer_ip).map(|ip| {
                let mut entry = self.ingress.clone();
                entry["ip"] = json!(ip);
                entry
            });
            object["status"] = json!({"loadBalancer": {"ingress": entries}});
        }
        object
    }
}

/// Ports of a slice: a TCP and a UDP one of the same number.
pub fn slice_ports(tcp: &str, udp: &str, number: u16) -> Value {
    json!([
        {"name": tcp, "protocol": "TCP", "port": number},
        {"name": udp, "protocol": "UDP", "port": number},
    ])
}

/// An EndpointSlice.
pub fn slice_object(
    name: &str,
    service: &str,
    family: Family,
    endpoints: &[Value],
    ports: &Value,
) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "sidebyside",
            },
        },
        "addressType": if family == Family::V4 { "IPv4" } else { "IPv6" },
        "endpoints": endpoints,
        "ports": ports,
    })
}

/// Name of the slice number `n` of a case.
pub fn slice_name(case: &str, n: usize, family: Family) -> String {
    format!("{case}-{n}-{}", if family == Family::V4 { "v4" } else { "v6" })
}

/// Where a slice is in the API.
pub fn slice_path(name: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{name}")
}

/// Where a Service is in the API.
pub fn service_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/services/{name}")
}

/// Address of the node that both proxies are on.
pub fn node_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(172, 18, 0, 11).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0xb).into(),
    }
}

/// Cluster IP of the case with that number.
pub fn cluster_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 96, 1, number).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 1, number.into()).into(),
    }
}

/// Load-balancer IP of the case with that number.
pub fn load_balancer_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 100, number).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, number.into()).into(),
    }
}

/// External IP of the case with that number.
pub fn external_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 101, number).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0x101, 0, 0, 0, 0, number.into()).into(),
    }
}
