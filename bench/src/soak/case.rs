//! One program in one folder: compile, link twice, run twice, compare; and keep it if they differ.
//!
//! Every command is run in the folder of the case with relative paths, so that a kept folder can be moved and its
//! script does exactly what was done. Left out: standard input (empty) and time limits of compilers.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::compiled::Compiled;
use super::debug;
use super::program::SoakProgram;
use super::setup::Recipe;

use crate::corpus::{Corpus, find_linker};
use crate::symbols::text_size;
use crate::{Options, Result, process, trace};

/// Seconds that the plain program may run; those of the own generator need milliseconds.
const PATIENCE: &str = "3";
/// Seconds for the pruned one: so many more that a busy machine makes no difference of a close call.
const MORE_PATIENCE: &str = "30";

/// A site is watched for so many hits: each costs thousands of instructions.
const TRACED_HITS: u64 = 1000;

/// How often the plain program must do the same before the pruned one is blamed for doing something else.
const REPEATED: usize = 20;
/// What `timeout` says of a program that a stub has ended.
const ILLEGAL_INSTRUCTION: i32 = 128 + 4;

#[derive(Debug)]
pub(crate) struct SoakTools {
    pub(crate) pruner: PathBuf,
    /// Short names, and where each is.
    pub(crate) linkers: Vec<String>,
    paths: Vec<PathBuf>,
    /// They are the `LTO_PRUNE_FLAGS` of the pruned link.
    flags: String,
    pub(crate) keep: PathBuf,
    /// What ran through pointers is held against the report, where lld links.
    trace: bool,
    compiled: Option<Compiled>,
}

impl SoakTools {
    pub(crate) fn find(corpus: &Corpus, options: &Options) -> Result<SoakTools> {
        let linkers: Vec<String> = if options.lto {
            // The only one behind which bitcode is pruned.
            vec!["lld".to_owned()]
        } else if options.linkers.is_empty() {
            // lld more often: it is what most will have behind, and the fastest.
            ["lld", "lld", "lld", "mold", "bfd", "gold"].map(str::to_owned).into()
        } else {
            options.linkers.clone()
        };
        let paths = linkers.iter().map(|l| find_linker(l)).collect::<Result<_>>()?;
        Ok(SoakTools {
            pruner: corpus.pruner.clone(),
            linkers,
            paths,
            flags: format!(
                // The linkers of a program share what the first of them put into the cache.
                "--prune-level={} --prune-strict --prune-cache=cache --prune-jobs=1 --prune-report=report.json",
                options.level,
            ),
            keep: corpus.root.join("work/soak"),
            trace: options.trace,
            compiled: Compiled::find(options)?,
        })
    }

    fn flags_of(&self, recipe: &Recipe) -> String {
        let unwind = recipe.unwind.map(|mode| format!(" --prune-unwind={mode}"));
        let worth = if recipe.is_estimated { " --prune-worth=1" } else { "" };
        self.flags.clone() + &unwind.unwrap_or_default() + worth
    }

    fn linker(&self, name: &str) -> Result<&Path> {
        let found = self.linkers.iter().position(|l| l == name).and_then(|i| self.paths.get(i));
        Ok(found.ok_or("a linker that nobody chose")?)
    }
}

#[derive(Debug)]
pub(crate) enum SoakOutcome {
    /// No difference; bytes of `.text`, what the report says, and sites that a trace saw and that are resolved.
    Same {
        plain: u64,
        pruned: u64,
        report: SoakReport,
        sites: (usize, usize),
        /// Whether the program without unwind entries behaves in another way, if it was made.
        control: Option<bool>,
    },
    /// `--prune-unwind=drop` says that the program needs its entries.
    Refused,
    /// Nothing was compared, for the reason given.
    Idle(String),
    Red(String),
}

pub(crate) struct Ran {
    status: i32,
    pub(crate) stdout: Vec<u8>,
    stderr: String,
}

