//! The real [`Kernel`]: our two tables over `nf_tables` netlink, in the network namespace of the
//! thread that opens it. The only place that knows bytes.
//!
//! | module | what it is for |
//! |---|---|
//! | `number` | the kernel's numbers |
//! | `wire` | messages and attributes, without nftables |
//! | `rule` and `expression`, `layout`, `element` | rules, sets and rows as attributes |
//! | `batch` | a transaction as one batch |
//! | `refusal` | error answers in the transaction's words |
//! | `socket` | sending and receiving |
//! | `decode`, `compare`, `heading`, `dump`, `read` | reading back |
//! | `reader` | the same beside commits, on a socket of its own |
//! | `watch` | changes made by others |
//! | `foreign`, `leftovers`, `others` | tables of others, and chains in them |
//! | `conntrack` and `flow` | remembered flows, shown and deleted |

mod batch;
mod compare;
mod conntrack;
mod decode;
mod dump;
mod element;
mod expression;
mod flow;
mod foreign;
mod heading;
mod layout;
mod leftovers;
mod number;
mod others;
mod read;
mod reader;
mod refusal;
mod rule;
mod socket;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

use std::io;

use crate::frontend::Family;
use crate::kernel::{Committed, Kernel, KernelError, KernelState, ReadBeside, Reader};
use crate::program::{Program, ProgramConfig};
use crate::rows::{AffinityRow, RowKey, RowValue};
use crate::transaction::Transaction;
use batch::{Batch, ROWS_PER_MESSAGE};
pub use conntrack::NetlinkConntrack;
use number::message;
pub use others::{OtherChain, OtherHook, other_chains};
use reader::NetlinkReader;
use refusal::{Fault, Verdict};
use socket::Channel;
pub use watch::{Noticed, Waker, Watch};

/// The nftables of one network namespace.
#[derive(Debug)]
pub struct NetlinkKernel {
    channel: Channel,
    batch: Batch,
    programs: [Program; 2],
    /// Opened here, because this thread is in the right network namespace.
    reader: NetlinkReader,
}

impl NetlinkKernel {
    /// Opens the nftables of the calling thread's network namespace. `config` says which program
    /// [`Kernel::read`] compares the tables with.
    ///
    /// # Errors
    /// [`KernelError::Socket`] or [`KernelError::Unsupported`] if there is no such socket. Missing
    /// rights show only at the first commit or read.
    pub fn open(config: &ProgramConfig) -> Result<Self, KernelError> {
        let batch = Batch::new(kernel_is_at_least(6, 3));
        let programs = Family::ALL.map(|family| Program::new(family, config));
        let channel = Channel::open()?;
        let reader = NetlinkReader::new(Channel::open()?, programs.clone());
        Ok(Self { channel, batch, programs, reader })
    }

    /// The number by which the kernel names the author of our commits, for [`Watch::open`].
    pub fn port(&self) -> u32 {
        self.channel.port()
    }

    /// Looks up a single row: its value, or `None` if it is not there. Sure even where a dump is
    /// not, right after a bulk load.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn contains(&mut self, key: &RowKey) -> Result<Option<RowValue>, KernelError> {
        read::single(&mut self.channel, key)
    }

    /// Sends the batch and reads the answers; `None` if they leave open which row is at fault.
    fn attempt(
        &mut self,
        transaction: &Transaction,
        rows_per_message: usize,
    ) -> Option<Result<Committed, KernelError>> {
        let first = self.channel.next_sequence();
        self.batch.fill(transaction, first, rows_per_message);
        self.channel.advance(self.batch.sent.len());
        let faults = match self.exchange() {
            Ok(faults) => faults,
            Err(error) => return Some(Err(error)),
        };
        if faults.is_empty() {
            return Some(Ok(Committed {
                elements: transaction.element_operations(),
                messages: self.batch.sent.len(),
                bytes: self.batch.out.len(),
            }));
        }
        match refusal::explain(&self.batch, transaction, &faults) {
            Verdict::Known(error) => Some(Err(error)),
            Verdict::Unclear => None,
        }
    }

    /// The faults of the batch; none means that all of it is in force.
    fn exchange(&mut self) -> Result<Vec<Fault>, KernelError> {
        if let Err(error) = self.channel.send(self.batch.out.as_bytes()) {
            return Err(send_error(error, self.batch.out.len()).into());
        }
        let mut faults = Vec::new();
        let mut overrun = false;
        loop {
            let answers = match self.channel.receive_ready() {
                Ok(Some(answers)) => answers,
                // The acknowledgement itself may be among what an overrun lost.
                Ok(None) if overrun && !faults.is_empty() => return Ok(faults),
                Ok(None) => {
                    return Err(io::Error::other("a batch was not acknowledged").into());
                }
                Err(error) if socket::is_overrun(&error) => {
                    overrun = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for answer in answers {
                let ours = self.batch.sent_with(answer.sequence).is_some();
                if answer.kind != message::ERROR || !ours {
                    continue;
                }
                let errno = answer
                    .error()
                    .ok_or_else(|| KernelError::Protocol("an error answer without error".into()))?;
                if errno != 0 {
                    faults.push(Fault::from_answer(&answer, errno));
                }
                let whole_batch = errno != 0 && answer.sequence == self.batch.first_sequence();
                if whole_batch || answer.sequence == self.batch.acknowledged_sequence() {
                    return Ok(faults);
                }
            }
        }
    }
}

impl Kernel for NetlinkKernel {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, KernelError> {
        if transaction.is_empty() {
            return Ok(Committed::default());
        }
        // An older kernel names the refused message only: one row in each makes that enough.
        let result = self
            .attempt(transaction, ROWS_PER_MESSAGE)
            .or_else(|| self.attempt(transaction, 1))
            .unwrap_or_else(|| Err(KernelError::Protocol("a refusal that names no row".into())));
        self.batch.shrink();
        result.map_err(|error| match error {
            KernelError::Permission => heading::without_rights(&mut self.channel),
            error => error,
        })
    }

    fn read(&mut self) -> Result<KernelState, KernelError> {
        read::state(&mut self.channel, &self.programs)
    }

    fn expect(&mut self, programs: &[Program]) {
        replace(&mut self.programs, programs);
    }

    fn read_affinity(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError> {
        read::affinity(&mut self.channel, family)
    }
}

impl ReadBeside for NetlinkKernel {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(self.reader.clone())
    }
}

/// Takes over the programs that are among `new`; the other family keeps its own.
fn replace(programs: &mut [Program; 2], new: &[Program]) {
    for program in new {
        let own = programs.iter_mut().filter(|own| own.family() == program.family());
        own.for_each(|own| own.clone_from(program));
    }
}

/// Nothing has reached the kernel when sending fails; a batch that is too long needs explaining.
fn send_error(error: io::Error, length: usize) -> io::Error {
    if error.raw_os_error() != Some(nix::libc::EMSGSIZE) {
        return error;
    }
    io::Error::other(format!(
        "a transaction of {length} bytes does not fit into the send buffer: raise \
         net.core.wmem_max, or give CAP_NET_ADMIN in the first user namespace"
    ))
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = nix::sys::utsname::uname();
    let version = release.ok().and_then(|uts| parse_release(uts.release().to_str()?));
    version >= Some((major, minor))
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
