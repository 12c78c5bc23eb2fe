//! The address-taken analysis of an object, for `--icf=safe`: functions that are only called.
//!
//! Linkers with `--icf=safe` fold functions that `.llvm_addrsig` does not list, and not all compilers write this
//! table. A function counts as address-taken by any reference except the field of a direct call or jump in code that
//! decodes completely, and except unwind tables. This includes references that the assembler resolved
//! ([`ModuleSummary::resolved`]), and a function that takes its own address without a relocation.
//!
//! Code is foldable if its address is not taken in the object, one FDE without an exception table covers it, it has a
//! standard name, and its symbols are plain. Functions of the same bytes differ if exceptions pass through one of
//! them only. Data is never foldable. Each module is analysed for itself.

use object::endian::LittleEndian as LE;
use serde::{Deserialize, Serialize};

use super::decode::{self, Field, Flow, Instruction};
use super::eh_frame;
use super::relocations::{Rela, is_branch, symbol_of, type_of};
use super::split::relocations_beside_debug;
use super::symbols::SectionAtoms;
use super::tables::{Tables, llvm};
use crate::ids::{AtomIdx, SymbolIdx};
use crate::limit::Severity;
use crate::native::relocations::types::{R_X86_64_PC32, R_X86_64_PLT32};
use crate::summary::{Atom, AtomKind, Definition, ModuleKind, ModuleSummary, SymbolKind, atom_flags as flag};

/// The result for an object without `.llvm_addrsig`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Significance {
    /// By `AtomIdx`: code that is not address-taken in the object.
    pub foldable: Vec<bool>,
    /// By ELF symbol index: the object takes the address of the prevailing definition.
    pub mentioned: Vec<bool>,
}

/// The address-taken symbols of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// The object is not understood, so every address counts.
    Unknown,
    /// The object has an `.llvm_addrsig` that linkers read. `described`: each function that it omits has an FDE.
    Own {
        described: bool,
    },
    Found(Significance),
}

/// Analyse the object with this summary. Only atoms for which `keeps` is true count.
///
/// The time is linear, except for binary searches.
pub fn addresses(bytes: &[u8], summary: &ModuleSummary, keeps: &dyn Fn(AtomIdx) -> bool) -> Addresses {
    let table = has_table(bytes);
    if summary.kind != ModuleKind::Native
        || summary.limits.iter().any(|l| l.limit.severity() >= Severity::Module)
    {
        return if table { Addresses::Own { described: false } } else { Addresses::Unknown };
    }
    match (SignificanceReader::new(bytes, summary), table) {
        (Some(reader), true) => {
            Addresses::Own { described: reader.describes_what_is_left_out() == Some(true) }
        }
        (None, true) => Addresses::Own { described: false },
        (Some(reader), false) => Addresses::Found(reader.read(keeps)),
        (None, false) => Addresses::Unknown,
    }
}

/// The address-significance table. Linkers read it only if it is linked to the symbol table. Tools that renumber
/// symbols and do not know the table remove the link.
fn table_of(tables: &Tables<'_>) -> Option<u32> {
    let symtab = tables.symtab.as_ref()?.section;
    let found = tables.sections.iter().position(|s| s.ty == llvm::ADDRSIG && s.link == symtab)?;
    u32::try_from(found).ok()
}

fn has_table(bytes: &[u8]) -> bool {
    Tables::read(bytes).is_ok_and(|tables| table_of(&tables).is_some())
}

/// The facts of an FDE that folding needs.
struct FdeFacts {
    section: u32,
    start: u64,
    end: u64,
    /// Its only relocation is that of `pc_begin`, so there is no exception table.
    plain: bool,
}

struct SignificanceReader<'a, 's> {
    tables: Tables<'a>,
    summary: &'s ModuleSummary,
    /// The first atom of each section.
    by_section: SectionAtoms,
    /// The relocations of the module, each with its section, by section and place.
    relas: Vec<(u32, Rela)>,
    /// The FDEs, by section and start of their functions.
    descriptions: Vec<FdeFacts>,
}

