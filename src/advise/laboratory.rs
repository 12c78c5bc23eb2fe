//! Links as experiments: each is made in a folder of its own, timed, and its output read and tested.
//!
//! Loaded bytes are the sum of `p_filesz` of the `PT_LOAD` segments, memory is that of `p_memsz`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, elf};

use super::command::{LinkCommand, flags_without_files};
use super::edits::Edit;
use crate::args::help::{CommandWord, CommandWords};
use crate::args::prune::FLAGS_VARIABLE;
use crate::args::{Environment, help, prune, words};
use crate::audit::table::Format;
use crate::error::{Error, Result, Stage};
use crate::inputs::dso;
use crate::link::response_file;
use crate::process_group::{GroupEnd, Signals, failure};

/// The variable that holds the output's path for a test.
pub(super) const OUTPUT_VARIABLE: &str = "LTO_PRUNE_OUTPUT";
/// Variables that make a linker record its inputs, or a driver write dependency files.
const RECORDERS: [&str; 5] =
    ["DEPENDENCIES_OUTPUT", "LLD_REPRODUCE", "MOLD_REPRO", "SUNPRO_DEPENDENCIES", "WILD_SAVE_DIR"];

// Why there is no advice.
#[derive(Debug)]
pub(super) enum Ended {
    Failed(Error),
    /// A signal asked this program to end.
    Signal(i32),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::Failed(error)
    }
}

// A link that failed.
#[derive(Debug, Clone)]
pub(super) struct LinkFailure {
    // The whole output of the command.
    pub(super) printed: String,
    pub(super) status: u8,
    // The line that says why.
    pub(super) line: String,
}

// A link that succeeded.
#[derive(Debug, Clone)]
pub(super) struct LinkMeasure {
    pub(super) facts: LinkedFacts,
    // It is the median.
    pub(super) time: Duration,
    /// How the test failed, if it did.
    pub(super) test: Option<String>,
}

#[derive(Debug)]
pub(super) struct Laboratory {
    pub(super) link: LinkCommand,
    options: AdviseOptions,
    folder: tempfile::TempDir,
    signals: Signals,
    flags: OsString,
}

