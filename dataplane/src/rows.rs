//! The contract between Kubernetes and the kernel: what a row is.
//!
//! Everything that the API says becomes [`Row`]s in the sets and maps of the fixed
//! [program](crate::program). A row's [`RowKey`] is unique in its table, so a desired state, an
//! applied state and a read-back can be compared key by key.

use std::fmt;
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use crate::frontend::{Endpoint, Family, Frontend, Protocol};

/// Position of an endpoint among the endpoints of its frontend: 0 to N-1 without gaps.
pub type Slot = u32;

/// A named set or map of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetName {
    /// frontend → verdict: where new connections to the frontend go.
    Services,
    /// frontend . slot → endpoint: the endpoints for all traffic.
    Backends,
    /// frontend → verdict: frontends with `externalTrafficPolicy: Local`, seen from outside the node.
    LocalServices,
    /// frontend . slot → endpoint: the endpoints on this node.
    LocalBackends,
    /// frontend → verdict: frontends without a usable endpoint, refused or dropped.
    NoBackends,
    /// Frontends whose traffic is masqueraded whoever sends it.
    MasqueradeFrontends,
    /// Frontends whose traffic is masqueraded when this node itself sends it.
    LocalFrontends,
    /// Active cluster IPs: their undefined ports are refused.
    ClusterIps,
    /// Service CIDRs: their unallocated addresses are dropped.
    ServiceCidrs,
    /// Frontends with `loadBalancerSourceRanges`.
    RestrictedFrontends,
    /// frontend . source range that a restricted frontend accepts.
    AllowedSources,
    /// Endpoints on this node that may call themselves through a Service.
    Hairpins,
    /// frontend . client → endpoint, written by the kernel: session affinity.
    Affinity,
    /// frontend → learn chain: frontends with session affinity.
    StickyFrontends,
}

impl SetName {
    /// All sets, in the order in which the program defines them.
    pub const ALL: [Self; 14] = [
        Self::Services,
        Self::Backends,
        Self::LocalServices,
        Self::LocalBackends,
        Self::NoBackends,
        Self::MasqueradeFrontends,
        Self::LocalFrontends,
        Self::ClusterIps,
        Self::ServiceCidrs,
        Self::RestrictedFrontends,
        Self::AllowedSources,
        Self::Hairpins,
        Self::Affinity,
        Self::StickyFrontends,
    ];

    /// The name in the kernel.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Backends => "backends",
            Self::LocalServices => "local-services",
            Self::LocalBackends => "local-backends",
            Self::NoBackends => "no-backends",
            Self::MasqueradeFrontends => "masquerade-frontends",
            Self::LocalFrontends => "local-frontends",
            Self::ClusterIps => "cluster-ips",
            Self::ServiceCidrs => "service-cidrs",
            Self::RestrictedFrontends => "restricted-frontends",
            Self::AllowedSources => "allowed-sources",
            Self::Hairpins => "hairpins",
            Self::Affinity => "affinity",
            Self::StickyFrontends => "sticky-frontends",
        }
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A chain that rows point at.
///
/// The numbered ones are shared by every Service with that many endpoints and are made on first
/// use. Only [`Chain::LearnGroup`] belongs to one Service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chain {
    /// One of N [`SetName::Backends`] at random.
    Pick(u32),
    /// The endpoint that the client had before, else [`Chain::Pick`].
    Sticky(u32),
    /// One of N [`SetName::LocalBackends`] at random.
    LocalPick(u32),
    /// The endpoint that the client had before, else [`Chain::LocalPick`].
    LocalSticky(u32),
    /// Refuse: TCP by reset, the rest by ICMP. Part of the fixed program.
    RejectNow,
    /// Remember the client's endpoint for that many seconds, for the frontend it used.
    Learn(u32),
    /// Remember the client's endpoint for all frontends of a Service port; named by a digest of
    /// its [`LearnGroup`], so that the name says the content.
    LearnGroup(u64),
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pick(n) => write!(f, "pick-{n}"),
            Self::Sticky(n) => write!(f, "sticky-{n}"),
            Self::LocalPick(n) => write!(f, "local-pick-{n}"),
            Self::LocalSticky(n) => write!(f, "local-sticky-{n}"),
            Self::RejectNow => f.write_str("reject-now"),
            Self::Learn(seconds) => write!(f, "learn-{seconds}"),
            Self::LearnGroup(digest) => write!(f, "learn-group-{digest:016x}"),
        }
    }
}

