//! Connections as data: from whom, where to, and what becomes of them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sliceproxy_dataplane::frontend::{Family, Protocol};

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// A pod of this node that is no endpoint.
    Pod,
    /// The node itself.
    Node,
    /// A client outside the cluster.
    Outside,
    /// That endpoint.
    Endpoint(&'static str),
}

/// What it is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The Service's cluster IP.
    ClusterIp,
    /// That port of the cluster IP.
    Port(u16),
    /// The node port on the node's address.
    NodePort,
    /// The node port on the load-balancer IP.
    NodePortOfLoadBalancer,
    /// The node port on a loopback address.
    NodePortOfLoopback,
    /// The health check for load balancers on the node's address.
    HealthCheck,
    /// The load-balancer IP.
    LoadBalancer,
    /// That port of the load-balancer IP.
    LoadBalancerPort(u16),
    /// The external IP.
    External,
    /// That port of that address.
    Address(&'static str, u16),
    /// All of these, one after the other.
    Each(&'static [To]),
}

/// Under which address an endpoint sees the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Its own.
    Itself,
    /// The node's: it was masqueraded.
    Node,
    /// Neither.
    Other(IpAddr),
}

/// What becomes of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Each of these answers some of them, and nobody else any.
    Answered(BTreeSet<String>, BTreeSet<Seen>),
    /// One of these answers all of them.
    Sticky(BTreeSet<String>),
    /// The answer of a health check: HTTP status, and the weight that it states.
    Health(u16, u32),
    /// Refused at once, by reset or by ICMP.
    Refused,
    /// No answer.
    Dropped,
    /// Anything else; never expected.
    Mixed(String),
}

/// What kube-proxy does instead, and why we do otherwise.
#[derive(Debug, Clone)]
pub struct Difference {
    /// What it does.
    pub kube_proxy: Outcome,
    /// Why it is right not to do that.
    pub reason: &'static str,
}

/// Connections of one kind to one Service, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Who sends.
    pub from: From,
    /// Where to.
    pub to: To,
    /// Each of these.
    pub protocols: Vec<Protocol>,
    /// In each of these.
    pub families: Vec<Family>,
    /// With sliceproxy, and with kube-proxy unless there is a difference.
    pub expected: Outcome,
    /// Deliberate.
    pub difference: Option<Difference>,
}

impl Probe {
    /// In both families, by TCP and UDP.
    pub fn new(from: From, to: To, expected: Outcome) -> Self {
        Self {
            from,
            to,
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            families: Family::ALL.to_vec(),
            expected,
            difference: None,
        }
    }

    /// In one family only.
    #[must_use]
    pub fn family(self, family: Family) -> Self {
        Self { families: vec![family], ..self }
    }

    /// By one protocol only.
    #[must_use]
    pub fn protocol(self, protocol: Protocol) -> Self {
        Self { protocols: vec![protocol], ..self }
    }

    /// What kube-proxy does instead, and why we do otherwise.
    #[must_use]
    pub fn unlike_kube_proxy(self, kube_proxy: Outcome, reason: &'static str) -> Self {
        Self { difference: Some(Difference { kube_proxy, reason }), ..self }
    }
}
