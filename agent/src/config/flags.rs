//! The configuration flags of the command line, in groups that commands combine. They are laid over
//! the [`ConfigFile`]; what the result means is decided in `resolve`, the same for both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use super::LogFormat;
use super::duration::{GoDuration, NotADuration};
use super::file::ConfigFile;
use super::gates::parse_pairs;

/// The text that switches a server off, in the file and on the command line.
pub(super) const DISABLED: &str = "0";

/// Every configuration flag. Commands that have only some groups leave the others at default.
#[derive(Debug, Clone, Default, Args)]
pub struct Flags {
    #[command(flatten)]
    pub source: SourceFlags,
    #[command(flatten)]
    pub api: ApiFlags,
    #[command(flatten)]
    pub traffic: TrafficFlags,
    #[command(flatten)]
    pub node: NodeFlags,
    #[command(flatten)]
    pub legacy: LegacyFlags,
    #[command(flatten)]
    pub ignored: IgnoredFlags,
}

/// Where objects come from, and for which node.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceFlags {
    /// Configuration file: a KubeProxyConfiguration, a SliceProxyConfiguration, or both
    #[arg(long, value_name = "FILE", value_parser = any_path)]
    pub config: Option<PathBuf>,
    /// Kubernetes objects to use instead of an API server: a file or a folder; commands that read
    /// them once also take a pipe, or - for standard input
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
    /// Name of this node [default: the host's name in lower case]
    #[arg(long, value_name = "NAME", visible_alias = "hostname-override")]
    pub node_name: Option<String>,
    /// Use only EndpointSlices with these labels, such as zone=eu-1a
    #[arg(long, value_name = "SELECTOR")]
    pub slice_selector: Option<String>,
    /// Regions of zones; zones that are not named are looked up in the API
    #[arg(long, value_name = "ZONE=REGION,...", value_parser = parse_zone_regions)]
    pub zone_regions: Vec<BTreeMap<String, String>>,
    /// Local socket for dump, explain and diff; "" for none [default: /run/sliceproxy/admin.sock]
    #[arg(long, value_name = "PATH", value_parser = any_path)]
    pub admin_socket: Option<PathBuf>,
}

/// How the API server is reached.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Source")]
pub struct ApiFlags {
    /// Credentials for the API server [default: those of the Pod]
    #[arg(long, value_name = "FILE", value_parser = any_path)]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
}

/// What the kernel is told to do with packets.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Traffic")]
pub struct TrafficFlags {
    /// Features to switch, such as TopologyRouting=true
    #[arg(long, value_name = "NAME=BOOL,...", value_parser = parse_pairs)]
    pub feature_gates: Vec<BTreeMap<String, bool>>,
    /// Networks of all pods: traffic from elsewhere to a cluster IP is masqueraded
    #[arg(long, value_name = "V4[,V6]")]
    pub cluster_cidr: Option<String>,
    /// How this node's pods are recognised: ClusterCIDR, NodeCIDR, BridgeInterface or
    /// InterfaceNamePrefix [default: ClusterCIDR]
    #[arg(long, value_name = "MODE")]
    pub detect_local_mode: Option<String>,
    /// The pods' bridge, for mode BridgeInterface
    #[arg(long, value_name = "NAME")]
    pub pod_bridge_interface: Option<String>,
    /// How names of pods' interfaces begin, for mode InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX")]
    pub pod_interface_name_prefix: Option<String>,
    /// Masquerade everything that is sent to a cluster IP
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub masquerade_all: Option<bool>,
    /// Bit of the packet mark that asks for masquerading, 0 to 31 [default: 14]
    #[arg(
        long,
        value_name = "BIT",
        alias = "iptables-masquerade-bit",
        allow_negative_numbers = true
    )]
    pub masquerade_bit: Option<i64>,
    /// Networks whose local addresses serve node ports, or "primary" [default: primary]
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',')]
    pub nodeport_addresses: Option<Vec<String>>,
    /// The node's own address, if not that of the Node object; 0.0.0.0 or :: says only which
    /// family comes first [default: 0.0.0.0]
    #[arg(long, value_name = "IP")]
    pub bind_address: Option<String>,
}

