//! Control that goes on behind the end of a section, as assembly written by hand may have it: linkers put the next section of the file there.
//!
//! The last function of such a section refers to the first one of the next section. Safe because whatever does not provably end
//! counts as going on: a jump to the end, code whose last instruction is not a jump or a return, and bytes behind the last jump
//! or return if anything may lead there. One thing is assumed: a call that ends a function with a size does not come back.
//! Compilers end a function like that if the callee never returns, and archives are shipped without the name of their compiler
//! (`strip --remove-section=.comment`).
//!
//! Left out: modules of compilers, told by their name (`.comment`), or by a group of sections where all symbols of code have a
//! type. There a function that goes on behind its end has no meaning in C, and inline assembly across sections is not looked
//! at. And data before the end that decodes as other instructions, and a jump from another section to the end behind a last call or return.

use object::elf;
use rustc_hash::FxHashMap;

use super::decode::{self, Flow, Instruction};
use super::tables::{Result, Section, Tables};
use crate::ids::AtomIdx;
use crate::summary::{Atom, AtomKind, Definition, Reference, ReferenceKind, Symbol, SymbolKind, Target};

/// Add a reference from each section of code that may go on to the next one of the same family. The result is the atoms that may.
pub(super) fn read(
    tables: &Tables<'_>,
    atoms: &[Atom],
    symbols: &[Symbol],
    references: &mut Vec<Reference>,
) -> Result<Vec<AtomIdx>> {
    if is_of_compiler(tables, atoms, symbols) {
        return Ok(Vec::new());
    }
    let code = |(_, atom): &(usize, &Atom)| atom.kind == AtomKind::Code && atom.size > 0;
    let mut code: Vec<(usize, &Atom)> = atoms.iter().enumerate().filter(code).collect();
    code.sort_by_key(|(_, atom)| (atom.section, atom.offset));
    let mut next: FxHashMap<&[u8], usize> = FxHashMap::default();
    let (mut behind, mut goes_on) = (None, Vec::new());
    let farthest = farthest(atoms, symbols, references);
    let functions_end = functions_end(atoms.len(), symbols);
    for (number, atom) in code.iter().rev() {
        let name =
            tables.sections.get(atom.section as usize).map_or(&[][..], |section| tables.name(section.name));
        let family = family(name);
        if behind.replace(atom.section) != Some(atom.section)
            && let Some(target) = next.get(family)
            && may_go_on(
                tables,
                atom,
                farthest.get(*number).copied().unwrap_or(u64::MAX),
                functions_end.get(*number).copied().unwrap_or(0),
            )?
        {
            goes_on.push(AtomIdx::new(*number));
            references.push(Reference {
                from: AtomIdx::new(*number),
                offset: atom.offset.saturating_add(atom.size),
                kind: ReferenceKind::Call,
                target: Target::Atom(AtomIdx::new(*target)),
                addend: 0,
            });
        }
        // In the end that is the first one of its section.
        next.insert(family, *number);
    }
    Ok(goes_on)
}

/// Whether a compiler made the module, as far as that can be told.
fn is_of_compiler(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> bool {
    let is_named = |section: &Section| tables.name(section.name) == b".comment";
    let is_group = |section: &Section| section.ty == elf::SHT_GROUP.0;
    // Compilers give code no symbols without a type.
    let is_label = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) => {
            symbol.kind == SymbolKind::NoType
                && atoms.get(atom.index()).is_some_and(|a| a.kind == AtomKind::Code)
        }
        _ => false,
    };
    tables.sections.iter().any(is_named)
        || tables.sections.iter().any(is_group) && !symbols.iter().any(is_label)
}

/// The name of the section that linkers put it in: `.text` of `.text.f`.
fn family(name: &[u8]) -> &[u8] {
    let dot = name.iter().skip(1).position(|byte| *byte == b'.');
    dot.and_then(|dot| name.get(..=dot)).unwrap_or(name)
}

