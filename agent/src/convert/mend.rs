//! Objects with values of a wrong type: what cannot be read is taken out of them, and the rest is
//! served. Only for objects that could not be read as they are: those are the rare ones.
//!
//! Which part goes is said by tables, one for each kind. What stands in none of them costs the whole
//! object: a policy that cannot be read must not be taken for another.

use ipnetwork::IpNetwork;
use serde::Deserialize;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::node::{node_after, service_cidr_after};
use super::rejections::{NULL, Rejections, shorten};
use super::service::service_after;
use super::slice::slice_after;
use super::{Converted, DEFAULT_NAMESPACE};
use crate::model::{Node, Rejection, Service, Slice};
use crate::wire;

/// A kind of objects, as it is served.
pub(crate) trait Served: Sized {
    /// As it comes.
    type Wire<'a>: Deserialize<'a>;

    /// Its name.
    const KIND: &'static str;
    /// Where objects of it are that name no namespace; `None` if they are in none.
    const NAMESPACE: Option<&'static str>;
    /// Lists of which each item can go by itself.
    const LISTS: &'static [List];
    /// Fields that can go by themselves, inner ones first.
    const FIELDS: &'static [Field];

    /// What an object means here, with what was rejected before.
    fn convert(wire: &Self::Wire<'_>, rejections: Rejections) -> Converted<Self>;
}

type Unreadable = serde_path_to_error::Error<serde_json::Error>;

/// A list of which each item can go by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    path: &'static [&'static str],
    /// Why an item cannot be read, if it cannot.
    fault: fn(&Value) -> Option<Unreadable>,
    consequence: &'static str,
}

/// A field that can go by itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    path: &'static [&'static str],
    consequence: &'static str,
    /// Whether an item stays that cannot be read, because no item would mean no restriction.
    restricts: bool,
}

macro_rules! list {
    ($path:expr, $item:ident, $consequence:expr) => {
        List {
            path: &$path,
            fault: |item| serde_path_to_error::deserialize::<_, wire::$item<'_>>(item).err(),
            consequence: $consequence,
        }
    };
}

const fn field(path: &'static [&'static str], consequence: &'static str) -> Field {
    Field { path, consequence, restricts: false }
}

const NOT_USED: &str = "it is not used";
const NOT_SERVED: &str = "it is not served";
const IGNORED: &str = "it is ignored";
const WHOLE: &str = "the object is not served";

/// What may be missing from the metadata of an object of any kind.
macro_rules! fields {
    ($($own:expr),* $(,)?) => {
        &[
            field(&["metadata", "annotations", wire::TOPOLOGY_KEYS], IGNORED),
            field(&["metadata", "annotations", wire::TOPOLOGY_MIN_ENDPOINTS], IGNORED),
            field(&["metadata", "annotations", wire::LAST_CHANGE_TRIGGER_TIME], IGNORED),
            field(&["metadata", "annotations"], "no annotation is used"),
            field(&["metadata", "uid"], IGNORED),
            field(&["metadata", "resourceVersion"], IGNORED),
            field(&["metadata", "creationTimestamp"], IGNORED),
            $($own),*
        ]
    };
}

impl Served for Service {
    type Wire<'a> = wire::Service<'a>;

    const KIND: &'static str = "Service";
    const NAMESPACE: Option<&'static str> = Some(DEFAULT_NAMESPACE);
    const LISTS: &'static [List] = &[
        list!(["spec", "ports"], ServicePort, "the port is not served"),
        list!(["spec", "clusterIPs"], Text, NOT_SERVED),
        list!(["spec", "externalIPs"], Text, NOT_SERVED),
        list!(["spec", "loadBalancerSourceRanges"], Text, IGNORED),
        list!(["status", "loadBalancer", "ingress"], Ingress, NOT_SERVED),
    ];
    const FIELDS: &'static [Field] = fields![
        field(&["spec", "clusterIP"], IGNORED),
        field(&["spec", "clusterIPs"], IGNORED),
        field(&["spec", "ipFamilies"], IGNORED),
        field(&["spec", "externalIPs"], "no external IP is served"),
        Field {
            path: &["spec", "loadBalancerSourceRanges"],
            consequence: IGNORED,
            restricts: true
        },
        field(&["spec", "sessionAffinity"], "there is none"),
        field(&["spec", "sessionAffinityConfig"], "the default is used"),
        field(&["status"], "no load-balancer IP is served"),
    ];

    fn convert(wire: &wire::Service<'_>, rejections: Rejections) -> Converted<Self> {
        service_after(wire, rejections)
    }
}

impl Served for Slice {
    type Wire<'a> = wire::EndpointSlice<'a>;

    const KIND: &'static str = "EndpointSlice";
    const NAMESPACE: Option<&'static str> = Some(DEFAULT_NAMESPACE);
    const LISTS: &'static [List] = &[
        list!(["endpoints"], Endpoint, "the endpoint is not used"),
        list!(["ports"], SlicePort, "the port is not served"),
    ];
    const FIELDS: &'static [Field] = fields![];

    fn convert(wire: &wire::EndpointSlice<'_>, rejections: Rejections) -> Converted<Self> {
        slice_after(wire, rejections)
    }
}

impl Served for Node {
    type Wire<'a> = wire::Node<'a>;

