//! The test cluster itself: what other tests take for granted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sliceproxy::lab::{self, Lab, NodeAddresses};
use sliceproxy_tests::cluster::{
    self, Api, Cluster, KubeProxy, KubeProxyOptions, Node, Options, Pod, Process, Restart, User,
    count_with, endpoints, service, status_of,
};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::{require_root, wait_for};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);
/// Tells the process of `a_test_that_is_killed` what to do; without it, it does nothing.
const KILLED_FOLDER: &str = "SLICEPROXY_KILLED_TEST_FOLDER";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A node, and a machine beside it for the control plane, whose address is 192.0.2.10.
fn node_and_control_plane() -> Lab {
    require_root();
    let addresses =
        NodeAddresses { v4: "172.18.0.11".parse().unwrap(), v6: "fd00:18::b".parse().unwrap() };
    let mut lab = Lab::new(addresses).unwrap();
    lab.add_outside("client", &[ip("203.0.113.9"), ip("2001:db8::9")]).unwrap();
    let addresses = vec![ip("192.0.2.10")];
    let pod = lab::Pod { name: "control-plane".into(), addresses, ports: Vec::new() };
    lab.add_pods(&[pod]).unwrap();
    lab
}

fn start(lab: &Lab, options: Options) -> Cluster {
    cluster::binaries().unwrap();
    let options = Options { addresses: vec![ip("192.0.2.10")], ..options };
    let machine = lab.machine("control-plane").unwrap();
    machine.netns().run(|| Cluster::start(options)).unwrap().unwrap()
}

/// Six nodes in four zones and two regions, and two ready pods of `web` on each.
fn add_shop(api: &Api) -> Vec<Pod> {
    api.add_namespace("shop").unwrap();
    let mut pods = Vec::new();
    for (n, zone) in (1_u8..).zip(["eu-1a", "eu-1a", "eu-1b", "eu-1b", "eu-2a", "eu-2b"]) {
        let node = Node {
            name: format!("node-{n}"),
            zone: zone.to_owned(),
            region: zone[..4].to_owned(),
            pod_cidrs: vec![format!("10.244.{n}.0/24"), format!("fd00:244:{n}::/64")],
            addresses: vec![[172, 18, 0, 10 + n].into(), ip(&format!("fd00:18::{:x}", 10 + n))],
        };
        api.add_node(&node).unwrap();
        for copy in 1..=2 {
            let ips = [ip(&format!("10.244.{n}.{copy}")), ip(&format!("fd00:244:{n}::{copy}"))];
            let name = format!("web-{n}-{copy}");
            let mut pod = Pod::new("shop", &name, "web", &node.name, &ips);
            pod.ports = vec![("http".to_owned(), 8080, "TCP".to_owned())];
            api.add_ready_pod(&pod).unwrap();
            pods.push(pod);
        }
    }
    let spec = json!({
        "selector": {"app": "web"},
        "ipFamilyPolicy": "RequireDualStack",
        "trafficDistribution": "PreferSameZone",
        "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
    });
    api.apply(&service("shop", "web", &spec)).unwrap();
    pods
}

fn all_ready(number: usize) -> impl Fn(&[Value]) -> bool {
    move |endpoints| endpoints.len() == number && count_with(endpoints, "ready") == number
}

