//! From what happens in the engine to notices about Services.

use std::collections::BTreeMap;
use std::time::Duration;

use sliceproxy_dataplane::frontend::Frontend;
use sliceproxy_dataplane::kernel::{Change, Kernel, Refusal};

use super::{Notice, Reason, Recorder, Regarding};
use crate::driver::Observer;
use crate::engine::{Engine, SyncError, Synced};
use crate::model::ServiceName;

/// Records refused rows, lost frontends and reached limits.
#[derive(Debug)]
pub struct EventObserver {
    recorder: Recorder,
    disputes: u64,
    /// Services that go without a frontend, and what was said of each.
    losers: BTreeMap<ServiceName, String>,
}

impl EventObserver {
    /// Nothing was said yet.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, disputes: 0, losers: BTreeMap::new() }
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

    /// Says what is new since the last look.
    fn note_conflicts<K: Kernel>(&mut self, engine: &Engine<K>) {
        let disputes = engine.claims().disputes();
        if disputes == self.disputes {
            return;
        }
        self.disputes = disputes;
        let losers = losers(engine);
        for (service, note) in &losers {
            if self.losers.get(service) != Some(note) {
                self.warn(engine, service, Reason::FrontendConflict, note.clone());
            }
        }
        self.losers = losers;
    }
}

/// One sentence for each Service that goes without a frontend.
fn losers<K: Kernel>(engine: &Engine<K>) -> BTreeMap<ServiceName, String> {
    let mut lost: BTreeMap<&ServiceName, Vec<Frontend>> = BTreeMap::new();
    for (frontend, losers) in engine.claims().conflicts() {
        for loser in losers {
            lost.entry(&loser.service).or_default().push(*frontend);
        }
    }
    let sentence = |(service, mut frontends): (&ServiceName, Vec<Frontend>)| {
        frontends.sort_unstable();
        frontends.dedup();
        let first = frontends.first()?;
        let winner = engine.claims().owner(first).map_or_else(
            || format!("{} is the cluster IP of another Service", first.address),
            |owner| format!("{first} is served for {owner}, which has the better claim"),
        );
        let more = match frontends.len() {
            1 => String::new(),
            more => format!("; the same goes for {} more frontends", more - 1),
        };
        Some((service.clone(), winner + &more))
    };
    lost.into_iter().filter_map(sentence).collect()
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
        self.note_conflicts(engine);
    }

    fn failed(&mut self, _: &Engine<K>, _: &SyncError, _: Duration) {}
}
