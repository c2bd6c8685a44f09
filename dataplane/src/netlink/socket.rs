//! One netlink socket of the netfilter family: sending a batch, asking a question, reading a dump.

use std::io;
use std::time::Duration;

use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use nix::libc::{EAGAIN, EINTR, EINVAL, ENOBUFS, EPERM, EPROTONOSUPPORT, MSG_DONTWAIT, MSG_TRUNC};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::number::{flag, message};
use super::wire::{Buffer, Message, Messages};
use crate::kernel::KernelError;

/// Answers lie ready when a request has been sent; this only keeps a broken kernel from hanging us.
const PATIENCE: Duration = Duration::from_secs(10);
/// The kernel's dumps come in datagrams of at most 32 KiB.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// Room for the answers to a batch in which thousands of messages are refused.
const ANSWER_ROOM: usize = 8 * 1024 * 1024;
/// What the kernel counts of a datagram beyond its bytes.
const SEND_OVERHEAD: usize = 4096;
const INITIAL_SEND_ROOM: usize = 1024 * 1024;

/// How a dump ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DumpEnd {
    /// All of one moment, as far as the kernel knows.
    Whole,
    /// Something changed meanwhile.
    Interrupted,
    /// The kernel refused it with that error number.
    Refused(i32),
}

/// A socket bound to the calling thread's network namespace. Kept open: closing one after a delete
/// stalls everyone's commits for milliseconds.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Socket,
    port: u32,
    sequence: u32,
    send_room: usize,
    received: Vec<u8>,
}

impl Channel {
    pub(super) fn open() -> Result<Self, KernelError> {
        let mut socket = Socket::new(NETLINK_NETFILTER).map_err(no_netfilter)?;
        let port = socket.bind_auto()?.port_number();
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &time(PATIENCE)).map_err(io::Error::from)?;
        widen_receive(&socket, ANSWER_ROOM)?;
        let received = vec![0; RECEIVE_BUFFER];
        let mut channel = Self { socket, port, sequence: 1, send_room: 0, received };
        channel.make_send_room(INITIAL_SEND_ROOM)?;
        Ok(channel)
    }

    /// The number by which the kernel names this socket in notifications.
    pub(super) fn port(&self) -> u32 {
        self.port
    }

    /// The sequence number of the next message.
    pub(super) fn next_sequence(&mut self) -> u32 {
        if self.sequence > u32::MAX / 2 {
            self.sequence = 1;
        }
        self.sequence
    }

    /// Marks `count` sequence numbers as used.
    pub(super) fn advance(&mut self, count: usize) {
        self.sequence = self.sequence.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// A batch has to fit into the send buffer as a whole, or it would not be one transaction.
    fn make_send_room(&mut self, length: usize) -> io::Result<()> {
        let wanted = length + SEND_OVERHEAD;
        if wanted <= self.send_room {
            return Ok(());
        }
        match setsockopt(&self.socket, sockopt::SndBufForce, &wanted) {
            // Outside the first user namespace only the system's limit is allowed; a batch that
            // needs more fails with EMSGSIZE.
            Err(nix::errno::Errno::EPERM) => setsockopt(&self.socket, sockopt::SndBuf, &wanted)?,
            other => other?,
        }
        self.send_room = wanted;
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.make_send_room(bytes.len())?;
        loop {
            match self.socket.send(bytes, 0) {
                Err(error) if error.raw_os_error() == Some(EINTR) => {}
                Err(error) => return Err(error),
                Ok(sent) if sent == bytes.len() => return Ok(()),
                Ok(sent) => {
                    return Err(io::Error::other(format!("{sent} of {} bytes sent", bytes.len())));
                }
            }
        }
    }

    /// The next datagram, waiting for it.
    fn receive(&mut self) -> io::Result<Messages<'_>> {
        self.receive_with(0)?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::TimedOut, "no answer to a request within 10 s")
        })
    }

    /// The next datagram if there is one. A batch has been carried out, and all answers to it lie
    /// ready, when sending it returns: there is nothing to wait for.
    pub(super) fn receive_ready(&mut self) -> io::Result<Option<Messages<'_>>> {
        self.receive_with(MSG_DONTWAIT)
    }

    fn receive_with(&mut self, flags: i32) -> io::Result<Option<Messages<'_>>> {
        let length = loop {
            match self.socket.recv(&mut &mut self.received[..], flags | MSG_TRUNC) {
                Err(error) if error.raw_os_error() == Some(EINTR) => {}
                Err(error) if error.raw_os_error() == Some(EAGAIN) => return Ok(None),
                other => break other?,
            }
        };
        let bytes = self.received.get(..length).ok_or_else(|| {
            io::Error::other(format!("a datagram of {length} bytes is longer than any expected"))
        })?;
        Ok(Some(Messages(bytes)))
    }

    /// Sends one request, made with [`Channel::next_sequence`], and gives every message of the answer, which may be a dump, to `each`.
    ///
    /// A request that is not for a dump has to ask for an acknowledgement.
    pub(super) fn ask(
        &mut self,
        request: &Buffer,
        mut each: impl FnMut(Message<'_>) -> Result<(), KernelError>,
    ) -> Result<DumpEnd, KernelError> {
        let sequence = self.next_sequence();
        self.advance(1);
        self.send(request.as_bytes())?;
        let mut end = DumpEnd::Whole;
        loop {
            for answer in self.receive()? {
                if answer.sequence != sequence {
                    continue;
                }
                if answer.flags & flag::DUMP_INTERRUPTED != 0 {
                    end = DumpEnd::Interrupted;
                }
                match answer.kind {
                    message::ERROR | message::DONE => {
                        let error = answer.error().unwrap_or(EINVAL);
                        return match error {
                            0 => Ok(end),
                            EPERM => Err(KernelError::Permission),
                            EINTR => Ok(DumpEnd::Interrupted),
                            error => Ok(DumpEnd::Refused(error)),
                        };
                    }
                    _ => each(answer)?,
                }
            }
        }
    }
}

/// Whether the kernel has thrown answers away because there were too many.
pub(super) fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ENOBUFS)
}

/// Room for what the kernel wants to tell; less than wanted is not an error.
pub(super) fn widen_receive(socket: &Socket, room: usize) -> io::Result<()> {
    match setsockopt(socket, sockopt::RcvBufForce, &room) {
        Err(nix::errno::Errno::EPERM) => setsockopt(socket, sockopt::RcvBuf, &room)?,
        other => other?,
    }
    Ok(())
}

fn time(duration: Duration) -> TimeVal {
    TimeVal::milliseconds(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn no_netfilter(error: io::Error) -> KernelError {
    if error.raw_os_error() == Some(EPROTONOSUPPORT) {
        return KernelError::Unsupported {
            what: "netfilter over netlink".into(),
            module: "CONFIG_NETFILTER_NETLINK (module nfnetlink)".into(),
        };
    }
    error.into()
}
