//! Which native calls map memory at a place of the program's choice ([`crate::mapping`]).
//!
//! Told by the instructions before the call, up to where control may come from elsewhere. Safe because whatever is not a constant that
//! leaves the place open counts, and so does data that holds the address of one. Left out: system calls by an instruction of the program's own.

use super::Module;
use crate::ids::AtomIdx;
use crate::limit::{Limit, LimitRecord};
use crate::mapping::{Mapping, mapping};
use crate::native::decode::{self, Flow, Instruction, Step, Steps};
use crate::native::relocations::symbol_of;
use crate::summary::Target;
use object::endian::LittleEndian as LE;

impl Module<'_, '_> {
    /// Count the calls that may choose a place.
    pub(super) fn find_mappings(&self, limits: &mut Vec<LimitRecord>) {
        let mut instructions = Vec::new();
        for (section, rela) in &self.relas {
            let Some(mapping) = mapping(self.name(Target::Symbol(symbol_of(rela)))) else { continue };
            let at = rela.r_offset.get(LE);
            let Some((atom, _)) = self.place(*section, at) else { continue };
            let is_data = !self.is_code(*section);
            if is_data || !self.leaves_the_place_open(atom, at, mapping, &mut instructions) {
                let why =
                    format!("a call of {} at {at:#x} may say where", String::from_utf8_lossy(mapping.name));
                self.limit(Limit::FixedMapping, &[atom], &why, limits);
            }
        }
    }

    /// Whether the instruction with the field at `field` calls the function and says no place.
    fn leaves_the_place_open(
        &self,
        atom: AtomIdx,
        field: u64,
        mapping: &Mapping,
        instructions: &mut Vec<Instruction>,
    ) -> bool {
        instructions.clear();
        let Some((_, start, bytes)) = self.code(atom) else { return false };
        let Ok(first) = u32::try_from(start) else { return false };
        if decode::decode(bytes, first, instructions).is_err() {
            return false;
        }
        let has_field = |i: &Instruction| (u64::from(i.offset)..i.end()).contains(&field);
        let Some(call) = instructions.iter().position(has_field) else { return false };
        // What takes the address may call it anyhow, with anything.
        if instructions.get(call).is_some_and(|i| matches!(i.flow, Flow::Next | Flow::Stop)) {
            return false;
        }
        let labels = self.labels_in(&[atom]).into_iter().map(|l| l.offset).chain(self.entries_of(atom));
        let mut entered: Vec<u64> = labels.collect();
        entered.extend(instructions.iter().filter_map(|i| u64::try_from(i.target?).ok()));
        entered.sort_unstable();
        let mut steps = Steps::new();
        for i in instructions.get(..call).unwrap_or(&[]).iter().rev() {
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
