//! Notices on their way to the API server.

use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::limiter::Limiter;
use super::{Notice, object};
use crate::config::ApiServer;
use crate::model::NodeName;
use crate::source::kube::Writer;

/// Pauses before an Event is tried again that the API server could not take at the moment.
const RETRIES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(20),
    Duration::from_secs(60),
];

/// Writes what a recorder takes, said by the agent on `node`. Ends with the recorder.
pub async fn write(server: ApiServer, node: NodeName, mut notices: Receiver<Notice>) {
    let writer = match Writer::connect(&server).await {
        Ok(writer) => writer,
        // The watches meet the same and say so.
        Err(error) => return debug!(%error, "no Events are written"),
    };
    write_to(&writer, &node, &mut notices).await;
}

pub(super) async fn write_to(writer: &Writer, node: &NodeName, notices: &mut Receiver<Notice>) {
    let mut limiter = Limiter::new(Instant::now());
    let mut warned = false;
    while let Some(notice) = notices.recv().await {
        if !limiter.admits(&notice, Instant::now()) {
            debug!(?notice, "an Event is not written: said before, or too many");
            continue;
        }
        let body = object::event(&notice, node, SystemTime::now());
        for pause in RETRIES.into_iter().map(Some).chain([None]) {
            let result = writer.create_event(object::namespace(&notice), body.clone()).await;
            let Err(error) = result else { break };
            match pause.filter(|_| error.is_passing) {
                Some(pause) => sleep(pause).await,
                None if warned => {
                    debug!(%error, "an Event is lost");
                    break;
                }
                None => {
                    warned = true;
                    warn!(%error, "cannot write Events; this is said once");
                    break;
                }
            }
        }
    }
}
