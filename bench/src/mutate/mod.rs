//! `bench mutate`: links with a damaged input end the same, plain and with lto-prune.
//!
//! A file of a small program is damaged: bits, bytes, fields of headers and tables, the end cut off. Each linker in turn links it alone and
//! with lto-prune in front. The exit status must be equal; lto-prune prints nothing if the linker refuses, and never panics; the programs
//! end the same. Programs run for two seconds as the user `nobody`, since damaged code may do anything. A program is not compared if a signal ends
//! it in the plain link too, if it does not end, or if it depends on the layout: it reads or runs bytes outside its objects.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use crate::corpus::{Corpus, find_linker, folder_of};
use crate::process::run_ok;
use crate::rng::Rng;
use crate::table::{Table, publish};
use crate::texts::blocks;
use crate::{Options, Result};

const TEXTS: &str = include_str!("cases.txt");

pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let base = std::env::temp_dir().join(format!("mutate-{}", std::process::id()));
    folder_of(&base.join("shims"), &corpus.pruner)?;
    let mut cases: Vec<[Vec<&str>; 2]> = Vec::new();
    for block in blocks(TEXTS) {
        match block.key {
            "file" => fs::write(base.join(block.words), block.text)?,
            "command" => {
                run_ok(Command::new("sh").args(["-c", block.words]).current_dir(&base), &base)?;
            }
            _ => {
                let (words, files) = block.words.split_once(" | ").ok_or("a link without damaged files")?;
                cases.push([words, files].map(|text| text.split(' ').collect()));
            }
        }
    }
    let linkers = options.linkers_or(&["lld", "mold", "bfd", "gold", "wild"]);
    let seed = options.seeds.map_or(0, |(first, _)| first);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut differences = 0;
    let last = seed + options.count.unwrap_or(1000);
    for number in seed..last {
        let mut rng = Rng::new(number, 30);
        let [words, files] = rng.pick(&cases);
        let (file, linker) = (*rng.pick(files), rng.pick(&linkers));
        let original = fs::read(base.join(file))?;
        fs::write(base.join(file), damage(&original, &mut rng))?;
        let one = DamagedRun { base: &base, words, linker: find_linker(linker)? };
        let (kind, difference) = one.compare(&base.join("shims/ld"))?;
        *counts.entry((linker, kind)).or_default() += 1;
        if let Some(text) = difference {
            differences += 1;
            println!("FAILED seed {number}: {linker} {}: {file} damaged: {text}", words.join(" "));
            fs::copy(base.join(file), base.join(format!("seed-{number}-{file}")))?;
        }
        fs::write(base.join(file), original)?;
    }
    let kinds = "linked | linked with a warning | refused | the linker crashes | depends on the layout | out of range in dropped code";
    let mut table = Table::new(&format!("linker | {kinds}"));
    for linker in &linkers {
        let count = |kind| counts.get(&(linker, kind)).copied().unwrap_or(0).to_string();
        table.row(
            &std::iter::once(linker.to_owned()).chain(kinds.split(" | ").map(count)).collect::<Vec<_>>(),
        );
    }
    let body = format!(
        "`bench mutate --seeds={seed}..{last}`: links of which a file is damaged, plain and with lto-prune: {differences} end differently.\n\n{}",
        table.as_str()
    );
    if differences == 0 {
        fs::remove_dir_all(&base)?;
    } else {
        println!("the damaged files are in {}", base.display());
    }
    publish(differences == 0, corpus, options, ("mutate", "Links with a damaged input"), &body)
}

/// Whether it ended by a signal, or did not end. wild reports an error by 255.
fn has_crashed(status: ExitStatus) -> bool {
    status.signal().is_some() || status.code().is_some_and(|code| (124..255).contains(&code))
}

/// The exit code and the output of a program.
type Ended = (Option<i32>, Vec<u8>);

struct DamagedRun<'a> {
    base: &'a Path,
    words: &'a [&'a str],
    linker: PathBuf,
}

