//! `lto-prune audit`: why a program is as large as it is, from the report of its link or from the file alone.
//!
//! A command is a pure function of a [`model::Model`] (and another one, or a file of limits) to an answer. This file reads the words,
//! gets the report, if need be by a link, and prints. See docs/AUDIT.md.

mod args;
mod attribute;
mod commands;
mod demangle;
mod elf;
mod evidence;
mod find;
mod graph;
mod html;
mod matching;
mod model;
mod stack;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::Environment;
use crate::error::{Error, Result, Stage};
use crate::inputs::mapped::MappedFile;
use args::{AuditRequest, Command, ReportSource, Request};
use evidence::LinkedProgram;
use model::Model;
use table::{Answer, Format, Screen};

/// Answer the question in `words`, without `audit`. The exit status is 1 if the answer is no. It is 2 without an answer, as after a
/// mistake in the words.
pub fn run(words: &[OsString], env: &Environment<'_>) -> ExitCode {
    answered(words, env).unwrap_or_else(|error| {
        eprintln!("lto-prune: error: {error}");
        ExitCode::from(2)
    })
}

fn answered(words: &[OsString], env: &Environment<'_>) -> Result<ExitCode> {
    let request = match args::parse(words)? {
        AuditRequest::Help(text) => return print(text),
        AuditRequest::Answer(request) => request,
    };
    if request.command == Command::Html {
        return html(&request, env);
    }
    let answer = answer(&request, env)?;
    let text = answer.text(request.format, screen(request.format, env));
    let printed = print(&text)?;
    Ok(if answer.failed { ExitCode::FAILURE } else { printed })
}

fn answer(request: &Request, env: &Environment<'_>) -> Result<Answer> {
    let AuditedLink { model, linked } = AuditedLink::read(&request.source, env)?;
    let linked = || linked_path(&request.source, &model, linked.as_ref());
    let name = |at: usize| request.names.get(at).map(|n| n.to_string_lossy()).unwrap_or_default();
    match request.command {
        Command::Top => commands::sizes::top(&model, request),
        Command::Dominators => Ok(commands::why::dominators(&model, request)),
        Command::Why => commands::why::why(&model, &name(0), request),
        Command::Paths => commands::why::paths(&model, &name(0), &name(1), request),
        Command::Reach => {
            let names = commands::reach::names(request)?;
            let program = program(&model, &linked());
            commands::reach::answer(&model, program.as_ref(), &names, request, env)
        }
        Command::Garbage => Ok(commands::sizes::garbage(&model, request)),
        Command::Duplicates => Ok(commands::sizes::duplicates(&model, request)),
        Command::Limits => Ok(commands::calls::limits(&model, request)),
        Command::Calls => Ok(commands::calls::calls(&model, request)),
        Command::Graph => Ok(commands::graph::answer(&model, request)),
        Command::Imports => Ok(commands::why::imports(&model, request)),
        Command::Stack => commands::stack::answer(&model, &linked(), request),
        Command::Diff => commands::sizes::diff(&older(Path::new(&*name(0)), &model)?, &model, request),
        Command::Budget => {
            let path = name(0);
            let text = std::fs::read_to_string(&*path);
            let text = text.map_err(|e| Error::io(Stage::Arguments, &*path, "read the budget", e))?;
            let linked = linked();
            let budget =
                commands::budget::BudgetFile { path: &path, text: &text, ratchet: request.has("ratchet") };
            let stacks = |names: &[String]| commands::stack::limits(&model, &linked, names, request);
            let (answer, lowered) = commands::budget::answer(&model, &budget, &stacks)?;
            if let Some(text) = lowered {
                let written = std::fs::write(&*path, text);
                written.map_err(|e| Error::io(Stage::Report, &*path, "write the budget", e))?;
            }
            Ok(answer)
        }
        Command::Html => Err(Error::new(Stage::Arguments, "a page is no table")),
    }
}

/// The page, into the file that was asked for or to where stdout leads.
fn html(request: &Request, env: &Environment<'_>) -> Result<ExitCode> {
    if !request.has("output") && std::io::stdout().is_terminal() {
        return Err(Error::new(Stage::Arguments, "the page goes to a file: -o page.html, or > page.html"));
    }
    let model = AuditedLink::read(&request.source, env)?.model;
    let old = request.value("old").map(|path| older(Path::new(path), &model)).transpose()?;
    let page = html::page(&model, old.as_ref(), request.has("all"))?;
    match request.value("output") {
        Some(path) => {
            std::fs::write(path, page).map_err(|e| Error::io(Stage::Report, path, "write the page", e))?;
            Ok(ExitCode::SUCCESS)
        }
        None => print(&page),
    }
}

/// Read a report, or a file that can be audited without one.
fn read(path: &Path) -> Result<Model> {
    let file = MappedFile::open(path).map_err(|e| Error::io(Stage::Report, path, "read", e))?;
    let name = path.to_string_lossy();
    if elf::is_auditable(&file) { elf::read(&name, &file) } else { Model::read(&name, &read_text(path)?) }
}

/// The model that `new` is compared with. Bytes of a file and those of a report have different names, so that a difference of the two
/// would mislead.
fn older(path: &Path, new: &Model) -> Result<Model> {
    let old = read(path)?;
    let what = |model: &Model| match model.elf {
        Some(kind) => format!("{} is an {}", model.path, kind.name()),
        None => format!("{} is a report", model.path),
    };
    match old.elf.is_some() == new.elf.is_some() {
        true => Ok(old),
        false => Err(Error::new(
            Stage::Arguments,
            format!("{} and {}: compare two reports or two files", what(&old), what(new)),
        )),
    }
}

