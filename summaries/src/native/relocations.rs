//! The references of relocations: one for each relocation of an allocated atom, with the kind of its type.
//!
//! Every relocation counts, also `R_X86_64_NONE`, which assemblers use to keep a section. Relocations against the
//! null symbol refer to nothing. Sections that are not allocated keep nothing alive, and debug information may have
//! millions of relocations, so they are not read. Types: x86-64 psABI, "Relocation Types".

use object::elf;
use object::endian::LittleEndian as LE;
use object::pod;

use super::symbols::SectionAtoms;
use super::tables::{Result, Section, Tables, malformed, record};
use crate::ids::{AtomIdx, SymbolIdx};
use crate::limit::{Limit, LimitRecord};
use crate::summary::{
    Atom, AtomKind, Binding, Definition, OwnedRange, Reference, ReferenceKind, Retarget, Symbol, SymbolKind,
    Target,
};

/// Relocation types as numbers, for patterns (psABI x86-64, "Relocation Types").
pub(crate) mod types {
    use object::elf;

    macro_rules! numbers {
        ($($name:ident)*) => { $(pub(crate) const $name: u32 = elf::$name.0;)* };
    }

    numbers! {
        R_X86_64_NONE R_X86_64_64 R_X86_64_PC32 R_X86_64_GOT32 R_X86_64_PLT32 R_X86_64_COPY
        R_X86_64_GLOB_DAT R_X86_64_JUMP_SLOT R_X86_64_RELATIVE R_X86_64_GOTPCREL R_X86_64_32 R_X86_64_32S
        R_X86_64_16 R_X86_64_PC16 R_X86_64_8 R_X86_64_PC8 R_X86_64_DTPMOD64 R_X86_64_DTPOFF64
        R_X86_64_TPOFF64 R_X86_64_TLSGD R_X86_64_TLSLD R_X86_64_DTPOFF32 R_X86_64_GOTTPOFF R_X86_64_TPOFF32
        R_X86_64_PC64 R_X86_64_GOTOFF64 R_X86_64_GOTPC32 R_X86_64_GOT64 R_X86_64_GOTPCREL64 R_X86_64_GOTPC64
        R_X86_64_GOTPLT64 R_X86_64_PLTOFF64 R_X86_64_SIZE32 R_X86_64_SIZE64 R_X86_64_GOTPC32_TLSDESC
        R_X86_64_TLSDESC_CALL R_X86_64_TLSDESC R_X86_64_IRELATIVE R_X86_64_RELATIVE64 R_X86_64_GOTPCRELX
        R_X86_64_REX_GOTPCRELX R_X86_64_CODE_4_GOTPCRELX R_X86_64_CODE_4_GOTTPOFF
        R_X86_64_CODE_4_GOTPC32_TLSDESC R_X86_64_CODE_5_GOTPCRELX R_X86_64_CODE_5_GOTTPOFF
        R_X86_64_CODE_5_GOTPC32_TLSDESC R_X86_64_CODE_6_GOTPCRELX R_X86_64_CODE_6_GOTTPOFF
        R_X86_64_CODE_6_GOTPC32_TLSDESC
    }
    /// `R_X86_64_PC32` of a branch with a `bnd` prefix, in the psABI before 1.0.
    pub(crate) const PC32_BND: u32 = 39;
    /// `R_X86_64_PLT32` behind a `bnd` prefix, which assemblers of MPX code wrote.
    pub(crate) const PLT32_BND: u32 = 40;
}

use types::*;

/// A relocation entry, as it lies in the file.
pub(crate) type Rela = elf::Rela64<LE>;

/// The symbol of a relocation (`ELF64_R_SYM`).
pub(crate) fn symbol_of(rela: &Rela) -> SymbolIdx {
    SymbolIdx((rela.r_info.get(LE) >> 32) as u32)
}

/// The type of a relocation (`ELF64_R_TYPE`).
pub(crate) fn type_of(rela: &Rela) -> u32 {
    rela.r_info.get(LE) as u32
}

/// Whether the addend has no meaning: the relocation means an entry of the global offset table, a size, or nothing.
pub(crate) fn ignores_addend(ty: u32) -> bool {
    matches!(ty, R_X86_64_NONE | R_X86_64_SIZE32 | R_X86_64_SIZE64)
        || matches!(class(ty), Some(RelocationClass::Got))
}

