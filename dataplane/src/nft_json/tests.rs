#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::program::{PodTraffic, ProgramConfig};

fn with_pods(pods: PodTraffic) -> Result<Vec<Contents>, RenderError> {
    let config = ProgramConfig { pods_v4: pods, ..ProgramConfig::default() };
    let installed = vec![Program::new(Family::V4, &config)];
    Contents::of(&Transaction { installed, ..Transaction::default() })
}

#[test]
fn interface_names_cannot_carry_anything_else_into_a_script() {
    for name in ["cni0", "veth-1.7@x", "a23456789012345"] {
        assert!(with_pods(PodTraffic::Interface(name.to_owned())).is_ok(), "{name}");
    }
    for name in ["", "a234567890123456", "a\"b", "a b", "a*", "a\nb", "a;b", "a#", "é", "a\\"] {
        let error = with_pods(PodTraffic::InterfacePrefix(name.to_owned())).unwrap_err();
        assert_eq!(error, RenderError::InterfaceName(name.to_owned()));
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn foreign_elements_are_named() {
    for (set, element) in [
        ("services", json!([{"concat": ["10.0.0.1", "icmp", 80]}, {"drop": null}])),
        ("services", json!([{"concat": ["10.0.0.1", "tcp", 80]}, {"accept": null}])),
        ("services", json!([{"concat": ["10.0.0.1", "tcp", 80]}, {"goto": {"target": "x"}}])),
        ("services", json!({"concat": ["10.0.0.1", "tcp"]})),
        ("services", json!("10.0.0.1")),
        ("cluster-ips", json!({"concat": ["10.0.0.1", "tcp", 80]})),
        ("hairpins", json!({"concat": ["10.0.0.1", "10.0.0.2", "tcp", 80]})),
        ("service-cidrs", json!({"range": ["10.0.0.1", "10.0.0.2"]})),
        ("backends", json!([{"concat": ["10.0.0.1", "tcp", 80, -1]}, {"concat": ["10.0.0.1", 8]}])),
        ("backends", json!([{"concat": ["10.0.0.1", "tcp", 70_000, 1]}, "10.0.0.1"])),
    ] {
        let listing = json!({"nftables": [{"map": {"name": set, "elem": [element]}}]});
        match rows_from_listing(&listing) {
            Err(ListingError::Element { set: named, .. }) => assert_eq!(named.as_str(), set),
            other => panic!("{element}: {other:?}"),
        }
    }
}

#[test]
fn sets_of_others_and_remembered_clients_are_left_out() {
    let listing = json!({"nftables": [
        {"metainfo": {"version": "1.1.3"}},
        {"set": {"name": "theirs", "elem": ["x"]}},
        {"map": {"name": "affinity", "elem": [["x", "y"]]}},
        {"map": {"name": "services"}},
    ]});
    assert_eq!(rows_from_listing(&listing), Ok(Vec::new()));
    assert_eq!(rows_from_listing(&json!([])), Err(ListingError::NotAListing));
}
