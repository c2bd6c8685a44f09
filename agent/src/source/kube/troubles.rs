//! Says what is wrong with the API server, once and then once per minute, however many watches
//! meet it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Uri;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::api::RequestError;
use super::request::Resource;

/// The same trouble is not repeated sooner.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// What goes wrong by itself: all watches share a network and credentials, but not every right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Subject {
    Server,
    Credentials,
    Resource(&'static str),
}

/// When what was said, and since when the server is away.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    state: Mutex<State>,
    back: Notify,
}

#[derive(Debug, Default)]
struct State {
    said: FxHashMap<Subject, Instant>,
    away_since: Option<Instant>,
}

impl Troubles {
    /// Something went wrong with `resource` of the server at `address`. Whether it was said aloud.
    pub(super) fn met(&self, address: &Uri, resource: Resource, error: &RequestError) -> bool {
        let subject = match error {
            RequestError::Unreachable(_) | RequestError::Silent(_) => Subject::Server,
            RequestError::Refused(refusal) if refusal.status.code == 401 => Subject::Credentials,
            _ => Subject::Resource(resource.plural),
        };
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if subject == Subject::Server {
            state.away_since.get_or_insert(now);
        }
        let due = state.said.get(&subject).is_none_or(|said| now - *said >= REPEAT_AFTER);
        if !due {
            debug!(%resource, %error, "still in trouble");
            return false;
        }
        state.said.insert(subject, now);
        match subject {
            Subject::Server => warn!(
                "cannot reach the API server at {address}: {error}; rules stay as they are; \
                 trying again"
            ),
            Subject::Credentials | Subject::Resource(_) => warn!("{error}; trying again"),
        }
        true
    }

    /// Until the server answers somebody, after it did not.
    pub(super) async fn back(&self) {
        self.back.notified().await;
    }

    /// The server answered for `resource`.
    pub(super) fn over(&self, resource: Resource) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = state.away_since.take() {
            let seconds = since.elapsed().as_secs();
            state.said.remove(&Subject::Server);
            info!(after_s = seconds, "the API server answers again");
            self.back.notify_waiters();
        }
        state.said.remove(&Subject::Credentials);
        if state.said.remove(&Subject::Resource(resource.plural)).is_some() {
            info!("the API server gives us {resource} again");
        }
    }
}
