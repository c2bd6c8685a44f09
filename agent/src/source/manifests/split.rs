//! A file of several documents, one of which is broken: taken apart by what documents begin with,
//! so that the others still count.

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

/// The JSON documents of `text`: each begins with a brace at the beginning of a line, as both one
/// document per line and what `jq` and `kubectl` write do.
pub(super) fn split_json(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut begin, mut lines_before, mut at) = (Vec::new(), 0, 0, 0);
    for (line, row) in (0..).zip(text.split_inclusive('\n')) {
        if row.starts_with('{') && at > 0 {
            parts.push(Part { text: &text[begin..at], lines_before });
            (begin, lines_before) = (at, line);
        }
        at += row.len();
    }
    parts.push(Part { text: &text[begin..], lines_before });
    parts
}

/// The YAML documents of `text`, without those that are only comments and directives. A marker at the
/// beginning of a line ends a document wherever it stands, also inside quotes.
pub(super) fn split_yaml(text: &str) -> Vec<Part<'_>> {
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
            let found: Vec<_> = split_yaml(text).iter().map(|p| (p.text, p.lines_before)).collect();
            assert_eq!(found, parts, "{text:?}");
        }
        let second = split_yaml("a\n---\nb\n")[1];
        assert_eq!(second.in_file((2, 5)), (3, 5));
    }
    #[test]
    fn a_brace_begins_a_line_and_a_json_document() {
        for (text, parts) in [
            ("", vec![("", 0)]),
            ("{}\n{}\n", vec![("{}\n", 0), ("{}\n", 1)]),
            ("{\n  \"a\": {\n  }\n}\n{}", vec![("{\n  \"a\": {\n  }\n}\n", 0), ("{}", 4)]),
            ("{} {}\n{}", vec![("{} {}\n", 0), ("{}", 1)]),
        ] {
            let found: Vec<_> = split_json(text).iter().map(|p| (p.text, p.lines_before)).collect();
            assert_eq!(found, parts, "{text:?}");
        }
    }
}
