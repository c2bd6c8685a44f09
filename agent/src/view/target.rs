//! What `explain` is asked about.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use sliceproxy_dataplane::frontend::{Frontend, Protocol};

use crate::model::ServiceName;

/// Most characters of a name in Kubernetes.
pub(super) const MAX_NAME: usize = 253;

/// An address as a client uses it, or a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `ADDRESS:PORT[/PROTO]`
    Frontend(Frontend),
    /// `NAMESPACE/SERVICE[:PORT]`; the port by name or number.
    Service(ServiceName, Option<String>),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, protocol) = match text.rsplit_once('/') {
            Some((address, protocol)) => (address, Some(protocol)),
            None => (text, None),
        };
        if let Ok(socket) = address.parse::<SocketAddr>() {
            if socket.port() == 0 {
                return Err("there is no port 0: ports are 1 to 65535".to_owned());
            }
            return frontend(socket, protocol).map(Self::Frontend);
        }
        if address.parse::<IpAddr>().is_ok() {
            return Err("the port is missing: ADDRESS:PORT, or [ADDRESS]:PORT for IPv6".to_owned());
        }
        service(text).ok_or_else(|| {
            "must be ADDRESS:PORT[/PROTO] or NAMESPACE/SERVICE[:PORT], such as 10.96.0.10:53/udp \
             or shop/web:http"
                .to_owned()
        })
    }
}

/// The address of a client: one that a packet can come from. IPv4 written as IPv6 is IPv4.
///
/// # Errors
/// What is wrong with it.
pub fn client(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| "must be an IP address".to_owned())?;
    let address = address.to_canonical();
    let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
    if address.is_unspecified() || address.is_multicast() || address == broadcast {
        return Err(format!("no packet comes from {address}"));
    }
    Ok(address)
}

fn frontend(socket: SocketAddr, protocol: Option<&str>) -> Result<Frontend, String> {
    let known = |name: &str| {
        Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.nft_name().eq_ignore_ascii_case(name))
            .ok_or(format!("{name:?} is none of tcp, udp and sctp"))
    };
    let protocol = protocol.map_or(Ok(Protocol::Tcp), known)?;
    Ok(Frontend { address: socket.ip(), protocol, port: socket.port() })
}

fn service(text: &str) -> Option<Target> {
    let (namespace, rest) = text.split_once('/')?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (rest, None),
    };
    let is_name = |part: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        (1..=MAX_NAME).contains(&part.len()) && part.chars().all(word)
    };
    let all_names = is_name(namespace) && is_name(name) && port.is_none_or(is_name);
    all_names.then(|| Target::Service(ServiceName::new(namespace, name), port.map(str::to_owned)))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frontend(frontend) => frontend.fmt(f),
            Self::Service(name, None) => name.fmt(f),
            Self::Service(name, Some(port)) => write!(f, "{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn clients() {
        for (text, expected) in [
            ("10.244.1.10", "10.244.1.10"),
            ("::ffff:10.244.1.10", "10.244.1.10"),
            ("fd00::1", "fd00::1"),
        ] {
            assert_eq!(client(text).unwrap().to_string(), expected);
        }
        for text in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            assert!(client(text).unwrap_err().starts_with("no packet comes from"), "{text}");
        }
        assert_eq!(client("web").unwrap_err(), "must be an IP address");
    }

    #[test]
    fn targets() {
        for (text, expected) in [
            ("10.96.0.10:53/udp", "10.96.0.10:53/UDP"),
            ("10.96.0.1:443", "10.96.0.1:443/TCP"),
            ("[fd00::1]:80/SCTP", "[fd00::1]:80/SCTP"),
            ("shop/web", "shop/web"),
            ("shop/web:http", "shop/web:http"),
            ("shop/web:80", "shop/web:80"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), expected);
        }
        for (text, message) in [
            ("10.96.0.1", "port is missing"),
            ("10.96.0.1/udp", "port is missing"),
            ("fd00::1", "port is missing"),
            ("10.96.0.1:80/icmp", "none of tcp"),
            ("10.96.0.1:0", "no port 0"),
            ("[fd00::1]:0/udp", "no port 0"),
            ("10.96.0.1:99999", "must be ADDRESS:PORT"),
            ("web", "must be ADDRESS:PORT"),
            ("shop/web/x", "must be ADDRESS:PORT"),
            ("shop/", "must be ADDRESS:PORT"),
            (&format!("shop/{}", "x".repeat(254)), "must be ADDRESS:PORT"),
        ] {
            assert!(text.parse::<Target>().unwrap_err().contains(message), "{text}");
        }
    }
}
