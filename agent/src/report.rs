//! Tells the log what happens to the engine.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use sliceproxy_dataplane::kernel::{Change, Kernel, Refusal};
use sliceproxy_dataplane::program::TABLE;
use tracing::{debug, error, info, trace, warn};

use crate::config::Limits;
use crate::conflicts::Conflicts;
use crate::driver::Observer;
use crate::engine::{Engine, SyncError, Synced};
use crate::model::ServiceName;

/// Services whose lines are counted. Beyond it all counts start anew.
const MAX_COUNTED: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Writes what an operator needs at level info: the first sync, repairs, refused rows, frontends that
/// go to another Service, reached limits, failures.
#[derive(Debug)]
pub struct LogObserver {
    synced_once: bool,
    last_error: Option<String>,
    conflicts: Conflicts,
    lines_per_object: u32,
    lines: FxHashMap<Option<ServiceName>, (Instant, u32)>,
}

impl Default for LogObserver {
    fn default() -> Self {
        Self::new(Limits::default().log_lines_per_object)
    }
}

impl LogObserver {
    /// With at most so many lines about one Service in an hour.
    pub fn new(lines_per_object: u32) -> Self {
        Self {
            synced_once: false,
            last_error: None,
            conflicts: Conflicts::default(),
            lines_per_object,
            lines: HashMap::default(),
        }
    }

    /// Whether there may be another line about that Service, or about none.
    fn may_tell(&mut self, service: Option<&ServiceName>) -> bool {
        let now = Instant::now();
        if self.lines.len() >= MAX_COUNTED {
            self.lines.clear();
        }
        let (since, lines) = self.lines.entry(service.cloned()).or_insert((now, 0));
        if now - *since >= HOUR {
            (*since, *lines) = (now, 0);
        }
        *lines = lines.saturating_add(1);
        *lines <= self.lines_per_object
    }

    fn tell_refusal<K: Kernel>(&mut self, engine: &Engine<K>, refusal: &Refusal) {
        let frontend = match &refusal.change {
            Change::Add(row) => row.key.frontend(),
            _ => None,
        };
        let owner = frontend.and_then(|frontend| engine.claims().owner(&frontend));
        let service = owner.map(|owner| &owner.service);
        if !self.may_tell(service) {
            debug!(row = %refusal.change, "the kernel refused another row");
            return;
        }
        error!(
            row = %refusal.change,
            service = service.map(tracing::field::display),
            error = %std::io::Error::from_raw_os_error(refusal.errno),
            "the kernel refused a row; it is left out, all others are in; it is tried again \
             when it changes and at each read-back"
        );
    }
}

/// To a tenth.
fn milliseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e4).round() / 10.0
}

impl<K: Kernel> Observer<K> for LogObserver {
    fn synced(&mut self, engine: &Engine<K>, synced: &Synced, took: Duration) {
        let (added, deleted) = (synced.added.len(), synced.deleted.len());
        for refusal in &synced.set_aside {
            self.tell_refusal(engine, refusal);
        }
        for (service, excess) in &synced.exceeded {
            if self.may_tell(Some(service)) {
                warn!("Service {service} {excess}");
            }
        }
        for (service, note) in self.conflicts.news(engine) {
            if self.may_tell(Some(&service)) {
                warn!("Service {service}: {note}");
            }
        }
        for family in &synced.usurped {
            warn!(
                "table {} {TABLE} was there and not ours; it is replaced with all that it held",
                family.nft_name()
            );
        }
        if self.last_error.take().is_some() {
            info!("the kernel is in step again");
        }
        if !self.synced_once && engine.is_listed() {
            self.synced_once = true;
            info!(
                rows = engine.ledger().len(),
                added,
                deleted,
                programs_installed = synced.installed.len(),
                took_ms = milliseconds(took),
                "in step with the cluster; ready"
            );
        } else if synced.repaired && synced.transactions > 0 {
            warn!(
                rows_added = added,
                rows_deleted = deleted,
                strays_deleted = synced.strays,
                programs_installed = synced.installed.len(),
                "somebody else changed our tables; repaired"
            );
        } else if synced.transactions > 0 {
            debug!(added, deleted, took_us = took.as_secs_f64() * 1e6, "committed");
        }
        for key in &synced.deleted {
            trace!(set = %key.set(), %key, "row deleted");
        }
        for row in &synced.added {
            trace!(%row, "row added");
        }
    }

    fn failed(&mut self, _: &Engine<K>, error: &SyncError, pause: Duration) {
        let text = error.to_string();
        // The same again and again is said once.
        if self.last_error.as_ref() != Some(&text) {
            error!(
                %error,
                again_in_ms = pause.as_millis(),
                "the kernel was not changed; nothing is lost, it is tried again"
            );
            self.last_error = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_the_log_have_one_digit_after_the_point() {
        let text = |nanos| milliseconds(Duration::from_nanos(nanos)).to_string();
        assert_eq!(text(14_898_891), "14.9");
        assert_eq!(text(1_234_049_999), "1234");
        assert_eq!(text(40_000), "0");
    }
}
