//! Which endpoints are used.

use super::super::case::{Case, Endpoint, From, Outcome, To};
use super::direct;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("without-slices")
            .load_balancer()
            .external()
            .probe(From::Pod, To::ClusterIp, Outcome::Refused)
            .probe(From::Node, To::NodePort, Outcome::Refused)
            .probe(From::Outside, To::LoadBalancer, Outcome::Refused)
            .probe(From::Outside, To::External, Outcome::Refused),
        Case::new("one-unready")
            .endpoints([Endpoint::new("near-1"), Endpoint::new("far-1").unready()])
            .probe(From::Pod, To::ClusterIp, direct(&["near-1"])),
        Case::new("all-unready").endpoints([Endpoint::new("near-1").unready()]).probe(
            From::Pod,
            To::ClusterIp,
            Outcome::Refused,
        ),
    ]
}
