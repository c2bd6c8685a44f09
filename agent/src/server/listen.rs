//! Listening: an address that cannot be bound now may be free, or exist, in a few seconds.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket};

use super::connections;

/// Pause between two tries, as kube-proxy's.
pub const RETRY: Duration = Duration::from_secs(5);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {server}: {source}")]
pub struct BindFailure {
    /// What is served there.
    pub server: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// Whether an IPv6 socket also takes IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// `[::]` takes both families, as Go's `tcp`.
    Dual,
    /// Each family for itself, as Go's `tcp4` and `tcp6`.
    Single,
}

/// A listening socket. Must be called inside a runtime.
///
/// # Errors
/// The system's.
pub fn bind(address: SocketAddr, stack: Stack) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &(stack == Stack::Single))?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `router` for ever. An address that cannot be bound is tried again every [`RETRY`], unless
/// `hard_fail`.
///
/// # Errors
/// [`BindFailure`], with `hard_fail` only. To be dropped otherwise: it does not return.
pub async fn serve(
    server: &'static str,
    address: SocketAddr,
    router: Router,
    hard_fail: bool,
) -> BindFailure {
    loop {
        let error = match bind(address, Stack::Dual) {
            Ok(listener) => {
                tracing::info!(server, %address, "listening");
                match connections::serve(listener, router.clone()).await {}
            }
            Err(error) => error,
        };
        let failure = BindFailure { server, address, source: error };
        if hard_fail {
            return failure;
        }
        tracing::error!("{failure}; trying again in {} s", RETRY.as_secs());
        tokio::time::sleep(RETRY).await;
    }
}

/// Serves `routers` where they are wanted, for ever.
///
/// # Errors
/// See [`serve`].
pub async fn serve_wanted(
    wanted: impl IntoIterator<Item = (&'static str, Option<SocketAddr>, Router)>,
    hard_fail: bool,
) -> BindFailure {
    let servers = wanted.into_iter().filter_map(|(server, address, router)| {
        address.map(|address| serve(server, address, router, hard_fail).boxed())
    });
    let servers: Vec<_> = servers.collect();
    if servers.is_empty() {
        return std::future::pending().await;
    }
    futures::future::select_all(servers).await.0
}
