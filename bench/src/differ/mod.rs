//! `bench differ`: a matrix of small links, each done plainly and through lto-prune, must differ only as rules say.
//!
//! A link draws two to four features, a linker, a mode, a compiler, a level. What is compared is in `pair.rs` and
//! `facts.rs`, what may differ in `rules.rs`. A link that differs is made smaller as long as the same line differs, and is
//! kept with a script that repeats it.

mod case;
mod drivers;
mod facts;
mod feature;
mod options;
mod pair;
mod program;
mod rules;
mod tally;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::case::DifferCase;
use self::feature::Feature;
use self::pair::{DifferTools, LinkPair};
use self::rules::{Difference, RuleCounts};
use self::tally::{DifferTally, Finding};
use crate::corpus::{Corpus, find_linker, rust_linker};
use crate::{Options, Result};

/// Links of one run, if nothing else is said.
const COUNT: u64 = 500;

/// All linkers that are installed, or those asked for.
fn linkers(options: &Options) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut found = Vec::new();
    for name in ["lld", "rust-lld", "mold", "bfd", "gold", "wild"] {
        let path = if name == "rust-lld" { rust_linker() } else { find_linker(name) };
        let asked = options.linkers.iter().any(|l| l == name);
        match path {
            Ok(path) if asked || options.linkers.is_empty() => found.push((name, path)),
            Err(e) if asked => return Err(e),
            _ => {}
        }
    }
    Ok(found)
}

