//! Facts that linker scripts, version scripts and dynamic lists state about roots.

/// A name or a shell pattern (`*`, `?`, `[...]`), as scripts write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    /// Inside `extern "C++" { }`: matches the demangled name, which we don't compute, so it matches every mangled name.
    pub cplusplus: bool,
}

/// What the scripts of a link say, joined.
#[derive(Debug, Default)]
pub struct ScriptFacts {
    /// `ENTRY(symbol)` of a `-T` script.
    pub entry: Option<String>,
    /// Symbols named in expressions, assignments, `EXTERN()`, `ASSERT`: roots.
    pub referenced_symbols: Vec<String>,
    /// Symbols that a script assigns: defined by the linker.
    pub assigned_symbols: Vec<String>,
    /// `KEEP(file-pattern(section-pattern...))`.
    pub keep: Vec<(String, Vec<String>)>,
    /// Every file pattern of an input section description that is not `*`.
    pub file_patterns: Vec<String>,
    /// A `-T` script with a SECTIONS command is in the link.
    pub has_sections: bool,
    /// `global:` patterns of version scripts; `None` where there is no version script.
    pub version_global: Option<Vec<Pattern>>,
    /// `local:` patterns of version scripts.
    pub version_local: Vec<Pattern>,
    /// `--dynamic-list`, `--export-dynamic-symbol(-list)`.
    pub dynamic_list: Vec<Pattern>,
}
