//! An engine on a thread of its own with the kernel of this network namespace, for benchmarks: takes
//! events in, and tells what was committed.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use sliceproxy::driver::{self, Handle, Observer, Pace};
use sliceproxy::engine::{Engine, SyncError, Synced};
use sliceproxy::model::Event;
use sliceproxy_dataplane::netlink::NetlinkKernel;

use crate::generate;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Passes on what was committed.
#[derive(Debug)]
pub struct Done(Sender<Synced>);

impl<K> Observer<K> for Done {
    fn synced(&mut self, _: &Engine<K>, synced: &Synced, _: Duration) {
        // The receiver may have gone at the end.
        let _ = self.0.send(synced.clone());
    }

    fn failed(&mut self, _: &Engine<K>, error: &SyncError, _: Duration) {
        eprintln!("  sync failed: {error}");
    }
}

/// A driven engine, and what its commits report.
#[derive(Debug)]
pub struct Driven {
    /// A way to talk to it.
    pub handle: Handle<NetlinkKernel>,
    done: Receiver<Synced>,
}

impl Driven {
    /// Starts it with the generated settings. `observers` adds others to the one that it is given.
    ///
    /// # Errors
    /// When the kernel cannot be opened.
    pub fn start<O: Observer<NetlinkKernel> + 'static>(
        observers: impl FnOnce(Done) -> O,
    ) -> Result<Self> {
        let settings = generate::settings();
        let kernel = NetlinkKernel::open(&settings.program)?;
        let engine = Engine::new(settings, kernel)?;
        let pace = Pace { min_period: Duration::ZERO, read_back: PATIENCE * 10 };
        let (sender, done) = channel();
        let (handle, _) = driver::start(engine, pace, observers(Done(sender)))?;
        Ok(Self { handle, done })
    }

    /// Hands over all events; gives the time until the kernel holds what was listed.
    ///
    /// # Errors
    /// When nothing is written in time.
    pub fn load(&self, events: Vec<Event>) -> Result<Duration> {
        let start = Instant::now();
        for event in events {
            self.handle.send(event)?;
        }
        self.written()?;
        Ok(start.elapsed())
    }

    /// Time from handing over an event to knowing that the kernel took it, and what was written.
    ///
    /// # Errors
    /// When nothing is written in time.
    pub fn change(&self, event: Event) -> Result<(Duration, Synced)> {
        let start = Instant::now();
        self.handle.send(event)?;
        let synced = self.written()?;
        Ok((start.elapsed(), synced))
    }

    /// Waits until everything has been written for so long.
    pub fn settle(&self, quiet: Duration) {
        while self.done.recv_timeout(quiet).is_ok() {}
    }

    fn written(&self) -> Result<Synced> {
        loop {
            let synced = self.done.recv_timeout(PATIENCE)?;
            if synced.transactions > 0 {
                return Ok(synced);
            }
        }
    }
}
