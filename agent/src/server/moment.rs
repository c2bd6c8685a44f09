//! A point in time, for people and for arithmetic. Values are passed in, so that nothing below reads
//! a clock by itself.

use std::time::{Duration, Instant, SystemTime};

/// A point in time on two clocks: the wall's, to be shown, and one that is never set, to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Shown to people.
    pub wall: SystemTime,
    /// Measured with.
    pub steady: Instant,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// This moment, some time later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self { wall: self.wall + span, steady: self.steady + span }
    }

    /// How long `earlier` is ago; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.steady.saturating_duration_since(earlier.steady)
    }

    /// The wall's time as Go's JSON has it: RFC 3339, in UTC, without trailing zeros.
    pub fn to_rfc3339(self) -> String {
        let text = humantime::format_rfc3339_nanos(self.wall).to_string();
        let digits = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        format!("{digits}Z")
    }

    /// Seconds since the epoch.
    pub fn unix_seconds(self) -> f64 {
        self.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_go_writes_it() {
        for (nanoseconds, expected) in [
            (0, "2026-01-02T03:04:10Z"),
            (500_000_000, "2026-01-02T03:04:10.5Z"),
            (1, "2026-01-02T03:04:10.000000001Z"),
        ] {
            let wall = SystemTime::UNIX_EPOCH + Duration::new(1_767_323_050, nanoseconds);
            let moment = Moment { wall, steady: Instant::now() };
            assert_eq!(moment.to_rfc3339(), expected);
        }
    }
}
