//! Whole configurations: files as operators have them, flags, precedence, and messages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod messages;

use clap::Parser;

use super::document::{self, Document};
use super::*;

/// What kubeadm 1.36 writes into its ConfigMap for a dual-stack cluster.
const KUBEADM: &str = r#"apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
"#;

const KUBE: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
const OURS: &str = "apiVersion: sliceproxy.io/v1alpha1\nkind: SliceProxyConfiguration\n";

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct CommandLine {
    #[command(flatten)]
    flags: Flags,
}

fn flags(line: &str) -> Flags {
    let words = line.split_whitespace().map(|word| word.trim_matches('\''));
    CommandLine::try_parse_from(std::iter::once("test").chain(words)).unwrap().flags
}

fn load(file: &str, line: &str) -> Result<Loaded, String> {
    let document = match file {
        "" => Document::default(),
        text => document::parse(text).map_err(|e| e.to_string())?,
    };
    Config::from_parts(&flags(line), document, "Node-A\n")
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn defaults_are_those_of_kube_proxy() {
    let Loaded { config, warnings } = load("", "").unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.node_name.to_string(), "node-a");
    assert_eq!(config.source, Source::Api(ApiServer::default()));
    assert_eq!(config.program(&[]), ProgramConfig::default());
    assert_eq!(config.servers.healthz, Some("0.0.0.0:10256".parse().unwrap()));
    assert_eq!(config.servers.metrics, Some("127.0.0.1:10249".parse().unwrap()));
    assert_eq!(config.node_ports, NodePortAddresses::Primary);
    assert_eq!(config.sync_period, Duration::from_secs(30));
    assert_eq!(config.min_sync_period, Duration::ZERO);
    assert_eq!(config.oom_score_adj, -999);
    assert_eq!(config.conntrack.tcp_established_timeout, Duration::from_secs(86_400));
    assert_eq!(config.admin_socket, Some("/run/sliceproxy/admin.sock".into()));
    assert_eq!(config.health_timeout(), Duration::from_secs(60));
}

#[test]
fn what_kubeadm_writes_loads_without_a_warning() {
    let loaded = load(KUBEADM, "--hostname-override=Worker-1").unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let expected = load(
        "",
        "--node-name worker-1 --cluster-cidr 10.244.0.0/16,fd00:10:244::/56 \
         --kubeconfig /var/lib/kube-proxy/kubeconfig.conf",
    );
    assert_eq!(loaded.config, expected.unwrap().config);
    let indented = KUBEADM.replace('\n', "\n    ");
    let config_map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kube-proxy\ndata:\n  config.conf: |-\n    {indented}"
    );
    assert_eq!(load(&config_map, "--hostname-override=Worker-1").unwrap(), loaded);
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = format!(
        "{KUBE}nftables: {{masqueradeBit: 7, masqueradeAll: true, minSyncPeriod: 2s}}\n\
         featureGates: {{TopologyRouting: true, ComponentFlagz: false}}\n---\n\
         {OURS}zoneRegions: {{a: r1, b: r1}}\nmanifests: /objects\n"
    );
    let config = load(&file, "").unwrap().config;
    assert_eq!((config.masquerade_bit, config.masquerade_all), (7, true));
    assert_eq!(config.min_sync_period, Duration::from_secs(2));
    assert_eq!(config.source, Source::Manifests("/objects".into()));

    let line = "--masquerade-bit 9 --masquerade-all=false --min-sync-period 500ms --master https://h:1 \
                --zone-regions b=r2,c=r2 --feature-gates TopologyRouting=false --feature-gates AllBeta=true";
    let config = load(&file, line).unwrap().config;
    assert_eq!((config.masquerade_bit, config.masquerade_all), (9, false));
    assert_eq!(config.min_sync_period, Duration::from_millis(500));
    assert!(matches!(&config.source, Source::Api(api) if api.master.is_some()));
    assert!(!config.gates.enabled(Gate::TopologyRouting));
    assert!(!config.gates.enabled(Gate::ComponentFlagz));
    let regions: Vec<_> = config.zone_regions.iter().map(|(z, r)| format!("{z}={r}")).collect();
    assert_eq!(regions, ["a=r1", "b=r2", "c=r2"]);
}

