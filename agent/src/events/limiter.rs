//! Keeps Events from becoming a flood: what was said is not repeated for an hour, and nobody's
//! Service can use up what the others may say. Pure; the clock is the caller's.

use std::hash::BuildHasher;
use std::time::Duration;

use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::time::Instant;

use super::{Notice, Regarding};

/// The same notice is not written again sooner.
const REPEAT_AFTER: Duration = Duration::from_secs(3600);
/// Events about one object at once, and the time after which it may have one more.
const PER_OBJECT: Allowance = Allowance { most: 5, refill: Duration::from_secs(300) };
/// The same for all objects together.
const TOTAL: Allowance = Allowance { most: 50, refill: Duration::from_secs(2) };
/// What is remembered. Beyond it everything is forgotten, which [`TOTAL`] makes harmless.
const MAX_REMEMBERED: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Allowance {
    most: u32,
    refill: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: u32,
    /// Up to when refills are counted.
    counted: Instant,
}

impl Bucket {
    fn full(allowance: Allowance, now: Instant) -> Self {
        Self { left: allowance.most, counted: now }
    }

    fn refill(&mut self, allowance: Allowance, now: Instant) {
        while self.left < allowance.most && now - self.counted >= allowance.refill {
            self.left += 1;
            self.counted += allowance.refill;
        }
        if self.left == allowance.most {
            self.counted = now;
        }
    }
}

/// What was written lately.
#[derive(Debug)]
pub(super) struct Limiter {
    said: FxHashMap<u64, Instant>,
    objects: FxHashMap<Regarding, Bucket>,
    total: Bucket,
}

impl Limiter {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            said: FxHashMap::default(),
            objects: FxHashMap::default(),
            total: Bucket::full(TOTAL, now),
        }
    }

    /// Whether `notice` may be written now; if so, it counts.
    pub(super) fn admits(&mut self, notice: &Notice, now: Instant) -> bool {
        let digest = FxBuildHasher.hash_one(notice);
        if self.said.get(&digest).is_some_and(|said| now - *said < REPEAT_AFTER) {
            return false;
        }
        if self.said.len() >= MAX_REMEMBERED {
            self.said.clear();
        }
        if self.objects.len() >= MAX_REMEMBERED {
            self.objects.clear();
        }
        let object = self
            .objects
            .entry(notice.regarding.clone())
            .or_insert_with(|| Bucket::full(PER_OBJECT, now));
        object.refill(PER_OBJECT, now);
        self.total.refill(TOTAL, now);
        if object.left == 0 || self.total.left == 0 {
            return false;
        }
        object.left -= 1;
        self.total.left -= 1;
        self.said.insert(digest, now);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::events::Reason;

    fn notice(service: u32, note: u32) -> Notice {
        let regarding = Regarding {
            kind: "Service",
            namespace: "shop".into(),
            name: service.to_string().into(),
            uid: "".into(),
        };
        Notice::warning(regarding, Reason::RowRefused, note.to_string())
    }

    #[test]
    fn the_same_is_said_once_an_hour() {
        let start = Instant::now();
        let mut limiter = Limiter::new(start);
        assert!(limiter.admits(&notice(1, 1), start));
        assert!(!limiter.admits(&notice(1, 1), start + REPEAT_AFTER - Duration::from_secs(1)));
        assert!(limiter.admits(&notice(1, 1), start + REPEAT_AFTER));
    }

    #[test]
    fn one_service_cannot_use_up_what_the_others_may_say() {
        let start = Instant::now();
        let mut limiter = Limiter::new(start);
        let admitted = |limiter: &mut Limiter, service, notes: std::ops::Range<u32>, at| {
            notes.filter(|note| limiter.admits(&notice(service, *note), at)).count()
        };
        assert_eq!(admitted(&mut limiter, 1, 0..1000, start), 5);
        assert_eq!(admitted(&mut limiter, 2, 0..1000, start), 5);
        let later = start + Duration::from_secs(600);
        assert_eq!(admitted(&mut limiter, 1, 1000..2000, later), 2, "one each five minutes");
        let all: usize = (10..1000).map(|s| admitted(&mut limiter, s, 0..10, later)).sum();
        assert_eq!(all, 48, "50 in all at once");
        let a_day = start + Duration::from_secs(86_400);
        assert_eq!(admitted(&mut limiter, 1, 5000..6000, a_day), 5, "no more is saved up");
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let mut limiter = Limiter::new(start);
        for service in 0..30_000 {
            let at = start + Duration::from_secs(2) * service;
            limiter.admits(&notice(service, 0), at);
        }
        assert!(limiter.said.len() <= MAX_REMEMBERED && limiter.objects.len() <= MAX_REMEMBERED);
    }
}
