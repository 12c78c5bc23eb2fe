//! Line number programs with a sequence for each kept part (DWARF 5, 6.2).
//!
//! An assembler writes one sequence for a section, with distances from row to row. For a divided section the rows are computed,
//! and each part gets a sequence: the row in effect at its start, the rows in it, and an end. All registers of the state machine are
//! kept. A program that can't be computed (an unknown opcode, several operations an instruction) is an error. Dropped code and
//! empty ranges have no sequence.

use gimli::{DebugLine, LineInstruction, LineRow, LittleEndian, Reader, constants as dw};

use super::draft::{OffsetMap, SectionDraft};
use super::layout::Layout;
use super::units::Slice;
use super::view::{DebugSection, decode};
use crate::emit::cursor::{Cursor, sleb, uleb};
use crate::error::{Error, Result, Stage};

type LineHeader<'r> = gimli::LineProgramHeader<Slice<'r>>;

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(Stage::Emit, format!("the line number program {what}"))
}

/// The registers of a row (DWARF 5, 6.2.2), except `op_index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Registers {
    pub(super) address: u64,
    pub(super) file: u64,
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) is_stmt: bool,
    pub(super) basic_block: bool,
    pub(super) prologue_end: bool,
    pub(super) epilogue_begin: bool,
    pub(super) isa: u64,
    pub(super) discriminator: u64,
}

impl Registers {
    pub(super) fn of(row: &LineRow) -> Self {
        Registers {
            address: row.address(),
            file: row.file_index(),
            line: row.line().map_or(0, |l| l.get()),
            column: match row.column() {
                gimli::ColumnType::LeftEdge => 0,
                gimli::ColumnType::Column(column) => column.get(),
            },
            is_stmt: row.is_stmt(),
            basic_block: row.basic_block(),
            prologue_end: row.prologue_end(),
            epilogue_begin: row.epilogue_begin(),
            isa: row.isa(),
            discriminator: row.discriminator(),
        }
    }

    pub(super) fn initial(address: u64, is_stmt: bool) -> Self {
        Registers { address, file: 1, line: 1, is_stmt, ..Registers::default() }
    }
}

pub(super) fn rewrite(section: &DebugSection<'_>, layout: Layout<'_>) -> Result<(SectionDraft, OffsetMap)> {
    let (mut draft, mut map) = (SectionDraft::in_place_of(section), OffsetMap::default());
    let mut at = 0;
    while at < section.linked.len() as u64 {
        let mut cursor = Cursor::new(&section.linked, at);
        let length = cursor.u32()?;
        let end = cursor.at.checked_add(length).filter(|end| *end <= section.linked.len() as u64);
        let end = end.filter(|_| length < 0xffff_fff0).ok_or_else(|| invalid("ends early"))?;
        let start = draft.len();
        map.push(at, at + 1, start, true);
        rewrite_program(section, layout, &mut draft, at, end)?;
        let length = draft.len() - start - 4;
        draft.set_u32(start, length)?;
        at = end;
    }
    Ok((draft, map))
}

