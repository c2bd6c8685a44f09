//! EndpointSlices.

use std::net::IpAddr;
use std::sync::Arc;

use sliceproxy_dataplane::frontend::Family;

use super::address::{parse_address, special_kind};
use super::rejections::Rejections;
use super::{
    BAD_PORT_NAME, Converted, UNKNOWN_PROTOCOL, check_name, filled, is_name, is_port_name,
    number_text, object_name, port, port_fault, protocol, timestamp,
};
use crate::model::{
    Conditions, Hints, NodeName, ObjectName, Region, Slice, SliceEndpoint, SlicePort, Zone,
};
use crate::wire::{self, Number};

/// Most endpoints of one slice; the API server accepts 1,000.
pub const MAX_ENDPOINTS: usize = 10_000;
/// Most ports of one slice. Controllers write at most 100 in a slice.
pub const MAX_SLICE_PORTS: usize = 1_000;
/// Most zones, and most nodes, in the hints of one endpoint; the API server accepts 8.
pub const MAX_HINTS: usize = 64;

/// The slice, if it belongs to a Service that is served by frontends.
pub fn slice(wire: &wire::EndpointSlice<'_>) -> Converted<Slice> {
    slice_after(wire, Rejections::new("EndpointSlice"))
}

/// The same, with what was rejected before.
pub(super) fn slice_after(
    wire: &wire::EndpointSlice<'_>,
    mut rejections: Rejections,
) -> Converted<Slice> {
    let name = object_name(&wire.metadata);
    let object = if wire.metadata.labels.headless.is_some() {
        None
    } else {
        convert(wire, &name, &mut rejections)
    };
    let rejections = rejections.finish(&name);
    Converted { name, object, rejections }
}

fn convert(
    wire: &wire::EndpointSlice<'_>,
    name: &ObjectName,
    rejections: &mut Rejections,
) -> Option<Slice> {
    if !check_name(name, rejections) {
        return None;
    }
    let service = service_name(wire, name, rejections)?;
    let family = family(wire, rejections)?;
    let trigger_time = timestamp(wire.metadata.annotations.last_change_trigger_time.as_ref())
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    let ports = ports(wire, rejections);
    let endpoints = endpoints(wire, family, rejections);
    Some(Slice { name: name.clone(), service, family, ports, endpoints, trigger_time })
}

fn service_name(
    wire: &wire::EndpointSlice<'_>,
    name: &ObjectName,
    rejections: &mut Rejections,
) -> Option<ObjectName> {
    let label = wire.metadata.labels.service_name.as_deref().unwrap_or_default();
    if is_name(label) {
        return Some(ObjectName { namespace: Arc::clone(&name.namespace), name: label.into() });
    }
    rejections.add(
        format_args!("metadata.labels[kubernetes.io/service-name]"),
        label,
        "the slice is not served; set the label to the name of a Service",
    );
    None
}

fn family(wire: &wire::EndpointSlice<'_>, rejections: &mut Rejections) -> Option<Family> {
    let reason = match wire.address_type.as_deref().unwrap_or_default() {
        "IPv4" => return Some(Family::V4),
        "IPv6" => return Some(Family::V6),
        "FQDN" => "a proxy cannot resolve names; the slice is not served; list addresses instead",
        _ => "not an address type; the slice is not served; use IPv4 or IPv6",
    };
    let value = wire.address_type.as_deref().unwrap_or_default();
    rejections.add(format_args!("addressType"), value, reason);
    None
}

fn ports(wire: &wire::EndpointSlice<'_>, rejections: &mut Rejections) -> Vec<SlicePort> {
    if wire.ports.is_empty() && !wire.endpoints.is_empty() {
        rejections.add(
            format_args!("ports"),
            "",
            "no ports, so no Service port can use the endpoints; check the Service's targetPort",
        );
    }
    let all = rejections.limit(format_args!("ports"), &wire.ports, MAX_SLICE_PORTS);
    rejections.nulls(format_args!("ports"), all);
    let mut ports: Vec<SlicePort> = Vec::with_capacity(all.len());
    for (i, wire) in all.iter().enumerate() {
        let Some(wire) = wire else { continue };
        let name = wire.name.as_deref().unwrap_or_default();
        if !is_port_name(name) {
            rejections.add(format_args!("ports[{i}].name"), name, BAD_PORT_NAME);
            continue;
        }
        let Some(protocol) = protocol(wire.protocol.as_ref()) else {
            let value = wire.protocol.as_deref().unwrap_or_default();
            rejections.add(format_args!("ports[{i}].protocol"), value, UNKNOWN_PROTOCOL);
            continue;
        };
        let written = wire.port.as_ref();
        let Some(port) = written.and_then(Number::whole).and_then(port) else {
            let value = number_text(written);
            rejections.add(format_args!("ports[{i}].port"), value, port_fault(written));
            continue;
        };
        if ports.iter().any(|p| *p.name == *name && p.protocol == protocol) {
            rejections.add(
                format_args!("ports[{i}].name"),
                name,
                "a second port of that name and protocol; it is not used",
            );
            continue;
        }
        ports.push(SlicePort { name: name.into(), protocol, port });
    }
    ports
}