impl DamagedRun<'_> {
    /// Whether the program behaves otherwise with one more object before it, or with the linker's own `--gc-sections`.
    fn depends_on_layout(&self, expected: &Ended) -> Result<bool> {
        for words in [["pad.o"], ["--gc-sections"]] {
            let _ = fs::remove_file(self.base.join("out"));
            self.link(&self.linker, &words)?;
            if self.run_program()?.as_ref() != Some(expected) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the linker alone crashes now and then: mold's threads read symbol tables in any order, and wild may not end on a script.
    fn crashes_by_chance(&self) -> Result<bool> {
        for _ in 0..12 {
            if has_crashed(self.link(&self.linker, &[])?.status) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn link(&self, program: &Path, before: &[&str]) -> Result<Output> {
        // Neither the memory nor the disk of the machine is for sizes that lie.
        let limits = "ulimit -v 8000000; ulimit -f 1000000; exec timeout 20 \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", limits, "sh"])
            .arg(program)
            .args(before)
            .args(self.words)
            .args(["-o", "out"])
            .current_dir(self.base);
        Ok(command.env("LTO_PRUNE_LINKER", &self.linker).env("LC_ALL", "C").stdin(Stdio::null()).output()?)
    }

    /// The end and the output of the program; `None` if a signal ends it or it does not end.
    fn run_program(&self) -> Result<Option<Ended>> {
        if self.words.contains(&"-shared") {
            return Ok(None);
        }
        let mut command = Command::new("timeout");
        command.args(["2", "./out"]).current_dir(self.base).stdin(Stdio::null());
        if nix::unistd::Uid::effective().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output()?;
        let status = output.status;
        let is_useless = status.signal().is_some() || status.code().is_none_or(|code| code >= 124);
        Ok((!is_useless).then_some((status.code(), output.stdout)))
    }

    /// The column of the table, and the difference.
    fn compare(&self, shim: &Path) -> Result<(&'static str, Option<String>)> {
        let out = self.base.join("out");
        let _ = fs::remove_file(&out);
        let plain = self.link(&self.linker, &[])?;
        let expected = if plain.status.success() { self.run_program()? } else { None };
        let _ = fs::remove_file(&out);
        let ours = self.link(shim, &[])?;
        let text = String::from_utf8_lossy(&ours.stderr);
        // wild and its libraries panic on their own.
        let is_wild = self.linker.file_name().is_some_and(|name| name == "wild");
        let of_wild =
            |l: &&str| is_wild && !l.contains("panicked at src/") && !l.contains("panicked at summaries/");
        let panics = text.lines().filter(|l| l.contains("panicked at")).any(|l| !of_wild(&l));
        let lines: Vec<&str> = text.lines().filter(|l| l.contains("lto-prune")).collect();
        let (a, b) = (plain.status, ours.status);
        // A linker that crashes does so again, or it depends on the address of something.
        let said = String::from_utf8_lossy(&plain.stderr);
        let crashes = has_crashed(a) || said.contains("panicked at");
        if crashes {
            return Ok(("the linker crashes", panics.then(|| text.to_string())));
        }
        if a != b && self.crashes_by_chance()? {
            return Ok(("the linker crashes", panics.then(|| text.to_string())));
        }
        // A relocation of dropped code that is out of range: docs/SOUNDNESS.md has it among the differences that are accepted.
        let is_range =
            ["out of range", "truncated to fit", "overflow"].iter().any(|word| said.contains(word));
        if !a.success() && b.success() && is_range && !panics {
            return Ok(("out of range in dropped code", None));
        }
        let difference = if a != b {
            Some(format!("{a}, ours {b}: {said}{text}"))
        } else if panics {
            Some(text.to_string())
        } else if !a.success() && !lines.is_empty() {
            Some(format!("a line of ours: {lines:?}"))
        } else if let Some(expected) = expected {
            let found = self.run_program()?;
            if found.as_ref() != Some(&expected) && self.depends_on_layout(&expected)? {
                return Ok(("depends on the layout", None));
            }
            (found.as_ref() != Some(&expected))
                .then(|| format!("the program: {expected:?}, ours {found:?} {lines:?}"))
        } else {
            None
        };
        let kind = match (a.success(), lines.is_empty()) {
            (false, _) => "refused",
            (true, true) => "linked",
            (true, false) => "linked with a warning",
        };
        Ok((kind, difference))
    }
}

/// Offsets of the fields of an ELF header, section header, symbol and relocation, with their sizes.
const HEADER: &[(usize, usize)] = &[
    (4, 1),
    (5, 1),
    (6, 1),
    (16, 2),
    (18, 2),
    (32, 8),
    (40, 8),
    (48, 4),
    (52, 2),
    (58, 2),
    (60, 2),
    (62, 2),
];
const SECTION: &[(usize, usize)] =
    &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];
