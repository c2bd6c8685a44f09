//! New connections per second with session affinity and without, through Services with 1,000
//! endpoints and from 10,000 clients, and with kube-proxy on the same objects where its binaries are
//! at hand. Prints figures; asserts none.
//!
//! `cargo bench -p sliceproxy-tests --bench affinity [-- --without-kube-proxy]`; needs root.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, socket,
};
use serde_json::{Value, json};
use sliceproxy::engine::Engine;
use sliceproxy::lab::{Lab, NodeAddresses, Pod, probe};
use sliceproxy::model::{Event, ObjectName};
use sliceproxy::source::manifests;
use sliceproxy_dataplane::frontend::{Family, Frontend, Protocol};
use sliceproxy_dataplane::kernel::Kernel as _;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::PodTraffic;
use sliceproxy_tests::cluster::{self, Cluster, KubeProxy, KubeProxyOptions, Node, Options};
use sliceproxy_tests::generate;
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::sidebyside::offer;
use sliceproxy_tests::{require_root, wait_for};

const ENDPOINTS: u16 = 1_000;
const CLIENTS: u16 = 10_000;
/// Services with affinity, each measured with clients that it does not know and that it does.
const ROUNDS: u8 = 5;
/// Connections that are timed together.
const CHUNK: u16 = 50;
const PORT: u16 = 80;
const POD_PORT: u16 = 8080;
const NODE: &str = "node-1";
const LIMIT: Duration = Duration::from_secs(10);
/// The clients count as pods, so that nothing is masqueraded.
const CLIENT_CIDR: &str = "10.245.0.0/16";
const ENDPOINT_CIDR: &str = "10.246.0.0/16";

fn main() -> Result<()> {
    require_root();
    println!("{CLIENTS} clients, {ENDPOINTS} endpoints, new TCP connections per second, medians");
    let network = Network::new()?;
    let mut engine = network.lab.node().run(|| serve(&objects()))??;
    network.measure("sliceproxy")?;
    endpoints_leave(&mut engine)?;
    if !std::env::args().any(|word| word == "--without-kube-proxy") {
        with_kube_proxy(&Network::new()?)?;
    }
    Ok(())
}

/// A node between clients and endpoints.
struct Network {
    lab: Lab,
}

fn client_address(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 245, high, low).into()
}

fn endpoint(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 246, high, low).into()
}

/// The Service without affinity is number 0.
fn frontend(number: u8) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 96, 1, number + 1).into(), PORT)
}

impl Network {
    fn new() -> Result<Self> {
        let v4 = Ipv4Addr::new(172, 18, 0, 11);
        let v6 = Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0xb);
        let mut lab = Lab::new(NodeAddresses { v4, v6 })?;
        for (name, address, network) in [
            ("clients", Ipv4Addr::new(10, 244, 0, 1), CLIENT_CIDR),
            ("endpoints", Ipv4Addr::new(10, 244, 0, 2), ENDPOINT_CIDR),
        ] {
            let addresses = vec![address.into()];
            lab.add_pods(&[Pod { name: name.to_owned(), addresses, ports: vec![] }])?;
            lab.add_network(name, network.parse()?)?;
        }
        let endpoints = lab.machine("endpoints")?.netns();
        // Connections may wait to be taken.
        endpoints.set_sysctl("core/somaxconn", "4096")?;
        endpoints.spawn("endpoints", || -> std::io::Result<()> {
            let kind = (AddressFamily::Inet, SockType::Stream);
            let listener = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None)?;
            let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), POD_PORT);
            bind(listener.as_raw_fd(), &SockaddrStorage::from(everywhere))?;
            listen(&listener, Backlog::MAXCONN)?;
            TcpListener::from(listener).incoming().try_for_each(|stream| stream.map(drop))
        })?;
        // Connections that are over shall not fill the table.
        lab.node().set_sysctls(&[
            ("netfilter/nf_conntrack_tcp_timeout_time_wait", "1"),
            ("netfilter/nf_conntrack_tcp_timeout_close", "1"),
            ("netfilter/nf_conntrack_tcp_timeout_last_ack", "1"),
        ])?;
        let network = Self { lab };
        let client = network.lab.machine("clients")?.vantage();
        let ready = Frontend { address: endpoint(1), protocol: Protocol::Tcp, port: POD_PORT };
        wait_for("the endpoints to listen", LIMIT, || {
            client.connect(ready).ok().filter(|outcome| *outcome == probe::Outcome::Reset)
        })?;
        Ok(network)
    }

    fn measure(&self, who: &str) -> Result<()> {
        let (mut without, mut new, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            for with in [&mut new, &mut known] {
                let (plain, sticky) = self.times(round)?;
                without.extend(plain);
                with.extend(sticky);
            }
        }
        let [without, new, known] = [without, new, known].map(rate);
        println!("{who:12} without affinity  {without:8.0}/s");
        for (what, rate) in [("a known client", known), ("a new client", new)] {
            println!("{who:12} {what:16}  {rate:8.0}/s  {:5.1} %", 100.0 * rate / without);
        }
        Ok(())
    }

    /// Each client makes one connection from a new port through the Service without affinity, and
    /// one through the other: a few clients at a time, so that both meet the same machine.
    fn times(&self, service: u8) -> Result<(Vec<Duration>, Vec<Duration>)> {
        let targets = [0, service].map(|number| SockaddrStorage::from(frontend(number)));
        let times = self.lab.machine("clients")?.netns().run(|| {
            let mut times = (Vec::new(), Vec::new());
            for first in (1..=CLIENTS).step_by(CHUNK.into()) {
                let clients = first..(first + CHUNK).min(CLIENTS + 1);
                times.0.push(connect_all(clients.clone(), &targets[0])?);
                times.1.push(connect_all(clients, &targets[1])?);
            }
            Ok::<_, nix::Error>(times)
        })??;
        Ok(times)
    }
}