impl Laboratory {
    pub(super) fn new(
        link: LinkCommand,
        options: AdviseOptions,
        folder: tempfile::TempDir,
        signals: Signals,
        env: &Environment<'_>,
    ) -> Result<Self> {
        if let Some(keep) = &options.keep {
            let made = std::fs::create_dir_all(keep).and_then(|()| std::fs::read_dir(keep));
            let mut entries =
                made.map_err(|e| Error::io(Stage::Arguments, keep, "make the folder of --keep", e))?;
            if entries.next().is_some() {
                let error = Error::new(Stage::Arguments, "advise: the folder of --keep is not empty");
                return Err(error.in_file(keep.display().to_string()));
            }
        }
        crate::modes::shims::install(&folder.path().join("shims"))?;
        let is_here = link.folder.is_none();
        let of_file =
            if is_here { prune::file::words(env, &link.output)?.map(|(_, words)| words) } else { None };
        let flags = env.get(FLAGS_VARIABLE).unwrap_or_default();
        let flags = flags_without_files(of_file.unwrap_or_default(), &flags);
        Ok(Laboratory { link, options, folder, signals, flags })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn runs(&self) -> usize {
        self.options.runs
    }

    /// The answer of the linker to `--version`.
    pub(super) fn version(&self) -> Result<String, Ended> {
        let mut line = self.link.line(&[], OsStr::new(""));
        line.push(if self.link.is_driver { "-Wl,--version".into() } else { "--version".into() });
        line.extend(["-o".into(), self.at("version").into_os_string()]);
        let _ = self.execute(&mut self.command(&line)?)?;
        Ok(self.printed())
    }

    /// Whether lto-prune links it as it is.
    /// An error if the link writes files of the user's.
    pub(super) fn is_pruned(&self) -> Result<bool, Ended> {
        let before = FolderSnapshot::take(&self.link, self.folder.path());
        let _ = self.once(&[], &self.at("probe"))?;
        before.compare()?;
        Ok(self.at("log").metadata().is_ok_and(|log| log.len() > 0))
    }

    /// Link with these edits `runs` times. The outputs of a row are in the folder `name`.
    pub(super) fn link(
        &self,
        name: &str,
        edits: &[Edit],
        runs: usize,
    ) -> Result<Result<LinkMeasure, LinkFailure>, Ended> {
        let folder = self.options.keep.as_deref().unwrap_or(self.folder.path()).join(name);
        // A repro is linked in a folder of its own.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let output = folder.join(self.link.output_name());
        let mut times = Vec::new();
        for _ in 0..runs {
            let _ = std::fs::remove_file(self.at("log"));
            match self.once(edits, &folder)? {
                Ok(time) => times.push(time),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        times.sort_unstable();
        let failed = |line: String| LinkFailure { printed: self.printed(), status: 1, line };
        if edits.contains(&Edit::LtoPrune) && !self.at("log").exists() {
            return Ok(Err(failed("lto-prune was not called: put -B SHIMS before the other -B".to_owned())));
        }
        let facts = match LinkedFacts::read(&output) {
            Ok(facts) => facts,
            Err(why) if output.exists() => return Ok(Err(failed(why))),
            Err(_) => {
                let name = self.link.output_name().display();
                return Ok(Err(failed(format!("the link succeeded and wrote no {name}"))));
            }
        };
        let test = self.test(&output)?;
        if self.options.keep.is_none() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        let time = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(Ok(LinkMeasure { facts, time, test }))
    }

    /// Link once; the result is the time.
    fn once(&self, edits: &[Edit], folder: &Path) -> Result<Result<Duration, LinkFailure>, Ended> {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(Stage::Link, folder, "make a folder", e))?;
        let output = folder.join(self.link.output_name());
        let _ = std::fs::remove_file(&output);
        let mut line = self.link.line(edits, self.at("shims").as_os_str());
        line.extend(["-o".into(), output.into_os_string()]);
        let (end, time) = self.execute(&mut self.command(&line)?)?;
        let Some(end) = end else { return Ok(Ok(time)) };
        let printed = self.printed();
        let line = match end.line {
            Some(line) => line,
            None => first_line(&printed).unwrap_or("it failed without a message").to_owned(),
        };
        Ok(Err(LinkFailure { printed, status: end.status, line }))
    }

    fn command(&self, line: &[OsString]) -> Result<Command> {
        let (program, mut rest) = line.split_at(self.link.program.len());
        let response = [OsString::from_iter(["@".as_ref(), self.at("response").as_os_str()])];
        if self.link.is_long {
            let path = self.at("response");
            let written = std::fs::write(&path, response_file(rest));
            written.map_err(|e| Error::io(Stage::Link, path, "write the response file", e))?;
            rest = &response;
        }
        let mut words = program.iter().chain(rest);
        let mut command = Command::new(words.next().map_or(OsStr::new(""), |w| w));
        command.args(words).envs(self.link.variables.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// The test of an output; the result is how it failed.
    fn test(&self, output: &Path) -> Result<Option<String>, Ended> {
        let Some(test) = &self.options.test else { return Ok(None) };
        let output = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
        let mut command = Command::new("sh");
        command.arg("-c").arg(test).env(OUTPUT_VARIABLE, output);
        let (end, _) = self.execute(&mut command)?;
        let printed = self.printed();
        Ok(end.map(|end| {
            let why = end.line.unwrap_or_else(|| format!("exit status {}", end.status));
            first_line(&printed).map_or(why.clone(), |line| format!("{why}: {line}"))
        }))
    }

    /// Run a command to its end: how it failed, if it did, and its time.
    fn execute(&self, command: &mut Command) -> Result<(Option<CommandFailure>, Duration), Ended> {
        let path = self.at("printed");
        let trouble = |e| Error::io(Stage::Link, &path, "write", e);
        let file = std::fs::File::create(&path).map_err(trouble)?;
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(trouble)?).stderr(file).process_group(0);
        for name in RECORDERS {
            command.env_remove(name);
        }
        let mut log = OsString::from("--prune-log=");
        log.push(self.at("log"));
        command.env(FLAGS_VARIABLE, words::joined(&self.flags, &[log])).env(prune::file::VARIABLE, "");
        // Its temporary files are removed with the folder.
        let temporary = self.at("tmp");
        std::fs::create_dir_all(&temporary).map_err(trouble)?;
        command.env("TMPDIR", &temporary);
        if let Some(folder) = &self.link.folder {
            command.current_dir(folder);
        }
        let program = PathBuf::from(command.get_program());
        let start = Instant::now();
        let child = command.spawn().map_err(|e| Error::io(Stage::Link, &program, "run", e))?;
        let end = self.signals.wait(child, start, self.options.timeout);
        let time = start.elapsed();
        match end.map_err(|e| Error::io(Stage::Link, &program, "wait for", e))? {
            GroupEnd::Interrupted(signal) => Err(Ended::Signal(signal)),
            GroupEnd::TimedOut(limit) => {
                let line = Some(format!("took longer than {} s", limit.as_secs_f64()));
                Ok((Some(CommandFailure { line, status: 1 }), time))
            }
            GroupEnd::Exited(status) => {
                let line = failure(status).filter(|_| status.code().is_none());
                let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                Ok(((!status.success()).then_some(CommandFailure { line, status: code }), time))
            }
        }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.at("printed")).unwrap_or_default()).into_owned()
    }
}

/// How a command failed: its status, and why if not by its own decision.
struct CommandFailure {
    line: Option<String>,
    status: u8,
}

/// The first line that is no warning and does not end with a colon.
fn first_line(printed: &str) -> Option<&str> {
    let lines = || printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let says = |line: &&str| !line.contains("warning:") && !line.ends_with(':');
    lines().find(says).or_else(|| lines().next())
}

/// Symbols that a linker defines by itself: each linker exports others of them.
const OF_LINKER: [&str; 7] = ["__bss_start", "_edata", "_end", "_etext", "edata", "end", "etext"];
/// So many names of symbols are shown.
const SHOWN_NAMES: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkedFacts {
    pub(super) loaded: u64,
    pub(super) memory: u64,
    pub(super) file: u64,
    kind: String,
    needed: Vec<String>,
    /// Dynamic symbols that it defines, with their versions.
    exports: BTreeSet<String>,
    pub(super) has_symbols: bool,
    pub(super) has_debug: bool,
    has_relative_relocations: bool,
}

impl LinkedFacts {
    /// Read a linked file.
    pub(super) fn read(path: &Path) -> Result<LinkedFacts, String> {
        let data = std::fs::read(path).map_err(|e| e.to_string())?;
        let unread = |e: object::Error| format!("the output is no 64-bit ELF file: {e}");
        let header = FileHeader64::<Endianness>::parse(&*data).map_err(unread)?;
        let endian = header.endian().map_err(unread)?;
        let segments = header.program_headers(endian, &*data).map_err(unread)?;
        let loads = || segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD);
        if loads().next().is_none() {
            return Err("the output is no program and no shared library".to_owned());
        }
        let sections = header.sections(endian, &*data).map_err(unread)?;
        let has = |prefix: &[u8]| {
            let names = sections.iter().filter_map(|s| sections.section_name(endian, s).ok());
            names.into_iter().any(|name| name.starts_with(prefix))
        };
        let of_dso = dso::parse(&data).map_err(|(_, why)| why)?;
        let interpreter = segments.iter().find_map(|s| s.interpreter(endian, &*data).ok()?);
        let interpreter = interpreter.map(|i| String::from_utf8_lossy(i).into_owned());
        let mut kind = match (header.e_type(endian), &interpreter) {
            (elf::ET_EXEC, _) => "a program at a fixed address".to_owned(),
            (elf::ET_DYN, _) if of_dso.is_program => "a position-independent program".to_owned(),
            _ => "a shared library".to_owned(),
        };
        kind += &interpreter.map_or(String::new(), |name| format!(" for {name}"));
        kind += &of_dso.soname.map_or(String::new(), |name| format!(" {name}"));
        // GNU ld and gold also define each version as a symbol.
        let is_version = |s: &crate::inputs::DsoSymbol| s.version.as_ref().is_some_and(|v| **v == *s.name);
        let defined = of_dso.symbols.iter().filter(|s| s.defined && !is_version(s));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = |s: &crate::inputs::DsoSymbol| match &s.version {
            Some(version) => format!("{}@{}", text(&s.name), text(version)),
            None => text(&s.name),
        };
        Ok(LinkedFacts {
            loaded: loads().map(|s| s.p_filesz(endian)).sum(),
            memory: loads().map(|s| s.p_memsz(endian)).sum(),
            file: data.len() as u64,
            kind,
            needed: of_dso.needed,
            exports: defined.map(name).filter(|name| !OF_LINKER.contains(&&**name)).collect(),
            has_symbols: sections.iter().any(|s| s.sh_type(endian) == elf::SHT_SYMTAB),
            has_debug: has(b".debug_") || has(b".zdebug_"),
            has_relative_relocations: sections.iter().any(|s| s.sh_type(endian) == elf::SHT_RELR),
        })
    }

