//! UDP flows that the kernel's connection tracking remembers: a translation that was chosen with the
//! first packet holds for all that follow, also when its endpoint is long gone. A trait with two
//! implementations, the real one over netlink and the [fake](crate::fake::FakeConntrack) one.

use std::net::{IpAddr, SocketAddr};

use crate::frontend::{Endpoint, Family, Frontend};
use crate::kernel::KernelError;

/// A flow in the direction of its first packet, and who answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Who sent the first packet.
    pub client: SocketAddr,
    /// Where to, as the client sent it.
    pub frontend: Frontend,
    /// Where answers come from: the endpoint, or the frontend's own address if nothing was
    /// translated.
    pub answers_from: Endpoint,
    /// Connection tracking zone; 0 unless somebody's rules say otherwise.
    pub zone: u16,
}

/// The flows that are worth looking at: those of a family, or fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Family.
    pub family: Family,
    /// Only flows to that address.
    pub address: Option<IpAddr>,
    /// Only flows to that port.
    pub port: Option<u16>,
}

impl Scope {
    /// The least scope that takes in all of `frontends`, which are of one family. `None` if there
    /// are none.
    pub fn around(frontends: impl IntoIterator<Item = Frontend>) -> Option<Self> {
        let mut frontends = frontends.into_iter();
        let first = frontends.next()?;
        let scope =
            Self { family: first.family(), address: Some(first.address), port: Some(first.port) };
        Some(frontends.fold(scope, |scope, frontend| Self {
            address: scope.address.filter(|address| *address == frontend.address),
            port: scope.port.filter(|port| *port == frontend.port),
            ..scope
        }))
    }

    /// Whether a flow to `frontend` is in it.
    pub fn holds(&self, frontend: &Frontend) -> bool {
        frontend.family() == self.family
            && self.address.is_none_or(|address| address == frontend.address)
            && self.port.is_none_or(|port| port == frontend.port)
    }
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Times that the table was gone through: 1, more only if it was disturbed.
    pub dumps: u32,
    /// Flows that were looked at.
    pub seen: u64,
    /// Flows that were deleted.
    pub deleted: u64,
}

/// The connection tracking table of a network namespace.
pub trait Conntrack: Send {
    /// Shows every UDP flow of `scope` to `is_stale` and deletes exactly those for which it says so.
    /// Takes the same memory however many there are. A flow may be shown twice; one that begins
    /// meanwhile may be missed.
    ///
    /// # Errors
    /// See [`KernelError`]. Flows may have been deleted nevertheless; sweeping again does no harm.
    fn sweep(
        &mut self,
        scope: &Scope,
        is_stale: &mut dyn FnMut(&Flow) -> bool,
    ) -> Result<Swept, KernelError>;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::frontend::Protocol;

    fn frontend(text: &str) -> Frontend {
        let at: SocketAddr = text.parse().unwrap();
        Frontend { address: at.ip(), protocol: Protocol::Udp, port: at.port() }
    }

    #[test]
    fn a_scope_is_no_wider_than_it_must_be() {
        let (a, b, c) = (frontend("10.0.0.1:53"), frontend("10.0.0.2:53"), frontend("10.0.0.1:54"));
        assert_eq!(Scope::around([]), None);
        for (frontends, address, port) in [
            (vec![a], Some(a.address), Some(53)),
            (vec![a, b], None, Some(53)),
            (vec![a, c], Some(a.address), None),
            (vec![a, b, c], None, None),
        ] {
            let scope = Scope::around(frontends.clone()).unwrap();
            assert_eq!((scope.address, scope.port), (address, port), "{frontends:?}");
            assert!(frontends.iter().all(|frontend| scope.holds(frontend)));
        }
        let scope = Scope::around([a]).unwrap();
        assert!(!scope.holds(&b) && !scope.holds(&c) && !scope.holds(&frontend("[::1]:53")));
    }
}
