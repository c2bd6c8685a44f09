//! How answers are printed: tables for people, JSON and YAML for programs.
//!
//! Text from objects may hold anything. Whatever could steer a terminal is written as an escape
//! sequence, in every format.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use comfy_table::{
    Attribute, Cell as TableCell, Color, ColumnConstraint, ContentArrangement, Table, Width,
    presets,
};
use serde::Serialize;
use serde_norway::Value;

use super::args::OutputFormat;

/// Columns where there is no terminal to ask.
const WIDTH: u16 = 100;

/// Columns between two columns of a table.
const GAP: u16 = 2;

/// Characters of a word that is broken only where it must: more than an IPv6 address with port and
/// protocol has. Objects can hold words without end.
const WORD: usize = 60;

/// Prints `value` in that format; `show` lays it out as a table.
///
/// # Errors
/// If it cannot be written. A reader that has gone away is none.
pub(super) fn print<T: Serialize>(
    value: &T,
    format: OutputFormat,
    show: impl FnOnce(&mut Page),
) -> Result<()> {
    let text = match format {
        OutputFormat::Table => {
            let mut page = Page::for_stdout();
            show(&mut page);
            page.text
        }
        OutputFormat::Json => json(value)?,
        OutputFormat::Yaml => yaml(value)?,
    };
    write_out(&text)
}

/// Writes to standard output.
///
/// # Errors
/// As [`print()`].
pub(super) fn write_out(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    // These characters occur inside of strings only.
    let mut safe = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c != '\n' && is_unsafe(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(safe, "\\u{unit:04x}")?;
            }
        } else {
            safe.push(c);
        }
    }
    safe.push('\n');
    Ok(safe)
}

fn yaml<T: Serialize>(value: &T) -> Result<String> {
    let mut value = serde_norway::to_value(value)?;
    clean_strings(&mut value);
    Ok(serde_norway::to_string(&value)?)
}

fn clean_strings(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().any(is_unsafe) => *text = clean(text),
        Value::Sequence(values) => values.iter_mut().for_each(clean_strings),
        // Keys are field names.
        Value::Mapping(fields) => fields.values_mut().for_each(clean_strings),
        _ => {}
    }
}

/// `text` without anything that could steer a terminal.
pub(super) fn clean(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    safe
}

/// Control characters, and those that reorder or hide the text around them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{61c}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// How a text stands out on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    Strong,
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
    /// Whether its lines stay as they are, however narrow the page.
    rigid: bool,
}

impl Cell {
    #[allow(clippy::needless_pass_by_value, reason = "a reference would be noise at every call")]
    pub(super) fn toned(text: impl ToString, tone: Tone) -> Self {
        Self { text: clean(&text.to_string()), tone, rigid: false }
    }

    /// Several texts below each other.
    pub(super) fn lines(lines: impl IntoIterator<Item = String>) -> Self {
        let lines: Vec<String> = lines.into_iter().map(|line| clean(&line)).collect();
        Self { text: lines.join("\n"), tone: Tone::Plain, rigid: false }
    }

    /// Several texts below each other, beside those of other cells: none is broken.
    pub(super) fn rigid_lines(lines: impl IntoIterator<Item = String>) -> Self {
        Self { rigid: true, ..Self::lines(lines) }
    }

    /// The narrowest column that breaks no line, or no word.
    fn min_width(&self) -> usize {
        if !self.rigid {
            return longest_word(&self.text);
        }
        self.text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
    }
}

fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count().min(WORD)).max().unwrap_or_default()
}

/// An ordinary cell.
pub(super) fn cell(text: impl ToString) -> Cell {
    Cell::toned(text, Tone::Plain)
}

/// A number or a word that may be missing.
pub(super) fn optional(text: Option<impl ToString>) -> Cell {
    text.map_or_else(|| cell("-"), cell)
}

/// What is printed for people, as it grows.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    width: u16,
    colours: bool,
}

