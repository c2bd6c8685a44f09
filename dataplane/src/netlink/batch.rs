//! A transaction as one netlink batch. Every message is remembered with the part of the
//! transaction that it carries, so that an error can be told in the transaction's own words.

use super::number::{
    SUBSYSTEM, chain as chain_attribute, data, element, family_number, flag, message,
    rule as rule_attribute, set as set_attribute, table as table_attribute,
};
use super::rule::{anonymous_sets, put_rule};
use super::wire::Buffer;
use super::{element as elements, layout};
use crate::frontend::Family;
use crate::program::{ChainDef, ChainKind, Hook, HookPoint, Program, TABLE};
use crate::rows::SetName;
use crate::transaction::Transaction;

/// An attribute's length has 16 bits and the longest element takes about 100 bytes.
pub(super) const ROWS_PER_MESSAGE: usize = 400;

/// Bytes for which room is kept between transactions.
const ROOM: usize = 1 << 20;

/// What is done with a set element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    DeleteStray,
    Delete,
    Add,
    Forget,
    Remember,
}

/// What a message carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The frame of the batch.
    Frame,
    /// An object of the program, in words.
    Program(Family, String),
    /// A chain for rows, or a rule of it.
    Chain(Family, String),
    /// `count` elements of that list of the transaction, at that place in [`Batch::order`].
    Elements { operation: Operation, first: usize, count: usize },
}

/// A message of the batch.
#[derive(Debug)]
pub(super) struct Sent {
    /// Where it begins in [`Batch::out`].
    pub(super) start: usize,
    pub(super) part: Part,
}

/// The bytes of a batch and what they mean. Kept and used again: a small transaction allocates
/// nothing.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) out: Buffer,
    pub(super) sent: Vec<Sent>,
    /// Positions in the transaction's lists, sorted so that a message holds elements of one set.
    pub(super) order: Vec<u32>,
    first_sequence: u32,
    next_set: u32,
    can_destroy: bool,
}

impl Batch {
    /// `can_destroy` says whether the kernel knows [`message::DESTROY_ELEMENTS`].
    pub(super) fn new(can_destroy: bool) -> Self {
        Self { can_destroy, ..Self::default() }
    }

    /// Writes `transaction`, with at most `rows_per_message` rows in a message. The last message
    /// before the end asks for an acknowledgement; the others are answered only if refused.
    pub(super) fn fill(
        &mut self,
        transaction: &Transaction,
        first_sequence: u32,
        rows_per_message: usize,
    ) {
        self.out.clear();
        self.sent.clear();
        self.order.clear();
        self.first_sequence = first_sequence;
        self.next_set = 1;
        self.frame(message::BATCH_BEGIN);
        for &family in &transaction.removed_tables {
            self.remove_table(family);
        }
        for program in &transaction.installed {
            self.install(program);
        }
        for (family, chain) in &transaction.new_chains {
            self.row_chain(*family, chain);
        }
        self.rows(transaction, rows_per_message);
        for (family, chain) in &transaction.dead_chains {
            let part = Part::Chain(*family, chain.to_string());
            // Without NLM_F_NONREC the chain's rules go with it.
            self.message(message::DELETE_CHAIN, 0, *family, part, |out| {
                out.text(chain_attribute::TABLE, TABLE);
                out.text(chain_attribute::NAME, chain);
            });
        }
        if let Some(last) = self.sent.last() {
            self.out.add_flags(last.start, flag::ACK);
        }
        self.frame(message::BATCH_END);
    }

    /// Gives back the memory that only a first load needs.
    pub(super) fn shrink(&mut self) {
        if self.out.room() > ROOM {
            *self = Self::new(self.can_destroy);
        }
    }

    /// The message with that sequence number.
    pub(super) fn sent_with(&self, sequence: u32) -> Option<&Sent> {
        self.sent.get(sequence.checked_sub(self.first_sequence)? as usize)
    }

    /// The sequence number of the batch's first message, under which the kernel reports what
    /// concerns the batch as a whole.
    pub(super) fn first_sequence(&self) -> u32 {
        self.first_sequence
    }

