//! What runs in the lab's pods: a server that says which pod it is and whom it sees.
//!
//! Over a stream it greets with one line, `pod-name source-address`, and echoes what it gets
//! until the client closes. A datagram is answered with the same line.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, listen,
    setsockopt, socket, sockopt,
};
use sliceproxy_dataplane::frontend::Protocol;
use tokio::sync::oneshot;

use super::{LabError, Netns, Pod};

/// A port that a pod answers on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Port number.
    pub number: u16,
}

impl Port {
    /// A TCP port.
    pub fn tcp(number: u16) -> Self {
        Self { protocol: Protocol::Tcp, number }
    }

    /// A UDP port.
    pub fn udp(number: u16) -> Self {
        Self { protocol: Protocol::Udp, number }
    }
}

/// Whether this kernel can open SCTP sockets. Without, SCTP Services can be programmed, but no
/// pod of a lab can answer on them.
pub fn sctp_available() -> bool {
    stream_socket(Protocol::Sctp, IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)).is_ok()
}

/// An unconnected stream socket of `protocol` in the family of `address`.
pub(super) fn stream_socket(
    protocol: Protocol,
    address: IpAddr,
) -> nix::Result<std::os::fd::OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let protocol = match protocol {
        Protocol::Sctp => SockProtocol::Sctp,
        Protocol::Tcp | Protocol::Udp => SockProtocol::Tcp,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(family, SockType::Stream, flags, protocol)
}

/// The servers of one namespace: a thread, stopped when this is dropped.
#[derive(Debug)]
pub(super) struct Servers {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), LabError>>>,
}

impl Servers {
    /// Starts answering for `pods`; every port is open when this returns.
    pub(super) fn start(netns: &Netns, name: &str, pods: &[Pod]) -> Result<Self, LabError> {
        let sockets = netns.run(|| open_all(pods))??;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(LabError::system("cannot start a runtime"))?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                for socket in sockets {
                    match socket {
                        Socket::Stream(listener, name) => {
                            tokio::spawn(serve_streams(listener, name));
                        }
                        Socket::Datagram(socket, name) => {
                            tokio::spawn(serve_datagrams(socket, name));
                        }
                    }
                }
                // The sender says nothing: it is dropped, or the whole process ends.
                let _ = stopped.await;
            });
        };
        let thread = netns.spawn(name, serve)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread's own panic has been printed already; there is nothing left to save.
            let _ = thread.join();
        }
    }
}

enum Socket {
    Stream(TcpListener, Arc<str>),
    Datagram(UdpSocket, Arc<str>),
}

fn open_all(pods: &[Pod]) -> Result<Vec<Socket>, LabError> {
    let mut sockets = Vec::new();
    for pod in pods {
        let name: Arc<str> = pod.name.as_str().into();
        for &address in &pod.addresses {
            for port in &pod.ports {
                let at = SocketAddr::new(address, port.number);
                let socket = open(port.protocol, at, &name).map_err(LabError::system(format!(
                    "pod {name} cannot listen on {at}/{}",
                    port.protocol
                )))?;
                sockets.push(socket);
            }
        }
    }
    Ok(sockets)
}

fn open(protocol: Protocol, at: SocketAddr, name: &Arc<str>) -> io::Result<Socket> {
    if protocol == Protocol::Udp {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        return Ok(Socket::Datagram(socket, Arc::clone(name)));
    }
    let fd = stream_socket(protocol, at.ip())?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrStorage::from(at))?;
    listen(&fd, Backlog::MAXCONN)?;
    Ok(Socket::Stream(TcpListener::from(fd), Arc::clone(name)))
}

fn greeting(name: &str, client: SocketAddr) -> String {
    format!("{name} {}\n", client.ip())
}

async fn serve_streams(listener: TcpListener, name: Arc<str>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        // A client that gave up while waiting in the queue is no reason to stop.
        if let Ok((stream, client)) = listener.accept().await {
            tokio::spawn(greet_and_echo(stream, greeting(&name, client)));
        }
    }
}

async fn greet_and_echo(stream: tokio::net::TcpStream, greeting: String) -> io::Result<()> {
    write_all(&stream, greeting.as_bytes()).await?;
    let mut buffer = [0; 512];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => write_all(&stream, &buffer[..n]).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write_all(stream: &tokio::net::TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn serve_datagrams(socket: UdpSocket, name: Arc<str>) -> io::Result<()> {
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    let mut buffer = [0; 512];
    loop {
        // Errors of earlier answers (a client that has gone) are reported here.
        if let Ok((_, client)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(greeting(&name, client).as_bytes(), client).await;
        }
    }
}
