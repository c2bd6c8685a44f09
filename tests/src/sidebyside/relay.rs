//! Servers on the nodes themselves. One offers a TCP port of another network namespace: the way to
//! the API server, since nodes with equal addresses could not both be routed to it.

use std::io::{self, Write as _};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use sliceproxy::lab::{Lab, Netns};

/// Offers `address` of the node of `server` at `address` of `client`, until the test process ends.
///
/// # Errors
/// When the address is taken.
pub fn offer(client: &Netns, server: Arc<Lab>, address: SocketAddr) -> Result<()> {
    let listener = client
        .run(|| TcpListener::bind(address))?
        .with_context(|| format!("cannot offer {address}"))?;
    thread::Builder::new().name("relay".to_owned()).spawn(move || {
        for near in listener.incoming().map_while(io::Result::ok) {
            // A server that is away refuses, which closing says to the client as well.
            if let Ok(Ok(far)) = server.node().run(|| TcpStream::connect(address)) {
                let _ = join(&near, &far);
            }
        }
    })?;
    Ok(())
}

fn join(near: &TcpStream, far: &TcpStream) -> io::Result<()> {
    copy(near.try_clone()?, far.try_clone()?)?;
    copy(far.try_clone()?, near.try_clone()?)
}

fn copy(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    thread::Builder::new().name("relay".to_owned()).spawn(move || {
        // However it ended, the other end has to learn of it.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    })?;
    Ok(())
}

/// Answers with `name` and the caller's address, as pods do, on every address of `node`.
///
/// # Errors
/// When the port is taken.
pub(super) fn greet(node: &Netns, name: &'static str, port: u16) -> Result<()> {
    let listener = node.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)))??;
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        for mut stream in listener.incoming().map_while(io::Result::ok) {
            // A caller that has gone is none of ours to mind.
            let caller = stream.peer_addr().map(|peer| peer.ip().to_canonical());
            let _ = caller.and_then(|caller| writeln!(stream, "{name} {caller}"));
        }
    })?;
    Ok(())
}
