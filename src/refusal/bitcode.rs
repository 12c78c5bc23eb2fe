//! Whether a link with LLVM bitcode in it may be pruned: only where all that lld makes of the bitcode is what it makes in the plain link.
//!
//! Bitcode is rewritten without what is dead ([`crate::emit::bitcode`]), or passed as it is; what it sees of the native objects is the same in both links: which of its symbols they mention (`ModulePlan::pin_mention`), which
//! definitions prevail, what is exported. Then so is the code that is made of it. Everything that would make a difference, or that we
//! don't know, is a limit: another linker, renamed symbols, options of link-time optimisation that write files or change
//! which modules there are, symbols that we don't see, libraries that only dropped code needs ([`of_libraries`]).

use std::ffi::OsString;

use rustc_hash::FxHashMap;
use summaries::{AtomIdx, Binding, Limit, ModuleKind, ModuleSummary, SymbolIdx, Visibility};

use super::Place;
use crate::config::{Config, Dialect, OutputKind};
use crate::ids::{AtomId, DsoId, Id, ModuleId, SymbolId};
use crate::index::{Index, defining_atom};
use crate::inputs::{Inputs, SequenceItem};
use crate::propagate::{Liveness, live};
use crate::resolve::{Prevailing, Resolution, link_limit};

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
    "opt-remarks-",
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
    if let Some(option) = strange_option(&config.linker_args) {
        add(format!("LLVM bitcode and the option {option}"));
    }
    limits
}

/// Modules of bitcode, by position, that are kept whole because the plain link compiles code of theirs which ours drops, and whose references would be missed: to a library under
/// `--as-needed` that nothing else needs, or to an undefined symbol that the linker reports.
///
/// In the plain link link-time optimisation drops what neither exports nor native objects reach (LLVM's `computeDeadSymbols` and `GlobalDCE`), dead native code included; with `--gc-sections`
/// the linker drops the rest, so that only references of stubs are left to look at. Which of the references optimisation removes is not known: one that may
/// be left counts.
pub fn of_libraries(
    config: &Config,
    inputs: &Inputs,
    resolution: &Resolution<'_>,
    index: &Index,
    summaries: &[&ModuleSummary],
    liveness: &Liveness,
) -> Vec<(usize, Place)> {
    let is_bitcode = |position: usize| summaries[position].kind == ModuleKind::Bitcode;
    let positions: Vec<usize> = (0..summaries.len())
        .filter(|position| is_bitcode(*position) && !index.modules[*position].kept_whole)
        .collect();
    if positions.is_empty() {
        return Vec::new();
    }
    let plain = super::PlainLink::new(config, resolution, index, summaries, liveness);
    let is_asked = |dso: DsoId| {
        let under = |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso: other, as_needed: true, .. } if *other == dso);
        !plain.needs(dso) && inputs.sequence.iter().any(under)
    };
    let is_missed = |id: SymbolId| match resolution.symbols[id].prevailing {
        Prevailing::Dso(dso) => is_asked(dso),
        Prevailing::Undefined { weak: false } => {
            config.undefined_is_reported || resolution.symbols[id].visibility != Visibility::Default
        }
        _ => false,
    };
    let missed: Vec<bool> = (0..resolution.symbols.len()).map(|s| is_missed(SymbolId::new(s))).collect();
    if !missed.contains(&true) {
        return Vec::new();
    }
    for (position, atom) in compiled(config, resolution, index, summaries, liveness) {
        let (summary, module) = (summaries[position], index.modules[position].module);
        for reference in summary.references_of(atom) {
            let summaries::Target::Symbol(symbol) = reference.target else { continue };
            let Some(id) = resolution.symbol_id(module, symbol).filter(|id| missed[id.index()]) else {
                continue;
            };
            if summary.symbols[symbol.index()].binding == Binding::Weak {
                continue;
            }
            let what = String::from_utf8_lossy(resolution.symbols[id].name);
            let detail = format!("LLVM bitcode of which a function refers to {what}, and is dropped");
            let place = |position: usize| {
                (
                    position,
                    (Some(index.modules[position].module), link_limit(Limit::BitcodeLibrary, detail.clone())),
                )
            };
            return positions.into_iter().map(place).collect();
        }
    }
    Vec::new()
}

/// Atoms of bitcode that the plain link compiles and that don't live here: (position, atom).
fn compiled(
    config: &Config,
    resolution: &Resolution<'_>,
    index: &Index,
    summaries: &[&ModuleSummary],
    liveness: &Liveness,
) -> Vec<(usize, AtomIdx)> {
    let is_bitcode = |atom: AtomId| summaries[index.locate(atom).0].kind == ModuleKind::Bitcode;
    let by_reference = live(index);
    let mut seen: Vec<bool> = (0..index.atom_count()).map(|a| by_reference.is_live(AtomId::new(a))).collect();
    let mut open: Vec<AtomId> = Vec::new();
    let mut compiled: Vec<AtomId> = Vec::new();
    let positions: FxHashMap<ModuleId, usize> =
        index.modules.iter().enumerate().map(|(position, m)| (m.module, position)).collect();
    let prevailing_atom = |id: SymbolId| {
        let Prevailing::Module { module, symbol } = resolution.symbols[id].prevailing else { return None };
        let position = *positions.get(&module)?;
        let atom = defining_atom(summaries[position], symbol)?;
        Some(AtomId(index.modules[position].first_atom + atom.0))
    };
    for (position, summary) in summaries.iter().enumerate() {
        let this = index.modules[position];
        if summary.kind == ModuleKind::Bitcode || config.gc_sections {
            continue;
        }
        for i in 0..summary.symbols.len() {
            let Some(id) = resolution.symbol_id(this.module, SymbolIdx::new(i)) else { continue };
            open.extend(prevailing_atom(id).filter(|a| is_bitcode(*a)));
        }
    }
    while let Some(atom) = open.pop() {
        if !std::mem::replace(&mut seen[atom.index()], true) {
            compiled.push(atom);
            open.extend(index.edges_of(atom).1.iter().map(|e| e.target).filter(|a| is_bitcode(*a)));
        }
    }
    let lost = (0..index.atom_count()).map(AtomId::new);
    let lost = lost.filter(|a| by_reference.is_live(*a) && !liveness.is_live(*a) && is_bitcode(*a));
    lost.chain(compiled).map(|atom| index.locate(atom)).collect()
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
        let harmless = |h: &str| option == h || h.ends_with(['=', '-']) && option.starts_with(h);
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