pub(crate) fn ran(dir: &Path, words: &[String], environment: &[(&str, &str)]) -> Result<Ran> {
    let (program, args) = words.split_first().ok_or("an empty command")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("LC_ALL", "C.UTF-8");
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    command.envs(environment.iter().copied());
    let (out, err) = (dir.join(".stdout"), dir.join(".stderr"));
    let done = process::run(&mut command, &out, &err)?;
    let stderr = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
    Ok(Ran { status: done.status, stdout: fs::read(&out)?, stderr })
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// What a report says of a link.
#[derive(Debug, Default)]
pub(crate) struct SoakReport {
    /// Each has its name, its count and its bytes.
    pub(crate) limits: Vec<(String, u64, u64)>,
    /// Functions that live, that are stubs, that are gone.
    pub(crate) functions: [u64; 3],
    /// Functions that lose their unwind entries, and that keep them.
    pub(crate) entries: [u64; 2],
}

impl SoakReport {
    fn read(path: &Path) -> Result<SoakReport> {
        let report = crate::report::read(path)?;
        Ok(SoakReport {
            limits: crate::report::limits(&report),
            functions: ["live", "stubs", "dead"].map(|k| report["functions"][k].as_u64().unwrap_or(0)),
            entries: ["functions", "kept"].map(|k| report["unwind"][k].as_u64().unwrap_or(0)),
        })
    }
}

fn first_lines(text: &str) -> String {
    text.lines().take(6).collect::<Vec<_>>().join("\n    ")
}

/// Trace the plain program and hold it against the report; what is wrong, with the numbers of sites that ran and were resolved.
fn traced(dir: &Path, recipe: &Recipe, plain: &Ran) -> Result<std::result::Result<(usize, usize), String>> {
    let said = crate::report::read(&dir.join("report.json"))?;
    if said["pruned"] == Value::Bool(false) {
        return Ok(Ok((0, 0)));
    }
    let mut link = recipe.link_by("plain-bin", "a.traced");
    link.push("-Wl,-Map=a.map".into());
    let done = ran(dir, &link, &[])?;
    if done.status != 0 {
        return Ok(Err(format!("link with a map: {}", first_lines(&done.stderr))));
    }
    let (program, stdout, stderr) = (dir.join("a.traced"), dir.join(".stdout"), dir.join(".stderr"));
    let args = ["timeout", MORE_PATIENCE, "./a.traced"].map(OsStr::new);
    let run = trace::Run { args: &args, dir, stdout: &stdout, stderr: &stderr, limit: TRACED_HITS };
    let (map, report) = (dir.join("a.map"), dir.join("report.json"));
    let files = trace::ComparedFiles { plain: &program, map: &map, report: &report, dir };
    let outcome = trace::hold(&files, &run)?;
    let misses = outcome.misses("traced");
    if !misses.is_empty() {
        return Ok(Err(misses));
    }
    if outcome.status() != plain.status || fs::read(stdout)? != plain.stdout {
        return Ok(Err(format!("traced, it behaves in another way, status {}", outcome.status())));
    }
    Ok(Ok(outcome.executed()))
}

/// Compile in `dir`, or take what was compiled before; what a compiler that refuses says.
fn compile(dir: &Path, program: &SoakProgram, recipe: &Recipe, tools: &SoakTools) -> Result<Option<String>> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if let Some(compiled) = &tools.compiled
        && compiled.take(&name, program, recipe, dir)?
    {
        return Ok(None);
    }
    for command in &recipe.compile {
        let done = ran(dir, command, &[])?;
        if done.status != 0 {
            return Ok(Some(format!("{}\n    {}", command.join(" "), first_lines(&done.stderr))));
        }
    }
    if let Some(compiled) = &tools.compiled {
        compiled.keep(&name, program, recipe, dir)?;
    }
    Ok(None)
}

