//! Who would get how much traffic if every node sent the same: overload by uneven placement, seen
//! before it happens.

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;

use super::Filter;
use super::topology::{Uses, sorted_ports};
use crate::engine::{Engine, Port};
use crate::model::{Node, NodeName};
use crate::pool::Member;
use crate::topology::{Here, Standing, Tally, Wishes, choose, choose_local};

/// The shares of all endpoints as seen from all nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixView {
    /// The nodes, in the order of all lists of shares.
    pub nodes: Vec<MatrixNodeView>,
    /// Times its fair share from which on an endpoint is overloaded.
    pub overload_factor: f64,
    /// The Service ports, by name and family.
    pub service_ports: Vec<MatrixPortView>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixNodeView {
    /// Its name.
    pub name: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Its region.
    pub region: Option<String>,
}

/// A Service port in one family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixPortView {
    /// `NAMESPACE/SERVICE:PORT/PROTOCOL`
    pub service_port: String,
    /// The family.
    pub family: Family,
    /// An equal part of the traffic for each ready endpoint, in percent.
    pub fair_percent: f64,
    /// Nodes whose traffic nobody gets: refused or dropped.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unserved_nodes: Vec<String>,
    /// Endpoints that get traffic from any node, or are ready.
    pub endpoints: Vec<MatrixEndpointView>,
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatrixEndpointView {
    /// Address and port.
    pub endpoint: String,
    /// Its node.
    pub node: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Percent of each node's traffic that it gets.
    pub percent_by_node: Vec<f64>,
    /// Percent of all traffic that it gets.
    pub percent: f64,
    /// How many times its fair share that is.
    pub times_fair: f64,
    /// Whether that is more than the factor.
    pub overloaded: bool,
}

/// The matrix for the cluster IPs of the Services that `filter` admits, over `nodes`. `engine` may be
/// that of any node.
pub fn matrix<'n, K: Kernel>(
    engine: &Engine<K>,
    nodes: impl IntoIterator<Item = (&'n NodeName, &'n Node)>,
    filter: &Filter,
    overload_factor: f64,
) -> MatrixView {
    let places: Vec<Here> =
        nodes.into_iter().map(|(name, node)| place(engine, name, node)).collect();
    let text = |name: Option<&dyn std::fmt::Display>| name.map(ToString::to_string);
    MatrixView {
        nodes: places
            .iter()
            .map(|here| MatrixNodeView {
                name: here.node.to_string(),
                zone: text(here.zone.as_ref().map(|zone| zone as _)),
                region: text(here.region.as_ref().map(|region| region as _)),
            })
            .collect(),
        overload_factor,
        service_ports: sorted_ports(engine, filter)
            .map(|(service, port)| {
                let uses = Uses::of(service, port);
                let wishes = engine.wishes(service);
                port_view(port, &places, &wishes, uses.local && !uses.cluster, overload_factor)
            })
            .collect(),
    }
}

fn place<K: Kernel>(engine: &Engine<K>, name: &NodeName, node: &Node) -> Here {
    let regions = engine.here().regions.clone();
    let known = node.zone.as_ref().and_then(|zone| regions.get(zone).cloned());
    Here {
        node: name.clone(),
        zone: node.zone.clone(),
        region: node.region.clone().or(known),
        regions,
        pod_cidrs: node.pod_cidrs.clone(),
    }
}

