//! From the kernel's error answers to the parts of a transaction.

use nix::libc::{ENOENT, EOPNOTSUPP, EPERM};

use super::batch::{Batch, Operation, Part, Sent};
use super::element::elements_of;
use super::number::{ack, chain, element, rule};
use super::wire::{Attributes, FAMILY_HEADER, HEADER, Message, Messages};
use crate::kernel::{Change, KernelError, Refusal};
use crate::transaction::Transaction;

/// One error answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    /// The refused message.
    pub(super) sequence: u32,
    /// Why.
    pub(super) errno: i32,
    /// Where in the message, counted from its beginning.
    pub(super) offset: Option<u32>,
}

impl Fault {
    /// Reads an error answer; acknowledgements are none.
    pub(super) fn from_answer(answer: &Message<'_>, errno: i32) -> Self {
        let has_attributes = answer.flags & super::number::flag::ACK_ATTRIBUTES != 0;
        let offset = has_attributes
            .then(|| answer.error_attributes().find(ack::OFFSET)?.host_number())
            .flatten();
        Self { sequence: answer.sequence, errno, offset }
    }
}

/// What the faults say about the transaction.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Why nothing was applied.
    Known(KernelError),
    /// A message with several rows was refused, and the kernel did not say for which of them.
    Unclear,
}

/// Translates the answers to a refused batch.
pub(super) fn explain(batch: &Batch, transaction: &Transaction, faults: &[Fault]) -> Verdict {
    let mut refusals = Vec::with_capacity(faults.len());
    for fault in faults {
        if fault.errno == EPERM {
            return Verdict::Known(KernelError::Permission);
        }
        let Some(sent) = batch.sent_with(fault.sequence) else { continue };
        if let Some(error) = unsupported(batch, sent, fault) {
            return Verdict::Known(error);
        }
        let errno = fault.errno;
        match &sent.part {
            Part::Frame if errno == EOPNOTSUPP => {
                return Verdict::Known(KernelError::Unsupported {
                    what: "nf_tables".into(),
                    module: "CONFIG_NF_TABLES (module nf_tables)".into(),
                });
            }
            Part::Frame => {
                return Verdict::Known(std::io::Error::from_raw_os_error(errno).into());
            }
            Part::Program(family, what) => {
                refusals.push(Refusal { change: Change::Program(*family, what.clone()), errno });
            }
            Part::Chain(family, name) => {
                refusals.push(Refusal { change: Change::Chain(*family, name.clone()), errno });
            }
            Part::Elements { operation, first, count } => {
                let rows = batch.order.get(*first..first + count).unwrap_or_default();
                let changes = rows.iter().filter_map(|&at| change(transaction, *operation, at));
                let Some(which) = locate(batch, transaction, sent, fault.offset) else {
                    return Verdict::Unclear;
                };
                match which {
                    Which::All => refusals.extend(changes.map(|change| Refusal { change, errno })),
                    Which::Row(index) => refusals.extend(
                        changes.skip(index).take(1).map(|change| Refusal { change, errno }),
                    ),
                }
            }
        }
    }
    Verdict::Known(KernelError::Refused(refusals))
}

enum Which {
    All,
    Row(usize),
}

/// Finds the row that an element message was refused for.
fn locate(
    batch: &Batch,
    transaction: &Transaction,
    sent: &Sent,
    offset: Option<u32>,
) -> Option<Which> {
    let Part::Elements { operation, first, count } = sent.part else { return None };
    if count == 1 {
        return Some(Which::All);
    }
    let offset = offset? as usize;
    let message = batch.out.as_bytes().get(sent.start..)?;
    let (list_at, list) = attribute_at(message, HEADER + FAMILY_HEADER, offset)?;
    if list.kind != element::LIST_ELEMENTS {
        // The set or the table itself: nothing of the message can be done.
        return Some(Which::All);
    }
    let mut at = list_at + 4;
    let mut elements_before = 0;
    for one in list.nested() {
        let end = at + 4 + one.value.len().next_multiple_of(4);
        if offset < end {
            break;
        }
        elements_before += 1;
        at = end;
    }
    let rows = batch.order.get(first..first + count)?;
    let mut elements = 0;
    rows.iter()
        .position(|&row| {
            elements += elements_in_row(transaction, operation, row);
            elements_before < elements
        })
        .map(Which::Row)
}

