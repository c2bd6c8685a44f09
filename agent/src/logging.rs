//! Logs: one line per event on standard error, as text or JSON.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, Logging};

/// Sets logging up for the whole process; the second time it does nothing.
pub fn init(logging: Logging) {
    let level = match logging.verbosity {
        0..=1 => LevelFilter::INFO,
        2..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Libraries speak up only when something is wrong, or at the highest verbosity.
    let others = if logging.verbosity > 6 { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let registry = tracing_subscriber::registry().with(targets(level, others));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let result = match logging.format {
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    // Somebody set it up before: a test that runs several agents in one process.
    drop(result);
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
