//! The command `mutate`: links with a damaged input end alike, plain and through lto-prune.
//!
//! A small program of C or C++ has one of its files damaged: bits, bytes, fields of headers and tables, the end cut off. Each linker in turn
//! links it alone and with lto-prune in front. Equal must be the exit status; where the linker refuses, lto-prune says
//! nothing; no message is of a panic; and where the links succeed, the programs end alike. Programs run as nobody, for two seconds, since
//! damaged code may do anything. Not compared is one that a signal ends in the plain link too, that does not end, or that does something else
//! when an object stands before the others or when the linker itself collects sections: it reads or runs what is beside its objects.

mod bytes;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use crate::corpus::{Corpus, find_linker};
use crate::link_programs::SplitMix64;
use crate::table::{Table, publish};
use crate::{Options, Result};

/// A link: its words, and those files of it that are damaged.
struct DamagedLink {
    words: &'static [&'static str],
    files: &'static [&'static str],
}

const CASES: &[DamagedLink] = &[
    DamagedLink { words: &["a.o", "b.o", "c.o"], files: &["a.o", "b.o", "c.o"] },
    DamagedLink { words: &["a.o", "lib.a"], files: &["lib.a", "a.o"] },
    DamagedLink { words: &["--gc-sections", "p.o", "q.o", "b.o"], files: &["p.o", "q.o"] },
    DamagedLink { words: &["a.o", "b.o", "c.o", "-T", "t.ld"], files: &["t.ld"] },
    DamagedLink {
        words: &["-shared", "a.pic.o", "b.pic.o", "--version-script=v.map"],
        files: &["v.map", "a.pic.o"],
    },
    DamagedLink {
        words: &["a.o", "lib.a", "s.so", "--dynamic-linker=/lib64/ld-linux-x86-64.so.2"],
        files: &["s.so"],
    },
];

const SOURCES: &[(&str, &str)] = &[
    (
        "a.c",
        "int b(int); int c(const char *); static int z(int x) { return x * 2; } static int y(int x) { return x - 3; }\n\
         int (*const table[])(int) = { z, y, b }; int unused(int x) { return table[x & 1](x); }\n\
         const char *names[] = { \"one\", \"two\", \"three\" }; int counter = 5; int dead_data[20] = { 1 };\n\
         static void leave(int x) { __asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(x)); for (;;) ; }\n\
         void _start(void) { int s = 0; for (int i = 0; i < 3; i++) s += table[i](i + 7) + c(names[i]); leave((s + counter) & 63); }\n",
    ),
    (
        "b.c",
        "int dead(int x) { return x + 1; }\n\
         int b(int x) { switch (x) { case 1: return 9; case 2: return 4; case 3: return 77; case 4: return 12; case 5: return 2; default: return x; } }\n",
    ),
    (
        "c.c",
        "int gone(int x) { return x ^ 5; } int c(const char *s) { int n = 0; while (*s) n += *s++ & 7; return n; }\n",
    ),
    // Moves what stands behind it.
    (
        "pad.c",
        "const char pad_text[200] = \"pad\"; int pad_data[77] = { 1 }; int pad_zero[55]; int pad(int x) { return x * 7; }\n",
    ),
    (
        "q.h",
        "template <class T> struct Box { T v; T twice() const { return v + v; } T never() const { return v * v; } };\n\
         struct Base { virtual int f(int) = 0; virtual int g(int x) { return x; } };\n\
         extern \"C\" int b(int); Base *make(int); inline int shared(int x) { static int calls; return x + ++calls; }\n",
    ),
    (
        "p.cc",
        "#include \"q.h\"\nstatic void leave(int x) { __asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(x)); for (;;) ; }\n\
         extern \"C\" void __cxa_pure_virtual() { leave(99); } void operator delete(void *, unsigned long) noexcept {}\n\
         int lost(int x) { return Box<long>{x}.never(); }\n\
         extern \"C\" void _start() { int s = Box<int>{4}.twice() + shared(1) + b(3); s += make(0)->f(2) + make(1)->f(3); leave(s & 63); }\n",
    ),
    (
        "q.cc",
        "#include \"q.h\"\nstruct One : Base { int f(int x) override { return shared(x) + 1; } };\n\
         struct Two : Base { int f(int x) override { return b(x); } int g(int) override { return 3; } };\n\
         static One one; static Two two; Base *make(int x) { return x ? (Base *)&one : &two; } int nobody() { return one.f(2); }\n",
    ),
    (
        "t.ld",
        "ENTRY(_start)\nSECTIONS { . = 0x400000; .text : { *(.text .text.*) } .rodata : { *(.rodata .rodata.*) } .data : { *(.data .data.*) KEEP(*(.init_array)) } .bss : { *(.bss .bss.*) } /DISCARD/ : { *(.comment) } }\n",
    ),
    (
        "v.map",
        "VERS_1 { global: b; _start; un*; local: *; };\nVERS_2 { global: extern \"C\" { dead; }; } VERS_1;\n",
    ),
];

