//! Flows as attributes: what `ctnetlink` is asked and what it answers.

use std::net::{IpAddr, SocketAddr};

use super::number::{conntrack, family_number, flag};
use super::wire::{Attributes, Buffer, Message};
use crate::conntrack::{Flow, Scope};
use crate::frontend::{Endpoint, Frontend, Protocol};

/// How long a planted flow lasts, in seconds.
const PLANTED_TIMEOUT: u32 = 600;

/// A flow as it was received, and the attributes by which the kernel finds it again.
#[derive(Debug)]
pub(super) struct Received<'a> {
    pub(super) flow: Flow,
    original: &'a [u8],
    zone: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
}

/// One direction.
#[derive(Debug, Clone, Copy)]
struct Tuple {
    source: SocketAddr,
    destination: SocketAddr,
    protocol: Protocol,
}

/// Writes the request for the UDP flows of `scope`. Filtering in the kernel came with Linux 5.8; an
/// older one ignores the filter or refuses it.
pub(super) fn write_dump(out: &mut Buffer, sequence: u32, scope: &Scope, in_kernel: bool) {
    let kind = conntrack::SUBSYSTEM << 8 | conntrack::GET;
    let family = family_number(scope.family);
    let start = out.begin_message(kind, flag::REQUEST | flag::DUMP, sequence, family, 0);
    if in_kernel {
        write_filter(out, scope);
    }
    out.end_message(start);
}

fn write_filter(out: &mut Buffer, scope: &Scope) {
    let mut by = conntrack::BY_PROTOCOL;
    let original = out.begin(conntrack::ORIGINAL);
    // Asked for flows to an IPv6 address, the kernel gives those to all others (as of Linux 6.18).
    if let Some(IpAddr::V4(address)) = scope.address {
        by |= conntrack::BY_DESTINATION;
        let addresses = out.begin(conntrack::TUPLE_ADDRESSES);
        out.attribute(conntrack::V4_DESTINATION, &address.octets());
        out.end(addresses);
    }
    let protocol = out.begin(conntrack::TUPLE_PROTOCOL);
    out.attribute(conntrack::PROTOCOL_NUMBER, &[Protocol::Udp.number()]);
    if let Some(port) = scope.port {
        by |= conntrack::BY_DESTINATION_PORT;
        out.attribute(conntrack::DESTINATION_PORT, &port.to_be_bytes());
    }
    out.end(protocol);
    out.end(original);
    let filter = out.begin(conntrack::FILTER);
    out.attribute(conntrack::FILTER_ORIGINAL, &by.to_ne_bytes());
    out.end(filter);
}

fn write_address(out: &mut Buffer, address: IpAddr, v4: u16, v6: u16) {
    match address {
        IpAddr::V4(address) => out.attribute(v4, &address.octets()),
        IpAddr::V6(address) => out.attribute(v6, &address.octets()),
    }
}

fn write_tuple(out: &mut Buffer, kind: u16, tuple: Tuple) {
    let nest = out.begin(kind);
    let addresses = out.begin(conntrack::TUPLE_ADDRESSES);
    write_address(out, tuple.source.ip(), conntrack::V4_SOURCE, conntrack::V6_SOURCE);
    let destination = tuple.destination.ip();
    write_address(out, destination, conntrack::V4_DESTINATION, conntrack::V6_DESTINATION);
    out.end(addresses);
    let protocol = out.begin(conntrack::TUPLE_PROTOCOL);
    out.attribute(conntrack::PROTOCOL_NUMBER, &[tuple.protocol.number()]);
    out.attribute(conntrack::SOURCE_PORT, &tuple.source.port().to_be_bytes());
    out.attribute(conntrack::DESTINATION_PORT, &tuple.destination.port().to_be_bytes());
    out.end(protocol);
    out.end(nest);
}

