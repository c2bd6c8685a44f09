//! The program's chains: what is looked up where, in which order.

use super::rules::{Action, ChainDef, ChainKind, FRONTEND, Field, Hook, HookPoint, Match, Rule};
use super::{PodTraffic, Program};
use crate::rows::{Chain, LearnGroup, SetName};

impl Program {
    /// TCP is refused by reset: ICMP errors are rate-limited per peer, and from about the seventh
    /// on a client would see time-outs instead of refusals.
    pub(super) fn reject_now() -> ChainDef {
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
    pub(super) fn select(&self) -> ChainDef {
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

    pub(super) fn nat_hooks(&self) -> [ChainDef; 3] {
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
pub(super) fn pick(map: SetName, n: u32) -> Vec<Rule> {
    [n, 1]
        .map(|modulus| {
            let mut key = FRONTEND.to_vec();
            key.push(Field::Random(modulus));
            Rule::new(vec![Match::ServiceProtocol], vec![Action::Dnat { key, map }])
        })
        .to_vec()
}

pub(super) fn sticky(otherwise: Chain) -> Vec<Rule> {
    let mut key = FRONTEND.to_vec();
    key.push(Field::Source);
    vec![
        Rule::new(vec![Match::ServiceProtocol], vec![Action::Dnat { key, map: SetName::Affinity }]),
        Rule::new(vec![], vec![Action::Goto(otherwise.to_string().into())]),
    ]
}

pub(super) fn learn(key: Vec<Field>, timeout: u32) -> Rule {
    Rule::new(vec![Match::ServiceProtocol], vec![Action::Learn { key, timeout }])
}

/// The frontends of a Service port have its protocol in common, so the packet's own serves: nft can
/// list a protocol given as a constant here, but not load it again.
pub(super) fn learn_group(group: &LearnGroup) -> Vec<Rule> {
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

pub(super) fn filter_chains() -> Vec<ChainDef> {
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
pub(super) fn affinity_chains() -> [ChainDef; 3] {
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
