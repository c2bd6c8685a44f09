//! The example shop, from its manifests to real connections, with the real binary on a real
//! kernel; each of the shop's nodes in turn.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sliceproxy::lab::Netns;
use sliceproxy::lab::probe::{Connection, Outcome, Vantage};
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::agent::{self, Agent, printed};
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::require_root;
use sliceproxy_tests::shop::{self, Expectation, Shop};
use sliceproxy_tests::shop_lab::ShopLab;

/// Connections after which six endpoints have all been seen, but for one run in ten million.
const ENOUGH: usize = 110;
/// What silence is: answers and refusals take a thousandth of it.
const SILENCE: Duration = Duration::from_millis(400);

fn shop_around(node: &str) -> (Shop, ShopLab) {
    require_root();
    let shop = Shop::read().unwrap();
    let lab = ShopLab::new(&shop, node).unwrap();
    (shop, lab)
}

fn start(lab: &ShopLab) -> Agent<'_> {
    Agent::start_in_sync(lab.lab.node(), &lab.agent_args(&shop::path())).unwrap()
}

fn tcp(address: &str, port: u16) -> Frontend {
    Frontend { address: address.parse().unwrap(), protocol: Protocol::Tcp, port }
}

fn udp(address: &str, port: u16) -> Frontend {
    Frontend { protocol: Protocol::Udp, ..tcp(address, port) }
}

/// What one way of calling sees: who answered, and under which addresses the callers were seen.
fn call(vantage: Vantage<'_>, frontend: Frontend) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let outcomes = vantage.connect_all(&[frontend; ENOUGH]).unwrap();
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for outcome in outcomes {
        let Outcome::Answered { by, seen_source } = outcome else {
            panic!("{frontend}: {outcome}");
        };
        seen.0.insert(by);
        seen.1.insert(seen_source);
    }
    seen
}

/// Checks one cluster IP's port from a pod, from the node itself and from outside.
fn check(lab: &ShopLab, expected: &Expectation) {
    let Expectation { name, frontend, pods, sticky, local } = expected;
    if pods.is_empty() {
        let caller = lab.caller().unwrap().vantage();
        if *local {
            // A Local policy without an endpoint here drops: there may be some elsewhere.
            let outcome = caller.patience(SILENCE).connect(*frontend).unwrap();
            assert_eq!(outcome, Outcome::TimedOut, "{name}");
        } else {
            assert_eq!(caller.connect(*frontend).unwrap(), Outcome::Refused, "{name}");
        }
        return;
    }
    if *sticky {
        check_sticky(lab, expected);
        return;
    }
    let node = lab.lab.node_addresses();
    let node_address: IpAddr =
        if frontend.address.is_ipv4() { node.v4.into() } else { node.v6.into() };
    let first = |addresses: &[IpAddr]| {
        let mut same_family =
            addresses.iter().filter(|a| a.is_ipv4() == frontend.address.is_ipv4());
        *same_family.next().unwrap()
    };
    let caller = lab.caller().unwrap();
    let (by, seen) = call(caller.vantage(), *frontend);
    assert_eq!(by, *pods, "{name} from a pod");
    assert_eq!(seen, [first(caller.addresses())].into(), "{name}: a pod is seen as itself");
    let (by, seen) = call(lab.lab.node_vantage(), *frontend);
    assert_eq!(by, *pods, "{name} from the node");
    assert_eq!(seen, [node_address].into(), "{name}: the node is seen as itself");
    let (by, seen) = call(lab.outside().unwrap().vantage(), *frontend);
    assert_eq!(by, *pods, "{name} from outside");
    assert_eq!(seen, [node_address].into(), "{name}: outside is masqueraded");
}

/// Every client stays with its pod, and all clients together use them all.
fn check_sticky(lab: &ShopLab, expected: &Expectation) {
    let Expectation { name, frontend, pods, .. } = expected;
    let mut used = BTreeSet::new();
    for client in lab.callers(frontend.address).unwrap() {
        let answers = client.spread(*frontend, 4).unwrap();
        assert_eq!(answers.len(), 1, "{name}: a client was sent to {answers:?}");
        used.extend(answers.into_keys());
    }
    assert_eq!(used, *pods, "{name} from forty clients");
}

