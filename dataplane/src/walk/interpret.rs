//! The interpreter: hooks in the order in which the kernel calls them, rules one by one.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::explain::{Shape, condition};
use super::rows::look_up;
use super::traveller::{At, Draw, Traveller};
use super::{
    Choice, Event, Fate, KeyPart, Masquerade, MasqueradedFor, Node, Origin, Outcome, Packet,
    RefusedBy, Rows, SLOT_LIMIT, Step, Walk,
};
use crate::frontend::{Endpoint, Family, Protocol};
use crate::program::{Action, ChainDef, ChainKind, Field, HookPoint, Match, Program, Rule};
use crate::rows::{Chain, RowValue, SetName, Slot, Verdict};

/// What never changes during a walk.
struct Machine<'a, R> {
    program: &'a Program,
    rows: &'a R,
    node: &'a Node,
    /// The fixed chains, by name.
    chains: FxHashMap<String, ChainDef>,
    /// The base chains in the order of their priorities.
    hooked: Vec<ChainDef>,
}

/// What a rule means for the rules after it.
enum Flow {
    /// The next rule.
    Next,
    /// Another chain, for good.
    To(Cow<'static, str>),
    /// No further rule of this hook's chain.
    Accept,
    /// No further rule at all.
    End(Fate),
}

pub(super) fn walk(program: &Program, rows: &impl Rows, node: &Node, packet: &Packet) -> Walk {
    let family = program.family();
    if Family::of(packet.destination) != family || Family::of(packet.source) != family {
        return Walk { outcome: Outcome::Passed, steps: Vec::new() };
    }
    let mut hooked = program.chains();
    let chains = hooked.iter().map(|chain| (chain.name.to_string(), chain.clone())).collect();
    hooked.retain(|chain| chain.hook.is_some());
    hooked.sort_by_key(|chain| chain.hook.map(|hook| hook.priority));
    Machine { program, rows, node, chains, hooked }.send(packet)
}

impl<R: Rows> Machine<'_, R> {
    fn send(&self, packet: &Packet) -> Walk {
        let first = match packet.origin {
            Origin::Elsewhere => HookPoint::Prerouting,
            Origin::ThisNode => HookPoint::Output,
        };
        let mut traveller = Traveller::new(packet, first);
        // What comes after translation in the same hook (the filter of the node's own packets)
        // already sees the endpoint, so the ways part right behind the NAT chain.
        let (before, after) = self.split_at_nat(first);
        if let Some(fate) = self.pass(&before, &mut traveller) {
            return untranslated(fate, traveller.steps);
        }
        let draws = std::mem::take(&mut traveller.draws);
        if draws.is_empty() {
            let fate = self.finish(&after, &mut traveller);
            return untranslated(fate, traveller.steps);
        }
        self.send_each(draws, &after, traveller)
    }

    /// The chains of the first hook up to its NAT chain, and those behind it.
    fn split_at_nat(&self, first: HookPoint) -> (Vec<&ChainDef>, Vec<&ChainDef>) {
        let all: Vec<&ChainDef> = self.at(first).collect();
        let is_nat = |chain: &&ChainDef| chain.hook.is_some_and(|hook| hook.kind == ChainKind::Nat);
        let split = all.iter().position(is_nat).map_or(all.len(), |position| position + 1);
        (all[..split].to_vec(), all[split..].to_vec())
    }

    fn at(&self, point: HookPoint) -> impl Iterator<Item = &ChainDef> {
        self.hooked.iter().filter(move |chain| chain.hook.is_some_and(|hook| hook.point == point))
    }

    /// Sends the packet to each endpoint; endpoints that take the same steps are told as one.
    fn send_each(
        &self,
        draws: Vec<Draw>,
        after: &[&ChainDef],
        mut traveller: Traveller<'_>,
    ) -> Walk {
        let lost = traveller.undrawn;
        let mut steps = std::mem::take(&mut traveller.steps);
        let mut choices = Vec::with_capacity(draws.len());
        let mut ways: Vec<(Endpoint, usize, Vec<Step>)> = Vec::new();
        let mut known: FxHashMap<Vec<Shape>, usize> = FxHashMap::default();
        for Draw { slot, endpoint, share } in draws {
            let mut one = Traveller {
                destination: endpoint.address,
                port: endpoint.port,
                translated: true,
                ..traveller.clone()
            };
            let fate = self.finish(after, &mut one);
            let shape: Vec<Shape> = one.steps.iter().map(Step::shape).collect();
            if let Some(&way) = known.get(&shape) {
                ways[way].1 += 1;
            } else {
                known.insert(shape, ways.len());
                ways.push((endpoint, 0, one.steps));
            }
            choices.push(Choice { slot, endpoint, share, masqueraded: one.masqueraded, fate });
        }
        for (endpoint, others, way) in ways {
            steps.push(Step::Choices { endpoint, others });
            steps.extend(way);
        }
        let masquerade = Masquerade::over(&choices);
        Walk { outcome: Outcome::Translated { choices, lost, masquerade }, steps }
    }

