//! Network namespaces that play a node, its pods and clients, and connections sent through them:
//! what `sliceproxy demo` and the integration tests stand on. Not used by the agent itself.
//!
//! Everything here lives and dies with the process: namespaces have no names, servers are
//! threads, and nothing is left behind even after SIGKILL.

mod links;
mod netns;
mod network;
mod privilege;
pub mod probe;
mod servers;

pub use netns::{Netns, NetnsId};
pub use network::{Lab, Machine, NodeAddresses, Pod};
pub use privilege::{Privilege, enter_user_namespace, may_make_namespaces, obtain_privilege};
pub use servers::{Port, sctp_available};

use std::io;

/// Why a lab, or a part of it, could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Namespaces cannot be made with the rights at hand.
    #[error("{0}")]
    Privilege(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a change of links, addresses or routes.
    #[error("{what}: {source}")]
    Netlink {
        /// What was attempted.
        what: String,
        /// The kernel's reason.
        #[source]
        source: rtnetlink::Error,
    },
    /// The picture asked for makes no sense.
    #[error("{0}")]
    Plan(String),
}

impl LabError {
    /// For `map_err`: wraps what the system said about `what`.
    fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System { what, source: source.into() }
    }

    /// For `map_err`: wraps what the kernel said about `what`.
    fn netlink(what: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> Self {
        let what = what.into();
        move |source| Self::Netlink { what, source }
    }
}
