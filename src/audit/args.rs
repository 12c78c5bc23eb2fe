//! The argument parser of `lto-prune audit COMMAND ...`: our options, names, and a report, an ELF file or a link line.
//!
//! Options of ours stand before a link line, and anywhere with a report or a program. The first word that is no option and none of the command's own names is the report, if
//! the file begins with `{`. A program, or an object or archive alone, is a file to audit, with a report behind it or without. Any other
//! word begins a link line with its options, and so does each word behind `--`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use lexopt::prelude::{Long, Short, Value};

use crate::args::prune::nearest;
use crate::error::{Error, Result, Stage};

use super::attribute::GroupBy;
use super::file_kinds::{AuditableFile, file_kind, is_alone, is_program, is_report, says_schema};
use super::stack_options::StackOptions;
use super::table::{DocumentFormat, Format};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Top,
    Dominators,
    Why,
    Paths,
    Reach,
    Garbage,
    Duplicates,
    Limits,
    Calls,
    Graph,
    Imports,
    Stack,
    Diff,
    Budget,
    Html,
}

impl Command {
    pub(crate) const ALL: [(&'static str, Command); 15] = [
        ("top", Command::Top),
        ("dominators", Command::Dominators),
        ("why", Command::Why),
        ("paths", Command::Paths),
        ("reach", Command::Reach),
        ("garbage", Command::Garbage),
        ("duplicates", Command::Duplicates),
        ("limits", Command::Limits),
        ("calls", Command::Calls),
        ("graph", Command::Graph),
        ("imports", Command::Imports),
        ("stack", Command::Stack),
        ("diff", Command::Diff),
        ("budget", Command::Budget),
        ("html", Command::Html),
    ];

    /// What it wants before the report, as in usage lines.
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

    pub(crate) fn name(self) -> &'static str {
        Command::ALL.iter().find(|c| c.1 == self).map_or("", |c| c.0)
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

    /// Whether a word that is no option is one of its names; `before` come before it.
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

    /// Whether a long option means something to it.
    fn takes(self, option: &str) -> bool {
        match option {
            "by" | "std" => matches!(self, Command::Top | Command::Diff | Command::Garbage),
            "depth" => {
                matches!(self, Command::Top | Command::Diff | Command::Garbage | Command::Dominators)
            }
            "keep" => self == Command::Why,
            "old" | "output" => self == Command::Html,
            "ratchet" => self == Command::Budget,
            "assume" | "call" | "library" => matches!(self, Command::Stack | Command::Budget),
            "address-taken" => self == Command::Stack,
            "from" | "scope" | "vulnerability" | "product" | "author" | "timestamp" => self == Command::Reach,
            "bss" => matches!(self, Command::Top | Command::Diff),
            "all" => matches!(self, Command::Top | Command::Diff | Command::Html),
            "json" | "csv" | "format" | "number" => self != Command::Html,
            _ => false,
        }
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

/// The options that only `reach` has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReachOptions {
    /// A file with a symbol on each line.
    pub(crate) from: Option<OsString>,
    /// Whether the claim is about the file alone, without the shared libraries that it loads.
    pub(crate) file_alone: bool,
    /// The subject of a VEX document, its author and its time.
    pub(crate) vulnerability: Option<String>,
    pub(crate) product: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) timestamp: Option<String>,
}

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
    pub(crate) keep: Vec<String>,
    pub(crate) bss: bool,
    /// The answer is about all bytes of the file, and not only loaded ones.
    pub(crate) all: bool,
    /// The report to compare with, and where the page goes.
    pub(crate) old: Option<OsString>,
    pub(crate) output: Option<OsString>,
    pub(crate) reach: ReachOptions,
    /// Whether limits are lowered to the present sizes.
    pub(crate) ratchet: bool,
    pub(crate) stack: StackOptions,
}

/// The most lines of a table; `None` if all are asked for.
pub(crate) fn rows(request: &Request, usual: usize) -> Option<usize> {
    match request.number {
        Some(0) => None,
        Some(number) => Some(number),
        None => Some(usual),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AuditRequest {
    Help(Option<Command>),
    Answer(Box<Request>),
}

fn wrong<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::new(Stage::Arguments, message))
}

