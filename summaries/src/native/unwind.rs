//! References of unwind tables: an FDE keeps its targets alive only for its own function.
//!
//! `.eh_frame` is no atom. Each FDE belongs to the atom of its `pc_begin`. This atom refers, with kind
//! [`ReferenceKind::Unwind`], to the targets of the FDE (its LSDA) and of the CIE (its personality). So only live
//! functions keep an LSDA or a personality, while lld keeps every personality (ELF/MarkLive.cpp,
//! `scanEhFrameSection`). An FDE with references and without an atom is a limit.

use object::elf;
use object::endian::LittleEndian as LE;

use super::eh_frame::{self, EhFrameRecord, RecordKind};
use super::relocations::{self, Rela, symbol_of};
use super::sections::is_eh_frame;
use super::symbols::SectionAtoms;
use super::tables::{Result, Tables, malformed, record};
use crate::ids::AtomIdx;
use crate::limit::{Limit, LimitRecord};
use crate::summary::{Atom, AtomKind, Definition, ModuleSummary, Reference, ReferenceKind, Symbol, Target};

/// Append the references of every unwind section. `Err` is a malformed file. A new limit is an unwind section whose
/// references were not all read.
pub(crate) fn read(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    references: &mut Vec<Reference>,
    limits: &mut Vec<LimitRecord>,
) -> Result<()> {
    let (unwind, relas) = sections(tables)?;
    for index in unwind {
        let (own, places) = relocations_of(&relas, index);
        let scan = Scan { own, by_section, atoms, symbols };
        let strange = own.iter().find(|(_, r)| !is_of_unwind_table(relocations::type_of(r)));
        let outcome = match eh_frame::split(tables.data(index)?, &places) {
            Ok(_) if let Some((_, r)) = strange => {
                Some(format!("a relocation of type {} at {:#x}", relocations::type_of(r), r.r_offset.get(LE)))
            }
            Ok(records) => scan.records(&records, references)?,
            Err(e) => Some(e.to_string()),
        };
        if let Some(what) = outcome {
            let detail = format!("section {}: {what}", tables.describe(index));
            limits.push(record(Limit::MalformedUnwind, Some(index), detail));
        }
    }
    Ok(())
}

/// A relocation, with the index of the section that it applies to.
type PlacedRela = (u32, Rela);

/// The unwind sections, and their relocations by section and place.
fn sections(tables: &Tables<'_>) -> Result<(Vec<u32>, Vec<PlacedRela>)> {
    let unwind: Vec<u32> = (0u32..)
        .zip(&tables.sections)
        .filter(|(_, s)| s.ty != elf::SHT_RELA.0 && is_eh_frame(s.ty, tables.name(s.name)))
        .map(|(i, _)| i)
        .collect();
    let mut relas: Vec<(u32, Rela)> = Vec::new();
    for (i, section) in tables.sections.iter().enumerate() {
        if section.ty == elf::SHT_RELA.0 && unwind.binary_search(&section.info).is_ok() {
            let entries = relocations::entries(tables, i as u32, section)?;
            let telling = entries.iter().filter(|rela| !relocations::is_left_over(rela));
            relas.extend(telling.map(|rela| (section.info, *rela)));
        }
    }
    // The file may have relocations in any order.
    relas.sort_by_key(|(section, rela)| (*section, rela.r_offset.get(LE)));
    Ok((unwind, relas))
}

/// The relocations of an unwind section, and their places.
fn relocations_of(relas: &[(u32, Rela)], index: u32) -> (&[(u32, Rela)], Vec<u64>) {
    let start = relas.partition_point(|(s, _)| *s < index);
    let end = relas.partition_point(|(s, _)| *s <= index);
    let own = relas.get(start..end).unwrap_or(&[]);
    (own, own.iter().map(|(_, r)| r.r_offset.get(LE)).collect())
}

/// An FDE of a native object.
#[derive(Debug, Clone, Copy)]
pub struct FunctionEntry {
    pub atom: AtomIdx,
    /// The offset of the function in its section.
    pub begin: u64,
    /// The size of the FDE in bytes.
    pub size: u64,
}

/// The FDEs of the object `bytes` with this summary; empty if the object or a section of it is unreadable.
pub fn function_entries(bytes: &[u8], summary: &ModuleSummary) -> Vec<FunctionEntry> {
    let all = || -> Result<Vec<FunctionEntry>> {
        let tables = Tables::read(bytes)?;
        let (unwind, relas) = sections(&tables)?;
        let mut by_section = SectionAtoms(vec![None; tables.sections.len()]);
        for (i, atom) in summary.atoms.iter().enumerate().rev() {
            if let Some(first) = by_section.0.get_mut(atom.section as usize) {
                *first = Some(AtomIdx::new(i));
            }
        }
        let mut entries = Vec::new();
        for index in unwind {
            let (own, places) = relocations_of(&relas, index);
            let records = eh_frame::split(tables.data(index)?, &places);
            let records = records.map_err(|e| malformed(e.to_string()))?;
            let scan =
                Scan { own, by_section: &by_section, atoms: &summary.atoms, symbols: &summary.symbols };
            for fde in records.iter().filter(|r| matches!(r.kind, RecordKind::Fde { .. })) {
                if let FdeFunction::Atom(atom, begin) = scan.function(fde, scan.relas(fde)) {
                    entries.push(FunctionEntry { atom, begin, size: fde.size });
                }
            }
        }
        Ok(entries)
    };
    all().unwrap_or_default()
}

