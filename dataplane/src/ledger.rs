//! What the kernel should hold, what it is known to hold, and the difference between the two.
//!
//! The difference is kept, not computed: a row whose wish changes is marked together with the value
//! that the kernel has. So a transaction costs what changed, and a change that is taken back before
//! it was sent costs nothing. Marks go only when [`Ledger::committed`] says that the kernel agreed.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::chain_uses::{ChainUses, fallback, with_fallback};
use crate::frontend::Family;
use crate::known::Known;
use crate::picture::Picture;
use crate::program::Program;
use crate::reading::Reading;
use crate::rows::{AffinityRow, Chain, LearnGroup, Row, RowKey, RowValue, Verdict};
use crate::transaction::{Stray, Transaction};
use crate::wishes::Wishes;

/// Marks for which room is kept between transactions.
const MARKS_KEPT: usize = 1_024;

/// A row that the kernel refused and that is left out until its value changes or it is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetAside {
    /// The refused value.
    pub value: RowValue,
    /// The kernel's error number.
    pub errno: i32,
}

/// Desired rows and their difference to the kernel's.
#[derive(Debug, Default)]
pub struct Ledger {
    programs: Vec<Program>,
    wishes: Wishes,
    /// How many more than one asked for a row; it goes with the last of them.
    sharers: FxHashMap<RowKey, u32>,
    /// Rows whose wish differs from what the kernel holds, with what the kernel holds.
    differing: FxHashMap<RowKey, Option<RowValue>>,
    uses: ChainUses,
    /// Chains that the kernel holds.
    existing: BTreeSet<(Family, Chain)>,
    groups: FxHashMap<Chain, LearnGroup>,
    strays: Vec<Stray>,
    to_install: BTreeSet<Family>,
    set_aside: BTreeMap<RowKey, SetAside>,
    forgotten: Vec<AffinityRow>,
    remembered: Vec<AffinityRow>,
    known: Known,
}

impl Ledger {
    /// An empty wish list for tables with these programs. Rows of a family without a program are
    /// not taken: that family is switched off. Nothing is taken for granted about the kernel; until
    /// [`Ledger::read_back`] the programs count as not installed.
    pub fn new(programs: Vec<Program>) -> Self {
        let to_install = programs.iter().map(Program::family).collect();
        Self { programs, to_install, ..Self::default() }
    }

    /// The programs of the tables.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Wants other programs in the tables, of the same families. What the tables hold is to be
    /// compared with them by [`Ledger::read_back`].
    pub fn set_programs(&mut self, programs: Vec<Program>) {
        self.programs = programs;
    }

    /// Wishes for `row`, whoever wished for its key before.
    pub fn put(&mut self, row: Row) {
        self.sharers.remove(&row.key);
        self.set(row.key, Some(row.value));
    }

    /// Takes back the wish for `key`, whoever has it.
    pub fn remove(&mut self, key: RowKey) {
        self.sharers.remove(&key);
        self.set(key, None);
    }

    /// Joins those who wish for `row`, a row that several share. Each takes back its own wish with
    /// [`Ledger::release`].
    pub fn hold(&mut self, row: Row) {
        if self.wishes.get(&row.key).is_some() {
            *self.sharers.entry(row.key).or_default() += 1;
        }
        self.set(row.key, Some(row.value));
    }

    /// Takes back one [`Ledger::hold`].
    pub fn release(&mut self, key: RowKey) {
        match self.sharers.get_mut(&key) {
            None => self.set(key, None),
            Some(1) => drop(self.sharers.remove(&key)),
            Some(sharers) => *sharers -= 1,
        }
    }

    /// Says what [`Chain::LearnGroup`] chains contain, and gives the chain for `group`.
    pub fn learn_chain(&mut self, group: LearnGroup) -> Chain {
        let chain = group.chain();
        if matches!(chain, Chain::LearnGroup(_)) {
            self.groups.insert(chain, group);
        }
        chain
    }

    /// Asks for clients to be forgotten with the next transaction.
    pub fn forget(&mut self, rows: impl IntoIterator<Item = AffinityRow>) {
        self.forgotten.extend(rows);
    }

    /// Asks for clients to be written with the next transaction, after those to be forgotten.
    pub fn remember(&mut self, rows: impl IntoIterator<Item = AffinityRow>) {
        self.remembered.extend(rows);
    }

