//! From what file and flags say to a [`Config`]: defaults, rules, and every problem at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::{
    NodePortAddresses, check_interface_name, parse_bind_address, parse_network_pair,
};
use super::check::{Checker, Problem, Setting};
use super::duration::GoDuration;
use super::file::{ConfigFile, KubeProxyConfiguration, LimitsSection};
use super::flags::DISABLED;
use super::gates::FeatureGates;
use super::{
    ApiServer, Config, Conntrack, DetectLocal, Limits, LogFormat, Logging, Servers, Source,
};
use crate::model::{NodeName, Region, Zone, ZoneRegions};

const HEALTHZ_PORT: u16 = 10256;
const METRICS_PORT: u16 = 10249;
const ADMIN_SOCKET: &str = "/run/sliceproxy/admin.sock";
const MASQUERADE_BIT: i64 = 14;
const OOM_SCORE_ADJ: i64 = -999;
const SYNC_PERIOD: GoDuration = GoDuration::from_secs(30);
const DAY: GoDuration = GoDuration::from_secs(24 * 3600);
const HOUR: GoDuration = GoDuration::from_secs(3600);
const ZERO: GoDuration = GoDuration::from_secs(0);

/// Text that is set: kubeadm writes `""` for what is not.
fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// A span that is set: in kube-proxy's part `0s` means the default, where that is not zero.
fn span_or(value: Option<GoDuration>, default: GoDuration) -> GoDuration {
    value.filter(|span| !span.is_zero()).unwrap_or(default)
}

/// The meaning of `file`, and what deserves a warning.
///
/// # Errors
/// All settings that cannot be used.
pub(super) fn resolve(
    file: &ConfigFile,
    master: Option<&str>,
    hostname: &str,
) -> Result<(Config, Vec<String>), Vec<Problem>> {
    let mut check = Checker::default();
    let kube = &file.kube_proxy;
    let ours = &file.slice_proxy;
    let bind_address = bind_address(&mut check, kube);
    let (sync_period, min_sync_period) = periods(&mut check, kube);
    let selector = Setting("sliceSelector", "--slice-selector");
    let gates = FeatureGates::new(kube.feature_gates.iter().flatten()).map_err(|e| e.to_string());
    let gates = match gates {
        Ok(gates) => gates,
        Err(reason) => {
            let wanted = kube.feature_gates.iter().flatten().map(|(k, v)| format!("{k}={v}"));
            let wanted = wanted.collect::<Vec<_>>().join(",");
            check.problem(Setting("featureGates", "--feature-gates"), wanted, reason);
            FeatureGates::default()
        }
    };
    let (masquerade_bit, masquerade_all) = masquerading(&mut check, kube);
    let config = Config {
        node_name: node_name(&mut check, kube, hostname),
        source: source(&mut check, file, master),
        slice_selector: set(ours.slice_selector.as_ref())
            .and_then(|text| check.parsed(selector, text, text.parse())),
        detect_local: detect_local(&mut check, kube),
        masquerade_bit,
        masquerade_all,
        node_ports: node_ports(&mut check, kube),
        bind_address,
        sync_period,
        min_sync_period,
        gates,
        zone_regions: zone_regions(&mut check, file),
        servers: servers(&mut check, kube, bind_address),
        admin_socket: admin_socket(ours.admin_socket.as_deref()),
        conntrack: conntrack(&mut check, kube),
        oom_score_adj: check.number(
            Setting("oomScoreAdj", "--oom-score-adj"),
            kube.oom_score_adj.unwrap_or(OOM_SCORE_ADJ),
            -1000..=1000,
        ),
        limits: limits(&mut check, &ours.limits),
        logging: logging(&mut check, kube),
    };
    if check.problems.is_empty() { Ok((config, check.warnings)) } else { Err(check.problems) }
}

fn node_name(check: &mut Checker, kube: &KubeProxyConfiguration, hostname: &str) -> NodeName {
    let given = set(kube.hostname_override.as_ref()).unwrap_or(hostname);
    let name = given.trim().to_lowercase();
    let word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if name.len() > 253 || !name.split('.').all(word) {
        check.problem(
            Setting("hostnameOverride", "--node-name"),
            given,
            "not the name of a Node: letters, digits, \"-\" and \".\"",
        );
    }
    NodeName(name.into())
}

fn source(check: &mut Checker, file: &ConfigFile, master: Option<&str>) -> Source {
    if let Some(path) = &file.slice_proxy.manifests {
        return Source::Manifests(path.clone());
    }
    let setting = Setting("master", "--master");
    let master = master.filter(|text| !text.is_empty()).and_then(|text| {
        let url = text.parse::<http::Uri>().ok().filter(|url| url.host().is_some());
        check.parsed(setting, text, url.ok_or("not a URL such as https://10.0.0.1:6443".into()))
    });
    let kubeconfig = set(file.kube_proxy.client_connection.kubeconfig.as_ref()).map(PathBuf::from);
    Source::Api(ApiServer { kubeconfig, master })
}

