//! One agent per network namespace: two would undo each other's work for ever.
//!
//! The claim is an abstract Unix socket. The kernel keeps such names per network namespace, as it
//! does tables, and forgets them with the process, however that ends.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

const NAME: &str = "sliceproxy/agent";

/// Why the claim was not granted.
#[derive(Debug, thiserror::Error)]
pub enum NotAlone {
    /// Somebody has it.
    #[error(
        "another sliceproxy is at work in this network namespace, and two would undo each other's \
         changes: stop it first"
    )]
    Taken,
    /// The system refused.
    #[error("cannot make sure that no other sliceproxy is at work in this network namespace: {0}")]
    Refused(#[from] io::Error),
}

/// The right to write this network namespace's tables, until dropped.
#[derive(Debug)]
pub struct Alone {
    _socket: UnixListener,
}

impl Alone {
    /// Claims this network namespace.
    ///
    /// # Errors
    /// See [`NotAlone`].
    pub fn claim() -> Result<Self, NotAlone> {
        let address = SocketAddr::from_abstract_name(NAME)?;
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Ok(Self { _socket: socket }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(NotAlone::Taken),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn one_agent_per_network_namespace_until_it_ends() {
        let inside = || {
            unshare(CloneFlags::CLONE_NEWNET).expect("needs root, or a user namespace");
            let first = Alone::claim().unwrap();
            assert!(matches!(Alone::claim(), Err(NotAlone::Taken)));
            drop(first);
            Alone::claim().unwrap()
        };
        let (one, other) = (std::thread::spawn(inside), std::thread::spawn(inside));
        // Both are held at the same time, each in its own namespace.
        let _both = (one.join().unwrap(), other.join().unwrap());
    }
}
