//! What is a frontend, who may call it, and as whom.

use serde_json::json;
use sliceproxy_dataplane::frontend::Family::{V4, V6};
use sliceproxy_dataplane::frontend::Protocol::{Tcp, Udp};

use super::super::case::Case;
use super::super::plan::{HOST, OTHER_POD_PORT, POD_PORT, THIRD_POD_PORT};
use super::super::probe::From::{Node, Outside, Pod};
use super::super::probe::Outcome::{Dropped, Refused};
use super::super::probe::{From, Probe, To};
use super::super::slice::{Endpoint, slice_ports};
use super::{direct, masqueraded, untouched};

const BOTH: &[&str] = &["near-1", "far-1"];
/// Inside the Service CIDR, and no Service's.
const UNALLOCATED: [&str; 2] = ["10.96.200.200", "fd00:10:96::f:1"];

fn two(name: &'static str) -> Case {
    Case::new(name).endpoints([Endpoint::new("near-1"), Endpoint::new("far-1")])
}

fn one(name: &'static str) -> Case {
    Case::new(name).endpoints([Endpoint::new("near-1")])
}

pub(super) fn cases() -> Vec<Case> {
    [kinds(), not_served(), ports(), families(), own_endpoint()].into_iter().flatten().collect()
}

fn kinds() -> Vec<Case> {
    vec![
        two("cluster-ip")
            .probe(Pod, To::ClusterIp, direct(BOTH))
            .probe(Node, To::ClusterIp, direct(BOTH))
            .probe(Outside, To::ClusterIp, masqueraded(BOTH))
            .probe(Pod, To::Port(99), Refused)
            .probe(Node, To::Port(99), Refused)
            .probe(Outside, To::Port(99), Refused),
        two("node-port")
            .node_port()
            .probe(Pod, To::NodePort, masqueraded(BOTH))
            .probe(Node, To::NodePort, direct(BOTH))
            .probe(Outside, To::NodePort, masqueraded(BOTH))
            // A pod of another node that is sent here all the same.
            .probe(From::Endpoint("far-2"), To::NodePort, masqueraded(BOTH))
            .probe(Node, To::NodePortOfLoopback, Refused),
        two("load-balancer")
            .load_balancer()
            .probe(Pod, To::LoadBalancer, masqueraded(BOTH))
            .probe(Node, To::LoadBalancer, direct(BOTH))
            .probe(Outside, To::LoadBalancer, masqueraded(BOTH))
            .probe(Outside, To::NodePort, masqueraded(BOTH))
            .probe(Outside, To::NodePortOfLoadBalancer, Refused)
            .probe(Outside, To::LoadBalancerPort(99), untouched()),
        two("external-ip")
            .external()
            .probe(Pod, To::External, masqueraded(BOTH))
            .probe(Node, To::External, direct(BOTH))
            .probe(Outside, To::External, masqueraded(BOTH)),
        two("external-ip-of-node")
            .spec("externalIPs", json!(["172.18.0.11", "fd00:18::b"]))
            .probe(Pod, To::Address("172.18.0.11", 80), masqueraded(BOTH))
            .probe(Outside, To::Address("172.18.0.11", 80), masqueraded(BOTH))
            .probe(Outside, To::Address("fd00:18::b", 80), masqueraded(BOTH)),
        two("without-node-ports")
            .load_balancer()
            .spec("allocateLoadBalancerNodePorts", false)
            .probe(Outside, To::LoadBalancer, masqueraded(BOTH))
            .probe(Outside, To::NodePort, Refused),
        one("endpoint-on-the-host")
            .slice(&[V4, V6], [Endpoint::new(HOST)], &slice_ports("none", "none-2", 1))
            .probe(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("host-network")
            .slice(&[V4, V6], [Endpoint::new(HOST)], &slice_ports("http", "dns", POD_PORT))
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&[HOST])).protocol(Tcp))
            .probe_as(Probe::new(Node, To::ClusterIp, direct(&[HOST])).protocol(Tcp))
            .probe_as(Probe::new(Outside, To::ClusterIp, direct(&[HOST])).protocol(Tcp)),
        shared("shared-ip-1", 80).probe(Outside, SHARED[0], masqueraded(&["near-1"])).probe(
            Outside,
            SHARED[1],
            masqueraded(&["near-1"]),
        ),
        shared("shared-ip-2", 81).probe(
            Outside,
            To::Address("198.51.102.1", 81),
            masqueraded(&["near-1"]),
        ),
    ]
}

const SHARED: [To; 2] = [To::Address("198.51.102.1", 80), To::Address("2001:db8:102::1", 80)];

/// Two of these share their load-balancer IP.
fn shared(name: &'static str, port: u16) -> Case {
    let ports = json!([
        {"name": "http", "protocol": "TCP", "port": port},
        {"name": "dns", "protocol": "UDP", "port": port},
    ]);
    one(name)
        .load_balancer()
        .ingress(json!([{"ip": "198.51.102.1"}, {"ip": "2001:db8:102::1"}]))
        .spec("allocateLoadBalancerNodePorts", false)
        .spec("ports", ports)
}

