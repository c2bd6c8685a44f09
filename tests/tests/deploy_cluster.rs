//! `deploy/` against a real API server: it takes all manifests, and the rights in them are enough.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::json;
use sliceproxy::lab::{self, Lab, Netns, NodeAddresses};
use sliceproxy_tests::agent::{Agent, printed};
use sliceproxy_tests::cluster::{self, Cluster, Node, Options, User, service};
use sliceproxy_tests::{require_root, wait_for};

#[path = "deploy/moving.rs"]
mod moving;

const LIMIT: Duration = Duration::from_secs(30);
const CONTROL_PLANE: &str = "192.0.2.10";
/// Kinds of the Prometheus operator, as far as an API server needs them to take any such object.
const OPERATOR: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
   "metadata": {"name": "podmonitors.monitoring.coreos.com", "annotations": {}},
   "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
     "names": {"plural": "podmonitors", "singular": "podmonitor", "kind": "PodMonitor"},
     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
       {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}},
  {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
   "metadata": {"name": "prometheusrules.monitoring.coreos.com", "annotations": {}},
   "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
     "names": {"plural": "prometheusrules", "singular": "prometheusrule", "kind": "PrometheusRule"},
     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
       {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}]}"#;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy")
}

/// A node, and a machine beside it for the control plane.
fn machines() -> Lab {
    require_root();
    let addresses =
        NodeAddresses { v4: "172.18.0.11".parse().unwrap(), v6: "fd00:18::b".parse().unwrap() };
    let mut lab = Lab::new(addresses).unwrap();
    let addresses = vec![ip(CONTROL_PLANE)];
    let pod = lab::Pod { name: "control-plane".into(), addresses, ports: Vec::new() };
    lab.add_pods(&[pod]).unwrap();
    lab
}

fn start(lab: &Lab) -> Cluster {
    start_with(lab, &[])
}

fn start_with(lab: &Lab, controllers: &[&str]) -> Cluster {
    cluster::binaries().unwrap();
    let options = Options {
        addresses: vec![ip(CONTROL_PLANE)],
        audit: true,
        controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
        // As kubeadm sets it: nothing that programs a node could run without.
        api_server_flags: vec!["--allow-privileged=true".to_owned()],
        ..Options::default()
    };
    machine(lab).run(|| Cluster::start(options)).unwrap().unwrap()
}

fn machine(lab: &Lab) -> &Netns {
    lab.machine("control-plane").unwrap().netns()
}

/// Runs a command where the API server is, as its administrator.
fn run(lab: &Lab, cluster: &Cluster, program: &Path, arguments: &[&str]) -> Output {
    let kubeconfig = cluster.kubeconfig(&User::admin()).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    machine(lab).run(|| command.output()).unwrap().unwrap()
}

fn kubectl(lab: &Lab, cluster: &Cluster, arguments: &[&str]) -> String {
    let output = run(lab, cluster, Path::new("kubectl"), arguments);
    assert!(output.status.success(), "kubectl {}: {}", arguments.join(" "), printed(&output));
    printed(&output)
}