/// The model of an audit. If the audit linked the file, that is in a temporary folder.
struct AuditedLink {
    model: Model,
    linked: Option<(tempfile::TempDir, PathBuf)>,
}

impl AuditedLink {
    fn read(source: &ReportSource, env: &Environment<'_>) -> Result<Self> {
        let model = match source {
            ReportSource::Link(line) => return link(line, env),
            ReportSource::File(path, None) => read(Path::new(path))?,
            ReportSource::Report(report) | ReportSource::File(_, Some(report)) => {
                Model::read(&report.to_string_lossy(), &read_text(Path::new(report))?)?
            }
        };
        if let ReportSource::File(path, Some(_)) = source {
            let path = Path::new(path);
            let data = MappedFile::open(path).map_err(|e| Error::io(Stage::Load, path, "read", e))?;
            model
                .is_described(&data)
                .map_err(|why| Error::new(Stage::Report, why).in_file(path.display().to_string()))?;
        }
        Ok(AuditedLink { model, linked: None })
    }
}

/// The path of the linked file that the audit is about.
fn linked_path(
    source: &ReportSource,
    model: &Model,
    linked: Option<&(tempfile::TempDir, PathBuf)>,
) -> PathBuf {
    match (source, linked) {
        (_, Some((_, linked))) => linked.clone(),
        (ReportSource::File(path, _), None) => PathBuf::from(path),
        (ReportSource::Report(report), None) => {
            // A relative path is so to the folder of the link, which may be that of the report.
            let output = Path::new(&model.report.output);
            let beside = Path::new(report).with_file_name("").join(output);
            if !output.exists() && beside.exists() { beside } else { output.to_owned() }
        }
        _ => PathBuf::from(&model.report.output),
    }
}

/// The linked file, if it is the one that the report is about; else the reason.
fn program(model: &Model, path: &Path) -> Result<LinkedProgram, String> {
    let data =
        std::fs::read(path).map_err(|e| format!("{}: cannot read the linked file: {e}", path.display()))?;
    model.is_described(&data).map_err(|why| format!("{}: {why}", path.display()))?;
    LinkedProgram::read(&data).ok_or_else(|| format!("{} is no ELF file", path.display()))
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::io(Stage::Report, path, "read the report", e))
}

/// Link as `lto-prune LINE` does, into a temporary folder, for the report.
fn link(line: &[OsString], env: &Environment<'_>) -> Result<AuditedLink> {
    let folder = crate::process_group::temporary_folder(Stage::Link, "audit-")?;
    let output = folder.path().join(output_name(line));
    let report = folder.path().join("report.json");
    let mut words = without_output(line);
    words.extend(["-o".into(), output.clone().into_os_string()]);
    let mut option = OsString::from("--prune-report=");
    option.push(&report);
    words.push(option);
    let status = crate::modes::run_standalone(&words, env)?;
    if status != ExitCode::SUCCESS {
        return Err(Error::new(Stage::Link, "the link failed, so there is nothing to audit"));
    }
    let mut model = Model::read("the link's report", &read_text(&report)?)?;
    // The program has its name without the temporary folder.
    model.report.output = output_name(line).to_string_lossy().into_owned();
    Ok(AuditedLink { model, linked: Some((folder, output)) })
}

/// The name that the line gives to the output: the report says it.
fn output_name(line: &[OsString]) -> OsString {
    let value = line.windows(2).find(|w| w.first().is_some_and(|w| w == "-o")).and_then(|w| w.last());
    let name = value.and_then(|v| Path::new(v).file_name());
    name.unwrap_or(OsStr::new("a.out")).to_owned()
}

/// The line without `-o FILE`: an audit writes nothing of the user's.
fn without_output(line: &[OsString]) -> Vec<OsString> {
    let mut words = Vec::with_capacity(line.len());
    let mut rest = line.iter();
    while let Some(word) = rest.next() {
        let bytes = word.as_encoded_bytes();
        if word == "-o" {
            rest.next();
        } else if !(bytes.starts_with(b"--output=") || bytes.starts_with(b"-o")) {
            words.push(word.clone());
        }
    }
    words
}

/// The terminal, if the answer goes to one; NO_COLOR switches colours off (no-color.org).
pub(crate) fn screen(format: Format, env: &Environment<'_>) -> Screen {
    if format != Format::Table || !std::io::stdout().is_terminal() {
        return Screen::default();
    }
    let columns = env.get("COLUMNS").and_then(|c| c.to_str()?.parse::<usize>().ok());
    // One that doesn't know its height may know its width.
    let width = columns.or_else(|| {
        rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col))
    });
    let wanted = env.get("NO_COLOR").is_none_or(|v| v.is_empty());
    let able = env.get("TERM").is_some_and(|t| !t.is_empty() && t != "dumb");
    Screen { width: width.filter(|w| *w > 0), colours: wanted && able }
}

/// Write to stdout; a closed pipe is no reason to panic, nor to say anything.
pub(crate) fn print(text: &str) -> Result<ExitCode> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::FAILURE),
        Err(e) => Err(Error::io(Stage::Report, "standard output", "write the answer to", e)),
    }
}
