//! A packet's way through the program, rule by rule, without a kernel: what `explain` shows to
//! operators and what tests of rows ask.
//!
//! It follows the first packet of a connection (`ct state new`) and looks at all endpoints that
//! chance may choose. It knows nothing of routes, neighbours or other tables on the node.

mod explain;
mod interpret;
mod rows;
#[cfg(test)]
mod tests;
mod traveller;

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::frontend::Endpoint;
use crate::program::{HookPoint, Program};
use crate::rows::{RowValue, SetName, Slot};

pub use rows::Rows;

/// Slots that a walk looks at in one map; a chain that draws from more is not one of ours.
pub const SLOT_LIMIT: u32 = 1 << 20;

/// Where a packet comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It arrives over an interface, from a pod of this node or from outside.
    Elsewhere,
    /// A process in the node's own network namespace sends it.
    ThisNode,
}

/// The first packet of a connection. Source and destination are of one family.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// IP protocol number; any, not only those that a Service can use.
    pub protocol: u8,
    /// Destination port; meaningless for protocols without one.
    pub port: u16,
    /// Name of the interface it arrives on; `None` for the node's own packets or if unknown.
    pub input_interface: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
}

/// The addresses of the node itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    addresses: BTreeSet<IpAddr>,
}

impl Node {
    /// Whether packets to `address` stay on the node. Loopback addresses always do.
    pub fn is_local(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }
}

impl FromIterator<IpAddr> for Node {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        Self { addresses: addresses.into_iter().collect() }
    }
}

/// How a refused sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusedBy {
    /// A TCP reset.
    TcpReset,
    /// ICMP or ICMPv6 "port unreachable".
    Icmp,
}

/// How a packet ends, as far as our table is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The table lets it go on to its destination.
    Delivered,
    /// The sender is told that nobody is there.
    Refused {
        /// In which way it is told.
        by: RefusedBy,
        /// The chain that did it.
        chain: String,
    },
    /// It vanishes.
    Dropped {
        /// The chain that did it.
        chain: String,
    },
}

/// Why the source address is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MasqueradedFor {
    /// The packet was marked on its way: its answer must come back through this node.
    Mark,
    /// The endpoint is the sender itself.
    Hairpin,
}

/// An endpoint that the packet may be sent to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The slot drawn; `None` if the endpoint was remembered for this client.
    pub slot: Option<Slot>,
    /// Where the packet goes.
    pub endpoint: Endpoint,
    /// Its share of new connections, relative to the other choices.
    pub share: u32,
    /// Whether and why the endpoint sees the node's address instead of the sender's.
    pub masqueraded: Option<MasqueradedFor>,
    /// What becomes of the translated packet.
    pub fate: Fate,
}

/// Masquerading over all choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Masquerade {
    /// The endpoint sees the sender's address.
    Never,
    /// The endpoint sees the node's address.
    Always,
    /// Only an endpoint that is the sender itself sees the node's address.
    HairpinOnly,
}

/// What happens to the packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is sent to one of these endpoints.
    Translated {
        /// In the order of their slots; one alone if the client is remembered.
        choices: Vec<Choice>,
        /// Shares that find no endpoint and pass untranslated: zero unless rows are missing.
        lost: u32,
        /// What the endpoints see as sender.
        masquerade: Masquerade,
    },
    /// The sender is told that nobody is there.
    Refused {
        /// In which way it is told.
        by: RefusedBy,
        /// The chain that did it.
        chain: String,
    },
    /// It vanishes.
    Dropped {
        /// The chain that did it.
        chain: String,
    },
    /// It goes on as it came.
    Passed,
}

/// One part of a looked-up key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// An address.
    Address(IpAddr),
    /// An IP protocol number.
    Protocol(u8),
    /// A port.
    Port(u16),
    /// A random number below that.
    Random(u32),
}

/// What a rule was seen to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A condition other than a look-up was checked.
    Condition {
        /// The condition, as nft writes it.
        text: String,
        /// Whether it holds for the packet.
        holds: bool,
    },
    /// A set or map was asked.
    LookedUp {
        /// Which one.
        set: SetName,
        /// The key.
        key: Vec<KeyPart>,
        /// What it said; `None` if the key is not there.
        found: Option<RowValue>,
    },
    /// One of several slots is drawn at random.
    Drawn {
        /// The map to endpoints.
        map: SetName,
        /// The key, its last part the random number.
        key: Vec<KeyPart>,
        /// How many of the possible slots are there.
        found: u32,
    },
    /// The packet was marked for masquerading.
    Marked,
    /// The mark was taken off again.
    Unmarked,
    /// The source address becomes the node's.
    Masqueraded,
    /// Goes on in that chain.
    WentTo(String),
    /// The kernel remembers the client.
    Learned {
        /// Frontend and client.
        key: Vec<KeyPart>,
        /// What the client gets again.
        endpoint: Endpoint,
        /// For how many seconds.
        seconds: u32,
    },
    /// The kernel remembers the client for all frontends of its Service port, which are in the
    /// chain and not known here.
    LearnedForGroup,
    /// A chain that the packet was sent to does not exist.
    ChainMissing(String),
    /// The packet was answered with a refusal.
    Refused(RefusedBy),
    /// The packet was dropped.
    Dropped,
}

/// One step of the way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A rule did something.
    Rule {
        /// The hook the packet passes.
        hook: HookPoint,
        /// The chain.
        chain: String,
        /// The rule's number in its chain, from 1; 0 for the chain as a whole.
        rule: usize,
        /// What happened.
        event: Event,
    },
    /// The kernel decided where the packet goes.
    Routed {
        /// The destination at this point.
        destination: IpAddr,
        /// Whether that is the node itself.
        local: bool,
    },
    /// From here on the steps are those of some endpoints only, up to the next such step.
    Choices {
        /// One of them, whose steps are shown.
        endpoint: Endpoint,
        /// How many others take the same steps.
        others: usize,
    },
}

/// The way of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Walk {
    /// What happens to the packet.
    pub outcome: Outcome,
    /// How that came about, in order.
    pub steps: Vec<Step>,
}

/// Sends `packet` through `program` with these `rows` on that `node`.
///
/// A packet of another family than the program's passes without a step.
pub fn walk(program: &Program, rows: &impl Rows, node: &Node, packet: &Packet) -> Walk {
    interpret::walk(program, rows, node, packet)
}
