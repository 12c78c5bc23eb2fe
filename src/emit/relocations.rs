//! What becomes of each relocation, and the bytes of relocation sections.
//!
//! In an allocated section every relocation stays, and one whose symbol has no definition left is an error: the
//! plan was wrong. In a section that is not allocated (debug information above all) a relocation to what is
//! dropped is resolved here, to the value that `ld.lld --gc-sections` writes for a dead target, because consumers
//! know that value: 1 in `.debug_loc` and `.debug_ranges` (where 0 would end a list), all ones in `.debug_names`,
//! 0 in every other `.debug*` section, and in a section of any other name the addend, with the offset of a local symbol
//! (lld's `InputSection::relocateNonAlloc`, held against ld.lld 19). The bytes of a compressed section can't be patched,
//! so its relocation stays, with the value as addend of an absolute symbol of value 0.
//!
//! Left out: REL relocations; the front end keeps modules that have them as they are.

use object::elf::{self, RelocationType};
use object::{I64, U64, pod};

use super::input::{Input, LE, Rela, Role};
use super::sections::Fates;
use super::symbols::{Standing, SymbolTable, Symbols};
use super::unwind::Unwind;
use crate::error::{Error, Result, Stage};

/// What becomes of one relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Keep,
    /// Replaced by this value, in the width of the relocated field.
    Resolve(u64),
}

/// A relocated field that gets its final value here.
#[derive(Debug, Clone, Copy)]
struct Patch {
    section: u32,
    offset: u64,
    width: u8,
    value: u64,
}

/// The outcome of [`scan`].
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// By section.
    patches: Vec<Patch>,
    /// By section: the relocation section has an entry left.
    has_entries: Vec<bool>,
    /// Some relocation needs the absolute symbol of value 0.
    pub(super) needs_zero: bool,
}

/// How the fields of a section are resolved.
#[derive(Debug, Clone, Copy)]
struct Target {
    section: u32,
    alloc: bool,
    compressed: bool,
    /// Of a `.debug*` section; others get offset + addend.
    tombstone: Option<u64>,
}

impl Target {
    fn of(input: &Input<'_>, index: usize) -> Result<Self> {
        let flags = input.section(index)?.sh_flags.get(LE).0;
        let name = input.section_name(index);
        let old_style = name.starts_with(b".zdebug");
        let tombstone = match name {
            b".debug_loc" | b".debug_ranges" | b".zdebug_loc" | b".zdebug_ranges" => Some(1),
            b".debug_names" | b".zdebug_names" => Some(u64::MAX),
            _ if old_style || name.starts_with(b".debug") => Some(0),
            _ => None,
        };
        Ok(Target {
            section: index as u32,
            alloc: flags & elf::SHF_ALLOC.0 != 0,
            compressed: old_style || flags & elf::SHF_COMPRESSED.0 != 0,
            tombstone,
        })
    }
}

/// What the field of a relocation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Formula {
    Nothing,
    /// S + A, also relative to the TLS block.
    Address,
    /// S + A - P.
    Relative,
    /// Z + A.
    Size,
}

