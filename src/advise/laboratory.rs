//! Links as experiments: each is made in a folder of its own, timed, and its output read and tested.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::command::{LinkCommand, flags_without_files};
use super::edits::Edit;
use super::facts::LinkedFacts;
use super::options::AdviseOptions;
use super::snapshot::FolderSnapshot;
use crate::args::prune::{self, FLAGS_VARIABLE};
use crate::args::{Environment, words};
use crate::error::{Error, Result, Stage};
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
    pub(super) fn version(&self) -> std::result::Result<String, Ended> {
        let mut line = self.link.line(&[], OsStr::new(""));
        line.push(if self.link.is_driver { "-Wl,--version".into() } else { "--version".into() });
        line.extend(["-o".into(), self.at("version").into_os_string()]);
        let _ = self.execute(&mut self.command(&line)?)?;
        Ok(self.printed())
    }

    /// Whether lto-prune links it as it is.
    ///
    /// # Errors
    /// The link writes files of the user's.
    pub(super) fn is_pruned(&self) -> std::result::Result<bool, Ended> {
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
    ) -> std::result::Result<std::result::Result<LinkMeasure, LinkFailure>, Ended> {
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
    fn once(
        &self,
        edits: &[Edit],
        folder: &Path,
    ) -> std::result::Result<std::result::Result<Duration, LinkFailure>, Ended> {
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
    fn test(&self, output: &Path) -> std::result::Result<Option<String>, Ended> {
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
    fn execute(
        &self,
        command: &mut Command,
    ) -> std::result::Result<(Option<CommandFailure>, Duration), Ended> {
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
