//! Traffic policies, and the health check that load balancers ask.

use super::super::case::Case;
use super::super::plan::POD_PORT;
use super::super::probe::From::{self, Node, Outside, Pod};
use super::super::probe::Outcome::{Dropped, Health, Refused};
use super::super::probe::{Outcome, Probe, To};
use super::super::slice::{Endpoint, slice_ports};
use super::{direct, masqueraded};
use sliceproxy_dataplane::frontend::Family::{V4, V6};
use sliceproxy_dataplane::frontend::Protocol::Tcp;

fn near_1() -> Endpoint {
    Endpoint::new("near-1")
}

fn far_1() -> Endpoint {
    Endpoint::new("far-1")
}

fn internal(name: &'static str) -> Case {
    Case::new(name).spec("internalTrafficPolicy", "Local")
}

fn external(name: &'static str) -> Case {
    Case::new(name).load_balancer().spec("externalTrafficPolicy", "Local")
}

fn health(status: u16, weight: u32) -> Probe {
    Probe::new(Outside, To::HealthCheck, Health(status, weight)).protocol(Tcp).family(V4)
}

pub(super) fn cases() -> Vec<Case> {
    [internal_local(), external_local(), both_local()].into_iter().flatten().collect()
}

fn internal_local() -> Vec<Case> {
    vec![
        internal("internal-local")
            .load_balancer()
            .endpoints([near_1(), far_1()])
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .probe(Node, To::ClusterIp, direct(&["near-1"]))
            .probe(Outside, To::ClusterIp, masqueraded(&["near-1"]))
            .probe(Outside, To::LoadBalancer, masqueraded(&["near-1", "far-1"])),
        internal("internal-local-elsewhere")
            .load_balancer()
            .endpoints([far_1()])
            .probe(Pod, To::ClusterIp, Dropped)
            .probe(Node, To::ClusterIp, Dropped)
            .probe(Outside, To::LoadBalancer, masqueraded(&["far-1"])),
        internal("internal-local-nowhere").probe(Pod, To::ClusterIp, Refused),
        internal("internal-local-terminating").endpoints([near_1().terminating(), far_1()]).probe(
            Pod,
            To::ClusterIp,
            direct(&["near-1"]),
        ),
        internal("internal-local-unready").endpoints([near_1().unready(), far_1()]).probe(
            Pod,
            To::ClusterIp,
            Dropped,
        ),
    ]
}

fn external_local() -> Vec<Case> {
    vec![
        external("external-local")
            .external()
            .endpoints([near_1(), Endpoint::new("near-2"), far_1()])
            .probe(Outside, To::LoadBalancer, direct(&["near-1", "near-2"]))
            .probe(Outside, To::NodePort, direct(&["near-1", "near-2"]))
            .probe(Outside, To::External, direct(&["near-1", "near-2"]))
            .probe(Pod, To::LoadBalancer, direct(&["near-1", "near-2", "far-1"]))
            .probe(Pod, To::NodePort, direct(&["near-1", "near-2", "far-1"]))
            .probe(Node, To::LoadBalancer, direct(&["near-1", "near-2", "far-1"]))
            .probe(Node, To::NodePort, direct(&["near-1", "near-2", "far-1"]))
            .probe(Pod, To::ClusterIp, direct(&["near-1", "near-2", "far-1"]))
            // By its address it is a pod, wherever it runs.
            .probe(From::Endpoint("far-2"), To::NodePort, direct(&["near-1", "near-2", "far-1"]))
            .probe_as(health(200, 2)),
        external("external-local-elsewhere")
            .external()
            .endpoints([far_1()])
            .probe(Outside, To::LoadBalancer, Dropped)
            .probe(Outside, To::NodePort, Dropped)
            .probe(Outside, To::External, Dropped)
            .probe(Pod, To::LoadBalancer, direct(&["far-1"]))
            .probe(Node, To::LoadBalancer, direct(&["far-1"]))
            .probe(Node, To::NodePort, direct(&["far-1"]))
            .probe(Pod, To::ClusterIp, direct(&["far-1"]))
            .probe_as(health(503, 0)),
        external("external-local-nowhere")
            .probe(Outside, To::LoadBalancer, Refused)
            .probe(Outside, To::NodePort, Refused)
            .probe(Pod, To::LoadBalancer, Refused)
            .probe_as(health(503, 0)),
        external("external-local-terminating")
            .endpoints([near_1().terminating(), far_1()])
            .probe(Outside, To::LoadBalancer, direct(&["near-1"]))
            .probe(Pod, To::LoadBalancer, direct(&["far-1"]))
            .probe_as(health(503, 0)),
        external("external-local-without-node-names")
            .endpoints([near_1().nowhere(), far_1().nowhere()])
            .probe(Outside, To::LoadBalancer, Dropped)
            .probe(Pod, To::LoadBalancer, direct(&["near-1", "far-1"])),
        external("external-local-hairpin").endpoints([near_1()]).probe(
            From::Endpoint("near-1"),
            To::LoadBalancer,
            masqueraded(&["near-1"]),
        ),
        Case::new("external-local-external-ip")
            .external()
            .spec("externalTrafficPolicy", "Local")
            .endpoints([near_1(), far_1()])
            .probe(Outside, To::External, direct(&["near-1"]))
            .probe(Pod, To::External, direct(&["near-1", "far-1"])),
        external("health-of-other-ports")
            .slice(&[V4, V6], [near_1()], &slice_ports("web", "names", POD_PORT))
            .probe(Outside, To::LoadBalancer, Refused)
            .probe_as(health(503, 0).unlike_kube_proxy(
                Outcome::Health(200, 1),
                "only endpoints that take this Service's traffic count: kube-proxy calls a node \
                 healthy that refuses everything",
            )),
    ]
}

fn both_local() -> Vec<Case> {
    let both = |name| external(name).spec("internalTrafficPolicy", "Local");
    vec![
        both("both-local")
            .endpoints([near_1(), far_1()])
            .probe(Pod, To::ClusterIp, direct(&["near-1"]))
            .probe(Pod, To::LoadBalancer, direct(&["near-1", "far-1"]))
            .probe(Outside, To::LoadBalancer, direct(&["near-1"])),
        both("both-local-elsewhere")
            .endpoints([far_1()])
            .probe(Pod, To::ClusterIp, Dropped)
            .probe(Node, To::ClusterIp, Dropped)
            .probe(Pod, To::LoadBalancer, direct(&["far-1"]))
            .probe(Outside, To::LoadBalancer, Dropped),
    ]
}
