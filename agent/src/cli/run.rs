//! `sliceproxy run`: the agent. Puts the parts together and waits for a signal.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use sliceproxy_dataplane::netlink::NetlinkKernel;
use sliceproxy_dataplane::rows::RowKey;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::args::RunArgs;
use super::engine::{start_engine, start_recorder};
use super::reload::config_changed;
use super::{exit, lookout, mistake, output};
use crate::alone::Alone;
use crate::config::changes::Changes;
use crate::config::{Config, Source};
use crate::driver::Handle;
use crate::inlet::Inlet;
use crate::logging;
use crate::node;
use crate::node::sysctl::Made;
use crate::server::Reporting;
use crate::server::admin::{AdminError, AdminSocket};
use crate::source::manifests::Telling;
use crate::source::{addresses, kube, manifests};

/// Events from a source that have not reached the engine yet.
const EVENT_ROOM: usize = 1_024;

/// Runs until SIGTERM or SIGINT; the rules stay in the kernel. `flags` are those that were given.
///
/// # Errors
/// If the agent cannot start; what goes wrong later is logged and tried again.
pub fn run(args: &RunArgs, flags: BTreeMap<String, String>) -> Result<ExitCode> {
    node::heap::be_frugal();
    let loaded = match Config::load(&args.flags) {
        Ok(loaded) => loaded,
        Err(error) => {
            mistake::print(&error.to_string());
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let config = loaded.config;
    if let Some(path) = &args.write_config_to {
        for warning in loaded.warnings {
            eprintln!("warning: {warning}");
        }
        return write_config(&config, path);
    }
    logging::init(config.logging).context("cannot start the log")?;
    for warning in loaded.warnings {
        warn!("{warning}");
    }
    let _alone = if args.init_only { None } else { Some(claim_kernel(&config)?) };
    node::files::raise_limit();
    let made = node::sysctl::apply(&config.conntrack)?;
    node::oom::apply(config.oom_score_adj);
    if args.init_only {
        return end_after_init(made);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let changes = Changes::new(args.flags.clone(), config.clone());
    let result = runtime.block_on(serve(&Arc::new(config), changes, flags));
    // Readers of files and sockets may be blocked; the process ends without waiting for them.
    runtime.shutdown_background();
    result
}

/// What no process could set from here is not held against this one.
fn end_after_init(made: Made) -> Result<ExitCode> {
    let Made { without_rights, elsewhere } = made;
    if without_rights > 0 {
        bail!(
            "kernel settings are not made ({without_rights}), as said above: run --init-only as root, \
             privileged and on the host's network"
        );
    }
    if elsewhere > 0 {
        info!(not_made = elsewhere, "kernel settings are made but for those above: ending");
    } else {
        info!("kernel settings are made: ending, as --init-only says");
    }
    Ok(exit::OK)
}

/// Nothing is changed on this node unless this process may write nftables here, and nobody else does.
fn claim_kernel(config: &Config) -> Result<Alone> {
    // Any question will do: without the right to change tables the kernel answers none.
    let question = RowKey::ClusterIp(Ipv4Addr::UNSPECIFIED.into());
    NetlinkKernel::open(&config.program(&[]))?.contains(&question)?;
    Ok(Alone::claim()?)
}

fn write_config(config: &Config, path: &Path) -> Result<ExitCode> {
    let yaml = config.to_file().to_yaml();
    if path == Path::new("-") {
        output::write_out(&yaml)?;
    } else {
        std::fs::write(path, yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(exit::OK)
}

async fn serve(
    config: &Arc<Config>,
    changes: Changes,
    flags: BTreeMap<String, String>,
) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let admin_socket = admin_socket(config)?;
    let reporting = Reporting::new(config);
    let recorder = start_recorder(config);
    let (handle, thread) = start_engine(config, &reporting, &recorder)?;

    let servers = reporting.serve(config, flags, handle.clone());
    let metrics = reporting.metrics.clone();
    let over = move || metrics.limit_hit("memoryMiB");
    tokio::spawn(node::memory::watch(config.limits.memory_mib, over));
    let inlet = Inlet::new(config, handle.clone(), reporting, recorder);
    tokio::spawn(addresses::follow(
        config.node_ports.clone(),
        inlet.node_addresses(),
        inlet.clone().into_sink(),
    ));
    tokio::spawn(node::fill::watch());
    lookout::start(config);
    let source = start_source(config, inlet.clone());

    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: ending; the rules stay in the kernel"),
        _ = interrupt.recv() => info!("SIGINT: ending; the rules stay in the kernel"),
        failure = servers => return Err(failure.into()),
        new = config_changed(changes, hangup) => return Err(new.into()),
        result = answer(admin_socket, handle.clone()) => {
            result.context("cannot go on answering on the admin socket")?;
        }
        missing = inlet.pod_networks_missing() => return Err(missing.into()),
        result = source => result?,
    }
    // The engine finishes what it has begun. Whoever asks again does not want to wait for that.
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(exit::FAILED.into());
    });
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

/// Runs the configured source; comes back only with an error.
async fn start_source(config: &Config, inlet: Inlet<NetlinkKernel>) -> Result<()> {
    match &config.source {
        Source::Manifests(path) => {
            let (sender, mut events) = mpsc::channel(EVENT_ROOM);
            let freshness = Arc::clone(inlet.freshness());
            let telling = Telling::new(config.limits.log_lines_per_object, freshness);
            tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    inlet.take(event);
                }
            });
            let node = config.node_name.clone();
            manifests::follow(path.clone(), node, sender, telling).await?;
        }
        Source::Api(server) => {
            let settings = kube::Settings::new(config, server.clone());
            let freshness = Arc::clone(inlet.freshness());
            kube::run(&settings, inlet.into_sink(), freshness).await?;
        }
    }
    Ok(())
}
