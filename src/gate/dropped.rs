//! Differences of the linker's messages, errors and results that come from dropped code: its references, relocations and names.
//!
//! With any of them, the original objects are linked. [`super::plain_link`] handles undefined symbols and libraries.

use rayon::prelude::*;
use summaries::{
    Atom, AtomIdx, Binding, Definition, Limit, LimitRecord, ModuleSummary, Reference, ReferenceKind,
    SymbolIdx, Target, atom_flags,
};

use super::limits::PlacedLimit;
use crate::config::OutputKind;
use crate::error::lossy;
use crate::ids::{AtomId, Id, SymbolId};
use crate::index::{Index, IndexedModule, LinkInputs, Root, RootReason, is_exempt_from_start_stop_gc};
use crate::plan::{Action, ModulePlan, Plan};
use crate::propagate::Liveness;
use crate::resolve::{link_limit, start_stop_section, symbols_of};

/// An object without a kept section, when GNU ld links. GNU ld checks only objects with sections for an executable stack, and a missing
/// `.note.GNU-stack` requests one. That section would remain.
pub(super) fn of_stack(link: LinkInputs<'_>, index: &Index, plan: &Plan) -> Option<PlacedLimit> {
    let LinkInputs { config, .. } = link;
    let is_gone =
        |plan: &ModulePlan| !plan.atoms.is_empty() && plan.atoms.iter().all(|action| *action == Action::Drop);
    let gone = plan.modules.iter().position(is_gone).filter(|_| config.rules().stack_by_sections)?;
    let detail =
        "nothing of the object would be left, and GNU ld would not see that it has no .note.GNU-stack";
    Some((Some(index.modules[gone].module), link_limit(Limit::LinkerMessage, detail.to_owned())))
}

/// Relocations of dropped code that the linker refuses in the plain link.
pub(super) fn of_relocations(
    link: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
) -> Option<PlacedLimit> {
    let LinkInputs { config, summaries, .. } = link;
    let refused = match config.output_kind {
        OutputKind::Pie | OutputKind::Shared | OutputKind::StaticPie => {
            atom_flags::FIXED_ADDRESS | atom_flags::RARE_RELOCATION
        }
        OutputKind::Executable => atom_flags::RARE_RELOCATION,
        OutputKind::Relocatable => return None,
    };
    let is_refused = |(module, i, atom): &(&IndexedModule, usize, &Atom)| {
        let id = AtomId::new(module.first_atom as usize + i);
        atom.flags & refused != 0
            && !index.discarded[id.index()]
            && !liveness.is_live(id)
            && (!config.gc_sections || index.plain_live(summaries)[id.index()])
    };
    let atoms = index.modules.iter().zip(summaries).flat_map(|(module, summary)| {
        summary.atoms.iter().enumerate().map(move |(i, atom)| (module, i, atom))
    });
    let (module, _, atom) = atoms.into_iter().find(is_refused)?;
    let detail = match atom.has(atom_flags::RARE_RELOCATION) {
        true => {
            "a relocation that linkers refuse: an address in 16 bits or 8, or of a type for their outputs"
                .to_owned()
        }
        false => "an absolute address in an output that may be loaded anywhere".to_owned(),
    };
    let limit = LimitRecord { section: Some(atom.section), ..link_limit(Limit::LinkError, detail) };
    Some((Some(module.module), limit))
}

/// References of dropped code, by a local name, into a COMDAT group that is discarded: most linkers refuse them in the plain link.
pub(super) fn of_discarded(link: LinkInputs<'_>, index: &Index, liveness: &Liveness) -> Option<PlacedLimit> {
    let LinkInputs { config, summaries, .. } = link;
    if !config.rules().refuses_discarded {
        return None;
    }
    let is_seen = |id: AtomId| !config.gc_sections || index.plain_live(summaries)[id.index()];
    let in_module = |(module, summary): (&IndexedModule, &&ModuleSummary)| {
        let global = |atom: AtomIdx| AtomId(module.first_atom + atom.0);
        let is_discarded = |atom: AtomIdx| index.discarded[global(atom).index()];
        if !(0..summary.atoms.len()).map(AtomIdx::new).any(is_discarded) {
            return None;
        }
        // The reference that `fall_through` adds at the end of a section has no relocation.
        let falls_through = |reference: &Reference| {
            let from = summary.atoms.get(reference.from.index());
            reference.kind == ReferenceKind::Call
                && from.is_some_and(|from| reference.offset == from.offset.saturating_add(from.size))
        };
        let is_refused = |reference: &&Reference| {
            let is_local = |symbol: SymbolIdx| {
                let symbol = &summary.symbols[symbol.index()];
                symbol.binding == Binding::Local && matches!(symbol.definition, Definition::Atom(_))
            };
            let target = match reference.target {
                Target::Symbol(symbol) if !is_local(symbol) => return false,
                target => summary.target_atom(target),
            };
            let from = global(reference.from);
            target.is_some_and(is_discarded)
                && index.alloc[from.index()]
                && !matches!(reference.kind, ReferenceKind::Unwind | ReferenceKind::Debug)
                && !falls_through(reference)
                && !index.discarded[from.index()]
                && !liveness.is_live(from)
                && is_seen(from)
        };
        let reference = summary.references.iter().find(is_refused)?;
        let detail = "a reference to a discarded section".to_owned();
        let section = summary.atoms.get(reference.from.index()).map(|atom| atom.section);
        Some((Some(module.module), LimitRecord { section, ..link_limit(Limit::LinkError, detail) }))
    };
    index.modules.par_iter().zip(summaries).find_map_first(in_module)
}

