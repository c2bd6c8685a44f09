//! The fixed nftables program, as data.
//!
//! The same on every node with the same configuration: sets, chains and rules, written once.
//! Nothing here depends on a Service. Two encoders turn it into kernel messages
//! (`netlink`) and into nft JSON (`nft_json`), and [`crate::walk`] sends packets
//! through it; all three read the same [`Rule`]s.

mod chains;
mod rules;
mod sets;

use ipnetwork::IpNetwork;

use chains::{affinity_chains, filter_chains, learn, learn_group, pick, sticky};
pub use rules::{
    Action, ChainDef, ChainKind, FRONTEND, Field, Hook, HookPoint, Match, Rule, SERVICE_PROTOCOLS,
};
pub use sets::{AFFINITY_LIMIT, FieldType, SetDef, SetValue, sets};

use crate::frontend::Family;
use crate::rows::{Chain, LearnGroup, SetName};

/// Name of the table in both families.
pub const TABLE: &str = "sliceproxy";

/// How traffic of this node's pods is recognised, per family.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodTraffic {
    /// Not at all: no masquerading by source, no short-circuit for pods.
    Unknown,
    /// By source address.
    From(IpNetwork),
    /// By the exact name of the interface it arrives on.
    Interface(String),
    /// By the first letters of the name of the interface it arrives on.
    InterfacePrefix(String),
}

/// What the program depends on. A change means another program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgramConfig {
    /// Bit of the packet mark (0 to 31) that asks for masquerading.
    pub masquerade_bit: u8,
    /// Masquerade everything sent to a cluster IP.
    pub masquerade_all: bool,
    /// Recognition of pod traffic in the IPv4 table.
    pub pods_v4: PodTraffic,
    /// Recognition of pod traffic in the IPv6 table.
    pub pods_v6: PodTraffic,
    /// Clients with session affinity that one family may remember; more are not remembered.
    pub affinity_rows: u32,
}

impl Default for ProgramConfig {
    /// kube-proxy's defaults: bit 14, pods not known.
    fn default() -> Self {
        Self {
            masquerade_bit: 14,
            masquerade_all: false,
            pods_v4: PodTraffic::Unknown,
            pods_v6: PodTraffic::Unknown,
            affinity_rows: AFFINITY_LIMIT,
        }
    }
}

/// The program of one family.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    family: Family,
    mark: u32,
    masquerade_all: bool,
    pods: PodTraffic,
    affinity_rows: u32,
}

impl Program {
    /// The program of `family` under `config`.
    pub fn new(family: Family, config: &ProgramConfig) -> Self {
        let pods = match family {
            Family::V4 => &config.pods_v4,
            Family::V6 => &config.pods_v6,
        };
        Self {
            family,
            mark: 1 << (config.masquerade_bit & 31),
            masquerade_all: config.masquerade_all,
            pods: pods.clone(),
            affinity_rows: config.affinity_rows,
        }
    }

    /// Its sets.
    pub fn sets(&self) -> Vec<SetDef> {
        let mut sets = sets();
        for set in &mut sets {
            set.dynamic = set.dynamic.map(|_| self.affinity_rows);
        }
        sets
    }

    /// Clients that it may remember.
    pub fn affinity_rows(&self) -> u32 {
        self.affinity_rows
    }

    /// The family of its table.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Sixteen hexadecimal digits that say which program this is. Stored with the table, so that a
    /// later start knows whether it may adopt the rows.
    pub fn identity(&self) -> String {
        format!("{:016x}", crate::digest::of(&(self.sets(), self.chains(), self.sample_chains())))
    }

    /// The table's comment: for people, with the [identity](Self::identity) at its end.
    pub fn comment(&self) -> String {
        format!("Kubernetes Services, managed by sliceproxy, program {}", self.identity())
    }

    /// Reads the identity back from a table's comment.
    pub fn identity_in(comment: &str) -> Option<&str> {
        comment.rsplit_once("managed by sliceproxy, program ").map(|(_, identity)| identity)
    }

    /// Chains made on demand are part of what an identity stands for.
    fn sample_chains(&self) -> Vec<ChainDef> {
        [
            Chain::Pick(1),
            Chain::Sticky(1),
            Chain::LocalPick(1),
            Chain::LocalSticky(1),
            Chain::Learn(1),
        ]
        .into_iter()
        .map(|chain| self.row_chain(chain, None))
        .collect()
    }

    /// The chains that exist from the start, each one after those it goes to.
    pub fn chains(&self) -> Vec<ChainDef> {
        let mut chains = vec![Self::reject_now(), self.select()];
        chains.extend(self.nat_hooks());
        chains.extend(filter_chains());
        chains.extend(affinity_chains());
        chains
    }

    /// A chain that rows point at, made on demand. `group` must be given for
    /// [`Chain::LearnGroup`]; without it that chain learns nothing.
    pub fn row_chain(&self, chain: Chain, group: Option<&LearnGroup>) -> ChainDef {
        let rules = match chain {
            Chain::Pick(n) => pick(SetName::Backends, n),
            Chain::LocalPick(n) => pick(SetName::LocalBackends, n),
            Chain::Sticky(n) => sticky(Chain::Pick(n)),
            Chain::LocalSticky(n) => sticky(Chain::LocalPick(n)),
            Chain::RejectNow => return Self::reject_now(),
            Chain::Learn(timeout) => vec![learn(
                vec![
                    Field::OriginalDestination,
                    Field::Protocol,
                    Field::OriginalPort,
                    Field::OriginalSource,
                ],
                timeout,
            )],
            Chain::LearnGroup(_) => group.map(learn_group).unwrap_or_default(),
        };
        ChainDef { name: chain.to_string().into(), hook: None, rules }
    }
}
