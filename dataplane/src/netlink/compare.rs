//! The program that is there against the program that should be there, in words.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::{chain_type, hook_number};
use super::expression::ANONYMOUS_SET;
use super::layout::Layout;
use super::number::{data, rule, set};
use super::rule::put_rule;
use super::wire::{Attribute, Attributes, Buffer};
use crate::frontend::Family;
use crate::program::{ChainDef, Program, Rule, sets};
use crate::rows::Chain;

/// A set of our table.
#[derive(Debug)]
pub(super) struct FoundSet {
    pub(super) layout: Layout,
    /// How many elements the kernel says it has.
    pub(super) count: Option<u32>,
    /// Whether it is an anonymous `{ tcp, udp, sctp }`.
    pub(super) is_protocols: bool,
}

impl FoundSet {
    pub(super) fn is_anonymous(&self) -> bool {
        self.layout.flags & set::ANONYMOUS != 0
    }
}

/// A chain of our table.
#[derive(Debug)]
pub(super) struct FoundChain {
    pub(super) hook: Option<u32>,
    pub(super) priority: Option<i32>,
    pub(super) kind: Option<String>,
    pub(super) policy: Option<u32>,
    /// The expressions of its rules.
    pub(super) rules: Vec<Vec<u8>>,
}

/// Our table without its rows.
#[derive(Debug, Default)]
pub(super) struct FoundTable {
    pub(super) sets: BTreeMap<String, FoundSet>,
    pub(super) chains: BTreeMap<String, FoundChain>,
}

impl FoundTable {
    /// The chains for rows, without those that are part of the program.
    pub(super) fn row_chains(&self, program: &Program) -> BTreeSet<Chain> {
        let fixed: BTreeSet<_> = program.chains().into_iter().map(|chain| chain.name).collect();
        let others = self.chains.keys().filter(|name| !fixed.contains(name.as_str()));
        others.filter_map(|name| Chain::parse(name)).collect()
    }

    /// What is missing, added or changed.
    pub(super) fn damage(&self, program: &Program) -> Vec<String> {
        let mut damage = Vec::new();
        let family = program.family();
        self.compare_sets(family, &mut damage);
        let fixed = program.chains();
        for expected in &fixed {
            match self.chains.get(expected.name.as_ref()) {
                Some(found) => self.compare_chain(family, expected, found, &mut damage),
                None => damage.push(format!("chain {} is missing", expected.name)),
            }
        }
        for (name, found) in &self.chains {
            if fixed.iter().any(|chain| chain.name == *name) {
                continue;
            }
            match Chain::parse(name) {
                // What such a chain learns for is not known here; its name is a digest of it.
                Some(Chain::LearnGroup(_)) => {
                    if found.rules.is_empty() {
                        damage.push(format!("chain {name} is empty"));
                    }
                }
                Some(chain) => {
                    let expected = program.row_chain(chain, None);
                    self.compare_chain(family, &expected, found, &mut damage);
                }
                None => damage.push(format!("chain {name} is not part of the program")),
            }
        }
        damage
    }

    fn compare_sets(&self, family: Family, damage: &mut Vec<String>) {
        let expected = sets();
        for definition in &expected {
            match self.sets.get(definition.name.as_str()) {
                None => damage.push(format!("set {} is missing", definition.name)),
                Some(found) if found.layout != Layout::of(definition, family) => {
                    damage.push(format!("set {} has another type", definition.name));
                }
                Some(_) => {}
            }
        }
        for (name, found) in &self.sets {
            let ours = expected.iter().any(|definition| definition.name.as_str() == name);
            if !ours && !found.is_anonymous() {
                damage.push(format!("set {name} is not part of the program"));
            }
        }
    }

