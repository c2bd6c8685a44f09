//! The scenarios of the comparison with kube-proxy, with sliceproxy alone and from manifests: what a
//! Service asks for, with real packets, where there is no control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::require_root;
use sliceproxy_tests::sidebyside::{Alone, Case, Verdict, assert_as_expected, cases, send_alone};

fn check(verdicts: &[Verdict<'_>], at_least: usize) {
    assert_as_expected(verdicts);
    assert!(verdicts.len() >= at_least, "only {} kinds of connections", verdicts.len());
}

#[test]
fn every_scenario_before_and_after_its_changes() {
    require_root();
    let mut cases = cases::all();
    // Nobody makes slices here.
    cases.retain(|case: &Case| case.made == 0);
    let alone = Alone::new(&cases).unwrap();
    let _agent = Agent::start_in_sync(alone.side.lab.node(), &alone.agent_args()).unwrap();
    alone.apply(&cases).unwrap();
    check(&send_alone(&alone.side, &cases, |case| &case.probes).unwrap(), 700);
    alone.change(&cases).unwrap();
    check(&send_alone(&alone.side, &cases, |case| &case.then).unwrap(), 140);
    alone.move_node("zone-b").unwrap();
    check(&send_alone(&alone.side, &cases, |case| &case.in_zone_b).unwrap(), 20);
}
