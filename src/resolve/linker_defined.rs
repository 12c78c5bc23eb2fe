//! Names that the linker itself defines if something refers to them and no file defines them.
//!
//! A missing name looks like an undefined symbol, so that nothing is pruned. A superfluous one hides an undefined symbol until `verify`
//! finds it. The list is the union over lld (Writer.cpp `addReservedSymbols`), GNU ld's default script, gold (defstd.cc) and mold (passes.cc).

use crate::config::{Config, OutputKind};
use crate::inputs::scripts::ScriptFacts;

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "_PROCEDURE_LINKAGE_TABLE_", "_TLS_MODULE_BASE_", "__GNU_EH_FRAME_HDR",
    "__bss_start", "__dso_handle", "__ehdr_start", "__executable_start", "__fini_array_end", "__fini_array_start",
    "__init_array_end", "__init_array_start", "__preinit_array_end", "__preinit_array_start", "__rel_iplt_end",
    "__rel_iplt_start", "__rela_iplt_end", "__rela_iplt_start", "_edata", "_end", "_etext", "edata", "end", "etext",
];

/// Whether the linker defines `name` by itself.
pub(crate) fn is_linker_defined(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| NAMES.binary_search(&name).is_ok())
        || start_stop_section(name).is_some()
}

/// The section that `__start_X` or `__stop_X` means, if X is a C identifier.
pub(crate) fn start_stop_section(name: &[u8]) -> Option<&[u8]> {
    let section = name.strip_prefix(b"__start_").or_else(|| name.strip_prefix(b"__stop_"))?;
    let word = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    let first_ok = section.first().is_some_and(|c| !c.is_ascii_digit());
    (first_ok && section.iter().all(word)).then_some(section)
}

/// The symbol at which the program starts; `None` for a shared library without `-e`.
pub(crate) fn entry_symbol(config: &Config, scripts: &ScriptFacts) -> Option<String> {
    let default = || match config.output_kind {
        OutputKind::Shared | OutputKind::Relocatable => None,
        // The default script of GNU ld has ENTRY(_start).
        _ if scripts.without_default => Some("start".to_owned()),
        OutputKind::Executable | OutputKind::Pie | OutputKind::StaticPie => Some("_start".to_owned()),
    };
    config.entry.clone().or_else(|| scripts.entry.clone()).or_else(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(NAMES.is_sorted());
        assert!(is_linker_defined(b"_end") && is_linker_defined(b"__start_foo"));
        assert!(!is_linker_defined(b"_ends") && !is_linker_defined(b"__start_.foo"));
        assert_eq!(start_stop_section(b"__stop_a1"), Some(b"a1" as &[u8]));
        assert_eq!(start_stop_section(b"__stop_1a"), None);
    }
}
