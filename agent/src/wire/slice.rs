//! EndpointSlices as they come.

use serde::Deserialize;

use super::{First, Metadata, Number, Text, null_is_default};

/// `discovery.k8s.io/v1` EndpointSlice.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub metadata: Metadata<'a>,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(borrow)]
    pub address_type: Option<Text<'a>>,
    /// Ports of every endpoint.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub ports: Vec<Option<SlicePort<'a>>>,
    /// Endpoints.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub endpoints: Vec<Option<Endpoint<'a>>>,
}

/// A port of a slice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlicePort<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// Protocol; `TCP` if absent.
    #[serde(borrow)]
    pub protocol: Option<Text<'a>>,
    /// Port.
    pub port: Option<Number>,
}

/// An endpoint of a slice.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint<'a> {
    /// The first of its addresses: the others have no use, for kube-proxy neither.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub addresses: First<'a>,
    /// Conditions.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Conditions,
    /// The node it runs on.
    #[serde(borrow)]
    pub node_name: Option<Text<'a>>,
    /// The zone it runs in.
    #[serde(borrow)]
    pub zone: Option<Text<'a>>,
    /// Whom it is meant for.
    #[serde(borrow)]
    pub hints: Option<Hints<'a>>,
    /// What slices said before they had `nodeName` and `zone`.
    #[serde(borrow)]
    pub deprecated_topology: Option<LegacyTopology<'a>>,
}

/// Conditions of an endpoint, defaults not yet applied.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Takes new connections.
    pub ready: Option<bool>,
    /// Answers, ready or not.
    pub serving: Option<bool>,
    /// Is going away.
    pub terminating: Option<bool>,
}

/// `hints`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hints<'a> {
    /// Zones.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub for_zones: Vec<Named<'a>>,
    /// Nodes.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub for_nodes: Vec<Named<'a>>,
}

/// Something with a name and nothing else.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named<'a> {
    /// The name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
}

/// `deprecatedTopology`: labels of the endpoint's node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LegacyTopology<'a> {
    /// The node.
    #[serde(borrow, rename = "kubernetes.io/hostname")]
    pub hostname: Option<Text<'a>>,
    /// Its zone.
    #[serde(borrow, rename = "topology.kubernetes.io/zone")]
    pub zone: Option<Text<'a>>,
    /// Its region.
    #[serde(borrow, rename = "topology.kubernetes.io/region")]
    pub region: Option<Text<'a>>,
}
