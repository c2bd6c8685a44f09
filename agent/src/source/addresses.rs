//! The node's addresses on which node ports are served, followed over rtnetlink.
//!
//! An address counts if an interface of this network namespace has it and the configuration wants
//! it. With `primary`, the default, that is the address the Node object names first in each family;
//! while that is not known, no node port is served: serving all would be a guess. A Node object that
//! goes away leaves what it said.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::{Handle, MulticastGroup, new_multicast_connection};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::NodePortAddresses;
use crate::model::Event;

/// Notices are taken together for so long: an interface gets several addresses at once.
const SETTLE: Duration = Duration::from_millis(20);
/// Addresses are listed again after so long even without a notice, since notices can be lost.
const PERIOD: Duration = Duration::from_secs(60);
/// How long the first event waits for the Node object.
const NODE_PATIENCE: Duration = Duration::from_secs(5);
/// Pause before a failed netlink connection is made anew.
const RETRY: Duration = Duration::from_secs(5);

/// Why the node's addresses cannot be followed.
#[derive(Debug, thiserror::Error)]
enum AddressError {
    #[error("cannot open a route netlink socket: {0}")]
    Open(#[from] std::io::Error),
    #[error("cannot list this node's addresses: {0}")]
    List(#[from] rtnetlink::Error),
    #[error("the route netlink socket was closed")]
    Closed,
}

/// Sends [`Event::NodePortAddresses`] whenever they change, until the task is dropped. `node` has
/// the addresses that this node's Node object named last; `None` while nothing is known of it, which
/// the first event waits for, though not forever.
pub async fn follow(
    wanted: NodePortAddresses,
    mut node: watch::Receiver<Option<Vec<IpAddr>>>,
    sink: impl Fn(Event),
) {
    let known = tokio::time::timeout(NODE_PATIENCE, node.wait_for(Option::is_some)).await.is_ok();
    if !known {
        warn!("nothing is known of this node's Node object yet; going on without its addresses");
    }
    let mut sent = None;
    loop {
        let Err(error) = listen(&wanted, &mut node, &mut sent, &sink).await;
        warn!(%error, "node ports may be served on outdated addresses; trying again");
        tokio::time::sleep(RETRY).await;
    }
}

async fn listen(
    wanted: &NodePortAddresses,
    node: &mut watch::Receiver<Option<Vec<IpAddr>>>,
    sent: &mut Option<Vec<IpAddr>>,
    sink: &impl Fn(Event),
) -> Result<std::convert::Infallible, AddressError> {
    let groups = [MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
    let (connection, handle, mut notices) = new_multicast_connection(&groups)?;
    let _connection = Aborted(tokio::spawn(connection));
    loop {
        let local = list(&handle).await?;
        let served: Vec<IpAddr> = {
            let node = node.borrow_and_update();
            let node = node.as_deref().unwrap_or_default();
            local.into_iter().filter(|address| wanted.serves(*address, node)).collect()
        };
        if sent.as_ref() != Some(&served) {
            info!(addresses = ?served, "node ports are served on these addresses");
            sink(Event::NodePortAddresses(served.clone()));
            *sent = Some(served);
        }
        tokio::select! {
            notice = notices.next() => {
                notice.ok_or(AddressError::Closed)?;
                tokio::time::sleep(SETTLE).await;
                while let Some(Some(_)) = futures::FutureExt::now_or_never(notices.next()) {}
            }
            // A closed channel means that the process is ending.
            changed = node.changed() => changed.map_err(|_| AddressError::Closed)?,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// All addresses of this network namespace.
pub(crate) async fn list(handle: &Handle) -> Result<BTreeSet<IpAddr>, rtnetlink::Error> {
    let messages = handle.address().get().execute();
    messages.try_filter_map(async |message| Ok(address(&message))).try_collect().await
}

fn address(message: &AddressMessage) -> Option<IpAddr> {
    // On a point-to-point interface `Address` is the other end's, `Local` this one's.
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

/// Ends the task when dropped.
struct Aborted<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