    const KIND: &'static str = "Node";
    const NAMESPACE: Option<&'static str> = None;
    const LISTS: &'static [List] = &[
        list!(["spec", "podCIDRs"], Text, NOT_USED),
        list!(["spec", "taints"], Taint, IGNORED),
        list!(["status", "addresses"], NodeAddress, NOT_USED),
    ];
    const FIELDS: &'static [Field] = fields![
        field(&["metadata", "labels", "topology.kubernetes.io/zone"], IGNORED),
        field(&["metadata", "labels", "topology.kubernetes.io/region"], IGNORED),
        field(&["metadata", "labels"], "no label is used"),
        field(&["spec", "podCIDR"], IGNORED),
        field(&["spec", "podCIDRs"], NOT_USED),
        field(&["spec", "taints"], IGNORED),
        field(&["spec"], IGNORED),
        field(&["status"], "it has no address"),
    ];

    fn convert(wire: &wire::Node<'_>, rejections: Rejections) -> Converted<Self> {
        node_after(wire, rejections)
    }
}

/// The networks of a ServiceCIDR.
impl Served for Vec<IpNetwork> {
    type Wire<'a> = wire::ServiceCidr<'a>;

    const KIND: &'static str = "ServiceCIDR";
    const NAMESPACE: Option<&'static str> = None;
    const LISTS: &'static [List] = &[list!(["spec", "cidrs"], Text, NOT_USED)];
    const FIELDS: &'static [Field] = fields![];

    fn convert(wire: &wire::ServiceCidr<'_>, rejections: Rejections) -> Converted<Self> {
        service_cidr_after(wire, rejections)
    }
}

/// What an object means that cannot be read as it is: what is wrong is taken out of `value`.
///
/// # Errors
/// If what is wrong is needed: why the whole object is not served.
pub(crate) fn mend<T: Served>(value: &mut Value) -> Result<Converted<T>, Vec<Rejection>> {
    let mut rejections = Rejections::new(T::KIND);
    for list in T::LISTS {
        list.mend(value, &mut rejections);
    }
    let mut taken_out = 0;
    loop {
        let error = match serde_path_to_error::deserialize::<_, T::Wire<'_>>(&*value) {
            Ok(wire) => return Ok(T::convert(&wire, rejections.mended())),
            Err(error) => error,
        };
        // What is missing can be read: each field goes once at most.
        let field = T::FIELDS.iter().find(|field| field.holds(error.path()));
        let field = field.filter(|_| taken_out < T::FIELDS.len());
        let consequence = field.map_or(WHOLE, |field| field.consequence);
        let place = (error.path().to_string(), value_at(value, error.path()));
        reject(place, error.inner(), consequence, &mut rejections);
        let Some(field) = field else {
            return Err(rejections.finish(name_of(value, T::NAMESPACE)));
        };
        field.take_out_of(value);
        taken_out += 1;
    }
}

/// What an object means that can be read as it is.
pub(crate) fn converted<T: Served>(wire: &T::Wire<'_>) -> Converted<T> {
    T::convert(wire, Rejections::new(T::KIND))
}

impl List {
    /// Leaves `null` in the place of items that cannot be read.
    fn mend(&self, value: &mut Value, rejections: &mut Rejections) {
        let Some(Value::Array(items)) = at_mut(value, self.path) else { return };
        let list = self.path.join(".");
        for (i, item) in items.iter_mut().enumerate() {
            if item.is_null() {
                rejections.add(format_args!("{list}[{i}]"), "", NULL);
                continue;
            }
            let Some(error) = (self.fault)(item) else { continue };
            let inner = error.path().to_string();
            let field = match inner.as_str() {
                "." => format!("{list}[{i}]"),
                inner => format!("{list}[{i}].{inner}"),
            };
            let place = (field, value_at(item, error.path()));
            reject(place, error.inner(), self.consequence, rejections);
            *item = Value::Null;
        }
    }
}

impl Field {
    /// Whether what stands at `path` is in this field.
    fn holds(&self, path: &Path) -> bool {
        let mut segments = path.iter();
        self.path.iter().all(
            |name| matches!(segments.next(), Some(Segment::Map { key }) if key.as_str() == *name),
        )
    }

    fn take_out_of(&self, value: &mut Value) {
        if let Some(value) = at_mut(value, self.path) {
            *value = if self.restricts { Value::Array(vec![Value::Null]) } else { Value::Null };
        }
    }
}

fn at_mut<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(name))
}

fn reject(
    (field, value): (String, &Value),
    error: &serde_json::Error,
    consequence: &str,
    rejections: &mut Rejections,
) {
    rejections.add(
        format_args!("{field}"),
        plain(value),
        format_args!("{}; {consequence}; correct it", in_words(error)),
    );
}

/// What stands at `path`; `null` if nothing does.
pub(crate) fn value_at<'v>(value: &'v Value, path: &Path) -> &'v Value {
    path.iter()
        .try_fold(value, |value, segment| match segment {
            Segment::Seq { index } => value.get(index),
            Segment::Map { key } => value.get(key),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .unwrap_or(&Value::Null)
}

/// Texts without quotes, and nothing for `null`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The error without names of Rust's types; it may quote a value of any length.
pub(crate) fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = ["i64", "i32"].iter().find_map(|number| text.strip_suffix(number)).map_or_else(
        || text.replace("a boolean", "true or false"),
        |start| format!("{start}a whole number"),
    );
    shorten(&text)
}

/// Namespace and name as far as the object has them.
pub(crate) fn name_of(value: &Value, default_namespace: Option<&str>) -> String {
    let text = |field| value.pointer(field).and_then(Value::as_str).filter(|t| !t.is_empty());
    let namespace = text("/metadata/namespace").or(default_namespace);
    match (namespace, text("/metadata/name").unwrap_or("(no name)")) {
        (Some(namespace), name) => format!("{namespace}/{name}"),
        (None, name) => name.to_owned(),
    }
}
