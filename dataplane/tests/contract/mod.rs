//! What every [`Kernel`] must do, whether it is real or not. Each case starts with a kernel that
//! has none of our tables.

pub(crate) mod beside;
mod samples;

use std::net::SocketAddr;

use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend, Protocol};
use sliceproxy_dataplane::kernel::{Change, Kernel, KernelError, KernelState};
use sliceproxy_dataplane::program::{ChainDef, Program, ProgramConfig};
use sliceproxy_dataplane::rows::{AffinityRow, Chain, Row, RowKey, Verdict};
use sliceproxy_dataplane::transaction::Transaction;

use samples::every_row;

/// A named case.
pub(crate) type Case = (&'static str, fn(&mut dyn Kernel));

/// All cases.
pub(crate) const CASES: &[Case] = &[
    ("an empty kernel has no tables", empty),
    ("an installed program is read back whole", install),
    ("rows of every kind are read back as they were written", every_kind),
    ("a changed row is deleted and added in one commit", replace),
    ("thousands of rows go in and out at once", many),
    ("a commit with one bad part changes nothing", all_or_nothing),
    ("a row cannot be added twice", existing_row),
    ("a missing row cannot be deleted", missing_row),
    ("a verdict needs its chain", missing_chain),
    ("a chain in use cannot be removed", used_chain),
    ("networks must not overlap", overlap),
    ("nothing can be written without a table", no_table),
    ("installing replaces the table and all that it held", reinstall),
    ("tables are removed, also if they are not there", remove),
    ("clients are remembered, read and forgotten", affinity),
    ("both families are changed together or not at all", both_families),
];

fn frontend(text: &str) -> Frontend {
    let socket: SocketAddr = text.parse().unwrap();
    Frontend { address: socket.ip(), protocol: Protocol::Tcp, port: socket.port() }
}

fn endpoint(text: &str) -> Endpoint {
    let socket: SocketAddr = text.parse().unwrap();
    Endpoint { address: socket.ip(), port: socket.port() }
}

fn program(family: Family) -> Program {
    Program::new(family, &ProgramConfig::default())
}

fn chain(family: Family, chain: Chain) -> (Family, ChainDef) {
    (family, program(family).row_chain(chain, None))
}

fn installed(kernel: &mut dyn Kernel) {
    let transaction =
        Transaction { installed: Family::ALL.map(program).to_vec(), ..Transaction::default() };
    kernel.commit(&transaction).unwrap();
}

fn read(kernel: &mut dyn Kernel) -> KernelState {
    let mut state = kernel.read().unwrap();
    for table in state.v4.iter_mut().chain(&mut state.v6) {
        table.rows.sort();
    }
    state
}

fn rows(kernel: &mut dyn Kernel) -> Vec<Row> {
    let mut rows: Vec<Row> = read(kernel).rows().copied().collect();
    rows.sort();
    rows
}

fn add(kernel: &mut dyn Kernel, added: Vec<Row>) {
    kernel.commit(&Transaction { added, ..Transaction::default() }).unwrap();
}

/// Commits what must be refused, checks that nothing changed, and returns what was refused.
fn refused(kernel: &mut dyn Kernel, transaction: &Transaction) -> Vec<(Change, i32)> {
    let before = read(kernel);
    let refusals = match kernel.commit(transaction) {
        Err(KernelError::Refused(refusals)) => refusals,
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(read(kernel), before, "a refused transaction changed something");
    refusals.into_iter().map(|refusal| (refusal.change, refusal.errno)).collect()
}

fn empty(kernel: &mut dyn Kernel) {
    assert_eq!(kernel.read().unwrap(), KernelState::default());
    assert_eq!(kernel.read_affinity(Family::V4).unwrap(), []);
    assert_eq!(kernel.commit(&Transaction::default()).unwrap().elements, 0);
}

fn install(kernel: &mut dyn Kernel) {
    installed(kernel);
    let state = read(kernel);
    for family in Family::ALL {
        let table = state.table(family).unwrap();
        assert_eq!(table.identity, Some(program(family).identity()));
        assert_eq!(table.damage, Vec::<String>::new());
        assert!(table.chains.is_empty(), "{:?}", table.chains);
        assert!(table.rows.is_empty() && table.strays.is_empty());
    }
}

/// Both programs, with rows of every kind.
fn everything() -> Transaction {
    let mut transaction =
        Transaction { installed: Family::ALL.map(program).to_vec(), ..Transaction::default() };
    for family in Family::ALL {
        let (chains, rows) = every_row(&program(family));
        transaction.new_chains.extend(chains);
        transaction.added.extend(rows);
    }
    transaction
}

fn every_kind(kernel: &mut dyn Kernel) {
    let transaction = everything();
    let committed = kernel.commit(&transaction).unwrap();
    assert_eq!(committed.elements, transaction.added.len());
    let mut expected = transaction.added.clone();
    expected.sort();
    assert_eq!(rows(kernel), expected);
    let state = read(kernel);
    for family in Family::ALL {
        let table = state.table(family).unwrap();
        assert_eq!(table.damage, Vec::<String>::new());
        assert_eq!(table.strays, []);
        assert_eq!(table.chains.len(), 6, "{:?}", table.chains);
    }
    let deleted = expected.iter().map(|row| row.key).collect();
    kernel.commit(&Transaction { deleted, ..Transaction::default() }).unwrap();
    assert_eq!(rows(kernel), []);
}

fn replace(kernel: &mut dyn Kernel) {
    installed(kernel);
    let web = frontend("10.96.0.1:80");
    add(kernel, vec![Row::backend(web, 0, endpoint("10.244.1.5:8080"))]);
    let changed = Row::backend(web, 0, endpoint("10.244.1.6:8080"));
    let transaction =
        Transaction { deleted: vec![changed.key], added: vec![changed], ..Transaction::default() };
    let committed = kernel.commit(&transaction).unwrap();
    assert_eq!(committed.elements, 2);
    assert_eq!(rows(kernel), [changed]);
}

fn many(kernel: &mut dyn Kernel) {
    installed(kernel);
    let web = frontend("10.96.0.1:80");
    let backend =
        |slot: u32| Row::backend(web, slot, Endpoint { address: [10, 244, 1, 5].into(), port: 80 });
    let mut added: Vec<Row> = (0..3000).map(backend).collect();
    add(kernel, added.clone());
    added.sort();
    assert_eq!(rows(kernel), added);
    let deleted = (0..2999).map(|slot| RowKey::Backend(web, slot)).collect();
    kernel.commit(&Transaction { deleted, ..Transaction::default() }).unwrap();
    assert_eq!(rows(kernel), [backend(2999)]);
}

fn all_or_nothing(kernel: &mut dyn Kernel) {
    installed(kernel);
    let web = frontend("10.96.0.1:80");
    let row = Row::backend(web, 0, endpoint("10.244.1.5:8080"));
    add(kernel, vec![row]);
    let transaction = Transaction {
        new_chains: vec![chain(Family::V4, Chain::Pick(2))],
        deleted: vec![row.key],
        added: vec![
            Row::member(RowKey::ClusterIp(web.address)),
            Row::service(web, Verdict::Goto(Chain::Pick(7))),
            Row::backend(web, 1, endpoint("10.244.1.6:8080")),
        ],
        ..Transaction::default()
    };
    let refused = refused(kernel, &transaction);
    assert_eq!(refused, [(Change::Add(transaction.added[1]), nix::libc::ENOENT)]);
}

fn existing_row(kernel: &mut dyn Kernel) {
    installed(kernel);
    let web = frontend("10.96.0.1:80");
    let row = Row::backend(web, 0, endpoint("10.244.1.5:8080"));
    let member = Row::member(RowKey::ClusterIp(web.address));
    add(kernel, vec![row, member]);
    let other = Row::backend(web, 0, endpoint("10.244.1.6:8080"));
    for again in [row, member, other] {
        let transaction = Transaction { added: vec![again], ..Transaction::default() };
        let refused = refused(kernel, &transaction);
        assert_eq!(refused, [(Change::Add(again), nix::libc::EEXIST)]);
    }
}

fn missing_row(kernel: &mut dyn Kernel) {
    installed(kernel);
    let key = RowKey::Backend(frontend("10.96.0.1:80"), 0);
    let transaction = Transaction { deleted: vec![key], ..Transaction::default() };
    assert_eq!(refused(kernel, &transaction), [(Change::Delete(key), nix::libc::ENOENT)]);
}

fn missing_chain(kernel: &mut dyn Kernel) {
    installed(kernel);
    let row = Row::service(frontend("10.96.0.1:80"), Verdict::Goto(Chain::Pick(1)));
    let mut transaction = Transaction { added: vec![row], ..Transaction::default() };
    assert_eq!(refused(kernel, &transaction), [(Change::Add(row), nix::libc::ENOENT)]);
    transaction.new_chains.push(chain(Family::V4, Chain::Pick(1)));
    kernel.commit(&transaction).unwrap();
    assert_eq!(rows(kernel), [row]);
}

fn used_chain(kernel: &mut dyn Kernel) {
    installed(kernel);
    let row = Row::service(frontend("10.96.0.1:80"), Verdict::Goto(Chain::Pick(1)));
    kernel
        .commit(&Transaction {
            new_chains: vec![chain(Family::V4, Chain::Pick(1))],
            added: vec![row],
            ..Transaction::default()
        })
        .unwrap();
    let mut transaction =
        Transaction { dead_chains: vec![(Family::V4, Chain::Pick(1))], ..Transaction::default() };
    let change = Change::Chain(Family::V4, "pick-1".to_owned());
    assert_eq!(refused(kernel, &transaction), [(change, nix::libc::EBUSY)]);
    transaction.deleted.push(row.key);
    kernel.commit(&transaction).unwrap();
    assert!(read(kernel).v4.unwrap().chains.is_empty());
}

fn overlap(kernel: &mut dyn Kernel) {
    installed(kernel);
    let web = frontend("10.96.0.1:80");
    let cidr = |text: &str| Row::member(RowKey::ServiceCidr(text.parse().unwrap()));
    let source = |text: &str| Row::member(RowKey::AllowedSource(web, text.parse().unwrap()));
    add(kernel, vec![cidr("10.96.0.0/12"), source("192.0.2.0/24")]);
    for row in [cidr("10.96.0.0/16"), cidr("10.96.0.0/12"), source("192.0.2.7/32")] {
        let transaction = Transaction { added: vec![row], ..Transaction::default() };
        assert_eq!(refused(kernel, &transaction), [(Change::Add(row), nix::libc::EEXIST)]);
    }
    // Neighbours do not overlap.
    add(kernel, vec![cidr("10.112.0.0/12"), source("192.0.3.0/24")]);
}

fn no_table(kernel: &mut dyn Kernel) {
    let row = Row::member(RowKey::ClusterIp([10, 96, 0, 1].into()));
    let transaction = Transaction { added: vec![row], ..Transaction::default() };
    assert_eq!(refused(kernel, &transaction), [(Change::Add(row), nix::libc::ENOENT)]);
}

fn reinstall(kernel: &mut dyn Kernel) {
    installed(kernel);
    add(kernel, vec![Row::member(RowKey::ClusterIp([10, 96, 0, 1].into()))]);
    let other =
        Program::new(Family::V4, &ProgramConfig { masquerade_bit: 15, ..ProgramConfig::default() });
    let row = Row::member(RowKey::ClusterIp([10, 96, 0, 2].into()));
    let transaction =
        Transaction { installed: vec![other.clone()], added: vec![row], ..Transaction::default() };
    kernel.commit(&transaction).unwrap();
    assert_eq!(rows(kernel), [row]);
    let state = read(kernel);
    assert_eq!(state.v4.unwrap().identity, Some(other.identity()));
    assert_eq!(state.v6.unwrap().identity, Some(program(Family::V6).identity()));
}

fn remove(kernel: &mut dyn Kernel) {
    let transaction =
        Transaction { removed_tables: Family::ALL.to_vec(), ..Transaction::default() };
    kernel.commit(&transaction).unwrap();
    installed(kernel);
    kernel.commit(&transaction).unwrap();
    assert_eq!(read(kernel), KernelState::default());
}

fn affinity(kernel: &mut dyn Kernel) {
    installed(kernel);
    for (family, web, client, pod) in [
        (Family::V4, "10.96.0.1:80", "192.0.2.1", "10.244.1.5:8080"),
        (Family::V6, "[fd00::1]:80", "2001:db8::1", "[fd01::5]:8080"),
    ] {
        let row = AffinityRow {
            frontend: frontend(web),
            client: client.parse().unwrap(),
            endpoint: endpoint(pod),
            timeout_ms: 600_000,
            expires_ms: 500_000,
        };
        kernel.commit(&Transaction { remembered: vec![row], ..Transaction::default() }).unwrap();
        let read = kernel.read_affinity(family).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].frontend, read[0].client, read[0].endpoint, read[0].timeout_ms),
            (row.frontend, row.client, row.endpoint, row.timeout_ms)
        );
        assert!((400_000..=500_000).contains(&read[0].expires_ms), "{}", read[0].expires_ms);
        assert_eq!(rows(kernel), [], "remembered clients are not rows");
        // A client that is gone meanwhile is forgotten all the same.
        for _ in 0..2 {
            kernel.commit(&Transaction { forgotten: vec![row], ..Transaction::default() }).unwrap();
            assert_eq!(kernel.read_affinity(family).unwrap(), []);
        }
    }
}

fn both_families(kernel: &mut dyn Kernel) {
    installed(kernel);
    let v4 = Row::member(RowKey::ClusterIp([10, 96, 0, 1].into()));
    let v6 = Row::member(RowKey::ClusterIp("fd00::1".parse().unwrap()));
    add(kernel, vec![v6]);
    let transaction = Transaction { added: vec![v4, v6], ..Transaction::default() };
    assert_eq!(refused(kernel, &transaction), [(Change::Add(v6), nix::libc::EEXIST)]);
    assert_eq!(rows(kernel), [v6]);
}
