//! The references to the objects of a data section, and the sections that can be divided.
//!
//! A relocation by the name of an object means that object, with any addend: the compiler formed the address from
//! that name. One by section symbol means an object in two cases:
//! - An instruction accesses memory there without a register, and all accessed bytes are in one object.
//! - Data holds it as a pointer (C11 6.5.6: it points into an object or one past its end).
//!
//! An address in a register may be biased. Compilers fold constants of an index into it, so it may lie anywhere, and
//! only a later sum leads into the object. Such a reference, and any other that is not understood, counts as one to
//! every object of the section. If its atom is kept, the section is kept whole, with its layout. One part of the
//! section is the hub: such references lead to it, and it refers to all others.

use object::endian::LittleEndian as LE;

use super::cut::{self, SectionCut};
use super::division::{Division, SectionPlace, SplitContext};
use super::objects::{self, Data};
use super::references::{ReferenceSource, source};
use super::text::{InstructionCursor, Text};
use crate::limit::{Limit, LimitRecord};
use crate::native::decode::{self, Field, Instruction};
use crate::native::relocations::types::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32,
};
use crate::native::relocations::{self, Rela, ignores_addend, symbol_of, type_of};
use crate::native::tables::{Result, record};
use crate::summary::{Definition, SymbolKind, Target};

/// The possible target of a relocation by section symbol.
struct SectionReference {
    at: SectionPlace,
    /// Position in the list of data sections.
    data: usize,
    /// The object; `None` for any of the section.
    object: Option<usize>,
}

/// Add the divided data sections to `division`, which has the code already.
pub(super) fn divide(
    context: &SplitContext<'_, '_>,
    texts: &[Text<'_>],
    all: &mut [Data],
    division: &mut Division,
    limits: &mut Vec<LimitRecord>,
) -> Result<()> {
    for data in all.iter_mut() {
        if !context.compiled {
            data.refuse(
                "no compiler is named in .comment, and assembly may find its neighbours by their place",
            );
        }
        objects::read(context, data)?;
    }
    for atom in context.atoms {
        let after = atom.link_order.and_then(|a| context.section_of(a)).and_then(|s| context.data_of(s));
        if let Some(data) = after.and_then(|d| all.get_mut(d)) {
            data.refuse(format!("section {} is ordered after it", context.describe(atom.section)));
        }
    }
    // A table of one function belongs to one part.
    for owned in &division.owned {
        if let Some(data) = context.data_of(owned.section).and_then(|d| all.get_mut(d)) {
            data.keep_range_together(owned.start, owned.end);
        }
    }
    let mut references = Vec::new();
    for own in context.relas.chunk_by(|a, b| a.0 == b.0) {
        let Some((section, _)) = own.first() else { continue };
        let source = source(context, texts, *section);
        let instructions = InstructionCursor::default();
        let mut reader = PointerReader { context, texts, section: *section, source, instructions };
        for (_, rela) in own {
            references.extend(reader.relocation(rela, all));
        }
    }
    one_object_each(division, all, &mut references);
    for data in all.iter_mut() {
        data.keep_aligned_together(
            context.tables.sections.get(data.section as usize).map_or(1, |s| s.align.max(1)),
        );
    }
    let mut cuts = cut::cuts(context, texts, &division.owned)?;
    cuts.retain(|cut| !is_ambiguous(cut, division, &references));
    for (i, data) in all.iter_mut().enumerate() {
        let found = cuts.iter().position(|cut| cut.section == data.section);
        let cut = found.map(|found| cuts.swap_remove(found));
        if let Some(cut) = &cut {
            data.unclear.retain(|(at, _)| !cut.is_base(*at));
        }
        let firsts = data.firsts();
        let why = match &data.refusal {
            Some(why) => Some(why.clone()),
            None if firsts.len() < 2 => Some("its objects are not to be told apart".to_owned()),
            None if !data.unclear.is_empty() => Some(format!(
                "{} references to it may mean any of its objects, and keep all of them",
                data.unclear.len()
            )),
            None => None,
        };
        // The last one is no refusal: the section is divided, and each of these references keeps all of its objects.
        if let Some(why) = &why {
            let detail = format!("section {}: {why}", context.describe(data.section));
            let size = context.tables.sections.get(data.section as usize).map_or(0, |s| s.size);
            limits.push(LimitRecord {
                bytes: cut.as_ref().map_or(size, |cut| cut.rest.map_or(0, |(start, end)| end - start)),
                ..record(Limit::UnprovedData, Some(data.section), detail)
            });
        }
        if why.is_some()
            && let Some(cut) = cut
        {
            cuts.push(cut);
            continue;
        }
        if data.refusal.is_some() || firsts.len() < 2 {
            continue;
        }
        let mut parts: Vec<u64> = firsts.iter().map(|f| data.part_start(*f)).collect();
        if let Some(cut) = &cut {
            parts.extend(&cut.pieces);
            parts.sort_unstable();
            parts.dedup();
            division.retargets.extend(cut.bases.iter().map(|(at, start)| (*at, (data.section, *start))));
        }
        let rest = cut.as_ref().and_then(|cut| cut.rest).map_or(0, |(start, _)| start);
        let part = |object: usize| {
            let start = data.object(object).map_or(0, |o| o.start).max(rest);
            let found = parts.partition_point(|p| *p <= start).saturating_sub(1);
            parts.get(found).copied().unwrap_or(0)
        };
        let hub = most_frequent(data.unclear.iter().map(|(_, object)| *object)).map(part);
        division.hubs.extend(hub.map(|start| (data.section, start)));
        let of_table = |at: SectionPlace| cut.as_ref().is_some_and(|cut| cut.is_base(at));
        for reference in references.iter().filter(|m| m.data == i && !of_table(m.at)) {
            let start = reference.object.map(part).or(hub).unwrap_or(0);
            division.retargets.push((reference.at, (data.section, start)));
        }
        division.parts.push((data.section, parts));
    }
    for cut in cuts {
        let section = cut.section;
        division.retargets.extend(cut.bases.iter().map(|(at, start)| (*at, (section, *start))));
        let rest = cut.rest.map_or(0, |(start, _)| start);
        division.retargets.extend(cut.others.iter().map(|at| (*at, (section, rest))));
        division.parts.push((section, cut.pieces));
    }
    division.parts.sort_unstable();
    division.retargets.sort_unstable();
    Ok(())
}

/// The most frequent number, and the least of several.
fn most_frequent(numbers: impl Iterator<Item = usize>) -> Option<usize> {
    let mut sorted: Vec<usize> = numbers.collect();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b);
    runs.min_by_key(|run| (usize::MAX - run.len(), run.first().copied())).and_then(|run| run.first().copied())
}

