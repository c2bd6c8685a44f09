//! A kernel in memory that obeys the same rules as the real one: all of a transaction or nothing,
//! the same errors, the same state to read back. For tests and for work without a kernel.
//!
//! It can be told to fail, it can be changed by "somebody else", and packets can be
//! [walked](FakeKernel::walk) through what it holds.

mod batch;
mod conntrack;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::libc::{ENOBUFS, ENOENT};

use crate::frontend::Family;
use crate::kernel::{Committed, Kernel, KernelError, KernelState, Pass, ReadBeside, Reader};
use crate::program::Program;
use crate::rows::{AffinityRow, Row, RowKey, RowValue};
use crate::transaction::{Stray, Transaction};
use crate::walk::{self, Node, Outcome, Packet, Walk};
pub use conntrack::{FakeConntrack, FakeFlows};
use table::Table;

/// The kernel in memory.
#[derive(Debug, Default)]
pub struct FakeKernel {
    v4: Option<Table>,
    v6: Option<Table>,
    node: Node,
    refused: BTreeMap<RowKey, i32>,
    failing_sockets: u32,
    lost_answers: u32,
    without_rights: bool,
    commits: usize,
    attempts: usize,
    elements: usize,
    last: Transaction,
}

/// A change that does not come from us.
#[derive(Debug, Clone)]
pub enum Tampering {
    /// A row is written, over the one with the same key if there is one.
    Write(Row),
    /// A row is deleted.
    Delete(RowKey),
    /// An element that is not a row is added.
    Stray(Stray),
    /// The fixed program is changed, in words.
    Damage(Family, String),
    /// The table's comment says this.
    Identity(Family, Option<String>),
    /// The table is deleted.
    DropTable(Family),
}

impl FakeKernel {
    /// An empty kernel on a node without addresses of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the node addresses, for [`Self::walk`].
    pub fn set_node(&mut self, node: Node) {
        self.node = node;
    }

    /// From now on writing a row with that key is answered with `errno`.
    pub fn refuse(&mut self, key: RowKey, errno: i32) {
        self.refused.insert(key, errno);
    }

    /// Takes back all [refusals](Self::refuse).
    pub fn refuse_nothing(&mut self) {
        self.refused.clear();
    }

    /// The next `count` commits end with a socket error before the kernel sees them.
    pub fn fail_sockets(&mut self, count: u32) {
        self.failing_sockets = count;
    }

    /// The next `count` commits are carried out, but the answer is lost in a socket error.
    pub fn lose_answers(&mut self, count: u32) {
        self.lost_answers = count;
    }

    /// Whether commits and reads are answered with [`KernelError::Permission`].
    pub fn without_rights(&mut self, without: bool) {
        self.without_rights = without;
    }

    /// Successful commits that were not empty.
    pub fn commits(&self) -> usize {
        self.commits
    }

    /// Commits asked for, successful or not, that were not empty.
    pub fn attempts(&self) -> usize {
        self.attempts
    }

    /// Elements added and deleted by successful commits.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The last successful transaction that was not empty.
    pub fn last_transaction(&self) -> &Transaction {
        &self.last
    }

    /// The value of a row.
    pub fn row(&self, key: &RowKey) -> Option<RowValue> {
        self.table(key.family())?.rows.get(key).copied()
    }

