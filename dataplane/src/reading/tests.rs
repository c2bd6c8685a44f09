#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::net::IpAddr;

use super::*;
use crate::fake::FakeKernel;
use crate::frontend::{Endpoint, Family, Frontend, Protocol};
use crate::kernel::Kernel;
use crate::ledger::Ledger;
use crate::program::ProgramConfig;
use crate::rows::{AffinityRow, RowKey, Slot, Verdict};
use crate::transaction::Stray;
use crate::walk::Rows;

fn web() -> Frontend {
    Frontend { address: IpAddr::from([10, 96, 0, 1]), protocol: Protocol::Tcp, port: 80 }
}

fn backend(slot: Slot, pod: u8) -> Row {
    let address = IpAddr::from([10, 244, 1, pod]);
    Row::backend(web(), slot, Endpoint { address, port: 8080 })
}

/// A ledger in step with its kernel: a Service with two endpoints.
struct World {
    ledger: Ledger,
    kernel: FakeKernel,
}

impl World {
    fn new() -> Self {
        let programs = Family::ALL.map(|family| Program::new(family, &ProgramConfig::default()));
        let mut world = Self { ledger: Ledger::new(programs.to_vec()), kernel: FakeKernel::new() };
        world.ledger.put(Row::service(web(), Verdict::Goto(Chain::Pick(2))));
        world.ledger.put(backend(0, 1));
        world.ledger.put(backend(1, 2));
        world.commit();
        world
    }

    fn commit(&mut self) {
        let transaction = self.ledger.transaction();
        self.kernel.commit(&transaction).unwrap();
        self.ledger.committed(&transaction);
    }

    fn sweep(&mut self) {
        let transaction = self.ledger.sweep();
        assert!(!transaction.is_empty());
        self.kernel.commit(&transaction).unwrap();
        self.ledger.committed(&transaction);
    }
}

/// Gives these passes.
struct Script(VecDeque<Pass>);

impl Script {
    fn of<const N: usize>(passes: [(KernelState, bool); N]) -> Self {
        Self(passes.map(|(state, exact)| Pass { state, exact }).into())
    }
}

impl Reader for Script {
    fn pass(&mut self) -> Result<Pass, KernelError> {
        self.0.pop_front().ok_or(KernelError::Torn(0))
    }

    fn clients(&mut self, _: Family) -> Result<Vec<AffinityRow>, KernelError> {
        Ok(Vec::new())
    }
}

fn without(mut state: KernelState, key: RowKey) -> KernelState {
    state.v4.as_mut().unwrap().rows.retain(|row| row.key != key);
    state
}

fn change_rows(world: &mut World) {
    world.ledger.remove(backend(1, 2).key);
    world.ledger.put(Row::service(web(), Verdict::Goto(Chain::Pick(1))));
    world.ledger.put(backend(0, 3));
    world.commit();
}

#[test]
fn what_is_committed_meanwhile_is_seen_before_or_after_or_half() {
    let mut world = World::new();
    let before = world.kernel.state();
    let reading = world.ledger.begin_reading();
    change_rows(&mut world);
    world.sweep();
    let after = world.kernel.state();
    let half = without(before.clone(), backend(0, 1).key);
    for state in [before, half, after.clone()] {
        let finding = reading.check(&mut Script::of([(state.clone(), false)])).unwrap();
        assert!(matches!(finding, Finding::AsKnown), "{finding:?}");
        let mut picture = reading.picture(&mut Script::of([(state, false)])).unwrap().unwrap();
        reading.amend(&mut picture);
        let mut rows: Vec<Row> = picture.rows().collect();
        rows.sort_unstable();
        assert!(rows.iter().eq(after.rows()), "{rows:?}");
        assert_eq!(picture.table(Family::V4).unwrap().chains, after.v4.as_ref().unwrap().chains);
    }
}

/// The hash of a row has to be a strong one for this.
#[test]
fn two_rows_that_have_swapped_their_values_are_noticed() {
    let mut world = World::new();
    let mut state = world.kernel.state();
    let rows = &mut state.v4.as_mut().unwrap().rows;
    for row in rows.iter_mut() {
        match row.key {
            key if key == backend(0, 0).key => *row = backend(0, 2),
            key if key == backend(1, 0).key => *row = backend(1, 1),
            _ => {}
        }
    }
    assert_ne!(state, world.kernel.state());
    let reading = world.ledger.begin_reading();
    let finding = reading.check(&mut Script::of([(state, true)])).unwrap();
    let Finding::Other(picture) = finding else { panic!("{finding:?}") };
    assert_eq!(picture.row(&backend(0, 0).key), Some(backend(0, 2).value));
}