/// Width in bytes and meaning of the relocation types that occur outside of allocated sections.
fn field_of(kind: RelocationType) -> Option<(u8, Formula)> {
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

/// Decide one relocation. The decision depends on the plan only, so that both passes over the relocations agree.
fn treat(input: &Input<'_>, symbols: &Symbols<'_>, target: Target, entry: &Rela) -> Result<Treatment> {
    let symbol = entry.r_sym(LE, false);
    let standing = symbols.standing(symbol)?;
    let dangles = if target.alloc {
        standing == Standing::Gone
    } else {
        match standing {
            Standing::Defined => false,
            Standing::Undefined => symbols.prevailing_dropped(symbol) == Some(true),
            // A reference from debug information keeps nothing, so the other definition must be known to stay.
            Standing::Replaced => symbols.prevailing_dropped(symbol) != Some(false),
            Standing::Gone => true,
        }
    };
    if !dangles {
        return Ok(Treatment::Keep);
    }
    let kind = entry.r_type(LE, false);
    let offset = entry.r_offset.get(LE);
    let error = |message: String| {
        let name = String::from_utf8_lossy(input.symbol_name(symbol as usize)).into_owned();
        let name = if name.is_empty() { format!("[{symbol}]") } else { name };
        Err(input.about(target.section as usize, message).at_symbol(name))
    };
    if target.alloc {
        return error(format!(
            "the relocation at {offset:#x} refers to a symbol whose definition is dropped"
        ));
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
    Ok(Treatment::Resolve(match formula {
        Formula::Nothing => 0,
        Formula::Address => target.tombstone.unwrap_or(value.wrapping_add(addend)),
        Formula::Relative => value.wrapping_add(addend).wrapping_sub(offset),
        Formula::Size => size.wrapping_add(addend),
    }))
}

fn truncate(value: u64, width: u8) -> u64 {
    if width >= 8 { value } else { value & ((1 << (u32::from(width) * 8)) - 1) }
}

/// Look at every relocation: which symbols stay in use, which fields are resolved here.
pub(super) fn scan(
    input: &Input<'_>,
    fates: &Fates,
    unwind: &Unwind,
    symbols: &mut Symbols<'_>,
) -> Result<Scan> {
    let mut scan = Scan { has_entries: vec![false; input.sections.len()], ..Scan::default() };
    for (index, section) in input.sections.iter().enumerate().skip(1) {
        if input.role(index) != Role::Relocations {
            continue;
        }
        let target_index = section.sh_info.get(LE) as usize;
        let entries: &[Rela] = input.table(index)?;
        if !fates.keeps(index) {
            entries.iter().for_each(|e| symbols.note_input(e.r_sym(LE, false)));
            continue;
        }
        let target = Target::of(input, target_index)?;
        let moved = unwind.of(target.section);
        let mut any = entries.is_empty();
        for entry in entries {
            let symbol = entry.r_sym(LE, false);
            let offset = entry.r_offset.get(LE);
            symbols.note_input(symbol);
            if moved.is_some_and(|m| m.relocated(offset).is_none()) {
                continue;
            }
            match treat(input, symbols, target, entry)? {
                Treatment::Keep => {
                    check_unmoved(input, unwind, target, entry)?;
                    symbols.note_kept(symbol);
                    any = true;
                }
                Treatment::Resolve(value) => {
                    let width = field_of(entry.r_type(LE, false)).map_or(0, |(width, _)| width);
                    let value = truncate(value, width);
                    if target.compressed {
                        scan.needs_zero |= width > 0;
                        any |= width > 0;
                    } else {
                        scan.patches.push(Patch { section: target.section, offset, width, value });
                    }
                }
            }
        }
        if let Some(slot) = scan.has_entries.get_mut(index) {
            *slot = any;
        }
    }
    scan.patches.sort_by_key(|p| p.section);
    Ok(scan)
}

/// A place inside an unwind section that moved can't be named by section symbol and addend any more: an addend
/// may be a place or a bias. Its start does not move.
fn check_unmoved(input: &Input<'_>, unwind: &Unwind, target: Target, entry: &Rela) -> Result<()> {
    if unwind.is_empty() {
        return Ok(());
    }
    let symbol = entry.r_sym(LE, false) as usize;
    let names_section = input.symbols.get(symbol).is_some_and(|s| s.st_type() == elf::STT_SECTION);
    if names_section
        && entry.r_addend.get(LE) > 0
        && let super::input::Place::Section(section) = input.place(symbol)?
        && unwind.of(section).is_some()
    {
        return Err(input.about(target.section as usize, "refers to a place inside of a pruned .eh_frame"));
    }
    Ok(())
}

impl Scan {
    /// Whether relocation section `index` has an entry left (or had none in the input).
    pub(super) fn has_entries(&self, index: usize) -> bool {
        self.has_entries.get(index).copied().unwrap_or(false)
    }

    /// Write the fields that are resolved here into the copied contents of `section`.
    pub(super) fn patch(&self, input: &Input<'_>, section: u32, contents: &mut [u8]) -> Result<()> {
        let start = self.patches.partition_point(|p| p.section < section);
        for patch in self.patches.get(start..).unwrap_or(&[]) {
            if patch.section != section {
                break;
            }
            let width = usize::from(patch.width);
            let field = usize::try_from(patch.offset)
                .ok()
                .and_then(|at| contents.get_mut(at..at.checked_add(width)?))
                .ok_or_else(|| input.about(section as usize, "a relocation is outside of the section"))?;
            field.copy_from_slice(patch.value.to_le_bytes().get(..width).unwrap_or(&[]));
        }
        Ok(())
    }
}

/// The entries of relocation section `index` as they are in the output.
pub(super) fn write(
    input: &Input<'_>,
    symbols: &Symbols<'_>,
    table: &SymbolTable,
    unwind: &Unwind,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let target = Target::of(input, input.section(index)?.sh_info.get(LE) as usize)?;
    let moved = unwind.of(target.section);
    for entry in input.table::<Rela>(index)? {
        let mut new = *entry;
        if let Some(moved) = moved {
            let Some(offset) = moved.relocated(entry.r_offset.get(LE)) else { continue };
            new.r_offset = U64::new(LE, offset);
        }
        let kind = entry.r_type(LE, false);
        match treat(input, symbols, target, entry)? {
            Treatment::Keep => {
                let symbol = table.of(entry.r_sym(LE, false)).ok_or_else(|| lost(input, index))?;
                new.set_r_info(LE, false, symbol, kind);
            }
            Treatment::Resolve(value) if target.compressed => {
                let width = field_of(kind).map_or(0, |(width, _)| width);
                let kind = match width {
                    0 => continue,
                    1 => elf::R_X86_64_8,
                    2 => elf::R_X86_64_16,
                    4 => elf::R_X86_64_32,
                    _ => elf::R_X86_64_64,
                };
                new.set_r_info(LE, false, table.zero.ok_or_else(|| lost(input, index))?, kind);
                new.r_addend = I64::new(LE, truncate(value, width) as i64);
            }
            Treatment::Resolve(_) => continue,
        }
        out.extend_from_slice(pod::bytes_of(&new));
    }
    Ok(())
}

fn lost(input: &Input<'_>, index: usize) -> Error {
    match input.section(index) {
        Ok(_) => input.about(index, "a relocation that stays names a symbol that does not"),
        Err(_) => Error::new(Stage::Emit, "a relocation that stays names a symbol that does not"),
    }
}
