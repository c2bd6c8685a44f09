//! Settings that change what packets meet, one agent for each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use serde_json::json;
use sliceproxy::lab::probe;
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::sidebyside::{
    Alone, CLUSTER_CIDR, Case, Endpoint, From, Outcome, To, assert_as_expected, direct,
    masqueraded, send_alone,
};
use sliceproxy_tests::{require_root, wait_for};

const LIMIT: Duration = Duration::from_secs(10);

fn service(name: &'static str) -> Case {
    Case::new(name)
        .numbered(1)
        .load_balancer()
        .endpoints([Endpoint::new("near-1"), Endpoint::new("far-1")])
}

/// Runs one agent with `settings`, and expects of each case what it says.
fn check(settings: &[&str], cases: &[Case]) {
    require_root();
    let alone = Alone::new(cases).unwrap();
    let args = alone.agent_args_with(settings);
    let _agent = Agent::start_in_sync(alone.side.lab.node(), &args).unwrap();
    alone.apply(cases).unwrap();
    let verdicts = send_alone(&alone.side, cases, |case| &case.probes).unwrap();
    assert_as_expected(&verdicts);
}

#[test]
fn masquerade_all_is_for_cluster_ips() {
    let both = &["near-1", "far-1"];
    let case = service("all")
        .spec("externalTrafficPolicy", "Local")
        .probe(From::Pod, To::ClusterIp, masqueraded(both))
        .probe(From::Outside, To::ClusterIp, masqueraded(both))
        .probe(From::Outside, To::LoadBalancer, direct(&["near-1"]));
    check(&["--masquerade-all", "--cluster-cidr", CLUSTER_CIDR], &[case]);
}

#[test]
fn the_masquerade_bit_can_be_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let config = "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
nftables: {masqueradeBit: 27}
clusterCIDR: 10.244.0.0/16,fd00:244::/32
";
    std::fs::write(&file, config).unwrap();
    let case = service("bit")
        .probe(From::Outside, To::LoadBalancer, masqueraded(&["near-1", "far-1"]))
        .probe(From::Pod, To::ClusterIp, direct(&["near-1", "far-1"]));
    check(&["--config", file.to_str().unwrap()], &[case]);
}

/// Pods cannot be told from clients outside: nothing is masqueraded for being from outside, and
/// policy Local binds pods too.
#[test]
fn without_a_way_to_know_pods() {
    let case = Case::new("unknown")
        .numbered(1)
        .load_balancer()
        .spec("externalTrafficPolicy", "Local")
        .endpoints([Endpoint::new("far-1")])
        .probe(From::Outside, To::ClusterIp, direct(&["far-1"]))
        .probe(From::Pod, To::ClusterIp, direct(&["far-1"]))
        .probe(From::Pod, To::LoadBalancer, Outcome::Dropped)
        .probe(From::Node, To::LoadBalancer, direct(&["far-1"]));
    check(&[], &[case]);
}

#[test]
fn node_ports_follow_the_nodes_addresses() {
    require_root();
    let case = service("node-port");
    let alone = Alone::new(std::slice::from_ref(&case)).unwrap();
    let settings = ["--cluster-cidr", CLUSTER_CIDR, "--nodeport-addresses", "192.0.2.0/24,::/0"];
    let args = alone.agent_args_with(&settings);
    let _agent = Agent::start_in_sync(alone.side.lab.node(), &args).unwrap();
    alone.apply(std::slice::from_ref(&case)).unwrap();
    let at = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        let number = case.target(To::NodePort, Family::of(address), Protocol::Tcp).unwrap();
        Frontend { address, ..number }
    };
    let call = |target| alone.side.vantage(From::Outside).unwrap().connect(target).unwrap();
    assert_eq!(call(at("172.18.0.11")), probe::Outcome::Refused, "an address not selected");
    assert!(call(at("fd00:18::b")).pod().is_some(), "all of IPv6 are");
    for address in ["192.0.2.7", "192.0.2.8", "fd00:18::77"] {
        alone.side.lab.add_node_address(address.parse().unwrap()).unwrap();
        wait_for(address, LIMIT, || call(at(address)).pod().map(drop)).unwrap();
    }
    for address in ["127.0.0.1", "::1"] {
        let outcome = alone.side.vantage(From::Node).unwrap().connect(at(address)).unwrap();
        assert_eq!(outcome, probe::Outcome::Refused, "loopback addresses have no node ports");
    }
}

/// kube-proxy only logs that its node has another address, and goes on with the old one.
#[test]
fn the_primary_address_follows_the_node_object() {
    require_root();
    let case = service("primary");
    let alone = Alone::new(std::slice::from_ref(&case)).unwrap();
    let _agent = Agent::start_in_sync(alone.side.lab.node(), &alone.agent_args()).unwrap();
    alone.apply(std::slice::from_ref(&case)).unwrap();
    let old = case.target(To::NodePort, Family::V4, Protocol::Tcp).unwrap();
    let new = Frontend { address: "192.0.2.9".parse().unwrap(), ..old };
    alone.side.lab.add_node_address(new.address).unwrap();
    let call = |target| alone.side.vantage(From::Outside).unwrap().connect(target).unwrap();
    assert!(call(old).pod().is_some());
    assert_eq!(call(new), probe::Outcome::Refused, "one more address is not the primary one");
    let address = json!({"type": "InternalIP", "address": new.address});
    alone.patch_node(&json!({"status": {"addresses": [address]}})).unwrap();
    wait_for("the new address", LIMIT, || call(new).pod().map(drop)).unwrap();
    wait_for("the old one", LIMIT, || (call(old) == probe::Outcome::Refused).then_some(()))
        .unwrap();
}

/// What is neither TCP nor UDP nor SCTP is told, too, that a cluster IP has nothing for it.
#[test]
fn a_ping_to_a_cluster_ip_is_refused() {
    require_root();
    let case = service("ping");
    let alone = Alone::new(std::slice::from_ref(&case)).unwrap();
    let _agent = Agent::start_in_sync(alone.side.lab.node(), &alone.agent_args()).unwrap();
    alone.apply(std::slice::from_ref(&case)).unwrap();
    let pod = alone.side.lab.machine("caller").unwrap().netns();
    pod.set_sysctl("ipv4/ping_group_range", "0 2147483647").unwrap();
    let cluster_ip = case.target(To::ClusterIp, Family::V4, Protocol::Tcp).unwrap().address;
    let ping = |address: IpAddr| {
        pod.run(|| -> io::Result<usize> {
            let flags = SockFlag::SOCK_CLOEXEC;
            let kind = (AddressFamily::Inet, SockType::Datagram, SockProtocol::Icmp);
            let socket = UdpSocket::from(socket(kind.0, kind.1, flags, kind.2)?);
            socket.set_read_timeout(Some(LIMIT))?;
            socket.connect((address, 0))?;
            // Echo request; the kernel fills in the rest.
            socket.send(&[8, 0, 0, 0, 0, 0, 0, 1])?;
            socket.recv(&mut [0; 64])
        })
        .unwrap()
    };
    assert_eq!(ping("10.244.1.1".parse().unwrap()).unwrap(), 8, "a pod answers");
    assert_eq!(ping(cluster_ip).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}
