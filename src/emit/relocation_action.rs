//! The action of each relocation: keep, retarget, resolve here, remove.
//!
//! In an allocated section every relocation of what stays does so, and one whose symbol has no definition left is an error: the
//! plan was wrong. In a section that is not allocated (debug information above all) a relocation to what is
//! dropped is resolved here, to the value that `ld.lld --gc-sections` writes for a dead target, because consumers
//! know that value: 1 in `.debug_loc` and `.debug_ranges` (where 0 would end a list), all ones in `.debug_names`,
//! 0 in every other `.debug*` section, and in a section of any other name the addend, with the offset of a local symbol
//! (lld's `InputSection::relocateNonAlloc`, held against ld.lld 19). The bytes of a compressed section can't be patched:
//! such sections are decompressed before ([`debug`](super::debug)).
//!
//! Against the symbol of a section that is emitted in parts, a relocation is retargeted to the section symbol of the run
//! that it means, the addend less the run's start. What it means is exact in `.eh_frame` and outside of allocated
//! sections; elsewhere (a PC-relative addend is biased) the summary says it. Relocations of a jump table go with
//! the function that owns it.
//!
//! In an allocated section the address of a stub is its first byte's or an error. For a section that is not allocated a stub
//! is as good as dropped: what it says of the function (ranges, lines) is not true of the stub.
//!
//! Left out: REL relocations; the front end keeps modules that have them as they are.

use object::elf::{self, RelocationType};

use super::input::{Input, LE, Rela, Role};
use super::parts::{OffsetLocation, PartialSection, SplitSections, is_biased_entry};
use super::symbols::{SymbolDisposition, Symbols};
use crate::error::Result;
use crate::plan::Action;

/// What becomes of one relocation in the emitted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelocationAction {
    Keep,
    /// Replaced by this value, in the width of the relocated field.
    Resolve(u64),
    /// Against the section symbol of this run, with this addend.
    Retarget {
        section: u32,
        run: u32,
        addend: i64,
    },
    /// Gone with the function that it belonged to; the field stays as it is.
    Remove,
}

/// The section that relocations apply to, and how its fields are resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct RelocatedSection {
    pub(super) section: u32,
    alloc: bool,
    unwind: bool,
    code: bool,
    compressed: bool,
    /// The value of a dropped target in a `.debug*` section; others get offset + addend.
    tombstone: Option<u64>,
}

impl RelocatedSection {
    pub(super) fn of(input: &Input<'_>, index: usize) -> Result<Self> {
        let flags = input.section(index)?.sh_flags.get(LE).0;
        let name = input.section_name(index);
        let old_style = name.starts_with(b".zdebug");
        let tombstone = match name {
            b".debug_loc" | b".debug_ranges" | b".zdebug_loc" | b".zdebug_ranges" => Some(1),
            b".debug_names" | b".zdebug_names" => Some(u64::MAX),
            _ if old_style || name.starts_with(b".debug") => Some(0),
            _ => None,
        };
        Ok(RelocatedSection {
            section: index as u32,
            alloc: flags & elf::SHF_ALLOC.0 != 0,
            unwind: input.role(index) == Role::Unwind,
            code: flags & elf::SHF_EXECINSTR.0 != 0,
            compressed: old_style || flags & elf::SHF_COMPRESSED.0 != 0,
            tombstone,
        })
    }

    /// Whether the entries are of contents that are not loaded and can be read in place.
    pub(super) fn is_read_in_place(&self) -> bool {
        !self.alloc && !self.compressed
    }
}

/// What the field of a relocation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Formula {
    Nothing,
    /// S + A, also relative to the TLS block.
    Address,
    /// The field holds S + A - P (psABI, "Relocation Types").
    Relative,
    /// The field holds Z + A, the size of the symbol.
    Size,
}

/// Width in bytes and meaning of the relocation types that occur outside of allocated sections.
pub(super) fn field_of(kind: RelocationType) -> Option<(u8, Formula)> {
    Some(match kind {
        elf::R_X86_64_NONE => (0, Formula::Nothing),
        elf::R_X86_64_64 | elf::R_X86_64_DTPOFF64 | elf::R_X86_64_TPOFF64 => (8, Formula::Address),
        elf::R_X86_64_32 | elf::R_X86_64_32S | elf::R_X86_64_DTPOFF32 | elf::R_X86_64_TPOFF32 => {
            (4, Formula::Address)
        }
        elf::R_X86_64_16 => (2, Formula::Address),
        elf::R_X86_64_8 => (1, Formula::Address),
        elf::R_X86_64_PC64 => (8, Formula::Relative),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (4, Formula::Relative),
        elf::R_X86_64_PC16 => (2, Formula::Relative),
        elf::R_X86_64_PC8 => (1, Formula::Relative),
        elf::R_X86_64_SIZE64 => (8, Formula::Size),
        elf::R_X86_64_SIZE32 => (4, Formula::Size),
        _ => return None,
    })
}