impl Page {
    fn for_stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        let width = if terminal { Table::new().width() } else { None };
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            text: String::new(),
            width: width.unwrap_or(WIDTH).max(40),
            colours: terminal && !dumb && !forbidden,
        }
    }

    /// A page that nobody looks at in a terminal.
    #[cfg(test)]
    pub(super) fn piped() -> Self {
        Self { text: String::new(), width: WIDTH, colours: false }
    }

    /// What is on it.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A line above what it is about.
    pub(super) fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.toned_line(text, Tone::Strong);
    }

    /// A line, wrapped with a deeper indent where it is too long.
    pub(super) fn line(&mut self, text: &str) {
        self.toned_line(text, Tone::Plain);
    }

    /// A line that stands out.
    pub(super) fn toned_line(&mut self, text: &str, tone: Tone) {
        let text = clean(text);
        let indent = text.len() - text.trim_start().len();
        for line in wrap(&text, usize::from(self.width), indent + 2) {
            let line = self.painted(&line, tone);
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// A table without borders; nothing if it has no rows.
    pub(super) fn table(&mut self, header: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width);
        if self.colours {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(header.iter().map(|t| TableCell::new(t).add_attribute(Attribute::Bold)));
        let mut min_widths: Vec<usize> = header.iter().map(|name| longest_word(name)).collect();
        table.add_rows(rows.into_iter().map(|row| {
            for (width, cell) in min_widths.iter_mut().zip(&row) {
                *width = cell.min_width().max(*width);
            }
            row.into_iter().map(table_cell)
        }));
        if table.is_empty() {
            return;
        }
        for (column, width) in table.column_iter_mut().zip(min_widths) {
            let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(GAP);
            column
                .set_padding((0, GAP))
                .set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
        // Names are read as one word.
        if let Some(first) = table.column_mut(0) {
            first.set_constraint(ColumnConstraint::ContentWidth);
        }
        for line in table.lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    fn painted(&self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Strong => "1",
        };
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn table_cell(cell: Cell) -> TableCell {
    let made = TableCell::new(cell.text);
    match cell.tone {
        Tone::Plain => made,
        Tone::Good => made.fg(Color::Green),
        Tone::Bad => made.fg(Color::Red),
        Tone::Strong => made.add_attribute(Attribute::Bold),
    }
}

/// Breaks `text` at spaces; all lines but the first are indented.
fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let lead = &text[..text.len() - text.trim_start().len()];
    let mut lines = vec![lead.to_owned()];
    let mut fresh = true;
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if fresh || line.chars().count() + 1 + word.chars().count() <= width {
            if !fresh {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(format!("{:indent$}{word}", ""));
        }
        fresh = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{202e}\r\nz";

    #[test]
    fn no_control_character_gets_through_in_any_format() {
        let value = serde_json::json!({ "zone": HOSTILE });
        let mut page = Page::piped();
        page.line(HOSTILE);
        page.table(&["ZONE"], [vec![cell(HOSTILE)]]);
        for text in [json(&value).unwrap(), yaml(&value).unwrap(), page.text] {
            let bad = text.chars().find(|c| *c != '\n' && is_unsafe(*c));
            assert_eq!(bad, None, "{text}");
        }
        let back: serde_json::Value = serde_json::from_str(&json(&value).unwrap()).unwrap();
        assert_eq!(back, value, "JSON loses nothing");
    }

    #[test]
    fn tables_fit_the_page() {
        let mut page = Page::piped();
        let long = "word ".repeat(60);
        page.table(&["NAME", "REASON"], [vec![cell("shop/web"), cell(&long)]]);
        page.line(&format!("  {long}"));
        for line in page.text().lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
        }
        assert!(page.text().starts_with("NAME"));
        let mut empty = Page::piped();
        empty.table(&["NAME"], []);
        assert_eq!(empty.text(), "");
    }

    #[test]
    fn no_address_is_broken_however_narrow_the_page() {
        let address = "[fd00:10:96:1234:5678:9abc:def0:fa5b]:30909";
        let lines = |kind: &str| [format!("{address} {kind}"), format!("10.0.0.1:80 {kind}")];
        let reason = "one endpoint is hinted for this node's zone ".repeat(4);
        let mut page = Page::piped();
        page.width = 60;
        page.table(
            &["SERVICE", "FRONTENDS", "KEY", "REASON"],
            [vec![
                cell("shop/checkout"),
                Cell::rigid_lines(lines("LoadBalancerIP")),
                cell(format!("{address}/TCP slot 1")),
                cell(&reason),
            ]],
        );
        let text = page.text();
        for whole in [format!("{address} LoadBalancerIP "), format!(" {address}/TCP")] {
            assert!(text.contains(&whole), "{whole}:\n{text}");
        }
        assert!(text.lines().nth(2).unwrap().trim_start().starts_with("10.0.0.1:80"), "{text}");
        let mut endless = Page::piped();
        endless.table(&["NAME", "REASON"], [vec![cell("shop/web"), cell("x".repeat(500))]]);
        assert!(endless.text().lines().all(|line| line.len() <= usize::from(WIDTH)));
    }

    #[test]
    fn wrapped_lines_are_indented() {
        assert_eq!(wrap("  one two three", 9, 4), ["  one two", "    three"]);
        assert_eq!(wrap("", 9, 4), [""]);
    }
}
