//! What holds for any endpoints, any place and any wishes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use sliceproxy::model::Event;

use crate::cluster::{Cluster, PLAIN, Wanted, name, named_slice, node, regions, service};

/// Zones a and b are in region r1, c is in r2; nobody knows where d is.
const REGIONS: &[(&str, &str)] = &[("a", "r1"), ("b", "r1"), ("c", "r2")];
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ZONES: [&str; 4] = ["a", "b", "c", "d"];
const KEYS: [&str; 3] =
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// An endpoint; its number is its position in a list.
#[derive(Debug, Clone)]
struct Pod {
    node: Option<&'static str>,
    zone: Option<&'static str>,
    /// Empty if it is ready.
    state: &'static str,
    zone_hint: Option<&'static str>,
    node_hint: Option<&'static str>,
}

/// A node's labels.
#[derive(Debug, Clone, Copy)]
struct Place {
    zone: Option<&'static str>,
    region: Option<&'static str>,
}

impl Pod {
    fn text(&self, number: usize) -> String {
        let words = [
            ("@", self.node),
            ("/", self.zone),
            (" zones=", self.zone_hint),
            (" nodes=", self.node_hint),
            (" ", Some(self.state).filter(|state| !state.is_empty())),
        ];
        let words = words.into_iter().filter_map(|(mark, word)| Some(mark.to_owned() + word?));
        std::iter::once(number.to_string()).chain(words).collect()
    }

    fn ready(&self) -> bool {
        self.state.is_empty()
    }

    /// How far away it is: 0 on the node, 1 in its zone, 2 in its region, 3 anywhere.
    fn distance(&self, place: Place) -> usize {
        let known = |zone: &str| REGIONS.iter().find(|(z, _)| *z == zone).map(|(_, r)| *r);
        let region_here = place.region.or_else(|| known(place.zone?));
        if self.node == Some("n1") {
            0
        } else if self.zone.is_some() && self.zone == place.zone {
            1
        } else if region_here.is_some() && self.zone.and_then(known) == region_here {
            2
        } else {
            3
        }
    }
}

fn pod(hints: bool) -> impl Strategy<Value = Pod> {
    let state = prop_oneof![6 => Just(""), 1 => Just("unready"), 2 => Just("draining"),
                            1 => Just("gone")];
    (
        prop::option::weighted(0.8, one_of(NODES.to_vec())),
        prop::option::weighted(0.9, zone()),
        state,
        prop::option::weighted(0.9, zone()),
        prop::option::weighted(0.8, one_of(NODES.to_vec())),
    )
        .prop_map(move |(node, zone, state, zone_hint, node_hint)| Pod {
            node,
            zone,
            state,
            zone_hint: zone_hint.filter(|_| hints),
            node_hint: node_hint.filter(|_| hints),
        })
}

fn one_of(values: Vec<&'static str>) -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(values)
}

fn zone() -> impl Strategy<Value = &'static str> + Clone {
    one_of(ZONES.to_vec())
}

fn place() -> impl Strategy<Value = Place> {
    (prop::option::weighted(0.8, zone()), prop::option::weighted(0.2, Just("r1")))
        .prop_map(|(zone, region)| Place { zone, region })
}

/// Keys in any order, some with `*` at the end.
fn key_list() -> impl Strategy<Value = String> {
    let some = prop::sample::subsequence(KEYS.to_vec(), 0..=3).prop_shuffle();
    (some, any::<bool>()).prop_map(|(mut keys, any)| {
        if any || keys.is_empty() {
            keys.push("*");
        }
        keys.join(",")
    })
}

fn minimum() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.4, 1u32..4)
}

/// The endpoints spread over three slices.
fn slices(pods: &[Pod]) -> Vec<Event> {
    let texts: Vec<String> = pods.iter().enumerate().map(|(n, pod)| pod.text(n)).collect();
    let slice = |part: usize| {
        let part_of = texts.iter().skip(part).step_by(3).map(String::as_str).collect::<Vec<_>>();
        Event::Slice(named_slice(&format!("web-{part}"), "web", &part_of))
    };
    (0..3).map(slice).collect()
}

fn facts(pods: &[Pod], place: Place, wanted: &Wanted<'_>) -> Vec<Event> {
    let mut events = slices(pods);
    events.push(Event::Service(service(wanted)));
    events.push(node(place.zone, place.region));
    events.push(Event::ZoneRegions(regions(REGIONS)));
    events
}

