//! kube-proxy and sliceproxy beside each other on the same objects: the same connections, with the
//! same outcome but for the differences that the table of scenarios names and gives a reason for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Instant;

use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::cluster;
use sliceproxy_tests::require_root;
use sliceproxy_tests::sidebyside::{Stage, Verdict, cases, send_all};

/// Prints what went otherwise than the table says.
fn failures(verdicts: &[Verdict<'_>]) -> usize {
    let failed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.is_as_expected()).collect();
    failed.iter().for_each(|verdict| println!("FAILED: {verdict}"));
    failed.len()
}

#[test]
#[ignore = "a control plane: minutes to build it the first time"]
fn the_same_connections_have_the_same_outcome() {
    require_root();
    cluster::binaries().unwrap();
    let begun = Instant::now();
    let cases = cases::all();
    let stage = Stage::new(&cases).unwrap();
    println!("cluster and networks after {:?}", begun.elapsed());
    let _kube_proxy = stage.start_kube_proxy().unwrap();
    let args = stage.agent_args().unwrap();
    let _agent = Agent::start_in_sync(stage.sliceproxy.lab.node(), &args).unwrap();
    println!("proxies after {:?}", begun.elapsed());
    stage.apply(&cases).unwrap();
    println!("objects after {:?}", begun.elapsed());
    let verdicts = send_all(&stage, &cases, |case| &case.probes).unwrap();
    println!("{} kinds of connections after {:?}", verdicts.len(), begun.elapsed());
    assert_eq!(failures(&verdicts), 0);
}