fn answers_as(node: &str) {
    let (shop, lab) = shop_around(node);
    let _agent = start(&lab);
    let expectations = shop.expectations(node).unwrap();
    assert_eq!(expectations.len(), 14, "cluster IP ports of the shop, IPv6 included");
    for expected in &expectations {
        check(&lab, expected);
    }
}

#[test]
fn without_a_proxy_every_pod_answers_under_its_own_address_only() {
    let (shop, lab) = shop_around("node-a1");
    let caller = lab.caller().unwrap().vantage();
    for pod in shop.pods() {
        for (&address, &(protocol, port)) in
            pod.addresses.iter().flat_map(|a| pod.ports.iter().map(move |p| (a, p)))
        {
            let outcome = caller.connect(Frontend { address, protocol, port }).unwrap();
            assert_eq!(outcome.pod(), Some(pod.name.as_str()), "{address}");
        }
    }
    let expectations = shop.expectations("node-a1").unwrap();
    let frontends: Vec<_> = expectations.iter().map(|expected| expected.frontend).collect();
    for outcome in caller.patience(SILENCE).connect_all(&frontends).unwrap() {
        assert_eq!(outcome, Outcome::TimedOut);
    }
}

#[test]
fn answers_from_exactly_the_right_pods_on_node_a1() {
    answers_as("node-a1");
}

#[test]
fn answers_from_exactly_the_right_pods_on_node_a2() {
    answers_as("node-a2");
}

#[test]
fn answers_from_exactly_the_right_pods_on_node_b1() {
    answers_as("node-b1");
}

#[test]
fn answers_from_exactly_the_right_pods_on_node_c1() {
    answers_as("node-c1");
}

#[test]
fn answers_from_exactly_the_right_pods_on_node_d1() {
    answers_as("node-d1");
}

#[test]
fn answers_from_exactly_the_right_pods_on_node_d2() {
    answers_as("node-d2");
}

#[test]
fn refusals_are_immediate_twenty_in_a_row() {
    let (_, lab) = shop_around("node-a1");
    let _agent = start(&lab);
    let vantages = [
        ("a pod", lab.caller().unwrap().vantage()),
        ("the node", lab.lab.node_vantage()),
        ("outside", lab.outside().unwrap().vantage()),
    ];
    let targets = [
        ("a Service without endpoints", tcp("10.102.5.156", 80)),
        ("a Service without slices", tcp("10.96.0.1", 443)),
        ("an undefined port", tcp("10.97.65.144", 81)),
        ("an undefined port, IPv6", tcp("fd00:10:96::d:fa5b", 81)),
    ];
    for (who, vantage) in vantages {
        for (what, target) in targets {
            let started = Instant::now();
            let outcomes = vantage.repeat(target, 20).unwrap();
            assert_eq!(outcomes, vec![Outcome::Refused; 20], "{what}, from {who}");
            let took = started.elapsed();
            assert!(took < Duration::from_secs(1), "{what}, from {who}: {took:?} for 20");
        }
        // Other protocols are refused by ICMP, which is rate-limited: one is enough.
        let outcome = vantage.connect(udp("10.97.65.144", 80)).unwrap();
        assert_eq!(outcome, Outcome::Refused, "an undefined UDP port, from {who}");
    }
}

#[test]
fn a_pod_that_calls_its_own_service_reaches_itself_too() {
    let (_, lab) = shop_around("node-a1");
    let _agent = start(&lab);
    let node = lab.lab.node_addresses();
    for (frontend, node_address) in [
        (tcp("10.97.65.144", 80), IpAddr::from(node.v4)),
        (tcp("fd00:10:96::d:fa5b", 80), IpAddr::from(node.v6)),
    ] {
        let web_0 = lab.lab.machine("web-0").unwrap().vantage();
        let outcomes = web_0.connect_all(&[frontend; ENOUGH]).unwrap();
        let own = outcomes.iter().filter(|outcome| outcome.pod() == Some("web-0"));
        let seen: BTreeSet<_> = own.collect();
        let wanted = Outcome::Answered { by: "web-0".into(), seen_source: node_address };
        assert_eq!(seen, BTreeSet::from([&wanted]), "the hairpin is masqueraded");
        assert!(outcomes.iter().all(|outcome| outcome.pod().is_some()));
    }
}

