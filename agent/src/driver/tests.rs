#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel, Tampering};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::program::ProgramConfig;

use super::gated::GatedKernel;
use super::*;
use crate::engine::Settings;
use crate::model::{
    Conditions, Event, NodeName, ObjectName, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
};
use sliceproxy_dataplane::frontend::Protocol;

const LIMIT: Duration = Duration::from_secs(20);

enum Seen {
    Synced(Box<Synced>),
    Failed,
}

struct Reporter(Sender<Seen>);

impl<K> Observer<K> for Reporter {
    fn synced(&mut self, _: &Engine<K>, synced: &Synced, _: Duration) {
        let _ = self.0.send(Seen::Synced(Box::new(synced.clone())));
    }

    fn failed(&mut self, _: &Engine<K>, _: &SyncError, _: Duration) {
        let _ = self.0.send(Seen::Failed);
    }
}

fn service() -> Event {
    Event::AllServices(vec![Arc::new(Service::new(
        ObjectName::new("shop", "web"),
        vec!["10.96.0.1".parse().unwrap()],
        vec![ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None }],
    ))])
}

fn slice(last_byte: u8) -> Arc<Slice> {
    let conditions = Conditions { ready: true, serving: true, terminating: false };
    Arc::new(Slice {
        name: ObjectName::new("shop", "web-1"),
        service: ObjectName::new("shop", "web"),
        family: Family::V4,
        ports: vec![SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: vec![SliceEndpoint {
            address: [10, 244, 0, last_byte].into(),
            conditions,
            node: None,
            zone: None,
            region: None,
            hints: None,
        }],
        trigger_time: None,
    })
}

fn started(pace: Pace) -> (SharedKernel, Handle<SharedKernel>, Receiver<Seen>) {
    let kernel = SharedKernel::new(FakeKernel::new());
    let (handle, seen) = started_with(kernel.clone(), pace);
    (kernel, handle, seen)
}

fn started_with<K: ReadBeside + 'static>(kernel: K, pace: Pace) -> (Handle<K>, Receiver<Seen>) {
    let settings = Settings {
        node: NodeName::new("n1").unwrap(),
        families: Family::ALL.to_vec(),
        program: ProgramConfig::default(),
        topology_routing: false,
        zone_regions: std::collections::BTreeMap::new(),
    };
    let engine = Engine::new(settings, kernel).unwrap();
    let (sender, seen) = channel();
    let (handle, _) = start(engine, pace, Reporter(sender)).unwrap();
    (handle, seen)
}

fn pace(min_period: Duration) -> Pace {
    Pace { min_period, read_back: LIMIT * 10 }
}

/// Waits until a sync has written something.
fn written(seen: &Receiver<Seen>) -> Synced {
    loop {
        match seen.recv_timeout(LIMIT).expect("nothing was written in time") {
            Seen::Synced(synced) if synced.transactions > 0 => return *synced,
            _ => {}
        }
    }
}

#[test]
fn nothing_is_written_before_both_lists_are_there() {
    let (kernel, handle, seen) = started(pace(Duration::ZERO));
    handle.send(service()).unwrap();
    assert!(matches!(seen.recv_timeout(LIMIT), Ok(Seen::Synced(s)) if s.transactions == 0));
    assert_eq!(kernel.lock().commits(), 0);
    handle.send(Event::AllSlices(vec![slice(1)])).unwrap();
    assert_eq!(written(&seen).transactions, 1);
}

/// C80: a thousand updates, one minimum period: the first goes at once, the rest in one transaction.
#[test]
fn a_burst_within_the_minimum_period_is_one_transaction_and_the_last_state_wins() {
    let (kernel, handle, seen) = started(pace(Duration::from_millis(300)));
    handle.send(service()).unwrap();
    handle.send(Event::AllSlices(vec![slice(1)])).unwrap();
    written(&seen);
    let before = kernel.lock().commits();
    for number in 0..1000u16 {
        handle.send(Event::Slice(slice(u8::try_from(number % 200).unwrap() + 2))).unwrap();
    }
    handle.send(Event::Slice(slice(250))).unwrap();
    let last = written(&seen);
    assert_eq!((last.added.len(), last.deleted.len()), (1, 1));
    assert!(kernel.lock().commits() - before <= 2);
    assert!(last.added.iter().any(|row| row.to_string().contains("10.244.0.250:8080")));
}

