//! `loadBalancerSourceRanges`.

use serde_json::{Value, json};
use sliceproxy_dataplane::frontend::Family::{V4, V6};

use super::super::case::Case;
use super::super::probe::From::{Node, Outside, Pod};
use super::super::probe::Outcome::Dropped;
use super::super::probe::{Probe, To};
use super::super::slice::Endpoint;
use super::{direct, masqueraded};

fn ranges(name: &'static str, ranges: Value) -> Case {
    without_endpoints(name, ranges).endpoints([Endpoint::new("near-1")])
}

fn without_endpoints(name: &'static str, ranges: Value) -> Case {
    Case::new(name).load_balancer().spec("loadBalancerSourceRanges", ranges)
}

pub(super) fn cases() -> Vec<Case> {
    let near: &[&str] = &["near-1"];
    vec![
        ranges("ranges-with-clients", json!(["203.0.113.0/24", "2001:db8::/64"]))
            .probe(Outside, To::LoadBalancer, masqueraded(near))
            .probe(Pod, To::LoadBalancer, Dropped)
            .probe(Node, To::LoadBalancer, Dropped)
            .probe(Pod, To::ClusterIp, direct(near))
            .probe(Node, To::NodePort, direct(near)),
        ranges("ranges-without-clients", json!(["192.0.2.0/24", "2001:db8:2::/64"]))
            .external()
            .probe(Outside, To::LoadBalancer, Dropped)
            .probe(Outside, To::NodePort, masqueraded(near))
            .probe(Outside, To::External, masqueraded(near))
            .probe(Pod, To::ClusterIp, direct(near)),
        ranges("ranges-with-node", json!(["172.18.0.0/16", "fd00:18::/64"]))
            .probe(Node, To::LoadBalancer, direct(near))
            .probe(Outside, To::LoadBalancer, Dropped)
            .probe(Pod, To::LoadBalancer, Dropped),
        ranges("ranges-with-pods", json!(["10.244.0.0/16", "fd00:244::/32", "192.0.2.1/32"]))
            .probe(Pod, To::LoadBalancer, masqueraded(near))
            .probe(Outside, To::LoadBalancer, Dropped),
        ranges("ranges-of-v4-only", json!(["192.0.2.0/24"]))
            .probe_as(Probe::new(Outside, To::LoadBalancer, Dropped).family(V4))
            .probe_as(Probe::new(Outside, To::LoadBalancer, masqueraded(near)).family(V6)),
        ranges("ranges-of-everybody", json!(["0.0.0.0/0", "192.0.2.0/24", "::/0"])).probe(
            Outside,
            To::LoadBalancer,
            masqueraded(near),
        ),
        ranges("ranges-that-overlap", json!(["203.0.113.0/24", "203.0.113.9/32", "2001:db8::/32"]))
            .probe(Outside, To::LoadBalancer, masqueraded(near)),
        ranges("ranges-and-local", json!(["203.0.113.0/24", "2001:db8::/64"]))
            .spec("externalTrafficPolicy", "Local")
            .probe(Outside, To::LoadBalancer, direct(near))
            .probe(Pod, To::LoadBalancer, Dropped),
        without_endpoints("ranges-without-endpoints", json!(["192.0.2.0/24", "2001:db8:2::/64"]))
            .probe(Outside, To::LoadBalancer, Dropped),
    ]
}