fn told(gate: bool, events: Vec<Event>) -> Cluster {
    let mut cluster = Cluster::new(gate, &[]);
    cluster.list(vec![], vec![]);
    for event in events {
        cluster.engine.apply(event);
    }
    cluster.engine.sync().unwrap();
    cluster
}

/// The numbers of the endpoints that answer; none if the call is refused.
fn used(cluster: &Cluster) -> BTreeSet<usize> {
    match cluster.inside().as_str() {
        "refused" => BTreeSet::new(),
        numbers => numbers.split(' ').map(|number| number.parse().unwrap()).collect(),
    }
}

fn numbers(pods: &[Pod], admits: impl Fn(&Pod) -> bool) -> BTreeSet<usize> {
    pods.iter().enumerate().filter(|(_, pod)| admits(pod)).map(|(number, _)| number).collect()
}

/// A distance by the name of the level that reaches so far.
fn reach(level: &str) -> Option<usize> {
    ["node", "zone", "region", "anywhere"].iter().position(|name| *name == level)
}

/// The used endpoints are those of the level that is named: all of it, and nothing else.
fn level_is_kept(pods: &[Pod], place: Place, cluster: &Cluster) -> TestCaseResult {
    let level = cluster.view().level;
    let expected = match level.as_str() {
        "none" | "refused" => BTreeSet::new(),
        "terminating" => numbers(pods, |pod| pod.state == "draining"),
        "hinted-node" => numbers(pods, |pod| pod.ready() && pod.node_hint == Some("n1")),
        "hinted-zone" => numbers(pods, |pod| pod.ready() && pod.zone_hint == place.zone),
        _ => {
            let reach = reach(&level).expect("a level");
            numbers(pods, |pod| pod.ready() && pod.distance(place) <= reach)
        }
    };
    prop_assert_eq!(used(cluster), expected, "{}", level);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_endpoint_outside_the_chosen_level_and_none_only_if_it_must_be(
        gate in any::<bool>(),
        pods in any::<bool>().prop_flat_map(|hints| prop::collection::vec(pod(hints), 0..9)),
        place in place(),
        keys in prop::option::weighted(0.4, key_list()),
        min in minimum(),
    ) {
        let min = min.map(|min| min.to_string());
        let wanted = Wanted { keys: keys.as_deref(), min: min.as_deref(), ..PLAIN };
        let cluster = told(gate, facts(&pods, place, &wanted));
        level_is_kept(&pods, place, &cluster)?;
        if gate && keys.is_none() && let Some(reach) = reach(&cluster.view().level) {
            let needed = min.as_ref().map_or(1, |min| min.parse().unwrap());
            for nearer in 0..reach {
                let there = numbers(&pods, |pod| pod.ready() && pod.distance(place) <= nearer);
                prop_assert!(there.len() < needed, "{:?} would have been near enough", there);
            }
        }
        let usable = pods.iter().any(|pod| pod.ready() || pod.state == "draining");
        let may_refuse = gate && keys.is_some_and(|keys| !keys.ends_with('*'));
        prop_assert_eq!(cluster.view().level == "none", !usable);
        prop_assert!(!used(&cluster).is_empty() || !usable || may_refuse);
    }

    /// kube-proxy's rules, read once more.
    #[test]
    fn with_the_gate_off_hints_count_as_in_kube_proxy(
        pods in prop::collection::vec(pod(true), 0..6),
        place in place(),
    ) {
        let ready: Vec<&Pod> = pods.iter().filter(|pod| pod.ready()).collect();
        let all = |hint: fn(&Pod) -> Option<&'static str>| {
            ready.iter().all(|pod| hint(pod).is_some())
        };
        let here = |hint: fn(&Pod) -> Option<&'static str>, name: Option<&str>| {
            name.is_some() && ready.iter().any(|pod| hint(pod) == name)
        };
        let expected = if ready.is_empty() {
            numbers(&pods, |pod| pod.state == "draining")
        } else if all(|pod| pod.node_hint) && here(|pod| pod.node_hint, Some("n1")) {
            numbers(&pods, |pod| pod.ready() && pod.node_hint == Some("n1"))
        } else if all(|pod| pod.zone_hint) && here(|pod| pod.zone_hint, place.zone) {
            numbers(&pods, |pod| pod.ready() && pod.zone_hint == place.zone)
        } else {
            numbers(&pods, Pod::ready)
        };
        prop_assert_eq!(used(&told(false, facts(&pods, place, &PLAIN))), expected);
    }

    #[test]
    fn the_order_of_events_does_not_matter(
        gate in any::<bool>(),
        pods in prop::collection::vec(pod(true), 0..9),
        place in place(),
        before in (prop::collection::vec(pod(true), 0..9), place()),
        keys in prop::option::weighted(0.3, key_list()),
        order in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let wanted = Wanted { keys: keys.as_deref(), ..PLAIN };
        let events = facts(&pods, place, &wanted);
        let straight = told(gate, events.clone());
        // Something else was the case before, and every fact is replaced in another order.
        let mut winding = facts(&before.0, before.1, &PLAIN);
        winding.extend(order.iter().map(|index| events[*index].clone()));
        let winding = told(gate, winding);
        prop_assert_eq!(winding.inside(), straight.inside());
        prop_assert_eq!(winding.view(), straight.view());
    }

    #[test]
    fn a_ready_endpoint_more_never_sends_traffic_farther(
        pods in prop::collection::vec(pod(false), 0..9),
        newcomer in pod(false),
        place in place(),
        min in minimum(),
    ) {
        let min = min.map(|min| min.to_string());
        let wanted = Wanted { min: min.as_deref(), ..PLAIN };
        let mut cluster = told(true, facts(&pods, place, &wanted));
        let before = cluster.view().level;
        let newcomer = Pod { state: "", ..newcomer };
        let mut more = pods.clone();
        more.push(newcomer.clone());
        for slice in slices(&more) {
            cluster.tell(slice);
        }
        let reach_after = reach(&cluster.view().level).expect("one is ready");
        if let Some(reach_before) = reach(&before) {
            prop_assert!(reach_after <= reach_before, "{} {}", before, cluster.view().level);
            let farthest = |pods: &[Pod], used: BTreeSet<usize>| {
                used.into_iter().map(|number| pods[number].distance(place)).max()
            };
            if newcomer.distance(place) <= reach_before {
                prop_assert!(farthest(&more, used(&cluster)) <= Some(reach_before));
            }
        }
        // It leaves again, and all is as it was.
        for slice in slices(&pods) {
            cluster.tell(slice);
        }
        prop_assert_eq!(cluster.view().level, before);
    }

    #[test]
    fn a_ready_endpoint_more_never_makes_a_later_key_win(
        pods in prop::collection::vec(pod(true), 0..9),
        newcomer in pod(true),
        place in place(),
        keys in key_list(),
        min in minimum(),
    ) {
        let min = min.map(|min| min.to_string());
        let wanted = Wanted { keys: Some(&keys), min: min.as_deref(), ..PLAIN };
        let order: Vec<&str> = keys.split(',').map(level_of_key).collect();
        // Refused comes after all keys.
        let rank = |level: &str| order.iter().position(|l| *l == level).unwrap_or(order.len());
        let mut cluster = told(true, facts(&pods, place, &wanted));
        let before = cluster.view().level;
        let mut more = pods.clone();
        more.push(Pod { state: "", ..newcomer });
        for slice in slices(&more) {
            cluster.tell(slice);
        }
        let after = cluster.view().level;
        prop_assert!(["none", "terminating"].contains(&before.as_str()) || rank(&after) <= rank(&before),
                     "{keys}: {before}, then {after}");
    }

    /// A slice less is a slice less, whatever it changed while it was there.
    #[test]
    fn a_slice_that_comes_and_goes_leaves_no_trace(
        gate in any::<bool>(),
        pods in prop::collection::vec(pod(true), 0..6),
        passing in prop::collection::vec(pod(true), 1..6),
        place in place(),
    ) {
        let mut cluster = told(gate, facts(&pods, place, &PLAIN));
        let before = (cluster.inside(), cluster.view());
        let texts: Vec<String> = passing.iter().enumerate().map(|(n, pod)| pod.text(n)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        cluster.tell(Event::Slice(named_slice("web-passing", "web", &texts)));
        cluster.tell(Event::SliceRemoved(name("web-passing")));
        prop_assert_eq!((cluster.inside(), cluster.view()), before);
    }
}

fn level_of_key(key: &str) -> &'static str {
    match key {
        "kubernetes.io/hostname" => "node",
        "topology.kubernetes.io/zone" => "zone",
        "topology.kubernetes.io/region" => "region",
        _ => "anywhere",
    }
}