#[test]
fn a_failed_commit_is_tried_again_until_it_is_in() {
    let (kernel, handle, seen) = started(pace(Duration::ZERO));
    kernel.lock().fail_sockets(3);
    handle.send(service()).unwrap();
    handle.send(Event::AllSlices(vec![slice(1)])).unwrap();
    let mut failures = 0;
    loop {
        match seen.recv_timeout(LIMIT).expect("neither success nor failure in time") {
            Seen::Failed => failures += 1,
            Seen::Synced(synced) if synced.transactions > 0 => break,
            Seen::Synced(_) => {}
        }
    }
    assert_eq!(failures, 3);
    assert_eq!(kernel.lock().rows().count(), 3);
}

/// Waits until somebody else's work has been undone.
fn repaired(seen: &Receiver<Seen>) {
    while !written(seen).repaired {}
}

/// A driven engine with one endpoint in its kernel, which it is looking at.
fn looking(read_back: Duration) -> (GatedKernel, Handle<GatedKernel>, Receiver<Seen>) {
    let kernel = GatedKernel::default();
    let pace = Pace { min_period: Duration::ZERO, read_back };
    let (handle, seen) = started_with(kernel.clone(), pace);
    handle.send(service()).unwrap();
    handle.send(Event::AllSlices(vec![slice(1)])).unwrap();
    written(&seen);
    handle.distrust().unwrap();
    kernel.await_passes(1);
    (kernel, handle, seen)
}

/// At 500,000 rows, going over them takes seconds.
#[test]
fn changes_do_not_wait_for_a_look_at_the_kernel() {
    let (kernel, handle, seen) = looking(Duration::from_millis(1));
    for last_byte in [2, 3] {
        handle.send(Event::Slice(slice(last_byte))).unwrap();
        assert!(!written(&seen).repaired);
    }
    // What the look has found is older than those changes; nobody takes them for somebody else's.
    kernel.let_pass(1);
    kernel.await_passes(2);
    for event in seen.try_iter() {
        let Seen::Synced(synced) = event else { panic!("a sync has failed") };
        assert_eq!((synced.transactions, synced.repaired), (0, false));
    }
}

#[test]
fn what_others_do_behind_a_look_is_found_by_the_next() {
    let (kernel, handle, seen) = looking(LIMIT * 10);
    let victim = kernel.inner.lock().rows().next().unwrap();
    kernel.inner.lock().tamper(Tampering::Delete(victim.key));
    handle.distrust().unwrap();
    kernel.let_pass(2);
    repaired(&seen);
    assert_eq!(kernel.inner.lock().row(&victim.key), Some(victim.value));
}

#[test]
fn a_repair_does_not_put_off_the_look_at_what_was_done_behind_it() {
    let (kernel, handle, seen) = looking(LIMIT * 10);
    let victims: Vec<_> = kernel.inner.lock().rows().take(2).collect();
    // Two looks: one that is over, and one that sees the first deletion only.
    kernel.inner.lock().tamper(Tampering::Delete(victims[0].key));
    handle.distrust().unwrap();
    kernel.let_pass(1);
    kernel.await_passes(2);
    kernel.inner.lock().tamper(Tampering::Delete(victims[1].key));
    handle.distrust().unwrap();
    kernel.let_pass(2);
    for victim in victims {
        repaired(&seen);
        assert_eq!(kernel.inner.lock().row(&victim.key), Some(victim.value));
    }
}

#[test]
fn a_kernel_that_cannot_be_looked_at_is_read_back_by_the_engine() {
    let (kernel, handle, seen) = looking(LIMIT * 10);
    let victim = kernel.inner.lock().rows().next().unwrap();
    kernel.inner.lock().tamper(Tampering::Delete(victim.key));
    kernel.fail_passes();
    handle.distrust().unwrap();
    repaired(&seen);
}

#[test]
fn both_threads_end_when_nobody_can_talk_to_them() {
    let kernel = GatedKernel::default();
    let (handle, seen) = started_with(kernel.clone(), pace(Duration::ZERO));
    drop(handle);
    assert!(matches!(seen.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected)));
    kernel.await_readers(0);
}
