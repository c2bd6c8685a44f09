//! Notices when somebody else changes our tables, and has the engine look at the kernel then.
//!
//! The kernel tells listeners of every row. So that the first load, which may be hundreds of thousands
//! of rows, is not told to anybody, listening starts when it is over.

use std::thread;
use std::time::Duration;

use sliceproxy_dataplane::netlink::{NetlinkKernel, Noticed, Watch};
use tokio::sync::oneshot;
use tracing::warn;

use crate::driver::{Handle, Observer};
use crate::engine::{Engine, SyncError, Synced};

/// Pause before listening again after an error; the engine's periodic look goes on meanwhile.
const RETRY: Duration = Duration::from_secs(1);
/// Nothing depends on this: the wait is simply taken up again.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Tells [`listen`] that the first load is over.
#[derive(Debug)]
pub struct InStep(Option<oneshot::Sender<()>>);

impl InStep {
    /// An observer for the engine, and what it will tell.
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }
}

impl<K: sliceproxy_dataplane::kernel::Kernel> Observer<K> for InStep {
    fn synced(&mut self, engine: &Engine<K>, _: &Synced, _: Duration) {
        if engine.is_listed()
            && let Some(sender) = self.0.take()
        {
            // Nobody listens if the process is ending.
            let _ = sender.send(());
        }
    }

    fn failed(&mut self, _: &Engine<K>, _: &SyncError, _: Duration) {}
}

/// Starts a thread that listens from the time that the engine is in step. `own_port` is the number of
/// the socket whose changes are our own.
///
/// # Errors
/// If no thread can be started.
pub fn listen(
    own_port: u32,
    in_step: oneshot::Receiver<()>,
    handle: Handle<NetlinkKernel>,
) -> std::io::Result<()> {
    let work = move || {
        if in_step.blocking_recv().is_err() {
            return;
        }
        loop {
            match Watch::open(own_port) {
                Ok(watch) => {
                    // What was changed before we listened, nobody has told.
                    if handle.distrust().is_err() || report(watch, &handle) {
                        return;
                    }
                }
                Err(error) => warn!(%error, "cannot listen for changes of nftables; trying again"),
            }
            thread::sleep(RETRY);
        }
    };
    thread::Builder::new().name("nftables-watch".to_owned()).spawn(work)?;
    Ok(())
}

/// Reports changes until the engine has ended (`true`) or the socket fails.
fn report(mut watch: Watch, handle: &Handle<NetlinkKernel>) -> bool {
    loop {
        match watch.wait(PATIENCE) {
            Ok(Noticed::Change) => {
                if handle.distrust().is_err() {
                    return true;
                }
            }
            Ok(Noticed::TimedOut | Noticed::Woken) => {}
            Err(error) => {
                warn!(%error, "stopped hearing of changes of nftables; trying again");
                return false;
            }
        }
    }
}