impl<'a, 's> SignificanceReader<'a, 's> {
    fn new(bytes: &'a [u8], summary: &'s ModuleSummary) -> Option<Self> {
        let tables = Tables::read(bytes).ok()?;
        let mut by_section = SectionAtoms(vec![None; tables.sections.len()]);
        for (i, atom) in summary.atoms.iter().enumerate() {
            if let Some(slot) = by_section.0.get_mut(atom.section as usize)
                && slot.is_none()
            {
                *slot = Some(AtomIdx::new(i));
            }
        }
        let relas = relocations_beside_debug(&tables, &by_section).ok()?;
        let mut reader = SignificanceReader { tables, summary, by_section, relas, descriptions: Vec::new() };
        reader.descriptions = reader.read_descriptions()?;
        Some(reader)
    }

    fn relas_of(&self, section: u32, start: u64, end: u64) -> &[(u32, Rela)] {
        let from = self.relas.partition_point(|(s, r)| (*s, r.r_offset.get(LE)) < (section, start));
        let to = self.relas.partition_point(|(s, r)| (*s, r.r_offset.get(LE)) < (section, end));
        self.relas.get(from..to).unwrap_or(&[])
    }

    fn read_descriptions(&self) -> Option<Vec<FdeFacts>> {
        let mut found = Vec::new();
        for unwind in eh_frame::sections(&self.tables).ok()? {
            unwind.records.as_ref().ok()?;
            for fde in unwind.fdes() {
                let Some(rela) = unwind.begin(fde) else { continue };
                let Some(symbol) = self.summary.symbols.get(symbol_of(rela).index()) else { continue };
                let Definition::Atom(atom) = symbol.definition else { continue };
                let section = self.summary.atoms.get(atom.index())?.section;
                let start = symbol.value.checked_add_signed(rela.r_addend.get(LE))?;
                let end = start.checked_add(unwind.length(fde, eh_frame::width(rela)?)?)?;
                found.push(FdeFacts { section, start, end, plain: unwind.relas_of(fde).len() == 1 });
            }
        }
        found.sort_by_key(|d| (d.section, d.start, d.end));
        Some(found)
    }

    /// The FDEs that begin in a range of a section.
    fn descriptions_in(&self, section: u32, start: u64, end: u64) -> &[FdeFacts] {
        let from = self.descriptions.partition_point(|d| (d.section, d.start) < (section, start));
        let to = self.descriptions.partition_point(|d| (d.section, d.start) < (section, end));
        self.descriptions.get(from..to).unwrap_or(&[])
    }

