//! Services.

use serde_json::{Value, json};

use super::*;
use crate::model::{TopologyKey, TrafficPolicy};

#[test]
fn a_plain_service_is_served_whole() {
    let converted = service_object(&json!({}));
    assert_eq!(converted.rejections, []);
    let service = converted.object.unwrap();
    assert_eq!(service.name.to_string(), "shop/web");
    assert_eq!(&*service.uid, "u1");
    assert_eq!(service.created, 1_795_964_808);
    assert_eq!(texts(&service.cluster_ips), ["10.96.0.7"]);
    assert_eq!(service.ports.len(), 1);
    assert_eq!((service.ports[0].port, service.ports[0].node_port), (80, None));
    assert_eq!(service.affinity_timeout, None);
}

#[test]
fn services_that_are_not_ours_pass_in_silence() {
    for changes in [
        json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
        json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": null}}),
        json!({"spec": {"clusterIP": "None", "clusterIPs": null, "ports": null}}),
        json!({"spec": {"clusterIP": null, "clusterIPs": ["None"]}}),
        json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": ""}}}),
        json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "x"}}}),
    ] {
        let converted = service_object(&changes);
        assert_eq!((converted.object, converted.rejections), (None, vec![]), "{changes}");
    }
}

#[test]
fn services_that_cannot_be_served_say_why() {
    for (changes, field) in [
        (json!({"spec": {"ports": null}}), "spec.ports"),
        (json!({"spec": {"ports": []}}), "spec.ports"),
        (json!({"spec": {"clusterIP": null, "clusterIPs": null}}), "spec.clusterIP"),
        (json!({"spec": {"clusterIPs": ["10.0.0.256"]}}), "spec.clusterIPs[0]"),
        (json!({"spec": {"clusterIPs": ["127.0.0.1"]}}), "spec.clusterIPs[0]"),
        (json!({"spec": {"ipFamilies": ["IPv6"]}}), "spec.clusterIPs[0]"),
        (json!({"spec": {"ports": [{"port": 0}]}}), "spec.ports[0].port"),
        (json!({"spec": {"ports": [{"name": "x"}]}}), "spec.ports[0].port"),
        (json!({"spec": {"ports": [{"port": 65536}]}}), "spec.ports[0].port"),
        (json!({"spec": {"ports": [{"port": -1}]}}), "spec.ports[0].port"),
        (json!({"spec": {"ports": [{"port": 1, "protocol": "tcp"}]}}), "spec.ports[0].protocol"),
        (json!({"spec": {"ports": [{"port": 1, "name": "a b"}]}}), "spec.ports[0].name"),
        (json!({"metadata": {"name": ""}}), "metadata.name"),
        (json!({"metadata": {"name": "a/b"}}), "metadata.name"),
        (json!({"metadata": {"name": "a\u{1b}[31m"}}), "metadata.name"),
    ] {
        let converted = service_object(&changes);
        assert_eq!(converted.object, None, "{changes}");
        assert_eq!(fields(&converted), [field], "{changes}");
    }
}

#[test]
fn absent_means_the_defaults_of_the_api() {
    let converted = service_object(&json!({
        "metadata": {"namespace": null},
        "spec": {"type": null, "ipFamilies": null, "clusterIPs": null, "ports": [{"port": 80}]},
        "status": null
    }));
    assert_eq!(converted.rejections, []);
    let service = converted.object.unwrap();
    assert_eq!(service.name.to_string(), "default/web");
    assert_eq!(texts(&service.cluster_ips), ["10.96.0.7"]);
    assert_eq!((&*service.ports[0].name, service.ports[0].protocol), ("", Protocol::Tcp));
    assert_eq!(service.internal_policy, TrafficPolicy::Cluster);
}

