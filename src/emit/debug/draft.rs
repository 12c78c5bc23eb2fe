//! The writer of a debug section: bytes, relocations, and a map from old offsets to new ones.
//!
//! References into a rewritten section are offsets of old contents. [`OffsetMap`] translates them; an offset that it does not know is an
//! error, never a guess.

use object::elf::{self, RelocationType};
use object::{I64, U64};
use summaries::AtomIdx;

use super::layout::Layout;
use super::view::{DebugSection, decode};
use crate::emit::input::{LE, Rela};
use crate::emit::parts::Meant;
use crate::error::{Error, Result, Stage};

#[derive(Debug)]
pub(super) struct SectionDraft {
    /// Its index among the sections of the object that is written.
    pub(super) index: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
    pub(super) meant: Vec<Meant>,
    /// Where the relocations of what was copied last end, in the old section.
    copied: usize,
}

impl SectionDraft {
    pub(super) fn new(index: usize) -> Self {
        SectionDraft { index, bytes: Vec::new(), relocations: Vec::new(), meant: Vec::new(), copied: 0 }
    }

    /// A draft that takes the place of a section, with room for a little more than that has.
    pub(super) fn in_place_of(old: &DebugSection<'_>) -> Self {
        let room = |len: usize| len + len / 4;
        SectionDraft {
            bytes: Vec::with_capacity(room(old.raw.len())),
            relocations: Vec::with_capacity(room(old.relocations.len())),
            ..SectionDraft::new(old.index)
        }
    }

    /// How long it is so far, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Append another draft of the same section, which was begun by itself.
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

    /// Append a made-up address, relocated, 8 bytes. `meant` is the atom that it belongs to. A number that is no address
    /// is appended as it is.
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

    /// Append a made-up address where something begins.
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
        for entry in old.relocations_in(start, end, &mut self.copied) {
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

pub(super) fn uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn sleb(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

pub(super) fn relocation(offset: u64, kind: RelocationType, symbol: u32, addend: i64) -> Rela {
    let mut entry =
        Rela { r_offset: U64::new(LE, offset), r_info: U64::default(), r_addend: I64::new(LE, addend) };
    entry.set_r_info(LE, false, symbol, kind);
    entry
}

/// Where old offsets of a rewritten section are in the new one.
#[derive(Debug, Default)]
pub(super) struct OffsetMap {
    /// (first old offset, old offset behind the last, first new offset, whether the bytes between are what they were);
    /// ascending.
    segments: Vec<(u64, u64, u64, bool)>,
}

impl OffsetMap {
    /// Note that old bytes from `start` to `end` are at `new`, either copied or written in another form.
    pub(super) fn push(&mut self, start: u64, end: u64, new: u64, copied: bool) {
        self.segments.push((start, end, new, copied));
    }

    /// Append what another map knows of the bytes behind, which are at `moved` in the new section.
    pub(super) fn append(&mut self, other: OffsetMap, moved: u64) {
        let segments = other.segments.into_iter();
        self.segments.extend(segments.map(|(start, end, new, copied)| (start, end, new + moved, copied)));
    }

    /// The new offset for an old one. `near` is any number to begin with, and after that where the last question was answered: most
    /// questions come in order, so that the answer is there or in one of the next two segments.
    pub(super) fn map(&self, old: u64, near: &mut usize) -> Option<u64> {
        let begins = |segment: usize| self.segments.get(segment).is_some_and(|(start, ..)| *start <= old);
        let holds = |segment: &usize| begins(*segment) && !begins(*segment + 1);
        let found = (*near..*near + 3).find(holds);
        let search = || self.segments.partition_point(|(start, ..)| *start <= old).checked_sub(1);
        *near = found.or_else(search)?;
        let (start, end, new, copied) = *self.segments.get(*near)?;
        match copied {
            true if old <= end => Some(new + (old - start)),
            false if old == start => Some(new),
            _ => None,
        }
    }
}
