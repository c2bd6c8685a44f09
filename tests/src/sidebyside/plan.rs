//! Who is where: names, addresses and paths that scenarios and networks agree on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sliceproxy_dataplane::frontend::{Family, Protocol};

/// Where all Services are.
pub(super) const NAMESPACE: &str = "side";
/// The node that both proxies are on.
pub(super) const NODE: &str = "node-1";
/// Port that every pod answers on, TCP and UDP.
pub(super) const POD_PORT: u16 = 8080;
/// Another one.
pub(super) const OTHER_POD_PORT: u16 = 8081;
/// One more.
pub(super) const THIRD_POD_PORT: u16 = 8082;
/// A server on the node itself, on TCP port [`POD_PORT`].
pub(super) const HOST: &str = "host";
/// A Service's TCP and UDP port.
pub(super) const SERVICE_PORT: u16 = 80;

/// Pods: name, node, and the last bytes of their addresses.
pub(super) const PODS: [(&str, &str, u8, u8); 4] = [
    ("near-1", NODE, 1, 1),
    ("near-2", NODE, 1, 2),
    ("far-1", "node-2", 2, 1),
    ("far-2", "node-3", 3, 1),
];

/// The nodes and their zones.
pub(super) const NODES: [(&str, &str); 3] =
    [(NODE, "zone-a"), ("node-2", "zone-a"), ("node-3", "zone-b")];

/// Address of a pod by node and place.
pub(super) fn pod_address(node: u8, place: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 244, node, place).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x244, node.into(), 0, 0, 0, 0, place.into()).into(),
    }
}

/// Name of the slice number `n` of a case.
pub(super) fn slice_name(case: &str, n: usize, family: Family) -> String {
    format!("{case}-{n}-{}", if family == Family::V4 { "v4" } else { "v6" })
}

/// Where a slice is in the API.
pub(super) fn slice_path(name: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{name}")
}

/// Where a Service is in the API.
pub(super) fn service_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/services/{name}")
}

/// Address of the node that both proxies are on.
pub(super) fn node_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(172, 18, 0, 11).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0xb).into(),
    }
}

/// Cluster IP of the case with that number.
pub(super) fn cluster_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 96, 1, number).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 1, number.into()).into(),
    }
}

/// Load-balancer IP of the case with that number.
pub(super) fn load_balancer_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 100, number).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, number.into()).into(),
    }
}

/// External IP of the case with that number.
pub(super) fn external_ip(number: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(198, 51, 101, number).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0x101, 0, 0, 0, 0, number.into()).into(),
    }
}

/// A loopback address.
pub(super) fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Node port of the case with that number.
pub(super) fn node_port(number: u8, protocol: Protocol) -> u16 {
    30_000 + u16::from(number) * 2 + u16::from(protocol == Protocol::Udp)
}

/// Health-check node port of the case with that number.
pub(super) fn health_port(number: u8) -> u16 {
    32_000 + u16::from(number)
}
