//! kube-proxy in nftables mode, in the network namespace of the thread that starts it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::Process;

use super::namespace::Namespace;
use super::{Cluster, START_LIMIT, User, binaries};
use crate::nft::Nft;
use crate::wait_for;

/// What a test wants of kube-proxy.
#[derive(Clone, Debug)]
pub struct KubeProxyOptions {
    /// The node it plays; it must exist in the API.
    pub node: String,
    /// Pod ranges, one or one of each family: what is not from them is masqueraded.
    pub cluster_cidr: String,
    /// The `nft` that it starts.
    pub nft: Nft,
    /// Merged into its configuration file (fields of `KubeProxyConfiguration`; the innermost wins).
    pub config: Value,
    /// Where the API server is, if not where the cluster's kubeconfigs say.
    pub server: Option<String>,
    /// More flags, `-v=4` for example.
    pub flags: Vec<String>,
}

impl KubeProxyOptions {
    /// kube-proxy for `node` with the system's nft.
    pub fn new(node: &str, cluster_cidr: &str) -> Self {
        Self {
            node: node.to_owned(),
            cluster_cidr: cluster_cidr.to_owned(),
            nft: Nft::system(),
            config: json!({}),
            server: None,
            flags: Vec::new(),
        }
    }
}

/// A running kube-proxy. It leaves its rules behind when it is dropped, as it does on a node.
#[derive(Debug)]
pub struct KubeProxy {
    namespace: Namespace,
    process: Process,
    _folder: TempDir,
}

impl KubeProxy {
    /// Starts it and waits until it has written its rules once for each family.
    pub fn start(cluster: &Cluster, options: &KubeProxyOptions) -> Result<Self> {
        let folder = TempDir::with_prefix("sliceproxy-kube-proxy-")?;
        let server = options.server.clone().unwrap_or_else(|| cluster.server());
        let user = User::kube_proxy();
        let name = format!("{}-{}", user.name, options.node);
        let kubeconfig = cluster.kubeconfig_with(&name, &server, &user.token())?;

        let mut config = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": kubeconfig},
            "hostnameOverride": options.node,
            "clusterCIDR": options.cluster_cidr,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            // The machine's own limits are not a test's to change.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        });
        merge(&mut config, &options.config);
        let file = folder.path().join("config.json");
        fs::write(&file, serde_json::to_string_pretty(&config)?)?;

        let mut command = Command::new(binaries()?.join("kube-proxy"));
        command
            .arg("--config")
            .arg(&file)
            .args(&options.flags)
            .env("PATH", path_with(&options.nft)?);
        let process = Process::spawn("kube-proxy", &mut command, folder.path())?;
        let mut proxy = Self { namespace: Namespace::current()?, process, _folder: folder };
        proxy.wait_for_first_sync()?;
        Ok(proxy)
    }

    /// Its process: log, memory, freeze.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// One sample of its metrics, by name and labels as they are written
    /// (`kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}`).
    pub fn metric(&self, sample: &str) -> Result<Option<f64>> {
        let text = self.metrics()?;
        text.lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))
            .map(|value| value.trim().parse().with_context(|| format!("{sample} is {value:?}")))
            .transpose()
    }

    /// All its metrics.
    pub fn metrics(&self) -> Result<String> {
        let url = "http://127.0.0.1:10249/metrics";
        self.namespace.run(|| Ok(ureq::get(url).call()?.body_mut().read_to_string()?))
    }

    fn wait_for_first_sync(&mut self) -> Result<()> {
        // Its health says "ready" before the first sync has run, so this counts syncs.
        let waited = wait_for("the first sync of kube-proxy", START_LIMIT, || {
            if let Err(error) = self.process.check_alive() {
                return Some(Err(error));
            }
            let text = self.metrics().ok()?;
            let synced = text
                .lines()
                .filter(|line| {
                    line.starts_with("kubeproxy_sync_proxy_rules_last_timestamp_seconds")
                })
                .filter(|line| line.rsplit(' ').next().is_some_and(|value| value != "0"));
            (synced.count() >= 2).then_some(Ok(()))
        });
        waited.flatten().with_context(|| self.process.log_tail())
    }
}

/// The `PATH` with the folder of `nft` in front, if it is not just a name to look up.
fn path_with(nft: &Nft) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let first = nft.program().parent().filter(|folder| folder.is_absolute());
    let folders = first.map(Path::to_owned).into_iter().chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}

/// Objects are merged field by field; anything else is replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => into.clone_from(from),
    }
}