#[test]
fn headless_and_external_name_services_have_no_rows() {
    let (_, lab) = shop_around("node-a1");
    let _agent = start(&lab);
    let listing = Nft::system().run(lab.lab.node(), &["list", "ruleset"]).unwrap();
    assert!(listing.contains("10.97.65.144"), "the listing shows rows");
    // `db` is headless with pods 10.244.1.14 and 10.244.3.15 on port 5432; `mail` is a name.
    for absent in ["10.244.1.14", "10.244.3.15", "5432"] {
        assert!(!listing.contains(absent), "{absent} is in\n{listing}");
    }
}

#[test]
fn both_versions_of_nft_list_it_and_the_newer_one_loads_its_own_listing() {
    let (_, lab) = shop_around("node-a1");
    let _agent = start(&lab);
    let node = lab.lab.node();
    Nft::system().run(node, &["list", "ruleset"]).unwrap();
    let newer = Nft::newer().unwrap();
    newer.run(node, &["-j", "list", "ruleset"]).unwrap();
    let listing = newer.run(node, &["list", "ruleset"]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &listing).unwrap();
    let elsewhere = Netns::new().unwrap();
    newer.run(&elsewhere, &["-f", file.path().to_str().unwrap()]).unwrap();
    // Elements of a hash are listed in no order.
    let sorted = |text: &str| {
        let mut words: Vec<_> = text.split([' ', ',', '\n', '\t']).map(str::to_owned).collect();
        words.sort_unstable();
        words
    };
    let again = newer.run(&elsewhere, &["list", "ruleset"]).unwrap();
    assert_eq!(sorted(&again), sorted(&listing));
}

#[test]
fn a_second_start_adopts_everything_and_writes_nothing() {
    let (_, lab) = shop_around("node-a1");
    let first = start(&lab);
    assert!(first.stop().unwrap().success(), "SIGTERM is a normal end");
    let mut monitor = Nft::system().monitor(lab.lab.node()).unwrap();
    let second = start(&lab);
    assert_eq!(monitor.changes().unwrap(), Vec::<String>::new());
    let diff = second.ask(&["diff"]).unwrap();
    assert!(diff.status.success(), "{}", printed(&diff));
}

#[test]
fn sigterm_leaves_rules_and_connections_alone() {
    let (_, lab) = shop_around("node-a1");
    let agent = start(&lab);
    let target: SocketAddr = "10.97.65.144:80".parse().unwrap();
    let mut open = Connection::open(lab.caller().unwrap().netns(), target).unwrap();
    open.echo().unwrap();
    let mut monitor = Nft::system().monitor(lab.lab.node()).unwrap();
    assert!(agent.stop().unwrap().success());
    assert_eq!(monitor.changes().unwrap(), Vec::<String>::new());
    open.echo().unwrap();
    let caller = lab.caller().unwrap().vantage();
    assert!(caller.connect(tcp("10.97.65.144", 80)).unwrap().pod().is_some());
}

#[test]
fn cleanup_leaves_nothing_of_ours() {
    let (_, lab) = shop_around("node-a1");
    assert!(start(&lab).stop().unwrap().success());
    let node = lab.lab.node();
    Nft::system().run(node, &["add", "table", "ip", "somebody-elses"]).unwrap();
    let cleaned = agent::command(node, &["cleanup"]).unwrap();
    assert!(cleaned.status.success(), "{}", printed(&cleaned));
    let left = Nft::system().run(node, &["list", "ruleset"]).unwrap();
    assert!(!left.contains("sliceproxy"), "{left}");
    assert!(left.contains("somebody-elses"), "{left}");
}