/// Refuse the sections of two relocations at one place, because tables by place must be unambiguous.
fn one_object_each(division: &Division, all: &mut [Data], references: &mut [SectionReference]) {
    references.sort_by_key(|m| (m.at, m.data));
    let mut twice = Vec::new();
    for pair in references.windows(2) {
        if let [a, b] = pair
            && a.at == b.at
        {
            twice.extend([a.data, b.data]);
        }
    }
    let in_plan =
        |m: &&SectionReference| division.retargets.binary_search_by_key(&m.at, |(at, _)| *at).is_ok();
    twice.extend(references.iter().filter(in_plan).map(|m| m.data));
    for data in twice {
        if let Some(data) = all.get_mut(data) {
            data.refuse("two relocations at one place");
        }
    }
}

/// Whether a relocation of a section to cut shares its place with another one.
fn is_ambiguous(cut: &SectionCut, division: &Division, references: &[SectionReference]) -> bool {
    cut.bases.iter().map(|(at, _)| at).chain(&cut.others).any(|at| {
        let first = references.partition_point(|m| m.at < *at);
        let here = references.get(first..).unwrap_or(&[]).iter().take_while(|m| m.at == *at).count();
        here > 1 || division.retargets.binary_search_by_key(at, |(at, _)| *at).is_ok()
    })
}

/// The largest distance of an access from the named object that keeps objects together. A larger one keeps the
/// section whole, as the time would be quadratic.
const MOST_OUTSIDE: u64 = 256;

struct PointerReader<'c, 'a, 't> {
    context: &'c SplitContext<'a, 't>,
    texts: &'c [Text<'a>],
    section: u32,
    source: ReferenceSource,
    instructions: InstructionCursor,
}