/// Writes `flow` as an entry to be made. Returns the message's place.
pub(super) fn write_new(out: &mut Buffer, sequence: u32, flow: &Flow) -> usize {
    let kind = conntrack::SUBSYSTEM << 8 | conntrack::NEW;
    let flags = flag::REQUEST | flag::CREATE | flag::EXCLUSIVE;
    let family = family_number(flow.frontend.family());
    let protocol = flow.frontend.protocol;
    let frontend = SocketAddr::new(flow.frontend.address, flow.frontend.port);
    let endpoint = SocketAddr::new(flow.answers_from.address, flow.answers_from.port);
    let start = out.begin_message(kind, flags, sequence, family, 0);
    let original = Tuple { source: flow.client, destination: frontend, protocol };
    write_tuple(out, conntrack::ORIGINAL, original);
    let reply = Tuple { source: endpoint, destination: flow.client, protocol };
    write_tuple(out, conntrack::REPLY, reply);
    out.number(conntrack::STATUS, conntrack::CONFIRMED | conntrack::SEEN_REPLY);
    out.number(conntrack::TIMEOUT, PLANTED_TIMEOUT);
    if flow.zone != 0 {
        out.attribute(conntrack::ZONE, &flow.zone.to_be_bytes());
    }
    out.end_message(start);
    start
}

/// Writes the removal of a flow, found by what the kernel said of it: its original direction, its
/// zone, and its number, so that another flow which took its place meanwhile is spared. Returns the
/// message's place.
pub(super) fn write_delete(out: &mut Buffer, sequence: u32, received: &Received<'_>) -> usize {
    let kind = conntrack::SUBSYSTEM << 8 | conntrack::DELETE;
    let family = family_number(received.flow.frontend.family());
    let start = out.begin_message(kind, flag::REQUEST, sequence, family, 0);
    let original = out.begin(conntrack::ORIGINAL);
    out.put(received.original);
    out.end(original);
    for (kind, value) in [(conntrack::ZONE, received.zone), (conntrack::ID, received.id)] {
        if let Some(value) = value {
            out.attribute(kind, value);
        }
    }
    out.end_message(start);
    start
}

impl<'a> Received<'a> {
    /// Reads an entry; `None` for what is no flow that a Service could have.
    pub(super) fn parse(message: &Message<'a>) -> Option<Self> {
        let attributes = message.attributes();
        let original = attributes.find(conntrack::ORIGINAL)?;
        let tuple = read_tuple(original.nested())?;
        let reply = read_tuple(attributes.find(conntrack::REPLY)?.nested())?;
        let zone = attributes.find(conntrack::ZONE).map(|zone| zone.value);
        let flow = Flow {
            client: tuple.source,
            frontend: Frontend {
                address: tuple.destination.ip(),
                protocol: tuple.protocol,
                port: tuple.destination.port(),
            },
            answers_from: Endpoint { address: reply.source.ip(), port: reply.source.port() },
            zone: zone.and_then(port).unwrap_or_default(),
        };
        let id = attributes.find(conntrack::ID).map(|id| id.value);
        Some(Self { flow, original: original.value, zone, id })
    }
}

fn read_tuple(tuple: Attributes<'_>) -> Option<Tuple> {
    let addresses = tuple.find(conntrack::TUPLE_ADDRESSES)?.nested();
    let transport = tuple.find(conntrack::TUPLE_PROTOCOL)?.nested();
    let at = |v4, v6, number| {
        let value = addresses.find(v4).or_else(|| addresses.find(v6))?.value;
        let port = port(transport.find(number)?.value)?;
        Some(SocketAddr::new(address(value)?, port))
    };
    let number = transport.find(conntrack::PROTOCOL_NUMBER)?.value.first()?;
    Some(Tuple {
        source: at(conntrack::V4_SOURCE, conntrack::V6_SOURCE, conntrack::SOURCE_PORT)?,
        destination: at(
            conntrack::V4_DESTINATION,
            conntrack::V6_DESTINATION,
            conntrack::DESTINATION_PORT,
        )?,
        protocol: Protocol::from_number(*number)?,
    })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from).ok();
    v4.or_else(|| <[u8; 16]>::try_from(value).map(IpAddr::from).ok())
}

fn port(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(value.try_into().ok()?))
}

/// Whether a flow is one that was asked for; an old kernel gives more.
pub(super) fn is_wanted(flow: &Flow, scope: &Scope) -> bool {
    flow.frontend.protocol == Protocol::Udp && scope.holds(&flow.frontend)
}
