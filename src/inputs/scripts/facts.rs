//! What linker scripts, version scripts and dynamic lists say that matters for pruning, as lists of patterns and names.
//!
//! They are kept as they were written: whoever asks whether a name matches says which way doubt goes
//! ([`names`](super::names)). Left out: the languages, which `sections` and `version` read.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::inputs::scripts::lexer::{Lexer, Token};

/// A name or a shell pattern (`*`, `?`, `[...]`), as scripts write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    /// Inside `extern "C++" { }`: matches the demangled name, which we don't compute
    /// ([`NameMatcher`](super::names::NameMatcher)).
    pub cplusplus: bool,
    /// Written in quotes: for GNU ld and gold a name even if it contains `*`.
    pub quoted: bool,
}

/// An assignment `PROVIDE(symbol = expression)`, which counts where nothing defines the symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvideAssignment {
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
    pub provided: Vec<ProvideAssignment>,
    /// Symbols in `DEFINED(symbol)`: what they are decides a value, but no archive member is extracted for them.
    /// Roots where they are defined.
    pub tested_symbols: Vec<String>,
    /// The file and section patterns of each `KEEP(file-pattern(section-pattern...))`.
    pub keep: Vec<(String, Vec<String>)>,
    /// Every file pattern of an input section description that is not `*`.
    pub file_patterns: Vec<String>,
    /// The same of input section descriptions without KEEP.
    pub placed: Vec<(String, Vec<String>)>,
    /// A `-T` script with a SECTIONS command is in the link.
    pub has_sections: bool,
    /// A SECTIONS command without INSERT: it takes the place of the linker's default one.
    pub replaces_default: bool,
    /// GNU ld does not read its default script: a `-T` script without INSERT is in the link.
    pub without_default: bool,
    /// `global:` patterns of version scripts; `None` where there is no version script.
    pub version_global: Option<Vec<Pattern>>,
    /// The version that version scripts give to each name that they make global by itself, and nowhere local; `None` where they give several.
    pub versions: FxHashMap<Vec<u8>, Option<String>>,
    /// The patterns behind `local:` in version scripts.
    pub version_local: Vec<Pattern>,
    /// The patterns of `--dynamic-list` and `--export-dynamic-symbol(-list)`.
    pub dynamic_list: Vec<Pattern>,
    /// Symbols, local ones too, of which the linker warns if they are missing: those of
    /// `--symbol-ordering-file`, `--call-graph-ordering-file` and `--keep-unique`.
    pub ordered_symbols: FxHashSet<Vec<u8>>,
}

/// What was found where something else was expected, for a limit's detail.
pub(super) fn describe(token: Option<&Token>, lexer: &Lexer<'_>) -> String {
    let rest = lexer.rest();
    let near = String::from_utf8_lossy(rest.get(..rest.len().min(24)).unwrap_or_default()).into_owned();
    let near = near.lines().next().unwrap_or_default().to_owned();
    match token {
        Some(Token::Word(text) | Token::Quoted(text)) => format!("`{text}` before `{near}`"),
        Some(Token::Punct(b)) => format!("`{}` before `{near}`", char::from(*b)),
        None => "the end of the script".to_owned(),
    }
}
