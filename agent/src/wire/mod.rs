//! Kubernetes objects as they come over the wire, reduced to the fields that we use.
//!
//! Nothing is checked here beyond types, and of numbers not even that: what values mean is
//! [`crate::convert`]'s business. Texts borrow from the input unless they hold escapes, fields that
//! we do not use are skipped without being allocated, and `null` counts as absent, as it does for
//! Kubernetes. In a list, `null` keeps the place of an item that could not be read.

mod annotations;
mod node;
mod number;
mod service;
mod slice;
mod text;

use serde::{Deserialize, Deserializer};

pub use self::annotations::{
    Annotations, LAST_CHANGE_TRIGGER_TIME, PREFIX, TOPOLOGY_KEYS, TOPOLOGY_MIN_ENDPOINTS,
};
pub use self::node::{
    Node, NodeAddress, NodeSpec, NodeStatus, ServiceCidr, ServiceCidrSpec, Taint,
};
pub use self::number::Number;
pub use self::service::{
    ClientIpConfig, Ingress, LoadBalancerStatus, Service, ServicePort, ServiceSpec, ServiceStatus,
    SessionAffinityConfig,
};
pub use self::slice::{
    Conditions, Endpoint, EndpointSlice, Hints, LegacyTopology, Named, SlicePort,
};
pub use self::text::{First, Text};

/// Metadata, with only those labels and annotations that mean something here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// Namespace; none for objects of the cluster.
    #[serde(borrow)]
    pub namespace: Option<Text<'a>>,
    /// UID.
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    /// Version, to go on watching from.
    #[serde(borrow)]
    pub resource_version: Option<Text<'a>>,
    /// RFC 3339.
    #[serde(borrow)]
    pub creation_timestamp: Option<Text<'a>>,
    /// RFC 3339, from when on the object is being deleted.
    #[serde(borrow)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// Labels.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub labels: Labels<'a>,
    /// Annotations.
    #[serde(borrow, deserialize_with = "null_is_default")]
    pub annotations: Annotations<'a>,
}

/// The labels that matter, of whatever kind of object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Labels<'a> {
    /// On a slice: the Service it belongs to.
    #[serde(borrow, rename = "kubernetes.io/service-name")]
    pub service_name: Option<Text<'a>>,
    /// On a slice: its Service has no cluster IP. The value does not matter.
    #[serde(borrow, rename = "service.kubernetes.io/headless")]
    pub headless: Option<Text<'a>>,
    /// On a Service: another proxy serves it. The value does not matter.
    #[serde(borrow, rename = "service.kubernetes.io/service-proxy-name")]
    pub service_proxy_name: Option<Text<'a>>,
    /// On a Node: its zone.
    #[serde(borrow, rename = "topology.kubernetes.io/zone")]
    pub zone: Option<Text<'a>>,
    /// On a Node: its region.
    #[serde(borrow, rename = "topology.kubernetes.io/region")]
    pub region: Option<Text<'a>>,
}

/// A page of a list. With `T = &RawValue` an element that does not decode costs only itself.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<'a, T> {
    /// Metadata of the page.
    #[serde(borrow, default, deserialize_with = "null_is_default")]
    pub metadata: ListMetadata<'a>,
    /// The objects. Go servers write `null` for none.
    #[serde(default = "Vec::new", deserialize_with = "null_is_default")]
    pub items: Vec<T>,
}

/// Metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListMetadata<'a> {
    /// Version, to watch from.
    #[serde(borrow)]
    pub resource_version: Option<Text<'a>>,
    /// Token for the next page; absent or empty on the last.
    #[serde(borrow, rename = "continue")]
    pub continue_: Option<Text<'a>>,
}

/// For `deserialize_with`: `null` is the same as an absent field.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests;
