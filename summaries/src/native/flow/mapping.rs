//! Which native calls map memory at a place of the program's choice ([`crate::mapping`]).
//!
//! Told by the instructions before the call, up to where control may come from elsewhere; where a function keeps the address in a register, by
//! its calls as value flow has them. Safe because whatever is not a constant that
//! leaves the place open counts, and so does whoever does more with the address than to call it, and data that holds it. Left out: system calls by an instruction of the program's own.

use super::Module;
use crate::ids::AtomIdx;
use crate::limit::{Limit, LimitRecord};
use crate::mapping::{Mapping, mapping};
use crate::native::decode::{self, Flow, Instruction, Step, Steps};
use crate::native::relocations::symbol_of;
use crate::relation::{Callee, Constraint, FunctionSummary};
use crate::summary::Target;
use object::endian::LittleEndian as LE;

/// What an instruction does with the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It calls it, and leaves the place open.
    LeavesOpen,
    MayChoose,
    /// It takes its address.
    Takes,
}

/// Whether the function that has this atom does no more with an address that it takes than to call it.
fn keeps_to_itself(functions: &[FunctionSummary], atom: AtomIdx, target: Target) -> bool {
    let names = |c: &Constraint| matches!(c, Constraint::Address { target: to, .. } if *to == target);
    let of = functions.iter().find(|f| f.atom == atom || f.parts.contains(&atom));
    of.is_some_and(|f| !f.constraints.iter().any(names))
}

impl Module<'_, '_> {
    /// Count the calls that may choose a place.
    pub(super) fn find_mappings(&self, functions: &[FunctionSummary], limits: &mut Vec<LimitRecord>) {
        let mut instructions = Vec::new();
        let mut chooses = |atom: AtomIdx, at: u64, mapping: &Mapping| {
            let why = format!("a call of {} at {at:#x} may say where", String::from_utf8_lossy(mapping.name));
            self.limit(Limit::FixedMapping, &[atom], &why, limits);
        };
        for (section, rela) in &self.relas {
            let target = Target::Symbol(symbol_of(rela));
            let Some(mapping) = mapping(self.name(target)) else { continue };
            let at = rela.r_offset.get(LE);
            let Some((atom, _)) = self.place(*section, at) else { continue };
            let fine = self.is_code(*section)
                && match self.used(atom, at, mapping, &mut instructions) {
                    Use::LeavesOpen => true,
                    Use::MayChoose => false,
                    Use::Takes => keeps_to_itself(functions, atom, target),
                };
            if !fine {
                chooses(atom, at, mapping);
            }
        }
        // Calls through a register that holds the address.
        for function in functions {
            for site in &function.call_sites {
                let Callee::Direct { target: target @ Target::Symbol(symbol), .. } = site.callee else {
                    continue;
                };
                let Some(mapping) = mapping(self.name(target)) else { continue };
                let own = self.relas_of(site.section, site.offset, site.offset.saturating_add(8));
                let Some((atom, _)) = self.place(site.section, site.offset) else { continue };
                if own.iter().all(|(_, rela)| symbol_of(rela) != symbol)
                    && self.used(atom, site.offset, mapping, &mut instructions) != Use::LeavesOpen
                {
                    chooses(atom, site.offset, mapping);
                }
            }
        }
    }

    /// What the instruction with the byte at `at` does with the function.
    fn used(&self, atom: AtomIdx, at: u64, mapping: &Mapping, instructions: &mut Vec<Instruction>) -> Use {
        instructions.clear();
        let Some((_, start, bytes)) = self.code(atom) else { return Use::MayChoose };
        let Ok(first) = u32::try_from(start) else { return Use::MayChoose };
        if decode::decode(bytes, first, instructions).is_err() {
            return Use::MayChoose;
        }
        let has_byte = |i: &Instruction| (u64::from(i.offset)..i.end()).contains(&at);
        let Some(call) = instructions.iter().position(has_byte) else { return Use::MayChoose };
        if instructions.get(call).is_some_and(|i| matches!(i.flow, Flow::Next | Flow::Stop)) {
            return Use::Takes;
        }
        match self.leaves_the_place_open(atom, (start, bytes), (instructions, call), mapping) {
            true => Use::LeavesOpen,
            false => Use::MayChoose,
        }
    }

    /// Whether what comes before a call leaves the place open. `code` is where the atom begins, and its bytes; then all its instructions,
    /// and which of them is the call.
    fn leaves_the_place_open(
        &self,
        atom: AtomIdx,
        code: (u64, &[u8]),
        (all, call): (&[Instruction], usize),
        mapping: &Mapping,
    ) -> bool {
        let (start, bytes) = code;
        let labels = self.labels_in(&[atom]).into_iter().map(|l| l.offset).chain(self.entries_of(atom));
        let mut entered: Vec<u64> = labels.collect();
        entered.extend(all.iter().filter_map(|i| u64::try_from(i.target?).ok()));
        entered.sort_unstable();
        let mut steps = Steps::new();
        for i in all.get(..call).unwrap_or(&[]).iter().rev() {
            if entered.binary_search(&i.end()).is_ok() || !matches!(i.flow, Flow::Next | Flow::Conditional) {
                return false;
            }
            let at = usize::try_from(u64::from(i.offset).saturating_sub(start)).unwrap_or(usize::MAX);
            let own = bytes.get(at..at.saturating_add(usize::from(i.len))).unwrap_or(&[]);
            match steps.step(own) {
                Step::Constant { to, value } if to == mapping.register => {
                    return mapping.leaves_it_open(value) && !self.has_relocation(atom, i);
                }
                step if step.may_write(mapping.register) => return false,
                _ => {}
            }
        }
        false
    }

    /// What a relocation puts in a field is no constant.
    fn has_relocation(&self, atom: AtomIdx, instruction: &Instruction) -> bool {
        let section = self.atoms.get(atom.index()).map(|a| a.section);
        section.is_none_or(|s| !self.relas_of(s, u64::from(instruction.offset), instruction.end()).is_empty())
    }
}