const COMMANDS: &[&str] = &[
    "gcc -O1 -ffunction-sections -fdata-sections -fno-stack-protector -c a.c b.c c.c pad.c",
    "gcc -O1 -fpic -c a.c -o a.pic.o",
    "gcc -O1 -fpic -c b.c -o b.pic.o",
    "g++ -O1 -fno-stack-protector -fno-threadsafe-statics -ffunction-sections -c p.cc",
    "clang++-19 -O1 -fno-threadsafe-statics -ffunction-sections -c q.cc",
    "ar qcs lib.a b.o c.o",
    "gcc -shared -nostdlib -o s.so c.o",
];

pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let base = std::env::temp_dir().join(format!("mutate-{}", std::process::id()));
    fs::create_dir_all(&base)?;
    for (name, text) in SOURCES {
        fs::write(base.join(name), text)?;
    }
    for command in COMMANDS {
        let status = Command::new("sh").arg("-c").arg(command).current_dir(&base).status()?;
        if !status.success() {
            return Err(format!("{command} fails").into());
        }
    }
    let shim = base.join("ld");
    std::os::unix::fs::symlink(&corpus.pruner, &shim)?;
    let wanted = |name: &&str| options.linkers.is_empty() || options.linkers.iter().any(|l| l == name);
    let linkers: Vec<&str> = ["lld", "mold", "bfd", "gold", "wild"].into_iter().filter(wanted).collect();
    let seed = options.seeds.map_or(0, |(first, _)| first);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut differences = 0;
    let last = seed + options.count.unwrap_or(1000);
    for number in 0..last - seed {
        let mut rng = SplitMix64::new(seed + number);
        let case = &CASES[rng.below(CASES.len())];
        let file = *rng.pick(case.files);
        let linker = linkers[rng.below(linkers.len())];
        let original = fs::read(base.join(file))?;
        fs::write(base.join(file), bytes::damage(&original, &mut rng))?;
        let one = DamagedRun { base: &base, case, linker: find_linker(linker)? };
        let (kind, difference) = one.compare(&shim)?;
        *counts.entry((linker, kind)).or_default() += 1;
        if let Some(text) = difference {
            differences += 1;
            println!("seed {}: {linker} {}: {file} damaged: {text}", seed + number, case.words.join(" "));
            let kept = base.join(format!("seed-{}-{file}", seed + number));
            fs::copy(base.join(file), kept)?;
        }
        fs::write(base.join(file), original)?;
    }
    let kinds = [
        "linked",
        "linked with a warning",
        "refused",
        "the linker crashes",
        "depends on the layout",
        "out of range in dropped code",
    ];
    let mut table = Table::new(&[&["linker"], &kinds[..]].concat());
    for linker in linkers {
        let count = |kind| counts.get(&(linker, kind)).copied().unwrap_or(0).to_string();
        table
            .row(&std::iter::once(linker.to_owned()).chain(kinds.into_iter().map(count)).collect::<Vec<_>>());
    }
    let body = format!(
        "`bench mutate --seeds={seed}..{last}`: links of which a file is damaged, plain and through lto-prune: {differences} end differently.\n\n{}",
        table.as_str()
    );
    publish(corpus, options, "mutate", "Links with a damaged input", &body)?;
    if differences == 0 {
        fs::remove_dir_all(&base)?;
    } else {
        println!("the damaged files are in {}", base.display());
    }
    Ok(differences == 0)
}

/// Whether it ended by a signal, or did not end; 255 is what wild says of an error.
fn has_crashed(status: ExitStatus) -> bool {
    status.signal().is_some() || status.code().is_some_and(|code| (124..255).contains(&code))
}

/// How a program ended, and what it printed.
type Ended = (Option<i32>, Vec<u8>);

struct DamagedRun<'a> {
    base: &'a Path,
    case: &'a DamagedLink,
    linker: PathBuf,
}

impl DamagedRun<'_> {
    /// Whether the program does something else where other things stand beside its code: behind an object more, or without the
    /// sections that the linker itself would collect.
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

    /// Whether the linker alone crashes now and then: mold's threads read what a symbol table says in any order, and wild may read a script for ever.
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
            .args(self.case.words)
            .args(["-o", "out"])
            .current_dir(self.base);
        Ok(command.env("LTO_PRUNE_LINKER", &self.linker).env("LC_ALL", "C").stdin(Stdio::null()).output()?)
    }

    /// What the program does: `None` if that says nothing.
    fn run_program(&self) -> Result<Option<Ended>> {
        if self.case.words.contains(&"-shared") {
            return Ok(None);
        }
        let mut command = Command::new("timeout");
        command.args(["2", "./out"]).current_dir(self.base).stdin(Stdio::null());
        if nix::unistd::Uid::effective().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output()?;
        let status = output.status;
        let says_nothing = status.signal().is_some() || status.code().is_none_or(|code| code >= 124);
        Ok((!says_nothing).then_some((status.code(), output.stdout)))
    }

    /// What came of it, and the difference.
    fn compare(&self, shim: &Path) -> Result<(&'static str, Option<String>)> {
        let out = self.base.join("out");
        let _ = fs::remove_file(&out);
        let plain = self.link(&self.linker, &[])?;
        let expected = if plain.status.success() { self.run_program()? } else { None };
        let _ = fs::remove_file(&out);
        let ours = self.link(shim, &[])?;
        let text = String::from_utf8_lossy(&ours.stderr);
        // wild panics by itself, also in what it is built on.
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