/// How long it takes these clients to connect, one after the other.
fn connect_all(clients: Range<u16>, target: &SockaddrStorage) -> nix::Result<Duration> {
    let bound = |number| {
        let client = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let address = SocketAddr::new(client_address(number), 0);
        bind(client.as_raw_fd(), &SockaddrStorage::from(address)).map(|()| client)
    };
    let sockets = clients.map(bound).collect::<nix::Result<Vec<_>>>()?;
    let start = Instant::now();
    for socket in &sockets {
        connect(socket.as_raw_fd(), target)?;
    }
    Ok(start.elapsed())
}

/// Connections per second in the median of the times.
fn rate(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    f64::from(CHUNK) / median.as_secs_f64()
}

/// Services with their slices, as the API has them.
fn objects() -> Vec<Value> {
    (0..=ROUNDS).flat_map(objects_of).collect()
}

fn objects_of(number: u8) -> Vec<Value> {
    let name = format!("service-{number}");
    let affinity = if number == 0 { "None" } else { "ClientIP" };
    let mut objects = vec![json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "clusterIP": frontend(number).ip(),
            "clusterIPs": [frontend(number).ip()],
            "sessionAffinity": affinity,
            "ports": [{"protocol": "TCP", "port": PORT}],
        },
    })];
    let numbers: Vec<u16> = (1..=ENDPOINTS).collect();
    for (n, chunk) in numbers.chunks(100).enumerate() {
        let endpoints: Vec<_> =
            chunk.iter().map(|number| json!({"addresses": [endpoint(*number)]})).collect();
        objects.push(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{n}"),
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "", "protocol": "TCP", "port": POD_PORT}],
        }));
    }
    objects
}

/// Programs the kernel of this thread's namespace as the agent does.
fn serve(objects: &[Value]) -> Result<Engine<NetlinkKernel>> {
    let folder = tempfile::tempdir()?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = folder.path().join("objects.json");
    std::fs::write(&file, serde_json::to_vec(&list)?)?;
    let mut settings = generate::settings();
    settings.program.pods_v4 = PodTraffic::From(CLIENT_CIDR.parse()?);
    let kernel = NetlinkKernel::open(&settings.program)?;
    let node = settings.node.clone();
    let mut engine = Engine::new(settings, kernel)?;
    for event in manifests::load(&file)?.events(&node) {
        engine.apply(event);
    }
    let synced = engine.sync()?;
    anyhow::ensure!(synced.transactions > 0, "nothing was written");
    Ok(engine)
}

/// How long it takes to take endpoints away when many clients are known, some of them theirs.
fn endpoints_leave(engine: &mut Engine<NetlinkKernel>) -> Result<()> {
    let known = |engine: &mut Engine<NetlinkKernel>| {
        engine.kernel_mut().read_affinity(Family::V4).map(|rows| rows.len())
    };
    let before = known(engine)?;
    engine.apply(Event::SliceRemoved(ObjectName::new("default", "service-1-0")));
    let start = Instant::now();
    let synced = engine.sync()?;
    let took = start.elapsed();
    let forgotten = before - known(engine)?;
    println!(
        "100 of {ENDPOINTS} endpoints leave, {before} clients are known, {forgotten} theirs: \
         {:.1} ms, of them {:.1} ms to write",
        took.as_secs_f64() * 1e3,
        synced.kernel_time.as_secs_f64() * 1e3
    );
    Ok(())
}

fn with_kube_proxy(network: &Network) -> Result<()> {
    cluster::binaries().context("kube-proxy is left out with --without-kube-proxy")?;
    let v4 = Ipv4Addr::new(192, 0, 2, 10);
    let control =
        Lab::new(NodeAddresses { v4, v6: Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x10) })?;
    let options = Options { controllers: vec![], ..Options::default() };
    let cluster = control.node().run(|| Cluster::start(options))??;
    let server = cluster.server().trim_start_matches("https://").parse()?;
    offer(network.lab.node(), Arc::new(control), server)?;
    let api = cluster.api()?;
    let addresses = vec![network.lab.node_addresses().v4.into()];
    let (zone, region) = (String::new(), String::new());
    api.add_node(&Node { name: NODE.into(), zone, region, pod_cidrs: vec![], addresses })?;
    for object in objects() {
        api.apply(&object)?;
    }
    let mut options = KubeProxyOptions::new(NODE, CLIENT_CIDR);
    options.nft = Nft::newer()?;
    let _proxy = network.lab.node().run(|| KubeProxy::start(&cluster, &options))??;
    network.measure("kube-proxy")
}
