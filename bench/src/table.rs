//! Markdown tables, and the files of results with the facts of the machine.

use std::fs;
use std::process::Command;

use crate::corpus::{Corpus, Link, find_linker};
use crate::process::output;
use crate::{Options, Result};

/// A table that grows row by row. The first column is text, the others are right-aligned.
#[derive(Debug)]
pub(crate) struct Table(String);

impl Table {
    /// The names of the columns are separated by bars.
    pub(crate) fn new(columns: &str) -> Table {
        Table(format!("| {columns} |\n|---{}|\n", "|--:".repeat(columns.matches(" | ").count())))
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        self.0.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// Add a row for each of these links, and print the error of those that fail. True if none does.
    pub(crate) fn links<'l>(
        &mut self,
        links: impl IntoIterator<Item = &'l Link>,
        mut cells: impl FnMut(&Link) -> Result<Vec<String>>,
    ) -> bool {
        let mut good = true;
        for link in links {
            eprintln!("{}", link.name());
            match cells(link) {
                Ok(cells) => self.row(&cells),
                Err(e) => {
                    eprintln!("FAILED {}: {e}", link.name());
                    good = false;
                }
            }
        }
        good
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A count with separators: 1234567 is `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Print a result and, with `--write` and if it is good, write it to `results/NAME.md`. The result is whether it is good.
pub(crate) fn publish(
    good: bool,
    corpus: &Corpus,
    options: &Options,
    (name, title): (&str, &str),
    body: &str,
) -> Result<bool> {
    print!("{body}");
    if options.write && good {
        let path = corpus.root.join("results").join(name).with_extension("md");
        fs::write(path, format!("# {title}\n\n{}\n{body}", facts(corpus)?))?;
    }
    Ok(good)
}

/// Processor, cores, kernel, versions of tools and sources.
fn facts(corpus: &Corpus) -> Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let linkers =
        ["lld", "mold", "bfd", "gold", "wild"].into_iter().filter_map(|name| find_linker(name).ok());
    let tools = ["gcc", "clang-19", "rustc"].map(Into::into).into_iter().chain(linkers);
    let version = |tool| Some(output(Command::new(tool).arg("--version")).ok()?.lines().next()?.to_owned());
    let tools: Vec<String> = tools.filter_map(version).collect();
    let source = |name| fs::read_to_string(corpus.root.join("work/src").join(name).join(".unpacked")).ok();
    let sources = ["lua5.4", "bzip2", "zlib", "libzstd", "sqlite3"].into_iter().filter_map(source);
    let sources: Vec<String> = sources.map(|text| text.trim().to_owned()).collect();
    let commit =
        output(Command::new("git").arg("-C").arg(&corpus.root).args(["rev-parse", "--short", "HEAD"]))?;
    Ok(format!(
        "- machine: {}, {cores} cores, Linux {}\n- tools: {}\n- sources: {}\n- commit: {}\n",
        model.map_or("unknown processor", |(_, name)| name),
        kernel.trim(),
        tools.join("; "),
        sources.join("; "),
        commit.trim()
    ))
}
