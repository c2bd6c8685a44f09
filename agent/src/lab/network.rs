//! A node with pods and clients around it, as network namespaces.
//!
//! ```text
//!   machine "client" ──veth──┐            ┌──veth── machine "node-b1": pods web-2, api-1
//!                            ├── node ────┤
//!   machine "web-0"  ──veth──┘            └──veth── machine "node-c1": pods web-4, cart-1
//! ```
//!
//! Everything is routed through the node's namespace; nothing is switched. A pod that shall call
//! Services, or be reached by its neighbours through them, needs a machine of its own: packets
//! between addresses of one machine never pass the node, and neither do the answers to them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::links::{LOOPBACK, LinkIndex, Links, with_netlink};
use super::probe::Vantage;
use super::servers::{Port, Servers};
use super::{LabError, Netns};

/// The node's end of every link, in IPv6: what the machines use as their gateway.
const GATEWAY: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
/// A machine's end of its link, in IPv6.
const NEIGHBOUR: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));

/// For every namespace: addresses usable at once, no router discovery, no source validation that
/// would hide a wrong translation.
const COMMON_SYSCTLS: [(&str, &str); 9] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    // Link-local addresses are ours to choose.
    ("ipv6/conf/default/addr_gen_mode", "1"),
];

/// For the node's namespace.
const NODE_SYSCTLS: [(&str, &str); 5] = [
    ("ipv4/ip_forward", "1"),
    // What comes from outside and is for nobody would go back outside. Telling the sender so uses up
    // the ICMP budget that the node has for it, and with it the refusals.
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/forwarding", "1"),
];

/// A pod, by its addresses: one per family at most is usual, more are fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// What it answers with; without blanks.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Ports that it answers on, at every address.
    pub ports: Vec<Port>,
}

/// The node's own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAddresses {
    /// IPv4.
    pub v4: Ipv4Addr,
    /// IPv6.
    pub v6: Ipv6Addr,
}

impl NodeAddresses {
    fn of_family(self, like: IpAddr) -> IpAddr {
        if like.is_ipv4() { self.v4.into() } else { self.v6.into() }
    }
}

/// A namespace behind the node that holds pods, or a client.
#[derive(Debug)]
pub struct Machine {
    name: String,
    addresses: Vec<IpAddr>,
    // Before the namespace: its thread ends first.
    _servers: Servers,
    netns: Netns,
}

impl Machine {
    /// The name that it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// All its addresses, in the order in which they were given.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Connections from here, sent from its first address of the target's family.
    pub fn vantage(&self) -> Vantage<'_> {
        Vantage::new(&self.netns)
    }
}

/// A node's namespace and the machines around it.
#[derive(Debug)]
pub struct Lab {
    machines: Vec<Machine>,
    node: Netns,
    addresses: NodeAddresses,
}

impl Lab {
    /// A node that forwards, with nobody around it yet.
    pub fn new(addresses: NodeAddresses) -> Result<Self, LabError> {
        let node = Netns::new()?;
        node.set_sysctls(&COMMON_SYSCTLS)?;
        node.set_sysctls(&NODE_SYSCTLS)?;
        with_netlink(&node, async |links: &Links| {
            links.set_up(LOOPBACK).await?;
            links.add_address(LOOPBACK, addresses.v4.into()).await?;
            links.add_address(LOOPBACK, addresses.v6.into()).await?;
            links.wait_until_usable(LOOPBACK).await
        })?;
        Ok(Self { machines: Vec::new(), node, addresses })
    }

    /// The node's namespace: where the proxy runs.
    pub fn node(&self) -> &Netns {
        &self.node
    }

    /// The node's own addresses.
    pub fn node_addresses(&self) -> NodeAddresses {
        self.addresses
    }