fn elements_in_row(transaction: &Transaction, operation: Operation, row: u32) -> usize {
    let at = row as usize;
    match operation {
        Operation::Delete => transaction.deleted.get(at).map_or(1, elements_of),
        Operation::Add => transaction.added.get(at).map_or(1, |row| elements_of(&row.key)),
        Operation::DeleteStray | Operation::Forget | Operation::Remember => 1,
    }
}

fn change(transaction: &Transaction, operation: Operation, at: u32) -> Option<Change> {
    let at = at as usize;
    Some(match operation {
        Operation::DeleteStray => Change::Stray(transaction.strays.get(at)?.clone()),
        Operation::Delete => Change::Delete(*transaction.deleted.get(at)?),
        Operation::Add => Change::Add(*transaction.added.get(at)?),
        Operation::Forget => Change::Affinity(*transaction.forgotten.get(at)?),
        Operation::Remember => Change::Affinity(*transaction.remembered.get(at)?),
    })
}

/// The attribute of a message (or of a nest) that covers `offset`, with its own offset.
fn attribute_at(
    message: &[u8],
    begin: usize,
    offset: usize,
) -> Option<(usize, super::wire::Attribute<'_>)> {
    let mut at = begin;
    for attribute in Attributes(message.get(begin..)?) {
        let end = at + 4 + attribute.value.len().next_multiple_of(4);
        if offset < end {
            return Some((at, attribute));
        }
        at = end;
    }
    None
}

/// Whether the kernel lacks the expression or the kind of chain that it stumbled over.
fn unsupported(batch: &Batch, sent: &Sent, fault: &Fault) -> Option<KernelError> {
    if ![ENOENT, EOPNOTSUPP].contains(&fault.errno) {
        return None;
    }
    let bytes = batch.out.as_bytes().get(sent.start..)?;
    let message = Messages(bytes).next()?;
    let offset = fault.offset? as usize;
    let (at, attribute) = attribute_at(bytes, HEADER + FAMILY_HEADER, offset)?;
    let number = message.number_in(super::number::SUBSYSTEM)?;
    if number == super::number::message::NEW_CHAIN && attribute.kind == chain::TYPE {
        let kind = attribute.text()?;
        return Some(KernelError::Unsupported {
            what: format!("chain type {kind}"),
            module: "CONFIG_NFT_NAT (module nft_chain_nat)".into(),
        });
    }
    if number != super::number::message::NEW_RULE || attribute.kind != rule::EXPRESSIONS {
        return None;
    }
    let (_, expression) = attribute_at(bytes, at + 4, offset)?;
    let expression = expression.nested();
    let name = expression.find(rule::EXPRESSION_NAME)?.text()?;
    // Part of nf_tables itself: what is missing is the set or the chain that they name.
    if ["lookup", "immediate", "dynset"].contains(&name) {
        return None;
    }
    Some(KernelError::Unsupported {
        what: format!("expression {name}"),
        module: module_of(name).into(),
    })
}

fn module_of(expression: &str) -> &'static str {
    match expression {
        "nat" => "CONFIG_NFT_NAT (module nft_nat)",
        "masq" => "CONFIG_NFT_MASQ (module nft_masq)",
        "ct" => "CONFIG_NFT_CT (module nft_ct)",
        "numgen" => "CONFIG_NFT_NUMGEN (module nft_numgen)",
        "fib" => "CONFIG_NFT_FIB_IPV4 and CONFIG_NFT_FIB_IPV6 (modules nft_fib_ipv4, nft_fib_ipv6)",
        "reject" => "CONFIG_NFT_REJECT (modules nft_reject_ipv4, nft_reject_ipv6)",
        _ => "CONFIG_NF_TABLES (module nf_tables)",
    }
}
