//! `.debug_frame` for kept functions without an unwind entry (DWARF 5, 6.4). Debuggers read it.
//!
//! It has each FDE that the plan removes from a kept function, with the same instructions and without an augmentation. GNU as writes the
//! same bytes with `-g -fno-asynchronous-unwind-tables`. FDEs whose instructions hold an address are left out, as no compiler
//! writes them.

use object::elf;
use rustc_hash::FxHashMap;
use summaries::native::eh_frame::{EhFrameRecord, RecordKind};

use super::cursor::Cursor;
use super::input::{Input, LE, Rela, Role};
use super::parts::SplitSections;
use super::unwind::{is_left_over, records_of};
use super::write::relocation;
use crate::error::Result;

/// The name of the added section.
pub(super) const NAME: &[u8] = b".debug_frame";
/// The size of a record is a multiple of this, the size of an address.
pub(super) const ALIGN: usize = 8;
/// The CIE pointer of a CIE.
const CIE_ID: [u8; 4] = [0xff; 4];

/// The contents of the section, and its relocations.
#[derive(Debug, Default)]
pub(super) struct DebugFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
}

/// The section for an object; `symbol` is its section symbol. `None` if it would be empty.
pub(super) fn of_object(
    input: &Input<'_>,
    parts: &SplitSections<'_>,
    symbol: u32,
) -> Result<Option<DebugFrame>> {
    if !parts.plan.writes_debug_frame {
        return Ok(None);
    }
    let mut frame = DebugFrame::default();
    let mut cies: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
    for section in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Unwind) {
        let data = input.data(section)?;
        let mut entries: Vec<&Rela> = Vec::new();
        for table in (1..input.sections.len()).filter(|i| input.role(*i) == Role::Relocations) {
            if input.section(table)?.sh_info.get(LE) as usize == section {
                entries.extend(input.table::<Rela>(table)?.iter().filter(|e| !is_left_over(e)));
            }
        }
        entries.sort_by_key(|e| e.r_offset.get(LE));
        // Pruning reports a section that can't be split.
        let records = records_of(data).unwrap_or_default();
        for record in &records {
            let RecordKind::Fde { cie } = record.kind else { continue };
            let begin = record.pc_begin();
            let at = entries.partition_point(|e| e.r_offset.get(LE) < begin);
            let Some(entry) = entries.get(at).filter(|e| e.r_offset.get(LE) == begin) else { continue };
            if !parts.removes_unwind(input, entry)? {
                continue;
            }
            let bytes =
                |r: &EhFrameRecord| data.get(usize::try_from(r.offset).ok()?..usize::try_from(r.end()).ok()?);
            let Some(cie) = records.get(cie).and_then(|cie| Cie::read(bytes(cie)?)) else { continue };
            let wide = matches!(entry.r_type(LE, false), elf::R_X86_64_64 | elf::R_X86_64_PC64);
            let fde = bytes(record).and_then(|bytes| fde(bytes, wide, cie.is_augmented));
            let Some((range, instructions)) = fde else { continue };
            let pointer = *cies.entry(cie.written).or_insert_with_key(|written| {
                let offset = frame.bytes.len() as u64;
                frame.bytes.extend_from_slice(written);
                offset
            });
            let start = frame.bytes.len() as u64;
            let mut body = vec![0; 12];
            body.extend_from_slice(&range.to_le_bytes());
            body.extend_from_slice(instructions);
            frame.bytes.extend(record_of(&body));
            let (target, addend) = (entry.r_sym(LE, false), entry.r_addend.get(LE));
            frame.relocations.push(relocation(start + 4, elf::R_X86_64_32, symbol, pointer as i64));
            frame.relocations.push(relocation(start + 8, elf::R_X86_64_64, target, addend));
        }
    }
    Ok((!frame.bytes.is_empty()).then_some(frame))
}

