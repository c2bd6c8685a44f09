//! A kernel in memory whose readers wait to be let on, for tests of what does not wait for them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sliceproxy_dataplane::fake::SharedKernel;
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{
    Committed, Kernel, KernelError, KernelState, Pass, ReadBeside, Reader,
};
use sliceproxy_dataplane::rows::AffinityRow;
use sliceproxy_dataplane::transaction::Transaction;

const LIMIT: Duration = Duration::from_secs(20);

/// The kernel. What a reader has read, it keeps to itself until it is let on.
#[derive(Debug, Clone, Default)]
pub(crate) struct GatedKernel {
    pub(crate) inner: SharedKernel,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    count: Mutex<Count>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    readers: usize,
    /// Passes that have been made.
    made: usize,
    /// Passes whose reader was let on.
    allowed: usize,
    failing: bool,
    leaving_out: bool,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut Count)) {
        change(&mut self.count.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Count) -> bool) {
        let count = self.count.lock().unwrap();
        let (count, time) =
            self.changed.wait_timeout_while(count, LIMIT, |count| !until(count)).unwrap();
        assert!(!time.timed_out(), "not in time: {count:?}");
    }
}

impl GatedKernel {
    /// Waits until readers have gone over the tables so often.
    pub(crate) fn await_passes(&self, made: usize) {
        self.gate.wait(|count| count.made >= made);
    }

    /// Waits until there are so many readers.
    pub(crate) fn await_readers(&self, readers: usize) {
        self.gate.wait(|count| count.readers == readers);
    }

    /// Lets readers come back with what they have found so often.
    pub(crate) fn let_pass(&self, times: usize) {
        self.gate.change(|count| count.allowed += times);
    }

    /// From now on passes leave out all rows, as the kernel's may that are made beside many commits.
    pub(crate) fn leave_out_rows(&self) {
        self.gate.change(|count| count.leaving_out = true);
    }

    /// From now on readers come back with an error.
    pub(crate) fn fail_passes(&self) {
        self.gate.change(|count| count.failing = true);
    }
}

impl Kernel for GatedKernel {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, KernelError> {
        self.inner.commit(transaction)
    }

    fn read(&mut self) -> Result<KernelState, KernelError> {
        self.inner.read()
    }

    fn read_affinity(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        self.inner.read_affinity(family)
    }
}

impl ReadBeside for GatedKernel {
    fn reader(&self) -> Box<dyn Reader> {
        self.gate.change(|count| count.readers += 1);
        Box::new(GatedReader { inner: self.inner.reader(), gate: Arc::clone(&self.gate) })
    }
}

struct GatedReader {
    inner: Box<dyn Reader>,
    gate: Arc<Gate>,
}

impl Reader for GatedReader {
    fn pass(&mut self) -> Result<Pass, KernelError> {
        let mut pass = self.inner.pass()?;
        let mut number = 0;
        self.gate.change(|count| {
            count.made += 1;
            number = count.made;
        });
        self.gate.wait(|count| count.allowed >= number || count.failing);
        let count = self.gate.count.lock().unwrap();
        if count.failing {
            return Err(io::Error::other("told to fail").into());
        }
        if count.leaving_out {
            pass.exact = false;
            for table in pass.state.v4.iter_mut().chain(&mut pass.state.v6) {
                table.rows.clear();
            }
        }
        Ok(pass)
    }

    fn clients(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        self.inner.clients(family)
    }
}

impl Drop for GatedReader {
    fn drop(&mut self) {
        self.gate.change(|count| count.readers -= 1);
    }
}
