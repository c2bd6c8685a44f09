//! Readings beside commits and beside others, in any order, over a kernel that gives only a part of
//! what it holds while it changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};

use proptest::prelude::*;
use rustc_hash::FxBuildHasher;
use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel, Tampering};
use sliceproxy_dataplane::frontend::Endpoint;
use sliceproxy_dataplane::kernel::{KernelState, Pass, Reader, TableState};
use sliceproxy_dataplane::rows::{AffinityRow, Chain, RowValue};

use super::tests::{frontend, slice, started};
use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// A Service gets other endpoints, and that is committed.
    Change(u8, Vec<u8>),
    /// Unused chains go.
    Sweep,
    /// Somebody else does something.
    Tamper(Mischief),
}

#[derive(Debug, Clone)]
enum Mischief {
    /// A row is deleted: one of those that are there.
    Delete(prop::sample::Index),
    /// The value of one row becomes that of another one.
    Copy(prop::sample::Index, prop::sample::Index),
    /// A slot that nobody asked for.
    Surplus(u32),
    Damage,
    DropTable,
}

fn change() -> impl Strategy<Value = Step> {
    let endpoints = prop::collection::btree_set(1u8..9, 0..6);
    prop_oneof![
        8 => (1u8..3, endpoints).prop_map(|(n, set)| Step::Change(n, set.into_iter().collect())),
        1 => Just(Step::Sweep),
    ]
}

fn mischief() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    let mischief = prop_oneof![
        3 => index().prop_map(Mischief::Delete),
        2 => (index(), index()).prop_map(|(a, b)| Mischief::Copy(a, b)),
        2 => (6u32..9).prop_map(Mischief::Surplus),
        1 => Just(Mischief::Damage),
        1 => Just(Mischief::DropTable),
    ];
    mischief.prop_map(Step::Tamper)
}

/// What happens before a reading, during each of its passes, and until its end is known.
type Round = (Vec<Step>, Vec<Vec<Step>>, Vec<Step>);

fn rounds(step: impl Strategy<Value = Step> + Clone) -> impl Strategy<Value = Vec<Round>> {
    let steps = prop::collection::vec(step, 0..4);
    let passes = prop::collection::vec(steps.clone(), 0..5);
    prop::collection::vec((steps.clone(), passes, steps), 1..3)
}

/// An engine and its kernel.
struct World {
    engine: Engine<SharedKernel>,
    kernel: SharedKernel,
    /// Repairs so far.
    repairs: u32,
}

impl World {
    fn new() -> Self {
        let kernel = SharedKernel::new(FakeKernel::new());
        Self { engine: started(kernel.clone()), kernel, repairs: 0 }
    }

    fn sync(&mut self) {
        self.repairs += u32::from(self.engine.sync().unwrap().repaired);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Change(service, endpoints) => {
                self.engine.apply(slice(*service, endpoints));
                self.sync();
            }
            // After mischief, the kernel may refuse.
            Step::Sweep => drop(self.engine.sweep()),
            Step::Tamper(mischief) => tamper(&mut self.kernel.lock(), mischief),
        }
    }

    fn take_all(&mut self, steps: &[Step]) {
        for step in steps {
            self.take(step);
        }
    }

    /// What the driver and its reading thread do together.
    fn look(&mut self, passes: &[Vec<Step>], then: &[Step]) -> Finding {
        let reading = self.engine.begin_reading();
        let mut reader = Patchy { world: self, passes: passes.iter(), number: 0 };
        let finding = reading.check(&mut reader).unwrap();
        let told = match &finding {
            Finding::Other(picture) => Finding::Other(picture.clone()),
            Finding::AsKnown => Finding::AsKnown,
            Finding::Unsure => Finding::Unsure,
        };
        self.take_all(then);
        if self.engine.take_finding(&reading, finding) {
            self.sync();
        }
        told
    }

    fn is_in_step(&self) -> bool {
        let kernel = self.kernel.lock();
        let held: BTreeSet<Row> = kernel.rows().collect();
        let desired: BTreeSet<Row> = self.engine.ledger().desired_rows().collect();
        let state = kernel.state();
        let whole = |family| state.table(family).is_some_and(|table| table.damage.is_empty());
        held == desired && Family::ALL.into_iter().all(whole)
    }
}

fn tamper(kernel: &mut FakeKernel, mischief: &Mischief) {
    let rows: Vec<Row> = kernel.rows().collect();
    let what = match mischief {
        Mischief::Delete(index) if !rows.is_empty() => Tampering::Delete(index.get(&rows).key),
        Mischief::Copy(to, from) if !rows.is_empty() => {
            let (to, from) = (to.get(&rows), from.get(&rows));
            if to.key.set() != from.key.set() {
                return;
            }
            Tampering::Write(Row { key: to.key, value: from.value })
        }
        Mischief::Surplus(slot) => {
            let endpoint = rows.iter().find_map(|row| match row.value {
                RowValue::Endpoint(endpoint) => Some(endpoint),
                _ => None,
            });
            let Some(endpoint) = endpoint else { return };
            Tampering::Write(Row::backend(frontend(1), *slot, endpoint))
        }
        Mischief::Damage => Tampering::Damage(Family::V6, "a rule is missing".to_owned()),
        Mischief::DropTable => Tampering::DropTable(Family::V4),
        Mischief::Delete(_) | Mischief::Copy(..) => return,
    };
    kernel.tamper(what);
}

/// Reads while the world goes on. Of each thing it has the state before or after that, now the one
/// and now the other, and some that are there all the time it leaves out or gives twice.
struct Patchy<'a> {
    world: &'a mut World,
    passes: std::slice::Iter<'a, Vec<Step>>,
    number: usize,
}

