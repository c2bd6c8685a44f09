//! Networks without overlaps, as the kernel's interval sets want them.

use ipnetwork::IpNetwork;

/// The same addresses in as few networks as possible: contained ones are dropped and neighbours
/// joined. Sorted; both families may be mixed.
pub fn merge(networks: impl IntoIterator<Item = IpNetwork>) -> Vec<IpNetwork> {
    let mut sorted: Vec<IpNetwork> = networks.into_iter().map(canonical).collect();
    sorted.sort_by_key(|network| (network.is_ipv6(), network.ip(), network.prefix()));
    let mut merged: Vec<IpNetwork> = Vec::with_capacity(sorted.len());
    for mut network in sorted {
        if merged.last().is_some_and(|last| contains(last, &network)) {
            continue;
        }
        while let Some(whole) = merged.last().and_then(|last| join(last, &network)) {
            merged.pop();
            network = whole;
        }
        merged.push(network);
    }
    merged
}

/// The network with its host bits cleared.
pub fn canonical(network: IpNetwork) -> IpNetwork {
    IpNetwork::new(network.network(), network.prefix()).unwrap_or(network)
}

/// Whether `outer` holds every address of `inner`; networks of different families never do.
pub fn contains(outer: &IpNetwork, inner: &IpNetwork) -> bool {
    outer.is_ipv4() == inner.is_ipv4()
        && outer.prefix() <= inner.prefix()
        && outer.contains(inner.ip())
}

/// The network that consists of exactly these two, if they are its halves.
fn join(low: &IpNetwork, high: &IpNetwork) -> Option<IpNetwork> {
    let prefix = low.prefix().checked_sub(1)?;
    let whole = canonical(IpNetwork::new(low.ip(), prefix).ok()?);
    (low.prefix() == high.prefix()
        && low != high
        && contains(&whole, low)
        && contains(&whole, high))
    .then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(networks: &[&str]) -> Vec<String> {
        let parsed = networks.iter().filter_map(|n| n.parse().ok());
        merge(parsed).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contained_networks_are_dropped_and_neighbours_joined() {
        assert_eq!(merged(&["10.0.0.0/24", "10.0.0.7/32", "10.0.1.0/24"]), ["10.0.0.0/23"]);
        assert_eq!(merged(&["10.0.1.0/24", "10.0.2.0/24"]), ["10.0.1.0/24", "10.0.2.0/24"]);
        assert_eq!(merged(&["10.0.0.5/8", "fd00::/8", "10.0.0.0/8"]), ["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(merged(&["0.0.0.0/1", "128.0.0.0/1", "192.0.2.1/32"]), ["0.0.0.0/0"]);
        assert_eq!(merged(&["10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/25"]), ["10.0.0.0/24"]);
    }
}