const SYMBOL: &[(usize, usize)] = &[(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)];
const RELOCATION: &[(usize, usize)] = &[(0, 8), (8, 4), (12, 4), (16, 8)];

/// Damage a file: its bytes anywhere, or fields of an ELF object in it.
fn damage(original: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        match rng.below(9) {
            0 => bytes.truncate(rng.below(original.len() + 1)),
            1 | 2 => {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
            3 => {
                let at = rng.below(bytes.len());
                bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b' ', b';', b'{', b'*']);
            }
            4 => {
                let (a, b) = (rng.below(bytes.len() / 8 + 1) * 8, rng.below(bytes.len() / 8 + 1) * 8);
                if a + 8 <= bytes.len() && b + 8 <= bytes.len() {
                    for i in 0..8 {
                        bytes.swap(a + i, b + i);
                    }
                }
            }
            _ => field(&mut bytes, original, rng),
        }
    }
    bytes
}

fn word(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)))
}

/// The start of an ELF file in the original, which may be an archive.
fn elf_start(original: &[u8], rng: &mut Rng) -> Option<usize> {
    let starts: Vec<usize> =
        original.windows(4).enumerate().filter(|(_, w)| w == b"\x7fELF").map(|(at, _)| at).collect();
    (!starts.is_empty()).then(|| *rng.pick(&starts))
}

/// Change a field of a header, a section header, a symbol or a relocation.
fn field(bytes: &mut [u8], original: &[u8], rng: &mut Rng) {
    let Some(start) = elf_start(original, rng) else { return };
    let mut place = || -> Option<(usize, usize)> {
        let table = start + word(original, start + 40, 8)?;
        let count = word(original, start + 60, 2)?;
        let section = table + rng.below(count) * 64;
        let (kind, offset, size) = (
            word(original, section + 4, 4)?,
            word(original, section + 24, 8)?,
            word(original, section + 32, 8)?,
        );
        let (at, fields) = match (rng.below(8), kind) {
            (0, _) => (start, HEADER),
            (1..=5, 2 | 11) => (start + offset + rng.below(size / 24) * 24, SYMBOL),
            (1..=5, 4) => (start + offset + rng.below(size / 24) * 24, RELOCATION),
            _ => (section, SECTION),
        };
        let (field, width) = *rng.pick(fields);
        Some((at + field, width))
    };
    let Some((at, width)) = place() else { return };
    let old = word(original, at, width).unwrap_or(0);
    let fixed = [0, 1, 2, 3, 4, 7, 0xff, 0xfff1, 0xfff2, 0xffff, usize::MAX, original.len()];
    let near = [old.wrapping_add(1), old.wrapping_sub(1), old.wrapping_mul(2), old ^ 0x10];
    let values = [&fixed[..], &near].concat();
    let value = *rng.pick(&values);
    for i in 0..width {
        if let Some(byte) = bytes.get_mut(at + i) {
            *byte = (value >> (8 * i)) as u8;
        }
    }
}
