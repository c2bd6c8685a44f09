//! From wishes to the kernel: commit, and what to do when the kernel says no.

use std::time::{Duration, Instant};

use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Change, Committed, Kernel, KernelError, Refusal};
use sliceproxy_dataplane::picture::Picture;
use sliceproxy_dataplane::reading::{Finding, Reading};
use sliceproxy_dataplane::rows::{Row, RowKey};
use sliceproxy_dataplane::transaction::Transaction;

use super::{Engine, Excess, FlowCheck, flows};
use crate::model::ServiceName;

/// Refused transactions in a row after which a sync gives up until it is tried again.
const MAX_ATTEMPTS: u32 = 16;

/// Why a sync did not reach the kernel. Nothing is forgotten: the next one does all of it.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The kernel could not be read or written.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel refused again and again, also after being read back and without the rows at fault.
    #[error("gave up after {MAX_ATTEMPTS} refused transactions, the last for: {0}")]
    Exhausted(Refusal),
}

/// What a sync did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// Transactions that the kernel carried out: 0 if nothing was to do, usually 1.
    pub transactions: u32,
    /// Rows that were written: added, or changed.
    pub added: Vec<Row>,
    /// Rows that were deleted, including those whose value changed.
    pub deleted: Vec<RowKey>,
    /// Families whose program was installed.
    pub installed: Vec<Family>,
    /// Foreign elements of our sets that were deleted.
    pub strays: usize,
    /// Tables of our name that somebody else made, and that were replaced.
    pub usurped: Vec<Family>,
    /// Rows that the kernel refused in this sync.
    pub set_aside: Vec<Refusal>,
    /// What it cost.
    pub cost: Committed,
    /// Time spent in the kernel for the transactions.
    pub kernel_time: Duration,
    /// `last-change-trigger-time` of the slices whose changes are now in the kernel.
    pub triggers: Vec<i64>,
    /// Whether the kernel was read back, and held something else than what was known of it.
    pub repaired: bool,
    /// Limits that keep a part of a Service from being served, and did not before.
    pub exceeded: Vec<(ServiceName, Excess)>,
    /// Whether a Service that has or had a health check, or its ready endpoints on this node, changed
    /// since the last sync; rows do not tell.
    pub checks_due: bool,
    /// UDP flows that are to be looked at now.
    pub flow_checks: Vec<FlowCheck>,
}

/// Whether the kernel has to be read before the next transaction.
#[derive(Debug)]
pub(super) enum ReadBack {
    NotDue,
    Due,
    /// It has been read, beside commits, and this was found.
    Done(Box<Picture>),
}

impl<K: Kernel> Engine<K> {
    /// Asks for the kernel to be read back with the next [`Engine::sync`], and for refused rows to
    /// be tried again.
    pub fn distrust(&mut self) {
        self.read_back = ReadBack::Due;
        self.reconsider();
    }

    /// Has everything that the kernel refused, or that limits kept out, tried again with the next
    /// [`Engine::sync`]: once in a while.
    pub fn reconsider(&mut self) {
        self.ledger.retry_set_aside();
        if self.is_listed() {
            self.settle(self.restrained_ports());
        }
    }

    /// Asks for the remembered clients to be looked at with the next [`Engine::sync`]: somebody else
    /// changed the tables, and may have written clients too.
    pub fn distrust_clients(&mut self) {
        self.affinity_due.extend(self.settings.families.iter().copied());
    }

    /// Begins a reading of the kernel beside commits; to be done on another thread.
    pub fn begin_reading(&mut self) -> Reading {
        self.ledger.begin_reading()
    }

    /// Takes in what a reading has found. If that is not what the kernel is known to hold, the next
    /// [`Engine::sync`] repairs it, and the answer is `true`. What was not found for sure is only a
    /// reason for reading the kernel back there.
    pub fn take_finding(&mut self, reading: &Reading, finding: Finding) -> bool {
        match finding {
            // What has been read since is newer.
            _ if reading.is_overtaken() => return false,
            Finding::AsKnown => return false,
            Finding::Other(mut picture) if matches!(self.read_back, ReadBack::NotDue) => {
                reading.amend(&mut picture);
                self.read_back = ReadBack::Done(picture);
            }
            Finding::Other(_) | Finding::Unsure => self.read_back = ReadBack::Due,
        }
        true
    }

