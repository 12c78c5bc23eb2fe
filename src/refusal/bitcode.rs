//! Whether a link with LLVM bitcode in it may be pruned: only where all that lld makes of the bitcode is what it makes in the plain link.
//!
//! Up to the level `functions` bitcode is passed as it is, and what it sees of the native objects is the same: which of its symbols they mention (`ModulePlan::pin_mention`), which
//! definitions prevail, what is exported. Then so is the code that is made of it. At `pointers` it is rewritten ([`crate::emit::bitcode`]), with the same care for what it sees. Everything that would make a difference, or that we
//! don't know, is a limit: another linker, renamed symbols, options of link-time optimisation that write files or change
//! which modules there are, symbols that we don't see.

use std::ffi::OsString;

use summaries::{Binding, Limit, ModuleKind, ModuleSummary, SymbolIdx};

use super::Place;
use crate::config::{Config, Dialect, OutputKind};
use crate::resolve::{Resolution, link_limit};

/// Options of link-time optimisation after which the pruned link still does what the plain one does; longer words may
/// begin with those that end in `=` or `-`.
const HARMLESS: &[&str] = &[
    "lto-CGO0",
    "lto-CGO1",
    "lto-CGO2",
    "lto-CGO3",
    "lto-O0",
    "lto-O1",
    "lto-O2",
    "lto-O3",
    "lto-partitions=",
    "lto-whole-program-visibility",
    "lto-pgo-warn-mismatch",
    "plugin-opt=-crash-diagnostics-dir=",
    "plugin-opt=-data-sections",
    "plugin-opt=-data-sections=",
    "plugin-opt=-debugger-tune=",
    "plugin-opt=-fresolution=",
    "plugin-opt=-function-sections",
    "plugin-opt=-function-sections=",
    "plugin-opt=-pass-through=",
    "plugin-opt=-stack-size-section",
    "plugin-opt=O0",
    "plugin-opt=O1",
    "plugin-opt=O2",
    "plugin-opt=O3",
    "plugin-opt=jobs=",
    "plugin-opt=mcpu=",
    "plugin-opt=thinlto",
    "thinlto-cache-dir=",
    "thinlto-cache-policy=",
    "thinlto-jobs=",
];

/// Why it may not be pruned; nothing if there is no bitcode in it.
pub(super) fn limits(
    config: &Config,
    resolution: &Resolution<'_>,
    summaries: &[&ModuleSummary],
) -> Vec<Place> {
    let mut limits = Vec::new();
    let mut add = |module, detail: String| limits.push((module, link_limit(Limit::Bitcode, detail)));
    for (module, summary) in resolution.loaded.iter().zip(summaries) {
        if summary.kind != ModuleKind::Bitcode {
            continue;
        }
        let is_seen = |i: usize| resolution.symbol_id(*module, SymbolIdx::new(i)).is_some();
        for (i, symbol) in summary.symbols.iter().enumerate() {
            let name = summary.name(symbol.name);
            if symbol.binding != Binding::Local && (!is_seen(i) || name.contains(&b'@')) {
                let name = String::from_utf8_lossy(name);
                add(
                    Some(*module),
                    format!("symbol {name} of LLVM bitcode is resolved in a way that is not modelled"),
                );
                break;
            }
        }
    }
    if !resolution.has_bitcode {
        return limits;
    }
    let mut add = |detail: String| limits.push((None, link_limit(Limit::Bitcode, detail)));
    if config.linker.dialect != Dialect::Lld {
        add("LLVM bitcode, and another linker than lld".to_owned());
    }
    if config.output_kind == OutputKind::Relocatable || config.emit_relocs {
        add("LLVM bitcode in relocatable output".to_owned());
    }
    if config.allow_multiple_definition {
        add("--allow-multiple-definition and LLVM bitcode".to_owned());
    }
    if !config.wrap.is_empty() {
        add("--wrap and LLVM bitcode".to_owned());
    }
    if let Some(option) = strange_option(&config.linker_args) {
        add(format!("LLVM bitcode and the option {option}"));
    }
    limits
}

/// The first option that has to do with link-time optimisation and is not known to be harmless.
fn strange_option(args: &[OsString]) -> Option<String> {
    const NAMES: [&str; 8] = [
        "thinlto",
        "plugin-opt",
        "mllvm",
        "save-temps",
        "opt-remarks",
        "load-pass-plugin",
        "time-trace",
        "why-extract",
    ];
    let mut words = args.iter().map(|a| a.to_string_lossy());
    while let Some(word) = words.next() {
        let Some(single) = word.strip_prefix('-') else { continue };
        let option = single.strip_prefix('-').unwrap_or(single);
        // With one dash it is `-l` and a library.
        let is_lto = single.starts_with("-lto") || single.starts_with("-dtlto");
        if !is_lto && !NAMES.iter().any(|name| option.starts_with(name)) {
            continue;
        }
        // The value may be the next word.
        let option = match option {
            "plugin-opt" | "thinlto-cache-policy" | "lto-partitions" => {
                format!("{option}={}", words.next().unwrap_or_default())
            }
            option => option.to_owned(),
        };
        let harmless = |h: &str| option == h || h.ends_with('=') && option.starts_with(h);
        // gcc's own plugin, which lld passes over.
        let of_gcc = option.starts_with("plugin-opt=/") && option.ends_with("/lto-wrapper");
        if !of_gcc && !HARMLESS.iter().any(|h| harmless(h)) {
            return Some(word.into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strange(line: &str) -> Option<String> {
        strange_option(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_link_time_optimisation() {
        assert_eq!(
            strange("-plugin /x/liblto_plugin.so -plugin-opt=mcpu=x86-64 -plugin-opt=/x/lto-wrapper a.o"),
            None
        );
        assert_eq!(
            strange(
                "--lto-O2 --thinlto-jobs=4 -plugin-opt=-debugger-tune=gdb -plugin-opt O2 -o /lto/out -L/x/lto --gc-sections"
            ),
            None
        );
        for line in
            ["--save-temps", "--lto-emit-asm", "-plugin-opt=save-temps", "-mllvm -x", "--lto-obj-path=x"]
        {
            assert!(strange(line).is_some(), "{line}");
        }
    }
}
