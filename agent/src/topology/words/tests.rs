#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::*;
use crate::model::{Conditions, Hints, NodeName, Region, Zone};
use crate::topology::{choose, choose_local};

const READY: Conditions = Conditions { ready: true, serving: true, terminating: false };
const UNREADY: Conditions = Conditions { ready: false, serving: false, terminating: false };
const LEAVING: Conditions = Conditions { ready: false, serving: true, terminating: true };
const GONE: Conditions = Conditions { ready: false, serving: false, terminating: true };

fn here() -> Here {
    let mut here = Here::named(NodeName::new("node-a1").unwrap());
    here.zone = Zone::new("eu-1a");
    here.region = Region::new("eu-1");
    let regions = [("eu-1a", "eu-1"), ("eu-1b", "eu-1"), ("us-1a", "us-1")];
    here.regions = regions
        .into_iter()
        .map(|(zone, region)| (Zone::new(zone).unwrap(), Region::new(region).unwrap()))
        .collect();
    here
}

fn endpoint_of(zone: &str, node: &str, conditions: Conditions, hint: &str) -> SliceEndpoint {
    SliceEndpoint {
        address: IpAddr::V4(Ipv4Addr::new(10, 244, 0, 1)),
        conditions,
        node: NodeName::new(node),
        zone: Zone::new(zone),
        region: None,
        hints: Zone::new(hint).map(|zone| Arc::new(Hints { nodes: Vec::new(), zones: vec![zone] })),
    }
}

fn nearest(min_endpoints: u32) -> Wishes {
    Wishes { nearest_first: true, keys: None, min_endpoints }
}

fn by_keys(keys: &[TopologyKey]) -> Wishes {
    Wishes { nearest_first: true, keys: Some(keys.to_vec()), min_endpoints: 1 }
}

fn tally(standings: &[Standing]) -> Tally {
    let mut tally = Tally::default();
    for standing in standings {
        tally.add(*standing);
    }
    tally
}

/// The choice and then each endpoint, in words.
fn told(endpoints: &[SliceEndpoint], here: &Here, wishes: &Wishes) -> Vec<String> {
    let standings: Vec<Standing> = endpoints.iter().map(|e| Standing::of(e, here)).collect();
    let tally = tally(&standings);
    let chosen = choose(&tally, here, wishes);
    let each = standings.iter().zip(endpoints).map(|(standing, description)| {
        endpoint(*standing, description, chosen.scope, &tally, here)
    });
    std::iter::once(choice(&chosen, &tally, here, wishes)).chain(each).collect()
}

#[test]
fn a_nearer_zone_is_used_and_the_farther_one_told_why_not() {
    let endpoints = [
        endpoint_of("eu-1a", "node-a2", READY, ""),
        endpoint_of("eu-1a", "node-a3", READY, ""),
        endpoint_of("eu-1b", "node-b1", READY, ""),
        endpoint_of("eu-1b", "node-b1", UNREADY, ""),
        endpoint_of("eu-1b", "node-b1", LEAVING, ""),
        endpoint_of("eu-1b", "node-b1", GONE, ""),
    ];
    assert_eq!(
        told(&endpoints, &here(), &nearest(1)),
        [
            "two endpoints are in this node's zone eu-1a; not same node: no ready endpoint is there",
            "ready, zone eu-1a, used: in this node's zone eu-1a",
            "ready, zone eu-1a, used: in this node's zone eu-1a",
            "ready, zone eu-1b, not used: two endpoints are in this node's zone eu-1a",
            "not ready, zone eu-1b, not used: it takes no new connections",
            "terminating, still serving, zone eu-1b, not used: three endpoints are ready",
            "terminating, zone eu-1b, not used: it no longer serves",
        ]
    );
}

