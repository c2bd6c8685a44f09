//! A node with an agent, beside a real control plane: what the tests of the agent in a cluster share.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sliceproxy::lab::probe::Outcome;
use sliceproxy::lab::{self, Lab, NodeAddresses};
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::cluster::{self, Api, Cluster, Node, Options, Pod, service};
use sliceproxy_tests::{require_root, wait_for};

pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Answers and refusals take a thousandth of it.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);
pub(crate) const NODE: &str = "node-1";
const CONTROL_PLANE: &str = "192.0.2.10";

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A node with a control plane beside it, a client, and three pods that answer on port 8080: one on
/// the node, two elsewhere.
pub(crate) struct Scene {
    // Its processes end before their namespace goes.
    pub(crate) cluster: Cluster,
    pub(crate) lab: Lab,
}

/// Number and node of each pod.
pub(crate) const PODS: [(u8, &str); 3] = [(1, NODE), (2, "node-2"), (3, "node-2")];

pub(crate) fn pod_ips(number: u8) -> [IpAddr; 2] {
    [ip(&format!("10.244.{number}.1")), ip(&format!("fd00:244:{number}::1"))]
}

pub(crate) fn pod(number: u8) -> Pod {
    let (_, node) = PODS[usize::from(number) - 1];
    let mut pod = Pod::new("shop", &pod_name(number), "web", node, &pod_ips(number));
    pod.ports = vec![("http".to_owned(), 8080, "TCP".to_owned())];
    pod
}

pub(crate) fn pod_name(number: u8) -> String {
    format!("web-{number}")
}

impl Scene {
    pub(crate) fn new(options: Options) -> Self {
        require_root();
        cluster::binaries().unwrap();
        let addresses =
            NodeAddresses { v4: "172.18.0.11".parse().unwrap(), v6: "fd00:18::b".parse().unwrap() };
        let mut lab = Lab::new(addresses).unwrap();
        lab.add_outside("client", &[ip("203.0.113.9"), ip("2001:db8::9")]).unwrap();
        let mut machines = vec![lab::Pod {
            name: "control-plane".into(),
            addresses: vec![ip(CONTROL_PLANE)],
            ports: Vec::new(),
        }];
        machines.extend(PODS.iter().map(|(number, _)| lab::Pod {
            name: pod_name(*number),
            addresses: pod_ips(*number).to_vec(),
            ports: vec![lab::Port::tcp(8080)],
        }));
        machines.push(lab::Pod {
            name: "caller".into(),
            addresses: vec![ip("10.244.1.200"), ip("fd00:244:1::200")],
            ports: Vec::new(),
        });
        lab.add_pods(&machines).unwrap();
        let options = Options { addresses: vec![ip(CONTROL_PLANE)], ..options };
        let machine = lab.machine("control-plane").unwrap();
        let cluster = machine.netns().run(|| Cluster::start(options)).unwrap().unwrap();
        populate(&cluster.api().unwrap());
        Self { cluster, lab }
    }

    pub(crate) fn api(&self) -> Api {
        self.cluster.api().unwrap()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        let token = self.api().service_account_token("kube-system", "sliceproxy", 3600).unwrap();
        self.cluster.kubeconfig_with("sliceproxy", &self.cluster.server(), &token).unwrap()
    }

    pub(crate) fn args(kubeconfig: &Path, more: &[&str]) -> Vec<String> {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let fixed = ["--kubeconfig", kubeconfig, "--node-name", NODE, "--v", "2"];
        fixed.iter().chain(more).map(|text| (*text).to_owned()).collect()
    }

    pub(crate) fn agent(&self, more: &[&str]) -> Agent<'_> {
        let mut all = vec!["--cluster-cidr", "10.244.0.0/16,fd00:244::/32"];
        all.extend(more);
        Agent::start_in_sync(self.lab.node(), &Self::args(&self.kubeconfig(), &all)).unwrap()
    }

    /// As [`wait_for_answers`].
    pub(crate) fn wait_for_answers(&self, what: &str, frontend: Frontend, expected: &[&str]) {
        wait_for_answers(&self.lab, what, frontend, expected);
    }

    /// Applies a Service and gives it as the API server completed it.
    pub(crate) fn add_service(&self, name: &str, spec: &Value) -> Value {
        self.api().apply(&service("shop", name, spec)).unwrap()
    }
}

/// Nodes, the namespace, and the account with exactly the rights of the deployment.
pub(crate) fn populate(api: &Api) {
    api.add_namespace("shop").unwrap();
    for (number, zone) in [(1_u8, "eu-1a"), (2, "eu-1b")] {
        api.add_node(&Node {
            name: format!("node-{number}"),
            zone: zone.to_owned(),
            region: "eu-1".to_owned(),
            pod_cidrs: vec![format!("10.244.{number}.0/24"), format!("fd00:244:{number}::/64")],
            addresses: vec![
                [172, 18, 0, 10 + number].into(),
                ip(&format!("fd00:18::{:x}", 10 + number)),
            ],
        })
        .unwrap();
    }
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base");
    for file in ["service-account.yaml", "cluster-role.yaml"] {
        let text = std::fs::read_to_string(base.join(file)).unwrap();
        // The namespace that kustomization.yaml sets.
        let account = "kind: ServiceAccount\nmetadata:\n";
        let text = text.replace(account, &format!("{account}  namespace: kube-system\n"));
        api.apply_manifests(&text).unwrap();
    }
}

/// Who answers a number of connections at once, seen from a pod.
pub(crate) fn answers(lab: &Lab, frontend: Frontend) -> BTreeSet<String> {
    let caller = lab.machine("caller").unwrap().vantage().patience(PATIENCE);
    let outcomes = caller.connect_all(&[frontend; 40]).unwrap();
    outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Answered { by, .. } => by,
            other => other.to_string(),
        })
        .collect()
}

/// Waits until exactly these answer.
pub(crate) fn wait_for_answers(lab: &Lab, what: &str, frontend: Frontend, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
    let mut last = BTreeSet::new();
    let done = wait_for(what, LIMIT, || {
        last = answers(lab, frontend);
        (last == expected).then_some(())
    });
    assert!(done.is_ok(), "{what}: {frontend}: {last:?} instead of {expected:?}");
}

pub(crate) fn web_spec() -> Value {
    json!({
        "selector": {"app": "web"},
        "ipFamilyPolicy": "RequireDualStack",
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    })
}

/// The frontends on the Service's cluster IPs.
pub(crate) fn cluster_ips(service: &Value, port: u16) -> Vec<Frontend> {
    let ips = service["spec"]["clusterIPs"].as_array().unwrap();
    let at = |address: &Value| Frontend {
        address: ip(address.as_str().unwrap()),
        protocol: Protocol::Tcp,
        port,
    };
    ips.iter().map(at).collect()
}
