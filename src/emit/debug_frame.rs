//! `.debug_frame` for functions that are kept without an unwind entry, so that debuggers lose nothing (DWARF 5, 6.4).
//!
//! Each FDE of `.eh_frame` that the plan removes from a kept function is written again, with the instructions that it has and without an
//! augmentation. The result is byte for byte the section that GNU as writes under `-g -fno-asynchronous-unwind-tables`. An FDE whose
//! instructions hold an address is left out; no compiler writes one.

use object::{I64, U64, elf};
use rustc_hash::FxHashMap;

use super::input::{Input, LE, Rela, Role};
use super::parts::SplitSections;
use super::unwind::{FrameRecordKind, is_left_over, split};
use crate::error::Result;

/// The name of the section that is added.
pub(super) const NAME: &[u8] = b".debug_frame";
/// A record ends at a multiple of so many bytes, the size of an address.
pub(super) const ALIGN: usize = 8;
/// What stands for a CIE pointer in a CIE.
const CIE_ID: [u8; 4] = [0xff; 4];

/// The contents of the section, and its relocations.
#[derive(Debug, Default)]
pub(super) struct DebugFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
}

/// The section for an object under a plan; `symbol` is its section symbol. `None` if it would be empty.
pub(super) fn of_object(
    input: &Input<'_>,
    parts: &SplitSections<'_>,
    symbol: u32,
) -> Result<Option<DebugFrame>> {
    if !parts.writes_debug_frame() {
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
        let records = split(data).unwrap_or_default();
        for record in &records {
            let FrameRecordKind::Fde(cie) = record.kind else { continue };
            let begin = record.start as u64 + 8;
            let at = entries.partition_point(|e| e.r_offset.get(LE) < begin);
            let Some(entry) = entries.get(at).filter(|e| e.r_offset.get(LE) == begin) else { continue };
            let bytes = |start: usize, end: usize| data.get(start..end).unwrap_or(&[]);
            let cie = records.get(cie).and_then(|cie| Cie::read(bytes(cie.start, cie.end)));
            if !parts.removes_unwind(input, entry)? {
                continue;
            }
            let Some(cie) = cie else { continue };
            let wide = matches!(entry.r_type(LE, false), elf::R_X86_64_64 | elf::R_X86_64_PC64);
            let Some((range, instructions)) = fde(bytes(record.start, record.end), wide, cie.is_augmented)
            else {
                continue;
            };
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
            let mut relocate = |offset: u64, symbol: u32, ty, addend: i64| {
                let mut rela = Rela {
                    r_offset: U64::new(LE, offset),
                    r_info: U64::default(),
                    r_addend: I64::new(LE, addend),
                };
                rela.set_r_info(LE, false, symbol, ty);
                frame.relocations.push(rela);
            };
            relocate(start + 4, symbol, elf::R_X86_64_32, pointer as i64);
            relocate(start + 8, entry.r_sym(LE, false), elf::R_X86_64_64, entry.r_addend.get(LE));
        }
    }
    Ok((!frame.bytes.is_empty()).then_some(frame))
}

/// A record: the length, the body, and padding that does nothing.
fn record_of(body: &[u8]) -> Vec<u8> {
    let size = (4 + body.len()).next_multiple_of(ALIGN);
    let mut record = ((size - 4) as u32).to_le_bytes().to_vec();
    record.extend_from_slice(body);
    record.resize(size, 0);
    record
}

/// A CIE of `.eh_frame`, as `.debug_frame` has it.
struct Cie {
    written: Vec<u8>,
    /// Its FDEs have a length and augmentation data.
    is_augmented: bool,
}

impl Cie {
    /// `None` for a form that no compiler writes for this machine.
    fn read(bytes: &[u8]) -> Option<Cie> {
        let mut rest = Reader(bytes.get(8..)?);
        let version = rest.byte()?;
        let end = rest.0.iter().position(|b| *b == 0)?;
        let augmentation = rest.take(end)?;
        rest.byte()?;
        let is_augmented = augmentation.first() == Some(&b'z');
        if !matches!(version, 1 | 3) || !is_augmented && !augmentation.is_empty() {
            return None;
        }
        // A CIE of version 1 has a byte where one of version 3 has a LEB128; they are alike below 128.
        let factors = rest.0;
        rest.leb()?;
        rest.leb()?;
        rest.byte().filter(|register| *register < 0x80)?;
        let factors = factors.get(..factors.len() - rest.0.len())?;
        if is_augmented {
            let length = rest.leb()?;
            rest.take(usize::try_from(length).ok()?)?;
        }
        let instructions = significant(rest.0)?;
        let signal: &[u8] = if augmentation.contains(&b'S') { b"S" } else { b"" };
        let body = [&CIE_ID[..], &[1], signal, &[0], factors, instructions].concat();
        Some(Cie { written: record_of(&body), is_augmented })
    }
}

/// The range of an FDE in bytes, and its instructions.
fn fde(bytes: &[u8], wide: bool, is_augmented: bool) -> Option<(u64, &[u8])> {
    let width = if wide { 8 } else { 4 };
    let mut rest = Reader(bytes.get(8 + width..)?);
    let mut range = [0; 8];
    range.get_mut(..width)?.copy_from_slice(rest.take(width)?);
    if is_augmented {
        let length = rest.leb()?;
        rest.take(usize::try_from(length).ok()?)?;
    }
    Some((u64::from_le_bytes(range), significant(rest.0)?))
}

/// Call frame instructions without the padding behind them; `None` if one is not known, or holds an address.
fn significant(instructions: &[u8]) -> Option<&[u8]> {
    let mut rest = Reader(instructions);
    let mut end = 0;
    while let Some(code) = rest.byte() {
        match code {
            // DW_CFA_advance_loc, DW_CFA_restore
            0x40..=0x7f | 0xc0..=0xff => {}
            // DW_CFA_offset
            0x80..=0xbf => {
                rest.leb()?;
            }
            // DW_CFA_nop
            0x00 => continue,
            0x02..=0x04 => {
                rest.take(1 << (code - 2))?;
            }
            // Two numbers: DW_CFA_offset_extended, register, def_cfa, offset_extended_sf, def_cfa_sf, val_offset and its _sf,
            // GNU_negative_offset_extended
            0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | 0x2f => {
                rest.leb()?;
                rest.leb()?;
            }
            // One: DW_CFA_restore_extended, undefined, same_value, def_cfa_register, def_cfa_offset and its _sf, GNU_args_size
            0x06..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e => {
                rest.leb()?;
            }
            // DW_CFA_remember_state, restore_state
            0x0a | 0x0b => {}
            // DW_CFA_def_cfa_expression, expression, val_expression
            0x0f | 0x10 | 0x16 => {
                if code != 0x0f {
                    rest.leb()?;
                }
                let length = rest.leb()?;
                rest.take(usize::try_from(length).ok()?)?;
            }
            _ => return None,
        }
        end = instructions.len() - rest.0.len();
    }
    instructions.get(..end)
}

/// The bytes of a record that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A LEB128 number, without its sign.
    fn leb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }
}