#[test]
fn cluster_ips_are_one_per_family() {
    for (ips, families, served, rejected) in [
        (json!(["fd00::7", "10.96.0.7"]), json!(["IPv6", "IPv4"]), vec!["fd00::7", "10.96.0.7"], 0),
        (json!(["10.96.0.7", "fd00::7"]), json!([]), vec!["10.96.0.7", "fd00::7"], 0),
        (json!(["010.096.0.07"]), json!(["IPv4"]), vec!["10.96.0.7"], 0),
        (json!(["10.96.0.7", "10.96.0.8"]), json!(["IPv4"]), vec!["10.96.0.7"], 1),
        (json!(["10.96.0.7", "fd00::7"]), json!(["IPv4", "IPv4"]), vec!["10.96.0.7"], 1),
        (json!(["10.96.0.7", "bad"]), json!(["IPv4", "IPv6"]), vec!["10.96.0.7"], 1),
    ] {
        let converted = service_with(&json!({"clusterIPs": ips, "ipFamilies": families}));
        assert_eq!(converted.rejections.len(), rejected, "{ips}");
        assert_eq!(texts(&converted.object.unwrap().cluster_ips), served, "{ips}");
    }
}

#[test]
fn external_ips_are_checked_one_by_one() {
    let converted = service_with(&json!({"externalIPs": [
        "203.0.113.7", "203.000.113.007", "", " ", "10.0.0.256", "127.0.0.1", "169.254.1.1",
        "224.0.0.1", "0.0.0.0", "fd00::1", "198.51.100.01"
    ]}));
    let rejected: Vec<String> = [4, 5, 6, 7, 8, 9].map(|i| format!("spec.externalIPs[{i}]")).into();
    assert_eq!(fields(&converted), rejected);
    assert!(converted.rejections[5].reason.contains("no IPv6 cluster IP"));
    assert_eq!(texts(&converted.object.unwrap().external_ips), ["203.0.113.7", "198.51.100.1"]);
}

