//! Drives an engine on a thread of its own: takes messages, coalesces changes, commits, retries, and
//! looks at the kernel again from time to time.
//!
//! The first change after a quiet time is committed at once. Whatever arrives during a commit goes
//! into the next one, so the pace adapts to the kernel; `min_period` is a lower bound on top.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::program::ProgramConfig;
use tokio::sync::oneshot;

use crate::engine::{Engine, SyncError, Synced};
use crate::model::Event;

/// Messages taken in before a commit is considered again, so that a flood cannot put it off for ever.
const MAX_BURST: usize = 10_000;
/// First pause after a failed sync; doubled up to [`Pace::read_back`].
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Time without changes after which unused chains are removed.
const QUIET: Duration = Duration::from_secs(2);
/// Rest after a read-back, before the next foreign change is looked at: whoever changes our tables
/// again and again must not keep this node busy.
const READ_BACK_REST: Duration = Duration::from_millis(500);
/// The same in relation to the time that reading takes.
const READ_BACK_REST_SHARE: u32 = 2;
/// Reading the kernel back may take this part of the time at most: one in a hundred.
const READ_BACK_SHARE: u32 = 100;

/// How often the kernel is written and read.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Shortest time from the end of one commit to the start of the next.
    pub min_period: Duration,
    /// Time from one read-back to the next; longer where reading takes long.
    pub read_back: Duration,
}

/// Sees what happens to an engine: for metrics, health, logs and servers that follow it.
pub trait Observer<K>: Send {
    /// A change was taken in that is not in the kernel yet.
    fn queued(&mut self, engine: &Engine<K>) {
        let _ = engine;
    }

    /// The kernel holds what is desired.
    fn synced(&mut self, engine: &Engine<K>, synced: &Synced, took: Duration);

    /// Chains that nothing points at could not be removed; that is tried again, and harmless.
    fn unswept(&mut self, engine: &Engine<K>) {
        let _ = engine;
    }

    /// It does not, and will be tried again after `pause`.
    fn failed(&mut self, engine: &Engine<K>, error: &SyncError, pause: Duration);
}

/// Both see everything, the first one first.
impl<K, A: Observer<K>, B: Observer<K>> Observer<K> for (A, B) {
    fn queued(&mut self, engine: &Engine<K>) {
        self.0.queued(engine);
        self.1.queued(engine);
    }

    fn synced(&mut self, engine: &Engine<K>, synced: &Synced, took: Duration) {
        self.0.synced(engine, synced, took);
        self.1.synced(engine, synced, took);
    }

    fn unswept(&mut self, engine: &Engine<K>) {
        self.0.unswept(engine);
        self.1.unswept(engine);
    }

    fn failed(&mut self, engine: &Engine<K>, error: &SyncError, pause: Duration) {
        self.0.failed(engine, error, pause);
        self.1.failed(engine, error, pause);
    }
}

type Question<K> = Box<dyn FnOnce(&mut Engine<K>) + Send>;

enum Message<K> {
    Event(Event),
    Distrust,
    Program(Box<ProgramConfig>),
    Ask(Question<K>),
    Stop,
}

/// A way to talk to a driven engine.
pub struct Handle<K> {
    sender: Sender<Message<K>>,
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<K> std::fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// The engine's thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent is shutting down")]
pub struct Stopped;

impl<K> Handle<K> {
    /// Hands over an event. Never blocks.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub fn send(&self, event: Event) -> Result<(), Stopped> {
        self.post(Message::Event(event))
    }

    /// Has the kernel read back soon: somebody else changed it.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub fn distrust(&self) -> Result<(), Stopped> {
        self.post(Message::Distrust)
    }

    /// What the programs depend on has changed, or become known.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub fn set_program(&self, program: ProgramConfig) -> Result<(), Stopped> {
        self.post(Message::Program(Box::new(program)))
    }

    /// Runs `question` on the engine between two commits.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Engine<K>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, receiver) = oneshot::channel();
        let answer = move |engine: &mut Engine<K>| {
            // Whoever asked may have gone away meanwhile.
            let _ = sender.send(question(engine));
        };
        self.post(Message::Ask(Box::new(answer)))?;
        receiver.await.map_err(|_| Stopped)
    }

    /// Ends the thread; what is in the kernel stays there.
    pub fn stop(&self) {
        // Already stopped is fine.
        let _ = self.post(Message::Stop);
    }

    fn post(&self, message: Message<K>) -> Result<(), Stopped> {
        self.sender.send(message).map_err(|_| Stopped)
    }
}

