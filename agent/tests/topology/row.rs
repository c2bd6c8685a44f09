//! A line of the tables: a node's place, a Service's wishes, endpoints, and who must answer.

use sliceproxy::model::{Event, TrafficPolicy};

use crate::cluster::{Cluster, PLAIN, Wanted, node, regions, service, slice};

/// One situation and its outcome.
pub(crate) struct Row {
    /// What it shows.
    pub(crate) name: &'static str,
    /// `TopologyRouting`
    pub(crate) gate: bool,
    /// The node's labels.
    pub(crate) zone: Option<&'static str>,
    pub(crate) region: Option<&'static str>,
    /// Regions that were looked up.
    pub(crate) regions: &'static [(&'static str, &'static str)],
    /// The Service.
    pub(crate) wanted: Wanted<'static>,
    /// Its endpoints, see [`crate::cluster::named_slice`].
    pub(crate) endpoints: &'static [&'static str],
    /// The level in `dump topology`.
    pub(crate) level: &'static str,
    /// Who answers a pod of this node.
    pub(crate) inside: &'static str,
    /// Who answers a client outside the cluster.
    pub(crate) outside: Option<&'static str>,
}

/// Node `n1` in zone a of region r1, whose other zone is b; c and d are in r2. Gate on.
pub(crate) const ROW: Row = Row {
    name: "",
    gate: true,
    zone: Some("a"),
    region: Some("r1"),
    regions: &[("a", "r1"), ("b", "r1"), ("c", "r2"), ("d", "r2")],
    wanted: PLAIN,
    endpoints: &[],
    level: "",
    inside: "",
    outside: None,
};

/// The same with the gate off: what kube-proxy does.
pub(crate) const KUBE_PROXY: Row = Row { gate: false, ..ROW };

/// A Service that keeps to its own order.
pub(crate) const fn keys(keys: &'static str) -> Wanted<'static> {
    Wanted { keys: Some(keys), ..PLAIN }
}

/// A Service with policies, and with an external IP if it has the second one.
pub(crate) const fn policies(
    internal: TrafficPolicy,
    external: Option<TrafficPolicy>,
) -> Wanted<'static> {
    Wanted { internal, external, ..PLAIN }
}

impl Row {
    /// The node after it was told of everything, as at start.
    pub(crate) fn started(&self) -> Cluster {
        let mut cluster = Cluster::new(self.gate, &[]);
        cluster.engine.apply(node(self.zone, self.region));
        cluster.engine.apply(Event::ZoneRegions(regions(self.regions)));
        cluster.list(vec![service(&self.wanted)], vec![slice(self.endpoints)]);
        cluster
    }

    /// The same, one by one and the node last.
    fn told_late(&self) -> Cluster {
        let mut cluster = Cluster::new(self.gate, &[]);
        cluster.list(vec![], vec![]);
        cluster.tell(Event::Slice(slice(self.endpoints)));
        cluster.tell(Event::Service(service(&self.wanted)));
        cluster.tell(node(self.zone, self.region));
        cluster.tell(Event::ZoneRegions(regions(self.regions)));
        cluster
    }

    fn check(&self) {
        for (how, cluster) in [("at start", self.started()), ("late", self.told_late())] {
            let name = self.name;
            assert_eq!(cluster.view().level, self.level, "{name} ({how}): level");
            assert_eq!(cluster.inside(), self.inside, "{name} ({how}): inside");
            if let Some(outside) = self.outside {
                assert_eq!(cluster.outside(), outside, "{name} ({how}): outside");
            }
        }
    }
}

/// Checks all of them.
pub(crate) fn check(rows: &[Row]) {
    for (number, row) in rows.iter().enumerate() {
        let twin = rows.iter().take(number).find(|other| other.name == row.name);
        assert!(twin.is_none(), "{} is there twice", row.name);
        row.check();
    }
}
