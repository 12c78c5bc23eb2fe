//! The table printer of answers: text as wide as the terminal, JSON, CSV and GitHub's Markdown.
//!
//! A command makes an [`Answer`] and knows nothing of its form. Text in a pipe has no colours and nothing is cut off, so that
//! programs can read it; on a terminal the widest column of text gives way.

pub(crate) use crate::report::table::count;
use serde_json::{Map, Value};

use super::demangle::brief;
use crate::terminal::{json, lines, printable};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Number(u64),
    /// It is shown with its sign, also if positive.
    Delta(i64),
    /// It is a part of a whole, in percent.
    Share(f64),
    Seconds(std::time::Duration),
    Nothing,
}

macro_rules! cell_of {
    ($($of:ty: $value:ident => $cell:expr;)*) => {$(
        impl From<$of> for Cell {
            fn from($value: $of) -> Cell {
                $cell
            }
        }
    )*};
}

cell_of! {
    u64: number => Cell::Number(number);
    usize: number => Cell::Number(number as u64);
    String: text => Cell::Text(text);
    &String: text => Cell::Text(text.clone());
    &str: text => Cell::Text(text.to_owned());
    Option<u64>: number => number.map_or(Cell::Nothing, Cell::Number);
    Option<String>: text => text.map_or(Cell::Nothing, Cell::Text);
}

/// A row of numbers, texts and cells.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::audit::table::Cell::from($cell)),*] };
}
pub(crate) use row;

impl Cell {
    /// A number of bytes, which is negative only where the linker took some out.
    pub(crate) fn bytes(bytes: i64) -> Cell {
        u64::try_from(bytes).map_or(Cell::Delta(bytes), Cell::Number)
    }

    pub(crate) fn share(part: i64, whole: u64) -> Cell {
        if whole == 0 { Cell::Nothing } else { Cell::Share(part as f64 * 100.0 / whole as f64) }
    }

    /// The form of the value for a person.
    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => printable(text).into_owned(),
            Cell::Number(n) => count(*n),
            Cell::Delta(0) => "0".to_owned(),
            Cell::Delta(n) => format!("{}{}", if *n < 0 { '-' } else { '+' }, count(n.unsigned_abs())),
            Cell::Share(p) => format!("{p:.1}%"),
            Cell::Seconds(time) => format!("{:.2}", time.as_secs_f64()),
            Cell::Nothing => String::new(),
        }
    }

    /// The form of the value for a program.
    fn plain(&self) -> String {
        match self {
            Cell::Number(n) => n.to_string(),
            Cell::Delta(n) => n.to_string(),
            Cell::Share(p) => format!("{p:.4}"),
            Cell::Seconds(time) => format!("{:.4}", time.as_secs_f64()),
            Cell::Text(text) => printable(text).into_owned(),
            Cell::Nothing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Number(n) => Value::from(*n),
            Cell::Delta(n) => Value::from(*n),
            Cell::Share(p) => Value::from(*p),
            Cell::Seconds(time) => Value::from(time.as_secs_f64()),
            Cell::Nothing => Value::Null,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Cell::Text(_))
    }
}

