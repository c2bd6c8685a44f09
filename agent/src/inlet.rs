//! Where a running agent takes events in: hands them to the engine, and tells those who follow this
//! node's own object on the way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnetwork::IpNetwork;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::Config;
use crate::driver::Handle;
use crate::events::{Announcements, Recorder};
use crate::model::{Event, Node};
use crate::server::Reporting;
use crate::source::kube::Freshness;

/// How long the Node's pod networks may be missing at start, as in kube-proxy.
const PATIENCE: Duration = Duration::from_secs(300);

/// The entrance for events.
pub struct Inlet<K> {
    handle: Handle<K>,
    node_addresses: watch::Sender<Option<Vec<IpAddr>>>,
    pod_networks: Option<PodNetworks>,
    reporting: Reporting,
    announcements: Announcements,
}

impl<K> Clone for Inlet<K> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
            node_addresses: self.node_addresses.clone(),
            pod_networks: self.pod_networks.clone(),
            reporting: self.reporting.clone(),
            announcements: self.announcements.clone(),
        }
    }
}

impl<K> std::fmt::Debug for Inlet<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

/// Mode NodeCIDR: the program follows the pod networks in the Node object.
#[derive(Debug, Clone)]
struct PodNetworks {
    config: Arc<Config>,
    known: watch::Sender<Vec<IpNetwork>>,
}

/// The pod networks of this node are not known, and without them there is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Node {node:?} has no spec.podCIDRs after {} s, which detectLocalMode NodeCIDR needs: check that \
     the controller manager allocates node CIDRs (--allocate-node-cidrs), or choose another \
     --detect-local-mode; the rules stay in the kernel",
    .waited.as_secs()
)]
pub struct NoPodNetworks {
    node: String,
    waited: Duration,
}

impl<K: 'static> Inlet<K> {
    /// Towards the engine behind `handle`.
    pub fn new(
        config: &Arc<Config>,
        handle: Handle<K>,
        reporting: Reporting,
        recorder: Recorder,
    ) -> Self {
        let pod_networks = config
            .needs_pod_cidrs()
            .then(|| PodNetworks { config: Arc::clone(config), known: watch::Sender::default() });
        let announcements = Announcements::new(config, recorder);
        let node_addresses = watch::Sender::default();
        Self { handle, node_addresses, pod_networks, reporting, announcements }
    }

    /// The addresses that this node's object named last; `None` until it is known whether there is
    /// such an object.
    pub fn node_addresses(&self) -> watch::Receiver<Option<Vec<IpAddr>>> {
        self.node_addresses.subscribe()
    }

    /// How fresh what an API server says is, to be written by its watches.
    pub fn freshness(&self) -> &Arc<Freshness> {
        &self.reporting.freshness
    }

    /// Takes in an event.
    pub fn take(&self, event: Event) {
        self.reporting.note(&event);
        self.announcements.note(&event);
        let node = match &event {
            Event::Node(node) => Some(node.clone()),
            _ => None,
        };
        // The engine ends only when the process does.
        let _ = self.handle.send(event);
        // After the Node itself: once node ports are known, the engine starts.
        if let Some(node) = node {
            self.note_node(node.as_deref());
        }
    }

    fn note_node(&self, node: Option<&Node>) {
        if let Some(pod_networks) = &self.pod_networks {
            pod_networks.note(node, &self.handle);
        }
        let addresses = node.map(|node| node.addresses.clone()).unwrap_or_default();
        self.node_addresses.send_if_modified(|known| {
            // The interfaces have theirs still: a Node that is deleted, or just made anew and without
            // addresses yet, is no reason to close node ports.
            let silent = addresses.is_empty() && known.is_some();
            let changed = !silent && known.as_ref() != Some(&addresses);
            if changed {
                *known = Some(addresses);
            } else if node.is_none() && known.as_ref().is_some_and(|known| !known.is_empty()) {
                warn!("this node's Node object is gone: going on with what it said last");
            }
            changed
        });
    }

    /// As a function, as sources want it.
    pub fn into_sink(self) -> impl Fn(Event) + Clone + Send + Sync + 'static {
        move |event| self.take(event)
    }

    /// Comes back only if the Node's pod networks are needed and do not come.
    pub async fn pod_networks_missing(&self) -> NoPodNetworks {
        self.pod_networks_missing_for(PATIENCE).await
    }

    async fn pod_networks_missing_for(&self, patience: Duration) -> NoPodNetworks {
        let Some(PodNetworks { config, known }) = &self.pod_networks else {
            return std::future::pending().await;
        };
        let mut known = known.subscribe();
        let came = known.wait_for(|networks| !networks.is_empty());
        if tokio::time::timeout(patience, came).await.is_ok() {
            return std::future::pending().await;
        }
        NoPodNetworks { node: config.node_name.to_string(), waited: patience }
    }
}

impl PodNetworks {
    /// Networks that are gone, with the Node or without, are no reason to forget what its pods use.
    fn note<K>(&self, node: Option<&Node>, handle: &Handle<K>) {
        let networks = node.map(|node| node.pod_cidrs.clone()).unwrap_or_default();
        let mut before = Vec::new();
        let changed = self.known.send_if_modified(|known| {
            let changed = !networks.is_empty() && *known != networks;
            if changed {
                before = std::mem::replace(known, networks.clone());
            }
            changed
        });
        if !changed {
            return;
        }
        if before.is_empty() {
            info!(?networks, "the pods of this node are recognised by its Node's pod networks");
        } else {
            warn!(?before, now = ?networks, "this Node's pod networks changed: replacing the program");
        }
        // The engine ends only when the process does.
        let _ = handle.set_program(self.config.program(&networks));
    }
}

#[cfg(test)]
#[path = "inlet_tests.rs"]
mod tests;
