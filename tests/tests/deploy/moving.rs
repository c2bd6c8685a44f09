//! `deploy/migrate --apply` with real DaemonSets: there, back, and interrupted on the way. The test is
//! the scheduler and the kubelets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sliceproxy::lab::Lab;
use sliceproxy_tests::agent::printed;
use sliceproxy_tests::cluster::{Api, Cluster, Node, User};
use sliceproxy_tests::wait_for;

use super::{add_kube_proxy, folder, ip, machine, machines, start_with};

const LIMIT: Duration = Duration::from_secs(60);
const PODS: &str = "/api/v1/namespaces/kube-system/pods";
const KUBE_PROXY: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy";
const LABEL: &str = "sliceproxy.io/proxy";
const NODES: [&str; 2] = ["node-1", "node-2"];

/// Where everything that bears our name is.
const COLLECTIONS: [&str; 5] = [
    "/apis/apps/v1/namespaces/kube-system/daemonsets",
    "/api/v1/namespaces/kube-system/configmaps",
    "/api/v1/namespaces/kube-system/serviceaccounts",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];

/// One step of the scheduler and of all kubelets: Pods get the node that their DaemonSet means, run
/// or have run, and go when they are asked to.
fn tend(api: &Api) -> Result<()> {
    for pod in api.list(PODS)? {
        let name = pod["metadata"]["name"].as_str().context("a Pod without a name")?;
        let path = format!("{PODS}/{name}");
        let node = pod.pointer(
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
             /nodeSelectorTerms/0/matchFields/0/values/0",
        );
        if pod["metadata"]["deletionTimestamp"].is_string() {
            api.delete(&format!("{path}?gracePeriodSeconds=0"))?;
        } else if pod["spec"]["nodeName"].is_null() {
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name, "namespace": "kube-system"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            api.post(&format!("{path}/binding"), &binding)?;
        } else if pod["status"]["phase"] == "Pending" {
            let status = if pod["spec"]["restartPolicy"] == "Never" {
                json!({"phase": "Succeeded"})
            } else {
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
            };
            api.patch(&format!("{path}/status"), &json!({"status": status}))?;
        }
    }
    Ok(())
}

/// Does `work` in a cluster that lives.
fn tended<T>(api: &Api, work: impl FnOnce() -> T) -> T {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // A Pod may have gone since it was listed; the next look tells.
                let _ = tend(api);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let _stop = Stop(&over);
        work()
    })
}

/// What a test compares of a cluster: on each node its label and whose Pods it has, and what bears
/// our name.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    nodes: BTreeMap<String, (Option<String>, BTreeSet<String>)>,
    ours: usize,
}

fn seen(api: &Api) -> Seen {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut nodes = BTreeMap::new();
    for node in api.list("/api/v1/nodes").unwrap() {
        let name = text(&node["metadata"]["name"]).unwrap();
        nodes.insert(name, (text(&node["metadata"]["labels"][LABEL]), BTreeSet::new()));
    }
    for pod in api.list(PODS).unwrap() {
        let labels = &pod["metadata"]["labels"];
        let owner = text(&labels["k8s-app"]).or(text(&labels["app.kubernetes.io/name"]));
        let name = owner.or(text(&pod["metadata"]["name"])).unwrap();
        let node = text(&pod["spec"]["nodeName"]).unwrap_or_default();
        nodes.entry(node).or_default().1.insert(name);
    }
    let ours = |path: &&str| {
        let selector = "labelSelector=app.kubernetes.io/name%3Dsliceproxy";
        api.list(&format!("{path}?{selector}")).unwrap().len()
    };
    Seen { nodes, ours: COLLECTIONS.iter().map(ours).sum() }
}

/// Waits until each node has this label and only the Pods of that proxy.
fn wait_for_nodes(api: &Api, wanted: [(Option<&str>, &str); 2], ours: usize) {
    let nodes = NODES.iter().zip(wanted).map(|(node, (label, proxy))| {
        (node.to_string(), (label.map(str::to_owned), BTreeSet::from([proxy.to_owned()])))
    });
    let wanted = Seen { nodes: nodes.collect(), ours };
    let what = || (seen(api) == wanted).then_some(());
    wait_for("nodes to be as wanted", LIMIT, what)
        .unwrap_or_else(|error| panic!("{error}: {:#?} instead of {wanted:#?}", seen(api)));
}

/// Who is where, by identities that change with each replacement.
fn identities(api: &Api) -> BTreeSet<String> {
    let pods = api.list(PODS).unwrap();
    let daemon_sets = api.list("/apis/apps/v1/namespaces/kube-system/daemonsets").unwrap();
    let of = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{} {} {}", metadata["name"], metadata["uid"], metadata["generation"])
    };
    pods.iter().chain(&daemon_sets).map(of).collect()
}

struct Migration<'a> {
    lab: &'a Lab,
    cluster: &'a Cluster,
}

