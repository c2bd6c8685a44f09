//! What the kernel refuses, told in the transaction's own words.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::libc::{EEXIST, ENOENT};

use super::sample::{address, chains, endpoint, frontend, rows};
use super::{in_namespace, installed};
use crate::frontend::Family;
use crate::kernel::{Change, Kernel as _, KernelError, Refusal};
use crate::netlink::NetlinkKernel;
use crate::netlink::refusal::{Verdict as Explained, explain};
use crate::program::{Program, ProgramConfig};
use crate::rows::{Chain, Row, RowKey, Verdict};
use crate::transaction::{Stray, Transaction};

fn refused(kernel: &mut NetlinkKernel, transaction: &Transaction) -> Vec<Refusal> {
    match kernel.commit(transaction) {
        Err(KernelError::Refused(refusals)) => refusals,
        other => panic!("not refused: {other:?}"),
    }
}

/// Many rows that go in one message, and in the middle of them one that does not fit.
fn with_one_bad(bad: Row) -> Transaction {
    let mut added: Vec<Row> = (0..300)
        .map(|slot| Row::backend(frontend(Family::V4, 1, 80), slot, endpoint(Family::V4, 9)))
        .collect();
    added.insert(150, bad);
    Transaction { added, ..Transaction::default() }
}

#[test]
fn the_row_at_fault_is_found_among_hundreds_in_one_message() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        // A v6 endpoint is too long for a v4 map.
        let bad = Row::backend(frontend(Family::V4, 1, 80), 1000, endpoint(Family::V6, 9));
        let refusals = refused(&mut kernel, &with_one_bad(bad));
        let [refusal] = &refusals[..] else { panic!("{refusals:?}") };
        assert_eq!(refusal.change, Change::Add(bad));
        assert!(!refusal.is_drift(), "{refusal}");
        assert!(kernel.read().unwrap().v4.unwrap().rows.is_empty());
    });
}

#[test]
fn a_kernel_that_names_no_row_is_asked_again_with_one_row_in_a_message() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let bad = Row::backend(frontend(Family::V4, 1, 80), 1000, endpoint(Family::V6, 9));
        let transaction = with_one_bad(bad);
        kernel.batch.fill(&transaction, kernel.channel.next_sequence(), 400);
        kernel.channel.advance(kernel.batch.sent.len());
        let mut faults = kernel.exchange().unwrap();
        faults[0].offset = None;
        assert!(matches!(explain(&kernel.batch, &transaction, &faults), Explained::Unclear));
        let refused = kernel.attempt(&transaction, 1).unwrap().unwrap_err();
        let KernelError::Refused(refusals) = refused else { panic!("{refused}") };
        assert_eq!(refusals.len(), 1);
        assert_eq!(refusals[0].change, Change::Add(bad));
    });
}

#[test]
fn networks_of_two_elements_are_counted_as_one_row() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let cidr = |text: &str| Row::member(RowKey::ServiceCidr(text.parse().unwrap()));
        let there = cidr("10.3.0.0/16");
        kernel.commit(&Transaction { added: vec![there], ..Transaction::default() }).unwrap();
        let added = vec![cidr("10.1.0.0/16"), cidr("10.2.0.0/16"), there, cidr("10.4.0.0/16")];
        let refusals = refused(&mut kernel, &Transaction { added, ..Transaction::default() });
        assert_eq!(refusals, [Refusal { change: Change::Add(there), errno: EEXIST }]);
    });
}

#[test]
fn every_refused_message_is_told() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let missing = RowKey::ClusterIp(address(Family::V6, 7));
        let lost = Row::service(frontend(Family::V4, 1, 80), Verdict::Goto(Chain::Pick(9)));
        let stray = Stray {
            family: Family::V4,
            set: crate::rows::SetName::ClusterIps,
            key: vec![1, 2, 3, 4],
            key_end: None,
            interval_end: false,
        };
        let transaction = Transaction {
            strays: vec![stray.clone()],
            deleted: vec![missing],
            added: vec![lost],
            dead_chains: vec![(Family::V6, Chain::Pick(3))],
            ..Transaction::default()
        };
        let refusals = refused(&mut kernel, &transaction);
        let changes: Vec<_> = refusals.iter().map(|r| (r.change.clone(), r.errno)).collect();
        let expected = [
            (Change::Stray(stray), ENOENT),
            (Change::Delete(missing), ENOENT),
            (Change::Add(lost), ENOENT),
            (Change::Chain(Family::V6, "pick-3".into()), ENOENT),
        ];
        assert_eq!(changes, expected);
        assert!(refusals.iter().all(Refusal::is_drift));
    });
}