    /// The way from behind the first NAT chain to the end.
    fn finish(&self, after: &[&ChainDef], traveller: &mut Traveller<'_>) -> Fate {
        if let Some(fate) = self.pass(after, traveller) {
            return fate;
        }
        let local = self.node.is_local(traveller.destination);
        traveller.steps.push(Step::Routed { destination: traveller.destination, local });
        let hooks: &[HookPoint] = match (traveller.original.origin, local) {
            (Origin::Elsewhere, true) => &[HookPoint::Input],
            (Origin::Elsewhere, false) => &[HookPoint::Forward, HookPoint::Postrouting],
            // Over the loopback interface a packet leaves and arrives.
            (Origin::ThisNode, true) => {
                &[HookPoint::Postrouting, HookPoint::Prerouting, HookPoint::Input]
            }
            (Origin::ThisNode, false) => &[HookPoint::Postrouting],
        };
        for &hook in hooks {
            traveller.hook = hook;
            // Translation of the destination is decided once per connection.
            let chains: Vec<&ChainDef> = self
                .at(hook)
                .filter(|chain| {
                    let nat = chain.hook.is_some_and(|hook| hook.kind == ChainKind::Nat);
                    !(nat && hook == HookPoint::Prerouting)
                })
                .collect();
            if let Some(fate) = self.pass(&chains, traveller) {
                return fate;
            }
        }
        Fate::Delivered
    }

    /// Through these base chains; `None` if all of them let the packet go on.
    fn pass(&self, chains: &[&ChainDef], traveller: &mut Traveller<'_>) -> Option<Fate> {
        chains.iter().find_map(|chain| self.base_chain(chain, traveller))
    }

    fn base_chain(&self, chain: &ChainDef, traveller: &mut Traveller<'_>) -> Option<Fate> {
        let mut chain = Cow::Borrowed(chain);
        loop {
            let mut next = None;
            for (index, rule) in chain.rules.iter().enumerate() {
                let mut at = At { chain: &chain.name, rule: index + 1, traveller };
                match self.rule(rule, &mut at) {
                    Flow::Next => {}
                    Flow::To(name) => {
                        next = Some(name);
                        break;
                    }
                    Flow::Accept => return None,
                    Flow::End(fate) => return Some(fate),
                }
            }
            // Nothing jumps, everything goes: the end of a chain is the end of its hook.
            let name = next?;
            let Some(found) = self.chain(&name) else {
                let mut at = At { chain: &name, rule: 0, traveller };
                at.note(Event::ChainMissing(name.to_string()));
                return None;
            };
            if found.rules.is_empty() && matches!(Chain::parse(&name), Some(Chain::LearnGroup(_))) {
                At { chain: &name, rule: 0, traveller }.note(Event::LearnedForGroup);
            }
            chain = Cow::Owned(found);
        }
    }

    fn chain(&self, name: &str) -> Option<ChainDef> {
        if let Some(fixed) = self.chains.get(name) {
            return Some(fixed.clone());
        }
        self.rows.chain(self.program, Chain::parse(name)?)
    }

    fn rule(&self, rule: &Rule, at: &mut At<'_, '_>) -> Flow {
        if !rule.matches.iter().all(|condition| self.holds(condition, at)) {
            return Flow::Next;
        }
        for action in &rule.actions {
            match self.act(action, at) {
                Some(Flow::Next) => return Flow::Next,
                Some(flow) => return flow,
                None => {}
            }
        }
        Flow::Next
    }

    fn holds(&self, what: &Match, at: &mut At<'_, '_>) -> bool {
        let packet = at.traveller.original;
        // The kernel compares with an empty name where there is no interface.
        let interface = packet.input_interface.as_deref().unwrap_or_default();
        let protocol = Protocol::from_number(packet.protocol);
        let holds = match what {
            Match::InSet { key, set, negated } => {
                return self.look_up(key, *set, at).is_some() != *negated;
            }
            // Every packet of a walk is the first of its connection.
            Match::StateNew => return true,
            Match::SourceIn { network, negated } => network.contains(packet.source) != *negated,
            Match::InputInterface { name, prefix: false, negated } => {
                (interface == name) != *negated
            }
            Match::InputInterface { name, prefix: true, negated } => {
                interface.starts_with(name.as_str()) != *negated
            }
            Match::SourceIsLocal { negated } => self.node.is_local(packet.source) != *negated,
            Match::Translated => at.traveller.translated,
            Match::ServiceProtocol => protocol.is_some(),
            Match::Tcp => protocol == Some(Protocol::Tcp),
            Match::Mark(mask) => at.traveller.mark & mask != 0,
        };
        at.note(Event::Condition { text: condition(what, self.program.family()), holds });
        holds
    }

