//! The API server, the two networks and the two proxies.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use sliceproxy::lab::probe::Vantage;
use sliceproxy::lab::{self, Lab, NodeAddresses, Port};
use sliceproxy_dataplane::conntrack::{Conntrack as _, Scope};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_dataplane::netlink::NetlinkConntrack;

use super::case::{Case, Change};
use super::plan::{
    self, HOST, NAMESPACE, NODE, NODES, OTHER_POD_PORT, POD_PORT, PODS, SERVICE_PORT,
    THIRD_POD_PORT, node_address, pod_address,
};
use super::probe::{From, Outcome};
use super::relay;
use super::slice::Endpoint;
use crate::cluster::{
    Api, Cluster, KubeProxy, KubeProxyOptions, Node, Options, Pod, User, count_with,
};
use crate::nft::Nft;
use crate::wait_for;

/// Clients in a pod and outside, each with an address of its own in each family.
pub(super) const CLIENTS: u8 = 32;
/// Number of the first Service that is only waited for; higher than the scenarios'.
const FIRST_SENTINEL: u8 = 240;
/// Name of the pod that answers at addresses that nobody translated.
pub(super) const UNTOUCHED: &str = "untouched";
/// Which traffic is the pods'.
pub(super) const CLUSTER_CIDR: &str = "10.244.0.0/16,fd00:244::/32";
/// How long the proxies may take to follow.
const LIMIT: Duration = Duration::from_secs(60);

/// A network with a node that a proxy is on.
#[derive(Debug)]
pub struct Side {
    /// `kube-proxy` or `sliceproxy`.
    pub name: &'static str,
    /// The namespaces.
    pub lab: Lab,
}

impl Side {
    fn new(name: &'static str, untouched: &[IpAddr]) -> Result<Self> {
        let (IpAddr::V4(v4), IpAddr::V6(v6)) = (node_address(Family::V4), node_address(Family::V6))
        else {
            unreachable!("an address of each family");
        };
        let mut lab = Lab::new(NodeAddresses { v4, v6 })?;
        // How many ICMP errors a node may send is not what is compared.
        lab.node().set_sysctls(&[("ipv4/icmp_ratelimit", "0"), ("ipv6/icmp/ratelimit", "0")])?;
        // Older kernels have these for the whole machine only.
        for name in ["ipv4/icmp_msgs_per_sec", "ipv4/icmp_msgs_burst"] {
            let _ = lab.node().set_sysctl(name, "100000");
        }
        lab.add_outside("client", &clients(From::Outside))?;
        lab.add_pods(&[pod("caller", clients(From::Pod), &[])])?;
        for (name, _, node, place) in PODS {
            let addresses = Family::ALL.map(|family| pod_address(node, place, family));
            lab.add_pods(&[pod(
                name,
                addresses.to_vec(),
                &[POD_PORT, OTHER_POD_PORT, THIRD_POD_PORT],
            )])?;
        }
        lab.add_pods(&[pod(UNTOUCHED, untouched.to_vec(), &[SERVICE_PORT, 99])])?;
        relay::greet(lab.node(), HOST, POD_PORT)?;
        Ok(Self { name, lab })
    }

    /// Connections from there, by the first address.
    pub(super) fn vantage(&self, from: From) -> Result<Vantage<'_>> {
        let machine = match from {
            From::Node => return Ok(self.lab.node_vantage()),
            From::Pod => "caller",
            From::Outside => "client",
            From::Endpoint(name) => name,
        };
        Ok(self.lab.machine(machine)?.vantage())
    }

    /// The address by which [`Side::vantage`] sends.
    pub(super) fn address(&self, from: From, family: Family) -> Result<IpAddr> {
        let machine = match from {
            From::Node => return Ok(node_address(family)),
            From::Pod => "caller",
            From::Outside => "client",
            From::Endpoint(name) => name,
        };
        let addresses = self.lab.machine(machine)?.addresses();
        let of_family = addresses.iter().find(|address| Family::of(**address) == family);
        of_family.copied().with_context(|| format!("{machine} has no {family:?} address"))
    }
}

