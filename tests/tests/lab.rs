//! The lab itself: what the other tests take for granted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sliceproxy::lab::probe::{Connection, Outcome};
use sliceproxy::lab::{Lab, Netns, NetnsId, NodeAddresses, Pod, Port};
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_tests::{require_root, wait_for};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn tcp(address: &str, port: u16) -> Frontend {
    Frontend { address: ip(address), protocol: Protocol::Tcp, port }
}

fn udp(address: &str, port: u16) -> Frontend {
    Frontend { address: ip(address), protocol: Protocol::Udp, port }
}

fn node() -> NodeAddresses {
    NodeAddresses { v4: "172.18.0.11".parse().unwrap(), v6: "fd00:18::b".parse().unwrap() }
}

fn pod(name: &str, addresses: &[&str], ports: &[Port]) -> Pod {
    Pod {
        name: name.into(),
        addresses: addresses.iter().map(|a| ip(a)).collect(),
        ports: ports.to_vec(),
    }
}

/// A client outside, two pods with machines of their own, two that share one.
fn small_lab() -> Lab {
    require_root();
    let mut lab = Lab::new(node()).unwrap();
    lab.add_outside("client", &[ip("203.0.113.9"), ip("2001:db8::9")]).unwrap();
    let ports = [Port::tcp(8080), Port::udp(5353)];
    lab.add_pods(&[
        pod("web-0", &["10.244.1.10", "fd00:244:1::a"], &ports),
        pod("web-1", &["10.244.1.11", "fd00:244:1::b"], &ports),
    ])
    .unwrap();
    lab.add_machine(
        "node-b1",
        &[
            pod("web-2", &["10.244.2.10", "fd00:244:2::a"], &ports),
            pod("web-3", &["10.244.2.11", "fd00:244:2::b"], &ports),
        ],
    )
    .unwrap();
    lab
}

fn answered(by: &str, seen_source: &str) -> Outcome {
    Outcome::Answered { by: by.into(), seen_source: ip(seen_source) }
}

#[test]
fn every_pod_answers_by_name_and_sees_the_client_in_both_families() {
    let lab = small_lab();
    let client = lab.machine("client").unwrap().vantage();
    for (name, v4, v6) in [
        ("web-0", "10.244.1.10", "fd00:244:1::a"),
        ("web-1", "10.244.1.11", "fd00:244:1::b"),
        ("web-2", "10.244.2.10", "fd00:244:2::a"),
        ("web-3", "10.244.2.11", "fd00:244:2::b"),
    ] {
        for (target, source) in [
            (tcp(v4, 8080), "203.0.113.9"),
            (udp(v4, 5353), "203.0.113.9"),
            (tcp(v6, 8080), "2001:db8::9"),
            (udp(v6, 5353), "2001:db8::9"),
        ] {
            let started = Instant::now();
            assert_eq!(client.connect(target).unwrap(), answered(name, source), "{target}");
            let took = started.elapsed();
            assert!(took < Duration::from_millis(500), "{target} took {took:?}: a start-up delay");
        }
    }
}

#[test]
fn pods_and_the_node_reach_pods_under_their_own_addresses() {
    let lab = small_lab();
    let pod = lab.machine("web-0").unwrap().vantage();
    assert_eq!(pod.connect(tcp("10.244.2.10", 8080)).unwrap(), answered("web-2", "10.244.1.10"));
    assert_eq!(
        lab.node_vantage().connect(tcp("10.244.2.10", 8080)).unwrap(),
        answered("web-2", "172.18.0.11")
    );
    assert_eq!(
        lab.node_vantage().connect(tcp("fd00:244:2::a", 8080)).unwrap(),
        answered("web-2", "fd00:18::b")
    );
    let second_address = lab.machine("node-b1").unwrap().vantage().from(ip("10.244.2.11"));
    assert_eq!(
        second_address.connect(tcp("10.244.1.10", 8080)).unwrap(),
        answered("web-0", "10.244.2.11")
    );
}

