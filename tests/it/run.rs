//! Commands of a test. [`Session`] records each as a shell line, and a failing test prints these lines.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::elf::Facts;
use crate::texts::{Block, blocks};
use crate::tools::{self, Linker};

/// No command of any test takes this long; a hanging program must not hang the suite.
const DEADLINE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Exit status; for a death by signal, 128 + its number as a shell has it.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn ok(&self) -> bool {
        self.status == 0
    }
}

/// The directory of a test, with its commands. The directory is removed when the test succeeds.
#[derive(Debug)]
pub(crate) struct Session {
    dir: PathBuf,
    log: Vec<String>,
}

impl Session {
    /// Creates an empty directory for `name` (words and slashes) in the target directory.
    pub(crate) fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("it").join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).unwrap();
        }
        std::fs::create_dir_all(&dir).unwrap();
        Session { dir, log: Vec::new() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| self.fail(&format!("{name}: {error}")))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub(crate) fn facts(&self, name: &str) -> Facts {
        Facts::read(&self.path(name)).unwrap_or_else(|error| self.fail(&error))
    }

    pub(crate) fn report(&self, name: &str) -> serde_json::Value {
        crate::reports::report(self, &self.path(name))
    }

    /// Creates the folder `shims`, which makes compilers use the tool as their linker.
    pub(crate) fn shims(&self) {
        tools::shim_dir(&self.path("shims"), &tools::lto_prune());
    }

    /// The names in a folder, sorted, without the files of running commands.
    pub(crate) fn listing(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with(".out")).collect();
        names.sort();
        names
    }

    /// Waits up to 30 seconds until a condition holds.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            self.check(start.elapsed() < Duration::from_secs(30), &format!("no end of waiting: {what}"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a command of the test has written a file.
    #[track_caller]
    pub(crate) fn wait_for(&self, file: &str) {
        self.wait_until(file, || self.path(file).exists());
    }

    pub(crate) fn mkdir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Writes a file, and creates its parent directories.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Writes the files of a test: in the text, `@test NAME` begins the files of a test, and `@file PATH` one of them.
    pub(crate) fn files(&self, text: &str, name: &str) {
        for file in section(text, name) {
            self.write(file.words, file.text);
        }
    }

    /// Writes a script that may be executed.
    pub(crate) fn script(&self, name: &str, body: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, body);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn run(&mut self, job: &Job) -> Outcome {
        self.log.push(job.to_string());
        let scratch = self.dir.join(format!(".out{}", self.log.len()));
        let outcome = job.run(&scratch);
        match outcome {
            Ok(outcome) => outcome,
            Err(error) => panic!("{}", self.failure(&format!("can't run: {error}"))),
        }
    }

    /// Runs a command of words without quotes, which must succeed; `lto-prune` is the tool under test.
    pub(crate) fn cmd(&mut self, line: &str) -> Outcome {
        let job = self.job(line);
        self.must(&job)
    }

    /// Runs a compiler driver or linker as [`Session::cmd`] does; the tool links with `linker`.
    pub(crate) fn link(&mut self, linker: Linker, line: &str) -> Outcome {
        let job = self.job(line).by(linker);
        self.must(&job)
    }

    /// A command of words without quotes.
    pub(crate) fn job(&self, line: &str) -> Job {
        let (program, words) = line.split_once(' ').unwrap_or((line, ""));
        let tool = if program == "lto-prune" { tools::lto_prune().into() } else { OsString::from(program) };
        Job::new(&self.dir, tool).words(words)
    }

    /// Runs a job that must succeed.
    pub(crate) fn must(&mut self, job: &Job) -> Outcome {
        let outcome = self.run(job);
        if !outcome.ok() {
            let what = format!("exit status {}\n{}{}", outcome.status, outcome.stdout, outcome.stderr);
            panic!("{}", self.failure(&what));
        }
        outcome
    }

    /// A failure message: `what`, followed by every command that was run.
    pub(crate) fn failure(&self, what: &str) -> String {
        let mut text = format!("{what}\n\nTo reproduce (the files are still there):\n");
        for line in &self.log {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    #[track_caller]
    pub(crate) fn fail(&self, what: &str) -> ! {
        panic!("{}", self.failure(what))
    }

    #[track_caller]
    pub(crate) fn check(&self, condition: bool, what: &str) {
        if !condition {
            self.fail(what);
        }
    }

    /// A text of a command has a part.
    #[track_caller]
    pub(crate) fn says(&self, text: &str, part: &str) {
        self.check(text.contains(part), &format!("no `{part}` in\n{text}"));
    }

    /// A command has failed, and its messages have a text.
    #[track_caller]
    pub(crate) fn fails_with(&self, outcome: &Outcome, text: &str) {
        self.check(!outcome.ok() && outcome.stderr.contains(text), &format!("no `{text}` in\n{outcome:?}"));
    }

    #[track_caller]
    pub(crate) fn check_eq<T: PartialEq + std::fmt::Debug>(&self, left: &T, right: &T, what: &str) {
        if left != right {
            self.fail(&format!("{what}\n   left: {left:#?}\n  right: {right:#?}"));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// A command with its directory and environment.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: PathBuf,
}

impl Job {
    pub(crate) fn new(dir: &Path, program: impl Into<OsString>) -> Self {
        Job { program: program.into(), args: Vec::new(), env: Vec::new(), dir: dir.to_owned() }
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<I: IntoIterator<Item = S>, S: Into<OsString>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn words(self, text: &str) -> Self {
        self.args(text.split_whitespace())
    }

    pub(crate) fn env(mut self, key: &str, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// The tool is to link with this linker.
    pub(crate) fn by(self, linker: Linker) -> Self {
        self.env("LTO_PRUNE_LINKER", linker.path())
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.dir);
        // Messages are compared and parsed; the developer's own settings must not reach the links.
        command.env("LC_ALL", "C").env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
        // One cache for all tests, of their own.
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Output is written to files: a program that fills a pipe would hang.
    fn run(&self, scratch: &Path) -> std::io::Result<Outcome> {
        let out = scratch.with_extension("stdout");
        let err = scratch.with_extension("stderr");
        let mut child = self
            .command()
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out)?)
            .stderr(std::fs::File::create(&err)?)
            .spawn()
            .map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", self.program.display())))?;
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > DEADLINE {
                child.kill()?;
                child.wait()?;
                return Err(std::io::Error::other(format!("no end after {} s: {self}", DEADLINE.as_secs())));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        let read = |path: &Path| -> std::io::Result<String> {
            let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
            std::fs::remove_file(path)?;
            Ok(text)
        };
        Ok(Outcome {
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: read(&out)?,
            stderr: read(&err)?,
        })
    }
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cd {} &&", quote(&self.dir.to_string_lossy()))?;
        for (key, value) in &self.env {
            write!(f, " {}={}", key.to_string_lossy(), quote(&value.to_string_lossy()))?;
        }
        write!(f, " {}", quote(&self.program.to_string_lossy()))?;
        for arg in &self.args {
            write!(f, " {}", quote(&arg.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// Quotes a word for a shell, where needed.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The blocks between the line `@test NAME` and the next such line.
pub(crate) fn section<'t>(text: &'t str, name: &str) -> Vec<Block<'t>> {
    let behind = blocks(text).into_iter().skip_while(|block| (block.key, block.words) != ("test", name));
    behind.skip(1).take_while(|block| block.key != "test").collect()
}
