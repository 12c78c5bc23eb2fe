//! Programs of Debian's source packages, pruned, beside the same recompiled with `-ffunction-sections -fdata-sections`.
//!
//! Nothing is configured, as in `bench survey`: of a package the units count that both compilers compile by themselves. Those
//! with a `main` are the programs; the units that lld takes for one from an archive of all the others are on its line. Each is
//! compiled by gcc and clang, with `-g` and without unwind tables, linked by lld with `--gc-sections` three ways: plain,
//! through lto-prune, and recompiled.
//!
//! Compared are sizes, what the programs do when they are run with a few arguments, and what debug information says. Pruned again at the level
//! `pointers`, without a gate or a budget, each keeps at most as much code and does the same; what stops its called values is a row as of `bench stops`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};

use super::{Sizes, TIMED_OUT, behaviour, bytes, excess, within, yes};
use crate::corpus::{Corpus, find_linker};
use crate::process::run_ok;
use crate::soak::debug;
use crate::survey::programs::{PACKAGES, Package, compile, compiling, fetch, is_cxx, parallel};
use crate::table::{Table, publish};
use crate::{Options, Result, report, stops};

/// Programs that are looked at, if nobody says how many.
const COUNT: u64 = 25;

/// Programs of one package at most.
const OF_ONE: usize = 3;

/// Not looked at: programs of the benchmark itself, packages with hundreds of units or units of C++ that take long to compile, and those
/// of which no program links unconfigured.
const LEFT_OUT: &[&str] = &[
    "bzip2",
    "libzstd",
    "lua5.4",
    "zlib",
    "fmtlib",
    "libjsoncpp",
    "libtomcrypt",
    "mbedtls",
    "mujs",
    "pugixml",
    "re2",
    "spdlog",
    "yaml-cpp",
];

const COMPILERS: [&str; 2] = ["gcc-12", "clang-19"];
const FLAGS: [&str; 2] = ["-O2 -fPIE -g", "-O2 -fPIE -fno-asynchronous-unwind-tables"];
const SECTIONS: &str = "-ffunction-sections -fdata-sections";

/// The arguments that each program is run with.
const ARGUMENTS: [&[&str]; 4] = [&[], &["--help"], &["--version"], &["input"]];

/// Units of a package that make up a program, the one with `main` first.
struct PackageProgram {
    name: String,
    units: Vec<PathBuf>,
}

fn has_main(object: &Path) -> Result<bool> {
    let data = fs::read(object)?;
    let file = object::File::parse(&*data)?;
    Ok(file.symbols().any(|s| s.is_global() && s.is_definition() && s.name() == Ok("main")))
}

/// The driver's link of `objects` by `DIR/ld`, in `scratch`.
fn link(units: &[PathBuf], dir: &str, scratch: &Path, objects: &[PathBuf], output: &str) -> Command {
    let driver = if units.iter().any(|u| is_cxx(u)) { "g++" } else { "gcc" };
    let mut command = Command::new("nice");
    command.arg(driver).current_dir(scratch).arg(format!("-B{dir}/")).args(["-pie", "-Wl,--gc-sections"]);
    command.args(objects).args(["-o", output, "-lm", "-lpthread"]);
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    command
}

/// The programs of a package, those of most units first.
fn programs(package: &Package, options: &Options, scratch: &Path) -> Result<Vec<PackageProgram>> {
    let object = |i: usize| scratch.join("found").join(format!("{i}.o"));
    let _ = fs::remove_dir_all(scratch.join("found"));
    fs::create_dir_all(scratch.join("found"))?;
    let mut good = vec![true; package.units.len()];
    for compiler in COMPILERS.into_iter().rev() {
        let compiled = compiling(package, options, &package.units, compiler, &object)?;
        good.iter_mut().zip(compiled).for_each(|(good, compiled)| *good &= compiled);
    }
    let (mut mains, mut others) = (Vec::new(), Vec::new());
    for i in (0..good.len()).filter(|i| good[*i]) {
        if has_main(&object(i))? { &mut mains } else { &mut others }.push(i);
    }
    let archive = scratch.join("found/others.a");
    run_ok(Command::new("ar").arg("rcsD").arg(&archive).args(others.iter().map(|i| object(*i))), scratch)?;
    let mut found = Vec::new();
    for main in mains {
        // A unit of C may need one of C++.
        let mut command = link(&package.units, "bin", scratch, &[object(main), archive.clone()], "found/out");
        if run_ok(command.arg("-Wl,--trace"), scratch).is_err() {
            continue;
        }
        let trace = fs::read_to_string(scratch.join("stdout"))?;
        let taken: BTreeSet<usize> = trace
            .lines()
            .filter_map(|line| line.split_once("others.a(")?.1.strip_suffix(".o)")?.parse().ok())
            .collect();
        let units = std::iter::once(main).chain(taken).map(|i| package.units[i].clone()).collect();
        let path = package.units[main].strip_prefix(&package.dir)?.display().to_string();
        found.push(PackageProgram { name: format!("{} {path}", package.name), units });
    }
    found.sort_by_key(|p| (std::cmp::Reverse(p.units.len()), p.name.clone()));
    found.truncate(OF_ONE);
    Ok(found)
}

