//! The reader of an object's debug sections: decompressed, and linked to a made-up address space.
//!
//! DWARF readers need addresses, but a relocatable object has section symbols and addends. Each allocated section gets 2^40
//! addresses of its own ([`encode`]), so a number stands for section and offset, and a base plus an offset works as in a
//! linked file. References between debug sections are plain offsets. [`decode`] rejects a number that is in no section. Relocations
//! without an address (relative to the thread, undefined symbols) leave zero, which is no address.

use std::borrow::Cow;

use object::elf;
use object::pod;

use crate::emit::input::{Formula, Input, LE, Rela, Role, SymbolPlace, checked_field_of};
use crate::error::Result;

const SECTION_SHIFT: u32 = 40;
/// The distance of offset 0 from the first address of a section: places before the section have addresses too.
const BIAS: u64 = 1 << 36;

/// The made-up address of a place; `None` if there are too many sections or the place is too far away.
pub(super) fn encode(section: u32, offset: i64) -> Option<u64> {
    let within = BIAS.checked_add_signed(offset).filter(|o| *o < BIAS * 2)?;
    (u64::from(section) < 1 << 23).then(|| ((u64::from(section) + 1) << SECTION_SHIFT) + within)
}

/// The section and offset of a made-up address; `None` for another number.
pub(super) fn decode(address: u64) -> Option<(u32, i64)> {
    let section = (address >> SECTION_SHIFT).checked_sub(1).filter(|s| *s < 1 << 23)?;
    let within = address & ((1 << SECTION_SHIFT) - 1);
    (within < BIAS * 2).then(|| (section as u32, within.wrapping_sub(BIAS) as i64))
}

#[derive(Debug)]
pub(super) struct DebugSection<'a> {
    pub(super) index: usize,
    /// The bytes are those after decompression, if any.
    pub(super) raw: Cow<'a, [u8]>,
    /// The bytes with all relocations applied.
    pub(super) linked: Vec<u8>,
    /// They are in ascending order of offset.
    pub(super) relocations: Cow<'a, [Rela]>,
}

impl<'a> DebugSection<'a> {
    /// Read section `index` of the input.
    ///
    /// # Errors
    /// The compression is unknown, the contents can't be decompressed, or linkers reject a relocation.
    pub(super) fn read(input: &Input<'a>, index: usize) -> Result<Self> {
        let raw = contents(input, index)?;
        let mut relocations: Cow<'a, [Rela]> = Cow::default();
        for (table, header) in input.sections.iter().enumerate() {
            if input.role(table) == Role::Relocations && header.sh_info.get(LE) as usize == index {
                match relocations.is_empty() {
                    true => relocations = Cow::Borrowed(input.table(table)?),
                    false => relocations.to_mut().extend_from_slice(input.table(table)?),
                }
            }
        }
        let at = |entry: &Rela| entry.r_offset.get(LE);
        if !relocations.is_sorted_by_key(at) {
            relocations.to_mut().sort_by_key(at);
        }
        let mut linked = raw.to_vec();
        for entry in relocations.iter() {
            let (width, formula) = checked_field_of(input, index, linked.len(), entry)?;
            let kind = entry.r_type(LE, false);
            // lld rejects these in debug information, and mold the relative ones.
            let of_thread = [elf::R_X86_64_TPOFF32, elf::R_X86_64_TPOFF64];
            if formula == Formula::Relative || of_thread.contains(&kind) {
                return Err(
                    input.about(index, format!("a relocation of type {} in debug information", kind.0))
                );
            }
            let at = usize::try_from(entry.r_offset.get(LE)).unwrap_or(usize::MAX);
            if let Some(field) = linked.get_mut(at..at.saturating_add(usize::from(width)))
                && formula == Formula::Address
            {
                let value = value_of(input, entry)?.unwrap_or(0);
                field.copy_from_slice(value.to_le_bytes().get(..usize::from(width)).unwrap_or(&[]));
            }
        }
        Ok(DebugSection { index, raw, linked, relocations })
    }

    /// The relocations of the bytes from `start` to `end`.
    pub(super) fn relocations_in(&self, start: u64, end: u64) -> &[Rela] {
        let first = self.relocations.partition_point(|r| r.r_offset.get(LE) < start);
        let rest = self.relocations.get(first..).unwrap_or(&[]);
        let count = rest.iter().take_while(|r| r.r_offset.get(LE) < end).count();
        rest.get(..count).unwrap_or(&[])
    }
}

/// The value of an absolute relocation in the made-up address space; `None` if it is not known.
fn value_of(input: &Input<'_>, entry: &Rela) -> Result<Option<u64>> {
    let thread = [elf::R_X86_64_DTPOFF32, elf::R_X86_64_DTPOFF64];
    let symbol = entry.r_sym(LE, false) as usize;
    if thread.contains(&entry.r_type(LE, false)) {
        return Ok(None);
    }
    let SymbolPlace::Section(section) = input.place(symbol)? else { return Ok(None) };
    let value = input.symbols.get(symbol).map_or(0, |s| s.st_value.get(LE));
    let value = (value as i64).wrapping_add(entry.r_addend.get(LE));
    let is_alloc = input.section(section as usize)?.sh_flags.get(LE).0 & elf::SHF_ALLOC.0 != 0;
    Ok(if is_alloc { encode(section, value) } else { Some(value as u64) })
}

/// The contents of a section, decompressed.
pub(super) fn contents<'a>(input: &Input<'a>, index: usize) -> Result<Cow<'a, [u8]>> {
    let data = input.data(index)?;
    if !is_compressed(input, index) {
        return Ok(Cow::Borrowed(data));
    }
    let header = pod::from_bytes::<elf::CompressionHeader64<object::LittleEndian>>(data).ok();
    let bytes = header.and_then(|(header, rest)| {
        crate::compression::decompress(header.ch_type.get(LE).0, header.ch_size.get(LE), rest)
    });
    bytes.map(Cow::Owned).ok_or_else(|| input.about(index, "the compressed contents can't be read"))
}

/// Whether the contents of a section are compressed.
pub(super) fn is_compressed(input: &Input<'_>, index: usize) -> bool {
    input.section(index).is_ok_and(|s| s.sh_flags.get(LE).0 & elf::SHF_COMPRESSED.0 != 0)
}
