//! Traffic policies.

use super::super::case::{Case, Endpoint, From, Outcome, To};
use super::direct;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("internal-local")
            .spec("internalTrafficPolicy", "Local")
            .endpoints([Endpoint::new("near-1"), Endpoint::new("far-1")])
            .probe(From::Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("internal-local-none")
            .spec("internalTrafficPolicy", "Local")
            .endpoints([Endpoint::new("far-1")])
            .probe(From::Pod, To::ClusterIp, Outcome::Dropped),
        Case::new("external-local")
            .load_balancer()
            .spec("externalTrafficPolicy", "Local")
            .endpoints([Endpoint::new("near-1"), Endpoint::new("far-1")])
            .probe(From::Outside, To::LoadBalancer, direct(&["near-1"]))
            .probe(From::Outside, To::NodePort, direct(&["near-1"])),
    ]
}