/// How the process behaves on its node.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeFlags {
    /// Shortest pause between two commits; 0 is as fast as the kernel takes them [default: 0s]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub min_sync_period: Option<GoDuration>,
    /// Longest time between two looks at the kernel for foreign changes [default: 30s]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = positive)]
    pub sync_period: Option<GoDuration>,
    /// Where /healthz and /livez are served; "" for nowhere [default: 0.0.0.0:10256]
    #[arg(long, value_name = "IP:PORT")]
    pub healthz_bind_address: Option<String>,
    /// Where /metrics is served; "" for nowhere [default: 127.0.0.1:10249]
    #[arg(long, value_name = "IP:PORT")]
    pub metrics_bind_address: Option<String>,
    /// End when one of these cannot be bound, instead of trying again every 5 s
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub bind_address_hard_fail: Option<bool>,
    /// Connections to track per CPU; 0 leaves the kernel's setting [default: 32768]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub conntrack_max_per_core: Option<i64>,
    /// Connections to track at least [default: 131072]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub conntrack_min: Option<i64>,
    /// Idle time of an established TCP connection; 0 leaves the kernel's [default: 24h]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub conntrack_tcp_timeout_established: Option<GoDuration>,
    /// Idle time of a half-closed TCP connection; 0 leaves the kernel's [default: 1h]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub conntrack_tcp_timeout_close_wait: Option<GoDuration>,
    /// Do not call TCP packets outside of the window invalid
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub conntrack_tcp_be_liberal: Option<bool>,
    /// Idle time of a UDP flow without an answer; 0 leaves the kernel's [default: 0s]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub conntrack_udp_timeout: Option<GoDuration>,
    /// Idle time of an answered UDP flow; 0 leaves the kernel's [default: 0s]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub conntrack_udp_timeout_stream: Option<GoDuration>,
    /// How readily the kernel kills this process for memory, -1000 to 1000 [default: -999]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub oom_score_adj: Option<i64>,
    /// Form of the log [default: text]
    #[arg(long, value_name = "FORMAT", alias = "logging-format")]
    pub log_format: Option<LogFormat>,
    /// How much is logged: 0 for operators, 2 commits, 4 events, 6 rows [default: 0]
    #[arg(short = 'v', long = "v", value_name = "LEVEL", num_args = 0..=1, default_missing_value = "2")]
    pub verbosity: Option<u32>,
}

/// kube-proxy's flags that still mean something, for its DaemonSets.
#[derive(Debug, Clone, Default, Args)]
pub struct LegacyFlags {
    #[arg(long, hide = true)]
    pub proxy_mode: Option<String>,
    /// kube-proxy's only flags for the periods of its nftables mode.
    #[arg(long, hide = true, allow_negative_numbers = true)]
    pub iptables_sync_period: Option<GoDuration>,
    #[arg(long, hide = true, allow_negative_numbers = true)]
    pub iptables_min_sync_period: Option<GoDuration>,
    #[arg(long, hide = true)]
    pub healthz_port: Option<u16>,
    #[arg(long, hide = true)]
    pub metrics_port: Option<u16>,
}