/// What came of one program in one configuration.
struct ProgramRow {
    name: String,
    flags: &'static str,
    plain: Sizes,
    pruned: Sizes,
    recompiled: Sizes,
    /// The invocations that end alike, and those that are compared: the plain program ends in time, and twice alike.
    alike: (usize, usize),
    debug: Option<String>,
    /// Code and data that were left whole, by limit, with bytes.
    limits: Vec<(String, u64, u64)>,
    /// `.text` at the level `pointers`, in bytes, and the cells of `bench stops`.
    pointers: u64,
    stops: Vec<String>,
}

fn compile_all(
    package: &Package,
    options: &Options,
    units: &[PathBuf],
    compiler: &str,
    flags: &str,
    dir: &Path,
) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(dir)?;
    // Compilers name units of C and C++ alike, and objects are named for them in messages.
    let object = |i: usize| dir.join(format!("{i}.o"));
    parallel(options, units.len(), &|i| match compile(
        package,
        &units[i],
        &(compiler, flags, false),
        &object(i),
    )? {
        true => Ok(()),
        false => {
            Err(format!("{compiler} does not compile {}", units[i].file_name().unwrap_or_default().display())
                .into())
        }
    })?;
    Ok((0..units.len()).map(object).collect())
}

fn measure(
    package: &Package,
    options: &Options,
    program: &PackageProgram,
    compiler: &str,
    flags: &'static str,
    scratch: &Path,
) -> Result<ProgramRow> {
    for dir in ["mono", "sections"] {
        let _ = fs::remove_dir_all(scratch.join(dir));
    }
    let units = &program.units;
    let mono = compile_all(package, options, units, compiler, flags, &scratch.join("mono"))?;
    let again = format!("{flags} {SECTIONS}");
    let sections = compile_all(package, options, units, compiler, &again, &scratch.join("sections"))?;
    run_ok(&mut link(units, "bin", scratch, &mono, "a.plain"), scratch)?;
    run_ok(&mut link(units, "bin", scratch, &sections, "a.recompiled"), scratch)?;
    let report = scratch.join("report.json");
    let mut pruned = link(units, "ours", scratch, &mono, "a.pruned");
    let said = format!("--prune-level={} --prune-strict --prune-report={}", options.level, report.display());
    pruned.env("LTO_PRUNE_LINKER", find_linker("lld")?).env("LTO_PRUNE_FLAGS", said);
    run_ok(&mut pruned, scratch)?;
    let values = scratch.join("values.json");
    let mut pointers = link(units, "ours", scratch, &mono, "a.pointers");
    let said = format!(
        "--prune-level=pointers --prune-gate=0 --prune-strict --prune-time --prune-report={}",
        values.display()
    );
    pointers.env("LTO_PRUNE_LINKER", find_linker("lld")?).env("LTO_PRUNE_FLAGS", said);
    run_ok(&mut pointers, scratch)?;
    let stops = stops::row(&program.name, &values, &fs::read_to_string(scratch.join("stderr"))?)?;
    let mut alike = (0, 0);
    for args in ARGUMENTS {
        let run = |file: &str| behaviour(&scratch.join(file), args, scratch);
        let plain = run("a.plain")?;
        if plain.0 != TIMED_OUT && run("a.plain")? == plain {
            let same = run("a.pruned")? == plain && run("a.pointers")? == plain;
            // One that prints times may do so twice alike by chance.
            let is_steady =
                same || (0..4).map(|_| run("a.plain")).all(|again| again.is_ok_and(|a| a == plain));
            alike.0 += usize::from(same);
            alike.1 += usize::from(is_steady);
        }
    }
    let size = |file: &str| Sizes::of(&scratch.join(file));
    Ok(ProgramRow {
        name: program.name.clone(),
        flags,
        plain: size("a.plain")?,
        pruned: size("a.pruned")?,
        recompiled: size("a.recompiled")?,
        alike,
        debug: if flags.contains("-g") { debug::difference(scratch)? } else { None },
        limits: report::limits(&report::read(&report)?).into_iter().filter(|l| l.2 > 0).collect(),
        pointers: size("a.pointers")?.text,
        stops,
    })
}

