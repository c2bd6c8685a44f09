//! Changes to our tables that others made, as the kernel tells them.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use nix::libc::{EAGAIN, EINTR, MSG_DONTWAIT, MSG_TRUNC};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::number::{CHANGES_GROUP, SUBSYSTEM, family_number, message, rule};
use super::socket::{is_overrun, no_netfilter, widen_receive};
use super::wire::{Message, Messages};
use crate::frontend::Family;
use crate::kernel::KernelError;
use crate::program::TABLE;

/// Room for the notifications of a bulk load of our own, which come before we can drop them.
const NOTIFICATION_ROOM: usize = 32 * 1024 * 1024;
const RECEIVE_BUFFER: usize = 64 * 1024;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noticed {
    /// Somebody else changed one of our tables, or may have: notifications were lost.
    Change,
    /// A [`Waker`] was used.
    Woken,
    /// The time is over.
    TimedOut,
}

/// Listens to changes of nftables. Blocks a thread; see [`Watch::waker`].
///
/// While anybody listens, the kernel writes a notification for every element of every commit: a few
/// microseconds for a small one, but a bulk load takes several times as long. So open it after the
/// first load.
#[derive(Debug)]
pub struct Watch {
    socket: Socket,
    own_port: u32,
    woken: UnixStream,
    waker: Waker,
    received: Vec<u8>,
}

/// Ends a [`Watch::wait`] from another thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<UnixStream>);

impl Waker {
    /// Makes the wait that is under way, or else the next one, return [`Noticed::Woken`].
    pub fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&*self.0).write(&[1]);
    }
}

impl Watch {
    /// Listens in the calling thread's network namespace, to all changes except those committed
    /// through the socket with number `own_port` ([`super::NetlinkKernel::port`]).
    ///
    /// # Errors
    /// [`KernelError::Socket`], [`KernelError::Unsupported`], [`KernelError::Permission`].
    pub fn open(own_port: u32) -> Result<Self, KernelError> {
        Self::open_with_room(own_port, NOTIFICATION_ROOM)
    }

    pub(super) fn open_with_room(own_port: u32, room: usize) -> Result<Self, KernelError> {
        let mut socket = Socket::new(NETLINK_NETFILTER).map_err(no_netfilter)?;
        socket.bind_auto()?;
        widen_receive(&socket, room)?;
        socket.add_membership(CHANGES_GROUP).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => KernelError::Permission,
            _ => error.into(),
        })?;
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let waker = Waker(Arc::new(waker));
        Ok(Self { socket, own_port, woken, waker, received: vec![0; RECEIVE_BUFFER] })
    }

    /// A way to end a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits for a change, or at most for `patience`.
    ///
    /// # Errors
    /// [`KernelError::Socket`].
    pub fn wait(&mut self, patience: Duration) -> Result<Noticed, KernelError> {
        let deadline = Instant::now().checked_add(patience);
        loop {
            if self.drain()? {
                return Ok(Noticed::Change);
            }
            if self.was_woken() {
                return Ok(Noticed::Woken);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Noticed::TimedOut);
            }
            self.sleep(left)?;
        }
    }

    fn sleep(&self, left: Option<Duration>) -> io::Result<()> {
        // Rounded up, so that the last millisecond is not spent going round.
        let timeout = left.and_then(|left| i32::try_from(left.as_millis() + 1).ok());
        let timeout = timeout.and_then(|ms| PollTimeout::try_from(ms).ok());
        let mut files = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut files, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn was_woken(&mut self) -> bool {
        let mut signals = [0; 64];
        let mut woken = false;
        while let Ok(1..) = (&self.woken).read(&mut signals) {
            woken = true;
        }
        woken
    }

    /// Takes all notifications that are there; whether one of them is a foreign change.
    fn drain(&mut self) -> io::Result<bool> {
        let mut changed = false;
        loop {
            match self.socket.recv(&mut &mut self.received[..], MSG_DONTWAIT | MSG_TRUNC) {
                Err(error) if error.raw_os_error() == Some(EAGAIN) => return Ok(changed),
                Err(error) if error.raw_os_error() == Some(EINTR) => {}
                Err(error) if is_overrun(&error) => changed = true,
                Err(error) => return Err(error),
                Ok(length) => {
                    changed |= match self.received.get(..length) {
                        Some(bytes) => Messages(bytes).any(|m| is_foreign(&m, self.own_port)),
                        None => true,
                    };
                }
            }
        }
    }
}

/// Whether the notification is of a change to one of our tables by somebody else.
fn is_foreign(notification: &Message<'_>, own_port: u32) -> bool {
    let Some(number) = notification.number_in(SUBSYSTEM) else { return false };
    if notification.port == own_port || number == message::NEW_GENERATION {
        return false;
    }
    let family = notification.family();
    let ours = Family::ALL.iter().any(|&ours| Some(family_number(ours)) == family);
    // Tables, chains, rules, sets and elements all have the table's name as attribute 1.
    let name = notification.attributes().find(rule::TABLE).and_then(|name| name.text());
    ours && name == Some(TABLE)
}
