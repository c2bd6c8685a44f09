//! Follows one kind of objects: a complete list, then what changes, for ever.
//!
//! Why not `kube::runtime::watcher`: it hands out owned objects decoded from a `Value`-like path of
//! its own, ends a watch with an error for one object that does not decode unless each is wrapped,
//! and keeps the raw list together. This loop needs borrowed decoding from the bytes as they
//! arrive, a format that can be exchanged, and a say in when a silent watch is not believed.
//!
//! ```text
//!            ┌──────────── 410, or a silent resumed watch ───────────┐
//!            v                                                       │
//!   streaming list ─ complete ──> events ── end, cut ──> resume ─────┤
//!     │ not had here                ^                      │ ^       │
//!     v                             └──── first answer ────┘ └ pause ┘
//!   pages ── complete ──> resume
//! ```
//!
//! A position that the server accepts but never moves is no position: after a store was restored
//! from a backup, a version can lie in the future, and the watch stays silent. Servers send a
//! bookmark each minute, so a silent watch is opened again, and if that one is silent too, there
//! is a new list.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::api::{Api, Frames, Refusal, RequestError};
use super::backoff::{Backoff, jitter};
use super::decode::{Change, Format, Raw};
use super::freshness::Freshness;
use super::kinds::{Kind, Listed};
use super::request::{PAGE_SIZE, Query, Request, Verb};
use super::troubles::Troubles;
use crate::model::{Event, ObjectName, Rejection};
use crate::source::complaints::Complaints;

/// The server is asked to end a watch after this long, and up to twice as long.
const SHORTEST_WATCH: Duration = Duration::from_secs(300);
/// Time beyond that after which a watch is not believed to be alive.
const GRACE: Duration = Duration::from_secs(30);
/// The same for servers that send bookmarks, which they do each minute.
const BOOKMARKS_MISSED: Duration = Duration::from_secs(150);
/// Longest silence within a streaming list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// A watch that ends sooner counts as failed.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// Pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time until something that the server does not have, or not for us, is asked for again.
const ABSENT_PAUSE: Duration = Duration::from_secs(1200);

/// What all watches of a process share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) api: Arc<Api>,
    pub(super) freshness: Arc<Freshness>,
    pub(super) troubles: Arc<Troubles>,
    pub(super) log_lines_per_object: u32,
}

/// Whether we can do without a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    /// If the server does not have it, or not for us.
    Optional,
}

/// Follows the objects that a query selects.
#[derive(Debug)]
pub(super) struct Reflector<K, S> {
    kind: K,
    need: Need,
    query: Query,
    sink: S,
    shared: Shared,
    complaints: Complaints,
    backoff: Backoff,
    /// Up to where everything was reported; `None` asks for a list.
    version: Option<String>,
    bookmarks: bool,
}

/// How a round came to its end without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// A list is complete, and nothing watched yet.
    Listed,
    /// The server ended a watch after that long.
    Watched(Duration),
}

impl<K: Kind, S: Fn(Event) + Send + Sync> Reflector<K, S> {
    pub(super) fn new(kind: K, need: Need, query: Query, sink: S, shared: Shared) -> Self {
        Self {
            kind,
            need,
            query,
            sink,
            complaints: Complaints::new(shared.log_lines_per_object),
            shared,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            version: None,
            bookmarks: false,
        }
    }

    /// Never ends; what goes wrong is tried again.
    pub(super) async fn run(mut self) {
        loop {
            let result = self.round().await;
            let away =
                matches!(result, Err(RequestError::Unreachable(_) | RequestError::Silent(_)));
            let pause = match result {
                Ok(Ended::Listed) => continue,
                Ok(Ended::Watched(lived)) => {
                    self.shared.freshness.disconnected(K::WATCHED, None);
                    if lived >= SHORT_LIFE {
                        continue;
                    }
                    self.backoff.pause()
                }
                Err(error) => self.failed(&error),
            };
            debug!(watch = %K::WATCHED, ?pause, "waiting before the next attempt");
            // Whoever finds the server back first tells the others.
            tokio::select! {
                () = sleep(pause) => {}
                () = self.shared.troubles.back(), if away => sleep(jitter(FIRST_PAUSE)).await,
            }
        }
    }

    /// One request that goes on for as long as it can.
    async fn round(&mut self) -> Result<Ended, RequestError> {
        let length = watch_length();
        let Some(version) = &self.version else { return self.list(length).await };
        let frames = self.open(&self.query.watch(version, length)).await?;
        self.follow(frames, length).await
    }

