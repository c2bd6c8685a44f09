//! Session affinity over time: timeouts that change, restarts, and what the kernel remembers.
//! Who is sent where is among the scenarios.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_dataplane::kernel::Kernel as _;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::ProgramConfig;
use sliceproxy_dataplane::rows::AffinityRow;
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::sidebyside::{Alone, Case, Endpoint, From, To, clients};
use sliceproxy_tests::{require_root, wait_for};

const LIMIT: Duration = Duration::from_secs(20);

/// A Service with two endpoints whose clients are remembered for that long.
fn case(seconds: u64) -> Case {
    Case::new("sticky")
        .numbered(1)
        .load_balancer()
        .spec("sessionAffinity", "ClientIP")
        .spec("sessionAffinityConfig", timeout(seconds))
        .endpoints([Endpoint::new("near-1"), Endpoint::new("far-1")])
}

fn timeout(seconds: u64) -> Value {
    json!({"clientIP": {"timeoutSeconds": seconds}})
}

fn alone(case: &Case) -> Alone {
    require_root();
    Alone::new(std::slice::from_ref(case)).unwrap()
}

fn start(alone: &Alone) -> Agent<'_> {
    Agent::start_in_sync(alone.side.lab.node(), &alone.agent_args()).unwrap()
}

fn load_balancer(case: &Case, family: Family) -> Frontend {
    case.target(To::LoadBalancer, family, Protocol::Tcp).unwrap()
}

/// Sends one connection from every client outside, and says who answered whom.
fn call(alone: &Alone, target: Frontend) -> BTreeMap<IpAddr, String> {
    let vantage = alone.side.vantage(From::Outside).unwrap();
    let mut answered = BTreeMap::new();
    for client in clients(From::Outside) {
        if Family::of(client) == target.family() {
            let outcome = vantage.from(client).connect(target).unwrap();
            answered.insert(client, outcome.pod().expect("an answer").to_owned());
        }
    }
    answered
}

/// What the kernel remembers of clients outside.
fn remembered(alone: &Alone, family: Family) -> Vec<AffinityRow> {
    let read = || NetlinkKernel::open(&ProgramConfig::default())?.read_affinity(family);
    let mut rows = alone.side.lab.node().run(read).unwrap().unwrap();
    rows.retain(|row| clients(From::Outside).contains(&row.client));
    rows
}

/// The Service is given another timeout.
fn change(alone: &Alone, case: &Case, seconds: u64) {
    let config = json!({"spec": {"sessionAffinityConfig": timeout(seconds)}});
    alone.change(&[case.clone().patched(config)]).unwrap();
}

#[test]
fn a_changed_timeout_counts_for_known_clients_shorter_and_longer() {
    let case = case(600);
    let alone = alone(&case);
    let _agent = start(&alone);
    alone.apply(std::slice::from_ref(&case)).unwrap();
    for family in Family::ALL {
        let first = call(&alone, load_balancer(&case, family));
        let before = remembered(&alone, family);
        // Cluster IP, node port and load-balancer IP.
        assert_eq!(before.len(), first.len() * 3);
        for (seconds, shortest, longest) in [(60, 1, 60_000), (10_800, 10_700_000, 10_800_000)] {
            change(&alone, &case, seconds);
            let rows = remembered(&alone, family);
            assert_eq!(rows.len(), before.len(), "nobody is forgotten at {seconds} s");
            for row in rows {
                assert_eq!(row.timeout_ms, seconds * 1000);
                assert!((shortest..=longest).contains(&row.expires_ms), "{row:?}");
            }
        }
        assert_eq!(call(&alone, load_balancer(&case, family)), first, "and nobody has moved");
        change(&alone, &case, 1);
        wait_for("clients to be forgotten", LIMIT, || {
            remembered(&alone, family).is_empty().then_some(())
        })
        .unwrap();
        assert_ne!(call(&alone, load_balancer(&case, family)), first, "a new choice for each");
        change(&alone, &case, 600);
    }
}

#[test]
fn clients_keep_their_endpoints_when_the_agent_is_started_again() {
    let case = case(10_800);
    let alone = alone(&case);
    let agent = start(&alone);
    alone.apply(std::slice::from_ref(&case)).unwrap();
    let first = Family::ALL.map(|family| call(&alone, load_balancer(&case, family)));
    agent.stop().unwrap();
    let _agent = start(&alone);
    let second = Family::ALL.map(|family| call(&alone, load_balancer(&case, family)));
    assert_eq!(second, first);
}

#[test]
fn endpoints_that_went_while_no_agent_ran_are_forgotten_at_start() {
    let case = case(10_800).endpoints_become([Endpoint::new("far-1")]);
    let alone = alone(&case);
    let agent = start(&alone);
    alone.apply(std::slice::from_ref(&case)).unwrap();
    call(&alone, load_balancer(&case, Family::V4));
    agent.stop().unwrap();
    alone.change_only(std::slice::from_ref(&case)).unwrap();
    let _agent = start(&alone);
    let answered = call(&alone, load_balancer(&case, Family::V4));
    assert!(answered.values().all(|pod| pod == "far-1"), "{answered:?}");
}

#[test]
fn each_new_connection_begins_the_time_anew() {
    let case = case(600);
    let alone = alone(&case);
    let _agent = start(&alone);
    alone.apply(std::slice::from_ref(&case)).unwrap();
    let left = || {
        let rows = remembered(&alone, Family::V4);
        rows.iter().map(|row| row.expires_ms).max().unwrap()
    };
    call(&alone, load_balancer(&case, Family::V4));
    let older = wait_for("some time to pass", LIMIT, || Some(left()).filter(|ms| *ms < 599_500));
    call(&alone, load_balancer(&case, Family::V4));
    assert!(left() > older.unwrap());
}

#[test]
fn each_port_of_a_service_has_its_own_choice() {
    let case = case(10_800);
    let alone = alone(&case);
    let _agent = start(&alone);
    alone.apply(std::slice::from_ref(&case)).unwrap();
    let [http, dns] = [Protocol::Tcp, Protocol::Udp]
        .map(|protocol| call(&alone, case.target(To::ClusterIp, Family::V4, protocol).unwrap()));
    // Of 32 clients some are sent to different endpoints, but for one time in four billion.
    assert_ne!(http, dns);
}
