//! What `deploy/` would do to a cluster, without one: manifests as kustomize renders them, and the
//! script that moves nodes. With a real API server: `deploy_cluster.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};
use sliceproxy::config::FeatureGates;
use sliceproxy::server::metrics::{LocalPolicy, SyncKind};
use sliceproxy::server::{Health, Metrics, Moment};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::rows::SetName;
use sliceproxy_tests::agent::{binary, printed};
use tempfile::TempDir;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy")
}

/// The objects of a base or overlay.
fn rendered(kustomization: &str) -> Vec<Value> {
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(folder().join(kustomization))
        .output()
        .expect("this test needs kubectl");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_norway::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "more than one {kind}");
    object
}

fn pod(objects: &[Value]) -> &Value {
    &only(objects, "DaemonSet")["spec"]["template"]["spec"]
}

fn main_container(objects: &[Value]) -> &Value {
    &pod(objects)["containers"][0]
}

const KUSTOMIZATIONS: [&str; 5] = [
    "base",
    "overlays/topology",
    "overlays/own-namespace",
    "overlays/monitoring",
    "overlays/moving",
];

#[test]
fn only_the_init_container_is_privileged() {
    for kustomization in KUSTOMIZATIONS {
        let objects = rendered(kustomization);
        let main = &main_container(&objects)["securityContext"];
        assert_eq!(main["capabilities"], json!({"drop": ["ALL"], "add": ["NET_ADMIN"]}));
        assert_eq!(main["allowPrivilegeEscalation"], json!(false));
        assert_eq!(main["readOnlyRootFilesystem"], json!(true));
        assert_eq!(main["privileged"], Value::Null);
        let init = &pod(&objects)["initContainers"][0];
        assert_eq!(init["securityContext"]["privileged"], json!(true));
        assert!(init["args"].as_array().unwrap().contains(&json!("--init-only")));
    }
}

#[test]
fn rights_are_those_to_read_what_is_followed_and_to_write_events() {
    let objects = rendered("base");
    let mut rights = BTreeSet::new();
    for rule in only(&objects, "ClusterRole")["rules"].as_array().unwrap() {
        let words = |field: &str| {
            let words = rule[field].as_array().unwrap().iter();
            words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for (group, resource) in words("apiGroups").into_iter().zip(words("resources")) {
            rights.insert((group, resource, words("verbs").join(",")));
        }
    }
    let expected = [
        ("", "nodes", "list,watch"),
        ("", "services", "list,watch"),
        ("discovery.k8s.io", "endpointslices", "list,watch"),
        ("events.k8s.io", "events", "create"),
        ("networking.k8s.io", "servicecidrs", "list,watch"),
    ];
    let expected =
        expected.map(|(group, resource, verbs)| (group.into(), resource.into(), verbs.into()));
    assert_eq!(rights, BTreeSet::from(expected));
}

#[test]
fn the_account_that_is_bound_is_the_one_that_the_pods_have() {
    for kustomization in KUSTOMIZATIONS {
        let objects = rendered(kustomization);
        let account = only(&objects, "ServiceAccount");
        let subject = &only(&objects, "ClusterRoleBinding")["subjects"][0];
        assert_eq!(subject["name"], account["metadata"]["name"], "{kustomization}");
        assert_eq!(subject["namespace"], account["metadata"]["namespace"], "{kustomization}");
        assert_eq!(pod(&objects)["serviceAccountName"], account["metadata"]["name"]);
        let daemon_set = only(&objects, "DaemonSet");
        assert_eq!(daemon_set["metadata"]["namespace"], account["metadata"]["namespace"]);
    }
}

/// What the agent makes of a container's arguments and the mounted configuration.
fn settings(objects: &[Value], container: &Value) -> String {
    let config_map = objects
        .iter()
        .find(|object| object["kind"] == "ConfigMap" && object["data"]["config.yaml"].is_string())
        .unwrap();
    assert_eq!(pod(objects)["volumes"][0]["configMap"]["name"], config_map["metadata"]["name"]);
    let mounted = tempfile::tempdir().unwrap();
    for (name, content) in config_map["data"].as_object().unwrap() {
        fs::write(mounted.path().join(name), content.as_str().unwrap()).unwrap();
    }
    let path = &container["volumeMounts"][0]["mountPath"];
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
        let argument = argument.as_str().unwrap();
        let argument = argument.replace(path.as_str().unwrap(), mounted.path().to_str().unwrap());
        argument.replace("$(NODE_NAME)", "node-a1")
    });
    let output = Command::new(binary().unwrap())
        .args(arguments)
        .args(["--write-config-to", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_agent_takes_its_arguments_and_its_configuration() {
    for kustomization in KUSTOMIZATIONS {
        let objects = rendered(kustomization);
        let text = settings(&objects, main_container(&objects));
        for setting in [
            ("TopologyRouting: true", kustomization == "overlays/topology"),
            ("metricsBindAddress: 0.0.0.0:10249", kustomization == "overlays/monitoring"),
            ("hostnameOverride: node-a1", true),
            ("clusterCIDR: 10.244.0.0/16", true),
            ("kubeconfig.yaml", true),
        ] {
            assert_eq!(
                text.contains(setting.0),
                setting.1,
                "{kustomization}: {} in\n{text}",
                setting.0
            );
        }
        settings(&objects, &pod(&objects)["initContainers"][0]);
    }
}

#[test]
fn probes_and_metrics_are_where_the_agent_serves_them() {
    let objects = rendered("overlays/monitoring");
    let main = main_container(&objects);
    let port = |name: &str| {
        let ports = main["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        port["containerPort"].as_u64().unwrap()
    };
    let text = settings(&objects, main);
    assert!(text.contains(&format!("healthzBindAddress: 0.0.0.0:{}", port("healthz"))), "{text}");
    assert!(text.contains(&format!("metricsBindAddress: 0.0.0.0:{}", port("metrics"))), "{text}");
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(main[probe]["httpGet"], json!({"path": "/livez", "port": "healthz"}));
    }
    let monitor = only(&objects, "PodMonitor");
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], "metrics");
}

