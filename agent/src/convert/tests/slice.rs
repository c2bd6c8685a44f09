//! EndpointSlices.

use serde_json::json;
use sliceproxy_dataplane::frontend::Family;

use super::*;

#[test]
fn a_plain_slice_is_served_whole() {
    let converted = slice_object(&json!({"metadata": {"annotations": {
        "endpoints.kubernetes.io/last-change-trigger-time": "2026-11-29T15:06:48.5Z"}}}));
    assert_eq!(converted.rejections, []);
    let slice = converted.object.unwrap();
    assert_eq!(
        (slice.name.to_string(), slice.service.to_string()),
        ("shop/web-x1".into(), "shop/web".into())
    );
    assert_eq!(slice.family, Family::V4);
    assert_eq!(slice.trigger_time, Some(1_795_964_808_500_000_000));
    let endpoint = &slice.endpoints[0];
    assert_eq!(endpoint.address.to_string(), "10.0.0.1");
    assert!(endpoint.conditions.ready && endpoint.conditions.serving);
    assert!(!endpoint.conditions.terminating);
    assert_eq!(endpoint.hints, None);
}

#[test]
fn slices_that_are_not_served() {
    for (changes, field) in [
        (json!({"metadata": {"labels": {"service.kubernetes.io/headless": ""}}}), None),
        (
            json!({"metadata": {"labels": null}}),
            Some("metadata.labels[kubernetes.io/service-name]"),
        ),
        (
            json!({"metadata": {"labels": {"kubernetes.io/service-name": ""}}}),
            Some("metadata.labels[kubernetes.io/service-name]"),
        ),
        (json!({"metadata": {"name": null}}), Some("metadata.name")),
        (json!({"addressType": "FQDN"}), Some("addressType")),
        (json!({"addressType": "ipv4"}), Some("addressType")),
        (json!({"addressType": null}), Some("addressType")),
    ] {
        let converted = slice_object(&changes);
        assert_eq!(converted.object, None, "{changes}");
        assert_eq!(fields(&converted), Vec::from_iter(field), "{changes}");
    }
}

#[test]
fn slice_ports_are_checked_one_by_one() {
    let converted = slice_object(&json!({"ports": [
        {"name": "http", "port": null}, {"name": "https", "port": 443}, {"port": 80},
        {"name": "", "port": 81, "protocol": "UDP"}, {"name": "x", "port": 0},
        {"name": "y", "port": 65536}, {"name": "z", "port": 1, "protocol": "QUIC"},
        {"name": "https", "port": 444}
    ]}));
    assert_eq!(
        fields(&converted),
        ["ports[0].port", "ports[4].port", "ports[5].port", "ports[6].protocol", "ports[7].name"]
    );
    let ports = converted.object.unwrap().ports;
    let served: Vec<_> = ports.iter().map(|p| (&*p.name, p.protocol, p.port)).collect();
    assert_eq!(
        served,
        [("https", Protocol::Tcp, 443), ("", Protocol::Tcp, 80), ("", Protocol::Udp, 81)]
    );
    let portless = slice_object(&json!({"ports": null}));
    assert_eq!(fields(&portless), ["ports"]);
    // What the controller writes for a Service without pods.
    let placeholder = slice_object(&json!({"ports": null, "endpoints": null}));
    assert_eq!(placeholder.rejections, []);
    assert!(placeholder.object.is_some());
}

#[test]
fn endpoint_addresses_are_checked_one_by_one() {
    let addresses = [
        "10.0.0.256",
        "fd00::1",
        "127.0.0.1",
        "169.254.0.1",
        "224.0.0.1",
        "0.0.0.0",
        "name",
        "255.255.255.255",
        "",
    ];
    for bad in addresses {
        let converted = slice_object(&json!({"endpoints": [
            {"addresses": ["10.0.0.007", "10.0.0.8"]}, {"addresses": [bad]},
            {"addresses": ["10.0.0.9"]}
        ]}));
        assert_eq!(fields(&converted), ["endpoints[1].addresses[0]"], "{bad}");
        assert_eq!(converted.rejections[0].value, bad);
        let endpoints = converted.object.unwrap().endpoints;
        let served: Vec<_> = endpoints.iter().map(|e| e.address.to_string()).collect();
        assert_eq!(served, ["10.0.0.7", "10.0.0.9"], "{bad}");
    }
    let v6 = slice_object(&json!({"addressType": "IPv6", "endpoints": [
        {"addresses": ["fd00:0::1"]}, {"addresses": ["fe80::1"]}, {"addresses": ["::1"]},
        {"addresses": ["::ffff:10.0.0.1"]}, {"addresses": ["10.0.0.1"]}, {"addresses": []}, {}
    ]}));
    assert_eq!(v6.rejections.len(), 6);
    assert_eq!(v6.object.unwrap().endpoints.len(), 1);
}

#[test]
fn endpoints_keep_conditions_topology_and_hints() {
    let converted = slice_object(&json!({"endpoints": [
        {"addresses": ["10.0.0.1"], "nodeName": "Node-A", "zone": "Zone-A",
         "conditions": {"ready": false, "serving": null, "terminating": true},
         "hints": {"forZones": [{"name": "b"}, {"name": ""}, {"name": "2001:db8::1"}],
                   "forNodes": [{"name": "N1"}]}},
        {"addresses": ["10.0.0.2"], "nodeName": "", "zone": "", "hints": {"forZones": []}},
        {"addresses": ["10.0.0.3"], "deprecatedTopology": {"kubernetes.io/hostname": "n9",
         "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}},
        {"addresses": ["10.0.0.4"], "nodeName": "n1", "zone": "a", "deprecatedTopology":
         {"kubernetes.io/hostname": "n9", "topology.kubernetes.io/zone": "z"}}
    ]}));
    assert_eq!(converted.rejections, []);
    let slice = converted.object.unwrap();
    let place = |i: usize| {
        let e = &slice.endpoints[i];
        let text = |t: Option<String>| t.unwrap_or_else(|| "-".to_owned());
        let (node, zone) = (e.node.as_ref().map(ToString::to_string), e.zone.as_ref());
        let region = e.region.as_ref().map(ToString::to_string);
        [text(node), text(zone.map(ToString::to_string)), text(region)].join(" ")
    };
    // Node names compare without case, zones byte for byte.
    assert_eq!([0, 1, 2, 3].map(place), ["node-a Zone-A -", "- - -", "n9 z r", "n1 a -"]);
    let first = &slice.endpoints[0];
    assert!(!first.conditions.ready && first.conditions.serving && first.conditions.terminating);
    let hints = first.hints.as_ref().unwrap();
    assert_eq!(hints.nodes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["n1"]);
    assert_eq!(hints.zones.iter().map(|z| &*z.0).collect::<Vec<_>>(), ["b", "2001:db8::1"]);
    assert_eq!(slice.endpoints[1].hints, None);
}
