//! One attempt at reading: dumps of what there is, without judging them. Whatever belongs to others is
//! passed over.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use nix::libc::ENOENT;

use super::compare::{FoundChain, FoundSet, FoundTable};
use super::decode::{self, Received};
use super::heading::{self, Heading};
use super::layout::Layout;
use super::number::{
    SUBSYSTEM, chain, element, family_number, flag, generation, message, rule, set,
};
use super::socket::{Channel, DumpEnd};
use super::wire::{Attributes, Buffer, Message};
use crate::frontend::{Family, Frontend, Protocol};
use crate::kernel::{KernelError, KernelState, TableState};
use crate::program::{Program, TABLE, sets};
use crate::rows::{AffinityRow, Row, SetName};

/// Remembered clients by what they are remembered for.
pub(super) type Clients = BTreeMap<(Frontend, IpAddr), AffinityRow>;

/// The number of the last commit in the network namespace, whoever made it.
pub(super) fn current_generation(channel: &mut Channel) -> Result<Option<u32>, KernelError> {
    let mut found = None;
    let kind = message::GET_GENERATION;
    ask(
        channel,
        kind,
        flag::ACK,
        0,
        |_| {},
        |answer| {
            found = answer.attributes().find(generation::ID).and_then(|id| id.number());
        },
    )?;
    Ok(found)
}

/// One request of `nf_tables` and its answers.
pub(super) fn ask(
    channel: &mut Channel,
    kind: u16,
    flags: u16,
    family: u8,
    write: impl FnOnce(&mut Buffer),
    mut each: impl FnMut(Message<'_>),
) -> Result<DumpEnd, KernelError> {
    let mut request = Buffer::default();
    let kind = SUBSYSTEM << 8 | kind;
    let sequence = channel.next_sequence();
    let start = request.begin_message(kind, flag::REQUEST | flags, sequence, family, 0);
    write(&mut request);
    request.end_message(start);
    channel.ask(&request, |answer| {
        if answer.number_in(SUBSYSTEM).is_some() {
            each(answer);
        }
        Ok(())
    })
}

/// Lists objects of a kind, in the family with that number; 0 stands for all. Says whether the list is of
/// a single moment.
pub(super) fn list(
    channel: &mut Channel,
    kind: u16,
    family: u8,
    each: impl FnMut(Message<'_>),
) -> Result<bool, KernelError> {
    match ask(channel, kind, flag::DUMP, family, |_| {}, each)? {
        DumpEnd::Whole => Ok(true),
        DumpEnd::Interrupted => Ok(false),
        DumpEnd::Refused(errno) => Err(io::Error::from_raw_os_error(errno).into()),
    }
}

pub(super) fn each_element(attributes: Attributes<'_>, mut each: impl FnMut(Received<'_>)) {
    if let Some(list) = attributes.find(element::LIST_ELEMENTS) {
        for one in list.nested() {
            each(Received::parse(one.nested()));
        }
    }
}

/// One attempt at reading.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) channel: &'a mut Channel,
    /// It is of more than one moment.
    pub(super) torn: bool,
    /// The kernel counts otherwise than we do.
    pub(super) doubtful: bool,
}

