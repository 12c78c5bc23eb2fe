//! The extents of the objects of a data section, by sized symbols.
//!
//! The size of a symbol is the compiler's measure (`.size`), and overlapping symbols are one object. Unnamed bytes
//! (padding, constants, jump tables) stay with the object before them, or with the first one. Any other symbol, or
//! one without a size, means that no compiler laid out the section, and it stays whole.
//!
//! [`super::pointers`] analyses the references. Sections of groups, merged and thread-local sections, and those that
//! are found by name or order are never divided.

use object::elf;
use object::endian::LittleEndian as LE;

use super::division::{SectionPlace, SplitContext};
use super::extents::alignment;
use crate::native::relocations::{type_of, width};
use crate::native::sections::DATA_OF_COMPILERS;
use crate::native::tables::{Result, Tables};
use crate::summary::{Atom, AtomKind, Definition, Symbol, SymbolKind, atom_flags};

/// The extent of an object, or of several that overlap, in bytes from the start of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DataObject {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The largest power of two that divides the offset of a symbol of it.
    align: u64,
}

/// A data section that may be divided.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) section: u32,
    size: u64,
    /// The objects in ascending order without overlaps, at least two.
    objects: Vec<DataObject>,
    /// `apart[i]`: padding separates object i and object i + 1, so no address is the end of one and the start of the
    /// other.
    apart: Vec<bool>,
    /// `joins[i]`: object i stays together with object i + 1.
    joins: Vec<bool>,
    pub(super) refusal: Option<String>,
    /// References without a proved target: the place of each, and the object that it points to.
    pub(super) unclear: Vec<(SectionPlace, usize)>,
}

impl Data {
    /// Keep the section whole. The first reason is the one that counts.
    pub(super) fn refuse(&mut self, why: impl Into<String>) {
        self.refusal.get_or_insert(why.into());
    }

    /// The object of the byte at `offset`, with padding and unnamed bytes; `None` outside.
    pub(super) fn at(&self, offset: u64) -> Option<usize> {
        let found = self.objects.partition_point(|o| o.start <= offset);
        (offset < self.size).then(|| found.saturating_sub(1))
    }

    pub(super) fn object(&self, index: usize) -> Option<DataObject> {
        self.objects.get(index).copied()
    }

    /// Keep object `index` and the next one together.
    fn keep_together(&mut self, index: usize) {
        if let Some(join) = self.joins.get_mut(index) {
            *join = true;
        }
    }

    /// Keep all objects with bytes in a range together.
    pub(super) fn keep_range_together(&mut self, start: u64, end: u64) {
        let last = end.checked_sub(1).and_then(|last| self.at(last));
        if let (Some(first), Some(last)) = (self.at(start), last) {
            (first..last).for_each(|i| self.keep_together(i));
        }
    }

    /// The object in which `size` bytes at `offset` are accessed; `None` if they are not in one.
    pub(super) fn accessed(&self, offset: u64, size: u64) -> Option<usize> {
        let index = self.at(offset)?;
        let end = offset.checked_add(size)?;
        let own = self.objects.get(index)?;
        let next = self.objects.get(index + 1).map_or(self.size, |o| o.start);
        let inside = own.start <= offset && end <= own.end;
        let unnamed = offset >= own.end || end <= own.start;
        (size > 0 && end <= next && (inside || unnamed)).then_some(index)
    }

    /// The object of a pointer to `offset` in data. The pointer may be one past the end of the object before, and
    /// then both stay together. A pointer into the middle also keeps the next one: programs that count from 1 point
    /// to one element before the first.
    pub(super) fn pointed_to(&mut self, offset: u64) -> Option<usize> {
        let index = self.at(offset)?;
        if self.objects.get(index)?.start != offset {
            self.keep_together(index);
        } else if let Some(before) = index.checked_sub(1)
            && self.apart.get(before) != Some(&true)
        {
            self.keep_together(before);
        }
        Some(index)
    }

    /// Make parts begin where everything in them stays aligned, since a part moves as a whole. One that begins at a
    /// multiple of 8 can't have an object at a multiple of 32, and is joined with the objects before it. Unnamed
    /// bytes may have the alignment of their place. All other joins must be known.
    pub(super) fn keep_aligned_together(&mut self, section_align: u64) {
        let mut needed = 1;
        for i in (1..self.objects.len()).rev() {
            let Some(own) = self.object(i) else { continue };
            let next = self.objects.get(i + 1).map_or(self.size, |o| o.start);
            let inside = own.align.max(best_aligned(own.end, next));
            needed = section_align.min(inside).max(needed);
            if self.joins.get(i - 1) == Some(&true) {
                continue;
            }
            match own.start.is_multiple_of(needed) {
                true => needed = 1,
                false => self.keep_together(i - 1),
            }
        }
    }

    /// The first object of each part.
    pub(super) fn firsts(&self) -> Vec<usize> {
        let starts = |i: &usize| i.checked_sub(1).is_none_or(|before| self.joins.get(before) != Some(&true));
        (0..self.objects.len()).filter(starts).collect()
    }

