//! Logs: one line per event on standard error, as text or JSON. Nobody waits for whoever reads them.

mod outlet;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, Logging};
use outlet::Outlet;

/// How long the end of the process waits for the last lines to be read.
const PATIENCE: Duration = Duration::from_secs(1);

static OUTLET: OnceLock<Outlet> = OnceLock::new();

/// Sets logging up for the whole process; the second time it does nothing. What is logged may come
/// out later: [`flush`] before the process ends.
///
/// # Errors
/// If there can be no thread that writes the lines.
pub fn init(logging: Logging) -> io::Result<()> {
    let outlet = Outlet::start(io::stderr(), |lost| {
        tracing::warn!(lost, "log lines are lost: standard error was not read fast enough");
    })?;
    if OUTLET.set(outlet.clone()).is_err() {
        return Ok(());
    }
    panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        say(&format!("the program has a mistake, and ends: {panic}"));
        if backtrace.status() == BacktraceStatus::Captured {
            say(&backtrace.to_string());
        }
        flush();
    }));
    let level = match logging.verbosity {
        0..=1 => LevelFilter::INFO,
        2..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Libraries speak up only when something is wrong, or at the highest verbosity.
    let others = if logging.verbosity > 6 { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let registry = tracing_subscriber::registry().with(targets(level, others));
    let lines = fmt::layer().with_writer(outlet).with_target(false);
    let result = match logging.format {
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    // Somebody set it up before: a test that runs several agents in one process.
    drop(result);
    Ok(())
}

/// Writes a line to standard error as it is, after those that were logged before. It is never lost.
pub fn say(line: &str) {
    match OUTLET.get() {
        Some(outlet) => outlet.push_last(line),
        None => eprintln!("{line}"),
    }
}

/// Waits until everything logged is written, but not for a reader that has stopped reading.
pub fn flush() {
    if let Some(outlet) = OUTLET.get() {
        outlet.flush(PATIENCE);
    }
}

fn targets(ours: LevelFilter, others: LevelFilter) -> Targets {
    Targets::new()
        .with_default(others)
        // Its errors are in ours, which are not repeated at each attempt.
        .with_target("rustls_platform_verifier", LevelFilter::OFF)
        // Warns of watches that went with their folder, as they do whenever a ConfigMap changes.
        .with_target("notify", LevelFilter::ERROR)
        .with_target("sliceproxy", ours)
        .with_target("sliceproxy_dataplane", ours)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_config_map_swap_logs_no_warning_of_the_watching_library() {
        let targets = targets(LevelFilter::INFO, LevelFilter::WARN);
        assert!(!targets.would_enable("notify::inotify", &Level::WARN));
        assert!(targets.would_enable("notify::inotify", &Level::ERROR));
        assert!(targets.would_enable("sliceproxy::source::manifests::follow", &Level::WARN));
    }
}
