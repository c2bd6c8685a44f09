//! Kubernetes Events: what somebody who looks at a Service or a Node with kubectl should know.
//!
//! ```text
//! observer, inlet ──> Recorder ──> channel ── limiter ──> write ──> API server
//! ```
//!
//! Best effort: nothing waits for an Event, and one that cannot be written is dropped. Everything
//! said here is in the log and in `explain` as well.

mod health_checks;
mod limiter;
mod object;
mod observer;
mod starting;
mod write;

use std::sync::Arc;

use sliceproxy_dataplane::kernel::Kernel;
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::model::{NodeName, Service, ServiceName};
pub use health_checks::report_health_checks;
pub use observer::EventObserver;
pub use starting::Announcements;
pub use write::write;

/// Notices that wait to be written; more are dropped.
const ROOM: usize = 256;

/// What an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// `Service` or `Node`; both are at `v1`.
    kind: &'static str,
    /// Empty for a Node.
    namespace: Arc<str>,
    name: Arc<str>,
    /// Empty if unknown.
    uid: Arc<str>,
}

impl Regarding {
    /// A Service, as the engine knows it; `None` once it is gone.
    pub fn service<K: Kernel>(engine: &Engine<K>, name: &ServiceName) -> Option<Self> {
        engine.cache().service(name).map(|service| Self::of(service))
    }

    /// A Service.
    pub fn of(service: &Service) -> Self {
        Self {
            kind: "Service",
            namespace: Arc::clone(&service.name.namespace),
            name: Arc::clone(&service.name.name),
            uid: Arc::clone(&service.uid),
        }
    }

    /// A Node.
    pub fn node(name: &NodeName, uid: &Arc<str>) -> Self {
        Self { kind: "Node", namespace: "".into(), name: Arc::clone(&name.0), uid: Arc::clone(uid) }
    }
}

/// How serious an Event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Good to know.
    Normal,
    /// Something is not served as it was meant.
    Warning,
}

/// What became of what, in the words of the Event API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The agent started on this Node.
    Starting,
    /// A `healthCheckNodePort` cannot be had.
    HealthCheck,
    /// Another Service has a better claim to a frontend.
    FrontendConflict,
    /// The kernel refuses a row.
    RowRefused,
    /// A limit of the configuration was reached.
    LimitReached,
    /// An annotation makes no sense.
    AnnotationIgnored,
}

impl Reason {
    /// `reason` and `action` of the Event; kube-proxy's where it has the same.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Starting => ("Starting", "StartSliceproxy"),
            Self::HealthCheck => ("FailedToStartServiceHealthcheck", "Listen"),
            Self::FrontendConflict => ("FrontendConflict", "Serve"),
            Self::RowRefused => ("RowRefused", "Commit"),
            Self::LimitReached => ("LimitReached", "Serve"),
            Self::AnnotationIgnored => ("TopologyAnnotationIgnored", "SelectEndpoints"),
        }
    }
}

/// An Event that is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Notice {
    /// What it is about.
    pub regarding: Regarding,
    /// How serious it is.
    pub severity: Severity,
    /// What became of it.
    pub reason: Reason,
    /// For people; escaped and bounded when it is written.
    pub note: String,
}

impl Notice {
    /// Something is not served as it was meant.
    pub fn warning(regarding: Regarding, reason: Reason, note: String) -> Self {
        Self { regarding, severity: Severity::Warning, reason, note }
    }
}

/// Takes notices. Cheap to clone; never blocks.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Option<mpsc::Sender<Notice>>);

impl Recorder {
    /// A recorder, and where its notices come out.
    pub fn new() -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self(Some(sender)), receiver)
    }

    /// A recorder that forgets: there is no API server.
    pub fn off() -> Self {
        Self(None)
    }

    /// Whether anything comes of notices.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Takes a notice. When too many wait, it is dropped.
    pub fn record(&self, notice: Notice) {
        if let Some(sender) = &self.0
            && let Err(error) = sender.try_send(notice)
        {
            tracing::debug!(%error, "an Event is dropped");
        }
    }
}

#[cfg(test)]
mod tests;
