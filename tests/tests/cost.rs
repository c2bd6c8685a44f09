//! The cost of a change is the change: kernel operations, counted, whatever else there is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sliceproxy::engine::{Engine, Synced};
use sliceproxy::model::Event;
use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_tests::generate;

fn loaded(events: Vec<Event>) -> (Engine<SharedKernel>, SharedKernel) {
    let kernel = SharedKernel::new(FakeKernel::new());
    let mut engine = Engine::new(generate::settings(), kernel.clone()).unwrap();
    for event in events {
        engine.apply(event);
    }
    assert_eq!(engine.sync().unwrap().transactions, 1);
    (engine, kernel)
}

fn after(engine: &mut Engine<SharedKernel>, kernel: &SharedKernel, event: Event) -> Synced {
    let commits = kernel.lock().commits();
    let elements = kernel.lock().elements();
    engine.apply(event);
    let synced = engine.sync().unwrap();
    assert_eq!(kernel.lock().commits() - commits, 1, "one transaction");
    let operations = synced.added.len() + synced.deleted.len();
    assert_eq!(kernel.lock().elements() - elements, operations);
    synced
}

/// (added, deleted) rows when in slice `part` of Service 1 the endpoint `old` is replaced, leaves,
/// and comes back.
fn replace_leave_join(events: Vec<Event>, part: u32, members: &[u32]) -> [(usize, usize); 3] {
    let (mut engine, kernel) = loaded(events);
    let counted = |synced: Synced| (synced.added.len(), synced.deleted.len());
    let mut slice = |numbers: Vec<u32>| {
        let event = Event::Slice(generate::slice(1, part, numbers));
        counted(after(&mut engine, &kernel, event))
    };
    let mut replaced = members.to_vec();
    replaced[0] = 0x00ff_0000;
    let fewer = replaced[1..].to_vec();
    let mut joined = fewer.clone();
    joined.push(0x00ff_0001);
    [slice(replaced), slice(fewer), slice(joined)]
}

#[test]
fn one_endpoint_replaced_leaving_or_joining_costs_its_own_rows_only() {
    let members: Vec<u32> = (10..20).collect();
    for services in [10, 1_000] {
        let [replaced, left, joined] =
            replace_leave_join(generate::cluster(services, 10), 0, &members);
        // A row cannot be changed in place: it is deleted and added.
        assert_eq!(replaced, (1, 1), "{services} Services: the slot");
        assert_eq!(left, (2, 3), "{services} Services: the hole, the last slot, the verdict");
        assert_eq!(joined, (2, 1), "{services} Services: the new slot, the verdict");
    }
}

#[test]
fn the_same_with_one_service_of_a_hundred_thousand_endpoints() {
    let mut slices = generate::slices(0, 0, 10);
    slices.extend(generate::slices(1, 1_000, 100_000));
    let events =
        vec![Event::AllSlices(slices), Event::AllServices((0..2).map(generate::service).collect())];
    let members: Vec<u32> = (1_000 + 50_000..1_000 + 50_100).collect();
    assert_eq!(replace_leave_join(events, 500, &members), [(1, 1), (2, 3), (2, 1)]);
}

/// C12: A, B and A again between two syncs is nothing.
#[test]
fn a_change_that_is_taken_back_costs_nothing() {
    let (mut engine, kernel) = loaded(generate::cluster(10, 10));
    let commits = kernel.lock().commits();
    engine.apply(Event::Slice(generate::slice(1, 0, 10..15)));
    engine.apply(Event::Slice(generate::slice(1, 0, 10..20)));
    let synced = engine.sync().unwrap();
    assert_eq!((synced.transactions, kernel.lock().commits()), (0, commits));
}

#[test]
fn a_slice_that_is_delivered_again_costs_nothing() {
    let (mut engine, kernel) = loaded(generate::cluster(10, 10));
    let commits = kernel.lock().commits();
    for event in generate::cluster(10, 10) {
        engine.apply(event);
    }
    assert_eq!((engine.sync().unwrap().transactions, kernel.lock().commits()), (0, commits));
}
