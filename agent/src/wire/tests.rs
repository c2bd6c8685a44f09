#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;

use super::*;

#[test]
fn texts_borrow_unless_they_hold_escapes() {
    let json = r#"{"metadata":{"name":"plain","namespace":"es\u0063aped","labels":
        {"kubernetes.io/service-name":"shop","other":"x"}},"addressType":"IPv4",
        "endpoints":[{"addresses":["10.0.0.1","10.0.0.2"],"zone":"a\"b"}]}"#;
    let slice: EndpointSlice<'_> = serde_json::from_str(json).unwrap();
    assert!(matches!(slice.metadata.name, Some(Text(Cow::Borrowed("plain")))));
    assert!(matches!(slice.metadata.labels.service_name, Some(Text(Cow::Borrowed("shop")))));
    assert!(matches!(&slice.metadata.namespace, Some(Text(Cow::Owned(t))) if t == "escaped"));
    let endpoint = slice.endpoints[0].as_ref().unwrap();
    assert!(matches!(endpoint.addresses, First(Some(Text(Cow::Borrowed("10.0.0.1"))))));
    assert_eq!(endpoint.zone.as_deref(), Some("a\"b"));
}

#[test]
fn null_is_absent_everywhere() {
    let nulls = r#"{"metadata":{"name":null,"labels":null,"annotations":null},"endpoints":
        [{"addresses":null,"conditions":null,"hints":null,"deprecatedTopology":null,
        "nodeName":null},{"hints":{"forZones":null,"forNodes":[{"name":null}]}}],
        "ports":[{"name":null,"port":null,"protocol":null}],"addressType":null}"#;
    let slice: EndpointSlice<'_> = serde_json::from_str(nulls).unwrap();
    assert_eq!(slice.endpoints.len(), 2);
    assert_eq!(slice.endpoints[0].as_ref().unwrap().addresses, First(None));
    assert!(slice.ports[0].as_ref().unwrap().port.is_none());

    let bare = r#"{"metadata":null,"endpoints":null,"ports":null}"#;
    let slice: EndpointSlice<'_> = serde_json::from_str(bare).unwrap();
    assert!(slice.endpoints.is_empty() && slice.ports.is_empty());

    let service = r#"{"metadata":null,"spec":{"ports":null,"clusterIPs":null,"ipFamilies":null,
        "sessionAffinityConfig":{"clientIP":null},"externalIPs":null},"status":{"loadBalancer":
        {"ingress":null}}}"#;
    serde_json::from_str::<Service<'_>>(service).unwrap();
    serde_json::from_str::<Service<'_>>(r#"{"spec":null,"status":null}"#).unwrap();
    let bare_node = r#"{"spec":{"podCIDRs":null,"taints":null},"status":{"addresses":null}}"#;
    serde_json::from_str::<Node<'_>>(bare_node).unwrap();
}

#[test]
fn labels_of_legacy_slices_are_understood() {
    let json = r#"{"endpoints":[{"addresses":["10.0.0.1"],"deprecatedTopology":
        {"kubernetes.io/hostname":"n1","topology.kubernetes.io/zone":"a",
        "topology.kubernetes.io/region":"r","rack":"7"}}]}"#;
    let slice: EndpointSlice<'_> = serde_json::from_str(json).unwrap();
    let legacy = slice.endpoints[0].as_ref().unwrap().deprecated_topology.as_ref().unwrap();
    assert_eq!(legacy.hostname.as_deref(), Some("n1"));
    assert_eq!(legacy.zone.as_deref(), Some("a"));
    assert_eq!(legacy.region.as_deref(), Some("r"));
}

#[test]
fn lists_have_pages_and_may_be_null() {
    let json = r#"{"metadata":{"resourceVersion":"7","continue":"token"},"items":[{"metadata":
        {"name":"a"}}]}"#;
    let page: List<'_, Service<'_>> = serde_json::from_str(json).unwrap();
    assert_eq!(page.metadata.continue_.as_deref(), Some("token"));
    assert_eq!(page.items[0].metadata.name.as_deref(), Some("a"));
    let empty: List<'_, Service<'_>> = serde_json::from_str(r#"{"items":null}"#).unwrap();
    assert!(empty.items.is_empty());
}

#[test]
fn wrong_types_are_errors_not_guesses() {
    for json in [
        r#"{"endpoints":[{"addresses":"10.0.0.1"}]}"#,
        r#"{"endpoints":[{"addresses":[7]}]}"#,
        r#"{"ports":[{"name":80}]}"#,
        r#"{"ports":{}}"#,
    ] {
        assert!(serde_json::from_str::<EndpointSlice<'_>>(json).is_err(), "{json}");
    }
}