    /// Takes back what [`Ledger::forget`] or [`Ledger::remember`] asked for the client of `row`: the
    /// kernel refused, because the client's time was up or it was remembered anew meanwhile.
    pub fn drop_client(&mut self, row: &AffinityRow) {
        let same =
            |asked: &AffinityRow| (asked.frontend, asked.client) == (row.frontend, row.client);
        self.forgotten.retain(|asked| !same(asked));
        self.remembered.retain(|asked| !same(asked));
    }

    fn set(&mut self, key: RowKey, after: Option<RowValue>) {
        let family = key.family();
        if !self.programs.iter().any(|program| program.family() == family) {
            return;
        }
        let before = match after {
            Some(value) => self.wishes.insert(key, value),
            None => self.wishes.remove(&key),
        };
        if before == after {
            return;
        }
        self.uses.replace(family, before, after);
        let applied = *self.differing.entry(key).or_insert(before);
        if applied == after {
            self.differing.remove(&key);
        }
        if self.set_aside.get(&key).is_some_and(|aside| Some(aside.value) != after) {
            self.set_aside.remove(&key);
        }
    }

    /// `n`, as long as rows of `family` point at chains for at most `most` different numbers of
    /// endpoints; else the next smaller number that is in use, which is 1 if there is none.
    pub fn affordable(&self, family: Family, n: u32, most: u32) -> u32 {
        self.uses.affordable(family, n, most)
    }

    /// The desired value of `key`.
    pub fn desired(&self, key: &RowKey) -> Option<RowValue> {
        self.wishes.get(key)
    }

