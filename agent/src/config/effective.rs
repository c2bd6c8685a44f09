//! The way back: the file that would give the same [`Config`], for `/configz` and
//! `--write-config-to`.

use super::duration::GoDuration;
use super::file::{
    ClientConnection, ConfigFile, ConntrackSection, DetectLocalSection, KUBE_PROXY_API,
    KUBE_PROXY_KIND, KubeProxyConfiguration, LimitsSection, LoggingSection, NftablesSection,
    SLICE_PROXY_API, SLICE_PROXY_KIND, SliceProxyConfiguration,
};
use super::flags::DISABLED;
use super::{Config, DetectLocal, LogFormat, NodePortAddresses, Source};

impl Config {
    /// The configuration with every setting written out. `--master` has no field and is missing.
    pub fn to_file(&self) -> ConfigFile {
        ConfigFile { kube_proxy: self.kube_proxy_part(), slice_proxy: self.slice_proxy_part() }
    }

    fn kube_proxy_part(&self) -> KubeProxyConfiguration {
        let server = |address: Option<std::net::SocketAddr>| {
            Some(address.map_or_else(|| DISABLED.to_owned(), |a| a.to_string()))
        };
        let kubeconfig = match &self.source {
            Source::Api(api) => api.kubeconfig.as_ref().map(|p| p.to_string_lossy().into_owned()),
            Source::Manifests(_) => None,
        };
        let (mode, cluster_cidr, detect_local) = detect_local_fields(&self.detect_local);
        KubeProxyConfiguration {
            api_version: Some(KUBE_PROXY_API.to_owned()),
            kind: Some(KUBE_PROXY_KIND.to_owned()),
            feature_gates: Some(self.gates.wanted()),
            client_connection: ClientConnection { kubeconfig, ..ClientConnection::default() },
            logging: LoggingSection {
                format: Some(
                    match self.logging.format {
                        LogFormat::Text => "text",
                        LogFormat::Json => "json",
                    }
                    .to_owned(),
                ),
                verbosity: Some(self.logging.verbosity.into()),
                ..LoggingSection::default()
            },
            hostname_override: Some(self.node_name.to_string()),
            bind_address: Some(self.bind_address.to_string()),
            healthz_bind_address: server(self.servers.healthz),
            metrics_bind_address: server(self.servers.metrics),
            bind_address_hard_fail: Some(self.servers.hard_fail),
            mode: Some("nftables".to_owned()),
            nftables: NftablesSection {
                masquerade_bit: Some(self.masquerade_bit.into()),
                masquerade_all: Some(self.masquerade_all),
                sync_period: Some(self.sync_period.into()),
                min_sync_period: Some(self.min_sync_period.into()),
            },
            detect_local_mode: Some(mode.to_owned()),
            detect_local,
            cluster_cidr,
            node_port_addresses: Some(match &self.node_ports {
                NodePortAddresses::Primary => vec!["primary".to_owned()],
                NodePortAddresses::Networks(n) => n.iter().map(ToString::to_string).collect(),
            }),
            oom_score_adj: Some(self.oom_score_adj.into()),
            conntrack: self.conntrack_part(),
            ..KubeProxyConfiguration::default()
        }
    }

    fn conntrack_part(&self) -> ConntrackSection {
        let span = |span| Some(GoDuration::from(span));
        let conntrack = &self.conntrack;
        ConntrackSection {
            max_per_core: Some(conntrack.max_per_core.into()),
            min: Some(conntrack.min.into()),
            tcp_established_timeout: span(conntrack.tcp_established_timeout),
            tcp_close_wait_timeout: span(conntrack.tcp_close_wait_timeout),
            tcp_be_liberal: Some(conntrack.tcp_be_liberal),
            udp_timeout: span(conntrack.udp_timeout),
            udp_stream_timeout: span(conntrack.udp_stream_timeout),
        }
    }

    fn slice_proxy_part(&self) -> SliceProxyConfiguration {
        let limits = &self.limits;
        let zones = self.zone_regions.iter();
        SliceProxyConfiguration {
            api_version: Some(SLICE_PROXY_API.to_owned()),
            kind: Some(SLICE_PROXY_KIND.to_owned()),
            manifests: match &self.source {
                Source::Manifests(path) => Some(path.clone()),
                Source::Api(_) => None,
            },
            slice_selector: self.slice_selector.as_ref().map(ToString::to_string),
            zone_regions: Some(zones.map(|(z, r)| (z.to_string(), r.to_string())).collect()),
            admin_socket: Some(self.admin_socket.clone().unwrap_or_default()),
            limits: LimitsSection {
                rows_per_service: Some(limits.rows_per_service),
                frontends_per_service: Some(limits.frontends_per_service),
                endpoint_counts: Some(limits.endpoint_counts),
                affinity_rows: Some(limits.affinity_rows),
                log_lines_per_object: Some(limits.log_lines_per_object),
                memory_mib: Some(limits.memory_mib),
            },
        }
    }
}

/// `detectLocalMode`, `clusterCIDR` and `detectLocal`.
fn detect_local_fields(
    detect_local: &DetectLocal,
) -> (&'static str, Option<String>, DetectLocalSection) {
    let mut section = DetectLocalSection::default();
    let (mode, networks) = match detect_local {
        DetectLocal::ClusterCidr(networks) => {
            let texts: Vec<_> = networks.iter().map(ToString::to_string).collect();
            ("ClusterCIDR", (!texts.is_empty()).then(|| texts.join(",")))
        }
        DetectLocal::NodeCidr => ("NodeCIDR", None),
        DetectLocal::BridgeInterface(name) => {
            section.bridge_interface = Some(name.clone());
            ("BridgeInterface", None)
        }
        DetectLocal::InterfaceNamePrefix(prefix) => {
            section.interface_name_prefix = Some(prefix.clone());
            ("InterfaceNamePrefix", None)
        }
    };
    (mode, networks, section)
}