impl Patchy<'_> {
    fn luck(&self, thing: &impl Hash) -> u64 {
        FxBuildHasher.hash_one((self.number, thing)) >> 32
    }

    fn mixed(&self, before: &TableState, after: &TableState) -> TableState {
        let by_key = |state: &TableState| -> BTreeMap<RowKey, RowValue> {
            state.rows.iter().map(|row| (row.key, row.value)).collect()
        };
        let (old, new) = (by_key(before), by_key(after));
        let keys: BTreeSet<RowKey> = old.keys().chain(new.keys()).copied().collect();
        let mut rows = Vec::new();
        for key in keys {
            let (was, is) = (old.get(&key), new.get(&key));
            let value = if self.luck(&key).is_multiple_of(2) { was } else { is };
            let times = match self.luck(&(key, "times")) % 8 {
                _ if was != is => 1,
                0 => 0,
                1 => 2,
                _ => 1,
            };
            rows.extend(value.into_iter().flat_map(|v| vec![Row { key, value: *v }; times]));
        }
        let chains: BTreeSet<Chain> = before.chains.union(&after.chains).copied().collect();
        let chains = chains.into_iter().filter(|chain| {
            let kept = before.chains.contains(chain) && after.chains.contains(chain);
            let out_of = if kept { 8 } else { 2 };
            !self.luck(chain).is_multiple_of(out_of)
        });
        TableState { rows, chains: chains.collect(), ..after.clone() }
    }
}

impl Reader for Patchy<'_> {
    fn pass(&mut self) -> Result<Pass, KernelError> {
        self.number += 1;
        let before = self.world.kernel.lock().state();
        let steps = self.passes.next().map(Vec::as_slice).unwrap_or_default();
        self.world.take_all(steps);
        let after = self.world.kernel.lock().state();
        if steps.is_empty() {
            return Ok(Pass { state: after, exact: true });
        }
        let mix = |family| match (before.table(family), after.table(family)) {
            (Some(before), Some(after)) => Some(self.mixed(before, after)),
            (_, after) => after.cloned(),
        };
        let state = KernelState { v4: mix(Family::V4), v6: mix(Family::V6) };
        Ok(Pass { state, exact: false })
    }

    fn clients(&mut self, _: Family) -> Result<Vec<AffinityRow>, KernelError> {
        Ok(Vec::new())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn our_own_commits_are_never_taken_for_those_of_others(rounds in rounds(change().boxed())) {
        let mut world = World::new();
        let before = world.repairs;
        for (steps, passes, then) in &rounds {
            world.take_all(steps);
            let finding = world.look(passes, then);
            prop_assert!(!matches!(finding, Finding::Other(_)), "{finding:?}");
            if passes.len() < 4 || passes.iter().any(Vec::is_empty) {
                prop_assert!(matches!(finding, Finding::AsKnown), "{finding:?}");
            }
        }
        prop_assert_eq!(world.repairs, before);
        prop_assert!(world.is_in_step());
    }

    /// While somebody meddles, each look may come too early; the one after that finds all of it.
    #[test]
    fn whatever_others_do_the_next_look_undoes(
        rounds in rounds(prop_oneof![3 => change(), 2 => mischief()].boxed()),
    ) {
        let mut world = World::new();
        for (steps, passes, then) in &rounds {
            world.take_all(steps);
            world.look(passes, then);
        }
        world.look(&[], &[]);
        prop_assert!(world.is_in_step());
        prop_assert!(matches!(world.look(&[], &[]), Finding::AsKnown));
    }
}

/// What an engine does that has lost an answer, and with it a part of what it knew.
fn lose_an_answer(world: &mut World) {
    world.kernel.lock().lose_answers(1);
    world.engine.apply(slice(1, &[7, 8]));
    world.engine.sync().unwrap_err();
}

#[test]
fn a_look_is_void_when_the_kernel_has_been_read_back_since() {
    let mut world = World::new();
    let reading = world.engine.begin_reading();
    let picture = world.engine.picture().unwrap();
    lose_an_answer(&mut world);
    world.sync();
    assert!(!world.engine.take_finding(&reading, Finding::Other(Box::new(picture))));
    assert!(!world.engine.is_read_back_due());
    assert!(world.is_in_step());
}

#[test]
fn a_look_does_not_replace_the_reading_back_that_a_lost_answer_makes_due() {
    let mut world = World::new();
    let reading = world.engine.begin_reading();
    let picture = world.engine.picture().unwrap();
    lose_an_answer(&mut world);
    let attempts = world.kernel.lock().attempts();
    assert!(world.engine.take_finding(&reading, Finding::Other(Box::new(picture))));
    world.sync();
    assert!(world.is_in_step());
    assert_eq!(world.kernel.lock().attempts(), attempts, "it was written once already");
}

#[test]
fn a_repair_undoes_no_commit_that_the_look_did_not_see() {
    let mut world = World::new();
    let victim = Row::backend(frontend(2), 0, Endpoint { address: [10, 9, 9, 9].into(), port: 1 });
    world.kernel.lock().tamper(Tampering::Write(victim));
    let reading = world.engine.begin_reading();
    let picture = world.engine.picture().unwrap();
    world.take(&Step::Change(1, vec![7]));
    let attempts = world.kernel.lock().attempts();
    assert!(world.engine.take_finding(&reading, Finding::Other(Box::new(picture))));
    world.sync();
    assert!(world.is_in_step());
    assert_eq!(world.kernel.lock().attempts(), attempts + 1, "the repair, refused by nobody");
    assert_eq!(world.kernel.lock().last_transaction().element_operations(), 2);
}
