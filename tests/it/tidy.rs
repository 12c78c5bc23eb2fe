//! Rules of the source tree, read from the tracked files as text. rustfmt, clippy and rustc check other rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::tools::repository;

/// The one home of each crate from outside: the only paths (below the root, prefixes) that may name it.
const HOMES: &[(&str, &[&str])] = &[
    ("memmap2", &["src/inputs/mapped.rs"]),
    ("bincode", &["summaries/src/format.rs"]),
    ("blake3", &["src/hashing.rs", "src/plan/limit.rs"]),
    ("goblin", &["src/verify.rs", "src/verify/"]),
    ("gimli", &["src/emit/debug/", "src/audit/elf/", "src/audit/evidence/debug.rs"]),
    ("md5", &["summaries/src/bitcode/guid.rs"]),
    ("flate2", &["src/compression.rs"]),
    ("ruzstd", &["src/compression.rs"]),
    ("dashmap", &["src/resolve/symbol_table.rs"]),
    ("iced_x86", &["summaries/src/native/decode.rs", "summaries/src/native/decode/"]),
    // Models come with the tool; a budget and the options of a build are a user's.
    ("toml", &["summaries/src/models.rs", "src/audit/commands/budget.rs", "src/args/prune/file.rs"]),
    ("humantime", &["src/audit/commands/reach.rs"]),
    ("rustc_demangle", &["src/audit/demangle.rs"]),
    ("cpp_demangle", &["src/audit/demangle.rs"]),
    (
        "rustix",
        &[
            "src/audit/mod.rs",
            "src/link/",
            "src/process_group.rs",
            "src/precomputed.rs",
            "src/inputs/mapped.rs",
        ],
    ),
    // Our own command lines; the linker's is another language (src/args/).
    ("lexopt", &["src/args/help.rs", "src/split/mod.rs", "src/summarize/commands.rs", "bench/src/main.rs"]),
    ("rayon", &["src/"]),
    (
        "signal_hook",
        &[
            "src/link.rs",
            "src/link/",
            "src/modes/standalone.rs",
            "src/bisect.rs",
            "src/advise/mod.rs",
            "src/process_group.rs",
        ],
    ),
];

/// Crates that some paths must not name.
const FORBIDDEN: &[(&str, &[&str])] = &[
    // verify shares no parser with emit.
    ("object", &["src/verify.rs", "src/verify/"]),
    // The summaries crate does no I/O, starts no thread, knows no path.
    ("std::fs", &["summaries/src/"]),
    ("std::thread", &["summaries/src/"]),
    ("std::path", &["summaries/src/"]),
    ("std::net", &["summaries/src/"]),
    ("std::process", &["summaries/src/"]),
    ("std::env", &["summaries/src/"]),
    ("rayon", &["summaries/src/"]),
];

/// Words of ELF that the solver must not know.
const ELF_WORDS: &[&str] = &["elf", "symbol", "section", "relocation", "object", "archive", "linker"];

/// Tracked files (and new ones that git does not ignore), below the root.
fn files() -> Vec<PathBuf> {
    let mut command = std::process::Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(repository());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let files: Vec<PathBuf> =
        text.lines().map(PathBuf::from).filter(|p| repository().join(p).is_file()).collect();
    assert!(files.len() > 30, "git lists {} files", files.len());
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Our own Rust files, not the fixtures.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let is_ours = |p: &PathBuf| p.extension().is_some_and(|e| e == "rs") && !p.starts_with("fixtures");
    files().into_iter().filter(is_ours).map(|p| (p.to_string_lossy().into_owned(), read(&p))).collect()
}

/// The lines of code, without comment lines.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(n, l)| (n + 1, l)).filter(|(_, l)| !l.trim_start().starts_with("//"))
}

/// Whether `line` has `word` between characters that are no part of an identifier.
fn mentions(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

fn starts_with_any(path: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|p| path.starts_with(p))
}

