//! The example shop as an engine over a kernel in memory, for tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use sliceproxy_dataplane::fake::FakeKernel;

use crate::cli::offline::Snapshot;
use crate::config::flags::{SourceFlags, TrafficFlags};
use crate::config::{Config, Flags};
use crate::engine::Engine;

/// The shop as `node` sees it, before the first sync.
pub(crate) fn engine(node: &str) -> Engine<FakeKernel> {
    snapshot(node, "").engine(FakeKernel::new()).unwrap()
}

/// The shop as `node` sees it, with those feature gates.
pub(crate) fn snapshot(node: &str, gates: &str) -> Snapshot {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/shop.yaml");
    let gates: Vec<_> = gates.split_terminator(',').map(|gate| (gate.to_owned(), true)).collect();
    let flags = Flags {
        source: SourceFlags {
            manifests: Some(manifests.clone()),
            node_name: Some(node.to_owned()),
            ..SourceFlags::default()
        },
        traffic: TrafficFlags {
            feature_gates: vec![gates.into_iter().collect()],
            cluster_cidr: Some("10.244.0.0/16,fd00:10:244::/56".to_owned()),
            ..TrafficFlags::default()
        },
        ..Flags::default()
    };
    let config = Config::load(&flags).unwrap().config;
    Snapshot::load(config, &manifests).unwrap()
}