#[test]
fn a_flag_that_is_given_empty_is_not_set() {
    let flags = flags("--hostname-override= --zone-regions= --cluster-cidr=");
    let config = Config::load(&flags).unwrap().config;
    assert!(!config.node_name.0.is_empty());
    assert!(config.zone_regions.is_empty());
    assert_eq!(config.detect_local, DetectLocal::ClusterCidr(Vec::new()));
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_file() {
    let config = load(&format!("\u{feff}{KUBEADM}"), "").unwrap().config;
    assert!(
        matches!(config.detect_local, DetectLocal::ClusterCidr(networks) if networks.len() == 2)
    );
}

#[test]
fn a_server_can_be_switched_off() {
    for (line, healthz, metrics) in [
        ("--metrics-bind-address=", true, false),
        ("--healthz-bind-address=", false, true),
        ("--healthz-port=0 --metrics-port=0", false, false),
        ("--healthz-bind-address=[::]:1", true, true),
    ] {
        let servers = load("", line).unwrap().config.servers;
        assert_eq!(
            (servers.healthz.is_some(), servers.metrics.is_some()),
            (healthz, metrics),
            "{line}"
        );
    }
    let file = format!("{KUBE}metricsBindAddress: \"0\"\nhealthzBindAddress: '::1'\n");
    let servers = load(&file, "").unwrap().config.servers;
    assert_eq!((servers.metrics, servers.healthz), (None, Some("[::1]:10256".parse().unwrap())));
    let v6 = load("", "--bind-address ::").unwrap().config.servers;
    assert_eq!(v6.healthz, Some("[::]:10256".parse().unwrap()));
    assert_eq!(v6.metrics, Some("[::1]:10249".parse().unwrap()));
    assert!(load("", "--admin-socket=").unwrap().config.admin_socket.is_none());
}

#[test]
fn kube_proxys_other_settings_are_accepted_and_named_once() {
    let file = format!(
        "{KUBE}mode: ipvs\nipvs: {{scheduler: rr, strictARP: true, syncPeriod: 30s}}\nclusterCidr: 10.0.0.0/8\n\
         enableProfiling: true\nconntrack: {{udpIdleTimeout: 1s}}\niptables: {{masqueradeAll: true, masqueradeBit: 3, minSyncPeriod: 10s}}\n"
    );
    let Loaded { config, warnings } =
        load(&file, "--proxy-mode=ipvs --ipvs-scheduler rr --profiling --vmodule a=1").unwrap();
    assert_eq!(
        warnings,
        [
            "unknown fields, ignored: clusterCidr (did you mean clusterCIDR?), \
             conntrack.udpIdleTimeout (did you mean ipvs.udpTimeout?)",
            "settings without a meaning here, ignored: mode (ipvs; the only mode here is nftables), \
             enableProfiling, iptables.minSyncPeriod, ipvs.scheduler, ipvs.strictARP, \
             --proxy-mode=ipvs (the only mode here is nftables), --ipvs-scheduler, --profiling, --vmodule",
        ]
    );
    assert_eq!((config.masquerade_bit, config.masquerade_all), (3, true), "packets need these");
    assert_eq!(config.min_sync_period, Duration::ZERO);
    let nftables = load("", "--proxy-mode=nftables --iptables-min-sync-period=1s").unwrap();
    assert!(nftables.warnings.is_empty());
    assert_eq!(nftables.config.min_sync_period, Duration::from_secs(1));
    let limited = load("", "--nodeport-addresses 10.0.0.0/8,127.0.0.0/8").unwrap().warnings;
    assert_eq!(limited.len(), 2, "loopback, and no IPv6 network: {limited:?}");
}

#[test]
fn the_program_follows_the_way_pods_are_recognised() {
    let network = |text: &str| text.parse::<IpNetwork>().unwrap();
    let pod_cidrs = [network("10.9.0.0/24"), network("fd09::/64"), network("10.10.0.0/24")];
    let from = |text: &str| PodTraffic::From(network(text));
    for (line, v4, v6) in [
        ("", PodTraffic::Unknown, PodTraffic::Unknown),
        ("--cluster-cidr fd00::/48", PodTraffic::Unknown, from("fd00::/48")),
        ("--cluster-cidr fd00::/48,10.0.0.0/8", from("10.0.0.0/8"), from("fd00::/48")),
        (
            "--detect-local-mode NodeCIDR --cluster-cidr 10.0.0.0/8",
            from("10.9.0.0/24"),
            from("fd09::/64"),
        ),
        (
            "--detect-local-mode BridgeInterface --pod-bridge-interface cni0",
            PodTraffic::Interface("cni0".into()),
            PodTraffic::Interface("cni0".into()),
        ),
        (
            "--detect-local-mode InterfaceNamePrefix --pod-interface-name-prefix azv",
            PodTraffic::InterfacePrefix("azv".into()),
            PodTraffic::InterfacePrefix("azv".into()),
        ),
    ] {
        let program = load("", line).unwrap().config.program(&pod_cidrs);
        assert_eq!((program.pods_v4, program.pods_v6), (v4, v6), "{line}");
    }
}

#[test]
fn the_effective_file_gives_the_same_configuration() {
    for line in [
        "",
        "--manifests /x --slice-selector a=b --zone-regions a=b --admin-socket= --metrics-bind-address=",
        "--detect-local-mode NodeCIDR --masquerade-all --masquerade-bit 3 --log-format json -v=4",
        "--detect-local-mode InterfaceNamePrefix --pod-interface-name-prefix azv --bind-address fd00::1",
        "--cluster-cidr 10.0.0.0/8 --nodeport-addresses 10.0.0.0/8,fd00::/8 --feature-gates AllAlpha=true \
         --min-sync-period 1.5s --sync-period 1m --conntrack-max-per-core 0 --kubeconfig /k",
    ] {
        let config = load("", line).unwrap().config;
        let text = config.to_file().to_yaml();
        let again = load(&text, "").unwrap();
        assert_eq!(again.config, config, "{text}");
    }
}

#[test]
fn conntrack_size_is_bounded_like_kube_proxys() {
    let conntrack = |max_per_core, min| Conntrack {
        max_per_core,
        min,
        ..load("", "").unwrap().config.conntrack
    };
    for (max_per_core, min, cpus, expected) in [
        (0, 10, 4, None),
        (32_768, 131_072, 2, Some(131_072)),
        (32_768, 131_072, 8, Some(262_144)),
        (32_768, 131_072, 64, Some(1_048_576)),
        (32_768, 2_000_000, 64, Some(1_048_576)),
        (32_768, 2_000_000, 2, Some(2_000_000)),
        (u32::MAX, 0, 64, Some(1_048_576)),
    ] {
        assert_eq!(conntrack(max_per_core, min).max_entries(cpus), expected);
    }
}

#[test]
fn flags_that_are_repeated_or_written_as_kube_proxys_are_taken() {
    let line = "--masquerade-all=true --cluster-cidr=10.0.0.0/8 --cluster-cidr=11.0.0.0/8 --v=4 --oom-score-adj -500";
    let config = load("", line).unwrap().config;
    assert_eq!(config.program(&[]).pods_v4, PodTraffic::From("11.0.0.0/8".parse().unwrap()));
    assert_eq!((config.logging.verbosity, config.oom_score_adj), (4, -500));
    for (line, message) in [
        ("--sync-period 0s", "must be more than 0"),
        ("--min-sync-period fast", "not a duration such as"),
        ("--zone-regions a", "must be ZONE=REGION"),
        ("--zone-regions a=b,", "must be ZONE=REGION"),
        ("--zone-regions a=b,c=d,a=c", "zone a can only be in one of b and c"),
        ("--feature-gates A", "is not NAME=true"),
        ("--cluster-cird 10.0.0.0/8", "--cluster-cidr"),
    ] {
        let error = CommandLine::try_parse_from(["test"].into_iter().chain(line.split(' ')));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
}
