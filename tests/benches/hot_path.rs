//! From event to the kernel's yes, in a network namespace of its own. Prints figures; asserts none.
//!
//! `cargo bench -p sliceproxy-tests --bench hot_path [-- SERVICES ENDPOINTS]`; needs root.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use sliceproxy::engine::Engine;
use sliceproxy::lab::Netns;
use sliceproxy::model::Event;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::ledger::Ledger;
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::program::Program;
use sliceproxy_tests::driven::Driven;
use sliceproxy_tests::generate;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Changes of each kind that are measured.
const ROUNDS: u32 = 400;

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

/// An agent in this namespace.
struct Agent(Driven);

impl Agent {
    fn start(events: Vec<Event>) -> Result<(Self, Duration)> {
        let driven = Driven::start(|done| done)?;
        let took = driven.load(events)?;
        Ok((Self(driven), took))
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
                let (took, synced) = self.0.change(event)?;
                times[kind].push(took);
                operations[kind] = synced.added.len() + synced.deleted.len();
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

/// Somebody who asks for what the kernel holds, again and again.
struct Readings {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU32>,
    thread: JoinHandle<Result<()>>,
}

impl Readings {
    /// Comes back when the first one is done.
    fn start(agent: &Driven) -> Result<Self> {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (first, is_done) = channel();
        let (handle, is_over, count) = (agent.handle.clone(), over.clone(), done.clone());
        let work = move || {
            while !is_over.load(Ordering::Relaxed) {
                block_on(handle.read(|reading, reader| reading.picture(reader)))??;
                count.fetch_add(1, Ordering::Relaxed);
                // Heard once.
                let _ = first.send(());
            }
            Ok(())
        };
        let thread = std::thread::spawn(work);
        is_done.recv()?;
        Ok(Self { over, done, thread })
    }

    /// How many there were.
    fn stop(self) -> Result<u32> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the reading thread panicked")??;
        Ok(self.done.load(Ordering::Relaxed))
    }
}

fn through_agent(services: u32, endpoints: u32) -> Result<Duration> {
    let (agent, cold) = Agent::start(generate::cluster(services, endpoints))?;
    println!("  cold load through the agent      {:10.1} ms", ms(cold));
    let members: Vec<u32> = (endpoints..2 * endpoints).collect();
    agent.measure(1, 0, &members)?;
    println!("  resident memory, generator too   {:10.1} MB", resident_mb());
    println!("  the same beside readings of the kernel, one after the other");
    let readings = Readings::start(&agent.0)?;
    agent.measure(1, 0, &members)?;
    let count = readings.stop()?;
    println!("  resident memory after {count:4} of them {:10.1} MB", resident_mb());
    agent.0.handle.stop();
    Ok(cold)
}

fn one_large(services: u32, endpoints: u32) -> Result<()> {
    let first = services * endpoints;
    let large = generate::slices(services, first, 100_000);
    let mut events = generate::cluster(services, endpoints);
    for event in &mut events {
        // All are in the first listing: what a listing lacks is taken for gone.
        match event {
            Event::AllSlices(slices) => slices.extend(large.iter().cloned()),
            Event::AllServices(all) => all.push(generate::service(services)),
            _ => {}
        }
    }
    let (agent, cold) = Agent::start(events)?;
    println!("  cold load through the agent      {:10.1} ms", ms(cold));
    agent.0.settle(Duration::from_secs(2));
    let part = 500;
    let start = first + part * generate::SLICE_SIZE;
    let members: Vec<u32> = (start..start + generate::SLICE_SIZE).collect();
    agent.measure(services, part, &members)?;
    agent.0.handle.stop();
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
