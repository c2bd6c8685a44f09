//! Addresses, networks and interface names as they stand in configuration.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnetwork::IpNetwork;
use sliceproxy_dataplane::cidr;
use sliceproxy_dataplane::frontend::Family;

/// Longest name of a network interface (`IFNAMSIZ` without its final zero).
const INTERFACE_NAME_MAX: usize = 15;

/// A network with its prefix length written out: `10.0.0.0` alone is refused, as in Kubernetes.
/// Host bits are cleared.
pub fn parse_network(text: &str) -> Result<IpNetwork, String> {
    let not_a_network = "not a network such as 10.244.0.0/16 or fd00:10:244::/56";
    let (address, prefix) = text.split_once('/').ok_or(not_a_network)?;
    let address: IpAddr = address.parse().map_err(|_| not_a_network)?;
    let prefix: u8 = prefix.parse().map_err(|_| not_a_network)?;
    IpNetwork::new(address, prefix).map(cidr::canonical).map_err(|_| not_a_network.to_owned())
}

/// One network, or one of each family, separated by a comma.
pub fn parse_network_pair(text: &str) -> Result<Vec<IpNetwork>, String> {
    let networks = text
        .split(',')
        .map(|part| parse_network(part.trim()).map_err(|e| format!("{:?} is {e}", part.trim())))
        .collect::<Result<Vec<_>, _>>()?;
    match networks.as_slice() {
        [_] => Ok(networks),
        [first, second] if first.is_ipv4() != second.is_ipv4() => Ok(networks),
        _ => Err("must be one network, or one IPv4 and one IPv6 network".to_owned()),
    }
}

/// Where a server listens: `IP:port`, or an IP alone, which gets `default_port`. `[::1]:10256` is
/// the form with an IPv6 address.
pub fn parse_bind_address(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, default_port));
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => Err("the port must be 1 to 65535".to_owned()),
        Ok(address) => Ok(address),
        Err(_) => Err("must be IP:port, such as 0.0.0.0:10256 or [::]:10256".to_owned()),
    }
}

/// A name (or its beginning) that an interface can have.
pub fn check_interface_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if name.len() > INTERFACE_NAME_MAX {
        return Err(format!(
            "longer than {INTERFACE_NAME_MAX} bytes: no interface has such a name"
        ));
    }
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '"' | '*' | '\\');
    match name.chars().find(|c| bad(*c)) {
        Some(c) => Err(format!("no interface name contains {c:?}")),
        None => Ok(()),
    }
}

/// The node's addresses on which node ports are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// The addresses that the Node object names first in each family.
    Primary,
    /// Local addresses inside these networks. A family without a network is not limited.
    Networks(Vec<IpNetwork>),
}

impl NodePortAddresses {
    /// Whether node ports are served on `address`, which the node has on an interface.
    /// `node_addresses` are those of the Node object, in its order. Loopback is never served: the
    /// reply could not be translated back.
    pub fn serves(&self, address: IpAddr, node_addresses: &[IpAddr]) -> bool {
        if address.is_loopback() {
            return false;
        }
        let family = Family::of(address);
        match self {
            Self::Primary => {
                node_addresses.iter().find(|a| Family::of(**a) == family) == Some(&address)
            }
            Self::Networks(networks) => {
                let mut own = networks.iter().filter(|n| Family::of(n.ip()) == family).peekable();
                own.peek().is_none() || own.any(|network| network.contains(address))
            }
        }
    }

    /// The families that have no network of their own, and so are served on every local address.
    pub fn unlimited_families(&self) -> Vec<Family> {
        let Self::Networks(networks) = self else { return Vec::new() };
        Family::ALL
            .into_iter()
            .filter(|family| !networks.iter().any(|n| Family::of(n.ip()) == *family))
            .collect()
    }
}

impl FromStr for NodePortAddresses {
    type Err = String;

    /// A comma-separated list of networks, or `primary`.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_list(text.split(',').map(str::trim))
    }
}