    /// The sort key of rows: the loaded bytes, then those of the file.
    pub(super) fn sizes(&self) -> (u64, u64) {
        (self.loaded, self.file)
    }

    /// Differences from the link as it is that other files or the loader can see.
    pub(super) fn differences(&self, base: &LinkedFacts) -> Vec<String> {
        let mut out = Vec::new();
        if self.kind != base.kind {
            out.push(format!("it is {}, not {}", self.kind, base.kind));
        }
        let missing = |from: &[String], other: &[String]| {
            from.iter().filter(|name| !other.contains(name)).cloned().collect::<Vec<_>>().join(", ")
        };
        let (lost, new) = (missing(&base.needed, &self.needed), missing(&self.needed, &base.needed));
        out.extend((!lost.is_empty()).then(|| format!("no longer needs {lost}")));
        out.extend((!new.is_empty()).then(|| format!("needs also {new}")));
        if lost.is_empty() && new.is_empty() && self.needed != base.needed {
            out.push("needs its libraries in another order".to_owned());
        }
        let symbols = |from: &BTreeSet<String>, other: &BTreeSet<String>, what: &str| {
            let names: Vec<&str> = from.difference(other).map(String::as_str).collect();
            let shown = names.iter().take(SHOWN_NAMES).copied().collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(SHOWN_NAMES);
            let plural = if names.len() == 1 { "symbol" } else { "symbols" };
            let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
            (!names.is_empty()).then(|| format!("{what} {} {plural}: {shown}{rest}", names.len()))
        };
        out.extend(symbols(&base.exports, &self.exports, "no longer exports"));
        out.extend(symbols(&self.exports, &base.exports, "exports also"));
        out
    }

