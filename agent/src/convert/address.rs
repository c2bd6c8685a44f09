//! Addresses and networks as Kubernetes has always read them: leading zeros are decimal and
//! meaningless. What comes out is canonical.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnetwork::IpNetwork;
use sliceproxy_dataplane::cidr;

/// Longest text that can be an address or a network; longer ones are not looked at.
const MAX_LENGTH: usize = 64;

/// The address that `text` means; an IPv4-mapped IPv6 address is the IPv4 address.
pub fn parse_address(text: &str) -> Option<IpAddr> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    if !text.contains(':') {
        return parse_v4(text).map(IpAddr::V4);
    }
    let v6: Ipv6Addr = match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            format!("{head}:{}", parse_v4(tail)?).parse().ok()?
        }
        _ => text.parse().ok()?,
    };
    Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(parse_decimal(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

/// Digits only: `u32::from_str` would take a sign.
fn parse_decimal(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// The network that `text` means, its host bits cleared, spaces around it ignored.
pub fn parse_network(text: &str) -> Option<IpNetwork> {
    let (address, prefix) = text.trim().split_once('/')?;
    let prefix = u8::try_from(parse_decimal(prefix)?).ok()?;
    let mapped = address.contains(':');
    match parse_address(address)? {
        // `::ffff:10.0.0.0/104` is neither here nor there.
        IpAddr::V4(_) if mapped => None,
        address => IpNetwork::new(address, prefix).ok().map(cidr::canonical),
    }
}

/// What makes an address unfit to be an endpoint or an external IP, if anything.
///
/// Kubernetes' own validation refuses unspecified, loopback and link-local addresses (unicast and
/// multicast); we refuse all multicast, and broadcast, since no connection can be made to either.
pub(super) fn special_kind(address: IpAddr) -> Option<&'static str> {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    frontend_kind(address).or(link_local.then_some("a link-local address"))
}

/// What makes an address unfit to be any frontend, if anything: as [`special_kind`], but link-local
/// ones are allowed, as some load balancers have them.
pub(super) fn frontend_kind(address: IpAddr) -> Option<&'static str> {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    [
        (address.is_unspecified(), "the unspecified address"),
        (address.is_loopback(), "a loopback address"),
        (address.is_multicast(), "a multicast address"),
        (broadcast, "the broadcast address"),
    ]
    .into_iter()
    .find_map(|(is, kind)| is.then_some(kind))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn addresses_are_read_sloppily_and_written_canonically() {
        for (text, canonical) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.001", Some("10.0.0.1")),
            ("10.0.0.00000010", Some("10.0.0.10")),
            ("10.0.0.256", None),
            ("10.0.0", None),
            ("10.0.0.1.2", None),
            ("10.0.0.+1", None),
            ("10.0.0.", None),
            ("10.0.0.1 ", None),
            ("", None),
            ("a.b.c.d", None),
            ("99999999999999999999.0.0.1", None),
            ("FD00:0:0::001", Some("fd00::1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("::ffff:010.0.0.1", Some("10.0.0.1")),
            ("64:ff9b::192.0.2.033", Some("64:ff9b::c000:221")),
            ("fe80::1%eth0", None),
            ("[::1]", None),
            ("10.0.0.1:80", None),
            (":::", None),
        ] {
            let parsed = parse_address(text).map(|ip| ip.to_string());
            assert_eq!(parsed.as_deref(), canonical, "{text:?}");
        }
    }

    #[test]
    fn networks_lose_host_bits_and_zeros() {
        for (text, canonical) in [
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            (" 203.0.113.000/025\t", Some("203.0.113.0/25")),
            ("fd00::1/64", Some("fd00::/64")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("10.0.0.0/33", None),
            ("10.0.0.0", None),
            ("10.0.0.0/-1", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0/", None),
            ("::ffff:10.0.0.0/104", None),
            ("fd00::/129", None),
        ] {
            let parsed = parse_network(text).map(|network| network.to_string());
            assert_eq!(parsed.as_deref(), canonical, "{text:?}");
        }
    }

    #[test]
    fn addresses_that_nobody_can_connect_to() {
        for (address, endpoint, frontend) in [
            ("10.0.0.1", true, true),
            ("fd00::1", true, true),
            ("127.0.0.1", false, false),
            ("::1", false, false),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("169.254.1.1", false, true),
            ("fe80::1", false, true),
            ("224.0.0.1", false, false),
            ("239.1.1.1", false, false),
            ("ff02::1", false, false),
            ("255.255.255.255", false, false),
        ] {
            let ip = parse_address(address).expect(address);
            assert_eq!(special_kind(ip).is_none(), endpoint, "{address} as endpoint");
            assert_eq!(frontend_kind(ip).is_none(), frontend, "{address} as frontend");
        }
    }
}
