//! Numbers and times as people read them.

use std::fmt::Display;
use std::time::Duration;

/// With commas between thousands.
pub(super) fn grouped(number: impl Display) -> String {
    let digits = format!("{number}");
    let head = digits.len() % 3;
    let (first, rest) = digits.split_at(head);
    let groups = rest.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let parts = Some(first.to_owned()).filter(|first| !first.is_empty()).into_iter().chain(groups);
    parts.collect::<Vec<_>>().join(",")
}

/// Three digits and a unit that suits.
pub(super) fn duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        ..10_000.0 => format!("{:.1} ms", micros / 1e3),
        ..1_000_000.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (10_000, "10,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), shown);
        }
    }

    #[test]
    fn times_have_the_unit_that_suits() {
        for (micros, shown) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_500, "1.5 ms"),
            (41_400, "41 ms"),
            (1_230_000, "1.23 s"),
        ] {
            assert_eq!(duration(Duration::from_micros(micros)), shown);
        }
    }
}
