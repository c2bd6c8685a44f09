//! What the kernel is known to hold, as one number, and what has changed since somebody began to
//! read it. Costs a change what it changes.
//!
//! The number is the sum of a hash of each row and chain, so that it does not depend on their order,
//! and one that comes or goes is added or taken off. The hash has to be a strong one with a key: the
//! sums of weak ones are equal when two rows have swapped their values.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::frontend::Family;
use crate::kernel::TableState;
use crate::picture::Picture;
use crate::program::Program;
use crate::rows::{Chain, Row, RowKey, RowValue};
use crate::transaction::{Stray, Transaction};

/// A sum of hashes. Two states that differ have the same one once in 2⁶⁴ times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    key: RandomState,
    value: u64,
}

impl Sum {
    /// The sum of nothing, with the same key.
    pub(crate) fn empty(&self) -> Self {
        Self { key: self.key.clone(), value: 0 }
    }

    pub(crate) fn add(&mut self, item: &impl Hash) {
        self.value = self.value.wrapping_add(self.key.hash_one(item));
    }

    fn take_off(&mut self, item: &impl Hash) {
        self.value = self.value.wrapping_sub(self.key.hash_one(item));
    }

    /// Whether both are sums of the same. They must have the same key.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// What the kernel is known to hold.
#[derive(Debug, Default)]
pub(crate) struct Known {
    sum: Sum,
    /// Whoever is reading just now; those who gave up are gone.
    readings: Vec<Weak<Notes>>,
}

impl Known {
    /// From now on, all changes are noted for as long as the notes are held.
    pub(crate) fn take_notes(&mut self) -> Arc<Notes> {
        let meanwhile = Meanwhile { sum: self.sum.clone(), ..Meanwhile::default() };
        let notes = Arc::new(Notes(Mutex::new(meanwhile)));
        self.readings.push(Arc::downgrade(&notes));
        notes
    }

    /// The kernel has been read back, and holds these.
    pub(crate) fn replace<'a>(
        &mut self,
        rows: impl Iterator<Item = Row>,
        chains: impl Iterator<Item = &'a (Family, Chain)>,
    ) {
        let mut sum = self.sum.empty();
        rows.for_each(|row| sum.add(&row));
        chains.for_each(|chain| sum.add(chain));
        self.sum = sum;
        let sum = &self.sum;
        tell(&mut self.readings, |meanwhile| {
            meanwhile.read_back = true;
            meanwhile.sum.clone_from(sum);
        });
    }

    /// The kernel has carried out `transaction`; `before` is what it held for the keys of deleted rows.
    pub(crate) fn committed(
        &mut self,
        transaction: &Transaction,
        before: impl Fn(&RowKey) -> Option<RowValue>,
    ) {
        for key in &transaction.deleted {
            if let Some(value) = before(key) {
                self.sum.take_off(&Row { key: *key, value });
            }
        }
        transaction.added.iter().for_each(|row| self.sum.add(row));
        transaction.dead_chains.iter().for_each(|chain| self.sum.take_off(chain));
        new_chains(transaction).for_each(|chain| self.sum.add(&chain));
        let sum = &self.sum;
        tell(&mut self.readings, |meanwhile| meanwhile.note(transaction, sum));
    }
}

fn tell(readings: &mut Vec<Weak<Notes>>, news: impl Fn(&mut Meanwhile)) {
    readings.retain(|notes| {
        let Some(notes) = notes.upgrade() else { return false };
        news(&mut notes.lock());
        true
    });
}

fn new_chains(transaction: &Transaction) -> impl Iterator<Item = (Family, Chain)> + '_ {
    let made = transaction.new_chains.iter();
    made.filter_map(|(family, def)| Some((*family, Chain::parse(&def.name)?)))
}

/// What one reading has to know of commits that it did not see, or not all of.
#[derive(Debug)]
pub(crate) struct Notes(Mutex<Meanwhile>);

impl Notes {
    /// Held for moments only, since commits wait for it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Meanwhile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes since a reading began, and what they have led to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meanwhile {
    /// Of all that the kernel is known to hold now.
    pub(crate) sum: Sum,
    /// Whether the kernel has been read back.
    pub(crate) read_back: bool,
    /// Programs that were installed; nothing is left of what their tables held before.
    pub(crate) installed: BTreeMap<Family, Program>,
    /// Rows that were written, with what they are now.
    pub(crate) rows: FxHashMap<RowKey, Option<RowValue>>,
    /// The same with chains: whether they are there now.
    pub(crate) chains: FxHashMap<(Family, Chain), bool>,
    /// Foreign elements that were deleted.
    pub(crate) strays: FxHashSet<Stray>,
}

impl Meanwhile {
    fn note(&mut self, transaction: &Transaction, sum: &Sum) {
        for program in &transaction.installed {
            let family = program.family();
            self.rows.retain(|key, _| key.family() != family);
            self.chains.retain(|(of, _), _| *of != family);
            self.installed.insert(family, program.clone());
        }
        self.rows.extend(transaction.deleted.iter().map(|key| (*key, None)));
        self.rows.extend(transaction.added.iter().map(|row| (row.key, Some(row.value))));
        self.chains.extend(new_chains(transaction).map(|chain| (chain, true)));
        self.chains.extend(transaction.dead_chains.iter().map(|chain| (*chain, false)));
        self.strays.extend(transaction.strays.iter().cloned());
        self.sum.clone_from(sum);
    }

    /// Makes a picture that was taken meanwhile one of now.
    pub(crate) fn amend(&self, picture: &mut Picture) {
        for (family, program) in &self.installed {
            picture.rows.retain(|key, _| key.family() != *family);
            let identity = Some(program.identity());
            *picture.tables_mut().table_mut(*family) =
                Some(TableState { identity, ..TableState::default() });
        }
        for (key, value) in &self.rows {
            match value {
                // Without its table, which somebody has removed, there is no row.
                Some(value) if picture.table(key.family()).is_some() => {
                    picture.rows.insert(*key, *value);
                }
                _ => drop(picture.rows.remove(key)),
            }
        }
        for (&(family, chain), exists) in &self.chains {
            let Some(table) = picture.tables_mut().table_mut(family) else { continue };
            if *exists {
                table.chains.insert(chain);
            } else {
                table.chains.remove(&chain);
            }
        }
        for family in Family::ALL {
            if let Some(table) = picture.tables_mut().table_mut(family) {
                table.strays.retain(|stray| !self.strays.contains(stray));
            }
        }
    }
}
