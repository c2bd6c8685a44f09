//! What is a frontend, and who may call it.

use serde_json::{Value, json};

use super::super::case::{Case, Endpoint, From, Outcome, To, cluster_ip};
use super::{direct, masqueraded, untouched};

const BOTH: &[&str] = &["near-1", "far-1"];

fn two(name: &'static str) -> Case {
    Case::new(name).endpoints([Endpoint::new("near-1"), Endpoint::new("far-1")])
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        two("cluster-ip")
            .probe(From::Pod, To::ClusterIp, direct(BOTH))
            .probe(From::Node, To::ClusterIp, direct(BOTH))
            .probe(From::Outside, To::ClusterIp, masqueraded(BOTH))
            .probe(From::Pod, To::UndefinedPort, Outcome::Refused)
            .probe(From::Node, To::UndefinedPort, Outcome::Refused)
            .probe(From::Outside, To::UndefinedPort, Outcome::Refused),
        two("node-port")
            .node_port()
            .probe(From::Pod, To::NodePort, masqueraded(BOTH))
            .probe(From::Node, To::NodePort, direct(BOTH))
            .probe(From::Outside, To::NodePort, masqueraded(BOTH)),
        two("load-balancer")
            .load_balancer()
            .probe(From::Pod, To::LoadBalancer, masqueraded(BOTH))
            .probe(From::Node, To::LoadBalancer, direct(BOTH))
            .probe(From::Outside, To::LoadBalancer, masqueraded(BOTH))
            .probe(From::Outside, To::NodePort, masqueraded(BOTH)),
        two("external-ip")
            .external()
            .probe(From::Pod, To::External, masqueraded(BOTH))
            .probe(From::Node, To::External, direct(BOTH))
            .probe(From::Outside, To::External, masqueraded(BOTH)),
    ]
}