/// As [`all_ready`], and each with a hint: the controller gives none before it has seen all nodes.
fn all_ready_and_hinted(number: usize) -> impl Fn(&[Value]) -> bool {
    let ready = all_ready(number);
    move |endpoints| {
        let hinted = |endpoint: &Value| endpoint.pointer("/hints/forZones/0/name").is_some();
        ready(endpoints) && endpoints.iter().all(hinted)
    }
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn the_real_controllers_make_the_slices() {
    let lab = node_and_control_plane();
    let begun = Instant::now();
    let cluster = start(&lab, Options::default());
    println!("cluster ready after {:?}", begun.elapsed());
    let api = cluster.api().unwrap();
    let pods = add_shop(&api);
    let wait = |service: &str, what: &str, wanted: &dyn Fn(&[Value]) -> bool| {
        api.wait_for_endpoints(LIMIT, ("shop", service), what, wanted).unwrap()
    };

    // Twelve pods, once for each family, each with a hint for its own zone.
    let found = wait("web", "24 ready, with hints", &all_ready_and_hinted(24));
    println!("24 endpoints after {:?}", begun.elapsed());
    for endpoint in &found {
        assert_eq!(endpoint["hints"]["forZones"][0]["name"], endpoint["zone"], "{endpoint}");
    }

    api.set_ready(&pods[0], false).unwrap();
    wait("web", "one pod not ready", &|all| count_with(all, "ready") == 22);
    api.terminate_pod(&pods[1]).unwrap();
    wait("web", "one pod terminating", &|all| {
        let count = |condition| count_with(all, condition);
        (count("terminating"), count("serving"), count("ready")) == (2, 22, 20)
    });
    api.remove_pod(&pods[1]).unwrap();
    wait("web", "one pod gone", &|all| all.len() == 22);

    api.apply(&service("shop", "legacy", &json!({"ports": [{"port": 5432}]}))).unwrap();
    api.apply(&endpoints("shop", "legacy", &[ip("10.9.0.1"), ip("10.9.0.2")], 5432)).unwrap();
    wait("legacy", "mirrored", &all_ready(2));
    println!("all after {:?}", begun.elapsed());
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn kube_proxy_programs_the_node_and_its_requests_are_recorded() {
    let lab = node_and_control_plane();
    let nft = Nft::newer().unwrap();
    let cluster = start(&lab, Options { audit: true, ..Options::default() });
    let api = cluster.api().unwrap();
    add_shop(&api);
    let what = "24 ready, with hints";
    api.wait_for_endpoints(LIMIT, ("shop", "web"), what, all_ready_and_hinted(24)).unwrap();

    let begun = Instant::now();
    let mut options = KubeProxyOptions::new("node-1", "10.244.0.0/16,fd00:244::/48");
    options.nft = nft.clone();
    let proxy = lab.node().run(|| KubeProxy::start(&cluster, &options)).unwrap().unwrap();
    let (memory, _) = proxy.process().memory().unwrap();
    println!("kube-proxy has synced after {:?}, {} MB", begun.elapsed(), memory >> 20);
    // Its first sync may run before it knows its own node's zone.
    let mut rules = String::new();
    wait_for("only the endpoints of zone eu-1a, as PreferSameZone has it", LIMIT, || {
        rules = nft.run(lab.node(), &["list", "table", "ip", "kube-proxy"]).ok()?;
        let in_zone = rules.contains("10.244.1.1 . 8080") && rules.contains("10.244.2.1 . 8080");
        (in_zone && !rules.contains("10.244.3.1")).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}:\n{rules}"));
    let syncs = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";
    assert!(proxy.metric(syncs).unwrap().is_some_and(|count| count >= 1.0), "{syncs}");

    let expected =
        ["endpointslices.discovery.k8s.io", "nodes", "servicecidrs.networking.k8s.io", "services"];
    // The server may log a watch after it has answered it.
    let mut requests = Vec::new();
    wait_for("kube-proxy's watches in the audit log", LIMIT, || {
        requests = cluster.requests("system:kube-proxy").ok()?;
        let watches = requests.iter().filter(|request| request.verb == "watch");
        let resources: BTreeSet<_> = watches.map(|request| request.resource.as_str()).collect();
        resources.into_iter().eq(expected).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}: {requests:#?}"));
    let slices = requests.iter().find(|r| r.resource.starts_with("endpointslices")).unwrap();
    let selector = slices.parameter("labelSelector");
    assert_eq!(selector.as_deref(), Some("!service.kubernetes.io/headless"));
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn the_api_server_goes_and_comes_back_in_several_ways() {
    const SERVICES: &str = "/api/v1/services";
    let lab = node_and_control_plane();
    let mut cluster = start(&lab, Options::default());
    let api = cluster.api().unwrap();
    add_shop(&api);
    let version = || {
        let list = api.get(SERVICES).unwrap();
        list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let before = version();

    cluster.stop_api_server();
    assert!(api.get(SERVICES).is_err(), "a stopped server answers");
    cluster.start_api_server().unwrap();
    assert_eq!(api.list(SERVICES).unwrap().len(), 2);

    cluster.restart_api_server(Restart::Compacted).unwrap();
    // A watch that is refused is answered with one event whose object is the Status.
    let watch = format!("{SERVICES}?watch=true&timeoutSeconds=1&resourceVersion={before}");
    let answer = api.get(&watch).unwrap();
    assert_eq!(answer["object"]["code"], 410, "{answer}");

    let frozen = cluster.api_server().unwrap().freeze().unwrap();
    thread::scope(|scope| {
        let asking = scope.spawn(|| api.get(SERVICES));
        let early =
            wait_for("it", Duration::from_millis(300), || asking.is_finished().then_some(()));
        assert!(early.is_err(), "a frozen server answers");
        drop(frozen);
        asking.join().unwrap().unwrap();
    });

    cluster.restart_api_server(Restart::Emptied).unwrap();
    assert!(api.find("/api/v1/namespaces/shop").unwrap().is_none(), "objects survived");
    assert!(version() < before);
    add_shop(&api);
    api.wait_for_endpoints(LIMIT, ("shop", "web"), "24 ready", all_ready(24)).unwrap();
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn rights_are_what_rbac_says() {
    const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: services}
rules: [{apiGroups: [''], resources: [services], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: services}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: services}
subjects:
- {kind: User, name: somebody, apiGroup: rbac.authorization.k8s.io}
- {kind: ServiceAccount, name: agent, namespace: kube-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: kube-system}
";
    const SERVICES: &str = "/api/v1/services";
    let lab = node_and_control_plane();
    let somebody = User::new("somebody");
    let users = vec![somebody.clone()];
    let cluster =
        start(&lab, Options { audit: true, users, controllers: Vec::new(), ..Options::default() });
    let theirs = cluster.api_of(&somebody).unwrap();
    let refused = theirs.list(SERVICES).unwrap_err();
    assert_eq!(status_of(&refused), Some(403), "{refused:#}");

    let api = cluster.api().unwrap();
    api.apply_manifests(RIGHTS).unwrap();
    wait_for("the rights to arrive", LIMIT, || theirs.list(SERVICES).ok()).unwrap();
    let token = api.service_account_token("kube-system", "agent", 600).unwrap();
    let account = cluster.api_with_token(&token).unwrap();
    account.list(SERVICES).unwrap();
    assert_eq!(status_of(&account.list("/api/v1/nodes").unwrap_err()), Some(403));

    let first = cluster.requests("somebody").unwrap().remove(0);
    assert_eq!(
        (first.verb.as_str(), first.resource.as_str(), first.code),
        ("list", "services", 403)
    );
    let theirs = cluster.requests("system:serviceaccount:kube-system:agent").unwrap();
    assert_eq!(theirs.len(), 2, "{theirs:#?}");
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn manifests_of_another_cluster_can_be_applied() {
    let lab = node_and_control_plane();
    let cluster = start(&lab, Options { controllers: Vec::new(), ..Options::default() });
    let api = cluster.api().unwrap();
    api.add_namespace("shop").unwrap();
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/shop.yaml");
    let begun = Instant::now();
    api.apply_manifests(&fs::read_to_string(shop).unwrap()).unwrap();
    println!("applied in {:?}", begun.elapsed());
    assert_eq!(api.list("/api/v1/services").unwrap().len(), 12);
    let node = api.get("/api/v1/nodes/node-a1").unwrap();
    assert_eq!(node["status"]["addresses"].as_array().unwrap().len(), 2, "{node}");

    let folder = cluster.folder().to_owned();
    let process = format!("/proc/{}", cluster.api_server().unwrap().pid());
    drop(cluster);
    assert!(!folder.exists() && !Path::new(&process).exists(), "something is left");
}

/// Not a test: the process that the next one kills.
#[test]
#[ignore = "waits to be killed"]
fn a_test_that_is_killed() {
    let Some(folder) = env::var_os(KILLED_FOLDER) else { return };
    let folder = Path::new(&folder);
    let child = Process::spawn("sleep", Command::new("sleep").arg("600"), folder).unwrap();
    fs::write(folder.join("pid"), child.pid().to_string()).unwrap();
    loop {
        thread::park();
    }
}

#[test]
fn children_end_with_a_test_that_is_killed() {
    let folder = TempDir::new().unwrap().keep();
    let mut test = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_test_that_is_killed", "--ignored"])
        .env(KILLED_FOLDER, &folder)
        .spawn()
        .unwrap();
    let pid: u32 = wait_for("the child to start", LIMIT, || {
        fs::read_to_string(folder.join("pid")).ok()?.parse().ok()
    })
    .unwrap();
    test.kill().unwrap();
    test.wait().unwrap();
    let gone = || !Path::new(&format!("/proc/{pid}")).exists() && !folder.exists();
    wait_for("the child and the folder to be gone", LIMIT, || gone().then_some(())).unwrap();
}
