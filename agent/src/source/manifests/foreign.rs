//! Objects that look like ones that we use, and are not.

use serde_json::Value;

use crate::convert::Rejections;

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
