//! What every kernel must do that can be read while it commits.

use std::sync::mpsc::channel;
use std::thread;

use sliceproxy_dataplane::frontend::{Endpoint, Family};
use sliceproxy_dataplane::kernel::ReadBeside;
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::reading::{Finding, Reading};
use sliceproxy_dataplane::rows::{Chain, Row, RowKey, Verdict};
use sliceproxy_dataplane::transaction::Transaction;
use sliceproxy_dataplane::walk::Rows;

use super::{endpoint, everything, frontend, program};

/// A named case.
pub(crate) type Case = (&'static str, fn(&mut dyn ReadBeside));

/// All cases.
pub(crate) const CASES: &[Case] = &[
    ("a reader finds what there is", same_as_read),
    ("a reader finds remembered clients", clients),
    ("commits beside a reader are never taken for those of others", beside_commits),
    ("what others do is found beside commits", others),
];

/// Endpoints of the Service that changes all the time.
const BUSY: u32 = 8;
/// Rows that never change.
const QUIET: u32 = 4_000;
const LOOKS: usize = 20;

fn same_as_read(kernel: &mut dyn ReadBeside) {
    let mut reader = kernel.reader();
    assert!(reader.pass().unwrap().state.v4.is_none());
    kernel.commit(&everything()).unwrap();
    let pass = reader.pass().unwrap();
    assert!(pass.exact);
    assert_eq!(pass.state, kernel.read().unwrap());
    assert_eq!(pass.state, kernel.reader().pass().unwrap().state, "so does another one");
}

fn clients(kernel: &mut dyn ReadBeside) {
    super::affinity(kernel);
    let mut reader = kernel.reader();
    assert_eq!(reader.clients(Family::V4).unwrap(), []);
    let row = sliceproxy_dataplane::rows::AffinityRow {
        frontend: frontend("10.96.0.1:80"),
        client: [192, 0, 2, 1].into(),
        endpoint: endpoint("10.244.1.5:8080"),
        timeout_ms: 600_000,
        expires_ms: 500_000,
    };
    kernel.commit(&Transaction { remembered: vec![row], ..Transaction::default() }).unwrap();
    let read = reader.clients(Family::V4).unwrap();
    assert_eq!(read.iter().map(|row| row.client).collect::<Vec<_>>(), [row.client]);
}

/// A ledger and a kernel in step with it, with a Service whose endpoints come and go.
struct Busy<'k> {
    kernel: &'k mut dyn ReadBeside,
    ledger: Ledger,
    rounds: u32,
}

impl<'k> Busy<'k> {
    fn start(kernel: &'k mut dyn ReadBeside) -> Self {
        let mut ledger = Ledger::new(Family::ALL.map(program).to_vec());
        (0..QUIET).for_each(|slot| ledger.put(quiet(slot)));
        let mut busy = Self { kernel, ledger, rounds: 0 };
        busy.step();
        busy
    }

    /// Another number of endpoints, and others.
    fn step(&mut self) {
        let web = frontend("10.96.0.2:80");
        let count = self.rounds % BUSY + 1;
        self.rounds += 1;
        self.ledger.put(Row::service(web, Verdict::Goto(Chain::Pick(count))));
        for slot in 0..BUSY {
            let address = [10, 245, u8::try_from(self.rounds % 200).unwrap(), 1].into();
            let row = Row::backend(web, slot, Endpoint { address, port: 80 });
            if slot < count { self.ledger.put(row) } else { self.ledger.remove(row.key) }
        }
        let transaction = self.ledger.transaction();
        self.kernel.commit(&transaction).unwrap();
        self.ledger.committed(&transaction);
    }

    /// Looks so often, while one commit follows the other. What a look is sure of is told as of now: it
    /// may have seen a commit before the ledger knew that it was done.
    fn look(&mut self, times: usize) -> Vec<Finding> {
        let mut reader = self.kernel.reader();
        let (readings, to_do) = channel::<Reading>();
        let (done, findings) = channel();
        let reading = thread::spawn(move || {
            for reading in to_do {
                let finding = reading.check(&mut *reader).unwrap();
                done.send((reading, finding)).unwrap();
            }
        });
        let mut found = Vec::new();
        while found.len() < times {
            readings.send(self.ledger.begin_reading()).unwrap();
            found.push(loop {
                self.step();
                match findings.try_recv() {
                    Ok((reading, Finding::Other(mut picture))) => {
                        reading.amend(&mut picture);
                        break Finding::Other(picture);
                    }
                    Ok((_, finding)) => break finding,
                    Err(std::sync::mpsc::TryRecvError::Empty) => {}
                    Err(error) => panic!("{error}"),
                }
            });
        }
        drop(readings);
        reading.join().unwrap();
        found
    }
}

fn quiet(slot: u32) -> Row {
    Row::backend(frontend("10.96.0.1:80"), slot, endpoint("10.244.1.5:8080"))
}

fn beside_commits(kernel: &mut dyn ReadBeside) {
    let mut busy = Busy::start(kernel);
    let found = busy.look(LOOKS);
    let known = found.iter().filter(|finding| matches!(finding, Finding::AsKnown)).count();
    println!("  {} commits beside {LOOKS} looks, {known} without doubt", busy.rounds);
    assert!(known > 0, "{found:?}");
    // Not each look can be sure, but none may be sure of what is not so.
    let quiet: Vec<Row> = (0..QUIET).map(quiet).collect();
    for finding in found {
        if let Finding::Other(picture) = finding {
            assert!(quiet.iter().all(|row| picture.row(&row.key) == Some(row.value)));
        }
    }
}

fn others(kernel: &mut dyn ReadBeside) {
    let mut busy = Busy::start(kernel);
    let victim = quiet(QUIET / 2);
    let delete = |key: RowKey| Transaction { deleted: vec![key], ..Transaction::default() };
    busy.kernel.commit(&delete(victim.key)).unwrap();
    let found = busy.look(1);
    assert!(!matches!(found[..], [Finding::AsKnown]), "{found:?}");
    let reading = busy.ledger.begin_reading();
    let found = reading.check(&mut *busy.kernel.reader()).unwrap();
    let Finding::Other(picture) = found else { panic!("{found:?}") };
    assert_eq!(busy.ledger.read_back(*picture), 1);
    let transaction = busy.ledger.transaction();
    assert_eq!((transaction.added.as_slice(), transaction.deleted.len()), (&[victim][..], 0));
}
