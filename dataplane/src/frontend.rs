//! What a packet is sent to before (a [`Frontend`]) and after (an [`Endpoint`]) translation.
//! Plain values without Kubernetes in them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// An IP family. Each has a table of its own; both are committed in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Table `ip sliceproxy`.
    #[serde(rename = "IPv4")]
    V4,
    /// Table `ip6 sliceproxy`.
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    /// Both families, in the order in which they are always treated.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family that `address` belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family's name in nftables: `ip` or `ip6`.
    pub fn nft_name(self) -> &'static str {
        match self {
            Self::V4 => "ip",
            Self::V6 => "ip6",
        }
    }

    /// Bytes of an address on the wire: 4 or 16.
    pub fn address_len(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A transport protocol that a Service may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP, 6.
    Tcp,
    /// UDP, 17.
    Udp,
    /// SCTP, 132.
    Sctp,
}

impl Protocol {
    /// All of them; also what the program's NAT rules are limited to.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The IP protocol number (IANA "Assigned Internet Protocol Numbers").
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// The protocol with that IP protocol number, if a Service can use it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.number() == number)
    }

    /// The name as nftables prints it.
    pub fn nft_name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// The address, protocol and port that a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frontend {
    /// Cluster IP, external IP, load-balancer IP, or a node's address for a node port.
    pub address: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Destination port as the client sends it.
    pub port: u16,
}

impl Frontend {
    /// The family whose table holds this frontend's rows.
    pub fn family(&self) -> Family {
        Family::of(self.address)
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", SocketAddr::new(self.address, self.port), self.protocol)
    }
}

/// Where a connection ends up: a pod's (or an external server's) address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    /// Address as it stands in the EndpointSlice.
    pub address: IpAddr,
    /// The slice's port number, never the Service's `targetPort`.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.address, self.port).fmt(f)
    }
}