impl PointerReader<'_, '_, '_> {
    /// The target of a relocation by the symbol of a divisible data section.
    fn relocation(&mut self, rela: &Rela, all: &mut [Data]) -> Option<SectionReference> {
        let symbol = symbol_of(rela);
        let entry = self.context.symbols.get(symbol.index())?;
        let Definition::Atom(atom) = entry.definition else { return None };
        let index = self.context.data_of(self.context.section_of(atom)?)?;
        let data = all.get_mut(index)?;
        let place = rela.r_offset.get(LE);
        if !matches!(relocations::target(self.context.symbols, symbol), Ok(Some(Target::Atom(_)))) {
            if entry.kind == SymbolKind::Section {
                data.refuse("a section symbol of its own kind");
            } else if !self.is_of_its_object(rela, entry.value, data)
                || !self.keeps_its_access_together(rela, entry.value, data)
            {
                data.refuse(format!(
                    "the relocation at {place:#x} of section {} leads out of the object that it names",
                    self.context.describe(self.section)
                ));
            }
            return None;
        }
        let addend = rela.r_addend.get(LE);
        let (nominal, object) = match self.source {
            ReferenceSource::Code(text) => self.in_code(rela, text, data),
            ReferenceSource::Raw => (addend.saturating_add(4), None),
            ReferenceSource::Data if matches!(type_of(rela), R_X86_64_64 | R_X86_64_32 | R_X86_64_32S) => {
                (addend, u64::try_from(addend).ok().and_then(|to| data.pointed_to(to)))
            }
            ReferenceSource::Data => (addend, None),
            ReferenceSource::Unwind => {
                data.refuse("an unwind table refers to it");
                return None;
            }
            ReferenceSource::Other => {
                data.refuse("a section that is not loaded refers to it");
                return None;
            }
        };
        if object.is_none() {
            let nearest = data.at(u64::try_from(nominal).unwrap_or(0)).unwrap_or(0);
            data.unclear.push(((self.section, place), nearest));
        }
        Some(SectionReference { at: (self.section, place), data: index, object })
    }

    /// The place that an instruction names, and the object that it accesses there.
    fn in_code(&mut self, rela: &Rela, text: usize, data: &Data) -> (i64, Option<usize>) {
        let Some((to, size)) = self.access(rela, text) else { return (rela.r_addend.get(LE), None) };
        let object = u64::try_from(to).ok().zip(size).and_then(|(to, size)| data.accessed(to, size));
        (to, object)
    }

    /// The target of a relocated displacement, from its symbol, and the bytes that the instruction accesses there.
    fn access(&mut self, rela: &Rela, text: usize) -> Option<(i64, Option<u64>)> {
        let text = self.texts.get(text)?;
        let instruction = self.instructions.seek(text, rela.r_offset.get(LE))?;
        let to = displacement(rela, instruction)?;
        let bytes = text.bytes.get(instruction.offset as usize..instruction.end() as usize);
        Some((to, bytes.and_then(decode::direct_access_size)))
    }

    /// Keep the named object together with an access outside of it, as in assembly (`a+4(%rip)`). Returns false if
    /// the access is outside of the section or too far away.
    fn keeps_its_access_together(&mut self, rela: &Rela, value: u64, data: &mut Data) -> bool {
        let ReferenceSource::Code(text) = self.source else { return true };
        let Some((to, Some(size))) = self.access(rela, text) else { return true };
        let range = value.checked_add_signed(to).and_then(|start| Some((start, start.checked_add(size)?)));
        let own = data.at(value).and_then(|own| data.object(own));
        match (range, own) {
            (Some((start, end)), Some(own)) if own.start <= start && end <= own.end => true,
            (Some((start, end)), Some(own))
                if end.checked_sub(1).and_then(|last| data.at(last)).is_some()
                    && own.start.saturating_sub(start) <= MOST_OUTSIDE
                    && end.saturating_sub(own.end) <= MOST_OUTSIDE =>
            {
                data.keep_range_together(start.min(value), end.max(value.saturating_add(1)));
                true
            }
            _ => false,
        }
    }

    /// Whether a relocation by name leads into the named object. In compiled code any addend is allowed.
    fn is_of_its_object(&self, rela: &Rela, value: u64, data: &Data) -> bool {
        let (ty, addend) = (type_of(rela), rela.r_addend.get(LE));
        match self.source {
            _ if ignores_addend(ty) => true,
            ReferenceSource::Code(_) | ReferenceSource::Unwind | ReferenceSource::Other => true,
            ReferenceSource::Raw => match ty {
                R_X86_64_PC32 | R_X86_64_PLT32 => (-8..=-4).contains(&addend),
                _ => addend == 0,
            },
            ReferenceSource::Data if matches!(ty, R_X86_64_64 | R_X86_64_32 | R_X86_64_32S) => {
                let own = data.at(value).and_then(|o| data.object(o));
                let to = value.checked_add_signed(addend);
                own.zip(to).is_some_and(|(own, to)| (own.start..=own.end).contains(&to))
            }
            // The distance to a table, whose start is not known here.
            ReferenceSource::Data => true,
        }
    }
}

/// The offset in the target's section that a relocated displacement means.
pub(super) fn displacement(rela: &Rela, instruction: &Instruction) -> Option<i64> {
    let (place, addend) = (rela.r_offset.get(LE), rela.r_addend.get(LE));
    if place != instruction.displacement_at() || instruction.displacement().1 == 0 {
        return None;
    }
    match (type_of(rela), instruction.field) {
        (2, Field::RipRelative { .. }) => {
            addend.checked_add(i64::try_from(instruction.end().checked_sub(place)?).ok()?)
        }
        (R_X86_64_64 | R_X86_64_32 | R_X86_64_32S, Field::Displacement { registers: false }) => Some(addend),
        _ => None,
    }
}
