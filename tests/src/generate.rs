//! Clusters of any size, as the events that a source would send.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use sliceproxy::engine::Settings;
use sliceproxy::model::{
    Conditions, Event, NodeName, ObjectName, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
};
use sliceproxy_dataplane::frontend::{Family, Protocol};
use sliceproxy_dataplane::program::ProgramConfig;

/// Endpoints in one slice, as the EndpointSlice controller makes them.
pub const SLICE_SIZE: u32 = 100;

/// An address inside a /8, by number.
pub fn address(first: u8, number: u32) -> IpAddr {
    let [_, b, c, d] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(first, b, c, d))
}

/// Settings for a node of which nothing is known but its name.
pub fn settings() -> Settings {
    Settings {
        node: NodeName("node-1".into()),
        families: Family::ALL.to_vec(),
        program: ProgramConfig::default(),
        topology_routing: false,
        zone_regions: std::collections::BTreeMap::new(),
    }
}

/// A Service with one TCP port and a cluster IP made of its number.
pub fn service(number: u32) -> Arc<Service> {
    Arc::new(Service {
        created: i64::from(number),
        ..Service::new(
            name(number),
            vec![address(11, number + 1)],
            vec![ServicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                port: 80,
                node_port: None,
            }],
        )
    })
}

/// The name of a generated Service.
pub fn name(number: u32) -> ObjectName {
    ObjectName::new("load", &format!("svc-{number}"))
}

/// A ready endpoint, its address made of a number.
pub fn endpoint(number: u32) -> SliceEndpoint {
    SliceEndpoint {
        address: address(10, number),
        conditions: Conditions { ready: true, serving: true, terminating: false },
        node: NodeName::new(&format!("node-{}", number % 500 + 2)),
        zone: None,
        region: None,
        hints: None,
    }
}

/// Slice number `part` of a Service, with endpoints of these numbers.
pub fn slice(service: u32, part: u32, endpoints: impl IntoIterator<Item = u32>) -> Arc<Slice> {
    Arc::new(Slice {
        name: ObjectName::new("load", &format!("svc-{service}-{part}")),
        service: name(service),
        family: Family::V4,
        ports: vec![SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: endpoints.into_iter().map(endpoint).collect(),
        trigger_time: None,
    })
}

/// The slices of a Service with `count` endpoints numbered from `first`.
pub fn slices(service: u32, first: u32, count: u32) -> Vec<Arc<Slice>> {
    (0..count.div_ceil(SLICE_SIZE))
        .map(|part| {
            let start = first + part * SLICE_SIZE;
            slice(service, part, start..(start + SLICE_SIZE).min(first + count))
        })
        .collect()
}

/// `services` Services of `endpoints` endpoints each: a complete listing. The endpoints of Service
/// `n` are numbered from `n * endpoints`.
pub fn cluster(services: u32, endpoints: u32) -> Vec<Event> {
    let all = (0..services).flat_map(|n| slices(n, n * endpoints, endpoints));
    vec![Event::AllSlices(all.collect()), Event::AllServices((0..services).map(service).collect())]
}