/// The class of a relocation type; `None` for a type that the psABI does not have.
fn class(ty: u32) -> Option<RelocationClass> {
    Some(match ty {
        R_X86_64_NONE | R_X86_64_64 | R_X86_64_PC32 | R_X86_64_32 | R_X86_64_32S | R_X86_64_16
        | R_X86_64_PC16 | R_X86_64_8 | R_X86_64_PC8 | R_X86_64_PC64 | R_X86_64_GOTOFF64
        | R_X86_64_GOTPC32 | R_X86_64_GOTPC64 | R_X86_64_PLTOFF64 | R_X86_64_SIZE32 | R_X86_64_SIZE64
        | PC32_BND => RelocationClass::Address,
        R_X86_64_PLT32 | PLT32_BND => RelocationClass::Plt,
        R_X86_64_GOT32
        | R_X86_64_GOTPCREL
        | R_X86_64_GOT64
        | R_X86_64_GOTPCREL64
        | R_X86_64_GOTPLT64
        | R_X86_64_GOTPCRELX
        | R_X86_64_REX_GOTPCRELX
        | R_X86_64_CODE_4_GOTPCRELX
        | R_X86_64_CODE_5_GOTPCRELX
        | R_X86_64_CODE_6_GOTPCRELX => RelocationClass::Got,
        R_X86_64_DTPMOD64
        | R_X86_64_DTPOFF64
        | R_X86_64_TPOFF64
        | R_X86_64_TLSGD
        | R_X86_64_TLSLD
        | R_X86_64_DTPOFF32
        | R_X86_64_GOTTPOFF
        | R_X86_64_TPOFF32
        | R_X86_64_GOTPC32_TLSDESC
        | R_X86_64_TLSDESC_CALL
        | R_X86_64_TLSDESC
        | R_X86_64_CODE_4_GOTTPOFF
        | R_X86_64_CODE_4_GOTPC32_TLSDESC
        | R_X86_64_CODE_5_GOTTPOFF
        | R_X86_64_CODE_5_GOTPC32_TLSDESC
        | R_X86_64_CODE_6_GOTTPOFF
        | R_X86_64_CODE_6_GOTPC32_TLSDESC => RelocationClass::Tls,
        // Only linkers write these, and they reject them in an input.
        R_X86_64_COPY | R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT | R_X86_64_RELATIVE | R_X86_64_IRELATIVE
        | R_X86_64_RELATIVE64 => RelocationClass::Address,
        _ => return None,
    })
}

/// Whether a relocation of this type means thread-local storage.
pub(crate) fn is_thread_local(ty: u32) -> bool {
    matches!(class(ty), Some(RelocationClass::Tls))
}

/// The number of bytes that a relocation of this type changes; `None` for `NONE` and `TLSDESC_CALL`, which change none.
pub(crate) fn width(ty: u32) -> Option<u8> {
    match ty {
        R_X86_64_NONE | R_X86_64_TLSDESC_CALL => None,
        R_X86_64_8 | R_X86_64_PC8 => Some(1),
        R_X86_64_16 | R_X86_64_PC16 => Some(2),
        R_X86_64_64 | R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT | R_X86_64_RELATIVE | R_X86_64_DTPMOD64
        | R_X86_64_DTPOFF64 | R_X86_64_TPOFF64 | R_X86_64_PC64 | R_X86_64_GOTOFF64 | R_X86_64_GOT64
        | R_X86_64_GOTPCREL64 | R_X86_64_GOTPC64 | R_X86_64_GOTPLT64 | R_X86_64_PLTOFF64
        | R_X86_64_SIZE64 | R_X86_64_TLSDESC | R_X86_64_IRELATIVE | R_X86_64_RELATIVE64 => Some(8),
        _ => Some(4),
    }
}

/// The minimum number of bytes that a relocation of this type changes. A type that the psABI does not have may change none.
fn least_width(ty: u32) -> u64 {
    class(ty).and_then(|_| width(ty)).map_or(0, u64::from)
}

enum RelocationClass {
    Address,
    Plt,
    Got,
    Tls,
}

/// The target of a symbol: the atom for a section symbol, and `None` for the null symbol.
pub(crate) fn target(symbols: &[Symbol], symbol: SymbolIdx) -> Result<Option<Target>> {
    if symbol.0 == 0 {
        return Ok(None);
    }
    let entry = symbols.get(symbol.index()).ok_or_else(|| {
        malformed(format!("a relocation refers to symbol {} of {}", symbol.0, symbols.len()))
    })?;
    Ok(Some(match entry {
        // A section symbol with a value would change the addend. No assembler writes one.
        Symbol {
            kind: SymbolKind::Section,
            definition: Definition::Atom(atom),
            binding: Binding::Local,
            value: 0,
            ..
        } => Target::Atom(*atom),
        _ => Target::Symbol(symbol),
    }))
}

/// Whether a relocation of an unwind section is one that `ld.bfd -r` leaves of a dropped record. It may be at any
/// place of another one.
pub(crate) fn is_left_over(rela: &Rela) -> bool {
    type_of(rela) == elf::R_X86_64_NONE.0 && symbol_of(rela).0 == 0
}