macro_rules! ignored_flags {
    ($($field:ident = $name:literal),* $(,)?) => {
        /// kube-proxy's flags without a meaning here: accepted with any value, and warned of.
        #[derive(Debug, Clone, Default, Args)]
        pub struct IgnoredFlags {
            $(#[arg(long = $name, hide = true, num_args = 0..=1, default_missing_value = "",
                    allow_hyphen_values = false, allow_negative_numbers = true)]
            pub $field: Option<String>,)*
        }

        impl IgnoredFlags {
            /// Those that were given, as they are written.
            fn given(&self) -> impl Iterator<Item = &'static str> {
                [$((self.$field.is_some(), concat!("--", $name))),*]
                    .into_iter()
                    .filter_map(|(given, name)| given.then_some(name))
            }
        }
    };
}
ignored_flags! {
    config_sync_period = "config-sync-period",
    iptables_localhost_nodeports = "iptables-localhost-nodeports",
    ipvs_exclude_cidrs = "ipvs-exclude-cidrs",
    ipvs_min_sync_period = "ipvs-min-sync-period",
    ipvs_scheduler = "ipvs-scheduler",
    ipvs_strict_arp = "ipvs-strict-arp",
    ipvs_sync_period = "ipvs-sync-period",
    ipvs_tcp_timeout = "ipvs-tcp-timeout",
    ipvs_tcpfin_timeout = "ipvs-tcpfin-timeout",
    ipvs_udp_timeout = "ipvs-udp-timeout",
    kube_api_burst = "kube-api-burst",
    kube_api_content_type = "kube-api-content-type",
    kube_api_qps = "kube-api-qps",
    log_flush_frequency = "log-flush-frequency",
    log_json_info_buffer_size = "log-json-info-buffer-size",
    log_json_split_stream = "log-json-split-stream",
    log_text_info_buffer_size = "log-text-info-buffer-size",
    log_text_split_stream = "log-text-split-stream",
    profiling = "profiling",
    show_hidden_metrics_for_version = "show-hidden-metrics-for-version",
    vmodule = "vmodule",
}

/// Nothing at all is no region of any zone.
fn parse_zone_regions(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut regions: BTreeMap<String, String> = BTreeMap::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let (zone, region) = pair
            .split_once('=')
            .filter(|(zone, region)| !zone.is_empty() && !region.is_empty())
            .ok_or("must be ZONE=REGION")?;
        match regions.insert(zone.to_owned(), region.to_owned()) {
            Some(other) if other != region => {
                return Err(format!("zone {zone} can only be in one of {other} and {region}"));
            }
            _ => {}
        }
    }
    Ok(regions)
}

/// A path that may be empty, which means none.
#[allow(clippy::unnecessary_wraps, reason = "the form that clap asks for")]
fn any_path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

/// A flag has no way of being unset, so that zero can only be a mistake.
fn positive(text: &str) -> Result<GoDuration, String> {
    let span: GoDuration = text.parse().map_err(|e: NotADuration| e.to_string())?;
    if span > GoDuration::default() { Ok(span) } else { Err("must be more than 0".to_owned()) }
}

/// Stores the flag's value, if it was given.
fn set<T, U: From<T>>(field: &mut Option<U>, flag: Option<T>) {
    if let Some(value) = flag {
        *field = Some(value.into());
    }
}

impl Flags {
    /// The configuration file; an empty path is none.
    pub fn config_file(&self) -> Option<&Path> {
        self.source.config.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// Writes what was given over what the file says.
    pub(super) fn overlay(&self, file: &mut ConfigFile) {
        self.overlay_legacy(file);
        self.overlay_source(file);
        self.overlay_traffic(file);
        self.overlay_node(file);
    }

    /// Flags that were given and have no effect, with what to use instead if there is something.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let mode = self.legacy.proxy_mode.as_deref();
        let periods_count = mode == Some("nftables");
        let legacy = [
            mode.filter(|mode| !matches!(*mode, "" | "nftables"))
                .map(|mode| format!("--proxy-mode={mode} (the only mode here is nftables)")),
            self.legacy.iptables_sync_period.filter(|_| !periods_count).map(|_| {
                "--iptables-sync-period (without --proxy-mode=nftables; see --sync-period)".into()
            }),
            self.legacy.iptables_min_sync_period.filter(|_| !periods_count).map(|_| {
                "--iptables-min-sync-period (without --proxy-mode=nftables; see --min-sync-period)"
                    .into()
            }),
        ];
        legacy.into_iter().flatten().chain(self.ignored.given().map(ToOwned::to_owned)).collect()
    }

