//! Drives an engine on a thread of its own: takes messages, coalesces changes, commits, retries, and
//! looks at the kernel again from time to time.
//!
//! The first change after a quiet time is committed at once. Whatever arrives during a commit goes
//! into the next one, so the pace adapts to the kernel; `min_period` is a lower bound on top.
//!
//! The look at the kernel is taken by a second thread, over a socket of its own, while commits go on:
//! going over hundreds of thousands of rows takes too long to have changes wait for it. Only its
//! conclusion comes here, and mostly that is that all is well. If it is not, the next sync repairs it. At
//! the start, and where the kernel has given cause for doubt, the engine itself reads the kernel back
//! before it writes.

mod handle;
mod reader;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sliceproxy_dataplane::kernel::{Kernel, ReadBeside, Reader};

use crate::engine::{Engine, SyncError, Synced};
use handle::{Doors, Looked, Message, Question};
pub use handle::{Handle, Stopped};

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

/// Starts a thread that drives `engine` until [`Handle::stop`] or until all handles are gone, and
/// gives it back then; and another one that reads its kernel.
///
/// # Errors
/// If no thread can be started.
pub fn start<K: ReadBeside + 'static>(
    engine: Engine<K>,
    pace: Pace,
    observer: impl Observer<K> + 'static,
) -> std::io::Result<(Handle<K>, JoinHandle<Engine<K>>)> {
    let (messages, receiver) = channel();
    let jobs = reader::start(engine.kernel().reader())?;
    let doors = Arc::new(Doors { messages, jobs });
    let driver = Driver {
        engine,
        doors: Arc::downgrade(&doors),
        asked: Vec::new(),
        pace,
        observer,
        sync_due: None,
        retry: FIRST_RETRY,
        last_commit: None,
        read_back_due: Instant::now() + pace.read_back,
        read_back_rest: Instant::now(),
        looking: false,
        changed_meanwhile: false,
        sweep_due: None,
    };
    let thread = std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn(move || driver.run(&receiver))?;
    Ok((Handle(doors), thread))
}

struct Driver<K, O> {
    engine: Engine<K>,
    /// Does not keep itself going.
    doors: Weak<Doors<K>>,
    asked: Vec<Question<K>>,
    pace: Pace,
    observer: O,
    /// When there is something to write: the earliest time to do it.
    sync_due: Option<Instant>,
    retry: Duration,
    last_commit: Option<Instant>,
    read_back_due: Instant,
    /// Until then the kernel is not read again, whoever changes it.
    read_back_rest: Instant,
    /// The kernel is being looked at.
    looking: bool,
    /// Somebody else has changed our tables since that look began, maybe behind it.
    changed_meanwhile: bool,
    sweep_due: Option<Instant>,
}

impl<K: Kernel + 'static, O: Observer<K>> Driver<K, O> {
    fn run(mut self, messages: &Receiver<Message<K>>) -> Engine<K> {
        loop {
            let look_due = (!self.looking).then_some(self.read_back_due);
            let due = [look_due, self.sync_due, self.sweep_due].into_iter().flatten().min();
            let wait =
                due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
            match messages.recv_timeout(wait) {
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
            // After the commit of what came before them.
            for question in std::mem::take(&mut self.asked) {
                question(&mut self.engine);
            }
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
                self.changed_meanwhile = true;
                let soon = Instant::now().max(self.read_back_rest);
                self.read_back_due = self.read_back_due.min(soon);
            }
            Message::Looked(looked) => self.looked(*looked),
            Message::Program(program) => {
                self.engine.set_program(*program);
                self.changed();
            }
            Message::Ask(question) => self.asked.push(question),
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
        if !self.looking && self.read_back_due <= now {
            self.look(now);
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

    /// Has the kernel looked at, and what it refused tried again.
    fn look(&mut self, now: Instant) {
        self.engine.reconsider();
        self.sync_due.get_or_insert(now);
        self.read_back_due = now + self.pace.read_back;
        // If the engine is going to read the kernel itself, there is no need to.
        if self.engine.is_read_back_due() {
            return;
        }
        let Some(doors) = self.doors.upgrade() else { return };
        let reading = self.engine.begin_reading();
        let back = self.doors.clone();
        let job = move |reader: &mut dyn Reader| {
            let start = Instant::now();
            let finding = reading.check(reader);
            let looked = Looked { reading, finding, took: start.elapsed() };
            if let Some(doors) = back.upgrade() {
                // The engine may have ended meanwhile.
                let _ = doors.messages.send(Message::Looked(Box::new(looked)));
            }
        };
        self.changed_meanwhile = false;
        self.looking = doors.jobs.send(Box::new(job)).is_ok();
        if !self.looking {
            self.engine.distrust();
        }
    }

    fn looked(&mut self, looked: Looked) {
        let Looked { reading, finding, took } = looked;
        let end = Instant::now();
        self.looking = false;
        self.rest(end, took);
        if self.changed_meanwhile {
            self.read_back_due = self.read_back_rest;
        }
        let repair = match finding {
            Ok(finding) => {
                let text = finding.to_string();
                tracing::debug!(took_ms = took.as_millis(), "looked at the kernel: {text}");
                self.engine.take_finding(&reading, finding)
            }
            Err(error) => {
                tracing::debug!(%error, "cannot look at the kernel; the next sync reads it back");
                self.engine.distrust();
                true
            }
        };
        if repair {
            self.sync_due.get_or_insert(end);
        }
    }

    /// The kernel has been read, which took so long: when to read it again.
    fn rest(&mut self, end: Instant, took: Duration) {
        self.read_back_due = end + self.pace.read_back.max(took * READ_BACK_SHARE);
        self.read_back_rest = end + READ_BACK_REST.max(took * READ_BACK_REST_SHARE);
    }

    fn sync(&mut self) {
        let start = Instant::now();
        let result = self.engine.sync();
        let end = Instant::now();
        let took = end - start;
        if let Some(took) = self.engine.take_read_time() {
            self.rest(end, took);
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
pub(crate) mod gated;
#[cfg(test)]
mod tests;
