//! The servers of a running agent, put together.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use sliceproxy_dataplane::kernel::Kernel;
use tokio::sync::mpsc::UnboundedSender;

use super::drill_down::drill_down_router;
use super::health::Health;
use super::health_check_node_port::{HealthCheckFailure, HealthCheckNodePorts};
use super::health_pages::health_router;
use super::listen::{BindFailure, serve_wanted};
use super::metrics::Metrics;
use super::moment::Moment;
use super::observer::{ServerObserver, note_event};
use super::status::{Refresh, StatusPages, metrics_router};
use super::survey::Survey;
use crate::config::{Config, Source};
use crate::driver::Handle;
use crate::model::Event;
use crate::source::kube::{Freshness, Watched};

/// Health and metrics of one agent, and the way they get to know of it.
#[derive(Debug, Clone)]
pub struct Reporting {
    /// Health.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Metrics,
    /// To be written by the watches on the API server.
    pub freshness: Arc<Freshness>,
    start: Moment,
}

impl Reporting {
    /// Of an agent that starts now.
    pub fn new(config: &Config) -> Self {
        let start = Moment::now();
        let freshness = Arc::new(Freshness::default());
        let health = Health::new(config.health_timeout());
        let health = Arc::new(match config.source {
            Source::Api(_) => health.following(Arc::clone(&freshness)),
            Source::Manifests(_) => health,
        });
        let metrics = Metrics::new(Arc::clone(&health), &config.gates, start);
        Self { health, metrics, freshness, start }
    }

    /// What the engine's driver tells. Serves health checks too; ports that these cannot have go to
    /// `failures`. Must be called inside a runtime.
    pub fn observer(&self, failures: UnboundedSender<HealthCheckFailure>) -> ServerObserver {
        let checks = HealthCheckNodePorts::new(Arc::clone(&self.health), failures);
        ServerObserver::new(
            Arc::clone(&self.health),
            self.metrics.clone(),
            Some(checks),
            self.start,
        )
    }

    /// To be told of every event on its way to the engine.
    pub fn note(&self, event: &Event) {
        note_event(event, &self.health, &self.metrics, Moment::now());
    }

    /// Serves health and metrics for ever. `flags` are those given on the command line.
    ///
    /// # Errors
    /// An address that cannot be bound, if the configuration wants the process to end then.
    pub fn serve<K: Kernel + 'static>(
        &self,
        config: &Config,
        flags: BTreeMap<String, String>,
        handle: Handle<K>,
    ) -> impl Future<Output = BindFailure> + Send + use<K> {
        let (health, metrics) = (Arc::clone(&self.health), self.metrics.clone());
        let pages = StatusPages::new(
            metrics.clone(),
            Arc::clone(&health),
            config,
            flags,
            self.start,
            surveying(self, handle.clone()),
        );
        let metrics_pages = metrics_router(pages, config).merge(drill_down_router(handle));
        let wanted = [
            ("health", config.servers.healthz, health_router(health, metrics)),
            ("metrics", config.servers.metrics, metrics_pages),
        ];
        serve_wanted(wanted, config.servers.hard_fail)
    }
}

/// Has everybody counted before metrics are shown.
fn surveying<K: Kernel + 'static>(reporting: &Reporting, handle: Handle<K>) -> Refresh {
    let Reporting { freshness, metrics, .. } = reporting.clone();
    Box::new(move || {
        for watched in Watched::ALL {
            metrics.rejected_parts(watched.kind(), freshness.of(watched).rejected_parts);
        }
        let (metrics, handle) = (metrics.clone(), handle.clone());
        async move {
            // A process that ends shows what it knows.
            if let Ok(survey) = handle.ask(|engine| Survey::of(engine)).await {
                metrics.surveyed(&survey);
            }
        }
        .boxed()
    })
}
