//! Labels and regions that come late, change and go: traffic follows without a change of any slice.

use sliceproxy::model::Event;

use crate::cluster::{
    Cluster, EXTERNAL_IP, PLAIN, named_service, named_slice, node, regions, service, slice,
    v6_slice,
};

const HINTED: &[&str] = &["1/a zones=a", "2/b zones=b"];
const ONE_PER_ZONE: &[&str] = &["1@n2/a", "2@n3/b", "3@n4/c"];
const TWO_REGIONS: &[(&str, &str)] = &[("a", "r1"), ("b", "r1"), ("c", "r2")];

fn listed(gate: bool, endpoints: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(gate, &[]);
    cluster.list(vec![service(&PLAIN)], vec![slice(endpoints)]);
    cluster
}

/// C28: the Node comes after everything else.
#[test]
fn a_node_that_comes_last_is_heeded_at_once() {
    let mut cluster = listed(false, HINTED);
    assert_eq!(cluster.inside(), "1 2");
    cluster.tell(node(Some("a"), None));
    assert_eq!(cluster.inside(), "1");
}

/// C29: a Node without a zone gets one, gets another one, and loses it again.
#[test]
fn a_zone_label_that_is_added_changed_and_removed() {
    for (gate, endpoints) in [(false, HINTED), (true, ONE_PER_ZONE)] {
        let mut cluster = listed(gate, endpoints);
        let all = cluster.inside();
        cluster.tell(node(None, None));
        assert_eq!(cluster.inside(), all, "gate {gate}: no label");
        cluster.tell(node(Some("a"), None));
        assert_eq!(cluster.inside(), "1", "gate {gate}: added");
        cluster.tell(node(Some("b"), None));
        assert_eq!(cluster.inside(), "2", "gate {gate}: changed");
        cluster.tell(node(None, None));
        assert_eq!(cluster.inside(), all, "gate {gate}: removed");
    }
}

/// The machine is where it was: as kube-proxy does, a deleted Node is ignored, and one made anew
/// followed.
#[test]
fn a_node_that_is_deleted_keeps_its_zone() {
    let mut cluster = listed(true, ONE_PER_ZONE);
    cluster.tell(node(Some("a"), None));
    assert_eq!(cluster.inside(), "1");
    cluster.tell(Event::Node(None));
    assert_eq!(cluster.inside(), "1");
    cluster.tell(node(None, None));
    assert_eq!(cluster.inside(), "1 2 3", "made anew, without labels yet");
}

#[test]
fn a_region_label_that_is_added_changed_and_removed() {
    let mut cluster = listed(true, ONE_PER_ZONE);
    cluster.tell(Event::ZoneRegions(regions(TWO_REGIONS)));
    for (region, answers) in
        [(None, "1 2 3"), (Some("r1"), "1 2"), (Some("r2"), "3"), (Some("r3"), "1 2 3")]
    {
        cluster.tell(node(None, region));
        assert_eq!(cluster.inside(), answers, "{region:?}");
    }
}

/// The region of this node's own zone is looked up like that of others, and may arrive after its
/// Node.
#[test]
fn regions_may_come_before_or_after_the_node() {
    let far: &[&str] = &["2@n3/b", "3@n4/c"];
    for regions_first in [true, false] {
        let mut cluster = listed(true, far);
        let mut events = [Event::ZoneRegions(regions(TWO_REGIONS)), node(Some("a"), None)];
        if !regions_first {
            events.reverse();
        }
        for event in events {
            cluster.tell(event);
        }
        assert_eq!(cluster.inside(), "2", "regions first: {regions_first}");
        assert_eq!(cluster.engine.here().region.as_ref().unwrap().to_string(), "r1");
        // The zone turns out to be in the other region.
        cluster.tell(Event::ZoneRegions(regions(&[("a", "r2"), ("b", "r1"), ("c", "r2")])));
        assert_eq!(cluster.inside(), "3", "regions first: {regions_first}");
        cluster.tell(Event::ZoneRegions(regions(&[])));
        assert_eq!(cluster.inside(), "2 3", "regions first: {regions_first}");
    }
}

#[test]
fn one_region_after_the_other_becomes_known() {
    let mut cluster = listed(true, &["2@n3/b", "3@n4/c", "4@n5/d"]);
    cluster.tell(node(Some("a"), Some("r1")));
    for (known, answers) in [
        (&[("c", "r2")][..], "2 3 4"),
        (&[("c", "r2"), ("b", "r1")], "2"),
        (&[("c", "r2"), ("b", "r1"), ("d", "r1")], "2 4"),
    ] {
        cluster.tell(Event::ZoneRegions(regions(known)));
        assert_eq!(cluster.inside(), answers, "{known:?}");
    }
}

/// Regions in the configuration win over labels and what was looked up: the operator may draw them
/// anew, and then means this node too.
#[test]
fn configured_regions_come_first() {
    let configured = &[("a", "west"), ("c", "west")];
    let mut cluster = Cluster::new(true, configured);
    cluster.list(vec![service(&PLAIN)], vec![slice(&["2@n3/b", "3@n4/c"])]);
    cluster.tell(node(Some("a"), Some("r1")));
    assert_eq!(cluster.inside(), "3");
    cluster.tell(Event::ZoneRegions(regions(&[("a", "r1"), ("b", "r1"), ("c", "r1")])));
    assert_eq!(cluster.inside(), "3");
}

/// What a slice says of an endpoint's region is older than the configuration.
#[test]
fn configured_regions_come_before_those_of_legacy_slices() {
    let mut cluster = Cluster::new(true, &[("a", "west"), ("c", "west"), ("b", "east")]);
    let endpoints: &[&str] = &["2 old=n3,b,west", "3 old=n4,c,east"];
    cluster.list(vec![service(&PLAIN)], vec![slice(endpoints)]);
    cluster.tell(node(Some("a"), None));
    assert_eq!(cluster.inside(), "3");
}

/// The level of one family is not the other's.
#[test]
fn each_family_selects_on_its_own() {
    let mut cluster = Cluster::new(true, &[]);
    let v6_ip = "fd00:10:96::1";
    let mut both = (*service(&PLAIN)).clone();
    both.cluster_ips.push(v6_ip.parse().unwrap());
    let slices = vec![slice(&["1@n1/a", "2@n2/a"]), v6_slice(&["3@n3/a", "4@n4/c"])];
    cluster.list(vec![both.into()], slices);
    cluster.tell(node(Some("a"), None));
    assert_eq!(cluster.inside(), "1");
    assert_eq!(cluster.call("fd00:244:200::1", v6_ip), "3");
}

/// Other Services are other Services.
#[test]
fn each_service_selects_on_its_own() {
    let mut cluster = Cluster::new(true, &[]);
    let services = vec![service(&PLAIN), named_service("far", EXTERNAL_IP, &PLAIN)];
    let slices = vec![slice(&["1@n1/a", "2@n2/a"]), named_slice("far-1", "far", &["3@n3/b", "4"])];
    cluster.list(services, slices);
    assert_eq!(cluster.inside(), "1");
    assert_eq!(cluster.call("10.244.200.1", EXTERNAL_IP), "3 4");
}
