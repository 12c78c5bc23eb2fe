//! Units of source packages, in many configurations of three compilers.
//!
//! Nothing is configured: a unit is taken that compiles by itself with all folders of headers of its package on the line. So no build
//! system decides what is looked at, and every configuration sees the same units.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{SectionBytes, SurveyRow, hash, look};
use crate::corpus::Corpus;
use crate::process::{self, run_ok};
use crate::table::{Table, count};
use crate::{Options, Result};

pub(super) const RULE: &str = "Of each package the first 4 units, in the order of the FNV-1a hash of their paths, that compile by themselves, with every \
folder of headers of the package on the line; in every other configuration, for every other package in the others.";

/// Debian's source packages: libraries and programs of C and C++ that need no others.
pub(crate) const PACKAGES: &[&str] = &[
    "bzip2",
    "cjson",
    "double-conversion",
    "fmtlib",
    "hiredis",
    "http-parser",
    "libdeflate",
    "libjsoncpp",
    "libtomcrypt",
    "libtommath",
    "libyaml",
    "libzstd",
    "lua5.4",
    "lz4",
    "lzo2",
    "mbedtls",
    "mujs",
    "pugixml",
    "re2",
    "spdlog",
    "tinyxml2",
    "utf8proc",
    "xxhash",
    "yaml-cpp",
    "zlib",
    "zopfli",
];

const UNITS: usize = 4;

/// Units of a package that are tried.
const TRIED: usize = 40;

/// No more folders of headers are put on a line.
const MAX_FOLDERS: usize = 150;

const NO_TABLES: &str = "-fno-asynchronous-unwind-tables -fno-unwind-tables";

/// Compilers of C and C++, flags, and whether without unwind tables.
const CONFIGURATIONS: &[(&str, &str, bool)] = &[
    ("gcc-12", "-O0 -fno-pic", false),
    ("gcc-12", "-O1 -fPIE -g", true),
    ("gcc-12", "-O2 -fPIE", false),
    ("gcc-12", "-O2 -fPIC -g", false),
    ("gcc-12", "-O3 -fno-pic", false),
    ("gcc-12", "-Os -fPIC", true),
    ("clang-14", "-O0 -fPIC", false),
    ("clang-14", "-O2 -fPIE", false),
    ("clang-14", "-O3 -fno-pic -g", false),
    ("clang-14", "-Os -fPIE", true),
    ("clang-19", "-O1 -fno-pic", true),
    ("clang-19", "-O2 -fPIE", false),
    ("clang-19", "-O2 -fPIC -g", true),
    ("clang-19", "-O3 -fPIC", false),
    ("clang-19", "-Os -fno-pic -g", false),
];

fn label((compiler, flags, bare): &(&str, &str, bool)) -> String {
    format!("{compiler} {flags}{}", if *bare { ", no unwind tables" } else { "" })
}

/// The units of a package and the folders of its headers.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) dir: PathBuf,
    pub(crate) units: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

