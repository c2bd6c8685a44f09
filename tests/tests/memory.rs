//! What the agent remembers of an endpoint, in bytes. In a binary of its own, because counting
//! replaces the allocator.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sliceproxy::engine::Engine;
use sliceproxy::model::Event;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Committed, Kernel, KernelError, KernelState};
use sliceproxy_dataplane::rows::AffinityRow;
use sliceproxy_dataplane::transaction::Transaction;
use sliceproxy_tests::generate;

/// A kernel that remembers nothing in this process, as the real one.
struct Elsewhere;

impl Kernel for Elsewhere {
    fn commit(&mut self, _: &Transaction) -> Result<Committed, KernelError> {
        Ok(Committed::default())
    }

    fn read(&mut self) -> Result<KernelState, KernelError> {
        Ok(KernelState::default())
    }

    fn read_affinity(&mut self, _: Family) -> Result<Vec<AffinityRow>, KernelError> {
        Ok(Vec::new())
    }
}

/// Bytes that an engine keeps of these events, when they are in the kernel.
fn kept(events: impl FnOnce() -> Vec<Event>) -> i64 {
    let mut engine = None;
    let counted = allocation_counter::measure(|| {
        let mut new = Engine::new(generate::settings(), Elsewhere).unwrap();
        for event in events() {
            new.apply(event);
        }
        assert_eq!(new.sync().unwrap().transactions, 1);
        engine = Some(new);
    });
    drop(engine);
    counted.bytes_current
}

#[test]
fn an_endpoint_takes_few_hundred_bytes_with_its_share_of_a_service() {
    let (services, endpoints) = (3_000, 10);
    let bytes = kept(|| generate::cluster(services, endpoints));
    let each = bytes / i64::from(services * endpoints);
    println!("{each} bytes for each endpoint of Services of ten");
    assert!(each <= 600, "{each}");
}

#[test]
fn so_does_an_endpoint_of_a_large_service() {
    let count = 30_000;
    let bytes = kept(|| {
        vec![
            Event::AllSlices(generate::slices(0, 0, count)),
            Event::AllServices(vec![generate::service(0)]),
        ]
    });
    let each = bytes / i64::from(count);
    println!("{each} bytes for each endpoint of one Service");
    assert!(each <= 400, "{each}");
}
