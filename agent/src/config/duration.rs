//! Durations as Go writes them (`1m30s`, `500ms`, `0s`), because that is how Kubernetes
//! configuration has them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signed span of time in nanoseconds. The sign is kept so that a negative value is reported as
/// such and not as a typing error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(i64);

/// Nanoseconds per unit, the longest unit names first where one begins another.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const SECOND: u64 = 1_000_000_000;

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a duration such as 1s, 500ms or 1m30s")]
pub struct NotADuration;

impl GoDuration {
    /// From whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as i64 * 1_000_000_000)
    }

    /// From nanoseconds.
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Whether the span is zero, which in many fields means "not set".
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The span as the standard library has it; `None` if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    /// Spans beyond 292 years become the longest one there is.
    fn from(span: Duration) -> Self {
        Self(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(NotADuration);
        }
        let mut total: i64 = 0;
        while !rest.is_empty() {
            let (part, after) = leading_part(rest).ok_or(NotADuration)?;
            total = total.checked_add(part).ok_or(NotADuration)?;
            rest = after;
        }
        Ok(Self(if negative { -total } else { total }))
    }
}

/// The first number with its unit in nanoseconds, and what follows.
fn leading_part(text: &str) -> Option<(i64, &str)> {
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_len);
    let unit_len = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_len);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    whole.checked_mul(*scale)?.checked_add(fraction_of(fraction, *scale)?).map(|n| (n, rest))
}

/// `0.FRACTION` of `scale`, rounded down to whole nanoseconds.
fn fraction_of(fraction: &str, scale: i64) -> Option<i64> {
    let mut nanoseconds = 0;
    let mut digit_value = scale;
    for digit in fraction.chars() {
        // Hours have 13 digits: what is below a nanosecond is dropped, as Go does.
        let value = i64::from(digit.to_digit(10)?);
        nanoseconds += value * digit_value / 10;
        digit_value /= 10;
    }
    Some(nanoseconds)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if total == 0 {
            return f.write_str("0s");
        }
        if total < SECOND {
            let (scale, unit) = match total {
                0..1_000 => (1, "ns"),
                1_000..1_000_000 => (1_000, "µs"),
                _ => (1_000_000, "ms"),
            };
            return write!(f, "{}{unit}", decimal(total, scale));
        }
        let (hours, minutes) = (total / (3600 * SECOND), total / (60 * SECOND) % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(total % (60 * SECOND), SECOND))
    }
}

/// `value / scale` in decimal, without trailing zeros; `scale` is a power of ten.
fn decimal(value: u64, scale: u64) -> String {
    let digits = scale.checked_ilog10().unwrap_or(0) as usize;
    let text = format!("{}.{:0digits$}", value / scale, value % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("0s", 0),
            ("1s", 1_000_000_000),
            ("500ms", 500_000_000),
            ("1m30s", 90_000_000_000),
            ("24h0m0s", 86_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("-5s", -5_000_000_000),
            ("+5s", 5_000_000_000),
            ("1h1h", 7_200_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(GoDuration(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in
            ["", "5", "s", "-", ".s", "1 s", "1d", "fast", "1s ", "9223372036854775808ns", "1..5s"]
        {
            assert_eq!(text.parse::<GoDuration>(), Err(NotADuration), "{text:?}");
        }
    }

    #[test]
    fn prints_as_go_prints() {
        for text in
            ["0s", "1ns", "1.5µs", "500ms", "1s", "1.25s", "1m30s", "1m0s", "24h0m0s", "-2h3m0.5s"]
        {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanoseconds in i64::MIN + 1..i64::MAX) {
            let span = GoDuration(nanoseconds);
            proptest::prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}
