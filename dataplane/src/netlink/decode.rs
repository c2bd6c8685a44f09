//! Set elements as rows, strays or remembered clients: the reverse of [`super::element`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;

use super::number::{data, element};
use super::wire::{Attribute, Attributes};
use crate::frontend::{Endpoint, Family, Frontend, Protocol};
use crate::rows::{AffinityRow, Chain, Row, RowKey, RowValue, SetName, Verdict};
use crate::transaction::Stray;

/// A received set element.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Received<'a> {
    pub(super) key: &'a [u8],
    pub(super) key_end: Option<&'a [u8]>,
    pub(super) interval_end: bool,
    value: Option<Attribute<'a>>,
    timeout_ms: u64,
    expires_ms: u64,
}

impl<'a> Received<'a> {
    /// Reads the attributes of one element.
    pub(super) fn parse(attributes: Attributes<'a>) -> Self {
        let mut received = Self::default();
        for attribute in attributes {
            match attribute.kind {
                element::KEY => received.key = raw(attribute).unwrap_or_default(),
                element::KEY_END => received.key_end = raw(attribute),
                element::DATA => received.value = Some(attribute),
                element::FLAGS => {
                    let flags = attribute.number().unwrap_or_default();
                    received.interval_end = flags & element::INTERVAL_END != 0;
                }
                element::TIMEOUT => received.timeout_ms = attribute.long_number().unwrap_or(0),
                element::EXPIRATION => received.expires_ms = attribute.long_number().unwrap_or(0),
                _ => {}
            }
        }
        received
    }

    /// The element as one that is not ours.
    pub(super) fn stray(&self, family: Family, set: SetName) -> Stray {
        Stray {
            family,
            set,
            key: self.key.to_vec(),
            key_end: self.key_end.map(<[u8]>::to_vec),
            interval_end: self.interval_end,
        }
    }

    /// The element as a row of `set`; `None` if it is none. Service CIDRs take two elements and
    /// are put together by [`networks`].
    pub(super) fn row(&self, family: Family, set: SetName) -> Option<Row> {
        if self.interval_end || (self.key_end.is_some() && set != SetName::AllowedSources) {
            return None;
        }
        let mut fields = Fields { rest: self.key, family };
        let key = match set {
            SetName::Services => RowKey::Service(fields.frontend()?),
            SetName::Backends => RowKey::Backend(fields.frontend()?, fields.slot()?),
            SetName::LocalServices => RowKey::LocalService(fields.frontend()?),
            SetName::LocalBackends => RowKey::LocalBackend(fields.frontend()?, fields.slot()?),
            SetName::NoBackends => RowKey::NoBackends(fields.frontend()?),
            SetName::MasqueradeFrontends => RowKey::MasqueradeFrontend(fields.frontend()?),
            SetName::LocalFrontends => RowKey::LocalFrontend(fields.frontend()?),
            SetName::ClusterIps => RowKey::ClusterIp(fields.address()?),
            SetName::RestrictedFrontends => RowKey::RestrictedFrontend(fields.frontend()?),
            SetName::AllowedSources => {
                let frontend = fields.frontend()?;
                let last = self.key_end.unwrap_or(self.key);
                let mut end = Fields { rest: last, family };
                if end.frontend()? != frontend {
                    return None;
                }
                let network = network(fields.address()?, end.address()?)?;
                RowKey::AllowedSource(frontend, network)
            }
            SetName::Hairpins => {
                let source = fields.address()?;
                if fields.address()? != source {
                    return None;
                }
                let protocol = fields.protocol()?;
                RowKey::Hairpin(protocol, Endpoint { address: source, port: fields.port()? })
            }
            SetName::StickyFrontends => RowKey::StickyFrontend(fields.frontend()?),
            SetName::ServiceCidrs | SetName::Affinity => return None,
        };
        fields.rest.is_empty().then_some(())?;
        Some(Row { key, value: self.value(family, set)? })
    }

    fn value(&self, family: Family, set: SetName) -> Option<RowValue> {
        match set {
            SetName::Services
            | SetName::LocalServices
            | SetName::NoBackends
            | SetName::StickyFrontends => self.verdict().map(RowValue::Verdict),
            SetName::Backends | SetName::LocalBackends => {
                self.endpoint(family).map(RowValue::Endpoint)
            }
            _ => Some(RowValue::Member),
        }
    }

