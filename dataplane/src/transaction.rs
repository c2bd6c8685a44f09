//! A change of the kernel's state as a value: built by [`crate::ledger`], carried out by a
//! [`Kernel`](crate::kernel::Kernel), all of it or nothing.

use crate::frontend::Family;
use crate::program::{ChainDef, Program};
use crate::rows::{AffinityRow, Chain, Row, RowKey, SetName};

/// An element of one of our sets that is not a row: somebody else put it there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stray {
    /// The table it is in.
    pub family: Family,
    /// The set it is in.
    pub set: SetName,
    /// Its key as the kernel holds it.
    pub key: Vec<u8>,
    /// The end of its key, in interval sets of concatenations.
    pub key_end: Option<Vec<u8>>,
    /// Whether it is the end mark of an interval.
    pub interval_end: bool,
}

/// What is committed at once, in both families, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Tables to remove, if they are there.
    pub removed_tables: Vec<Family>,
    /// Programs to install; whatever the family's table held is gone with the same commit.
    pub installed: Vec<Program>,
    /// Chains that the added rows need and that do not exist yet, with their families.
    pub new_chains: Vec<(Family, ChainDef)>,
    /// Foreign elements to delete.
    pub strays: Vec<Stray>,
    /// Rows to delete; a changed row is deleted and added.
    pub deleted: Vec<RowKey>,
    /// Rows to add.
    pub added: Vec<Row>,
    /// Remembered clients to forget.
    pub forgotten: Vec<AffinityRow>,
    /// Remembered clients to write, with the time that is left to them.
    pub remembered: Vec<AffinityRow>,
    /// Chains that nothing points at any more.
    pub dead_chains: Vec<(Family, Chain)>,
}

impl Transaction {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.removed_tables.is_empty()
            && self.installed.is_empty()
            && self.new_chains.is_empty()
            && self.strays.is_empty()
            && self.deleted.is_empty()
            && self.added.is_empty()
            && self.forgotten.is_empty()
            && self.remembered.is_empty()
            && self.dead_chains.is_empty()
    }

    /// Set elements that the kernel is asked to add or delete.
    pub fn element_operations(&self) -> usize {
        self.strays.len()
            + self.deleted.len()
            + self.added.len()
            + self.forgotten.len()
            + self.remembered.len()
    }
}
