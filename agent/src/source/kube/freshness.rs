//! How fresh what we know is: for health and metrics.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Services.
    Services,
    /// EndpointSlices.
    EndpointSlices,
    /// This node's own Node.
    Node,
    /// ServiceCIDRs.
    ServiceCidrs,
}

impl Watched {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Services, Self::EndpointSlices, Self::Node, Self::ServiceCidrs];

    /// The kind of its objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Services => "Service",
            Self::EndpointSlices => "EndpointSlice",
            Self::Node => "Node",
            Self::ServiceCidrs => "ServiceCIDR",
        }
    }

    /// For labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
            Self::Node => "node",
            Self::ServiceCidrs => "servicecidrs",
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of one watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchState {
    /// Whether the API server is answering at this moment.
    pub connected: bool,
    /// Whether there has been a complete list.
    pub listed: bool,
    /// Time since the last event, bookmark or complete list; `None` before the first.
    pub age: Option<Duration>,
    /// Complete lists, the first included.
    pub lists: u64,
    /// Objects that could not be decoded.
    pub decode_failures: u64,
    /// Parts of objects that are not served at the moment because they are invalid.
    pub rejected_parts: usize,
    /// Carried on without: the API server does not have it, or we may not see it.
    pub done_without: bool,
    /// Why it is not connected, if it is not.
    pub trouble: Option<String>,
}

/// For people.
impl fmt::Display for WatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.connected, self.done_without, self.listed) {
            (_, true, _) => "done without",
            (true, false, _) => "connected",
            (false, false, true) => "disconnected",
            (false, false, false) => "never listed",
        };
        f.write_str(state)?;
        if let Some(age) = self.age {
            write!(f, ", heard {} s ago", age.as_secs())?;
        }
        if let Some(trouble) = &self.trouble {
            write!(f, ": {trouble}")?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Cell {
    state: WatchState,
    heard: Option<Instant>,
}

/// The states of all watches, written by them and read by whoever reports on them.
#[derive(Debug, Default)]
pub struct Freshness {
    cells: Mutex<[Cell; Watched::ALL.len()]>,
}

impl Freshness {
    /// The state of a watch.
    pub fn of(&self, watched: Watched) -> WatchState {
        let cells = self.lock();
        let cell = &cells[watched as usize];
        WatchState { age: cell.heard.map(|heard| heard.elapsed()), ..cell.state.clone() }
    }

    /// Whether Services and slices have both been listed completely.
    pub fn is_listed(&self) -> bool {
        [Watched::Services, Watched::EndpointSlices]
            .into_iter()
            .all(|watched| self.of(watched).listed)
    }

    /// The age of the older of Services and slices: how long ago the cluster was last heard of.
    /// `None` until both have been.
    pub fn age(&self) -> Option<Duration> {
        let ages = [Watched::Services, Watched::EndpointSlices].map(|watched| self.of(watched).age);
        ages.into_iter().collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// A request was answered.
    pub(crate) fn connected(&self, watched: Watched) {
        self.change(watched, |cell| {
            cell.state.connected = true;
            cell.state.done_without = false;
            cell.state.trouble = None;
        });
    }

    /// The connection is gone, or was never there.
    pub(crate) fn disconnected(&self, watched: Watched, trouble: Option<String>) {
        self.change(watched, |cell| {
            cell.state.connected = false;
            cell.state.trouble = trouble;
        });
    }

    /// An event or a bookmark came.
    pub(crate) fn heard(&self, watched: Watched) {
        self.change(watched, |cell| cell.heard = Some(Instant::now()));
    }

    /// A list is complete.
    pub(crate) fn listed(&self, watched: Watched) {
        self.change(watched, |cell| {
            cell.heard = Some(Instant::now());
            cell.state.listed = true;
            cell.state.lists += 1;
        });
    }

    /// An object could not be decoded.
    pub(crate) fn decode_failed(&self, watched: Watched) {
        self.change(watched, |cell| cell.state.decode_failures += 1);
    }

    /// So many parts of objects are not served.
    pub(crate) fn rejected(&self, watched: Watched, parts: usize) {
        self.change(watched, |cell| cell.state.rejected_parts = parts);
    }

    /// We carry on without.
    pub(crate) fn done_without(&self, watched: Watched) {
        self.change(watched, |cell| cell.state.done_without = true);
    }

    fn change(&self, watched: Watched, change: impl FnOnce(&mut Cell)) {
        change(&mut self.lock()[watched as usize]);
    }

    fn lock(&self) -> MutexGuard<'_, [Cell; Watched::ALL.len()]> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
