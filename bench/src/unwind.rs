//! `bench unwind`: the loaded bytes that `--prune-unwind` saves, compared with the program without unwind tables, and the time that it takes.
//!
//! Sizes are of the sections that are loaded from the file. A program "without tables" is that of the default level less its `.eh_frame`,
//! `.eh_frame_hdr` and `.gcc_except_table`. Each program is linked as it is and, if its driver is of C or C++ and functions have no sections of their own, with `-static`.
//! Times are of the linker step, with a cache that is full: the runs take turns, and the median counts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection, SectionFlags, SectionKind, elf};

use crate::corpus::{Corpus, Link, find_linker};
use crate::links::cost;
use crate::process::{Finished, run_ok};
use crate::table::{Table, count, publish_good};
use crate::{Options, Result};

const TABLES: [&str; 3] = [".eh_frame", ".eh_frame_hdr", ".gcc_except_table"];
/// By so many percent `unused` may be above a program without tables; beyond that its row says why.
const TARGET: f64 = 0.5;

/// The bytes of a linked file that are loaded, and those of its unwind tables.
fn loaded(path: &Path) -> Result<(u64, u64)> {
    let data = fs::read(path)?;
    let file = object::File::parse(&*data)?;
    let (mut all, mut tables) = (0, 0);
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let is_zero =
            matches!(section.kind(), SectionKind::UninitializedData | SectionKind::UninitializedTls);
        if !sh_flags.contains(elf::SHF_ALLOC) || is_zero {
            continue;
        }
        all += section.size();
        tables += if TABLES.contains(&section.name()?) { section.size() } else { 0 };
    }
    Ok((all, tables))
}

/// Link by the compiler driver; `folder` has an `ld`. The result says whether it could be linked, and has the messages.
fn driven(link: &Link, folder: &Path, form: &str, flags: &str, output: &Path) -> Result<(bool, String)> {
    let (driver, rest) = link.driver.split_first().ok_or("no driver")?;
    let choice = match driver.starts_with("clang") {
        true => format!("--ld-path={}", folder.join("ld").display()),
        false => format!("-B{}/", folder.display()),
    };
    let mut command = Command::new(driver);
    command.current_dir(&link.dir).arg(choice).args(rest).args(form.split_whitespace());
    command.arg("-o").arg(output).env("LTO_PRUNE_LINKER", find_linker("lld")?).env("LTO_PRUNE_FLAGS", flags);
    let done = command.output()?;
    Ok((done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned()))
}

/// Why a link keeps unwind entries, by its note: the module that starts an unwinding and the last call, without the path to it.
fn reason(stderr: &str) -> String {
    let Some((_, why)) = stderr.lines().find_map(|line| line.split_once("unwind entries")) else {
        return "?".to_owned();
    };
    let why = why.trim_start_matches(" are kept").trim_start_matches(": ");
    let file = why.split(": ").next().unwrap_or_default();
    let last = why.rsplit(" -> ").next().unwrap_or_default();
    let module = file.rsplit('/').next().unwrap_or_default();
    let text = if why.contains(" -> ") { format!("{module}: {last}") } else { why.to_owned() };
    text.replace('_', "\\_")
}

fn percent(of: u64, whole: u64) -> f64 {
    of as f64 * 100.0 / whole as f64
}

/// The cells of a link's row in one form.
fn measure(corpus: &Corpus, link: &Link, form: &str) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("unwind/{}-{}{form}", link.program, link.mode))?;
    let [plain, ours] = ["plain", "ours"].map(|name| scratch.join(name));
    for (folder, file) in [(&plain, &find_linker("lld")?), (&ours, &corpus.pruner)] {
        fs::create_dir(folder)?;
        symlink(file, folder.join("ld"))?;
    }
    let output = scratch.join("a.out");
    let size = |folder: &Path, flags: &str| -> Result<(u64, u64, String)> {
        let (good, said) = driven(link, folder, form, flags, &output)?;
        if !good {
            return Err(format!("{}: {said}", link.name()).into());
        }
        if said.contains("linking the originals") {
            return Err(format!("{}: not pruned: {said}", link.name()).into());
        }
        let (all, tables) = loaded(&output)?;
        Ok((all, tables, said))
    };
    let (plain, _, _) = size(&plain, "")?;
    let (functions, tables, _) = size(&ours, "--prune-no-cache")?;
    let (unused, _, said) = size(&ours, "--prune-no-cache --prune-unwind=unused")?;
    let dropped = size(&ours, "--prune-no-cache --prune-unwind=drop");
    let least = functions - tables;
    let above = percent(unused.saturating_sub(least), least);
    Ok(vec![
        format!("{}{}", link.name(), if form.is_empty() { "" } else { " static" }),
        count(plain),
        count(functions),
        count(unused),
        dropped.map_or_else(|_| "refused".to_owned(), |(all, _, _)| count(all)),
        count(least),
        format!("{:.1}%", percent(functions - unused, functions)),
        format!("{above:.2}%"),
        if above > TARGET { reason(&said) } else { String::new() },
    ])
}

/// The time of a link with entries removed, over that of a link without.
fn measure_cost(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("unwind/{}-{}-cost", link.program, link.mode))?;
    let ours = corpus.shims()?.join("ld.lto-prune");
    let contestant = |name: &str, flags: &[&str]| -> Result<Command> {
        let mut command = corpus.linker_command(link, &ours, &scratch.join(name));
        command.args(flags).env("LTO_PRUNE_LINKER", find_linker("lld")?).env_remove("LTO_PRUNE_FLAGS");
        command.env("XDG_CACHE_HOME", scratch.join("cache"));
        Ok(command)
    };
    fs::create_dir(scratch.join("cache"))?;
    let mut contestants = [contestant("keep", &[])?, contestant("unused", &["--prune-unwind=unused"])?];
    let mut runs: [Vec<Finished>; 2] = Default::default();
    for round in 0..=options.runs {
        for (command, results) in contestants.iter_mut().zip(&mut runs) {
            let done = run_ok(command, &scratch)?;
            if round > 0 {
                results.push(done);
            }
        }
    }
    let [keep, unused] = runs.each_ref().map(|r| cost(r).wall.as_secs_f64() * 1e3);
    Ok(vec![link.name(), format!("{keep:.1}"), format!("{unused:.1}"), format!("{:.3}", unused / keep)])
}

/// The command. True unless a link failed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "link",
        "lld",
        "functions",
        "`unused`",
        "`drop`",
        "without tables",
        "saved by `unused`",
        "above without tables",
        "why",
    ]);
    let mut good = table.links(corpus, |link| measure(corpus, link, ""));
    let is_static = |link: &&Link| link.mode != "rust" && !link.mode.ends_with("-fs");
    let links = corpus.links.iter().filter(is_static).cloned().collect();
    let statics = Corpus { links, root: corpus.root.clone(), pruner: corpus.pruner.clone() };
    good &= table.links(&statics, |link| measure(corpus, link, "-static"));
    let mut times = Table::new(&["link", "functions (ms)", "`unused` (ms)", "ratio"]);
    good &= times.links(corpus, |link| measure_cost(corpus, options, link));
    let body = format!(
        "Loaded bytes, linked by lld alone, by lld behind lto-prune at the default level, and there with `--prune-unwind=unused` and `drop`; the last columns compare \
         with the same program without its unwind tables.\n\n{}\nTimes of the linker step with a full cache, medians of {} runs.\n\n{}",
        table.as_str(),
        options.runs,
        times.as_str()
    );
    publish_good(good, corpus, options, "unwind", "Unwind entries", &body)
}
