//! One program in one folder: compile, link twice, run twice, compare; and keep it if they differ.
//!
//! Every command runs in the folder of the case with relative paths, so that the script in a kept folder repeats exactly these commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debug;
use super::program::SoakProgram;
use super::setup::Recipe;

use crate::corpus::{Corpus, find_linker, folder_of};
use crate::report::{number, text_size};
use crate::{Options, Result, process, report};

/// Seconds that the plain program may run; those of the own generator need milliseconds.
const PATIENCE: &str = "3";
/// Seconds for the pruned one: a busy machine makes no difference of a close call.
const MORE_PATIENCE: &str = "30";
/// The plain program must do the same so often before the pruned one is blamed.
const REPEATED: usize = 20;
/// The status of a program that a stub ends.
const ILLEGAL_INSTRUCTION: i32 = 128 + 4;

#[derive(Debug)]
pub(crate) struct SoakTools {
    pruner: PathBuf,
    pub(crate) linkers: Vec<String>,
    /// They are the `LTO_PRUNE_FLAGS` of the pruned link.
    flags: String,
    pub(crate) keep: PathBuf,
}

impl SoakTools {
    pub(crate) fn find(corpus: &Corpus, options: &Options) -> Result<SoakTools> {
        let linkers = match options.lto {
            // Only lld links bitcode that is pruned.
            true => vec!["lld".to_owned()],
            // lld more often: most builds use it, and it is the fastest.
            false => options.linkers_or(&["lld", "lld", "lld", "mold", "bfd", "gold"]),
        };
        linkers.iter().try_for_each(|linker| find_linker(linker).map(|_| ()))?;
        Ok(SoakTools {
            pruner: corpus.pruner.clone(),
            linkers,
            flags: format!(
                "--prune-level={} --prune-strict --prune-cache=cache --prune-jobs=1 --prune-report=report.json",
                options.level,
            ),
            keep: corpus.root.join("work/soak"),
        })
    }

    fn flags_of(&self, recipe: &Recipe) -> String {
        let unwind = recipe.unwind.map(|mode| format!(" --prune-unwind={mode}"));
        let worth = if recipe.is_estimated { " --prune-worth=1" } else { "" };
        self.flags.clone() + &unwind.unwrap_or_default() + worth
    }
}

#[derive(Debug)]
pub(crate) enum SoakOutcome {
    /// No difference; bytes of `.text`, and counts of the report.
    Same {
        plain: u64,
        pruned: u64,
        functions: [u64; 3],
        /// Functions that lose their unwind entries, and that keep them.
        entries: [u64; 2],
    },
    /// `--prune-unwind=drop` refuses, since the program needs its entries.
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

fn first_lines(text: &str) -> String {
    text.lines().take(6).collect::<Vec<_>>().join("\n    ")
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
    let linker = find_linker(&recipe.linker)?;
    folder_of(&dir.join("plain-bin"), &linker)?;
    folder_of(&dir.join("pruned-bin"), &tools.pruner)?;
    for command in &recipe.compile {
        let done = ran(dir, command, &[])?;
        if done.status != 0 {
            let words = command.join(" ");
            eprintln!("{}: {words}\n    {}", dir.display(), first_lines(&done.stderr));
            return Ok(SoakOutcome::Idle("a compiler refuses it".into()));
        }
    }
    let linker = linker.to_string_lossy().into_owned();
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
        let line = plain.stderr.lines().next().unwrap_or("");
        return Ok(SoakOutcome::Idle(format!("{} alone fails: {line}", recipe.linker)));
    }
    if recipe.unwind == Some("drop")
        && ["error: a.pruned: --prune-unwind=drop: ", "without unwind entries backtraces end early"]
            .iter()
            .any(|text| pruned.stderr.contains(text))
    {
        return Ok(SoakOutcome::Refused);
    }
    if pruned.status != 0 {
        let text = first_lines(&pruned.stderr);
        return Ok(SoakOutcome::Red(format!("link, status {}: {text}", pruned.status)));
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
    // mold puts IRELATIVE relocations in read-only memory, where the start code of a static program dies.
    if plain.status >= 128 && plain.stdout.is_empty() && pruned.status < 124 {
        let text = "the plain program dies before it prints anything, the pruned one does not";
        return Ok(SoakOutcome::Idle(format!("{text}: status {}", plain.status)));
    }
    // The plain program dies too, of a signal that depends on addresses. A stub that ran is another matter.
    let by_stub = pruned.status == ILLEGAL_INSTRUCTION && plain.status != ILLEGAL_INSTRUCTION;
    if plain.status >= 128 && pruned.status >= 128 && plain.stdout == pruned.stdout && !by_stub {
        return Ok(SoakOutcome::Idle(format!("it dies, alone too, with status {}", plain.status)));
    }
    let red = if plain.status != pruned.status {
        // A stub prints its name.
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
        // The difference may depend on addresses that the loader chooses.
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
    let report = report::read(&dir.join("report.json"))?;
    Ok(SoakOutcome::Same {
        plain: text_size(&dir.join("a.plain"))?,
        pruned: text_size(&dir.join("a.pruned"))?,
        functions: ["live", "stubs", "dead"].map(|name| number(&report["functions"], name)),
        entries: ["functions", "kept"].map(|name| number(&report["unwind"], name)),
    })
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
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    let compile: String = recipe.compile.iter().map(|command| quoted(command) + "\n").collect();
    let links = |bin: &str, output: &str, before: &str| -> String {
        let commands = recipe.library_by(bin).into_iter().chain([recipe.link_by(bin, output)]);
        commands.map(|command| format!("{before}{}\n", quoted(&command))).collect()
    };
    let script = format!(
        "#!/bin/sh\n# Status 0 if plain and pruned agree. Paths of the tools may be given from outside.\n\
         set -eu\ncd \"$(dirname \"$0\")\"\n: \"${{LTO_PRUNE:={}}}\" \"${{LINKER:={}}}\" \"${{LTO_PRUNE_FLAGS:={}}}\"\n\
         mkdir -p plain-bin pruned-bin\nln -sf \"$LINKER\" plain-bin/ld\nln -sf \"$LTO_PRUNE\" pruned-bin/ld\nrm -f ./*.a\n{compile}{}{}\
         for f in plain pruned; do\n  status=0\n  timeout {MORE_PATIENCE} ./a.$f >$f.out 2>&1 || status=$?\n  echo \"status $status\" >>$f.out\ndone\n\
         diff plain.out pruned.out\n",
        tools.pruner.display(),
        find_linker(&recipe.linker)?.display(),
        tools.flags_of(recipe),
        links("plain-bin", "a.plain", ""),
        links("pruned-bin", "a.pruned", "LTO_PRUNE_LINKER=\"$LINKER\" LTO_PRUNE_FLAGS=\"$LTO_PRUNE_FLAGS\" ")
    );
    let path = to.join("reproduce.sh");
    fs::write(&path, script)?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?)
}
