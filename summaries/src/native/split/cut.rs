//! Jump tables that are cut off from the rest of their section.
//!
//! Compilers put the jump tables of all functions into one `.rodata`. If other references to the section may be
//! biased, its objects can't be distinguished ([`super::pointers`]). Then the tables at the start and end of the
//! section are cut off. The rest stays together, because a biased reference means a place by its distance from
//! others.
//!
//! A relocation means a table if it names the table's first byte and is in the owner. The analysed jump shows that
//! the owner refers to it. Another relocation of the owner could mean something else and have an addend, so there
//! must be only one, or the section must have only tables.
//!
//! Tables between other bytes are not cut off, and neither are tables of several functions.

use object::elf;
use object::endian::LittleEndian as LE;

use super::division::{OwnedTable, SectionPlace, SplitContext};
use super::objects::is_eligible;
use super::pointers::displacement;
use super::references::{ReferenceSource, source};
use super::text::{InstructionCursor, Text};
use crate::native::relocations::types::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32,
};
use crate::native::relocations::{self, Rela, symbol_of, type_of};
use crate::native::tables::Result;
use crate::summary::{AtomKind, Definition, SymbolKind, Target};

/// The parts of a section of data, and the relocations that mean them.
#[derive(Debug, Default)]
pub(super) struct SectionCut {
    pub(super) section: u32,
    /// The starts of the parts, ascending; the first is 0.
    pub(super) pieces: Vec<u64>,
    /// The relocations that mean a table which is a part: the place of each, and the start of the part; sorted.
    pub(super) bases: Vec<(SectionPlace, u64)>,
    /// The other relocations against the section symbol, which mean the rest.
    pub(super) others: Vec<SectionPlace>,
    /// The start and end of the rest.
    pub(super) rest: Option<(u64, u64)>,
}

impl SectionCut {
    /// Whether a relocation means a cut-off table.
    pub(super) fn is_base(&self, at: SectionPlace) -> bool {
        self.bases.binary_search_by_key(&at, |(base, _)| *base).is_ok()
    }
}

/// A table that one function owns.
#[derive(Debug)]
struct FunctionTable {
    start: u64,
    end: u64,
    owner: SectionPlace,
    /// The owner's relocations that name its first byte.
    bases: Vec<SectionPlace>,
    /// Another reference to it may exist.
    unclear: bool,
}

/// A relocation by section symbol, and the first and last place that it may name. In code that is not decoded, an
/// immediate may follow the field, so the place is up to 4 bytes further on.
#[derive(Debug, Clone, Copy)]
struct Naming {
    at: SectionPlace,
    first: i64,
    last: i64,
    /// It is a PC-relative relocation in decoded code.
    by_code: bool,
}