/// A table. Every row has a cell for each column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// The name of the table in JSON.
    pub(crate) name: &'static str,
    /// A line over it; empty for none.
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The number of rows that people see; `None`: all.
    pub(crate) shown: Option<usize>,
    /// The sum of the rows that are not shown, if there are some.
    pub(crate) rest: Option<Vec<Cell>>,
    pub(crate) total: Option<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(name: &'static str, title: impl Into<String>, columns: &[&'static str]) -> Table {
        Table { name, title: title.into(), columns: columns.to_vec(), ..Table::default() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table without a column, the last one of the name.
    pub(crate) fn without(mut self, column: &str) -> Table {
        if let Some(at) = self.columns.iter().rposition(|c| *c == column) {
            self.columns.remove(at);
            self.rows.iter_mut().chain(&mut self.total).for_each(|row| drop(row.remove(at)));
        }
        self
    }

    /// Show at most `most` rows; what the others come to, where a column can be added up, is a row of its own.
    pub(crate) fn limit(&mut self, most: Option<usize>) {
        let Some(most) = most.filter(|n| *n < self.rows.len()) else { return };
        self.shown = Some(most);
        let hidden = self.rows.get(most..).unwrap_or(&[]);
        let mut rest = Vec::new();
        // In the widest column of text.
        let length = |column: usize| {
            let texts = self.rows.iter().filter_map(|r| r.get(column)).filter(|c| c.is_text());
            texts.map(|c| c.shown().chars().count()).max()
        };
        let widest = (0..self.columns.len()).rev().max_by_key(|c| length(*c));
        for column in 0..self.columns.len() {
            let cells = hidden.iter().filter_map(|row| row.get(column));
            let mut sum = Cell::Nothing;
            for cell in cells {
                sum = match (sum, cell) {
                    (Cell::Nothing, Cell::Text(_)) | (Cell::Text(_), _) => "".into(),
                    (Cell::Nothing, other) => other.clone(),
                    (Cell::Number(a), Cell::Number(b)) => Cell::Number(a.saturating_add(*b)),
                    (Cell::Delta(a), Cell::Delta(b)) => Cell::Delta(a.saturating_add(*b)),
                    (Cell::Share(a), Cell::Share(b)) => Cell::Share(a + b),
                    (sum, _) => sum,
                };
            }
            if sum.is_text() && widest == Some(column) {
                sum = Cell::Text(format!("… and {} more", count(hidden.len() as u64)));
            }
            rest.push(sum);
        }
        self.rest = Some(rest);
    }

    fn visible(&self) -> impl Iterator<Item = &Vec<Cell>> {
        self.rows.iter().take(self.shown.unwrap_or(usize::MAX)).chain(&self.rest).chain(&self.total)
    }

    /// Whether a column is of text: that is left-aligned and may be cut.
    fn is_text(&self, column: usize) -> bool {
        self.rows.iter().any(|r| r.get(column).is_some_and(Cell::is_text))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Lines before the tables, for people.
    pub(crate) lines: Vec<String>,
    pub(crate) tables: Vec<Table>,
    /// These lines follow the tables, for a person.
    pub(crate) notes: Vec<String>,
    /// These values are only in the forms for programs.
    pub(crate) facts: Vec<(&'static str, Value)>,
    /// Whether the exit status is 1.
    pub(crate) failed: bool,
    /// The text of a format that is not made of the tables.
    pub(crate) document: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
    Csv,
    Markdown,
    /// The command makes the whole text by itself.
    Document(DocumentFormat),
}

/// A format of other tools that one command alone writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentFormat {
    OpenVex,
    CycloneDx,
    Dot,
    Folded,
    Sarif,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Screen {
    /// It is counted in characters; `None` means no limit.
    pub(crate) width: Option<usize>,
    pub(crate) colours: bool,
}

impl Answer {
    pub(crate) fn text(&self, format: Format, screen: Screen) -> String {
        match format {
            Format::Table => self.plain(screen),
            Format::Json => self.json(),
            Format::Csv => self.csv(),
            Format::Markdown => self.markdown(),
            Format::Document(_) => self.document.clone(),
        }
    }

    fn plain(&self, screen: Screen) -> String {
        let mut blocks: Vec<String> = Vec::new();
        blocks.extend((!self.lines.is_empty()).then(|| lines(&self.lines.join("\n")).into_owned() + "\n"));
        blocks.extend(self.tables.iter().filter(|t| !t.rows.is_empty()).map(|t| plain(t, screen)));
        blocks.extend((!self.notes.is_empty()).then(|| lines(&self.notes.join("\n")).into_owned() + "\n"));
        blocks.join("\n")
    }

    fn json(&self) -> String {
        let mut object = Map::new();
        for (name, value) in &self.facts {
            object.insert((*name).to_owned(), value.clone());
        }
        for table in &self.tables {
            let row = |cells: &Vec<Cell>| {
                let pairs = table.columns.iter().zip(cells);
                Value::Object(pairs.map(|(c, cell)| (key(c), cell.json())).collect())
            };
            object.insert(table.name.to_owned(), table.rows.iter().map(row).collect());
        }
        document(&Value::Object(object))
    }

    /// The first table: a file of values has one kind of row.
    fn csv(&self) -> String {
        let Some(table) = self.tables.first() else { return String::new() };
        let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut out = table.columns.iter().map(|c| key(c)).collect::<Vec<_>>().join(",") + "\n";
        for row in &table.rows {
            out += &row.iter().map(|c| quoted(&c.plain())).collect::<Vec<_>>().join(",");
            out.push('\n');
        }
        out
    }

    fn markdown(&self) -> String {
        let mut blocks: Vec<String> = self.lines.iter().map(|l| escaped(l) + "\n").collect();
        for table in self.tables.iter().filter(|t| !t.rows.is_empty()) {
            let mut out = String::new();
            if !table.title.is_empty() {
                out += &format!("**{}**\n\n", escaped(&table.title));
            }
            let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
            out += &line(table.columns.iter().map(|c| (*c).to_owned()).collect());
            let rule = |i: usize| if table.is_text(i) { "---" } else { "--:" };
            out += &format!("|{}|\n", (0..table.columns.len()).map(rule).collect::<Vec<_>>().join("|"));
            for row in table.visible() {
                out += &line(row.iter().map(|c| escaped(&c.shown())).collect());
            }
            blocks.push(out);
        }
        blocks.extend(self.notes.iter().map(|l| escaped(l) + "\n"));
        blocks.join("\n")
    }
}

/// A JSON document as text.
pub(crate) fn document(value: &Value) -> String {
    json(&serde_json::to_string_pretty(value).unwrap_or_default()).into_owned() + "\n"
}

fn key(column: &str) -> String {
    if column == "%" { "percent".to_owned() } else { column.replace([' ', '-'], "_") }
}

/// Text that Markdown takes for itself.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in lines(text).chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn plain(table: &Table, screen: Screen) -> String {
    let length = |text: &str| text.chars().count();
    // A column in which nothing stands takes no room.
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|c| table.visible().any(|r| r.get(*c).is_some_and(|t| !t.shown().is_empty())))
        .collect();
    let shown = |row: &Vec<Cell>| columns.iter().filter_map(|c| row.get(*c)).map(Cell::shown).collect();
    let rows: Vec<Vec<String>> = table.visible().map(shown).collect();
    let text: Vec<bool> = columns.iter().map(|c| table.is_text(*c)).collect();
    let head: Vec<String> =
        columns.iter().filter_map(|c| table.columns.get(*c)).map(|c| (*c).to_owned()).collect();
    let widest = |c: usize| {
        let cells = rows.iter().filter_map(|r| r.get(c)).map(|t| length(t));
        cells.chain(head.get(c).map(|t| length(t))).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    if let Some(limit) = screen.width {
        narrow(&mut widths, &text, limit);
    }
    let line = |cells: &[String]| {
        let mut row = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let width = widths.get(i).copied().unwrap_or(0);
            let cell = shortened(cell, width);
            let pad = " ".repeat(width - length(&cell).min(width));
            row +=
                &if text.get(i) == Some(&true) { format!("{cell}{pad}  ") } else { format!("{pad}{cell}  ") };
        }
        row.trim_end().to_owned()
    };
    let bold =
        |text: &str| if screen.colours { format!("\x1b[1m{text}\x1b[0m\n") } else { format!("{text}\n") };
    let mut out = String::new();
    if !table.title.is_empty() {
        out += &bold(&printable(&table.title));
    }
    out += &bold(&line(&head));
    for row in &rows {
        out += &line(row);
        out.push('\n');
    }
    out
}

/// Make the widest columns of text narrower until the row fits. Columns of 16, then 8, then 4 characters stay as they are.
fn narrow(widths: &mut [usize], text: &[bool], limit: usize) {
    for least in [16, 8, 4] {
        loop {
            let sum = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
            if sum <= limit {
                return;
            }
            let flexible = widths.iter_mut().zip(text).filter(|(w, text)| **text && **w > least);
            let Some((widest, _)) = flexible.max_by_key(|(w, _)| **w) else { break };
            *widest = (*widest - (sum - limit).min(4)).max(least);
        }
    }
}

/// The text in `width` characters: a function's name without parameters, or else without the middle, as names differ at their ends.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width < 3 {
        return text.to_owned();
    }
    if let Some(brief) = brief(text, width) {
        return brief;
    }
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let mut table = Table::new("things", "Things", &["bytes", "%", "name", "built-in"]);
        for (i, name) in ["a|b", "quote\"d, and a very long name of something", "c"].iter().enumerate() {
            let share = Cell::share(i as i64, 4);
            table.row(row![1500 * i, share, *name, Cell::Nothing]);
        }
        table.total = Some(row![4500u64, Cell::Nothing, "total", Cell::Nothing]);
        Answer { tables: vec![table], facts: vec![("status", Value::from("x"))], ..Answer::default() }
    }

    #[test]
    fn every_form() {
        let answer = answer();
        let text = answer.text(Format::Table, Screen::default());
        assert_eq!(
            text,
            "Things\nbytes      %  name\n    0   0.0%  a|b\n\
             1,500  25.0%  quote\"d, and a very long name of something\n3,000  50.0%  c\n4,500         total\n"
        );
        let csv = answer.text(Format::Csv, Screen::default());
        assert!(
            csv.starts_with("bytes,percent,name,built_in\n0,0.0000,a|b,\n1500,25.0000,\"quote\"\"d, and"),
            "{csv}"
        );
        let json: Value =
            serde_json::from_str(&answer.text(Format::Json, Screen::default())).unwrap_or_default();
        assert_eq!(json["things"][1]["bytes"], 1500);
        assert_eq!(json["status"], "x");
        let markdown = answer.text(Format::Markdown, Screen::default());
        assert!(markdown.contains("| 0 | 0.0% | a\\|b |  |\n"), "{markdown}");
        assert!(markdown.contains("|--:|--:|---|--:|\n"), "{markdown}");
    }

    #[test]
    fn a_narrow_terminal_cuts_names_and_nothing_else() {
        let screen = Screen { width: Some(40), colours: true };
        let text = answer().text(Format::Table, screen);
        assert!(text.contains("1,500  25.0%  quote\"d, and …of something\n"), "{text}");
        assert!(text.starts_with("\u{1b}[1mThings\u{1b}[0m\n"));
        for line in text.lines().skip(2) {
            assert!(line.chars().count() <= 40, "{line}");
        }
    }

    #[test]
    fn rows_that_are_not_shown_are_added_up() {
        let mut answer = answer();
        answer.tables[0].limit(Some(1));
        let text = answer.text(Format::Table, Screen::default());
        assert!(text.contains("4,500  75.0%  … and 2 more\n"), "{text}");
        let json: Value =
            serde_json::from_str(&answer.text(Format::Json, Screen::default())).unwrap_or_default();
        assert_eq!(json["things"].as_array().map(Vec::len), Some(3));
    }
}