/// `__start_X` symbols that only dropped code refers to. With `--gc-sections` lld keeps the section X in the plain link only for that
/// reference. An output with exports also exports the symbol, which the linker defines only if something refers to it.
pub(super) fn of_start_stop(link: LinkInputs<'_>, index: &Index, liveness: &Liveness) -> Option<PlacedLimit> {
    let LinkInputs { config, resolution, summaries, .. } = link;
    let is_seen = |atom: AtomId| !config.gc_sections || index.plain_live(summaries)[atom.index()];
    // Without `--gc-sections` these sections are roots; other linkers keep them.
    let collects = config.lld_collects();
    // A reference to an exempt section keeps it, so a dropped one is unreferenced. Metadata is dropped with the code that it describes.
    let may_be_lost = |symbol: SymbolId, atom: AtomId| {
        let (position, local) = index.locate(atom);
        let exempt =
            start_stop_section(resolution.symbols[symbol].name).is_some_and(is_exempt_from_start_stop_gc);
        !exempt && summaries[position].atoms[local.index()].link_order.is_none()
    };
    let is_lost = |(symbol, atom): &&(SymbolId, AtomId)| {
        collects && !liveness.is_live(*atom) && is_seen(*atom) && may_be_lost(*symbol, *atom)
    };
    let lost = index.start_stop.iter().find(is_lost).copied();
    let exports = config.output_kind == OutputKind::Shared || config.export_dynamic;
    let mut mentions: Vec<(SymbolId, bool, AtomId)> = Vec::new();
    if exports && !index.start_stop.is_empty() {
        let is_mention = |(_, symbol): &&(AtomId, SymbolId)| {
            index.start_stop.binary_search_by_key(symbol, |(meant, _)| *meant).is_ok()
        };
        let external = index.external.iter().filter(is_mention);
        mentions.extend(external.map(|(from, symbol)| (*symbol, !liveness.is_live(*from), *from)));
        // Sort the references of live code first.
        mentions.sort_unstable();
        mentions.dedup_by_key(|(symbol, ..)| *symbol);
    }
    let unexported = mentions.into_iter().find(|(_, is_dead, _)| *is_dead);
    let (symbol, atom) = lost.or(unexported.map(|(symbol, _, from)| (symbol, from)))?;
    let (position, _) = index.locate(atom);
    let name = lossy(resolution.symbols[symbol].name);
    let detail = format!("only dropped code refers to {name}");
    Some((Some(index.modules[position].module), link_limit(Limit::StartStopSection, detail)))
}

/// A symbol that `--defsym`, `-init` or `-fini` names, in a part of a section. The garbage collector of mold does not treat the name as a
/// root, nor does that of wild for `--defsym`. Then the symbol is kept only because of other contents of the section.
pub(super) fn of_named_parts(link: LinkInputs<'_>, index: &Index) -> Option<PlacedLimit> {
    let LinkInputs { config, resolution, summaries, .. } = link;
    let rules = config.rules();
    if !config.gc_sections || !rules.collects_defsym {
        return None;
    }
    let by_defsym = |symbol: SymbolId| {
        let name = resolution.symbols[symbol].name;
        config.defsym.iter().any(|d| symbols_of(&d.expression).any(|word| word.as_bytes() == name))
    };
    let is_named = |root: &Root| match root.reason {
        RootReason::InitFiniSymbol => rules.collects_init,
        RootReason::Script => root.symbol.is_some_and(by_defsym),
        _ => false,
    };
    let is_part = |root: &&Root| {
        let (position, local) = index.locate(root.atom);
        let atoms = &summaries[position].atoms;
        let parts = atoms.iter().filter(|atom| atom.section == atoms[local.index()].section);
        is_named(root) && parts.count() > 1
    };
    let root = index.roots.iter().find(is_part)?;
    let name = root.symbol.map(|id| lossy(resolution.symbols[id].name)).unwrap_or_default();
    let detail = format!("an option names {name}, and the linker's --gc-sections would remove it by itself");
    Some((Some(index.modules[index.locate(root.atom).0].module), link_limit(Limit::NamedPart, detail)))
}