fn bind_address(check: &mut Checker, kube: &KubeProxyConfiguration) -> IpAddr {
    let unset = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let Some(text) = set(kube.bind_address.as_ref()) else { return unset };
    let parsed = text.parse().map_err(|_| "not an IP address".to_owned());
    check.parsed(Setting("bindAddress", "--bind-address"), text, parsed).unwrap_or(unset)
}

/// The iptables section counts for what packets need, in the modes in which kube-proxy heeds it;
/// its periods do not, being tuned to how slow iptables is.
fn masquerading(check: &mut Checker, kube: &KubeProxyConfiguration) -> (u8, bool) {
    let iptables = (kube.mode.as_deref() != Some("nftables")).then_some(&kube.iptables);
    let bit = kube.nftables.masquerade_bit.or(iptables.and_then(|i| i.masquerade_bit));
    let setting = Setting("nftables.masqueradeBit", "--masquerade-bit");
    let all = kube.nftables.masquerade_all == Some(true)
        || iptables.is_some_and(|i| i.masquerade_all == Some(true));
    (check.number(setting, bit.unwrap_or(MASQUERADE_BIT), 0..=31), all)
}

fn periods(check: &mut Checker, kube: &KubeProxyConfiguration) -> (Duration, Duration) {
    let (sync, min) = (
        Setting("nftables.syncPeriod", "--sync-period"),
        Setting("nftables.minSyncPeriod", "--min-sync-period"),
    );
    let given = span_or(kube.nftables.sync_period, SYNC_PERIOD);
    let sync_period = check.span(sync, given);
    let given_min = kube.nftables.min_sync_period.unwrap_or(ZERO);
    let min_sync_period = check.span(min, given_min);
    if min_sync_period > sync_period && given.to_std().is_some() {
        check.problem(min, given_min, format!("must not be longer than syncPeriod, {given}"));
    }
    let resync = span_or(kube.config_sync_period, HOUR);
    check.span(Setting("configSyncPeriod", ""), resync);
    (sync_period, min_sync_period)
}

fn detect_local(check: &mut Checker, kube: &KubeProxyConfiguration) -> DetectLocal {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let none = DetectLocal::ClusterCidr(Vec::new());
    match kube.detect_local_mode.as_deref().unwrap_or_default() {
        "" | "ClusterCIDR" => match set(kube.cluster_cidr.as_ref()) {
            Some(text) => {
                let setting = Setting("clusterCIDR", "--cluster-cidr");
                let networks = check.parsed(setting, text, parse_network_pair(text));
                networks.map_or(none, DetectLocal::ClusterCidr)
            }
            None => none,
        },
        "NodeCIDR" => DetectLocal::NodeCidr,
        "BridgeInterface" => {
            let setting = Setting("detectLocal.bridgeInterface", "--pod-bridge-interface");
            let name = text(&kube.detect_local.bridge_interface);
            check.parsed(setting, &name, check_interface_name(&name));
            DetectLocal::BridgeInterface(name)
        }
        "InterfaceNamePrefix" => {
            let setting = Setting("detectLocal.interfaceNamePrefix", "--pod-interface-name-prefix");
            let prefix = text(&kube.detect_local.interface_name_prefix);
            check.parsed(setting, &prefix, check_interface_name(&prefix));
            DetectLocal::InterfaceNamePrefix(prefix)
        }
        other => {
            check.problem(
                Setting("detectLocalMode", "--detect-local-mode"),
                other,
                "must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
            );
            none
        }
    }
}

fn node_ports(check: &mut Checker, kube: &KubeProxyConfiguration) -> NodePortAddresses {
    let setting = Setting("nodePortAddresses", "--nodeport-addresses");
    let given: Vec<&str> = kube.node_port_addresses.iter().flatten().map(|s| s.trim()).collect();
    let given: Vec<&str> = if given == [""] { Vec::new() } else { given };
    let parsed = NodePortAddresses::from_list(given.iter().copied());
    let Some(addresses) = check.parsed(setting, given.join(","), parsed) else {
        return NodePortAddresses::Primary;
    };
    if let NodePortAddresses::Networks(networks) = &addresses {
        let loopback = networks.iter().filter(|network| network.ip().is_loopback());
        for network in loopback {
            check.warnings.push(format!(
                "nodePortAddresses: {network}: node ports are never served on loopback addresses"
            ));
        }
    }
    for family in addresses.unlimited_families() {
        check.warnings.push(format!(
            "nodePortAddresses: {addresses}: no {family} network, so {family} node ports are \
             served on every local address"
        ));
    }
    addresses
}

