//! What is said about settings that cannot be used.

use super::super::document;
use super::{KUBE, OURS, load};

#[test]
fn every_setting_is_checked_and_named() {
    for (file, line, message) in [
        (
            "nftables: {masqueradeBit: 32}",
            "",
            "nftables.masqueradeBit (--masquerade-bit): \"32\": must be 0 to 31",
        ),
        ("", "--masquerade-bit=-1", "must be 0 to 31"),
        (
            "",
            "--oom-score-adj=-1001",
            "oomScoreAdj (--oom-score-adj): \"-1001\": must be -1000 to 1000",
        ),
        (
            "conntrack: {maxPerCore: -1}",
            "",
            "conntrack.maxPerCore (--conntrack-max-per-core): \"-1\": must be 0 or more",
        ),
        (
            "conntrack: {udpTimeout: -1s}",
            "",
            "conntrack.udpTimeout (--conntrack-udp-timeout): \"-1s\": must be 0 or more",
        ),
        (
            "nftables: {syncPeriod: -1s}",
            "",
            "nftables.syncPeriod (--sync-period): \"-1s\": must be 0 or more",
        ),
        (
            "nftables: {minSyncPeriod: -1s}",
            "",
            "nftables.minSyncPeriod (--min-sync-period): \"-1s\"",
        ),
        ("nftables: {minSyncPeriod: 31s}", "", "must not be longer than syncPeriod, 30s"),
        ("configSyncPeriod: -1s", "", "configSyncPeriod: \"-1s\""),
        ("bindAddress: host", "", "bindAddress (--bind-address): \"host\": not an IP address"),
        ("healthzBindAddress: ':::10256'", "", "must be IP:port"),
        ("metricsBindAddress: '127.0.0.1:0'", "", "the port must be 1 to 65535"),
        ("nodePortAddresses: [primary, 10.0.0.0/8]", "", "cannot be combined"),
        ("nodePortAddresses: [10.0.0.1]", "", "\"10.0.0.1\" is not a network"),
        (
            "clusterCIDR: 10.0.0.0/8,11.0.0.0/8",
            "",
            "clusterCIDR (--cluster-cidr): \"10.0.0.0/8,11.0.0.0/8\": must be one",
        ),
        (
            "detectLocalMode: BridgeInterface",
            "",
            "detectLocal.bridgeInterface (--pod-bridge-interface): \"\": must not be empty",
        ),
        ("detectLocalMode: InterfaceNamePrefix", "", "must not be empty"),
        (
            "detectLocalMode: bridge",
            "",
            "must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
        ),
        (
            "logging: {format: xml}",
            "",
            "logging.format (--log-format): \"xml\": must be text or json",
        ),
        (
            "hostnameOverride: 'a b'",
            "",
            "hostnameOverride (--node-name): \"a b\": not the name of a Node",
        ),
        ("featureGates: {Nope: true}", "", "unknown feature gate \"Nope\"; known are"),
        ("", "--slice-selector a/b/c", "sliceSelector (--slice-selector): \"a/b/c\""),
        ("", "--master /only/a/path", "master (--master)"),
    ] {
        let file = if file.is_empty() { String::new() } else { format!("{KUBE}{file}\n") };
        let error = load(&file, line).unwrap_err();
        assert!(error.contains(message), "{file}{line}: {error}");
    }
    let both = format!("{KUBE}oomScoreAdj: 5000\nbindAddress: x\n");
    assert_eq!(
        load(&both, "").unwrap_err().lines().count(),
        2,
        "all problems are reported at once"
    );
}

#[test]
fn a_file_is_strict_about_types_and_names_the_path() {
    for (text, message) in [
        (
            "nftables: {minSyncPeriod: fast}",
            "nftables.minSyncPeriod: \"fast\": not a duration such as 1s, 500ms or 1m30s",
        ),
        (
            "nftables: {minSyncPeriod: 5}",
            "nftables.minSyncPeriod: invalid type: integer `5`, expected a string",
        ),
        ("oomScoreAdj: low", "oomScoreAdj: invalid type: string \"low\", expected i64"),
        (
            "nodePortAddresses: primary",
            "nodePortAddresses: invalid type: string \"primary\", expected a sequence",
        ),
        ("nodePortAddresses: [1]", "nodePortAddresses[0]: invalid type"),
        ("conntrack: 5", "conntrack: invalid type"),
        (
            "featureGates: {A: 'true'}",
            "featureGates.A: invalid type: string \"true\", expected a boolean",
        ),
    ] {
        let error = load(&format!("{KUBE}{text}\n"), "").unwrap_err();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    for (file, message) in [
        ("", "holds no KubeProxyConfiguration and no SliceProxyConfiguration"),
        ("---\n", "holds no"),
        ("a: [", "not valid YAML"),
        (
            "kind: Deployment\napiVersion: apps/v1\n",
            "document 1 is apiVersion \"apps/v1\", kind \"Deployment\"",
        ),
        ("just text", "document 1 is apiVersion \"\""),
        (&format!("{KUBE}---\n{KUBE}"), "holds KubeProxyConfiguration more than once"),
        (
            &format!("{OURS}zoneRegion: {{}}\n"),
            "SliceProxyConfiguration has no field zoneRegion (did you mean zoneRegions?)",
        ),
        (&format!("{OURS}limits: {{rowsPerService: 0}}\n"), ""),
        (&format!("{OURS}limits: {{memoryMiB: -1}}\n"), "limits.memoryMiB: invalid value"),
    ] {
        let error = document::parse(file).map_or_else(|e| e.to_string(), |_| String::new());
        assert!(error.starts_with(message), "{file}: {error}");
    }
    assert!(
        load(&format!("{OURS}limits: {{rowsPerService: 0}}\n"), "")
            .unwrap_err()
            .contains("1 or more")
    );
}
