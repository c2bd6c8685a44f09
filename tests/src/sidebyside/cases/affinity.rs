//! Session affinity.

use serde_json::json;

use super::super::case::Case;
use super::super::probe::From::{Outside, Pod};
use super::super::probe::{From, To};
use super::super::slice::Endpoint;
use super::{masqueraded, sticky};

const EVERYWHERE: To = To::Each(&[To::ClusterIp, To::NodePort, To::LoadBalancer]);
const BOTH: &[&str] = &["near-1", "far-1"];

fn affine(name: &'static str) -> Case {
    Case::new(name).load_balancer().spec("sessionAffinity", "ClientIP")
}

fn near_1() -> Endpoint {
    Endpoint::new("near-1")
}

fn far_1() -> Endpoint {
    Endpoint::new("far-1")
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        affine("affinity")
            .endpoints([near_1(), far_1()])
            .probe(Pod, To::ClusterIp, sticky(BOTH))
            .probe(Outside, EVERYWHERE, sticky(BOTH)),
        affine("affinity-local")
            .spec("externalTrafficPolicy", "Local")
            .endpoints([near_1(), Endpoint::new("near-2"), far_1()])
            .probe(Outside, To::LoadBalancer, sticky(&["near-1", "near-2"]))
            .probe(Outside, To::NodePort, sticky(&["near-1", "near-2"])),
        affine("affinity-internal-local")
            .spec("internalTrafficPolicy", "Local")
            .endpoints([near_1(), Endpoint::new("near-2"), far_1()])
            .probe(Pod, To::ClusterIp, sticky(&["near-1", "near-2"])),
        affine("affinity-endpoint-leaves")
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::LoadBalancer, sticky(BOTH))
            .endpoints_become([far_1()])
            .then(Outside, To::LoadBalancer, sticky(&["far-1"])),
        affine("affinity-endpoint-joins")
            .endpoints([near_1()])
            .probe(Outside, To::LoadBalancer, sticky(&["near-1"]))
            .endpoints_become([near_1(), far_1()])
            .then(Outside, To::LoadBalancer, sticky(&["near-1"])),
        affine("affinity-endpoint-terminates")
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::LoadBalancer, sticky(BOTH))
            .endpoints_become([near_1().terminating(), far_1()])
            .then(Outside, To::LoadBalancer, sticky(&["far-1"])),
        affine("affinity-hairpin")
            .endpoints([near_1()])
            .probe(From::Endpoint("near-1"), To::ClusterIp, masqueraded(&["near-1"]))
            .probe(From::Endpoint("near-1"), To::LoadBalancer, masqueraded(&["near-1"])),
        // The others would be sent to another node, and nothing masquerades them.
        affine("affinity-becomes-local")
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::LoadBalancer, sticky(BOTH))
            .patch(json!({"spec": {"externalTrafficPolicy": "Local"}}))
            .then(Outside, To::LoadBalancer, sticky(&["near-1"])),
        affine("affinity-ends")
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::LoadBalancer, sticky(BOTH))
            .patch(json!({"spec": {"sessionAffinity": "None", "sessionAffinityConfig": null}}))
            .then(Outside, To::LoadBalancer, masqueraded(BOTH)),
        Case::new("affinity-begins")
            .load_balancer()
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::LoadBalancer, masqueraded(BOTH))
            .patch(json!({"spec": {"sessionAffinity": "ClientIP"}}))
            .then(Outside, To::LoadBalancer, sticky(BOTH)),
    ]
}