/// The kernel does that after a bulk load, and when rows come and go beside a dump.
#[test]
fn what_a_pass_leaves_out_or_gives_twice_is_no_deviation() {
    let mut world = World::new();
    let whole = world.kernel.state();
    let mut first = without(whole.clone(), backend(0, 0).key);
    let again = *first.rows().next().unwrap();
    first.v4.as_mut().unwrap().rows.push(again);
    let second = without(whole, backend(1, 0).key);
    let reading = world.ledger.begin_reading();
    let finding = reading.check(&mut Script::of([(first, false), (second, false)])).unwrap();
    assert!(matches!(finding, Finding::AsKnown), "{finding:?}");
}

#[test]
fn what_no_pass_has_found_is_missing_for_sure_only_if_one_is_exact() {
    let mut world = World::new();
    let key = backend(0, 0).key;
    let state = without(world.kernel.state(), key);
    let reading = world.ledger.begin_reading();
    let passes = || [false; 4].map(|exact| (state.clone(), exact));
    let finding = reading.check(&mut Script::of(passes())).unwrap();
    assert!(matches!(finding, Finding::Unsure), "{finding:?}");
    assert!(reading.picture(&mut Script::of(passes())).unwrap().is_none());
    let two = [(state.clone(), false), (state, true)];
    let finding = reading.check(&mut Script::of(two)).unwrap();
    assert!(matches!(finding, Finding::Other(_)), "{finding:?}");
}

#[test]
fn every_kind_of_deviation_is_found() {
    let mut world = World::new();
    let changes: [fn(&mut KernelState); 6] = [
        |state| drop(state.v6.take()),
        |state| state.v4.as_mut().unwrap().damage.push("a rule differs".to_owned()),
        |state| state.v4.as_mut().unwrap().identity = Some("another".to_owned()),
        |state| state.v4.as_mut().unwrap().chains.clear(),
        |state| state.v4.as_mut().unwrap().rows.push(backend(7, 7)),
        |state| {
            let set = crate::rows::SetName::Backends;
            let (family, key) = (Family::V4, vec![1]);
            let stray = Stray { family, set, key, key_end: None, interval_end: false };
            state.v4.as_mut().unwrap().strays.push(stray);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut state = world.kernel.state();
        change(&mut state);
        let reading = world.ledger.begin_reading();
        let finding = reading.check(&mut Script::of([(state, true)])).unwrap();
        assert!(matches!(finding, Finding::Other(_)), "{number}: {finding:?}");
    }
}

/// A table of a family that is switched off is nobody's business.
#[test]
fn a_family_without_a_program_is_not_compared() {
    let programs = vec![Program::new(Family::V6, &ProgramConfig::default())];
    let both = World::new().kernel.state();
    let mut ledger = Ledger::new(programs);
    ledger.read_back(both.clone().into());
    let reading = ledger.begin_reading();
    let finding = reading.check(&mut Script::of([(both, true)])).unwrap();
    assert!(matches!(finding, Finding::AsKnown), "{finding:?}");
}

/// What a table held before its program was installed went with it.
#[test]
fn a_program_installed_meanwhile_leaves_nothing_of_the_table_before() {
    let mut world = World::new();
    let before = world.kernel.state();
    let mut damaged = before.clone();
    damaged.v4.as_mut().unwrap().damage.push("a rule differs".to_owned());
    let reading = world.ledger.begin_reading();
    assert_eq!(world.ledger.read_back(damaged.clone().into()), 4, "the program and its rows");
    world.ledger.remove(backend(1, 2).key);
    world.ledger.put(Row::service(web(), Verdict::Goto(Chain::Pick(1))));
    world.commit();
    let mut picture = reading.picture(&mut Script::of([(damaged, false)])).unwrap().unwrap();
    reading.amend(&mut picture);
    let mut rows: Vec<Row> = picture.rows().collect();
    rows.sort_unstable();
    assert!(rows.iter().eq(world.kernel.state().rows()), "{rows:?}");
    assert!(picture.table(Family::V4).unwrap().damage.is_empty());
    assert!(reading.is_overtaken());
}

#[test]
fn a_reading_that_is_given_up_is_not_kept_up() {
    let mut world = World::new();
    let reading = world.ledger.begin_reading();
    let notes = Arc::downgrade(&reading.notes);
    drop(reading);
    assert!(notes.upgrade().is_none());
    change_rows(&mut world);
    assert_eq!(notes.weak_count(), 0, "the ledger has let go of it");
}