/// Fail with all findings at once.
fn none(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// Nothing lies at the top but what has its place there.
#[test]
fn the_top_level() {
    const NAMES: &[&str] = &[
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "bench",
        "docs",
        "examples",
        "fixtures",
        "fuzz",
        "proptest-regressions",
        "rustfmt.toml",
        "src",
        "summaries",
        "tests",
    ];
    let top = |path: PathBuf| path.iter().next().unwrap().to_string_lossy().into_owned();
    let stray = |name: &String| !name.starts_with('.') && !NAMES.contains(&name.as_str());
    none(files().into_iter().map(top).filter(stray).collect());
}

#[test]
fn every_file_says_what_it_decides() {
    let bad = rust_files().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    none(bad.map(|(path, _)| format!("{path} does not open with //!")).collect());
}

#[test]
fn names_of_files_are_chosen() {
    // A tool that takes `-` for a name leaves files like that behind.
    let odd = |p: &PathBuf| p.iter().any(|part| part.to_string_lossy().starts_with(['-', ' ', '~']));
    none(files().iter().filter(|p| odd(p)).map(|p| p.display().to_string()).collect());
}

/// The text without what stands between `r#"` and `"#`: sources in other languages.
fn without_raw_strings(text: &str) -> String {
    let mut pieces = text.split("r#\"");
    let first = pieces.next().unwrap_or_default().to_owned();
    let behind = pieces.map(|piece| piece.split_once("\"#").map_or("", |(_, rest)| rest));
    std::iter::once(first.as_str()).chain(behind).collect()
}

/// The type that a line defines. An indented `type` belongs to a trait. Each error type has a `Result`.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let keyword = words.next()?;
    let alias = keyword == "type" && !line.starts_with(' ');
    let name = words.next().filter(|_| alias || ["struct", "enum", "trait", "union"].contains(&keyword))?;
    let name = name.split(|c: char| !c.is_alphanumeric()).next()?;
    (name.starts_with(char::is_uppercase) && name != "Result").then_some(name)
}

/// A stranger who finds a type's name knows which one it is.
#[test]
fn types_have_names_of_their_own() {
    let crates = ["src/", "summaries/src/", "bench/src/", "tests/", "summaries/tests/"];
    let mut seen: BTreeMap<(&str, String), String> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let Some(krate) = crates.into_iter().find(|c| path.starts_with(c)) else { continue };
        for (_, line) in code_lines(&without_raw_strings(&text)) {
            let Some(name) = defined_type(line) else { continue };
            if let Some(other) = seen.insert((krate, name.to_owned()), path.clone()) {
                findings.push(format!("{name} is in {other} and in {path}"));
            }
        }
    }
    assert!(seen.len() > 900, "{} types are found", seen.len());
    none(findings);
}

/// A doc comment is a sentence, not a word or two.
#[test]
fn docs_are_sentences() {
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let (mut words, mut first) = (0, 0);
        for (number, line) in text.lines().enumerate() {
            match line.trim_start().strip_prefix("///") {
                Some(doc) => {
                    first = if words == 0 { number + 1 } else { first };
                    words += doc.split_whitespace().count();
                }
                None => {
                    if (1..4).contains(&words) {
                        findings.push(format!("{path}:{first}: a doc of {words} words"));
                    }
                    words = 0;
                }
            }
        }
    }
    none(findings);
}

