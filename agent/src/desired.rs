//! A Service port's frontends and rows. Pure: values in, values out.
//!
//! Which rows a frontend gets (`n` endpoints for policy Cluster, `l` on this node for policy Local):
//!
//! | frontend | with endpoints | without |
//! |---|---|---|
//! | cluster IP, internal policy Cluster | `services → pick-n` | refused |
//! | cluster IP, internal policy Local | `services → local-pick-l` | dropped if others exist, else refused |
//! | external, policy Cluster | `services → pick-n`, masqueraded | refused |
//! | external, policy Local | `services → pick-n` for pods and this node, `local-services → local-pick-l` for the rest | dropped if others exist, else refused |

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use serde::Serialize;
use sliceproxy_dataplane::cidr;
use sliceproxy_dataplane::frontend::{Family, Frontend};
use sliceproxy_dataplane::rows::{Chain, LearnGroup, Row, RowKey, Verdict};

use crate::model::{Service, ServicePort, TrafficPolicy};

/// What makes an address a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum FrontendKind {
    /// `clusterIPs`
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// `status.loadBalancer.ingress[].ip`
    #[serde(rename = "LoadBalancerIP")]
    LoadBalancerIp,
    /// `externalIPs`
    #[serde(rename = "ExternalIP")]
    ExternalIp,
    /// `nodePort` on an address of this node
    NodePort,
}

impl FrontendKind {
    /// All kinds, the most important first.
    pub const ALL: [Self; 4] =
        [Self::ClusterIp, Self::LoadBalancerIp, Self::ExternalIp, Self::NodePort];
}

/// Whether a frontend reads the Cluster slots, the Local slots, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feeds {
    /// Its endpoints are in `backends`.
    pub cluster: bool,
    /// Its endpoints are in `local-backends`.
    pub local: bool,
}

impl Feeds {
    /// What a frontend of that kind reads.
    pub fn of(service: &Service, kind: FrontendKind) -> Self {
        let internal = kind == FrontendKind::ClusterIp;
        let policy = if internal { service.internal_policy } else { service.external_policy };
        let local = policy == TrafficPolicy::Local;
        // Pods and the node itself reach external frontends as if their policy were Cluster.
        Self { cluster: !(internal && local), local }
    }
}

/// The frontends of `port` in `family`, sorted, each once. A Service without a cluster IP of a family
/// has none in it: its node ports are not served over that family either.
pub fn frontends(
    service: &Service,
    port: &ServicePort,
    family: Family,
    node_port_addresses: &[IpAddr],
) -> Vec<(Frontend, FrontendKind)> {
    if service.cluster_ip(family).is_none() {
        return Vec::new();
    }
    let at = |address: IpAddr, number| Frontend { address, protocol: port.protocol, port: number };
    let on_port = |addresses: &[IpAddr], kind| -> Vec<(Frontend, FrontendKind)> {
        addresses.iter().map(|address| (at(*address, port.port), kind)).collect()
    };
    let mut frontends = on_port(&service.cluster_ips, FrontendKind::ClusterIp);
    frontends.extend(on_port(&service.load_balancer_ips, FrontendKind::LoadBalancerIp));
    frontends.extend(on_port(&service.external_ips, FrontendKind::ExternalIp));
    if let Some(node_port) = port.node_port {
        frontends.extend(
            node_port_addresses
                .iter()
                .map(|address| (at(*address, node_port), FrontendKind::NodePort)),
        );
    }
    frontends.retain(|(frontend, _)| frontend.family() == family);
    // The kinds are in order of precedence: a load-balancer IP keeps its source ranges even if it is
    // listed as an external IP too.
    frontends.sort_unstable();
    frontends.dedup_by_key(|(frontend, _)| *frontend);
    frontends
}

/// What the rows of a Service port depend on, apart from who is in which slot.
#[derive(Debug)]
pub struct Situation<'a> {
    /// The Service.
    pub service: &'a Service,
    /// The frontends that this Service port owns, sorted.
    pub frontends: &'a [(Frontend, FrontendKind)],
    /// Endpoints for policy Cluster.
    pub cluster: u32,
    /// Endpoints for policy Local.
    pub local: u32,
    /// Whether any endpoint anywhere could take traffic.
    pub any_usable: bool,
    /// Addresses of this node: if a source range holds one, the node may call the frontend.
    pub node_addresses: &'a [IpAddr],
}

/// The rows of a Service port that are not about single slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// Rows that belong to this Service port alone, sorted.
    pub own: Vec<Row>,
    /// Rows that other Service ports may share, sorted.
    pub shared: Vec<Row>,
    /// Contents of the learn chains that the rows point at.
    pub groups: Vec<LearnGroup>,
}

/// The head rows of a Service port.
pub fn head(situation: &Situation<'_>) -> Head {
    let mut head = Head::default();
    for &(frontend, kind) in situation.frontends {
        let feeds = Feeds::of(situation.service, kind);
        if kind == FrontendKind::ClusterIp {
            head.shared.push(Row::member(RowKey::ClusterIp(frontend.address)));
        } else {
            masquerade(frontend, feeds, &mut head.own);
        }
        verdicts(situation, frontend, feeds, &mut head.own);
        if kind == FrontendKind::LoadBalancerIp {
            source_ranges(situation, frontend, &mut head.own);
        }
    }
    learning(situation, &mut head);
    head.own.sort_unstable();
    head.shared.sort_unstable();
    head.shared.dedup();
    // It is kept, and a cluster has as many as it has Service ports.
    head.own.shrink_to_fit();
    head.shared.shrink_to_fit();
    head
}