/// The sections that can be cut, ascending. `owned` are the tables with one owner, sorted by section and start.
pub(super) fn cuts(
    context: &SplitContext<'_, '_>,
    texts: &[Text<'_>],
    owned: &[OwnedTable],
) -> Result<Vec<SectionCut>> {
    if owned.is_empty() {
        return Ok(Vec::new());
    }
    let mut sections: Vec<JumpTableSection<'_, '_, '_>> = Vec::new();
    for own in owned.chunk_by(|a, b| a.section == b.section) {
        let section = own.first().map(|first| JumpTableSection::read(context, texts, first.section));
        sections.extend(section.transpose()?.flatten());
    }
    for own in context.relas.chunk_by(|a, b| a.0 == b.0) {
        let Some((from, _)) = own.first() else { continue };
        let source = source(context, texts, *from);
        let mut instructions = InstructionCursor::default();
        for (_, rela) in own {
            let Some(entry) = context.symbols.get(symbol_of(rela).index()) else { continue };
            let Definition::Atom(atom) = entry.definition else { continue };
            let to = context.section_of(atom).unwrap_or(u32::MAX);
            let Ok(index) = sections.binary_search_by_key(&to, |s| s.section) else { continue };
            let Some(named) = sections.get_mut(index) else { continue };
            let by_section =
                matches!(relocations::target(context.symbols, symbol_of(rela)), Ok(Some(Target::Atom(_))));
            if by_section {
                match naming(texts, *from, source, rela, &mut instructions) {
                    Some(naming) => named.relocations.push(naming),
                    None => named.unclear = true,
                }
            } else {
                named.unclear |= entry.kind == SymbolKind::Section;
            }
        }
    }
    let mut places: Vec<SectionPlace> =
        sections.iter().flat_map(|s| s.relocations.iter().map(|r| r.at)).collect();
    places.sort_unstable();
    let twice = places.windows(2).any(|pair| pair.first() == pair.last());
    let known = |s: &&JumpTableSection<'_, '_, '_>| !s.unclear && !twice;
    Ok(sections.iter().filter(known).filter_map(|s| s.cut(owned)).collect())
}

/// The place that a relocation names; `None` for a form that does not tell.
fn naming(
    texts: &[Text<'_>],
    section: u32,
    source: ReferenceSource,
    rela: &Rela,
    instructions: &mut InstructionCursor,
) -> Option<Naming> {
    let (place, addend) = (rela.r_offset.get(LE), rela.r_addend.get(LE));
    let exactly = |at: i64| Naming { at: (section, place), first: at, last: at, by_code: false };
    match (source, type_of(rela)) {
        (ReferenceSource::Code(text), R_X86_64_PC32 | R_X86_64_PLT32) => {
            let at = displacement(rela, instructions.seek(texts.get(text)?, place)?)?;
            Some(Naming { by_code: true, ..exactly(at) })
        }
        (ReferenceSource::Raw, R_X86_64_PC32 | R_X86_64_PLT32) => {
            let first = addend.checked_add(4)?;
            Some(Naming { last: first.checked_add(4)?, ..exactly(first) })
        }
        (
            ReferenceSource::Code(_) | ReferenceSource::Raw | ReferenceSource::Data,
            R_X86_64_64 | R_X86_64_32 | R_X86_64_32S,
        ) => Some(exactly(addend)),
        _ => None,
    }
}

/// A read-only section with jump tables, and the references to it.
struct JumpTableSection<'c, 'a, 't> {
    context: &'c SplitContext<'a, 't>,
    texts: &'c [Text<'a>],
    section: u32,
    align: u64,
    bytes: &'a [u8],
    named: Vec<u64>,
    relocations: Vec<Naming>,
    /// A relocation may name any place of it, or is of a kind that compilers do not write.
    unclear: bool,
}

