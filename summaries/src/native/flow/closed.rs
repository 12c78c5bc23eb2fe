//! Sections of hand-written code that are followed although no size and no unwind table says where their functions are.
//!
//! Such a section is *closed*: nothing in it is relocated and it calls nothing, so all that its code can do is to work on what
//! it is passed, and control stays inside until it returns. Its atom is one function with an entry at each global
//! symbol. Where functions begin and end inside makes no difference then: what counts is where control can go from an entry.
//!
//! That is safe because nobody else enters it elsewhere: no relocation of the module is against a local symbol of it
//! (entries of other modules go by global symbols, and the address of another place is a label to the solver), it is read from its
//! first byte without a gap, and its end isn't reached. Whatever else is odd in it, the walk over it refuses, as everywhere.
//! Left out: code with relocations, calls or jumps through registers, and anything that talks to the kernel.

use super::module::FlowModule;
use crate::ids::AtomIdx;
use crate::native::decode::effects::{Effects, InstructionEffect};
use crate::native::decode::{self, Flow};
use crate::native::relocations::symbol_of;
use crate::native::split::{Division, is_text};
use crate::summary::{Binding, Definition, SymbolKind};

impl FlowModule<'_, '_> {
    /// The closed sections, ascending, without those that are understood as functions.
    pub(super) fn closed_sections(&self, division: &Division) -> Vec<u32> {
        let mut closed: Vec<u32> = Vec::new();
        for (i, atom) in self.atoms.iter().enumerate() {
            let known = division.understood.binary_search(&atom.section).is_ok();
            if is_text(atom) && !known && self.is_closed(AtomIdx::new(i)) {
                closed.push(atom.section);
            }
        }
        closed.sort_unstable();
        closed.dedup();
        closed
    }

    fn is_closed(&self, atom: AtomIdx) -> bool {
        let Some((section, 0, bytes)) = self.code(atom) else { return false };
        let whole = self.tables.sections.get(section as usize).is_some_and(|s| s.size == bytes.len() as u64);
        whole
            && self.relas_of(section, 0, u64::MAX).is_empty()
            && self.is_entered_by_name(atom)
            && leaves_by_return(bytes)
    }

    /// Every symbol is where code begins, or a local one that no relocation is against.
    fn is_entered_by_name(&self, atom: AtomIdx) -> bool {
        let mut entries = 0;
        for symbol in self.symbols.iter().filter(|s| s.definition == Definition::Atom(atom)) {
            match symbol.kind {
                SymbolKind::Func | SymbolKind::NoType if symbol.binding != Binding::Local => entries += 1,
                SymbolKind::Func | SymbolKind::NoType | SymbolKind::Section => {}
                _ => return false,
            }
        }
        let against_local = self.relas.iter().any(|(_, rela)| {
            let symbol = self.symbols.get(symbol_of(rela).index());
            symbol.is_some_and(|s| s.definition == Definition::Atom(atom) && s.binding == Binding::Local)
        });
        entries > 0 && !against_local
    }

    /// The symbols that enter closed sections.
    pub(super) fn closed_entries(&self, closed: &[u32]) -> Vec<(AtomIdx, u64)> {
        let mut entries = Vec::new();
        for symbol in self.symbols.iter().filter(|s| s.binding != Binding::Local) {
            let Definition::Atom(atom) = symbol.definition else { continue };
            let code = matches!(symbol.kind, SymbolKind::Func | SymbolKind::NoType);
            if code && self.section_of(symbol).is_some_and(|s| closed.binary_search(&s).is_ok()) {
                entries.push((atom, symbol.value));
            }
        }
        entries
    }
}

/// Control stays in the bytes until it returns, and what they do is modelled.
fn leaves_by_return(bytes: &[u8]) -> bool {
    let mut instructions = Vec::new();
    if decode::decode(bytes, 0, &mut instructions).is_err() {
        return false;
    }
    let mut effects = Effects::new();
    let own = |i: &decode::Instruction| {
        let start = i.offset as usize;
        bytes.get(start..start + usize::from(i.len)).unwrap_or(&[])
    };
    let mut stays = |i: &decode::Instruction| {
        let flows = matches!(i.flow, Flow::Next | Flow::Jump | Flow::Conditional | Flow::Stop);
        flows
            && !matches!(
                effects.effect(own(i), u64::from(i.offset)),
                InstructionEffect::System | InstructionEffect::Unmodelled
            )
    };
    instructions.iter().all(&mut stays)
        && instructions.last().is_some_and(|i| matches!(i.flow, Flow::Jump | Flow::Stop))
}
