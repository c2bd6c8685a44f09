//! Files that somebody is writing, by the kernel's notices: what they say is not finished before
//! they are closed.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::Event;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};

/// So long nothing was written: nobody will close the file, or not for this.
const SILENCE: Duration = Duration::from_secs(3);
/// Wait no longer for a file that never gets finished.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most files that are kept in mind.
const MAX_FILES: usize = 10_000;

/// Which files are being written.
#[derive(Debug, Default)]
pub(super) struct Writers(Mutex<HashMap<PathBuf, Written>>);

#[derive(Debug, Clone, Copy)]
struct Written {
    first: Instant,
    last: Instant,
}

impl Writers {
    /// Takes note of what the kernel says at `now`.
    pub(super) fn notice(&self, notice: &Event, now: Instant) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match notice.kind {
            EventKind::Modify(ModifyKind::Data(_)) => {
                for path in &notice.paths {
                    if let Some(written) = files.get_mut(path) {
                        written.last = now;
                    } else if files.len() < MAX_FILES {
                        files.insert(path.clone(), Written { first: now, last: now });
                    }
                }
            }
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Remove(_) => {
                for path in &notice.paths {
                    files.remove(path);
                }
            }
            _ => {}
        }
    }

    /// The files that are worth waiting for at `now`.
    pub(super) fn unfinished(&self, now: Instant) -> HashSet<PathBuf> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|_, written| now.saturating_duration_since(written.last) < SILENCE);
        let hopeful = files
            .iter()
            .filter(|(_, written)| now.saturating_duration_since(written.first) < PATIENCE);
        hopeful.map(|(path, _)| path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use notify::event::{DataChange, RemoveKind};

    use super::*;

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

    #[test]
    fn a_file_is_unfinished_until_it_is_closed_or_nothing_comes_any_more() {
        let (writers, begin) = (Writers::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let notice = |kind, at| writers.notice(&Event::new(kind).add_path("a".into()), after(at));
        let unfinished = |at| writers.unfinished(after(at)).len();
        for end in [CLOSE, EventKind::Remove(RemoveKind::File)] {
            notice(WRITE, 0);
            assert_eq!((unfinished(0), unfinished(2)), (1, 1), "{end:?}");
            notice(end, 2);
            assert_eq!(unfinished(2), 0, "{end:?}");
        }
        notice(WRITE, 2);
        notice(WRITE, 4);
        assert_eq!((unfinished(6), unfinished(7)), (1, 0), "silence");
        for at in 10..=39 {
            notice(WRITE, at);
            assert_eq!(unfinished(at), 1, "{at}");
        }
        notice(WRITE, 40);
        assert_eq!(unfinished(40), 0, "never finished");
    }
}
