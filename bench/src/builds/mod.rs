//! `bench builds`: real projects, built by their own build systems and tested by their own suites, plain and with lto-prune.
//!
//! Both builds lie in the same folder, one after the other, and call the same compiler with the same `-B`, so that whatever differs
//! comes from the linker's stand-in: it is the linker alone, or lto-prune before it. Compared are all links
//! ([`records`]), all files that came out ([`tree`], [`faces`]) and the tests ([`outcomes`]). A finished pair leaves a file of
//! its results, and the table is made of those that are newer than lto-prune; `--only` builds again what it names.

mod faces;
mod outcomes;
mod projects;
mod records;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use self::outcomes::Outcomes;
use self::projects::{PROJECTS, Project, ProjectCompiler, SourceOrigin};
use self::records::{Fate, Links};
use crate::corpus::{Corpus, find_linker};
use crate::process;
use crate::table::{Table, count, publish};
use crate::{Options, Result};

/// The folder of a project and linker.
struct BuildPair<'p> {
    project: &'p Project,
    behind: PathBuf,
    linker: &'p str,
    dir: PathBuf,
}

/// What a build left behind that is compared: its links, its files and its test results.
struct Built {
    links: Links,
    files: tree::BuildTree,
    /// Exit statuses of configure and build, of the tests, and of the installation.
    statuses: [i32; 3],
    outcomes: Outcomes,
    seconds: u64,
}

fn unpack(corpus: &Corpus, project: &Project) -> Result<Vec<PathBuf>> {
    let scratch = corpus.scratch("builds-fetch")?;
    match project.source {
        SourceOrigin::Debian(names) => {
            process::run_ok(Command::new(corpus.root.join("fetch.sh")).args(names), &scratch)?;
            Ok(names.iter().map(|n| corpus.root.join("work/src").join(n)).collect())
        }
        SourceOrigin::Crate(name, version) => {
            // cargo unpacks what it is asked about.
            let asked = format!("{name}@{version}");
            process::run_ok(Command::new("cargo").args(["info", "--registry=crates-io", &asked]), &scratch)?;
            let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
            let home =
                home.or_else(|| std::env::home_dir().map(|h| h.join(".cargo"))).ok_or("no CARGO_HOME")?;
            let registries = fs::read_dir(home.join("registry/src"))?;
            let mut found = registries.filter_map(|r| Some(r.ok()?.path().join(format!("{name}-{version}"))));
            Ok(vec![found.find(|p| p.is_dir()).ok_or("cargo info did not unpack the crate")?])
        }
    }
}