    /// Differences that need a newer loader, or that only a debugger or profiler sees.
    pub(super) fn losses(&self, base: &LinkedFacts) -> Vec<String> {
        let mut out = Vec::new();
        out.extend((base.has_symbols && !self.has_symbols).then(|| "no symbol table".to_owned()));
        let is_new = self.has_relative_relocations && !base.has_relative_relocations;
        out.extend(is_new.then(|| "runs with glibc 2.36 and later".to_owned()));
        out.extend((base.has_debug && !self.has_debug).then(|| "no debug information".to_owned()));
        out
    }
}

/// The inode, size and time of modification of a file; `None` for a folder.
type FileState = Option<(u64, u64, i64, i64)>;

/// The entries of the working folder and of the folders that the command's own options write to.
#[derive(Debug)]
pub(super) struct FolderSnapshot {
    folders: Vec<PathBuf>,
    entries: BTreeMap<PathBuf, FileState>,
}

impl FolderSnapshot {
    /// Take it before a link. Folders in `ours` are not the user's.
    pub(super) fn take(link: &LinkCommand, ours: &Path) -> FolderSnapshot {
        let base = link.folder.as_deref().unwrap_or(Path::new(""));
        let written = link.written.iter().chain([&link.output]);
        let named = written.flat_map(|path| [Some(path.as_path()), path.parent()]).flatten();
        let all = named.chain([Path::new("")]).map(|path| base.join(path));
        let mut folders: Vec<PathBuf> = all.filter(|folder| !folder.starts_with(ours)).collect();
        folders.sort();
        folders.dedup();
        FolderSnapshot { entries: entries(&folders), folders }
    }

