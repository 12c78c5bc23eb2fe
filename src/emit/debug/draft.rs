//! The writer of a debug section: bytes, relocations, and a map from old offsets to new ones.

use object::U64;
use object::elf;
use summaries::AtomIdx;

use super::layout::Layout;
use super::view::{DebugSection, decode};
use crate::emit::cursor::uleb;
use crate::emit::input::{LE, Rela};
use crate::emit::parts::Meant;
use crate::emit::write::relocation;
use crate::error::{Error, Result, Stage};

#[derive(Debug)]
pub(super) struct SectionDraft {
    /// The index of the section in the written object.
    pub(super) index: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
    pub(super) meant: Vec<Meant>,
}

impl SectionDraft {
    pub(super) fn new(index: usize) -> Self {
        SectionDraft { index, bytes: Vec::new(), relocations: Vec::new(), meant: Vec::new() }
    }

    /// A draft that replaces a section, with room for a few more bytes.
    pub(super) fn in_place_of(old: &DebugSection<'_>) -> Self {
        let room = |len: usize| len + len / 4;
        SectionDraft {
            bytes: Vec::with_capacity(room(old.raw.len())),
            relocations: Vec::with_capacity(room(old.relocations.len())),
            ..SectionDraft::new(old.index)
        }
    }

    /// Its length so far, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Append another draft of the same section.
    pub(super) fn append(&mut self, mut other: SectionDraft) {
        let moved = self.len();
        self.bytes.append(&mut other.bytes);
        other.relocations.iter_mut().for_each(|r| r.r_offset.set(LE, r.r_offset.get(LE) + moved));
        self.relocations.append(&mut other.relocations);
        other.meant.iter_mut().for_each(|((_, at), _)| *at += moved);
        self.meant.append(&mut other.meant);
    }

    pub(super) fn uleb(&mut self, value: u64) {
        uleb(&mut self.bytes, value);
    }

    /// Append a made-up address with a relocation, in 8 bytes. `meant` is the atom that it belongs to. A number that is no address
    /// gets no relocation.
    pub(super) fn address(&mut self, layout: Layout<'_>, address: u64, meant: Option<AtomIdx>) -> Result<()> {
        let at = self.len();
        let Some((section, offset)) = decode(address) else {
            self.bytes.extend_from_slice(&address.to_le_bytes());
            return Ok(());
        };
        let (symbol, offset) = layout.symbol_for(section, offset, meant)?;
        self.relocations.push(relocation(at, elf::R_X86_64_64, symbol, offset));
        self.meant.extend(meant.map(|atom| ((self.index as u32, at), atom)));
        self.bytes.extend_from_slice(&[0; 8]);
        Ok(())
    }

    /// Append the made-up address of the start of a range.
    pub(super) fn start(&mut self, layout: Layout<'_>, address: u64, within: &[AtomIdx]) -> Result<()> {
        let meant = decode(address).and_then(|(s, place)| layout.meant(s, place, within, within.is_empty()));
        self.address(layout, address, meant)
    }

    /// Append bytes of an old section with their relocations.
    pub(super) fn copy(&mut self, old: &DebugSection<'_>, start: u64, end: u64) -> Result<()> {
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let bytes = range.and_then(|(start, end)| old.raw.get(start..end));
        let bytes = bytes.ok_or_else(|| Error::new(Stage::Emit, "debug information ends early"))?;
        let to = self.len();
        for entry in old.relocations_in(start, end) {
            let mut entry = *entry;
            entry.r_offset = U64::new(LE, entry.r_offset.get(LE) - start + to);
            self.relocations.push(entry);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn set_u32(&mut self, at: u64, value: u64) -> Result<()> {
        let value = u32::try_from(value).ok().filter(|v| *v < 0xffff_fff0);
        let field = usize::try_from(at).ok().and_then(|at| self.bytes.get_mut(at..at.checked_add(4)?));
        let (Some(field), Some(value)) = (field, value) else {
            return Err(Error::new(Stage::Emit, "debug information has no room for a length"));
        };
        field.copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}

/// The new offsets of a rewritten section by the old ones.
#[derive(Debug, Default)]
pub(super) struct OffsetMap {
    /// (old start, old end, new start, whether the bytes are copied), in ascending order.
    segments: Vec<(u64, u64, u64, bool)>,
}

impl OffsetMap {
    /// Note that the old bytes from `start` to `end` are at `new`, either copied or in another form.
    pub(super) fn push(&mut self, start: u64, end: u64, new: u64, copied: bool) {
        self.segments.push((start, end, new, copied));
    }

    /// Append the map of the bytes behind, which are at `moved` in the new section.
    pub(super) fn append(&mut self, other: OffsetMap, moved: u64) {
        let segments = other.segments.into_iter();
        self.segments.extend(segments.map(|(start, end, new, copied)| (start, end, new + moved, copied)));
    }

    /// The new offset of an old one; `None` if it is unknown.
    pub(super) fn map(&self, old: u64) -> Option<u64> {
        let behind = self.segments.partition_point(|(start, ..)| *start <= old);
        let (start, end, new, copied) = *self.segments.get(behind.checked_sub(1)?)?;
        match copied {
            true if old <= end => Some(new + (old - start)),
            false if old == start => Some(new),
            _ => None,
        }
    }
}
