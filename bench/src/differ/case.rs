//! One link of the matrix: what a seed draws, its line, and its files.
//!
//! A seed names the same link for ever as long as the features are the same. What is compiled is kept in a cache by
//! everything that it depends on, so that a run of thousands of links compiles each feature some times only.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::feature::{Feature, Language};
use crate::Result;
use crate::soak::rng::Rng;

/// Modes of linking, with the driver's words for them.
pub(crate) const MODES: &[(&str, &[&str], &str)] = &[
    ("no-pie", &["-no-pie"], "-fno-pie"),
    ("pie", &["-pie"], "-fPIE"),
    ("static", &["-static"], "-fno-pie"),
    ("static-pie", &["-static-pie"], "-fPIE"),
    ("shared", &["-shared"], "-fPIC"),
    ("r", &["-r", "-nostdlib"], "-fPIC"),
];
/// How often each is drawn, of 100.
const SHARES: [usize; 6] = [22, 28, 12, 6, 26, 6];
/// True in so many of 100 draws.
fn chance(rng: &mut Rng, percent: usize) -> bool {
    rng.below(100) < percent
}

const LEVELS: [&str; 3] = ["functions", "pointers", "sections"];

/// A feature in a link, and which of its alternatives is on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) feature: usize,
    pub(crate) words: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct DifferCase {
    pub(crate) seed: u64,
    pub(crate) linker: &'static str,
    pub(crate) compiler: &'static str,
    pub(crate) mode: usize,
    pub(crate) level: &'static str,
    pub(crate) optimise: &'static str,
    /// Each function and object has a section of its own (`-ffunction-sections -fdata-sections`).
    pub(crate) sections: bool,
    pub(crate) gc: bool,
    pub(crate) as_needed: bool,
    /// A file of the output's name is there before the link.
    pub(crate) old_output: bool,
    pub(crate) report: bool,
    /// The program's own objects come behind the features.
    pub(crate) main_last: bool,
    pub(crate) parts: Vec<Part>,
}

impl DifferCase {
    /// The case of a seed. Its first feature, the words of that and the linker are taken in turn from all that there are,
    /// in an order that looks random; the rest is drawn.
    pub(crate) fn draw(seed: u64, features: &[Feature], linkers: &[&'static str]) -> DifferCase {
        let mut rng = Rng::new(seed, 7);
        let all: usize = features.iter().map(|f| f.words.len() * linkers.len()).sum();
        // A prime: no number is met twice before all are.
        let mut at = (seed.wrapping_mul(15_485_863) % all.max(1) as u64) as usize;
        let mut first = Part { feature: 0, words: 0 };
        let mut linker = linkers[0];
        for (feature, f) in features.iter().enumerate() {
            let here = f.words.len() * linkers.len();
            if at < here {
                first = Part { feature, words: at / linkers.len() };
                linker = linkers[at % linkers.len()];
                break;
            }
            at -= here;
        }
        let mut case = DifferCase {
            seed,
            linker,
            compiler: "gcc",
            mode: 0,
            level: rng.pick::<&str>(&LEVELS),
            optimise: rng.pick::<&str>(&["-O0", "-O1", "-O2", "-O2"]),
            sections: true,
            gc: false,
            as_needed: chance(&mut rng, 35),
            old_output: chance(&mut rng, 30),
            report: seed.is_multiple_of(4),
            main_last: chance(&mut rng, 20),
            parts: vec![first],
        };
        for _ in 0..30 {
            let mut share = rng.below(100);
            case.mode = 0;
            while share >= SHARES[case.mode] {
                share -= SHARES[case.mode];
                case.mode += 1;
            }
            case.compiler = *rng.pick::<&str>(&["gcc", "clang-19"]);
            case.gc = chance(&mut rng, 45);
            case.sections = chance(&mut rng, 55);
            if case.fits(features) {
                break;
            }
        }
        if !case.fits(features) {
            // The words are not for this linker.
            case.parts.clear();
        }
        let wanted = 2 + rng.below(3);
        while case.parts.len() < wanted {
            let feature = rng.below(features.len());
            let taken = case.parts.iter().any(|p| p.feature == feature);
            if taken && features.len() > wanted || features[feature].fails && chance(&mut rng, 85) {
                continue;
            }
            let choices = features[feature].choices(&case.tags());
            if !choices.is_empty() {
                case.parts.push(Part { feature, words: *rng.pick(&choices) });
            }
            if features.len() <= wanted {
                break;
            }
        }
        case
    }

    pub(crate) fn mode_name(&self) -> &'static str {
        MODES[self.mode].0
    }