/// A relocation type is named as the psABI names it: where it is compared, and in the arms of a match.
#[test]
fn relocation_types_have_names() {
    let starts_with_digit = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let compared = |line: &str| {
        let call = line.split_once("type_of(").and_then(|(_, rest)| rest.split_once(')'));
        let rest = call.or_else(|| line.split_once("entry.kind")).map_or("", |(_, rest)| rest);
        let listed = ["matches!(ty, ", "matches!(kind, ", "matches!(r_type, "];
        let is_listed =
            listed.iter().filter_map(|call| line.split_once(call)).any(|(_, rest)| starts_with_digit(rest));
        is_listed || starts_with_digit(rest.trim_start_matches([',', ' ', '=', '!']))
    };
    let is_arm = |line: &str| starts_with_digit(line) && (line.contains("=>") || line.contains(" if "));
    let (mut findings, mut matches) = (Vec::new(), 0);
    for (path, text) in rust_files().into_iter().filter(|(path, _)| !path.starts_with("tests/")) {
        let lines: Vec<(usize, &str)> = code_lines(&text).collect();
        for (at, (number, line)) in lines.iter().enumerate() {
            let indented = |line: &str| line.len() - line.trim_start().len();
            let mut found = compared(line);
            if line.contains("match type_of(") || line.trim() == "match ty {" {
                matches += 1;
                let body = lines[at + 1..]
                    .iter()
                    .take_while(|(_, l)| l.trim().is_empty() || indented(l) > indented(line));
                found |= body.into_iter().any(|(_, l)| indented(l) == indented(line) + 4 && is_arm(l));
            }
            if found {
                findings.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(matches > 8, "{matches} matches of types are found");
    none(findings);
}

#[test]
fn no_notes_to_self() {
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        for (number, line) in text.lines().enumerate() {
            for word in [
                concat!("TO", "DO"),
                concat!("FIX", "ME"),
                concat!("XX", "X"),
                concat!("todo", "!("),
                concat!("unimplemented", "!("),
            ] {
                if mentions(line, word) || (word.ends_with('(') && line.contains(word)) {
                    findings.push(format!("{path}:{}: {word}", number + 1));
                }
            }
        }
    }
    none(findings);
}

#[test]
fn crates_stay_in_their_homes() {
    let mut findings = Vec::new();
    for (path, text) in
        rust_files().into_iter().filter(|(p, _)| !p.contains("tests") && !p.starts_with("bench/"))
    {
        for (number, line) in code_lines(&text) {
            // As a path (`memmap2::`) or in a `use`: a variable may have the name.
            let names = |word: &str| line.contains(&format!("{word}::")) && mentions(line, word);
            // `emit::object` and `verify::object` are modules of ours.
            let ours = ["super::object", "self::object", "crate::emit::object"];
            if ours.iter().any(|module| line.contains(module)) {
                continue;
            }
            for (word, homes) in HOMES {
                if (names(word) || mentions(line, &format!("use {word}"))) && !starts_with_any(&path, homes) {
                    findings.push(format!("{path}:{number}: {word} has its home in {homes:?}"));
                }
            }
            for (word, places) in FORBIDDEN {
                if (names(word) || mentions(line, &format!("use {word}"))) && starts_with_any(&path, places) {
                    findings.push(format!("{path}:{number}: {word} must not be here"));
                }
            }
        }
    }
    none(findings);
}

#[test]
fn solver_knows_no_elf() {
    let path = "src/propagate/solver.rs";
    let text = read(Path::new(path)).to_lowercase();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in ELF_WORDS {
            if mentions(line, word) || mentions(line, &format!("{word}s")) {
                findings.push(format!("{path}:{}: {word}", number + 1));
            }
        }
    }
    none(findings);
}

#[test]
fn unsafe_has_one_site() {
    let mut findings = Vec::new();
    for (path, text) in
        rust_files().into_iter().filter(|(p, _)| p != "src/inputs/mapped.rs" && !p.contains("tests"))
    {
        for (number, line) in code_lines(&text) {
            // The benchmark asks the kernel for a child's peak memory (`wait4`); it is no part of the tool.
            if mentions(line, "unsafe") && path != "bench/src/process.rs" {
                findings.push(format!("{path}:{number}: unsafe"));
            }
        }
    }
    none(findings);
}

#[test]
fn documented_paths_exist() {
    let mut findings = Vec::new();
    for document in ["docs/ARCHITECTURE.md", "README.md"] {
        for word in read(Path::new(document)).split(|c: char| c.is_whitespace() || "`()[],;".contains(c)) {
            let word = word.split('#').next().unwrap_or_default().trim_end_matches(['.', ':']);
            let is_path =
                ["src/", "summaries/src", "tests/", "fixtures/", "docs/", "bench/", ".ci/", ".config/"]
                    .iter()
                    .any(|p| word.starts_with(p));
            if is_path && !word.contains(['*', '<', '{', '…']) && !repository().join(word).exists() {
                findings.push(format!("{document}: {word} does not exist"));
            }
        }
    }
    none(findings);
}

/// Each test that SOUNDNESS names is a fixture, a function, a module of a suite, a file or a command of bench.
#[test]
fn tests_of_assumptions_exist() {
    let sources: String = rust_files().into_iter().map(|(_, text)| text).collect();
    let exists = |name: &str| {
        let last = name.rsplit("::").next().unwrap_or(name);
        let module = format!("mod {last};");
        match name.split_once(' ') {
            Some((_, command)) => {
                let command = command.split(' ').next().unwrap_or_default().replace('-', "_");
                let files = [format!("bench/src/{command}"), format!("bench/src/{command}.rs")];
                files.iter().any(|file| repository().join(file).exists())
            }
            None if name.contains('/') => repository().join(name).exists(),
            None => {
                repository().join("fixtures").join(name).is_dir()
                    || sources.contains(&format!("fn {last}("))
                    || sources.contains(&module)
            }
        }
    };
    let page = read(Path::new("docs/SOUNDNESS.md"));
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.matches(" | ").count() >= 2);
    let tests = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let names: Vec<&str> = tests.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 150, "the tables of SOUNDNESS are read: {}", names.len());
    none(
        names
            .into_iter()
            .filter(|name| !exists(name))
            .map(|name| format!("SOUNDNESS: no test {name}"))
            .collect(),
    );
}

