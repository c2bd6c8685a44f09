//! Changes made by others.

use std::time::Duration;

use super::{in_namespace, installed, nft};
use crate::frontend::Family;
use crate::kernel::Kernel as _;
use crate::netlink::{Noticed, Watch};
use crate::program::ProgramConfig;
use crate::rows::{Row, RowKey};
use crate::transaction::Transaction;

/// Longer than any test may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn added(row: Row) -> Transaction {
    Transaction { added: vec![row], ..Transaction::default() }
}

#[test]
fn foreign_changes_are_noticed_and_our_own_are_not() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let mut watch = Watch::open(kernel.port()).unwrap();
        let row = Row::member(RowKey::ClusterIp([10, 96, 0, 1].into()));
        kernel.commit(&added(row)).unwrap();
        // Notifications are there when the commit is; there is nothing to wait for.
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), Noticed::TimedOut);
        let nft = nft::system();
        nft.run(&["add table ip other"]);
        nft.run(&["add table inet sliceproxy"]);
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), Noticed::TimedOut);
        for command in [
            "delete element ip sliceproxy cluster-ips { 10.96.0.1 }",
            "flush chain ip6 sliceproxy refuse",
            "add chain ip sliceproxy mine",
            "delete table ip6 sliceproxy",
        ] {
            nft.run(&[command]);
            assert_eq!(watch.wait(PATIENCE).unwrap(), Noticed::Change, "{command}");
            assert_eq!(watch.wait(Duration::ZERO).unwrap(), Noticed::TimedOut, "{command}");
        }
    });
}

#[test]
fn a_wait_can_be_ended_from_outside() {
    in_namespace(|| {
        let mut watch = Watch::open(0).unwrap();
        let waker = watch.waker();
        let other = std::thread::spawn(move || waker.wake());
        assert_eq!(watch.wait(PATIENCE).unwrap(), Noticed::Woken);
        other.join().unwrap();
        // Once woken is once.
        assert_eq!(watch.wait(Duration::from_millis(1)).unwrap(), Noticed::TimedOut);
        watch.waker().wake();
        assert_eq!(watch.wait(PATIENCE).unwrap(), Noticed::Woken);
    });
}

#[test]
fn lost_notifications_count_as_a_change() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let mut watch = Watch::open_with_room(kernel.port(), 4096).unwrap();
        let backend = |slot| {
            super::sample::rows(Family::V4).into_iter().find_map(|row| match row.key {
                RowKey::Backend(frontend, _) => {
                    Some(Row { key: RowKey::Backend(frontend, slot), ..row })
                }
                _ => None,
            })
        };
        let rows = (0..10_000).filter_map(backend).collect();
        kernel.commit(&Transaction { added: rows, ..Transaction::default() }).unwrap();
        assert_eq!(watch.wait(PATIENCE).unwrap(), Noticed::Change);
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), Noticed::TimedOut);
    });
}
