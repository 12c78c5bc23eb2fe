//! Facts that linker scripts, version scripts and dynamic lists state about roots.
//!
//! What a script defines, refers to, keeps and exports; not how it lays out sections. A construct that isn't known is
//! [`Limit::UnmodelledScript`]: the link goes unpruned. Left out: demangling, so `extern "C++"` blocks are read as
//! widely as is safe (see [`names`]).

mod expression;
pub mod implicit;
mod lexer;
pub mod names;
mod sections;
mod version;

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};
use summaries::Limit;

use self::lexer::{Lexer, Token};
use super::search::{FoundLibrary, LibrarySearch};
use super::{InputFile, Inputs};
use crate::config::Config;
use crate::ids::FileId;

/// A name or a shell pattern (`*`, `?`, `[...]`), as scripts write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    /// Inside `extern "C++" { }`: matches the demangled name, which we don't compute. See [`names::NameMatcher`] for
    /// what follows.
    pub cplusplus: bool,
    /// Written in quotes: for GNU ld and gold a name even if it contains `*`.
    pub quoted: bool,
}

/// An assignment `PROVIDE(symbol = expression)`, which counts where nothing defines the symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provided {
    pub symbol: String,
    /// Symbols in the expression: referred to only if the symbol is provided.
    pub references: Vec<String>,
}

/// What the scripts of a link say, joined.
#[derive(Debug, Default)]
pub struct ScriptFacts {
    /// The symbol of `ENTRY(symbol)` in a script of `-T`.
    pub entry: Option<String>,
    /// Symbols named in expressions, assignments, `EXTERN()`, `ASSERT`: roots.
    pub referenced_symbols: Vec<String>,
    /// Symbols that a script assigns: defined by the linker.
    pub assigned_symbols: Vec<String>,
    /// `PROVIDE`, `PROVIDE_HIDDEN`: defined by the linker if they are referred to and no input defines them.
    pub provided: Vec<Provided>,
    /// Symbols in `DEFINED(symbol)`: what they are decides a value, but no archive member is extracted for them.
    /// Roots where they are defined.
    pub tested_symbols: Vec<String>,
    /// The file and section patterns of each `KEEP(file-pattern(section-pattern...))`.
    pub keep: Vec<(String, Vec<String>)>,
    /// Every file pattern of an input section description that is not `*`.
    pub file_patterns: Vec<String>,
    /// A `-T` script with a SECTIONS command is in the link.
    pub has_sections: bool,
    /// `global:` patterns of version scripts; `None` where there is no version script.
    pub version_global: Option<Vec<Pattern>>,
    /// The version that version scripts give to each name that they make global by itself, and nowhere local; `None` where they give several.
    pub versions: FxHashMap<Vec<u8>, Option<String>>,
    /// The patterns behind `local:` in version scripts.
    pub version_local: Vec<Pattern>,
    /// The patterns of `--dynamic-list` and `--export-dynamic-symbol(-list)`.
    pub dynamic_list: Vec<Pattern>,
    /// Symbols, local ones too, of which the linker warns if they are missing: `--symbol-ordering-file`,
    /// `--call-graph-ordering-file`, `--keep-unique`.
    pub ordered_symbols: FxHashSet<Vec<u8>>,
}

/// Read every script that the options name.
pub(super) fn read_all(config: &Config, search: &LibrarySearch<'_>, inputs: &mut Inputs) {
    type Parse = fn(&[u8], &mut ScriptFacts) -> Result<(), String>;
    let lists = config.dynamic_lists.iter().chain(&config.export_dynamic_lists);
    let all = config.scripts.iter().map(|p| (p, sections::parse as Parse));
    let all = all.chain(config.version_scripts.iter().map(|p| (p, version::parse_script as Parse)));
    let all = all.chain(lists.map(|p| (p, version::parse_list as Parse)));
    let mut facts = ScriptFacts::default();
    for (path, parse) in all {
        let Some(file) = open(path, search, inputs) else { continue };
        let result = inputs.files.get(file).map(|f| parse(&f.bytes, &mut facts));
        if let Some(Err(construct)) = result {
            inputs.refuse(Some(file), Limit::UnmodelledScript, construct);
        }
    }
    // Which of two nodes decides differs between linkers.
    for pattern in &facts.version_local {
        facts.versions.remove(pattern.text.as_bytes());
    }
    let symbols = config.export_dynamic_symbols.iter();
    facts.dynamic_list.extend(symbols.map(|text| Pattern {
        text: text.clone(),
        cplusplus: false,
        quoted: false,
    }));
    facts.ordered_symbols.extend(config.keep_unique.iter().map(|name| name.clone().into_bytes()));
    // A line of one is a symbol; a line of the other is two symbols and a number.
    let orderings = config.symbol_orderings.iter().map(|p| (p, 1));
    for (path, names) in orderings.chain(config.call_graph_orderings.iter().map(|p| (p, 2))) {
        let Some(file) = open(path, search, inputs) else { continue };
        let text = inputs.files.get(file).map_or(&[][..], |f| &f.bytes);
        let lines = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            let symbols = match names {
                1 => vec![line],
                _ => line.split(|b| *b == b' ').take(names).collect(),
            };
            facts.ordered_symbols.extend(symbols.into_iter().map(<[u8]>::to_vec));
        }
    }
    inputs.scripts = facts;
}

/// Open a script: by its path, else in the directories of `-L`, as lld and GNU ld do.
fn open(path: &Path, search: &LibrarySearch<'_>, inputs: &mut Inputs) -> Option<FileId> {
    let found = match path.exists() {
        true => path.to_owned(),
        false => match search.on_search_path(path) {
            FoundLibrary::At(found) => found,
            _ => path.to_owned(),
        },
    };
    match super::load::open(&found) {
        Ok((bytes, kind)) => {
            let file = inputs.files.push(InputFile { path: found, kind, bytes });
            inputs.opened.push(file);
            Some(file)
        }
        Err(error) => {
            inputs.refuse(None, Limit::UnreadableInput, format!("{}: {error}", path.display()));
            None
        }
    }
}

/// What was found where something else was expected, for a limit's detail.
fn describe(token: Option<&Token>, lexer: &Lexer<'_>) -> String {
    let rest = lexer.rest();
    let near = String::from_utf8_lossy(rest.get(..rest.len().min(24)).unwrap_or_default()).into_owned();
    let near = near.lines().next().unwrap_or_default().to_owned();
    match token {
        Some(Token::Word(text) | Token::Quoted(text)) => format!("`{text}` before `{near}`"),
        Some(Token::Punct(b)) => format!("`{}` before `{near}`", char::from(*b)),
        None => "the end of the script".to_owned(),
    }
}

#[cfg(test)]
mod tests;
