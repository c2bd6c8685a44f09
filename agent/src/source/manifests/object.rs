//! From an object of a file to what it means here, with everything that is wrong with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ipnetwork::IpNetwork;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::Raw;
use super::{Finding, Place};
use crate::convert::{self, Converted, Rejections, shorten};
use crate::model::{Node, ObjectName, Rejection, Service, Slice};
use crate::wire;

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Objects of the kinds that we know, in the file's order.
    pub(super) entries: Vec<Entry>,
    /// What is wrong with them.
    pub(super) findings: Vec<Finding>,
    /// How many objects of which other kinds.
    pub(super) ignored: BTreeMap<String, usize>,
}

/// An object of a kind that we know.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) name: ObjectName,
    pub(super) object: Object,
}

/// Its meaning; `None` if it is not served.
#[derive(Debug)]
pub(super) enum Object {
    Service(Option<Arc<Service>>),
    Slice(Option<Arc<Slice>>),
    Node(Option<Arc<Node>>),
    ServiceCidr(Vec<IpNetwork>),
}

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

impl Contents {
    pub(super) fn new(file: &Arc<Path>, objects: Vec<Raw>) -> Self {
        let mut contents = Self::default();
        for raw in objects {
            contents.add(file, &raw);
        }
        contents
    }

    /// Whether there was not a single object in the file.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.findings.is_empty() && self.ignored.is_empty()
    }

    fn add(&mut self, file: &Arc<Path>, raw: &Raw) {
        let place = Place { file: Arc::clone(file), position: raw.position };
        let value = &raw.value;
        let text = |field| value.get(field).and_then(Value::as_str);
        let kind = text("kind").or(raw.list_kind.as_deref()).unwrap_or_default();
        match (text("apiVersion"), kind) {
            (Some("v1") | None, "Service") => {
                self.convert::<core::Service, wire::Service<'_>, _>(
                    (place, "Service", value),
                    convert::service,
                    |service| Object::Service(service.map(Arc::new)),
                );
            }
            (Some("discovery.k8s.io/v1") | None, "EndpointSlice") => {
                self.convert::<discovery::EndpointSlice, wire::EndpointSlice<'_>, _>(
                    (place, "EndpointSlice", value),
                    convert::slice,
                    |slice| Object::Slice(slice.map(Arc::new)),
                );
            }
            (Some("v1") | None, "Node") => {
                self.convert::<core::Node, wire::Node<'_>, _>(
                    (place, "Node", value),
                    convert::node,
                    |node| Object::Node(node.map(Arc::new)),
                );
            }
            (Some("networking.k8s.io/v1") | None, "ServiceCIDR") => {
                self.convert::<networking::ServiceCIDR, wire::ServiceCidr<'_>, _>(
                    (place, "ServiceCIDR", value),
                    convert::service_cidr,
                    |cidrs| Object::ServiceCidr(cidrs.unwrap_or_default()),
                );
            }
            (_, "") => self.reject_without_kind(&place, value),
            (version, kind) => {
                let name = format!("{} {kind}", version.unwrap_or_default());
                *self.ignored.entry(shorten(name.trim_start())).or_default() += 1;
            }
        }
    }

    /// `K` is the type as Kubernetes has it, `W` the one that we use.
    fn convert<'v, K: DeserializeOwned, W: Deserialize<'v>, T>(
        &mut self,
        (place, kind, value): (Place, &'static str, &'v Value),
        convert: impl FnOnce(&W) -> Converted<T>,
        object: impl FnOnce(Option<T>) -> Object,
    ) {
        let mut rejections = Rejections::new(kind);
        let decoded = serde_path_to_error::deserialize::<_, W>(value);
        check_fields::<K>(value, decoded.is_ok(), &mut rejections);
        match decoded {
            Ok(wire) => {
                let converted = convert(&wire);
                self.find(&place, rejections.finish(name_of(value)));
                self.find(&place, converted.rejections);
                let object = object(converted.object);
                self.entries.push(Entry { place, name: converted.name, object });
            }
            Err(error) => {
                let path = error.path();
                rejections.add(
                    format_args!("{path}"),
                    value_at(value, path),
                    format_args!("{}; the object is not served; correct the field", error.inner()),
                );
                self.find(&place, rejections.finish(name_of(value)));
            }
        }
    }

    fn reject_without_kind(&mut self, place: &Place, value: &Value) {
        let mut rejections = Rejections::new("object");
        rejections.add(
            format_args!("kind"),
            value.get("kind").unwrap_or_default(),
            "no kind, so nobody knows what it is; it is ignored; add apiVersion and kind",
        );
        self.find(place, rejections.finish(name_of(value)));
    }

    fn find(&mut self, place: &Place, rejections: Vec<Rejection>) {
        let found = rejections.into_iter();
        self.findings.extend(found.map(|rejection| Finding { place: place.clone(), rejection }));
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
            value.unwrap_or(&Value::Null),
            "Kubernetes has no such field here; it is ignored; check its name and its place",
        );
    });
    if let Err(error) = checked
        && also_types
    {
        let path = track.path();
        rejections.add(
            format_args!("{path}"),
            value_at(value, &path),
            format_args!("{error}, as Kubernetes defines the field; correct it"),
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

fn value_at<'v>(value: &'v Value, path: &serde_path_to_error::Path) -> &'v Value {
    use serde_path_to_error::Segment;
    path.iter()
        .try_fold(value, |value, segment| match segment {
            Segment::Seq { index } => value.get(index),
            Segment::Map { key } => value.get(key),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .unwrap_or(&Value::Null)
}

/// Namespace and name as far as the object has them.
fn name_of(value: &Value) -> String {
    let text = |field| value.pointer(field).and_then(Value::as_str);
    match (text("/metadata/namespace"), text("/metadata/name").unwrap_or("(no name)")) {
        (Some(namespace), name) => format!("{namespace}/{name}"),
        (None, name) => name.to_owned(),
    }
}
