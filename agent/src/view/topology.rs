//! Which level each Service port uses, and why.

use serde::{Deserialize, Serialize};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;

use super::Filter;
use crate::desired::Feeds;
use crate::engine::{Engine, Port};
use crate::model::Service;
use crate::topology::{LocalScope, words};

/// The selection of a Service port in one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyView {
    /// The Service port, `NAMESPACE/SERVICE:PORT/PROTOCOL`.
    pub service_port: String,
    /// The family.
    pub family: Family,
    /// The level that is used: `node`, `zone`, `region`, `anywhere`, `hinted-node`, `hinted-zone`,
    /// `terminating`, `refused`, `none`; with policy Local for all traffic `local`,
    /// `local-terminating` or `none`.
    pub level: String,
    /// Endpoints that are used.
    pub used: u32,
    /// Endpoints that are ready.
    pub ready: u32,
    /// All endpoints.
    pub all: u32,
    /// Why, in words.
    pub reason: String,
    /// What traffic from outside uses, where `externalTrafficPolicy: Local` makes that different.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_outside: Option<LocalTopologyView>,
    /// Why annotations of the Service were ignored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub annotations_ignored: Option<String>,
}

/// The selection for policy Local.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalTopologyView {
    /// `local`, `local-terminating` or `none`.
    pub level: String,
    /// Endpoints that are used.
    pub used: u32,
    /// Why, in words.
    pub reason: String,
}

/// Which selections the frontends of a Service port use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) cluster: bool,
    pub(super) local: bool,
}

impl Uses {
    pub(super) fn of(service: &Service, port: &Port) -> Self {
        let mut uses = Self { cluster: false, local: false };
        for (_, kind) in &port.claimed {
            let feeds = Feeds::of(service, *kind);
            uses.cluster |= feeds.cluster;
            uses.local |= feeds.local;
        }
        uses
    }
}

/// The selection that a Service port is known by: that for policy Local if all its traffic has that
/// policy, else that for policy Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    /// The level, as [`TopologyView::level`].
    pub level: &'static str,
    /// Endpoints that are used.
    pub used: u32,
}

impl Selected {
    /// What `port` of `service` uses.
    pub fn of(service: &Service, port: &Port) -> Self {
        let pool = &port.pool;
        if Uses::of(service, port) == (Uses { cluster: false, local: true }) {
            let level = words::local_scope_name(pool.local_scope());
            return Self { level, used: pool.local().len() };
        }
        Self { level: words::scope_name(pool.choice().scope), used: pool.cluster().len() }
    }
}

/// The selections of all Service ports, by name and family.
pub fn topology<K: Kernel>(engine: &Engine<K>, filter: &Filter) -> Vec<TopologyView> {
    sorted_ports(engine, filter).map(|(service, port)| of_port(engine, service, port)).collect()
}

/// The Service ports that `filter` admits with their Services, by name and family.
pub(super) fn sorted_ports<'e, K: Kernel>(
    engine: &'e Engine<K>,
    filter: &Filter,
) -> impl Iterator<Item = (&'e Service, &'e Port)> + use<'e, K> {
    let mut ports: Vec<&Port> =
        engine.ports().filter(|port| filter.admits(&port.name.service)).collect();
    ports.sort_unstable_by_key(|port| (&port.name, port.pool.family()));
    let service = |port: &'e Port| Some((&**engine.cache().service(&port.name.service)?, port));
    ports.into_iter().filter_map(service)
}

pub(super) fn of_port<K: Kernel>(
    engine: &Engine<K>,
    service: &Service,
    port: &Port,
) -> TopologyView {
    let (pool, here) = (&port.pool, engine.here());
    let uses = Uses::of(service, port);
    let local = local_view(engine, port, pool.local_scope());
    let selected = Selected::of(service, port);
    let view = TopologyView {
        service_port: port.name.to_string(),
        family: pool.family(),
        level: selected.level.to_owned(),
        used: selected.used,
        ready: pool.tally().ready,
        all: pool.tally().all,
        reason: words::choice(pool.choice(), pool.tally(), here, &engine.wishes(service)),
        from_outside: None,
        annotations_ignored: service.topology.ignored.clone(),
    };
    match (uses.cluster, uses.local) {
        (false, true) => TopologyView { reason: local.reason, ..view },
        (_, true) => TopologyView { from_outside: Some(local), ..view },
        (_, false) => view,
    }
}

fn local_view<K: Kernel>(engine: &Engine<K>, port: &Port, scope: LocalScope) -> LocalTopologyView {
    LocalTopologyView {
        level: words::local_scope_name(scope).to_owned(),
        used: port.pool.local().len(),
        reason: words::local_choice(scope, port.pool.tally(), engine.here()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::view::shop;

    fn line(views: &[TopologyView], service_port: &str) -> String {
        let view = views.iter().find(|view| view.service_port == service_port).unwrap();
        let outside = view.from_outside.as_ref().map(|o| format!(" | {} {}", o.used, o.reason));
        format!(
            "{} {}/{}/{} {}{}",
            view.level,
            view.used,
            view.ready,
            view.all,
            view.reason,
            outside.unwrap_or_default()
        )
    }

    #[test]
    fn the_shop_from_node_b1() {
        let engine = shop::engine("node-b1");
        let views = topology(&engine, &Filter::default());
        for (service_port, expected) in [
            (
                "shop/search:http/TCP",
                "hinted-zone 1/4/4 one endpoint is hinted for this node's zone eu-1b",
            ),
            ("shop/empty:http/TCP", "none 0/0/0 there is no endpoint"),
            (
                "shop/api:https/TCP",
                "anywhere 3/3/3 all three ready endpoints are used: no hints, TopologyRouting is \
                 off | 1 one endpoint is on this node node-b1",
            ),
        ] {
            assert_eq!(line(&views, service_port), expected, "{service_port}");
        }
    }
}
