//! The argument parser of `lto-prune audit COMMAND ...`: options, names, and a report, an ELF file or a link line.
//!
//! The first word that is no option and no name of the command is a report (it begins with `{`), a file to audit, or begins a link
//! line. Options may follow a report or a linked file. All words after `--` belong to a link line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::args::help::{self, CommandWord, CommandWords, nearest};
use crate::error::{Error, Result, Stage};
use crate::ids::named;

use super::attribute::GroupBy;
use super::stack::StackAssumptions;
use super::table::{DocumentFormat, Format};

named! {
    pub(crate) enum Command {
        Top = "top",
        Dominators = "dominators",
        Why = "why",
        Paths = "paths",
        Reach = "reach",
        Garbage = "garbage",
        Duplicates = "duplicates",
        Limits = "limits",
        Calls = "calls",
        Graph = "graph",
        Imports = "imports",
        Stack = "stack",
        Diff = "diff",
        Budget = "budget",
        Html = "html",
    }
}

impl Command {
    /// The operands before the report, by their placeholders in usage lines.
    pub(crate) fn wants(self) -> &'static [&'static str] {
        match self {
            Command::Why => &["SYMBOL"],
            Command::Paths => &["FROM", "TO"],
            Command::Reach => &["SYMBOL..."],
            Command::Diff => &["OLD"],
            Command::Budget => &["FILE"],
            _ => &[],
        }
    }

    /// The formats of its answer, by name.
    fn formats(self) -> Vec<(&'static str, Format)> {
        let mut formats = vec![
            ("table", Format::Table),
            ("text", Format::Table),
            ("json", Format::Json),
            ("csv", Format::Csv),
            ("markdown", Format::Markdown),
        ];
        let documents: &[(&str, DocumentFormat)] = match self {
            Command::Reach => {
                &[("openvex", DocumentFormat::OpenVex), ("cyclonedx", DocumentFormat::CycloneDx)]
            }
            Command::Graph => &[("dot", DocumentFormat::Dot), ("folded", DocumentFormat::Folded)],
            Command::Budget => &[("sarif", DocumentFormat::Sarif)],
            _ => &[],
        };
        formats.extend(documents.iter().map(|d| (d.0, Format::Document(d.1))));
        formats
    }

    /// Whether a word that is no option is one of its names, after `before` others.
    fn names(self, word: &OsStr, before: usize) -> bool {
        match self {
            Command::Reach => {
                let path = Path::new(word);
                // A program may be named as one of its functions.
                !is_report(path) && (!path.is_file() || is_program(path))
            }
            Command::Stack => !Path::new(word).is_file(),
            _ => before < self.wants().len(),
        }
    }

    /// Whether it can answer from an ELF file without a report.
    fn reads_files(self) -> bool {
        matches!(
            self,
            Command::Top
                | Command::Diff
                | Command::Duplicates
                | Command::Html
                | Command::Stack
                | Command::Budget
        )
    }

    /// The name of the command with that of the program before it, as in help texts.
    fn title(self) -> &'static str {
        let of = |(name, _): &(&'static str, &str)| name.strip_prefix("audit ") == Some(self.name());
        help::commands().find(of).map_or("audit", |found| found.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportSource {
    Report(OsString),
    /// An ELF file or an archive, and the report that belongs to it.
    File(OsString, Option<OsString>),
    /// These objects are to be linked first.
    Link(Vec<OsString>),
}

/// Lines that a table has on a terminal, and in a pipe, unless `-n` says otherwise.
pub(crate) const ROWS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) names: Vec<OsString>,
    pub(crate) source: ReportSource,
    pub(crate) format: Format,
    /// Rows to show, 0: all. `None`: as many as a screen takes.
    pub(crate) number: Option<usize>,
    pub(crate) by: GroupBy,
    pub(crate) depth: Option<usize>,
    /// The assumptions of the user about stacks.
    pub(crate) stack: StackAssumptions,
    /// The other options with their values, in the order of the line.
    options: Vec<(&'static str, String)>,
}

impl Request {
    /// Whether an option is on the line.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.value(option).is_some()
    }

    /// The last value of an option.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.values(option).last()
    }

    /// The values of an option that may be repeated.
    pub(crate) fn values(&self, option: &str) -> impl Iterator<Item = &str> {
        self.options.iter().filter(move |(name, _)| *name == option).map(|(_, value)| value.as_str())
    }

    /// Read the value of an option.
    fn set(&mut self, name: &'static str, value: String) -> Result<()> {
        let number = || match value.parse::<usize>() {
            Ok(number) => Ok(number),
            Err(_) => wrong(format!("--{name} takes a number, not {value}")),
        };
        // Names of operators have the sign, too.
        let pair = || value.rsplit_once('=').filter(|(function, of)| !function.is_empty() && !of.is_empty());
        match name {
            "json" => self.format = Format::Json,
            "csv" => self.format = Format::Csv,
            "format" => self.format = help::one_of(name, &value, &self.command.formats())?,
            "by" => self.by = help::one_of(name, &value, &GroupBy::ALL)?,
            "number" => self.number = Some(number()?),
            "depth" => self.depth = Some(number()?.max(1)),
            "assume" => {
                match pair().and_then(|(function, bytes)| Some((function.to_owned(), bytes.parse().ok()?))) {
                    Some(bound) => self.stack.bounds.push(bound),
                    None => return wrong(format!("--assume takes FUNCTION=BYTES, not {value}")),
                }
            }
            "call" => match pair() {
                Some((caller, callee)) => self.stack.callees.push((caller.to_owned(), callee.to_owned())),
                None => return wrong(format!("--call takes CALLER=CALLEE, not {value}")),
            },
            "scope" if !matches!(value.as_str(), "program" | "file") => {
                return wrong(format!("--scope is program or file, not {value}"));
            }
            _ => self.options.push((name, value)),
        }
        Ok(())
    }
}

