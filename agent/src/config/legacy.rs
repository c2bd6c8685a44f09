//! kube-proxy's settings that have no meaning here. They are accepted, so that a ConfigMap or a
//! DaemonSet that works for kube-proxy works here, and named in one warning, so that nobody
//! believes in them.

use serde_json::Value;

use super::file::KubeProxyConfiguration;

/// Fields without a meaning here, and the value that kube-proxy itself writes into them.
const UNUSED: [(&str, &str); 26] = [
    ("clientConnection/acceptContentTypes", ""),
    ("clientConnection/contentType", "application/vnd.kubernetes.protobuf"),
    ("clientConnection/qps", "5.0"),
    ("clientConnection/burst", "10"),
    ("configSyncPeriod", "15m0s"),
    ("enableProfiling", ""),
    ("iptables/localhostNodePorts", "true"),
    ("iptables/syncPeriod", "30s"),
    ("iptables/minSyncPeriod", "1s"),
    ("ipvs/excludeCIDRs", ""),
    ("ipvs/minSyncPeriod", ""),
    ("ipvs/scheduler", ""),
    ("ipvs/strictARP", ""),
    ("ipvs/syncPeriod", "30s"),
    ("ipvs/tcpFinTimeout", ""),
    ("ipvs/tcpTimeout", ""),
    ("ipvs/udpTimeout", ""),
    ("logging/flushFrequency", "5000000000"),
    ("logging/vmodule", ""),
    ("portRange", ""),
    ("showHiddenMetricsForVersion", ""),
    ("windowsRunAsService", ""),
    ("winkernel/enableDSR", ""),
    ("winkernel/forwardHealthCheckVip", ""),
    ("winkernel/networkName", ""),
    ("winkernel/rootHnsEndpointName", ""),
];

/// More of them: `sourceVip` and what hangs below `logging.options`.
const UNUSED_TREES: [&str; 2] = ["winkernel/sourceVip", "logging/options"];

/// Paths of the fields that are set to something and have no effect, `mode` included if it asks
/// for another mode than nftables.
pub(super) fn unused_fields(file: &KubeProxyConfiguration) -> Vec<String> {
    let tree = serde_json::to_value(file).unwrap_or_default();
    let mode = file.mode.as_deref().unwrap_or_default();
    let other_mode = !matches!(mode, "" | "nftables");
    let mode = other_mode.then(|| format!("mode ({mode}; the only mode here is nftables)"));
    let trees = UNUSED_TREES.map(|path| (path, ""));
    let fields = UNUSED.into_iter().chain(trees).filter(|(path, usual)| {
        let value = tree.pointer(&format!("/{path}"));
        value.is_some_and(|value| !is_zero(value) && text_of(value) != *usual)
    });
    mode.into_iter().chain(fields.map(|(path, _)| path.replace('/', "."))).collect()
}

/// Whether Go would call the value empty.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        // "0" is how an empty quantity is written.
        Value::String(text) => matches!(text.as_str(), "" | "0s" | "0"),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
