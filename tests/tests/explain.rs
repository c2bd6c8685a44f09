//! What `explain` says is what happens: every frontend of the example shop, from a pod, from the
//! node and from outside, on each of its nodes in turn, with real packets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use sliceproxy::lab::probe::{Outcome, Vantage};
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::agent::{Agent, WITHOUT_SERVERS, printed};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::shop::{self, Shop};
use sliceproxy_tests::shop_lab::ShopLab;
use sliceproxy_tests::{require_root, wait_for};

/// Connections after which six endpoints have all been seen, but for one run in ten million.
const ENOUGH: usize = 110;
/// What silence is: answers and refusals take a thousandth of it.
const SILENCE: Duration = Duration::from_millis(400);

fn ask(agent: &Agent<'_>, words: &[&str]) -> Value {
    let output = agent.ask(&[words, &["-o", "json"]].concat()).unwrap();
    assert!(output.status.success(), "{words:?}: {}", printed(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every frontend of every Service, as `dump services` names them.
fn frontends(agent: &Agent<'_>) -> BTreeSet<Frontend> {
    let services = ask(agent, &["dump", "services"]);
    let ports = services.as_array().unwrap().iter();
    ports
        .flat_map(|port| port["frontends"].as_array().unwrap())
        .map(|frontend| Frontend {
            address: frontend["address"].as_str().unwrap().parse().unwrap(),
            protocol: match frontend["protocol"].as_str().unwrap() {
                "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                other => panic!("{other}"),
            },
            port: frontend["port"].as_u64().unwrap().try_into().unwrap(),
        })
        .collect()
}

/// The endpoints that the only route may lead to.
fn choices(route: &Value) -> BTreeSet<IpAddr> {
    let choices = route["choices"].as_array().unwrap().iter();
    choices
        .map(|choice| choice["endpoint"].as_str().unwrap().parse::<SocketAddr>().unwrap().ip())
        .collect()
}

struct Check<'a> {
    agent: &'a Agent<'a>,
    pods: BTreeMap<IpAddr, String>,
}

impl Check<'_> {
    /// Asks first and calls then.
    fn run(&self, frontend: Frontend, from: IpAddr, vantage: Vantage<'_>) {
        let target = frontend.to_string();
        let words = ["explain", &target, "--from", &from.to_string()];
        let explanation = ask(self.agent, &words);
        assert!(explanation.get("warnings").is_none(), "{explanation}");
        let explained = &explanation["frontends"][0];
        let route = &explained["routes"][0];
        let what = format!("{target} from {from}: {}", route["summary"]);
        match route["outcome"].as_str().unwrap() {
            "refused" => assert_eq!(vantage.connect(frontend).unwrap(), Outcome::Refused, "{what}"),
            "dropped" => {
                let outcome = vantage.patience(SILENCE).connect(frontend).unwrap();
                assert_eq!(outcome, Outcome::TimedOut, "{what}");
            }
            "translated" => {
                let pods = |addresses: BTreeSet<IpAddr>| -> BTreeSet<String> {
                    addresses.iter().map(|address| self.pods[address].clone()).collect()
                };
                let outcomes = vantage.connect_all(&[frontend; ENOUGH]).unwrap();
                let answered: BTreeSet<String> = outcomes
                    .iter()
                    .map(|outcome| outcome.pod().unwrap_or_else(|| panic!("{what}: {outcome}")))
                    .map(ToOwned::to_owned)
                    .collect();
                let promised = pods(choices(route));
                if explained.get("sessionAffinitySeconds").is_none() {
                    assert_eq!(answered, promised, "{what}");
                    return;
                }
                assert!(answered.is_subset(&promised) && answered.len() == 1, "{what}");
                // From now on the client is remembered, and explain knows.
                let again = &ask(self.agent, &words)["frontends"][0]["routes"][0];
                assert_eq!(pods(choices(again)), answered, "{again}");
            }
            other => panic!("{other}: {what}"),
        }
    }
}

fn explains_as(node: &str, gates: &[&str]) {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, node).unwrap();
    let mut args = lab.agent_args(&shop::path());
    args.extend(gates.iter().map(|gate| format!("--feature-gates={gate}")));
    args.extend(WITHOUT_SERVERS.map(ToOwned::to_owned));
    let agent = Agent::start_in_sync(lab.lab.node(), &args).unwrap();
    let pods = shop.pods().into_iter();
    let pods = pods.flat_map(|pod| pod.addresses.into_iter().map(move |a| (a, pod.name.clone())));
    let check = Check { agent: &agent, pods: pods.collect() };
    let frontends = frontends(&agent);
    assert!(frontends.len() >= 14, "{frontends:?}");
    let node_addresses = lab.lab.node_addresses();
    for frontend in frontends {
        let of_family = |a: &&IpAddr| a.is_ipv4() == frontend.address.is_ipv4();
        let first = |addresses: &[IpAddr]| *addresses.iter().find(of_family).unwrap();
        let caller = lab.caller().unwrap();
        check.run(frontend, first(caller.addresses()), caller.vantage());
        let own = [IpAddr::from(node_addresses.v4), IpAddr::from(node_addresses.v6)];
        check.run(frontend, first(&own), lab.lab.node_vantage());
        let outside = lab.outside().unwrap();
        check.run(frontend, first(outside.addresses()), outside.vantage());
    }
}

