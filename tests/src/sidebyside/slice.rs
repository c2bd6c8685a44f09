//! EndpointSlices as scenarios need them.

use serde_json::{Value, json};
use sliceproxy_dataplane::frontend::Family;

use super::plan::{HOST, NAMESPACE, NODE, NODES, PODS, node_address, pod_address};

/// An endpoint in a slice.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pod: &'static str,
    conditions: Value,
    node: Option<&'static str>,
    hints: Value,
}

impl Endpoint {
    /// That pod, ready.
    pub fn new(pod: &'static str) -> Self {
        let known = PODS.iter().find(|(name, ..)| *name == pod).map(|(_, node, ..)| *node);
        let node = known.or((pod == HOST).then_some(NODE));
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

    /// As an entry of a slice.
    pub fn object(&self, family: Family) -> Value {
        let place = PODS.iter().find(|(name, ..)| *name == self.pod);
        let address = place
            .map_or(node_address(family), |(.., node, place)| pod_address(*node, *place, family));
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

/// Ports of a slice: a TCP and a UDP one of the same number.
pub(super) fn slice_ports(tcp: &str, udp: &str, number: u16) -> Value {
    json!([
        {"name": tcp, "protocol": "TCP", "port": number},
        {"name": udp, "protocol": "UDP", "port": number},
    ])
}

/// An EndpointSlice.
pub(super) fn slice_object(
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
