//! Clients are where the machine says, not where it would be convenient.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::IpAddr;

use sliceproxy_dataplane::netlink::{OtherChain, OtherHook};
use sliceproxy_dataplane::program::PodTraffic;

use super::*;
use crate::view::shop;

/// Of shop/cart, which has no IPv6.
const CART: &str = "10.103.185.137:7070";
const POD: &str = "10.244.1.10";

/// What is told on node-a1 where pods are recognised by the beginning of their interface's name.
fn told(host: Option<&Host>, prefix: &str, from: Option<&str>) -> ExplainView {
    let mut engine = shop::engine("node-a1");
    let mut program = engine.settings().program.clone();
    program.pods_v4 = PodTraffic::InterfacePrefix(prefix.to_owned());
    engine.set_program(program);
    engine.sync().unwrap();
    let picture = engine.picture().unwrap();
    let from = from.map(|from| from.parse().unwrap());
    explain(&engine, &Sight { picture: &picture, host }, &CART.parse().unwrap(), from).unwrap()
}

fn machine(way: Option<(&str, &str)>) -> Host {
    let way = way.map(|(client, name)| (client.parse().unwrap(), name.to_owned()));
    let interfaces = ["lo", "eth0", "vethA", "vethB"].map(ToOwned::to_owned).to_vec();
    let addresses = ["127.0.0.1", "172.18.0.11", "10.244.1.1"];
    let addresses = addresses.map(|address| address.parse::<IpAddr>().unwrap()).to_vec();
    Host { addresses, interfaces, way, chains: Vec::new() }
}

fn first(view: &ExplainView) -> (String, bool) {
    let route = &view.frontends[0].routes[0];
    (route.from.clone(), route.choices[0].masqueraded)
}

#[test]
fn a_pod_behind_an_interface_of_another_name_is_not_recognised() {
    let host = machine(Some((POD, "vethA")));
    let view = told(Some(&host), "cali", Some(POD));
    assert_eq!(first(&view), ("a pod on this node (10.244.1.10, over vethA)".to_owned(), true));
    assert_eq!(
        view.warnings,
        ["no interface is called cali*: no traffic is recognised as that of pods"]
    );
    let view = told(Some(&host), "veth", Some(POD));
    assert_eq!(first(&view), ("a pod on this node (10.244.1.10, over vethA)".to_owned(), false));
    assert_eq!(view.warnings, [""; 0]);
}

#[test]
fn an_address_of_the_machine_that_its_node_object_does_not_name_is_local() {
    let view = told(Some(&machine(None)), "veth", Some("10.244.1.1"));
    assert_eq!(first(&view).0, "this node (10.244.1.1)");
    let way = &view.frontends[0].routes[0].steps;
    assert!(way[0].contains("output"), "{way:?}");
}

#[test]
fn what_is_only_assumed_of_an_interface_is_told_as_that() {
    let example = told(Some(&machine(None)), "veth", None);
    let from = "a pod on this node (10.244.1.254, over vethA as is assumed)";
    assert_eq!(first(&example), (from.to_owned(), false));
    let elsewhere = told(None, "cali", Some(POD));
    let from = "a pod on this node (10.244.1.10, over cali0 as is assumed)";
    assert_eq!(first(&elsewhere), (from.to_owned(), false));
    let without = told(Some(&machine(None)), "cali", None);
    assert_eq!(first(&without), ("a pod on this node (10.244.1.254)".to_owned(), true));
}

#[test]
fn a_client_outside_comes_over_the_interface_that_leads_there() {
    let host = machine(Some(("198.51.100.7", "eth0")));
    let view = told(Some(&host), "veth", Some("198.51.100.7"));
    assert_eq!(first(&view), ("outside (198.51.100.7, over eth0)".to_owned(), true));
}

#[test]
fn chains_of_others_are_named_in_the_families_that_matter() {
    let chain = |family, priority| OtherChain {
        family,
        table: "other".to_owned(),
        name: "f".to_owned(),
        hook: Some(OtherHook { point: "forward", priority, drops: false }),
        uses: 1,
    };
    let chains = vec![chain("inet", -5), chain("ip", 0), chain("ip6", 0)];
    let view = told(Some(&Host { chains, ..machine(None) }), "veth", None);
    assert_eq!(
        view.not_followed,
        [
            "table inet other, chain f (forward, priority -5)",
            "table ip other, chain f (forward, priority 0)"
        ]
    );
    let chains = (0..30).map(|priority| chain("ip", priority)).collect();
    let view = told(Some(&Host { chains, ..machine(None) }), "veth", None);
    assert_eq!(view.not_followed.len(), 21);
    assert_eq!(view.not_followed[20], "10 more chains");
}