/// The entries of relocation section `index`.
pub(crate) fn entries<'a>(tables: &Tables<'a>, index: u32, section: &Section) -> Result<&'a [Rela]> {
    let bad = |what: &str| malformed(format!("section {}: {what}", tables.describe(index)));
    let data = tables.data(index)?;
    let entry = size_of::<Rela>();
    if data.is_empty() {
        return Ok(&[]);
    }
    if section.entsize != entry as u64 || data.len() % entry != 0 {
        return Err(bad("relocations of odd size"));
    }
    if tables.symtab.as_ref().map(|s| s.section) != Some(section.link) {
        return Err(bad("relocations for another symbol table"));
    }
    if section.info == 0 || section.info as usize >= tables.sections.len() {
        return Err(bad(&format!("relocations of section {} of {}", section.info, tables.sections.len())));
    }
    pod::slice_from_bytes::<Rela>(data, data.len() / entry)
        .map(|(e, _)| e)
        .map_err(|()| bad("unreadable relocations"))
}

/// The targets of relocations of divided sections that the relocations alone do not tell, both sorted by place.
#[derive(Clone, Copy)]
pub(crate) struct DividedTargets<'m> {
    /// Some section of the module has several atoms.
    pub(crate) divided: bool,
    pub(crate) owned: &'m [OwnedRange],
    pub(crate) retargets: &'m [Retarget],
}

impl DividedTargets<'_> {
    /// The atom that refers by a relocation at this offset of a data atom.
    fn owner(&self, atom: AtomIdx, offset: u64) -> AtomIdx {
        let found = self.owned.partition_point(|o| (o.atom, o.start) <= (atom, offset)).checked_sub(1);
        let range = found.and_then(|f| self.owned.get(f)).filter(|o| o.atom == atom && offset < o.end);
        range.map_or(atom, |o| o.owner)
    }

    fn target(&self, section: u32, offset: u64, target: Target) -> Target {
        let found = self.retargets.binary_search_by_key(&(section, offset), |r| (r.section, r.offset));
        match (target, found.ok().and_then(|f| self.retargets.get(f))) {
            (Target::Atom(_), Some(retarget)) => Target::Atom(retarget.target),
            _ => target,
        }
    }
}

/// Types for outputs only. At least one linker rejects each of them in an object.
const ONLY_IN_OUTPUTS: [elf::RelocationType; 9] = [
    elf::R_X86_64_COPY,
    elf::R_X86_64_GLOB_DAT,
    elf::R_X86_64_JUMP_SLOT,
    elf::R_X86_64_RELATIVE,
    elf::R_X86_64_DTPMOD64,
    elf::R_X86_64_TPOFF64,
    elf::R_X86_64_TLSDESC,
    elf::R_X86_64_IRELATIVE,
    elf::R_X86_64_RELATIVE64,
];

/// Set [`FIXED_ADDRESS`](crate::atom_flags::FIXED_ADDRESS) and [`RARE_RELOCATION`](crate::atom_flags::RARE_RELOCATION) on the atoms that have such relocations.
pub(crate) fn mark_fixed_addresses(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &mut [Atom],
) -> Result<()> {
    for (i, section) in tables.sections.iter().enumerate().filter(|(_, s)| s.ty == elf::SHT_RELA.0) {
        let Some(first) = by_section.get(section.info) else { continue };
        let Some(atom) = atoms.get(first.index()).filter(|a| a.kind.is_alloc()) else { continue };
        let narrow = [elf::R_X86_64_32, elf::R_X86_64_32S, elf::R_X86_64_16, elf::R_X86_64_8];
        let wide = (!atom.has(crate::atom_flags::WRITE)).then_some(elf::R_X86_64_64);
        let short = [elf::R_X86_64_16, elf::R_X86_64_8, elf::R_X86_64_PC16, elf::R_X86_64_PC8];
        for rela in entries(tables, i as u32, section)? {
            let is_short = short.iter().any(|ty| ty.0 == type_of(rela));
            let is_refused = ONLY_IN_OUTPUTS.iter().any(|ty| ty.0 == type_of(rela));
            let is_absolute = narrow.iter().chain(&wide).any(|ty| ty.0 == type_of(rela));
            if is_refused || symbol_of(rela).0 != 0 && (is_absolute || is_short) {
                let at = by_section.at(atoms, section.info, rela.r_offset.get(LE)).unwrap_or(first);
                if let Some(atom) = atoms.get_mut(at.index()) {
                    atom.flags |=
                        if is_absolute && !is_refused { crate::atom_flags::FIXED_ADDRESS } else { 0 };
                    atom.flags |= if is_short || is_refused { crate::atom_flags::RARE_RELOCATION } else { 0 };
                }
            }
        }
    }
    Ok(())
}

