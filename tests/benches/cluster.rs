//! sliceproxy and kube-proxy at one real API server with many Services: first sync, memory, and the
//! time from a write in the API until a connection follows it. Prints figures; asserts none.
//!
//! `cargo bench -p sliceproxy-tests --bench cluster [-- SERVICES ENDPOINTS CHANGES]`; needs root, the
//! control plane that `tests/cluster/build` makes, and a release build of the binary beside it.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};
use sliceproxy::lab::Netns;
use sliceproxy_tests::agent::Agent;
use sliceproxy_tests::cluster::{Api, Restart, forget_peak_memory, memory_of, service};
use sliceproxy_tests::sidebyside::Stage;

/// How long a proxy may take for anything.
const LIMIT: Duration = Duration::from_secs(120);
/// kube-proxy rests 100 ms between two syncs here (by default a second). That is not to count.
const REST: Duration = Duration::from_millis(150);
/// Endpoints in one slice, as the controller makes them.
const SLICE_SIZE: u32 = 100;
/// Requests that make objects at the same time.
const WORKERS: u32 = 8;
const NAMESPACE: &str = "load";
/// Who answers the connections that are measured.
const PODS: [&str; 2] = ["far-1", "far-2"];
const POD_PORT: u16 = 8080;

#[derive(Debug, Clone, Copy)]
struct Size {
    services: u32,
    endpoints: u32,
    changes: u32,
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let size = Size {
        services: numbers.next().unwrap_or(1_000),
        endpoints: numbers.next().unwrap_or(10),
        changes: numbers.next().unwrap_or(100),
    };
    println!("{} Services x {} endpoints, a real API server", size.services, size.endpoints);
    let mut stage = Stage::new(&[])?;
    let begun = Instant::now();
    populate(&stage.api, size)?;
    println!("  objects made in {:.0} s", begun.elapsed().as_secs_f64());
    let probe = Probe::new(&stage)?;

    let begun = Instant::now();
    let mut agent = Agent::start(stage.sliceproxy.lab.node(), &stage.agent_args()?)?;
    agent.wait_in_sync_for(LIMIT)?;
    let ours = begun.elapsed();
    let begun = Instant::now();
    let kube_proxy = stage.start_kube_proxy()?;
    let theirs = begun.elapsed();
    let pids = [agent.pid(), kube_proxy.process().pid()];

    println!("{:34}{:>14}{:>14}", "", "sliceproxy", "kube-proxy");
    row("first sync", "s", [ours, theirs].map(|time| time.as_secs_f64()));
    let [at_rest, peak] = memory(pids)?;
    row("resident memory, everything listed", "MB", at_rest);
    row("  its peak until then", "MB", peak);

    let times = changes(&stage, &probe, size.changes)?;
    row("resident memory after changes", "MB", memory(pids)?[0]);
    for pid in pids {
        forget_peak_memory(pid)?;
    }
    stage.cluster.restart_api_server(Restart::Compacted)?;
    // A new Service and a changed slice: both lists have been taken in when these are served.
    stage.settle()?;
    probe.change(&stage, size.changes)?;
    let [at_rest, peak] = memory(pids)?;
    row("peak memory during a re-list", "MB", peak);
    row("resident memory afterwards", "MB", at_rest);

    println!("from a write in the API to a connection that follows it, {} changes", size.changes);
    for (name, times) in [("sliceproxy", times.ours), ("kube-proxy", times.theirs)] {
        println!("  {name:32}{}", Spread::of(times));
    }
    println!("  {:32}{}", "the API server's answer alone", Spread::of(times.written));
    Ok(())
}

fn row(what: &str, unit: &str, figures: [f64; 2]) {
    println!("  {what:34}{:>9.1} {unit:2}{:>11.1} {unit:2}", figures[0], figures[1]);
}

/// MB in use, and most so far, of each process.
fn memory(pids: [u32; 2]) -> Result<[[f64; 2]; 2]> {
    let [ours, theirs] = pids.map(memory_of);
    let ((our_now, our_most), (their_now, their_most)) = (ours?, theirs?);
    #[allow(clippy::cast_precision_loss, reason = "memory is less than 2^52 bytes")]
    let mb = |bytes: u64| bytes as f64 / 1e6;
    Ok([[mb(our_now), mb(their_now)], [mb(our_most), mb(their_most)]])
}

