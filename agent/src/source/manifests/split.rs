//! A file of several YAML documents, one of which is broken: taken apart by its markers, so that
//! the others still count.

use super::Position;

/// A document of a file, and the lines of the file before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part<'t> {
    pub(super) text: &'t str,
    lines_before: u64,
}

impl Part<'_> {
    /// A place in the document as a place in the file.
    pub(super) fn in_file(self, (line, column): Position) -> Position {
        (line + self.lines_before, column)
    }
}

/// The documents of `text`, without those that are only comments and directives. A marker at the
/// beginning of a line ends a document wherever it stands, also inside quotes.
pub(super) fn split(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut begin, mut lines_before) = (Vec::new(), 0, 0);
    let (mut at, mut line, mut idle) = (0, 0, true);
    for row in text.split_inclusive('\n') {
        if is_marker(row) {
            if !idle {
                parts.push(Part { text: &text[begin..at], lines_before });
            }
            (begin, lines_before, idle) = (at, line, row.trim_end() == "---");
        } else {
            idle &= says_nothing(row);
        }
        at += row.len();
        line += 1;
    }
    if !idle {
        parts.push(Part { text: &text[begin..], lines_before });
    }
    parts
}

fn is_marker(row: &str) -> bool {
    row.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn says_nothing(row: &str) -> bool {
    let row = row.trim();
    row.is_empty() || row == "..." || row.starts_with(['#', '%'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn markers_separate_documents() {
        for (text, parts) in [
            ("", vec![]),
            ("# x\n---\n---\n", vec![]),
            ("a: 1", vec![("a: 1", 0)]),
            ("%YAML 1.2\n---\na: 1\n---\nb", vec![("---\na: 1\n", 1), ("---\nb", 3)]),
            ("a: |\n  ---\n---- b\n--- c\nd", vec![("a: |\n  ---\n---- b\n", 0), ("--- c\nd", 3)]),
            ("a\r\n---\r\nb\r\n", vec![("a\r\n", 0), ("---\r\nb\r\n", 1)]),
        ] {
            let found: Vec<_> = split(text).iter().map(|p| (p.text, p.lines_before)).collect();
            assert_eq!(found, parts, "{text:?}");
        }
        let second = split("a\n---\nb\n")[1];
        assert_eq!(second.in_file((2, 5)), (3, 5));
    }
}
