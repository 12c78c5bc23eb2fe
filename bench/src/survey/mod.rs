//! `bench survey`: projects, built by their own build systems and tested by their own suites, plain and with lto-prune.
//!
//! Both builds lie in the same folder, one after the other, and call the same compiler with the same `-B`, so that only the linker differs.
//! All links ([`links`]), all files and the tests ([`files`]) are compared. A finished pair leaves a file of its results. The table has those
//! that are newer than lto-prune; `--only` builds again.

mod files;
mod links;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use self::files::{BuildTree, Outcomes};
use self::links::Links;
use crate::corpus::{Corpus, find_linker};
use crate::process::{self, run_ok};
use crate::report::number;
use crate::table::{Table, count, publish};
use crate::texts::blocks;
use crate::{Options, Result};

/// The blocks of a project or of a kind, by key.
#[derive(Debug, Clone, Default)]
struct Project {
    name: String,
    kind: String,
    parts: BTreeMap<&'static str, String>,
}

impl Project {
    fn part(&self, key: &str) -> &str {
        self.parts.get(key).map_or("", String::as_str)
    }
}

fn projects() -> Vec<Project> {
    let mut all: Vec<Project> = Vec::new();
    for block in blocks(include_str!("projects.txt")) {
        if ["kind", "project"].contains(&block.key) {
            let (name, other) = block.words.split_once(' ').unwrap_or((block.words, ""));
            let parts = all.iter().find(|p| p.name == other).map(|p| p.parts.clone()).unwrap_or_default();
            let kind = if block.key == "kind" { String::new() } else { other.to_owned() };
            all.push(Project { name: name.to_owned(), kind, parts });
        } else if let Some(last) = all.last_mut() {
            let text = if block.text.is_empty() { block.words.to_owned() } else { block.text };
            last.parts.insert(block.key, text);
        }
    }
    all.retain(|project| !project.kind.is_empty());
    all
}

/// A project with a linker, and the folder of both builds.
struct BuildPair<'p> {
    project: &'p Project,
    behind: PathBuf,
    linker: &'p str,
    dir: PathBuf,
}

/// The parts of a build that are compared.
struct Built {
    links: Links,
    files: BuildTree,
    /// Exit statuses of the build, of the tests, and of the installation.
    statuses: [i32; 3],
    outcomes: Outcomes,
}

/// The folders of the sources, which are fetched if they are missing.
fn unpack(corpus: &Corpus, project: &Project) -> Result<Vec<PathBuf>> {
    let scratch = corpus.scratch("survey-fetch")?;
    if let Some((name, version)) = project.part("crate").split_once(' ') {
        // `cargo info` unpacks the crate.
        let asked = format!("{name}@{version}");
        run_ok(Command::new("cargo").args(["info", "--registry=crates-io", &asked]), &scratch)?;
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).ok_or("no CARGO_HOME")?;
        let registries = fs::read_dir(home.join("registry/src"))?;
        let mut found = registries.filter_map(|r| Some(r.ok()?.path().join(format!("{name}-{version}"))));
        return Ok(vec![found.find(|p| p.is_dir()).ok_or("cargo info did not unpack the crate")?]);
    }
    let names = project.part("source").split(' ');
    run_ok(Command::new(corpus.root.join("fetch.sh")).args(names.clone()), &scratch)?;
    Ok(names.map(|n| corpus.root.join("work/src").join(n)).collect())
}

