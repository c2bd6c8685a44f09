//! `data/shop.yaml` as a plain reader sees it: what must answer where, written down a second time
//! and without any code of the agent's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use sliceproxy_dataplane::frontend::{Frontend, Protocol};

use crate::agent::WITHOUT_SERVERS;

/// The example cluster's objects.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/shop.yaml")
}

/// As its node `node-a1` sees them: for any command that takes manifests.
pub fn offline_args() -> Vec<String> {
    ["--manifests", &path().to_string_lossy(), "--node-name", "node-a1"]
        .map(ToOwned::to_owned)
        .into()
}

/// The same for an agent that listens nowhere.
pub fn agent_args() -> Vec<String> {
    offline_args().into_iter().chain(WITHOUT_SERVERS.map(ToOwned::to_owned)).collect()
}

/// The objects of the example cluster, as far as they matter here.
#[derive(Debug)]
pub struct Shop {
    nodes: Vec<NodeObject>,
    services: Vec<ServiceObject>,
    slices: Vec<SliceObject>,
}

/// A port of a cluster IP and who must answer on it.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// Service and port, for messages.
    pub name: String,
    /// What clients connect to.
    pub frontend: Frontend,
    /// The pods that answer, all of them and no other.
    pub pods: BTreeSet<String>,
    /// Whether a client stays with one of them.
    pub sticky: bool,
    /// Whether the Service asks for endpoints on the client's node only.
    pub local: bool,
}

/// A pod, from the slices.
#[derive(Debug, Clone)]
pub struct ShopPod {
    /// Its name; its address if it has none.
    pub name: String,
    /// The node it runs on; `None` for servers outside the cluster.
    pub node: Option<String>,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Its ports.
    pub ports: BTreeSet<(Protocol, u16)>,
}

impl Shop {
    /// Reads [`path`].
    ///
    /// # Errors
    /// When the file is missing or not as expected.
    pub fn read() -> anyhow::Result<Self> {
        let text = fs::read_to_string(path()).context("tests/data/shop.yaml")?;
        let list: List = serde_norway::from_str(&text)?;
        let mut shop = Self { nodes: vec![], services: vec![], slices: vec![] };
        for item in list.items {
            match item {
                Item::Node(node) => shop.nodes.push(node),
                Item::Service(service) => shop.services.push(service),
                Item::EndpointSlice(slice) => shop.slices.push(slice),
            }
        }
        Ok(shop)
    }