    /// An error if a file was written, replaced or removed since.
    pub(super) fn compare(&self) -> Result<()> {
        let now = entries(&self.folders);
        let is_changed = |(path, state): &(&PathBuf, &FileState)| self.entries.get(*path) != Some(*state);
        let changed = now.iter().find(is_changed).map(|(path, _)| (path, "wrote"));
        let removed = || self.entries.keys().find(|path| !now.contains_key(*path));
        let Some((path, verb)) = changed.or_else(|| removed().map(|path| (path, "removed"))) else {
            return Ok(());
        };
        let message = format!(
            "advise: the first link {verb} this file, which is not its output; no further link is made: \
             leave out the option that names the file"
        );
        Err(Error::new(Stage::Link, message).in_file(path.display().to_string()))
    }
}

/// The entries of folders that exist.
fn entries(folders: &[PathBuf]) -> BTreeMap<PathBuf, FileState> {
    let is_here = |folder: &Path| folder.as_os_str().is_empty();
    let listed = folders.iter().filter_map(|folder| {
        let read = std::fs::read_dir(if is_here(folder) { Path::new(".") } else { folder }).ok()?;
        Some(read.flatten().map(move |entry| folder.join(entry.file_name())))
    });
    let state = |path: &PathBuf| {
        // A link to a file may lead nowhere.
        let data = path.metadata().or_else(|_| path.symlink_metadata()).ok()?;
        (!data.is_dir()).then(|| (data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    };
    listed.flatten().map(|path| (path.clone(), state(&path))).collect()
}

#[derive(Debug, Clone, Default)]
pub(super) struct AdviseOptions {
    /// It is empty if an archive has the link.
    pub(super) command: Vec<OsString>,
    pub(super) repro: Option<PathBuf>,
    pub(super) runs: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) test: Option<OsString>,
    pub(super) format: Format,
    pub(super) keep: Option<PathBuf>,
}

/// Read the words; `None` if they ask for help.
pub(super) fn parse(words: &[OsString]) -> Result<Option<AdviseOptions>> {
    let mut options = AdviseOptions { runs: 3, ..AdviseOptions::default() };
    let mut words = CommandWords::new("advise", words, "");
    while let Some(word) = words.next()? {
        match word {
            CommandWord::Value(program) => {
                options.command = std::iter::once(program).chain(words.rest()?).collect();
            }
            CommandWord::Option("help", _) => return Ok(None),
            CommandWord::Option("runs", value) => {
                options.runs = words.count("runs", &value, "a number of links")?
            }
            CommandWord::Option("timeout", value) => {
                options.timeout = Some(words.seconds("timeout", &value)?)
            }
            CommandWord::Option("format", value) => {
                let all = [("table", Format::Table), ("json", Format::Json), ("csv", Format::Csv)];
                options.format = help::one_of("format", &value.to_string_lossy(), &all)?;
            }
            CommandWord::Option("test", value) => options.test = Some(value),
            CommandWord::Option("keep", value) => options.keep = Some(PathBuf::from(value)),
            CommandWord::Option(_, value) => options.repro = Some(PathBuf::from(value)),
        }
    }
    match (options.command.is_empty(), options.repro.is_some()) {
        (true, false) => Err(words.wrong("no link command: lto-prune advise [OPTIONS] -- LINK COMMAND")),
        (false, true) => Err(words.wrong("a link command or --repro, not both")),
        _ => Ok(Some(options)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Option<AdviseOptions>> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options = run("--runs=5 --timeout=1.5 --format=csv -- gcc a.o --runs=x").unwrap().unwrap();
        assert_eq!((options.runs, options.timeout), (5, Some(Duration::from_millis(1500))));
        assert_eq!(
            (options.command, options.format),
            (["gcc", "a.o", "--runs=x"].map(OsString::from).to_vec(), Format::Csv)
        );
        assert!(run("--help").unwrap().is_none());
        assert!(run("--repro=x.tar").unwrap().unwrap().repro.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        for (line, text) in [
            ("", "no link command"),
            ("--", "no link command"),
            ("--runs=0 gcc", "--runs=0: not a number of links"),
            ("--timeout=soon gcc", "not a number of seconds"),
            ("--format=html gcc", "table, json, csv, not html"),
            ("--run=1 gcc", "no option --run; did you mean --runs?"),
            ("--repro=a.tar gcc", "not both"),
            ("-x gcc", "invalid option '-x'"),
        ] {
            let message = run(line).unwrap_err().to_string();
            assert!(message.contains(text), "{line}: {message}");
        }
    }
}
