//! Objects and annotations that look like ones that we use, and are not.

use serde_json::Value;

use crate::config::suggest::nearest;
use crate::convert::{ANNOTATIONS, Rejections};

/// What our annotations begin with.
const PREFIX: &str = "sliceproxy.io/";

/// Why an object of this kind and version, which is not used, should probably be another; else
/// nothing.
pub(super) fn reject(version: &str, kind: &str, value: &Value, rejections: &mut Rejections) {
    let served = match kind {
        "EndpointSlice" => "discovery.k8s.io/v1",
        "ServiceCIDR" => "networking.k8s.io/v1",
        _ => "v1",
    };
    let group = |version: &str| version.rsplit_once('/').map(|(group, _)| group.to_owned());
    let is_ours = ["Service", "EndpointSlice", "Node", "ServiceCIDR"].contains(&kind);
    if is_ours && group(version) == group(served) {
        rejections.add(
            format_args!("apiVersion"),
            version,
            format_args!(
                "this version is not read; the object is not served; write it as {served}"
            ),
        );
    } else if let (Some(Value::Array(items)), Some(_)) =
        (value.get("items"), kind.strip_suffix("List"))
    {
        rejections.add(
            format_args!("items"),
            format_args!("{} items", items.len()),
            "a list in a list is not taken apart; its objects are not served; move them to the \
             outer list",
        );
    }
}

/// Annotations that begin like ours and are none.
pub(super) fn check_annotations(value: &Value, rejections: &mut Rejections) {
    let annotations = value.pointer("/metadata/annotations").and_then(Value::as_object);
    for (name, value) in annotations.into_iter().flatten() {
        let Some(own) = name.strip_prefix(PREFIX) else { continue };
        if ANNOTATIONS.contains(&name.as_str()) {
            continue;
        }
        let known = ANNOTATIONS.iter().filter_map(|known| known.strip_prefix(PREFIX));
        let advice = match nearest(own, known) {
            Some(known) => format!("did you mean {PREFIX}{known}?"),
            None => format!("known are {}", ANNOTATIONS.join(" and ")),
        };
        rejections.add(
            format_args!("metadata.annotations[{name}]"),
            value.as_str().unwrap_or_default(),
            format_args!("no annotation of sliceproxy; it is ignored; {advice}"),
        );
    }
}