/// Compile, link, run and compare, in the new folder `dir`.
///
/// # Errors
/// If a command can't be started or a file not be written.
pub(crate) fn run(
    dir: &Path,
    program: &SoakProgram,
    recipe: &Recipe,
    tools: &SoakTools,
) -> Result<SoakOutcome> {
    fs::create_dir_all(dir)?;
    for unit in &program.units {
        let extension = if unit.cplus { "cc" } else { "c" };
        fs::write(dir.join(&unit.name).with_extension(extension), &unit.text)?;
    }
    for (folder, file) in [("plain-bin", tools.linker(&recipe.linker)?), ("pruned-bin", &tools.pruner)] {
        fs::create_dir(dir.join(folder))?;
        symlink(file, dir.join(folder).join("ld"))?;
    }
    if let Some(text) = compile(dir, program, recipe, tools)? {
        eprintln!("{}: {text}", dir.display());
        return Ok(SoakOutcome::Idle("a compiler refuses it".into()));
    }
    let linker = tools.linker(&recipe.linker)?.to_string_lossy().into_owned();
    let flags = tools.flags_of(recipe);
    let environment = [("LTO_PRUNE_LINKER", &*linker), ("LTO_PRUNE_FLAGS", &*flags)];
    for (bin, environment) in [("plain-bin", &[][..]), ("pruned-bin", &environment[..])] {
        let Some(command) = recipe.library_by(bin) else { continue };
        let done = ran(dir, &command, environment)?;
        if done.status != 0 {
            let text = format!("library, {bin}: {}", first_lines(&done.stderr));
            return Ok(if environment.is_empty() { SoakOutcome::Idle(text) } else { SoakOutcome::Red(text) });
        }
    }
    let plain = ran(dir, &recipe.link_by("plain-bin", "a.plain"), &[])?;
    let pruned = ran(dir, &recipe.link_by("pruned-bin", "a.pruned"), &environment)?;
    if plain.status != 0 {
        return Ok(SoakOutcome::Idle(format!(
            "{} alone fails: {}",
            recipe.linker,
            plain.stderr.lines().next().unwrap_or("")
        )));
    }
    if recipe.unwind == Some("drop")
        && ["error: a.pruned: --prune-unwind=drop: ", "without unwind entries backtraces end early"]
            .iter()
            .any(|text| pruned.stderr.contains(text))
    {
        return Ok(SoakOutcome::Refused);
    }
    if pruned.status != 0 {
        return Ok(SoakOutcome::Red(format!(
            "link, status {}: {}",
            pruned.status,
            first_lines(&pruned.stderr)
        )));
    }
    let said = plain.stderr.replace("a.plain", "a.pruned").replace("plain-bin/ld", &linker);
    let is_note = |line: &str| {
        recipe.unwind.is_some() && line.contains("note: a.pruned: ") && line.contains("unwind entries")
    };
    if pruned.stderr.lines().any(|l| !said.lines().any(|k| k == l) && !is_note(l)) {
        return Ok(SoakOutcome::Red(format!("the link says more: {}", first_lines(&pruned.stderr))));
    }
    let plain = ran(dir, &owned(&["timeout", PATIENCE, "./a.plain"]), &[])?;
    if plain.status == 124 {
        return Ok(SoakOutcome::Idle("it doesn't end".into()));
    }
    let pruned = ran(dir, &owned(&["timeout", MORE_PATIENCE, "./a.pruned"]), &[])?;
    // mold puts IRELATIVE relocations in read-only memory: the start code of a static program dies of them.
    if plain.status >= 128 && plain.stdout.is_empty() && pruned.status < 124 {
        return Ok(SoakOutcome::Idle(format!(
            "linked plainly it dies before it prints anything, with status {}; pruned it does not",
            plain.status
        )));
    }
    // It jumps to where nothing is, say, and what is there depends on where the loader puts things: which signal ends it is by chance.
    // A stub that ran is none of these.
    let by_stub = pruned.status == ILLEGAL_INSTRUCTION && plain.status != ILLEGAL_INSTRUCTION;
    if plain.status >= 128 && pruned.status >= 128 && plain.stdout == pruned.stdout && !by_stub {
        return Ok(SoakOutcome::Idle(format!("it dies, alone too, with status {}", plain.status)));
    }
    let red = if plain.status != pruned.status {
        // The last words may be those of a stub.
        let words = pruned.stderr.lines().last().map(|l| format!(": {l}")).unwrap_or_default();
        Some(format!("exit status {} instead of {}{words}", pruned.status, plain.status))
    } else if plain.stdout != pruned.stdout
        || plain.stderr.replace("plain", "pruned") != pruned.stderr.replace("plain", "pruned")
    {
        Some("another output".to_owned())
    } else {
        None
    };
    if let Some(red) = red {
        // What depends on where the loader puts things is no fault of the link's.
        for _ in 0..REPEATED {
            let again = ran(dir, &owned(&["timeout", PATIENCE, "./a.plain"]), &[])?;
            if (again.status, &again.stdout) != (plain.status, &plain.stdout) {
                return Ok(SoakOutcome::Idle("it does not do the same twice".into()));
            }
        }
        return Ok(SoakOutcome::Red(red));
    }
    if recipe.has_debug_info()
        && let Some(text) = debug::difference(dir)?
    {
        return Ok(SoakOutcome::Red(text));
    }
    let mut sites = (0, 0);
    if tools.trace && recipe.linker == "lld" {
        match traced(dir, recipe, &plain)? {
            Ok(seen) => sites = seen,
            Err(text) => return Ok(SoakOutcome::Red(text)),
        }
    }
    let control = program.is_controlled.then(|| differs_without_entries(dir, recipe, &plain)).transpose()?;
    Ok(SoakOutcome::Same {
        sites,
        control: control.flatten(),
        plain: text_size(&dir.join("a.plain"))?,
        pruned: text_size(&dir.join("a.pruned"))?,
        report: SoakReport::read(&dir.join("report.json"))?,
    })
}