impl Reading<'_> {
    /// Both tables.
    pub(super) fn tables(&mut self, programs: &[Program; 2]) -> Result<KernelState, KernelError> {
        let mut state = KernelState::default();
        for program in programs {
            *state.table_mut(program.family()) = self.table(program)?;
        }
        Ok(state)
    }

    /// The remembered clients of one table; none if there is no table.
    pub(super) fn clients(&mut self, family: Family) -> Result<Clients, KernelError> {
        let mut rows = Clients::new();
        let mut twice = false;
        self.elements(family, SetName::Affinity.as_str(), |received| {
            if let Some(row) = received.affinity(family) {
                twice |= rows.insert((row.frontend, row.client), row).is_some();
            }
        })?;
        self.torn |= twice;
        Ok(rows)
    }

    fn table(&mut self, program: &Program) -> Result<Option<TableState>, KernelError> {
        let family = program.family();
        let (heading, end) = heading::read(self.channel, family)?;
        self.note(end)?;
        let Some(Heading { comment, dormant, .. }) = heading else { return Ok(None) };
        let mut found = FoundTable { sets: self.sets(family)?, chains: self.chains(family)? };
        self.rules(family, &mut found)?;
        self.protocol_sets(family, &mut found)?;
        let mut state = TableState {
            identity: Program::identity_in(&comment).map(ToOwned::to_owned),
            damage: dormant
                .then(|| "the table is dormant: the kernel passes it over".to_owned())
                .into_iter()
                .chain(found.damage(program))
                .collect(),
            chains: found.row_chains(program),
            ..TableState::default()
        };
        for definition in sets() {
            let Some(set) = found.sets.get(definition.name.as_str()) else { continue };
            if definition.name != SetName::Affinity {
                self.rows(family, definition.name, set, &mut state)?;
            }
        }
        Ok(Some(state))
    }

    /// Remembers how a dump ended. What is not there has been removed, or never was.
    fn note(&mut self, end: DumpEnd) -> Result<(), KernelError> {
        match end {
            DumpEnd::Whole | DumpEnd::Refused(ENOENT) => Ok(()),
            DumpEnd::Interrupted => {
                self.torn = true;
                Ok(())
            }
            DumpEnd::Refused(errno) => Err(io::Error::from_raw_os_error(errno).into()),
        }
    }

    /// A dump of our table's objects. The kernel filters where it can, and so do we.
    fn dump(
        &mut self,
        kind: u16,
        family: Family,
        mut each: impl FnMut(Attributes<'_>),
    ) -> Result<(), KernelError> {
        // Chains, rules and sets all have the table's name as attribute 1.
        let write = |out: &mut Buffer| out.text(rule::TABLE, TABLE);
        let number = family_number(family);
        let end = ask(self.channel, kind, flag::DUMP, number, write, |answer| {
            let attributes = answer.attributes();
            let name = attributes.find(rule::TABLE).and_then(|name| name.text());
            if name == Some(TABLE) && answer.family() == Some(number) {
                each(attributes);
            }
        })?;
        self.note(end)
    }

    fn sets(&mut self, family: Family) -> Result<BTreeMap<String, FoundSet>, KernelError> {
        let mut found = BTreeMap::new();
        self.dump(message::GET_SET, family, |attributes| {
            let number = |kind| attributes.find(kind).and_then(|a| a.number());
            let Some(name) = attributes.find(set::NAME).and_then(|name| name.text()) else {
                return;
            };
            let data_type = number(set::DATA_TYPE).unwrap_or_default();
            // What a verdict takes in the kernel's memory is its own affair.
            let data_len = number(set::DATA_LEN).filter(|_| data_type != set::VERDICT_TYPE);
            let layout = Layout {
                flags: number(set::FLAGS).unwrap_or_default(),
                key_type: number(set::KEY_TYPE).unwrap_or_default(),
                key_len: number(set::KEY_LEN).unwrap_or_default(),
                data_type,
                data_len: data_len.unwrap_or_default(),
            };
            let count = number(set::COUNT);
            found.insert(name.to_owned(), FoundSet { layout, count, is_protocols: false });
        })?;
        Ok(found)
    }

    fn chains(&mut self, family: Family) -> Result<BTreeMap<String, FoundChain>, KernelError> {
        let mut found = BTreeMap::new();
        self.dump(message::GET_CHAIN, family, |attributes| {
            let Some(name) = attributes.find(chain::NAME).and_then(|name| name.text()) else {
                return;
            };
            let hook = attributes.find(chain::HOOK).map(|hook| hook.nested());
            let hook_number = |kind| hook.and_then(|hook| hook.find(kind)?.number());
            let found_chain = FoundChain {
                hook: hook_number(chain::HOOK_NUMBER),
                priority: hook_number(chain::HOOK_PRIORITY).map(u32::cast_signed),
                kind: attributes.find(chain::TYPE).and_then(|a| a.text()).map(ToOwned::to_owned),
                policy: attributes.find(chain::POLICY).and_then(|a| a.number()),
                rules: Vec::new(),
            };
            found.insert(name.to_owned(), found_chain);
        })?;
        Ok(found)
    }

    fn rules(&mut self, family: Family, found: &mut FoundTable) -> Result<(), KernelError> {
        self.dump(message::GET_RULE, family, |attributes| {
            let name = attributes.find(rule::CHAIN).and_then(|name| name.text());
            let chain = name.and_then(|name| found.chains.get_mut(name));
            if let Some(chain) = chain {
                let expressions = attributes.find(rule::EXPRESSIONS);
                chain.rules.push(expressions.map(|e| e.value.to_vec()).unwrap_or_default());
            }
        })
    }

    /// Finds out which anonymous sets are `{ tcp, udp, sctp }`.
    fn protocol_sets(&mut self, family: Family, found: &mut FoundTable) -> Result<(), KernelError> {
        let anonymous = found.sets.iter_mut().filter(|(_, set)| set.is_anonymous());
        for (name, set) in anonymous {
            let mut protocols = Vec::new();
            self.elements(family, name, |received| {
                protocols.push(match *received.key {
                    [number] => Protocol::from_number(number),
                    _ => None,
                });
            })?;
            protocols.sort();
            set.is_protocols = protocols.iter().eq(Protocol::ALL.map(Some).iter());
        }
        Ok(())
    }

    fn elements(
        &mut self,
        family: Family,
        set: &str,
        mut each: impl FnMut(Received<'_>),
    ) -> Result<(), KernelError> {
        let write = |out: &mut Buffer| {
            out.text(element::LIST_TABLE, TABLE);
            out.text(element::LIST_SET, set);
        };
        let number = family_number(family);
        let end = ask(self.channel, message::GET_ELEMENTS, flag::DUMP, number, write, |answer| {
            each_element(answer.attributes(), &mut each);
        })?;
        self.note(end)
    }

    fn rows(
        &mut self,
        family: Family,
        name: SetName,
        set: &FoundSet,
        state: &mut TableState,
    ) -> Result<(), KernelError> {
        if name == SetName::ServiceCidrs {
            return self.networks(family, state);
        }
        let (mut rows, mut strays): (Vec<Row>, Vec<_>) = (Vec::new(), Vec::new());
        self.elements(family, name.as_str(), |received| match received.row(family, name) {
            Some(row) => rows.push(row),
            None => strays.push(received.stray(family, name)),
        })?;
        // While its hash table is being rebuilt, the kernel gives some elements twice and others
        // not at all, without a word.
        rows.sort_unstable();
        strays.sort_unstable();
        let same_key = |pair: &[Row]| matches!(pair, [a, b] if a.key == b.key);
        let same_stray = |pair: &[_]| matches!(pair, [a, b] if a == b);
        self.torn |= rows.windows(2).any(same_key) || strays.windows(2).any(same_stray);
        let counted = u32::try_from(rows.len() + strays.len()).ok();
        self.doubtful |= set.count.is_some() && set.count != counted;
        state.rows.append(&mut rows);
        state.strays.append(&mut strays);
        Ok(())
    }

    pub(super) fn networks(
        &mut self,
        family: Family,
        state: &mut TableState,
    ) -> Result<(), KernelError> {
        let mut bounds = Vec::new();
        self.elements(family, SetName::ServiceCidrs.as_str(), |received| {
            bounds.push((received.key.to_vec(), received.interval_end));
        })?;
        let (rows, strays) = decode::networks(family, bounds);
        state.rows.extend(rows);
        state.strays.extend(strays);
        Ok(())
    }
}