/// Names of metrics in a text of queries: ours, kube-proxy's and a process's.
fn metrics_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| {
            ["kubeproxy_", "sliceproxy_", "process_"].iter().any(|p| word.starts_with(p))
        })
        .map(str::to_owned)
        .collect()
}

/// Names that queries may use for the metrics of an agent.
fn metrics_served() -> BTreeSet<String> {
    let health = Arc::new(Health::new(Duration::from_secs(60)));
    health.heard(Moment::now());
    let now = Moment::now();
    let metrics = Metrics::new(health, &FeatureGates::default(), now);
    // A metric with labels is there once it has a value.
    let (family, took) = (Family::V4, Duration::from_millis(1));
    metrics.queued(family, now);
    metrics.synced(family, SyncKind::Partial, took, now);
    metrics.programmed(family, took);
    metrics.no_local_endpoints(LocalPolicy::Internal, family, 1);
    metrics.conntrack_reconciled(family, took, 1);
    metrics.rows(SetName::Services, family, 1);
    metrics.quarantined(family, 1);
    metrics.topology_levels([("zone", 1)]);
    metrics.rejected_parts("Service", 1);
    metrics.limit_hit("rowsPerService");
    metrics.relisted("services");
    let text = metrics.encode();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| line.split_once(' ').unwrap())
        .flat_map(|(name, kind)| {
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
        })
        .collect()
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let objects = rendered("overlays/monitoring");
    let mut queries = String::new();
    for group in only(&objects, "PrometheusRule")["spec"]["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            queries.extend([rule["expr"].as_str().unwrap(), "\n"]);
        }
    }
    let dashboard = objects.iter().find_map(|object| object["data"]["dashboard.json"].as_str());
    let dashboard: Value = serde_json::from_str(dashboard.unwrap()).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.extend([target["expr"].as_str().unwrap(), "\n"]);
        }
    }
    let asked = metrics_in(&queries);
    assert!(asked.len() > 20, "{asked:?}");
    let served = metrics_served();
    let unknown: Vec<_> = asked.difference(&served).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not among {served:#?}");
}

/// A cluster that `deploy/kubectl` plays.
struct Stub {
    state: TempDir,
}

