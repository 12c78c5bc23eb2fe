//! What a link can be put together from: features, read from the texts in `features/`.
//!
//! A feature is some files, the commands that make objects, archives and libraries of them, and the words of the link
//! line that name them. `%%` stands for its name everywhere, so that features can be combined without clashes. Lines:
//! `@feature NAME`, `@when FILTER`, `@fails` (the plain link often fails), `@c FILE FLAGS` (also `@cc`, `@s`, `@rs`,
//! `@text`; the text follows), `@sh COMMAND`, `@output NAME`, `@words[FILTER] WORDS` (one of these is drawn).

use std::collections::BTreeSet;

use crate::Result;

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

/// Words that must all hold for a link: `a|b` is either, `!a` is not. They are names of linkers, modes, compilers, and
/// `gc`, `mono`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Filter(Vec<String>);

impl Filter {
    fn parse(text: &str) -> Filter {
        Filter(text.split_whitespace().map(str::to_owned).collect())
    }

    pub(crate) fn holds(&self, tags: &BTreeSet<&str>) -> bool {
        let one = |word: &str| match word.strip_prefix('!') {
            Some(word) => !tags.contains(word),
            None => tags.contains(word),
        };
        self.0.iter().all(|words| words.split('|').any(one))
    }
}

/// How a file becomes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
    Assembly,
    Rust,
    /// It doesn't: a script, a list.
    Text,
}

#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) language: Language,
    pub(crate) flags: Vec<String>,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Feature {
    pub(crate) name: String,
    pub(crate) when: Filter,
    /// The plain link often fails: drawn less often.
    pub(crate) fails: bool,
    pub(crate) sources: Vec<SourceFile>,
    /// Shell commands, after everything is compiled.
    pub(crate) commands: Vec<String>,
    /// Alternatives, each of several words; one of them stands on the line.
    pub(crate) words: Vec<(Filter, Vec<String>)>,
    /// The name of the output, where it is the point.
    pub(crate) output: Option<String>,
}

impl Feature {
    pub(crate) fn runs(&self) -> bool {
        let entry = format!("int {}_run(void)", self.name);
        self.sources.iter().any(|s| s.text.contains(&entry))
    }

    pub(crate) fn is_cxx(&self) -> bool {
        self.sources.iter().any(|s| s.language == Language::Cxx)
    }

    pub(crate) fn choices(&self, tags: &BTreeSet<&str>) -> Vec<usize> {
        if !self.when.holds(tags) {
            return Vec::new();
        }
        (0..self.words.len()).filter(|i| self.words[*i].0.holds(tags)).collect()
    }
}

/// All features, in the order of the texts.
///
/// # Errors
/// A line that is not understood.
pub(crate) fn all() -> Result<Vec<Feature>> {
    let mut features: Vec<Feature> = Vec::new();
    for text in TEXTS {
        let mut in_file = false;
        for line in text.lines() {
            let Some(line) = line.strip_prefix('@') else {
                if in_file && let Some(source) = features.last_mut().and_then(|f| f.sources.last_mut()) {
                    source.text.push_str(line);
                    source.text.push('\n');
                } else if !line.is_empty() && !line.starts_with('#') {
                    return Err(format!("a line of no file: {line}").into());
                }
                continue;
            };
            in_file = directive(&mut features, line)?;
        }
    }
    for feature in &mut features {
        for source in &mut feature.sources {
            source.text = source.text.replace("%%", &feature.name);
        }
        if feature.words.is_empty() {
            return Err(format!("{}: no words", feature.name).into());
        }
    }
    Ok(features)
}

/// One line that begins with `@`, without that; whether the text of a file follows.
fn directive(features: &mut Vec<Feature>, line: &str) -> Result<bool> {
    let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
    if key == "feature" {
        features.push(Feature { name: rest.to_owned(), ..Feature::default() });
        return Ok(false);
    }
    let feature = features.last_mut().ok_or_else(|| format!("@{line}: before a feature"))?;
    let rest = rest.replace("%%", &feature.name);
    let language = match key {
        "c" => Some(Language::C),
        "cc" => Some(Language::Cxx),
        "s" => Some(Language::Assembly),
        "rs" => Some(Language::Rust),
        "text" => Some(Language::Text),
        _ => None,
    };
    if let Some(language) = language {
        let mut words = rest.split_whitespace().map(str::to_owned);
        let name = words.next().ok_or_else(|| format!("@{line}: no name"))?;
        feature.sources.push(SourceFile { name, language, flags: words.collect(), text: String::new() });
        return Ok(true);
    }
    match key {
        "when" => feature.when = Filter::parse(&rest),
        "fails" => feature.fails = true,
        "output" => feature.output = Some(rest),
        "sh" => feature.commands.push(rest),
        _ if key.starts_with("words") => {
            let (filter, words) = match line.strip_prefix("words[") {
                Some(filtered) => filtered.split_once(']').ok_or_else(|| format!("@{line}: no ]"))?,
                None => ("", line.strip_prefix("words").unwrap_or_default()),
            };
            let words = words.replace("%%", &feature.name);
            let words = words.split_whitespace().map(str::to_owned).collect();
            feature.words.push((Filter::parse(filter), words));
        }
        _ => return Err(format!("@{line}: not known").into()),
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_can_be_in_a_program() {
        let features = all().unwrap();
        let mut names: Vec<&str> = features.iter().map(|f| f.name.as_str()).collect();
        let identifier = |n: &&str| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(names.iter().all(identifier), "{names:?}");
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "a name is used twice");
    }

    #[test]
    fn filters_are_all_of_some() {
        let tags = BTreeSet::from(["lld", "pie"]);
        let cases = [("", true), ("lld", true), ("bfd|lld pie", true), ("lld !pie", false), ("!gold", true)];
        for (text, expected) in cases {
            assert_eq!(Filter::parse(text).holds(&tags), expected, "{text}");
        }
    }
}
