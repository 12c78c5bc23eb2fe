//! Jump tables as sections of their own.
//!
//! Compilers put the jump tables of all functions into one `.rodata`, whose relocations would keep every function with a table
//! for the sake of any. A summary says which ranges are tables that only one function reads
//! ([`OwnedRange`](summaries::OwnedRange)); here those are chosen that can be cut off, so that the rest of the section, the
//! bytes between the first and the last that are of none, stays as it is and together: a reference to it may be biased, and
//! then means a place that only its distance from the others tells.
//!
//! A relocation means a table where it names the table's first byte and is in the owner. That the owner refers to it is known
//! from the jump that was followed; that another of its relocations does not mean something else, to which it adds more,
//! follows where there is no other, or nothing else in the section.
//!
//! Left out: tables between other bytes, tables of several functions, and sections to which data measures distances.

use summaries::{Atom, AtomKind, Definition, ModuleSummary, SymbolKind, atom_flags};

use object::elf::{R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32};

use super::relocations::{BySection, Source};

/// Bytes before a table that align it, at most so many.
const MAX_PADDING: u64 = 7;

/// How a section of data is cut.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) section: u32,
    /// Where the pieces begin, ascending; the first at 0.
    pub(super) pieces: Vec<Piece>,
    /// What each relocation against the section symbol means: section and offset of the relocation, start of the piece.
    pub(super) meanings: Vec<((u32, u64), u64)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) start: u64,
    /// The atom whose table it is; `None` for the rest of the section.
    pub(super) owner: Option<usize>,
}

/// A table that one function owns.
#[derive(Debug)]
struct Table {
    start: u64,
    end: u64,
    owner: usize,
    /// Relocations of the owner that name its first byte.
    bases: Vec<(u32, u64)>,
    /// Something may refer to it in another way.
    unclear: bool,
}

/// The sections that can be cut, ascending. `relocations` are those by section symbol, by the section that they name.
pub(super) fn cuts(bytes: &[u8], summary: &ModuleSummary, relocations: &[BySection]) -> Vec<Cut> {
    let mut tables: Vec<(u32, Table)> = Vec::new();
    for owned in &summary.owned {
        let Some(atom) = summary.atoms.get(owned.atom.index()) else { continue };
        let (start, end, owner) = (owned.start, owned.end, owned.owner.index());
        tables.push((atom.section, Table { start, end, owner, bases: Vec::new(), unclear: false }));
    }
    tables.sort_by_key(|(section, table)| (*section, table.start));
    let mut cuts = Vec::new();
    while let Some((section, _)) = tables.first() {
        let section = *section;
        let end = tables.partition_point(|(s, _)| *s <= section);
        let own: Vec<Table> = tables.drain(..end).map(|(_, table)| table).collect();
        let from = relocations.partition_point(|r| r.target < section);
        let to = relocations.partition_point(|r| r.target <= section);
        let to_section = relocations.get(from..to).unwrap_or(&[]);
        cuts.extend(Rodata::read(bytes, summary, section, to_section).and_then(|rodata| rodata.cut(own)));
    }
    cuts
}

/// The first and the last place that a relocation may name; `None` for one of a form that does not tell. In code immediates and the
/// end of the instruction come behind the field: what is named is up to 4 bytes further on.
fn range(relocation: &BySection) -> Option<(i64, i64)> {
    match (relocation.source, relocation.kind) {
        (Source::Code, R_X86_64_PC32 | R_X86_64_PLT32) => {
            let first = relocation.addend.checked_add(4)?;
            Some((first, first.checked_add(4)?))
        }
        (Source::Code | Source::Data, R_X86_64_64 | R_X86_64_32 | R_X86_64_32S) => {
            Some((relocation.addend, relocation.addend))
        }
        _ => None,
    }
}

/// A section with tables.
struct Rodata<'a> {
    summary: &'a ModuleSummary,
    section: u32,
    align: u64,
    bytes: &'a [u8],
    /// Where symbols with a name are.
    named: Vec<u64>,
    relocations: &'a [BySection],
}

impl<'a> Rodata<'a> {
    fn read(
        bytes: &'a [u8],
        summary: &'a ModuleSummary,
        section: u32,
        relocations: &'a [BySection],
    ) -> Option<Self> {
        use atom_flags::{C_IDENTIFIER, GROUPED, LINK_ORDER, MERGE, RETAIN, STANDARD_FAMILY};
        let atoms = || summary.atoms.iter().filter(|a| a.section == section);
        let first = atoms().next()?;
        if first.kind != AtomKind::ReadOnlyData
            || first.has(RETAIN | LINK_ORDER | C_IDENTIFIER | MERGE | GROUPED)
            || !first.has(STANDARD_FAMILY)
            || summary.atoms.iter().any(|a| Self::is_ordered_after(summary, a, section))
        {
            return None;
        }
        let mut named = Vec::new();
        for symbol in &summary.symbols {
            if let Definition::Atom(atom) = symbol.definition
                && symbol.kind != SymbolKind::Section
                && summary.atoms.get(atom.index()).is_some_and(|a| a.section == section)
            {
                named.push(symbol.value);
            }
        }
        named.sort_unstable();
        let range = super::relocations::contents(bytes, section)?;
        let bytes = bytes.get(range)?;
        Some(Rodata { summary, section, align: first.align, bytes, named, relocations })
    }

