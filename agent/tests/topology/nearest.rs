//! The gate on, no hints: same node, same zone, same region, anywhere; and places that are written
//! in odd ways.

use crate::cluster::{PLAIN, Wanted};
use crate::row::{KUBE_PROXY, ROW, Row, check, keys};

/// A Service whose levels count from so many ready endpoints on.
const fn at_least(min: &'static str) -> Wanted<'static> {
    Wanted { min: Some(min), ..PLAIN }
}

/// One at every level.
const EVERYWHERE: &[&str] = &["1@n1/a", "2@n2/a", "3@n3/b", "4@n4/c"];

#[test]
fn levels() {
    check(&[
        Row { name: "one on this node", endpoints: EVERYWHERE, level: "node", inside: "1", ..ROW },
        Row {
            name: "none on this node",
            endpoints: &["2@n2/a", "3@n3/b", "4@n4/c", "5@n5/a"],
            level: "zone",
            inside: "2 5",
            ..ROW
        },
        Row {
            name: "C35: none in this zone, two in this region",
            endpoints: &["1@n3/b", "2@n6/b", "3@n4/c", "4@n4/c", "5@n5/d"],
            level: "region",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "C35: the region's last one is not ready",
            endpoints: &["1@n3/b unready", "3@n4/c", "4@n4/c", "5@n5/d"],
            level: "anywhere",
            inside: "3 4 5",
            ..ROW
        },
        Row {
            name: "the one on this node is not ready",
            endpoints: &["1@n1/a unready", "2@n2/a", "3@n3/b"],
            level: "zone",
            inside: "2",
            ..ROW
        },
        Row {
            name: "gate off",
            endpoints: EVERYWHERE,
            level: "anywhere",
            inside: "1 2 3 4",
            ..KUBE_PROXY
        },
        Row {
            name: "a level is used whole",
            endpoints: &["1@n1/a", "2@n1/a", "3@n1/a", "4@n2/a"],
            level: "node",
            inside: "1 2 3",
            ..ROW
        },
    ]);
}

#[test]
fn what_is_not_known_of_this_node() {
    check(&[
        Row {
            name: "no label at all: the node still knows itself",
            zone: None,
            region: None,
            endpoints: EVERYWHERE,
            level: "node",
            inside: "1",
            ..ROW
        },
        Row {
            name: "no label and none on this node",
            zone: None,
            region: None,
            endpoints: &["2@n2/a", "3@n3/b"],
            level: "anywhere",
            inside: "2 3",
            ..ROW
        },
        Row {
            name: "a region label only",
            zone: None,
            endpoints: &["2@n2/a", "3@n3/b", "4@n4/c"],
            level: "region",
            inside: "2 3",
            ..ROW
        },
        Row {
            name: "no region label: its zone's region counts",
            region: None,
            endpoints: &["3@n3/b", "4@n4/c"],
            level: "region",
            inside: "3",
            ..ROW
        },
        Row {
            name: "no region label and none known of its zone",
            region: None,
            regions: &[("b", "r1")],
            endpoints: &["3@n3/b", "4@n4/c"],
            level: "anywhere",
            inside: "3 4",
            ..ROW
        },
        Row {
            name: "the region of no zone is known",
            regions: &[],
            endpoints: &["3@n3/b", "4@n4/c"],
            level: "anywhere",
            inside: "3 4",
            ..ROW
        },
        Row {
            name: "an unknown zone's region is not this node's unknown one",
            region: None,
            regions: &[],
            endpoints: &["3@n3/b", "4@n4"],
            level: "anywhere",
            inside: "3 4",
            ..ROW
        },
    ]);
}

#[test]
fn what_is_not_known_of_endpoints() {
    check(&[
        Row {
            name: "C35: an endpoint without a zone counts at no level but the last",
            endpoints: &["1@n9", "2@n2/a"],
            level: "zone",
            inside: "2",
            ..ROW
        },
        Row {
            name: "only endpoints of unknown place",
            endpoints: &["1@n9", "2"],
            level: "anywhere",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "C08: no node is not this node",
            endpoints: &["1/a", "2@n2/b"],
            level: "zone",
            inside: "1",
            ..ROW
        },
        Row {
            name: "no zone is not a node's missing zone",
            zone: None,
            region: None,
            endpoints: &["1@n9", "2@n2/b"],
            level: "anywhere",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "an endpoint on this node is in its zone, whatever the slice says",
            wanted: keys("topology.kubernetes.io/zone"),
            endpoints: &["1@n1/c", "2@n1", "3@n2/c"],
            level: "zone",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "a node's name has no upper case",
            endpoints: &["1@N1/b", "2@n2/a"],
            level: "node",
            inside: "1",
            ..ROW
        },
    ]);
}

#[test]
fn legacy_slices() {
    check(&[
        Row {
            name: "their node",
            endpoints: &["1 old=n1,a,r1", "2 old=n2,a,r1"],
            level: "node",
            inside: "1",
            ..ROW
        },
        Row {
            name: "their zone",
            endpoints: &["2 old=n2,a,r1", "3 old=n3,b,r1"],
            level: "zone",
            inside: "2",
            ..ROW
        },
        Row {
            name: "their region, of a zone that nobody else knows",
            regions: &[],
            endpoints: &["3 old=n3,x,r1", "4 old=n4,c,r2"],
            level: "region",
            inside: "3",
            ..ROW
        },
        Row {
            name: "new fields count before old ones",
            endpoints: &["1@n2/b old=n1,a,r1", "2@n3/a old=n3,c,r2"],
            level: "zone",
            inside: "2",
            ..ROW
        },
    ]);
}

#[test]
fn odd_zones() {
    check(&[
        Row {
            name: "C37: an empty zone is none, on both sides",
            zone: Some(""),
            region: Some(""),
            endpoints: &["1@n2/", "2@n3/a"],
            level: "anywhere",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "C37: like an address",
            zone: Some("2001:db8::1"),
            endpoints: &["1@n2/2001:db8::1", "2@n3/2001:db8:0::1"],
            level: "zone",
            inside: "1",
            ..ROW
        },
        Row {
            name: "C37: 63 letters, and one more",
            zone: Some("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"),
            endpoints: &[
                "1@n2/abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk",
                "2@n2/abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl",
            ],
            level: "zone",
            inside: "1",
            ..ROW
        },
        Row {
            name: "C37: upper and lower case differ",
            zone: Some("Zone-A"),
            endpoints: &["1@n2/zone-a", "2@n3/Zone-A"],
            level: "zone",
            inside: "2",
            ..ROW
        },
        Row {
            name: "C37: in hints too",
            zone: Some("Zone-A"),
            endpoints: &["1@n2 zones=zone-a", "2@n3 zones=Zone-A"],
            level: "hinted-zone",
            inside: "2",
            ..KUBE_PROXY
        },
        Row {
            name: "one zone's name begins like another's",
            zone: Some("a"),
            endpoints: &["1@n2/aa", "2@n3/a"],
            level: "zone",
            inside: "2",
            ..ROW
        },
    ]);
}

#[test]
fn enough_endpoints() {
    check(&[
        Row {
            name: "one local pod does not drown",
            wanted: at_least("2"),
            endpoints: EVERYWHERE,
            level: "zone",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "the region is the first to have enough",
            wanted: at_least("3"),
            endpoints: EVERYWHERE,
            level: "region",
            inside: "1 2 3",
            ..ROW
        },
        Row {
            name: "exactly enough",
            wanted: at_least("1"),
            endpoints: EVERYWHERE,
            level: "node",
            inside: "1",
            ..ROW
        },
        Row {
            name: "no level has enough: all are used, few as they are",
            wanted: at_least("9"),
            endpoints: EVERYWHERE,
            level: "anywhere",
            inside: "1 2 3 4",
            ..ROW
        },
        Row {
            name: "only ready ones count",
            wanted: at_least("2"),
            endpoints: &["1@n1/a", "5@n1/a unready", "6@n1/a draining", "2@n2/a"],
            level: "zone",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "hints are the controller's word: no least number",
            wanted: at_least("2"),
            endpoints: &["1@n1/a zones=a", "2@n2/b zones=b"],
            level: "hinted-zone",
            inside: "1",
            ..ROW
        },
        Row {
            name: "gate off: not looked at",
            wanted: at_least("2"),
            endpoints: &["1@n1/a zones=a", "2@n2/b"],
            level: "anywhere",
            inside: "1 2",
            ..KUBE_PROXY
        },
    ]);
}
