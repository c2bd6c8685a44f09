//! "Did you mean": the known name nearest to a mistyped one.

/// The candidate most like `name`, if one is alike at all. Only the last part of a path counts.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let wanted = last(name);
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&wanted, &last(candidate)), candidate))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_suggested() {
        let known = ["clusterCIDR", "nftables.minSyncPeriod", "conntrack.min", "bindAddress"];
        for (name, expected) in [
            ("clusterCidr", Some("clusterCIDR")),
            ("minSyncPerod", Some("nftables.minSyncPeriod")),
            ("bindAdress", Some("bindAddress")),
            ("resourceContainer", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