    /// Whether each function that the object's own table omits has an FDE; `None` if the table is unreadable.
    fn describes_what_is_left_out(&self) -> Option<bool> {
        let mut data = self.tables.data(table_of(&self.tables)?).ok()?;
        let mut listed = vec![false; self.summary.symbols.len()];
        while !data.is_empty() {
            let end = data.iter().position(|b| b & 0x80 == 0)?;
            let (bytes, rest) = data.split_at_checked(end.checked_add(1)?)?;
            data = rest;
            let index = bytes
                .iter()
                .rev()
                .try_fold(0usize, |n, b| n.checked_mul(128).map(|n| n | usize::from(b & 0x7f)))?;
            *listed.get_mut(index)? = true;
        }
        // By section of code: whether a symbol of it is listed, and whether it has a function.
        let mut by_name = vec![(false, false); self.tables.sections.len()];
        let mut described = true;
        for (symbol, listed) in self.summary.symbols.iter().zip(listed) {
            let Definition::Atom(atom) = symbol.definition else { continue };
            let Some(atom) = self.summary.atoms.get(atom.index()).filter(|a| a.has(flag::EXEC)) else {
                continue;
            };
            let Some((any_listed, any_function)) = by_name.get_mut(atom.section as usize) else { continue };
            *any_listed |= listed;
            if matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc) {
                *any_function = true;
                let value = symbol.value;
                let own = self.descriptions_in(atom.section, 0, value.saturating_add(1));
                described &= listed || own.iter().any(|d| value < d.end);
            }
        }
        for atom in self.summary.atoms.iter().filter(|a| a.has(flag::EXEC) && a.size > 0) {
            let (listed, function) = by_name.get(atom.section as usize).copied().unwrap_or_default();
            let any = !self.descriptions_in(atom.section, 0, u64::MAX).is_empty();
            described &= listed || function || any;
        }
        Some(described)
    }

    fn read(&self, keeps: &dyn Fn(AtomIdx) -> bool) -> Significance {
        let count = self.summary.atoms.len();
        let mut found = AddressFacts {
            address_taken: vec![false; count],
            mentioned: vec![false; self.summary.symbols.len()],
        };
        let mut instructions = Vec::new();
        for (i, atom) in self.summary.atoms.iter().enumerate() {
            let index = AtomIdx::new(i);
            if keeps(index) && atom.kind.is_alloc() && atom.section != Atom::NO_SECTION {
                self.atom(index, atom, &mut instructions, &mut found);
            }
        }
        for symbol in &self.summary.symbols {
            if let Definition::Atom(atom) = symbol.definition
                && !matches!(symbol.kind, SymbolKind::Section | SymbolKind::Func | SymbolKind::NoType)
            {
                found.form(atom);
            }
        }
        let may = |(i, atom): (usize, &Atom)| {
            let address_taken = found.address_taken.get(i) != Some(&false);
            !address_taken && keeps(AtomIdx::new(i)) && is_plain_code(atom) && self.is_described(atom)
        };
        let foldable = self.summary.atoms.iter().enumerate().map(may).collect();
        Significance { foldable, mentioned: found.mentioned }
    }

    /// Whether one FDE without an exception table covers the atom except padding.
    fn is_described(&self, atom: &Atom) -> bool {
        let end = atom.offset.saturating_add(atom.size);
        let [only] = self.descriptions_in(atom.section, atom.offset, end) else { return false };
        only.plain
            && only.start == atom.offset
            && only.end > only.start
            && only.end <= end
            && self.bytes(atom.section, only.end, end).is_some_and(decode::is_padding)
    }

    fn bytes(&self, section: u32, start: u64, end: u64) -> Option<&'a [u8]> {
        self.tables.data(section).ok()?.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Note the addresses that a kept atom takes.
    fn atom(
        &self,
        index: AtomIdx,
        atom: &Atom,
        instructions: &mut Vec<Instruction>,
        found: &mut AddressFacts,
    ) {
        let end = atom.offset.saturating_add(atom.size);
        let next = self.summary.atoms.get(index.index() + 1).filter(|a| a.section == atom.section);
        // `.reloc ., R_X86_64_NONE` has its relocation behind the last atom.
        let relas = self.relas_of(atom.section, atom.offset, next.map_or(u64::MAX, |n| n.offset));
        instructions.clear();
        let bytes = if atom.has(flag::EXEC) { self.bytes(atom.section, atom.offset, end) } else { None };
        let decoded = bytes
            .filter(|b| u32::try_from(atom.offset).is_ok_and(|o| decode::decode(b, o, instructions).is_ok()));
        let Some(bytes) = decoded else {
            found.form(index);
            let from =
                self.summary.resolved.partition_point(|r| (r.section, r.field) < (atom.section, atom.offset));
            let own = self.summary.resolved.iter().skip(from);
            let own = own.take_while(|r| r.section == atom.section && r.field < end);
            own.for_each(|r| found.form(r.target));
            relas.iter().for_each(|(_, rela)| self.mention(atom.section, rela, found));
            return;
        };
        let code = FoldableCode { atom, bytes, relas };
        if code.has_own_lea() {
            found.form(index);
        }
        let mut rest = relas;
        for instruction in instructions.iter() {
            while let Some(((_, rela), behind)) = rest.split_first() {
                if rela.r_offset.get(LE) >= instruction.end() {
                    break;
                }
                if !code.is_branch(instruction, rela) {
                    self.mention(atom.section, rela, found);
                }
                rest = behind;
            }
            self.unrelocated(&code, index, instruction, found);
        }
        rest.iter().for_each(|(_, rela)| self.mention(atom.section, rela, found));
    }

    /// Note the address that an instruction without a relocation takes.
    fn unrelocated(
        &self,
        code: &FoldableCode<'_, '_>,
        index: AtomIdx,
        instruction: &Instruction,
        found: &mut AddressFacts,
    ) {
        let Some(target) = instruction.target() else { return };
        let field = instruction.displacement_at();
        if code.relas.binary_search_by_key(&field, |(_, r)| r.r_offset.get(LE)).is_ok() {
            return;
        }
        let place = (code.atom.section, field);
        let resolved = self.summary.resolved.binary_search_by_key(&place, |r| (r.section, r.field));
        let to = resolved.ok().and_then(|r| self.summary.resolved.get(r)).map(|r| r.target);
        let branch = !matches!(instruction.field, Field::RipRelative { .. });
        let inside = u64::try_from(target)
            .is_ok_and(|t| t >= code.atom.offset && t - code.atom.offset < code.atom.size);
        match to {
            Some(to) if !(branch && code.is_jump(field)) => found.form(to),
            Some(_) => {}
            // A call of the next instruction pushes its address.
            None if branch
                && inside
                && !(instruction.flow == Flow::Call && target == instruction.end() as i64) => {}
            None => found.form(index),
        }
    }

    /// Note that a relocation takes the address of its target.
    fn mention(&self, section: u32, rela: &Rela, found: &mut AddressFacts) {
        let index: SymbolIdx = symbol_of(rela);
        let Some(symbol) = self.summary.symbols.get(index.index()) else { return };
        if let Some(slot) = found.mentioned.get_mut(index.index()) {
            *slot = true;
        }
        let Definition::Atom(atom) = symbol.definition else { return };
        let Some(target) =
            self.summary.atoms.get(atom.index()).filter(|_| symbol.kind == SymbolKind::Section)
        else {
            return found.form(atom);
        };
        if let Some(meant) = self.summary.retarget_at(section, rela.r_offset.get(LE)) {
            return found.form(meant);
        }
        // Without a known target, it may be any atom of the section.
        let first = self.by_section.get(target.section).map_or(0, AtomIdx::index);
        let of_section = self.summary.atoms.iter().skip(first).take_while(|a| a.section == target.section);
        (first..first + of_section.count()).for_each(|i| found.form(AtomIdx::new(i)));
    }
}

