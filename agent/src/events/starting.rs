//! What is announced as it comes in: the start on this Node, and annotations that make no sense.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Notice, Reason, Recorder, Regarding, Severity};
use crate::config::{Config, Gate};
use crate::model::{Event, NodeName, Service};

/// Looks at events on their way to the engine.
#[derive(Debug, Clone)]
pub struct Announcements {
    recorder: Recorder,
    node: NodeName,
    topology_routing: bool,
    started: Arc<AtomicBool>,
}

impl Announcements {
    /// Of an agent that starts now.
    pub fn new(config: &Config, recorder: Recorder) -> Self {
        Self {
            recorder,
            node: config.node_name.clone(),
            topology_routing: config.gates.enabled(Gate::TopologyRouting),
            started: Arc::default(),
        }
    }

    /// Looks at an event.
    pub fn note(&self, event: &Event) {
        if !self.recorder.is_on() {
            return;
        }
        match event {
            Event::Node(Some(node)) if !self.started.swap(true, Ordering::Relaxed) => {
                self.recorder.record(Notice {
                    regarding: Regarding::node(&self.node, &node.uid),
                    severity: Severity::Normal,
                    reason: Reason::Starting,
                    note: format!("sliceproxy {} started", crate::version::VERSION),
                });
            }
            Event::Service(service) => self.note_service(service),
            Event::AllServices(services) => {
                for service in services {
                    self.note_service(service);
                }
            }
            _ => {}
        }
    }

    fn note_service(&self, service: &Service) {
        if let Some(reason) = service.topology.ignored.as_ref().filter(|_| self.topology_routing) {
            let regarding = Regarding::of(service);
            let notice = Notice::warning(regarding, Reason::AnnotationIgnored, reason.clone());
            self.recorder.record(notice);
        }
    }
}
