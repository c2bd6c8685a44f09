//! Both networks, the API server and the two proxies.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context as _, Result};
use serde_json::json;
use sliceproxy::lab::{Lab, NodeAddresses};
use sliceproxy_dataplane::frontend::Family;

use super::case::{Case, Change};
use super::plan::{NAMESPACE, NODE, PODS, pod_address};
use super::relay;
use super::side::{CLUSTER_CIDR, FIRST_SENTINEL, LIMIT, Side, nodes, sentinel};
use crate::cluster::{Api, Cluster, KubeProxy, KubeProxyOptions, Options, Pod, User, count_with};
use crate::nft::Nft;

/// Everything that a run needs. The proxies are the caller's, since they borrow from it.
#[derive(Debug)]
pub struct Stage {
    /// The one with kube-proxy.
    pub kube_proxy: Side,
    /// The one with sliceproxy.
    pub sliceproxy: Side,
    /// The control plane.
    pub cluster: Cluster,
    /// The API with all rights.
    pub api: Api,
    sentinels: AtomicU8,
}

impl Stage {
    /// Starts a control plane with three nodes, and builds both networks.
    ///
    /// # Errors
    /// When any of it fails.
    pub fn new(cases: &[Case]) -> Result<Self> {
        let control = Lab::new(NodeAddresses {
            v4: Ipv4Addr::new(192, 0, 2, 10),
            v6: "2001:db8:2::10".parse()?,
        })?;
        let cluster = control.node().run(|| Cluster::start(Options::default()))??;
        let control = Arc::new(control);
        let kube_proxy = Side::new("kube-proxy", cases)?;
        let sliceproxy = Side::new("sliceproxy", cases)?;
        let server: SocketAddr = cluster.server().trim_start_matches("https://").parse()?;
        for side in [&kube_proxy, &sliceproxy] {
            relay::offer(side.lab.node(), Arc::clone(&control), server)?;
        }
        let api = cluster.api()?;
        api.add_namespace(NAMESPACE)?;
        for node in nodes() {
            api.add_node(&node)?;
        }
        for (name, node, number, place) in PODS {
            let ips = Family::ALL.map(|family| pod_address(number, place, family));
            api.add_ready_pod(&Pod::new(NAMESPACE, name, "web", node, &ips))?;
        }
        Ok(Self { kube_proxy, sliceproxy, cluster, api, sentinels: AtomicU8::new(0) })
    }

    /// kube-proxy on its node.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_kube_proxy(&self) -> Result<KubeProxy> {
        let mut options = KubeProxyOptions::new(NODE, CLUSTER_CIDR);
        options.nft = Nft::newer()?;
        options.config = json!({"nftables": {"minSyncPeriod": "100ms"}});
        self.kube_proxy.lab.node().run(|| KubeProxy::start(&self.cluster, &options))?
    }

    /// What `sliceproxy run` is started with on its node.
    ///
    /// # Errors
    /// When no kubeconfig can be written.
    pub fn agent_args(&self) -> Result<Vec<String>> {
        let kubeconfig = self.cluster.kubeconfig(&User::kube_proxy())?;
        Ok(["--kubeconfig", &kubeconfig.to_string_lossy()]
            .into_iter()
            .chain(["--node-name", NODE, "--cluster-cidr", CLUSTER_CIDR])
            .chain(["--conntrack-max-per-core=0", "--conntrack-min=0"])
            .map(str::to_owned)
            .collect())
    }

    /// Makes the objects of all cases, and waits until both proxies serve them.
    ///
    /// # Errors
    /// When the API server refuses one, or a proxy does not follow.
    pub fn apply(&self, cases: &[Case]) -> Result<()> {
        for case in cases {
            for object in case.objects() {
                self.api.apply(&object).with_context(|| format!("case {}", case.name))?;
            }
        }
        for case in cases.iter().filter(|case| case.made > 0) {
            let made =
                |endpoints: &[serde_json::Value]| count_with(endpoints, "ready") == case.made;
            self.api.wait_for_endpoints(LIMIT, (NAMESPACE, case.name), "to be made", made)?;
        }
        self.settle()
    }

    /// Makes the changes of all cases, and waits until both proxies have followed.
    ///
    /// # Errors
    /// As [`Stage::apply`].
    pub fn change(&self, cases: &[Case]) -> Result<()> {
        for case in cases {
            for change in &case.changes {
                let changed = match change {
                    Change::Apply(object) => self.api.apply(object).map(drop),
                    Change::Patch(path, fields) => self.api.patch(path, fields).map(drop),
                    Change::Delete(path) => self.api.delete(path),
                };
                changed.with_context(|| format!("case {}: {change:?}", case.name))?;
            }
        }
        self.settle()
    }

    /// Gives the node that both proxies are on another zone.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn move_node(&self, zone: &str) -> Result<()> {
        let label = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        self.api.patch(&format!("/api/v1/nodes/{NODE}"), &label).map(drop)
    }

    /// Makes one more Service with its slices, and waits until it answers on both sides: what was
    /// written before it has been read before it, and is in the same transaction or an earlier one.
    ///
    /// # Errors
    /// When a proxy does not follow.
    pub fn settle(&self) -> Result<()> {
        let number = FIRST_SENTINEL + self.sentinels.fetch_add(1, Ordering::Relaxed);
        for object in sentinel(number).objects() {
            self.api.apply(&object)?;
        }
        for side in [&self.kube_proxy, &self.sliceproxy] {
            side.wait_for_service(number)?;
        }
        Ok(())
    }
}
