//! What the agent answers over HTTP: health for load balancers and the kubelet, metrics, and pages
//! about the process. Addresses, bodies and names are kube-proxy's, so that existing probes,
//! dashboards and alerts go on working. And the local socket for `dump`, `explain` and `diff`.
//!
//! [`health`] and [`metrics`] hold values that the engine updates with small calls and that know
//! nothing of HTTP; the rest of this module shows them.

pub mod admin;
mod connections;
pub mod drill_down;
pub mod health;
pub mod health_check_node_port;
mod health_pages;
mod latency;
pub mod listen;
pub mod metrics;
pub mod moment;
pub mod observer;
mod process;
mod registry;
mod reporting;
pub mod status;
pub mod survey;
mod watches;

pub use health::Health;
pub use health_check_node_port::{HealthCheck, HealthCheckNodePorts};
pub use health_pages::health_router;
pub use listen::{BindFailure, serve_wanted};
pub use metrics::Metrics;
pub use moment::Moment;
pub use observer::{ServerObserver, note_event};
pub use process::resident_bytes;
pub use reporting::Reporting;
pub use status::{StatusPages, metrics_router};
pub use survey::Survey;

#[cfg(test)]
mod tests;
