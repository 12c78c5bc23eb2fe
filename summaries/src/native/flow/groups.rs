//! Function partitioning: the atoms of a function are its own and the parts that compilers have placed elsewhere.
//!
//! An atom is a part of a function in two cases:
//! - Another atom jumps into it at a place that is not a function.
//! - It has the name of a function with a suffix for parts (`.cold`, `.__part.`). Such a part may be reached by a jump table only.
//!
//! Any jump table may lead to other code without a function symbol. If there is such code, no function with an indirect jump in its frame
//! is analysed ([`FlowModule::has_loose_parts`]). An indirect jump in a frame to a function symbol is not covered.

use object::endian::LittleEndian as LE;

use super::module::FlowModule;
use super::unit::RelocatedOperand;
use crate::ids::AtomIdx;
use crate::native::decode::{self, Flow};
use crate::native::relocations::symbol_of;
use crate::native::split;
use crate::summary::{Atom, AtomKind, Definition, SymbolKind};

impl FlowModule<'_, '_> {
    /// The atoms of each function, each with the parts that belong to it.
    pub(super) fn groups(&self) -> Vec<Vec<AtomIdx>> {
        let is_candidate = |number: usize| {
            let followed =
                |a: &Atom| a.kind == AtomKind::Code && self.followed.binary_search(&a.section).is_ok();
            self.atoms.get(number).is_some_and(followed) && self.may_run(AtomIdx::new(number))
        };
        let mut parent: Vec<usize> = (0..self.atoms.len()).collect();
        let mut instructions = Vec::new();
        for (i, atom) in self.atoms.iter().enumerate().filter(|(i, _)| is_candidate(*i)) {
            let Some((section, start, bytes)) = self.code(AtomIdx::new(i)) else { continue };
            instructions.clear();
            let decoded =
                u32::try_from(start).is_ok_and(|s| decode::decode(bytes, s, &mut instructions).is_ok());
            if !decoded {
                continue;
            }
            let relas = self.relas_of(section, start, start + bytes.len() as u64);
            for instruction in &instructions {
                if !matches!(instruction.flow, Flow::Jump | Flow::Conditional) {
                    continue;
                }
                let field = instruction.displacement_at();
                let found = relas.binary_search_by_key(&field, |(_, r)| r.r_offset.get(LE)).ok();
                let to = match found.and_then(|f| relas.get(f)) {
                    Some((_, rela)) => {
                        let bias = instruction.end().wrapping_sub(field) as i64;
                        let offset = rela.r_addend.get(LE).wrapping_add(bias);
                        let symbol = self.target(symbol_of(rela), offset);
                        match symbol {
                            Some(RelocatedOperand::Place(target, offset)) => self.local(target, offset),
                            _ => None,
                        }
                    }
                    None => instruction
                        .target()
                        .and_then(|t| u64::try_from(t).ok())
                        .and_then(|t| self.place(atom.section, t)),
                };
                let Some((to, offset)) = to.filter(|(to, _)| to.index() != i) else { continue };
                let cold = |a: usize| self.cold.get(a).copied().unwrap_or(false);
                let part = cold(to.index()) || self.entries.binary_search(&(to, offset)).is_err();
                if part && is_candidate(to.index()) {
                    join(&mut parent, i, to.index());
                }
            }
        }
        for (part, of) in self.parts_by_name() {
            if [part, of].iter().all(|a| is_candidate(a.index())) {
                join(&mut parent, part.index(), of.index());
            }
        }
        let mut members: Vec<(usize, AtomIdx)> = Vec::new();
        for i in (0..self.atoms.len()).filter(|i| is_candidate(*i)) {
            members.push((root(&mut parent, i), AtomIdx::new(i)));
        }
        members.sort_unstable();
        members.chunk_by(|a, b| a.0 == b.0).map(|c| c.iter().map(|m| m.1).collect()).collect()
    }

    /// The pairs (part, function) that the names of parts give. An object may have several functions of one name (`ld -r`); each gets the
    /// part.
    fn parts_by_name(&self) -> Vec<(AtomIdx, AtomIdx)> {
        let at_start = self.symbols.iter().filter_map(|symbol| {
            let Definition::Atom(atom) = symbol.definition else { return None };
            let starts = self.atoms.get(atom.index()).is_some_and(|a| a.offset == symbol.value);
            (starts && symbol.kind != SymbolKind::Section).then(|| (self.tables.name(symbol.name), atom))
        });
        let mut named: Vec<(&[u8], AtomIdx)> = at_start.collect();
        named.sort_unstable();
        let mut pairs = Vec::new();
        for (name, part) in &named {
            let Some(name) = split::part_of(name) else { continue };
            let first = named.partition_point(|n| n.0 < name);
            let functions = named.iter().skip(first).take_while(|n| n.0 == name);
            pairs.extend(functions.map(|function| (*part, function.1)));
        }
        pairs
    }

    /// Whether there is code that belongs to no known function, analysed or not.
    pub(super) fn has_code_without_entry(&self, groups: &[Vec<AtomIdx>]) -> bool {
        let is_code = |atom: &AtomIdx| {
            self.atoms.get(atom.index()).is_some_and(|a| a.kind == AtomKind::Code && a.size > 0)
                && self.may_run(*atom)
        };
        let mut entered = vec![false; self.atoms.len()];
        let mut enter = |atom: &AtomIdx| {
            if let Some(slot) = entered.get_mut(atom.index()) {
                *slot = true;
            }
        };
        self.entries.iter().for_each(|(atom, _)| enter(atom));
        let functions = groups.iter().filter(|group| group.iter().any(|a| !self.entries_of(*a).is_empty()));
        functions.flatten().for_each(enter);
        (0..).map(AtomIdx::new).zip(entered).any(|(atom, entered)| !entered && is_code(&atom))
    }
}

fn join(parent: &mut [usize], one: usize, other: usize) {
    let (a, b) = (root(parent, one), root(parent, other));
    if let Some(slot) = parent.get_mut(a.max(b)) {
        *slot = a.min(b);
    }
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while let Some(&up) = parent.get(at).filter(|p| **p != at) {
        let next = parent.get(up).copied().unwrap_or(up);
        if let Some(slot) = parent.get_mut(at) {
            *slot = next;
        }
        at = up;
    }
    at
}