    fn tags(&self) -> BTreeSet<&'static str> {
        let mut tags = BTreeSet::from([self.linker, self.mode_name(), self.compiler]);
        if self.linker == "rust-lld" {
            tags.insert("lld");
        }
        if matches!(self.mode_name(), "no-pie" | "pie") {
            tags.insert("dynamic");
        }
        if self.gc {
            tags.insert("gc");
        }
        if !self.sections {
            tags.insert("mono");
        }
        tags
    }

    /// The words of the drawn alternatives.
    pub(crate) fn words(&self, features: &[Feature]) -> Vec<String> {
        self.parts.iter().flat_map(|p| features[p.feature].words[p.words].1.clone()).collect()
    }

    pub(crate) fn output(&self, features: &[Feature]) -> String {
        let named = self.parts.iter().find_map(|p| features[p.feature].output.clone());
        named.unwrap_or_else(|| "out".to_owned())
    }

    /// The driver and its words, but for `-B`.
    pub(crate) fn line(&self, features: &[Feature]) -> Vec<String> {
        let cxx = self.parts.iter().any(|p| features[p.feature].is_cxx());
        let driver = match (self.compiler, cxx) {
            ("gcc", true) => "g++",
            ("clang-19", true) => "clang++-19",
            (c, _) => c,
        };
        let mut line = vec![driver.to_owned()];
        line.extend(MODES[self.mode].1.iter().map(|w| (*w).to_owned()));
        line.extend(["-o".to_owned(), self.output(features)]);
        let mut words = Vec::new();
        let mut add = |word: &str| words.push(word.to_owned());
        if self.gc {
            add("--gc-sections");
        }
        if self.as_needed {
            add("--as-needed");
        }
        let own = ["main.o".to_owned(), "base.o".to_owned()];
        if !self.main_last {
            words.extend(own.clone());
        }
        words.extend(self.words(features));
        if self.main_last {
            words.extend(own);
        }
        for word in words {
            match word.starts_with('@') {
                // By itself the driver would read the file.
                true => line.push(format!("-Wl,{word}")),
                false => line.extend(["-Xlinker".to_owned(), word]),
            }
        }
        line
    }

    /// Whether every feature may be in this link.
    pub(crate) fn fits(&self, features: &[Feature]) -> bool {
        let tags = self.tags();
        self.parts.iter().all(|p| features[p.feature].choices(&tags).contains(&p.words))
    }

    pub(crate) fn describe_choices(&self) -> String {
        let small = DifferCase { parts: Vec::new(), ..self.clone() };
        format!("{} {} {}", small.describe(&[]), self.report, self.main_last)
    }

    pub(crate) fn describe(&self, features: &[Feature]) -> String {
        let names: Vec<&str> = self.parts.iter().map(|p| features[p.feature].name.as_str()).collect();
        format!(
            "{} {} {} {} {} {}{}{}{}: {}",
            self.linker,
            self.mode_name(),
            self.level,
            self.compiler,
            self.optimise,
            if self.sections { "sections" } else { "mono" },
            if self.gc { " gc" } else { "" },
            if self.as_needed { " as-needed" } else { "" },
            if self.old_output { " old-output" } else { "" },
            names.join(" ")
        )
    }

    /// Put all inputs into `dir`, which is new.
    pub(crate) fn build(&self, features: &[Feature], cache: &Path, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        let flags = self.flags();
        for part in &self.parts {
            let from = built(&features[part.feature], self.compiler, &flags, cache)?;
            copy_files(&from, dir)?;
        }
        let own = super::program::own(self, features);
        copy_files(&built(&own, self.compiler, &flags, cache)?, dir)?;
        if self.old_output {
            let output = dir.join(self.output(features));
            let has_folder = output.parent().is_some_and(Path::exists);
            if has_folder && !output.exists() && output.file_name().is_some_and(|n| n != "-") {
                std::fs::write(output, "old output\n")?;
            }
        }
        Ok(())
    }

    fn flags(&self) -> Vec<String> {
        let mut flags = vec![self.optimise.to_owned(), MODES[self.mode].2.to_owned(), "-w".to_owned()];
        if self.sections {
            flags.extend(["-ffunction-sections".to_owned(), "-fdata-sections".to_owned()]);
        }
        flags
    }
}

pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &to.join(entry.file_name()))?;
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The folder with everything that a feature's commands make.
pub(crate) fn built(feature: &Feature, compiler: &str, flags: &[String], cache: &Path) -> Result<PathBuf> {
    let mut hash = DefaultHasher::new();
    (compiler, flags, &feature.commands).hash(&mut hash);
    for source in &feature.sources {
        (&source.name, &source.flags, &source.text).hash(&mut hash);
    }
    let key = hash.finish();
    let dir = cache.join(format!("{}-{key:016x}", feature.name));
    if dir.exists() {
        return Ok(dir);
    }
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let temporary = cache.join(format!("making-{thread}-{key:016x}"));
    let _ = std::fs::remove_dir_all(&temporary);
    std::fs::create_dir_all(&temporary)?;
    for source in &feature.sources {
        std::fs::write(temporary.join(&source.name), &source.text)?;
        let mut command = match source.language {
            Language::Text => continue,
            Language::Rust => {
                let mut command = Command::new("rustc");
                command.args(["--crate-type=lib", "--emit=obj", "-Cpanic=abort", "-Copt-level=1"]);
                command
            }
            Language::Cxx => {
                let mut command = Command::new(compiler);
                command.args(flags).args(["-x", "c++", "-c"]);
                command
            }
            Language::C | Language::Assembly => {
                let mut command = Command::new(compiler);
                command.args(flags).arg("-c");
                command
            }
        };
        let object = Path::new(&source.name).with_extension("o");
        command.args(&source.flags).arg(&source.name).arg("-o").arg(object);
        must(&temporary, &mut command, &feature.name)?;
    }
    for text in &feature.commands {
        let mut command = Command::new("sh");
        command.args(["-ec", text]).env("CC", compiler).env("CFLAGS", flags.join(" "));
        must(&temporary, &mut command, &feature.name)?;
    }
    if std::fs::rename(&temporary, &dir).is_err() {
        // Another thread made it meanwhile.
        std::fs::remove_dir_all(&temporary)?;
    }
    Ok(dir)
}

fn must(dir: &Path, command: &mut Command, what: &str) -> Result<()> {
    let output =
        command.current_dir(dir).output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what}: {command:?}: {}\n{text}", output.status).into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_link_and_every_alternative_has_its_turn() {
        let features = super::super::feature::all().unwrap();
        let linkers = ["lld", "bfd"];
        let alternatives: usize = features.iter().map(|f| f.words.len()).sum();
        let mut met = BTreeSet::new();
        for seed in 0..2 * alternatives as u64 {
            let case = DifferCase::draw(seed, &features, &linkers);
            assert_eq!(case.parts, DifferCase::draw(seed, &features, &linkers).parts);
            met.extend(case.parts.iter().map(|p| (case.linker, p.feature, p.words)));
        }
        // Some options have a mode and a linker that the draws of one seed may miss.
        let everywhere = |f: &Feature, w: usize| {
            f.words[w].0.holds(&BTreeSet::new()) && f.choices(&BTreeSet::new()).contains(&w)
        };
        for (at, feature) in features.iter().enumerate() {
            for words in (0..feature.words.len()).filter(|w| everywhere(feature, *w)) {
                for linker in linkers {
                    assert!(met.contains(&(linker, at, words)), "{linker} {} {words}", feature.name);
                }
            }
        }
    }
}
