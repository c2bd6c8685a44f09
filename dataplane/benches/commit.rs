//! What a commit costs, user space and kernel together: 10,000 Services with 10 endpoints each,
//! then single changes. Needs root, for a network namespace of its own.
//!
//! `cargo bench -p sliceproxy-dataplane --bench commit [-- SERVICES ENDPOINTS]`
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use sliceproxy_dataplane::frontend::{Endpoint, Family, Frontend, Protocol};
use sliceproxy_dataplane::kernel::Kernel as _;
use sliceproxy_dataplane::netlink::{NetlinkKernel, Noticed, Watch};
use sliceproxy_dataplane::program::{Program, ProgramConfig};
use sliceproxy_dataplane::rows::{Chain, Row, RowKey, Verdict};
use sliceproxy_dataplane::transaction::Transaction;

const ROUNDS: u32 = 501;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let services = numbers.next().unwrap_or(10_000);
    let endpoints = numbers.next().unwrap_or(10);
    // The process has one thread, and the namespace goes with it.
    unshare(CloneFlags::CLONE_NEWNET).expect("root, to make a network namespace");
    let mut kernel = NetlinkKernel::open(&ProgramConfig::default()).unwrap();
    load(&mut kernel, services, endpoints);
    read(&mut kernel);
    replace(&mut kernel, services);
    join_and_leave(&mut kernel, services, endpoints);
    println!("with a watch on changes:");
    let mut watch = Watch::open(kernel.port()).unwrap();
    replace(&mut kernel, services);
    assert_eq!(watch.wait(Duration::ZERO).unwrap(), Noticed::TimedOut);
    load(&mut kernel, services, endpoints);
    println!("after the load: {:?}", watch.wait(Duration::ZERO).unwrap());
}

fn frontend(service: u32) -> Frontend {
    Frontend {
        address: (0x0a60_0000 + service).to_be_bytes().into(),
        protocol: Protocol::Tcp,
        port: 80,
    }
}

fn endpoint(number: u32) -> Endpoint {
    Endpoint { address: (0x0af4_0000 + number).to_be_bytes().into(), port: 8080 }
}

fn goto(service: u32, endpoints: u32) -> Row {
    Row::service(frontend(service), Verdict::Goto(Chain::Pick(endpoints)))
}

fn load(kernel: &mut NetlinkKernel, services: u32, endpoints: u32) {
    let program = Program::new(Family::V4, &ProgramConfig::default());
    let chains = [endpoints, endpoints + 1].map(Chain::Pick);
    let mut transaction = Transaction {
        new_chains: chains.map(|chain| (Family::V4, program.row_chain(chain, None))).to_vec(),
        installed: vec![program],
        ..Transaction::default()
    };
    for service in 0..services {
        transaction.added.push(goto(service, endpoints));
        let slots = 0..endpoints;
        transaction
            .added
            .extend(slots.map(|slot| Row::backend(frontend(service), slot, endpoint(slot))));
    }
    let start = Instant::now();
    let cost = kernel.commit(&transaction).unwrap();
    let time = start.elapsed();
    println!(
        "load {} rows: {time:.1?} ({} messages, {} bytes)",
        cost.elements, cost.messages, cost.bytes
    );
}

fn read(kernel: &mut NetlinkKernel) {
    let start = Instant::now();
    let rows = kernel.read().unwrap().rows().count();
    println!("read {rows} rows: {:.1?}", start.elapsed());
}

fn replace(kernel: &mut NetlinkKernel, services: u32) {
    let times = (0..ROUNDS).map(|round| {
        let row = Row::backend(frontend(round % services), 0, endpoint(1000 + round));
        timed(
            kernel,
            &Transaction { deleted: vec![row.key], added: vec![row], ..Transaction::default() },
        )
    });
    println!("replace one endpoint: median {:.1?}", median(times.collect()));
}

fn join_and_leave(kernel: &mut NetlinkKernel, services: u32, endpoints: u32) {
    let (mut joins, mut leaves) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let service = round % services;
        let (few, many) = (goto(service, endpoints), goto(service, endpoints + 1));
        let last = Row::backend(frontend(service), endpoints, endpoint(endpoints));
        joins.push(timed(
            kernel,
            &Transaction {
                deleted: vec![few.key],
                added: vec![many, last],
                ..Transaction::default()
            },
        ));
        let deleted: Vec<RowKey> = vec![many.key, last.key];
        leaves.push(timed(
            kernel,
            &Transaction { deleted, added: vec![few], ..Transaction::default() },
        ));
    }
    println!("an endpoint joins: median {:.1?}", median(joins));
    println!("an endpoint leaves: median {:.1?}", median(leaves));
}

fn timed(kernel: &mut NetlinkKernel, transaction: &Transaction) -> Duration {
    let start = Instant::now();
    kernel.commit(transaction).unwrap();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
