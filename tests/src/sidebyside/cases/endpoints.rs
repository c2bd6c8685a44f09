//! Which endpoints are used.

use serde_json::json;
use sliceproxy_dataplane::frontend::Family::{V4, V6};

use super::super::case::Case;
use super::super::plan::{NAMESPACE, POD_PORT, pod_address, slice_name};
use super::super::probe::From::{Node, Outside, Pod};
use super::super::probe::Outcome::Refused;
use super::super::probe::{Probe, To};
use super::super::slice::{Endpoint, slice_object, slice_ports};
use super::{direct, masqueraded};
use crate::cluster;

fn near_1() -> Endpoint {
    Endpoint::new("near-1")
}

fn far_1() -> Endpoint {
    Endpoint::new("far-1")
}

pub(super) fn cases() -> Vec<Case> {
    [conditions(), several_slices(), of_controllers()].into_iter().flatten().collect()
}

fn conditions() -> Vec<Case> {
    vec![
        Case::new("without-slices")
            .load_balancer()
            .external()
            .probe(Pod, To::ClusterIp, Refused)
            .probe(Node, To::ClusterIp, Refused)
            .probe(Outside, To::ClusterIp, Refused)
            .probe(Pod, To::NodePort, Refused)
            .probe(Node, To::NodePort, Refused)
            .probe(Outside, To::NodePort, Refused)
            .probe(Pod, To::LoadBalancer, Refused)
            .probe(Outside, To::LoadBalancer, Refused)
            .probe(Node, To::External, Refused)
            .probe(Outside, To::External, Refused),
        Case::new("empty-slice").endpoints([]).probe(Pod, To::ClusterIp, Refused),
        Case::new("one-unready").endpoints([near_1(), far_1().unready()]).probe(
            Pod,
            To::ClusterIp,
            direct(&["near-1"]),
        ),
        Case::new("all-unready").endpoints([near_1().unready(), far_1().unready()]).probe(
            Pod,
            To::ClusterIp,
            Refused,
        ),
        Case::new("ready-though-not-serving")
            .endpoints([near_1().conditions(true, false, false)])
            .probe(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("serving-though-not-ready")
            .endpoints([near_1().conditions(false, true, false)])
            .probe(Pod, To::ClusterIp, Refused),
        Case::new("one-terminating").endpoints([near_1(), far_1().terminating()]).probe(
            Pod,
            To::ClusterIp,
            direct(&["near-1"]),
        ),
        Case::new("all-terminating")
            .load_balancer()
            .endpoints([near_1().terminating(), far_1().terminating()])
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .probe(Outside, To::LoadBalancer, masqueraded(&["near-1", "far-1"])),
        Case::new("terminating-and-unready")
            .endpoints([near_1().terminating(), far_1().unready()])
            .probe(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("terminated").endpoints([near_1().conditions(false, false, true)]).probe(
            Pod,
            To::ClusterIp,
            Refused,
        ),
        Case::new("without-node-names").endpoints([near_1().nowhere(), far_1().nowhere()]).probe(
            Pod,
            To::ClusterIp,
            direct(&["near-1", "far-1"]),
        ),
    ]
}

fn several_slices() -> Vec<Case> {
    let ports = slice_ports("http", "dns", POD_PORT);
    let second = |case: &str| {
        let mut address = json!({"conditions": {"ready": true}});
        address["addresses"] = json!([pod_address(1, 1, V4), pod_address(1, 2, V4)]);
        slice_object(&slice_name(case, 9, V4), case, V4, &[address], &ports)
    };
    vec![
        Case::new("two-slices")
            .slice(&[V4, V6], [near_1()], &ports)
            .slice(&[V4, V6], [far_1()], &ports)
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"])),
        Case::new("in-two-slices")
            .slice(&[V4, V6], [near_1(), far_1()], &ports)
            .slice(&[V4, V6], [far_1()], &ports)
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"])),
        Case::new("ready-and-terminating")
            .slice(&[V4, V6], [near_1().terminating()], &ports)
            .slice(&[V4, V6], [near_1()], &ports)
            .probe(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("second-address")
            .object(second("second-address"))
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1"])).family(V4)),
    ]
}

/// Slices that the real controllers write.
fn of_controllers() -> Vec<Case> {
    let addresses = [pod_address(1, 1, V4), pod_address(2, 1, V4)];
    vec![
        Case::new("selected").spec("selector", json!({"app": "web"})).made(8).probe(
            Pod,
            To::ClusterIp,
            direct(&["near-1", "near-2", "far-1", "far-2"]),
        ),
        Case::new("mirrored")
            .single_stack(V4)
            .spec("ports", json!([{"port": 80}]))
            .object(cluster::endpoints(NAMESPACE, "mirrored", &addresses, POD_PORT))
            .made(2)
            .probe_as(
                Probe::new(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
                    .family(V4)
                    .protocol(sliceproxy_dataplane::frontend::Protocol::Tcp),
            ),
    ]
}
