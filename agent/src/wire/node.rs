//! Nodes and ServiceCIDRs as they come.

use serde::Deserialize;

use super::{Metadata, Text, null_is_default};

/// `v1` Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub metadata: Metadata<'a>,
    /// What the cluster wants of it.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub spec: NodeSpec<'a>,
    /// What it says of itself.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub status: NodeStatus<'a>,
}

/// `spec` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec<'a> {
    /// The first pod network, alone in old objects.
    #[serde(borrow, rename = "podCIDR")]
    pub pod_cidr: Option<Text<'a>>,
    /// Pod networks.
    #[serde(borrow, rename = "podCIDRs", deserialize_with = "null_is_default")]
    pub pod_cidrs: Vec<Option<Text<'a>>>,
    /// Taints.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub taints: Vec<Option<Taint<'a>>>,
}

/// A taint of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint<'a> {
    /// Key.
    #[serde(borrow)]
    pub key: Option<Text<'a>>,
}

/// `status` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus<'a> {
    /// Addresses and names.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub addresses: Vec<Option<NodeAddress<'a>>>,
}

/// An address or a name of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAddress<'a> {
    /// `InternalIP`, `ExternalIP`, `Hostname`, …
    #[serde(borrow, rename = "type")]
    pub type_: Option<Text<'a>>,
    /// The address.
    #[serde(borrow)]
    pub address: Option<Text<'a>>,
}

/// `networking.k8s.io/v1` ServiceCIDR.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub metadata: Metadata<'a>,
    /// What is wanted.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub spec: ServiceCidrSpec<'a>,
}

/// `spec` of a ServiceCIDR.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec<'a> {
    /// Networks that cluster IPs come from.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub cidrs: Vec<Option<Text<'a>>>,
}
