//! Rows as set elements. Every part of a key or of an endpoint begins at a multiple of four bytes;
//! addresses and ports are in network order, slots in the host's.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::expression::{ANONYMOUS_SET, put_value, put_verdict};
use super::number::{LIST_ELEMENT, data, element};
use super::wire::Buffer;
use crate::frontend::{Endpoint, Frontend, Protocol};
use crate::program::SERVICE_PROTOCOLS;
use crate::rows::{AffinityRow, RowKey, RowValue, Verdict};
use crate::transaction::Stray;

/// Elements that one row is made of.
pub(super) fn elements_of(key: &RowKey) -> usize {
    match key {
        RowKey::ServiceCidr(network) if address_after(network).is_some() => 2,
        _ => 1,
    }
}

/// Writes the elements of a row; `value` is given when it is added.
pub(super) fn put_row(out: &mut Buffer, key: &RowKey, value: Option<&RowValue>) {
    let one = out.begin(LIST_ELEMENT);
    put_keys(out, key);
    match value {
        Some(RowValue::Endpoint(endpoint)) => put_endpoint_data(out, endpoint),
        Some(RowValue::Verdict(verdict)) => put_verdict_data(out, *verdict),
        Some(RowValue::Member) | None => {}
    }
    out.end(one);
    if let RowKey::ServiceCidr(network) = key
        && let Some(after) = address_after(network)
    {
        let end = out.begin(LIST_ELEMENT);
        put_nested_key(out, element::KEY, |out| put_address(out, after));
        out.number(element::FLAGS, element::INTERVAL_END);
        out.end(end);
    }
}

/// Writes the first element of a row, for asking after it.
pub(super) fn put_row_key(out: &mut Buffer, key: &RowKey) {
    let one = out.begin(LIST_ELEMENT);
    put_keys(out, key);
    out.end(one);
}

/// Writes the element of a remembered client; with its value and times when it is added.
pub(super) fn put_affinity(out: &mut Buffer, row: &AffinityRow, added: bool) {
    let one = out.begin(LIST_ELEMENT);
    put_nested_key(out, element::KEY, |out| {
        put_frontend(out, &row.frontend);
        put_address(out, row.client);
    });
    if added {
        put_endpoint_data(out, &row.endpoint);
        out.long_number(element::TIMEOUT, row.timeout_ms);
        out.long_number(element::EXPIRATION, row.expires_ms);
    }
    out.end(one);
}

/// Writes a foreign element as it was read.
pub(super) fn put_stray(out: &mut Buffer, stray: &Stray) {
    let one = out.begin(LIST_ELEMENT);
    put_value(out, element::KEY, &stray.key);
    if let Some(end) = &stray.key_end {
        put_value(out, element::KEY_END, end);
    }
    if stray.interval_end {
        out.number(element::FLAGS, element::INTERVAL_END);
    }
    out.end(one);
}

/// Writes the elements of the anonymous set `{ tcp, udp, sctp }`, for a new-elements message.
pub(super) fn put_protocols(out: &mut Buffer, id: u32) {
    out.text(element::LIST_SET, ANONYMOUS_SET);
    out.number(element::LIST_SET_ID, id);
    let list = out.begin(element::LIST_ELEMENTS);
    for protocol in SERVICE_PROTOCOLS {
        let one = out.begin(LIST_ELEMENT);
        put_value(out, element::KEY, &[protocol.number()]);
        out.end(one);
    }
    out.end(list);
}

fn put_nested_key(out: &mut Buffer, kind: u16, write: impl FnOnce(&mut Buffer)) {
    let nest = out.begin(kind);
    let value = out.begin_value(data::VALUE);
    write(out);
    out.end(value);
    out.end(nest);
}

fn put_keys(out: &mut Buffer, key: &RowKey) {
    put_nested_key(out, element::KEY, |out| put_key(out, key));
    if let RowKey::AllowedSource(frontend, network) = key {
        put_nested_key(out, element::KEY_END, |out| {
            put_frontend(out, frontend);
            put_address(out, network.broadcast());
        });
    }
}

fn put_key(out: &mut Buffer, key: &RowKey) {
    match key {
        RowKey::Service(frontend)
        | RowKey::LocalService(frontend)
        | RowKey::NoBackends(frontend)
        | RowKey::MasqueradeFrontend(frontend)
        | RowKey::LocalFrontend(frontend)
        | RowKey::RestrictedFrontend(frontend)
        | RowKey::StickyFrontend(frontend) => put_frontend(out, frontend),
        RowKey::Backend(frontend, slot) | RowKey::LocalBackend(frontend, slot) => {
            put_frontend(out, frontend);
            out.put(&slot.to_ne_bytes());
        }
        RowKey::ClusterIp(address) => put_address(out, *address),
        RowKey::ServiceCidr(network) => put_address(out, network.network()),
        RowKey::AllowedSource(frontend, network) => {
            put_frontend(out, frontend);
            put_address(out, network.network());
        }
        RowKey::Hairpin(protocol, endpoint) => {
            put_address(out, endpoint.address);
            put_address(out, endpoint.address);
            put_protocol(out, *protocol);
            put_port(out, endpoint.port);
        }
    }
}

fn put_frontend(out: &mut Buffer, frontend: &Frontend) {
    put_address(out, frontend.address);
    put_protocol(out, frontend.protocol);
    put_port(out, frontend.port);
}

fn put_address(out: &mut Buffer, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.put(&address.octets()),
        IpAddr::V6(address) => out.put(&address.octets()),
    }
}

fn put_protocol(out: &mut Buffer, protocol: Protocol) {
    out.put(&[protocol.number()]);
}

fn put_port(out: &mut Buffer, port: u16) {
    out.put(&port.to_be_bytes());
}

fn put_endpoint_data(out: &mut Buffer, endpoint: &Endpoint) {
    put_nested_key(out, element::DATA, |out| {
        put_address(out, endpoint.address);
        put_port(out, endpoint.port);
    });
}

fn put_verdict_data(out: &mut Buffer, verdict: Verdict) {
    match verdict {
        Verdict::Drop => put_verdict(out, element::DATA, data::DROP, None::<&str>),
        Verdict::Goto(chain) => put_verdict(out, element::DATA, data::GOTO, Some(chain)),
    }
}

/// The first address behind the network; `None` if the network reaches to the last one.
fn address_after(network: &IpNetwork) -> Option<IpAddr> {
    match network.broadcast() {
        IpAddr::V4(last) => last.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(last) => last.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}
