//! Nodes and ServiceCIDRs.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::address::{parse_address, parse_network};
use super::rejections::Rejections;
use super::{Converted, filled};
use crate::model::{Node, ObjectName, Region, Zone};
use crate::wire;

/// Taint of the cluster autoscaler on a node that it is about to remove.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Most addresses, pod networks, or networks of a ServiceCIDR.
const MAX_NETWORKS: usize = 100;

/// A Node is always an object: only parts of it can be wrong.
pub fn node(wire: &wire::Node<'_>) -> Converted<Node> {
    node_after(wire, Rejections::new("Node"))
}

/// The same, with what was rejected before.
pub(super) fn node_after(wire: &wire::Node<'_>, mut rejections: Rejections) -> Converted<Node> {
    let labels = &wire.metadata.labels;
    let tainted =
        wire.spec.taints.iter().flatten().any(|t| t.key.as_deref() == Some(TO_BE_DELETED));
    let node = Node {
        zone: labels.zone.as_deref().and_then(Zone::new),
        region: labels.region.as_deref().and_then(Region::new),
        addresses: addresses(&wire.status, &mut rejections),
        pod_cidrs: pod_cidrs(&wire.spec, &mut rejections),
        eligible: filled(wire.metadata.deletion_timestamp.as_ref()).is_none() && !tainted,
        uid: wire.metadata.uid.as_deref().unwrap_or_default().into(),
    };
    let name = wire.metadata.name.as_deref().unwrap_or_default();
    Converted {
        name: ObjectName::new("", &name.to_ascii_lowercase()),
        object: Some(node),
        rejections: rejections.finish(name),
    }
}

fn addresses(status: &wire::NodeStatus<'_>, rejections: &mut Rejections) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let all = rejections.limit(format_args!("status.addresses"), &status.addresses, MAX_NETWORKS);
    rejections.nulls(format_args!("status.addresses"), all);
    for wanted in ["InternalIP", "ExternalIP"] {
        for (i, entry) in all.iter().enumerate() {
            let Some(entry) = entry else { continue };
            if entry.type_.as_deref() != Some(wanted) {
                continue;
            }
            let text = entry.address.as_deref().unwrap_or_default();
            match parse_address(text) {
                Some(address) if !found.contains(&address) => found.push(address),
                Some(_) => {}
                None => rejections.add(
                    format_args!("status.addresses[{i}].address"),
                    text,
                    "not an IP address; it is not used",
                ),
            }
        }
    }
    found
}

fn pod_cidrs(spec: &wire::NodeSpec<'_>, rejections: &mut Rejections) -> Vec<IpNetwork> {
    if spec.pod_cidrs.is_empty() {
        let single = spec.pod_cidr.is_some().then(|| std::slice::from_ref(&spec.pod_cidr));
        return networks("spec.podCIDR", single.unwrap_or_default(), rejections);
    }
    networks("spec.podCIDRs", &spec.pod_cidrs, rejections)
}

fn networks(
    field: &str,
    texts: &[Option<wire::Text<'_>>],
    rejections: &mut Rejections,
) -> Vec<IpNetwork> {
    let texts = rejections.limit(format_args!("{field}"), texts, MAX_NETWORKS);
    rejections.nulls(format_args!("{field}"), texts);
    let mut found = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let Some(text) = filled(text.as_ref()) else { continue };
        match parse_network(text) {
            Some(network) => found.push(network),
            None => rejections.add(
                format_args!("{field}[{i}]"),
                text,
                "not a network; it is not used; write one as 10.0.0.0/16",
            ),
        }
    }
    found
}

/// The networks that a ServiceCIDR lists.
pub fn service_cidr(wire: &wire::ServiceCidr<'_>) -> Converted<Vec<IpNetwork>> {
    service_cidr_after(wire, Rejections::new("ServiceCIDR"))
}

/// The same, with what was rejected before.
pub(super) fn service_cidr_after(
    wire: &wire::ServiceCidr<'_>,
    mut rejections: Rejections,
) -> Converted<Vec<IpNetwork>> {
    let networks = networks("spec.cidrs", &wire.spec.cidrs, &mut rejections);
    let name = wire.metadata.name.as_deref().unwrap_or_default();
    Converted {
        name: ObjectName::new("", name),
        object: Some(networks),
        rejections: rejections.finish(name),
    }
}