/// Run a script in `folder`, with the environment that all steps of all projects have.
fn step(corpus: &Corpus, pair: &BuildPair<'_>, folder: &Path, script: &str, log: &Path) -> Result<i32> {
    let bin = pair.dir.join("bin");
    let (bin, project) = (bin.display(), pair.project);
    let (cc, cxx) = match project.compiler {
        ProjectCompiler::Clang => (format!("clang-19 -B{bin}"), format!("clang++-19 -B{bin}")),
        _ => (format!("gcc -B{bin}"), format!("g++ -B{bin}")),
    };
    let mut command = Command::new("nice");
    command.args(["sh", "-ec", &format!("exec 2>&1\n{script}")]).current_dir(folder).env_clear();
    for kept in ["HOME", "USER", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    // The second build compiles what the first did: ccache, where it is installed, stands in for the compilers.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("/usr/lib/ccache:{path}")).env("CCACHE_DIR", corpus.root.join("work/ccache"));
    command
        .env("LC_ALL", "C.UTF-8")
        .env("TERM", "dumb")
        .env("SOURCE_DATE_EPOCH", "1")
        .env("TMPDIR", pair.dir.join("tmp"));
    command.env("CC", cc).env("CXX", cxx).env("DESTDIR", pair.dir.join("inst"));
    if project.compiler == ProjectCompiler::Rustc {
        command.env("RUSTFLAGS", format!("-Clinker=gcc -Clinker-features=-lld -Clink-arg=-B{bin}"));
        command.env("CARGO_INCREMENTAL", "0");
    } else if !project.flags.is_empty() {
        command.env("CFLAGS", project.flags).env("CXXFLAGS", project.flags);
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
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
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
        let mut copy = Command::new("cp");
        process::run_ok(copy.arg("-a").arg(source).arg(pair.dir.join("tree")), &pair.dir.join("tmp"))?;
    }
    let first = sources.first().and_then(|s| s.file_name()).ok_or("no source")?;
    let folder = pair.dir.join("tree").join(first);
    let start = std::time::Instant::now();
    let kept = pair.dir.join(name);
    let mut statuses = [0; 3];
    let recipe = [pair.project.build, pair.project.test, pair.project.install];
    for ((status, script), log) in statuses.iter_mut().zip(recipe).zip(["build", "test", "install"]) {
        *status = step(corpus, pair, &folder, script, &kept.join(log).with_extension("log"))?;
        if log == "build" && *status != 0 {
            let place = kept.strip_prefix(&corpus.root).unwrap_or(&kept).display();
            return Err(format!("the {name} build fails with status {status}: see {place}").into());
        }
    }
    let log = fs::read(kept.join("test.log"))?;
    for part in ["tree", "inst", "records"] {
        fs::rename(pair.dir.join(part), kept.join(part))?;
    }
    Ok(Built {
        links: records::read(&kept.join("records"))?,
        files: tree::read(&kept)?,
        statuses,
        outcomes: Outcomes::of(&String::from_utf8_lossy(&log)),
        seconds: start.elapsed().as_secs(),
    })
}

/// What a row of the table says, and all that differs, as it is kept between runs.
fn results(pair: &BuildPair<'_>, plain: &Built, pruned: &Built) -> Value {
    let mut differences = records::differences(&plain.links, &pruned.links);
    differences.extend(tree::differences(&plain.files, &pruned.files));
    if plain.statuses != pruned.statuses {
        differences.push(format!("statuses {:?} and {:?}", plain.statuses, pruned.statuses));
    }
    let (a, b) = (&plain.outcomes.lines, &pruned.outcomes.lines);
    for name in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
        if a.get(name) != b.get(name) {
            differences.push(format!("test {name}: {:?} and {:?} times", a.get(name), b.get(name)));
        }
    }
    let mut fates: BTreeMap<&str, u64> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    let mut fallbacks = Vec::new();
    let mut linked = 0;
    for ((output, number), link) in &pruned.links {
        let fate = match &link.fate {
            Fate::Pruned => "pruned",
            Fate::Nothing => "nothing to drop",
            Fate::Limit(limit, detail) => {
                *reasons.entry(limit).or_default() += 1;
                fallbacks.push(format!("link {number} of {output}: {limit}: {detail}"));
                "fell back"
            }
            Fate::Warning(warning) => {
                // The stage that failed stands first.
                let stage = warning.strip_prefix("lto-prune: warning: ").and_then(|w| w.split_once(':'));
                *reasons.entry(stage.map_or("warning", |(stage, _)| stage)).or_default() += 1;
                "fell back"
            }
            Fate::Refused => "refused",
            Fate::LeftAlone => {
                *fates.entry("no link").or_default() += 1;
                continue;
            }
        };
        linked += 1;
        *fates.entry(fate).or_default() += 1;
        fallbacks.extend(link.ours.iter().map(|line| format!("link {number} of {output}: {line}")));
    }
    // Paths are told below the folder of the pair.
    let folder = format!("{}/", pair.dir.display());
    for line in differences.iter_mut().chain(&mut fallbacks) {
        *line = line.replace(&folder, "");
    }
    let tests = |o: &Outcomes| json!([o.passed, o.failed, o.other]);
    json!({
        "name": pair.project.name, "linker": pair.linker, "links": linked, "fates": fates, "reasons": reasons,
        "installed": [plain.files.text("inst"), pruned.files.text("inst")],
        "built": [plain.files.text("tree"), pruned.files.text("tree")],
        "compared": [plain.files.linked.len(), plain.files.others.len()],
        "tests": [tests(&plain.outcomes), tests(&pruned.outcomes)],
        "statuses": [plain.statuses, pruned.statuses],
        "seconds": [plain.seconds, pruned.seconds],
        "differences": differences, "fallbacks": fallbacks,
    })
}

/// Both builds of a pair; the results are kept.
fn run_pair(corpus: &Corpus, pair: &BuildPair<'_>) -> Result<Value> {
    fs::create_dir_all(&pair.dir)?;
    let sources = unpack(corpus, pair.project)?;
    let plain = build(corpus, pair, &sources, &pair.behind, "plain")?;
    let shims = pair.dir.join("shims");
    process::run_ok(Command::new(&corpus.pruner).arg("install-shims").arg(&shims), &pair.dir)?;
    let pruned = build(corpus, pair, &sources, &shims.join("ld"), "pruned")?;
    let results = results(pair, &plain, &pruned);
    fs::write(pair.dir.join("results.json"), serde_json::to_vec_pretty(&results)?)?;
    for name in ["plain", "pruned"] {
        for part in ["tree", "inst", "records"] {
            if results["differences"].as_array().is_some_and(Vec::is_empty) {
                fs::remove_dir_all(pair.dir.join(name).join(part))?;
            }
        }
    }
    Ok(results)
}

