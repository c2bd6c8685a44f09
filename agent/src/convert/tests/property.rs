//! No input makes conversion panic, or lets something invalid through.

use proptest::prelude::*;
use serde_json::{Value, json};
use sliceproxy_dataplane::frontend::Family;

use super::overlay;
use crate::convert::{self, MAX_REJECTIONS};

/// Any JSON, with the names of the schema more likely than others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just(0), Just(-1), Just(80), Just(65536)].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[0-9a-f:./]{0,20}".prop_map(Value::from),
        prop::sample::select(vec![
            "IPv4",
            "IPv6",
            "FQDN",
            "None",
            "10.0.0.1",
            "fd00::1",
            "TCP",
            "UDP",
            "Local",
            "ClientIP",
            "LoadBalancer",
            "10.0.0.0/8",
            "*",
            "2026-11-29T15:06:48Z",
        ])
        .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "labels",
        "annotations",
        "ports",
        "port",
        "nodePort",
        "protocol",
        "endpoints",
        "addresses",
        "conditions",
        "ready",
        "hints",
        "forZones",
        "forNodes",
        "deprecatedTopology",
        "nodeName",
        "zone",
        "addressType",
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "externalIPs",
        "loadBalancerSourceRanges",
        "loadBalancer",
        "ingress",
        "ip",
        "ipMode",
        "type",
        "sessionAffinity",
        "taints",
        "podCIDRs",
        "kubernetes.io/service-name",
        "sliceproxy.io/topology-keys",
        "other",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(changes in any_json()) {
        let text = changes.to_string();
        if let Ok(wire) = serde_json::from_str(&text) {
            let converted = convert::service(&wire);
            prop_assert!(converted.rejections.len() <= MAX_REJECTIONS + 1);
        }
        if let Ok(wire) = serde_json::from_str(&text) {
            convert::slice(&wire);
        }
        if let Ok(wire) = serde_json::from_str(&text) {
            convert::node(&wire);
        }
        if let Ok(wire) = serde_json::from_str(&text) {
            convert::service_cidr(&wire);
        }
    }

    /// Whatever is laid over a good object, what is served is valid.
    #[test]
    fn what_is_served_is_valid(changes in any_json()) {
        let mut object = json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/service-name": "s"}},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 80}]},
            "addressType": "IPv4", "ports": [{"port": 80}],
            "endpoints": [{"addresses": ["10.0.0.1"]}]
        });
        overlay(&mut object, &changes);
        let text = object.to_string();
        if let Ok(wire) = serde_json::from_str(&text)
            && let Some(service) = convert::service(&wire).object
        {
            prop_assert!((1..=2).contains(&service.cluster_ips.len()));
            prop_assert!(service.ports.iter().all(|p| p.port != 0 && p.node_port != Some(0)));
        }
        if let Ok(wire) = serde_json::from_str(&text)
            && let Some(slice) = convert::slice(&wire).object
        {
            prop_assert!(slice.ports.iter().all(|port| port.port != 0));
            prop_assert!(slice.endpoints.iter().all(|e| Family::of(e.address) == slice.family));
        }
    }
}