fn walk(dir: &Path, units: &mut Vec<PathBuf>, folders: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            // Of quilt, with units as they were before Debian's patches.
            if !path.ends_with(".pc") {
                walk(&path, units, folders)?;
            }
            continue;
        }
        match path.extension().and_then(|e| e.to_str()) {
            Some("c" | "cc" | "cpp") if metadata.is_file() => units.push(path),
            Some("h" | "hpp") => {
                // `#include <package/header.h>` as well as `"header.h"`.
                folders.insert(dir.to_owned());
                folders.extend(dir.parent().map(Path::to_owned));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn is_cxx(unit: &Path) -> bool {
    unit.extension().is_some_and(|e| e != "c")
}

pub(crate) fn compile(
    package: &Package,
    unit: &Path,
    configuration: &(&str, &str, bool),
    object: &Path,
) -> Result<bool> {
    let (compiler, flags, bare) = configuration;
    let compiler = match is_cxx(unit) {
        true => compiler.replace("gcc", "g++").replace("clang", "clang++"),
        false => (*compiler).to_owned(),
    };
    let mut command = Command::new("nice");
    command.arg(compiler).args(["-w", "-c"]).args(flags.split(' ')).current_dir(&package.dir);
    if *bare {
        command.args(NO_TABLES.split(' '));
    }
    // Versions that a build system would say.
    command.args(["-DYAML_VERSION_MAJOR=0", "-DYAML_VERSION_MINOR=2", "-DYAML_VERSION_PATCH=5"]);
    command.args(["-DYAML_VERSION_STRING=\"0.2.5\"", "-DSPDLOG_COMPILED_LIB"]);
    command
        .args(package.folders.iter().map(|f| format!("-I{}", f.display())))
        .arg(unit)
        .arg("-o")
        .arg(object);
    let out = object.with_extension("log");
    Ok(process::run(&mut command, &out, &out)?.status == 0)
}

/// Run `work` on each number below `count`, on as many threads as asked for.
pub(crate) fn parallel(
    options: &Options,
    count: usize,
    work: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    if let Err(error) = work(number) {
                        failure
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner)
                            .get_or_insert(error);
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}

/// The package with all of its units, in the order of the hash of their paths; it is fetched if it is not there.
pub(crate) fn fetch(corpus: &Corpus, name: &'static str, scratch: &Path) -> Result<Package> {
    run_ok(Command::new(corpus.root.join("fetch.sh")).arg(name), scratch)?;
    let dir = corpus.root.join("work/src").join(name);
    let (mut units, mut folders) = (Vec::new(), BTreeSet::new());
    walk(&dir, &mut units, &mut folders)?;
    let key = |path: &PathBuf| {
        let path = path.strip_prefix(&dir).unwrap_or(path).display().to_string();
        (hash(&path), path)
    };
    units.sort_by_cached_key(key);
    Ok(Package { name, dir, units, folders: folders.into_iter().take(MAX_FOLDERS).collect() })
}

/// By unit: whether this compiler compiles it, to `object`, without optimisation.
pub(crate) fn compiling(
    package: &Package,
    options: &Options,
    units: &[PathBuf],
    compiler: &str,
    object: &(dyn Fn(usize) -> PathBuf + Sync),
) -> Result<Vec<bool>> {
    let good: Vec<Mutex<bool>> = units.iter().map(|_| Mutex::new(false)).collect();
    parallel(options, units.len(), &|i| {
        let compiled = compile(package, &units[i], &(compiler, "-O0", false), &object(i))?;
        *good[i].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = compiled;
        Ok(())
    })?;
    Ok(good.into_iter().map(|g| g.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)).collect())
}

/// The package with the units that are taken: those that gcc compiles.
fn package(corpus: &Corpus, options: &Options, name: &'static str, scratch: &Path) -> Result<Package> {
    let mut package = fetch(corpus, name, scratch)?;
    let mut units = std::mem::take(&mut package.units);
    units.truncate(TRIED);
    for batch in units.chunks(UNITS) {
        let good = compiling(&package, options, batch, "gcc-12", &|i| scratch.join(format!("try{i}.o")))?;
        package.units.extend(batch.iter().zip(good).filter(|(_, good)| *good).map(|(unit, _)| unit.clone()));
        if package.units.len() >= UNITS {
            package.units.truncate(UNITS);
            break;
        }
    }
    Ok(package)
}

/// A row for each package and configuration.
pub(super) fn rows(corpus: &Corpus, options: &Options) -> Result<Vec<SurveyRow>> {
    let scratch = corpus.scratch("survey-programs")?;
    let mut rows = Vec::new();
    for (number, name) in PACKAGES.iter().enumerate() {
        let package = package(corpus, options, name, &scratch)?;
        eprintln!("{name}: {} units", package.units.len());
        for configuration in CONFIGURATIONS.iter().skip(number % 2).step_by(2) {
            let dir = scratch.join("objects");
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir)?;
            parallel(options, package.units.len(), &|i| {
                let object = dir.join(format!("{i}.o"));
                if !compile(&package, &package.units[i], configuration, &object)? {
                    let _ = fs::remove_file(&object);
                }
                Ok(())
            })?;
            let objects: Vec<PathBuf> =
                (0..package.units.len()).map(|i| dir.join(format!("{i}.o"))).filter(|o| o.exists()).collect();
            if objects.is_empty() {
                continue;
            }
            let archive = scratch.join("units.a");
            let _ = fs::remove_file(&archive);
            run_ok(Command::new("ar").arg("rcsD").arg(&archive).args(&objects), &scratch)?;
            rows.push(look(
                corpus,
                &format!("{} {}", package.name, label(configuration)),
                &archive,
                &scratch,
            )?);
        }
    }
    Ok(rows)
}

/// Sums for each configuration, with the limits of its code.
pub(super) fn by_configuration(rows: &[SurveyRow], body: &mut String) {
    let mut table = Table::new(&["configuration", "code", "divided", "data", "divided", "limits of code"]);
    for configuration in CONFIGURATIONS {
        let label = label(configuration);
        let (mut code, mut data) = (SectionBytes::default(), SectionBytes::default());
        for row in rows.iter().filter(|row| row.name.ends_with(&format!(" {label}"))) {
            code.add(&row.sums[0]);
            data.add(&row.sums[1]);
        }
        let mut limits: Vec<(&String, &u64)> = code.limits.iter().collect();
        limits.sort_by_key(|(name, bytes)| (std::cmp::Reverse(**bytes), *name));
        let limits: Vec<String> =
            limits.iter().map(|(name, bytes)| format!("{name} {}", count(**bytes))).collect();
        table.row(&[
            label,
            count(code.bytes),
            code.percent(),
            count(data.bytes),
            data.percent(),
            limits.join(", "),
        ]);
    }
    body.push_str("\nBy configuration:\n\n");
    body.push_str(table.as_str());
}
