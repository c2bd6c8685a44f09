//! `/metrics/topology`: the level and the endpoints of each Service port, one by one, in Prometheus'
//! text format. Apart from `/metrics`, because it has several series for each Service port: who
//! wants them adds a scrape job, and may narrow it with `?filter=NAMESPACE` or
//! `?filter=NAMESPACE/SERVICE`.

use std::collections::HashMap;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::family::Family as ByLabel;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;

use super::metrics::name_of;
use super::status::{PATIENCE, TEXT, page};
use crate::driver::Handle;
use crate::engine::Engine;
use crate::model::ServicePortName;
use crate::view::{Filter, Selected};

/// A Service port in one family.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    name: ServicePortName,
    family: Family,
    selected: Selected,
    ready: u32,
    all: u32,
}

/// The page, about the engine behind `handle`.
pub fn drill_down_router<K: Kernel + 'static>(handle: Handle<K>) -> Router {
    Router::new().route("/metrics/topology", get(show::<K>)).with_state(handle)
}

async fn show<K: Kernel + 'static>(
    State(handle): State<Handle<K>>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let filter: Filter = match parameters.get("filter").map(|text| text.parse()).transpose() {
        Ok(filter) => filter.unwrap_or_default(),
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("filter: {error}")),
    };
    let asked = handle.ask(move |engine| engine.is_listed().then(|| lines(engine, &filter)));
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(Some(lines))) => page(prometheus_text::CONTENT_TYPE, exposition(&lines)),
        Ok(Ok(None)) => refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the agent has not received all Services and EndpointSlices yet",
        ),
        Ok(Err(stopped)) => refuse(StatusCode::SERVICE_UNAVAILABLE, &stopped.to_string()),
        Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the agent is busy"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, page(TEXT, format!("{why}\n"))).into_response()
}

fn lines<K: Kernel>(engine: &Engine<K>, filter: &Filter) -> Vec<Line> {
    let ports = engine.ports().filter(|port| filter.admits(&port.name.service));
    let mut lines: Vec<Line> = ports
        .filter_map(|port| {
            let service = engine.cache().service(&port.name.service)?;
            let tally = port.pool.tally();
            Some(Line {
                name: port.name.clone(),
                family: port.pool.family(),
                selected: Selected::of(service, port),
                ready: tally.ready,
                all: tally.all,
            })
        })
        .collect();
    lines.sort_unstable_by(|a, b| (&a.name, a.family).cmp(&(&b.name, b.family)));
    lines
}

type Labels = Vec<(&'static str, String)>;

fn exposition(lines: &[Line]) -> String {
    let mut registry = Registry::default();
    let levels = ByLabel::<Labels, Gauge>::default();
    let endpoints = ByLabel::<Labels, Gauge>::default();
    registry.register(
        "sliceproxy_service_port_level",
        "Always 1; the label says which topology level traffic of the Service port stays in",
        levels.clone(),
    );
    registry.register(
        "sliceproxy_service_port_endpoints",
        "Endpoints of the Service port by state: used from this node, ready, all",
        endpoints.clone(),
    );
    for line in lines {
        let with = |label: &'static str, value: &str| -> Labels {
            let mut labels = labels(line);
            labels.push((label, value.to_owned()));
            labels
        };
        levels.get_or_create(&with("level", line.selected.level)).set(1);
        let counts = [("used", line.selected.used), ("ready", line.ready), ("all", line.all)];
        for (state, count) in counts {
            endpoints.get_or_create(&with("state", state)).set(count.into());
        }
    }
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

fn labels(line: &Line) -> Labels {
    let ServicePortName { service, port, protocol } = &line.name;
    vec![
        ("namespace", service.namespace.to_string()),
        ("service", service.name.to_string()),
        ("port", port.to_string()),
        ("protocol", protocol.to_string()),
        ("ip_family", name_of(line.family).to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};

    use super::*;
    use crate::driver::{Pace, start};
    use crate::report::LogObserver;
    use crate::server::tests::{get, serve_somewhere};
    use crate::view::{TopologyView, shop, topology};

    const PACE: Pace = Pace { min_period: Duration::ZERO, read_back: Duration::from_secs(3600) };

    #[tokio::test(flavor = "multi_thread")]
    async fn one_service_port_after_the_other() {
        let engine = shop::snapshot("node-a1", "TopologyRouting").engine(SharedKernel::default());
        let (handle, _) = start(engine.unwrap(), PACE, LogObserver::default()).unwrap();
        let address = serve_somewhere(drill_down_router(handle));
        let of = |name: &str, rest: &str| {
            let (service, port) = name.split_once(':').unwrap();
            format!(
                "namespace=\"shop\",service=\"{service}\",port=\"{port}\",protocol=\"TCP\",\
                 ip_family=\"IPv4\",{rest}\n"
            )
        };
        let all = get(address, "/metrics/topology").await;
        for line in [
            of("web:http", "level=\"node\"} 1"),
            of("images:http", "level=\"region\"} 1"),
            of("cache:redis", "level=\"local\"} 1"),
            of("web:http", "state=\"used\"} 1"),
            of("web:http", "state=\"ready\"} 6"),
            of("web:http", "state=\"all\"} 7"),
        ] {
            assert!(all.contains(&line), "{line} in {all}");
        }
        let images = get(address, "/metrics/topology?filter=shop/images").await;
        assert!(images.contains(&of("images:http", "level=\"region\"} 1")), "{images}");
        assert!(!images.contains("service=\"web\""), "{images}");
        let wrong = get(address, "/metrics/topology?filter=a%20b").await;
        assert!(wrong.starts_with("HTTP/1.0 400"), "{wrong}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn before_everything_is_listed_there_is_nothing_to_show() {
        let settings = shop::snapshot("node-a1", "").settings();
        let engine = Engine::new(settings, SharedKernel::default()).unwrap();
        let (handle, _) = start(engine, PACE, LogObserver::default()).unwrap();
        let answer = get(serve_somewhere(drill_down_router(handle)), "/metrics/topology").await;
        assert!(answer.starts_with("HTTP/1.0 503"), "{answer}");
    }

    /// Metrics, drill-down and `dump topology` speak of the same levels.
    #[test]
    fn levels_are_those_of_dump_topology() {
        let engine = shop::snapshot("node-a1", "TopologyRouting").engine(FakeKernel::new());
        let engine = engine.unwrap();
        let views = topology(&engine, &Filter::default());
        let shown =
            |view: &TopologyView| (view.service_port.clone(), view.level.clone(), view.used);
        let line = |line: Line| {
            (line.name.to_string(), line.selected.level.to_owned(), line.selected.used)
        };
        let lines: Vec<_> = lines(&engine, &Filter::default()).into_iter().map(line).collect();
        assert_eq!(lines, views.iter().map(shown).collect::<Vec<_>>());
        assert!(views.iter().any(|view| view.level == "local" && view.used == 1));
    }
}
