//! One network: a node with a proxy, pods, and clients outside.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sliceproxy::lab::probe::Vantage;
use sliceproxy::lab::{self, Lab, NodeAddresses, Port};
use sliceproxy_dataplane::conntrack::{Conntrack as _, Scope};
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_dataplane::netlink::NetlinkConntrack;

use super::case::Case;
use super::plan::{
    HOST, NODE, NODES, OTHER_POD_PORT, POD_PORT, PODS, SERVICE_PORT, THIRD_POD_PORT, cluster_ip,
    node_address, pod_address,
};
use super::probe::{From, Outcome};
use super::relay;
use super::slice::Endpoint;
use crate::cluster::Node;
use crate::wait_for;

/// Clients in a pod and outside, each with an address of its own in each family.
pub(super) const CLIENTS: u8 = 32;
/// Number of the first Service that is only waited for; higher than the scenarios'.
pub(super) const FIRST_SENTINEL: u8 = 240;
/// Name of the pod that answers at addresses that nobody translated.
pub(super) const UNTOUCHED: &str = "untouched";
/// Which traffic is the pods'.
pub const CLUSTER_CIDR: &str = "10.244.0.0/16,fd00:244::/32";
/// How long a proxy may take to follow.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// A network with a node that a proxy is on.
#[derive(Debug)]
pub struct Side {
    /// `kube-proxy` or `sliceproxy`.
    pub name: &'static str,
    /// The namespaces.
    pub lab: Lab,
}

impl Side {
    /// Deletes the UDP flows that the node remembers. A flow keeps its endpoint while that serves,
    /// whatever is changed, and a later client with the same port would be taken for it.
    pub(super) fn forget_flows(&self) -> Result<()> {
        self.lab.node().run(|| {
            let mut conntrack = NetlinkConntrack::open()?;
            for family in Family::ALL {
                let scope = Scope { family, address: None, port: None };
                conntrack.sweep(&scope, &mut |_| true)?;
            }
            Ok(())
        })?
    }

    /// A network for these scenarios.
    pub(super) fn new(name: &'static str, cases: &[Case]) -> Result<Self> {
        let untouched: Vec<_> = untouched(cases).into_iter().collect();
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
        lab.add_pods(&[pod(UNTOUCHED, untouched, &[SERVICE_PORT, 99])])?;
        relay::greet(lab.node(), HOST, POD_PORT)?;
        Ok(Self { name, lab })
    }

    /// Waits until the Service with that number answers.
    pub(super) fn wait_for_service(&self, number: u8) -> Result<()> {
        for family in Family::ALL {
            let target = Frontend {
                address: cluster_ip(number, family),
                protocol: Protocol::Tcp,
                port: SERVICE_PORT,
            };
            let vantage = self.vantage(From::Pod)?.patience(Duration::from_millis(300));
            wait_for(&format!("{} to serve {target}", self.name), LIMIT, || {
                vantage.connect(target).ok().filter(|outcome| outcome.pod().is_some())
            })?;
        }
        Ok(())
    }

    /// Connections from there, by the first address.
    ///
    /// # Errors
    /// When there is no such endpoint.
    pub fn vantage(&self, from: From) -> Result<Vantage<'_>> {
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

/// The addresses of the clients in a pod or outside, of both families.
pub fn clients(from: From) -> Vec<IpAddr> {
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

/// The nodes, for the API.
pub(super) fn nodes() -> Vec<Node> {
    let node = |(name, zone): (&str, &str)| {
        let (mut addresses, mut pod_cidrs) = (vec![], vec![]);
        if name == NODE {
            addresses.extend(Family::ALL.map(node_address));
            pod_cidrs.extend(["10.244.1.0/24", "fd00:244:1::/64"].map(str::to_owned));
        }
        let (name, zone, region) = (name.to_owned(), zone.to_owned(), "region-1".to_owned());
        Node { name, zone, region, pod_cidrs, addresses }
    };
    NODES.into_iter().map(node).collect()
}

/// A Service that is only waited for: when it answers, what was written before it has been read.
pub(super) fn sentinel(number: u8) -> Case {
    let name = format!("sentinel-{number}").leak();
    Case::new(name).numbered(number).endpoints([Endpoint::new("near-1")])
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
