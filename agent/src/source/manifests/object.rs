//! From an object of a file to what it means here, with everything that is wrong with it.

use std::sync::Arc;

use ipnetwork::IpNetwork;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Position, foreign};
use crate::convert::{
    Rejections, Served, converted, in_words, mend, name_of, plain, shorten, value_at,
};
use crate::model::{Node, ObjectName, Rejection, Service, Slice};

/// An object of a file, of whatever kind.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) position: Option<Position>,
    pub(super) meaning: Meaning,
    pub(super) faults: Vec<Fault>,
}

/// Something wrong with an object.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where the value stands.
    pub(super) position: Option<Position>,
    pub(super) rejection: Rejection,
}

/// What an object means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// Of a kind that we know.
    Known(ObjectName, Object),
    /// Of a kind that we know, but not to be understood.
    Unusable,
    /// Of another kind: that one.
    Other(String),
    /// Of no kind: only the list that it is in may tell.
    Kindless(Value),
}

/// An object of a kind that we know; `None` if it is not served.
#[derive(Debug)]
pub(super) enum Object {
    Service(Option<Arc<Service>>),
    Slice(Option<Arc<Slice>>),
    Node(Option<Arc<Node>>),
    ServiceCidr(Vec<IpNetwork>),
}

/// The kinds of [`Object`].
const KINDS: [&str; 4] = ["Service", "EndpointSlice", "Node", "ServiceCIDR"];

impl Object {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Service(_) => "Service",
            Self::Slice(_) => "EndpointSlice",
            Self::Node(_) => "Node",
            Self::ServiceCidr(_) => "ServiceCIDR",
        }
    }
}

impl Piece {
    /// By its own kind.
    pub(super) fn new(value: Value, position: Option<Position>) -> Self {
        let Some(kind) = value.get("kind").and_then(Value::as_str).filter(|k| !k.is_empty()) else {
            let faults = faults(no_kind(&value));
            return Self { position, meaning: Meaning::Kindless(value), faults };
        };
        let kind = kind.to_owned();
        let (meaning, rejections) = interpret(&kind, value);
        Self { position, meaning, faults: faults(rejections) }
    }

    /// Whether it may be the beginning of something else, at the end of a file that is `cut` in the
    /// middle of a line.
    pub(super) fn is_unfinished(&self, cut: bool) -> bool {
        match &self.meaning {
            Meaning::Kindless(_) => true,
            Meaning::Other(kind) => {
                let kind = kind.rsplit(' ').next().unwrap_or_default();
                cut && KINDS.iter().any(|known| known.starts_with(kind))
            }
            Meaning::Known(..) | Meaning::Unusable => false,
        }
    }

    /// By the kind of the list that it is in, which need not be repeated in the items.
    pub(super) fn in_list_of(self, kind: &str) -> Self {
        let Meaning::Kindless(value) = self.meaning else { return self };
        let (meaning, rejections) = interpret(kind, value);
        Self { position: self.position, meaning, faults: faults(rejections) }
    }
}

fn faults(rejections: Vec<Rejection>) -> Vec<Fault> {
    rejections.into_iter().map(|rejection| Fault { position: None, rejection }).collect()
}

fn no_kind(value: &Value) -> Vec<Rejection> {
    let mut rejections = Rejections::new("object");
    rejections.add(
        format_args!("kind"),
        plain(value.get("kind").unwrap_or(&Value::Null)),
        "no kind, so nobody knows what it is; it is ignored; add apiVersion and kind",
    );
    rejections.finish(name_of(value, None))
}

fn interpret(kind: &str, value: Value) -> (Meaning, Vec<Rejection>) {
    match (value.get("apiVersion").and_then(Value::as_str), kind) {
        (Some("v1") | None, "Service") => decode::<core::Service, Service>(value, |service| {
            Object::Service(service.map(Arc::new))
        }),
        (Some("discovery.k8s.io/v1") | None, "EndpointSlice") => {
            decode::<discovery::EndpointSlice, Slice>(value, |slice| {
                Object::Slice(slice.map(Arc::new))
            })
        }
        (Some("v1") | None, "Node") => {
            decode::<core::Node, Node>(value, |node| Object::Node(node.map(Arc::new)))
        }
        (Some("networking.k8s.io/v1") | None, "ServiceCIDR") => {
            decode::<networking::ServiceCIDR, Vec<IpNetwork>>(value, |cidrs| {
                Object::ServiceCidr(cidrs.unwrap_or_default())
            })
        }
        (version, kind) => {
            let mut rejections = Rejections::new("object");
            foreign::reject(version.unwrap_or_default(), kind, &value, &mut rejections);
            let rejections = rejections.finish(name_of(&value, None));
            if !rejections.is_empty() {
                return (Meaning::Unusable, rejections);
            }
            let name = format!("{} {kind}", version.unwrap_or_default());
            (Meaning::Other(shorten(name.trim_start())), rejections)
        }
    }
}

/// `K` is the type as Kubernetes has it, `T` the one that we use.
fn decode<K: DeserializeOwned, T: Served>(
    mut value: Value,
    object: impl FnOnce(Option<T>) -> Object,
) -> (Meaning, Vec<Rejection>) {
    let mut rejections = Rejections::new(T::KIND);
    let decoded = T::Wire::deserialize(&value).map(|wire| converted::<T>(&wire)).ok();
    check_fields::<K>(&value, decoded.is_some(), &mut rejections);
    let mut rejections = rejections.finish(name_of(&value, T::NAMESPACE));
    match decoded.map_or_else(|| mend::<T>(&mut value), Ok) {
        Ok(converted) => {
            // What is wrong for Kubernetes too is told once, with what becomes of it.
            rejections.retain(|general| {
                converted.rejections.iter().all(|precise| precise.field != general.field)
            });
            rejections.extend(converted.rejections);
            (Meaning::Known(converted.name, object(converted.object)), rejections)
        }
        Err(faults) => {
            rejections.extend(faults);
            (Meaning::Unusable, rejections)
        }
    }
}

/// Compares with the type as Kubernetes has it: a mistyped field name would be missed otherwise, and
/// with `also_types` a wrong type in a field that we do not use.
fn check_fields<K: DeserializeOwned>(value: &Value, also_types: bool, rejections: &mut Rejections) {
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(value, &mut track);
    let checked = serde_ignored::deserialize::<_, _, K>(deserializer, |path| {
        let (field, value) = field_and_value(value, &path);
        rejections.add(
            format_args!("{field}"),
            plain(value.unwrap_or(&Value::Null)),
            "Kubernetes has no such field here; it is ignored; check its name and its place",
        );
    });
    if let Err(error) = checked
        && also_types
    {
        let path = track.path();
        rejections.add(
            format_args!("{path}"),
            plain(value_at(value, &path)),
            format_args!("{}, as Kubernetes defines the field; correct it", in_words(&error)),
        );
    }
}

/// The path of an unknown field in the notation of Kubernetes, and what stands there.
fn field_and_value<'v>(
    value: &'v Value,
    path: &serde_ignored::Path<'_>,
) -> (String, Option<&'v Value>) {
    use serde_ignored::Path;
    match path {
        Path::Root => (String::new(), Some(value)),
        Path::Seq { parent, index } => {
            let (field, list) = field_and_value(value, parent);
            (format!("{field}[{index}]"), list.and_then(|list| list.get(index)))
        }
        Path::Map { parent, key } => {
            let (field, map) = field_and_value(value, parent);
            let dot = if field.is_empty() { "" } else { "." };
            (format!("{field}{dot}{key}"), map.and_then(|map| map.get(key)))
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => field_and_value(value, parent),
    }
}
