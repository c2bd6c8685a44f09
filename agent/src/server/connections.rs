//! The connections of one server: a bounded number of them, and a new one always gets in. What has
//! lasted longest makes room, which is what idles; an answer takes milliseconds.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Connections of one server at a time: several times what probes and scrapers of one node need.
/// Anybody in the cluster can open some, and each takes a file descriptor.
pub(super) const MOST: usize = 128;

/// Pause after the system had no connection to give, for want of something.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection that is served, until dropped.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves `router` until dropped, which also ends all connections.
pub(super) async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.0.is_finished());
                if open.len() >= MOST {
                    open.pop_front();
                }
                open.push_back(answer(stream, router.clone()));
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot take a connection");
                // It may be a file descriptor that is wanting.
                open.pop_front();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn answer(stream: TcpStream, router: Router) -> Connection {
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let task = tokio::spawn(async move {
        // It fails when the client is gone or does not speak HTTP, which is the client's concern.
        let _ = served.await;
    });
    Connection(task.abort_handle())
}

/// The connection was given up before we took it.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
