//! A transaction carried out part by part, and taken back if a part is refused.

use nix::libc::ENOENT;

use super::FakeKernel;
use super::table::Table;
use crate::frontend::Family;
use crate::kernel::{Change, Refusal};
use crate::program::ChainDef;
use crate::rows::{AffinityRow, Chain, Row, RowKey};
use crate::transaction::{Stray, Transaction};

/// How to take back a change of a transaction that fails later on.
pub(super) enum Undo {
    Nothing,
    Table(Family, Option<Table>),
    AddedChain(Family, Chain),
    RemovedChain(Family, ChainDef),
    Added(RowKey),
    Deleted(Row),
    Remembered(AffinityRow),
    Forgot(AffinityRow),
    Stray(Stray),
}

impl FakeKernel {
    /// Carries out all parts in order, as the kernel does, and collects what it refuses.
    pub(super) fn apply(&mut self, transaction: &Transaction) -> (Vec<Undo>, Vec<Refusal>) {
        let mut batch = Batch { kernel: self, undo: Vec::new(), refusals: Vec::new() };
        batch.tables(transaction);
        batch.chains_and_strays(transaction);
        batch.rows(transaction);
        batch.clients(transaction);
        for &(family, chain) in &transaction.dead_chains {
            batch.part(Change::Chain(family, chain.to_string()), |kernel| {
                let removed = kernel.existing(family)?.remove_chain(chain)?;
                Ok(Undo::RemovedChain(family, removed))
            });
        }
        (batch.undo, batch.refusals)
    }

    pub(super) fn take_back(&mut self, undo: Vec<Undo>) {
        for step in undo.into_iter().rev() {
            self.take_back_one(step);
        }
    }

    fn take_back_one(&mut self, step: Undo) {
        let family = match &step {
            Undo::Nothing => return,
            Undo::Table(family, _)
            | Undo::AddedChain(family, _)
            | Undo::RemovedChain(family, _) => *family,
            Undo::Added(key) => key.family(),
            Undo::Deleted(row) => row.key.family(),
            Undo::Remembered(row) | Undo::Forgot(row) => row.frontend.family(),
            Undo::Stray(stray) => stray.family,
        };
        if let Undo::Table(_, table) = step {
            *self.slot(family) = table;
            return;
        }
        let Some(table) = self.table_mut(family) else { return };
        match step {
            Undo::Nothing | Undo::Table(..) => {}
            Undo::AddedChain(_, chain) => table.take_chain(chain),
            Undo::RemovedChain(_, chain) => table.put_chain(chain),
            Undo::Added(key) => {
                table.take_row(&key);
            }
            Undo::Deleted(row) => table.put_row(row),
            Undo::Remembered(row) => {
                table.clients.remove(&(row.frontend, row.client));
            }
            Undo::Forgot(row) => {
                table.clients.insert((row.frontend, row.client), row);
            }
            Undo::Stray(stray) => {
                table.strays.insert(stray);
            }
        }
    }
}

/// A transaction on its way.
struct Batch<'a> {
    kernel: &'a mut FakeKernel,
    undo: Vec<Undo>,
    refusals: Vec<Refusal>,
}

impl Batch<'_> {
    fn part(&mut self, change: Change, act: impl FnOnce(&mut FakeKernel) -> Result<Undo, i32>) {
        match act(self.kernel) {
            Ok(undo) => self.undo.push(undo),
            Err(errno) => self.refusals.push(Refusal { change, errno }),
        }
    }

    fn tables(&mut self, transaction: &Transaction) {
        for &family in &transaction.removed_tables {
            self.undo.push(Undo::Table(family, self.kernel.slot(family).take()));
        }
        for program in &transaction.installed {
            let family = program.family();
            let old = self.kernel.slot(family).replace(Table::new(program.clone()));
            self.undo.push(Undo::Table(family, old));
        }
    }

    fn chains_and_strays(&mut self, transaction: &Transaction) {
        for (family, chain) in &transaction.new_chains {
            let family = *family;
            self.part(Change::Chain(family, chain.name.to_string()), |kernel| {
                let name = kernel.existing(family)?.add_chain(chain)?;
                Ok(Undo::AddedChain(family, name))
            });
        }
        for stray in &transaction.strays {
            self.part(Change::Stray(stray.clone()), |kernel| {
                let there = kernel.existing(stray.family)?.strays.take(stray);
                there.map(Undo::Stray).ok_or(ENOENT)
            });
        }
    }

    fn rows(&mut self, transaction: &Transaction) {
        for key in &transaction.deleted {
            self.part(Change::Delete(*key), |kernel| {
                let value = kernel.existing(key.family())?.take_row(key).ok_or(ENOENT)?;
                Ok(Undo::Deleted(Row { key: *key, value }))
            });
        }
        for &row in &transaction.added {
            self.part(Change::Add(row), |kernel| {
                if let Some(&errno) = kernel.refused.get(&row.key) {
                    return Err(errno);
                }
                kernel.existing(row.key.family())?.add_row(row)?;
                Ok(Undo::Added(row.key))
            });
        }
    }

    fn clients(&mut self, transaction: &Transaction) {
        for &row in &transaction.forgotten {
            self.part(Change::Affinity(row), |kernel| {
                let clients = &mut kernel.existing(row.frontend.family())?.clients;
                // Clients are forgotten by themselves when their time is up.
                let there = clients.remove(&(row.frontend, row.client));
                Ok(there.map_or(Undo::Nothing, Undo::Forgot))
            });
        }
        for &row in &transaction.remembered {
            self.part(Change::Affinity(row), |kernel| {
                kernel.existing(row.frontend.family())?.remember(row)?;
                Ok(Undo::Remembered(row))
            });
        }
    }
}