    /// Reads the kernel here and now: for whoever has the engine for himself.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn picture(&mut self) -> Result<Picture, KernelError> {
        Ok(self.kernel.read()?.into())
    }

    /// How long it took to read the kernel back, if that was done since this was last asked.
    pub fn take_read_time(&mut self) -> Option<Duration> {
        self.read_time.take()
    }

    /// Whether the next [`Engine::sync`] reads the kernel back first.
    pub fn is_read_back_due(&self) -> bool {
        !matches!(self.read_back, ReadBack::NotDue)
    }

    /// Makes the kernel hold what is desired: one transaction for all that changed. Does nothing
    /// before everything has been listed.
    ///
    /// # Errors
    /// If the kernel could not be brought to it; what is missing stays pending.
    pub fn sync(&mut self) -> Result<Synced, SyncError> {
        let mut synced = Synced::default();
        if !self.is_listed() {
            return Ok(synced);
        }
        self.read_back(&mut synced)?;
        let due = std::mem::take(&mut self.affinity_due);
        let result = self
            .review_clients(&due)
            .map_err(SyncError::from)
            .and_then(|()| self.settle_kernel(&mut synced));
        // A client may have been remembered between the look and the commit.
        let result = result.and_then(|()| {
            self.review_clients(&due)?;
            self.settle_kernel(&mut synced)
        });
        if let Err(error) = result {
            self.affinity_due.extend(due);
            return Err(error);
        }
        synced.exceeded = std::mem::take(&mut self.restraint.news);
        synced.triggers = std::mem::take(&mut self.triggers);
        synced.checks_due = std::mem::take(&mut self.checks_due);
        if synced.repaired {
            self.flows_due.extend(flows::repaired(&synced.added));
        }
        synced.flow_checks = self.take_flow_checks();
        Ok(synced)
    }

    /// Removes chains that nothing points at any more. For a quiet moment; failing is harmless.
    ///
    /// # Errors
    /// If the kernel refused; it is tried again at the next quiet moment.
    pub fn sweep(&mut self) -> Result<usize, SyncError> {
        let transaction = self.ledger.sweep();
        if transaction.is_empty() {
            return Ok(0);
        }
        self.kernel.commit(&transaction)?;
        self.ledger.committed(&transaction);
        Ok(transaction.dead_chains.len())
    }

    fn read_back(&mut self, synced: &mut Synced) -> Result<(), SyncError> {
        if !self.is_read_back_due() {
            return Ok(());
        }
        // What has been read beside commits is good for now only.
        let picture = match std::mem::replace(&mut self.read_back, ReadBack::Due) {
            ReadBack::Done(picture) => *picture,
            ReadBack::Due | ReadBack::NotDue => {
                let start = Instant::now();
                let picture = self.picture()?;
                self.read_time = Some(start.elapsed());
                picture
            }
        };
        let present = |family: &Family| picture.table(*family).is_some();
        let tables: Vec<Family> = Family::ALL.into_iter().filter(present).collect();
        let stranger =
            |family: &Family| picture.table(*family).is_some_and(|t| t.identity.is_none());
        let own = self.settings.families.iter().copied();
        synced.usurped = own.filter(stranger).collect();
        let surprises = self.ledger.read_back(picture);
        self.keep_clients(&tables)?;
        synced.repaired |= surprises > 0;
        self.read_back = ReadBack::NotDue;
        Ok(())
    }

    fn settle_kernel(&mut self, synced: &mut Synced) -> Result<(), SyncError> {
        for _ in 1..MAX_ATTEMPTS {
            match self.commit(synced) {
                Ok(()) => return Ok(()),
                Err(SyncError::Kernel(KernelError::Refused(refusals))) => {
                    self.learn_from(refusals, synced)?;
                }
                Err(error) => return Err(error),
            }
        }
        match self.commit(synced) {
            Err(SyncError::Kernel(KernelError::Refused(refusals))) => {
                self.read_back = ReadBack::Due;
                let last = refusals.into_iter().next();
                last.map_or(Ok(()), |last| Err(SyncError::Exhausted(last)))
            }
            other => other,
        }
    }

    fn commit(&mut self, synced: &mut Synced) -> Result<(), SyncError> {
        let transaction = self.ledger.transaction();
        if transaction.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let result = self.kernel.commit(&transaction);
        synced.kernel_time += start.elapsed();
        let cost = result.inspect_err(|error| {
            // Whatever the kernel did with it is unknown.
            if matches!(error, KernelError::Socket(_) | KernelError::Protocol(_)) {
                self.read_back = ReadBack::Due;
            }
        })?;
        self.ledger.committed(&transaction);
        record(synced, transaction, cost);
        Ok(())
    }

    /// Takes the kernel's word: reads back where it holds something else than we thought, and sets
    /// aside the rows that it will not take, so that they do not hold up the others.
    fn learn_from(&mut self, refusals: Vec<Refusal>, synced: &mut Synced) -> Result<(), SyncError> {
        let mut read_back = false;
        for refusal in refusals {
            match &refusal.change {
                Change::Affinity(row) => self.ledger.drop_client(row),
                _ if refusal.is_drift() => read_back = true,
                Change::Add(row) => {
                    self.ledger.put_aside(row.key, refusal.errno);
                    synced.set_aside.push(refusal);
                }
                Change::Chain(family, name) => {
                    self.ledger.put_chain_aside(*family, name, refusal.errno);
                    synced.set_aside.push(refusal);
                }
                Change::Delete(_) | Change::Stray(_) => read_back = true,
                Change::Program(..) => return Err(KernelError::Refused(vec![refusal]).into()),
            }
        }
        if read_back {
            self.read_back = ReadBack::Due;
            self.read_back(synced)?;
        }
        Ok(())
    }
}

fn record(synced: &mut Synced, transaction: Transaction, cost: Committed) {
    synced.transactions += 1;
    synced.strays += transaction.strays.len();
    synced.added.extend(transaction.added);
    synced.deleted.extend(transaction.deleted);
    synced
        .installed
        .extend(transaction.installed.iter().map(sliceproxy_dataplane::program::Program::family));
    synced.cost.elements += cost.elements;
    synced.cost.messages += cost.messages;
    synced.cost.bytes += cost.bytes;
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "reading_tests.rs"]
mod reading_tests;
