//! What a change of place costs: rows of the Service ports whose selection it changes, and no others.

use std::collections::BTreeSet;
use std::sync::Arc;

use sliceproxy::engine::Synced;
use sliceproxy::model::{Event, Slice, TrafficPolicy};

use crate::cluster::{Cluster, PLAIN, Wanted, named_service, named_slice, node, regions};
use crate::row::{keys, policies};

/// Services by name, each with one slice `NAME-1`.
const SERVICES: [(&str, Wanted<'_>, &[&str]); 7] = [
    ("hinted", PLAIN, &["1@n2/a zones=a", "2@n3/b zones=b"]),
    ("near", PLAIN, &["11@n2/a", "12@n3/b", "13@n4/c"]),
    ("distant", PLAIN, &["21@n4/c", "22@n5/d"]),
    ("here", PLAIN, &["31@n1", "32@n2/a"]),
    ("local", policies(TrafficPolicy::Local, None), &["41@n1", "42@n2/a"]),
    ("all", keys("*"), &["51@n2/a", "52@n3/b"]),
    ("own-zone", keys("topology.kubernetes.io/zone"), &["61@n2/a", "62@n2/a", "63@n3/b"]),
];

fn address(name: &str) -> String {
    let index = SERVICES.iter().position(|service| service.0 == name).unwrap();
    format!("10.96.0.{}", index + 1)
}

fn endpoints_of(name: &str, endpoints: &[&str]) -> Arc<Slice> {
    named_slice(&format!("{name}-1"), name, endpoints)
}

/// All Services, on a node in zone a.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(true, &[]);
    cluster.engine.apply(node(Some("a"), None));
    let services =
        SERVICES.iter().map(|(name, wanted, _)| named_service(name, &address(name), wanted));
    let slices = SERVICES.iter().map(|(name, _, endpoints)| endpoints_of(name, endpoints));
    cluster.list(services.collect(), slices.collect());
    cluster
}

/// Who answers in each Service.
fn answers(cluster: &Cluster) -> Vec<String> {
    SERVICES.iter().map(|service| cluster.call("10.244.200.1", &address(service.0))).collect()
}

/// Tells `event`; gives how many rows were added and deleted, after checking that all of them are
/// about the Services that are `touched`, and that these are the ones whose answers changed.
fn cost(cluster: &mut Cluster, event: Event, touched: &[&str]) -> (usize, usize) {
    let (before, commits) = (answers(cluster), cluster.kernel.lock().commits());
    let synced = cluster.tell(event);
    let after = answers(cluster);
    let changed = SERVICES.iter().zip(before.iter().zip(&after));
    let changed: Vec<&str> =
        changed.filter(|(_, (before, after))| before != after).map(|(s, _)| s.0).collect();
    assert_eq!(changed, touched, "{before:?} {after:?}");
    let expected: BTreeSet<String> = touched.iter().map(|name| address(name)).collect();
    assert_eq!(frontends(&synced), expected);
    let commits = cluster.kernel.lock().commits() - commits;
    assert_eq!(commits, usize::from(!touched.is_empty()), "transactions");
    (synced.added.len(), synced.deleted.len())
}

fn frontends(synced: &Synced) -> BTreeSet<String> {
    let keys = synced.added.iter().map(|row| &row.key).chain(&synced.deleted);
    keys.map(|key| key.frontend().expect("a row of a frontend").address.to_string()).collect()
}

#[test]
fn another_zone_label_touches_the_services_that_it_moves() {
    let mut cluster = cluster();
    // A slot each; `own-zone` goes from two endpoints to one: a slot, the hole, and the verdict.
    assert_eq!(
        cost(&mut cluster, node(Some("b"), None), &["hinted", "near", "own-zone"]),
        (1 + 1 + 2, 1 + 1 + 3)
    );
    // And back.
    assert_eq!(
        cost(&mut cluster, node(Some("a"), None), &["hinted", "near", "own-zone"]),
        (1 + 1 + 3, 1 + 1 + 2)
    );
}

#[test]
fn labels_that_change_no_selection_cost_nothing() {
    let mut cluster = cluster();
    assert_eq!(cost(&mut cluster, node(Some("a"), Some("r1")), &[]), (0, 0));
    assert_eq!(cost(&mut cluster, Event::ZoneRegions(regions(&[("z", "r9")])), &[]), (0, 0));
    assert_eq!(cost(&mut cluster, node(Some("a"), Some("r1")), &[]), (0, 0));
}

#[test]
fn a_region_touches_the_services_that_get_a_nearer_level() {
    let mut cluster = cluster();
    cluster.tell(node(Some("a"), Some("r1")));
    let news = Event::ZoneRegions(regions(&[("a", "r1"), ("d", "r1"), ("c", "r2")]));
    // From two endpoints to the second of them, or to the first, whichever slot it has.
    let (added, deleted) = cost(&mut cluster, news, &["distant"]);
    assert_eq!((added, deleted), (2, 3));
}

#[test]
fn changed_hints_touch_their_own_service() {
    let mut cluster = cluster();
    let swapped = &["1@n2/a zones=b", "2@n3/b zones=a"];
    let event = Event::Slice(endpoints_of("hinted", swapped));
    assert_eq!(cost(&mut cluster, event, &["hinted"]), (1, 1));
    let for_both = &["1@n2/a zones=a,b", "2@n3/b zones=a"];
    let event = Event::Slice(endpoints_of("hinted", for_both));
    assert_eq!(cost(&mut cluster, event, &["hinted"]), (2, 1));
    // Hints for others say nothing here.
    let more = &["1@n2/a zones=a,b,x", "2@n3/b zones=a,y"];
    let event = Event::Slice(endpoints_of("hinted", more));
    assert_eq!(cost(&mut cluster, event, &[]), (0, 0));
}

#[test]
fn another_level_touches_its_own_service() {
    let mut cluster = cluster();
    // The zone's only endpoint goes: both others, anywhere. A slot changes, one comes, the verdict.
    let event = Event::Slice(endpoints_of("near", &["11@n2/a unready", "12@n3/b", "13@n4/c"]));
    assert_eq!(cost(&mut cluster, event, &["near"]), (3, 2));
    // One comes up on this node.
    let event = Event::Slice(endpoints_of("near", &["14@n1/a", "12@n3/b", "13@n4/c"]));
    let synced = {
        let before = answers(&cluster);
        let synced = cluster.tell(event);
        assert_ne!(answers(&cluster), before);
        synced
    };
    // It may meet itself, which is a row of its own.
    let of_frontends = |keys: Vec<Option<_>>| keys.into_iter().flatten().count();
    let added = synced.added.iter().map(|row| row.key.frontend()).collect();
    let deleted = synced.deleted.iter().map(sliceproxy_dataplane::rows::RowKey::frontend).collect();
    assert_eq!((synced.added.len(), synced.deleted.len()), (3, 3));
    assert_eq!((of_frontends(added), of_frontends(deleted)), (2, 3));
}