    /// Does it; `None` if the rule's next action follows.
    fn act(&self, action: &Action, at: &mut At<'_, '_>) -> Option<Flow> {
        match action {
            Action::SetMark(mask) => {
                at.traveller.mark |= mask;
                at.note(Event::Marked);
            }
            Action::FlipMark(mask) => {
                at.traveller.mark ^= mask;
                at.traveller.unmarked = true;
                at.note(Event::Unmarked);
            }
            Action::VerdictMap { key, map } => {
                return Some(match self.look_up(key, *map, at) {
                    Some(RowValue::Verdict(Verdict::Goto(chain))) => {
                        Flow::To(chain.to_string().into())
                    }
                    Some(RowValue::Verdict(Verdict::Drop)) => {
                        Flow::End(Fate::Dropped { chain: at.chain.to_owned() })
                    }
                    _ => Flow::Next,
                });
            }
            Action::Dnat { key, map } => return Some(self.draw(key, *map, at)),
            Action::Masquerade => {
                let why = if at.traveller.unmarked {
                    MasqueradedFor::Mark
                } else {
                    MasqueradedFor::Hairpin
                };
                at.traveller.masqueraded = Some(why);
                at.note(Event::Masqueraded);
                return Some(Flow::Accept);
            }
            Action::Learn { key, timeout } => {
                let key = at.traveller.key(key);
                let endpoint =
                    Endpoint { address: at.traveller.destination, port: at.traveller.port };
                at.note(Event::Learned { key, endpoint, seconds: *timeout });
            }
            Action::Goto(chain) => {
                at.note(Event::WentTo(chain.to_string()));
                return Some(Flow::To(chain.clone()));
            }
            Action::RejectTcpReset => return Some(Flow::End(at.refuse(RefusedBy::TcpReset))),
            Action::Reject => return Some(Flow::End(at.refuse(RefusedBy::Icmp))),
            Action::Drop => {
                at.note(Event::Dropped);
                return Some(Flow::End(Fate::Dropped { chain: at.chain.to_owned() }));
            }
        }
        None
    }

    fn look_up(&self, key: &[Field], set: SetName, at: &mut At<'_, '_>) -> Option<RowValue> {
        let key = at.traveller.key(key);
        let found = look_up(self.rows, set, &key, 0);
        at.note(Event::LookedUp { set, key, found });
        found
    }

    /// Looks at every slot that chance may bring. Shares without an endpoint go on to the next
    /// rule, as the packets they stand for do.
    fn draw(&self, key: &[Field], map: SetName, at: &mut At<'_, '_>) -> Flow {
        let key = at.traveller.key(key);
        let random = key.iter().find_map(|part| match part {
            KeyPart::Random(modulus) => Some(*modulus),
            _ => None,
        });
        let modulus = random.unwrap_or(1).max(1);
        let hits: Vec<(Slot, Endpoint)> = (0..modulus.min(SLOT_LIMIT))
            .filter_map(|slot| match look_up(self.rows, map, &key, slot) {
                Some(RowValue::Endpoint(endpoint)) => Some((slot, endpoint)),
                _ => None,
            })
            .collect();
        let found = u32::try_from(hits.len()).unwrap_or(u32::MAX);
        at.note(if random.is_some() {
            Event::Drawn { map, key, found }
        } else {
            let found = hits.first().map(|&(_, endpoint)| RowValue::Endpoint(endpoint));
            Event::LookedUp { set: map, key, found }
        });
        if hits.is_empty() {
            return Flow::Next;
        }
        let traveller = &mut *at.traveller;
        for draw in &mut traveller.draws {
            draw.share = draw.share.saturating_mul(modulus);
        }
        let earlier = traveller.draws.len();
        let share = traveller.undrawn;
        for (slot, endpoint) in hits {
            let slot = random.is_some().then_some(slot);
            let same = |draw: &&mut Draw| draw.slot == slot && draw.endpoint == endpoint;
            match traveller.draws[..earlier].iter_mut().find(same) {
                Some(draw) => draw.share = draw.share.saturating_add(share),
                None => traveller.draws.push(Draw { slot, endpoint, share }),
            }
        }
        traveller.undrawn = traveller.undrawn.saturating_mul(modulus - found);
        if traveller.undrawn == 0 { Flow::Accept } else { Flow::Next }
    }
}

fn untranslated(fate: Fate, steps: Vec<Step>) -> Walk {
    let outcome = match fate {
        Fate::Delivered => Outcome::Passed,
        Fate::Refused { by, chain } => Outcome::Refused { by, chain },
        Fate::Dropped { chain } => Outcome::Dropped { chain },
    };
    Walk { outcome, steps }
}