    fn compare_chain(
        &self,
        family: Family,
        expected: &ChainDef,
        found: &FoundChain,
        damage: &mut Vec<String>,
    ) {
        let name = &expected.name;
        if let Some(what) = attachment_damage(expected, found) {
            damage.push(format!("chain {name} {what}"));
        }
        for (number, (rule, bytes)) in (1..).zip(expected.rules.iter().zip(&found.rules)) {
            if !self.is_rule(family, rule, bytes) {
                damage.push(format!("chain {name}: rule {number} differs"));
            }
        }
        let (is, should) = (found.rules.len(), expected.rules.len());
        if is != should {
            damage.push(format!("chain {name} has {is} rules instead of {should}"));
        }
    }

    fn is_rule(&self, family: Family, expected: &Rule, found: &[u8]) -> bool {
        let mut ours = Buffer::default();
        put_rule(&mut ours, family, expected, 1);
        let Some(expressions) = Attributes(ours.as_bytes()).iter().next() else { return false };
        let (mut expected, mut found) = (expressions.nested().iter(), Attributes(found).iter());
        loop {
            match (expected.next(), found.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if self.is_expression(a.nested(), b.nested()) => {}
                _ => return false,
            }
        }
    }

    fn is_expression(&self, expected: Attributes<'_>, found: Attributes<'_>) -> bool {
        let name = expression_name(expected);
        if name != expression_name(found) {
            return false;
        }
        let ours = expected.find(rule::EXPRESSION_DATA);
        let theirs = found.find(rule::EXPRESSION_DATA);
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
        let is_lookup = name == Some("lookup");
        if is_lookup && looked_up(ours) == Some(ANONYMOUS_SET) {
            let set = looked_up(theirs).and_then(|name| self.sets.get(name));
            let fits = set.is_some_and(|set| set.is_anonymous() && set.is_protocols);
            // The set's name and number are the kernel's to choose.
            let skip = [LOOKUP_SET, LOOKUP_SET_ID];
            return fits && same_attributes(ours.nested(), theirs.nested(), &skip);
        }
        same_attributes(ours.nested(), theirs.nested(), &[])
    }
}

const LOOKUP_SET: u16 = 1;
const LOOKUP_SET_ID: u16 = 4;

fn expression_name(expression: Attributes<'_>) -> Option<&str> {
    expression.find(rule::EXPRESSION_NAME).and_then(|name| name.text())
}

fn looked_up(lookup: Attribute<'_>) -> Option<&str> {
    lookup.nested().find(LOOKUP_SET).and_then(|name| name.text())
}

/// All that we set is there and all that is there beyond is zero, the kernel's "not used".
fn same_attributes(ours: Attributes<'_>, theirs: Attributes<'_>, skip: &[u16]) -> bool {
    let has_ours = ours.iter().filter(|a| !skip.contains(&a.kind)).all(|mine| {
        theirs.find(mine.kind).is_some_and(|other| {
            if mine.is_nest {
                same_attributes(mine.nested(), other.nested(), &[])
            } else {
                mine.value == other.value
            }
        })
    });
    has_ours
        && theirs.iter().all(|other| {
            skip.contains(&other.kind)
                || ours.find(other.kind).is_some()
                || other.value.iter().all(|&byte| byte == 0)
        })
}

/// What is wrong with the way in which a chain is attached.
fn attachment_damage(expected: &ChainDef, found: &FoundChain) -> Option<String> {
    let Some(hook) = &expected.hook else {
        return found.hook.map(|_| "is attached to a hook".into());
    };
    let Some(number) = found.hook else { return Some("is not attached to a hook".into()) };
    if number != hook_number(hook.point) {
        return Some("is attached to another hook".into());
    }
    if found.priority != Some(hook.priority) {
        let priority = found.priority.unwrap_or_default();
        return Some(format!("has priority {priority} instead of {}", hook.priority));
    }
    if found.kind.as_deref() != Some(chain_type(*hook)) {
        return Some(format!("is not of type {}", chain_type(*hook)));
    }
    if found.policy != Some(data::ACCEPT) {
        return Some("does not let packets pass by default".into());
    }
    None
}