/// The most lines of a table; `None`: all.
pub(crate) fn rows(request: &Request, usual: usize) -> Option<usize> {
    match request.number {
        Some(0) => None,
        Some(number) => Some(number),
        None => Some(usual),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AuditRequest {
    /// The text to print.
    Help(&'static str),
    Answer(Box<Request>),
}

fn wrong<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Stage::Arguments, message))
}

/// Read the words after `audit`.
pub(crate) fn parse(words: &[OsString]) -> Result<AuditRequest> {
    let Some((first, rest)) = words.split_first() else { return Ok(AuditRequest::Help(help::text("audit"))) };
    let name = first.to_string_lossy();
    if matches!(&*name, "--help" | "-h" | "help") {
        let asked = rest.first().and_then(|word| command(&word.to_string_lossy()));
        return Ok(AuditRequest::Help(help::text(asked.map_or("audit", Command::title))));
    }
    let Some(command) = command(&name) else {
        let all: Vec<&str> = Command::ALL.iter().map(|c| c.0).collect();
        let near = nearest(&name, all.iter().copied()).map(|near| format!("; did you mean {near}?"));
        let near = near.unwrap_or_default();
        return wrong(format!("audit has no command {name}{near}; it has {}", all.join(", ")));
    };
    let mut request = Request {
        command,
        names: Vec::new(),
        source: ReportSource::Link(Vec::new()),
        format: Format::Table,
        number: None,
        by: GroupBy::default(),
        depth: None,
        stack: StackAssumptions::default(),
        options: Vec::new(),
    };
    // Any number of names may precede --.
    let end = rest.iter().position(|w| w == "--").filter(|_| command == Command::Reach);
    let (rest, line) = rest.split_at(end.unwrap_or(rest.len()));
    let mut files: Vec<OsString> = Vec::new();
    let mut words = CommandWords::new(command.title(), rest, LINE_OPTIONS);
    while let Some(word) = words.next()? {
        let word = match word {
            CommandWord::Option("help", _) => return Ok(AuditRequest::Help(help::text(command.title()))),
            CommandWord::Option(name, value) => {
                request.set(name, value.to_string_lossy().into_owned())?;
                continue;
            }
            CommandWord::Value(word) => word,
        };
        // An entry may have the name of the program.
        let is_entry = command == Command::Stack && !files.is_empty() && !is_report(Path::new(&word));
        if is_entry || command.names(&word, request.names.len()) {
            request.names.push(word);
            continue;
        }
        let is_line = command != Command::Diff && words.is_after_dashes()?;
        // No link line begins with a report or a linked file.
        if !files.is_empty() || is_alone(Path::new(&word)) && !is_line {
            files.push(word);
            continue;
        }
        let words = std::iter::once(word).chain(words.rest()?).chain(line.iter().cloned()).collect();
        return answer(request, words, is_line);
    }
    files.extend(line.iter().skip(1).cloned());
    if !files.is_empty() {
        return answer(request, files, false);
    }
    let what = match command {
        Command::Diff => "NEW",
        _ if command.reads_files() => "FILE, REPORT or a link line",
        _ => "REPORT or a link line",
    };
    let wants = format!("{} {what}", command.wants().join(" "));
    wrong(format!("audit {name} takes {}; see lto-prune audit {name} --help", wants.trim_start()))
}

