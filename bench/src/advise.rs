//! `bench advise`: the tables of `lto-prune advise`, each row linked again from its flags.
//!
//! The runner adds the flags of a row to the command of the driver. The output must have the size and the loaded bytes that the row names.

use std::path::Path;
use std::process::Command;

use crate::corpus::{Corpus, Link};
use crate::process::{output, run_ok};
use crate::report::{self, text};
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// The links that are tried without `--only`.
const LINKS: [&str; 6] =
    ["lua/gcc-mono", "bzip2/gcc-mono", "zstd/gcc-mono", "sqlite3/gcc-mono", "cpp/gcc-mono", "hexyl/rust"];

/// The command of the driver with the flags of a row, or without the words that it names.
fn relink(link: &Link, flags: &str, shims: &Path, output: &Path) -> Result<Command> {
    let mut words = link.driver.clone();
    let mut rest = flags.split_whitespace();
    while let Some(word) = rest.next() {
        match word {
            "without" => {
                let removed = rest.next().unwrap_or_default();
                words.retain(|word| word != removed);
            }
            "SHIMS" => words.push(shims.display().to_string()),
            word => words.push(word.to_owned()),
        }
    }
    let mut command = Command::new(words.first().ok_or("an empty command")?);
    command.args(words.iter().skip(1)).arg("-o").arg(output).current_dir(&link.dir);
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    Ok(command)
}

/// The sum of the sizes in the file of the segments that are loaded, as readelf prints them.
fn loaded(file: &Path) -> Result<u64> {
    let text = output(Command::new("readelf").arg("-lW").arg(file))?;
    let size = |line: &str| u64::from_str_radix(line.split_whitespace().nth(4)?.strip_prefix("0x")?, 16).ok();
    Ok(text.lines().filter(|l| l.trim_start().starts_with("LOAD ")).filter_map(size).sum())
}

/// The table of a link, and the number of its rows.
fn advise(corpus: &Corpus, options: &Options, link: &Link, shims: &Path) -> Result<(String, usize)> {
    let scratch = corpus.scratch(&format!("advise/{}-{}", link.program, link.mode))?;
    let mut command = Command::new(&corpus.pruner);
    command.args(["advise", "--format=json", &format!("--runs={}", options.runs), "--"]);
    command.args(&link.driver).args(["-o", &link.program]).current_dir(&link.dir);
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    run_ok(&mut command, &scratch)?;
    let answer = report::read(&scratch.join("stdout"))?;
    let rows = report::list(&answer, "links")?;
    let mut table = Table::new("flags | loaded | memory | file | s | note");
    for row in rows {
        let (flags, output) = (text(row, "flags"), scratch.join("again"));
        let number = |name: &str| row[name].as_u64();
        let linked = run_ok(&mut relink(link, flags, shims, &output)?, &scratch);
        match (number("file"), linked) {
            (Some(file), Ok(_)) => {
                let same = (output.metadata()?.len(), loaded(&output)?);
                if same != (file, number("loaded").unwrap_or_default()) {
                    return Err(format!("{flags}: {same:?} from its flags, not {row}").into());
                }
            }
            (Some(_), Err(e)) => return Err(format!("{flags}: fails from its flags: {e}").into()),
            (None, Ok(_)) => return Err(format!("{flags}: links, and the row fails").into()),
            (None, Err(_)) => {}
        }
        let flags = if flags.is_empty() { "(as it is)".to_owned() } else { format!("`{flags}`") };
        let seconds = row["seconds"].as_f64().map_or(String::new(), |s| format!("{s:.2}"));
        let [loaded, memory, file] =
            ["loaded", "memory", "file"].map(|name| number(name).map_or("".into(), count));
        table.row(&[flags, loaded, memory, file, seconds, text(row, "note").replace('|', "\\|")]);
    }
    let linker = text(&answer, "linker");
    Ok((format!("## {}, linked by {linker}\n\n{}\n", link.name(), table.as_str()), rows.len()))
}

/// The command. True unless a link failed or a row differs.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let shims = corpus.scratch("advise/shims")?.join("all");
    let install = corpus.scratch("advise/install")?;
    run_ok(Command::new(&corpus.pruner).arg("install-shims").arg(&shims), &install)?;
    let wanted = |link: &&Link| !options.only.is_empty() || LINKS.contains(&link.name().as_str());
    let (mut tables, mut rows, mut good) = (String::new(), 0, true);
    for link in corpus.links.iter().filter(wanted) {
        eprintln!("{}", link.name());
        match advise(corpus, options, link, &shims) {
            Ok((table, repeated)) => {
                tables += &table;
                rows += repeated;
            }
            Err(e) => {
                eprintln!("FAILED {}: {e}", link.name());
                good = false;
            }
        }
    }
    let body = format!(
        "Each row is the link as it is with the flags at the end of its command, or without the words named. Loaded bytes are those that `PT_LOAD` \
         segments take from the file. Seconds are the median of {} links. Each of the {rows} rows was linked again from its flags, with the same sizes \
         (or failed again).\n\n{tables}",
        options.runs
    );
    publish(good, corpus, options, ("advise", "What options of a link save"), body.trim_end())
}
