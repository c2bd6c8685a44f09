//! From what happens in the engine to notices about Services.

use std::time::Duration;

use sliceproxy_dataplane::kernel::{Change, Kernel, Refusal};

use super::{Notice, Reason, Recorder, Regarding};
use crate::conflicts::Conflicts;
use crate::driver::Observer;
use crate::engine::{Engine, SyncError, Synced};
use crate::model::ServiceName;

/// Records refused rows, lost frontends and reached limits.
#[derive(Debug)]
pub struct EventObserver {
    recorder: Recorder,
    conflicts: Conflicts,
}

impl EventObserver {
    /// Nothing was said yet.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, conflicts: Conflicts::default() }
    }

    fn warn<K: Kernel>(
        &self,
        engine: &Engine<K>,
        service: &ServiceName,
        reason: Reason,
        note: String,
    ) {
        if let Some(regarding) = Regarding::service(engine, service) {
            self.recorder.record(Notice::warning(regarding, reason, note));
        }
    }

    fn note_refusal<K: Kernel>(&self, engine: &Engine<K>, refusal: &Refusal) {
        let Change::Add(row) = &refusal.change else { return };
        let owner = row.key.frontend().and_then(|frontend| engine.claims().owner(&frontend));
        if let Some(owner) = owner {
            let error = std::io::Error::from_raw_os_error(refusal.errno);
            let note = format!(
                "the kernel of this node refused row {row}: {error}; it is left out, and tried \
                 again when it changes and once in a while"
            );
            self.warn(engine, &owner.service, Reason::RowRefused, note);
        }
    }
}

impl<K: Kernel> Observer<K> for EventObserver {
    fn synced(&mut self, engine: &Engine<K>, synced: &Synced, _: Duration) {
        if !self.recorder.is_on() {
            return;
        }
        for refusal in &synced.set_aside {
            self.note_refusal(engine, refusal);
        }
        for (service, excess) in &synced.exceeded {
            self.warn(engine, service, Reason::LimitReached, excess.to_string());
        }
        for (service, note) in self.conflicts.news(engine) {
            self.warn(engine, &service, Reason::FrontendConflict, note);
        }
    }

    fn failed(&mut self, _: &Engine<K>, _: &SyncError, _: Duration) {}
}
