//! Servers on Services' `healthCheckNodePort`, by which load balancers find the nodes that have
//! endpoints of a Service with `externalTrafficPolicy: Local`.
//!
//! The caller says what there should be; opening, closing and trying again happen here.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use sliceproxy_dataplane::frontend::Family;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::connections;
use super::health::Health;
use super::listen::{BindFailure, RETRY, Stack, bind};
use super::moment::Moment;
use crate::model::ServiceName;

const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// Pause after the first failure, which is not reported yet.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// What a health check answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The Service.
    pub service: ServiceName,
    /// Different addresses of its ready endpoints on this node, in the family of the check.
    pub local_endpoints: usize,
}

/// A health check whose port cannot be had, for an Event on its Service.
#[derive(Debug)]
pub struct HealthCheckFailure {
    /// The Service.
    pub service: ServiceName,
    /// What happened; it is tried again.
    pub failure: BindFailure,
}

/// All health checks of this node. Everything that is open closes with it.
#[derive(Debug)]
pub struct HealthCheckNodePorts {
    shared: Arc<Shared>,
    runtime: Handle,
    open: BTreeMap<SocketAddr, AbortHandle>,
    addresses: Vec<IpAddr>,
    failures: UnboundedSender<HealthCheckFailure>,
    retry: Duration,
}

#[derive(Debug)]
struct Shared {
    health: Arc<Health>,
    wanted: RwLock<BTreeMap<(Family, u16), HealthCheck>>,
    /// Wakes those who wait to try again.
    changed: Notify,
}

/// One server: its part of the shared state.
#[derive(Clone)]
struct Server {
    shared: Arc<Shared>,
    key: (Family, u16),
}

impl HealthCheckNodePorts {
    /// None yet. Must be called inside a runtime, which will do the serving. A port that cannot be
    /// bound is sent to `failures` once, until it could be.
    pub fn new(health: Arc<Health>, failures: UnboundedSender<HealthCheckFailure>) -> Self {
        let shared = Shared { health, wanted: RwLock::default(), changed: Notify::new() };
        Self {
            shared: Arc::new(shared),
            runtime: Handle::current(),
            open: BTreeMap::new(),
            addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            failures,
            retry: RETRY,
        }
    }

    /// Listen on these addresses only, instead of on all. Takes effect with the next
    /// [`HealthCheckNodePorts::update`].
    pub fn listen_on(&mut self, addresses: Vec<IpAddr>) {
        self.addresses = addresses;
    }

    /// From now on, these health checks and no others. Those that stay are not interrupted; those
    /// that wait for their port try at once.
    pub fn update(&mut self, wanted: BTreeMap<(Family, u16), HealthCheck>) {
        let mut sockets: BTreeMap<SocketAddr, (Family, u16)> = BTreeMap::new();
        for (family, port) in wanted.keys().copied() {
            let own = self.addresses.iter().filter(|address| Family::of(**address) == family);
            sockets.extend(own.map(|ip| (SocketAddr::new(*ip, port), (family, port))));
        }
        *self.shared.wanted.write().unwrap_or_else(PoisonError::into_inner) = wanted;
        self.open.retain(|address, task| {
            let stays = sockets.contains_key(address);
            if !stays {
                task.abort();
            }
            stays
        });
        self.shared.changed.notify_waiters();
        for (address, key) in sockets {
            if !self.open.contains_key(&address) {
                let task = self.open_socket(address, key);
                self.open.insert(address, task);
            }
        }
    }

    /// What every server answers now.
    #[cfg(test)]
    pub(super) fn wanted(&self) -> BTreeMap<(Family, u16), HealthCheck> {
        self.shared.wanted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn open_socket(&self, address: SocketAddr, key: (Family, u16)) -> AbortHandle {
        let server = Server { shared: Arc::clone(&self.shared), key };
        let (failures, retry) = (self.failures.clone(), self.retry);
        self.runtime.spawn(server.serve(address, failures, retry)).abort_handle()
    }
}

impl Drop for HealthCheckNodePorts {
    fn drop(&mut self) {
        self.open.values().for_each(AbortHandle::abort);
    }
}

impl Server {
    async fn serve(
        self,
        address: SocketAddr,
        failures: UnboundedSender<HealthCheckFailure>,
        retry: Duration,
    ) {
        let mut failed = 0_u32;
        loop {
            let changed = self.shared.changed.notified();
            match bind(address, Stack::Single) {
                Ok(listener) => {
                    let router = Router::new().fallback(answer).with_state(self.clone());
                    match connections::serve(listener, router).await {}
                }
                Err(source) => {
                    failed = failed.saturating_add(1);
                    if failed == 2 {
                        self.report(
                            BindFailure { server: "health check", address, source },
                            &failures,
                        );
                    }
                }
            }
            // One of our own that listened there may just be closing.
            let pause = if failed == 1 { FIRST_RETRY.min(retry) } else { retry };
            let _ = tokio::time::timeout(pause, changed).await;
        }
    }

    fn report(&self, failure: BindFailure, failures: &UnboundedSender<HealthCheckFailure>) {
        tracing::error!("{failure}; trying again");
        if let Some(check) = self.check() {
            // Nobody to tell is no reason to stop trying.
            let _ = failures.send(HealthCheckFailure { service: check.service, failure });
        }
    }

    /// What is wanted on this port now.
    fn check(&self) -> Option<HealthCheck> {
        let wanted = self.shared.wanted.read().unwrap_or_else(PoisonError::into_inner);
        wanted.get(&self.key).cloned()
    }
}

/// Answers any method and path.
async fn answer(State(server): State<Server>) -> Response {
    // The request came while the port was being closed.
    let Some(check) = server.check() else { return StatusCode::OK.into_response() };
    let healthy = server.shared.health.is_healthy(Moment::now());
    let good = check.local_endpoints > 0 && healthy;
    let code = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let headers = [
        (CONTENT_TYPE, "application/json".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (WEIGHT, check.local_endpoints.to_string()),
    ];
    (code, headers, body(&check, healthy)).into_response()
}

/// Byte for byte kube-proxy's: some load balancers compare text.
fn body(check: &HealthCheck, healthy: bool) -> String {
    let HealthCheck { service, local_endpoints } = check;
    format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": {:?},\n\t\t\"name\": {:?}\n\t}},\n\t\
         \"localEndpoints\": {local_endpoints},\n\t\"serviceProxyHealthy\": {healthy}\n}}",
        service.namespace, service.name
    )
}

#[cfg(test)]
#[path = "health_check_node_port_tests.rs"]
mod tests;
