//! What a configuration file says, as it says it: kube-proxy's `KubeProxyConfiguration` and our own
//! `SliceProxyConfiguration`. Nothing is checked here beyond types; `document` reads the
//! text, `resolve` gives it a meaning.
//!
//! Every field is optional. kubeadm writes unset fields as `""`, `0s` or `null`, so in
//! kube-proxy's part these mean "not set".

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::GoDuration;

/// `apiVersion` of kube-proxy's part.
pub const KUBE_PROXY_API: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// `kind` of kube-proxy's part.
pub const KUBE_PROXY_KIND: &str = "KubeProxyConfiguration";
/// `apiVersion` of our part.
pub const SLICE_PROXY_API: &str = "sliceproxy.io/v1alpha1";
/// `kind` of our part.
pub const SLICE_PROXY_KIND: &str = "SliceProxyConfiguration";

/// Both parts of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigFile {
    /// kube-proxy's part.
    pub kube_proxy: KubeProxyConfiguration,
    /// Our part.
    pub slice_proxy: SliceProxyConfiguration,
}

/// `KubeProxyConfiguration`, all fields of Kubernetes 1.36.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeProxyConfiguration {
    pub api_version: Option<String>,
    pub kind: Option<String>,
    pub feature_gates: Option<BTreeMap<String, bool>>,
    pub client_connection: ClientConnection,
    pub logging: LoggingSection,
    pub hostname_override: Option<String>,
    pub bind_address: Option<String>,
    pub healthz_bind_address: Option<String>,
    pub metrics_bind_address: Option<String>,
    pub bind_address_hard_fail: Option<bool>,
    pub enable_profiling: Option<bool>,
    pub show_hidden_metrics_for_version: Option<String>,
    pub mode: Option<String>,
    pub iptables: IptablesSection,
    pub ipvs: IpvsSection,
    pub nftables: NftablesSection,
    pub winkernel: WinkernelSection,
    pub detect_local_mode: Option<String>,
    pub detect_local: DetectLocalSection,
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: Option<String>,
    pub node_port_addresses: Option<Vec<String>>,
    pub oom_score_adj: Option<i64>,
    pub conntrack: ConntrackSection,
    pub config_sync_period: Option<GoDuration>,
    pub port_range: Option<String>,
    pub windows_run_as_service: Option<bool>,
}

/// How to reach the API server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientConnection {
    pub kubeconfig: Option<String>,
    pub accept_content_types: Option<String>,
    pub content_type: Option<String>,
    pub qps: Option<f64>,
    pub burst: Option<i64>,
}

/// Logs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoggingSection {
    pub format: Option<String>,
    /// A duration, or nanoseconds as a number.
    pub flush_frequency: Option<Value>,
    pub verbosity: Option<u32>,
    pub vmodule: Option<Vec<Value>>,
    pub options: Option<Value>,
}

/// kube-proxy's iptables mode; `masqueradeBit` is used by its ipvs mode too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IptablesSection {
    pub masquerade_bit: Option<i64>,
    pub masquerade_all: Option<bool>,
    pub localhost_node_ports: Option<bool>,
    pub sync_period: Option<GoDuration>,
    pub min_sync_period: Option<GoDuration>,
}

/// kube-proxy's ipvs mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IpvsSection {
    pub sync_period: Option<GoDuration>,
    pub min_sync_period: Option<GoDuration>,
    pub scheduler: Option<String>,
    #[serde(rename = "excludeCIDRs")]
    pub exclude_cidrs: Option<Vec<String>>,
    #[serde(rename = "strictARP")]
    pub strict_arp: Option<bool>,
    pub tcp_timeout: Option<GoDuration>,
    pub tcp_fin_timeout: Option<GoDuration>,
    pub udp_timeout: Option<GoDuration>,
}

/// kube-proxy's nftables mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NftablesSection {
    pub masquerade_bit: Option<i64>,
    pub masquerade_all: Option<bool>,
    pub sync_period: Option<GoDuration>,
    pub min_sync_period: Option<GoDuration>,
}

/// kube-proxy on Windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WinkernelSection {
    pub network_name: Option<String>,
    pub source_vip: Option<String>,
    #[serde(rename = "enableDSR")]
    pub enable_dsr: Option<bool>,
    pub root_hns_endpoint_name: Option<String>,
    pub forward_health_check_vip: Option<bool>,
}

/// How pod traffic of this node is recognised.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DetectLocalSection {
    pub bridge_interface: Option<String>,
    pub interface_name_prefix: Option<String>,
}

/// Connection tracking in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConntrackSection {
    pub max_per_core: Option<i64>,
    pub min: Option<i64>,
    pub tcp_established_timeout: Option<GoDuration>,
    pub tcp_close_wait_timeout: Option<GoDuration>,
    pub tcp_be_liberal: Option<bool>,
    pub udp_timeout: Option<GoDuration>,
    pub udp_stream_timeout: Option<GoDuration>,
}

/// What kube-proxy does not have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SliceProxyConfiguration {
    pub api_version: Option<String>,
    pub kind: Option<String>,
    /// Read objects from this file or folder instead of the API server.
    pub manifests: Option<PathBuf>,
    /// Only EndpointSlices with these labels.
    pub slice_selector: Option<String>,
    /// zone: region.
    pub zone_regions: Option<BTreeMap<String, String>>,
    /// Socket for `dump`, `explain` and `diff`; `""` for none.
    pub admin_socket: Option<PathBuf>,
    /// What one user of the cluster may cost this node.
    pub limits: LimitsSection,
}

/// Limits; see [`super::Limits`] for meaning and defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LimitsSection {
    pub rows_per_service: Option<u32>,
    pub frontends_per_service: Option<u32>,
    pub endpoint_counts: Option<u32>,
    pub affinity_rows: Option<u32>,
    pub log_lines_per_object: Option<u32>,
    #[serde(rename = "memoryMiB")]
    pub memory_mib: Option<u32>,
}

impl ConfigFile {
    /// Both parts as one YAML text of two documents, unset fields left out.
    pub fn to_yaml(&self) -> String {
        let (kube_proxy, slice_proxy) = self.to_json();
        // A tree of maps, lists and scalars with text keys always has a YAML form.
        let yaml = |part: &Value| serde_norway::to_string(part).unwrap_or_default();
        format!("{}---\n{}", yaml(&kube_proxy), yaml(&slice_proxy))
    }

    /// kube-proxy's part and ours as JSON, unset fields left out.
    pub fn to_json(&self) -> (Value, Value) {
        let json = |part: Result<Value, _>| part.map(without_nulls).unwrap_or_default();
        (
            json(serde_json::to_value(&self.kube_proxy)),
            json(serde_json::to_value(&self.slice_proxy)),
        )
    }
}

/// The tree without `null`s in its maps, and without maps that are empty because of that.
fn without_nulls(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    let kept = map.into_iter().filter_map(|(key, value)| {
        let had_fields = value.as_object().is_some_and(|m| !m.is_empty());
        let value = without_nulls(value);
        let emptied = had_fields && value.as_object().is_some_and(serde_json::Map::is_empty);
        (!value.is_null() && !emptied).then_some((key, value))
    });
    Value::Object(kept.collect())
}
