//! Links, addresses and routes inside a namespace, over rtnetlink.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures::TryStreamExt;
use ipnetwork::Ipv4Network;
use rtnetlink::packet_route::address::AddressHeaderFlags;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, State};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope, RouteType};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use super::{LabError, Netns};

/// Interface number inside a namespace.
pub(super) type LinkIndex = u32;

/// The loopback interface of every namespace.
pub(super) const LOOPBACK: LinkIndex = 1;

/// The kernel's number of the routing table of addresses that are its own.
const LOCAL_TABLE: u32 = 255;

/// How often, and how many times, a link is looked at: 10 seconds in all.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
const CHECKS: u32 = 10_000;

/// Runs `work` inside `netns` with a netlink connection to it.
pub(super) fn with_netlink<T: Send>(
    netns: &Netns,
    work: impl AsyncFnOnce(&Links) -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    netns.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(LabError::system("cannot start a runtime"))?;
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection()
                .map_err(LabError::system("cannot open a netlink socket"))?;
            let connection = tokio::spawn(connection);
            let result = work(&Links { handle }).await;
            connection.abort();
            result
        })
    })?
}

/// A netlink connection of one namespace.
#[derive(Debug)]
pub(super) struct Links {
    handle: Handle,
}

impl Links {
    /// Makes a veth pair: one end here, the other in `peer_namespace`. Both are down.
    pub(super) async fn add_veth(
        &self,
        name: &str,
        peer_name: &str,
        peer_namespace: &Netns,
    ) -> Result<LinkIndex, LabError> {
        let peer =
            LinkUnspec::new_with_name(peer_name).setns_by_fd(peer_namespace.raw_fd()).build();
        let pair = LinkMessageBuilder::<LinkVeth>::new(name, peer_name)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .build();
        self.handle
            .link()
            .add(pair)
            .execute()
            .await
            .map_err(LabError::netlink(format!("cannot make the veth pair {name}")))?;
        self.index_of(name).await
    }

    /// The index of the link with that name.
    pub(super) async fn index_of(&self, name: &str) -> Result<LinkIndex, LabError> {
        let mut found = Box::pin(self.handle.link().get().match_name(name).execute());
        let link = found
            .try_next()
            .await
            .map_err(LabError::netlink(format!("cannot find the link {name}")))?;
        link.map(|link| link.header.index)
            .ok_or_else(|| LabError::Plan(format!("the link {name} does not exist")))
    }

    /// Sets a link up.
    pub(super) async fn set_up(&self, link: LinkIndex) -> Result<(), LabError> {
        self.handle
            .link()
            .change(LinkUnspec::new_with_index(link).up().build())
            .execute()
            .await
            .map_err(LabError::netlink(format!("cannot set link {link} up")))
    }

    /// Waits until a link whose two ends are up carries packets, and its IPv6 addresses answer
    /// their neighbours. Both happen some time after the kernel has said yes, on a busy machine a
    /// good while; what is sent before is lost silently and repeated after a second.
    pub(super) async fn wait_until_usable(&self, link: LinkIndex) -> Result<(), LabError> {
        for _ in 0..CHECKS {
            // The loopback interface has no carrier to wait for.
            let carrying = link == LOOPBACK || self.is_carrying(link).await?;
            if carrying && !self.has_tentative_address(link).await? {
                return Ok(());
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Err(LabError::Plan(format!("link {link} was set up but does not come up")))
    }

    async fn is_carrying(&self, link: LinkIndex) -> Result<bool, LabError> {
        let mut found = Box::pin(self.handle.link().get().match_index(link).execute());
        let message = found
            .try_next()
            .await
            .map_err(LabError::netlink(format!("cannot read the state of link {link}")))?;
        let attributes = message.map(|message| message.attributes).unwrap_or_default();
        Ok(attributes.contains(&LinkAttribute::OperState(State::Up)))
    }

    async fn has_tentative_address(&self, link: LinkIndex) -> Result<bool, LabError> {
        let listed = self.handle.address().get().set_link_index_filter(link).execute();
        let mut tentative = Box::pin(listed.try_filter(|message| {
            std::future::ready(message.header.flags.contains(AddressHeaderFlags::Tentative))
        }));
        let first = tentative
            .try_next()
            .await
            .map_err(LabError::netlink(format!("cannot list the addresses of link {link}")))?;
        Ok(first.is_some())
    }

    /// Gives a link an address that is its own alone (/32 or /128).
    pub(super) async fn add_address(
        &self,
        link: LinkIndex,
        address: IpAddr,
    ) -> Result<(), LabError> {
        // Not marked as free from duplicate detection, although the sysctls switch that off: such
        // an address would not say when it is ready to answer its neighbours.
        self.handle
            .address()
            .add(link, address, full_length(address))
            .execute()
            .await
            .map_err(LabError::netlink(format!("cannot add the address {address}")))
    }

    /// Routes one address to a link; packets of this namespace's own use `source`.
    pub(super) async fn add_host_route(
        &self,
        destination: IpAddr,
        link: LinkIndex,
        source: Option<IpAddr>,
    ) -> Result<(), LabError> {
        let mut route = match destination {
            IpAddr::V4(v4) => RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(v4, 32)
                .output_interface(link)
                .build(),
            IpAddr::V6(v6) => RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(v6, 128)
                .output_interface(link)
                .build(),
        };
        prefer_source(&mut route, source);
        self.add_route(route, format!("cannot add a route to {destination}")).await
    }

    /// Sends a network to `gateway` behind `link`: one neighbour, however many addresses.
    pub(super) async fn add_network_route(
        &self,
        network: Ipv4Network,
        gateway: Ipv4Addr,
        link: LinkIndex,
    ) -> Result<(), LabError> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(network.network(), network.prefix())
            .gateway(gateway)
            .output_interface(link)
            .onlink()
            .build();
        self.add_route(route, format!("cannot add a route to {network}")).await
    }

    /// Makes every address of a network this namespace's own.
    pub(super) async fn add_local_network(&self, network: Ipv4Network) -> Result<(), LabError> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(network.network(), network.prefix())
            .output_interface(LOOPBACK)
            .table_id(LOCAL_TABLE)
            .scope(RouteScope::Host)
            .kind(RouteType::Local)
            .build();
        self.add_route(route, format!("cannot make {network} local")).await
    }

    async fn add_route(&self, route: RouteMessage, failure: String) -> Result<(), LabError> {
        self.handle.route().add(route).execute().await.map_err(LabError::netlink(failure))
    }

    /// Sends everything else of the gateway's family to `gateway` behind `link`.
    pub(super) async fn add_default_route(
        &self,
        gateway: IpAddr,
        link: LinkIndex,
        source: Option<IpAddr>,
    ) -> Result<(), LabError> {
        let mut route = match gateway {
            IpAddr::V4(v4) => RouteMessageBuilder::<Ipv4Addr>::new()
                .gateway(v4)
                .output_interface(link)
                .onlink()
                .build(),
            IpAddr::V6(v6) => RouteMessageBuilder::<Ipv6Addr>::new()
                .gateway(v6)
                .output_interface(link)
                .onlink()
                .build(),
        };
        prefer_source(&mut route, source);
        self.add_route(route, format!("cannot add a default route to {gateway}")).await
    }
}

fn prefer_source(route: &mut RouteMessage, source: Option<IpAddr>) {
    use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute};
    let address = match source {
        Some(IpAddr::V4(v4)) => RouteAddress::Inet(v4),
        Some(IpAddr::V6(v6)) => RouteAddress::Inet6(v6),
        None => return,
    };
    route.attributes.push(RouteAttribute::PrefSource(address));
}

fn full_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