/// Whether a relocation of this type may be in an unwind table: an address or a distance. mold rejects other types,
/// but not in a dropped record.
fn is_of_unwind_table(ty: u32) -> bool {
    use elf::{R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PC64};
    let types = [R_X86_64_NONE, R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64];
    types.iter().any(|t| t.0 == ty)
}

/// The function that an FDE describes.
enum FdeFunction {
    /// It begins at this place of its section.
    Atom(AtomIdx, u64),
    /// It is not in this object. The linker drops such an FDE, which `ld -r` leaves for a discarded function.
    Nothing,
    Unknown,
}

struct Scan<'s> {
    own: &'s [(u32, Rela)],
    by_section: &'s SectionAtoms,
    atoms: &'s [Atom],
    symbols: &'s [Symbol],
}

impl Scan<'_> {
    /// Append the references of a section's records. The result describes an FDE without an atom.
    fn records(&self, records: &[EhFrameRecord], references: &mut Vec<Reference>) -> Result<Option<String>> {
        // By record: the atom that last got a CIE's references. Functions of a section share their CIE.
        let mut last: Vec<Option<AtomIdx>> = vec![None; records.len()];
        let mut used = vec![false; records.len()];
        let mut problem = None;
        for fde in records {
            let RecordKind::Fde { cie } = fde.kind else { continue };
            let relas = self.relas(fde);
            let from = match self.function(fde, relas) {
                FdeFunction::Atom(atom, _) => atom,
                FdeFunction::Nothing if relas.len() <= 1 => continue,
                FdeFunction::Nothing | FdeFunction::Unknown => {
                    problem.get_or_insert(format!(
                        "the FDE at {:#x} describes no section of this object",
                        fde.offset
                    ));
                    continue;
                }
            };
            let begin = fde.pc_begin();
            self.refer(from, relas.iter().filter(|(_, r)| r.r_offset.get(LE) != begin), references)?;
            let (Some(record), Some(seen), Some(mark)) =
                (records.get(cie), last.get_mut(cie), used.get_mut(cie))
            else {
                continue;
            };
            *mark = true;
            if seen.replace(from) != Some(from) {
                self.refer(from, self.relas(record).iter(), references)?;
            }
        }
        // Linkers write a CIE without FDEs too, and then its personality must be there.
        let unused = records.iter().zip(&used).find(|(r, used)| {
            r.kind == RecordKind::Cie
                && !**used
                && self.relas(r).iter().any(|(_, rela)| symbol_of(rela).0 != 0)
        });
        if let Some((cie, _)) = unused {
            problem.get_or_insert(format!("no function uses the CIE at {:#x}", cie.offset));
        }
        Ok(problem)
    }

    fn relas(&self, record: &EhFrameRecord) -> &[(u32, Rela)] {
        self.own.get(record.relocations.clone()).unwrap_or(&[])
    }

    fn function(&self, fde: &EhFrameRecord, relas: &[(u32, Rela)]) -> FdeFunction {
        let Some((_, rela)) = relas.iter().find(|(_, r)| r.r_offset.get(LE) == fde.pc_begin()) else {
            return if relas.is_empty() { FdeFunction::Nothing } else { FdeFunction::Unknown };
        };
        let symbol = symbol_of(rela);
        if symbol.0 == 0 {
            return FdeFunction::Nothing;
        }
        match self.symbols.get(symbol.index()).map(|s| s.definition) {
            Some(Definition::Atom(atom)) => {
                let Some(entry) = self.atoms.get(atom.index()).filter(|a| a.kind.is_alloc()) else {
                    return FdeFunction::Unknown;
                };
                // In a divided section, it is the part in which the function begins.
                let value = self.symbols.get(symbol.index()).map_or(0, |s| s.value);
                let begin = value.saturating_add_signed(rela.r_addend.get(LE));
                FdeFunction::Atom(self.by_section.at(self.atoms, entry.section, begin).unwrap_or(atom), begin)
            }
            _ => FdeFunction::Unknown,
        }
    }

    /// The part of a divided exception table that has the LSDA. An FDE refers to the first byte of its LSDA.
    fn lsda(&self, target: Target, addend: i64) -> Target {
        let Target::Atom(atom) = target else { return target };
        let table = self.atoms.get(atom.index()).filter(|a| a.kind == AtomKind::Lsda);
        let place = table.zip(u64::try_from(addend).ok());
        let part = place.and_then(|(table, place)| self.by_section.at(self.atoms, table.section, place));
        Target::Atom(part.unwrap_or(atom))
    }

    fn refer<'r>(
        &self,
        from: AtomIdx,
        relas: impl Iterator<Item = &'r (u32, Rela)>,
        references: &mut Vec<Reference>,
    ) -> Result<()> {
        for (_, rela) in relas {
            let target = relocations::target(self.symbols, symbol_of(rela))
                .map_err(|e| malformed(format!(".eh_frame: {}", e.detail)))?;
            if let Some(target) = target {
                let (offset, addend) = (rela.r_offset.get(LE), rela.r_addend.get(LE));
                let target = self.lsda(target, addend);
                references.push(Reference { from, offset, kind: ReferenceKind::Unwind, target, addend });
            }
        }
        Ok(())
    }
}