/// Width and meaning of the field of an entry that relocates one of `size` bytes of section `index`, which is not allocated.
///
/// # Errors
/// The type is unknown, the symbol is not there, or the field is outside of the section. Linkers refuse such an entry, and it would be lost
/// when the section is written anew.
pub(super) fn checked_field_of(
    input: &Input<'_>,
    index: usize,
    size: usize,
    entry: &Rela,
) -> Result<(u8, Formula)> {
    let kind = entry.r_type(LE, false);
    let offset = entry.r_offset.get(LE);
    let (width, formula) = field_of(kind)
        .ok_or_else(|| input.about(index, format!("the relocation at {offset:#x} is of type {}", kind.0)))?;
    let symbol = entry.r_sym(LE, false);
    if input.added_section(symbol).is_none() {
        input.place(symbol as usize).map_err(|e| e.in_section(input.section_label(index)))?;
    }
    if offset.checked_add(u64::from(width)).is_none_or(|end| end > size as u64) {
        return Err(input.about(index, format!("the relocation at {offset:#x} is outside of the section")));
    }
    Ok((width, formula))
}

/// Decide one relocation. `near` is a hint where to search: any number to begin with, and then what the last decision left there.
pub(super) fn action_of(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    parts: &SplitSections<'_>,
    relocated: RelocatedSection,
    entry: &Rela,
    near: &mut usize,
) -> Result<RelocationAction> {
    let symbol = entry.r_sym(LE, false);
    if symbol as usize >= input.symbols.len() && input.added_section(symbol).is_some() {
        return Ok(RelocationAction::Keep);
    }
    if parts.belongs_to_dropped_jump_table(relocated.section, entry.r_offset.get(LE)) {
        return Ok(RelocationAction::Remove);
    }
    if let Some(divided) = parts.of_symbol(input, symbol)? {
        return treat_part(input, parts, relocated, entry, divided, near);
    }
    let disposition = symbols.disposition(symbol)?;
    let stub = symbols.is_stub(symbol);
    if stub && relocated.alloc && !means_entry(relocated, entry, entry.r_addend.get(LE)) {
        return Err(into_stub(input, relocated, entry));
    }
    let dangles = if relocated.alloc {
        disposition == SymbolDisposition::Gone
    } else {
        match disposition {
            SymbolDisposition::Defined => stub,
            SymbolDisposition::Undefined => symbols.prevailing_dropped(symbol) == Some(true),
            // A reference from debug information keeps nothing, so the other definition must be known to stay.
            SymbolDisposition::Replaced => symbols.prevailing_dropped(symbol) != Some(false),
            SymbolDisposition::Gone => true,
        }
    };
    if dangles { resolve(input, relocated, entry) } else { Ok(RelocationAction::Keep) }
}

