#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use sliceproxy_dataplane::fake::{FakeKernel, SharedKernel};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::Kernel;
use sliceproxy_dataplane::program::Program;

use super::*;
use crate::config::Flags;
use crate::driver::{self, Observer, Pace};
use crate::engine::{Engine, Settings, SyncError, Synced};

const LIMIT: Duration = Duration::from_secs(20);
const PACE: Pace = Pace { min_period: Duration::ZERO, read_back: Duration::from_secs(3600) };

/// Says when the kernel holds what is desired.
struct Reporter(std::sync::mpsc::Sender<Synced>);

impl Observer<SharedKernel> for Reporter {
    fn synced(&mut self, engine: &Engine<SharedKernel>, synced: &Synced, _: Duration) {
        if engine.is_listed() {
            let _ = self.0.send(synced.clone());
        }
    }

    fn failed(&mut self, _: &Engine<SharedKernel>, error: &SyncError, _: Duration) {
        panic!("{error}");
    }
}

fn config() -> Arc<Config> {
    let mut flags = Flags::default();
    flags.source.manifests = Some("/nowhere".into());
    flags.source.node_name = Some("n1".to_owned());
    flags.traffic.detect_local_mode = Some("NodeCIDR".to_owned());
    Arc::new(Config::load(&flags).unwrap().config)
}

fn engine(config: &Config, kernel: SharedKernel) -> Engine<SharedKernel> {
    let settings = Settings {
        node: config.node_name.clone(),
        families: Family::ALL.to_vec(),
        program: config.program(&[]),
        topology_routing: false,
        zone_regions: std::collections::BTreeMap::new(),
    };
    Engine::new(settings, kernel).unwrap()
}

fn node(networks: &[&str]) -> Event {
    let pod_cidrs = networks.iter().map(|text| text.parse().unwrap()).collect();
    Event::Node(Some(Arc::new(Node { pod_cidrs, ..Node::default() })))
}

fn addressed(addresses: &[&str]) -> Event {
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    Event::Node(Some(Arc::new(Node { addresses, ..Node::default() })))
}

fn identities(kernel: &SharedKernel) -> Vec<Option<String>> {
    let state = kernel.clone().read().unwrap();
    Family::ALL.map(|family| state.table(family)?.identity.clone()).to_vec()
}

#[tokio::test]
async fn the_program_follows_the_nodes_pod_networks() {
    let config = config();
    let kernel = SharedKernel::new(FakeKernel::new());
    let engine = engine(&config, kernel.clone()).awaiting_program();
    let (sender, synced) = std::sync::mpsc::channel();
    let (handle, thread) = driver::start(engine, PACE, Reporter(sender)).unwrap();
    let inlet = Inlet::new(&config, handle.clone(), Reporting::new(&config), Recorder::off());

    inlet.take(Event::AllServices(vec![]));
    inlet.take(Event::AllSlices(vec![]));
    inlet.take(Event::Node(None));
    inlet.take(node(&[]));
    // Answered after all of the above was taken in.
    assert!(!handle.ask(|engine| engine.is_listed()).await.unwrap());
    assert_eq!(identities(&kernel), [None, None], "no program without pod networks");

    let wanted = |networks: &[&str]| {
        let networks: Vec<IpNetwork> = networks.iter().map(|text| text.parse().unwrap()).collect();
        let program = config.program(&networks);
        Family::ALL.map(|family| Some(Program::new(family, &program).identity())).to_vec()
    };
    for (networks, replaced) in [
        (["10.244.1.0/24", "fd00:1::/64"], vec![Family::V4, Family::V6]),
        (["10.244.7.0/24", "fd00:1::/64"], vec![Family::V4]),
    ] {
        inlet.take(node(&networks));
        let done = loop {
            let done = synced.recv_timeout(LIMIT).expect("nothing was written");
            if done.transactions > 0 {
                break done;
            }
        };
        assert_eq!((done.transactions, &done.installed), (1, &replaced));
        assert_eq!(identities(&kernel), wanted(&networks));
    }
    let commits = kernel.lock().commits();
    inlet.take(node(&[]));
    inlet.take(Event::Node(None));
    handle.ask(|_| ()).await.unwrap();
    handle.stop();
    thread.join().unwrap();
    assert_eq!(kernel.lock().commits(), commits, "what its pods use is not forgotten");
}

#[tokio::test]
async fn node_addresses_outlive_the_node_object() {
    let config = config();
    let engine = engine(&config, SharedKernel::new(FakeKernel::new()));
    let (sender, _) = std::sync::mpsc::channel();
    let (handle, _) = driver::start(engine, PACE, Reporter(sender)).unwrap();
    let inlet = Inlet::new(&config, handle, Reporting::new(&config), Recorder::off());
    let mut addresses = inlet.node_addresses();
    let mut news = || {
        let has_changed = addresses.has_changed().unwrap();
        let known = addresses.borrow_and_update().clone();
        has_changed.then_some(known.map(|list| list.iter().map(ToString::to_string).collect()))
    };
    let list =
        |texts: &[&str]| Some(Some(texts.iter().map(ToString::to_string).collect::<Vec<String>>()));
    for (event, expected) in [
        (Event::Node(None), list(&[])),
        (addressed(&["172.18.0.11", "fd00::b"]), list(&["172.18.0.11", "fd00::b"])),
        (Event::Node(None), None),
        (addressed(&[]), None),
        (addressed(&["172.18.0.11", "fd00::b"]), None),
        (addressed(&["172.18.0.12"]), list(&["172.18.0.12"])),
    ] {
        inlet.take(event.clone());
        assert_eq!(news(), expected, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pod_networks_that_do_not_come_end_the_wait_with_a_reason() {
    let config = config();
    let engine = engine(&config, SharedKernel::new(FakeKernel::new()));
    let (sender, _) = std::sync::mpsc::channel();
    let (handle, _) = driver::start(engine, PACE, Reporter(sender)).unwrap();
    let inlet = Inlet::new(&config, handle, Reporting::new(&config), Recorder::off());
    let missing = inlet.pod_networks_missing_for(Duration::from_secs(300)).await.to_string();
    assert!(missing.contains("\"n1\"") && missing.contains("300 s"), "{missing}");
    inlet.take(node(&["10.244.1.0/24"]));
    let wait = inlet.pod_networks_missing_for(Duration::from_secs(300));
    assert!(tokio::time::timeout(Duration::from_secs(3600), wait).await.is_err());
}