#[test]
fn outcomes_are_told_apart() {
    let lab = small_lab();
    let client = lab.machine("client").unwrap().vantage().patience(Duration::from_millis(300));
    assert_eq!(client.connect(tcp("10.244.1.10", 81)).unwrap(), Outcome::Refused);
    assert_eq!(client.connect(udp("10.244.1.10", 81)).unwrap(), Outcome::Refused);
    // The node sends unknown addresses outside, where they vanish.
    let pod = lab.machine("web-0").unwrap().vantage().patience(Duration::from_millis(300));
    assert_eq!(pod.connect(tcp("198.51.100.1", 80)).unwrap(), Outcome::TimedOut);
    assert_eq!(pod.connect(udp("198.51.100.1", 80)).unwrap(), Outcome::TimedOut);
    let alone = Netns::new().unwrap();
    let nobody = sliceproxy::lab::probe::Vantage::new(&alone);
    assert_eq!(nobody.connect(tcp("10.244.1.10", 80)).unwrap(), Outcome::Unreachable);
    let counts = client.spread(tcp("10.244.1.10", 81), 3).unwrap();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("refused".to_owned(), 3)]);
}

#[test]
fn an_open_connection_echoes_until_its_pod_goes() {
    let lab = small_lab();
    let client = lab.machine("client").unwrap();
    let target: SocketAddr = "[fd00:244:2::b]:8080".parse().unwrap();
    let mut connection = Connection::open(client.netns(), target).unwrap();
    assert_eq!(connection.pod, "web-3");
    connection.echo().unwrap();
    connection.echo().unwrap();
    drop(lab);
    connection.echo().unwrap_err();
}

#[test]
fn sysctls_belong_to_one_namespace() {
    require_root();
    let (one, other) = (Netns::new().unwrap(), Netns::new().unwrap());
    let before = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
    one.set_sysctl("ipv4/ip_forward", "1").unwrap();
    other.set_sysctl("ipv4/ip_forward", "0").unwrap();
    assert_eq!(one.sysctl("ipv4/ip_forward").unwrap(), "1");
    assert_eq!(other.sysctl("ipv4/ip_forward").unwrap(), "0");
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap(), before);
    let error = one.set_sysctl("ipv4/no_such_thing", "1").unwrap_err();
    assert!(error.to_string().contains("/proc/sys/net/ipv4/no_such_thing"), "{error}");
}

#[test]
fn forty_pods_take_less_than_two_seconds() {
    require_root();
    let started = Instant::now();
    let mut lab = Lab::new(node()).unwrap();
    let pods: Vec<_> = (0..40)
        .map(|i| {
            let v4 = format!("10.244.9.{i}");
            let v6 = format!("fd00:244:9::{i:x}");
            pod(&format!("pod-{i}"), &[&v4, &v6], &[Port::tcp(8080), Port::udp(8080)])
        })
        .collect();
    lab.add_pods(&pods).unwrap();
    let took = started.elapsed();
    println!("40 pods with 160 servers: {took:?}");
    let targets: Vec<_> = pods
        .iter()
        .flat_map(|pod| pod.addresses.iter())
        .map(|&address| Frontend { address, protocol: Protocol::Tcp, port: 8080 })
        .collect();
    for outcome in lab.node_vantage().connect_all(&targets).unwrap() {
        assert!(outcome.pod().is_some(), "{outcome}");
    }
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn nothing_is_left_when_the_lab_is_dropped() {
    let lab = small_lab();
    let mut ids: BTreeSet<_> =
        lab.machines().iter().map(|machine| machine.netns().id().unwrap()).collect();
    ids.insert(lab.node().id().unwrap());
    assert_eq!(ids.len(), 5, "every machine has a namespace of its own");
    let sleeper = lab.node().run(|| std::process::Command::new("sleep").arg("60").spawn());
    let mut sleeper = sleeper.unwrap().unwrap();
    assert_eq!(namespaces_in_use().intersection(&ids).count(), 5);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    drop(lab);
    wait_for("the namespaces to vanish", Duration::from_secs(5), || {
        namespaces_in_use().is_disjoint(&ids).then_some(())
    })
    .unwrap();
}

/// Every network namespace that some thread is in or some descriptor holds.
fn namespaces_in_use() -> BTreeSet<NetnsId> {
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        // Processes and threads come and go while we look.
        let threads = fs::read_dir(path.join("task")).into_iter().flatten().flatten();
        let links = threads
            .map(|thread| thread.path().join("ns/net"))
            .chain(fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|f| f.path()));
        for link in links {
            let target = fs::read_link(link).unwrap_or_default();
            let number = target.to_str().and_then(|t| t.strip_prefix("net:["));
            let number = number.and_then(|t| t.strip_suffix(']')?.parse().ok());
            found.extend(number.map(NetnsId));
        }
    }
    found
}