    async fn open(&self, request: &Request) -> Result<Frames, RequestError> {
        let frames = self.shared.api.watch(request).await?;
        self.answered();
        Ok(frames)
    }

    fn answered(&self) {
        self.shared.freshness.connected(K::WATCHED);
        self.shared.troubles.over(self.query.resource);
    }

    /// A streaming list, which becomes the watch; pages where there is none.
    async fn list(&mut self, length: Duration) -> Result<Ended, RequestError> {
        let why = match self.open(&self.query.streaming_list(length)).await {
            Ok(mut frames) => match self.gather(&mut frames).await {
                Ok(()) => return self.follow(frames, length).await,
                // The server overlooked that we want a list, as very old ones do.
                Err(error @ RequestError::Silent(_)) => error,
                Err(error) if has_no_streaming(&error) => error,
                Err(error) => return Err(error),
            },
            Err(error) if has_no_streaming(&error) => error,
            Err(error) => return Err(error),
        };
        debug!(watch = %K::WATCHED, error = %why, "no streaming list; asking for pages");
        self.list_pages().await?;
        Ok(Ended::Listed)
    }

    /// Takes in a streaming list up to its end.
    async fn gather(&mut self, frames: &mut Frames) -> Result<(), RequestError> {
        let format = frames.format();
        let mut listed = Listed::default();
        self.complaints.list_begins();
        while let Some(frame) = frames.next(LIST_SILENCE).await? {
            match change(format, frame)? {
                Change::Put(raw) => {
                    let taken = self.take(format, raw);
                    match taken.object {
                        Some(object) => listed.insert(taken.name, object),
                        None => listed.remove(&taken.name),
                    };
                }
                Change::Deleted(raw) => {
                    listed.remove(&format.identity(raw).object_name());
                }
                Change::Bookmark(raw) => {
                    let mark = format.identity(raw);
                    if mark.ends_list {
                        self.complete(listed, mark.version);
                        return Ok(());
                    }
                }
                Change::Error(raw) => return Err(self.refused(format, raw)),
            }
        }
        Err(RequestError::Unreachable("the list broke off".to_owned()))
    }

    /// Takes in a list page by page; each page's bytes are gone before the next comes.
    async fn list_pages(&mut self) -> Result<(), RequestError> {
        let mut listed = Listed::default();
        self.complaints.list_begins();
        let mut next: Option<String> = None;
        let mut version = None;
        loop {
            let request = self.query.page(PAGE_SIZE, next.as_deref());
            let (format, body) = self.shared.api.page(&request).await?;
            self.answered();
            let page = format
                .page(&body)
                .map_err(|error| RequestError::Unintelligible(error.to_string()))?;
            for raw in page.items {
                let taken = self.take(format, raw);
                if let Some(object) = taken.object {
                    listed.insert(taken.name, object);
                }
            }
            // All pages show the state at the version of the first.
            version = version.or(page.version);
            next = page.next;
            if next.is_none() {
                self.complete(listed, version);
                return Ok(());
            }
        }
    }

    fn complete(&mut self, listed: Listed<K::Object>, version: Option<String>) {
        debug!(watch = %K::WATCHED, objects = listed.len(), ?version, "list complete");
        self.version = version;
        self.complaints.list_is_complete();
        self.shared.freshness.rejected(K::WATCHED, self.complaints.parts());
        (self.sink)(self.kind.listed(listed));
        self.shared.freshness.listed(K::WATCHED);
    }