/// The request with the file, the report or the link line that `words` name. `is_line`: they follow `--`.
fn answer(mut request: Request, words: Vec<OsString>, is_line: bool) -> Result<AuditRequest> {
    let command = request.command;
    if request.has("std") {
        request.by = match request.by {
            GroupBy::Namespace => GroupBy::NamespaceWithStd,
            _ => return wrong("--std is about crates: --by=crate --std"),
        };
    }
    if command == Command::Reach && request.names.is_empty() && !request.has("from") {
        return wrong("audit reach takes SYMBOL... or --from=FILE before REPORT or a link line");
    }
    if matches!(request.format, Format::Document(DocumentFormat::OpenVex | DocumentFormat::CycloneDx))
        && !(request.has("vulnerability") && request.has("product"))
    {
        return wrong("a VEX document takes --vulnerability=ID and --product=PURL");
    }
    request.source = match is_line {
        true => no_mistake(command, &request.names, &words).map(|()| ReportSource::Link(words))?,
        false => source(command, &request.names, words)?,
    };
    Ok(AuditRequest::Answer(Box::new(request)))
}

fn command(name: &str) -> Option<Command> {
    Command::ALL.iter().find(|c| c.0 == name).map(|c| c.1)
}

const LINE_OPTIONS: &str = "; an option of a link line follows its first file, or --";

/// A report, a file to audit, or a line to link.
fn source(command: Command, names: &[OsString], line: Vec<OsString>) -> Result<ReportSource> {
    let Some((first, rest)) = line.split_first() else { return Ok(ReportSource::Link(line)) };
    let report = is_report(Path::new(first));
    let shown = first.to_string_lossy();
    match (file_kind(Path::new(first)), rest) {
        (Some(_), [next]) if is_report(Path::new(next)) && command != Command::Diff => {
            return Ok(ReportSource::File(first.clone(), Some(next.clone())));
        }
        // An object alone is a link line to a budget.
        (Some(AuditableFile::Input), []) if command == Command::Budget => {}
        (Some(_), []) if command.reads_files() => return Ok(ReportSource::File(first.clone(), None)),
        (Some(AuditableFile::Linked), []) => {
            return wrong(format!(
                "{shown} is a linked file; audit {} needs its report too: link with --prune-report=FILE",
                command.name()
            ));
        }
        _ if !report && command == Command::Diff => {
            return wrong(format!("{shown} is no report and no ELF file; audit diff compares two of a kind"));
        }
        _ => {}
    }
    match (report, rest) {
        (true, []) => Ok(ReportSource::Report(first.clone())),
        (true, [next, ..]) => wrong(format!(
            "{} is a report, and no other file may follow it ({} does)",
            first.to_string_lossy(),
            next.to_string_lossy()
        )),
        (false, _) => no_mistake(command, names, &line).map(|()| ReportSource::Link(line)),
    }
}

