//! Tells the log which parts of objects are not served: once, not at each list or status update.
//! One for each kind of objects, whatever they come from.

use std::fmt::Display;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHasher};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::model::{ObjectName, Rejection};

/// Objects with faults that are remembered. Beyond it everything is forgotten, and told again.
const MAX_OBJECTS: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3600);

/// What was told of which object.
#[derive(Debug)]
pub(super) struct Complaints {
    /// Lines about one object per hour.
    lines_per_hour: usize,
    told: FxHashMap<ObjectName, Told>,
    /// Counts complete lists, and one that is being taken in.
    list: u64,
    /// Parts of objects that are not served at the moment.
    parts: usize,
}

#[derive(Debug)]
struct Told {
    /// Of the rejections told last.
    digest: u64,
    /// How many they were.
    parts: usize,
    /// The list in which the object was seen last.
    list: u64,
    since: Instant,
    lines: usize,
}

impl Complaints {
    pub(super) fn new(lines_per_hour: u32) -> Self {
        let lines_per_hour = usize::try_from(lines_per_hour).unwrap_or(usize::MAX);
        Self { lines_per_hour, told: FxHashMap::default(), list: 0, parts: 0 }
    }

    /// A list begins: what it does not mention is gone.
    pub(super) fn list_begins(&mut self) {
        self.list += 1;
    }

    /// The list is complete.
    pub(super) fn list_is_complete(&mut self) {
        let list = self.list;
        self.told.retain(|_, told| told.list == list);
        self.parts = self.told.values().map(|told| told.parts).sum();
    }

    /// Parts of objects that are not served at the moment.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// These are all rejections of the object. How many lines were written.
    pub(super) fn tell<R: Display + AsRef<Rejection>>(
        &mut self,
        object: &ObjectName,
        rejections: &[R],
    ) -> usize {
        let digest = digest(rejections.iter().map(AsRef::as_ref));
        let now = Instant::now();
        let (parts, list) = (rejections.len(), self.list);
        if let Some(told) = self.told.get_mut(object) {
            told.list = list;
            if told.digest == digest {
                return 0;
            }
            self.parts = self.parts - told.parts + parts;
            (told.digest, told.parts) = (digest, parts);
            if now - told.since >= HOUR {
                (told.since, told.lines) = (now, 0);
            }
        } else if rejections.is_empty() {
            return 0;
        } else {
            if self.told.len() >= MAX_OBJECTS {
                self.told.clear();
                self.parts = 0;
            }
            self.parts += parts;
            self.told.insert(object.clone(), Told { digest, parts, list, since: now, lines: 0 });
        }
        let Some(told) = self.told.get_mut(object) else { return 0 };
        let left = self.lines_per_hour.saturating_sub(told.lines);
        for (i, rejection) in rejections.iter().enumerate() {
            if i < left {
                warn!("{rejection}");
            } else {
                debug!("{rejection}");
            }
        }
        let lines = rejections.len().min(left);
        told.lines += lines;
        lines
    }
}

fn digest<'r>(rejections: impl Iterator<Item = &'r Rejection>) -> u64 {
    let mut hasher = FxHasher::default();
    for rejection in rejections {
        rejection.field.hash(&mut hasher);
        rejection.value.hash(&mut hasher);
        rejection.reason.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn faults(count: usize, value: &str) -> Vec<Rejection> {
        (0..count)
            .map(|i| Rejection {
                kind: "Service",
                object: "shop/web".to_owned(),
                field: format!("spec.ports[{i}]"),
                value: value.to_owned(),
                reason: "wrong".to_owned(),
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_is_told_once_and_anything_else_within_limits() {
        let mut complaints = Complaints::new(5);
        let web = ObjectName::new("shop", "web");
        assert_eq!(complaints.tell::<Rejection>(&web, &[]), 0);
        assert_eq!(complaints.tell(&web, &faults(2, "a")), 2);
        assert_eq!(complaints.tell(&web, &faults(2, "a")), 0, "told already");
        assert_eq!(complaints.tell::<Rejection>(&web, &[]), 0);
        assert_eq!(complaints.tell(&web, &faults(2, "a")), 2, "it was good meanwhile");
        assert_eq!(complaints.tell(&web, &faults(2, "b")), 1, "one line is left");
        assert_eq!(complaints.tell(&web, &faults(2, "c")), 0);
        assert_eq!(complaints.tell(&ObjectName::new("shop", "api"), &faults(1, "a")), 1);
        tokio::time::advance(HOUR).await;
        assert_eq!(complaints.tell(&web, &faults(2, "d")), 2);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut complaints = Complaints::new(0);
        for i in 0..3 * MAX_OBJECTS {
            complaints.tell(&ObjectName::new("shop", &i.to_string()), &faults(1, "a"));
        }
        assert!(complaints.told.len() <= MAX_OBJECTS);
    }

    #[test]
    fn parts_are_those_of_objects_that_are_there() {
        let (web, api) = (ObjectName::new("shop", "web"), ObjectName::new("shop", "api"));
        let mut complaints = Complaints::new(20);
        assert_eq!(complaints.tell(&web, &faults(2, "a")), 2);
        assert_eq!(complaints.tell(&api, &faults(3, "a")), 3);
        assert_eq!(complaints.parts(), 5);
        complaints.tell(&web, &faults(1, "a"));
        assert_eq!(complaints.parts(), 4);
        complaints.list_begins();
        assert_eq!(complaints.tell(&web, &faults(1, "a")), 0, "the same again");
        assert_eq!(complaints.parts(), 4, "the list may still mention the other");
        // It broke off, and is taken again.
        complaints.list_begins();
        complaints.tell(&api, &faults(3, "a"));
        complaints.list_is_complete();
        assert_eq!(complaints.parts(), 3);
        complaints.tell::<Rejection>(&api, &[]);
        assert_eq!(complaints.parts(), 0);
    }
}