/// Applies one of ours and returns what kubectl says.
fn apply(lab: &Lab, cluster: &Cluster, kustomization: &str, more: &[&str]) -> String {
    let path = folder().join(kustomization);
    let arguments = ["apply", "--server-side", "--validate=strict", "--kustomize"];
    kubectl(lab, cluster, &[&arguments[..], &[path.to_str().unwrap()], more].concat())
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn the_api_server_takes_all_manifests() {
    let lab = machines();
    let cluster = start(&lab);
    cluster.api().unwrap().add_namespace("sliceproxy").unwrap();
    let operator = cluster.folder().join("operator.json");
    fs::write(&operator, OPERATOR).unwrap();
    kubectl(&lab, &cluster, &["apply", "--filename", operator.to_str().unwrap()]);
    let established = ["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"];
    kubectl(&lab, &cluster, &established);
    for kustomization in [
        "base",
        "overlays/topology",
        "overlays/own-namespace",
        "overlays/monitoring",
        "overlays/moving",
    ] {
        let text = apply(&lab, &cluster, kustomization, &["--dry-run=server"]);
        assert!(text.contains("daemonset.apps/sliceproxy serverside-applied"), "{text}");
        assert!(!text.to_lowercase().contains("warning"), "{text}");
    }
}

/// kubeadm's, as far as `deploy/migrate` reads them.
fn add_kube_proxy(cluster: &Cluster) {
    let api = cluster.api().unwrap();
    let metadata = json!({"name": "kube-proxy", "namespace": "kube-system"});
    let config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"config.conf": config, "kubeconfig.conf": "apiVersion: v1\nkind: Config\n"},
    });
    let labels = json!({"k8s-app": "kube-proxy"});
    let container = json!({"name": "kube-proxy", "image": "example/kube-proxy:1"});
    let daemon_set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
    });
    for (collection, object) in [
        ("/api/v1/namespaces/kube-system/configmaps", config_map),
        ("/apis/apps/v1/namespaces/kube-system/daemonsets", daemon_set),
    ] {
        api.post(collection, &object).unwrap();
    }
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn moving_is_planned_with_the_configuration_of_kube_proxy() {
    let lab = machines();
    let cluster = start(&lab);
    let migrate = folder().join("migrate");
    let output = run(&lab, &cluster, &migrate, &["to-sliceproxy", "--node", "node-1"]);
    assert!(!output.status.success());
    assert!(printed(&output).contains("no DaemonSet kube-proxy"), "{}", printed(&output));

    add_kube_proxy(&cluster);
    let output = run(&lab, &cluster, &migrate, &["to-sliceproxy", "--node", "node-1"]);
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    for part in [
        "daemonset.apps/sliceproxy created (server dry run)",
        "label node node-1 sliceproxy.io/proxy=sliceproxy",
        "Nothing was changed",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let sliceproxy = "/apis/apps/v1/namespaces/kube-system/daemonsets/sliceproxy";
    assert!(cluster.api().unwrap().find(sliceproxy).unwrap().is_none());
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn the_rights_are_enough_and_those_to_read_are_all_used() {
    let lab = machines();
    let cluster = start(&lab);
    let api = cluster.api().unwrap();
    // The API server makes it soon after its start.
    apply(&lab, &cluster, "base", &[]);
    let node = Node {
        name: "node-1".to_owned(),
        zone: "eu-1a".to_owned(),
        region: "eu-1".to_owned(),
        pod_cidrs: vec!["10.244.1.0/24".to_owned()],
        addresses: vec![ip("172.18.0.11")],
    };
    api.add_node(&node).unwrap();
    api.add_namespace("shop").unwrap();
    api.apply(&service("shop", "web", &json!({"ports": [{"port": 80}]}))).unwrap();

    let token = api.service_account_token("kube-system", "sliceproxy", 600).unwrap();
    let kubeconfig = cluster.kubeconfig_with("sliceproxy", &cluster.server(), &token).unwrap();
    let arguments = ["--node-name", "node-1", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let agent = Agent::start_in_sync(lab.node(), &arguments).unwrap();

    let granted =
        ["endpointslices.discovery.k8s.io", "nodes", "servicecidrs.networking.k8s.io", "services"];
    // It is in step before it has asked for everything.
    let mut requests = Vec::new();
    wait_for("requests for all that is granted", LIMIT, || {
        requests = cluster.requests("system:serviceaccount:kube-system:sliceproxy").ok()?;
        let asked = |granted: &&str| requests.iter().any(|request| request.resource == *granted);
        granted.iter().all(asked).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}: {requests:#?}"));
    agent.stop().unwrap();
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let asked: BTreeSet<_> = requests.iter().map(|request| request.resource.as_str()).collect();
    let asked: Vec<_> = asked.into_iter().filter(|r| *r != "events.events.k8s.io").collect();
    assert_eq!(asked, granted, "{requests:#?}");
}
