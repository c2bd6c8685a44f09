//! Services with their frontends.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::rows::{Chain, RowKey, RowValue, Verdict};

use super::Filter;
use super::topology::{TopologyView, of_port, sorted_ports};
use crate::desired::FrontendKind;
use crate::engine::{Engine, Port};
use crate::model::{Service, ServicePortName, TrafficPolicy};

/// A port of a Service in one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePortView {
    /// Namespace and name of the Service.
    pub service: String,
    /// Name of the port; may be empty.
    pub port_name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Number of the port.
    pub port: u16,
    /// Port on the nodes' addresses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_port: Option<u16>,
    /// The family.
    pub family: Family,
    /// `Cluster` or `Local`.
    pub internal_traffic_policy: String,
    /// `Cluster` or `Local`.
    pub external_traffic_policy: String,
    /// Seconds that a client keeps its endpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_affinity_seconds: Option<u32>,
    /// `loadBalancerSourceRanges`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub source_ranges: Vec<String>,
    /// `healthCheckNodePort`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_check_node_port: Option<u16>,
    /// Where clients connect to.
    pub frontends: Vec<FrontendView>,
    /// Limits that keep a part of the Service from being served.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exceeded: Vec<String>,
    /// Which endpoints are used, and why.
    pub topology: TopologyView,
}

/// A frontend that a Service port asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendView {
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// `ClusterIP`, `LoadBalancerIP`, `ExternalIP` or `NodePort`.
    pub kind: String,
    /// Whether this Service port has it; if not, another one does, or the address is another
    /// Service's cluster IP.
    pub owned: bool,
    /// Who has it instead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    /// Who asks for it too and does not get it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denied: Vec<String>,
    /// What pods of this node and the node itself meet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_inside: Option<Treatment>,
    /// What everybody else meets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_outside: Option<Treatment>,
}

/// What happens to a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Treatment {
    /// It goes to one of so many endpoints.
    Balanced {
        /// How many.
        endpoints: u32,
    },
    /// It is refused at once.
    Refused,
    /// It vanishes.
    Dropped,
}

/// The losers of each disputed frontend.
type Denied<'e> = HashMap<Frontend, Vec<&'e ServicePortName>>;

/// The ports of all Services that `filter` admits, by name and family.
pub fn services<K: Kernel>(engine: &Engine<K>, filter: &Filter) -> Vec<ServicePortView> {
    let denied: Denied<'_> =
        engine.claims().conflicts().map(|(frontend, losers)| (*frontend, losers)).collect();
    let ports = sorted_ports(engine, filter);
    ports.map(|(service, port)| view(engine, service, port, &denied)).collect()
}

fn view<K: Kernel>(
    engine: &Engine<K>,
    service: &Service,
    port: &Port,
    denied: &Denied<'_>,
) -> ServicePortView {
    let frontends = port.claimed.iter();
    ServicePortView {
        service: service.name.to_string(),
        port_name: port.name.port.to_string(),
        protocol: port.name.protocol,
        port: port.spec.port,
        node_port: port.spec.node_port,
        family: port.pool.family(),
        internal_traffic_policy: policy(service.internal_policy).to_owned(),
        external_traffic_policy: policy(service.external_policy).to_owned(),
        session_affinity_seconds: service.affinity_timeout,
        source_ranges: service.source_ranges.iter().map(ToString::to_string).collect(),
        health_check_node_port: service.health_check_node_port,
        frontends: frontends.map(|claim| frontend_view(engine, port, *claim, denied)).collect(),
        exceeded: engine.exceeded(&service.name).iter().map(ToString::to_string).collect(),
        topology: of_port(engine, service, port),
    }
}

fn frontend_view<K: Kernel>(
    engine: &Engine<K>,
    port: &Port,
    (frontend, kind): (Frontend, FrontendKind),
    denied: &Denied<'_>,
) -> FrontendView {
    let owner = engine.claims().owner(&frontend);
    let is_ours = owner == Some(&port.name);
    let losers = denied.get(&frontend).into_iter().flatten();
    let ledger = engine.ledger();
    FrontendView {
        address: frontend.address,
        port: frontend.port,
        protocol: frontend.protocol,
        kind: kind_name(kind).to_owned(),
        owned: is_ours,
        owner: owner.filter(|_| !is_ours).map(ToString::to_string),
        denied: losers.filter(|_| is_ours).map(ToString::to_string).collect(),
        from_inside: is_ours.then(|| inside(ledger, frontend)).flatten(),
        from_outside: is_ours.then(|| outside(ledger, frontend)).flatten(),
    }
}

/// A frontend kind as Kubernetes would name it.
pub(super) fn kind_name(kind: FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "ClusterIP",
        FrontendKind::LoadBalancerIp => "LoadBalancerIP",
        FrontendKind::ExternalIp => "ExternalIP",
        FrontendKind::NodePort => "NodePort",
    }
}

pub(super) fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

fn inside(ledger: &Ledger, frontend: Frontend) -> Option<Treatment> {
    let verdict = |key| ledger.desired(&key).and_then(treatment);
    verdict(RowKey::Service(frontend)).or_else(|| verdict(RowKey::NoBackends(frontend)))
}

fn outside(ledger: &Ledger, frontend: Frontend) -> Option<Treatment> {
    let local = ledger.desired(&RowKey::LocalService(frontend)).and_then(treatment);
    local.or_else(|| inside(ledger, frontend))
}

fn treatment(value: RowValue) -> Option<Treatment> {
    let RowValue::Verdict(verdict) = value else { return None };
    match verdict {
        Verdict::Drop => Some(Treatment::Dropped),
        Verdict::Goto(Chain::RejectNow) => Some(Treatment::Refused),
        Verdict::Goto(
            Chain::Pick(n) | Chain::Sticky(n) | Chain::LocalPick(n) | Chain::LocalSticky(n),
        ) => Some(Treatment::Balanced { endpoints: n }),
        Verdict::Goto(Chain::Learn(_) | Chain::LearnGroup(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    #[test]
    fn frontends_say_who_is_served_how() {
        let engine = shop::engine("node-b1");
        let api = services(&engine, &"shop/api".parse().unwrap());
        let v4 = api.iter().find(|port| port.family == Family::V4).unwrap();
        assert_eq!(v4.external_traffic_policy, "Local");
        let balancer = v4.frontends.iter().find(|f| f.kind == "LoadBalancerIP").unwrap();
        assert_eq!(balancer.from_inside, Some(Treatment::Balanced { endpoints: 3 }));
        assert!(balancer.owned && balancer.owner.is_none() && balancer.denied.is_empty());
        let empty = services(&engine, &"shop/empty".parse().unwrap());
        assert_eq!(empty[0].frontends[0].from_inside, Some(Treatment::Refused));
        assert_eq!(empty[0].frontends[0].from_outside, Some(Treatment::Refused));
    }

    #[test]
    fn json_uses_the_names_of_kubernetes() {
        let engine = shop::engine("node-a1");
        let cart = services(&engine, &"shop/cart".parse().unwrap());
        let json = serde_json::to_value(&cart[0]).unwrap();
        assert_eq!(json["sessionAffinitySeconds"], 600);
        assert_eq!(json["frontends"][0]["kind"], "ClusterIP");
        assert_eq!(json["frontends"][0]["fromInside"]["verdict"], "balanced");
        let back: ServicePortView = serde_json::from_value(json).unwrap();
        assert_eq!(back, cart[0]);
    }
}
