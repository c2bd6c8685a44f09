//! How long to wait before trying again.

use std::time::Duration;

/// Doubling pauses, each between half and the whole of what is due, so that the nodes of a cluster
/// do not come back in step.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause after one more failure.
    pub(super) fn pause(&mut self) -> Duration {
        let due = self.next;
        self.next = (due * 2).min(self.longest);
        jitter(due)
    }

    /// Something worked.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Between half and the whole of `due`.
pub(super) fn jitter(due: Duration) -> Duration {
    due.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(30));
        for due in [1, 2, 4, 8, 16, 30, 30] {
            let pause = backoff.pause();
            assert!(pause >= seconds(due) / 2 && pause <= seconds(due), "{due}: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= seconds(1));
    }
}
