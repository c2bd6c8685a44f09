//! What the kernel of this network namespace has besides our tables: addresses, interfaces, the way
//! to a client, and chains of others. For `explain`, which would have to guess otherwise.

use std::net::IpAddr;

use futures::TryStreamExt;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{RouteAttribute, RouteType};
use rtnetlink::{Handle, RouteMessageBuilder, new_connection};
use sliceproxy_dataplane::kernel::KernelError;
use sliceproxy_dataplane::netlink::{OtherChain, other_chains};
use sliceproxy_dataplane::program::PodTraffic;

use crate::source::addresses;

/// Why nothing is known of the machine.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The socket cannot be opened.
    #[error("cannot open a route netlink socket: {0}")]
    Open(#[from] std::io::Error),
    /// The kernel says no.
    #[error("cannot list addresses or interfaces: {0}")]
    List(#[from] rtnetlink::Error),
    /// The same of nftables.
    #[error("cannot list the chains of others: {0}")]
    Chains(#[from] KernelError),
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// All addresses of its interfaces.
    pub addresses: Vec<IpAddr>,
    /// The names of its interfaces.
    pub interfaces: Vec<String>,
    /// The client that was asked about, and the interface that its packets come from: the one that
    /// leads to it. Nothing if it is local, or not to be reached.
    pub way: Option<(IpAddr, String)>,
    /// Chains of others that may do something to a packet.
    pub chains: Vec<OtherChain>,
}

impl Host {
    /// Looks at the network namespace of this process.
    ///
    /// # Errors
    /// See [`HostError`].
    pub async fn look(client: Option<IpAddr>) -> Result<Self, HostError> {
        let chains = tokio::task::spawn_blocking(|| other_chains(OtherChain::may_interfere));
        let routing = with_routing(async |handle| {
            let mut host = Self {
                addresses: addresses::list(&handle).await?.into_iter().collect(),
                ..Self::default()
            };
            let links = links(&handle).await?;
            if let Some(client) = client {
                match way(&handle, client).await {
                    Some(Way::Local) => host.addresses.push(client),
                    Some(Way::Over(index)) => {
                        let link = links.iter().find(|(link, _)| *link == index);
                        host.way = link.map(|(_, name)| (client, name.clone()));
                    }
                    None => {}
                }
            }
            host.interfaces = links.into_iter().map(|(_, name)| name).collect();
            Ok(host)
        });
        let host = routing.await?;
        // It fails only if it panics, and then the process ends.
        let chains = chains.await.unwrap_or(Ok(Vec::new()))?;
        Ok(Self { chains, ..host })
    }

    /// An interface by which pods are recognised.
    pub fn pod_interface(&self, pods: &PodTraffic) -> Option<&str> {
        self.interfaces.iter().map(String::as_str).find(|name| is_of_pods(pods, name))
    }
}

/// Whether what comes over the interface is recognised as of pods.
pub fn is_of_pods(pods: &PodTraffic, interface: &str) -> bool {
    match pods {
        PodTraffic::Interface(name) => name == interface,
        PodTraffic::InterfacePrefix(prefix) => interface.starts_with(prefix),
        PodTraffic::Unknown | PodTraffic::From(_) => false,
    }
}

/// The names of all interfaces.
///
/// # Errors
/// See [`HostError`].
pub async fn interfaces() -> Result<Vec<String>, HostError> {
    let links = with_routing(async |handle| links(&handle).await).await?;
    Ok(links.into_iter().map(|(_, name)| name).collect())
}

async fn with_routing<T>(
    work: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error>,
) -> Result<T, HostError> {
    let (connection, handle, _) = new_connection()?;
    let connection = tokio::spawn(connection);
    let result = work(handle).await;
    connection.abort();
    Ok(result?)
}

async fn links(handle: &Handle) -> Result<Vec<(u32, String)>, rtnetlink::Error> {
    let messages = handle.link().get().execute();
    let named = messages.try_filter_map(async |message| {
        let index = message.header.index;
        let name = message.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
        Ok(name.map(|name| (index, name)))
    });
    named.try_collect().await
}

enum Way {
    Local,
    Over(u32),
}

/// Where packets to `address` go; `None` if nowhere.
async fn way(handle: &Handle, address: IpAddr) -> Option<Way> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let request = RouteMessageBuilder::<IpAddr>::new().destination_prefix(address, bits).ok()?;
    let mut answers = Box::pin(handle.route().get(request.build()).execute());
    let route = answers.try_next().await.ok()??;
    if route.header.kind == RouteType::Local {
        return Some(Way::Local);
    }
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(Way::Over(*index)),
        _ => None,
    })
}
