//! What decoding an EndpointSlice allocates: every node of a cluster does it for every change. In a
//! binary of its own, because counting replaces the allocator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write;

use sliceproxy::{convert, wire};

/// A slice of 100 endpoints as the API server sends it, with what we do not use.
fn slice() -> String {
    let mut endpoints = String::new();
    for i in 0..100 {
        let _ = write!(
            endpoints,
            r#"{}{{"addresses":["10.244.1.{i}"],"conditions":{{"ready":true,"serving":true,
            "terminating":false}},"nodeName":"node-{}","targetRef":{{"kind":"Pod","name":"api-{i}",
            "namespace":"shop","uid":"fe27363e-50ea-480d-874c-c7891497d3eb"}},"zone":"eu-1a"}}"#,
            if i == 0 { "" } else { "," },
            i % 20
        );
    }
    format!(
        r#"{{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","endpoints":[{endpoints}],
        "kind":"EndpointSlice","metadata":{{"generateName":"api-","labels":{{"app":"api",
        "kubernetes.io/service-name":"api"}},"managedFields":[{{"manager":"controller",
        "fieldsV1":{{"f:addressType":{{}},"f:endpoints":{{}}}}}}],"name":"api-1",
        "namespace":"shop"}},"ports":[{{"name":"http","port":8080,"protocol":"TCP"}}]}}"#
    )
}

#[test]
fn decoding_allocates_per_slice_and_not_per_endpoint() {
    let text = slice();
    let mut served = 0;
    let decoding = allocation_counter::measure(|| {
        let decoded: Result<wire::EndpointSlice<'_>, _> = serde_json::from_str(&text);
        served = decoded.map_or(0, |slice| slice.endpoints.len());
    });
    assert_eq!(served, 100);
    // The lists of ports and endpoints, of which the latter grows as it is read.
    assert!(decoding.count_total <= 10, "{decoding:?}");
}

#[test]
fn conversion_shares_repeated_names() {
    let text = slice();
    let decoded: wire::EndpointSlice<'_> = serde_json::from_str(&text).unwrap();
    let converting = allocation_counter::measure(|| {
        assert!(convert::slice(&decoded).object.is_some());
    });
    // At most one for each endpoint, its node's name, and a few for the slice.
    assert!(converting.count_total <= 130, "{converting:?}");
}
