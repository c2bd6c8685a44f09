//! What happens to Services and slices while the proxies run.

use serde_json::json;
use sliceproxy_dataplane::frontend::Family::{V4, V6};
use sliceproxy_dataplane::frontend::Protocol::{Tcp, Udp};

use super::super::case::{Case, Change};
use super::super::plan::{NAMESPACE, POD_PORT, SERVICE_PORT, service_path, slice_name, slice_path};
use super::super::probe::From::{Node, Outside, Pod};
use super::super::probe::Outcome::{Dropped, Refused};
use super::super::probe::{Probe, To};
use super::super::slice::{Endpoint, slice_ports};
use super::{direct, masqueraded, untouched};

const LATE_CIDR: &str =
    "a new Service CIDR counts at once: in kube-proxy up to an hour later, at its next full sync";

const ONE_NODE_PORT: To = To::Address("172.18.0.11", 32_700);

/// ExternalName at first.
fn named_first(name: &'static str) -> Case {
    one(name)
        .spec("type", "ExternalName")
        .spec("externalName", "www.example.org")
        .spec("clusterIPs", json!(null))
        .spec("ipFamilyPolicy", json!(null))
}

fn near_1() -> Endpoint {
    Endpoint::new("near-1")
}

fn far_1() -> Endpoint {
    Endpoint::new("far-1")
}

fn one(name: &'static str) -> Case {
    Case::new(name).endpoints([near_1()])
}

pub(super) fn cases() -> Vec<Case> {
    [of_endpoints(), of_slices(), of_services(), of_frontends()].into_iter().flatten().collect()
}

fn of_endpoints() -> Vec<Case> {
    vec![
        Case::new("endpoint-replaced")
            .endpoints([near_1(), far_1()])
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .endpoints_become([Endpoint::new("near-2"), far_1()])
            .then(Pod, To::ClusterIp, direct(&["near-2", "far-1"])),
        one("last-endpoint-leaves")
            .node_port()
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .endpoints_become([])
            .then(Pod, To::ClusterIp, Refused)
            .then(Outside, To::NodePort, Refused),
        Case::new("first-endpoint-comes")
            .endpoints([])
            .probe(Pod, To::ClusterIp, Refused)
            .endpoints_become([near_1()])
            .then(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("endpoint-terminates")
            .endpoints([near_1(), far_1()])
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .endpoints_become([near_1().terminating(), far_1()])
            .then(Pod, To::ClusterIp, direct(&["far-1"])),
        one("last-endpoint-terminates")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .endpoints_become([near_1().terminating()])
            .then(Pod, To::ClusterIp, direct(&["near-1"])),
        one("hints-come")
            .endpoints_become([near_1().for_zones(&["zone-b"]), far_1().for_zones(&["zone-a"])])
            .then(Pod, To::ClusterIp, direct(&["far-1"])),
        Case::new("local-endpoint-leaves")
            .load_balancer()
            .spec("externalTrafficPolicy", "Local")
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::LoadBalancer, direct(&["near-1"]))
            .endpoints_become([far_1()])
            .then(Outside, To::LoadBalancer, Dropped)
            .then(Pod, To::LoadBalancer, direct(&["far-1"])),
    ]
}

fn of_slices() -> Vec<Case> {
    let ports = slice_ports("http", "dns", POD_PORT);
    let delete = |case: &str, n| {
        [V4, V6].map(|family| Change::Delete(slice_path(&slice_name(case, n, family))))
    };
    let [v4, v6] = delete("slice-deleted", 1);
    let moved = |family| {
        let label = json!({"metadata": {"labels": {"kubernetes.io/service-name": "slice-comes"}}});
        Change::Patch(slice_path(&slice_name("slice-moves", 0, family)), label)
    };
    vec![
        Case::new("slice-deleted")
            .slice(&[V4, V6], [near_1()], &ports)
            .slice(&[V4, V6], [far_1()], &ports)
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .change(v4)
            .change(v6)
            .then(Pod, To::ClusterIp, direct(&["near-1"])),
        one("slice-moves")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .change(moved(V4))
            .change(moved(V6))
            .then_as(Probe::new(Pod, To::ClusterIp, Refused).unlike_kube_proxy(
                direct(&["near-1"]),
                "a slice that is given to another Service is no longer this one's: kube-proxy \
                 keeps its endpoints",
            )),
        Case::new("slice-comes").probe(Pod, To::ClusterIp, Refused).then(
            Pod,
            To::ClusterIp,
            direct(&["near-1"]),
        ),
    ]
}

