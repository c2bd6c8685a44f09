//! `sliceproxy run`: the agent. Puts the parts together and waits for a signal.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::netlink::{NetlinkConntrack, NetlinkKernel};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::args::RunArgs;
use super::exit;
use crate::config::{Config, Gate, Source};
use crate::conntrack::{self, StaleFlows};
use crate::driver::{self, Handle, Pace};
use crate::engine::{Engine, Settings};
use crate::foreign;
use crate::inlet::Inlet;
use crate::logging;
use crate::node;
use crate::report::LogObserver;
use crate::server::Reporting;
use crate::server::admin::{AdminError, AdminSocket};
use crate::server::metrics::Metrics;
use crate::source::{addresses, kube, manifests};

/// Events from a source that have not reached the engine yet.
const EVENT_ROOM: usize = 1_024;

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
    node::sysctl::apply(&config.conntrack)?;
    node::oom::apply(config.oom_score_adj);
    if args.init_only {
        info!("kernel settings are made: ending, as --init-only says");
        return Ok(exit::OK);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(&Arc::new(config), flags));
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

async fn serve(config: &Arc<Config>, flags: BTreeMap<String, String>) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let admin_socket = admin_socket(config)?;
    let program = config.program(&[]);
    let kernel = NetlinkKernel::open(&program)?;
    let own_port = kernel.port();
    let mut engine = Engine::new(settings(config), kernel)?.awaiting_node_port_addresses();
    if config.needs_pod_cidrs() {
        engine = engine.awaiting_program();
    }
    let pace = Pace { min_period: config.min_sync_period, read_back: config.sync_period };
    let reporting = Reporting::new(config);
    let (failures, _) = mpsc::unbounded_channel();
    let (first_sync, in_step) = foreign::InStep::new();
    let observer = (
        (LogObserver::default(), first_sync),
        (reporting.observer(failures), delete_stale_flows(reporting.metrics.clone())?),
    );
    let (handle, thread) =
        driver::start(engine, pace, observer).context("cannot start the engine's thread")?;
    foreign::listen(own_port, in_step, handle.clone())?;

    let servers = reporting.serve(config, flags, handle.clone());
    let inlet = Inlet::new(config, handle.clone(), reporting);
    tokio::spawn(addresses::follow(
        config.node_ports.clone(),
        inlet.node_addresses(),
        inlet.clone().into_sink(),
    ));
    tokio::spawn(node::fill::watch());
    let source = start_source(config, inlet.clone());

    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: ending; the rules stay in the kernel"),
        _ = interrupt.recv() => info!("SIGINT: ending; the rules stay in the kernel"),
        failure = servers => return Err(failure.into()),
        result = answer(admin_socket, handle.clone()) => {
            result.context("cannot go on answering on the admin socket")?;
        }
        missing = inlet.pod_networks_missing() => return Err(missing.into()),
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

/// The socket for `dump`, `diff` and `explain`. Without it traffic is served all the same, unless
/// another agent has it: two of them would undo each other's work.
fn admin_socket(config: &Config) -> Result<Option<AdminSocket>, AdminError> {
    let Some(path) = &config.admin_socket else { return Ok(None) };
    match AdminSocket::bind(path) {
        Ok(socket) => Ok(Some(socket)),
        Err(error @ AdminError::Taken(_)) => Err(error),
        Err(error) => {
            error!(%error, "going on without: dump, diff and explain cannot ask this agent");
            Ok(None)
        }
    }
}

/// Answers questions as long as it is polled; the socket goes with it.
async fn answer(socket: Option<AdminSocket>, handle: Handle<NetlinkKernel>) -> std::io::Result<()> {
    match socket {
        Some(socket) => socket.serve(handle, std::future::pending()).await,
        None => std::future::pending().await,
    }
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

/// Runs the configured source; comes back only with an error.
async fn start_source(config: &Config, inlet: Inlet<NetlinkKernel>) -> Result<()> {
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
            let freshness = Arc::clone(inlet.freshness());
            kube::run(&settings, inlet.into_sink(), freshness).await?;
        }
    }
    Ok(())
}

/// Flows whose translation is out of date are deleted after each commit that made them so.
fn delete_stale_flows(metrics: Metrics) -> Result<StaleFlows> {
    let report = move |pass: conntrack::Pass| {
        metrics.conntrack_reconciled(pass.family, pass.took, pass.swept.deleted);
    };
    let started = conntrack::start(NetlinkConntrack::open()?, report);
    started.context("cannot start the thread that deletes stale flows")
}
