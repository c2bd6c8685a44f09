//! Starts the engine of an agent, with all that observes it.

use std::thread::JoinHandle;

use anyhow::{Context, Result};
use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::netlink::{NetlinkConntrack, NetlinkKernel};
use tokio::sync::mpsc;
use tracing::info;

use crate::config::{Config, Gate, Source};
use crate::conntrack::{self, StaleFlows};
use crate::driver::{self, Handle, Pace};
use crate::engine::{Engine, Settings};
use crate::events::{self, EventObserver, Recorder};
use crate::foreign;
use crate::report::LogObserver;
use crate::server::Reporting;
use crate::server::metrics::Metrics;

/// Events are written where there is an API server to write them to.
pub(super) fn start_recorder(config: &Config) -> Recorder {
    let Source::Api(server) = &config.source else { return Recorder::off() };
    let (recorder, notices) = Recorder::new();
    tokio::spawn(events::write(server.clone(), config.node_name.clone(), notices));
    recorder
}

/// A way to talk to the engine, and its thread.
type Running = (Handle<NetlinkKernel>, JoinHandle<Engine<NetlinkKernel>>);

/// Starts the engine with everybody who observes it. Nothing is written before everything is listed.
pub(super) fn start_engine(
    config: &Config,
    reporting: &Reporting,
    recorder: &Recorder,
) -> Result<Running> {
    let kernel = NetlinkKernel::open(&config.program(&[]))?;
    let own_port = kernel.port();
    let engine = Engine::new(settings(config), kernel)?;
    let mut engine = engine.obeying(config).awaiting_node_port_addresses();
    if config.needs_pod_cidrs() {
        engine = engine.awaiting_program();
    }
    let pace = Pace { min_period: config.min_sync_period, read_back: config.sync_period };
    let (failures, failed) = mpsc::unbounded_channel();
    let told = (reporting.observer(failures), EventObserver::new(recorder.clone()));
    let flows = delete_stale_flows(reporting.metrics.clone())?;
    let (first_sync, in_step) = foreign::InStep::new();
    let observer =
        ((LogObserver::new(config.limits.log_lines_per_object), first_sync), (told, flows));
    let (handle, thread) =
        driver::start(engine, pace, observer).context("cannot start the engine's thread")?;
    tokio::spawn(events::report_health_checks(failed, handle.clone(), recorder.clone()));
    foreign::listen(own_port, in_step, handle.clone())?;
    Ok((handle, thread))
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

/// Flows whose translation is out of date are deleted after each commit that made them so.
fn delete_stale_flows(metrics: Metrics) -> Result<StaleFlows> {
    let report = move |pass: conntrack::Pass| {
        metrics.conntrack_reconciled(pass.family, pass.took, pass.swept.deleted);
    };
    let started = conntrack::start(NetlinkConntrack::open()?, report);
    started.context("cannot start the thread that deletes stale flows")
}