impl<'c, 'a, 't> JumpTableSection<'c, 'a, 't> {
    /// Read a section; `None` if compilers put no tables into it.
    fn read(context: &'c SplitContext<'a, 't>, texts: &'c [Text<'a>], section: u32) -> Result<Option<Self>> {
        let is_ordered_after = |s: u32| {
            context.atoms.iter().any(|a| a.link_order.and_then(|a| context.section_of(a)) == Some(s))
        };
        let atom = context.atoms.partition_point(|a| a.section < section);
        let atom = context.atoms.get(atom).filter(|a| a.section == section);
        let fits = |a: &&_| is_eligible(context.tables, a) && a.kind == AtomKind::ReadOnlyData;
        let header = context.tables.sections.get(section as usize);
        let Some((_, header)) = atom.filter(fits).zip(header.filter(|h| h.ty == elf::SHT_PROGBITS.0)) else {
            return Ok(None);
        };
        if is_ordered_after(section) {
            return Ok(None);
        }
        let mut named = Vec::new();
        for symbol in context.symbols.iter().filter(|s| s.kind != SymbolKind::Section) {
            if let Definition::Atom(atom) = symbol.definition
                && context.section_of(atom) == Some(section)
            {
                named.push(symbol.value);
            }
        }
        named.sort_unstable();
        let (align, bytes) = (header.align.max(1), context.tables.data(section)?);
        Ok(Some(JumpTableSection {
            context,
            texts,
            section,
            align,
            bytes,
            named,
            relocations: Vec::new(),
            unclear: false,
        }))
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether a place is in the part of code that has the owner.
    fn holds(&self, owner: SectionPlace, place: SectionPlace) -> bool {
        let text = self.context.text_of(owner.0).and_then(|t| self.texts.get(t));
        let part = |at: u64| text.and_then(|t| t.part_at(at));
        owner.0 == place.0 && part(owner.1).is_some() && part(owner.1) == part(place.1)
    }

    /// The parts, if there are at least two.
    fn cut(&self, owned: &[OwnedTable]) -> Option<SectionCut> {
        let own = owned.iter().filter(|o| o.section == self.section);
        let mut tables: Vec<FunctionTable> = own
            .map(|o| FunctionTable {
                start: o.start,
                end: o.end,
                owner: o.owner,
                bases: Vec::new(),
                unclear: false,
            })
            .collect();
        for relocation in &self.relocations {
            self.attribute(relocation, &mut tables);
        }
        let only_tables = self.is_only(&tables);
        let separable = |table: &FunctionTable| {
            let first = self.named.partition_point(|at| *at < table.start);
            let unnamed = self.named.get(first).is_none_or(|at| *at >= table.end);
            let known = table.bases.len() == 1 || only_tables && !table.bases.is_empty();
            !table.unclear && unnamed && known && table.start < table.end && table.end <= self.size()
        };
        // Cut tables from the front and from the back; the rest is between them. Tables of 4-byte entries need no
        // padding, so a gap is an object.
        let mut front = 0;
        let mut pieces: Vec<&FunctionTable> = Vec::new();
        for table in &tables {
            if !separable(table) || table.start != front {
                break;
            }
            pieces.push(table);
            front = table.end;
        }
        let mut rest = None;
        if front != self.size() {
            // The rest is moved as a whole, so its start must keep everything aligned.
            while rest.is_none() {
                rest = self.aligned_behind(front);
                if rest.is_none() {
                    front = pieces.pop()?.start;
                }
            }
        }
        let mut back = self.size();
        let mut behind: Vec<&FunctionTable> = Vec::new();
        for table in tables.iter().skip(pieces.len()).rev() {
            if !separable(table) || table.end != back || rest.is_none_or(|r| table.start <= r) {
                break;
            }
            behind.push(table);
            back = table.start;
        }
        let mut cut = SectionCut { section: self.section, ..SectionCut::default() };
        cut.pieces.extend(pieces.iter().map(|table| table.start));
        cut.pieces.extend(rest);
        cut.pieces.extend(behind.iter().rev().map(|table| table.start));
        cut.rest = rest.map(|rest| (rest, back));
        if cut.pieces.len() < 2 {
            return None;
        }
        for table in pieces.iter().chain(&behind) {
            cut.bases.extend(table.bases.iter().map(|place| (*place, table.start)));
        }
        cut.bases.sort_unstable();
        let mut others = Vec::new();
        // A relocation must name a place of the rest. Otherwise the section is kept whole.
        for Naming { at, first, last, .. } in self.relocations.iter().copied().filter(|r| !cut.is_base(r.at))
        {
            if last < rest? as i64 || first >= back as i64 {
                return None;
            }
            others.push(at);
        }
        cut.others = others;
        Some(cut)
    }

    /// Note a relocation in the tables that it may mean.
    fn attribute(&self, relocation: &Naming, tables: &mut [FunctionTable]) {
        let Naming { at: place, first, last, by_code } = *relocation;
        let begin = tables.partition_point(|table| (table.end as i64) <= first);
        let near = tables.get_mut(begin..).unwrap_or(&mut []).iter_mut();
        for table in near.take_while(|table| table.start as i64 <= last) {
            let inside = |at: i64| u64::try_from(at).is_ok_and(|at| table.start <= at && at < table.end);
            let spans = first < table.start as i64 && last >= table.start as i64;
            if !inside(first) && !spans {
                continue;
            }
            let own = self.holds(table.owner, place);
            match first == table.start as i64 && by_code && own {
                true => table.bases.push(place),
                // Only the owner refers to it: another function's means what lies behind.
                false => table.unclear |= own || inside(first),
            }
        }
    }

    /// Whether nothing but tables is in the section, and nothing but their owners refers to it.
    fn is_only(&self, tables: &[FunctionTable]) -> bool {
        let mut at = 0;
        for table in tables {
            if table.unclear || table.bases.is_empty() || table.start != at {
                return false;
            }
            at = table.end;
        }
        let bases: usize = tables.iter().map(|t| t.bases.len()).sum();
        self.named.is_empty() && bases == self.relocations.len() && at == self.size()
    }

    /// The first object behind `front`, if it has the alignment of the section. A named object must begin behind the
    /// padding: a relocation may mean the middle of an array, and the padding could be its first element.
    fn aligned_behind(&self, front: u64) -> Option<u64> {
        let start = front.checked_next_multiple_of(self.align)?;
        let known =
            start == front || self.named.binary_search(&start).is_ok() && self.is_unused(front, start);
        known.then_some(start)
    }

    /// Whether some bytes are zeros to which nothing refers.
    fn is_unused(&self, start: u64, end: u64) -> bool {
        let within = || Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
        let zeros = within().and_then(|r| self.bytes.get(r)).is_some_and(|b| b.iter().all(|b| *b == 0));
        let first = self.named.partition_point(|at| *at < start);
        let named = self.named.get(first).is_some_and(|at| *at < end);
        // A relocation against what lies behind may look as if it meant the last of them.
        let meant = |r: &Naming| r.last >= start as i64 && r.first < end as i64;
        zeros && !named && !self.relocations.iter().any(meant)
    }
}