fn of_services() -> Vec<Case> {
    let again = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "recreated", "namespace": NAMESPACE},
        "spec": {
            "ipFamilyPolicy": "RequireDualStack",
            "clusterIP": "10.96.2.1",
            "clusterIPs": ["10.96.2.1", "fd00:10:96::2:1"],
            "ports": [{"name": "http", "protocol": "TCP", "port": SERVICE_PORT}],
        },
    });
    let name = json!({"spec": {"type": "ExternalName", "externalName": "www.example.org"}});
    let other_proxy =
        json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "another"}}});
    vec![
        one("deleted")
            .load_balancer()
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .change(Change::Delete(service_path("deleted")))
            .then(Pod, To::ClusterIp, Dropped)
            .then(Outside, To::LoadBalancer, untouched())
            .then(Outside, To::NodePort, Refused),
        one("recreated")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .change(Change::Delete(service_path("recreated")))
            .change(Change::Apply(again))
            .then(Pod, To::ClusterIp, Dropped)
            .then_as(
                Probe::new(Pod, To::Address("10.96.2.1", 80), direct(&["near-1"])).protocol(Tcp),
            )
            .then_as(Probe::new(Pod, To::Address("10.96.2.1", 80), Refused).protocol(Udp)),
        Case::new("service-cidr-comes")
            .probe(Pod, To::Address("10.200.0.9", 80), untouched())
            .probe(Outside, To::Address("fd00:10:200::9", 80), untouched())
            .change(Change::Apply(json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "ServiceCIDR",
                "metadata": {"name": "more"},
                "spec": {"cidrs": ["10.200.0.0/24", "fd00:10:200::/112"]},
            })))
            .then_as(
                Probe::new(Pod, To::Address("10.200.0.9", 80), Dropped)
                    .unlike_kube_proxy(untouched(), LATE_CIDR),
            )
            .then_as(
                Probe::new(Outside, To::Address("fd00:10:200::9", 80), Dropped)
                    .unlike_kube_proxy(untouched(), LATE_CIDR),
            ),
        one("becomes-a-name").probe(Pod, To::ClusterIp, direct(&["near-1"])).patch(name).then(
            Pod,
            To::ClusterIp,
            Dropped,
        ),
        named_first("name-becomes-cluster-ip")
            .probe_as(Probe::new(Pod, To::Address("10.96.2.2", 80), Dropped))
            .patch(json!({"spec": {
                "type": "ClusterIP",
                "externalName": null,
                "clusterIP": "10.96.2.2",
                "clusterIPs": ["10.96.2.2"],
            }}))
            .then_as(Probe::new(Pod, To::Address("10.96.2.2", 80), direct(&["near-1"]))),
        one("one-protocol-goes")
            .node_port()
            .spec(
                "ports",
                json!([
                    {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 32_700},
                    {"name": "dns", "protocol": "UDP", "port": 80, "nodePort": 32_700},
                ]),
            )
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .probe(Outside, ONE_NODE_PORT, masqueraded(&["near-1"]))
            .patch(json!({"spec": {"ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 32_700},
            ]}}))
            .then_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).protocol(Tcp))
            .then_as(Probe::new(Pod, To::ClusterIp, Refused).protocol(Udp))
            .then_as(Probe::new(Outside, ONE_NODE_PORT, masqueraded(&["near-1"])).protocol(Tcp))
            .then_as(Probe::new(Outside, ONE_NODE_PORT, Refused).protocol(Udp)),
        one("goes-to-another-proxy")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .patch(other_proxy)
            .then(Pod, To::ClusterIp, Dropped),
        one("renumbered")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .patch(json!({"spec": {"ports": [{"name": "http", "protocol": "TCP", "port": 81}]}}))
            .then(Pod, To::ClusterIp, Refused)
            .then_as(Probe::new(Pod, To::Port(81), direct(&["near-1"])).protocol(Tcp)),
        one("port-renamed")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .patch(json!({"spec": {"ports": [
                {"name": "web", "protocol": "TCP", "port": SERVICE_PORT},
                {"name": "dns", "protocol": "UDP", "port": SERVICE_PORT},
            ]}}))
            .then_as(Probe::new(Pod, To::ClusterIp, Refused).protocol(Tcp))
            .then_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).protocol(Udp)),
    ]
}

