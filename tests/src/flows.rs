//! UDP flows as a client has them: one socket, one source port, packet after packet.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use sliceproxy::lab::{LabError, Netns};
use sliceproxy_dataplane::conntrack::{Conntrack, Flow, Scope};
use sliceproxy_dataplane::frontend::{Family, Frontend};
use sliceproxy_dataplane::netlink::NetlinkConntrack;

/// How long an answer may take on one machine.
const PATIENCE: Duration = Duration::from_millis(200);

/// One socket.
#[derive(Debug)]
pub struct UdpClient(UdpSocket);

impl UdpClient {
    /// A socket in `netns`, bound to `source` and sending to `target` only.
    ///
    /// # Errors
    /// When there is no such address, or no way to the target.
    pub fn new(netns: &Netns, source: IpAddr, target: Frontend) -> anyhow::Result<Self> {
        let socket = netns.run(|| {
            let socket = UdpSocket::bind(SocketAddr::new(source, 0))?;
            socket.connect(SocketAddr::new(target.address, target.port))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok::<_, io::Error>(socket)
        })??;
        Ok(Self(socket))
    }

    /// Where it sends from.
    ///
    /// # Errors
    /// Never, as it is bound.
    pub fn source(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Sends one packet; gives the name of the pod that answers, if one does. Answers to earlier
    /// packets are not taken for one to this.
    pub fn ask(&self) -> Option<String> {
        self.drain();
        // A refusal of an earlier packet is reported here; then nothing is sent.
        if self.0.send(b"who is there").is_err() {
            self.0.send(b"who is there").ok()?;
        }
        let mut buffer = [0; 256];
        let length = self.0.recv(&mut buffer).ok()?;
        let line = std::str::from_utf8(buffer.get(..length)?).ok()?;
        line.split_whitespace().next().map(str::to_owned)
    }

    fn drain(&self) {
        let mut buffer = [0; 256];
        if self.0.set_nonblocking(true).is_ok() {
            while self.0.recv(&mut buffer).is_ok() {}
        }
        // The socket is ours and open.
        let _ = self.0.set_nonblocking(false);
    }
}

/// The UDP flows that a node remembers to `frontend`, sorted.
///
/// # Errors
/// When they cannot be read.
pub fn remembered(node: &Netns, frontend: Frontend) -> anyhow::Result<Vec<Flow>> {
    let read = || {
        let mut flows = Vec::new();
        let scope = Scope {
            family: frontend.family(),
            address: Some(frontend.address),
            port: Some(frontend.port),
        };
        NetlinkConntrack::open()?.sweep(&scope, &mut |flow| {
            flows.push(*flow);
            false
        })?;
        Ok::<_, sliceproxy_dataplane::kernel::KernelError>(flows)
    };
    let mut flows = node.run(read).map_err(|error: LabError| error)??;
    flows.sort_unstable();
    flows.dedup();
    Ok(flows)
}

/// The address of `family` among `addresses`.
pub fn of_family(family: Family, addresses: &[IpAddr]) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| Family::of(*address) == family)
}
