//! `/healthz` and `/livez` over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde::Serialize;

use super::health::{Health, Report};
use super::metrics::{Metrics, Probe};
use super::moment::Moment;
use super::status::not_found;

#[derive(Clone)]
struct Pages {
    health: Arc<Health>,
    metrics: Metrics,
}

/// The server on port 10256. Any method is answered, as kube-proxy does.
///
/// `?verbose` adds how long the API server has been silent, which the plain body has no field for.
pub fn health_router(health: Arc<Health>, metrics: Metrics) -> Router {
    Router::new()
        .route("/healthz", any(healthz))
        .route("/livez", any(livez))
        .fallback(not_found)
        .with_state(Pages { health, metrics })
}

async fn healthz(State(pages): State<Pages>, uri: Uri) -> Response {
    let now = Moment::now();
    pages.answer(Probe::Healthz, pages.health.healthz(now), &uri, now)
}

async fn livez(State(pages): State<Pages>, uri: Uri) -> Response {
    let now = Moment::now();
    pages.answer(Probe::Livez, pages.health.livez(now), &uri, now)
}

/// kube-proxy's body, and after it what only the verbose one has.
#[derive(Serialize)]
struct Body {
    #[serde(flatten)]
    report: Report,
    #[serde(rename = "watchAgeSeconds", skip_serializing_if = "Option::is_none")]
    watch_age_seconds: Option<f64>,
}

impl Pages {
    fn answer(
        &self,
        probe: Probe,
        (good, report): (bool, Report),
        uri: &Uri,
        now: Moment,
    ) -> Response {
        let code = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        self.metrics.probed(probe, code.as_u16());
        let verbose = uri.query().is_some_and(|q| q.split('&').any(|p| p.starts_with("verbose")));
        let watch_age = self.health.silence(now).map(|silence| silence.as_secs_f64());
        let body = Body { report, watch_age_seconds: verbose.then_some(watch_age).flatten() };
        let text = serde_json::to_string(&body).unwrap_or_default();
        let headers = [(CONTENT_TYPE, "application/json"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
        (code, headers, text).into_response()
    }
}