/// A table of results that no page cites is removed.
#[test]
fn results_are_cited() {
    let pages: Vec<String> = files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == "md") && !path.starts_with("bench/results"))
        .map(|path| read(&path))
        .collect();
    let tables = files().into_iter().filter(|path| path.starts_with("bench/results"));
    let cited = |path: &PathBuf| pages.iter().any(|page| page.contains(&*path.to_string_lossy()));
    none(
        tables.filter(|path| !cited(path)).map(|path| format!("{} is in no page", path.display())).collect(),
    );
}

#[test]
fn no_machine_paths() {
    // Directories of one developer, and hosts of package registries: neither means anything elsewhere.
    let words = [
        concat!("/wo", "rk/"),
        concat!("/tmp/", "wt"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("static.", "crates.io"),
        concat!("index.", "crates.io"),
        concat!("regist", "ry ="),
        concat!("replace", "-with"),
    ];
    let mut findings = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(repository().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for word in words {
                // `bench/work/` is a folder of the repository.
                let found = |at: usize| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
                if line.match_indices(word).any(|(at, _)| found(at)) {
                    findings.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    none(findings);
}

/// A folder of `fixtures/` without directives is no fixture: another test must name it.
#[test]
fn every_fixture_is_used() {
    let files = files();
    let has_directives = |path: &&PathBuf| {
        let text = std::fs::read_to_string(repository().join(path)).unwrap_or_default();
        text.lines().any(|line| line.starts_with("//# "))
    };
    let folder = |path: &PathBuf| path.iter().nth(1).map(|name| name.to_string_lossy().into_owned());
    let inside = || files.iter().filter(|path| path.starts_with("fixtures") && path.iter().count() > 2);
    let found: BTreeSet<String> = inside().filter(has_directives).filter_map(folder).collect();
    let mut others: BTreeSet<String> = inside().filter_map(folder).collect();
    others.retain(|name| !found.contains(name));
    let sources =
        rust_files().into_iter().filter(|(p, _)| p.starts_with("tests/") || p.starts_with("bench/"));
    for (_, text) in sources {
        others.retain(|name| !text.contains(&format!("fixtures/{name}")));
    }
    none(others.into_iter().map(|name| format!("fixtures/{name} is in no test")).collect());
}

#[test]
fn limits_are_documented() {
    let document = read(Path::new("docs/REPORT_FORMAT.md"));
    let missing =
        summaries::Limit::ALL.iter().map(|l| l.name()).filter(|n| !document.contains(&format!("`{n}`")));
    none(missing.map(|n| format!("docs/REPORT_FORMAT.md does not name the limit {n}")).collect());
}
