//! Deletes UDP flows whose translation is out of date: rules first, then this, on a thread of its
//! own, so that no commit waits for it.
//!
//! Checks that come while a pass is under way, or soon after one, go into the next: however many
//! Services change, the table is gone through once per family. What could not be done is kept and
//! tried again.

mod pending;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use sliceproxy_dataplane::conntrack::{Conntrack, Swept};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::KernelError;
use tracing::{debug, info, warn};

use crate::driver::Observer;
use crate::engine::{Engine, FlowCheck, SyncError, Synced};
use pending::Pending;

/// Shortest time from the end of a pass to the start of the next.
const PAUSE: Duration = Duration::from_millis(100);
/// So many times as long as a pass took is the pause after it, as long as flows need not wait for
/// more than [`LAST_PAUSE`].
const PAUSE_SHARE: u32 = 9;
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// First pause after a failure; doubled up to [`LAST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// A pass over the flows of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// The family.
    pub family: Family,
    /// What it did.
    pub swept: Swept,
    /// How long it took.
    pub took: Duration,
}

/// Hands what a commit leaves to check over to the thread that does it.
#[derive(Debug)]
pub struct StaleFlows(Sender<Vec<FlowCheck>>);

impl<K> Observer<K> for StaleFlows {
    fn synced(&mut self, _: &Engine<K>, synced: &Synced, _: Duration) {
        if !synced.flow_checks.is_empty() {
            // The thread ends only after us.
            let _ = self.0.send(synced.flow_checks.clone());
        }
    }

    fn failed(&mut self, _: &Engine<K>, _: &SyncError, _: Duration) {}
}

/// Starts the thread. It tells `report` of every pass, and ends when what is returned is dropped.
///
/// # Errors
/// If no thread can be started.
pub fn start(
    table: impl Conntrack + 'static,
    report: impl FnMut(Pass) + Send + 'static,
) -> std::io::Result<StaleFlows> {
    let (sender, checks) = channel();
    let worker = Worker {
        table,
        report,
        pending: Pending::default(),
        due: Instant::now(),
        retry: FIRST_RETRY,
        last_error: None,
    };
    std::thread::Builder::new().name("conntrack".to_owned()).spawn(move || worker.run(&checks))?;
    Ok(StaleFlows(sender))
}

struct Worker<C, R> {
    table: C,
    report: R,
    pending: Pending,
    /// When the next pass may begin, if there is something to do.
    due: Instant,
    retry: Duration,
    last_error: Option<String>,
}

impl<C: Conntrack, R: FnMut(Pass)> Worker<C, R> {
    fn run(mut self, checks: &Receiver<Vec<FlowCheck>>) {
        loop {
            let first = if self.pending.is_empty() {
                checks.recv().map_err(RecvTimeoutError::from)
            } else {
                checks.recv_timeout(self.due.saturating_duration_since(Instant::now()))
            };
            match first {
                Ok(first) => {
                    for check in std::iter::once(first).chain(checks.try_iter()).flatten() {
                        self.pending.add(&check);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.due <= Instant::now() {
                self.work();
            }
        }
    }

    fn work(&mut self) {
        let start = Instant::now();
        let result = self.sweep();
        let end = Instant::now();
        match result {
            Ok(()) => {
                self.due = end + ((end - start) * PAUSE_SHARE).clamp(PAUSE, LAST_PAUSE);
                self.retry = FIRST_RETRY;
                if self.last_error.take().is_some() {
                    info!("stale UDP flows are deleted again");
                }
            }
            Err(error) => {
                self.due = end + self.retry;
                self.complain(&error);
                self.retry = (self.retry * 2).min(LAST_RETRY);
            }
        }
    }

    fn sweep(&mut self) -> Result<(), KernelError> {
        for family in Family::ALL {
            let start = Instant::now();
            let Some(swept) = self.pending.sweep(family, &mut self.table)? else { continue };
            let pass = Pass { family, swept, took: start.elapsed() };
            debug!(
                %family,
                seen = swept.seen,
                deleted = swept.deleted,
                dumps = swept.dumps,
                took_ms = pass.took.as_secs_f64() * 1e3,
                "looked for stale UDP flows"
            );
            (self.report)(pass);
        }
        Ok(())
    }

    /// The same again and again is said once.
    fn complain(&mut self, error: &KernelError) {
        let text = error.to_string();
        if self.last_error.as_ref() != Some(&text) {
            warn!(
                %error,
                again_in_ms = self.retry.as_millis(),
                "stale UDP flows could not be deleted; it is tried again"
            );
            self.last_error = Some(text);
        }
    }
}

#[cfg(test)]
mod tests;
