//! The fixed nftables program, as data.
//!
//! The same on every node with the same configuration: sets, chains and rules, written once.
//! Nothing here depends on a Service. Two encoders turn it into kernel messages
//! (`netlink`) and into nft JSON (`nft_json`), and [`crate::walk`] sends packets
//! through it; all three read the same [`Rule`]s.

use std::borrow::Cow;

use ipnetwork::IpNetwork;

use crate::frontend::{Family, Frontend, Protocol};
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
    fn new(matches: Vec<Match>, actions: Vec<Action>) -> Self {
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

/// The type of one part of a set's key or of a map's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// `ipv4_addr` or `ipv6_addr`
    Address,
    /// `inet_proto`
    Protocol,
    /// `inet_service`
    Port,
    /// a 32-bit host-endian integer (`numgen`)
    Slot,
}

/// What a set maps its keys to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetValue {
    /// Nothing: a plain set.
    None,
    /// A verdict.
    Verdict,
    /// `address . port`
    Endpoint,
}

/// A set or map of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetDef {
    /// Its name.
    pub name: SetName,
    /// The parts of its key.
    pub key: &'static [FieldType],
    /// What it maps to.
    pub value: SetValue,
    /// `flags interval`
    pub interval: bool,
    /// `flags dynamic,timeout` with that many elements at most
    pub dynamic: Option<u32>,
}

/// Clients that one family may remember unless the configuration says otherwise.
pub const AFFINITY_LIMIT: u32 = 1_048_576;

/// The sets of the program, the same in both families.
pub fn sets() -> Vec<SetDef> {
    use FieldType::{Address, Port, Protocol, Slot};
    const FRONTEND: &[FieldType] = &[Address, Protocol, Port];
    const FRONTEND_SLOT: &[FieldType] = &[Address, Protocol, Port, Slot];
    const FRONTEND_SOURCE: &[FieldType] = &[Address, Protocol, Port, Address];
    const PAIR: &[FieldType] = &[Address, Address, Protocol, Port];
    const ADDRESS: &[FieldType] = &[Address];
    SetName::ALL
        .into_iter()
        .map(|name| {
            let (key, value) = match name {
                SetName::Services
                | SetName::LocalServices
                | SetName::NoBackends
                | SetName::StickyFrontends => (FRONTEND, SetValue::Verdict),
                SetName::Backends | SetName::LocalBackends => (FRONTEND_SLOT, SetValue::Endpoint),
                SetName::MasqueradeFrontends
                | SetName::LocalFrontends
                | SetName::RestrictedFrontends => (FRONTEND, SetValue::None),
                SetName::ClusterIps | SetName::ServiceCidrs => (ADDRESS, SetValue::None),
                SetName::AllowedSources => (FRONTEND_SOURCE, SetValue::None),
                SetName::Hairpins => (PAIR, SetValue::None),
                SetName::Affinity => (FRONTEND_SOURCE, SetValue::Endpoint),
            };
            SetDef {
                name,
                key,
                value,
                interval: matches!(name, SetName::ServiceCidrs | SetName::AllowedSources),
                dynamic: (name == SetName::Affinity).then_some(AFFINITY_LIMIT),
            }
        })
        .collect()
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

    /// TCP is refused by reset: ICMP errors are rate-limited per peer, and from about the seventh
    /// on a client would see time-outs instead of refusals.
    fn reject_now() -> ChainDef {
        ChainDef {
            name: "reject-now".into(),
            hook: None,
            rules: vec![
                Rule::new(vec![Match::Tcp], vec![Action::RejectTcpReset]),
                Rule::new(vec![], vec![Action::Reject]),
            ],
        }
    }

    /// Whether the packet comes from a pod of this node, or does not; `None` if that is unknown.
    fn pod_source(&self, negated: bool) -> Option<Match> {
        match &self.pods {
            PodTraffic::Unknown => None,
            PodTraffic::From(network) => Some(Match::SourceIn { network: *network, negated }),
            PodTraffic::Interface(name) => {
                Some(Match::InputInterface { name: name.clone(), prefix: false, negated })
            }
            PodTraffic::InterfacePrefix(name) => {
                Some(Match::InputInterface { name: name.clone(), prefix: true, negated })
            }
        }
    }

    /// Marks what has to be masqueraded, then picks the map that speaks for this kind of source.
    fn select(&self) -> ChainDef {
        let mark = || Action::SetMark(self.mark);
        let in_set = |set| Match::InSet { key: FRONTEND.to_vec(), set, negated: false };
        let to_cluster_ip = || Match::InSet {
            key: vec![Field::Destination],
            set: SetName::ClusterIps,
            negated: false,
        };
        let mut rules = vec![Rule::new(vec![in_set(SetName::MasqueradeFrontends)], vec![mark()])];
        if self.masquerade_all {
            rules.push(Rule::new(vec![to_cluster_ip()], vec![mark()]));
        } else if let Some(not_a_pod) = self.pod_source(true) {
            rules.push(Rule::new(vec![not_a_pod, to_cluster_ip()], vec![mark()]));
        }
        let this_node = |negated| Match::SourceIsLocal { negated };
        rules
            .push(Rule::new(vec![this_node(false), in_set(SetName::LocalFrontends)], vec![mark()]));
        // Pods and the node itself are inside: externalTrafficPolicy Local does not bind them.
        // Written so that the map of services is looked up in one place only: a commit that changes
        // a verdict in it makes the kernel check all of them again for every such place.
        let outside = self.pod_source(true).into_iter().chain([this_node(true)]).collect();
        rules.push(Rule::new(outside, vec![frontend_verdict(SetName::LocalServices)]));
        rules.push(Rule::new(vec![], vec![frontend_verdict(SetName::Services)]));
        ChainDef { name: "select".into(), hook: None, rules }
    }

    fn nat_hooks(&self) -> [ChainDef; 3] {
        let nat = |name: &'static str, point, priority, rules| ChainDef {
            name: name.into(),
            hook: Some(Hook { kind: ChainKind::Nat, point, priority }),
            rules,
        };
        let hairpin = Match::InSet {
            key: vec![Field::Source, Field::Destination, Field::Protocol, Field::Port],
            set: SetName::Hairpins,
            negated: false,
        };
        [
            nat("nat-prerouting", HookPoint::Prerouting, -100, vec![goto("select", vec![])]),
            nat("nat-output", HookPoint::Output, -100, vec![goto("select", vec![])]),
            nat(
                "nat-postrouting",
                HookPoint::Postrouting,
                100,
                vec![
                    Rule::new(
                        vec![Match::Mark(self.mark)],
                        vec![Action::FlipMark(self.mark), Action::Masquerade],
                    ),
                    Rule::new(vec![Match::Translated, hairpin], vec![Action::Masquerade]),
                ],
            ),
        ]
    }
}