impl Chain {
    /// The number of endpoints that it chooses from, of the chains that are shared by that number.
    pub fn endpoints(self) -> Option<u32> {
        match self {
            Self::Pick(n) | Self::Sticky(n) | Self::LocalPick(n) | Self::LocalSticky(n) => Some(n),
            Self::RejectNow | Self::Learn(_) | Self::LearnGroup(_) => None,
        }
    }

    /// The chain with that name, if it is one that rows can point at.
    pub fn parse(name: &str) -> Option<Self> {
        if name == "reject-now" {
            return Some(Self::RejectNow);
        }
        let (kind, number) = name.rsplit_once('-')?;
        let chain = match kind {
            "pick" => Self::Pick(number.parse().ok()?),
            "sticky" => Self::Sticky(number.parse().ok()?),
            "local-pick" => Self::LocalPick(number.parse().ok()?),
            "local-sticky" => Self::LocalSticky(number.parse().ok()?),
            "learn" => Self::Learn(number.parse().ok()?),
            "learn-group" => Self::LearnGroup(u64::from_str_radix(number, 16).ok()?),
            _ => return None,
        };
        // `pick-007` is somebody else's chain, not a second name for `pick-7`.
        (chain.to_string() == name).then_some(chain)
    }
}

/// What a verdict map says about a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Discard silently.
    Drop,
    /// Go on in that chain.
    Goto(Chain),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop => f.write_str("drop"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}

/// What identifies a row: its set and its key in that set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// In [`SetName::Services`].
    Service(Frontend),
    /// In [`SetName::Backends`].
    Backend(Frontend, Slot),
    /// In [`SetName::LocalServices`].
    LocalService(Frontend),
    /// In [`SetName::LocalBackends`].
    LocalBackend(Frontend, Slot),
    /// In [`SetName::NoBackends`].
    NoBackends(Frontend),
    /// In [`SetName::MasqueradeFrontends`].
    MasqueradeFrontend(Frontend),
    /// In [`SetName::LocalFrontends`].
    LocalFrontend(Frontend),
    /// In [`SetName::ClusterIps`].
    ClusterIp(IpAddr),
    /// In [`SetName::ServiceCidrs`]. Such rows must not overlap: see [`crate::cidr::merge`].
    ServiceCidr(IpNetwork),
    /// In [`SetName::RestrictedFrontends`].
    RestrictedFrontend(Frontend),
    /// In [`SetName::AllowedSources`]. The ranges of one frontend must not overlap.
    AllowedSource(Frontend, IpNetwork),
    /// In [`SetName::Hairpins`].
    Hairpin(Protocol, Endpoint),
    /// In [`SetName::StickyFrontends`].
    StickyFrontend(Frontend),
}

impl RowKey {
    /// The set that holds the row.
    pub fn set(&self) -> SetName {
        match self {
            Self::Service(_) => SetName::Services,
            Self::Backend(..) => SetName::Backends,
            Self::LocalService(_) => SetName::LocalServices,
            Self::LocalBackend(..) => SetName::LocalBackends,
            Self::NoBackends(_) => SetName::NoBackends,
            Self::MasqueradeFrontend(_) => SetName::MasqueradeFrontends,
            Self::LocalFrontend(_) => SetName::LocalFrontends,
            Self::ClusterIp(_) => SetName::ClusterIps,
            Self::ServiceCidr(_) => SetName::ServiceCidrs,
            Self::RestrictedFrontend(_) => SetName::RestrictedFrontends,
            Self::AllowedSource(..) => SetName::AllowedSources,
            Self::Hairpin(..) => SetName::Hairpins,
            Self::StickyFrontend(_) => SetName::StickyFrontends,
        }
    }

    /// The frontend that the row is about; `None` for addresses, networks and hairpins.
    pub fn frontend(&self) -> Option<Frontend> {
        match *self {
            Self::Service(f)
            | Self::Backend(f, _)
            | Self::LocalService(f)
            | Self::LocalBackend(f, _)
            | Self::NoBackends(f)
            | Self::MasqueradeFrontend(f)
            | Self::LocalFrontend(f)
            | Self::RestrictedFrontend(f)
            | Self::AllowedSource(f, _)
            | Self::StickyFrontend(f) => Some(f),
            Self::ClusterIp(_) | Self::ServiceCidr(_) | Self::Hairpin(..) => None,
        }
    }

