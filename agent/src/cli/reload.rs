//! Ends the process when its configuration file changes, as kube-proxy does, and on SIGHUP looks at
//! once.

use std::time::Duration;

use tokio::signal::unix::Signal;
use tracing::{error, info};

use crate::clip::clip;
use crate::config::changes::{Changes, Look, Verdict};

/// Pause between two looks. Not by notices of the kernel: a `ConfigMap` arrives by exchange of a
/// folder behind two links, and a look costs next to nothing.
const PERIOD: Duration = Duration::from_secs(5);

/// The configuration file says something else now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the configuration changed: ending, to be started again with it; the rules stay in the kernel"
)]
pub(super) struct ConfigChanged;

/// Comes back only when the process is to be started again.
pub(super) async fn config_changed(mut changes: Changes, mut hangup: Signal) -> ConfigChanged {
    loop {
        let look = tokio::select! {
            _ = hangup.recv() => Look::Now,
            () = tokio::time::sleep(PERIOD) => Look::Patient,
        };
        if look == Look::Now && !changes.has_file() {
            info!("SIGHUP: there is no configuration file to look at; nothing changes");
        }
        match changes.look(look) {
            Verdict::Changed => return ConfigChanged,
            Verdict::Unusable(error) => {
                let error = clip(&error.to_string());
                error!("the configuration file cannot be used; going on as before: {error}");
            }
            Verdict::Effectless if look == Look::Now => {
                info!("SIGHUP: the configuration file means the same as before");
            }
            Verdict::Effectless | Verdict::Same => {}
        }
    }
}