    fn overlay_source(&self, file: &mut ConfigFile) {
        let flags = &self.source;
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        set(
            &mut file.kube_proxy.client_connection.kubeconfig,
            self.api.kubeconfig.as_ref().map(text),
        );
        set(&mut file.kube_proxy.hostname_override, flags.node_name.clone());
        let ours = &mut file.slice_proxy;
        set(&mut ours.manifests, flags.manifests.clone());
        // Naming an API server on the command line means it, whatever the file says.
        if flags.manifests.is_none() && (self.api.kubeconfig.is_some() || self.api.master.is_some())
        {
            ours.manifests = None;
        }
        set(&mut ours.slice_selector, flags.slice_selector.clone());
        set(&mut ours.admin_socket, flags.admin_socket.clone());
        for regions in &flags.zone_regions {
            ours.zone_regions.get_or_insert_default().extend(regions.clone());
        }
    }

    fn overlay_traffic(&self, file: &mut ConfigFile) {
        let flags = &self.traffic;
        let file = &mut file.kube_proxy;
        for gates in &flags.feature_gates {
            file.feature_gates.get_or_insert_default().extend(gates.clone());
        }
        set(&mut file.cluster_cidr, flags.cluster_cidr.clone());
        set(&mut file.detect_local_mode, flags.detect_local_mode.clone());
        set(&mut file.detect_local.bridge_interface, flags.pod_bridge_interface.clone());
        set(&mut file.detect_local.interface_name_prefix, flags.pod_interface_name_prefix.clone());
        if let Some(all) = flags.masquerade_all {
            file.nftables.masquerade_all = Some(all);
            file.iptables.masquerade_all = None;
        }
        set(&mut file.nftables.masquerade_bit, flags.masquerade_bit);
        set(&mut file.node_port_addresses, flags.nodeport_addresses.clone());
        set(&mut file.bind_address, flags.bind_address.clone());
    }

    fn overlay_node(&self, file: &mut ConfigFile) {
        let flags = &self.node;
        let file = &mut file.kube_proxy;
        set(&mut file.nftables.min_sync_period, flags.min_sync_period);
        set(&mut file.nftables.sync_period, flags.sync_period);
        let server = |flag: &Option<String>| match flag.as_deref() {
            Some("") => Some(DISABLED.to_owned()),
            other => other.map(ToOwned::to_owned),
        };
        set(&mut file.healthz_bind_address, server(&flags.healthz_bind_address));
        set(&mut file.metrics_bind_address, server(&flags.metrics_bind_address));
        set(&mut file.bind_address_hard_fail, flags.bind_address_hard_fail);
        let conntrack = &mut file.conntrack;
        set(&mut conntrack.max_per_core, flags.conntrack_max_per_core);
        set(&mut conntrack.min, flags.conntrack_min);
        set(&mut conntrack.tcp_established_timeout, flags.conntrack_tcp_timeout_established);
        set(&mut conntrack.tcp_close_wait_timeout, flags.conntrack_tcp_timeout_close_wait);
        set(&mut conntrack.tcp_be_liberal, flags.conntrack_tcp_be_liberal);
        set(&mut conntrack.udp_timeout, flags.conntrack_udp_timeout);
        set(&mut conntrack.udp_stream_timeout, flags.conntrack_udp_timeout_stream);
        set(&mut file.oom_score_adj, flags.oom_score_adj);
        let format = flags.log_format.map(|format| match format {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        });
        set(&mut file.logging.format, format);
        set(&mut file.logging.verbosity, flags.verbosity);
    }

    /// First of all, so that the flags they stand for win.
    fn overlay_legacy(&self, file: &mut ConfigFile) {
        let flags = &self.legacy;
        let file = &mut file.kube_proxy;
        if flags.proxy_mode.as_deref() == Some("nftables") {
            set(&mut file.mode, Some("nftables"));
            set(&mut file.nftables.sync_period, flags.iptables_sync_period);
            set(&mut file.nftables.min_sync_period, flags.iptables_min_sync_period);
        }
        for (field, port, default_ip) in [
            (&mut file.healthz_bind_address, flags.healthz_port, "0.0.0.0"),
            (&mut file.metrics_bind_address, flags.metrics_port, "127.0.0.1"),
        ] {
            match port {
                Some(0) => *field = Some(DISABLED.to_owned()),
                Some(port) => *field = Some(format!("{default_ip}:{port}")),
                None => {}
            }
        }
    }
}