    /// The family whose table holds the row.
    pub fn family(&self) -> Family {
        match *self {
            Self::ClusterIp(address) => Family::of(address),
            Self::ServiceCidr(network) => Family::of(network.ip()),
            Self::Hairpin(_, endpoint) => Family::of(endpoint.address),
            _ => self.frontend().map_or(Family::V4, |f| f.family()),
        }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(frontend, slot) | Self::LocalBackend(frontend, slot) => {
                write!(f, "{frontend} slot {slot}")
            }
            Self::AllowedSource(frontend, network) => write!(f, "{frontend} from {network}"),
            Self::ClusterIp(address) => address.fmt(f),
            Self::ServiceCidr(network) => network.fmt(f),
            Self::Hairpin(protocol, endpoint) => write!(f, "{endpoint}/{protocol}"),
            Self::Service(frontend)
            | Self::LocalService(frontend)
            | Self::NoBackends(frontend)
            | Self::MasqueradeFrontend(frontend)
            | Self::LocalFrontend(frontend)
            | Self::RestrictedFrontend(frontend)
            | Self::StickyFrontend(frontend) => frontend.fmt(f),
        }
    }
}

/// What a map says for a key; sets say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowValue {
    /// The row is a member of a set.
    Member,
    /// The row is in a verdict map.
    Verdict(Verdict),
    /// The row is in a map to endpoints.
    Endpoint(Endpoint),
}

impl fmt::Display for RowValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member => Ok(()),
            Self::Verdict(verdict) => verdict.fmt(f),
            Self::Endpoint(endpoint) => endpoint.fmt(f),
        }
    }
}

/// One element of one set or map. Made by the constructors below, which pair each kind of key with
/// the kind of value that its map holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// Set and key.
    pub key: RowKey,
    /// What the map says for the key.
    pub value: RowValue,
}

impl Row {
    /// New connections to `frontend` get `verdict`.
    pub fn service(frontend: Frontend, verdict: Verdict) -> Self {
        Self { key: RowKey::Service(frontend), value: RowValue::Verdict(verdict) }
    }

    /// `endpoint` is number `slot` of `frontend`.
    pub fn backend(frontend: Frontend, slot: Slot, endpoint: Endpoint) -> Self {
        Self::endpoint(RowKey::Backend(frontend, slot), endpoint)
    }

    /// New connections to `frontend` from outside this node get `verdict`.
    pub fn local_service(frontend: Frontend, verdict: Verdict) -> Self {
        Self { key: RowKey::LocalService(frontend), value: RowValue::Verdict(verdict) }
    }

    /// `endpoint` is number `slot` of `frontend` among those on this node.
    pub fn local_backend(frontend: Frontend, slot: Slot, endpoint: Endpoint) -> Self {
        Self::endpoint(RowKey::LocalBackend(frontend, slot), endpoint)
    }

    /// A slot's endpoint, for the keys whose map holds endpoints.
    pub fn endpoint(key: RowKey, endpoint: Endpoint) -> Self {
        Self { key, value: RowValue::Endpoint(endpoint) }
    }

    /// `frontend` has no usable endpoint and is refused.
    pub fn no_backends(frontend: Frontend) -> Self {
        let verdict = Verdict::Goto(Chain::RejectNow);
        Self { key: RowKey::NoBackends(frontend), value: RowValue::Verdict(verdict) }
    }

    /// `frontend` has session affinity, remembered by `learn`.
    pub fn sticky_frontend(frontend: Frontend, learn: Chain) -> Self {
        let verdict = Verdict::Goto(learn);
        Self { key: RowKey::StickyFrontend(frontend), value: RowValue::Verdict(verdict) }
    }

    /// A member of a set, for the keys whose set holds no values.
    pub fn member(key: RowKey) -> Self {
        Self { key, value: RowValue::Member }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key.set(), self.key)?;
        match self.value {
            RowValue::Member => Ok(()),
            value => write!(f, " -> {value}"),
        }
    }
}

/// The frontends of one Service port with session affinity: what a client is remembered for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LearnGroup {
    /// Seconds since the client's last new connection after which it is forgotten.
    pub timeout: u32,
    /// All frontends of the Service port in one family, sorted.
    pub frontends: Vec<Frontend>,
}

impl LearnGroup {
    /// The chain that learns for this group: the shared one if there is a single frontend.
    pub fn chain(&self) -> Chain {
        if self.frontends.len() == 1 {
            return Chain::Learn(self.timeout);
        }
        Chain::LearnGroup(crate::digest::of(self))
    }
}

/// A remembered client: `frontend . client` → `endpoint`, a row that the kernel writes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityRow {
    /// The frontend that the client used.
    pub frontend: Frontend,
    /// The client's source address.
    pub client: IpAddr,
    /// The endpoint it gets again.
    pub endpoint: Endpoint,
    /// Milliseconds that the row lives from its last use.
    pub timeout_ms: u64,
    /// Milliseconds that are left.
    pub expires_ms: u64,
}