/// One table for each compiler and its flags.
fn print(rows: &[ProgramRow], compiler: &str, flags: &str, body: &mut String) {
    let mut table = Table::new(&[
        "program",
        "`.text` plain",
        "pruned",
        "recompiled",
        "",
        "`.rodata` plain",
        "pruned",
        "recompiled",
        "",
        "`.data`, `.bss` plain",
        "pruned",
        "recompiled",
        "runs alike",
        "debug",
        "limits",
    ]);
    for row in rows {
        let (a, b, c) = (row.plain, row.pruned, row.recompiled);
        let limits: Vec<String> =
            row.limits.iter().map(|(name, _, size)| format!("{name} {}", bytes(*size))).collect();
        table.row(&[
            row.name.clone(),
            bytes(a.text),
            bytes(b.text),
            bytes(c.text),
            excess(b.text, c.text),
            bytes(a.rodata),
            bytes(b.rodata),
            bytes(c.rodata),
            excess(b.rodata, c.rodata),
            bytes(a.data),
            bytes(b.data),
            bytes(c.data),
            format!("{} of {}", row.alike.0, row.alike.1),
            if row.flags.contains("-g") { yes(row.debug.is_none()) } else { "-".into() },
            limits.join(", "),
        ]);
    }
    let near = rows.iter().filter(|r| within(r.pruned.text, r.recompiled.text)).count();
    let sum = |of: &dyn Fn(&ProgramRow) -> u64| rows.iter().map(of).sum::<u64>();
    let total = |of: &dyn Fn(&Sizes) -> u64| excess(sum(&|r| of(&r.pruned)), sum(&|r| of(&r.recompiled)));
    body.push_str(&format!("\n## {compiler} {flags}\n\n{}\n", table.as_str()));
    body.push_str(&format!(
        "`.text` within 0.5%: {near} of {}. In sum `.text` {}, `.rodata` {}, `.data` and `.bss` {}.\n",
        rows.len(),
        total(&|s| s.text),
        total(&|s| s.rodata),
        total(&|s| s.data)
    ));
    let mut table = stops::table();
    rows.iter().for_each(|row| table.row(&row.stops));
    body.push_str(&format!(
        "\nWhat stops called values, as in `bench stops`; `.text` at the level `pointers` beside the level above {}, larger in {} of {}:\n\n{}",
        excess(sum(&|r| r.pointers), sum(&|r| r.pruned.text)),
        rows.iter().filter(|r| r.pointers > r.pruned.text).count(),
        rows.len(),
        table.as_str()
    ));
    for row in rows {
        if let Some(said) = &row.debug {
            body.push_str(&format!("\n- {}: {said}\n", row.name));
        }
    }
}

/// The command. True if each program runs alike, its debug information says the same, and none keeps more at the level `pointers`.
pub(crate) fn recompiled(corpus: &Corpus, options: &Options) -> Result<bool> {
    let scratch = corpus.scratch("recompiled")?;
    for (dir, file) in [("ours", &corpus.pruner), ("bin", &find_linker("lld")?)] {
        fs::create_dir(scratch.join(dir))?;
        symlink(file, scratch.join(dir).join("ld"))?;
    }
    let wanted = options.count.unwrap_or(COUNT) as usize;
    let mut having = Vec::new();
    for name in PACKAGES.iter().filter(|name| !LEFT_OUT.contains(*name)) {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            let package = fetch(corpus, name, &scratch)?;
            let programs = programs(&package, options, &scratch)?;
            eprintln!("{name}: {} programs", programs.len());
            having.push((package, programs));
        }
    }
    let mut taken = Vec::new();
    for place in 0..OF_ONE {
        taken.extend(having.iter().filter_map(|(package, all)| Some((package, all.get(place)?))));
    }
    taken.truncate(wanted);
    let mut rows: [Vec<ProgramRow>; 4] = Default::default();
    let mut failures = Vec::new();
    for (package, program) in taken {
        eprintln!("{}: {} units", program.name, program.units.len());
        let cases = COMPILERS.iter().flat_map(|compiler| FLAGS.map(|flags| (*compiler, flags)));
        for ((compiler, flags), rows) in cases.zip(&mut rows) {
            match measure(package, options, program, compiler, flags, &scratch) {
                Ok(row) => rows.push(row),
                Err(e) => failures.push(format!("{}, {compiler} {flags}: {e}", program.name)),
            }
        }
    }
    let mut body = format!(
        "Of each package of `bench survey` the {OF_ONE} programs of most units, that both compilers compile, and that link, unconfigured, without the benchmark's own and without those that take long to compile: first one of each, then the second ones, up to \
         {wanted} (`--count`). PIE, lld, `--gc-sections`: monolithic objects linked plain, and pruned (`--prune-level={}`), beside objects with `{SECTIONS}` linked plain. Run without arguments, \
         with `--help`, `--version` and a small file; debug is what `addr2line` and LLVM's symbolizer say of functions that both have. Limits: bytes that stayed whole.\n",
        options.level
    );
    let cases = COMPILERS.iter().flat_map(|compiler| FLAGS.map(|flags| (*compiler, flags)));
    for ((compiler, flags), rows) in cases.zip(&rows) {
        print(rows, compiler, flags, &mut body);
    }
    for failure in &failures {
        body.push_str(&format!("\nFAILED {failure}\n"));
    }
    publish(corpus, options, "recompiled", "Pruned beside recompiled", &body)?;
    let good = |r: &ProgramRow| r.alike.0 == r.alike.1 && r.debug.is_none() && r.pointers <= r.pruned.text;
    Ok(failures.is_empty() && rows.iter().flatten().all(good))
}
