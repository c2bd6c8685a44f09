//! Gate `TopologyRouting` on, on each of the shop's nodes in turn: the pods that answer are the
//! nearest by an independent reading of the manifests, and those that `explain` names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sliceproxy::lab::probe::Outcome;
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::agent::{Agent, printed};
use sliceproxy_tests::shop::{self, Expectation, Shop};
use sliceproxy_tests::shop_lab::ShopLab;
use sliceproxy_tests::{require_root, wait_for};

/// Connections after which six endpoints have all been seen, but for one run in ten million.
const ENOUGH: usize = 110;
/// What silence is: answers and refusals take a thousandth of it.
const SILENCE: Duration = Duration::from_millis(400);
const SOON: Duration = Duration::from_secs(5);

/// Who answers: names of pods, or one word for how a call fails.
type Answers = BTreeSet<String>;

fn start<'a>(lab: &'a ShopLab, manifests: &std::path::Path) -> Agent<'a> {
    let mut args = lab.agent_args(manifests);
    args.extend(["--feature-gates", "TopologyRouting=true"].map(str::to_owned));
    Agent::start_in_sync(lab.lab.node(), &args).unwrap()
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered { by, .. } => by.clone(),
        Outcome::Refused => "refused".to_owned(),
        Outcome::TimedOut => "dropped".to_owned(),
        other => other.to_string(),
    }
}

/// Who answers a pod; forty pods where each stays with its endpoint.
fn answers(lab: &ShopLab, frontend: Frontend, sticky: bool) -> Answers {
    let caller = lab.caller().unwrap().vantage().patience(SILENCE);
    let first = caller.connect(frontend).unwrap();
    if first.pod().is_none() {
        return [word(&first)].into();
    }
    if !sticky {
        return caller.connect_all(&[frontend; ENOUGH]).unwrap().iter().map(word).collect();
    }
    let callers = lab.callers(frontend.address).unwrap();
    callers.into_iter().map(|caller| word(&caller.connect(frontend).unwrap())).collect()
}

fn expected(expectation: &Expectation) -> Answers {
    match (expectation.pods.is_empty(), expectation.local) {
        (false, _) => expectation.pods.clone(),
        (true, false) => ["refused".to_owned()].into(),
        (true, true) => ["dropped".to_owned()].into(),
    }
}

