//! Atoms that may become stubs: their address is needed, their body is not.
//!
//! [`can_stub`] decides by the summary of one module. For a sound stub, all references of the module to the code mean its first
//! byte. The linker must know the code by symbols of that place. A global symbol in the body, a jump or foreign table entry into it,
//! or a section with other contents exclude it. In bitcode so does the address of a label, because constants with labels are kept.
//! References from other modules go by global name, so that they mean the first byte; value flow sees their addends.
//!
//! Two stubs have the same bytes. `--icf=all` would fold them, so that it excludes stubs ([`Icf::All`]). `--icf=safe` decides by
//! `.llvm_addrsig`, which keeps the symbols of stubs. `--prune-stub-symbol` makes stubs without analysis.

use summaries::{
    Atom, AtomIdx, AtomKind, Binding, Definition, ModuleKind, ModuleSummary, Reference, ReferenceKind,
    SymbolKind, Target, atom_flags,
};

use crate::config::{Config, Icf};
use crate::ids::{AtomId, Id};
use crate::index::Index;
use crate::inputs::glob::Glob;

/// By `AtomIdx`: whether a stub may take the place of the atom.
pub fn can_stub(summary: &ModuleSummary) -> Vec<bool> {
    // The size of bitcode functions is not known.
    let is_bitcode = summary.kind == ModuleKind::Bitcode;
    let sized = |atom: &Atom| atom.size > 0 || is_bitcode;
    let mut can: Vec<bool> = summary.atoms.iter().map(|a| is_plain_code(a) && sized(a)).collect();
    let mut has_entry = vec![false; summary.atoms.len()];
    // The linker and the debugger know places of the body by these symbols.
    for symbol in &summary.symbols {
        let Definition::Atom(atom) = symbol.definition else { continue };
        let Some(start) = summary.atoms.get(atom.index()).map(|a| a.offset) else { continue };
        let bad = match symbol.kind {
            SymbolKind::Section => continue,
            SymbolKind::Func | SymbolKind::NoType if symbol.value == start => {
                // A local name without function type may be that of a part of a function.
                if symbol.kind == SymbolKind::Func || symbol.binding != Binding::Local {
                    set(&mut has_entry, atom, true);
                }
                false
            }
            SymbolKind::Func | SymbolKind::NoType => symbol.binding != Binding::Local,
            _ => true,
        };
        if bad {
            set(&mut can, atom, false);
        }
    }
    for (can, has_entry) in can.iter_mut().zip(has_entry) {
        *can &= has_entry;
    }
    for reference in &summary.references {
        if let Some(atom) = meant_beside_entry(summary, reference)
            && (atom != reference.from || is_bitcode)
        {
            set(&mut can, atom, false);
        }
    }
    can
}

fn set(flags: &mut [bool], atom: AtomIdx, value: bool) {
    if let Some(slot) = flags.get_mut(atom.index()) {
        *slot = value;
    }
}

/// Whether an atom is only code: it is not merged, enumerated by `__start_` symbols or placed by its name.
fn is_plain_code(atom: &Atom) -> bool {
    atom.kind == AtomKind::Code
        && atom.section != Atom::NO_SECTION
        && atom.has(atom_flags::STANDARD_FAMILY)
        && !atom.has(atom_flags::RETAIN | atom_flags::C_IDENTIFIER | atom_flags::MERGE | atom_flags::WRITE)
        && atom.link_order.is_none()
}

/// The atom of the module if a reference may mean another place of it than its first byte, or needs more than its address.
fn meant_beside_entry(summary: &ModuleSummary, reference: &Reference) -> Option<AtomIdx> {
    let (atom, place) = match reference.target {
        Target::Symbol(symbol) => {
            let symbol = summary.symbols.get(symbol.index())?;
            let Definition::Atom(atom) = symbol.definition else { return None };
            (atom, i64::try_from(symbol.value).ok())
        }
        Target::Atom(atom) => {
            // The addend of a resolved reference counts from the start of the atom, else from that of the section.
            let resolved = |r: &summaries::ResolvedReference| (r.field, r.from);
            let start = summary.atoms.get(atom.index())?.offset;
            let section = summary.atoms.get(reference.from.index())?.section;
            let of_section = summary.resolved.partition_point(|r| r.section < section);
            let found = summary
                .resolved
                .get(of_section..)
                .unwrap_or(&[])
                .binary_search_by_key(&(section, reference.offset), |r| (r.section, r.field))
                .ok()
                .and_then(|i| summary.resolved.get(of_section + i));
            let is_resolved = found.is_some_and(|r| resolved(r) == (reference.offset, reference.from));
            (atom, if is_resolved { i64::try_from(start).ok() } else { Some(0) })
        }
    };
    let start = i64::try_from(summary.atoms.get(atom.index())?.offset).ok();
    let from_start = place.zip(start).and_then(|(p, s)| p.checked_add(reference.addend)?.checked_sub(s));
    let is_entry = match reference.kind {
        ReferenceKind::Data => from_start == Some(0),
        // A PC-relative field of an instruction is up to eight bytes before the instruction's end.
        ReferenceKind::Call | ReferenceKind::Address => matches!(from_start, Some(0 | -4 | -5 | -6 | -8)),
        // The addend is that of the table's entry.
        ReferenceKind::Got => matches!(reference.addend, 0 | -4 | -5 | -6 | -8),
        ReferenceKind::Debug => true,
        // A personality routine is called, and thread-local storage is no code.
        ReferenceKind::Unwind | ReferenceKind::Tls => false,
    };
    (!is_entry).then_some(atom)
}

/// By atom: `--prune-stub-symbol` names it and it can be a stub. Roots are excluded, since their callers are unknown. Empty if the
/// option is absent.
pub(super) fn chosen_stubs(config: &Config, index: &Index, summaries: &[&ModuleSummary]) -> Vec<bool> {
    let patterns: Vec<Glob> = config.prune.stub_symbols.iter().map(|p| Glob::new(p)).collect();
    if patterns.is_empty() || config.icf == Icf::All {
        return Vec::new();
    }
    let mut chosen = vec![false; index.atom_count()];
    for (this, summary) in index.modules.iter().zip(summaries) {
        let mut can: Option<Vec<bool>> = None;
        for symbol in &summary.symbols {
            let Definition::Atom(atom) = symbol.definition else { continue };
            let name = summary.name(symbol.name);
            if name.is_empty() || !patterns.iter().any(|p| p.matches(name)) {
                continue;
            }
            let can = can.get_or_insert_with(|| can_stub(summary));
            let id = AtomId::new(this.first_atom as usize + atom.index());
            if let Some(slot) = chosen.get_mut(id.index()) {
                *slot = can.get(atom.index()) == Some(&true) && !index.discarded[id.index()];
            }
        }
    }
    for root in &index.roots {
        chosen[root.atom.index()] = false;
    }
    chosen
}