    /// The sequence number of the message that is acknowledged.
    pub(super) fn acknowledged_sequence(&self) -> u32 {
        self.sequence().wrapping_sub(2)
    }

    fn sequence(&self) -> u32 {
        self.first_sequence.wrapping_add(u32::try_from(self.sent.len()).unwrap_or(u32::MAX))
    }

    fn frame(&mut self, kind: u16) {
        let start = self.out.begin_message(kind, flag::REQUEST, self.sequence(), 0, SUBSYSTEM);
        self.out.end_message(start);
        self.sent.push(Sent { start, part: Part::Frame });
    }

    fn message(
        &mut self,
        kind: u16,
        flags: u16,
        family: Family,
        part: Part,
        write: impl FnOnce(&mut Buffer),
    ) {
        let kind = SUBSYSTEM << 8 | kind;
        let number = family_number(family);
        let sequence = self.sequence();
        let start = self.out.begin_message(kind, flag::REQUEST | flags, sequence, number, 0);
        write(&mut self.out);
        self.out.end_message(start);
        self.sent.push(Sent { start, part });
    }

    /// Made before it is deleted, so that it does not matter whether it was there.
    fn remove_table(&mut self, family: Family) {
        for (kind, flags) in [(message::NEW_TABLE, flag::CREATE), (message::DELETE_TABLE, 0)] {
            let part = Part::Program(family, "table".into());
            self.message(kind, flags, family, part, |out| {
                out.text(table_attribute::NAME, TABLE);
            });
        }
    }

    fn install(&mut self, program: &Program) {
        let family = program.family();
        self.remove_table(family);
        let comment = layout::comment_user_data(&program.comment());
        let part = Part::Program(family, "table".into());
        self.message(message::NEW_TABLE, flag::CREATE | flag::EXCLUSIVE, family, part, |out| {
            out.text(table_attribute::NAME, TABLE);
            out.attribute(table_attribute::USER_DATA, &comment);
        });
        for set in program.sets() {
            let id = self.take_set_number();
            let part = Part::Program(family, format!("set {}", set.name));
            self.message(message::NEW_SET, flag::CREATE | flag::EXCLUSIVE, family, part, |out| {
                out.text(set_attribute::TABLE, TABLE);
                layout::put_set(out, &set, family, id);
            });
        }
        let chains = program.chains();
        for chain in &chains {
            self.chain(family, chain, Part::Program(family, format!("chain {}", chain.name)));
        }
        for chain in &chains {
            self.rules(family, chain, |rule| {
                Part::Program(family, format!("chain {}, rule {rule}", chain.name))
            });
        }
    }

    fn row_chain(&mut self, family: Family, chain: &ChainDef) {
        let part = || Part::Chain(family, chain.name.to_string());
        self.chain(family, chain, part());
        self.rules(family, chain, |_| part());
    }

    fn take_set_number(&mut self) -> u32 {
        self.next_set += 1;
        self.next_set
    }

    fn chain(&mut self, family: Family, chain: &ChainDef, part: Part) {
        self.message(message::NEW_CHAIN, flag::CREATE | flag::EXCLUSIVE, family, part, |out| {
            out.text(chain_attribute::TABLE, TABLE);
            out.text(chain_attribute::NAME, &chain.name);
            if let Some(hook) = &chain.hook {
                let nest = out.begin(chain_attribute::HOOK);
                out.number(chain_attribute::HOOK_NUMBER, hook_number(hook.point));
                out.number(chain_attribute::HOOK_PRIORITY, hook.priority.cast_unsigned());
                out.end(nest);
                out.number(chain_attribute::POLICY, data::ACCEPT);
                out.text(chain_attribute::TYPE, chain_type(*hook));
            }
        });
    }