    /// The start of the part with this first object.
    pub(super) fn part_start(&self, first: usize) -> u64 {
        if first == 0 { 0 } else { self.objects.get(first).map_or(0, |o| o.start) }
    }
}

/// Data sections with several objects, by section.
pub(super) fn candidates(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> Vec<Data> {
    let eligible = |atom: &&Atom| is_eligible(tables, atom);
    let defined = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) if symbol.kind != SymbolKind::Section => {
            atoms.get(atom.index()).filter(eligible)
        }
        _ => None,
    };
    let sized = |s: &&Symbol| s.kind == SymbolKind::Object && s.size > 0;
    let mut extents: Vec<(u32, DataObject)> = symbols
        .iter()
        .filter(sized)
        .filter_map(|s| {
            let end = s.value.checked_add(s.size)?;
            defined(s)
                .map(|atom| (atom.section, DataObject { start: s.value, end, align: alignment(s.value) }))
        })
        .collect();
    extents.sort_unstable();
    let mut all = Vec::new();
    for run in extents.chunk_by(|a, b| a.0 == b.0) {
        let objects = merge(run);
        let Some((section, _)) = run.first().filter(|_| objects.len() > 1) else { continue };
        let Some(header) = tables.sections.get(*section as usize) else { continue };
        let mut data = Data {
            section: *section,
            size: header.size,
            apart: Vec::new(),
            joins: vec![false; objects.len().saturating_sub(1)],
            objects,
            refusal: None,
            unclear: Vec::new(),
        };
        if data.objects.last().is_some_and(|o| o.end > data.size) {
            data.refuse("an object ends outside");
        }
        all.push(data);
    }
    for symbol in symbols.iter().filter(|s| s.kind != SymbolKind::Section && !sized(s)) {
        let Some(atom) = defined(symbol) else { continue };
        let found = all.binary_search_by_key(&atom.section, |d: &Data| d.section);
        if let Some(data) = found.ok().and_then(|i| all.get_mut(i)) {
            let name = String::from_utf8_lossy(tables.name(symbol.name));
            data.refuse(format!("symbol {name} is no object with a size"));
        }
    }
    all
}

/// Whether compilers put several objects into the section of an atom.
pub(super) fn is_eligible(tables: &Tables<'_>, atom: &Atom) -> bool {
    use atom_flags::{C_IDENTIFIER, EXEC, GROUPED, LINK_ORDER, MERGE, RETAIN, STRINGS};
    let ty = tables.sections.get(atom.section as usize).map(|s| s.ty);
    matches!(atom.kind, AtomKind::ReadOnlyData | AtomKind::Data | AtomKind::Bss)
        && !atom.has(RETAIN | LINK_ORDER | C_IDENTIFIER | MERGE | STRINGS | EXEC | GROUPED)
        && DATA_OF_COMPILERS.contains(&tables.name(atom.name))
        && (ty == Some(elf::SHT_PROGBITS.0) || ty == Some(elf::SHT_NOBITS.0))
        && atom.size < 1 << 31
}

/// The largest power of two that divides some offset of a range; 1 for none.
fn best_aligned(start: u64, end: u64) -> u64 {
    let mut best = 1u64;
    while let Some(next) = best.checked_mul(2)
        && start.checked_next_multiple_of(next).is_some_and(|at| at < end)
    {
        best = next;
    }
    best
}

/// One object for each run of extents that overlap.
fn merge(extents: &[(u32, DataObject)]) -> Vec<DataObject> {
    let mut objects: Vec<DataObject> = Vec::new();
    for (_, extent) in extents {
        match objects.last_mut() {
            Some(last) if extent.start < last.end => {
                last.end = last.end.max(extent.end);
                last.align = last.align.max(extent.align);
            }
            _ => objects.push(*extent),
        }
    }
    objects
}

/// Find the padding between objects, and keep objects together that a relocated field overlaps.
pub(super) fn read(context: &SplitContext<'_, '_>, data: &mut Data) -> Result<()> {
    let header = context.tables.sections.get(data.section as usize);
    let bytes = match header.is_some_and(|h| h.ty == elf::SHT_NOBITS.0) {
        true => None,
        false => Some(context.tables.data(data.section)?),
    };
    let relas = context.relas_of(data.section);
    for i in 1..data.objects.len() {
        let (Some(before), Some(next)) = (data.object(i - 1), data.object(i)) else { continue };
        let slice = |bytes: &[u8]| {
            bytes.get(before.end as usize..next.start as usize).is_some_and(|gap| gap.iter().all(|b| *b == 0))
        };
        let first = relas.partition_point(|(_, r)| r.r_offset.get(LE) < before.end);
        let relocated = relas.get(first).is_some_and(|(_, r)| r.r_offset.get(LE) < next.start);
        // An assembler pads by less than the alignment, which divides the offset.
        let padding = (1..alignment(next.start)).contains(&next.start.saturating_sub(before.end));
        data.apart.push(padding && !relocated && bytes.is_none_or(slice));
    }
    for (_, rela) in relas {
        let place = rela.r_offset.get(LE);
        let width = width(type_of(rela)).map_or(0, u64::from);
        data.keep_range_together(place, place.saturating_add(width));
    }
    Ok(())
}
