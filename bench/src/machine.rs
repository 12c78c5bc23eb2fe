//! The facts that a result needs beside it: processor, cores, kernel, versions of every tool and source.

use std::fs;
use std::process::Command;

use crate::Result;
use crate::corpus::{Corpus, find_linker};

pub(crate) fn facts(corpus: &Corpus) -> Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split_once(": "))
        .map_or("unknown processor", |(_, v)| v);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut out = format!("- machine: {model}, {cores} cores, Linux {}\n", kernel.trim());
    let mut tools = Vec::new();
    for (tool, flag) in [("gcc", "--version"), ("clang-19", "--version"), ("rustc", "--version")] {
        tools.extend(first_line(Command::new(tool).arg(flag)));
    }
    for linker in ["lld", "mold", "bfd", "gold", "wild"] {
        if let Ok(path) = find_linker(linker) {
            tools.extend(first_line(Command::new(path).arg("--version")));
        }
    }
    out.push_str(&format!("- tools: {}\n", tools.join("; ")));
    let mut sources = Vec::new();
    for name in ["lua5.4", "bzip2", "zlib", "libzstd", "sqlite3"] {
        if let Ok(text) = fs::read_to_string(corpus.root.join("work/src").join(name).join(".unpacked")) {
            sources.push(text.trim().to_owned());
        }
    }
    out.push_str(&format!("- sources: {}\n", sources.join("; ")));
    let commit =
        Command::new("git").arg("-C").arg(&corpus.root).args(["rev-parse", "--short", "HEAD"]).output()?;
    out.push_str(&format!("- commit: {}\n", String::from_utf8_lossy(&commit.stdout).trim()));
    Ok(out)
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