impl NodePortAddresses {
    /// From the elements of a list; the empty list means [`Self::Primary`].
    pub fn from_list<'a>(elements: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let elements: Vec<&str> = elements.into_iter().collect();
        if elements.is_empty() || elements == ["primary"] {
            return Ok(Self::Primary);
        }
        if elements.contains(&"primary") {
            return Err("\"primary\" and networks cannot be combined".to_owned());
        }
        let parse = |text: &&str| parse_network(text).map_err(|e| format!("{text:?} is {e}"));
        elements.iter().map(parse).collect::<Result<_, _>>().map(Self::Networks)
    }
}

impl fmt::Display for NodePortAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary => f.write_str("primary"),
            Self::Networks(networks) => {
                let texts: Vec<_> = networks.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn bind_addresses() {
        for (text, expected) in [
            ("0.0.0.0:10256", "0.0.0.0:10256"),
            ("[::]:10256", "[::]:10256"),
            ("::1", "[::1]:10249"),
            ("127.0.0.1", "127.0.0.1:10249"),
            ("10.0.0.1:65535", "10.0.0.1:65535"),
        ] {
            assert_eq!(parse_bind_address(text, 10249).unwrap().to_string(), expected);
        }
        for text in
            [":::10256", "localhost:80", "0.0.0.0:0", "0.0.0.0:65536", "[::]", ":10256", "x"]
        {
            assert!(parse_bind_address(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn networks() {
        let pair = |text| {
            parse_network_pair(text).map(|n| n.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(pair("10.244.0.0/16"), Ok(vec!["10.244.0.0/16".to_owned()]));
        assert_eq!(pair("10.1.2.3/8, fd00::1/56").unwrap(), ["10.0.0.0/8", "fd00::/56"]);
        for text in
            ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.256/8", "10.0.0.0/255.0.0.0", "a/8", "/8", ","]
        {
            assert!(pair(text).is_err(), "{text}");
        }
        assert!(pair("10.0.0.0/8,11.0.0.0/8").unwrap_err().contains("one IPv4 and one IPv6"));
        assert!(pair("10.0.0.0/8,fd00::/8,fd01::/16").is_err());
    }

    #[test]
    fn interface_names() {
        assert!(check_interface_name("cni0").is_ok() && check_interface_name("azv").is_ok());
        for name in ["", "averyveryverylongname", "a b", "a/b", "veth*", "a\"b", "a\nb"] {
            assert!(check_interface_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn node_port_addresses() {
        let node: Vec<IpAddr> =
            ["192.0.2.1", "fd00::1", "198.51.100.1"].iter().map(|a| a.parse().unwrap()).collect();
        for (list, address, served) in [
            ("primary", "192.0.2.1", true),
            ("primary", "fd00::1", true),
            ("primary", "198.51.100.1", false),
            ("192.0.2.0/24", "192.0.2.77", true),
            ("192.0.2.0/24", "198.51.100.1", false),
            ("192.0.2.0/24", "fd00::9", true),
            ("0.0.0.0/0,::/0", "198.51.100.1", true),
            ("0.0.0.0/0,::/0", "127.0.0.1", false),
            ("127.0.0.0/8", "127.0.0.1", false),
            ("fd00::/64,192.0.2.0/24", "fd01::1", false),
        ] {
            let addresses: NodePortAddresses = list.parse().unwrap();
            assert_eq!(
                addresses.serves(address.parse().unwrap(), &node),
                served,
                "{list} {address}"
            );
        }
        assert!(!NodePortAddresses::Primary.serves("192.0.2.1".parse().unwrap(), &[]));
        assert!("primary,10.0.0.0/8".parse::<NodePortAddresses>().is_err());
        assert!("10.0.0.0".parse::<NodePortAddresses>().is_err());
        let one: NodePortAddresses = "10.0.0.0/8".parse().unwrap();
        assert_eq!(one.unlimited_families(), [Family::V6]);
    }
}