/// Append the references of every allocated atom, in file order of the relocation sections.
pub(crate) fn read(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    divided_targets: DividedTargets<'_>,
    references: &mut Vec<Reference>,
    limits: &mut Vec<LimitRecord>,
) -> Result<()> {
    for (i, section) in tables.sections.iter().enumerate() {
        if section.ty != elf::SHT_RELA.0 {
            continue;
        }
        let index = i as u32;
        let Some(from) = by_section.get(section.info) else { continue };
        let Some(atom) = atoms.get(from.index()).filter(|a| a.kind.is_alloc()) else { continue };
        let relas = entries(tables, index, section)?;
        references.reserve(relas.len());
        let start = references.len();
        let code = if is_code(atom) { tables.data(section.info)? } else { &[] };
        let of = tables.sections.get(section.info as usize);
        let unknown = append(relas, of, code, from, atom, symbols, references)
            .map_err(|e| malformed(format!("section {}: {}", tables.describe(index), e.detail)))?;
        if divided_targets.divided {
            for reference in references.get_mut(start..).unwrap_or(&mut []) {
                let offset = reference.offset;
                reference.target = divided_targets.target(section.info, offset, reference.target);
                let at = by_section.at(atoms, section.info, offset).unwrap_or(from);
                reference.from = divided_targets.owner(at, offset);
            }
        }
        if let Some(rela) = unknown {
            let (ty, place) = (type_of(rela), rela.r_offset.get(LE));
            let name = symbols.get(symbol_of(rela).index()).map_or(&[][..], |s| tables.name(s.name));
            let name = String::from_utf8_lossy(name);
            let detail = format!(
                "section {}: relocation type {ty} at {place:#x} against symbol {} ({name})",
                tables.describe(index),
                symbol_of(rela).0
            );
            limits.push(record(Limit::UnknownRelocation, Some(section.info), detail));
        }
    }
    Ok(())
}

fn is_code(atom: &Atom) -> bool {
    atom.kind == AtomKind::Code || atom.has(crate::atom_flags::EXEC)
}

/// Whether a PC-relative field is the target of a near branch, by the opcode before it: `call`, `jmp` or `jcc`.
/// Assemblers use the same relocation for local branches and for other operands. Before the displacement of an
/// operand is a ModRM byte below 0x40. The kind of a reference does not decide what is kept.
pub(crate) fn is_branch(code: &[u8], field: u64) -> bool {
    let before = usize::try_from(field).ok().and_then(|field| code.get(..field)).unwrap_or(&[]);
    matches!(before, [.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f])
}

/// Append the references of one atom. Returns the first relocation of unknown type.
fn append<'a>(
    relas: &'a [Rela],
    section: Option<&Section>,
    code: &[u8],
    from: AtomIdx,
    atom: &Atom,
    symbols: &[Symbol],
    references: &mut Vec<Reference>,
) -> Result<Option<&'a Rela>> {
    let plain = if is_code(atom) {
        (ReferenceKind::Address, ReferenceKind::Call)
    } else {
        (ReferenceKind::Data, ReferenceKind::Data)
    };
    let mut unknown = None;
    // The size of the whole section, since the atom may be a part.
    let size = section.map_or(atom.size, |s| s.size);
    for rela in relas {
        let offset = rela.r_offset.get(LE);
        // GNU ld rejects a field outside of the section. `.reloc ., R_X86_64_NONE` may be at its end.
        if offset.checked_add(least_width(type_of(rela))).is_none_or(|end| end > size) {
            return Err(malformed(format!("a relocation at {offset:#x} of {size:#x} bytes")));
        }
        let kind = match class(type_of(rela)) {
            Some(RelocationClass::Address)
                if type_of(rela) == types::R_X86_64_PC32 && is_branch(code, offset) =>
            {
                plain.1
            }
            Some(RelocationClass::Address) => plain.0,
            Some(RelocationClass::Plt) => plain.1,
            Some(RelocationClass::Got) => ReferenceKind::Got,
            Some(RelocationClass::Tls) => ReferenceKind::Tls,
            None => {
                unknown.get_or_insert(rela);
                plain.0
            }
        };
        if let Some(target) = target(symbols, symbol_of(rela))? {
            references.push(Reference { from, offset, kind, target, addend: rela.r_addend.get(LE) });
        }
    }
    Ok(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_psabi_is_known() {
        // object::elf has all types. 39 and 40 were MPX types, and are reserved now.
        let unknown: Vec<u32> = (0..=60).filter(|t| class(*t).is_none()).collect();
        assert_eq!(unknown, (52..=60).collect::<Vec<_>>());
        assert!(matches!(class(elf::R_X86_64_GOTPC64.0), Some(RelocationClass::Address)));
        assert!(matches!(class(elf::R_X86_64_CODE_6_GOTTPOFF.0), Some(RelocationClass::Tls)));
        assert!(matches!(class(elf::R_X86_64_CODE_5_GOTPCRELX.0), Some(RelocationClass::Got)));
    }
}