/// Read the words behind `audit`.
///
/// # Errors
/// A mistake in them.
pub(crate) fn parse(words: &[OsString]) -> Result<AuditRequest> {
    let Some((first, rest)) = words.split_first() else { return Ok(AuditRequest::Help(None)) };
    let name = first.to_string_lossy();
    if matches!(&*name, "--help" | "-h" | "help") {
        let asked = rest.first().and_then(|w| w.to_str()).and_then(command);
        return Ok(AuditRequest::Help(asked));
    }
    let Some(command) = command(&name) else {
        let all: Vec<&str> = Command::ALL.iter().map(|c| c.0).collect();
        let near = nearest(&name, all.iter().copied()).map(|near| format!("; did you mean {near}?"));
        return wrong(format!(
            "audit has no command {name}{}; it has {}",
            near.unwrap_or_default(),
            all.join(", ")
        ));
    };
    let mut request = Request {
        command,
        names: Vec::new(),
        source: ReportSource::Link(Vec::new()),
        format: Format::Table,
        number: None,
        by: GroupBy::default(),
        depth: None,
        keep: Vec::new(),
        bss: false,
        all: false,
        old: None,
        output: None,
        reach: ReachOptions::default(),
        ratchet: false,
        stack: StackOptions::default(),
    };
    let mut joins_std = false;
    // Any number of names may stand before --.
    let end = rest.iter().position(|w| w == "--").filter(|_| command == Command::Reach);
    let (rest, line) = rest.split_at(end.unwrap_or(rest.len()));
    // Behind a report or a linked file stand options of the audit, for no link line begins with one.
    let mut files: Vec<OsString> = Vec::new();
    let is_behind = |parser: &mut lexopt::Parser| -> Result<bool> {
        let left = parser.raw_args().map_err(mistake)?.as_slice().len();
        let before = rest.get(..rest.len().saturating_sub(left)).unwrap_or(&[]);
        Ok(command != Command::Diff && before.iter().any(|word| word == "--"))
    };
    let mut parser = lexopt::Parser::from_args(rest);
    while let Some(arg) = parser.next().map_err(mistake)? {
        match arg {
            Short('h') | Long("help") => return Ok(AuditRequest::Help(Some(command))),
            Value(name) if command.names(&name, request.names.len()) => request.names.push(name),
            // An entry may have the name of the program.
            Value(name) if command == Command::Stack && !files.is_empty() && !is_report(Path::new(&name)) => {
                request.names.push(name);
            }
            Value(first) => {
                let is_line = is_behind(&mut parser)?;
                if !files.is_empty() || is_alone(Path::new(&first)) && !is_line {
                    files.push(first);
                    continue;
                }
                let words = std::iter::once(first).chain(parser.raw_args().map_err(mistake)?);
                let words = words.chain(line.iter().cloned()).collect();
                request.by = grouping(request.by, joins_std)?;
                return answer(request, words, is_line);
            }
            Short('n') => option(&mut request, "number", &mut parser)?,
            Short('o') => option(&mut request, "output", &mut parser)?,
            Long("std") if command.takes("std") => joins_std = true,
            Long(name) => {
                let name = name.to_owned();
                option(&mut request, &name, &mut parser)?;
            }
            other => return wrong(format!("{}; {LINE_OPTIONS}", other.unexpected())),
        }
    }
    let behind = line.split_first().map_or(&[][..], |(_, line)| line);
    files.extend(behind.iter().cloned());
    if !files.is_empty() {
        request.by = grouping(request.by, joins_std)?;
        return answer(request, files, false);
    }
    let wants = command.wants().join(" ");
    let what = match command {
        Command::Diff => "NEW",
        _ if command.reads_files() => "FILE, REPORT or a link line",
        _ => "REPORT or a link line",
    };
    wrong(format!(
        "audit {name} takes {}; see lto-prune audit {name} --help",
        format!("{wants} {what}").trim_start()
    ))
}

/// The grouping of a table in which `core` and `alloc` may count as `std`.
fn grouping(by: GroupBy, joins_std: bool) -> Result<GroupBy> {
    match (by, joins_std) {
        (by, false) => Ok(by),
        (GroupBy::Namespace, true) => Ok(GroupBy::NamespaceWithStd),
        (_, true) => wrong("--std is about crates: --by=crate --std"),
    }
}

