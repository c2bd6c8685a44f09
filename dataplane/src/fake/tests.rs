#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::frontend::{Endpoint, Frontend, Protocol};
use crate::kernel::{Change, Refusal};
use crate::program::ProgramConfig;
use crate::rows::{Chain, SetName, Verdict};
use crate::walk::Origin;

fn web(host: u8) -> Frontend {
    Frontend { address: IpAddr::from([10, 96, 0, host]), protocol: Protocol::Tcp, port: 80 }
}

fn pod(host: u8) -> Endpoint {
    Endpoint { address: IpAddr::from([10, 244, 1, host]), port: 8080 }
}

fn program() -> Program {
    Program::new(Family::V4, &ProgramConfig::default())
}

fn installed() -> FakeKernel {
    let mut kernel = FakeKernel::new();
    let transaction = Transaction {
        installed: vec![program()],
        new_chains: vec![(Family::V4, program().row_chain(Chain::Pick(1), None))],
        added: vec![
            Row::service(web(1), Verdict::Goto(Chain::Pick(1))),
            Row::backend(web(1), 0, pod(1)),
        ],
        ..Transaction::default()
    };
    kernel.commit(&transaction).unwrap();
    kernel
}

fn adding(row: Row) -> Transaction {
    Transaction { added: vec![row], ..Transaction::default() }
}

#[test]
fn commits_and_elements_are_counted() {
    let mut kernel = installed();
    assert_eq!((kernel.commits(), kernel.attempts(), kernel.elements()), (1, 1, 2));
    kernel.commit(&Transaction::default()).unwrap();
    kernel.commit(&adding(Row::service(web(1), Verdict::Drop))).unwrap_err();
    assert_eq!((kernel.commits(), kernel.attempts(), kernel.elements()), (1, 2, 2));
}

#[test]
fn a_row_is_refused_on_request() {
    let mut kernel = installed();
    let row = Row::backend(web(2), 0, pod(2));
    kernel.refuse(row.key, nix::libc::ENOMEM);
    let Err(KernelError::Refused(refusals)) = kernel.commit(&adding(row)) else { panic!() };
    assert_eq!(refusals, [Refusal { change: Change::Add(row), errno: nix::libc::ENOMEM }]);
    kernel.refuse_nothing();
    kernel.commit(&adding(row)).unwrap();
}

#[test]
fn socket_errors_leave_the_state_unknown() {
    let mut kernel = SharedKernel::new(installed());
    let row = Row::backend(web(2), 0, pod(2));
    kernel.lock().fail_sockets(1);
    assert!(matches!(kernel.commit(&adding(row)), Err(KernelError::Socket(_))));
    assert_eq!(kernel.lock().row(&row.key), None);
    kernel.lock().lose_answers(1);
    assert!(matches!(kernel.commit(&adding(row)), Err(KernelError::Socket(_))));
    assert_eq!(kernel.lock().row(&row.key), Some(row.value));
}

#[test]
fn somebody_else_changes_what_is_read() {
    let mut kernel = installed();
    let key = RowKey::Backend(web(1), 0);
    let stray = Stray {
        family: Family::V4,
        set: SetName::Services,
        key: vec![1, 2, 3],
        key_end: None,
        interval_end: false,
    };
    kernel.tamper(Tampering::Write(Row::backend(web(1), 0, pod(9))));
    kernel.tamper(Tampering::Stray(stray.clone()));
    kernel.tamper(Tampering::Damage(Family::V4, "chain select is gone".to_owned()));
    let table = kernel.read().unwrap().v4.unwrap();
    assert!(table.rows.contains(&Row::backend(web(1), 0, pod(9))));
    assert_eq!((table.strays.len(), table.damage.len()), (1, 1));
    kernel.commit(&Transaction { strays: vec![stray], ..Transaction::default() }).unwrap();
    kernel.tamper(Tampering::Delete(key));
    assert_eq!(kernel.row(&key), None);
    kernel.tamper(Tampering::DropTable(Family::V4));
    assert_eq!(kernel.read().unwrap(), KernelState::default());
}

#[test]
fn a_chain_that_another_chain_goes_to_is_in_use() {
    let mut kernel = installed();
    let sticky = (Family::V4, program().row_chain(Chain::Sticky(1), None));
    kernel.commit(&Transaction { new_chains: vec![sticky], ..Transaction::default() }).unwrap();
    let deleted = vec![RowKey::Service(web(1))];
    kernel.commit(&Transaction { deleted, ..Transaction::default() }).unwrap();
    let dead = |chains: &[Chain]| Transaction {
        dead_chains: chains.iter().map(|&chain| (Family::V4, chain)).collect(),
        ..Transaction::default()
    };
    kernel.commit(&dead(&[Chain::Pick(1)])).unwrap_err();
    kernel.commit(&dead(&[Chain::Pick(1), Chain::Sticky(1)])).unwrap_err();
    kernel.commit(&dead(&[Chain::Sticky(1), Chain::Pick(1)])).unwrap();
}

#[test]
fn packets_walk_through_what_is_there() {
    let mut kernel = installed();
    let packet = Packet {
        source: IpAddr::from([192, 0, 2, 1]),
        destination: web(1).address,
        protocol: 6,
        port: 80,
        input_interface: None,
        origin: Origin::Elsewhere,
    };
    assert!(matches!(kernel.walk(&packet).outcome, Outcome::Translated { .. }));
    kernel.tamper(Tampering::DropTable(Family::V4));
    assert_eq!(kernel.walk(&packet).outcome, Outcome::Passed);
}

fn some_transaction() -> impl Strategy<Value = Transaction> {
    let row = (0..4u8, 0..3u32, 0..3u8, 0..2u8).prop_map(|(host, slot, to, kind)| match kind {
        0 => Row::backend(web(host), slot, pod(to)),
        _ => Row::service(web(host), Verdict::Goto(Chain::Pick(slot + 1))),
    });
    let chain = (1..4u32).prop_map(|n| (Family::V4, program().row_chain(Chain::Pick(n), None)));
    let rows = prop::collection::vec(row, 0..4);
    (
        prop::collection::vec(chain, 0..2),
        rows.clone(),
        rows,
        prop::collection::vec((1..4u32).prop_map(|n| (Family::V4, Chain::Pick(n))), 0..2),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(new_chains, deleted, added, dead_chains, reinstall)| Transaction {
            installed: if reinstall { vec![program()] } else { Vec::new() },
            new_chains,
            deleted: deleted.into_iter().map(|row| row.key).collect(),
            added,
            dead_chains,
            ..Transaction::default()
        })
}

proptest! {
    /// A refused transaction leaves no trace, not even in what later transactions are told; an
    /// accepted one is carried out in full.
    #[test]
    fn all_or_nothing(transactions in prop::collection::vec(some_transaction(), 1..30)) {
        let mut kernel = installed();
        let mut only_good = installed();
        for transaction in &transactions {
            let before = kernel.state();
            if kernel.commit(transaction).is_err() {
                prop_assert_eq!(kernel.state(), before);
                continue;
            }
            prop_assert!(only_good.commit(transaction).is_ok());
            for row in &transaction.added {
                prop_assert_eq!(kernel.row(&row.key), Some(row.value));
            }
        }
        prop_assert_eq!(kernel.state(), only_good.state());
    }
}
