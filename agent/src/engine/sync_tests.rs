#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use sliceproxy_dataplane::program::ProgramConfig;

use super::*;
use crate::engine::Settings;
use crate::model::{
    Conditions, Event, NodeName, ObjectName, Service, ServicePort, Slice, SliceEndpoint, SlicePort,
    TopologyAnnotations, TrafficPolicy,
};

/// Counts how often it is read.
#[derive(Debug, Default)]
struct Counted {
    inner: FakeKernel,
    reads: u32,
}

impl Kernel for Counted {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, KernelError> {
        self.inner.commit(transaction)
    }

    fn read(&mut self) -> Result<sliceproxy_dataplane::kernel::KernelState, KernelError> {
        self.reads += 1;
        self.inner.read()
    }

    fn read_affinity(
        &mut self,
        family: Family,
    ) -> Result<Vec<sliceproxy_dataplane::rows::AffinityRow>, KernelError> {
        self.reads += 1;
        self.inner.read_affinity(family)
    }
}

pub(super) fn frontend(last_byte: u8) -> Frontend {
    Frontend { address: [10, 96, 0, last_byte].into(), protocol: Protocol::Tcp, port: 80 }
}

fn service(last_byte: u8) -> Arc<Service> {
    let port = ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None };
    Arc::new(Service {
        name: ObjectName::new("ns", &last_byte.to_string()),
        uid: "".into(),
        created: 0,
        cluster_ips: vec![frontend(last_byte).address],
        external_ips: vec![],
        load_balancer_ips: vec![],
        source_ranges: vec![],
        ports: vec![port],
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity_timeout: None,
        health_check_node_port: None,
        topology: TopologyAnnotations::default(),
    })
}

pub(super) fn slice(service: u8, endpoints: &[u8]) -> Event {
    let endpoint = |&last_byte: &u8| SliceEndpoint {
        address: [10, 244, 0, last_byte].into(),
        conditions: Conditions { ready: true, serving: true, terminating: false },
        node: None,
        zone: None,
        region: None,
        hints: None,
    };
    Event::Slice(Arc::new(Slice {
        name: ObjectName::new("ns", &format!("{service}-1")),
        service: ObjectName::new("ns", &service.to_string()),
        family: Family::V4,
        ports: vec![SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: endpoints.iter().map(endpoint).collect(),
        trigger_time: None,
    }))
}

pub(super) fn started<K: Kernel>(kernel: K) -> Engine<K> {
    let settings = Settings {
        node: NodeName::new("n1").unwrap(),
        families: Family::ALL.to_vec(),
        program: ProgramConfig::default(),
        topology_routing: false,
        zone_regions: BTreeMap::new(),
    };
    let mut engine = Engine::new(settings, kernel).unwrap();
    engine.apply(Event::AllServices(vec![service(1), service(2)]));
    engine.apply(Event::AllSlices(vec![]));
    engine.apply(slice(1, &[1, 2]));
    engine.apply(slice(2, &[1]));
    engine.sync().unwrap();
    engine
}

/// C45: kube-proxy lists its whole table with every sync.
#[test]
fn what_the_kernel_holds_is_read_at_start_and_not_with_changes() {
    let mut engine = started(Counted::default());
    let before = engine.kernel.reads;
    for endpoints in [&[1, 2, 3][..], &[2], &[]] {
        engine.apply(slice(1, endpoints));
        assert_eq!(engine.sync().unwrap().transactions, 1);
    }
    assert_eq!(engine.kernel.reads, before);
    engine.distrust();
    engine.sync().unwrap();
    assert_eq!(engine.kernel.reads, before + 1);
}

/// C39: on a busy node chains cannot always be removed at once.
#[test]
fn a_chain_that_cannot_be_removed_holds_up_no_change() {
    let kernel = SharedKernel::new(FakeKernel::new());
    let mut engine = started(kernel.clone());
    engine.apply(slice(1, &[1, 2, 3]));
    engine.sync().unwrap();
    kernel.lock().fail_sockets(1);
    engine.sweep().unwrap_err();
    engine.apply(slice(1, &[1]));
    assert_eq!(engine.sync().unwrap().transactions, 1);
    assert!(engine.sweep().unwrap() > 0, "it is tried again");
    assert_eq!(engine.sweep().unwrap(), 0);
}

/// In kube-proxy one address that the kernel refuses makes every sync of its family fail.
#[test]
fn a_refused_row_holds_up_no_other_and_is_tried_again() {
    let kernel = SharedKernel::new(FakeKernel::new());
    let mut engine = started(kernel.clone());
    let [refused, other] = [1, 2].map(|n| RowKey::Service(frontend(n)));
    kernel.lock().refuse(refused, nix::libc::EINVAL);
    engine.apply(slice(1, &[1, 2, 3]));
    engine.apply(slice(2, &[1, 2, 3, 4]));
    let synced = engine.sync().unwrap();
    assert_eq!(synced.set_aside.len(), 1);
    assert!(kernel.lock().row(&refused).is_none() && kernel.lock().row(&other).is_some());
    assert!(engine.ledger().set_aside().contains_key(&refused));
    kernel.lock().refuse_nothing();
    engine.distrust();
    engine.sync().unwrap();
    assert!(kernel.lock().row(&refused).is_some());
}

/// C70: after a reconnection, objects may be reported gone that nobody has seen.
#[test]
fn removing_what_was_never_there_changes_nothing() {
    let mut engine = started(FakeKernel::new());
    engine.apply(Event::ServiceRemoved(ObjectName::new("ns", "9")));
    engine.apply(Event::SliceRemoved(ObjectName::new("ns", "9-1")));
    engine.apply(Event::Node(None));
    assert_eq!(engine.sync().unwrap().transactions, 0);
}

/// C22: nothing is left of the old address, and nothing of the new one is missing.
#[test]
fn a_service_made_anew_within_one_sync_has_its_new_address_only() {
    let mut engine = started(FakeKernel::new());
    let again = Service { cluster_ips: vec![frontend(9).address], ..(*service(1)).clone() };
    engine.apply(Event::ServiceRemoved(again.name.clone()));
    engine.apply(Event::Service(Arc::new(again)));
    assert_eq!(engine.sync().unwrap().transactions, 1);
    let rows: Vec<Row> = engine.kernel.rows().collect();
    let about = |address| {
        let own = |row: &&Row| {
            let frontend = row.key.frontend().map(|frontend| frontend.address);
            frontend == Some(address) || row.key == RowKey::ClusterIp(address)
        };
        rows.iter().filter(own).count()
    };
    assert_eq!(about(frontend(1).address), 0);
    assert_eq!(about(frontend(9).address), about(frontend(2).address) + 1, "one endpoint more");
}