/// Reject words that can't begin a link line, before a linker sees them.
fn no_mistake(command: Command, names: &[OsString], line: &[OsString]) -> Result<()> {
    let Some(first) = line.first() else { return Ok(()) };
    let shown = first.to_string_lossy();
    let path = Path::new(first);
    if first.is_empty() || path.is_dir() {
        let what = if first.is_empty() { "an empty name" } else { "a folder" };
        return wrong(
            format!("{shown}: {what} is neither a report nor a file to link").trim_start_matches(": "),
        );
    }
    if is_program(path) {
        return wrong(format!(
            "{shown} is a linked program, and no link line begins with it; to audit it, name it alone or before its report"
        ));
    }
    let is_one = |w: &&OsString| !w.as_encoded_bytes().starts_with(b"-") && says_schema(Path::new(w));
    if let Some(report) = names.iter().chain(line).find(is_one) {
        let wants = command.wants().join(" ");
        return wrong(format!(
            "{} is a report, but {shown} is no link line; audit {} takes {}",
            report.to_string_lossy(),
            command.name(),
            format!("{wants} REPORT").trim_start()
        ));
    }
    Ok(())
}

/// Whether a file is an executable of ELF: one that names an interpreter, or that has a fixed place.
fn is_program(path: &Path) -> bool {
    let Ok(data) = std::fs::read(path) else { return false };
    let Ok(file) = object::File::parse(&*data) else { return false };
    match object::Object::kind(&file) {
        object::ObjectKind::Executable => true,
        object::ObjectKind::Dynamic => object::Object::section_by_name(&file, ".interp").is_some(),
        _ => false,
    }
}

/// The kinds of files that can be audited without a report.
enum AuditableFile {
    /// An executable or a shared library.
    Linked,
    /// An object or an archive, which may be the beginning of a link line too.
    Input,
}

/// The kind of a file by its first bytes; `None` if an audit of it needs a report.
fn file_kind(path: &Path) -> Option<AuditableFile> {
    let start = beginning(path);
    if start.starts_with(b"\x7fELF") {
        // The type is at the same place in files of all classes, in the byte order of the machine.
        let kind = start.get(16..18)?;
        return Some(if kind == [1, 0] { AuditableFile::Input } else { AuditableFile::Linked });
    }
    super::elf::is_auditable(&start).then_some(AuditableFile::Input)
}

/// Whether a word is a report or a linked file, with which no link line begins.
fn is_alone(path: &Path) -> bool {
    is_report(path) || matches!(file_kind(path), Some(AuditableFile::Linked))
}

/// Whether a file begins as a JSON object does, or has the name of one.
fn is_report(path: &Path) -> bool {
    if path.extension() == Some(OsStr::new("json")) {
        return true;
    }
    beginning(path).trim_ascii_start().starts_with(b"{")
}

/// Whether a file begins as a report does; its name means nothing.
fn says_schema(path: &Path) -> bool {
    let start = beginning(path);
    start.trim_ascii_start().starts_with(b"{") && String::from_utf8_lossy(&start).contains("\"schema\"")
}

