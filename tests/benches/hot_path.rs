//! From event to the kernel's yes, in a network namespace of its own. Prints figures; asserts none.
//!
//! `cargo bench -p sliceproxy-tests --bench hot_path [-- SERVICES ENDPOINTS]`; needs root.

use std::error::Error;
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use sliceproxy::driver::{self, Handle, Observer, Pace};
use sliceproxy::engine::{Engine, SyncError, Synced};
use sliceproxy::lab::Netns;
use sliceproxy::model::Event;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::Program;
use sliceproxy_tests::generate;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Changes of each kind that are measured.
const ROUNDS: u32 = 400;
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Result<()> {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let services = numbers.first().copied().unwrap_or(10_000);
    let endpoints = numbers.get(1).copied().unwrap_or(10);
    println!("{services} Services x {endpoints} endpoints");
    let raw = in_namespace(move || raw_load(services, endpoints))?;
    let cold = in_namespace(move || through_agent(services, endpoints))?;
    println!("  cold load / raw netlink load     {:10.2}", cold.as_secs_f64() / raw.as_secs_f64());
    println!("one Service of 100,000 endpoints in 1,000 slices, and {services} others");
    in_namespace(move || one_large(services, endpoints))
}

fn in_namespace<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    Netns::new()?.run(work)?
}

/// The rows of a whole cluster, written without anything around it.
fn raw_load(services: u32, endpoints: u32) -> Result<Duration> {
    let settings = generate::settings();
    let programs: Vec<Program> =
        settings.families.iter().map(|family| Program::new(*family, &settings.program)).collect();
    let mut engine = Engine::new(settings.clone(), sliceproxy_dataplane::fake::FakeKernel::new())?;
    for event in generate::cluster(services, endpoints) {
        engine.apply(event);
    }
    let mut ledger = Ledger::new(programs);
    engine.ledger().desired_rows().for_each(|row| ledger.put(row));
    let transaction = ledger.transaction();
    let mut kernel = NetlinkKernel::open(&settings.program)?;
    let start = Instant::now();
    kernel.commit(&transaction)?;
    let took = start.elapsed();
    println!("  raw netlink load, {} rows   {:10.1} ms", transaction.added.len(), ms(took));
    Ok(took)
}

struct Done(Sender<Synced>);

impl<K> Observer<K> for Done {
    fn synced(&mut self, _: &Engine<K>, synced: &Synced, _: Duration) {
        // The receiver may have gone at the end.
        let _ = self.0.send(synced.clone());
    }

    fn failed(&mut self, _: &Engine<K>, error: &SyncError, _: Duration) {
        eprintln!("  sync failed: {error}");
    }
}

/// An agent in this namespace, and what its commits report.
struct Agent {
    handle: Handle<NetlinkKernel>,
    done: Receiver<Synced>,
}

impl Agent {
    fn start(events: Vec<Event>) -> Result<(Self, Duration)> {
        let settings = generate::settings();
        let kernel = NetlinkKernel::open(&settings.program)?;
        let engine = Engine::new(settings, kernel)?;
        let pace = Pace { min_period: Duration::ZERO, read_back: PATIENCE * 10 };
        let (sender, done) = channel();
        let (handle, _) = driver::start(engine, pace, Done(sender))?;
        let agent = Self { handle, done };
        let start = Instant::now();
        for event in events {
            agent.handle.send(event)?;
        }
        agent.written()?;
        Ok((agent, start.elapsed()))
    }

    fn written(&self) -> Result<Synced> {
        loop {
            let synced = self.done.recv_timeout(PATIENCE)?;
            if synced.transactions > 0 {
                return Ok(synced);
            }
        }
    }

    /// Time from handing over an event to knowing that the kernel took it.
    fn change(&self, event: Event) -> Result<(Duration, usize)> {
        let start = Instant::now();
        self.handle.send(event)?;
        let synced = self.written()?;
        let took = start.elapsed();
        Ok((took, black_box(synced.added.len() + synced.deleted.len())))
    }

    /// Replaces, removes and adds endpoints of one slice again and again, and prints medians.
    fn measure(&self, service: u32, part: u32, members: &[u32]) -> Result<()> {
        let mut times: [Vec<Duration>; 3] = Default::default();
        let mut operations = [0; 3];
        for round in 0..ROUNDS {
            let newcomer = 0x00f0_0000 + round * 2;
            let mut replaced = members.to_vec();
            replaced[0] = newcomer;
            let fewer = replaced[1..].to_vec();
            let steps = [replaced, fewer, members.to_vec()];
            for (kind, numbers) in steps.into_iter().enumerate() {
                let event = Event::Slice(generate::slice(service, part, numbers));
                let (took, count) = self.change(event)?;
                times[kind].push(took);
                operations[kind] = count;
            }
        }
        for (kind, name) in ["replaced", "left", "joined"].into_iter().enumerate() {
            times[kind].sort_unstable();
            let at = |share: usize| us(times[kind][times[kind].len() * share / 100]);
            println!(
                "  endpoint {name:8}  median {:8.0} us   p99 {:8.0} us   {} row operations",
                at(50),
                at(99),
                operations[kind]
            );
        }
        Ok(())
    }
}

fn through_agent(services: u32, endpoints: u32) -> Result<Duration> {
    let (agent, cold) = Agent::start(generate::cluster(services, endpoints))?;
    println!("  cold load through the agent      {:10.1} ms", ms(cold));
    let members: Vec<u32> = (endpoints..2 * endpoints).collect();
    agent.measure(1, 0, &members)?;
    println!("  resident memory, generator too   {:10.1} MB", resident_mb());
    agent.handle.stop();
    Ok(cold)
}

fn one_large(services: u32, endpoints: u32) -> Result<()> {
    let first = services * endpoints;
    let mut events = generate::cluster(services, endpoints);
    events.extend(generate::slices(services, first, 100_000).into_iter().map(Event::Slice));
    // Slices first, then everything is listed.
    events.rotate_left(2);
    events.push(Event::Service(generate::service(services)));
    let (agent, cold) = Agent::start(events)?;
    println!("  cold load through the agent      {:10.1} ms", ms(cold));
    while let Ok(synced) = agent.done.recv_timeout(Duration::from_secs(2)) {
        black_box(synced);
    }
    let part = 500;
    let start = first + part * generate::SLICE_SIZE;
    let members: Vec<u32> = (start..start + generate::SLICE_SIZE).collect();
    agent.measure(services, part, &members)?;
    agent.handle.stop();
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
