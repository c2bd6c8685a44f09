//! What a walk reads: rows, remembered clients, and the chains that rows point at.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::KeyPart;
use crate::cidr;
use crate::frontend::{Endpoint, Frontend, Protocol};
use crate::program::{ChainDef, Program};
use crate::rows::{Chain, RowKey, RowValue, SetName};

/// The state that a packet meets.
pub trait Rows {
    /// The row with exactly that key. Networks in keys have their host bits cleared.
    fn row(&self, key: &RowKey) -> Option<RowValue>;

    /// The endpoint remembered for that client. By default nobody is remembered.
    fn remembered(&self, _frontend: Frontend, _client: IpAddr) -> Option<Endpoint> {
        None
    }

    /// The chain that a row points at. By default every chain is as `program` makes it.
    fn chain(&self, program: &Program, chain: Chain) -> Option<ChainDef> {
        Some(program.row_chain(chain, None))
    }
}

impl<S: BuildHasher> Rows for HashMap<RowKey, RowValue, S> {
    fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.get(key).copied()
    }
}

impl Rows for BTreeMap<RowKey, RowValue> {
    fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.get(key).copied()
    }
}

/// What `set` says for `key`, whose random part, if it has one, came up as `slot`.
///
/// Keys that no row can have, such as those with a protocol no Service can use, are not found.
pub(super) fn look_up(
    rows: &impl Rows,
    set: SetName,
    key: &[KeyPart],
    slot: u32,
) -> Option<RowValue> {
    let frontend = || frontend_of(key);
    let client = || match key.get(3) {
        Some(KeyPart::Address(client)) => Some(*client),
        _ => None,
    };
    let exact = match set {
        SetName::Services => RowKey::Service(frontend()?),
        SetName::Backends => RowKey::Backend(frontend()?, slot),
        SetName::LocalServices => RowKey::LocalService(frontend()?),
        SetName::LocalBackends => RowKey::LocalBackend(frontend()?, slot),
        SetName::NoBackends => RowKey::NoBackends(frontend()?),
        SetName::MasqueradeFrontends => RowKey::MasqueradeFrontend(frontend()?),
        SetName::LocalFrontends => RowKey::LocalFrontend(frontend()?),
        SetName::RestrictedFrontends => RowKey::RestrictedFrontend(frontend()?),
        SetName::StickyFrontends => RowKey::StickyFrontend(frontend()?),
        SetName::ClusterIps => RowKey::ClusterIp(address_of(key)?),
        SetName::Hairpins => return hairpin(rows, key),
        SetName::ServiceCidrs => {
            return networks_around(address_of(key)?)
                .find_map(|network| rows.row(&RowKey::ServiceCidr(network)));
        }
        SetName::AllowedSources => {
            let frontend = frontend()?;
            return networks_around(client()?)
                .find_map(|network| rows.row(&RowKey::AllowedSource(frontend, network)));
        }
        SetName::Affinity => {
            return rows.remembered(frontend()?, client()?).map(RowValue::Endpoint);
        }
    };
    rows.row(&exact)
}

fn address_of(key: &[KeyPart]) -> Option<IpAddr> {
    match key.first() {
        Some(KeyPart::Address(address)) => Some(*address),
        _ => None,
    }
}

fn frontend_of(key: &[KeyPart]) -> Option<Frontend> {
    match *key {
        [KeyPart::Address(address), KeyPart::Protocol(number), KeyPart::Port(port), ..] => {
            Some(Frontend { address, protocol: Protocol::from_number(number)?, port })
        }
        _ => None,
    }
}

/// The set is keyed by source and destination; a row stands for both being the endpoint.
fn hairpin(rows: &impl Rows, key: &[KeyPart]) -> Option<RowValue> {
    match *key {
        [
            KeyPart::Address(source),
            KeyPart::Address(address),
            KeyPart::Protocol(number),
            KeyPart::Port(port),
        ] if source == address => {
            let protocol = Protocol::from_number(number)?;
            rows.row(&RowKey::Hairpin(protocol, Endpoint { address, port }))
        }
        _ => None,
    }
}

/// All networks that contain `address`, the widest first.
fn networks_around(address: IpAddr) -> impl Iterator<Item = IpNetwork> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (0..=bits)
        .filter_map(move |prefix| Some(cidr::canonical(IpNetwork::new(address, prefix).ok()?)))
}
