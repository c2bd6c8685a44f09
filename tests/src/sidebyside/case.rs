//! A scenario as data: a Service, its endpoints, what happens to it, and what is sent to it.

use std::net::IpAddr;

use serde_json::{Value, json};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};

use super::plan::{
    NAMESPACE, POD_PORT, SERVICE_PORT, cluster_ip, external_ip, health_port, load_balancer_ip,
    loopback, node_address, node_port, service_path, slice_name, slice_path,
};
use super::probe::{From, Outcome, Probe, To};
use super::slice::{Endpoint, slice_object, slice_ports};

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
    /// Sent after the node has moved to zone-b.
    pub in_zone_b: Vec<Probe>,
    /// Endpoints that controllers make of it, in slices of theirs.
    pub made: usize,
    spec: Value,
    labels: Value,
    ingress: Value,
    slices: Vec<SliceData>,
    single_stack: Option<Family>,
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
            in_zone_b: Vec::new(),
            made: 0,
            spec: json!({}),
            labels: json!({}),
            ingress: Value::Null,
            slices: Vec::new(),
            single_stack: None,
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

    /// With these entries in the load balancer's status, instead of an IP of its own.
    #[must_use]
    pub fn ingress(self, entries: Value) -> Self {
        Self { ingress: entries, ..self }
    }

    /// With a cluster IP of one family only.
    #[must_use]
    pub fn single_stack(mut self, family: Family) -> Self {
        self.single_stack = Some(family);
        self
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

    /// What is sent after the node has moved to zone-b.
    #[must_use]
    pub fn in_zone_b(mut self, from: From, to: To, expected: Outcome) -> Self {
        self.in_zone_b.push(Probe::new(from, to, expected));
        self
    }

    /// Controllers make that many endpoints of its selector, or of its Endpoints object.
    #[must_use]
    pub fn made(self, made: usize) -> Self {
        Self { made, ..self }
    }

    /// With another object of the API.
    #[must_use]
    pub fn object(mut self, object: Value) -> Self {
        self.more.push(object);
        self
    }

    /// Its Service gets a merge patch.
    #[must_use]
    pub fn patch(mut self, change: Value) -> Self {
        self.changes.push(Change::Patch(service_path(self.name), change));
        self
    }

    /// What happens to it next, instead of what was planned.
    #[must_use]
    pub fn patched(self, change: Value) -> Self {
        Self { changes: Vec::new(), ..self }.patch(change)
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

    /// What is sent at any time.
    pub fn all_probes(&self) -> impl Iterator<Item = &Probe> {
        self.probes.iter().chain(&self.then).chain(&self.in_zone_b)
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

    /// One target of its own.
    pub fn target(&self, to: To, family: Family, protocol: Protocol) -> Option<Frontend> {
        let number = self.number;
        let node_port = node_port(number, protocol);
        let node = node_address(family);
        let (address, port) = match to {
            To::ClusterIp => (cluster_ip(number, family), SERVICE_PORT),
            To::Port(port) => (cluster_ip(number, family), port),
            To::NodePort => (node, node_port),
            To::NodePortOfLoadBalancer => (load_balancer_ip(number, family), node_port),
            To::LoadBalancer => (load_balancer_ip(number, family), SERVICE_PORT),
            To::LoadBalancerPort(port) => (load_balancer_ip(number, family), port),
            To::NodePortOfLoopback => (loopback(family), node_port),
            To::HealthCheck => (node, health_port(number)),
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
        let mut ports = json!([
            {"name": "http", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": POD_PORT},
            {"name": "dns", "protocol": "UDP", "port": SERVICE_PORT, "targetPort": POD_PORT},
        ]);
        let mut spec = match self.single_stack {
            None => json!({"ipFamilyPolicy": "RequireDualStack", "clusterIPs": each(cluster_ip)}),
            Some(family) => json!({
                "ipFamilyPolicy": "SingleStack",
                "ipFamilies": [if family == Family::V4 { "IPv4" } else { "IPv6" }],
                "clusterIPs": [cluster_ip(self.number, family)],
            }),
        };
        spec["type"] = "ClusterIP".into();
        for (field, value) in self.spec.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        if spec["externalIPs"] == json!(["external"]) {
            spec["externalIPs"] = json!(each(external_ip));
        }
        let has_node_ports = spec["type"] == "NodePort"
            || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"].is_null();
        if has_node_ports {
            ports[0]["nodePort"] = node_port(self.number, Protocol::Tcp).into();
            ports[1]["nodePort"] = node_port(self.number, Protocol::Udp).into();
        }
        if spec["ports"].is_null() {
            spec["ports"] = ports;
        }
        if spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local" {
            spec["healthCheckNodePort"] = health_port(self.number).into();
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
        if self.ingress.is_array() {
            object["status"] = json!({"loadBalancer": {"ingress": self.ingress}});
        } else if self.ingress.is_object() {
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
