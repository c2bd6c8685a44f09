//! What rules are made of: conditions, actions, chains. Both encoders and the packet walk read these.

use std::borrow::Cow;

use ipnetwork::IpNetwork;

use super::sets::FieldType;
use crate::frontend::{Frontend, Protocol};
use crate::rows::SetName;

/// One part of a look-up key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// `ip saddr` / `ip6 saddr`
    Source,
    /// `ip daddr` / `ip6 daddr`
    Destination,
    /// `meta l4proto`
    Protocol,
    /// `th dport`
    Port,
    /// `numgen random mod N`: a host-endian 32-bit number
    Random(u32),
    /// `ct original ip saddr` / `ct original ip6 saddr`
    OriginalSource,
    /// `ct original ip daddr` / `ct original ip6 daddr`
    OriginalDestination,
    /// `ct original proto-dst`
    OriginalPort,
    /// The address of a given frontend
    FrontendAddress(Frontend),
    /// The port of a given frontend
    FrontendPort(Frontend),
}

/// `daddr . l4proto . dport`: the key of every frontend map.
pub const FRONTEND: [Field; 3] = [Field::Destination, Field::Protocol, Field::Port];

/// A condition; the rule goes on only where it holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Match {
    /// The key is in the set (or is not, if `negated`).
    InSet {
        /// Looked-up fields.
        key: Vec<Field>,
        /// A set without values.
        set: SetName,
        /// `!=` instead of `==`.
        negated: bool,
    },
    /// `ip saddr NETWORK`
    SourceIn {
        /// The pods' network.
        network: IpNetwork,
        /// `!=` instead of `==`.
        negated: bool,
    },
    /// `iifname NAME` or `iifname NAME*`
    InputInterface {
        /// Name, or its first letters.
        name: String,
        /// Whether `name` is only the beginning.
        prefix: bool,
        /// `!=` instead of `==`.
        negated: bool,
    },
    /// `fib saddr type local`: this node itself sends the packet
    SourceIsLocal {
        /// `!=` instead of `==`.
        negated: bool,
    },
    /// `ct state new`
    StateNew,
    /// `ct status dnat`
    Translated,
    /// `meta l4proto { tcp, udp, sctp }`
    ServiceProtocol,
    /// `meta l4proto tcp`
    Tcp,
    /// `meta mark & MASK != 0`
    Mark(u32),
}

/// What a rule does once all its conditions hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// `meta mark set meta mark | MASK`
    SetMark(u32),
    /// `meta mark set meta mark ^ MASK`
    FlipMark(u32),
    /// `KEY vmap @MAP`; goes on with the next rule if the key is not there
    VerdictMap {
        /// Looked-up fields.
        key: Vec<Field>,
        /// A map to verdicts.
        map: SetName,
    },
    /// `dnat to KEY map @MAP`; goes on with the next rule if the key is not there
    Dnat {
        /// Looked-up fields.
        key: Vec<Field>,
        /// A map to endpoints.
        map: SetName,
    },
    /// `masquerade fully-random`
    Masquerade,
    /// `update @affinity { KEY timeout Ns : daddr . dport }`
    Learn {
        /// The frontend and the client.
        key: Vec<Field>,
        /// Seconds.
        timeout: u32,
    },
    /// `goto CHAIN`
    Goto(Cow<'static, str>),
    /// `reject with tcp reset`
    RejectTcpReset,
    /// `reject`: ICMP or ICMPv6 port unreachable
    Reject,
    /// `drop`
    Drop,
}

/// One rule: conditions, then actions, all in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// All must hold.
    pub matches: Vec<Match>,
    /// Done in order.
    pub actions: Vec<Action>,
}

impl Rule {
    pub(super) fn new(matches: Vec<Match>, actions: Vec<Action>) -> Self {
        Self { matches, actions }
    }
}

/// Where a base chain is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Before routing, packets that arrive.
    Prerouting,
    /// Packets for this node.
    Input,
    /// Packets passing through.
    Forward,
    /// Packets of this node.
    Output,
    /// After routing, packets that leave.
    Postrouting,
}

/// The kind of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainKind {
    /// Sees every packet.
    Filter,
    /// Sees the first packet of each connection.
    Nat,
}

/// Attachment of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hook {
    /// Kind of chain.
    pub kind: ChainKind,
    /// Place in the packet's way.
    pub point: HookPoint,
    /// Order among the chains at that place; lower is earlier.
    pub priority: i32,
}

/// A chain with its rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChainDef {
    /// Name in the kernel.
    pub name: Cow<'static, str>,
    /// Set for base chains.
    pub hook: Option<Hook>,
    /// In order.
    pub rules: Vec<Rule>,
}

/// The fields' types, for encoders that need widths.
impl Field {
    /// Type of the field's value.
    pub fn field_type(self) -> FieldType {
        match self {
            Self::Source
            | Self::Destination
            | Self::OriginalSource
            | Self::OriginalDestination
            | Self::FrontendAddress(_) => FieldType::Address,
            Self::Protocol => FieldType::Protocol,
            Self::Port | Self::OriginalPort | Self::FrontendPort(_) => FieldType::Port,
            Self::Random(_) => FieldType::Slot,
        }
    }
}

/// Protocols of [`Match::ServiceProtocol`].
pub const SERVICE_PROTOCOLS: [Protocol; 3] = Protocol::ALL;
