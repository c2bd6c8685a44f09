//! Hints, exactly as kube-proxy 1.36 takes them, with the gate off; and what the gate adds.

use crate::row::{KUBE_PROXY, ROW, Row, check, keys};

/// Zone hints for every endpoint: two here, two elsewhere.
const ZONE_HINTS: &[&str] =
    &["1@n2/a zones=a", "2@n3/b zones=b", "3@n4/c zones=c", "4@n5/a zones=a"];
/// The hints of `trafficDistribution: PreferSameNode`.
const NODE_HINTS: &[&str] = &[
    "1@n1/a zones=a nodes=n1",
    "2@n2/b zones=b nodes=n2",
    "3@n3/c zones=c nodes=n3",
    "4@n4/a zones=a nodes=n4",
];

#[test]
fn zone_hints() {
    check(&[
        Row {
            name: "all hinted, two for this zone",
            endpoints: ZONE_HINTS,
            level: "hinted-zone",
            inside: "1 4",
            ..KUBE_PROXY
        },
        Row {
            name: "a node without labels",
            zone: None,
            region: None,
            endpoints: ZONE_HINTS,
            level: "anywhere",
            inside: "1 2 3 4",
            ..KUBE_PROXY
        },
        Row {
            name: "a node with an empty zone label",
            zone: Some(""),
            endpoints: ZONE_HINTS,
            level: "anywhere",
            inside: "1 2 3 4",
            ..KUBE_PROXY
        },
        Row {
            name: "all hinted, none for this zone",
            zone: Some("z"),
            endpoints: ZONE_HINTS,
            level: "anywhere",
            inside: "1 2 3 4",
            ..KUBE_PROXY
        },
        Row {
            name: "one in this zone is not ready",
            endpoints: &["1/a zones=a", "2/b zones=b", "3/c zones=c", "4/a zones=a unready"],
            level: "hinted-zone",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "all in this zone are not ready",
            endpoints: &[
                "1/a zones=a unready",
                "2/b zones=b",
                "3/c zones=c",
                "4/a zones=a unready",
            ],
            level: "anywhere",
            inside: "2 3",
            ..KUBE_PROXY
        },
        Row {
            name: "one is without a hint",
            endpoints: &["1/a zones=a", "2/b zones=b", "3/c", "4/a zones=a"],
            level: "anywhere",
            inside: "1 2 3 4",
            ..KUBE_PROXY
        },
        Row {
            name: "one that is not ready is without a hint",
            endpoints: &["1/a zones=a", "2/b zones=b", "3/c unready"],
            level: "hinted-zone",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "one that drains is without a hint",
            endpoints: &["1/a zones=a", "2/b zones=b", "3/a draining"],
            level: "hinted-zone",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "several zones in one hint",
            zone: Some("c"),
            endpoints: &["1/a zones=a,b,c", "2/b zones=b,c", "3/b zones=b,d", "4/c zones=c"],
            level: "hinted-zone",
            inside: "1 2 4",
            ..KUBE_PROXY
        },
        Row {
            name: "the hint counts, not the zone of the endpoint",
            endpoints: &["1@n2/a zones=b", "2@n3/b zones=a"],
            level: "hinted-zone",
            inside: "2",
            ..KUBE_PROXY
        },
        Row {
            name: "without hints the zone of the endpoint does not matter",
            endpoints: &["1@n1/a", "2@n2/b"],
            level: "anywhere",
            inside: "1 2",
            ..KUBE_PROXY
        },
    ]);
}

#[test]
fn node_hints() {
    check(&[
        Row {
            name: "all hinted, one for this node",
            endpoints: NODE_HINTS,
            level: "hinted-node",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "node hints of several nodes",
            endpoints: &["1/a nodes=n2,n1", "2/b nodes=n2", "3/b nodes=n1"],
            level: "hinted-node",
            inside: "1 3",
            ..KUBE_PROXY
        },
        Row {
            name: "a node hint may name this node for an endpoint elsewhere",
            endpoints: &["1@n1/a nodes=n2", "2@n2/b nodes=n1"],
            level: "hinted-node",
            inside: "2",
            ..KUBE_PROXY
        },
        Row {
            name: "node hints work without a zone",
            zone: None,
            endpoints: NODE_HINTS,
            level: "hinted-node",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "one has neither hint",
            endpoints: &["1@n1/a zones=a nodes=n1", "2@n2/b", "3@n3/c zones=c nodes=n3"],
            level: "anywhere",
            inside: "1 2 3",
            ..KUBE_PROXY
        },
        Row {
            name: "C32: one has a zone hint only, so zones count",
            endpoints: &["1@n1/a zones=a nodes=n1", "2@n2/b zones=b", "3@n3/a zones=a nodes=n3"],
            level: "hinted-zone",
            inside: "1 3",
            ..KUBE_PROXY
        },
        Row {
            name: "none is for this node, two for its zone",
            endpoints: &[
                "1@n7/a zones=a nodes=n7",
                "2@n2/b zones=b nodes=n2",
                "3@n3/c zones=c nodes=n3",
                "4@n4/a zones=a nodes=n4",
            ],
            level: "hinted-zone",
            inside: "1 4",
            ..KUBE_PROXY
        },
        Row {
            name: "none is for this node nor for its zone",
            zone: Some("z"),
            endpoints: &["1@n2/b zones=b nodes=n2", "2@n3/c zones=c nodes=n3"],
            level: "anywhere",
            inside: "1 2",
            ..KUBE_PROXY
        },
        Row {
            name: "C33: the one for this node is not ready, so its zone",
            endpoints: &[
                "1@n1/a zones=a nodes=n1 unready",
                "2@n2/b zones=b nodes=n2",
                "4@n4/a zones=a nodes=n4",
            ],
            level: "hinted-zone",
            inside: "4",
            ..KUBE_PROXY
        },
    ]);
}

#[test]
fn hints_and_the_gate() {
    check(&[
        Row {
            name: "hints come before nearest-first",
            endpoints: &["1@n1/a zones=b", "2@n2/b zones=a"],
            level: "hinted-zone",
            inside: "2",
            ..ROW
        },
        Row {
            name: "node hints come before nearest-first",
            endpoints: NODE_HINTS,
            level: "hinted-node",
            inside: "1",
            ..ROW
        },
        Row {
            name: "C31: hinted elsewhere, so the nearest level, the region",
            endpoints: &["1@n2/b zones=b", "2@n3/c zones=c", "3@n4/c zones=c"],
            level: "region",
            inside: "1",
            ..ROW
        },
        Row {
            name: "one without a hint, so the nearest level, the node",
            endpoints: &["1@n1/a zones=a", "2@n2/a", "3@n3/b zones=b"],
            level: "node",
            inside: "1",
            ..ROW
        },
        Row {
            name: "the Service's own keys come before hints",
            wanted: keys("topology.kubernetes.io/region,*"),
            endpoints: ZONE_HINTS,
            level: "region",
            inside: "1 2 4",
            ..ROW
        },
        Row {
            name: "and are not looked at with the gate off",
            wanted: keys("topology.kubernetes.io/region,*"),
            endpoints: ZONE_HINTS,
            level: "hinted-zone",
            inside: "1 4",
            ..KUBE_PROXY
        },
    ]);
}