#[test]
fn explains_what_happens_on_node_a1() {
    explains_as("node-a1", &[]);
}

#[test]
fn explains_what_happens_on_every_node_with_topology_routing() {
    for node in ["node-a1", "node-a2", "node-b1", "node-c1", "node-d1", "node-d2"] {
        explains_as(node, &["TopologyRouting=true"]);
    }
}

/// Interfaces of pods are called otherwise than configured, another table sees the same packets, and
/// kube-proxy's is there: explain and the log say what is, not what was meant.
#[test]
fn what_the_machine_has_is_told_instead_of_what_was_configured() {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, "node-a1").unwrap();
    let netns = lab.lab.node();
    let nft = Nft::system();
    nft.run(netns, &["add table ip kube-proxy; add chain ip kube-proxy services"]).unwrap();
    let mut args = lab.agent_args(&shop::path());
    let mode = ["--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=cali"];
    args.extend(mode.into_iter().chain(WITHOUT_SERVERS).map(ToOwned::to_owned));
    let agent = Agent::start_in_sync(netns, &args).unwrap();
    for words in [
        ["WARN", "no interface is called like that", "cali*"],
        ["WARN", "ip kube-proxy", "cleanup --kube-proxy"],
    ] {
        wait_for(&format!("a line with {words:?}"), Duration::from_secs(10), || {
            agent
                .log()
                .lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
                .then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", agent.log()));
    }
    let chain = "{ type filter hook forward priority -5; ct state new accept; }";
    nft.run(netns, &[&format!("add table inet other {{ chain f {chain} ; }}")]).unwrap();

    let caller = lab.caller().unwrap();
    let pod = *caller.addresses().iter().find(|address| address.is_ipv4()).unwrap();
    let target = "10.97.65.144:80";
    let explanation = ask(&agent, &["explain", target, "--from", &pod.to_string()]);
    let warnings = explanation["warnings"].to_string();
    assert!(warnings.contains("no interface is called cali*"), "{explanation}");
    let others = &explanation["notFollowed"];
    assert_eq!(others[0], "table inet other, chain f (forward, priority -5)", "{explanation}");
    let route = &explanation["frontends"][0]["routes"][0];
    let from = route["from"].as_str().unwrap();
    assert!(from.contains(&format!("({pod}, over veth")), "{from}");
    let frontend =
        Frontend { address: "10.97.65.144".parse().unwrap(), protocol: Protocol::Tcp, port: 80 };
    let Outcome::Answered { seen_source, .. } = caller.vantage().connect(frontend).unwrap() else {
        panic!("no answer: {explanation}");
    };
    assert_ne!(seen_source, pod, "it is masqueraded");
    assert_eq!(route["choices"][0]["masqueraded"], true, "{explanation}");

    let loopback = ask(&agent, &["explain", target, "--from", "127.0.0.7"]);
    assert_eq!(loopback["frontends"][0]["routes"][0]["from"], "this node (127.0.0.7)");
}