/// Starts a thread that drives `engine` until [`Handle::stop`] or until all handles are gone, and
/// gives it back then.
///
/// # Errors
/// If no thread can be started.
pub fn start<K: Kernel + 'static>(
    engine: Engine<K>,
    pace: Pace,
    observer: impl Observer<K> + 'static,
) -> std::io::Result<(Handle<K>, JoinHandle<Engine<K>>)> {
    let (sender, receiver) = channel();
    let driver = Driver {
        engine,
        pace,
        observer,
        sync_due: None,
        retry: FIRST_RETRY,
        last_commit: None,
        read_back_due: Instant::now() + pace.read_back,
        read_back_rest: Instant::now(),
        sweep_due: None,
    };
    let thread = std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || driver.run(&receiver))?;
    Ok((Handle { sender }, thread))
}

struct Driver<K, O> {
    engine: Engine<K>,
    pace: Pace,
    observer: O,
    /// When there is something to write: the earliest time to do it.
    sync_due: Option<Instant>,
    retry: Duration,
    last_commit: Option<Instant>,
    read_back_due: Instant,
    /// Until then the kernel is not read again, whoever changes it.
    read_back_rest: Instant,
    sweep_due: Option<Instant>,
}

impl<K: Kernel, O: Observer<K>> Driver<K, O> {
    fn run(mut self, messages: &Receiver<Message<K>>) -> Engine<K> {
        loop {
            let deadline = [Some(self.read_back_due), self.sync_due, self.sweep_due]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(self.read_back_due);
            match messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(first) => {
                    let burst = std::iter::once(first).chain(messages.try_iter().take(MAX_BURST));
                    for message in burst {
                        if !self.take(message) {
                            return self.engine;
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.engine,
            }
            self.work(Instant::now());
        }
    }

    /// Takes in one message; `false` ends the thread.
    fn take(&mut self, message: Message<K>) -> bool {
        match message {
            Message::Event(event) => {
                self.engine.apply(event);
                self.changed();
            }
            Message::Distrust => {
                self.engine.distrust_clients();
                let soon = Instant::now().max(self.read_back_rest);
                self.read_back_due = self.read_back_due.min(soon);
            }
            Message::Program(program) => {
                self.engine.set_program(*program);
                self.changed();
            }
            Message::Ask(question) => question(&mut self.engine),
            Message::Stop => return false,
        }
        true
    }

    fn changed(&mut self) {
        self.observer.queued(&self.engine);
        let earliest = self.last_commit.map(|last| last + self.pace.min_period);
        let due = earliest.unwrap_or_else(Instant::now);
        self.sync_due.get_or_insert(due);
    }

    /// Does what is due.
    fn work(&mut self, now: Instant) {
        if self.read_back_due <= now {
            self.engine.distrust();
            self.sync_due.get_or_insert(now);
        }
        if self.sync_due.is_some_and(|due| due <= now) {
            self.sync();
        }
        if self.sync_due.is_none() && self.sweep_due.is_some_and(|due| due <= now) {
            self.sweep_due = None;
            // An unused chain costs nothing; the next quiet moment is soon enough.
            if let Err(error) = self.engine.sweep() {
                tracing::debug!(%error, "could not remove unused chains, will try again");
                self.observer.unswept(&self.engine);
            }
        }
    }

    fn sync(&mut self) {
        let reads = self.engine.is_read_back_due();
        let start = Instant::now();
        let result = self.engine.sync();
        let end = Instant::now();
        let took = end - start;
        if reads {
            let reading = self.engine.read_time();
            self.read_back_due = end + self.pace.read_back.max(reading * READ_BACK_SHARE);
            self.read_back_rest = end + READ_BACK_REST.max(reading * READ_BACK_REST_SHARE);
        }
        match result {
            Ok(synced) => {
                self.sync_due = None;
                self.retry = FIRST_RETRY;
                if synced.transactions > 0 {
                    self.last_commit = Some(end);
                    self.sweep_due = Some(end + QUIET);
                }
                self.observer.synced(&self.engine, &synced, took);
            }
            Err(error) => {
                self.observer.failed(&self.engine, &error, self.retry);
                self.sync_due = Some(end + self.retry);
                self.retry = (self.retry * 2).min(self.pace.read_back);
            }
        }
    }
}

#[cfg(test)]
mod tests;
