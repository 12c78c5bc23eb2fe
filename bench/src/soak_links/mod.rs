//! `bench soak-links`: random programs with random link lines, plain and with lto-prune by each linker, differ only as rules allow.
//!
//! The comparison is that of `bench differ`, which draws features where this draws archives, libraries and orders of the line.

mod line;
mod program;

use std::path::Path;
use std::process::Command;

use self::program::{LinkProgram, ModuleContainer};
use crate::corpus::Corpus;
use crate::pair::{PairTools, PairedLink};
use crate::process::{parallel, run_ok};
use crate::rng::Rng;
use crate::rules::{self, Difference, RuleCounts};
use crate::{Options, Result};

/// Compared links, smaller ones of these, links that fail both ways, and links that were not pruned, with a warning.
type LinkTally = [usize; 4];

/// Compile the modules, then make the archives and the shared libraries.
fn build(dir: &Path, program: &LinkProgram, rng: &mut Rng) -> Result<()> {
    let run =
        |command: &mut Command| run_ok(command.current_dir(dir), dir.parent().unwrap_or(dir)).map(|_| ());
    for module in &program.modules {
        std::fs::write(dir.join(&module.source), &module.text)?;
        let mut command = Command::new(module.compiler);
        run(command.args(&module.flags).args(["-c", &module.source, "-o", &module.object]))?;
    }
    let of = |place: ModuleContainer| -> Vec<String> {
        program.modules.iter().filter(|m| m.place == place).map(|m| m.object.clone()).collect()
    };
    for archive in 0..program.archives {
        let kind = if rng.chance(20) { "rcT" } else { "rc" };
        let name = format!("liba{archive}.a");
        run(Command::new("ar").arg(kind).arg(&name).args(of(ModuleContainer::Archive(archive))))?;
    }
    for library in 0..program.libraries {
        let name = format!("libd{library}.so");
        let mut command = Command::new("g++");
        command.args(["-shared", "-o", &name, "-x", "c", "/dev/null", "-x", "none"]);
        command.args(of(ModuleContainer::Library(library)));
        if rng.chance(70) {
            command.arg(format!("-Wl,-soname,{name}"));
        }
        if rng.chance(25) {
            std::fs::write(
                dir.join("dso_version"),
                "DSO_1 { f1; f2; f3; f4; v1; v2; };\nDSO_2 { *; } DSO_1;\n",
            )?;
            command.arg("-Wl,--version-script=dso_version");
        }
        if library > 0 && rng.chance(50) {
            command.args(["-Wl,--no-as-needed", "./libd0.so"]);
        }
        run(&mut command)?;
    }
    Ok(())
}

/// Make and link the program of `seed` in `dir`, which is kept if something differs. The error has the lines that differ.
fn run_seed(seed: u64, tools: &PairTools, dir: &Path) -> Result<LinkTally> {
    let mut rng = Rng::new(seed, 40);
    let program = program::generate(&mut rng);
    let (words, files) = line::generate(&mut rng, &program);
    let inputs = dir.join("inputs");
    std::fs::create_dir_all(&inputs)?;
    for (name, contents) in files {
        std::fs::write(inputs.join(name), contents)?;
    }
    build(&inputs, &program, &mut rng)?;
    let driver = if program.has_cxx { "g++" } else { "gcc" };
    let mut line = vec![driver.to_owned(), "-o".to_owned(), "out".to_owned()];
    line.extend(words.iter().cloned());
    let options: Vec<String> = words.iter().map(|word| word.replace("-Wl,", "")).collect();
    let (mut tally, mut text) = (LinkTally::default(), String::new());
    for (linker, _) in &tools.linkers {
        if program.has_commons && ["mold", "wild"].contains(&linker.as_str()) {
            continue;
        }
        let link = PairedLink {
            linker,
            line: line.clone(),
            output: "out".to_owned(),
            is_shared: program.mode == "-shared",
            is_relocatable: false,
            flags: String::new(),
        };
        let pair = link.link(tools, &dir.join(linker), &inputs, false)?;
        let (all, mut counts) = (pair.differences(), RuleCounts::new());
        let difference = Difference::new(&all, &pair.plain.facts, &options);
        let mut left = rules::unexplained(difference, &mut counts);
        // A link of the originals is counted. GNU ld warns of commons that differ in size, also of dropped ones; mold of little memory.
        let fell_back = left.iter().any(|line| line.starts_with("+stderr: lto-prune: warning: "));
        let warnings = ["lto-prune: warning: ", " of symbol `", "mimalloc: warning: "];
        left.retain(|line| {
            !line[1..].starts_with("stderr: ") || !warnings.iter().any(|word| line.contains(word))
        });
        left.iter().for_each(|line| text.push_str(&format!("{linker}: {line}\n")));
        tally[0] += usize::from(pair.plain.linked);
        tally[1] += usize::from(pair.is_pruned());
        tally[2] += usize::from(!pair.plain.linked);
        tally[3] += usize::from(fell_back || counts.contains_key("documented-limit"));
    }
    if !text.is_empty() {
        return Err(format!("{text}in {}: {}", dir.display(), line.join(" ")).into());
    }
    std::fs::remove_dir_all(dir)?;
    Ok(tally)
}

/// The command. True if nothing differs.
pub(crate) fn run(corpus: &Corpus, options: &Options) -> Result<bool> {
    let (first, last) = options.seeds.unwrap_or((0, 50));
    let base = std::env::temp_dir().join(format!("soak-links-{}", std::process::id()));
    std::fs::create_dir_all(&base)?;
    let linkers = options.linkers_or(&["lld", "mold", "bfd", "gold"]);
    let known: Vec<&str> = linkers.iter().map(String::as_str).collect();
    let tools = PairTools::new(&corpus.pruner, &linkers, &known, &base)?;
    let (mut total, mut differ) = (LinkTally::default(), 0);
    let results = parallel(options.jobs, (last - first) as usize, |number| {
        let seed = first + number as u64;
        let result = run_seed(seed, &tools, &base.join(seed.to_string()));
        result.inspect_err(|e| println!("FAILED seed {seed}: {e}\n"))
    });
    for result in results {
        differ += usize::from(result.is_err());
        total.iter_mut().zip(result.unwrap_or_default()).for_each(|(sum, n)| *sum += n);
    }
    let [compared, smaller, failed, unpruned] = total;
    println!(
        "seeds {first}..{last}: {differ} differ; {compared} links compared, {smaller} pruned, {unpruned} with a warning; {failed} failed alike"
    );
    if differ == 0 {
        std::fs::remove_dir_all(&base)?;
    }
    Ok(differ == 0)
}
