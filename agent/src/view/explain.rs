//! Where a connection would go and why, from what the kernel holds now.

mod endpoints;
mod frontends;
mod held;
mod names;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::picture::Picture;
use sliceproxy_dataplane::program::Program;
use sliceproxy_dataplane::walk::Node;

use self::held::Held;
use super::route::RouteView;
use super::topology::TopologyView;
use super::{NoAnswer, Target};
use crate::desired::FrontendKind;
use crate::engine::Engine;
use crate::host::Host;

/// The explanation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainView {
    /// What was asked about.
    pub target: String,
    /// The node that it is about.
    pub node: String,
    /// The node's zone.
    pub zone: Option<String>,
    /// The node's region.
    pub region: Option<String>,
    /// Where the kernel is not what it should be.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// Chains of others that a packet may meet on its way, too, and that are not looked into.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_followed: Vec<String>,
    /// The frontends and what their clients meet.
    pub frontends: Vec<FrontendExplanation>,
    /// The Service ports behind them, with every endpoint.
    pub service_ports: Vec<ServicePortExplanation>,
}

/// A frontend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendExplanation {
    /// `ADDRESS:PORT/PROTOCOL`
    pub frontend: String,
    /// `ClusterIP`, `LoadBalancerIP`, `ExternalIP` or `NodePort`; absent if nobody has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
    /// The Service port that has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_port: Option<String>,
    /// The traffic policy that applies: `Cluster` or `Local`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub traffic_policy: Option<String>,
    /// Seconds that a client keeps its endpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_affinity_seconds: Option<u32>,
    /// Service ports that ask for it and do not get it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denied: Vec<String>,
    /// Why nobody has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remark: Option<String>,
    /// What clients meet.
    pub routes: Vec<RouteView>,
}

/// A Service port in one family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePortExplanation {
    /// The level that is used, and why.
    #[serde(flatten)]
    pub topology: TopologyView,
    /// Why levels that would have come first are not used.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub passed_over: Vec<String>,
    /// All endpoints, sorted by address.
    pub endpoints: Vec<EndpointView>,
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Address and port.
    pub endpoint: String,
    /// The slices that name it.
    pub slices: Vec<String>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<String>,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// Whether it is used.
    pub used: bool,
    /// What it is, and why it is used or not.
    pub reason: String,
    /// The same for traffic from outside, where `externalTrafficPolicy: Local` makes it different.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_outside: Option<String>,
    /// Its share of new connections, as the first sender sees it that it may serve.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub percent: Option<f64>,
}

/// What can be seen of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// Our tables.
    pub picture: &'a Picture,
    /// The rest of it; `None` if this is not the machine that is explained.
    pub host: Option<&'a Host>,
}

/// Explains `target`, for the sender `from` or for examples of all kinds of senders.
///
/// # Errors
/// If there is no such Service, or `from` is of the wrong family.
pub fn explain<K: Kernel>(
    engine: &Engine<K>,
    sight: &Sight<'_>,
    target: &Target,
    from: Option<IpAddr>,
) -> Result<ExplainView, NoAnswer> {
    let frontends = match target {
        Target::Frontend(frontend) => vec![*frontend],
        Target::Service(name, port) => names::frontends(engine, name, port.as_deref(), from)?,
    };
    if let (Target::Frontend(frontend), Some(from)) = (target, from)
        && Family::of(from) != frontend.family()
    {
        return Err(NoAnswer::BadQuestion(format!(
            "--from {from} is {}, and {frontend} is {}: no packet goes from one to the other",
            Family::of(from),
            frontend.family()
        )));
    }
    let held = Held { picture: sight.picture, ledger: engine.ledger() };
    let node = node_of(engine, sight.host);
    let inquiry = Inquiry { engine, held: &held, host: sight.host, node, from };
    let explained: Vec<FrontendExplanation> =
        frontends.iter().map(|frontend| inquiry.frontend(*frontend)).collect();
    let here = engine.here();
    Ok(ExplainView {
        target: target.to_string(),
        node: here.node.to_string(),
        zone: here.zone.as_ref().map(ToString::to_string),
        region: here.region.as_ref().map(ToString::to_string),
        warnings: inquiry.warnings(&frontends),
        not_followed: inquiry.not_followed(&frontends),
        service_ports: inquiry.service_ports(target, &frontends, &explained),
        frontends: explained,
    })
}

/// The addresses that packets reach this node's own processes by.
fn node_of<K: Kernel>(engine: &Engine<K>, host: Option<&Host>) -> Node {
    let of_host = host.into_iter().flat_map(|host| host.addresses.iter().copied());
    let own = engine.node().into_iter().flat_map(|node| node.addresses.iter().copied());
    let node_ports = engine
        .ports()
        .flat_map(|port| &port.claimed)
        .filter(|(_, kind)| *kind == FrontendKind::NodePort)
        .map(|(frontend, _)| frontend.address);
    of_host.chain(own).chain(node_ports).collect()
}

/// Everything that an answer is made of.
struct Inquiry<'a, K> {
    engine: &'a Engine<K>,
    held: &'a Held<'a>,
    host: Option<&'a Host>,
    node: Node,
    from: Option<IpAddr>,
}

impl<K: Kernel> Inquiry<'_, K> {
    fn program(&self, family: Family) -> Option<&Program> {
        self.engine.ledger().programs().iter().find(|program| program.family() == family)
    }
}

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