    /// The names of its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.metadata.name.as_str())
    }

    /// The addresses of a node.
    pub fn node_addresses(&self, name: &str) -> Vec<IpAddr> {
        let node = self.nodes.iter().find(|node| node.metadata.name == name);
        let addresses = node.into_iter().flat_map(|node| &node.status.addresses);
        addresses.filter_map(|address| address.address.parse().ok()).collect()
    }

    /// All pods there are, ready or not, of headless Services too.
    pub fn pods(&self) -> Vec<ShopPod> {
        let mut pods: BTreeMap<String, ShopPod> = BTreeMap::new();
        for slice in &self.slices {
            for endpoint in slice.endpoints.iter().flatten() {
                let pod = pods.entry(endpoint.pod_name()).or_insert_with(|| ShopPod {
                    name: endpoint.pod_name(),
                    node: endpoint.node_name.clone(),
                    addresses: BTreeSet::new(),
                    ports: BTreeSet::new(),
                });
                pod.addresses.extend(&endpoint.addresses);
                pod.ports.extend(slice.ports.iter().flatten().map(|p| (p.protocol, p.port)));
            }
        }
        pods.into_values().collect()
    }

    /// Every port of every cluster IP, and who answers a client on `node` as kube-proxy would have it.
    ///
    /// # Errors
    /// When the node does not exist.
    pub fn expectations(&self, node: &str) -> anyhow::Result<Vec<Expectation>> {
        self.expect(node, false)
    }

    /// The same with gate `TopologyRouting`: where hints say nothing, the nearest.
    ///
    /// # Errors
    /// When the node does not exist.
    pub fn nearest_expectations(&self, node: &str) -> anyhow::Result<Vec<Expectation>> {
        self.expect(node, true)
    }

    fn expect(&self, node: &str, nearest: bool) -> anyhow::Result<Vec<Expectation>> {
        let found = self.nodes.iter().find(|n| n.metadata.name == node);
        let client = found.with_context(|| format!("no node {node}"))?;
        let mut expectations = Vec::new();
        for service in &self.services {
            for address in service.cluster_ips() {
                for port in service.spec.ports.iter().flatten() {
                    let frontend = Frontend { address, protocol: port.protocol, port: port.port };
                    expectations.push(Expectation {
                        name: format!(
                            "{}:{} on {node}",
                            service.metadata.name,
                            port.name.as_deref().unwrap_or("")
                        ),
                        frontend,
                        pods: self.select(service, port, address, client, nearest),
                        sticky: service.spec.session_affinity.as_deref() == Some("ClientIP"),
                        local: service.spec.is_local(),
                    });
                }
            }
        }
        Ok(expectations)
    }

    fn select(
        &self,
        service: &ServiceObject,
        port: &PortObject,
        address: IpAddr,
        client: &NodeObject,
        nearest: bool,
    ) -> BTreeSet<String> {
        let zone = client.zone();
        let ready: Vec<_> = self
            .slices
            .iter()
            .filter(|slice| {
                slice.service() == Some(&service.metadata.name)
                    && slice.metadata.namespace == service.metadata.namespace
                    && slice.ports.iter().flatten().any(|p| p.name == port.name)
            })
            .flat_map(|slice| slice.endpoints.iter().flatten())
            .filter(|endpoint| {
                endpoint.conditions.ready != Some(false)
                    && endpoint.addresses.iter().all(|a| a.is_ipv4() == address.is_ipv4())
            })
            .collect();
        let node = client.metadata.name.as_str();
        let on_this_node = |e: &&&EndpointObject| e.node_name.as_deref() == Some(node);
        let for_this_zone = |e: &&&EndpointObject| e.zones().any(|hint| hint == zone);
        let names = |endpoints: Vec<&EndpointObject>| {
            endpoints.into_iter().map(EndpointObject::pod_name).collect()
        };
        if service.spec.is_local() {
            return names(ready.iter().filter(on_this_node).copied().collect());
        }
        let hinted = ready.iter().all(|endpoint| endpoint.zones().next().is_some());
        if hinted && ready.iter().any(|endpoint| for_this_zone(&endpoint)) {
            return names(ready.iter().filter(for_this_zone).copied().collect());
        }
        let distance = |endpoint: &&EndpointObject| self.distance(client, endpoint);
        let shortest = ready.iter().map(distance).min().filter(|_| nearest);
        names(ready.into_iter().filter(|e| shortest.is_none_or(|s| distance(e) == s)).collect())
    }

    /// 0 on the same node, 1 in the same zone, 2 in the same region, 3 anywhere. Every node of the
    /// shop has all labels.
    fn distance(&self, client: &NodeObject, endpoint: &EndpointObject) -> u8 {
        let home = endpoint.node_name.as_ref();
        let home = home.and_then(|name| self.nodes.iter().find(|n| n.metadata.name == *name));
        match home {
            Some(home) if home.metadata.name == client.metadata.name => 0,
            Some(home) if home.zone() == client.zone() => 1,
            Some(home) if home.region() == client.region() => 2,
            _ => 3,
        }
    }
}

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
enum Item {
    Node(NodeObject),
    Service(ServiceObject),
    EndpointSlice(SliceObject),
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct NodeObject {
    metadata: Metadata,
    status: NodeStatus,
}

impl NodeObject {
    fn zone(&self) -> &str {
        self.metadata.labels.get("topology.kubernetes.io/zone").map_or("", String::as_str)
    }

    fn region(&self) -> &str {
        self.metadata.labels.get("topology.kubernetes.io/region").map_or("", String::as_str)
    }
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    addresses: Vec<NodeAddress>,
}

#[derive(Debug, Deserialize)]
struct NodeAddress {
    address: String,
}

#[derive(Debug, Deserialize)]
struct ServiceObject {
    metadata: Metadata,
    spec: ServiceSpec,
}

impl ServiceObject {
    /// Empty for headless and `ExternalName` Services, whose list holds `None` or is missing.
    fn cluster_ips(&self) -> Vec<IpAddr> {
        self.spec.cluster_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServiceSpec {
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    ports: Option<Vec<PortObject>>,
    session_affinity: Option<String>,
    internal_traffic_policy: Option<String>,
}

impl ServiceSpec {
    fn is_local(&self) -> bool {
        self.internal_traffic_policy.as_deref() == Some("Local")
    }
}

#[derive(Debug, Deserialize)]
struct PortObject {
    name: Option<String>,
    port: u16,
    protocol: Protocol,
}

#[derive(Debug, Deserialize)]
struct SliceObject {
    metadata: Metadata,
    endpoints: Option<Vec<EndpointObject>>,
    ports: Option<Vec<PortObject>>,
}

impl SliceObject {
    fn service(&self) -> Option<&String> {
        self.metadata.labels.get("kubernetes.io/service-name")
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndpointObject {
    addresses: Vec<IpAddr>,
    conditions: Conditions,
    node_name: Option<String>,
    hints: Option<Hints>,
    target_ref: Option<TargetRef>,
}

impl EndpointObject {
    fn pod_name(&self) -> String {
        match &self.target_ref {
            Some(target) => target.name.clone(),
            None => self.addresses.first().map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn zones(&self) -> impl Iterator<Item = &str> {
        self.hints.iter().flat_map(|hints| &hints.for_zones).map(|zone| zone.name.as_str())
    }
}

#[derive(Debug, Deserialize)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    for_zones: Vec<TargetRef>,
}

#[derive(Debug, Deserialize)]
struct TargetRef {
    name: String,
}