impl Stub {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        for file in ["log", "labelled", "leaving", "affinity", "applied", "created"] {
            fs::write(state.path().join(file), "").unwrap();
        }
        Self { state }
    }

    fn migrate(&self, arguments: &[&str]) -> Output {
        let kubectl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/deploy/kubectl");
        Command::new(folder().join("migrate"))
            .args(arguments)
            .env("KUBECTL", kubectl)
            .env("CLUSTER", self.state.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.migrate(arguments);
        assert!(output.status.success(), "{}", printed(&output));
        printed(&output)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.state.path().join(name)).unwrap()
    }

    /// Changes since the last call.
    fn changes(&self) -> String {
        let log = self.file("log");
        fs::write(self.state.path().join("log"), "").unwrap();
        log
    }
}

#[test]
fn moving_changes_nothing_before_it_is_told_to() {
    let cluster = Stub::new();
    for direction in ["to-sliceproxy", "to-kube-proxy"] {
        let text = cluster.succeed(&[direction]);
        assert!(text.contains("Nothing was changed"), "{text}");
        assert_eq!(cluster.changes(), "");
        assert_eq!(cluster.file("labelled"), "");
    }
}

#[test]
fn nodes_move_there_and_back() {
    let cluster = Stub::new();
    cluster.succeed(&[
        "to-sliceproxy",
        "--node",
        "b",
        "--image",
        "example/sliceproxy:2",
        "--apply",
    ]);
    assert_eq!(cluster.file("labelled"), "b\n");
    assert!(cluster.file("affinity").contains("sliceproxy.io/proxy"));
    let applied = cluster.file("applied");
    for taken_over in ["clusterCIDR: 10.1.0.0/16", "newName: example/sliceproxy", "newTag: \"2\""] {
        assert!(applied.contains(taken_over), "no {taken_over} in\n{applied}");
    }
    let created = cluster.file("created");
    let cleanup: Value = serde_json::from_str(&created).unwrap();
    assert_eq!(cleanup["spec"]["nodeName"], "b");
    assert_eq!(cleanup["spec"]["containers"][0]["image"], "example/kube-proxy:1");
    assert_eq!(cleanup["spec"]["containers"][0]["command"], json!(["kube-proxy", "--cleanup"]));

    cluster.succeed(&["to-sliceproxy", "--apply"]);
    assert_eq!(cluster.file("labelled"), "b\na\n");

    // While one node is left to it, sliceproxy stays.
    let text = cluster.succeed(&["to-kube-proxy", "--node", "b", "--apply"]);
    assert!(text.contains("stays installed for a"), "{text}");
    assert!(!cluster.changes().contains("delete --kustomize"));
    cluster.succeed(&["to-kube-proxy", "--apply"]);
    assert_eq!(cluster.file("labelled"), "");
    assert_eq!(cluster.file("affinity"), "");
    assert!(cluster.changes().contains("delete --kustomize"));
    assert!(cluster.file("created").contains(r#""command": ["/sliceproxy","cleanup"]"#));
}

#[test]
fn moving_twice_is_moving_once() {
    let cluster = Stub::new();
    cluster.succeed(&["to-sliceproxy", "--apply"]);
    cluster.changes();
    cluster.succeed(&["to-sliceproxy", "--apply"]);
    // kube-proxy is restricted already: its Pods are not replaced once more.
    assert!(!cluster.changes().contains("patch daemonset"));
    cluster.succeed(&["to-kube-proxy", "--apply"]);
    cluster.changes();
    let text = cluster.succeed(&["to-kube-proxy", "--apply"]);
    assert!(!text.contains("from sliceproxy to kube-proxy"), "{text}");
}

#[test]
fn a_cluster_that_is_not_as_expected_is_left_alone() {
    let cluster = Stub::new();
    fs::write(cluster.state.path().join("no-kube-proxy"), "").unwrap();
    let output = cluster.migrate(&["to-sliceproxy", "--apply"]);
    assert!(!output.status.success());
    assert!(printed(&output).contains("no DaemonSet kube-proxy"), "{}", printed(&output));
    assert_eq!(cluster.changes(), "");

    let cluster = Stub::new();
    fs::write(cluster.state.path().join("affinity"), r#"{"podAffinity":{}}"#).unwrap();
    let output = cluster.migrate(&["to-sliceproxy", "--apply"]);
    assert!(!output.status.success());
    assert!(printed(&output).contains("affinity of its own"), "{}", printed(&output));
    assert_eq!(cluster.file("labelled"), "");
    for wrong in [&["away"][..], &["to-sliceproxy", "--now"], &["to-sliceproxy", "--node"]] {
        assert!(!cluster.migrate(wrong).status.success(), "{wrong:?}");
    }
}
