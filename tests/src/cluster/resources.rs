//! Where objects live in the API, from what they say of themselves. Not discovery: the kinds that
//! tests use are few.

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Kind, plural, and whether it is in a namespace.
const KINDS: &[(&str, &str, bool)] = &[
    ("ClusterRole", "clusterroles", false),
    ("ClusterRoleBinding", "clusterrolebindings", false),
    ("ConfigMap", "configmaps", true),
    ("DaemonSet", "daemonsets", true),
    ("Endpoints", "endpoints", true),
    ("EndpointSlice", "endpointslices", true),
    ("Event", "events", true),
    ("Lease", "leases", true),
    ("Namespace", "namespaces", false),
    ("NetworkPolicy", "networkpolicies", true),
    ("Node", "nodes", false),
    ("Pod", "pods", true),
    ("PodDisruptionBudget", "poddisruptionbudgets", true),
    ("PriorityClass", "priorityclasses", false),
    ("Role", "roles", true),
    ("RoleBinding", "rolebindings", true),
    ("Secret", "secrets", true),
    ("Service", "services", true),
    ("ServiceAccount", "serviceaccounts", true),
    ("ServiceCIDR", "servicecidrs", false),
];

/// The collection that `object` belongs to; namespace `default` when it names none.
pub(super) fn collection(object: &Value) -> Result<String> {
    let version = object["apiVersion"].as_str().context("an object has no apiVersion")?;
    let kind = object["kind"].as_str().context("an object has no kind")?;
    let (_, plural, namespaced) =
        KINDS.iter().find(|(name, ..)| *name == kind).with_context(|| {
            format!(
                "kind {kind} is not known to the tests; add it in tests/src/cluster/resources.rs"
            )
        })?;
    let root = if version.contains('/') { "/apis" } else { "/api" };
    Ok(if *namespaced {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        format!("{root}/{version}/namespaces/{namespace}/{plural}")
    } else {
        format!("{root}/{version}/{plural}")
    })
}

/// The path of `object` itself.
pub(crate) fn path(object: &Value) -> Result<String> {
    let name = object["metadata"]["name"].as_str().context("an object has no metadata.name")?;
    Ok(format!("{}/{name}", collection(object)?))
}

/// `object` without what only a server sets, and its status, if any: a manifest exported from one
/// server can be applied to another.
pub(super) fn applicable(object: &Value) -> (Value, Option<Value>) {
    let mut spec = object.clone();
    if let Some(metadata) = spec["metadata"].as_object_mut() {
        for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"]
        {
            metadata.remove(field);
        }
        // They refer to objects of the other server by uid.
        metadata.remove("ownerReferences");
    }
    let status = spec.as_object_mut().and_then(|fields| fields.remove("status"));
    let status =
        status.filter(|status| status.as_object().is_some_and(|fields| !fields.is_empty()));
    (spec, status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths() {
        let cases = [
            (
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
                "/api/v1/nodes/a",
            ),
            (
                json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                       "metadata": {"name": "a", "namespace": "shop"}}),
                "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/a",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}),
                "/api/v1/namespaces/default/services/a",
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(path(&object).ok().as_deref(), Some(expected));
        }
        assert!(
            path(&json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "a"}}))
                .is_err()
        );
    }
}