    fn rules(&mut self, family: Family, chain: &ChainDef, part: impl Fn(usize) -> Part) {
        for (number, rule) in (1..).zip(&chain.rules) {
            let first_set = self.next_set + 1;
            for _ in 0..anonymous_sets(rule) {
                let id = self.take_set_number();
                self.message(message::NEW_SET, flag::CREATE, family, part(number), |out| {
                    out.text(set_attribute::TABLE, TABLE);
                    layout::put_protocol_set(out, id);
                });
                self.message(message::NEW_ELEMENTS, flag::CREATE, family, part(number), |out| {
                    out.text(element::LIST_TABLE, TABLE);
                    elements::put_protocols(out, id);
                });
            }
            let flags = flag::CREATE | flag::APPEND;
            self.message(message::NEW_RULE, flags, family, part(number), |out| {
                out.text(rule_attribute::TABLE, TABLE);
                out.text(rule_attribute::CHAIN, &chain.name);
                put_rule(out, family, rule, first_set);
            });
        }
    }

    fn rows(&mut self, transaction: &Transaction, limit: usize) {
        let forget =
            if self.can_destroy { message::DESTROY_ELEMENTS } else { message::DELETE_ELEMENTS };
        self.elements(
            (Operation::DeleteStray, message::DELETE_ELEMENTS, limit),
            &transaction.strays,
            |stray| (stray.family, stray.set),
            elements::put_stray,
        );
        self.elements(
            (Operation::Delete, message::DELETE_ELEMENTS, limit),
            &transaction.deleted,
            |key| (key.family(), key.set()),
            |out, key| elements::put_row(out, key, None),
        );
        self.elements(
            (Operation::Add, message::NEW_ELEMENTS, limit),
            &transaction.added,
            |row| (row.key.family(), row.key.set()),
            |out, row| elements::put_row(out, &row.key, Some(&row.value)),
        );
        self.elements(
            (Operation::Forget, forget, limit),
            &transaction.forgotten,
            |row| (row.frontend.family(), SetName::Affinity),
            |out, row| elements::put_affinity(out, row, false),
        );
        self.elements(
            (Operation::Remember, message::NEW_ELEMENTS, limit),
            &transaction.remembered,
            |row| (row.frontend.family(), SetName::Affinity),
            |out, row| elements::put_affinity(out, row, true),
        );
    }

    fn elements<T>(
        &mut self,
        (operation, kind, limit): (Operation, u16, usize),
        items: &[T],
        place: impl Fn(&T) -> (Family, SetName),
        put: impl Fn(&mut Buffer, &T),
    ) {
        let mut first = self.order.len();
        self.order.extend((0..).zip(items).map(|(index, _): (u32, _)| index));
        let place_of = |index: u32| items.get(index as usize).map(&place);
        if let Some(order) = self.order.get_mut(first..) {
            order.sort_by_key(|&index| place_of(index));
        }
        let adds = kind == message::NEW_ELEMENTS;
        let flags = if adds { flag::CREATE | flag::EXCLUSIVE } else { 0 };
        while let Some(&next) = self.order.get(first) {
            let Some((family, set)) = place_of(next) else { return };
            let rest = self.order.get(first..).unwrap_or_default();
            let same_set = |index: &&u32| place_of(**index) == Some((family, set));
            let count = rest.iter().take(limit).take_while(same_set).count();
            // Taken out while it is read, so that the message can be written; no copy is made.
            let order = std::mem::take(&mut self.order);
            let chosen = order.get(first..first + count).unwrap_or_default();
            let part = Part::Elements { operation, first, count };
            self.message(kind, flags, family, part, |out| {
                out.text(element::LIST_TABLE, TABLE);
                out.text(element::LIST_SET, set);
                let list = out.begin(element::LIST_ELEMENTS);
                for item in chosen.iter().filter_map(|&index| items.get(index as usize)) {
                    put(out, item);
                }
                out.end(list);
            });
            self.order = order;
            first += count;
        }
    }
}

/// The hook's number (`NF_INET_…`).
pub(super) fn hook_number(point: HookPoint) -> u32 {
    match point {
        HookPoint::Prerouting => 0,
        HookPoint::Input => 1,
        HookPoint::Forward => 2,
        HookPoint::Output => 3,
        HookPoint::Postrouting => 4,
    }
}

/// The kernel's name of a chain's kind.
pub(super) fn chain_type(hook: Hook) -> &'static str {
    match hook.kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
    }
}