/// Write one program, whose header begins at `at`.
fn rewrite_program(
    section: &DebugSection<'_>,
    layout: Layout<'_>,
    draft: &mut SectionDraft,
    at: u64,
    end: u64,
) -> Result<()> {
    let unreadable = |error: gimli::Error| invalid(error);
    let lines = DebugLine::new(&section.linked, LittleEndian);
    let offset = gimli::DebugLineOffset(usize::try_from(at).map_err(|_| invalid("is too long"))?);
    let mut program = lines.program(offset, 8, None, None).map_err(unreadable)?;
    let header = program.header().clone();
    if header.minimum_instruction_length() != 1 || header.maximum_operations_per_instruction() != 1 {
        return Err(invalid("is for a machine of another kind"));
    }
    let body = header.raw_program_buf();
    let first = end.checked_sub(body.len() as u64).ok_or_else(|| invalid("ends early"))?;
    draft.copy(section, at, first)?;

    let mut instructions = header.instructions();
    let mut row = LineRow::new(&header);
    let mut rows: Vec<Registers> = Vec::new();
    let mut says_file = false;
    while let Some(instruction) = instructions.next_instruction(&header).map_err(unreadable)? {
        let before = row.address();
        match instruction {
            LineInstruction::UnknownStandard0(_)
            | LineInstruction::UnknownStandard1(..)
            | LineInstruction::UnknownStandardN(..)
            | LineInstruction::UnknownExtended(..)
            | LineInstruction::DefineFile(_) => return Err(invalid("has an opcode that is not known")),
            LineInstruction::SetAddress(address) if address < before => {
                return Err(invalid("goes backwards"));
            }
            LineInstruction::SetFile(_) => says_file = true,
            _ => {}
        }
        if !row.execute(instruction, &mut program).map_err(unreadable)? {
            continue;
        }
        rows.push(Registers::of(&row));
        if row.end_sequence() {
            write_sequence(layout, draft, &header, &rows, says_file)?;
            rows.clear();
            says_file = false;
        }
        row.reset(&header);
    }
    match rows.is_empty() {
        true => Ok(()),
        false => Err(invalid("has no end of its last sequence")),
    }
}

/// Write a sequence for each kept part of these rows. The last row is the end. `says_file` is whether the sequence sets files.
fn write_sequence(
    layout: Layout<'_>,
    draft: &mut SectionDraft,
    header: &LineHeader<'_>,
    rows: &[Registers],
    says_file: bool,
) -> Result<()> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
    if decode(first.address).map(|(s, _)| s) != decode(last.address).map(|(s, _)| s) {
        return Err(invalid("has a sequence of two sections"));
    }
    for (begin, behind) in layout.kept_ranges(first.address, last.address, &[])? {
        if begin == behind {
            continue;
        }
        // The row in effect at the start is the last one before it.
        let from = rows.partition_point(|r| r.address < begin);
        let mut registers = Registers::initial(begin, header.default_is_stmt());
        // Readers differ about the initial file of DWARF 5. If the sequence sets a file, each part sets its own.
        if says_file {
            registers.file = u64::MAX;
        }
        draft.bytes.extend_from_slice(&[0, 9, dw::DW_LNE_set_address.0]);
        draft.start(layout, begin, &[])?;
        if rows.get(from).is_none_or(|r| r.address != begin)
            && let Some(in_force) = from.checked_sub(1).and_then(|i| rows.get(i))
        {
            write_row(draft, header, &mut registers, Registers { address: begin, ..*in_force });
        }
        let to = rows.partition_point(|r| r.address < behind);
        for row in rows.get(from..to).unwrap_or(&[]) {
            write_row(draft, header, &mut registers, *row);
        }
        if behind > registers.address {
            draft.bytes.push(dw::DW_LNS_advance_pc.0);
            draft.uleb(behind - registers.address);
        }
        draft.bytes.extend_from_slice(&[0, 1, dw::DW_LNE_end_sequence.0]);
    }
    Ok(())
}

