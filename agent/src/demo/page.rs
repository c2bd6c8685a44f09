//! How the demo looks: headings, wrapped text, tables; colours on a terminal only.

use std::io::{self, IsTerminal, Write};

use comfy_table::{
    Attribute, Cell, Color, ContentArrangement, LineStyle, Table, TableStyle, presets,
};

/// Columns that text and tables may take.
const WIDTH: u16 = 98;

const STYLE: TableStyle =
    presets::UTF8_BORDERS_ONLY.header_separator(LineStyle::new('├', '─', '─', '┤'));

/// Where the demo is written to.
pub(super) struct Page<W> {
    out: W,
    colours: bool,
    step: u32,
}

/// How a cell or a word stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it is.
    Plain,
    /// Good news.
    Good,
    /// Gone, or refused.
    Bad,
    /// Names and headings.
    Strong,
    /// Of less weight.
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Strong => "\x1b[1m",
            Self::Faint => "\x1b[2m",
        }
    }
}

impl Page<io::Stdout> {
    /// Standard output; coloured if it is a terminal and `NO_COLOR` is not set.
    pub(super) fn stdout() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let out = io::stdout();
        let colours = out.is_terminal() && !dumb && !forbidden;
        Self::new(out, colours)
    }
}

impl<W: Write> Page<W> {
    /// Any writer.
    pub(super) fn new(out: W, colours: bool) -> Self {
        Self { out, colours, step: 0 }
    }

    /// The next step's number and title.
    pub(super) fn heading(&mut self, title: &str) -> io::Result<()> {
        self.step += 1;
        let line = self.toned(&format!("{}  {title}", self.step), Tone::Strong);
        writeln!(self.out, "\n{line}\n")?;
        self.out.flush()
    }

    /// A paragraph, wrapped.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        for line in wrap(text, usize::from(WIDTH) - 3) {
            writeln!(self.out, "   {line}")?;
        }
        self.out.flush()
    }

    /// Lines as they are.
    pub(super) fn picture(&mut self, picture: &str) -> io::Result<()> {
        for line in picture.lines() {
            writeln!(self.out, "{}", format!("   {line}").trim_end())?;
        }
        writeln!(self.out)
    }

    /// A table with a header.
    pub(super) fn table(
        &mut self,
        header: &[&str],
        rows: &[Vec<(String, Tone)>],
    ) -> io::Result<()> {
        let mut table = Table::new();
        table
            .load_style(STYLE)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH - 3);
        if self.colours {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(header.iter().map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
        for row in rows {
            table.add_row(row.iter().map(|(text, tone)| cell(text, *tone)));
        }
        for line in table.lines() {
            writeln!(self.out, "   {line}")?;
        }
        self.out.flush()
    }

    /// An empty line.
    pub(super) fn gap(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// A line of its own that stands out.
    pub(super) fn note(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        let text = self.toned(text, tone);
        writeln!(self.out, "   {text}")?;
        self.out.flush()
    }

    fn toned(&self, text: &str, tone: Tone) -> String {
        if self.colours && tone != Tone::Plain {
            format!("{}{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
}

fn cell(text: &str, tone: Tone) -> Cell {
    let cell = Cell::new(text);
    match tone {
        Tone::Plain => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Bad => cell.fg(Color::Red),
        Tone::Strong => cell.add_attribute(Attribute::Bold),
        Tone::Faint => cell.add_attribute(Attribute::Dim),
    }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn written(colours: bool) -> String {
        let mut out = Vec::new();
        let mut page = Page::new(&mut out, colours);
        page.heading("A title").unwrap();
        page.text(&"word ".repeat(60)).unwrap();
        let row = vec![("web".to_owned(), Tone::Strong), ("refused".to_owned(), Tone::Bad)];
        page.table(&["Service", "outcome"], &[row]).unwrap();
        page.note("done", Tone::Good).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn without_colours_there_is_no_escape_in_the_output() {
        assert!(!written(false).contains('\x1b'));
        assert!(written(true).contains('\x1b'));
    }

    #[test]
    fn lines_fit_the_page() {
        for line in written(false).lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
        }
    }
}
