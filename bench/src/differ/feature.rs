//! The features of a link: files, commands, and words of the link line. They are read from the texts in `features/`.
//!
//! `%%` stands for the feature's name everywhere, so that features do not clash. Blocks: `@feature NAME`, `@when FILTER`, `@fails` (the plain
//! link often fails), `@c FILE FLAGS` (also `@cc`, `@s`, `@rs`, `@text`; the text follows), `@sh COMMAND`, `@output NAME`,
//! `@words[FILTER] WORDS` (one of these is drawn).

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::run_ok;
use crate::texts::{blocks, words};

const TEXTS: &[&str] = &[
    include_str!("features/archives.txt"),
    include_str!("features/code.txt"),
    include_str!("features/cxx.txt"),
    include_str!("features/dynamic.txt"),
    include_str!("features/errors.txt"),
    include_str!("features/libraries.txt"),
    include_str!("features/more.txt"),
    include_str!("features/options.txt"),
    include_str!("features/outputs.txt"),
    include_str!("features/scripts.txt"),
    include_str!("features/symbols.txt"),
];

/// Words that must all hold for a link: `a|b` is either, `!a` is not. They are names of linkers, modes and compilers, and `gc`, `mono`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Filter(Vec<String>);

impl Filter {
    pub(crate) fn holds(&self, tags: &BTreeSet<&str>) -> bool {
        let one = |word: &str| match word.strip_prefix('!') {
            Some(word) => !tags.contains(word),
            None => tags.contains(word),
        };
        self.0.iter().all(|words| words.split('|').any(one))
    }
}

/// A file: its language (`c`, `cc`, `s`, `rs` or `text`), its name, the flags of its compiler, its text.
#[derive(Debug)]
pub(crate) struct SourceFile {
    language: &'static str,
    pub(crate) name: String,
    flags: Vec<String>,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Feature {
    pub(crate) name: String,
    when: Filter,
    /// The plain link often fails: the feature is drawn less often.
    pub(crate) fails: bool,
    pub(crate) sources: Vec<SourceFile>,
    /// Shell commands, after everything is compiled.
    commands: Vec<String>,
    /// Alternatives, each of several words; one of them stands on the line.
    pub(crate) words: Vec<(Filter, Vec<String>)>,
    /// The name of the output, if the feature is about it.
    pub(crate) output: Option<String>,
}

impl Feature {
    /// A feature without words: C files that every link has.
    pub(crate) fn of_files(name: &str, files: &[(&str, &str)]) -> Feature {
        let source = |(name, text): &(&str, &str)| SourceFile {
            language: "c",
            name: (*name).to_owned(),
            flags: Vec::new(),
            text: (*text).to_owned(),
        };
        Feature { name: name.to_owned(), sources: files.iter().map(source).collect(), ..Feature::default() }
    }

    pub(crate) fn runs(&self) -> bool {
        let entry = format!("int {}_run(void)", self.name);
        self.sources.iter().any(|s| s.text.contains(&entry))
    }

    pub(crate) fn is_cxx(&self) -> bool {
        self.sources.iter().any(|s| s.language == "cc")
    }

    pub(crate) fn choices(&self, tags: &BTreeSet<&str>) -> Vec<usize> {
        if !self.when.holds(tags) {
            return Vec::new();
        }
        (0..self.words.len()).filter(|i| self.words[*i].0.holds(tags)).collect()
    }

    /// The folder with everything that the feature's commands make. It is kept in `cache` under a hash of all that it depends on.
    pub(crate) fn built(&self, compiler: &str, flags: &[String], cache: &Path) -> Result<PathBuf> {
        let mut hash = DefaultHasher::new();
        (compiler, flags, &self.commands).hash(&mut hash);
        self.sources.iter().for_each(|source| (&source.name, &source.flags, &source.text).hash(&mut hash));
        let key = hash.finish();
        let dir = cache.join(format!("{}-{key:016x}", self.name));
        if dir.exists() {
            return Ok(dir);
        }
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
        let temporary = cache.join(format!("making-{thread}-{key:016x}"));
        let _ = std::fs::remove_dir_all(&temporary);
        std::fs::create_dir_all(&temporary)?;
        let run = |command: &mut Command| -> Result<()> {
            let done = run_ok(command.current_dir(&temporary), &temporary);
            done.map(|_| ()).map_err(|e| format!("{}: {e}", self.name).into())
        };
        for source in &self.sources {
            std::fs::write(temporary.join(&source.name), &source.text)?;
            let mut command = Command::new(if source.language == "rs" { "rustc" } else { compiler });
            match source.language {
                "text" => continue,
                "rs" => command.args(["--crate-type=lib", "--emit=obj", "-Cpanic=abort", "-Copt-level=1"]),
                "cc" => command.args(flags).args(["-x", "c++", "-c"]),
                _ => command.args(flags).arg("-c"),
            };
            let object = Path::new(&source.name).with_extension("o");
            run(command.args(&source.flags).arg(&source.name).arg("-o").arg(object))?;
        }
        for text in &self.commands {
            run(Command::new("sh").args(["-ec", text]).env("CC", compiler).env("CFLAGS", flags.join(" ")))?;
        }
        for left in ["stdout", "stderr"] {
            let _ = std::fs::remove_file(temporary.join(left));
        }
        if std::fs::rename(&temporary, &dir).is_err() {
            // Another thread made it meanwhile.
            std::fs::remove_dir_all(&temporary)?;
        }
        Ok(dir)
    }
}

/// All features, in the order of the texts.
///
/// # Errors
/// An unknown block, or a feature without words.
pub(crate) fn all() -> Result<Vec<Feature>> {
    let mut features: Vec<Feature> = Vec::new();
    for block in TEXTS.iter().flat_map(|text| blocks(text)) {
        if block.key == "feature" {
            features.push(Feature { name: block.words.to_owned(), ..Feature::default() });
            continue;
        }
        let feature = features.last_mut().ok_or("a block before a feature")?;
        let rest = block.words.replace("%%", &feature.name);
        if let Some(language) = ["c", "cc", "s", "rs", "text"].into_iter().find(|l| *l == block.key) {
            let mut flags = words(&rest);
            let name = if flags.is_empty() { String::new() } else { flags.remove(0) };
            let text = block.text.replace("%%", &feature.name);
            feature.sources.push(SourceFile { language, name, flags, text });
            continue;
        }
        match block.key {
            "when" => feature.when = Filter(words(&rest)),
            "fails" => feature.fails = true,
            "output" => feature.output = Some(rest),
            "sh" => feature.commands.push(rest),
            key if key.starts_with("words") => {
                // A filter may have blanks.
                let line = format!("{key} {rest}");
                let (filter, line) = match line.strip_prefix("words[") {
                    Some(filtered) => filtered.split_once(']').ok_or_else(|| format!("@{line}: no ]"))?,
                    None => ("", line.strip_prefix("words").unwrap_or_default()),
                };
                feature.words.push((Filter(words(filter)), words(line)));
            }
            key => return Err(format!("@{key}: unknown").into()),
        }
    }
    match features.iter().find(|feature| feature.words.is_empty()) {
        Some(feature) => Err(format!("{}: no words", feature.name).into()),
        None => Ok(features),
    }
}