    /// The element as a remembered client.
    pub(super) fn affinity(&self, family: Family) -> Option<AffinityRow> {
        let mut fields = Fields { rest: self.key, family };
        Some(AffinityRow {
            frontend: fields.frontend()?,
            client: fields.address()?,
            endpoint: self.endpoint(family)?,
            timeout_ms: self.timeout_ms,
            expires_ms: self.expires_ms,
        })
    }

    fn endpoint(&self, family: Family) -> Option<Endpoint> {
        let mut fields = Fields { rest: raw(self.value?)?, family };
        Some(Endpoint { address: fields.address()?, port: fields.port()? })
    }

    fn verdict(&self) -> Option<Verdict> {
        let verdict = self.value?.nested().find(data::VERDICT)?.nested();
        match verdict.find(data::VERDICT_CODE)?.number()?.cast_signed() {
            data::DROP => Some(Verdict::Drop),
            data::GOTO => {
                Chain::parse(verdict.find(data::VERDICT_CHAIN)?.text()?).map(Verdict::Goto)
            }
            _ => None,
        }
    }
}

/// The bytes of a value.
fn raw(attribute: Attribute<'_>) -> Option<&[u8]> {
    attribute.nested().find(data::VALUE).map(|value| value.value)
}

/// The parts of a key or an endpoint, taken off one by one.
struct Fields<'a> {
    rest: &'a [u8],
    family: Family,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*first)
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.family {
            Family::V4 => self.take().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into()),
            Family::V6 => self.take().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()),
        }
    }

    fn protocol(&mut self) -> Option<Protocol> {
        let [number, 0, 0, 0] = self.take()? else { return None };
        Protocol::from_number(number)
    }

    fn port(&mut self) -> Option<u16> {
        let [high, low, 0, 0] = self.take()? else { return None };
        Some(u16::from_be_bytes([high, low]))
    }

    fn slot(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn frontend(&mut self) -> Option<Frontend> {
        Some(Frontend { address: self.address()?, protocol: self.protocol()?, port: self.port()? })
    }
}

/// The network from `first` to `last`, if it is one.
fn network(first: IpAddr, last: IpAddr) -> Option<IpNetwork> {
    let prefix = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => (first.to_bits() ^ last.to_bits()).leading_zeros(),
        (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits() ^ last.to_bits()).leading_zeros(),
        _ => return None,
    };
    let network = IpNetwork::new(first, u8::try_from(prefix).ok()?).ok()?;
    (network.network() == first && network.broadcast() == last).then_some(network)
}

/// Puts the elements of [`SetName::ServiceCidrs`] together, each a key and whether it is an end: a
/// beginning and the next end are a network; what fits nowhere is foreign.
pub(super) fn networks(family: Family, mut bounds: Vec<(Vec<u8>, bool)>) -> (Vec<Row>, Vec<Stray>) {
    // Where one network ends and the next begins, the end comes first.
    bounds.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let address = |key: &[u8]| Fields { rest: key, family }.address();
    let (mut rows, mut strays) = (Vec::new(), Vec::new());
    let mut open: Option<Vec<u8>> = None;
    let stray = |key: Vec<u8>, interval_end| {
        let set = SetName::ServiceCidrs;
        Stray { family, set, key, key_end: None, interval_end }
    };
    for (key, is_end) in bounds {
        match (open.take(), is_end) {
            (None, false) => open = Some(key),
            (Some(begin), true) => {
                let last = address(&key).and_then(before);
                match address(&begin).zip(last).and_then(|(first, last)| network(first, last)) {
                    Some(network) => rows.push(Row::member(RowKey::ServiceCidr(network))),
                    None => strays.extend([stray(begin, false), stray(key, true)]),
                }
            }
            (Some(begin), false) => {
                strays.push(stray(begin, false));
                open = Some(key);
            }
            // nft marks the gap before the first network with an end at address zero.
            (None, true) if key.iter().all(|&byte| byte == 0) => {}
            (None, true) => strays.push(stray(key, true)),
        }
    }
    if let Some(begin) = open {
        // A network that reaches to the last address has no end.
        let last = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::BROADCAST),
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
        };
        match address(&begin).and_then(|first| network(first, last)) {
            Some(network) => rows.push(Row::member(RowKey::ServiceCidr(network))),
            None => strays.push(stray(begin, false)),
        }
    }
    (rows, strays)
}

/// The address before; none before the first.
fn before(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) => a.to_bits().checked_sub(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(a) => a.to_bits().checked_sub(1).map(|bits| IpAddr::V6(bits.into())),
    }
}
