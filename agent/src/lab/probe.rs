//! Connections sent through a lab, and what became of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use nix::libc;
use sliceproxy_dataplane::frontend::{Frontend, Protocol};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::timeout;

use super::servers::stream_socket;
use super::{LabError, Netns};

/// How long a probe waits unless it is told otherwise: long for a refusal or an answer on one
/// machine, short for a test that expects silence.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What became of one connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// A pod answered.
    Answered {
        /// The pod's name.
        by: String,
        /// The client's address as the pod saw it.
        seen_source: IpAddr,
    },
    /// Refused at once: a TCP reset to the first packet, or an ICMP error.
    Refused,
    /// Ended by a reset after it had been established.
    Reset,
    /// Nobody said anything.
    TimedOut,
    /// No way there: an ICMP error said so, or the sender has no route.
    Unreachable,
}

impl Outcome {
    /// The pod that answered.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Answered { by, .. } => Some(by),
            _ => None,
        }
    }

    fn of_error(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Self::Refused,
            Some(libc::ECONNRESET | libc::EPIPE) => Self::Reset,
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES) => Self::Unreachable,
            _ => Self::TimedOut,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { by, seen_source } => write!(f, "{by} (saw {seen_source})"),
            Self::Refused => f.write_str("refused"),
            Self::Reset => f.write_str("reset"),
            Self::TimedOut => f.write_str("no answer"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

/// Where connections are sent from.
#[derive(Debug, Clone, Copy)]
pub struct Vantage<'a> {
    netns: &'a Netns,
    source: Option<IpAddr>,
    patience: Duration,
}

impl<'a> Vantage<'a> {
    /// From that namespace, by the source address that its routes prefer.
    pub fn new(netns: &'a Netns) -> Self {
        Self { netns, source: None, patience: PATIENCE }
    }

    /// From that address of the namespace.
    #[must_use]
    pub fn from(self, source: IpAddr) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Giving up on a connection after that time.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Sends one connection.
    ///
    /// # Errors
    /// Only when no socket could be had; what the network does is an [`Outcome`].
    pub fn connect(&self, target: Frontend) -> Result<Outcome, LabError> {
        let mut outcomes = self.connect_all(&[target])?;
        outcomes.pop().ok_or_else(|| LabError::Plan("one target has no outcome".into()))
    }

    /// Sends one connection to each target, all at the same time.
    ///
    /// # Errors
    /// As [`Vantage::connect`].
    pub fn connect_all(&self, targets: &[Frontend]) -> Result<Vec<Outcome>, LabError> {
        self.run(async |vantage: &Self| {
            let connections = targets.iter().map(|target| vantage.attempt(*target));
            futures::future::try_join_all(connections).await
        })
    }

    /// Sends `n` connections to `target`, one after the other.
    ///
    /// # Errors
    /// As [`Vantage::connect`].
    pub fn repeat(&self, target: Frontend, n: usize) -> Result<Vec<Outcome>, LabError> {
        self.run(async |vantage: &Self| {
            let mut outcomes = Vec::with_capacity(n);
            for _ in 0..n {
                outcomes.push(vantage.attempt(target).await?);
            }
            Ok(outcomes)
        })
    }

    /// How many of `n` connections each pod answered; those without an answer are counted under
    /// what happened instead, such as `refused`.
    ///
    /// # Errors
    /// As [`Vantage::connect`].
    pub fn spread(&self, target: Frontend, n: usize) -> Result<BTreeMap<String, usize>, LabError> {
        let mut counts = BTreeMap::new();
        for outcome in self.repeat(target, n)? {
            let name = outcome.pod().map_or_else(|| outcome.to_string(), str::to_owned);
            *counts.entry(name).or_insert(0) += 1;
        }
        Ok(counts)
    }

    fn run<T: Send>(
        &self,
        work: impl AsyncFnOnce(&Self) -> io::Result<T> + Send,
    ) -> Result<T, LabError> {
        let inside = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
            runtime.block_on(work(self))
        };
        self.netns.run(inside)?.map_err(LabError::system("cannot send a connection"))
    }

    async fn attempt(&self, target: Frontend) -> io::Result<Outcome> {
        let address = SocketAddr::new(target.address, target.port);
        let answered = match target.protocol {
            Protocol::Udp => {
                let socket = self.datagram_socket(address.ip()).await?;
                timeout(self.patience, ask(&socket, address)).await
            }
            protocol => {
                let socket = self.stream_socket(protocol, address.ip())?;
                timeout(self.patience, greet(socket, address)).await
            }
        };
        Ok(match answered {
            Ok(Ok(line)) => parse_greeting(&line).unwrap_or(Outcome::Reset),
            Ok(Err(error)) => Outcome::of_error(&error),
            Err(_elapsed) => Outcome::TimedOut,
        })
    }

    fn stream_socket(&self, protocol: Protocol, target: IpAddr) -> io::Result<TcpSocket> {
        let socket = TcpSocket::from_std_stream(TcpStream::from(stream_socket(protocol, target)?));
        if let Some(source) = self.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        Ok(socket)
    }

    async fn datagram_socket(&self, target: IpAddr) -> io::Result<UdpSocket> {
        let any: IpAddr = match target {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        UdpSocket::bind(SocketAddr::new(self.source.unwrap_or(any), 0)).await
    }
}

/// A connection that stays open until it is dropped: whether established connections survive
/// something is seen by [`Connection::echo`].
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// The pod at the other end.
    pub pod: String,
}

impl Connection {
    /// Opens a TCP connection from `netns`.
    ///
    /// # Errors
    /// When it is refused, or no pod greets in time.
    pub fn open(netns: &Netns, target: SocketAddr) -> Result<Self, LabError> {
        use std::io::BufRead;
        let opened = netns.run(|| {
            let stream = TcpStream::connect_timeout(&target, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut line = String::new();
            // Nothing follows the greeting until we write, so the reader holds nothing back.
            io::BufReader::new(&stream).read_line(&mut line)?;
            let pod = line.split_whitespace().next().unwrap_or_default().to_owned();
            Ok::<_, io::Error>(Self { stream, pod })
        })?;
        opened.map_err(LabError::system(format!("cannot connect to {target}")))
    }

    /// Sends a few bytes and reads them back.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn echo(&mut self) -> Result<(), LabError> {
        use std::io::{Read, Write};
        let mut back = [0; 4];
        let exchanged =
            self.stream.write_all(b"echo").and_then(|()| self.stream.read_exact(&mut back));
        exchanged.map_err(LabError::system("the connection is gone"))
    }
}

async fn greet(socket: TcpSocket, target: SocketAddr) -> io::Result<Vec<u8>> {
    let stream = socket.connect(target).await?;
    let mut line = Vec::new();
    let mut buffer = [0; 256];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(0) => return Ok(line),
            Ok(n) => line.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if line.ends_with(b"\n") {
            return Ok(line);
        }
    }
}

async fn ask(socket: &UdpSocket, target: SocketAddr) -> io::Result<Vec<u8>> {
    socket.connect(target).await?;
    match socket.send(b"who is there").await {
        // The sender's own filter dropped the packet; if it also refused it, the ICMP error follows.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        sent => drop(sent?),
    }
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).await?;
    Ok(buffer[..length].to_vec())
}

fn parse_greeting(line: &[u8]) -> Option<Outcome> {
    let line = std::str::from_utf8(line).ok()?;
    let (name, source) = line.trim_end().rsplit_once(' ')?;
    Some(Outcome::Answered { by: name.to_owned(), seen_source: source.parse().ok()? })
}
