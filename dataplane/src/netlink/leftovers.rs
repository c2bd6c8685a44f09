//! Chains that an iptables mode of kube-proxy left behind, where iptables is built on `nf_tables`:
//! found by name in tables that belong to others, and removed with the rules that lead to them.
//!
//! Other rules in these tables are left alone, and so are the older xtables, which netlink does not
//! reach.

use std::collections::BTreeSet;

use nix::libc::ENOENT;

use super::NetlinkKernel;
use super::dump::list;
use super::number::{SUBSYSTEM, chain, data, family_number, flag, message, rule};
use super::socket::{Channel, DumpEnd};
use super::wire::{Attributes, Buffer};
use crate::frontend::Family;
use crate::kernel::KernelError;

/// Attempts to read a table while others change it.
const ATTEMPTS: u32 = 8;

/// What is to be removed from a table.
#[derive(Debug, Default)]
struct Leftovers {
    chains: BTreeSet<String>,
    /// Rules elsewhere that lead there: their chains and handles.
    ways: Vec<(String, u64)>,
}

impl NetlinkKernel {
    /// Removes the chains of `table` that `is_leftover` names, and all rules that lead to them, in
    /// one transaction. Gives the number of chains.
    ///
    /// # Errors
    /// See [`KernelError`]; nothing was removed then.
    pub fn remove_chains(
        &mut self,
        family: Family,
        table: &str,
        is_leftover: impl Fn(&str) -> bool,
    ) -> Result<usize, KernelError> {
        for _ in 0..ATTEMPTS {
            let Some(found) = find(&mut self.channel, family, table, &is_leftover)? else {
                continue;
            };
            if found.chains.is_empty() {
                return Ok(0);
            }
            let batch = removal(&found, family, table, self.channel.next_sequence());
            match self.channel.ask(&batch, |_| Ok(()))? {
                DumpEnd::Whole => return Ok(found.chains.len()),
                // Somebody else removed some of it meanwhile.
                DumpEnd::Refused(ENOENT) | DumpEnd::Interrupted => {}
                DumpEnd::Refused(errno) => {
                    return Err(std::io::Error::from_raw_os_error(errno).into());
                }
            }
        }
        Err(KernelError::Torn(ATTEMPTS))
    }
}

/// What is to be removed; `None` if the table changed meanwhile.
fn find(
    channel: &mut Channel,
    family: Family,
    table: &str,
    is_leftover: impl Fn(&str) -> bool,
) -> Result<Option<Leftovers>, KernelError> {
    let mut found = Leftovers::default();
    let number = family_number(family);
    let whole = list(channel, message::GET_CHAIN, number, |answer| {
        let attributes = answer.attributes();
        let name = attributes.find(chain::NAME).and_then(|name| name.text());
        let ours = attributes.find(chain::TABLE).and_then(|name| name.text()) == Some(table);
        // A base chain is never one of these, whatever its name.
        let base = attributes.find(chain::HOOK).is_some();
        if let Some(name) = name.filter(|name| ours && !base && is_leftover(name)) {
            found.chains.insert(name.to_owned());
        }
    })?;
    if !whole || found.chains.is_empty() {
        return Ok(whole.then_some(found));
    }
    let Leftovers { chains, ways } = &mut found;
    let whole = list(channel, message::GET_RULE, number, |answer| {
        let attributes = answer.attributes();
        let text = |kind| attributes.find(kind).and_then(|name| name.text());
        let (Some(within), Some(handle)) =
            (text(rule::CHAIN), attributes.find(rule::HANDLE).and_then(|h| h.long_number()))
        else {
            return;
        };
        let leads_there = || {
            let expressions = attributes.find(rule::EXPRESSIONS).map(|list| list.nested());
            expressions.into_iter().flatten().any(|expression| {
                target(expression.nested()).is_some_and(|target| chains.contains(target))
            })
        };
        if text(rule::TABLE) == Some(table) && !chains.contains(within) && leads_there() {
            ways.push((within.to_owned(), handle));
        }
    })?;
    Ok(whole.then_some(found))
}

/// The chain that an expression jumps or goes to.
fn target(expression: Attributes<'_>) -> Option<&str> {
    let [immediate_data] = [2];
    if expression.find(rule::EXPRESSION_NAME)?.text()? != "immediate" {
        return None;
    }
    let value = expression.find(rule::EXPRESSION_DATA)?.nested().find(immediate_data)?;
    let verdict = value.nested().find(data::VERDICT)?;
    verdict.nested().find(data::VERDICT_CHAIN)?.text()
}

/// First the ways there, then what is in the chains, then the chains, which may lead to each other.
fn removal(found: &Leftovers, family: Family, table: &str, sequence: u32) -> Buffer {
    let mut batch = Buffer::default();
    // One sequence number for all: whatever is refused, it is this removal.
    let mut add = |kind: u16, flags: u16, family: u8, resource, fill: &dyn Fn(&mut Buffer)| {
        let start = batch.begin_message(kind, flag::REQUEST | flags, sequence, family, resource);
        fill(&mut batch);
        batch.end_message(start);
    };
    let family = family_number(family);
    let (delete_rule, delete_chain) =
        (SUBSYSTEM << 8 | message::DELETE_RULE, SUBSYSTEM << 8 | message::DELETE_CHAIN);
    add(message::BATCH_BEGIN, 0, 0, SUBSYSTEM, &|_| ());
    for (within, handle) in &found.ways {
        add(delete_rule, 0, family, 0, &|out| {
            out.text(rule::TABLE, table);
            out.text(rule::CHAIN, within);
            out.long_number(rule::HANDLE, *handle);
        });
    }
    for name in &found.chains {
        add(delete_rule, 0, family, 0, &|out| {
            out.text(rule::TABLE, table);
            out.text(rule::CHAIN, name);
        });
    }
    let last = found.chains.last();
    for name in &found.chains {
        let flags = if Some(name) == last { flag::ACK } else { 0 };
        add(delete_chain, flags, family, 0, &|out| {
            out.text(chain::TABLE, table);
            out.text(chain::NAME, name);
        });
    }
    add(message::BATCH_END, 0, 0, SUBSYSTEM, &|_| ());
    batch
}
