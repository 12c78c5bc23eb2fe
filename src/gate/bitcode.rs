//! Links with LLVM bitcode: they are pruned only if lld compiles the bitcode as in the plain link.
//!
//! Bitcode is rewritten without dead values ([`crate::emit::bitcode`]), or passed through. The symbols that native objects refer to, the
//! prevailing definitions and the exports are the same in both links ([`SymbolFlags::SEEN_BY_BITCODE`](crate::plan::SymbolFlags)). All
//! other differences are limits. Examples are another linker, renamed or invisible symbols, and options of link-time optimisation that are
//! not modelled ([`lto`]). Another one is dropped code that may need a library or an undefined symbol ([`of_libraries`]).

use summaries::{AtomIdx, Binding, Limit, ModuleKind, ModuleSummary, SymbolIdx, Visibility};

use super::limits::PlacedLimit;
use super::plain_link::PlainLink;
use crate::args::lto;
use crate::config::OutputKind;
use crate::ids::{AtomId, DsoId, Id};
use crate::index::{Index, LinkInputs};
use crate::inputs::{Inputs, SequenceItem};
use crate::propagate::Liveness;
use crate::resolve::{GlobalSymbol, Prevailing, link_limit};

/// The reasons not to prune; none without bitcode.
pub(super) fn limits(link: LinkInputs<'_>) -> Vec<PlacedLimit> {
    let LinkInputs { config, resolution, summaries, .. } = link;
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
    if !config.rules().reads_bitcode {
        add("LLVM bitcode, and another linker than lld".to_owned());
    }
    if config.output_kind == OutputKind::Relocatable || config.emit_relocs {
        add("LLVM bitcode in relocatable output".to_owned());
    }
    if config.allow_multiple_definition {
        add("--allow-multiple-definition and LLVM bitcode".to_owned());
    }
    if let Some(option) = lto::unmodelled(&config.linker_args).filter(|_| config.rules().reads_bitcode) {
        limits.push((
            None,
            link_limit(Limit::UnmodelledOption, format!("{option} in a link with LLVM bitcode")),
        ));
    }
    limits
}

/// Bitcode modules, by position, that are kept whole because the plain link may compile dead code that needs a library or symbol. The
/// library is under `--as-needed` without another live reference, or the linker reports the symbol as undefined.
///
/// Optimisation decides which dead code is compiled. At `-O0` it is all code that dead native code, other copies of inline functions or
/// equal local names refer to. Live code may also keep references that optimisation would remove. So every symbol of bitcode counts. If
/// live code refers to the library too, [`asked_libraries`] decides after the link.
pub(super) fn of_libraries(
    link: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
) -> Vec<(usize, PlacedLimit)> {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let positions: Vec<usize> = changeable(index, summaries).collect();
    if positions.is_empty() {
        return Vec::new();
    }
    let plain = PlainLink::new(link, index, liveness);
    let of_live = referred_by_live(link, index, liveness);
    let is_missed = |symbol: &GlobalSymbol<'_>| match symbol.prevailing {
        Prevailing::Dso(dso) => {
            symbol.strong_reference && !of_live[dso.index()] && is_asked(inputs, &plain, dso)
        }
        Prevailing::Undefined { weak: false } => {
            config.undefined_is_reported || symbol.visibility != Visibility::Default
        }
        _ => false,
    };
    let bitcode = index.modules.iter().zip(summaries).filter(|(_, s)| s.kind == ModuleKind::Bitcode);
    let mut mentioned = bitcode.flat_map(|(m, s)| {
        let ids = (0..s.symbols.len()).filter_map(|i| resolution.symbol_id(m.module, SymbolIdx::new(i)));
        ids.map(|id| &resolution.symbols[id])
    });
    let Some(missed) = mentioned.find(|symbol| is_missed(symbol)) else { return Vec::new() };
    let what = String::from_utf8_lossy(missed.name);
    let detail =
        format!("LLVM bitcode that mentions {what}, of which a part that refers to it may be dropped");
    let limit = link_limit(Limit::BitcodeLibrary, detail);
    positions
        .into_iter()
        .map(|position| (position, (Some(index.modules[position].module), limit.clone())))
        .collect()
}

/// Libraries under `--as-needed` that only code made of bitcode refers to, if some bitcode is pruned. If the output of the pruned link
/// does not record one, that of the plain link may.
pub fn asked_libraries(
    link: LinkInputs<'_>,
    index: &Index,
    plain: &PlainLink,
    liveness: &Liveness,
) -> Vec<DsoId> {
    let LinkInputs { inputs, summaries, .. } = link;
    if changeable(index, summaries).next().is_none() {
        return Vec::new();
    }
    let of_live = referred_by_live(link, index, liveness);
    inputs.dsos.ids().filter(|dso| of_live[dso.index()] && is_asked(inputs, plain, *dso)).collect()
}

/// Positions of bitcode that may be pruned.
fn changeable(index: &Index, summaries: &[&ModuleSummary]) -> impl Iterator<Item = usize> {
    let modules = index.modules.iter().zip(summaries).enumerate();
    modules.filter(|(_, (m, s))| s.kind == ModuleKind::Bitcode && !m.kept_whole).map(|(position, _)| position)
}

/// Whether the plain link records this library only if code made of bitcode refers to it.
fn is_asked(inputs: &Inputs, plain: &PlainLink, dso: DsoId) -> bool {
    let of_this = |item: &SequenceItem, as_needed| matches!(item, SequenceItem::Dso { dso: other, as_needed: a, implicit: false, .. } if *other == dso && *a == as_needed);
    let mentions = |as_needed| inputs.sequence.iter().any(|item| of_this(item, as_needed));
    !plain.needs(dso) && mentions(true) && !mentions(false)
}

/// By DSO: live code of bitcode refers to it.
fn referred_by_live(link: LinkInputs<'_>, index: &Index, liveness: &Liveness) -> Vec<bool> {
    let LinkInputs { resolution, summaries, .. } = link;
    let mut referred = vec![false; resolution.dsos.len()];
    for (module, summary) in index.modules.iter().zip(summaries) {
        if summary.kind != ModuleKind::Bitcode {
            continue;
        }
        for atom in (0..summary.atoms.len()).map(AtomIdx::new) {
            if !liveness.is_live(AtomId(module.first_atom + atom.0)) {
                continue;
            }
            for reference in summary.references_of(atom) {
                let summaries::Target::Symbol(symbol) = reference.target else { continue };
                let id = resolution.symbol_id(module.module, symbol);
                let symbol = id.map(|id| &resolution.symbols[id]).filter(|s| s.strong_reference);
                if let Some(Prevailing::Dso(dso)) = symbol.map(|s| s.prevailing) {
                    referred[dso.index()] = true;
                }
            }
        }
    }
    referred
}