/// Run a script in `folder`, with the environment that all steps of all projects have.
fn step(corpus: &Corpus, pair: &BuildPair<'_>, folder: &Path, script: &str, log: &Path) -> Result<i32> {
    let bin = pair.dir.join("bin").display().to_string();
    let (cc, cxx) = match pair.project.part("compiler") {
        "clang" => (format!("clang-19 -B{bin}"), format!("clang++-19 -B{bin}")),
        _ => (format!("gcc -B{bin}"), format!("g++ -B{bin}")),
    };
    let mut command = Command::new("nice");
    command.args(["sh", "-ec", &format!("exec 2>&1\n{script}")]).current_dir(folder).env_clear();
    for kept in ["HOME", "USER", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    // The second build compiles the same files: ccache, if it is installed, has their objects.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("/usr/lib/ccache:{path}")).env("CCACHE_DIR", corpus.root.join("work/ccache"));
    command.env("LC_ALL", "C.UTF-8").env("TERM", "dumb").env("SOURCE_DATE_EPOCH", "1");
    command.env("TMPDIR", pair.dir.join("tmp")).env("DESTDIR", pair.dir.join("inst"));
    command.env("CC", cc).env("CXX", cxx);
    let flags = pair.project.part("flags");
    if pair.project.part("compiler") == "rustc" {
        command.env("RUSTFLAGS", format!("-Clinker=gcc -Clinker-features=-lld -Clink-arg=-B{bin}"));
        command.env("CARGO_INCREMENTAL", "0");
    } else if !flags.is_empty() {
        command.env("CFLAGS", flags).env("CXXFLAGS", flags);
    }
    Ok(process::run(&mut command, log, &log.with_extension("err"))?.status)
}

/// Build, test and install with `front` as the linker.
fn build(
    corpus: &Corpus,
    pair: &BuildPair<'_>,
    sources: &[PathBuf],
    front: &Path,
    name: &str,
) -> Result<Built> {
    for part in ["bin", "tmp", "inst", "records", "tree", name] {
        let path = pair.dir.join(part);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
    }
    let settings = format!(
        "front='{}'\nrecords='{}'\nexport LTO_PRUNE_LINKER='{}'\n",
        front.display(),
        pair.dir.join("records").display(),
        pair.behind.display()
    );
    fs::write(pair.dir.join("bin/settings"), settings)?;
    symlink(corpus.root.join("record-build-ld.sh"), pair.dir.join("bin/ld"))?;
    for source in sources {
        run_ok(Command::new("cp").arg("-a").arg(source).arg(pair.dir.join("tree")), &pair.dir.join("tmp"))?;
    }
    let first = sources.first().and_then(|s| s.file_name()).ok_or("no source")?;
    let (folder, kept) = (pair.dir.join("tree").join(first), pair.dir.join(name));
    let mut statuses = [0; 3];
    for (status, script) in statuses.iter_mut().zip(["build", "test", "install"]) {
        let log = kept.join(script).with_extension("log");
        *status = step(corpus, pair, &folder, pair.project.part(script), &log)?;
        if script == "build" && *status != 0 {
            return Err(format!("the {name} build fails with status {status}: see its build.log").into());
        }
    }
    for part in ["tree", "inst", "records"] {
        fs::rename(pair.dir.join(part), kept.join(part))?;
    }
    Ok(Built {
        links: links::read(&kept.join("records"))?,
        files: files::read(&kept)?,
        statuses,
        outcomes: files::outcomes(&String::from_utf8_lossy(&fs::read(kept.join("test.log"))?)),
    })
}

/// The results of a pair, as they are kept between runs: the figures of a row, and all differences.
fn results(pair: &BuildPair<'_>, plain: &Built, pruned: &Built) -> Value {
    let mut differences = links::differences(&plain.links, &pruned.links);
    differences.extend(files::differences(&plain.files, &pruned.files));
    if plain.statuses != pruned.statuses {
        differences.push(format!("statuses {:?} and {:?}", plain.statuses, pruned.statuses));
    }
    let (a, b) = (&plain.outcomes.lines, &pruned.outcomes.lines);
    differences.extend(a.symmetric_difference(b).map(|line| format!("test: {line:?}")));
    let mut fates: BTreeMap<&str, u64> = BTreeMap::new();
    let mut messages = Vec::new();
    for ((output, number), link) in &pruned.links {
        *fates.entry(link.fate).or_default() += 1;
        messages.extend(link.messages.iter().map(|line| format!("link {number} of {output}: {line}")));
    }
    // Paths are relative to the folder of the pair.
    let folder = format!("{}/", pair.dir.display());
    differences.iter_mut().chain(&mut messages).for_each(|line| *line = line.replace(&folder, ""));
    let tests = |built: &Built| match built.outcomes.all {
        0 => format!("status {}", built.statuses[1]),
        all => format!("{} of {}", count(built.outcomes.passed), count(all)),
    };
    json!({
        "fates": fates, "installed": [plain.files.text("inst"), pruned.files.text("inst")],
        "built": [plain.files.text("tree"), pruned.files.text("tree")],
        "files": [plain.files.linked.len(), plain.files.others.len()],
        "tests": [tests(plain), tests(pruned)], "differences": differences, "messages": messages,
    })
}

/// Both builds of a pair. The results are kept, and the folders if something differs.
fn run_pair(corpus: &Corpus, pair: &BuildPair<'_>) -> Result<Value> {
    fs::create_dir_all(&pair.dir)?;
    let sources = unpack(corpus, pair.project)?;
    let plain = build(corpus, pair, &sources, &pair.behind, "plain")?;
    let shims = pair.dir.join("shims");
    run_ok(Command::new(&corpus.pruner).arg("install-shims").arg(&shims), &pair.dir)?;
    let pruned = build(corpus, pair, &sources, &shims.join("ld"), "pruned")?;
    let results = results(pair, &plain, &pruned);
    fs::write(pair.dir.join("results.json"), serde_json::to_vec_pretty(&results)?)?;
    if results["differences"].as_array().is_some_and(Vec::is_empty) {
        for name in ["plain", "pruned"] {
            ["tree", "inst", "records"]
                .iter()
                .try_for_each(|p| fs::remove_dir_all(pair.dir.join(name).join(p)))?;
        }
    }
    Ok(results)
}

fn row(pair: &BuildPair<'_>, results: &Value) -> Vec<String> {
    let project = pair.project;
    let compiler = format!("{} {}", project.part("compiler"), project.part("flags"));
    let mut cells =
        vec![project.name.clone(), project.kind.clone(), compiler.trim().to_owned(), pair.linker.to_owned()];
    let fates = ["pruned", "nothing to drop", "fell back", "refused"];
    cells.extend(fates.map(|fate| count(number(&results["fates"], fate))));
    for name in ["installed", "built", "files"] {
        cells.extend([0, 1].map(|side| count(results[name][side].as_u64().unwrap_or(0))));
    }
    cells.extend([0, 1].map(|side| results["tests"][side].as_str().unwrap_or_default().to_owned()));
    cells.push(results["differences"].as_array().map_or(0, Vec::len).to_string());
    cells
}

/// The command. True if no pair differs and all could be built.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(
        "project | built by | compiler | linker | pruned | nothing to drop | fell back | refused alike | installed `.text` plain | pruned | all `.text` plain | pruned | linked files | other files | tests plain | tests pruned | differences",
    );
    let (mut good, mut details) = (true, String::new());
    for project in &projects() {
        for linker in project.part("linkers").split(' ') {
            let name = format!("{}-{linker}", project.name);
            let dir = corpus.root.join("work/survey").join(&name);
            let pair = BuildPair { project, behind: find_linker(linker)?, linker, dir };
            let wanted =
                |only: &String| *only == project.name || *only == format!("{}/{linker}", project.name);
            let asked = options.only.iter().any(wanted);
            let file = pair.dir.join("results.json");
            let is_new =
                file.exists() && file.metadata()?.modified()? > corpus.pruner.metadata()?.modified()?;
            if !asked && !is_new && !options.only.is_empty() {
                continue;
            }
            eprintln!("{name}");
            let results = if is_new && !asked { crate::report::read(&file) } else { run_pair(corpus, &pair) };
            match results {
                Ok(results) => {
                    table.row(&row(&pair, &results));
                    for kind in ["differences", "messages"] {
                        let lines = results[kind].as_array().into_iter().flatten().filter_map(Value::as_str);
                        lines.for_each(|line| details.push_str(&format!("{name}: {kind}: {line}\n")));
                    }
                    good &= results["differences"].as_array().is_some_and(Vec::is_empty);
                }
                Err(e) => {
                    details.push_str(&format!("FAILED {name}: {e}\n"));
                    good = false;
                }
            }
        }
    }
    let body = format!(
        "Projects built by their own build systems, with the linker alone and with lto-prune at its default level, and tested by their own suites. \
         `.text` is of all installed programs and shared libraries, and of all that the build linked, with its tests.\n\n{}\nDifferences, and messages \
         of lto-prune:\n\n```\n{}```\n",
        table.as_str(),
        if details.is_empty() { "none\n" } else { &details }
    );
    publish(good, corpus, options, ("builds", "Projects, built plain and with lto-prune"), &body)
}
