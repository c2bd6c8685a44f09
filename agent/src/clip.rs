//! Messages that quote input, cut to what a log and a terminal can bear: whoever writes a file or an
//! argument decides how long the quotation is.

use std::borrow::Cow;

/// Most characters of a line.
const MAX_LINE: usize = 2_000;
/// Most lines.
const MAX_LINES: usize = 100;

/// The message with its lines, each at most 2,000 characters long, and no more than 100 of them.
pub fn clip(message: &str) -> String {
    let mut lines = message.lines();
    let mut kept: Vec<_> =
        lines.by_ref().take(MAX_LINES).map(|line| clip_line(line, MAX_LINE)).collect();
    if let more @ 1.. = lines.count() {
        kept.push(format!("… and {more} more lines").into());
    }
    kept.join("\n")
}

/// At most `max` characters of a line. What is left out is in its middle: the beginning says what is
/// wrong, the end what to do.
pub fn clip_line(line: &str, max: usize) -> Cow<'_, str> {
    let start = |count| line.char_indices().nth(count).map(|(start, _)| start);
    if start(max).is_none() {
        return line.into();
    }
    let tail = max / 3;
    let end = line.char_indices().rev().nth(tail.saturating_sub(1)).map_or(0, |(end, _)| end);
    let head = start(max - tail).unwrap_or(line.len());
    format!("{}…{}", &line[..head], &line[end..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_stays_as_it_is() {
        for message in ["", "a", "é\nb", &"é".repeat(MAX_LINE)] {
            assert_eq!(clip(message), message);
        }
    }

    #[test]
    fn beginning_and_end_of_a_long_one_are_kept() {
        assert_eq!(clip_line("abcdéfghij", 10), "abcdéfghij");
        assert_eq!(clip_line("abcdéfghijé", 6), "abcd…jé");
        let long = format!("not valid: {}, correct it", "é".repeat(1_000_000));
        let clipped = clip(&long);
        assert_eq!(clipped.chars().count(), MAX_LINE + 1);
        assert!(clipped.starts_with("not valid: é") && clipped.ends_with("é, correct it"));
        let lines = clip(&"x\n".repeat(1_000_000));
        assert_eq!(lines.lines().count(), MAX_LINES + 1);
        assert!(lines.ends_with("… and 999900 more lines"), "{lines}");
    }
}
