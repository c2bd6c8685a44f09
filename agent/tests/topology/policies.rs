//! Local policies and endpoints on their way out: topology does not matter there.

use sliceproxy::model::TrafficPolicy::{Cluster, Local};

use crate::cluster::{PLAIN, Wanted};
use crate::row::{KUBE_PROXY, ROW, Row, check, policies};

/// Two on this node, hinted for two zones; two elsewhere, hinted likewise.
const TWO_HERE: &[&str] = &["1@n1/a zones=a", "2@n1/a zones=b", "3@n2/c zones=c", "4@n3/a zones=a"];
const ONE_HERE: &[&str] = &["1@n1/a", "2@n2/a"];
const NONE_HERE: &[&str] = &["1@n2/a", "2@n3/b"];

#[test]
fn local_policies() {
    check(&[
        Row {
            name: "external Local ignores hints, internal Cluster does not",
            wanted: policies(Cluster, Some(Local)),
            endpoints: TWO_HERE,
            level: "hinted-zone",
            inside: "1 4",
            outside: Some("1 2"),
            ..KUBE_PROXY
        },
        Row {
            name: "internal Local ignores hints, external Cluster does not",
            wanted: policies(Local, Some(Cluster)),
            endpoints: TWO_HERE,
            level: "hinted-zone",
            inside: "1 2",
            outside: Some("1 4"),
            ..KUBE_PROXY
        },
        Row {
            name: "C36: a local endpoint in a wrongly hinted zone",
            wanted: policies(Local, None),
            endpoints: &["1@n1/a zones=b", "2@n2/a zones=a"],
            level: "local",
            inside: "1",
            ..ROW
        },
        Row {
            name: "internal Local without endpoints",
            wanted: policies(Local, None),
            level: "none",
            inside: "refused",
            ..KUBE_PROXY
        },
        Row {
            name: "internal Local, all are elsewhere",
            wanted: policies(Local, None),
            endpoints: NONE_HERE,
            level: "none",
            inside: "dropped",
            ..KUBE_PROXY
        },
        Row {
            name: "internal Local, all are here",
            wanted: policies(Local, None),
            endpoints: &["1@n1/a", "2@n1/a"],
            level: "local",
            inside: "1 2",
            ..KUBE_PROXY
        },
        Row {
            name: "internal Local, some are here",
            wanted: policies(Local, None),
            endpoints: ONE_HERE,
            level: "local",
            inside: "1",
            ..KUBE_PROXY
        },
    ]);
}

#[test]
fn two_policies() {
    check(&[
        Row {
            name: "internal Local, external Cluster, some are here",
            wanted: policies(Local, Some(Cluster)),
            endpoints: ONE_HERE,
            level: "anywhere",
            inside: "1",
            outside: Some("1 2"),
            ..KUBE_PROXY
        },
        Row {
            name: "internal Cluster, external Local, some are here",
            wanted: policies(Cluster, Some(Local)),
            endpoints: ONE_HERE,
            level: "anywhere",
            inside: "1 2",
            outside: Some("1"),
            ..KUBE_PROXY
        },
        Row {
            name: "both Local, some are here",
            wanted: policies(Local, Some(Local)),
            endpoints: ONE_HERE,
            level: "anywhere",
            inside: "1",
            outside: Some("1"),
            ..KUBE_PROXY
        },
        Row {
            name: "both Local, all are elsewhere",
            wanted: policies(Local, Some(Local)),
            endpoints: NONE_HERE,
            level: "anywhere",
            inside: "dropped",
            outside: Some("dropped"),
            ..KUBE_PROXY
        },
        Row {
            name: "C08: an endpoint without a node is never local",
            wanted: policies(Local, Some(Local)),
            endpoints: &["1/a", "2"],
            level: "anywhere",
            inside: "dropped",
            outside: Some("dropped"),
            ..KUBE_PROXY
        },
        Row {
            name: "Local does not mind the gate or the Service's keys",
            wanted: Wanted {
                keys: Some("topology.kubernetes.io/zone"),
                min: Some("3"),
                ..policies(Local, None)
            },
            endpoints: &["1@n1/a", "2@n2/a"],
            level: "local",
            inside: "1",
            ..ROW
        },
    ]);
}

#[test]
fn endpoints_on_their_way_out() {
    check(&[
        Row { name: "no endpoint", level: "none", inside: "refused", ..KUBE_PROXY },
        Row {
            name: "one, and it is in no state to serve",
            endpoints: &["1/a unready"],
            level: "none",
            inside: "refused",
            ..KUBE_PROXY
        },
        Row {
            name: "none is ready",
            endpoints: &["1@n1/a unready", "2@n2/b unready"],
            level: "none",
            inside: "refused",
            ..KUBE_PROXY
        },
        Row {
            name: "one of two is ready",
            endpoints: &["1@n1/a unready", "2@n2/b"],
            level: "anywhere",
            inside: "2",
            ..KUBE_PROXY
        },
        Row {
            name: "all are draining",
            endpoints: &["1@n1/a draining", "2@n2/b draining"],
            level: "terminating",
            inside: "1 2",
            ..KUBE_PROXY
        },
        Row {
            name: "what has stopped serving is not used even then",
            endpoints: &["1@n1/a draining", "2@n2/b gone", "3@n2/b unready"],
            level: "terminating",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "draining ones are used wherever they are, hints or not",
            endpoints: &["1@n1/a zones=a draining", "2@n2/c zones=c draining"],
            level: "terminating",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "draining ones are used against the Service's keys",
            wanted: Wanted { keys: Some("kubernetes.io/hostname"), min: Some("9"), ..PLAIN },
            endpoints: &["1@n1/a draining", "2@n2/c draining"],
            level: "terminating",
            inside: "1 2",
            ..ROW
        },
        Row {
            name: "a near one that drains is left for a far one that is ready",
            endpoints: &["1@n1/a draining", "2@n2/d"],
            level: "anywhere",
            inside: "2",
            ..ROW
        },
        Row {
            name: "both Local, all elsewhere and draining",
            wanted: policies(Local, Some(Local)),
            endpoints: &["1@n2/a draining", "2@n3/b draining"],
            level: "terminating",
            inside: "dropped",
            outside: Some("dropped"),
            ..KUBE_PROXY
        },
        Row {
            name: "external Local: ready elsewhere, one drains here",
            wanted: policies(Cluster, Some(Local)),
            endpoints: &["1@n2/b", "2@n1/a gone", "3@n1/a draining", "4@n2/b draining"],
            level: "anywhere",
            inside: "1",
            outside: Some("3"),
            ..KUBE_PROXY
        },
        Row {
            name: "Local: ready here counts before draining here",
            wanted: policies(Local, None),
            endpoints: &["1@n1/a", "2@n1/a draining", "3@n2/a"],
            level: "local",
            inside: "1",
            ..KUBE_PROXY
        },
        Row {
            name: "Local: only draining here",
            wanted: policies(Local, None),
            endpoints: &["1@n1/a draining", "2@n2/a"],
            level: "local-terminating",
            inside: "1",
            ..KUBE_PROXY
        },
    ]);
}