/// A folder in which `ld` is each linker: a script, so that the linker's own name is in its messages both ways.
fn shims(dir: &Path, tools: &[(&'static str, PathBuf)], pruner: &Path) -> Result<()> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for (name, path) in tools {
        let folder = dir.join(name);
        std::fs::create_dir_all(&folder)?;
        let script = folder.join("ld");
        std::fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", path.display()))?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    }
    std::fs::create_dir_all(dir.join("ours"))?;
    symlink(pruner, dir.join("ours/ld"))?;
    Ok(())
}

/// What is left unexplained of a pair; the rest is counted.
fn unexplained(
    case: &DifferCase,
    features: &[Feature],
    pair: &LinkPair,
    counts: &mut RuleCounts,
) -> Vec<String> {
    let all = pair.differences();
    let words = case.words(features);
    let mut left = Vec::new();
    for line in &all {
        let difference = Difference {
            line,
            all: &all,
            plain: &pair.plain.facts,
            words: &words,
            plain_linked: pair.plain.linked,
            overwrites_input: case.linker == "mold" && words.contains(&case.output(features)),
        };
        match rules::explain(&difference) {
            Some(rule) => *counts.entry(rule).or_default() += 1,
            None => left.push(line.clone()),
        }
    }
    if left.iter().any(|line| line[1..].starts_with("link status")) {
        // Everything else follows from it.
        left.retain(|line| {
            ["link status", "stdout", "stderr"].iter().any(|kind| line[1..].starts_with(kind))
        });
    }
    left
}

/// Do one link in `dir`, which is emptied first.
fn try_case(
    case: &DifferCase,
    features: &[Feature],
    tools: &DifferTools,
    dir: &Path,
    control: bool,
) -> Result<LinkPair> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    case.build(features, &tools.cache, &dir.join("inputs"))?;
    pair::link(case, features, tools, dir, control)
}

/// Steps towards a simpler link, each by itself.
const STEPS: &[fn(&mut DifferCase)] = &[
    |c| c.as_needed = false,
    |c| c.gc = false,
    |c| c.old_output = false,
    |c| c.main_last = false,
    |c| c.report = false,
    |c| c.sections = true,
    |c| c.compiler = "gcc",
    |c| c.level = "functions",
    |c| c.optimise = "-O1",
];

/// A smaller link of which one of `lines` still differs.
fn reduce(
    case: &DifferCase,
    lines: &[String],
    features: &[Feature],
    tools: &DifferTools,
    dir: &Path,
) -> DifferCase {
    let mut best = case.clone();
    let attempt = |best: &mut DifferCase, step: DifferCase| {
        if step.describe_choices() == best.describe_choices() && step.parts == best.parts
            || !step.fits(features)
        {
            return;
        }
        let Ok(pair) = try_case(&step, features, tools, dir, false) else { return };
        if unexplained(&step, features, &pair, &mut RuleCounts::new()).iter().any(|l| lines.contains(l)) {
            *best = step;
        }
    };
    for index in (0..case.parts.len()).rev() {
        let mut step = best.clone();
        step.parts.remove(index);
        attempt(&mut best, step);
    }
    for change in STEPS {
        let mut step = best.clone();
        change(&mut step);
        attempt(&mut best, step);
    }
    best
}

/// A script that does both links again, beside the folder `inputs`.
fn script(case: &DifferCase, features: &[Feature], tools: &DifferTools, lines: &[String]) -> String {
    let path = tools.linkers.iter().find(|l| l.0 == case.linker).map(|l| l.1.display().to_string());
    let quoted: Vec<String> = case.line(features).iter().map(|w| format!("'{w}'")).collect();
    let mut text = format!("#!/bin/sh\n# {}\n", case.describe(features));
    for line in lines {
        text.push_str(&format!("# {line}\n"));
    }
    text.push_str("cd \"$(dirname \"$0\")\" && rm -rf again && mkdir again again/plain-ld again/our-ld\n");
    text.push_str(&format!("linker=${{LINKER:-{}}}\n", path.unwrap_or_default()));
    text.push_str(&format!("ln -s \"${{LTO_PRUNE:-{}}}\" again/our-ld/ld\n", tools.pruner.display()));
    text.push_str(
        "printf '#!/bin/sh\\nexec %s \"$@\"\\n' \"$linker\" >again/plain-ld/ld; chmod +x again/plain-ld/ld\n",
    );
    text.push_str(&format!(
        "export LTO_PRUNE_LINKER=$linker LTO_PRUNE_FLAGS='{}'\n",
        pair::flags(case, Path::new("/dev/stderr")).replace(" --prune-report=/dev/stderr", "")
    ));
    text.push_str(&format!(
        "for side in plain our; do\n    cp -r inputs again/$side; echo \"== $side\"\n    (cd again/$side; {} -B../$side-ld {}; echo \"status $?\")\ndone\n",
        quoted[0],
        quoted[1..].join(" ")
    ));
    text
}

/// What makes two lines that differ the same finding. A status says nothing of its cause, and our warnings are one.
fn key(case: &DifferCase, line: &str) -> String {
    let line = match line {
        _ if line[1..].starts_with("link status") => "status",
        _ if rules::is_limit(line) => "our warning",
        _ => line,
    };
    format!("{}: {line}", case.linker)
}

/// How often a link that differs is done twice by the linker alone, which may differ by chance: what wild leaves of an output when it
/// dies depends on its threads, and one in some 75 of its relocatable outputs with `--gc-sections` is another.
const CONTROLS: usize = 200;

/// One seed: link, compare, and if it differs make it smaller and keep it.
fn run_seed(
    seed: u64,
    features: &[Feature],
    tools: &DifferTools,
    base: &Path,
    seen: &Mutex<BTreeSet<String>>,
    tally: &mut DifferTally,
) {
    let names: Vec<&'static str> = tools.linkers.iter().map(|l| l.0).collect();
    let case = DifferCase::draw(seed, features, &names);
    let dir = base.join(format!("try-{seed}"));
    let pair = match try_case(&case, features, tools, &dir, false) {
        Ok(pair) => pair,
        Err(e) => {
            tally.broken.push(format!("seed {seed}: {}: {e}", case.describe(features)));
            return;
        }
    };
    let mut counts = RuleCounts::new();
    let mut left = unexplained(&case, features, &pair, &mut counts);
    let keys = |left: &[String]| left.iter().map(|line| key(&case, line)).collect::<Vec<_>>();
    let known = {
        let seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        keys(&left).iter().all(|key| seen.contains(key))
    };
    if !left.is_empty() && !known {
        let mut is_unsteady = false;
        for _ in 0..CONTROLS {
            match try_case(&case, features, tools, &dir, true) {
                Ok(control) => {
                    let by_itself = control.differences();
                    left.retain(|line| !by_itself.iter().any(|other| other[1..] == line[1..]));
                    is_unsteady |= !by_itself.is_empty();
                }
                Err(e) => tally.broken.push(format!("seed {seed}, again: {e}")),
            }
            if left.is_empty() {
                break;
            }
        }
        tally.unsteady += usize::from(is_unsteady);
        seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(keys(&left));
    }
    tally.add(&case, features, &pair, &counts, &left);
    if !left.is_empty() && known {
        tally.repeated += 1;
    } else if !left.is_empty() {
        let has_status = left.iter().any(|line| line[1..].starts_with("link status"));
        left.retain(|line| !has_status || line[1..].starts_with("link status"));
        let small = reduce(&case, &left, features, tools, &dir);
        let kept = base.join(seed.to_string());
        let again = try_case(&small, features, tools, &dir, false)
            .map(|pair| unexplained(&small, features, &pair, &mut RuleCounts::new()));
        // A difference that is not there the second time is reported as it was first seen.
        let (small, lines) = match again {
            Ok(lines) if !lines.is_empty() => (small, lines),
            _ => (case, left),
        };
        let text = script(&small, features, tools, &lines);
        let _ = std::fs::remove_dir_all(&kept);
        let _ = std::fs::rename(&dir, &kept);
        let _ = std::fs::write(kept.join("reproduce.sh"), text);
        tally.findings.push(Finding::new(&small, features, lines));
    }
    let _ = std::fs::remove_dir_all(&dir);
}

pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let features = feature::all()?;
    let linkers = linkers(options)?;
    if options.list_options {
        let body = format!(
            "Options that no feature of `bench differ` has: of other machines and systems, of link-time optimisation, and what can't be compared.\n\n{}",
            options::unused(&features, &linkers)?
        );
        crate::table::publish(corpus, options, "options", "Options that no link compares", &body)?;
        return Ok(true);
    }
    let features = match options.only.is_empty() {
        true => features,
        false => features.into_iter().filter(|f| options.only.contains(&f.name)).collect(),
    };
    let base = corpus.root.join("work/differ");
    let tools = DifferTools {
        pruner: corpus.pruner.clone(),
        linkers,
        cache: base.join("cache"),
        shims: base.join("shims"),
        host: base.join("host"),
    };
    if tools.shims.exists() {
        std::fs::remove_dir_all(&tools.shims)?;
    }
    std::fs::create_dir_all(&tools.cache)?;
    shims(&tools.shims, &tools.linkers, &tools.pruner)?;
    let host = case::built(&program::host(), "gcc", &["-O1".to_owned()], &tools.cache)?;
    case::copy_files(&host, &tools.host)?;

    let first = options.seed;
    let last = first + options.count.unwrap_or(COUNT);
    let next = AtomicU64::new(first);
    let total = Mutex::new(DifferTally::default());
    let seen = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        break;
                    }
                    let mut tally = DifferTally::default();
                    run_seed(seed, &features, &tools, &base, &seen, &mut tally);
                    tally.print_findings();
                    total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).join(tally);
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let title = "Small links of every kind, plain and pruned";
    let mut body = total.body(&features, &tools, first, last);
    let mut left = Vec::new();
    if options.only.is_empty() && options.linkers.is_empty() {
        let (table, unexplained) = drivers::compare(&tools.pruner, &base.join("drivers"))?;
        body.push_str(&format!(
            "\nCompilers that choose their linker, with it and with the shim of its name:\n\n{table}"
        ));
        left = unexplained;
    }
    for line in &left {
        body.push_str(&format!("\n- `{line}`\n"));
    }
    crate::table::publish(corpus, options, "differ", title, &body)?;
    Ok(total.findings.is_empty() && total.broken.is_empty() && left.is_empty())
}