/// The results of an earlier run of this build of lto-prune.
fn kept(corpus: &Corpus, pair: &BuildPair<'_>) -> Result<Option<Value>> {
    let path = pair.dir.join("results.json");
    if !path.exists() || fs::metadata(&path)?.modified()? < fs::metadata(&corpus.pruner)?.modified()? {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&fs::read(path)?)?))
}

fn row(project: &Project, results: &Value) -> Vec<String> {
    let number = |v: &Value| count(v.as_u64().unwrap_or(0));
    let fate = |name: &str| number(&results["fates"][name]);
    let reasons = results["reasons"].as_object().into_iter().flatten();
    let reasons: Vec<String> = reasons.map(|(name, n)| format!("{n} `{name}`")).collect();
    let tests = |at: usize| {
        let counts = &results["tests"][at];
        let all: u64 = (0..3).filter_map(|i| counts[i].as_u64()).sum();
        match all {
            0 => format!("status {}", results["statuses"][at][1]),
            _ => format!("{} of {}", number(&counts[0]), count(all)),
        }
    };
    let flags = match project.compiler {
        ProjectCompiler::Gcc => "gcc ",
        ProjectCompiler::Clang => "clang ",
        ProjectCompiler::Rustc => "rustc ",
    };
    vec![
        project.name.to_owned(),
        project.system.to_owned(),
        format!("{flags}{}", project.flags).trim().to_owned(),
        results["linker"].as_str().unwrap_or("?").to_owned(),
        number(&results["links"]),
        fate("pruned"),
        fate("nothing to drop"),
        if reasons.is_empty() { "0".to_owned() } else { reasons.join(", ") },
        fate("refused"),
        number(&results["installed"][0]),
        number(&results["installed"][1]),
        number(&results["built"][0]),
        number(&results["built"][1]),
        number(&results["compared"][0]),
        number(&results["compared"][1]),
        tests(0),
        tests(1),
        count(results["differences"].as_array().map_or(0, Vec::len) as u64),
        project.needs.join(", "),
    ]
}

/// The command. True if no pair differs and all could be built.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let mut table = Table::new(&[
        "project",
        "built by",
        "compiler",
        "linker",
        "links",
        "pruned",
        "nothing to drop",
        "fell back",
        "refused alike",
        "installed `.text` plain",
        "pruned",
        "all `.text` plain",
        "pruned",
        "linked files",
        "other files",
        "tests passed plain",
        "tests passed pruned",
        "differences",
        "packages needed",
    ]);
    let (mut alike, mut details, mut sources) = (true, String::new(), Vec::new());
    for project in PROJECTS {
        sources.push(match project.source {
            SourceOrigin::Debian(names) => {
                let version =
                    |n: &&str| fs::read_to_string(corpus.root.join("work/src").join(n).join(".unpacked"));
                names
                    .iter()
                    .filter_map(|n| Some(version(n).ok()?.trim().to_owned()))
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            SourceOrigin::Crate(name, version) => format!("{name} {version} of crates.io"),
        });
        for &linker in project.linkers {
            let name = format!("{}-{linker}", project.name);
            let dir = corpus.root.join("work/builds").join(&name);
            let pair = BuildPair { project, behind: find_linker(linker)?, linker, dir };
            let wanted =
                |only: &String| *only == project.name || *only == format!("{}/{linker}", project.name);
            let asked = options.only.iter().any(wanted);
            let earlier = kept(corpus, &pair)?.filter(|_| !asked);
            let results = match earlier {
                Some(results) => results,
                None if !asked && !options.only.is_empty() => continue,
                None => {
                    eprintln!("{name}");
                    match run_pair(corpus, &pair) {
                        Ok(results) => results,
                        Err(e) => {
                            details.push_str(&format!("{name}: {e}\n"));
                            alike = false;
                            continue;
                        }
                    }
                }
            };
            table.row(&row(project, &results));
            for (what, list) in [("differs", &results["differences"]), ("said", &results["fallbacks"])] {
                for line in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    details.push_str(&format!("{name}: {what}: {line}\n"));
                }
            }
            alike &= results["differences"].as_array().is_some_and(Vec::is_empty);
        }
    }
    if details.is_empty() {
        details.push_str("nothing\n");
    }
    // A project may be there twice, and one that wasn't built has no sources.
    sources.retain(|s| !s.is_empty());
    sources.dedup();
    let body = format!(
        "Projects built by their own build systems, with the linker alone and with lto-prune before it at its default level, \
         and tested by their own suites.\n`.text` is that of all installed programs and shared libraries, and that of all that the build linked, tests too.\n\nSources: {}\n\n{}\nWhat differs, and what lto-prune said:\n\n```\n{details}```\n",
        sources.join("; "),
        table.as_str()
    );
    publish(corpus, options, "builds", "Real projects, built plain and with lto-prune", &body)?;
    Ok(alike)
}
