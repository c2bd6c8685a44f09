//! The metrics server on port 10249: `/metrics`, and pages about the process for people who look
//! into a node.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::future::BoxFuture;
use prometheus_client::encoding::prometheus_text;
use serde_json::{Value, json};

use super::health::Health;
use super::metrics::Metrics;
use super::moment::Moment;
use crate::config::{Config, Gate};
use crate::source::kube::Watched;
use crate::version;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Longest wait for the agent before a page is shown without its latest news.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Asks the running agent for what is not in the metrics yet, before they are shown.
pub type Refresh = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What the pages show.
pub struct StatusPages {
    metrics: Metrics,
    configuration: Value,
    flags: BTreeMap<String, String>,
    start: Moment,
    health: Arc<Health>,
    refresh: Refresh,
}

impl std::fmt::Debug for StatusPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusPages").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl StatusPages {
    /// `flags` are those given on the command line; `refresh` runs before each `/metrics`.
    pub fn new(
        metrics: Metrics,
        health: Arc<Health>,
        config: &Config,
        flags: BTreeMap<String, String>,
        start: Moment,
        refresh: Refresh,
    ) -> Self {
        let (kube_proxy, slice_proxy) = config.to_file().to_json();
        let configuration =
            json!({ "kubeproxy.config.k8s.io": kube_proxy, "sliceproxy.io": slice_proxy });
        Self { metrics, configuration, flags, start, health, refresh }
    }
}

/// The server on port 10249.
pub fn metrics_router(pages: StatusPages, config: &Config) -> Router {
    let mut router = Router::new()
        .route("/healthz", any(healthz))
        .route("/metrics", any(metrics))
        .route("/metrics/slis", any(slis))
        .route("/proxyMode", any(|| async { page(TEXT, "nftables".to_owned()) }))
        .route("/configz", any(configz))
        .route("/version", any(|| async { page(JSON, version_json().to_string()) }));
    if config.gates.enabled(Gate::ComponentFlagz) {
        router = router.route("/flagz", any(flagz));
    }
    if config.gates.enabled(Gate::ComponentStatusz) {
        router = router.route("/statusz", any(statusz));
    }
    router.fallback(not_found).with_state(Arc::new(pages))
}

/// As Go's server answers.
pub(super) async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, page(TEXT, "404 page not found\n".to_owned())).into_response()
}

pub(super) fn page(content_type: &'static str, body: String) -> Response {
    let headers = [(CONTENT_TYPE, content_type), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, body).into_response()
}

type Pages = State<Arc<StatusPages>>;

async fn healthz(State(pages): Pages) -> Response {
    pages.metrics.pinged();
    page(TEXT, "ok".to_owned())
}

async fn metrics(State(pages): Pages) -> Response {
    if tokio::time::timeout(PATIENCE, (pages.refresh)()).await.is_err() {
        tracing::warn!("the engine is busy: metrics are shown without its latest counts");
    }
    page(prometheus_text::CONTENT_TYPE, pages.metrics.encode())
}

async fn slis(State(pages): Pages) -> Response {
    page(prometheus_text::CONTENT_TYPE, pages.metrics.encode_slis())
}

async fn configz(State(pages): Pages) -> Response {
    page(JSON, pages.configuration.to_string())
}

async fn flagz(State(pages): Pages) -> Response {
    let mut text = header("flagz");
    for (name, value) in &pages.flags {
        let _ = writeln!(text, "{name}={}", value.escape_debug());
    }
    page(TEXT, text)
}

async fn statusz(State(pages): Pages) -> Response {
    page(TEXT, statusz_text(&pages, Moment::now()))
}

fn statusz_text(pages: &StatusPages, now: Moment) -> String {
    let up = Duration::from_secs(now.since(pages.start).as_secs());
    let mut text = header("statusz");
    let fixed = [
        ("Started".to_owned(), pages.start.to_rfc3339()),
        ("Up".to_owned(), humantime::format_duration(up).to_string()),
        ("Binary version".to_owned(), version::FULL.to_owned()),
        (
            "Paths".to_owned(),
            "/configz /flagz /healthz /metrics /metrics/slis /metrics/topology /proxyMode /statusz /version"
                .to_owned(),
        ),
    ];
    let silence = pages.health.silence(now);
    let source = silence.map_or_else(
        || "nothing heard yet".to_owned(),
        |silence| format!("heard {} s ago", silence.as_secs()),
    );
    let healthy = pages.health.is_healthy(now);
    let live = [
        ("Source".to_owned(), source),
        ("Healthy".to_owned(), healthy.to_string()),
        ("Node eligible".to_owned(), pages.health.is_node_eligible().to_string()),
    ];
    let watches = pages.health.watches().into_iter().flat_map(|watches| {
        Watched::ALL.map(|watched| (format!("Watch on {watched}"), watches.of(watched).to_string()))
    });
    for (name, value) in fixed.into_iter().chain(live).chain(watches) {
        let _ = writeln!(text, "{name}: {}", value.escape_debug());
    }
    text
}

fn header(page: &str) -> String {
    format!("\nsliceproxy {page}\nFor people: the form of this page changes without notice.\n\n")
}

fn version_json() -> Value {
    let mut numbers = version::VERSION.split('.');
    let mut next = || numbers.next().unwrap_or_default();
    json!({
        "major": next(),
        "minor": next(),
        "gitVersion": format!("v{}", version::VERSION),
        "gitCommit": version::COMMIT,
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
