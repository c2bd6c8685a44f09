//! Health checks whose port cannot be had, as notices about their Services.

use sliceproxy_dataplane::kernel::Kernel;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Notice, Reason, Recorder, Regarding};
use crate::driver::Handle;
use crate::server::health_check_node_port::HealthCheckFailure;

/// Records failures for as long as there may be any.
pub async fn report_health_checks<K: Kernel + 'static>(
    mut failures: UnboundedReceiver<HealthCheckFailure>,
    handle: Handle<K>,
    recorder: Recorder,
) {
    while let Some(HealthCheckFailure { service, failure }) = failures.recv().await {
        if !recorder.is_on() {
            continue;
        }
        let asked = handle.ask(move |engine| Regarding::service(engine, &service)).await;
        // Otherwise the Service is gone, or the process is ending.
        if let Ok(Some(regarding)) = asked {
            let note = format!("{failure}; trying again");
            recorder.record(Notice::warning(regarding, Reason::HealthCheck, note));
        }
    }
}
