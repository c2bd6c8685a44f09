//! From Kubernetes objects to the agent's own types: here every value is checked, and what cannot
//! be served is rejected part by part, with a reason. Pure; nothing is logged here.
//!
//! Absent values count as what the API server would fill in: manifests written by hand need not
//! name a protocol, a namespace or a policy.

mod address;
mod foreign;
mod frontends;
mod mend;
mod node;
mod rejections;
mod service;
mod slice;
mod topology;

use k8s_openapi::jiff::Timestamp;
use sliceproxy_dataplane::frontend::Protocol;

pub use self::address::{parse_address, parse_network};
pub use self::frontends::{MAX_EXTERNAL_IPS, MAX_LOAD_BALANCER_IPS, MAX_SOURCE_RANGES};
pub(crate) use self::mend::{Served, converted, in_words, mend, name_of, plain, value_at};
pub use self::node::{node, service_cidr};
pub use self::rejections::{MAX_REJECTIONS, MAX_TEXT};
pub(crate) use self::rejections::{Rejections, shorten};
pub use self::service::{MAX_AFFINITY_TIMEOUT, MAX_PORTS, service};
pub use self::slice::{MAX_ENDPOINTS, MAX_HINTS, MAX_SLICE_PORTS, slice};
pub use self::topology::MAX_TOPOLOGY_KEYS;
use crate::model::{ObjectName, Rejection};
use crate::wire::{Metadata, Number, Text};

/// What became of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted<T> {
    /// Whose fate this is; the namespace is empty for objects of the cluster.
    pub name: ObjectName,
    /// The object as it is served. `None` means that it is not: with rejections because something
    /// is wrong with it, without because it is not for us (headless, ExternalName, another proxy's).
    pub object: Option<T>,
    /// Parts that are not served, or the reason why the whole object is not.
    pub rejections: Vec<Rejection>,
}

/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// Namespace and name of an object that lives in a namespace.
pub fn object_name(metadata: &Metadata<'_>) -> ObjectName {
    let namespace = filled(metadata.namespace.as_ref()).unwrap_or(DEFAULT_NAMESPACE);
    ObjectName::new(namespace, metadata.name.as_deref().unwrap_or_default())
}

/// The text, unless it is absent or empty.
fn filled<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(|text| &**text).filter(|text| !text.is_empty())
}

/// Whether Kubernetes could have an object of that name; rejects it otherwise. Names end up in
/// logs and in keys such as `namespace/name`.
fn check_name(name: &ObjectName, rejections: &mut Rejections) -> bool {
    let mut good = true;
    for (field, text) in [("metadata.namespace", &name.namespace), ("metadata.name", &name.name)] {
        if !is_name(text) {
            good = false;
            rejections.add(
                format_args!("{field}"),
                text,
                "not a name in Kubernetes; the object is not served; use 1 to 253 letters, digits, \
                 dots and dashes",
            );
        }
    }
    good
}

fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b))
}

/// The protocol; TCP if absent.
fn protocol(text: Option<&Text<'_>>) -> Option<Protocol> {
    match filled(text) {
        None | Some("TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

const UNKNOWN_PROTOCOL: &str = "not a protocol; the port is not served; use TCP, UDP or SCTP";

/// A port number other than 0.
fn port(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port != 0)
}

/// Why `number` is not a port, and what to do.
fn port_fault(number: Option<&Number>) -> &'static str {
    match number {
        None => "no port number; it is not served; set it from 1 to 65535",
        Some(Number::Text(text)) if text.parse().ok().and_then(port).is_some() => {
            "a text, not a number; it is not served; remove the quotes"
        }
        Some(_) => "not a port from 1 to 65535; it is not served; correct it",
    }
}

fn number_text(number: Option<&Number>) -> String {
    number.map(ToString::to_string).unwrap_or_default()
}

/// A port's name is a DNS label: longer ones are not Kubernetes'.
fn is_port_name(text: &str) -> bool {
    text.is_empty() || (text.len() <= 63 && is_name(text))
}

const BAD_PORT_NAME: &str =
    "not a port name; the port is not served; use at most 63 letters, digits and dashes";

fn timestamp(text: Option<&Text<'_>>) -> Option<Timestamp> {
    filled(text)?.parse().ok()
}

#[cfg(test)]
mod tests;
