//! Rows, written and read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::sample::{address, affinity, endpoint, everything, frontend, rows};
use super::{in_namespace, installed, nft};
use crate::frontend::{Endpoint, Family};
use crate::kernel::{Kernel as _, KernelError};
use crate::netlink::{NetlinkKernel, Noticed, Watch};
use crate::program::ProgramConfig;
use crate::rows::{Row, RowKey, RowValue};
use crate::transaction::Transaction;

#[test]
fn rows_of_every_kind_come_back_as_they_were_written() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = NetlinkKernel::open(&config).unwrap();
        kernel.commit(&everything(&config, &Family::ALL)).unwrap();
        let state = kernel.read().unwrap();
        for family in Family::ALL {
            let table = state.table(family).unwrap();
            assert_eq!(table.damage, Vec::<String>::new());
            assert_eq!(table.strays, []);
            let (mut read, mut written) = (table.rows.clone(), rows(family));
            read.sort();
            written.sort();
            assert_eq!(read, written);
            let remembered = kernel.read_affinity(family).unwrap();
            let [row] = remembered[..] else { panic!("{remembered:?}") };
            assert!((5_300_000..=5_400_000).contains(&row.expires_ms), "{row:?}");
            assert_eq!(
                row,
                crate::rows::AffinityRow { expires_ms: row.expires_ms, ..affinity(family) }
            );
        }
    });
}

#[test]
fn single_rows_are_found_or_not() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = NetlinkKernel::open(&config).unwrap();
        kernel.commit(&everything(&config, &Family::ALL)).unwrap();
        for family in Family::ALL {
            for row in rows(family) {
                assert_eq!(kernel.contains(&row.key).unwrap(), Some(row.value), "{row}");
            }
            let web = frontend(family, 1, 80);
            let wide = |prefix| ipnetwork::IpNetwork::new(address(family, 0), prefix).unwrap();
            for absent in [
                RowKey::Backend(web, 2),
                RowKey::Service(frontend(family, 77, 80)),
                RowKey::ClusterIp(address(family, 77)),
                RowKey::ServiceCidr(wide(24)),
                RowKey::AllowedSource(web, wide(24)),
            ] {
                assert_eq!(kernel.contains(&absent).unwrap(), None, "{absent}");
            }
        }
    });
}

#[test]
fn part_of_a_network_is_not_that_network() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = installed(&config);
        let cidr = |text: &str| RowKey::ServiceCidr(text.parse().unwrap());
        let added = ["10.0.0.0/8", "192.0.2.0/24"].map(|text| Row::member(cidr(text))).to_vec();
        kernel.commit(&Transaction { added, ..Transaction::default() }).unwrap();
        assert_eq!(kernel.contains(&cidr("10.0.0.0/8")).unwrap(), Some(RowValue::Member));
        for other in ["10.0.0.0/16", "10.1.0.0/16", "10.0.0.0/7", "0.0.0.0/0", "192.0.2.0/25"] {
            assert_eq!(kernel.contains(&cidr(other)).unwrap(), None, "{other}");
        }
    });
}

#[test]
fn foreign_elements_are_strays_and_can_be_deleted() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = NetlinkKernel::open(&config).unwrap();
        kernel.commit(&everything(&config, &Family::ALL)).unwrap();
        let before = kernel.read().unwrap();
        let system = nft::system();
        for command in [
            "add chain ip sliceproxy mine",
            "add element ip sliceproxy services { 10.9.9.9 . tcp . 80 : goto mine }",
            "add element ip sliceproxy services { 10.9.9.9 . tcp . 81 : accept }",
            "add element ip sliceproxy services { 10.9.9.9 . icmp . 80 : drop }",
            "add element ip sliceproxy hairpins { 10.9.9.9 . 10.9.9.8 . tcp . 80 }",
            "add element ip sliceproxy service-cidrs { 172.16.0.1-172.16.0.6 }",
            "add element ip sliceproxy allowed-sources { 10.9.9.9 . tcp . 80 . 10.0.0.1-10.0.0.9 }",
            "add element ip sliceproxy allowed-sources { 10.9.9.9 . tcp . 80-90 . 10.1.0.0/16 }",
        ] {
            system.run(&[command]);
        }
        let state = kernel.read().unwrap();
        let strays = state.v4.unwrap().strays;
        // A range that is no network has a beginning and an end.
        assert_eq!(strays.len(), 8, "{strays:?}");
        let transaction = Transaction { strays, ..Transaction::default() };
        kernel.commit(&transaction).unwrap();
        system.run(&["delete chain ip sliceproxy mine"]);
        assert_eq!(kernel.read().unwrap(), before);
    });
}