/// Append the opcodes that change the registers to `row`.
pub(super) fn write_row(
    draft: &mut SectionDraft,
    header: &LineHeader<'_>,
    registers: &mut Registers,
    row: Registers,
) {
    let out = &mut draft.bytes;
    if row.file != registers.file {
        out.push(dw::DW_LNS_set_file.0);
        uleb(out, row.file);
    }
    if row.column != registers.column {
        out.push(dw::DW_LNS_set_column.0);
        uleb(out, row.column);
    }
    if row.discriminator != 0 {
        let mut operand = Vec::new();
        uleb(&mut operand, row.discriminator);
        out.extend_from_slice(&[0, operand.len() as u8 + 1, dw::DW_LNE_set_discriminator.0]);
        out.extend_from_slice(&operand);
    }
    if row.isa != registers.isa {
        out.push(dw::DW_LNS_set_isa.0);
        uleb(out, row.isa);
    }
    for (set, opcode) in [
        (row.is_stmt != registers.is_stmt, dw::DW_LNS_negate_stmt),
        (row.basic_block, dw::DW_LNS_set_basic_block),
        (row.prologue_end, dw::DW_LNS_set_prologue_end),
        (row.epilogue_begin, dw::DW_LNS_set_epilogue_begin),
    ] {
        if set {
            out.push(opcode.0);
        }
    }
    let mut lines = (row.line as i64).wrapping_sub(registers.line as i64);
    let bytes = row.address.wrapping_sub(registers.address);
    if special(header, lines, 0).is_none() {
        out.push(dw::DW_LNS_advance_line.0);
        sleb(out, lines);
        lines = 0;
    }
    let constant = const_add_pc(header);
    if let Some(opcode) = special(header, lines, bytes) {
        out.push(opcode);
    } else if let Some(opcode) = bytes.checked_sub(constant).and_then(|rest| special(header, lines, rest)) {
        out.extend([dw::DW_LNS_const_add_pc.0, opcode]);
    } else {
        out.push(dw::DW_LNS_advance_pc.0);
        uleb(out, bytes);
        out.push(special(header, lines, 0).unwrap_or(dw::DW_LNS_copy.0));
    }
    *registers =
        Registers { basic_block: false, prologue_end: false, epilogue_begin: false, discriminator: 0, ..row };
}

/// The bytes by which `DW_LNS_const_add_pc` advances the address (DWARF 5, 6.2.5.2).
fn const_add_pc(header: &LineHeader<'_>) -> u64 {
    let advances = u64::from(255 - header.opcode_base());
    advances.checked_div(u64::from(header.line_range())).unwrap_or(0)
}

/// The special opcode that advances line and address by these numbers (DWARF 5, 6.2.5.1).
fn special(header: &LineHeader<'_>, lines: i64, bytes: u64) -> Option<u8> {
    let range = i64::from(header.line_range());
    let line = lines.checked_sub(i64::from(header.line_base())).filter(|l| (0..range).contains(l))?;
    let opcode = i64::try_from(bytes).ok()?.checked_mul(range)?.checked_add(line)?;
    u8::try_from(opcode.checked_add(i64::from(header.opcode_base()))?).ok()
}

/// The fixed part of a header in the 32-bit format, in bytes: length, version, unit, address size, segment size.
const HEADER: u64 = 12;

/// `.debug_aranges` with an entry for each kept part (DWARF 5, 6.1.2).
pub(super) fn rewrite_aranges(section: &DebugSection<'_>, layout: Layout<'_>) -> Result<SectionDraft> {
    let invalid = |what: &str| Error::new(Stage::Emit, format!("a table of address ranges {what}"));
    let mut draft = SectionDraft::in_place_of(section);
    let mut at = 0;
    while at < section.linked.len() as u64 {
        let mut cursor = Cursor::new(&section.linked, at);
        let length = cursor.u32()?;
        let end = cursor.at.checked_add(length).filter(|end| *end <= section.linked.len() as u64);
        let end = end.filter(|_| length < 0xffff_fff0).ok_or_else(|| invalid("ends early"))?;
        let (version, _unit) = (cursor.u16()?, cursor.u32()?);
        if (version, cursor.u8()?, cursor.u8()?) != (2, 8, 0) {
            return Err(invalid("is of an unknown form"));
        }
        let start = draft.len();
        draft.copy(section, at, at + HEADER)?;
        // Tuples are aligned to their size, counted from the header.
        let padding = HEADER.next_multiple_of(16) - HEADER;
        draft.bytes.resize(draft.bytes.len() + padding as usize, 0);
        cursor.at = at + HEADER + padding;
        while cursor.at < end {
            let (address, size) = (cursor.u64()?, cursor.u64()?);
            if (address, size) == (0, 0) {
                break;
            }
            for (begin, behind) in layout.kept_ranges(address, address.wrapping_add(size), &[])? {
                draft.start(layout, begin, &[])?;
                draft.bytes.extend_from_slice(&behind.wrapping_sub(begin).to_le_bytes());
            }
        }
        draft.bytes.extend_from_slice(&[0; 16]);
        let length = draft.len() - start - 4;
        draft.set_u32(start, length)?;
        at = end;
    }
    Ok(draft)
}
