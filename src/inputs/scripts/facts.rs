//! The facts in linker scripts, version scripts and dynamic lists that matter for pruning, as lists of patterns and names.
//!
//! Patterns are kept as text: [`names`](super::names) decides which way doubt goes.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::inputs::scripts::lexer::{Lexer, Token};

/// A name or a shell pattern (`*`, `?`, `[...]`), as scripts write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    /// Inside `extern "C++" { }`: it matches the demangled name, which is not computed
    /// ([`NameMatcher`](super::names::NameMatcher)).
    pub cplusplus: bool,
    /// Written in quotes: for GNU ld and gold a name even if it contains `*`.
    pub quoted: bool,
}

/// An assignment `PROVIDE(symbol = expression)`, which counts if nothing defines the symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvideAssignment {
    pub symbol: String,
    /// Symbols in the expression: referred to only if the symbol is provided.
    pub references: Vec<String>,
}

/// The facts of all scripts of a link, joined.
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
    /// Symbols in `DEFINED(symbol)`: no archive member is extracted for them.
    /// Roots where they are defined.
    pub tested_symbols: Vec<String>,
    /// The file and section patterns of each `KEEP(file-pattern(section-pattern...))`.
    pub keep: Vec<(String, Vec<String>)>,
    /// Every file pattern of an input section description that is not `*`.
    pub file_patterns: Vec<String>,
    /// The file and section patterns of input section descriptions without KEEP.
    pub placed: Vec<(String, Vec<String>)>,
    /// A `-T` script with a SECTIONS command is in the link.
    pub has_sections: bool,
    /// A SECTIONS command without INSERT: it replaces the linker's default one.
    pub replaces_default: bool,
    /// GNU ld does not read its default script: a `-T` script without INSERT is in the link.
    pub without_default: bool,
    /// `global:` patterns of version scripts; `None` if there is no version script.
    pub version_global: Option<Vec<Pattern>>,
    /// Names that version scripts make global literally, and nowhere local, with their version; `None` if there are several.
    pub versions: FxHashMap<Vec<u8>, Option<String>>,
    /// The patterns behind `local:` in version scripts.
    pub version_local: Vec<Pattern>,
    /// The patterns of `--dynamic-list` and `--export-dynamic-symbol(-list)`.
    pub dynamic_list: Vec<Pattern>,
    /// Symbols, local ones too, that the linker warns of if they are missing: those of
    /// `--symbol-ordering-file`, `--call-graph-ordering-file` and `--keep-unique`.
    pub ordered_symbols: FxHashSet<Vec<u8>>,
}

/// The unexpected token and the text after it, for a limit's detail.
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