fn of_frontends() -> Vec<Case> {
    let two = |name| Case::new(name).endpoints([near_1(), far_1()]);
    vec![
        one("external-ip-comes")
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .patch(json!({"spec": {"externalIPs": ["198.51.102.20"]}}))
            .then(Outside, To::Address("198.51.102.20", 80), masqueraded(&["near-1"])),
        one("external-ip-goes")
            .external()
            .probe(Outside, To::External, masqueraded(&["near-1"]))
            .patch(json!({"spec": {"externalIPs": null}}))
            .then_as(Probe::new(Outside, To::External, untouched()).protocol(Tcp)),
        one("load-balancer-goes")
            .load_balancer()
            .probe(Outside, To::LoadBalancer, masqueraded(&["near-1"]))
            .change(Change::Patch(
                format!("{}/status", service_path("load-balancer-goes")),
                json!({"status": {"loadBalancer": null}}),
            ))
            .then_as(Probe::new(Outside, To::LoadBalancer, untouched()).protocol(Tcp))
            .then(Outside, To::NodePort, masqueraded(&["near-1"])),
        one("node-port-goes")
            .node_port()
            .probe(Outside, To::NodePort, masqueraded(&["near-1"]))
            .patch(json!({"spec": {"type": "ClusterIP", "ports": [
                {"name": "http", "protocol": "TCP", "port": SERVICE_PORT},
                {"name": "dns", "protocol": "UDP", "port": SERVICE_PORT},
            ]}}))
            .then(Outside, To::NodePort, Refused)
            .then(Pod, To::ClusterIp, direct(&["near-1"])),
        two("becomes-local")
            .load_balancer()
            .probe(Outside, To::LoadBalancer, masqueraded(&["near-1", "far-1"]))
            .patch(json!({"spec": {"externalTrafficPolicy": "Local"}}))
            .then(Outside, To::LoadBalancer, direct(&["near-1"]))
            .then(Outside, To::NodePort, direct(&["near-1"]))
            .then(Node, To::LoadBalancer, direct(&["near-1", "far-1"])),
        two("becomes-internal-local")
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .patch(json!({"spec": {"internalTrafficPolicy": "Local"}}))
            .then(Pod, To::ClusterIp, direct(&["near-1"])),
        one("ranges-change")
            .load_balancer()
            .spec("loadBalancerSourceRanges", json!(["203.0.113.0/24", "2001:db8::/64"]))
            .probe(Outside, To::LoadBalancer, masqueraded(&["near-1"]))
            .patch(
                json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8:9::/64"]}}),
            )
            .then(Outside, To::LoadBalancer, Dropped),
        one("ranges-go")
            .load_balancer()
            .spec("loadBalancerSourceRanges", json!(["192.0.2.0/24", "2001:db8:9::/64"]))
            .probe(Outside, To::LoadBalancer, Dropped)
            .patch(json!({"spec": {"loadBalancerSourceRanges": null}}))
            .then(Outside, To::LoadBalancer, masqueraded(&["near-1"])),
    ]
}
