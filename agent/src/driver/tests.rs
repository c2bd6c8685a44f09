#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::program::ProgramConfig;

use super::*;
use crate::engine::Settings;
use crate::model::{
    Conditions, NodeName, ObjectName, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
};
use sliceproxy_dataplane::frontend::Protocol;

const LIMIT: Duration = Duration::from_secs(20);

enum Seen {
    Synced(Box<Synced>),
    Failed,
}

struct Reporter(Sender<Seen>);

impl Observer<SharedKernel> for Reporter {
    fn synced(&mut self, _: &Engine<SharedKernel>, synced: &Synced, _: Duration) {
        let _ = self.0.send(Seen::Synced(Box::new(synced.clone())));
    }

    fn failed(&mut self, _: &Engine<SharedKernel>, _: &SyncError, _: Duration) {
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
    let settings = Settings {
        node: NodeName::new("n1").unwrap(),
        families: Family::ALL.to_vec(),
        program: ProgramConfig::default(),
        topology_routing: false,
        zone_regions: std::collections::BTreeMap::new(),
    };
    let engine = Engine::new(settings, kernel.clone()).unwrap();
    let (sender, seen) = channel();
    let (handle, _) = start(engine, pace, Reporter(sender)).unwrap();
    (kernel, handle, seen)
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
