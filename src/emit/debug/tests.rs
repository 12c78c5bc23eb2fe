//! Numbers, addresses, offsets, and rows of line number programs are read back as they were written.

use gimli::{DebugLine, EndianSlice, LittleEndian, Reader};
use proptest::prelude::*;

use super::draft::{OffsetMap, SectionDraft};
use super::lines::{Registers, write_row};
use super::view::{decode, encode};
use crate::emit::cursor::{sleb, uleb};

#[test]
fn addresses_are_read_back() {
    for section in [0, 1, 77, (1 << 23) - 1] {
        for offset in [-(1i64 << 36), -1, 0, 1, 1 << 31, (1 << 36) - 1] {
            assert_eq!(encode(section, offset).and_then(decode), Some((section, offset)));
        }
    }
    // A place that is too far away has no address, and small numbers are no addresses.
    assert_eq!(encode(1 << 23, 0), None);
    assert_eq!(encode(0, 1 << 36), None);
    for number in [0, 1, 0x40_0000, u64::MAX, u64::MAX - 1] {
        assert_eq!(decode(number), None);
    }
}

#[test]
fn offsets_follow_what_they_mean() {
    let mut map = OffsetMap::default();
    map.push(0, 12, 0, true);
    map.push(12, 30, 12, false);
    map.push(30, 40, 50, true);
    map.push(40, 60, 60, false);
    map.push(60, 60, 90, true);
    let offsets = [
        (0, Some(0)),
        (7, Some(7)),
        (12, Some(12)),
        (20, None),
        (30, Some(50)),
        (35, Some(55)),
        (40, Some(60)),
        (41, None),
        (60, Some(90)),
        (61, None),
    ];
    for (old, new) in offsets {
        assert_eq!(map.map(old), new, "{old}");
    }
}

/// A program of version 4 without files, its header only: `line_base` -5, `line_range` 14, `opcode_base` 13.
fn empty_program() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 4, 0, 0, 0, 0, 0];
    let header = bytes.len();
    bytes.extend_from_slice(&[1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    // No directories and no files.
    bytes.extend_from_slice(&[0, 0]);
    let length = (bytes.len() - header) as u32;
    bytes[6..10].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn set_length(bytes: &mut [u8]) {
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
}

fn row() -> impl Strategy<Value = (u64, Registers)> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let numbers = (0u64..5, 0u64..3000, 0u64..200, 0u64..3, 0u64..300);
    (0u64..400, numbers, flags).prop_map(|(advance, (file, line, column, isa, discriminator), flags)| {
        let (is_stmt, basic_block, prologue_end, epilogue_begin) = flags;
        let row = Registers {
            address: 0,
            file,
            line,
            column,
            is_stmt,
            basic_block,
            prologue_end,
            epilogue_begin,
            isa,
            discriminator,
        };
        (advance, row)
    })
}

proptest! {
    #[test]
    fn numbers_are_read_back(unsigned: u64, signed: i64) {
        let mut bytes = Vec::new();
        uleb(&mut bytes, unsigned);
        sleb(&mut bytes, signed);
        let mut reader = EndianSlice::new(&bytes, LittleEndian);
        prop_assert_eq!(reader.read_uleb128(), Ok(unsigned));
        prop_assert_eq!(reader.read_sleb128(), Ok(signed));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn rows_are_read_back(rows in proptest::collection::vec(row(), 1..40)) {
        let mut header_bytes = empty_program();
        set_length(&mut header_bytes);
        let lines = DebugLine::new(&header_bytes, LittleEndian);
        let program = lines.program(gimli::DebugLineOffset(0), 8, None, None).unwrap();
        let header = program.header();
        let mut draft = SectionDraft::new(1);
        draft.bytes.extend_from_slice(&header_bytes);
        let mut registers = Registers::initial(0, header.default_is_stmt());
        let mut wanted = Vec::new();
        let mut address = 0;
        for (advance, row) in rows {
            address += advance;
            let row = Registers { address, ..row };
            write_row(&mut draft, header, &mut registers, row);
            wanted.push(row);
        }
        draft.bytes.extend_from_slice(&[0, 1, 1]);
        set_length(&mut draft.bytes);
        let lines = DebugLine::new(&draft.bytes, LittleEndian);
        let program = lines.program(gimli::DebugLineOffset(0), 8, None, None).unwrap();
        let mut found = Vec::new();
        let mut all = program.rows();
        while let Some((_, row)) = all.next_row().unwrap() {
            if !row.end_sequence() {
                found.push(Registers::of(row));
            }
        }
        prop_assert_eq!(found, wanted);
    }
}