#[test]
fn more_refusals_than_the_socket_holds_are_still_refusals() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let deleted: Vec<RowKey> =
            (0..60_000).map(|n| RowKey::ClusterIp(address(Family::V4, n))).collect();
        let mut batch = Transaction { deleted, ..Transaction::default() };
        let refusals = kernel.attempt(&batch, 1).unwrap().unwrap_err();
        let KernelError::Refused(refusals) = refusals else { panic!("{refusals}") };
        assert!(!refusals.is_empty() && refusals.len() < 60_000);
        assert!(refusals.iter().all(|r| r.errno == ENOENT));
        // And the socket is good for more.
        batch.deleted.clear();
        batch.added = vec![Row::member(RowKey::ClusterIp(address(Family::V4, 1)))];
        kernel.commit(&batch).unwrap();
        assert_eq!(kernel.read().unwrap().rows().count(), 1);
    });
}

/// Installs the program after replacing a name in it by one of the same length.
fn install_spoilt(name: &[u8], by: &[u8]) -> KernelError {
    let mut kernel = NetlinkKernel::open(&ProgramConfig::default()).unwrap();
    let transaction = Transaction {
        installed: vec![Program::new(Family::V4, &ProgramConfig::default())],
        new_chains: chains(Family::V4, &ProgramConfig::default()),
        ..Transaction::default()
    };
    let first = kernel.channel.next_sequence();
    kernel.batch.fill(&transaction, first, 1);
    kernel.channel.advance(kernel.batch.sent.len());
    let bytes = kernel.batch.out.as_mut_bytes();
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at..at + name.len()].copy_from_slice(by);
    let faults = kernel.exchange().unwrap();
    // What was missing for the kernel is what stood there before.
    let bytes = kernel.batch.out.as_mut_bytes();
    bytes[at..at + name.len()].copy_from_slice(name);
    match explain(&kernel.batch, &transaction, &faults) {
        Explained::Known(error) => error,
        Explained::Unclear => panic!("unclear"),
    }
}

#[test]
fn an_expression_that_the_kernel_lacks_is_named() {
    in_namespace(|| {
        for (name, by, what, option) in [
            ("numgen\0", "numgex\0", "expression numgen", "CONFIG_NFT_NUMGEN"),
            ("fib\0", "fix\0", "expression fib", "CONFIG_NFT_FIB_IPV4"),
            ("masq\0", "masx\0", "expression masq", "CONFIG_NFT_MASQ"),
            ("reject\0", "rejecx\0", "expression reject", "CONFIG_NFT_REJECT"),
            ("\x08\0\x07\0nat\0", "\x08\0\x07\0nax\0", "chain type nat", "CONFIG_NFT_NAT"),
        ] {
            match install_spoilt(name.as_bytes(), by.as_bytes()) {
                KernelError::Unsupported { what: told, module } => {
                    assert_eq!(told, what);
                    assert!(module.contains(option), "{module}");
                }
                other => panic!("{name:?}: {other}"),
            }
        }
    });
}

#[test]
fn a_chain_or_set_that_is_missing_is_not_a_missing_expression() {
    in_namespace(|| {
        for (name, by, what) in [
            ("reject-now\0", "reject-nox\0", "refuse"),
            ("cluster-ips\0", "cluster-ipx\0", "refuse"),
        ] {
            match install_spoilt(name.as_bytes(), by.as_bytes()) {
                KernelError::Refused(refusals) => {
                    assert!(refusals.iter().any(|r| r.to_string().contains(what)), "{refusals:?}");
                }
                other => panic!("{name:?}: {other}"),
            }
        }
    });
}

#[test]
#[ignore = "the next test runs it, as nobody"]
fn commit_as_nobody() {
    let mut kernel = NetlinkKernel::open(&ProgramConfig::default()).unwrap();
    let transaction = Transaction { added: rows(Family::V4), ..Transaction::default() };
    assert!(matches!(kernel.commit(&transaction), Err(KernelError::Permission)));
    assert!(matches!(kernel.read(), Err(KernelError::Permission)));
}

#[test]
fn who_has_no_right_is_told_so() {
    let test = "netlink::tests::refusals::commit_as_nobody";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored"])
        .uid(65_534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
