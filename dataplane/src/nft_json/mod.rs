//! The second way to the same state: program and rows for the `nft` tool, as a script and as JSON,
//! and rows read back from what `nft -j` lists.
//!
//! Used by `render` and to check the first way, `netlink`: two encoders that must agree catch what
//! one alone would not. Never used to program a node.
//!
//! nft 1.1.3 is needed to load either form; nft 1.0.6 lists both, but has no grammar for the
//! statement that remembers clients. Neither can a part of a table be loaded alone: nft refuses a
//! `dnat` rule whose map exists already, so both forms replace the whole table.

mod document;
mod listing;
mod script;
#[cfg(test)]
mod tests;

use ipnetwork::IpNetwork;

use crate::frontend::Family;
use crate::program::{ChainDef, FieldType, Match, Program, SetDef};
use crate::rows::{Row, SetName};
use crate::transaction::Transaction;

pub use document::document;
pub use listing::{ListingError, rows_from_listing};
pub use script::script;

/// Everything that one family's table holds.
#[derive(Debug, Clone)]
pub struct Contents {
    program: Program,
    /// The chains that the rows need, each behind those it goes to.
    chains: Vec<ChainDef>,
    rows: Vec<Row>,
}

/// What cannot be written down for nft.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// An interface name that is none, or that nft would read as something else.
    #[error(
        "{0:?} is not an interface name: 1 to 15 letters, digits or any of -_.:@+ are accepted"
    )]
    InterfaceName(String),
}

impl Contents {
    /// The tables that `transaction` installs, with the chains and rows that it adds to them: what
    /// a kernel without our tables holds after it. Remembered clients are not among it.
    ///
    /// # Errors
    /// If an interface name in a program cannot be written down.
    pub fn of(transaction: &Transaction) -> Result<Vec<Self>, RenderError> {
        transaction.installed.iter().map(|program| Self::of_table(program, transaction)).collect()
    }

    fn of_table(program: &Program, transaction: &Transaction) -> Result<Self, RenderError> {
        check_interface(program)?;
        let family = program.family();
        let chains = transaction.new_chains.iter().filter(|(of, _)| *of == family);
        let rows = transaction.added.iter().filter(|row| row.key.family() == family);
        let mut rows: Vec<Row> = rows.copied().collect();
        rows.sort();
        Ok(Self {
            program: program.clone(),
            chains: chains.map(|(_, chain)| chain.clone()).collect(),
            rows,
        })
    }

    fn family(&self) -> Family {
        self.program.family()
    }

    /// All chains: the fixed ones, then those of the rows.
    fn all_chains(&self) -> impl Iterator<Item = ChainDef> {
        self.program.chains().into_iter().chain(self.chains.iter().cloned())
    }

    /// The rows of one set. Rows are sorted, and the sort keeps those of one set together.
    fn rows_of(&self, set: SetName) -> &[Row] {
        let of_set = |row: &Row| row.key.set() == set;
        let start = self.rows.iter().position(of_set).unwrap_or(self.rows.len());
        let length = self.rows[start..].iter().take_while(|row| of_set(row)).count();
        &self.rows[start..start + length]
    }
}

/// Interface names are the only text from outside that a program contains.
fn check_interface(program: &Program) -> Result<(), RenderError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@+".contains(&byte);
    let good = |name: &str| (1..16).contains(&name.len()) && name.bytes().all(allowed);
    let chains = program.chains();
    let conditions = chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.matches);
    for condition in conditions {
        if let Match::InputInterface { name, .. } = condition
            && !good(name)
        {
            return Err(RenderError::InterfaceName(name.clone()));
        }
    }
    Ok(())
}

/// What a part of a set's key is an example of, for nft's `typeof`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Example {
    Source,
    Destination,
    Protocol,
    Port,
    Slot,
}

/// The key of `set`, part by part. Rows of pairs begin with the source, all others with the
/// destination.
fn key_examples(set: &SetDef) -> Vec<Example> {
    let addresses = match set.name {
        SetName::Hairpins => [Example::Source, Example::Destination],
        _ => [Example::Destination, Example::Source],
    };
    let mut addresses = addresses.into_iter();
    let part = |kind: &FieldType| match kind {
        FieldType::Address => addresses.next().unwrap_or(Example::Source),
        FieldType::Protocol => Example::Protocol,
        FieldType::Port => Example::Port,
        FieldType::Slot => Example::Slot,
    };
    set.key.iter().map(part).collect()
}

/// The modulus that `typeof` shows for slots; it says nothing about how many there may be.
const SLOT_EXAMPLE: u32 = 65_536;

/// nft's names for priorities, and the priorities.
const PRIORITIES: [(&str, i32); 3] = [("dstnat", -100), ("filter", 0), ("srcnat", 100)];

/// Whether nft may join neighbouring intervals, so that somebody who adds a network by hand is not
/// refused. It cannot do that for concatenations.
fn merges(set: &SetDef) -> bool {
    set.interval && set.key.len() == 1
}

/// Whether the network is one address, which nft lists without a length.
fn is_single(network: IpNetwork) -> bool {
    network.prefix() == if network.is_ipv4() { 32 } else { 128 }
}
