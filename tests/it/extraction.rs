//! The list of loaded files in the report agrees with the linker's own trace.
//!
//! mold 1.10 traces every member that it parses, extracted or not; its map must have no file that the report lacks.
//!
//! wild logs the sections that it loads, of all loaded files if it collects no garbage. Members of one name in an archive are not distinguished.
//!
//! Every other linker prints the files that it loads (`--trace`), members as `archive(member)`. Two members of one name have the same line, so the
//! lists are compared as sorted lists with repetition.

use std::path::{Path, PathBuf};

use crate::reports;
use crate::run::{Session, section};
use crate::tools::{self, Linker};

fn all() -> [(Linker, PathBuf); 5] {
    Linker::ALL.map(|linker| (linker, linker.path()))
}

/// Links the program of this name in `programs/extraction.txt` by each of the linkers, and compares.
fn compare(name: &str, linkers: &[(Linker, PathBuf)]) {
    let case = section(include_str!("programs/extraction.txt"), name);
    let of = |key: &'static str| case.iter().filter(move |block| block.key == key);
    for (number, (linker, path)) in linkers.iter().enumerate() {
        for link in of("link") {
            let (name, line) = link.words.split_once(' ').unwrap();
            let mut session = Session::new(&format!("extraction/{name}-{}-{number}", linker.name()));
            of("file").for_each(|file| drop(session.write(file.words, &file.text)));
            of("run").for_each(|run| drop(session.cmd(run.words)));
            let (driver, words) = line.split_once(' ').unwrap();
            compare_by(&mut session, *linker, path, (name, driver, words));
        }
    }
}

/// Compares the files that a linker at `path` loads for a line with the report.
fn compare_by(session: &mut Session, linker: Linker, path: &Path, (name, driver, line): (&str, &str, &str)) {
    tools::shim_dir(&session.path("plain"), path);
    session.shims();
    // Given twice, GNU ld's lists archive members too.
    let trace = match linker {
        Linker::Bfd => "-Wl,-t,-t",
        Linker::Mold => "-Wl,-Map=plain.map",
        Linker::Wild => "-Wl,--no-gc-sections",
        _ => "-Wl,--trace",
    };
    let plain = session.job(&format!("{driver} -B plain -o plain.out")).arg(trace).words(line);
    let traced = session.must(&plain.env("WILD_LOG", "debug"));
    let pruned = session.job(&format!("{driver} -B shims -o out -Wl,--prune-report=report.json")).words(line);
    session.must(&pruned.env("LTO_PRUNE_LINKER", path));

    let map = std::fs::read_to_string(session.path("plain.map")).unwrap_or_default();
    let text = format!("{}{}{map}", traced.stdout, traced.stderr);
    let report = session.report("report.json");
    let mut ours: Vec<String> = reports::module_names(&report).iter().map(|n| normal(n)).collect();
    let mut theirs: Vec<String> = text.lines().filter_map(object_of_trace).collect();
    ours.sort();
    theirs.sort();
    if matches!(linker, Linker::Mold | Linker::Wild) {
        theirs.dedup();
    }
    if linker == Linker::Wild {
        ours.dedup();
    }
    let missing: Vec<_> = difference(&theirs, &ours);
    let extra = if linker == Linker::Mold { Vec::new() } else { difference(&ours, &theirs) };
    session.check(
        missing.is_empty() && extra.is_empty(),
        &format!("{name} {}: we miss {missing:?}\nand invent {extra:?}", linker.name()),
    );
    session.check(theirs.len() > 3, &format!("trace not understood: {:?}", traced.stdout));
}

/// The entries of sorted `a` that sorted `b` lacks, with repetition.
fn difference(a: &[String], b: &[String]) -> Vec<String> {
    let mut rest = b.to_vec();
    let keep = |x: &&String| match rest.binary_search(x) {
        Ok(at) => {
            rest.remove(at);
            false
        }
        Err(_) => true,
    };
    a.iter().filter(keep).cloned().collect()
}

/// The relocatable object that a line of a trace names.
fn object_of_trace(line: &str) -> Option<String> {
    let mut line = line.trim();
    // mold: `trace: file`; others print the name alone. bfd: `(archive)member` in old versions.
    if let Some((_, rest)) = line.split_once("trace: ") {
        line = rest;
    }
    // wild: `loaded_section=.text file=archive @ member`.
    if line.contains("loaded_section=") {
        let (_, file) = line.split_once(" file=")?;
        return Some(match file.split_once(" @ ") {
            Some((archive, member)) => normal(&format!("{archive}({member})")),
            None => normal(file),
        });
    }
    // A line of mold's map: address, size, alignment, `file:(section)`; its other lines name symbols.
    if line.starts_with(|c: char| c.is_ascii_digit()) {
        let (file, _) = line.split_whitespace().nth(3)?.split_once(":(")?;
        return object_of_trace(file);
    }
    // GNU ld: `(archive)member`.
    if let Some((archive, member)) = line.strip_prefix('(').and_then(|l| l.split_once(')')) {
        return Some(normal(&format!("{archive}({member})")));
    }
    let is_member = line.ends_with(')');
    (is_member || line.ends_with(".o") || line.ends_with(".obj")).then(|| normal(line))
}

/// The same name for the same file: no `..`, no doubled slashes, no symbolic links in the folder.
fn normal(name: &str) -> String {
    let (file, member) = match name.find('(') {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    let path = std::path::Path::new(file);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = path.to_string_lossy().into_owned();
    format!("{}{member}", path.strip_prefix("./").unwrap_or(&path))
}

macro_rules! extractions {
    ($($name:ident: $linkers:expr;)*) => { $(#[test] fn $name() { compare(stringify!($name), &$linkers); })* };
}

extractions! {
    hello_static: all();
    hello_cxx_static: all();
    threads_and_names_static: all();
    circular_archives: all();
    archive_order_matters: all();
    // mold 1.10 ends in an assertion where it writes a map of an expression.
    expressions_extract: [Linker::Lld, Linker::Bfd, Linker::Gold].map(|linker| (linker, linker.path()));
    // The second lld reads what an older LLVM wrote.
    bitcode_and_native_members: [(Linker::Lld, Linker::Lld.path()), (Linker::Lld, tools::lld_of_rustc())];
}