fn not_served() -> Vec<Case> {
    let [v4, v6] = UNALLOCATED.map(|address| To::Address(address, 80));
    vec![
        Case::new("unallocated")
            .probe(Pod, v4, Dropped)
            .probe(Node, v4, Dropped)
            .probe(Outside, v4, Dropped)
            .probe(Pod, v6, Dropped)
            .probe(Node, v6, Dropped)
            .probe(Outside, v6, Dropped),
        two("ip-mode-proxy")
            .load_balancer_with(json!({"ipMode": "Proxy"}))
            .probe(Outside, To::LoadBalancer, untouched())
            .probe(Pod, To::LoadBalancer, untouched())
            .probe(Pod, To::ClusterIp, direct(BOTH)),
        two("headless")
            .spec("clusterIPs", json!(["None"]))
            .spec("externalIPs", json!(["external"]))
            .probe(Outside, To::External, untouched())
            .probe(Pod, To::External, untouched()),
        two("external-name")
            .spec("type", "ExternalName")
            .spec("externalName", "www.example.org")
            .spec("clusterIPs", json!(null))
            .spec("ipFamilyPolicy", json!(null))
            .spec("externalIPs", json!(["external"]))
            .probe(Outside, To::External, untouched()),
        two("other-proxy")
            .label("service.kubernetes.io/service-proxy-name", "another")
            .load_balancer()
            .probe(Pod, To::ClusterIp, Dropped)
            .probe(Outside, To::LoadBalancer, untouched())
            .probe(Outside, To::NodePort, Refused),
    ]
}

fn ports() -> Vec<Case> {
    vec![
        two("tcp-only")
            .spec("ports", json!([{"name": "http", "protocol": "TCP", "port": 80}]))
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(BOTH)).protocol(Tcp))
            .probe_as(Probe::new(Pod, To::ClusterIp, Refused).protocol(Udp)),
        two("with-sctp")
            .spec(
                "ports",
                json!([
                    {"name": "http", "protocol": "TCP", "port": 80},
                    {"name": "dns", "protocol": "UDP", "port": 80},
                    {"name": "sctp", "protocol": "SCTP", "port": 80},
                ]),
            )
            .probe(Pod, To::ClusterIp, direct(BOTH)),
        Case::new("slice-port-counts")
            .spec("ports", json!([{"name": "http", "port": 80, "targetPort": 9999}]))
            .slice(
                &[V4, V6],
                [Endpoint::new("near-1")],
                &slice_ports("http", "dns", OTHER_POD_PORT),
            )
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).protocol(Tcp)),
        Case::new("other-port-name")
            .slice(&[V4, V6], [Endpoint::new("near-1")], &slice_ports("web", "names", POD_PORT))
            .probe(Pod, To::ClusterIp, Refused),
        Case::new("unnamed-port")
            .spec("ports", json!([{"port": 80}]))
            .slice(&[V4, V6], [Endpoint::new("near-1")], &json!([{"name": "", "port": POD_PORT}]))
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).protocol(Tcp)),
        Case::new("slice-port-without-number")
            .slice(&[V4, V6], [Endpoint::new("near-1")], &json!([{"name": "http"}]))
            .probe(Pod, To::ClusterIp, Refused),
        Case::new("slice-without-ports")
            .slice(&[V4, V6], [Endpoint::new("near-1")], &json!([]))
            .probe(Pod, To::ClusterIp, Refused),
    ]
}

fn families() -> Vec<Case> {
    let near = || [Endpoint::new("near-1")];
    let ports = slice_ports("http", "dns", POD_PORT);
    vec![
        Case::new("slices-of-v4-only")
            .slice(&[V4], near(), &ports)
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).family(V4))
            .probe_as(Probe::new(Pod, To::ClusterIp, Refused).family(V6)),
        Case::new("single-stack-v6")
            .single_stack(V6)
            .slice(&[V6], near(), &ports)
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).family(V6)),
        Case::new("single-stack-v4")
            .single_stack(V4)
            .external()
            .slice(&[V4], near(), &ports)
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).family(V4))
            .probe_as(Probe::new(Outside, To::External, masqueraded(&["near-1"])).family(V4))
            .probe_as(Probe::new(Outside, To::External, untouched()).family(V6)),
    ]
}

/// Hairpins: an endpoint that calls itself through a Service.
fn own_endpoint() -> Vec<Case> {
    let me = From::Endpoint("near-1");
    vec![
        one("hairpin")
            .load_balancer()
            .probe(me, To::ClusterIp, masqueraded(&["near-1"]))
            .probe(me, To::NodePort, masqueraded(&["near-1"]))
            .probe(me, To::LoadBalancer, masqueraded(&["near-1"])),
        // On a port that no other Service uses: hairpins are the endpoints', not a Service's.
        Case::new("hairpin-of-nowhere")
            .slice(
                &[V4, V6],
                [Endpoint::new("near-1").nowhere()],
                &slice_ports("http", "dns", THIRD_POD_PORT),
            )
            .probe_as(Probe::new(me, To::ClusterIp, masqueraded(&["near-1"])).unlike_kube_proxy(
                Dropped,
                "an endpoint without a node is this node's if its address is in the node's pod \
                 network: kube-proxy leaves it without an answer to its own calls",
            )),
    ]
}