    /// Reports changes until the watch ends.
    async fn follow(
        &mut self,
        mut frames: Frames,
        length: Duration,
    ) -> Result<Ended, RequestError> {
        let opened = Instant::now();
        let format = frames.format();
        let mut heard = false;
        loop {
            let patience = if self.bookmarks { BOOKMARKS_MISSED } else { length + GRACE };
            match frames.next(patience).await {
                Ok(Some(frame)) => {
                    self.apply(format, frame)?;
                    heard = true;
                    self.backoff.reset();
                    self.shared.freshness.heard(K::WATCHED);
                }
                // Whether the connection or only the watch is dead shows when it is opened again.
                Ok(None) | Err(RequestError::Silent(_)) => {
                    self.doubt(heard, opened.elapsed());
                    return Ok(Ended::Watched(opened.elapsed()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A long watch without a word is not resumed, if the server is one that sends bookmarks.
    fn doubt(&mut self, heard: bool, lived: Duration) {
        if !heard && self.bookmarks && lived >= BOOKMARKS_MISSED {
            debug!(watch = %K::WATCHED, version = ?self.version, "silent; listing again");
            self.version = None;
        }
    }

    fn apply(&mut self, format: Format, frame: &[u8]) -> Result<(), RequestError> {
        match change(format, frame)? {
            Change::Put(raw) => {
                let taken = self.take(format, raw);
                self.advance(taken.version);
                let event = match taken.object {
                    Some(object) => self.kind.put(taken.name, object),
                    None => self.kind.removed(taken.name),
                };
                (self.sink)(event);
            }
            Change::Deleted(raw) => {
                let gone = format.identity(raw);
                let name = gone.object_name();
                self.complaints.tell::<Rejection>(&name, &[]);
                self.advance(gone.version);
                (self.sink)(self.kind.removed(name));
            }
            Change::Bookmark(raw) => {
                self.bookmarks = true;
                self.advance(format.identity(raw).version);
            }
            Change::Error(raw) => return Err(self.refused(format, raw)),
        }
        self.shared.freshness.rejected(K::WATCHED, self.complaints.parts());
        Ok(())
    }

    fn advance(&mut self, version: Option<String>) {
        if version.is_some() {
            self.version = version;
        }
    }

    fn refused(&self, format: Format, raw: Raw<'_>) -> RequestError {
        RequestError::Refused(Box::new(Refusal {
            resource: self.query.resource,
            verb: Verb::Watch,
            status: format.status(raw),
            retry_after: None,
        }))
    }

    /// Decodes and converts an object; what is wrong with it is told, and costs only itself.
    fn take(&mut self, format: Format, raw: Raw<'_>) -> Taken<K::Object> {
        match self.kind.decode(format, raw) {
            Ok((converted, version)) => {
                self.complaints.tell(&converted.name, &converted.rejections);
                Taken { name: converted.name, object: converted.object, version }
            }
            Err(rejections) => {
                self.shared.freshness.decode_failed(K::WATCHED);
                let identity = format.identity(raw);
                let name = identity.object_name();
                self.complaints.tell(&name, &rejections);
                Taken { name, object: None, version: identity.version }
            }
        }
    }

    /// Takes note of an error; how long to wait before the next attempt.
    fn failed(&mut self, error: &RequestError) -> Duration {
        self.shared.freshness.disconnected(K::WATCHED, Some(error.to_string()));
        if let RequestError::Refused(refusal) = error {
            if refusal.is_gone() {
                debug!(watch = %K::WATCHED, %error, "too old to go on; listing again");
                self.version = None;
                return self.backoff.pause();
            }
            if self.need == Need::Optional && matches!(refusal.status.code, 403 | 404) {
                return self.do_without(error);
            }
        }
        if matches!(error, RequestError::Unintelligible(_)) {
            // Where it broke off is not known.
            self.version = None;
        }
        self.shared.troubles.met(self.query.resource, error);
        let asked = match error {
            RequestError::Refused(refusal) => refusal.retry_after.map(|due| due + jitter(due)),
            _ => None,
        };
        self.backoff.pause().max(asked.unwrap_or_default())
    }

    fn do_without(&mut self, error: &RequestError) -> Duration {
        let state = self.shared.freshness.of(K::WATCHED);
        if !state.done_without {
            self.shared.freshness.done_without(K::WATCHED);
            info!("carrying on without {}: {error}", self.query.resource);
        }
        jitter(ABSENT_PAUSE)
    }
}

/// An object as it came out of the wire.
struct Taken<T> {
    name: ObjectName,
    object: Option<T>,
    version: Option<String>,
}

fn change(format: Format, frame: &[u8]) -> Result<Change<'_>, RequestError> {
    format.change(frame).map_err(|error| RequestError::Unintelligible(error.to_string()))
}

/// Whether a streaming list failed in a way that pages may not: servers without it say "invalid",
/// and some cannot serve it at the moment.
fn has_no_streaming(error: &RequestError) -> bool {
    let RequestError::Refused(refusal) = error else { return false };
    matches!(refusal.status.code, 400 | 405 | 422 | 500 | 501 | 504)
}

fn watch_length() -> Duration {
    SHORTEST_WATCH + Duration::from_secs(fastrand::u64(0..=SHORTEST_WATCH.as_secs()))
}