fn endpoints(
    wire: &wire::EndpointSlice<'_>,
    family: Family,
    rejections: &mut Rejections,
) -> Vec<SliceEndpoint> {
    let all = rejections.limit(format_args!("endpoints"), &wire.endpoints, MAX_ENDPOINTS);
    rejections.nulls(format_args!("endpoints"), all);
    let mut names = Names::default();
    let mut endpoints = Vec::with_capacity(all.len());
    for (i, wire) in all.iter().enumerate() {
        let Some(wire) = wire else { continue };
        let text = wire.addresses.0.as_deref().unwrap_or_default();
        match endpoint_address(text, family) {
            Ok(address) => endpoints.push(endpoint(address, wire, i, &mut names, rejections)),
            Err(fault) => rejections.add(
                format_args!("endpoints[{i}].addresses[0]"),
                text,
                format_args!("{fault}; the endpoint is not used; correct what writes the slice"),
            ),
        }
    }
    endpoints
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
enum AddressFault {
    #[error("no address")]
    Missing,
    #[error("not an IP address")]
    NotAnAddress,
    #[error("not an address of the slice's addressType {0}")]
    WrongFamily(Family),
    #[error("{0}, which no endpoint can have")]
    Special(&'static str),
}

fn endpoint_address(text: &str, family: Family) -> Result<IpAddr, AddressFault> {
    if text.is_empty() {
        return Err(AddressFault::Missing);
    }
    let address = parse_address(text).ok_or(AddressFault::NotAnAddress)?;
    if Family::of(address) != family {
        return Err(AddressFault::WrongFamily(family));
    }
    special_kind(address).map_or(Ok(address), |kind| Err(AddressFault::Special(kind)))
}

fn endpoint(
    address: IpAddr,
    wire: &wire::Endpoint<'_>,
    index: usize,
    names: &mut Names,
    rejections: &mut Rejections,
) -> SliceEndpoint {
    let legacy = wire.deprecated_topology.as_ref();
    let node = filled(wire.node_name.as_ref())
        .or_else(|| legacy.and_then(|legacy| filled(legacy.hostname.as_ref())));
    let zone = filled(wire.zone.as_ref())
        .or_else(|| legacy.and_then(|legacy| filled(legacy.zone.as_ref())));
    let region = legacy.and_then(|legacy| filled(legacy.region.as_ref()));
    SliceEndpoint {
        address,
        conditions: Conditions {
            ready: wire.conditions.ready.unwrap_or(true),
            serving: wire.conditions.serving.unwrap_or(true),
            terminating: wire.conditions.terminating.unwrap_or(false),
        },
        node: node.map(|node| names.node(node)),
        zone: zone.map(|zone| Zone(names.share(zone))),
        region: region.map(|region| Region(names.share(region))),
        hints: wire.hints.as_ref().and_then(|wire| hints(wire, index, names, rejections)),
    }
}

fn hints(
    wire: &wire::Hints<'_>,
    index: usize,
    names: &mut Names,
    rejections: &mut Rejections,
) -> Option<Arc<Hints>> {
    let nodes = rejections.limit(
        format_args!("endpoints[{index}].hints.forNodes"),
        &wire.for_nodes,
        MAX_HINTS,
    );
    let zones = rejections.limit(
        format_args!("endpoints[{index}].hints.forZones"),
        &wire.for_zones,
        MAX_HINTS,
    );
    let hints = Hints {
        nodes: nodes.iter().filter_map(hinted).map(|node| names.node(node)).collect(),
        zones: zones.iter().filter_map(hinted).map(|zone| Zone(names.share(zone))).collect(),
    };
    (!hints.nodes.is_empty() || !hints.zones.is_empty()).then(|| names.share_hints(hints))
}

fn hinted<'n>(hint: &'n wire::Named<'_>) -> Option<&'n str> {
    filled(hint.name.as_ref())
}

/// The last few names of nodes, zones and regions, and the last few hints: endpoints of a slice
/// repeat each other's.
#[derive(Debug, Default)]
struct Names {
    recent: Recent<str>,
    hints: Recent<Hints>,
}

/// The last few of many values.
#[derive(Debug)]
struct Recent<T: ?Sized> {
    values: [Option<Arc<T>>; 8],
    next: usize,
}

impl<T: ?Sized> Default for Recent<T> {
    fn default() -> Self {
        Self { values: Default::default(), next: 0 }
    }
}

impl<T: PartialEq + ?Sized> Recent<T> {
    fn find(&self, value: &T) -> Option<Arc<T>> {
        self.values.iter().flatten().find(|known| ***known == *value).cloned()
    }

    fn keep(&mut self, new: &Arc<T>) {
        self.values[self.next] = Some(Arc::clone(new));
        self.next = (self.next + 1) % self.values.len();
    }
}

impl Names {
    /// The node of that name, lower case.
    fn node(&mut self, name: &str) -> NodeName {
        if name.bytes().any(|b| b.is_ascii_uppercase()) {
            return NodeName(self.share(&name.to_ascii_lowercase()));
        }
        NodeName(self.share(name))
    }

    fn share(&mut self, name: &str) -> Arc<str> {
        self.recent.find(name).unwrap_or_else(|| {
            let new = name.into();
            self.recent.keep(&new);
            new
        })
    }

    fn share_hints(&mut self, hints: Hints) -> Arc<Hints> {
        self.hints.find(&hints).unwrap_or_else(|| {
            let new = Arc::new(hints);
            self.hints.keep(&new);
            new
        })
    }
}