/// The request with the file, the report or the link line that `words` name. `is_line`: they stand behind `--`.
fn answer(mut request: Request, words: Vec<OsString>, is_line: bool) -> Result<AuditRequest> {
    let (command, reach) = (request.command, &request.reach);
    if command == Command::Reach && request.names.is_empty() && reach.from.is_none() {
        return wrong("audit reach takes SYMBOL... or --from=FILE before REPORT or a link line");
    }
    if matches!(request.format, Format::Document(DocumentFormat::OpenVex | DocumentFormat::CycloneDx))
        && (reach.vulnerability.is_none() || reach.product.is_none())
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

const LINE_OPTIONS: &str = "an option of a link line stands behind its first file, or behind --";

fn mistake(error: lexopt::Error) -> Error {
    Error::new(Stage::Arguments, error.to_string())
}

/// Set what a long option says.
fn option(request: &mut Request, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
    if !request.command.takes(name) {
        return wrong(format!("audit {} has no option --{name}; {LINE_OPTIONS}", request.command.name()));
    }
    let mut value =
        || -> Result<String> { Ok(parser.value().map_err(mistake)?.to_string_lossy().into_owned()) };
    let number = |value: String| match value.parse::<usize>() {
        Ok(number) => Ok(number),
        Err(_) => wrong(format!("--{name} takes a number, not {value}")),
    };
    match name {
        "json" => request.format = Format::Json,
        "csv" => request.format = Format::Csv,
        "bss" => request.bss = true,
        "ratchet" => request.ratchet = true,
        "all" => request.all = true,
        "address-taken" => request.stack.address_taken = true,
        "assume" | "call" | "library" => request.stack.set(name, value()?)?,
        "format" => {
            let (value, formats) = (value()?, request.command.formats());
            let Some(format) = formats.iter().find(|f| f.0 == value) else {
                let all: Vec<&str> = formats.iter().map(|f| f.0).collect();
                return wrong(format!("--format is one of {}, not {value}", all.join(", ")));
            };
            request.format = format.1;
        }
        "number" => request.number = Some(number(value()?)?),
        "depth" => request.depth = Some(number(value()?)?.max(1)),
        "keep" => request.keep.push(value()?),
        "old" => request.old = Some(value()?.into()),
        "output" => request.output = Some(value()?.into()),
        "from" => request.reach.from = Some(value()?.into()),
        "scope" => {
            request.reach.file_alone = match value()?.as_str() {
                "program" => false,
                "file" => true,
                other => return wrong(format!("--scope is program or file, not {other}")),
            }
        }
        "vulnerability" => request.reach.vulnerability = Some(value()?),
        "product" => request.reach.product = Some(value()?),
        "author" => request.reach.author = Some(value()?),
        "timestamp" => request.reach.timestamp = Some(value()?),
        _ => {
            let value = value()?;
            let Some(by) = GroupBy::ALL.iter().find(|b| b.0 == value) else {
                let all: Vec<&str> = GroupBy::ALL.iter().map(|b| b.0).collect();
                return wrong(format!("--by is one of {}, not {value}", all.join(", ")));
            };
            request.by = by.1;
        }
    }
    Ok(())
}

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

/// What is surely no link line is told before a linker is.
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
        assert_eq!((found.old, found.output), (Some("old.json".into()), Some("page.html".into())));
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
        says("top -O2 a.o", "behind --");
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
        says("top -o x.html x.json", "top has no option --output");
        says("html --json x.json", "html has no option --json");
        says("reach x.json", "takes SYMBOL... or --from=FILE");
        says("reach f g", "audit reach takes SYMBOL... REPORT or a link line");
        says("reach --format=openvex f x.json", "takes --vulnerability=ID and --product=PURL");
        says("top --format=openvex x.json", "table, text, json, csv, markdown, not openvex");
        says("reach --scope=here f x.json", "--scope is program or file, not here");
    }

    #[test]
    fn help() {
        assert_eq!(read("").unwrap(), AuditRequest::Help(None));
        assert_eq!(read("--help").unwrap(), AuditRequest::Help(None));
        assert_eq!(read("help why").unwrap(), AuditRequest::Help(Some(Command::Why)));
        assert_eq!(read("why --help").unwrap(), AuditRequest::Help(Some(Command::Why)));
    }
}
