//! Hints, written by hand and by the real controllers. The gate `TopologyRouting` is off.

use serde_json::json;
use sliceproxy_dataplane::frontend::Family::{V4, V6};

use super::super::case::Case;
use super::super::plan::POD_PORT;
use super::super::probe::From::{Node, Outside, Pod};
use super::super::probe::{Probe, To};
use super::super::slice::{Endpoint, slice_ports};
use super::{direct, masqueraded};

const ALL: &[&str] = &["near-1", "far-1", "far-2"];

/// Each hinted for its own zone.
fn hinted() -> [Endpoint; 3] {
    let at = |pod, zone| Endpoint::new(pod).for_zones(&[zone]);
    [at("near-1", "zone-a"), at("far-1", "zone-a"), at("far-2", "zone-b")]
}

pub(super) fn cases() -> Vec<Case> {
    [zones(), nodes(), exceptions(), of_controllers()].into_iter().flatten().collect()
}

fn zones() -> Vec<Case> {
    let [near, far, other] = hinted();
    vec![
        Case::new("hints-of-zones")
            .node_port()
            .endpoints(hinted())
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .probe(Node, To::ClusterIp, direct(&["near-1", "far-1"]))
            .probe(Outside, To::NodePort, masqueraded(&["near-1", "far-1"]))
            .in_zone_b(Pod, To::ClusterIp, direct(&["far-2"])),
        Case::new("one-without-hints")
            .endpoints([near.clone(), far.clone(), Endpoint::new("far-2")])
            .probe(Pod, To::ClusterIp, direct(ALL))
            .in_zone_b(Pod, To::ClusterIp, direct(ALL)),
        Case::new("hints-of-other-zones")
            .endpoints([
                Endpoint::new("near-1").for_zones(&["zone-c"]),
                Endpoint::new("far-1").for_zones(&["zone-c"]),
                other.clone(),
            ])
            .probe(Pod, To::ClusterIp, direct(ALL))
            .in_zone_b(Pod, To::ClusterIp, direct(&["far-2"])),
        Case::new("hints-of-several-zones")
            .endpoints([
                near.clone(),
                Endpoint::new("far-1").for_zones(&["zone-a", "zone-b"]),
                other.clone(),
            ])
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .in_zone_b(Pod, To::ClusterIp, direct(&["far-1", "far-2"])),
        Case::new("unready-without-hints")
            .endpoints([near.clone(), other.clone(), Endpoint::new("far-1").unready()])
            .probe(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("unready-in-the-zone").endpoints([near.unready(), far.unready(), other]).probe(
            Pod,
            To::ClusterIp,
            direct(&["far-2"]),
        ),
    ]
}

fn nodes() -> Vec<Case> {
    let [near, far, other] = hinted();
    vec![
        Case::new("hints-of-nodes")
            .endpoints([
                near.clone().for_nodes(&["node-1"]),
                far.clone().for_nodes(&["node-2"]),
                other.clone().for_nodes(&["node-3"]),
            ])
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .in_zone_b(Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("hints-of-other-nodes")
            .endpoints([
                near.clone().for_nodes(&["node-3"]),
                far.clone().for_nodes(&["node-2"]),
                other.clone().for_nodes(&["node-3"]),
            ])
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"]))
            .in_zone_b(Pod, To::ClusterIp, direct(&["far-2"])),
        Case::new("one-without-hints-of-nodes")
            .endpoints([near.for_nodes(&["node-1"]), far, other])
            .probe(Pod, To::ClusterIp, direct(&["near-1", "far-1"])),
    ]
}

fn exceptions() -> Vec<Case> {
    let [near, far, other] = hinted();
    vec![
        Case::new("hints-and-terminating")
            .endpoints([near.clone().terminating(), far.clone().terminating(), other.terminating()])
            .probe(Pod, To::ClusterIp, direct(ALL)),
        Case::new("hints-and-local")
            .load_balancer()
            .spec("externalTrafficPolicy", "Local")
            .endpoints([Endpoint::new("near-1").for_zones(&["zone-b"]), far])
            .probe(Outside, To::LoadBalancer, direct(&["near-1"]))
            .probe(Pod, To::ClusterIp, direct(&["far-1"])),
        Case::new("hints-of-v6-only")
            .slice(
                &[V4],
                ALL.iter().map(|pod| Endpoint::new(pod)),
                &slice_ports("http", "dns", POD_PORT),
            )
            .slice(&[V6], hinted(), &slice_ports("http", "dns", POD_PORT))
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(ALL)).family(V4))
            .probe_as(Probe::new(Pod, To::ClusterIp, direct(&["near-1", "far-1"])).family(V6)),
        Case::new("zones-without-hints").endpoints(ALL.iter().map(|pod| Endpoint::new(pod))).probe(
            Pod,
            To::ClusterIp,
            direct(ALL),
        ),
    ]
}

fn of_controllers() -> Vec<Case> {
    let made = |name, distribution: &str| {
        Case::new(name)
            .spec("selector", json!({"app": "web"}))
            .spec("trafficDistribution", distribution)
            .made(8)
    };
    let others: &[&str] = &["far-2"];
    vec![
        made("prefer-same-zone", "PreferSameZone")
            .probe(Pod, To::ClusterIp, direct(&["near-1", "near-2", "far-1"]))
            .in_zone_b(Pod, To::ClusterIp, direct(others)),
        made("prefer-close", "PreferClose")
            .probe(Pod, To::ClusterIp, direct(&["near-1", "near-2", "far-1"]))
            .in_zone_b(Pod, To::ClusterIp, direct(others)),
        made("prefer-same-node", "PreferSameNode")
            .probe(Pod, To::ClusterIp, direct(&["near-1", "near-2"]))
            .in_zone_b(Pod, To::ClusterIp, direct(&["near-1", "near-2"])),
    ]
}
