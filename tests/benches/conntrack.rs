//! One sweep over a large connection tracking table while rows are committed: how long it takes, how
//! much memory, and what a commit notices of it. In a network namespace of its own. Prints figures;
//! asserts none.
//!
//! `cargo bench -p sliceproxy-tests --bench conntrack [-- FLOWS SERVICES]`; needs root, and raises
//! the machine's `nf_conntrack_max` for as long as it runs if that is too small.

use std::error::Error;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use sliceproxy::conntrack::{self, Pass};
use sliceproxy::lab::Netns;
use sliceproxy::model::{Event, Service, ServicePort, Slice, SlicePort};
use sliceproxy_dataplane::conntrack::Flow;
use sliceproxy_dataplane::frontend::{Endpoint, Frontend, Protocol};
use sliceproxy_dataplane::netlink::NetlinkConntrack;
use sliceproxy_tests::driven::Driven;
use sliceproxy_tests::generate;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_secs(120);
/// Commits that are measured without a sweep.
const QUIET_COMMITS: u32 = 2_000;
/// Endpoints of the UDP Service, one of which leaves.
const ENDPOINTS: u32 = 10;
/// Its frontends beside the cluster IP.
const EXTERNAL_IPS: u8 = 9;
const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

fn main() -> Result<()> {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let flows = numbers.first().copied().unwrap_or(500_000);
    let services = numbers.get(1).copied().unwrap_or(1_000);
    println!("{flows} UDP flows, a tenth of them stale; {services} Services x 10 endpoints");
    let before = fs::read_to_string(MAX)?;
    let needed = flows + flows / 10;
    if before.trim().parse::<u32>()? < needed {
        fs::write(MAX, needed.to_string())?;
    }
    let result = Netns::new()?.run(move || measure(flows, services))?;
    fs::write(MAX, before.trim())?;
    result
}

/// An agent in this namespace.
struct Agent(Driven);

impl Agent {
    fn change(&self, event: Event) -> Result<Duration> {
        Ok(self.0.change(event)?.0)
    }

    /// One endpoint of a TCP Service is replaced, again and again while `more` says so.
    fn commits(&self, mut more: impl FnMut(u32) -> bool) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        let mut round = 0;
        while more(round) {
            let newcomer = 0x00f0_0000 + round % 2;
            let members = (ENDPOINTS + 1..2 * ENDPOINTS).chain([newcomer]);
            times.push(self.change(Event::Slice(generate::slice(1, 0, members)))?);
            round += 1;
        }
        Ok(times)
    }
}

fn measure(flows: u32, services: u32) -> Result<()> {
    let (sender, passes) = channel();
    let cleaner = conntrack::start(NetlinkConntrack::open()?, move |pass| {
        // The receiver may have gone at the end.
        let _ = sender.send(pass);
    })?;
    let agent = Agent(Driven::start(|done| (done, cleaner))?);
    agent.0.load(cluster(services))?;
    passes.recv_timeout(PATIENCE)?;

    print_times("commits before", agent.commits(|round| round < QUIET_COMMITS)?);
    let start = Instant::now();
    let planted = NetlinkConntrack::open()?.plant((0..flows).map(|n| flow(n, services)))?;
    println!("  {planted} flows made in           {:10.0} ms", ms(start.elapsed()));
    let full = agent.commits(|round| round < QUIET_COMMITS)?;
    print_times("commits with a full table", full);

    let before = resident_kib("VmRSS:");
    let start = Instant::now();
    agent.change(Event::Slice(udp_slice(services, ENDPOINTS - 1)))?;
    println!("  the commit that makes them stale {:10.1} us", start.elapsed().as_secs_f64() * 1e6);
    let mut pass = None;
    let during = agent.commits(|_| {
        pass = passes.try_recv().ok();
        pass.is_none()
    })?;
    print_times("commits during the sweep", during);
    if let Some(pass) = pass {
        print_pass("sweep meanwhile", pass);
    }
    agent.change(Event::Slice(udp_slice(services, ENDPOINTS - 2)))?;
    print_pass("sweep on its own", passes.recv_timeout(PATIENCE)?);
    println!(
        "  resident memory before / after   {before} / {} KiB, highest ever {} KiB",
        resident_kib("VmRSS:"),
        resident_kib("VmHWM:")
    );
    agent.0.handle.stop();
    Ok(())
}

/// TCP Services, and one for UDP with ten frontends, which has the number after them.
fn cluster(services: u32) -> Vec<Event> {
    let mut events = generate::cluster(services, ENDPOINTS);
    events.insert(0, Event::Slice(udp_slice(services, ENDPOINTS)));
    let service = generate::service(services);
    let external = (1..=EXTERNAL_IPS).map(|n| IpAddr::from([198, 51, 100, n]));
    let port =
        ServicePort { name: "http".into(), protocol: Protocol::Udp, port: 53, node_port: None };
    let service =
        Service { external_ips: external.collect(), ports: vec![port], ..(*service).clone() };
    for event in &mut events {
        if let Event::AllServices(all) = event {
            all.push(Arc::new(service.clone()));
        }
        if let Event::AllSlices(all) = event {
            all.push(udp_slice(services, ENDPOINTS));
        }
    }
    events
}

fn udp_slice(service: u32, endpoints: u32) -> Arc<Slice> {
    let first = service * ENDPOINTS;
    let slice = generate::slice(service, 0, first..first + endpoints);
    let port = SlicePort { name: "http".into(), protocol: Protocol::Udp, port: 8080 };
    Arc::new(Slice { ports: vec![port], ..(*slice).clone() })
}

/// Flow number `n` to the UDP Service: the frontends take turns, then the endpoints.
fn flow(n: u32, service: u32) -> Flow {
    let frontends = u32::from(EXTERNAL_IPS) + 1;
    let address = match u8::try_from(n % frontends).unwrap_or_default() {
        0 => generate::address(11, service + 1),
        external => [198, 51, 100, external].into(),
    };
    let endpoint = service * ENDPOINTS + n / frontends % ENDPOINTS;
    // 60,000 ports for each client, from 2,000 on.
    let port = u16::try_from(n % 60_000 + 2_000).unwrap_or_default();
    Flow {
        client: SocketAddr::new(generate::address(172, n / 60_000 + 1), port),
        frontend: Frontend { address, protocol: Protocol::Udp, port: 53 },
        answers_from: Endpoint { address: generate::address(10, endpoint), port: 8080 },
        zone: 0,
    }
}

fn print_pass(what: &str, Pass { swept, took, .. }: Pass) {
    println!(
        "  {what}: {} dump(s), {} flows seen, {} deleted, in {:.0} ms",
        swept.dumps,
        swept.seen,
        swept.deleted,
        ms(took)
    );
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| {
        let time = times.get((times.len() * share / 1_000).min(times.len().saturating_sub(1)));
        time.copied().unwrap_or_default().as_secs_f64() * 1e6
    };
    println!(
        "  {what:26} {:6}   median {:6.0} us   p99 {:6.0} us   longest {:6.0} us",
        times.len(),
        at(500),
        at(990),
        at(1_000)
    );
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn resident_kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