#[test]
fn a_bulk_load_is_read_back_whole_at_once() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let added: Vec<Row> = (0..60_000)
            .map(|n| {
                let pod = Endpoint { address: address(Family::V4, n), port: 8080 };
                Row::backend(frontend(Family::V4, n / 100, 80), n % 100, pod)
            })
            .collect();
        let cost = kernel.commit(&Transaction { added, ..Transaction::default() }).unwrap();
        assert_eq!(cost.elements, 60_000);
        assert!(cost.messages < 200, "{cost:?}");
        assert_eq!(kernel.read().unwrap().rows().count(), 60_000);
    });
}

#[test]
fn forgetting_a_client_that_has_expired_is_no_error() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let forgotten = vec![affinity(Family::V4), affinity(Family::V6)];
        kernel.commit(&Transaction { forgotten, ..Transaction::default() }).unwrap();
    });
}

#[test]
fn a_small_commit_is_a_few_messages() {
    in_namespace(|| {
        let mut kernel = installed(&ProgramConfig::default());
        let row = Row::backend(frontend(Family::V4, 1, 80), 0, endpoint(Family::V4, 1));
        kernel.commit(&Transaction { added: vec![row], ..Transaction::default() }).unwrap();
        let replaced = Row::backend(frontend(Family::V4, 1, 80), 0, endpoint(Family::V4, 2));
        let transaction =
            Transaction { deleted: vec![row.key], added: vec![replaced], ..Transaction::default() };
        let cost = kernel.commit(&transaction).unwrap();
        // Begin, delete, add, end.
        assert_eq!((cost.elements, cost.messages), (2, 4));
        assert!(cost.bytes < 320, "{cost:?}");
    });
}

#[test]
fn a_transaction_of_both_families_is_seen_by_others_as_one() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = installed(&config);
        let mut watch = Watch::open(0).unwrap();
        let added = Family::ALL.map(|f| Row::member(RowKey::ClusterIp(address(f, 1)))).to_vec();
        kernel.commit(&Transaction { added, ..Transaction::default() }).unwrap();
        assert_eq!(watch.wait(Duration::from_secs(30)).unwrap(), Noticed::Change);
        assert_eq!(kernel.read().unwrap().rows().count(), 2);
    });
}

#[test]
fn what_is_read_while_others_write_is_of_one_moment() {
    in_namespace(|| {
        let config = ProgramConfig::default();
        let mut kernel = installed(&config);
        let slots = |slots: std::ops::Range<u32>| -> Vec<Row> {
            let web = frontend(Family::V4, 1, 80);
            slots.map(|slot| Row::backend(web, slot, endpoint(Family::V4, slot))).collect()
        };
        // Always one of the two thousands, never both or parts of them.
        let (low, high) = (slots(0..1000), slots(1000..2000));
        let swap = |out: &[Row], into: &[Row]| Transaction {
            deleted: out.iter().map(|row| row.key).collect(),
            added: into.to_vec(),
            ..Transaction::default()
        };
        kernel.commit(&Transaction { added: low.clone(), ..Transaction::default() }).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (there, back) = (swap(&low, &high), swap(&high, &low));
        let stopped = Arc::clone(&stop);
        // A thread is born into the namespace of the one that makes it.
        let writer = std::thread::spawn(move || {
            let mut other = NetlinkKernel::open(&config).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                other.commit(&there).unwrap();
                other.commit(&back).unwrap();
            }
        });
        for _ in 0..10 {
            match kernel.read() {
                Ok(state) => {
                    let read = state.v4.unwrap().rows;
                    assert!(read == low || read == high, "{} rows", read.len());
                }
                Err(error) => assert!(matches!(error, KernelError::Torn(_)), "{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert_eq!(kernel.read().unwrap().v4.unwrap().rows, low);
    });
}
