//! The example shop as namespaces around one of its nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Context;
use sliceproxy::lab::probe::Vantage;
use sliceproxy::lab::{Lab, Machine, NodeAddresses, Pod, Port};

use crate::shop::{Shop, ShopPod};

/// Pods that only call: addresses of the node's pod network that no slice mentions.
const CALLERS: u8 = 40;

/// All pods of the shop around one node, with callers of every kind.
#[derive(Debug)]
pub struct ShopLab {
    /// The namespaces.
    pub lab: Lab,
    /// The node's name.
    pub node: String,
    callers: Vec<IpAddr>,
}

impl ShopLab {
    /// Builds it around `node`. Pods of that node have namespaces of their own, the others share
    /// one for each of their nodes.
    ///
    /// # Errors
    /// When the node does not exist, or namespaces cannot be made.
    pub fn new(shop: &Shop, node: &str) -> anyhow::Result<Self> {
        let mut lab = Lab::new(node_addresses(shop, node)?)?;
        let outside: [IpAddr; 2] = ["203.0.113.9".parse()?, "2001:db8::9".parse()?];
        lab.add_outside("client", &outside)?;
        let mut elsewhere: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in shop.pods() {
            let home = pod.node.clone().unwrap_or_else(|| "another-network".to_owned());
            let pod = lab_pod(pod);
            if home == node {
                lab.add_pods(&[pod])?;
            } else {
                elsewhere.entry(home).or_default().push(pod);
            }
        }
        for (home, pods) in &elsewhere {
            lab.add_machine(home, pods)?;
        }
        let callers: Vec<_> = (0..CALLERS)
            .flat_map(|n| {
                [
                    IpAddr::from([10, 244, 200, n]),
                    IpAddr::from([0xfd00, 0x244, 0x200, 0, 0, 0, 0, u16::from(n)]),
                ]
            })
            .collect();
        let caller = Pod { name: "callers".into(), addresses: callers.clone(), ports: vec![] };
        lab.add_pods(&[caller])?;
        Ok(Self { lab, node: node.to_owned(), callers })
    }

    /// A pod on the node that is no endpoint of anything.
    ///
    /// # Errors
    /// Never, in a lab that was built by [`ShopLab::new`].
    pub fn caller(&self) -> anyhow::Result<&Machine> {
        Ok(self.lab.machine("callers")?)
    }

    /// Forty such pods, of the family of `like`.
    ///
    /// # Errors
    /// As [`ShopLab::caller`].
    pub fn callers(&self, like: IpAddr) -> anyhow::Result<Vec<Vantage<'_>>> {
        let machine = self.caller()?;
        let addresses = self.callers.iter().filter(|a| a.is_ipv4() == like.is_ipv4());
        Ok(addresses.map(|&address| machine.vantage().from(address)).collect())
    }

    /// A client outside the cluster.
    ///
    /// # Errors
    /// As [`ShopLab::caller`].
    pub fn outside(&self) -> anyhow::Result<&Machine> {
        Ok(self.lab.machine("client")?)
    }

    /// The arguments of an agent on this node that follows `manifests`.
    pub fn agent_args(&self, manifests: &std::path::Path) -> Vec<String> {
        [
            "--manifests",
            &manifests.to_string_lossy(),
            "--node-name",
            &self.node,
            "--cluster-cidr",
            "10.244.0.0/16,fd00:244::/32",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

fn node_addresses(shop: &Shop, node: &str) -> anyhow::Result<NodeAddresses> {
    let (mut v4, mut v6) = (None, None);
    for address in shop.node_addresses(node) {
        match address {
            IpAddr::V4(address) => v4 = Some(address),
            IpAddr::V6(address) => v6 = Some(address),
        }
    }
    Ok(NodeAddresses {
        v4: v4.with_context(|| format!("{node} has no IPv4 address"))?,
        v6: v6.with_context(|| format!("{node} has no IPv6 address"))?,
    })
}

fn lab_pod(pod: ShopPod) -> Pod {
    Pod {
        name: pod.name,
        addresses: pod.addresses.into_iter().collect(),
        ports: pod.ports.into_iter().map(|(protocol, number)| Port { protocol, number }).collect(),
    }
}