fn servers(check: &mut Checker, kube: &KubeProxyConfiguration, bind: IpAddr) -> Servers {
    let (all, loopback): (IpAddr, IpAddr) = match bind {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    };
    let mut server = |setting, text: Option<&String>, ip, port| match set(text) {
        None => Some(SocketAddr::new(ip, port)),
        Some(DISABLED) => None,
        Some(text) => check.parsed(setting, text, parse_bind_address(text, port)),
    };
    Servers {
        healthz: server(
            Setting("healthzBindAddress", "--healthz-bind-address"),
            kube.healthz_bind_address.as_ref(),
            all,
            HEALTHZ_PORT,
        ),
        metrics: server(
            Setting("metricsBindAddress", "--metrics-bind-address"),
            kube.metrics_bind_address.as_ref(),
            loopback,
            METRICS_PORT,
        ),
        hard_fail: kube.bind_address_hard_fail.unwrap_or(false),
    }
}

fn admin_socket(given: Option<&Path>) -> Option<PathBuf> {
    let path = given.unwrap_or(Path::new(ADMIN_SOCKET));
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

fn conntrack(check: &mut Checker, kube: &KubeProxyConfiguration) -> Conntrack {
    let given = &kube.conntrack;
    let count = 0..=i64::from(i32::MAX);
    Conntrack {
        max_per_core: check.number(
            Setting("conntrack.maxPerCore", "--conntrack-max-per-core"),
            given.max_per_core.unwrap_or(32 * 1024),
            count.clone(),
        ),
        min: check.number(
            Setting("conntrack.min", "--conntrack-min"),
            given.min.unwrap_or(128 * 1024),
            count,
        ),
        tcp_established_timeout: check.span(
            Setting("conntrack.tcpEstablishedTimeout", "--conntrack-tcp-timeout-established"),
            given.tcp_established_timeout.unwrap_or(DAY),
        ),
        tcp_close_wait_timeout: check.span(
            Setting("conntrack.tcpCloseWaitTimeout", "--conntrack-tcp-timeout-close-wait"),
            given.tcp_close_wait_timeout.unwrap_or(HOUR),
        ),
        tcp_be_liberal: given.tcp_be_liberal.unwrap_or(false),
        udp_timeout: check.span(
            Setting("conntrack.udpTimeout", "--conntrack-udp-timeout"),
            given.udp_timeout.unwrap_or(ZERO),
        ),
        udp_stream_timeout: check.span(
            Setting("conntrack.udpStreamTimeout", "--conntrack-udp-timeout-stream"),
            given.udp_stream_timeout.unwrap_or(ZERO),
        ),
    }
}

fn zone_regions(check: &mut Checker, file: &ConfigFile) -> ZoneRegions {
    let mut regions = ZoneRegions::new();
    for (zone, region) in file.slice_proxy.zone_regions.iter().flatten() {
        match (Zone::new(zone), Region::new(region)) {
            (Some(zone), Some(region)) => {
                regions.insert(zone, region);
            }
            _ => check.problem(
                Setting("zoneRegions", "--zone-regions"),
                format!("{zone}={region}"),
                "neither zone nor region may be empty",
            ),
        }
    }
    regions
}

fn limits(check: &mut Checker, given: &LimitsSection) -> Limits {
    let default = Limits::default();
    let mut limit = |field, given: Option<u32>, default| match given {
        Some(0) => {
            check.problem(Setting(field, ""), 0, "must be 1 or more");
            default
        }
        given => given.unwrap_or(default),
    };
    Limits {
        rows_per_service: limit(
            "limits.rowsPerService",
            given.rows_per_service,
            default.rows_per_service,
        ),
        frontends_per_service: limit(
            "limits.frontendsPerService",
            given.frontends_per_service,
            default.frontends_per_service,
        ),
        endpoint_counts: limit(
            "limits.endpointCounts",
            given.endpoint_counts,
            default.endpoint_counts,
        ),
        affinity_rows: limit("limits.affinityRows", given.affinity_rows, default.affinity_rows),
        log_lines_per_object: limit(
            "limits.logLinesPerObject",
            given.log_lines_per_object,
            default.log_lines_per_object,
        ),
        memory_mib: given.memory_mib.unwrap_or(default.memory_mib),
    }
}

fn logging(check: &mut Checker, kube: &KubeProxyConfiguration) -> Logging {
    let format = match set(kube.logging.format.as_ref()) {
        None | Some("text") => LogFormat::Text,
        Some("json") => LogFormat::Json,
        Some(other) => {
            let setting = Setting("logging.format", "--log-format");
            check.problem(setting, other, "must be text or json");
            LogFormat::Text
        }
    };
    let verbosity = kube.logging.verbosity.unwrap_or(0);
    Logging { format, verbosity: u8::try_from(verbosity).unwrap_or(u8::MAX) }
}
