//! Rows in what `nft -j list table` prints.
//!
//! Read as plain JSON: the `nftables` crate has no type for sets that are defined by example
//! (`typeof`), and would reject the whole listing for them.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use serde_json::Value;

use crate::frontend::{Endpoint, Frontend, Protocol};
use crate::rows::{Chain, Row, RowKey, RowValue, SetName, Verdict};

/// A listing that cannot be read as rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// It is not a listing of nft's.
    #[error("not a listing of nft: it has no array \"nftables\"")]
    NotAListing,
    /// An element of a set is not a row that we would write.
    #[error("set {set} has an element that is not a row: {element}")]
    Element {
        /// The set.
        set: SetName,
        /// The element, as listed.
        element: String,
    },
}

/// The rows of our sets and maps in a listing of a table. Remembered clients are not rows and are
/// left out, and so are sets that are not ours.
///
/// # Errors
/// If an element of one of our sets is not a row.
pub fn rows_from_listing(listing: &Value) -> Result<Vec<Row>, ListingError> {
    let objects = listing["nftables"].as_array().ok_or(ListingError::NotAListing)?;
    let mut rows = Vec::new();
    for object in objects {
        let body = object.get("set").or_else(|| object.get("map"));
        let Some((body, set)) = body.and_then(|body| Some((body, set_name(body)?))) else {
            continue;
        };
        for element in body["elem"].as_array().into_iter().flatten() {
            let row = row(set, element)
                .ok_or_else(|| ListingError::Element { set, element: element.to_string() })?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn set_name(body: &Value) -> Option<SetName> {
    let name = body["name"].as_str()?;
    SetName::ALL.into_iter().find(|set| set.as_str() == name && *set != SetName::Affinity)
}

fn row(set: SetName, element: &Value) -> Option<Row> {
    let (key, value) = match element.as_array().map(Vec::as_slice) {
        Some([key, value]) => (key, value_of(value)?),
        Some(_) => return None,
        None => (element, RowValue::Member),
    };
    let parts = parts(key);
    let frontend = || frontend(parts);
    let key = match (set, parts) {
        (SetName::Services, [_, _, _]) => RowKey::Service(frontend()?),
        (SetName::LocalServices, [_, _, _]) => RowKey::LocalService(frontend()?),
        (SetName::NoBackends, [_, _, _]) => RowKey::NoBackends(frontend()?),
        (SetName::MasqueradeFrontends, [_, _, _]) => RowKey::MasqueradeFrontend(frontend()?),
        (SetName::LocalFrontends, [_, _, _]) => RowKey::LocalFrontend(frontend()?),
        (SetName::RestrictedFrontends, [_, _, _]) => RowKey::RestrictedFrontend(frontend()?),
        (SetName::StickyFrontends, [_, _, _]) => RowKey::StickyFrontend(frontend()?),
        (SetName::Backends, [_, _, _, slot]) => RowKey::Backend(frontend()?, number(slot)?),
        (SetName::LocalBackends, [_, _, _, slot]) => {
            RowKey::LocalBackend(frontend()?, number(slot)?)
        }
        (SetName::AllowedSources, [_, _, _, source]) => {
            RowKey::AllowedSource(frontend()?, network(source)?)
        }
        (SetName::ClusterIps, [one]) => RowKey::ClusterIp(address(one)?),
        (SetName::ServiceCidrs, [one]) => RowKey::ServiceCidr(network(one)?),
        (SetName::Hairpins, [source, rest @ ..]) => {
            let Frontend { address: destination, protocol, port } = self::frontend(rest)?;
            let same = address(source)? == destination;
            same.then_some(RowKey::Hairpin(protocol, Endpoint { address: destination, port }))?
        }
        _ => return None,
    };
    Some(Row { key, value })
}

/// The parts of a concatenation, or the one thing that is none.
fn parts(value: &Value) -> &[Value] {
    match value["concat"].as_array() {
        Some(parts) => parts,
        None => std::slice::from_ref(value),
    }
}

fn value_of(value: &Value) -> Option<RowValue> {
    if value.get("drop").is_some() {
        return Some(RowValue::Verdict(Verdict::Drop));
    }
    if let Some(target) = value["goto"]["target"].as_str() {
        return Some(RowValue::Verdict(Verdict::Goto(Chain::parse(target)?)));
    }
    match parts(value) {
        [to, port] => {
            Some(RowValue::Endpoint(Endpoint { address: address(to)?, port: number(port)? }))
        }
        _ => None,
    }
}

fn frontend(parts: &[Value]) -> Option<Frontend> {
    let [to, protocol, port, ..] = parts else { return None };
    Some(Frontend {
        address: address(to)?,
        protocol: self::protocol(protocol)?,
        port: number(port)?,
    })
}

/// nft lists protocols by name where the system has a list of names, else by number.
fn protocol(value: &Value) -> Option<Protocol> {
    match value.as_str() {
        Some(name) => Protocol::ALL.into_iter().find(|protocol| protocol.nft_name() == name),
        None => Protocol::from_number(number(value)?),
    }
}

fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

fn network(value: &Value) -> Option<IpNetwork> {
    let prefix = &value["prefix"];
    if prefix.is_null() {
        return Some(IpNetwork::from(address(value)?));
    }
    IpNetwork::new(address(&prefix["addr"])?, number(&prefix["len"])?).ok()
}

fn number<N: TryFrom<u64>>(value: &Value) -> Option<N> {
    N::try_from(value.as_u64()?).ok()
}