#[test]
fn decisions() {
    let ready = |zone, hint| endpoint_of(zone, "node-x", READY, hint);
    let unlabelled = Here::named(NodeName::new("node-a1").unwrap());
    let off = Wishes::default();
    for (endpoints, here, wishes, expected) in [
        (vec![], here(), off.clone(), "there is no endpoint"),
        (
            vec![endpoint_of("eu-1a", "n", UNREADY, "")],
            here(),
            off.clone(),
            "the only endpoint is not ready",
        ),
        (
            vec![endpoint_of("eu-1a", "n", UNREADY, ""), endpoint_of("eu-1a", "m", GONE, "")],
            here(),
            off.clone(),
            "none of two endpoints is ready",
        ),
        (
            vec![endpoint_of("eu-1b", "n", LEAVING, "")],
            here(),
            off.clone(),
            "nothing is ready: the one endpoint that terminates but still serves is used",
        ),
        (
            vec![ready("eu-1b", "")],
            here(),
            off.clone(),
            "the only ready endpoint is used: no hints, TopologyRouting is off",
        ),
        (
            vec![ready("eu-1b", "eu-1a"), ready("eu-1b", "eu-1b")],
            here(),
            off.clone(),
            "one endpoint is hinted for this node's zone eu-1a",
        ),
        (
            vec![ready("eu-1b", "eu-1a"), ready("eu-1b", "")],
            here(),
            off.clone(),
            "both ready endpoints are used; zone hints do not count: one of two ready \
             endpoints without",
        ),
        (
            vec![ready("eu-1b", "eu-1b")],
            here(),
            off.clone(),
            "the only ready endpoint is used; zone hints name other places than this one",
        ),
        (
            vec![ready("eu-1b", "eu-1b")],
            unlabelled.clone(),
            off,
            "the only ready endpoint is used; not zone hints: the zone of node node-a1 is not \
             known",
        ),
        (
            vec![ready("eu-1a", ""), ready("eu-1b", ""), ready("eu-1b", "")],
            here(),
            nearest(3),
            "three endpoints are in this node's region eu-1; not same node: no ready endpoint is \
             there; not same zone: one endpoint is ready there, three needed \
             (sliceproxy.io/topology-min-endpoints)",
        ),
        (
            vec![ready("us-1a", "")],
            here(),
            by_keys(&[TopologyKey::Zone, TopologyKey::Region]),
            "refused: sliceproxy.io/topology-keys (topology.kubernetes.io/zone, \
             topology.kubernetes.io/region) allows no ready endpoint; not same zone: no ready \
             endpoint is there; not same region: no ready endpoint is there",
        ),
        (
            vec![ready("us-1a", "")],
            here(),
            by_keys(&[TopologyKey::Any]),
            "the only ready endpoint is used, as sliceproxy.io/topology-keys (*) asks",
        ),
    ] {
        assert_eq!(told(&endpoints, &here, &wishes)[0], expected);
    }
}

#[test]
fn policy_local() {
    let here = here();
    let endpoints = [
        endpoint_of("eu-1a", "node-a1", READY, ""),
        endpoint_of("eu-1a", "node-a1", LEAVING, ""),
        endpoint_of("eu-1b", "node-b1", READY, ""),
    ];
    let cases: [(&[usize], &[&str]); 4] = [
        (
            &[0, 1, 2],
            &[
                "one endpoint is on this node node-a1",
                "ready, zone eu-1a, used: it is on this node node-a1",
                "terminating, still serving, zone eu-1a, not used: one endpoint is ready",
                "ready, zone eu-1b, not used: policy Local, and it is not on this node node-a1",
            ],
        ),
        (
            &[1, 2],
            &[
                "nothing is ready on this node node-a1: the one endpoint there that terminates \
                 but still serves is used",
                "terminating, still serving, zone eu-1a, used: it is on this node node-a1",
                "ready, zone eu-1b, not used: policy Local, and it is not on this node node-a1",
            ],
        ),
        (
            &[2],
            &[
                "dropped: no ready endpoint is on this node node-a1, others are",
                "ready, zone eu-1b, not used: policy Local, and it is not on this node node-a1",
            ],
        ),
        (&[], &["refused: there is no usable endpoint anywhere"]),
    ];
    for (members, expected) in cases {
        let members: Vec<&SliceEndpoint> = members.iter().map(|i| &endpoints[*i]).collect();
        let standings: Vec<Standing> = members.iter().map(|e| Standing::of(e, &here)).collect();
        let tally = tally(&standings);
        let scope = choose_local(&tally);
        let mut told = vec![local_choice(scope, &tally, &here)];
        told.extend(
            standings
                .iter()
                .zip(members)
                .map(|(standing, e)| local_endpoint(*standing, e, scope, &tally, &here)),
        );
        assert_eq!(told, expected);
    }
}