    fn is_ordered_after(summary: &ModuleSummary, atom: &Atom, section: u32) -> bool {
        let after = atom.link_order.and_then(|a| summary.atoms.get(a.index()));
        after.is_some_and(|a| a.section == section)
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn holds(&self, atom: usize, place: (u32, u64)) -> bool {
        self.summary
            .atoms
            .get(atom)
            .is_some_and(|a| a.section == place.0 && a.offset <= place.1 && place.1 - a.offset < a.size)
    }

    /// The pieces, if there are two at least.
    fn cut(&self, mut tables: Vec<Table>) -> Option<Cut> {
        for relocation in self.relocations {
            self.attribute(relocation, &mut tables)?;
        }
        let only_tables = self.is_only(&tables);
        let separable = |table: &Table| {
            let first = self.named.partition_point(|at| *at < table.start);
            let unnamed = self.named.get(first).is_none_or(|at| *at >= table.end);
            let known = table.bases.len() == 1 || only_tables && !table.bases.is_empty();
            !table.unclear && unnamed && known && table.start < table.end && table.end <= self.size()
        };
        // From the front and from the back; what is between is the rest.
        let mut front = 0;
        let mut pieces: Vec<(u64, &Table)> = Vec::new();
        for table in &tables {
            if !separable(table) || !self.is_padding(front, table.start) {
                break;
            }
            pieces.push((if pieces.is_empty() { 0 } else { table.start }, table));
            front = table.end;
        }
        let mut rest = None;
        if !self.is_padding(front, self.size()) {
            // It is moved as one, so that it must begin where everything in it stays aligned.
            while rest.is_none() {
                rest = self.aligned_behind(front);
                if rest.is_none() {
                    front = pieces.pop()?.1.start;
                }
            }
        }
        let mut back = self.size();
        let mut behind: Vec<(u64, &Table)> = Vec::new();
        for table in tables.iter().skip(pieces.len()).rev() {
            if !separable(table) || !self.is_padding(table.end, back) || rest.is_none_or(|r| table.start <= r)
            {
                break;
            }
            behind.push((table.start, table));
            back = table.start;
        }
        let mut cut = Cut { section: self.section, ..Cut::default() };
        cut.pieces.extend(pieces.iter().map(|(start, t)| Piece { start: *start, owner: Some(t.owner) }));
        cut.pieces.extend(rest.map(|start| Piece { start, owner: None }));
        cut.pieces
            .extend(behind.iter().rev().map(|(start, t)| Piece { start: *start, owner: Some(t.owner) }));
        if cut.pieces.len() < 2 {
            return None;
        }
        for (start, table) in pieces.iter().chain(&behind) {
            cut.meanings.extend(table.bases.iter().map(|place| (*place, *start)));
        }
        cut.meanings.sort_unstable();
        for relocation in self.relocations {
            let place = (relocation.section, relocation.offset);
            if cut.meanings.binary_search_by_key(&place, |(at, _)| *at).is_err() {
                let at = cut.meanings.partition_point(|(at, _)| *at < place);
                // Where nothing is left but tables, there is nothing else to mean. Verify asks that a relocation names a place of
                // what it means, so that with one that is biased that far the section stays as it is.
                let (first, last) = range(relocation)?;
                if last < rest? as i64 || first >= back as i64 {
                    return None;
                }
                cut.meanings.insert(at, (place, rest?));
            }
        }
        Some(cut)
    }

    /// Note what a relocation says of the tables; `None` if it may mean any place of the section and move with none.
    fn attribute(&self, relocation: &BySection, tables: &mut [Table]) -> Option<()> {
        let place = (relocation.section, relocation.offset);
        let (first, last) = range(relocation)?;
        for table in tables {
            let inside = |at: i64| u64::try_from(at).is_ok_and(|at| table.start <= at && at < table.end);
            let spans = first < table.start as i64 && last >= table.start as i64;
            if !inside(first) && !spans {
                continue;
            }
            let own = self.holds(table.owner, place);
            match first == table.start as i64 && first != last && own {
                true => table.bases.push(place),
                // Only the owner refers to it: another function's means what lies behind.
                false => table.unclear |= own || inside(first),
            }
        }
        Some(())
    }

    /// Whether nothing but tables is in the section, and nothing but their owners refers to it.
    fn is_only(&self, tables: &[Table]) -> bool {
        let mut at = 0;
        for table in tables {
            if table.unclear || table.bases.is_empty() || !self.is_padding(at, table.start) {
                return false;
            }
            at = table.end;
        }
        let bases: usize = tables.iter().map(|t| t.bases.len()).sum();
        self.named.is_empty() && bases == self.relocations.len() && self.is_padding(at, self.size())
    }

    /// Whether the bytes from `start` to `end` are none, or align what follows: few zeros to which nothing refers.
    fn is_padding(&self, start: u64, end: u64) -> bool {
        start == end || end.saturating_sub(start) <= MAX_PADDING && self.is_unused(start, end)
    }

    /// Where what is behind `front` begins, if that is as well aligned as the section can be.
    fn aligned_behind(&self, front: u64) -> Option<u64> {
        let start = front.checked_next_multiple_of(self.align)?;
        let begins = || {
            self.named.binary_search(&start).is_ok()
                || self.relocations.iter().any(|r| range(r).is_some_and(|(first, _)| first == start as i64))
        };
        let known = start == front || start < self.size() && begins() && self.is_unused(front, start);
        known.then_some(start)
    }

    /// Whether some bytes are zeros to which nothing refers.
    fn is_unused(&self, start: u64, end: u64) -> bool {
        let within = || Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?);
        let zeros = within().and_then(|r| self.bytes.get(r)).is_some_and(|b| b.iter().all(|b| *b == 0));
        let first = self.named.partition_point(|at| *at < start);
        let named = self.named.get(first).is_some_and(|at| *at < end);
        // A relocation against what lies behind may look as if it meant the last of them.
        let meant = |r: &BySection| {
            let (first, last) = range(r).unwrap_or((i64::MIN, i64::MAX));
            last >= start as i64 && first < end as i64
        };
        zeros && !named && !self.relocations.iter().any(meant)
    }
}
