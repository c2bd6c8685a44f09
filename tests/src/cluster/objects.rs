//! Nodes, Pods and Services as tests need them, and the part of a kubelet that the slice
//! controllers see: pods that get addresses, become ready, terminate and go.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::api::Api;
use crate::wait_for;

/// A node with a place in the topology.
#[derive(Clone, Debug)]
pub struct Node {
    /// Also its `kubernetes.io/hostname`.
    pub name: String,
    /// `topology.kubernetes.io/zone`; no label when empty.
    pub zone: String,
    /// `topology.kubernetes.io/region`; no label when empty.
    pub region: String,
    /// At most one of each family.
    pub pod_cidrs: Vec<String>,
    /// Its `InternalIP` addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
}

impl Node {
    /// As the API has it.
    pub(crate) fn object(&self) -> Value {
        let mut labels = BTreeMap::from([("kubernetes.io/hostname", self.name.as_str())]);
        labels.insert("topology.kubernetes.io/zone", &self.zone);
        labels.insert("topology.kubernetes.io/region", &self.region);
        labels.retain(|_, value| !value.is_empty());
        let addresses: Vec<_> = self
            .addresses
            .iter()
            .map(|address| json!({"type": "InternalIP", "address": address}))
            .collect();
        // The topology hints of the slice controller count processors of ready nodes.
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"podCIDR": self.pod_cidrs.first(), "podCIDRs": self.pod_cidrs},
            "status": {
                "addresses": addresses,
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }
}

/// A pod on a node, with the addresses that its network would give it.
#[derive(Clone, Debug)]
pub struct Pod {
    /// It must exist.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that runs it.
    pub node: String,
    /// What Services select it by.
    pub labels: BTreeMap<String, String>,
    /// One of each family at most, the primary one first.
    pub ips: Vec<IpAddr>,
    /// Named container ports, for Services whose `targetPort` is a name: name, number, protocol.
    pub ports: Vec<(String, u16, String)>,
}

impl Pod {
    /// A pod with one label, `app=<app>`, and no named ports.
    pub fn new(namespace: &str, name: &str, app: &str, node: &str, ips: &[IpAddr]) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: node.to_owned(),
            labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
            ips: ips.to_vec(),
            ports: Vec::new(),
        }
    }

    /// Where it is in the API.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name)
    }

    fn object(&self) -> Value {
        let ports: Vec<_> = self
            .ports
            .iter()
            .map(|(name, port, protocol)| json!({"name": name, "containerPort": port, "protocol": protocol}))
            .collect();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels},
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": "main", "image": "none", "ports": ports}],
            },
        })
    }

    fn status(&self, ready: bool) -> Value {
        let ips: Vec<_> = self.ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!({"status": {
            "phase": "Running",
            "podIP": self.ips.first(),
            "podIPs": ips,
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        }})
    }
}

/// A Service; `spec` is the API's own.
pub fn service(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

/// An Endpoints object, for a Service without selector; the mirroring controller makes slices of it.
pub fn endpoints(namespace: &str, name: &str, ips: &[IpAddr], port: u16) -> Value {
    let addresses: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace},
        "subsets": [{"addresses": addresses, "ports": [{"port": port}]}],
    })
}

/// What a kubelet and a user do, in the words of tests.
impl Api {
    /// Makes a namespace, if it is not there yet.
    pub fn add_namespace(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.apply(&object).map(drop)
    }

    /// Makes a node that is ready, and takes the taint away that every new node gets.
    pub fn add_node(&self, node: &Node) -> Result<()> {
        self.apply(&node.object())?;
        let untainted = json!({"spec": {"taints": null}});
        self.patch(&format!("/api/v1/nodes/{}", node.name), &untainted).map(drop)
    }

    /// Makes a pod as the scheduler leaves it: on its node, without an address.
    pub fn add_pod(&self, pod: &Pod) -> Result<()> {
        self.create(&pod.object()).map(drop)
    }

    /// Makes a pod that runs and is ready.
    pub fn add_ready_pod(&self, pod: &Pod) -> Result<()> {
        self.add_pod(pod)?;
        self.set_ready(pod, true)
    }

    /// The pod runs, has its addresses, and passes its readiness probe or not.
    pub fn set_ready(&self, pod: &Pod, ready: bool) -> Result<()> {
        self.patch(&format!("{}/status", pod.path()), &pod.status(ready)).map(drop)
    }

    /// Asks for the pod's end. It stays, terminating and as ready as it was, until `remove_pod`
    /// takes the kubelet's last step.
    pub fn terminate_pod(&self, pod: &Pod) -> Result<()> {
        self.delete(&format!("{}?gracePeriodSeconds=3600", pod.path()))
    }

    /// The pod is gone.
    pub fn remove_pod(&self, pod: &Pod) -> Result<()> {
        self.delete(&format!("{}?gracePeriodSeconds=0", pod.path()))
    }

    /// The slices of a Service.
    pub fn slices(&self, namespace: &str, service: &str) -> Result<Vec<Value>> {
        self.list(&format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name%3D{service}"
        ))
    }

    /// Waits until the endpoints of all slices of a Service are as `wanted` says.
    pub fn wait_for_endpoints(
        &self,
        limit: Duration,
        (namespace, service): (&str, &str),
        what: &str,
        wanted: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let what = format!("the slices of {namespace}/{service}: {what}");
        let mut last = Vec::new();
        let mut look = || -> Result<Option<Vec<Value>>> {
            last = endpoints_of(&self.slices(namespace, service)?);
            Ok(wanted(&last).then(|| last.clone()))
        };
        let found = wait_for(&what, limit, || look().transpose()).flatten();
        found.with_context(|| format!("last endpoints: {}", Value::Array(last)))
    }

    /// A token for a service account, as a kubelet gets it for a pod; it lasts `seconds`, at least 600.
    pub fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
        seconds: u32,
    ) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = self.post(&path, &request)?;
        let token = answer["status"]["token"].as_str();
        Ok(token.with_context(|| format!("{path}: no token in {answer}"))?.to_owned())
    }
}

/// The endpoints of several slices, in one list.
pub fn endpoints_of(slices: &[Value]) -> Vec<Value> {
    slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten().cloned().collect()
}

/// How many endpoints have `condition` (`ready`, `serving`, `terminating`).
pub fn count_with(endpoints: &[Value], condition: &str) -> usize {
    endpoints.iter().filter(|endpoint| endpoint["conditions"][condition] == true).count()
}
