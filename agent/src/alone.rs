//! One agent per network namespace: two would undo each other's work for ever.
//!
//! The claim is an abstract Unix socket. The kernel keeps such names per network namespace, as it
//! does tables, and forgets them with the process, however that ends. But anybody in the namespace
//! may take one. So a name counts only in the hands of a process that could be an agent, and anything
//! else costs no more than this check.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, UnixAddr, connect, getsockopt, shutdown, socket,
    sockopt,
};
use nix::unistd::geteuid;
use tracing::warn;

const NAME: &str = "sliceproxy/agent";

/// How long a name that is taken is tried again: the kernel may still be ending who had it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Why the claim was not granted.
#[derive(Debug, thiserror::Error)]
pub enum NotAlone {
    /// Somebody has it.
    #[error(
        "another sliceproxy{0} is at work in this network namespace, and two would undo each \
         other's changes: stop it first"
    )]
    Taken(Holder),
    /// The system refused.
    #[error("cannot make sure that no other sliceproxy is at work in this network namespace: {0}")]
    Refused(#[from] io::Error),
}

/// The process that has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// 0 if it is not of our process namespace.
    pid: i32,
    uid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 { Ok(()) } else { write!(f, " (process {})", self.pid) }
    }
}

impl Holder {
    /// Whether it may be an agent: what runs as nobody is none.
    fn counts(self, own_uid: u32) -> bool {
        self.uid == 0 || self.uid == own_uid
    }
}

/// The right to write this network namespace's tables, until dropped.
#[derive(Debug)]
pub struct Alone {
    /// None where somebody who is no agent keeps us from showing that we are one.
    sign: Option<Sign>,
}

impl Alone {
    /// Claims this network namespace. May take two seconds.
    ///
    /// # Errors
    /// See [`NotAlone`].
    pub fn claim() -> Result<Self, NotAlone> {
        let start = Instant::now();
        Self::claim_while(|| {
            thread::sleep(PAUSE);
            start.elapsed() < PATIENCE
        })
    }

    /// Tries once more for as long as `again` says so.
    fn claim_while(mut again: impl FnMut() -> bool) -> Result<Self, NotAlone> {
        let address = SocketAddr::from_abstract_name(NAME)?;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(socket) => return Ok(Self { sign: Some(Sign::show(socket)?) }),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error.into()),
                Err(_) if again() => {}
                Err(_) => break,
            }
        }
        match holder() {
            Ok(holder) if holder.counts(geteuid().as_raw()) => Err(NotAlone::Taken(holder)),
            Ok(Holder { pid, uid }) => Ok(Self::unsigned(&format!("process {pid} of user {uid}"))),
            Err(error) => Ok(Self::unsigned(&format!("a process that does not answer ({error})"))),
        }
    }

    fn unsigned(holder: &str) -> Self {
        warn!(
            "{holder} has the name by which agents of one network namespace know of each other, and \
             is none: going on, but a second agent would not be noticed; end that process"
        );
        Self { sign: None }
    }

    /// Whether other agents see this claim.
    pub fn is_seen(&self) -> bool {
        self.sign.is_some()
    }
}

/// The name, and a thread that takes whoever comes to see whose it is, so that the next one can.
#[derive(Debug)]
struct Sign {
    socket: UnixListener,
    thread: Option<JoinHandle<()>>,
}

impl Sign {
    fn show(socket: UnixListener) -> io::Result<Self> {
        let door = socket.try_clone()?;
        let thread = thread::Builder::new().name("alone".into()).spawn(move || {
            // Until the socket is shut down.
            while door.accept().is_ok() {}
        })?;
        Ok(Self { socket, thread: Some(thread) })
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        if shutdown(self.socket.as_raw_fd(), Shutdown::Both).is_ok()
            && let Some(thread) = self.thread.take()
        {
            // The name is free when this is back. A thread that panicked has let go of it too.
            let _ = thread.join();
        }
    }
}

/// Who has the name. Does not wait for it: it need not want to be known.
fn holder() -> io::Result<Holder> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new_abstract(NAME.as_bytes())?)?;
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    Ok(Holder { pid: peer.pid(), uid: peer.uid() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::socket::bind;

    use super::*;

    /// In a new network namespace.
    fn inside<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("needs root, or a user namespace");
            what()
        })
    }

    #[test]
    fn one_agent_per_network_namespace_until_it_ends() {
        let both = [(); 2].map(|()| {
            inside(|| {
                let first = Alone::claim().unwrap();
                let Err(NotAlone::Taken(holder)) = Alone::claim_while(|| false) else {
                    panic!("not noticed");
                };
                assert_eq!(holder.pid, i32::try_from(std::process::id()).unwrap());
                drop(first);
                let second = Alone::claim_while(|| false).unwrap();
                assert!(second.is_seen());
                second
            })
        });
        // Both are held at the same time, each in its own namespace.
        let _both = both.map(|thread| thread.join().unwrap());
    }

    #[test]
    fn an_agent_that_was_killed_a_moment_ago_is_waited_for() {
        let claimed = inside(|| {
            let mut first = Some(Alone::claim().unwrap());
            // It goes between two tries.
            Alone::claim_while(|| first.take().is_some()).unwrap().is_seen()
        });
        assert!(claimed.join().unwrap());
    }

    #[test]
    fn only_who_could_be_an_agent_keeps_one_from_starting() {
        let holder = |uid| Holder { pid: 7, uid };
        assert!(holder(0).counts(0));
        assert!(holder(0).counts(1000));
        assert!(holder(1000).counts(1000));
        assert!(!holder(65534).counts(0));
        assert!(!holder(65534).counts(1000));
        assert_eq!(holder(0).to_string(), " (process 7)");
        assert_eq!(Holder { pid: 0, uid: 0 }.to_string(), "");
    }

    #[test]
    fn a_name_whose_holder_stays_in_the_dark_keeps_nobody_from_starting() {
        let seen = inside(|| {
            let flags = SockFlag::SOCK_CLOEXEC;
            let mute = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
            let name = UnixAddr::new_abstract(NAME.as_bytes()).unwrap();
            bind(mute.as_raw_fd(), &name).unwrap();
            Alone::claim_while(|| false).unwrap().is_seen()
        });
        assert!(!seen.join().unwrap());
    }
}
