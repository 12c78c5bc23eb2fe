//! Control that goes on behind the end of a section, as assembly written by hand may have it: linkers put the next section of the file there.
//!
//! The last function of such a section refers to the first one of the next section. Safe because all that does not provably end
//! counts as going on, a call too, which may come back. Left out: modules in which a compiler has left its name (`.comment`): there
//! a function that goes on behind its end has no more meaning in C, and what inline assembly does across sections is not looked at.

use rustc_hash::FxHashMap;

use super::decode::{self, Flow, Instruction};
use super::tables::{Result, Tables};
use crate::ids::AtomIdx;
use crate::summary::{Atom, AtomKind, Reference, ReferenceKind, Target};

/// Add a reference from each section of code that may go on to the next one of the same family. The result is the atoms that may.
pub(super) fn read(
    tables: &Tables<'_>,
    atoms: &[Atom],
    references: &mut Vec<Reference>,
) -> Result<Vec<AtomIdx>> {
    if tables.sections.iter().any(|section| tables.name(section.name) == b".comment") {
        return Ok(Vec::new());
    }
    let code = |(_, atom): &(usize, &Atom)| atom.kind == AtomKind::Code && atom.size > 0;
    let mut code: Vec<(usize, &Atom)> = atoms.iter().enumerate().filter(code).collect();
    code.sort_by_key(|(_, atom)| (atom.section, atom.offset));
    let mut next: FxHashMap<&[u8], usize> = FxHashMap::default();
    let (mut behind, mut goes_on) = (None, Vec::new());
    for (number, atom) in code.iter().rev() {
        let name =
            tables.sections.get(atom.section as usize).map_or(&[][..], |section| tables.name(section.name));
        let family = family(name);
        if behind.replace(atom.section) != Some(atom.section)
            && let Some(target) = next.get(family)
            && may_go_on(tables, atom)?
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

/// The name of the section that linkers put it in: `.text` of `.text.f`.
fn family(name: &[u8]) -> &[u8] {
    let dot = name.iter().skip(1).position(|byte| *byte == b'.');
    dot.and_then(|dot| name.get(..=dot)).unwrap_or(name)
}

/// Whether control may leave the atom at its end.
fn may_go_on(tables: &Tables<'_>, atom: &Atom) -> Result<bool> {
    let section = tables.data(atom.section)?;
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let bytes = section.get(at(atom.offset)..at(atom.offset.saturating_add(atom.size))).unwrap_or(&[]);
    let mut instructions = Vec::new();
    if decode::decode(bytes, 0, &mut instructions).is_err() {
        return Ok(true);
    }
    let of = |i: &Instruction| bytes.get(i.offset as usize..at(i.end())).unwrap_or(&[]);
    let last = instructions.iter().rfind(|i| !decode::is_padding(of(i)));
    let ends =
        |i: &Instruction| matches!(i.flow, Flow::Jump | Flow::JumpRegister | Flow::JumpMemory | Flow::Stop);
    Ok(!last.is_some_and(ends))
}
