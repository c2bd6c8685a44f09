//! Reading beside commits. A dump of many rows takes a while, and on the socket of the commits it would
//! hold them up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::socket::Channel;
use super::{read, replace};
use crate::frontend::Family;
use crate::kernel::{KernelError, Pass, Reader};
use crate::program::Program;
use crate::rows::AffinityRow;

/// A socket for reading. Stays open as long as its kernel; its clones share it.
#[derive(Debug, Clone)]
pub(super) struct NetlinkReader(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    channel: Channel,
    programs: [Program; 2],
}

impl NetlinkReader {
    pub(super) fn new(channel: Channel, programs: [Program; 2]) -> Self {
        Self(Arc::new(Mutex::new(Inner { channel, programs })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each request has a number of its own, so that answers to one left off are passed over.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader for NetlinkReader {
    fn pass(&mut self) -> Result<Pass, KernelError> {
        let Inner { channel, programs } = &mut *self.lock();
        read::pass(channel, programs)
    }

    fn expect(&mut self, programs: &[Program]) {
        replace(&mut self.lock().programs, programs);
    }

    fn clients(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        read::affinity_beside(&mut self.lock().channel, family)
    }
}
