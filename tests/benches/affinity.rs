//! New connections per second with session affinity and without, through Services with 1,000
//! endpoints and from 10,000 clients, and with kube-proxy on the same objects where its binaries are
//! at hand. Prints figures; asserts none.
//!
//! `cargo bench -p sliceproxy-tests --bench affinity [-- --without-kube-proxy]`; needs root.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use sliceproxy::engine::Engine;
use sliceproxy::lab::{Lab, NodeAddresses, Pod};
use sliceproxy::source::manifests;
use sliceproxy_dataplane::conntrack::{Conntrack as _, Scope};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::netlink::{NetlinkConntrack, NetlinkKernel};
use sliceproxy_dataplane::program::PodTraffic;
use sliceproxy_tests::cluster::{self, Cluster, KubeProxy, KubeProxyOptions, Node, Options};
use sliceproxy_tests::generate;
use sliceproxy_tests::nft::Nft;
use sliceproxy_tests::require_root;
use sliceproxy_tests::sidebyside::offer;

const ENDPOINTS: u16 = 1_000;
const CLIENTS: u16 = 10_000;
/// Services with affinity, each measured with clients that it does not know and that it does.
const ROUNDS: u8 = 5;
const PORT: u16 = 80;
const POD_PORT: u16 = 8080;
const NODE: &str = "node-1";
/// The clients count as pods, so that nothing is masqueraded.
const CLIENT_CIDR: &str = "10.245.0.0/16";

fn main() -> Result<()> {
    require_root();
    let limit = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, limit.1, limit.1)?;
    println!(
        "{CLIENTS} clients, {ENDPOINTS} endpoints, new UDP flows per second, medians of {ROUNDS}"
    );
    let network = Network::new()?;
    network.lab.node().run(|| serve(&objects()))??;
    network.measure("sliceproxy")?;
    if !std::env::args().any(|word| word == "--without-kube-proxy") {
        with_kube_proxy(&Network::new()?)?;
    }
    Ok(())
}

/// A node between clients and endpoints.
struct Network {
    lab: Lab,
    /// Takes in what is sent to the endpoints, and lets it drop.
    _sink: UdpSocket,
}

fn client(number: u16) -> IpAddr {
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
        let machine = |name: &str, addresses: Vec<IpAddr>| {
            [Pod { name: name.to_owned(), addresses, ports: vec![] }]
        };
        lab.add_machine("clients", &machine("clients", (1..=CLIENTS).map(client).collect()))?;
        let endpoints = machine("endpoints", (1..=ENDPOINTS).map(endpoint).collect());
        let endpoints = lab.add_machine("endpoints", &endpoints)?;
        let sink =
            endpoints.netns().run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, POD_PORT)))??;
        Ok(Self { lab, _sink: sink })
    }

    fn measure(&self, who: &str) -> Result<()> {
        let (mut without, mut new, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            without.push(self.rate(0)?);
            new.push(self.rate(round)?);
            without.push(self.rate(0)?);
            known.push(self.rate(round)?);
        }
        let [without, new, known] = [without, new, known].map(median);
        println!("{who:12} without affinity  {without:8.0}/s");
        for (what, rate) in [("a known client", known), ("a new client", new)] {
            println!("{who:12} {what:16}  {rate:8.0}/s  {:5.1} %", 100.0 * rate / without);
        }
        Ok(())
    }

    /// Each client sends one packet from a new port: a packet goes all the way within the call that
    /// sends it.
    fn rate(&self, service: u8) -> Result<f64> {
        let target = frontend(service);
        let took = self.lab.machine("clients")?.netns().run(|| {
            let bind = |number| UdpSocket::bind((client(number), 0));
            let sockets = (1..=CLIENTS).map(bind).collect::<std::io::Result<Vec<_>>>()?;
            let start = Instant::now();
            for socket in &sockets {
                socket.send_to(b"who is there", target)?;
            }
            Ok::<_, std::io::Error>(start.elapsed())
        })??;
        let forgotten = self.forget_flows()?;
        anyhow::ensure!(forgotten >= u64::from(CLIENTS), "only {forgotten} flows came about");
        Ok(f64::from(CLIENTS) / took.as_secs_f64())
    }

    fn forget_flows(&self) -> Result<u64> {
        let sweep = || {
            let scope = Scope { family: Family::V4, address: None, port: None };
            NetlinkConntrack::open()?.sweep(&scope, &mut |_| true)
        };
        Ok(self.lab.node().run(sweep)??.deleted)
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
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
            "ports": [{"protocol": "UDP", "port": PORT}],
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
            "ports": [{"name": "", "protocol": "UDP", "port": POD_PORT}],
        }));
    }
    objects
}

/// Programs the kernel of this thread's namespace as the agent does.
fn serve(objects: &[Value]) -> Result<()> {
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