    /// All rows of both families, sorted.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let tables = self.v4.iter().chain(&self.v6);
        tables.flat_map(|table| table.rows.iter().map(|(&key, &value)| Row { key, value }))
    }

    /// What [`Kernel::read`] answers, without needing rights.
    pub fn state(&self) -> KernelState {
        KernelState {
            v4: self.v4.as_ref().map(Table::state),
            v6: self.v6.as_ref().map(Table::state),
        }
    }

    /// The program that a family's table was installed with.
    pub fn program(&self, family: Family) -> Option<&Program> {
        self.table(family).map(|table| &table.program)
    }

    /// Sends the first packet of a connection through what the kernel holds.
    pub fn walk(&self, packet: &Packet) -> Walk {
        match self.table(Family::of(packet.destination)) {
            Some(table) => walk::walk(&table.program, table, &self.node, packet),
            None => Walk { outcome: Outcome::Passed, steps: Vec::new() },
        }
    }

    /// Remembers a client as the kernel does by itself when a packet passes a `learn` chain.
    /// Without a table nothing is remembered.
    pub fn learn(&mut self, row: AffinityRow) {
        if let Some(table) = self.table_mut(row.frontend.family()) {
            table.clients.insert((row.frontend, row.client), row);
        }
    }

    /// Changes the state behind our back; neither counted nor checked. What concerns a table that
    /// is not there changes nothing.
    pub fn tamper(&mut self, what: Tampering) {
        match what {
            Tampering::Write(row) => {
                if let Some(table) = self.table_mut(row.key.family()) {
                    table.take_row(&row.key);
                    table.put_row(row);
                }
            }
            Tampering::Delete(key) => {
                if let Some(table) = self.table_mut(key.family()) {
                    table.take_row(&key);
                }
            }
            Tampering::Stray(stray) => {
                if let Some(table) = self.table_mut(stray.family) {
                    table.strays.insert(stray);
                }
            }
            Tampering::Damage(family, words) => {
                if let Some(table) = self.table_mut(family) {
                    table.damage.push(words);
                }
            }
            Tampering::Identity(family, identity) => {
                if let Some(table) = self.table_mut(family) {
                    table.identity = identity;
                }
            }
            Tampering::DropTable(family) => *self.slot(family) = None,
        }
    }

    fn table(&self, family: Family) -> Option<&Table> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    fn slot(&mut self, family: Family) -> &mut Option<Table> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    fn table_mut(&mut self, family: Family) -> Option<&mut Table> {
        self.slot(family).as_mut()
    }

    /// The table of that family, or the error of a real kernel if there is none.
    fn existing(&mut self, family: Family) -> Result<&mut Table, i32> {
        self.table_mut(family).ok_or(ENOENT)
    }
}

impl Kernel for FakeKernel {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, KernelError> {
        if transaction.is_empty() {
            return Ok(Committed::default());
        }
        self.attempts += 1;
        if self.without_rights {
            return Err(KernelError::Permission);
        }
        if self.failing_sockets > 0 {
            self.failing_sockets -= 1;
            return Err(KernelError::Socket(io::Error::from_raw_os_error(ENOBUFS)));
        }
        let (undo, refusals) = self.apply(transaction);
        if !refusals.is_empty() {
            self.take_back(undo);
            return Err(KernelError::Refused(refusals));
        }
        let elements = transaction.element_operations();
        self.commits += 1;
        self.elements += elements;
        self.last = transaction.clone();
        if self.lost_answers > 0 {
            self.lost_answers -= 1;
            return Err(KernelError::Socket(io::Error::from(io::ErrorKind::ConnectionReset)));
        }
        Ok(Committed { elements, messages: elements, bytes: 0 })
    }

    fn read(&mut self) -> Result<KernelState, KernelError> {
        if self.without_rights { Err(KernelError::Permission) } else { Ok(self.state()) }
    }

    fn read_affinity(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        if self.without_rights {
            return Err(KernelError::Permission);
        }
        Ok(self
            .table(family)
            .map(|table| table.clients.values().copied().collect())
            .unwrap_or_default())
    }
}

/// One fake kernel in several hands: given to the code under test and looked at by the test.
#[derive(Debug, Clone, Default)]
pub struct SharedKernel(Arc<Mutex<FakeKernel>>);

impl SharedKernel {
    /// Shares `kernel`.
    pub fn new(kernel: FakeKernel) -> Self {
        Self(Arc::new(Mutex::new(kernel)))
    }

    /// The kernel, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, FakeKernel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel for SharedKernel {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, KernelError> {
        self.lock().commit(transaction)
    }

    fn read(&mut self) -> Result<KernelState, KernelError> {
        self.lock().read()
    }

    fn read_affinity(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        self.lock().read_affinity(family)
    }
}

impl ReadBeside for SharedKernel {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(self.clone())
    }
}

impl Reader for SharedKernel {
    fn pass(&mut self) -> Result<Pass, KernelError> {
        Ok(Pass { state: self.lock().read()?, exact: true })
    }

    fn clients(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        self.lock().read_affinity(family)
    }
}