/// Whether the program behaves in another way if its objects have no unwind tables; `None` if it can't be linked so.
fn differs_without_entries(dir: &Path, recipe: &Recipe, plain: &Ran) -> Result<Option<bool>> {
    let sections = ".eh_frame .rela.eh_frame .gcc_except_table* .rela.gcc_except_table*";
    let remove: Vec<&str> = sections.split(' ').flat_map(|section| ["-R", section]).collect();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".o") || name.ends_with(".a") {
            ran(dir, &owned(&[&["objcopy"], &remove[..], &[&*name]].concat()), &[])?;
        }
    }
    let library = recipe.library_by("plain-bin");
    for command in library.iter().chain([&recipe.link_by("plain-bin", "a.control")]) {
        if ran(dir, command, &[])?.status != 0 {
            return Ok(None);
        }
    }
    let control = ran(dir, &owned(&["timeout", PATIENCE, "./a.control"]), &[])?;
    Ok(Some((control.status, &control.stdout) != (plain.status, &plain.stdout)))
}

fn quoted(words: &[String]) -> String {
    let word = |w: &String| {
        let plain = w.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=+,./:@".contains(&b));
        if plain { w.clone() } else { format!("'{}'", w.replace('\'', "'\\''")) }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Copy a case to `to`, with a script that does it again: `LTO_PRUNE=... LINKER=... ./reproduce.sh`.
pub(crate) fn keep(dir: &Path, to: &Path, recipe: &Recipe, tools: &SoakTools) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    let mut script = String::from(
        "#!/bin/sh\n# Status 0 if plain and pruned agree. Paths of the tools may be given from outside.\n",
    );
    script.push_str("set -eu\ncd \"$(dirname \"$0\")\"\n");
    script.push_str(&format!(": \"${{LTO_PRUNE:={}}}\"\n", tools.pruner.display()));
    script.push_str(&format!(": \"${{LINKER:={}}}\"\n", tools.linker(&recipe.linker)?.display()));
    script.push_str("mkdir -p plain-bin pruned-bin\nln -sf \"$LINKER\" plain-bin/ld\nln -sf \"$LTO_PRUNE\" pruned-bin/ld\nrm -f ./*.a\n");
    for command in &recipe.compile {
        script.push_str(&format!("{}\n", quoted(command)));
    }
    script.push_str(&format!(": \"${{LTO_PRUNE_FLAGS:={}}}\"\n", tools.flags_of(recipe)));
    let pruned =
        |command| format!("LTO_PRUNE_LINKER=\"$LINKER\" LTO_PRUNE_FLAGS=\"$LTO_PRUNE_FLAGS\" {command}\n");
    for command in recipe.library_by("plain-bin").iter().chain([&recipe.link_by("plain-bin", "a.plain")]) {
        script.push_str(&format!("{}\n", quoted(command)));
    }
    for command in recipe.library_by("pruned-bin").iter().chain([&recipe.link_by("pruned-bin", "a.pruned")]) {
        script.push_str(&pruned(quoted(command)));
    }
    script.push_str(&format!(
        "for f in plain pruned; do\n  status=0\n  timeout {MORE_PATIENCE} ./a.$f >$f.out 2>&1 || status=$?\n  echo \"status $status\" >>$f.out\ndone\n\
         diff plain.out pruned.out\n"
    ));
    let path = to.join("reproduce.sh");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