/// Whether code is plain: it is not merged, not found by name, and placed by the family of its name only.
fn is_plain_code(atom: &Atom) -> bool {
    atom.kind == AtomKind::Code
        && atom.size > 0
        && atom.has(flag::STANDARD_FAMILY)
        && !atom.has(flag::RETAIN | flag::C_IDENTIFIER | flag::MERGE | flag::WRITE | flag::LINK_ORDER)
}

struct AddressFacts {
    /// By atom: its address is taken.
    address_taken: Vec<bool>,
    mentioned: Vec<bool>,
}

impl AddressFacts {
    fn form(&mut self, atom: AtomIdx) {
        if let Some(slot) = self.address_taken.get_mut(atom.index()) {
            *slot = true;
        }
    }
}

/// The bytes of an atom that decodes, with its relocations.
struct FoldableCode<'a, 'r> {
    atom: &'r Atom,
    bytes: &'a [u8],
    relas: &'r [(u32, Rela)],
}

impl FoldableCode<'_, '_> {
    /// Whether a relocation is the distance of a direct call or jump.
    fn is_branch(&self, instruction: &Instruction, rela: &Rela) -> bool {
        let field = rela.r_offset.get(LE);
        // PC32 and PLT32.
        matches!(type_of(rela), R_X86_64_PC32 | R_X86_64_PLT32)
            && instruction.field == Field::Branch
            && instruction.displacement_at() == field
            && self.is_jump(field)
    }

    /// Whether a direct call or jump of 32 bits has its opcode before the field. `xbegin` does not count.
    fn is_jump(&self, field: u64) -> bool {
        field.checked_sub(self.atom.offset).is_some_and(|at| is_branch(self.bytes, at))
    }

    /// Whether the bytes of a `lea` of a place in the atom are anywhere, at any boundary. Verification looks at bytes
    /// alone, and finds the same.
    fn has_own_lea(&self) -> bool {
        let own = |(at, window): (usize, &[u8; 7])| {
            let [0x48..=0x4f, 0x8d, operand, a, b, c, d] = *window else { return false };
            let field = self.atom.offset.saturating_add(at as u64).saturating_add(3);
            let relocated = || self.relas.binary_search_by_key(&field, |(_, r)| r.r_offset.get(LE)).is_ok();
            let target = (at as i64 + 7).checked_add(i64::from(i32::from_le_bytes([a, b, c, d])));
            let inside = target.is_some_and(|t| (0..self.bytes.len() as i64).contains(&t));
            operand & 0xc7 == 5 && inside && !relocated()
        };
        self.bytes.array_windows().enumerate().any(own)
    }
}
