//! What is kept of objects that nobody made for this tool, beside what is kept where somebody did.
//!
//! `bench recompiled` ([`programs`]): programs compiled as usual and pruned, beside the same compiled again with a section for each
//! function and object. `bench split` ([`archives`]): what linkers collect of archives that `lto-prune split` divided, beside what
//! lto-prune keeps of the undivided ones.

mod archives;
mod programs;

pub(crate) use archives::split;
pub(crate) use programs::recompiled;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};

use crate::process::run;
use crate::{Result, table};

/// What may be kept more than by the other way, in thousandths.
const ALLOWED: u64 = 5;

/// The status that `timeout` ends with.
const TIMED_OUT: i32 = 124;

/// Bytes of sections of a linked file.
#[derive(Debug, Clone, Copy, Default)]
struct Sizes {
    text: u64,
    rodata: u64,
    /// Writable data, with what is zero at first.
    data: u64,
}

impl Sizes {
    fn of(path: &Path) -> Result<Sizes> {
        let bytes = fs::read(path)?;
        let mut sizes = Sizes::default();
        for section in object::File::parse(&*bytes)?.sections() {
            let name = section.name()?;
            let family = |f: &str| name.strip_prefix(f).is_some_and(|r| r.is_empty() || r.starts_with('.'));
            let sum = match () {
                () if name == ".text" => &mut sizes.text,
                () if family(".rodata") => &mut sizes.rodata,
                () if family(".data") || family(".bss") => &mut sizes.data,
                () => continue,
            };
            *sum += section.size();
        }
        Ok(sizes)
    }
}

/// `more` beside `base`: how many percent it has more.
fn excess(more: u64, base: u64) -> String {
    match base {
        0 if more == 0 => "-".to_owned(),
        _ => format!("{:+.2}%", (more as f64 / base.max(1) as f64 - 1.0) * 100.0),
    }
}

fn within(more: u64, base: u64) -> bool {
    more * 1000 <= base * (1000 + ALLOWED)
}

fn yes(good: bool) -> String {
    if good { "yes" } else { "**no**" }.to_owned()
}

fn bytes(n: u64) -> String {
    table::count(n)
}

/// Status, standard output and error of `program` with `args`, called `./program` in an empty folder but for a file `input`.
fn behaviour(program: &Path, args: &[&str], scratch: &Path) -> Result<(i32, Vec<u8>, Vec<u8>)> {
    let dir: PathBuf = scratch.join("behaviour");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir)?;
    fs::copy(program, dir.join("program"))?;
    fs::write(dir.join("input"), "{\"name\": [1, 2.5, true, null, \"text\"],\n \"more\": {\"a\": -7}}\n")?;
    let (out, err) = (scratch.join("behaviour.out"), scratch.join("behaviour.err"));
    let mut command = Command::new("timeout");
    command.args(["4", "./program"]).args(args).current_dir(&dir).env("LC_ALL", "C.UTF-8");
    let done = run(&mut command, &out, &err)?;
    Ok((done.status, fs::read(out)?, fs::read(err)?))
}