    /// Connections from the node itself.
    pub fn node_vantage(&self) -> Vantage<'_> {
        Vantage::new(&self.node)
    }

    /// Gives the node one more address, of its own alone.
    pub fn add_node_address(&self, address: IpAddr) -> Result<(), LabError> {
        with_netlink(&self.node, async |links: &Links| {
            links.add_address(LOOPBACK, address).await?;
            links.wait_until_usable(LOOPBACK).await
        })
    }

    /// All machines, in the order in which they were added.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The machine with that name.
    ///
    /// # Errors
    /// When there is none: a mistake of the caller's.
    pub fn machine(&self, name: &str) -> Result<&Machine, LabError> {
        self.machines
            .iter()
            .find(|machine| machine.name == name)
            .ok_or_else(|| LabError::Plan(format!("the lab has no machine {name}")))
    }

    /// Adds a machine with these pods, which answer when this returns.
    pub fn add_machine(&mut self, name: &str, pods: &[Pod]) -> Result<&Machine, LabError> {
        let addresses: Vec<_> = pods.iter().flat_map(|pod| pod.addresses.clone()).collect();
        let (machine, _) = self.attach(name, &addresses, pods)?;
        self.machines.push(machine);
        self.machine(name)
    }

    /// Adds a machine for every pod, named like it.
    pub fn add_pods(&mut self, pods: &[Pod]) -> Result<(), LabError> {
        pods.iter().try_for_each(|pod| {
            self.add_machine(&pod.name, std::slice::from_ref(pod)).map(|_machine| ())
        })
    }

    /// Adds a client outside the cluster. It is also where the node sends what it knows no route
    /// for, and it discards that: as the way to the Internet does with addresses of nobody's.
    pub fn add_outside(&mut self, name: &str, addresses: &[IpAddr]) -> Result<&Machine, LabError> {
        let (machine, link) = self.attach(name, addresses, &[])?;
        self.machines.push(machine);
        let node = self.addresses;
        with_netlink(&self.node, async |links: &Links| {
            if let Some(&v4) = addresses.iter().find(|a| a.is_ipv4()) {
                links.add_default_route(v4, link, Some(node.v4.into())).await?;
            }
            links.add_default_route(NEIGHBOUR, link, Some(node.v6.into())).await
        })?;
        self.machine(name)
    }

    fn attach(
        &self,
        name: &str,
        addresses: &[IpAddr],
        pods: &[Pod],
    ) -> Result<(Machine, LinkIndex), LabError> {
        if self.machines.iter().any(|machine| machine.name == name) {
            return Err(LabError::Plan(format!("the lab has two machines {name}")));
        }
        let netns = Netns::new()?;
        netns.set_sysctls(&COMMON_SYSCTLS)?;
        let node = self.addresses;
        let link_name = format!("veth{}", self.machines.len());
        let link = with_netlink(&self.node, async |links: &Links| {
            let link = links.add_veth(&link_name, "eth0", &netns).await?;
            links.set_up(link).await?;
            links.add_address(link, GATEWAY).await?;
            Ok(link)
        })?;
        with_netlink(&netns, async |links: &Links| {
            configure_machine(links, addresses, node).await
        })?;
        with_netlink(&self.node, async |links: &Links| {
            // Only then can routes name addresses as their source.
            links.wait_until_usable(link).await?;
            for &address in addresses {
                links.add_host_route(address, link, Some(node.of_family(address))).await?;
            }
            Ok(())
        })?;
        let servers = Servers::start(&netns, name, pods)?;
        let machine =
            Machine { name: name.into(), addresses: addresses.into(), _servers: servers, netns };
        Ok((machine, link))
    }
}

async fn configure_machine(
    links: &Links,
    addresses: &[IpAddr],
    node: NodeAddresses,
) -> Result<(), LabError> {
    links.set_up(LOOPBACK).await?;
    let link = links.index_of("eth0").await?;
    links.set_up(link).await?;
    links.add_address(link, NEIGHBOUR).await?;
    for &address in addresses {
        links.add_address(link, address).await?;
    }
    links.wait_until_usable(link).await?;
    let first = |v4: bool| addresses.iter().copied().find(|a| a.is_ipv4() == v4);
    if let Some(source) = first(true) {
        links.add_default_route(node.v4.into(), link, Some(source)).await?;
    }
    if let Some(source) = first(false) {
        links.add_default_route(GATEWAY, link, Some(source)).await?;
    }
    Ok(())
}
