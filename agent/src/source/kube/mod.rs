//! Services, EndpointSlices, this node's Node and ServiceCIDRs from an API server, followed for as
//! long as the process lives. Never Endpoints, Pods, or other Nodes; except that with gate
//! `TopologyRouting` one Node is looked up per zone, for its region.
//!
//! ```text
//! connect ──> api ──> frames ── decode ──> wire ── convert ──> Event
//!              ^                                                 │
//!              └── reflector (list, watch, resume), one per kind ┘──> regions
//! ```
//!
//! Services and slices are reported as a whole only from complete lists, and never in part.

mod api;
mod backoff;
mod connect;
mod decode;
mod freshness;
mod kinds;
mod reflector;
mod regions;
mod request;
#[cfg(test)]
mod tests;
mod texts;
mod troubles;
mod writer;

use std::convert::Infallible;
use std::sync::Arc;

use tokio::task::JoinSet;
use tracing::info;

use self::api::Api;
pub use self::connect::ConnectError;
pub use self::freshness::{Freshness, WatchState, Watched};
use self::kinds::{Kind, OwnNode, ServiceCidrs, Services, Slices};
use self::reflector::{Need, Reflector, Shared};
use self::request::Query;
use self::troubles::Troubles;
pub use self::writer::{WriteError, Writer};
use crate::config::{ApiServer, Config, Gate, LabelSelector};
use crate::model::{Event, NodeName, ZoneRegions};

/// Why the source ended.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nobody knows whom to ask.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A bug.
    #[error("a watch ended by itself: {0}")]
    Ended(String),
}

/// What the source needs to know from the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How the API server is reached.
    pub server: ApiServer,
    /// This node.
    pub node: NodeName,
    /// Narrows the slices.
    pub slice_selector: Option<LabelSelector>,
    /// Whether regions matter: gate `TopologyRouting`.
    pub topology_routing: bool,
    /// Regions that need not be looked up.
    pub zone_regions: ZoneRegions,
    /// Complaints about one object per hour in the log.
    pub log_lines_per_object: u32,
}

impl Settings {
    /// From the configuration, for the API server that is its source.
    pub fn new(config: &Config, server: ApiServer) -> Self {
        Self {
            server,
            node: config.node_name.clone(),
            slice_selector: config.slice_selector.clone(),
            topology_routing: config.gates.enabled(Gate::TopologyRouting),
            zone_regions: config.zone_regions.clone(),
            log_lines_per_object: config.limits.log_lines_per_object,
        }
    }
}

/// Follows the API server and reports what happens to `sink`. Ends when the future is dropped.
///
/// # Errors
/// If it is not known how to reach the API server. One that is away, or does not let us in, is
/// tried again for ever.
pub async fn run(
    settings: &Settings,
    sink: impl Fn(Event) + Clone + Send + Sync + 'static,
    freshness: Arc<Freshness>,
) -> Result<Infallible, SourceError> {
    let (client, address) = connect::connect(&settings.server).await?;
    info!(%address, "following the API server");
    let api = Arc::new(Api::new(client, address, Some(settings.server.clone())));
    follow(settings, api, sink, freshness).await
}

async fn follow(
    settings: &Settings,
    api: Arc<Api>,
    sink: impl Fn(Event) + Clone + Send + Sync + 'static,
    freshness: Arc<Freshness>,
) -> Result<Infallible, SourceError> {
    let mut tasks = JoinSet::new();
    let zones = settings.topology_routing.then(|| {
        let (zones, lookups) =
            regions::lookups(Arc::clone(&api), &settings.zone_regions, sink.clone());
        tasks.spawn(lookups.run());
        zones
    });
    let sink = move |event: Event| {
        if let Some(zones) = &zones {
            zones.notice(&event);
        }
        sink(event);
    };
    let shared = Shared {
        freshness,
        troubles: Arc::new(Troubles::new(api.address())),
        log_lines_per_object: settings.log_lines_per_object,
        api,
    };
    let selector = settings.slice_selector.as_ref();
    spawn(&mut tasks, Services, Need::Required, Query::services(), &sink, &shared);
    spawn(&mut tasks, Slices::default(), Need::Required, Query::slices(selector), &sink, &shared);
    spawn(&mut tasks, OwnNode, Need::Required, Query::node(&settings.node), &sink, &shared);
    let cidrs = ServiceCidrs::default();
    spawn(&mut tasks, cidrs, Need::Optional, Query::service_cidrs(), &sink, &shared);

    let end = match tasks.join_next().await {
        Some(Err(error)) => error.to_string(),
        _ => "no reason known".to_owned(),
    };
    Err(SourceError::Ended(end))
}

fn spawn<K: Kind, S: Fn(Event) + Clone + Send + Sync + 'static>(
    tasks: &mut JoinSet<()>,
    kind: K,
    need: Need,
    query: Query,
    sink: &S,
    shared: &Shared,
) {
    tasks.spawn(Reflector::new(kind, need, query, sink.clone(), shared.clone()).run());
}