/// Outside traffic is masqueraded so that the answer comes back through this node; with policy Local
/// the endpoint is on this node anyway, except for the node's own traffic.
fn masquerade(frontend: Frontend, feeds: Feeds, rows: &mut Vec<Row>) {
    rows.push(Row::member(if feeds.local {
        RowKey::LocalFrontend(frontend)
    } else {
        RowKey::MasqueradeFrontend(frontend)
    }));
}

fn verdicts(situation: &Situation<'_>, frontend: Frontend, feeds: Feeds, rows: &mut Vec<Row>) {
    let sticky = situation.service.affinity_timeout.is_some();
    let (cluster, local) = (situation.cluster, situation.local);
    let pick = if sticky { Chain::Sticky(cluster) } else { Chain::Pick(cluster) };
    let local_pick = if sticky { Chain::LocalSticky(local) } else { Chain::LocalPick(local) };
    let local_verdict = match (local, situation.any_usable) {
        (0, true) => Some(Verdict::Drop),
        (0, false) => None,
        _ => Some(Verdict::Goto(local_pick)),
    };
    if feeds.cluster && cluster > 0 {
        rows.push(Row::service(frontend, Verdict::Goto(pick)));
    }
    if feeds.cluster && cluster == 0 {
        rows.push(Row::no_backends(frontend));
    }
    if feeds.local {
        match (feeds.cluster, local_verdict) {
            (true, Some(verdict)) => rows.push(Row::local_service(frontend, verdict)),
            (false, Some(verdict)) => rows.push(Row::service(frontend, verdict)),
            // Refused above.
            (true, None) => {}
            (false, None) => rows.push(Row::no_backends(frontend)),
        }
    }
}

fn source_ranges(situation: &Situation<'_>, frontend: Frontend, rows: &mut Vec<Row>) {
    let family = frontend.family();
    let ranges: Vec<IpNetwork> = situation
        .service
        .source_ranges
        .iter()
        .copied()
        .filter(|range| Family::of(range.ip()) == family)
        .collect();
    let everyone = ranges.iter().any(|range| range.prefix() == 0);
    if ranges.is_empty() || everyone {
        return;
    }
    let holds_node =
        ranges.iter().any(|range| situation.node_addresses.iter().any(|ip| range.contains(*ip)));
    // The node's own packets to a load-balancer IP that it holds itself carry that address.
    let own = holds_node.then(|| IpNetwork::from(frontend.address));
    rows.push(Row::member(RowKey::RestrictedFrontend(frontend)));
    rows.extend(
        cidr::merge(ranges.into_iter().chain(own))
            .into_iter()
            .map(|range| Row::member(RowKey::AllowedSource(frontend, range))),
    );
}

/// Affinity belongs to the Service port: what a client gets through one frontend it gets through the
/// others, except where these may use other endpoints. So frontends with policy Local learn apart:
/// a client outside that reached an endpoint elsewhere through the cluster IP must not be sent there
/// through a load-balancer IP, where nothing masquerades it.
fn learning(situation: &Situation<'_>, head: &mut Head) {
    let Some(timeout) = situation.service.affinity_timeout else { return };
    let (cluster, local) = (situation.cluster, situation.local);
    for (feeds, endpoints) in [
        (Feeds { cluster: true, local: false }, cluster),
        (Feeds { cluster: false, local: true }, local),
        (Feeds { cluster: true, local: true }, cluster.max(local)),
    ] {
        let members = situation
            .frontends
            .iter()
            .filter(|(_, kind)| Feeds::of(situation.service, *kind) == feeds);
        let frontends: Vec<Frontend> = members.map(|(frontend, _)| *frontend).collect();
        if frontends.is_empty() || endpoints == 0 {
            continue;
        }
        let group = LearnGroup { timeout, frontends };
        let chain = group.chain();
        let rows = group.frontends.iter().map(|frontend| Row::sticky_frontend(*frontend, chain));
        head.own.extend(rows);
        head.groups.push(group);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use sliceproxy_dataplane::frontend::Protocol;

    use super::*;
    use crate::model::ObjectName;

    fn service(cluster_ips: &[&str]) -> Service {
        Service {
            external_ips: vec!["192.0.2.1".parse().unwrap()],
            load_balancer_ips: vec!["192.0.2.1".parse().unwrap()],
            ..Service::new(
                ObjectName::new("shop", "web"),
                cluster_ips.iter().map(|ip| ip.parse().unwrap()).collect(),
                vec![ServicePort {
                    name: "http".into(),
                    protocol: Protocol::Tcp,
                    port: 80,
                    node_port: Some(30080),
                }],
            )
        }
    }

    fn names(service: &Service, family: Family) -> Vec<String> {
        let addresses = ["172.18.0.11".parse().unwrap(), "fd00:18::b".parse().unwrap()];
        frontends(service, &service.ports[0], family, &addresses)
            .into_iter()
            .map(|(frontend, kind)| format!("{frontend} {kind:?}"))
            .collect()
    }

    #[test]
    fn a_family_without_a_cluster_ip_has_no_node_port_either() {
        let service = service(&["10.96.0.1"]);
        assert_eq!(names(&service, Family::V6), [] as [&str; 0]);
        assert!(names(&service, Family::V4).contains(&"172.18.0.11:30080/TCP NodePort".to_owned()));
    }

    #[test]
    fn a_load_balancer_ip_that_is_an_external_ip_too_is_one_frontend_with_source_ranges() {
        let names = names(&service(&["10.96.0.1"]), Family::V4);
        assert_eq!(
            names,
            [
                "10.96.0.1:80/TCP ClusterIp",
                "172.18.0.11:30080/TCP NodePort",
                "192.0.2.1:80/TCP LoadBalancerIp"
            ]
        );
    }
}