/// A record: the length, the body, and padding of `DW_CFA_nop`.
fn record_of(body: &[u8]) -> Vec<u8> {
    let size = (4 + body.len()).next_multiple_of(ALIGN);
    let mut record = ((size - 4) as u32).to_le_bytes().to_vec();
    record.extend_from_slice(body);
    record.resize(size, 0);
    record
}

struct Cie {
    /// The bytes of its record in `.debug_frame`.
    written: Vec<u8>,
    /// Its FDEs have a length and augmentation data.
    is_augmented: bool,
}

impl Cie {
    /// `None` for a form that no compiler writes for this machine.
    fn read(bytes: &[u8]) -> Option<Cie> {
        let mut rest = Cursor::new(bytes, 8);
        let version = rest.u8().ok()?;
        let end = rest.rest().iter().position(|b| *b == 0)?;
        let augmentation = rest.bytes(end as u64).ok()?;
        rest.u8().ok()?;
        let is_augmented = augmentation.first() == Some(&b'z');
        if !matches!(version, 1 | 3) || !is_augmented && !augmentation.is_empty() {
            return None;
        }
        // The register is a byte in version 1, and LEB128 in version 3. Both have the same form below 128.
        let factors = rest.rest();
        rest.uleb().ok()?;
        rest.uleb().ok()?;
        rest.u8().ok().filter(|register| *register < 0x80)?;
        let factors = factors.get(..factors.len() - rest.rest().len())?;
        if is_augmented {
            let length = rest.uleb().ok()?;
            rest.bytes(length).ok()?;
        }
        let instructions = significant(rest.rest())?;
        let signal: &[u8] = if augmentation.contains(&b'S') { b"S" } else { b"" };
        let body = [&CIE_ID[..], &[1], signal, &[0], factors, instructions].concat();
        Some(Cie { written: record_of(&body), is_augmented })
    }
}

/// The range of an FDE in bytes, and its instructions.
fn fde(bytes: &[u8], wide: bool, is_augmented: bool) -> Option<(u64, &[u8])> {
    let mut rest = Cursor::new(bytes, if wide { 16 } else { 12 });
    let range = if wide { rest.u64() } else { rest.u32() }.ok()?;
    if is_augmented {
        let length = rest.uleb().ok()?;
        rest.bytes(length).ok()?;
    }
    Some((range, significant(rest.rest())?))
}

/// Call frame instructions without padding; `None` if one is unknown or holds an address.
fn significant(instructions: &[u8]) -> Option<&[u8]> {
    let mut rest = Cursor::new(instructions, 0);
    let mut end = 0;
    while let Ok(code) = rest.u8() {
        match code {
            // DW_CFA_nop
            0x00 => continue,
            // DW_CFA_advance_loc, restore, remember_state, restore_state
            0x40..=0x7f | 0xc0..=0xff | 0x0a | 0x0b => {}
            // DW_CFA_advance_loc1 to 4
            0x02..=0x04 => {
                rest.bytes(1 << (code - 2)).ok()?;
            }
            // Two numbers: DW_CFA_offset_extended, register, def_cfa, offset_extended_sf, def_cfa_sf, val_offset and its _sf,
            // GNU_negative_offset_extended
            0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | 0x2f => {
                rest.uleb().ok()?;
                rest.uleb().ok()?;
            }
            // One number: DW_CFA_offset, restore_extended, undefined, same_value, def_cfa_register, def_cfa_offset and its _sf,
            // GNU_args_size
            0x80..=0xbf | 0x06..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e => {
                rest.uleb().ok()?;
            }
            // DW_CFA_def_cfa_expression, expression, val_expression
            0x0f | 0x10 | 0x16 => {
                if code != 0x0f {
                    rest.uleb().ok()?;
                }
                let length = rest.uleb().ok()?;
                rest.bytes(length).ok()?;
            }
            _ => return None,
        }
        end = rest.at as usize;
    }
    instructions.get(..end)
}