/// Decide one relocation against the section symbol of a divided section.
fn treat_part(
    input: &Input<'_>,
    parts: &SplitSections<'_>,
    relocated: RelocatedSection,
    entry: &Rela,
    divided: &PartialSection,
    near: &mut usize,
) -> Result<RelocationAction> {
    let (offset, addend) = (entry.r_offset.get(LE), entry.r_addend.get(LE));
    let error = |what: &str| {
        let of = String::from_utf8_lossy(input.section_name(divided.section as usize));
        let message = format!("the relocation at {offset:#x} against section {of} + {addend:#x} {what}");
        Err(input.about(relocated.section as usize, message))
    };
    if field_of(entry.r_type(LE, false)).is_some_and(|(_, formula)| formula == Formula::Size) {
        return error("asks for a size that is not what it was");
    }
    let is_debug = !relocated.alloc && relocated.tombstone.is_some();
    // Metadata of functions says which one it describes, loaded or not.
    let known = parts.retarget(relocated.section, offset).filter(|_| !is_debug && !relocated.unwind);
    let spot = if relocated.alloc && !relocated.unwind || is_debug || known.is_some() {
        let atom = match is_debug {
            true => {
                let place = u64::try_from(addend).unwrap_or(0);
                parts.described((relocated.section, offset), divided.section, place, near)
            }
            false => known.or(divided.only()),
        };
        let Some(atom) = atom else { return error("has no known target") };
        let (atom, action) = parts.atom(atom)?;
        if atom.section != divided.section {
            return error("is said to mean another section");
        }
        match action {
            Action::Drop => OffsetLocation::Dropped,
            Action::Keep | Action::Stub => divided.spot(atom.offset),
        }
    } else {
        match u64::try_from(addend) {
            // It may be the end of a range that stays, or the start of one that goes, or the other way round.
            Ok(place) if !relocated.alloc && divided.is_seam(place) => {
                return error("is where a part ends and another begins");
            }
            Ok(place) => match divided.spot(place) {
                // The end of a range, or of the section.
                OffsetLocation::Nowhere if !relocated.alloc => divided.ended(place),
                spot => spot,
            },
            Err(_) => OffsetLocation::Nowhere,
        }
    };
    match spot {
        OffsetLocation::Run(run) => {
            let start = divided.run(run).map_or(0, |r| r.start) as i64;
            Ok(RelocationAction::Retarget {
                section: divided.section,
                run,
                addend: addend.wrapping_sub(start),
            })
        }
        OffsetLocation::Stub(run) if relocated.alloc || known.is_some() => {
            let start = divided.run(run).map_or(0, |r| r.start) as i64;
            let addend = addend.wrapping_sub(start);
            match !relocated.unwind && means_entry(relocated, entry, addend) {
                true => Ok(RelocationAction::Retarget { section: divided.section, run, addend }),
                false => Err(into_stub(input, relocated, entry)),
            }
        }
        OffsetLocation::Dropped if relocated.alloc => error("refers to what is dropped"),
        OffsetLocation::Dropped | OffsetLocation::Stub(_) => resolve(input, relocated, entry),
        OffsetLocation::Nowhere => error("refers to no function"),
    }
}

/// Whether `addend`, counted from the start of a stub, means that start. A table of distances has another bias for each
/// entry, so that there nothing can be said.
fn means_entry(relocated: RelocatedSection, entry: &Rela, addend: i64) -> bool {
    match entry.r_type(LE, false) {
        elf::R_X86_64_NONE => true,
        elf::R_X86_64_64 | elf::R_X86_64_32 | elf::R_X86_64_32S | elf::R_X86_64_16 | elf::R_X86_64_8 => {
            addend == 0
        }
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 if relocated.code => is_biased_entry(addend),
        elf::R_X86_64_SIZE32 | elf::R_X86_64_SIZE64 => false,
        _ => true,
    }
}

fn into_stub(input: &Input<'_>, relocated: RelocatedSection, entry: &Rela) -> crate::error::Error {
    let offset = entry.r_offset.get(LE);
    let symbol = entry.r_sym(LE, false) as usize;
    let message = format!("the relocation at {offset:#x} refers to the body of a stub");
    let name = String::from_utf8_lossy(input.symbol_name(symbol)).into_owned();
    input.about(relocated.section as usize, message).at_symbol(name)
}

/// The value for a target that is dropped; an error in an allocated section.
fn resolve(input: &Input<'_>, relocated: RelocatedSection, entry: &Rela) -> Result<RelocationAction> {
    let symbol = entry.r_sym(LE, false);
    let kind = entry.r_type(LE, false);
    let offset = entry.r_offset.get(LE);
    let error = |message: String| {
        let name = String::from_utf8_lossy(input.symbol_name(symbol as usize)).into_owned();
        let name = if name.is_empty() { format!("[{symbol}]") } else { name };
        Err(input.about(relocated.section as usize, message).at_symbol(name))
    };
    if relocated.alloc {
        return error(format!(
            "the relocation at {offset:#x} refers to a symbol whose definition is dropped"
        ));
    }
    if relocated.compressed {
        return error(format!("the field at {offset:#x} is of compressed contents"));
    }
    let Some((_, formula)) = field_of(kind) else {
        return error(format!("the relocation at {offset:#x} of type {} can't be resolved", kind.0));
    };
    // lld forgets where a dead global symbol was; a local one keeps its offset in the section.
    let (value, size) = match input.symbols.get(symbol as usize) {
        Some(s) if s.st_bind() == elf::STB_LOCAL => (s.st_value.get(LE), s.st_size.get(LE)),
        Some(s) => (0, s.st_size.get(LE)),
        None => (0, 0),
    };
    let addend = entry.r_addend.get(LE) as u64;
    Ok(RelocationAction::Resolve(match formula {
        Formula::Nothing => 0,
        Formula::Address => relocated.tombstone.unwrap_or(value.wrapping_add(addend)),
        Formula::Relative => value.wrapping_add(addend).wrapping_sub(offset),
        Formula::Size => size.wrapping_add(addend),
    }))
}