/// Makes the Services and their slices.
fn populate(api: &Api, size: Size) -> Result<()> {
    api.add_namespace(NAMESPACE)?;
    let make = |worker: u32| -> Result<()> {
        for number in (worker..size.services).step_by(WORKERS as usize) {
            let name = format!("svc-{number}");
            let spec = json!({"ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
            api.create(&service(NAMESPACE, &name, &spec))?;
            let all = number * size.endpoints..(number + 1) * size.endpoints;
            for start in all.clone().step_by(SLICE_SIZE as usize) {
                let part = start..(start + SLICE_SIZE).min(all.end);
                let endpoints: Vec<Value> = part.map(endpoint).collect();
                api.create(&slice(&format!("{name}-{start}"), &name, &endpoints))?;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let make = &make;
        let workers: Vec<_> = (0..WORKERS).map(|w| scope.spawn(move || make(w))).collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| anyhow!("a worker panicked"))?)
    })
}

/// An endpoint as the controller writes it, of a pod in a cluster of 500 nodes and three zones.
fn endpoint(number: u32) -> Value {
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(100, 64, 0, 0)) + number);
    let node = number % 500;
    json!({
        "addresses": [address],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": format!("worker-{node}"),
        "zone": format!("zone-{}", node % 3),
        "targetRef": {
            "kind": "Pod",
            "namespace": NAMESPACE,
            "name": format!("pod-7f9c6d5b8-{number:05}"),
            "uid": format!("5d1e8b0c-4a5f-4b9e-9c3d-{number:012}"),
        },
    })
}

fn slice(name: &str, service: &str, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "benchmark",
            },
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "protocol": "TCP", "port": POD_PORT}],
    })
}

/// A Service whose only endpoint is replaced again and again.
struct Probe {
    target: SocketAddr,
    addresses: [IpAddr; 2],
}

/// What changes took: until a connection followed on each side, and for the API server to answer.
#[derive(Default)]
struct Times {
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
    written: Vec<Duration>,
}

fn changes(stage: &Stage, probe: &Probe, count: u32) -> Result<Times> {
    let mut times = Times::default();
    // The first one finds connections and caches cold.
    probe.change(stage, 0)?;
    for number in 1..=count {
        let [ours, theirs, written] = probe.change(stage, number)?;
        times.ours.push(ours);
        times.theirs.push(theirs);
        times.written.push(written);
        thread::sleep(REST);
    }
    Ok(times)
}

impl Probe {
    fn new(stage: &Stage) -> Result<Self> {
        let [first, second] = PODS.map(|pod| -> Result<IpAddr> {
            let addresses = stage.sliceproxy.lab.machine(pod)?.addresses();
            let v4 = addresses.iter().copied().find(IpAddr::is_ipv4);
            v4.with_context(|| format!("{pod} has no IPv4 address"))
        });
        let addresses = [first?, second?];
        let spec = json!({"ports": [{"name": "http", "port": 80}]});
        let made = stage.api.create(&service(NAMESPACE, "probe", &spec))?;
        let ip = made["spec"]["clusterIP"].as_str().context("no cluster IP")?;
        let endpoints = [json!({"addresses": [addresses[1]]})];
        stage.api.create(&slice("probe", "probe", &endpoints))?;
        Ok(Self { target: SocketAddr::new(ip.parse()?, 80), addresses })
    }

    /// Replaces the endpoint, and waits until connections get the new one on both sides. From the
    /// moment that the request is sent, times of ours, kube-proxy's, and the server's answer.
    fn change(&self, stage: &Stage, number: u32) -> Result<[Duration; 3]> {
        let turn = (number % 2) as usize;
        let change = json!({"endpoints": [{"addresses": [self.addresses[turn]]}]});
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/probe");
        let callers = [&stage.sliceproxy, &stage.kube_proxy].map(|side| side.lab.machine("caller"));
        let [ours, theirs] = callers;
        let (ours, theirs) = (ours?.netns(), theirs?.netns());
        thread::scope(|scope| {
            let begun = Instant::now();
            let wait = |caller| scope.spawn(move || self.followed(caller, PODS[turn], begun));
            let (ours, theirs) = (wait(ours), wait(theirs));
            stage.api.patch(&path, &change)?;
            let written = begun.elapsed();
            let panicked = |_| anyhow!("a prober panicked");
            let ours = ours.join().map_err(panicked)??;
            Ok([ours, theirs.join().map_err(panicked)??, written])
        })
    }

    /// Sends connections from `caller` until `pod` answers. The longer that takes, the longer the
    /// pauses: the processors are the proxies'.
    fn followed(&self, caller: &Netns, pod: &str, begun: Instant) -> Result<Duration> {
        caller.run(|| {
            while begun.elapsed() < LIMIT {
                if greeting(self.target).is_ok_and(|name| name == pod) {
                    return Ok(begun.elapsed());
                }
                let pause = begun.elapsed() / 50;
                thread::sleep(pause.clamp(Duration::from_micros(100), Duration::from_millis(20)));
            }
            bail!("{} did not answer at {} within {LIMIT:?}", pod, self.target)
        })?
    }
}

/// Who answers at `target`.
fn greeting(target: SocketAddr) -> Result<String> {
    let patience = Duration::from_secs(1);
    let stream = TcpStream::connect_timeout(&target, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Sorted times.
struct Spread(Vec<Duration>);

impl Spread {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn at(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get(last.min(self.0.len() * percent / 100))
            .map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, percent) in [("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)] {
            write!(f, "{name} {:8.1} ms   ", self.at(percent))?;
        }
        Ok(())
    }
}