/// By atom, the last place in its section that a symbol or a reference names, or up to 8 bytes behind it: a reference may be relative to
/// where its instruction ends.
fn farthest(atoms: &[Atom], symbols: &[Symbol], references: &[Reference]) -> Vec<u64> {
    let mut farthest = vec![0u64; atoms.len()];
    let mut name = |atom: AtomIdx, place: u64| {
        if let Some(last) = farthest.get_mut(atom.index()) {
            *last = (*last).max(place);
        }
    };
    for symbol in symbols {
        if let Definition::Atom(atom) = symbol.definition {
            name(atom, symbol.value);
        }
    }
    for reference in references {
        let (definition, value) = match reference.target {
            Target::Atom(atom) => (Definition::Atom(atom), 0),
            Target::Symbol(symbol) => match symbols.get(symbol.index()) {
                Some(symbol) => (symbol.definition, symbol.value),
                None => continue,
            },
        };
        if let Definition::Atom(atom) = definition {
            name(atom, value.saturating_add_signed(reference.addend.saturating_add(8)));
        }
    }
    farthest
}

/// By atom, where the last of its functions with a size ends, in bytes from the start of the section; 0 if there is none.
fn functions_end(atoms: usize, symbols: &[Symbol]) -> Vec<u64> {
    let mut ends = vec![0u64; atoms];
    for symbol in symbols.iter().filter(|s| s.kind == SymbolKind::Func && s.size > 0) {
        if let Definition::Atom(atom) = symbol.definition
            && let Some(end) = ends.get_mut(atom.index())
        {
            *end = (*end).max(symbol.value.saturating_add(symbol.size));
        }
    }
    ends
}

/// Whether control may leave the atom at its end. `farthest` is the last place in its section that is named, `functions_end` where the
/// last of its functions with a size ends.
fn may_go_on(tables: &Tables<'_>, atom: &Atom, farthest: u64, functions_end: u64) -> Result<bool> {
    let section = tables.data(atom.section)?;
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let bytes = section.get(at(atom.offset)..at(atom.offset.saturating_add(atom.size))).unwrap_or(&[]);
    let mut instructions = Vec::new();
    // What is no instruction ends the list.
    let is_code = decode::decode(bytes, 0, &mut instructions).is_ok();
    let ends =
        |i: &Instruction| matches!(i.flow, Flow::Jump | Flow::JumpRegister | Flow::JumpMemory | Flow::Stop);
    let is_padding =
        |i: &Instruction| decode::is_padding(bytes.get(i.offset as usize..at(i.end())).unwrap_or(&[]));
    let last = instructions.iter().rposition(|i| !is_padding(i)).unwrap_or(0);
    let end = instructions.get(last).map_or(0, Instruction::end);
    let to = |i: &Instruction| i.target().and_then(|t| u64::try_from(t).ok());
    // A near jump at the end is relocated, or it would be a short one.
    let leads_to_end = |(number, i): (usize, &Instruction)| {
        matches!(i.flow, Flow::Jump | Flow::Conditional)
            && (number != last || i.len == 2)
            && to(i).is_some_and(|to| to >= end)
    };
    let is_led_to = instructions.iter().enumerate().any(leads_to_end);
    let is_call = |i: &&Instruction| matches!(i.flow, Flow::Call | Flow::IndirectCall);
    let is_last_call = instructions.get(last).filter(is_call).is_some();
    if is_code && !is_led_to && is_last_call && atom.offset.saturating_add(end) == functions_end {
        return Ok(false);
    }
    let Some(barrier) = instructions.iter().rposition(ends) else { return Ok(true) };
    let behind = instructions.get(barrier + 1..).unwrap_or(&[]);
    if is_code && behind.iter().all(is_padding) {
        return Ok(is_led_to);
    }
    // It may be data. A part of a section has names that are not looked at here.
    let start = instructions.get(barrier).map_or(0, Instruction::end);
    let is_whole = bytes.len() == section.len();
    let leads = |i: &Instruction| {
        matches!(i.flow, Flow::JumpRegister | Flow::JumpMemory)
            || i.flow != Flow::Next && to(i).is_some_and(|to| to >= start)
    };
    Ok(!is_whole || farthest >= start || instructions.iter().any(leads))
}
