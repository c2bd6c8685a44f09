//! Which region a zone is in: a slice names zones only. One Node is looked up per zone that was
//! never seen before, metadata only. Watching all Nodes would cost the API server more than the
//! slices save.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashSet;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::api::{Api, RequestError};
use super::backoff::{Backoff, jitter};
use super::request::Query;
use crate::model::{Event, Region, Slice, Zone, ZoneRegions};
use crate::wire;

/// Most zones that are looked up. Whoever may write slices can name as many as they like.
const MAX_ZONES: usize = 256;
/// Pauses after an error.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// Pauses after an answer without a region: no Node there yet, or none with a region.
const FIRST_REPEAT: Duration = Duration::from_secs(30);
const LONGEST_REPEAT: Duration = Duration::from_secs(3600);
/// Pause after the answer that we may not know.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(1200);

/// What is noticed of zones in passing events.
#[derive(Debug)]
enum News {
    /// A zone was named.
    Zone(Zone),
    /// This node's labels tell.
    Known(Zone, Region),
}

/// Notices zones in events. Cheap for those seen before.
#[derive(Debug, Clone)]
pub(super) struct Zones {
    seen: Arc<Mutex<FxHashSet<Zone>>>,
    news: UnboundedSender<News>,
}

impl Zones {
    /// Looks for zones in `event`.
    pub(super) fn notice(&self, event: &Event) {
        match event {
            Event::Slice(slice) => self.notice_slices(std::slice::from_ref(slice)),
            Event::AllSlices(slices) => self.notice_slices(slices),
            Event::Node(Some(node)) => {
                let Some(zone) = &node.zone else { return };
                match &node.region {
                    Some(region) => self.send(News::Known(zone.clone(), region.clone())),
                    None => self
                        .see(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner), zone),
                }
            }
            _ => {}
        }
    }

    fn notice_slices(&self, slices: &[Arc<Slice>]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for endpoint in slices.iter().flat_map(|slice| &slice.endpoints) {
            if let (Some(zone), None) = (&endpoint.zone, &endpoint.region) {
                self.see(&mut seen, zone);
            }
        }
    }

    fn see(&self, seen: &mut FxHashSet<Zone>, zone: &Zone) {
        if seen.contains(zone) || seen.len() > MAX_ZONES {
            return;
        }
        seen.insert(zone.clone());
        if seen.len() > MAX_ZONES {
            warn!(
                "more than {MAX_ZONES} zones; the regions of further ones are not looked up; \
                   name them in zoneRegions"
            );
        } else if is_label_value(&zone.0) {
            self.send(News::Zone(zone.clone()));
        }
    }

    fn send(&self, news: News) {
        // The look-up ends only with the process.
        let _ = self.news.send(news);
    }
}

/// Only such a zone can be the label of a Node. The API server would refuse to select by others,
/// and a comma in one would be another selector.
fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| inner(*b))
}

/// A zone whose region is not known yet.
#[derive(Debug)]
struct Unknown {
    due: Instant,
    /// After errors.
    retry: Backoff,
    /// After answers.
    repeat: Backoff,
}

impl Unknown {
    fn new() -> Self {
        Self {
            due: Instant::now(),
            retry: Backoff::new(FIRST_RETRY, LONGEST_RETRY),
            repeat: Backoff::new(FIRST_REPEAT, LONGEST_REPEAT),
        }
    }
}

/// Looks regions up, one zone at a time.
#[derive(Debug)]
pub(super) struct Lookups<S> {
    api: Arc<Api>,
    sink: S,
    news: UnboundedReceiver<News>,
    unknown: BTreeMap<Zone, Unknown>,
    regions: ZoneRegions,
    forbidden_told: bool,
}

/// The zones in `configured` are never looked up.
pub(super) fn lookups<S: Fn(Event)>(
    api: Arc<Api>,
    configured: &ZoneRegions,
    sink: S,
) -> (Zones, Lookups<S>) {
    let (sender, news) = unbounded_channel();
    let seen = Arc::new(Mutex::new(configured.keys().cloned().collect()));
    let lookups = Lookups {
        api,
        sink,
        news,
        unknown: BTreeMap::new(),
        regions: ZoneRegions::new(),
        forbidden_told: false,
    };
    (Zones { seen, news: sender }, lookups)
}

impl<S: Fn(Event)> Lookups<S> {
    /// Never ends.
    pub(super) async fn run(mut self) {
        loop {
            let next = self.unknown.iter().min_by_key(|(_, unknown)| unknown.due);
            let next = next.map(|(zone, unknown)| (zone.clone(), unknown.due));
            let due = async {
                match &next {
                    Some((_, due)) => sleep_until(*due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(news) = self.news.recv() => self.take(news),
                () = due => {
                    if let Some((zone, _)) = next {
                        self.look_up(zone).await;
                    }
                }
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Zone(zone) if self.regions.contains_key(&zone) => {}
            News::Zone(zone) => {
                self.unknown.entry(zone).or_insert_with(Unknown::new);
            }
            News::Known(zone, region) => self.learn(zone, region),
        }
    }

    fn learn(&mut self, zone: Zone, region: Region) {
        self.unknown.remove(&zone);
        if self.regions.get(&zone) != Some(&region) {
            debug!(%zone, %region, "a zone's region");
            self.regions.insert(zone, region);
            (self.sink)(Event::ZoneRegions(self.regions.clone()));
        }
    }

    async fn look_up(&mut self, zone: Zone) {
        let answer = self.ask(&zone).await;
        let Some(unknown) = self.unknown.get_mut(&zone) else { return };
        let pause = match answer {
            Ok(Some(region)) => return self.learn(zone, region),
            Ok(None) => unknown.repeat.pause(),
            Err(error) if is_forbidden(&error) => {
                if !std::mem::replace(&mut self.forbidden_told, true) {
                    warn!(
                        "regions of zones stay unknown, and count as anywhere: {error}; or name \
                           them in zoneRegions"
                    );
                }
                jitter(FORBIDDEN_PAUSE)
            }
            Err(error) => {
                debug!(%zone, %error, "region not found out yet");
                unknown.retry.pause()
            }
        };
        unknown.due = Instant::now() + pause;
    }

    async fn ask(&self, zone: &Zone) -> Result<Option<Region>, RequestError> {
        let (format, body) = self.api.metadata(&Query::nodes_in(&zone.0).page(1, None)).await?;
        let page = format.page(&body)?;
        let Some(first) = page.items.first() else { return Ok(None) };
        let node: wire::Node<'_> = format.object(*first)?;
        Ok(node.metadata.labels.region.as_deref().and_then(Region::new))
    }
}

fn is_forbidden(error: &RequestError) -> bool {
    matches!(error, RequestError::Refused(refusal) if refusal.status.code == 403)
}