/// Who answers a pod of this node, as `explain` reads it from the kernel.
fn explained(
    agent: &Agent<'_>,
    names: &BTreeMap<IpAddr, String>,
    lab: &ShopLab,
    frontend: Frontend,
) -> Answers {
    let v4 = frontend.address.is_ipv4();
    let caller = lab.caller().unwrap().addresses().iter().find(|a| a.is_ipv4() == v4);
    let target =
        format!("{}/{}", SocketAddr::new(frontend.address, frontend.port), frontend.protocol);
    let from = caller.unwrap().to_string();
    let output = agent.ask(&["explain", &target, "--from", &from, "-o", "json"]).unwrap();
    assert!(output.status.success(), "{target}: {}", printed(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let routes = json["frontends"][0]["routes"].as_array().unwrap();
    assert_eq!(routes.len(), 1, "{target}: one sender, one route");
    match routes[0]["outcome"].as_str().unwrap() {
        "translated" => {
            let choices = routes[0]["choices"].as_array().unwrap();
            let address = |choice: &Value| {
                let endpoint: SocketAddr = choice["endpoint"].as_str().unwrap().parse().unwrap();
                endpoint.ip()
            };
            choices.iter().map(|choice| names[&address(choice)].clone()).collect()
        }
        other => [other.to_owned()].into(),
    }
}

fn pod_names(shop: &Shop) -> BTreeMap<IpAddr, String> {
    let pods = shop.pods().into_iter();
    pods.flat_map(|pod| pod.addresses.into_iter().map(move |a| (a, pod.name.clone()))).collect()
}

fn answers_as(node: &str) {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, node).unwrap();
    let agent = start(&lab, &shop::path());
    let names = pod_names(&shop);
    let expectations = shop.nearest_expectations(node).unwrap();
    assert_eq!(expectations.len(), 14, "cluster IP ports of the shop, IPv6 included");
    for expectation in &expectations {
        let Expectation { name, frontend, sticky, .. } = expectation;
        // Asked first: of a client that has called a sticky Service its own pod is all there is.
        let explained = explained(&agent, &names, &lab, *frontend);
        assert_eq!(explained, expected(expectation), "{name}: explain");
        assert_eq!(answers(&lab, *frontend, *sticky), explained, "{name}");
    }
}

#[test]
fn the_nearest_pods_answer_on_node_a1() {
    answers_as("node-a1");
}

#[test]
fn the_nearest_pods_answer_on_node_a2() {
    answers_as("node-a2");
}

#[test]
fn the_nearest_pods_answer_on_node_b1() {
    answers_as("node-b1");
}

#[test]
fn the_nearest_pods_answer_on_node_c1() {
    answers_as("node-c1");
}

#[test]
fn the_nearest_pods_answer_on_node_d1() {
    answers_as("node-d1");
}

#[test]
fn the_nearest_pods_answer_on_node_d2() {
    answers_as("node-d2");
}

/// The shop does say something else with the gate on: without that, the tests above show little.
#[test]
fn the_nearest_are_others_than_without_the_gate() {
    let shop = Shop::read().unwrap();
    for node in shop.nodes() {
        let (plain, nearest) =
            (shop.expectations(node).unwrap(), shop.nearest_expectations(node).unwrap());
        let differ = plain.iter().zip(&nearest).filter(|(a, b)| a.pods != b.pods).count();
        assert!(differ >= 5, "{node}: {differ} of {} differ", plain.len());
    }
}

/// A copy of the shop's manifests that the test may change.
struct Manifests {
    folder: tempfile::TempDir,
    shop: serde_norway::Value,
}

impl Manifests {
    fn new() -> Self {
        let shop = serde_norway::from_str(&fs::read_to_string(shop::path()).unwrap()).unwrap();
        let this = Self { folder: tempfile::tempdir().unwrap(), shop };
        this.write();
        this
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.yaml")
    }

    /// Sets a label or an annotation of an object, and replaces the file in one step.
    fn set(&mut self, kind: &str, object: &str, field: &str, key: &str, value: &str) {
        let items = self.shop["items"].as_sequence_mut().unwrap();
        let found = items.iter_mut().find(|o| o["kind"] == kind && o["metadata"]["name"] == object);
        found.unwrap()["metadata"][field][key] = value.into();
        self.write();
    }

    fn write(&self) {
        let next = self.folder.path().join(".next");
        fs::write(&next, serde_norway::to_string(&self.shop).unwrap()).unwrap();
        fs::rename(next, self.path()).unwrap();
    }
}

/// Waits until exactly `pods` answer.
fn wait_for_answers(lab: &ShopLab, frontend: Frontend, pods: &[&str]) {
    let wanted: Answers = pods.iter().map(|&pod| pod.to_owned()).collect();
    let mut last = Answers::new();
    let outcome = wait_for("the right answers", SOON, || {
        last = answers(lab, frontend, false);
        (last == wanted).then_some(())
    });
    assert!(outcome.is_ok(), "{frontend}: {last:?} instead of {wanted:?}");
}

/// The cluster IP's port of a Service of the shop.
fn frontend(shop: &Shop, service: &str) -> Frontend {
    let expectations = shop.expectations("node-a1").unwrap();
    let of_service = |e: &&Expectation| {
        e.name.starts_with(&format!("{service}:"))
            && e.frontend.address.is_ipv4()
            && e.frontend.protocol == Protocol::Tcp
    };
    expectations.iter().find(of_service).unwrap().frontend
}

/// C29, with packets: the node moves to another zone, and traffic follows while the agent runs.
#[test]
fn traffic_follows_the_nodes_zone_label() {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, "node-a1").unwrap();
    let mut manifests = Manifests::new();
    let _agent = start(&lab, &manifests.path());
    let cart = frontend(&shop, "cart");
    let in_zone = |node: &str| -> Vec<String> {
        let expectations = shop.nearest_expectations(node).unwrap();
        let found = expectations.into_iter().find(|e| e.frontend == cart);
        found.unwrap().pods.into_iter().collect()
    };
    // No pod of `cart` is on node-a1; node-c1's zone has one of its own.
    let (before, after) = (in_zone("node-a1"), in_zone("node-c1"));
    assert_ne!(before, after);
    let wait = |pods: &[String]| {
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        wait_for_answers(&lab, cart, &pods);
    };
    wait(&before);
    manifests.set("Node", "node-a1", "labels", "topology.kubernetes.io/zone", "eu-1c");
    wait(&after);
    manifests.set("Node", "node-a1", "labels", "topology.kubernetes.io/zone", "eu-1a");
    wait(&before);
}

/// A Service that would rather have nobody than somebody far away, and one that takes them all.
#[test]
fn a_service_has_its_own_say() {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, "node-a1").unwrap();
    let mut manifests = Manifests::new();
    let agent = start(&lab, &manifests.path());
    let partner = frontend(&shop, "partner");
    let everybody = answers(&lab, partner, false);
    assert_eq!(everybody.len(), 2, "{everybody:?}");
    let keys = "sliceproxy.io/topology-keys";
    manifests.set("Service", "partner", "annotations", keys, "topology.kubernetes.io/region");
    wait_for_answers(&lab, partner, &["refused"]);
    let refusals = lab.caller().unwrap().vantage().repeat(partner, 20).unwrap();
    assert_eq!(refusals, vec![Outcome::Refused; 20]);

    manifests.set("Service", "partner", "annotations", keys, "rack");
    let everybody: Vec<&str> = everybody.iter().map(String::as_str).collect();
    wait_for_answers(&lab, partner, &everybody);
    let complaints =
        agent.log().lines().filter(|line| line.contains("is not a topology key")).count();
    assert_eq!(complaints, 1, "said once:\n{}", agent.log());
}
