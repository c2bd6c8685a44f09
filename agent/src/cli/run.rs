//! `sliceproxy run`: the agent. Puts the parts together and waits for a signal.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::netlink::{NetlinkKernel, Noticed, Watch};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use super::args::RunArgs;
use super::exit;
use crate::config::{Config, Gate, Source};
use crate::driver::{self, Handle, Pace};
use crate::engine::{Engine, Settings};
use crate::logging;
use crate::model::Event;
use crate::report::LogObserver;
use crate::server::Reporting;
use crate::source::{addresses, kube, manifests};

/// Events from a source that have not reached the engine yet.
const EVENT_ROOM: usize = 1_024;
/// Pause before the watch on foreign changes is opened again after an error.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT; the rules stay in the kernel. `flags` are those that were given.
///
/// # Errors
/// If the agent cannot start; what goes wrong later is logged and tried again.
pub fn run(args: &RunArgs, flags: BTreeMap<String, String>) -> Result<ExitCode> {
    let loaded = match Config::load(&args.flags) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let config = loaded.config;
    if let Some(path) = &args.write_config_to {
        return write_config(&config, path);
    }
    logging::init(config.logging);
    for warning in loaded.warnings {
        warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(&config, flags));
    // Readers of files and sockets may be blocked; the process ends without waiting for them.
    runtime.shutdown_background();
    result
}

fn write_config(config: &Config, path: &Path) -> Result<ExitCode> {
    let yaml = config.to_file().to_yaml();
    if path == Path::new("-") {
        print!("{yaml}");
    } else {
        std::fs::write(path, yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(exit::OK)
}

async fn serve(config: &Config, flags: BTreeMap<String, String>) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let program = config.program(&[]);
    let kernel = NetlinkKernel::open(&program)?;
    let own_port = kernel.port();
    let engine = Engine::new(settings(config), kernel)?.awaiting_node_port_addresses();
    let pace = Pace { min_period: config.min_sync_period, read_back: config.sync_period };
    let reporting = Reporting::new(config);
    let (failures, _) = mpsc::unbounded_channel();
    let observer = (LogObserver::default(), reporting.observer(failures));
    let (handle, thread) =
        driver::start(engine, pace, observer).context("cannot start the engine's thread")?;
    watch_foreign_changes(own_port, handle.clone())?;

    let (node_addresses, node_addresses_seen) = watch::channel(None);
    let servers = reporting.serve(config, flags, handle.clone());
    let inlet = Inlet { handle: handle.clone(), node_addresses, reporting };
    tokio::spawn(addresses::follow(
        config.node_ports.clone(),
        node_addresses_seen,
        inlet.clone().into_sink(),
    ));
    let source = start_source(config, inlet);

    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: ending; the rules stay in the kernel"),
        _ = interrupt.recv() => info!("SIGINT: ending; the rules stay in the kernel"),
        failure = servers => return Err(failure.into()),
        result = source => {
            error!("the source of Services and slices ended");
            result?;
        }
    }
    handle.stop();
    if thread.join().is_err() {
        error!("the engine's thread panicked");
        return Ok(ExitCode::from(exit::FAILED));
    }
    Ok(exit::OK)
}

fn settings(config: &Config) -> Settings {
    Settings {
        node: config.node_name.clone(),
        families: families(),
        program: config.program(&[]),
        topology_routing: config.gates.enabled(Gate::TopologyRouting),
        zone_regions: config.zone_regions.clone(),
    }
}

/// IPv6 is served unless it is switched off in this network namespace.
pub(super) fn families() -> Vec<Family> {
    let disabled = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6")
        .map_or(true, |text| text.trim() == "1");
    if disabled {
        info!("IPv6 is switched off in this network namespace: serving IPv4 only");
        return vec![Family::V4];
    }
    Family::ALL.to_vec()
}

/// Takes events in for the engine, and keeps an eye on the Node's addresses.
#[derive(Debug, Clone)]
struct Inlet {
    handle: Handle<NetlinkKernel>,
    node_addresses: watch::Sender<Option<Vec<IpAddr>>>,
    reporting: Reporting,
}

impl Inlet {
    fn take(&self, event: Event) {
        self.reporting.note(&event);
        let node = match &event {
            Event::Node(node) => Some(node.clone()),
            _ => None,
        };
        // The engine ends only when the process does.
        let _ = self.handle.send(event);
        // After the Node itself: once node ports are known, the engine starts.
        if let Some(node) = node {
            let addresses = node.map(|node| node.addresses.clone()).unwrap_or_default();
            self.node_addresses.send_if_modified(|known| {
                let changed = known.as_ref() != Some(&addresses);
                *known = Some(addresses);
                changed
            });
        }
    }

    fn into_sink(self) -> impl Fn(Event) + Clone + Send + Sync + 'static {
        move |event| self.take(event)
    }
}

/// Runs the configured source; comes back only with an error.
async fn start_source(config: &Config, inlet: Inlet) -> Result<()> {
    match &config.source {
        Source::Manifests(path) => {
            let (sender, mut events) = mpsc::channel(EVENT_ROOM);
            tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    inlet.take(event);
                }
            });
            manifests::follow(path.clone(), config.node_name.clone(), sender).await?;
        }
        Source::Api(server) => {
            let settings = kube::Settings::new(config, server.clone());
            kube::run(&settings, inlet.into_sink(), Arc::default()).await?;
        }
    }
    Ok(())
}

/// Somebody else's changes to our tables make the engine look at the kernel again.
fn watch_foreign_changes(own_port: u32, handle: Handle<NetlinkKernel>) -> Result<()> {
    let mut watch = Watch::open(own_port)?;
    let look = move || loop {
        match watch.wait(Duration::from_secs(3600)) {
            Ok(Noticed::Change) => {
                if handle.distrust().is_err() {
                    return;
                }
            }
            Ok(Noticed::TimedOut | Noticed::Woken) => {}
            Err(error) => {
                warn!(%error, "cannot watch nftables for a moment; the periodic look goes on");
                thread::sleep(WATCH_RETRY);
            }
        }
    };
    thread::Builder::new().name("nftables-watch".to_owned()).spawn(look)?;
    Ok(())
}