impl Migration<'_> {
    fn run(&self, arguments: &[&str], interrupt_after: &str) -> Output {
        let kubectl = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kubectl = kubectl.join("tests/deploy/kubectl-without-kubelets");
        let temporary = self.cluster.folder().join("tmp");
        fs::create_dir_all(&temporary).unwrap();
        let mut command = Command::new(folder().join("migrate"));
        command
            .args(arguments)
            .arg("--apply")
            .env("KUBECONFIG", self.cluster.kubeconfig(&User::admin()).unwrap())
            .env("KUBECTL", kubectl)
            .env("INTERRUPT_AFTER", interrupt_after)
            .env("TMPDIR", temporary)
            .stdin(Stdio::null())
            .process_group(0);
        machine(self.lab).run(|| command.output()).unwrap().unwrap()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, "");
        assert!(output.status.success(), "{}", printed(&output));
        printed(&output)
    }

    fn interrupt(&self, arguments: &[&str], after: &str) {
        let output = self.run(arguments, after);
        assert_eq!(output.status.signal(), Some(15), "{after}: {}", printed(&output));
    }
}

fn scene() -> (Lab, Cluster, Api) {
    let lab = machines();
    let cluster = start_with(&lab, &["daemonset-controller"]);
    let api = cluster.api().unwrap();
    for (number, name) in (11..).zip(NODES) {
        let node = Node {
            name: name.to_owned(),
            zone: "eu-1a".to_owned(),
            region: "eu-1".to_owned(),
            pod_cidrs: Vec::new(),
            addresses: vec![ip(&format!("172.18.0.{number}"))],
        };
        api.add_node(&node).unwrap();
        let linux = json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}});
        api.patch(&format!("/api/v1/nodes/{name}"), &linux).unwrap();
    }
    add_kube_proxy(&cluster);
    (lab, cluster, api)
}

const KUBE_PROXYS: (Option<&str>, &str) = (None, "kube-proxy");
const OURS: (Option<&str>, &str) = (Some("sliceproxy"), "sliceproxy");
const INSTALLED: usize = COLLECTIONS.len();

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn nodes_move_one_by_one_and_back() {
    let (lab, cluster, api) = scene();
    let migration = Migration { lab: &lab, cluster: &cluster };
    let template = || api.get(KUBE_PROXY).unwrap()["spec"]["template"].clone();
    tended(&api, || {
        wait_for_nodes(&api, [KUBE_PROXYS, KUBE_PROXYS], 0);
        let before = template();
        migration.succeed(&["to-sliceproxy", "--node", "node-2"]);
        wait_for_nodes(&api, [KUBE_PROXYS, OURS], INSTALLED);
        migration.succeed(&["to-sliceproxy"]);
        wait_for_nodes(&api, [OURS, OURS], INSTALLED);

        // Again: nobody is replaced.
        let all = identities(&api);
        migration.succeed(&["to-sliceproxy"]);
        assert_eq!(identities(&api), all);

        let text = migration.succeed(&["to-kube-proxy", "--node", "node-1"]);
        assert!(text.contains("stays installed for node-2"), "{text}");
        wait_for_nodes(&api, [KUBE_PROXYS, OURS], INSTALLED);
        migration.succeed(&["to-kube-proxy"]);
        wait_for_nodes(&api, [KUBE_PROXYS, KUBE_PROXYS], 0);
        assert_eq!(template(), before);
        let text = migration.succeed(&["to-kube-proxy"]);
        assert!(!text.contains("from sliceproxy"), "{text}");
    });
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn an_interrupted_move_can_be_run_again_or_turned_back() {
    let (lab, cluster, api) = scene();
    let migration = Migration { lab: &lab, cluster: &cluster };
    tended(&api, || {
        wait_for_nodes(&api, [KUBE_PROXYS, KUBE_PROXYS], 0);
        let before = api.get(KUBE_PROXY).unwrap()["spec"]["template"].clone();
        for after in ["patch daemonset kube-proxy", "label node node-1", "create --filename"] {
            migration.interrupt(&["to-sliceproxy"], after);
        }
        migration.succeed(&["to-sliceproxy"]);
        wait_for_nodes(&api, [OURS, OURS], INSTALLED);

        // Its rules are still on the node: that is not forgotten.
        migration.interrupt(&["to-kube-proxy"], "label node node-1");
        let text = migration.succeed(&["to-kube-proxy"]);
        let cleanups = text.matches("/sliceproxy cleanup").count();
        assert_eq!(cleanups, 2, "{text}");
        wait_for_nodes(&api, [KUBE_PROXYS, KUBE_PROXYS], 0);
        assert_eq!(api.get(KUBE_PROXY).unwrap()["spec"]["template"], before);

        // Turned back on the way there, with a Pod left that would remove rules in force.
        migration.interrupt(&["to-sliceproxy"], "create --filename");
        migration.succeed(&["to-kube-proxy"]);
        wait_for_nodes(&api, [KUBE_PROXYS, KUBE_PROXYS], 0);
        migration.interrupt(&["to-kube-proxy"], "delete --kustomize");
        migration.succeed(&["to-kube-proxy"]);
        assert_eq!(api.get(KUBE_PROXY).unwrap()["spec"]["template"], before);
    });
}