fn goto(chain: &'static str, matches: Vec<Match>) -> Rule {
    Rule::new(matches, vec![Action::Goto(chain.into())])
}

fn frontend_verdict(map: SetName) -> Action {
    Action::VerdictMap { key: FRONTEND.to_vec(), map }
}

/// One of `n` slots at random, or slot 0.
///
/// The second rule closes the moment in which a packet has looked up `pick-N` before a commit and
/// its slot after it: the slot may just have gone, but slot 0 exists as long as the frontend has
/// any endpoint.
fn pick(map: SetName, n: u32) -> Vec<Rule> {
    [n, 1]
        .map(|modulus| {
            let mut key = FRONTEND.to_vec();
            key.push(Field::Random(modulus));
            Rule::new(vec![Match::ServiceProtocol], vec![Action::Dnat { key, map }])
        })
        .to_vec()
}

fn sticky(otherwise: Chain) -> Vec<Rule> {
    let mut key = FRONTEND.to_vec();
    key.push(Field::Source);
    vec![
        Rule::new(vec![Match::ServiceProtocol], vec![Action::Dnat { key, map: SetName::Affinity }]),
        Rule::new(vec![], vec![Action::Goto(otherwise.to_string().into())]),
    ]
}

fn learn(key: Vec<Field>, timeout: u32) -> Rule {
    Rule::new(vec![Match::ServiceProtocol], vec![Action::Learn { key, timeout }])
}

/// The frontends of a Service port have its protocol in common, so the packet's own serves: nft can
/// list a protocol given as a constant here, but not load it again.
fn learn_group(group: &LearnGroup) -> Vec<Rule> {
    let keys = group.frontends.iter().map(|&frontend| {
        vec![
            Field::FrontendAddress(frontend),
            Field::Protocol,
            Field::FrontendPort(frontend),
            Field::OriginalSource,
        ]
    });
    keys.map(|key| learn(key, group.timeout)).collect()
}

fn filter_chains() -> Vec<ChainDef> {
    let filter = |name: &'static str, point, priority, rules| ChainDef {
        name: name.into(),
        hook: Some(Hook { kind: ChainKind::Filter, point, priority }),
        rules,
    };
    let plain = |name: &'static str, rules| ChainDef { name: name.into(), hook: None, rules };
    let new = || vec![Match::StateNew];
    let to = |set| Match::InSet { key: vec![Field::Destination], set, negated: false };
    let mut frontend_and_source = FRONTEND.to_vec();
    frontend_and_source.push(Field::Source);
    let restricted =
        Match::InSet { key: FRONTEND.to_vec(), set: SetName::RestrictedFrontends, negated: false };
    let not_allowed =
        Match::InSet { key: frontend_and_source, set: SetName::AllowedSources, negated: true };
    let no_backends = || frontend_verdict(SetName::NoBackends);
    vec![
        plain("source-ranges", vec![Rule::new(vec![restricted, not_allowed], vec![Action::Drop])]),
        plain(
            "refuse",
            vec![
                Rule::new(vec![], vec![no_backends()]),
                goto("reject-now", vec![to(SetName::ClusterIps)]),
                Rule::new(vec![to(SetName::ServiceCidrs)], vec![Action::Drop]),
            ],
        ),
        filter(
            "filter-prerouting",
            HookPoint::Prerouting,
            -110,
            vec![goto("source-ranges", new())],
        ),
        filter("filter-output-pre", HookPoint::Output, -110, vec![goto("source-ranges", new())]),
        filter("filter-input", HookPoint::Input, 0, vec![Rule::new(new(), vec![no_backends()])]),
        filter("filter-forward", HookPoint::Forward, 0, vec![goto("refuse", new())]),
        filter("filter-output", HookPoint::Output, 0, vec![goto("refuse", new())]),
    ]
}

/// Affinity is learned after DNAT, from what conntrack decided.
fn affinity_chains() -> [ChainDef; 3] {
    let hooked = |name: &'static str, point, priority| ChainDef {
        name: name.into(),
        hook: Some(Hook { kind: ChainKind::Filter, point, priority }),
        rules: vec![goto("learn", vec![Match::StateNew])],
    };
    let key = vec![Field::OriginalDestination, Field::Protocol, Field::OriginalPort];
    let look_up = Action::VerdictMap { key, map: SetName::StickyFrontends };
    [
        ChainDef {
            name: "learn".into(),
            hook: None,
            rules: vec![Rule::new(vec![Match::Translated], vec![look_up])],
        },
        hooked("learn-postrouting", HookPoint::Postrouting, 90),
        hooked("learn-input", HookPoint::Input, 10),
    ]
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
