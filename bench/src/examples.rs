//! `bench examples`: whether docs/AUDIT.md shows what `lto-prune audit` prints; `--write` puts there what it does print.
//!
//! The document's `console` blocks are the commands and their output. Reports have the names that [`REPORTS`] gives them; of
//! the output only the folder of this run is taken away.

use std::path::Path;
use std::process::Command;

use crate::corpus::{Corpus, find_linker};
use crate::process::run_ok;
use crate::{Options, Result};

/// The reports of the document: (name, output, program, mode, level).
const REPORTS: [(&str, &str, &str, &str, &str); 7] = [
    ("zstd.json", "zstd", "zstd", "gcc-mono", "functions"),
    ("clang.json", "zstd", "zstd", "clang-mono", "functions"),
    ("sections.json", "zstd", "zstd", "gcc-fs", "functions"),
    ("shadow.json", "zstd", "zstd", "gcc-fs", "off"),
    ("called.json", "zstd", "zstd", "gcc-fs", "pointers"),
    ("lua.json", "lua", "lua", "gcc-mono", "pointers"),
    ("hexyl.json", "hexyl", "hexyl", "rust", "functions"),
];

fn reports(corpus: &Corpus, dir: &Path) -> Result<()> {
    let ours = dir.join("ld.lto-prune");
    std::os::unix::fs::symlink(&corpus.pruner, &ours)?;
    for (report, output, program, mode, level) in REPORTS {
        let link = corpus.links.iter().find(|l| l.program == program && l.mode == mode);
        let link = link.ok_or_else(|| format!("{program}/{mode} is not built"))?;
        let mut command = corpus.linker_command(link, &ours, &dir.join(output));
        command.env("LTO_PRUNE_LINKER", find_linker("lld")?).env_remove("LTO_PRUNE_FLAGS");
        command.arg(format!("--prune-level={level}"));
        run_ok(command.arg(format!("--prune-report={}", dir.join(report).display())), dir)?;
    }
    Ok(())
}

/// The words of a command, as a shell has them: quoted with ' or not at all.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        match i % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// What a command of the document prints. `said` is what stands there, `status` that of the last command.
fn output(corpus: &Corpus, dir: &Path, command: &str, said: &str, status: &mut i32) -> Result<String> {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        // A file of the document's own.
        ["cat", file] => {
            std::fs::write(dir.join(file), said)?;
            Ok(said.to_owned())
        }
        ["echo", "$?"] => Ok(format!("{status}\n")),
        ["lto-prune", ref words @ ..] => {
            let done = Command::new(&corpus.pruner).args(words).current_dir(dir).output()?;
            *status = done.status.code().unwrap_or(-1);
            let text = String::from_utf8(done.stdout)? + &String::from_utf8(done.stderr)?;
            Ok(text.replace(&format!("{}/", dir.display()), ""))
        }
        _ => Err(format!("the document has a command that is not known: {command}").into()),
    }
}

/// The document with what its commands print, and the commands whose output differs.
fn regenerate(corpus: &Corpus, dir: &Path, text: &str) -> Result<(String, Vec<String>)> {
    let (mut out, mut differ) = (String::new(), Vec::new());
    let mut lines = text.lines().peekable();
    let (mut inside, mut status) = (false, 0);
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        match line.strip_prefix("$ ") {
            Some(command) if inside => {
                let mut said = String::new();
                while let Some(next) = lines.next_if(|l| *l != "```" && !l.starts_with("$ ")) {
                    said.push_str(next);
                    said.push('\n');
                }
                let printed = output(corpus, dir, command, &said, &mut status)?;
                if printed != said {
                    differ.push(command.to_owned());
                }
                out.push_str(&printed);
            }
            _ => inside = line == "```console" || (inside && line != "```"),
        }
    }
    Ok((out, differ))
}

/// The command. True if the document shows what is printed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let dir = std::fs::canonicalize(corpus.scratch("examples")?)?;
    reports(corpus, &dir)?;
    let document = corpus.root.join("../docs/AUDIT.md");
    let text = std::fs::read_to_string(&document)?;
    let (now, differ) = regenerate(corpus, &dir, &text)?;
    for command in &differ {
        println!("differs: {command}");
    }
    if options.write {
        std::fs::write(&document, now)?;
    }
    Ok(differ.is_empty() || options.write)
}
