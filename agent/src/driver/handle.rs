//! Ways to talk to a driven engine.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use sliceproxy_dataplane::kernel::{Kernel, KernelError, Reader};
use sliceproxy_dataplane::program::ProgramConfig;
use sliceproxy_dataplane::reading::{Finding, Reading};
use tokio::sync::oneshot;

use super::reader::Job;
use crate::engine::Engine;
use crate::model::Event;

/// Something to be done with the engine between two commits.
pub(super) type Question<K> = Box<dyn FnOnce(&mut Engine<K>) + Send>;

/// What the engine's thread is told.
pub(super) enum Message<K> {
    Event(Event),
    Distrust,
    Program(Box<ProgramConfig>),
    Ask(Question<K>),
    Looked(Box<Looked>),
    Stop,
}

/// What a look at the kernel has come to.
pub(super) struct Looked {
    pub(super) reading: Reading,
    pub(super) finding: Result<Finding, KernelError>,
    pub(super) took: Duration,
}

/// The ways in. The threads behind them end when nobody can use them any more.
pub(super) struct Doors<K> {
    pub(super) messages: Sender<Message<K>>,
    pub(super) jobs: Sender<Job>,
}

/// A way to talk to a driven engine.
pub struct Handle<K>(pub(super) Arc<Doors<K>>);

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
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

    /// Runs `question` on the engine between two commits, which wait for it. For what reads the kernel
    /// there is [`Handle::read`].
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

    /// Runs `look` on the thread that reads the kernel, beside commits, with a reading begun for it.
    /// One at a time.
    ///
    /// # Errors
    /// If the engine has stopped.
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(Reading, &mut dyn Reader) -> T + Send + 'static,
    ) -> Result<T, Stopped>
    where
        K: Kernel + 'static,
    {
        let reading = self.ask(Engine::begin_reading).await?;
        let (sender, receiver) = oneshot::channel();
        let job = move |reader: &mut dyn Reader| {
            // Nobody waits for it any more: the kernel need not be read.
            if !sender.is_closed() {
                let _ = sender.send(look(reading, reader));
            }
        };
        self.0.jobs.send(Box::new(job)).map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// Ends the thread; what is in the kernel stays there.
    pub fn stop(&self) {
        // Already stopped is fine.
        let _ = self.post(Message::Stop);
    }

    fn post(&self, message: Message<K>) -> Result<(), Stopped> {
        self.0.messages.send(message).map_err(|_| Stopped)
    }
}
