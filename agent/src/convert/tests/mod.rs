#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mend;
mod property;
mod service;
mod slice;

use std::net::IpAddr;

use serde_json::{Value, json};

use super::*;
use crate::model::{Service, Slice};

/// Converts a Service with `spec` laid over a plain one; `null` removes a field.
fn service_with(spec: &Value) -> Converted<Service> {
    service_object(&json!({"spec": spec}))
}

fn service_object(changes: &Value) -> Converted<Service> {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "u1",
                     "creationTimestamp": "2026-11-29T15:06:48Z"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
                 "ipFamilies": ["IPv4"],
                 "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]},
        "status": {"loadBalancer": {}}
    });
    overlay(&mut object, changes);
    let text = object.to_string();
    super::service(&serde_json::from_str(&text).expect(&text))
}

fn slice_object(changes: &Value) -> Converted<Slice> {
    let mut object = json!({
        "metadata": {"namespace": "shop", "name": "web-x1",
                     "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "n1", "zone": "a"}]
    });
    overlay(&mut object, changes);
    let text = object.to_string();
    super::slice(&serde_json::from_str(&text).expect(&text))
}

fn overlay(object: &mut Value, changes: &Value) {
    match (object, changes) {
        (Value::Object(object), Value::Object(changes)) => {
            for (key, change) in changes {
                overlay(object.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (object, change) => *object = change.clone(),
    }
}

fn fields<T>(converted: &Converted<T>) -> Vec<&str> {
    converted.rejections.iter().map(|rejection| rejection.field.as_str()).collect()
}

fn texts(ips: &[IpAddr]) -> Vec<String> {
    ips.iter().map(ToString::to_string).collect()
}

#[test]
fn limits_hold() {
    let ports: Vec<Value> =
        (1..=2000).map(|p| json!({"name": format!("p{p}"), "port": p})).collect();
    let converted = service_with(&json!({"ports": ports}));
    assert_eq!(converted.object.unwrap().ports.len(), MAX_PORTS);
    assert_eq!(converted.rejections.len(), 1);

    let endpoint = json!({"addresses": ["10.0.0.1"]});
    let converted = slice_object(&json!({"endpoints": vec![endpoint; MAX_ENDPOINTS + 1]}));
    assert_eq!(converted.object.unwrap().endpoints.len(), MAX_ENDPOINTS);
    let faulty = slice_object(&json!({"endpoints": vec![json!({}); 500]}));
    assert_eq!(faulty.rejections.len(), MAX_REJECTIONS + 1);
}

#[test]
fn nodes_are_eligible_until_they_go() {
    let node = |object: Value| {
        let text = object.to_string();
        super::node(&serde_json::from_str(&text).unwrap())
    };
    let converted = node(json!({
        "metadata": {"name": "Node-A", "uid": "u", "labels":
            {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": ""}},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.7/24", "fd00::/64", "x"],
                 "taints": [{"key": "other"}]},
        "status": {"addresses": [
            {"type": "Hostname", "address": "node-a"}, {"type": "ExternalIP", "address": "192.0.2.1"},
            {"type": "InternalIP", "address": "10.9.0.01"}, {"type": "InternalIP", "address": "y"}]}
    }));
    assert_eq!(&*converted.name.name, "node-a");
    assert_eq!(fields(&converted), ["status.addresses[3].address", "spec.podCIDRs[2]"]);
    let node_a = converted.object.unwrap();
    assert_eq!(texts(&node_a.addresses), ["10.9.0.1", "192.0.2.1"]);
    assert_eq!(node_a.pod_cidrs.len(), 2);
    assert_eq!((node_a.zone.unwrap().to_string(), node_a.region), ("a".to_owned(), None));
    assert!(node_a.eligible);
    let leaving = json!({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}});
    assert!(!node(leaving).object.unwrap().eligible);
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-11-29T15:06:48Z"}});
    assert!(!node(deleted).object.unwrap().eligible);
}
