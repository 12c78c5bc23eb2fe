//! One link of the matrix: the draw of a seed, its line, and its files. A seed is the same link as long as the features are the same.

use std::collections::BTreeSet;
use std::path::Path;

use super::feature::Feature;
use crate::Result;
use crate::pair::{PairedLink, copy_files};
use crate::rng::Rng;

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
const LEVELS: [&str; 3] = ["functions", "pointers", "sections"];

/// A feature in a link, and the alternative that is on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) feature: usize,
    pub(crate) words: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DifferCase {
    pub(crate) seed: u64,
    pub(crate) linker: String,
    pub(crate) compiler: &'static str,
    pub(crate) mode: usize,
    pub(crate) level: &'static str,
    pub(crate) optimise: &'static str,
    /// Each function and object has a section of its own (`-ffunction-sections -fdata-sections`).
    pub(crate) sections: bool,
    pub(crate) gc: bool,
    pub(crate) as_needed: bool,
    /// A file with the output's name exists before the link.
    pub(crate) old_output: bool,
    pub(crate) report: bool,
    /// The program's own objects follow the features.
    pub(crate) main_last: bool,
    pub(crate) parts: Vec<Part>,
}

impl DifferCase {
    /// The case of a seed. The first feature, its words and the linker are taken in turn from all that exist, in an order that looks random;
    /// the rest is drawn.
    pub(crate) fn draw(seed: u64, features: &[Feature], linkers: &[String]) -> DifferCase {
        let mut rng = Rng::new(seed, 7);
        let all: usize = features.iter().map(|f| f.words.len() * linkers.len()).sum();
        // A prime number: each value occurs once before any occurs twice.
        let mut at = (seed.wrapping_mul(15_485_863) % all.max(1) as u64) as usize;
        let mut first = Part { feature: 0, words: 0 };
        let mut linker = &linkers[0];
        for (feature, f) in features.iter().enumerate() {
            let here = f.words.len() * linkers.len();
            if at < here {
                first = Part { feature, words: at / linkers.len() };
                linker = &linkers[at % linkers.len()];
                break;
            }
            at -= here;
        }
        let mut case = DifferCase {
            seed,
            linker: linker.clone(),
            compiler: "gcc",
            mode: 0,
            level: rng.pick::<&str>(&LEVELS),
            optimise: rng.pick::<&str>(&["-O0", "-O1", "-O2", "-O2"]),
            sections: true,
            gc: false,
            as_needed: rng.chance(35),
            old_output: rng.chance(30),
            report: seed.is_multiple_of(4),
            main_last: rng.chance(20),
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
            case.gc = rng.chance(45);
            case.sections = rng.chance(55);
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
            if taken && features.len() > wanted || features[feature].fails && rng.chance(85) {
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

    fn tags(&self) -> BTreeSet<&str> {
        let mut tags = BTreeSet::from([self.linker.as_str(), self.mode_name(), self.compiler]);
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
                // The driver alone would read the file.
                true => line.push(format!("-Wl,{word}")),
                false => line.extend(["-Xlinker".to_owned(), word]),
            }
        }
        line
    }

    /// Whether every feature may be in this link.
    fn fits(&self, features: &[Feature]) -> bool {
        let tags = self.tags();
        self.parts.iter().all(|p| features[p.feature].choices(&tags).contains(&p.words))
    }

    pub(crate) fn describe(&self, features: &[Feature]) -> String {
        let names: Vec<&str> = self.parts.iter().map(|p| features[p.feature].name.as_str()).collect();
        format!("{self:?} {}: {}", self.mode_name(), names.join(" "))
    }

    /// Put all inputs into `dir`, which is new.
    pub(crate) fn build(&self, features: &[Feature], cache: &Path, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        let flags = self.flags();
        for part in &self.parts {
            copy_files(&features[part.feature].built(self.compiler, &flags, cache)?, dir)?;
        }
        let main = self.main(features);
        let own = [("main.c", main.as_str()), ("base.c", include_str!("base.c"))];
        copy_files(&Feature::of_files("own", &own).built(self.compiler, &flags, cache)?, dir)?;
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

    /// The main function, or that of a library, which calls the features.
    fn main(&self, features: &[Feature]) -> String {
        let mut text = String::from("#include <stdio.h>\nint base_live(int);\n");
        let mut calls = String::new();
        for feature in self.parts.iter().map(|part| &features[part.feature]).filter(|feature| feature.runs())
        {
            text.push_str(&format!("int {}_run(void);\n", feature.name));
            calls.push_str(&format!("    printf(\"{0} %d\\n\", {0}_run()); fflush(stdout);\n", feature.name));
        }
        let name = if self.mode_name() == "shared" { "run_all" } else { "main" };
        text.push_str(&format!("int {name}(void) {{\n    printf(\"base %d\\n\", base_live(2));\n{calls}"));
        text + "    return 0;\n}\n"
    }

    /// The link of this case, with a report in `dir` if the case asks for one.
    pub(crate) fn paired(&self, features: &[Feature], dir: &Path) -> PairedLink<'_> {
        let report = format!(" --prune-report={}", dir.join("report.json").display());
        let report = if self.report { report } else { String::new() };
        PairedLink {
            linker: &self.linker,
            line: self.line(features),
            output: self.output(features),
            is_shared: self.mode_name() == "shared",
            is_relocatable: self.mode_name() == "r",
            flags: format!("--prune-level={}{report}", self.level),
        }
    }
}