fn port_view(
    port: &Port,
    places: &[Here],
    wishes: &Wishes,
    only_local: bool,
    overload_factor: f64,
) -> MatrixPortView {
    let members = port.pool.members();
    let shares: Vec<Vec<f64>> =
        places.iter().map(|here| shares(&members, here, wishes, only_local)).collect();
    let is_served = |shares: &Vec<f64>| shares.iter().any(|share| *share > 0.0);
    let unserved = places.iter().zip(&shares).filter(|(_, shares)| !is_served(shares));
    let used = |index: usize| shares.iter().any(|shares| shares[index] > 0.0);
    let ready = members.iter().filter(|member| member.description.conditions.ready).count();
    let counted = if ready > 0 { ready } else { (0..members.len()).filter(|i| used(*i)).count() };
    let fair_percent = 100.0 / as_float(counted.max(1));
    let endpoint_view = |(index, member): (usize, &Member<'_>)| {
        let by_node: Vec<f64> = shares.iter().map(|shares| shares[index]).collect();
        let percent = by_node.iter().sum::<f64>() / as_float(places.len().max(1));
        let times_fair = percent / fair_percent;
        MatrixEndpointView {
            endpoint: member.endpoint.to_string(),
            node: member.description.node.as_ref().map(ToString::to_string),
            zone: member.description.zone.as_ref().map(ToString::to_string),
            percent_by_node: by_node.into_iter().map(rounded).collect(),
            percent: rounded(percent),
            times_fair: rounded(times_fair),
            overloaded: times_fair > overload_factor,
        }
    };
    MatrixPortView {
        service_port: port.name.to_string(),
        family: port.pool.family(),
        fair_percent: rounded(fair_percent),
        unserved_nodes: unserved.map(|(here, _)| here.node.to_string()).collect(),
        endpoints: members
            .iter()
            .enumerate()
            .filter(|(index, member)| member.description.conditions.ready || used(*index))
            .map(endpoint_view)
            .collect(),
    }
}

/// Percent of the traffic of the node at `here` that each of `members` gets.
fn shares(members: &[Member<'_>], here: &Here, wishes: &Wishes, only_local: bool) -> Vec<f64> {
    let standings: Vec<Standing> =
        members.iter().map(|member| Standing::of(member.description, here)).collect();
    let mut tally = Tally::default();
    for standing in &standings {
        tally.add(*standing);
    }
    let local = choose_local(&tally);
    let scope = choose(&tally, here, wishes).scope;
    let admitted = |standing: &Standing| {
        if only_local { local.admits(*standing) } else { scope.admits(*standing) }
    };
    let used = standings.iter().filter(|standing| admitted(standing)).count();
    let share = 100.0 / as_float(used.max(1));
    standings.iter().map(|standing| if admitted(standing) { share } else { 0.0 }).collect()
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    fn web(gates: &str, factor: f64) -> (MatrixView, MatrixPortView) {
        let snapshot = shop::snapshot("node-a1", gates);
        let engine = snapshot.engine(sliceproxy_dataplane::fake::FakeKernel::new()).unwrap();
        let nodes = snapshot.world().nodes.iter().map(|(name, node)| (name, &**node));
        let view = matrix(&engine, nodes, &"shop/cart".parse().unwrap(), factor);
        let port = view.service_ports[0].clone();
        (view, port)
    }

    #[test]
    fn without_topology_everyone_gets_the_same() {
        let (view, port) = web("", 2.0);
        assert_eq!(view.nodes.len(), 6);
        assert!((port.fair_percent - 33.333).abs() < 1e-9);
        for endpoint in &port.endpoints {
            assert!((endpoint.times_fair - 1.0).abs() < 1e-3 && !endpoint.overloaded);
            assert_eq!(endpoint.percent_by_node, [33.333; 6]);
        }
    }

    #[test]
    fn uneven_placement_is_seen() {
        let (view, port) = web("TopologyRouting", 1.2);
        let total: f64 = port.endpoints.iter().map(|endpoint| endpoint.percent).sum();
        assert!((total - 100.0).abs() < 0.01, "{total}");
        for (index, node) in view.nodes.iter().enumerate() {
            let sent: f64 = port.endpoints.iter().map(|e| e.percent_by_node[index]).sum();
            assert!((sent - 100.0).abs() < 0.01, "{}: {sent}", node.name);
        }
        assert!(port.endpoints.iter().any(|endpoint| endpoint.overloaded), "{port:?}");
    }
}