/// The first bytes of a file; none if it can't be read.
fn beginning(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(64).read_to_end(&mut start)) {
        Ok(_) => start,
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<AuditRequest> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    fn request(line: &str) -> Request {
        let AuditRequest::Answer(request) = read(line).unwrap() else { unreachable!("{line} asks for help") };
        *request
    }

    #[test]
    fn reports_and_links() {
        let found = request("top --by=module -n 5 --json x.json");
        assert_eq!((found.by, found.number, found.format), (GroupBy::Module, Some(5), Format::Json));
        assert_eq!(found.source, ReportSource::Report("x.json".into()));
        assert_eq!(request("top -n5 x.json").number, Some(5));
        assert_eq!(request("top x.json -n5 --by=crate --std").by, GroupBy::NamespaceWithStd);
        let found = request("reach f x.json g --json");
        assert_eq!((found.names, found.format), (vec!["f".into(), "g".into()], Format::Json));
        assert_eq!(found.source, ReportSource::Report("x.json".into()));
        assert_eq!(request("top --std --by=crate x.json").by, GroupBy::NamespaceWithStd);
        let found = request("html --old=old.json -o page.html x.json");
        assert_eq!((found.value("old"), found.value("output")), (Some("old.json"), Some("page.html")));
    }

    #[test]
    fn a_link_line_keeps_its_options() {
        let line = |words: &str| ReportSource::Link(words.split_whitespace().map(OsString::from).collect());
        let found = request("top a.o b.o -n -lm --by=x");
        assert_eq!((found.source, found.by), (line("a.o b.o -n -lm --by=x"), GroupBy::Symbol));
        assert_eq!(request("why main -- -O2 a.o").source, line("-O2 a.o"));
        assert_eq!(request("why main -- -O2 a.o").names, ["main"]);
        assert_eq!(request("paths a b c.o").names, ["a", "b"]);
        let found = request("reach f -n 3 g --from=list -- -O2 a.o -- b.o");
        assert_eq!((found.names, found.source), (vec!["f".into(), "g".into()], line("-O2 a.o -- b.o")));
        assert_eq!(request("reach f g x.json").names, ["f", "g"]);
        assert_eq!(request("reach f Cargo.toml -lm").source, line("Cargo.toml -lm"));
    }

    #[test]
    fn mistakes_are_named() {
        let says = |line: &str, what: &str| {
            let message = read(line).unwrap_err().to_string();
            assert!(message.contains(what), "{line}: {message}");
        };
        says("tops x", "no command tops; did you mean top?; it has top, dominators");
        says("top", "takes FILE, REPORT or a link line");
        says("why main", "takes SYMBOL REPORT or a link line");
        says("diff a.json", "takes OLD NEW");
        says("diff a.json b.o", "b.o is no report and no ELF file");
        says("why --all main x.json", "why has no option --all");
        says("top -O2 a.o", "or --");
        says("top --by=colour x.json", "symbol, module");
        says("top -n many x.json", "a number, not many");
        says("why --by=module main x.json", "why has no option --by");
        says("top --std x.json", "--by=crate --std");
        says("why --std main x.json", "why has no option --std");
        says("top --json=1 x.json", "unexpected argument for option '--json'");
        says("top x.json y.json", "no other file may follow");
        says("stack --assume=x a.json", "--assume takes FUNCTION=BYTES, not x");
        says("top --assume=f=1 a.json", "top has no option --assume");
        says("top --by", "missing argument for option '--by'");
        says("top -nx x.json", "a number, not x");
        says("top .", "a folder is neither");
        says("tpo x.json", "audit has no command tpo; did you mean top?");
        says("top -o x.html x.json", "top: invalid option '-o'");
        says("html --json x.json", "html has no option --json");
        says("reach x.json", "takes SYMBOL... or --from=FILE");
        says("reach f g", "audit reach takes SYMBOL... REPORT or a link line");
        says("reach --format=openvex f x.json", "takes --vulnerability=ID and --product=PURL");
        says("top --format=openvex x.json", "table, text, json, csv, markdown, not openvex");
        says("reach --scope=here f x.json", "--scope is program or file, not here");
    }

    #[test]
    fn help() {
        for (words, of) in
            [("", "audit"), ("--help", "audit"), ("help why", "audit why"), ("why --help", "audit why")]
        {
            assert_eq!(read(words).unwrap(), AuditRequest::Help(help::text(of)), "{words}");
        }
    }
}
