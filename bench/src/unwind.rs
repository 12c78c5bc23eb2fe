//! `bench unwind`: the loaded bytes that `--prune-unwind` saves, compared with the program without unwind tables, and its time.
//!
//! A program "without tables" is that of the default level less its `.eh_frame`, `.eh_frame_hdr` and `.gcc_except_table`. Each program is
//! linked as it is and, for C and C++ without `-ffunction-sections`, with `-static` too. Times are of the linker step with a full cache.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, SectionFlags, SectionKind, elf};

use crate::corpus::{Corpus, Link, driver_command, find_linker, folder_of};
use crate::process::in_turn;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

const TABLES: [&str; 3] = [".eh_frame", ".eh_frame_hdr", ".gcc_except_table"];
/// The row says why if `unused` is so many percent above a program without tables.
const TARGET: f64 = 0.5;

/// The bytes of a linked file that are loaded, and those of its unwind tables.
fn loaded(path: &Path) -> Result<(u64, u64)> {
    let data = fs::read(path)?;
    let (mut all, mut tables) = (0, 0);
    for section in object::File::parse(&*data)?.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let is_zero =
            matches!(section.kind(), SectionKind::UninitializedData | SectionKind::UninitializedTls);
        if sh_flags.contains(elf::SHF_ALLOC) && !is_zero {
            all += section.size();
            tables += if TABLES.contains(&section.name()?) { section.size() } else { 0 };
        }
    }
    Ok((all, tables))
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

/// The cells of a link's row, with `form` as a further word for the driver.
fn measure(corpus: &Corpus, link: &Link, form: &str) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("unwind/{}-{}{form}", link.program, link.mode))?;
    let lld = find_linker("lld")?;
    let [plain, ours] = ["plain", "ours"].map(|name| scratch.join(name));
    folder_of(&plain, &lld)?;
    folder_of(&ours, &corpus.pruner)?;
    let output = scratch.join("a.out");
    let size = |folder: &Path, flags: &str| -> Result<(u64, u64, String)> {
        let mut command = driver_command(link, folder, &output)?;
        command.args(form.split_whitespace()).env("LTO_PRUNE_LINKER", &lld).env("LTO_PRUNE_FLAGS", flags);
        let done = command.output()?;
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        if !done.status.success() || text.contains("linking the originals") {
            return Err(format!("not pruned: {text}").into());
        }
        let (all, tables) = loaded(&output)?;
        Ok((all, tables, text))
    };
    let (plain, _, _) = size(&plain, "")?;
    let (functions, tables, _) = size(&ours, "--prune-no-cache")?;
    let (unused, _, messages) = size(&ours, "--prune-no-cache --prune-unwind=unused")?;
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
        if above > TARGET { reason(&messages) } else { String::new() },
    ])
}

/// The time of a link with entries removed, over that of a link without.
fn measure_cost(corpus: &Corpus, options: &Options, link: &Link) -> Result<Vec<String>> {
    let scratch = corpus.scratch(&format!("unwind/{}-{}-cost", link.program, link.mode))?;
    let lld = find_linker("lld")?;
    let mut commands = ["keep", "unused"].map(|mode| {
        let mut command = corpus.pruned_command(link, &lld, &scratch.join(mode));
        command.arg(format!("--prune-unwind={mode}")).env("XDG_CACHE_HOME", scratch.join("cache"));
        command
    });
    fs::create_dir(scratch.join("cache"))?;
    let [keep, unused] = in_turn(&mut commands, options.runs, &scratch, |_| Ok(()))?.map(|cost| cost.ms);
    Ok(vec![link.name(), format!("{keep:.1}"), format!("{unused:.1}"), format!("{:.3}", unused / keep)])
}

/// The command. True unless a link failed.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(
        "link | lld | functions | `unused` | `drop` | without tables | saved by `unused` | above without tables | why",
    );
    let mut good = table.links(&corpus.links, |link| measure(corpus, link, ""));
    let is_static = |link: &&Link| link.mode != "rust" && !link.mode.ends_with("-fs");
    good &= table.links(corpus.links.iter().filter(is_static), |link| measure(corpus, link, "-static"));
    let mut times = Table::new("link | functions (ms) | `unused` (ms) | ratio");
    good &= times.links(&corpus.links, |link| measure_cost(corpus, options, link));
    let body = format!(
        "Loaded bytes, linked by lld alone, with lto-prune at the default level, and with `--prune-unwind=unused` and `drop`; the last columns compare \
         with the same program without its unwind tables.\n\n{}\nTimes of the linker step with a full cache, medians of {} runs.\n\n{}",
        table.as_str(),
        options.runs,
        times.as_str()
    );
    publish(good, corpus, options, ("unwind", "Unwind entries"), &body)
}
