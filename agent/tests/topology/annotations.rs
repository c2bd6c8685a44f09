//! The Service's own order, `sliceproxy.io/topology-keys`.

use sliceproxy::convert;

use crate::cluster::{Cluster, PLAIN, Wanted, service, slice};
use crate::row::{KUBE_PROXY, ROW, Row, check, keys};

const EVERYWHERE: &[&str] = &["1@n1/a", "2@n2/a", "3@n3/b", "4@n4/c"];
const NEITHER_HERE_NOR_IN_THE_ZONE: &[&str] = &["3@n3/b", "4@n4/c"];

#[test]
fn the_first_key_with_a_match_wins() {
    check(&[
        Row {
            name: "its order may put the zone first",
            wanted: keys("topology.kubernetes.io/zone,kubernetes.io/hostname"),
            endpoints: EVERYWHERE,
            level: "zone",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "a key without a match is passed over",
            wanted: keys("kubernetes.io/hostname, topology.kubernetes.io/region"),
            endpoints: NEITHER_HERE_NOR_IN_THE_ZONE,
            level: "region",
            inside: "3",
            ..ROW
        },
        Row {
            name: "no match and no *",
            wanted: keys("kubernetes.io/hostname,topology.kubernetes.io/zone"),
            endpoints: NEITHER_HERE_NOR_IN_THE_ZONE,
            level: "refused",
            inside: "refused",
            ..ROW
        },
        Row {
            name: "no match, then *",
            wanted: keys("kubernetes.io/hostname,topology.kubernetes.io/zone,*"),
            endpoints: NEITHER_HERE_NOR_IN_THE_ZONE,
            level: "anywhere",
            inside: "3 4",
            ..ROW
        },
        Row {
            name: "* alone",
            wanted: keys("*"),
            endpoints: EVERYWHERE,
            level: "anywhere",
            inside: "1 2 3 4",
            ..ROW
        },
        Row {
            name: "this node or nothing",
            wanted: keys("kubernetes.io/hostname"),
            endpoints: &["2@n2/a", "5@n1/a unready"],
            level: "refused",
            inside: "refused",
            ..ROW
        },
    ]);
}

#[test]
fn keys_and_everything_else() {
    check(&[
        Row {
            name: "* overrides hints",
            wanted: keys("*"),
            endpoints: &["1/a zones=a", "2/b zones=b"],
            level: "anywhere",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "a zone key on a node without a zone never matches",
            zone: None,
            wanted: keys("topology.kubernetes.io/zone"),
            endpoints: &["1@n1/a", "2@n2"],
            level: "refused",
            inside: "refused",
            ..ROW
        },
        Row {
            name: "a region key where the zone's region is not known",
            regions: &[],
            wanted: keys("topology.kubernetes.io/region"),
            endpoints: NEITHER_HERE_NOR_IN_THE_ZONE,
            level: "refused",
            inside: "refused",
            ..ROW
        },
        Row {
            name: "a region key finds this zone even so",
            regions: &[],
            wanted: keys("topology.kubernetes.io/region"),
            endpoints: EVERYWHERE,
            level: "region",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "nothing at all is none, not refused by the keys",
            wanted: keys("kubernetes.io/hostname"),
            level: "none",
            inside: "refused",
            ..ROW
        },
        Row {
            name: "keys with a least number",
            wanted: Wanted {
                min: Some("2"),
                ..keys("kubernetes.io/hostname,topology.kubernetes.io/zone")
            },
            endpoints: EVERYWHERE,
            level: "zone",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "keys with a least number that none has, without *",
            wanted: Wanted { min: Some("2"), ..keys("kubernetes.io/hostname") },
            endpoints: EVERYWHERE,
            level: "refused",
            inside: "refused",
            ..ROW
        },
        Row {
            name: "gate off: keys that would refuse do not",
            wanted: keys("kubernetes.io/hostname"),
            endpoints: NEITHER_HERE_NOR_IN_THE_ZONE,
            level: "anywhere",
            inside: "3 4",
            ..KUBE_PROXY
        },
    ]);
}

/// As if it were not there: nearest first.
#[test]
fn a_faulty_annotation_is_ignored_and_says_why() {
    for (wanted, reason) in [
        (keys("*,kubernetes.io/hostname"), "sliceproxy.io/topology-keys: *"),
        (keys("topology.kubernetes.io/region,rack"), "\"rack\" is not a topology key"),
        (keys("failure-domain.beta.kubernetes.io/zone"), "is not a topology key"),
        (keys(""), "no key"),
        (Wanted { min: Some("0"), ..PLAIN }, "sliceproxy.io/topology-min-endpoints: not a whole"),
    ] {
        let row = Row { wanted, endpoints: EVERYWHERE, ..ROW };
        let cluster = row.started();
        assert_eq!(cluster.inside(), "1", "{reason}");
        let ignored = cluster.view().annotations_ignored.unwrap();
        assert!(ignored.contains(reason), "{ignored}");
    }
}

/// One of two annotations is right: only the other one is ignored.
#[test]
fn annotations_are_ignored_one_by_one() {
    let wanted = Wanted { min: Some("two"), ..keys("topology.kubernetes.io/region") };
    let cluster = Row { wanted, endpoints: EVERYWHERE, ..ROW }.started();
    assert_eq!(cluster.inside(), "1 2 3");
    assert!(cluster.view().annotations_ignored.unwrap().contains("min-endpoints"));
}

/// What is rejected is a finding of the source too, which is how it gets into the log: once.
#[test]
fn a_faulty_annotation_is_one_rejection() {
    let text = r#"{"metadata": {"namespace": "shop", "name": "web", "annotations":
                    {"sliceproxy.io/topology-keys": "rack\u001b[31m"}},
                   "spec": {"clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]}}"#;
    let converted = convert::service(&serde_json::from_str(text).unwrap());
    let lines: Vec<_> = converted.rejections.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("Service shop/web: metadata.annotations[sliceproxy.io/topology-keys]")
    );
    assert!(!lines[0].contains('\u{1b}'), "{}", lines[0]);
    let ignored = converted.object.unwrap().topology.ignored.unwrap();
    assert!(!ignored.contains('\u{1b}'), "{ignored}");
}

#[test]
fn an_annotation_that_is_corrected_counts_at_once() {
    let mut cluster = Cluster::new(true, &[]);
    cluster.list(vec![service(&keys("rack"))], vec![slice(&["1", "2@n1"])]);
    assert_eq!(cluster.inside(), "2");
    cluster.tell(sliceproxy::model::Event::Service(service(&keys("*"))));
    assert_eq!(cluster.inside(), "1 2");
    assert_eq!(cluster.view().annotations_ignored, None);
}