#[test]
fn load_balancer_ips_need_mode_vip() {
    let converted = service_object(&json!({"status": {"loadBalancer": {"ingress": [
        {"ip": "192.0.2.1"}, {"ip": "192.0.2.002", "ipMode": "VIP"}, {"ip": "192.0.2.1"},
        {"ip": "192.0.2.3", "ipMode": "Proxy"}, {"hostname": "lb.example.com"},
        {"ip": "192.0.2.4", "ipMode": "Other"}, {"ip": "127.0.0.1"}, {"ip": "fd00::1"}, {}
    ]}}}));
    assert_eq!(
        fields(&converted),
        [5, 6, 7].map(|i| format!(
            "status.loadBalancer.ingress[{i}].{}",
            if i == 5 { "ipMode" } else { "ip" }
        ))
    );
    assert_eq!(texts(&converted.object.unwrap().load_balancer_ips), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn source_ranges_never_open_by_mistake() {
    let with = |ranges: Value| {
        let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        let changes = json!({"spec": {"loadBalancerSourceRanges": ranges}, "status": status});
        let converted = service_object(&changes);
        let service = converted.object.unwrap();
        let ranges: Vec<String> = service.source_ranges.iter().map(ToString::to_string).collect();
        (ranges.join(" "), service.load_balancer_ips.len(), converted.rejections.len())
    };
    assert_eq!(with(json!(null)), (String::new(), 1, 0));
    assert_eq!(with(json!(["", " "])), (String::new(), 1, 0));
    let mixed = json!([" 203.0.113.9/24 ", "010.0.0.0/08", "fd00::/8", "10.0.0.1"]);
    assert_eq!(with(mixed), ("203.0.113.0/24 10.0.0.0/8 fd00::/8".to_owned(), 1, 1));
    // Everything mistyped: not the same as no restriction.
    assert_eq!(with(json!(["10.0.0.0"])), (String::new(), 0, 2));
}

#[test]
fn source_ranges_of_the_other_family_alone_are_told_to_restrict_nobody() {
    let reasons = |ranges: Value, ingress: &[&str]| -> Vec<String> {
        let ingress: Vec<Value> = ingress.iter().map(|ip| json!({"ip": ip})).collect();
        let spec = json!({"loadBalancerSourceRanges": ranges,
            "clusterIPs": ["10.96.0.1", "fd00:96::1"], "ipFamilies": ["IPv4", "IPv6"]});
        let status = json!({"loadBalancer": {"ingress": ingress}});
        let converted = service_object(&json!({"spec": spec, "status": status}));
        assert_eq!(converted.object.unwrap().load_balancer_ips.len(), ingress.len());
        converted.rejections.into_iter().map(|rejection| rejection.reason).collect()
    };
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    for ranges in [json!(["::/0"]), json!(["2001:db8::/32", "fd00::/8"])] {
        let told = reasons(ranges.clone(), &[v4, v6]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("no range is IPv4, so that the load-balancer IP 192.0.2.1 is"));
        assert_eq!(reasons(ranges, &[v6]), [""; 0]);
    }
    assert!(reasons(json!(["10.0.0.0/8"]), &[v6])[0].starts_with("no range is IPv6"));
    assert_eq!(reasons(json!(["10.0.0.0/8", "fd00::/8"]), &[v4, v6]), [""; 0]);
    assert_eq!(reasons(json!([]), &[v4, v6]), [""; 0]);
}

#[test]
fn ports_are_checked_one_by_one() {
    let converted = service_with(&json!({"ports": [
        {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP", "nodePort": 0},
        {"name": "sctp", "port": 53, "protocol": "SCTP", "nodePort": 70000},
        {"name": "dns", "port": 54, "protocol": "UDP"},
        {"name": "again", "port": 53, "protocol": "UDP"},
        {"name": "icmp", "port": 55, "protocol": "ICMP"},
        {"name": "zero", "port": 0}
    ]}));
    assert_eq!(
        fields(&converted),
        [
            "spec.ports[2].nodePort",
            "spec.ports[3]",
            "spec.ports[4]",
            "spec.ports[5].protocol",
            "spec.ports[6].port"
        ]
    );
    let ports = converted.object.unwrap().ports;
    let node_ports: Vec<_> = ports.iter().map(|p| (&*p.name, p.node_port)).collect();
    assert_eq!(node_ports, [("dns", Some(30053)), ("dns-tcp", None), ("sctp", None)]);
}

#[test]
fn the_external_policy_needs_external_access() {
    use TrafficPolicy::{Cluster, Local};
    for (spec, policy, health_check) in [
        (json!({"type": "LoadBalancer", "healthCheckNodePort": 31000}), Local, Some(31000)),
        (json!({"type": "LoadBalancer", "healthCheckNodePort": 0}), Local, None),
        (json!({"type": "NodePort", "healthCheckNodePort": 31000}), Local, None),
        (json!({"type": "ClusterIP"}), Cluster, None),
        (json!({"type": "ClusterIP", "externalIPs": ["203.0.113.7"]}), Local, None),
    ] {
        let mut spec = spec;
        overlay(&mut spec, &json!({"externalTrafficPolicy": "Local"}));
        let converted = service_with(&spec);
        assert_eq!(converted.rejections, [], "{spec}");
        let service = converted.object.unwrap();
        assert_eq!(service.external_policy, policy, "{spec}");
        assert_eq!(service.health_check_node_port, health_check, "{spec}");
    }
    let odd = service_with(&json!({"internalTrafficPolicy": "local", "type": "Odd"}));
    assert_eq!(fields(&odd).len(), 2);
    assert_eq!(odd.object.unwrap().internal_policy, Cluster);
}

#[test]
fn affinity_has_a_timeout_between_a_second_and_a_day() {
    for (affinity, seconds, timeout, rejected) in [
        (json!("None"), json!(5), None, 0),
        (json!(null), json!(null), None, 0),
        (json!("ClientIP"), json!(null), Some(10_800), 0),
        (json!("ClientIP"), json!(1), Some(1), 0),
        (json!("ClientIP"), json!(86_400), Some(86_400), 0),
        (json!("ClientIP"), json!(86_401), Some(10_800), 1),
        (json!("ClientIP"), json!(0), Some(10_800), 1),
        (json!("ClientIP"), json!(-1), Some(10_800), 1),
        (json!("clientip"), json!(5), None, 1),
    ] {
        let converted = service_with(&json!({
            "sessionAffinity": affinity,
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}
        }));
        assert_eq!(converted.rejections.len(), rejected, "{affinity} {seconds}");
        assert_eq!(converted.object.unwrap().affinity_timeout, timeout, "{affinity} {seconds}");
    }
}

#[test]
fn topology_annotations_arrive() {
    let converted = service_object(&json!({"metadata": {"annotations": {
        "sliceproxy.io/topology-keys": "topology.kubernetes.io/zone,*",
        "sliceproxy.io/topology-min-endpoints": "2"
    }}}));
    let topology = converted.object.unwrap().topology;
    assert_eq!(topology.keys, Some(vec![TopologyKey::Zone, TopologyKey::Any]));
    assert_eq!(topology.min_endpoints, Some(2));
}
