//! `bench stack`: the bound of `lto-prune audit stack`, compared with the depth of a run.
//!
//! Kernels of the corpus (`bench/stack/kernels.c`) run on a stack that is filled with a pattern (`bench/stack/painted.c`). The distance
//! from the top to the lowest changed byte is the depth of the run. A bound below it is a failure.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::corpus::{Corpus, Link};
use crate::process::run_ok;
use crate::report::text;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// A bound within this of the depth is tight.
const TIGHT: f64 = 1.3;

/// A kernel: its program, the macro that selects it, and options of the audit, which resolve its indirect calls.
type Kernel = (&'static str, &'static str, &'static str);

const BZIP2: &str =
    "--call=BZ2_*=default_bzalloc --call=BZ2_*=default_bzfree --assume=f[pw]*=0 --assume=exit=0";
const DEFLATE: &str = "--call=deflate*=zcalloc --call=deflate*=zcfree --call=deflate=deflate_stored --call=deflate=deflate_fast \
                       --call=deflate=deflate_slow";
const INFLATE: &str = "--call=inflate*=zcalloc --call=inflate*=zcfree --call=updatewindow=zcalloc";

const KERNELS: [Kernel; 14] = [
    ("bzip2", "BZIP2_COMPRESS", BZIP2),
    ("bzip2", "BZIP2_DECOMPRESS", BZIP2),
    ("minigzip", "ZLIB_COMPRESS", DEFLATE),
    ("minigzip", "ZLIB_UNCOMPRESS", INFLATE),
    ("minigzip", "ZLIB_CRC32", ""),
    ("minigzip", "ZLIB_ADLER32", ""),
    ("zstd", "ZSTD_XXH64", ""),
    ("zstd", "ZSTD_HIST", ""),
    ("zstd", "ZSTD_DIVSUFSORT", "--assume=__assert_fail=0"),
    ("zstd", "ZSTD_COMPRESS", ""),
    ("zstd", "ZSTD_DECOMPRESS", ""),
    ("lua", "LUA_STRING", ""),
    ("sqlite3", "SQLITE_COMPLETE", ""),
    ("sqlite3", "SQLITE_STRGLOB", ""),
];

/// The objects with a `main` of their own, which a kernel replaces.
const MAINS: [&str; 6] = ["bzip2.o", "minigzip.o", "zstdcli.o", "lua.o", "shell.o", "luac.o"];

/// Link a kernel with the objects of its program.
fn build(corpus: &Corpus, link: &Link, kernel: &str) -> Result<PathBuf> {
    let scratch = corpus.scratch(&format!("stack/{}-{kernel}", link.mode))?;
    let (source, output) = (corpus.root.join("stack"), scratch.join("kernel"));
    let mut objects: Vec<PathBuf> = std::fs::read_dir(&link.dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "o"))
        .filter(|path| !MAINS.iter().any(|main| path.ends_with(main)))
        .collect();
    objects.sort();
    let mut command = Command::new("gcc");
    command.args(["-O2", "-w", "-fno-builtin", "-no-pie", "-Wl,-z,now"]).arg(format!("-DRUN_{kernel}"));
    command.args([source.join("kernels.c"), source.join("painted.c")]).args(objects);
    command.args(["-lm", "-ldl", "-lpthread", "-o"]).arg(&output);
    run_ok(&mut command, &scratch)?;
    Ok(output)
}

/// The depth of a run, the bound, the depth that some path has at least, and the causes without a bound.
fn measure(
    corpus: &Corpus,
    link: &Link,
    (_, kernel, words): &Kernel,
) -> Result<(u64, Option<u64>, u64, String)> {
    let program = build(corpus, link, kernel)?;
    let run = String::from_utf8(Command::new(&program).output()?.stdout)?;
    let depth = run.split_whitespace().next().ok_or("the kernel printed nothing")?.parse()?;
    let mut audit = Command::new(&corpus.pruner);
    audit.args(["audit", "stack", "--json"]).args(words.split_whitespace()).arg(&program).arg("kernel");
    let answer: Value = serde_json::from_slice(&audit.output()?.stdout)?;
    let entry = &answer["entries"][0];
    let least = entry["at_least"].as_u64().ok_or("the audit has no depth")?;
    let mut causes: Vec<&str> =
        answer["causes"].as_array().into_iter().flatten().map(|cause| text(cause, "cause")).collect();
    causes.sort_unstable();
    let groups = causes.chunk_by(|a, b| a == b);
    let kinds: Vec<String> = groups
        .map(|group| format!("{} {}", group.len(), group.first().copied().unwrap_or_default()))
        .collect();
    let kinds = kinds.join(", ");
    Ok((depth, entry["bound"].as_u64(), least, kinds))
}

/// The command. True if no run is deeper than its bound, and some bound is tight.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new("kernel | run | bound | ratio | at least | causes without a bound");
    let (mut good, mut tight, mut bounded) = (true, 0u64, 0u64);
    for kernel in &KERNELS {
        let links = corpus.links.iter().filter(|l| l.program == kernel.0 && l.function_sections());
        good &= table.links(links, |link| {
            let (depth, bound, least, causes) = measure(corpus, link, kernel)?;
            let ratio = bound.map(|bound| bound as f64 / depth as f64);
            if ratio.is_some_and(|ratio| ratio < 1.0) {
                return Err(format!("{}: the bound {bound:?} is below the run, {depth}", kernel.1).into());
            }
            bounded += u64::from(ratio.is_some());
            tight += u64::from(ratio.is_some_and(|ratio| ratio <= TIGHT));
            Ok(vec![
                format!("{} {}", link.name(), kernel.1),
                count(depth),
                bound.map_or("none".to_owned(), count),
                ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
                count(least),
                causes,
            ])
        });
    }
    let body = format!(
        "Bytes of stack of kernels in programs that others wrote: the depth of a run on a painted stack, the bound of `lto-prune audit stack`, and their ratio. \
         {bounded} kernels have a bound, and {tight} of these are within {TIGHT} of the run. Options resolve the indirect calls of bzip2 and zlib, \
         and functions for messages that the run does not call are assumed to take nothing. Without a bound, the least depth may be below that of the run.\n\n{}",
        table.as_str()
    );
    publish(good && tight > 0, corpus, options, ("stack", "Worst-case stacks"), &body)
}