/// The addresses of the clients in a pod or outside.
pub(super) fn clients(from: From) -> Vec<IpAddr> {
    let address = |family, n: u8| match (from, family) {
        (From::Outside, Family::V4) => IpAddr::from([203, 0, 113, 9 + n]),
        (From::Outside, Family::V6) => {
            IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 9 + u16::from(n)])
        }
        (_, family) => pod_address(1, 100 + n, family),
    };
    Family::ALL.iter().flat_map(|&family| (0..CLIENTS).map(move |n| address(family, n))).collect()
}

fn pod(name: &str, addresses: Vec<IpAddr>, numbers: &[u16]) -> lab::Pod {
    let ports = numbers.iter().flat_map(|number| [Port::tcp(*number), Port::udp(*number)]);
    lab::Pod { name: name.to_owned(), addresses, ports: ports.collect() }
}

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
        let untouched: Vec<_> = untouched(cases).into_iter().collect();
        let kube_proxy = Side::new("kube-proxy", &untouched)?;
        let sliceproxy = Side::new("sliceproxy", &untouched)?;
        let server: SocketAddr = cluster.server().trim_start_matches("https://").parse()?;
        for side in [&kube_proxy, &sliceproxy] {
            relay::offer(side.lab.node(), Arc::clone(&control), server)?;
        }
        let api = cluster.api()?;
        api.add_namespace(NAMESPACE)?;
        for (name, zone) in NODES {
            let (mut addresses, mut pod_cidrs) = (vec![], vec![]);
            if name == NODE {
                addresses.extend(Family::ALL.map(node_address));
                pod_cidrs.extend(["10.244.1.0/24", "fd00:244:1::/64"].map(str::to_owned));
            }
            api.add_node(&Node {
                name: name.to_owned(),
                zone: zone.to_owned(),
                region: "region-1".to_owned(),
                pod_cidrs,
                addresses,
            })?;
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

    /// Deletes the UDP flows that kube-proxy's node remembers: kube-proxy leaves those of Services
    /// and frontends that are gone, and a later client with the same port would be taken for one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn forget_flows_of_kube_proxy(&self) -> Result<()> {
        self.kube_proxy.lab.node().run(|| {
            let mut conntrack = NetlinkConntrack::open()?;
            for family in Family::ALL {
                let scope = Scope { family, address: None, port: None };
                conntrack.sweep(&scope, &mut |_| true)?;
            }
            Ok(())
        })?
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
                    Change::Patch(path, patch) => self.api.patch(path, patch).map(drop),
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
        let name = format!("sentinel-{number}").leak();
        let sentinel = Case::new(name).numbered(number).endpoints([Endpoint::new("near-1")]);
        for object in sentinel.objects() {
            self.api.apply(&object)?;
        }
        for side in [&self.kube_proxy, &self.sliceproxy] {
            for family in Family::ALL {
                let target = Frontend {
                    address: plan::cluster_ip(number, family),
                    protocol: Protocol::Tcp,
                    port: SERVICE_PORT,
                };
                let vantage = side.vantage(From::Pod)?.patience(Duration::from_millis(300));
                wait_for(&format!("{} to serve {target}", side.name), LIMIT, || {
                    vantage.connect(target).ok().filter(|outcome| outcome.pod().is_some())
                })?;
            }
        }
        Ok(())
    }
}

/// Addresses from which silence or an answer must not come by itself: there, somebody answers whom
/// only a translation or a filter keeps away.
fn untouched(cases: &[Case]) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::new();
    for case in cases {
        for probe in case.all_probes() {
            let outcomes =
                [Some(&probe.expected), probe.difference.as_ref().map(|d| &d.kube_proxy)];
            let reaches = |outcome: &Outcome| match outcome {
                Outcome::Dropped => true,
                Outcome::Answered(pods, _) => pods.contains(UNTOUCHED),
                _ => false,
            };
            if outcomes.into_iter().flatten().any(reaches) {
                addresses.extend(case.targets(probe).iter().flatten().map(|target| target.address));
            }
        }
    }
    let node = |address: &IpAddr| Family::ALL.map(node_address).contains(address);
    addresses.retain(|address| !address.is_loopback() && !node(address));
    addresses
}
