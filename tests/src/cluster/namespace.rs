//! The network namespace that a part of the cluster was started in, so that a test can use that
//! part from any thread. Not for making namespaces: that is `sliceproxy::lab`.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use nix::sched::{CloneFlags, setns};

const OWN: &str = "/proc/thread-self/ns/net";

/// Keeps a namespace and leads back into it.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    file: Arc<File>,
    inode: u64,
}

impl Namespace {
    /// The one that the calling thread is in.
    pub(super) fn current() -> Result<Self> {
        let file = File::open(OWN).with_context(|| format!("cannot open {OWN}"))?;
        let inode = file.metadata()?.ino();
        Ok(Self { file: Arc::new(file), inode })
    }

    /// Runs `work` in it: at once if the caller is there already, else in a thread that goes there.
    pub(super) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        if std::fs::metadata(OWN)?.ino() == self.inode {
            return work();
        }
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&*self.file, CloneFlags::CLONE_NEWNET)
                    .context("cannot enter the cluster's network namespace")?;
                work()
            });
            inside.join().map_err(|_| anyhow!("a thread in the cluster's namespace panicked"))?
        })
    }
}