    /// All desired rows, in no order.
    pub fn desired_rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.wishes.rows()
    }

    /// The chains that the desired rows point at, with what they fall back to, sorted.
    pub fn desired_chains(&self) -> BTreeSet<(Family, Chain)> {
        self.uses.chains().flat_map(|(family, chain)| with_fallback(family, chain)).collect()
    }

    /// What a learn chain learns for.
    pub fn group(&self, chain: Chain) -> Option<&LearnGroup> {
        self.groups.get(&chain)
    }

    /// Number of desired rows.
    pub fn len(&self) -> usize {
        self.wishes.len()
    }

    /// Whether nothing is desired.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that the kernel refused.
    pub fn set_aside(&self) -> &BTreeMap<RowKey, SetAside> {
        &self.set_aside
    }

    /// Leaves the wish for `key` out of transactions until it changes or is retried.
    pub fn put_aside(&mut self, key: RowKey, errno: i32) {
        if let Some(value) = self.desired(&key) {
            self.set_aside.insert(key, SetAside { value, errno });
        }
    }

    /// Sets aside every row that points at `chain`, which the kernel refused to make.
    pub fn put_chain_aside(&mut self, family: Family, name: &str, errno: i32) {
        let refused: Vec<RowKey> = self
            .differing
            .keys()
            .filter(|key| key.family() == family)
            .filter(|key| match self.desired(key) {
                Some(RowValue::Verdict(Verdict::Goto(chain))) => {
                    with_fallback(family, chain).any(|(_, chain)| chain.to_string() == name)
                }
                _ => false,
            })
            .copied()
            .collect();
        for key in refused {
            self.put_aside(key, errno);
        }
    }

    /// Gives the rows that were set aside another chance.
    pub fn retry_set_aside(&mut self) {
        self.set_aside.clear();
    }

    /// The transaction that makes the kernel hold what is desired.
    pub fn transaction(&self) -> Transaction {
        let mut transaction = Transaction {
            installed: self
                .programs
                .iter()
                .filter(|program| self.to_install.contains(&program.family()))
                .cloned()
                .collect(),
            strays: self.strays.clone(),
            forgotten: self.forgotten.clone(),
            remembered: self.remembered.clone(),
            ..Transaction::default()
        };
        let mut needed = BTreeSet::new();
        for (key, applied) in &self.differing {
            let aside = self.set_aside.contains_key(key);
            if applied.is_some() {
                transaction.deleted.push(*key);
            }
            if let Some(value) = self.desired(key).filter(|_| !aside) {
                transaction.added.push(Row { key: *key, value });
                if let RowValue::Verdict(Verdict::Goto(chain)) = value {
                    needed.extend(with_fallback(key.family(), chain));
                }
            }
        }
        // Sorted, so that equal changes are equal transactions, and an endpoint's rows are together.
        transaction.deleted.sort_unstable();
        transaction.added.sort_unstable();
        for (family, chain) in needed.difference(&self.existing) {
            if let Some(program) = self.programs.iter().find(|p| p.family() == *family) {
                let definition = program.row_chain(*chain, self.groups.get(chain));
                transaction.new_chains.push((*family, definition));
            }
        }
        transaction
    }

    /// The kernel has carried out `transaction`, made by this ledger and not changed since.
    pub fn committed(&mut self, transaction: &Transaction) {
        let before = |key: &RowKey| self.differing.get(key).copied().flatten();
        self.known.committed(transaction, before);
        for program in &transaction.installed {
            self.to_install.remove(&program.family());
        }
        for key in &transaction.deleted {
            // Gone, and wanted again only if it was added in the same transaction or is set aside.
            if self.wishes.get(key).is_some() {
                self.differing.insert(*key, None);
            } else {
                self.differing.remove(key);
            }
        }
        for row in &transaction.added {
            self.differing.remove(&row.key);
        }
        if self.differing.is_empty() {
            // A first load leaves room for all rows.
            self.differing.shrink_to(MARKS_KEPT);
        }
        let made = transaction.new_chains.iter();
        self.existing
            .extend(made.filter_map(|(family, def)| Some((*family, Chain::parse(&def.name)?))));
        for dead in &transaction.dead_chains {
            self.existing.remove(dead);
            if !self.existing.iter().any(|(_, chain)| *chain == dead.1) {
                self.groups.remove(&dead.1);
            }
        }
        self.strays.retain(|stray| !transaction.strays.contains(stray));
        done(&mut self.forgotten, &transaction.forgotten);
        done(&mut self.remembered, &transaction.remembered);
    }

    /// A transaction that removes the chains nothing points at any more; for a quiet moment. Empty
    /// while rows are pending, since those may still point at them.
    pub fn sweep(&self) -> Transaction {
        let mut transaction = Transaction::default();
        if self.differing.is_empty() {
            let used = self.desired_chains();
            transaction.dead_chains = self.existing.difference(&used).copied().collect();
            // Sticky chains go to pick chains, and have to go first.
            transaction.dead_chains.sort_by_key(|(_, chain)| fallback(*chain).is_none());
        }
        transaction
    }

    /// Begins a reading of the kernel beside the commits of this ledger.
    pub fn begin_reading(&mut self) -> Reading {
        Reading::new(self.programs.clone(), self.known.take_notes())
    }

    /// Takes `picture` for what the kernel holds, and marks every difference. Tables that are missing,
    /// damaged or hold another program are to be installed afresh.
    ///
    /// Gives the number of rows, strays and programs of which the kernel holds something else than it
    /// was known to hold: 0 if nobody else changed it.
    pub fn read_back(&mut self, mut picture: Picture) -> usize {
        let known = std::mem::take(&mut self.differing);
        let installing = self.to_install.len();
        self.existing.clear();
        self.strays.clear();
        self.to_install.clear();
        for program in &self.programs {
            let family = program.family();
            match picture.table(family).filter(|table| table.is_whole(program)) {
                Some(table) => {
                    self.existing.extend(table.chains.iter().map(|chain| (family, *chain)));
                    self.strays.extend(table.strays.iter().cloned());
                }
                None => drop(self.to_install.insert(family)),
            }
        }
        self.existing.retain(|(_, chain)| *chain != Chain::RejectNow);
        let whole = |family| {
            let ours = self.programs.iter().any(|program| program.family() == family);
            ours && !self.to_install.contains(&family)
        };
        picture.rows.retain(|key, _| whole(key.family()));
        self.known.replace(picture.rows(), self.existing.iter());
        let mut held = picture.rows;
        for row in self.wishes.rows() {
            let applied = held.remove(&row.key);
            if applied != Some(row.value) {
                self.differing.insert(row.key, applied);
            }
        }
        self.differing.extend(held.into_iter().map(|(key, value)| (key, Some(value))));
        let news = self.differing.iter().filter(|(key, applied)| known.get(key) != Some(applied));
        let gone = known.keys().filter(|key| !self.differing.contains_key(key));
        news.count()
            + gone.count()
            + self.strays.len()
            + self.to_install.len().saturating_sub(installing)
    }

    /// Families whose program is not in the kernel yet.
    pub fn to_install(&self) -> &BTreeSet<Family> {
        &self.to_install
    }
}

/// Takes out of `asked` what was carried out; there may be as many as there are clients.
fn done(asked: &mut Vec<AffinityRow>, carried_out: &[AffinityRow]) {
    let carried_out: FxHashSet<&AffinityRow> = carried_out.iter().collect();
    asked.retain(|row| !carried_out.contains(row));
}
