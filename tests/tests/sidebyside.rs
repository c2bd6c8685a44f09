//! kube-proxy and sliceproxy beside each other on the same objects: the same connections, with the
//! same outcome but for the differences that the table of scenarios names and gives a reason for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::cluster;
use sliceproxy_tests::sidebyside::{
    Case, Probe, Stage, Verdict, assert_as_expected, cases, send_all,
};
use sliceproxy_tests::{require_root, wait_for};

const LIMIT: Duration = Duration::from_secs(30);

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
    let mut verdicts = send_all(&stage, &cases, |case| &case.probes).unwrap();
    println!("{} kinds of connections after {:?}", verdicts.len(), begun.elapsed());
    stage.change(&cases).unwrap();
    follow(&stage, &cases, "service-cidr-comes", |case| &case.then);
    println!("changes after {:?}", begun.elapsed());
    verdicts.extend(send_all(&stage, &cases, |case| &case.then).unwrap());
    println!("{} kinds of connections after {:?}", verdicts.len(), begun.elapsed());
    stage.move_node("zone-b").unwrap();
    follow(&stage, &cases, "prefer-same-zone", |case| &case.in_zone_b);
    verdicts.extend(send_all(&stage, &cases, |case| &case.in_zone_b).unwrap());

    report(&cases, &verdicts);
    println!("after {:?}", begun.elapsed());
    assert_as_expected(&verdicts);
}

/// Waits for what a change of something else than Services and slices makes of a scenario: nodes and
/// Service CIDRs are followed by watches of their own.
fn follow(stage: &Stage, cases: &[Case], name: &str, probes: fn(&Case) -> &[Probe]) {
    let one: Vec<Case> = cases.iter().filter(|case| case.name == name).cloned().collect();
    wait_for(name, LIMIT, || {
        let verdicts = send_all(stage, &one, probes).unwrap();
        (!verdicts.is_empty() && verdicts.iter().all(Verdict::is_as_expected)).then_some(())
    })
    .unwrap();
}

/// Says how much was compared, and what differs on purpose.
fn report(cases: &[Case], verdicts: &[Verdict<'_>]) {
    let scenarios: usize = cases.iter().map(|case| case.all_probes().count()).sum();
    println!(
        "{} Services, {scenarios} scenarios, {} kinds of connections on each side",
        cases.len(),
        verdicts.len()
    );
    assert!(scenarios >= 60, "the table has shrunk");
    for case in cases {
        for probe in case.all_probes() {
            if let Some(difference) = &probe.difference {
                let (from, to) = (probe.from, probe.to);
                println!(
                    "on purpose: {}, {from:?} to {to:?}: {}, not {}: {}",
                    case.name, probe.expected, difference.kube_proxy, difference.reason
                );
            }
        }
    }
}
