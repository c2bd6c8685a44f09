//! Tells the log what happens to the engine.

use std::time::Duration;

use sliceproxy_dataplane::kernel::Kernel;
use tracing::{debug, error, info, trace, warn};

use crate::driver::Observer;
use crate::engine::{Engine, SyncError, Synced};

/// Writes what an operator needs at level info: the first sync, repairs, refused rows, failures.
#[derive(Debug, Default)]
pub struct LogObserver {
    synced_once: bool,
    last_error: Option<String>,
}

impl<K: Kernel> Observer<K> for LogObserver {
    fn synced(&mut self, engine: &Engine<K>, synced: &Synced, took: Duration) {
        let (added, deleted) = (synced.added.len(), synced.deleted.len());
        for refusal in &synced.set_aside {
            error!(
                row = %refusal.change,
                error = %std::io::Error::from_raw_os_error(refusal.errno),
                "the kernel refused a row; it is left out, all others are in; it is tried again \
                 when it changes and at each read-back"
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
                took_ms = took.as_secs_f64() * 1e3,
                "in step with the cluster; ready"
            );
        } else if synced.repaired && synced.transactions > 0 {
            warn!(added, deleted, "somebody else changed our tables; repaired");
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
