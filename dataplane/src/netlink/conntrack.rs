//! The real [`Conntrack`]: one dump that is looked at as it comes, and removals on a second socket
//! meanwhile. Neither takes locks that a commit of rows needs.

use std::borrow::Borrow;
use std::io;
use std::thread;
use std::time::Duration;

use nix::libc::{EBUSY, EEXIST, EINVAL, ENOENT, EOPNOTSUPP, EPERM};

use super::flow::{self, Received};
use super::number::{conntrack, flag, message};
use super::socket::{self, Channel, DumpEnd};
use super::wire::Buffer;
use crate::conntrack::{Conntrack, Flow, Scope, Swept};
use crate::kernel::KernelError;

/// Dumps of one sweep, at most.
const ATTEMPTS: u32 = 5;
/// Doubled with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Changes that are sent at once: some 30 KiB, and few enough for all answers to find room.
const CHANGES_PER_SEND: usize = 256;

/// The connection tracking table of one network namespace.
#[derive(Debug)]
pub struct NetlinkConntrack {
    dumps: Option<Channel>,
    changes: Changes,
    /// Whether the kernel takes filters, as far as we know.
    filters: bool,
}

impl NetlinkConntrack {
    /// Opens the table of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`KernelError::Socket`] or [`KernelError::Unsupported`] if there is no such socket. Missing
    /// rights show only when it is used.
    pub fn open() -> Result<Self, KernelError> {
        let channel = Channel::open()?;
        let changes = Changes { channel, out: Buffer::default(), last: 0, count: 0, accepted: 0 };
        Ok(Self { dumps: Some(Channel::open()?), changes, filters: true })
    }

    /// Has the kernel filter nothing, as if it were an old one.
    #[cfg(test)]
    pub(super) fn without_filters(mut self) -> Self {
        self.filters = false;
        self
    }

    /// Writes entries of any protocol as if packets had made them, and gives their number: for tests
    /// and measurements. Those that exist already are left alone.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn plant(
        &mut self,
        flows: impl IntoIterator<Item = impl Borrow<Flow>>,
    ) -> Result<u64, KernelError> {
        for planted in flows {
            self.changes.push(|out, sequence| flow::write_new(out, sequence, planted.borrow()))?;
        }
        self.changes.finish()
    }

    /// One dump: shows its flows, and removes the stale ones.
    fn pass(
        &mut self,
        scope: &Scope,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
        swept: &mut Swept,
    ) -> Result<DumpEnd, KernelError> {
        // A dump that is given up leaves its socket with the rest of it: it is not used again.
        let mut dumps = self.dumps.take().map_or_else(Channel::open, Ok)?;
        let mut request = Buffer::default();
        flow::write_dump(&mut request, dumps.next_sequence(), scope, self.filters);
        let changes = &mut self.changes;
        let end = dumps.ask(&request, |answer| {
            if answer.number_in(conntrack::SUBSYSTEM) != Some(conntrack::NEW) {
                return Ok(());
            }
            let received = Received::parse(&answer);
            let Some(received) = received.filter(|r| flow::is_wanted(&r.flow, scope)) else {
                return Ok(());
            };
            swept.seen += 1;
            if is_stale(&received.flow) {
                changes.push(|out, sequence| flow::write_delete(out, sequence, &received))?;
            }
            Ok(())
        });
        swept.deleted += changes.finish()?;
        let end = match end {
            Err(KernelError::Socket(error)) if socket::is_overrun(&error) => {
                return Ok(DumpEnd::Interrupted);
            }
            end => end?,
        };
        self.dumps = Some(dumps);
        Ok(end)
    }
}

impl Conntrack for NetlinkConntrack {
    fn sweep(
        &mut self,
        scope: &Scope,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> Result<Swept, KernelError> {
        let mut swept = Swept::default();
        let mut pause = FIRST_PAUSE;
        while swept.dumps < ATTEMPTS {
            swept.dumps += 1;
            match self.pass(scope, is_stale, &mut swept)? {
                DumpEnd::Whole => return Ok(swept),
                DumpEnd::Interrupted => {
                    thread::sleep(pause);
                    pause *= 2;
                }
                DumpEnd::Refused(EINVAL | EOPNOTSUPP) if self.filters => self.filters = false,
                DumpEnd::Refused(EINVAL | EOPNOTSUPP) => return Err(no_conntrack()),
                DumpEnd::Refused(errno) => return Err(io::Error::from_raw_os_error(errno).into()),
            }
        }
        Err(KernelError::Torn(ATTEMPTS))
    }
}

fn no_conntrack() -> KernelError {
    KernelError::Unsupported {
        what: "connection tracking over netlink".into(),
        module: "CONFIG_NF_CT_NETLINK (module nf_conntrack_netlink)".into(),
    }
}

/// Entries to be removed or made, many in one send, each for itself.
#[derive(Debug)]
struct Changes {
    channel: Channel,
    out: Buffer,
    /// Where the last message begins.
    last: usize,
    count: usize,
    /// Changes that the kernel carried out since [`Changes::finish`].
    accepted: u64,
}

impl Changes {
    /// Adds a message; `write` gives its place.
    fn push(&mut self, write: impl FnOnce(&mut Buffer, u32) -> usize) -> Result<(), KernelError> {
        let first = self.channel.next_sequence();
        let offset = u32::try_from(self.count).unwrap_or_default();
        self.last = write(&mut self.out, first.wrapping_add(offset));
        self.count += 1;
        if self.count >= CHANGES_PER_SEND { self.send() } else { Ok(()) }
    }

    /// Sends what is left; gives the changes that were carried out since the last time.
    fn finish(&mut self) -> Result<u64, KernelError> {
        if self.count > 0 {
            self.send()?;
        }
        Ok(std::mem::take(&mut self.accepted))
    }

    fn send(&mut self) -> Result<(), KernelError> {
        // Only refusals are answered, and the last one in any case.
        self.out.add_flags(self.last, flag::ACK);
        let count = std::mem::take(&mut self.count);
        let first = self.channel.next_sequence();
        self.channel.advance(count);
        let sent = self.channel.send(self.out.as_bytes());
        self.out.clear();
        sent?;
        let refused = self.refused(first, count)?;
        self.accepted += (count - refused.min(count)) as u64;
        Ok(())
    }

    /// How many of `count` messages were refused because there was nothing to do any more.
    fn refused(&mut self, first: u32, count: usize) -> Result<usize, KernelError> {
        let mut refused = 0;
        let mut fault = None;
        loop {
            let Some(answers) = self.channel.receive_ready()? else {
                return Err(io::Error::other("changes of flows were not acknowledged").into());
            };
            for answer in answers {
                let position = answer.sequence.wrapping_sub(first) as usize;
                if answer.kind != message::ERROR || position >= count {
                    continue;
                }
                match answer.error() {
                    Some(0) => {}
                    // It ended by itself, is there already, or is in the hands of hardware.
                    Some(ENOENT | EEXIST | EBUSY) => refused += 1,
                    errno => fault = fault.or(errno).or(Some(EINVAL)),
                }
                if position + 1 == count {
                    return match fault {
                        None => Ok(refused),
                        Some(EPERM) => Err(KernelError::Permission),
                        Some(EINVAL | EOPNOTSUPP) => Err(no_conntrack()),
                        Some(errno) => Err(io::Error::from_raw_os_error(errno).into()),
                    };
                }
            }
        }
    }
}
