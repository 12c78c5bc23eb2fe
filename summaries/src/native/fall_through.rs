//! Control that goes on behind the end of a section, as assembly written by hand may have it: linkers put the next section of the file
//! there, or the next one in the order in which they gather sections by prefix (`.text.hot`).
//!
//! The last function of such a section refers to the first one of each section that may be next. Safe because whatever does not provably end
//! counts as going on: a jump to the end or its address in an operand, code whose last instruction is not a jump or a return, and bytes behind the last jump
//! or return if anything may lead there. One thing is assumed: a call that ends a function with a size does not come back.
//! Compilers end a function like that if the callee never returns, and distributions take the name of the compiler out of their
//! archives (by `strip --remove-section=.comment`).
//!
//! Left out: modules that are one compiler's unit by their names ([`is_compiled_unit`]), where all symbols of code have a type.
//! There a function that goes on behind its end has no meaning in C, and inline assembly across sections without a label is not looked at. Also left out are data before the end that decodes as other instructions, code without a name before the only name of a
//! section, a jump from other code to the end behind a last call or return, and more than 64 sections of groups in a row.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::decode::{self, Flow, Instruction};
use super::tables::{Result, Tables};
use crate::ids::{AtomIdx, NameRef};
use crate::summary::{
    Atom, AtomKind, Definition, ModuleSummary, Reference, ReferenceKind, Symbol, SymbolKind, Target,
};

/// Add a reference from each section of code that may go on to the next one of the same family. The result is the atoms that may.
pub(super) fn read(
    tables: &Tables<'_>,
    atoms: &[Atom],
    symbols: &[Symbol],
    references: &mut Vec<Reference>,
) -> Result<Vec<AtomIdx>> {
    if is_of_compiler(tables, atoms, symbols) {
        return Ok(Vec::new());
    }
    let ends = &mut SectionEnds::new(tables, atoms, symbols, references);
    let next =
        next_of(code_sections(atoms, |name| tables.name(name)), |section| ends.may_go_on(section.last))?;
    references.extend(next.iter().map(|(from, offset, to)| Reference {
        from: *from,
        offset: *offset,
        kind: ReferenceKind::Call,
        target: Target::Atom(*to),
        addend: 0,
    }));
    let mut goes_on: Vec<AtomIdx> = next.into_iter().map(|(from, ..)| from).collect();
    goes_on.dedup();
    Ok(goes_on)
}

/// The fate of an atom in a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomFate {
    Kept,
    Dropped,
    /// It is another module's copy that the link has.
    Discarded,
}

/// The atoms that are dropped and that kept code may go on into. `summary` is the summary of the object's sections
/// ([`SummaryOptions::without_ends`](crate::SummaryOptions)). Code is read only if a section behind it is dropped.
pub fn next_sections(
    bytes: &[u8],
    summary: &ModuleSummary,
    fate: &dyn Fn(AtomIdx) -> AtomFate,
) -> Vec<AtomIdx> {
    let ModuleSummary { atoms, symbols, references, .. } = summary;
    let next = || -> Result<Vec<AtomIdx>> {
        let tables = &Tables::read(bytes)?;
        if is_of_compiler(tables, atoms, symbols) {
            return Ok(Vec::new());
        }
        let is_kept = |section: &CodeSection<'_>| Ok(fate(section.last) == AtomFate::Kept);
        let mut next = next_of(code_sections(atoms, |name| summary.name(name)), is_kept)?;
        next.retain(|(.., to)| fate(*to) == AtomFate::Dropped);
        if next.is_empty() {
            return Ok(Vec::new());
        }
        let mut ends = SectionEnds::new(tables, atoms, symbols, references);
        let mut lost = Vec::new();
        for of_one in next.chunk_by(|a, b| a.0 == b.0) {
            if ends.may_go_on(of_one[0].0)? {
                lost.extend(of_one.iter().map(|(.., to)| *to));
            }
        }
        Ok(lost)
    };
    // It was read before, and is the same.
    next().unwrap_or_else(|_| {
        (0..atoms.len()).map(AtomIdx::new).filter(|atom| fate(*atom) == AtomFate::Dropped).collect()
    })
}

/// The sections of code of an object, in its order.
fn code_sections<'n>(atoms: &[Atom], name: impl Fn(NameRef) -> &'n [u8]) -> Vec<CodeSection<'n>> {
    let is_code = |(_, atom): &(usize, &Atom)| atom.kind == AtomKind::Code && atom.size > 0;
    let mut code: Vec<(usize, &Atom)> = atoms.iter().enumerate().filter(is_code).collect();
    code.sort_by_key(|(_, atom)| (atom.section, atom.offset));
    let of_section = |own: &[(usize, &Atom)]| {
        let (Some((first, _)), Some((last, atom))) = (own.first(), own.last()) else { return None };
        Some(CodeSection {
            name: name(atom.name),
            first: AtomIdx::new(*first),
            last: AtomIdx::new(*last),
            end: atom.offset.saturating_add(atom.size),
            grouped: atom.group.is_some(),
            goes_on: false,
        })
    };
    code.chunk_by(|a, b| a.1.section == b.1.section).filter_map(of_section).collect()
}

/// For each section that control may leave at its end, its last atom, its end, and the first atoms of the sections that linkers may place behind it.
fn next_of<'s>(
    mut sections: Vec<CodeSection<'s>>,
    mut goes_on: impl FnMut(&CodeSection<'s>) -> Result<bool>,
) -> Result<Vec<(AtomIdx, u64, AtomIdx)>> {
    for section in &mut sections {
        section.goes_on = goes_on(section)?;
    }
    let mut next = next_in_output(&sections, family);
    for rules in GatherRules::ALL {
        let mut gathered = sections.clone();
        gathered.sort_by_key(|section| rules.place(section.name));
        next.extend(next_in_output(&gathered, |name| rules.output_section(name)));
    }
    next.sort_unstable();
    next.dedup();
    Ok(next)
}

/// A section of code: what linkers place it by, its first and last atom, and its end in bytes.
#[derive(Debug, Clone)]
struct CodeSection<'a> {
    name: &'a [u8],
    first: AtomIdx,
    last: AtomIdx,
    end: u64,
    grouped: bool,
    /// Control may leave it at its end.
    goes_on: bool,
}

/// For each section that goes on, its last atom, its end, and the first atoms of the sections that may come next, where linkers
/// put those of a family one after the other in the order given.
fn next_in_output<'s>(
    sections: &[CodeSection<'s>],
    output_section: impl Fn(&'s [u8]) -> &'s [u8],
) -> Vec<(AtomIdx, u64, AtomIdx)> {
    let mut all = Vec::new();
    let mut next: FxHashMap<&[u8], Vec<AtomIdx>> = FxHashMap::default();
    for section in sections.iter().rev() {
        let next = next.entry(output_section(section.name)).or_default();
        if section.goes_on {
            all.extend(next.iter().map(|first| (section.last, section.end, *first)));
        }
        // In place of a group that is another module's there is nothing, and what is behind it comes next.
        match section.grouped {
            true => next.truncate(MOST_GROUPED),
            false => next.clear(),
        }
        next.insert(0, section.first);
    }
    all
}

/// Through so many sections of groups in a row what comes next is looked for: without a bound an object could ask for references
/// in the square of its sections.
const MOST_GROUPED: usize = 64;

/// What the names of compilers in `.comment` have in them.
const COMPILERS: &[&[u8]] = &[b"GCC: (", b"clang version ", b"rustc version ", b"ldc version ", b"GHC "];

/// Whether compilers made all of the module, as far as that can be told.
fn is_of_compiler(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> bool {
    // Compilers give code no symbols without a type.
    let is_label = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) => {
            symbol.kind == SymbolKind::NoType
                && atoms.get(atom.index()).is_some_and(|a| a.kind == AtomKind::Code)
        }
        _ => false,
    };
    is_compiled_unit(tables, atoms, symbols) && !symbols.iter().any(is_label)
}

/// Whether the module names compilers alone and is one translation unit.
pub(super) fn is_compiled_unit(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> bool {
    has_name_of_compiler(tables) && is_one_unit(tables, atoms, symbols)
}

/// Whether the symbols are those of one translation unit, and not of objects that a linker joined (`-r`).
///
/// The first symbol of a unit names its file, and no other one does. GNU ld and gold write section symbols before it, mold writes one for
/// each input. lld keeps it first. But lld and GNU ld write a symbol for `.comment`, and assemblers write none.
fn is_one_unit(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> bool {
    let comment = comment(tables);
    let is_of_comment = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) => {
            atoms.get(atom.index()).is_some_and(|atom| Some(atom.section as usize) == comment)
        }
        Definition::OtherSection(section) => Some(section as usize) == comment,
        _ => false,
    };
    let files = symbols.iter().skip(1).enumerate().filter(|(_, symbol)| symbol.kind == SymbolKind::File);
    files.map(|(at, _)| at).eq([0]) && !symbols.iter().any(is_of_comment)
}

/// The index of the section `.comment`.
fn comment(tables: &Tables<'_>) -> Option<usize> {
    tables.sections.iter().position(|section| tables.name(section.name) == b".comment")
}

/// Whether `.comment` has names, and only of compilers.
fn has_name_of_compiler(tables: &Tables<'_>) -> bool {
    let Some(index) = comment(tables) else { return false };
    let comment = u32::try_from(index).ok().and_then(|index| tables.data(index).ok()).unwrap_or(&[]);
    let is_known = |name: &[u8]| COMPILERS.iter().any(|c| name.windows(c.len()).any(|part| part == *c));
    let mut names = comment.split(|byte| *byte == 0).filter(|name| !name.is_empty()).peekable();
    names.peek().is_some() && names.all(is_known)
}

/// The name of the section that linkers put it in: `.text` of `.text.f`.
fn family(name: &[u8]) -> &[u8] {
    if name.starts_with(b".gnu.linkonce.t.") {
        return b".text";
    }
    let dot = name.iter().skip(1).position(|byte| *byte == b'.');
    dot.and_then(|dot| name.get(..=dot)).unwrap_or(name)
}

/// How linkers gather sections of code by name before the others of the family: GNU ld by its default script, gold by prefix, and lld and mold
/// with `-z keep-text-section-prefix`.
#[derive(Debug, Clone, Copy)]
enum GatherRules {
    Bfd,
    Gold,
    Lld,
}

impl GatherRules {
    const ALL: [GatherRules; 3] = [GatherRules::Bfd, GatherRules::Gold, GatherRules::Lld];

    /// In the order of GNU ld's default script; gold knows the first four, GNU ld the first five.
    const PREFIXES: &'static [&'static [u8]] = &[
        b".text.unlikely",
        b".text.exit",
        b".text.startup",
        b".text.hot",
        b".text.sorted",
        b".text.unknown",
        b".text.split",
    ];

    /// The number of the prefix that the name of a section begins with.
    fn prefix(self, name: &[u8]) -> Option<usize> {
        let is_prefix = |prefix: &&[u8]| {
            let rest = name.strip_prefix(*prefix);
            rest.is_some_and(|r| matches!(self, GatherRules::Gold) || matches!(r, [] | [b'.', ..]))
        };
        let count = match self {
            GatherRules::Bfd => 5,
            GatherRules::Gold => 4,
            GatherRules::Lld => Self::PREFIXES.len(),
        };
        let is_unlikely = matches!(self, GatherRules::Bfd) && name.ends_with(b"_unlikely");
        let found = Self::PREFIXES.iter().take(count).position(is_prefix);
        if is_unlikely { Some(0) } else { found }
    }

    /// The place of a section in the order: the number of its prefix, and its name if the linker sorts by names there.
    fn place(self, name: &[u8]) -> (usize, &[u8]) {
        let is_sorted = matches!(self, GatherRules::Bfd) && name.starts_with(b".text.sorted.");
        (self.prefix(name).unwrap_or(Self::PREFIXES.len()), if is_sorted { name } else { b"" })
    }

    /// The section of the output that it is put into. lld and mold make one for each prefix.
    fn output_section(self, name: &[u8]) -> &[u8] {
        let of_prefix = self.prefix(name).filter(|_| matches!(self, GatherRules::Lld));
        of_prefix.and_then(|number| Self::PREFIXES.get(number)).copied().unwrap_or_else(|| family(name))
    }
}

/// The last place in each atom's section that a symbol or a reference names, or up to 8 bytes behind it, since a
/// reference may be relative to where its instruction ends.
fn farthest(atoms: &[Atom], symbols: &[Symbol], references: &[Reference]) -> Vec<u64> {
    let mut farthest = vec![0u64; atoms.len()];
    let mut name = |atom: AtomIdx, place: u64| {
        if let Some(last) = farthest.get_mut(atom.index()) {
            *last = (*last).max(place);
        }
    };
    for symbol in symbols {
        if let Definition::Atom(atom) = symbol.definition {
            name(atom, symbol.value);
        }
    }
    for reference in references {
        let (definition, value) = match reference.target {
            Target::Atom(atom) => (Definition::Atom(atom), 0),
            Target::Symbol(symbol) => match symbols.get(symbol.index()) {
                Some(symbol) => (symbol.definition, symbol.value),
                None => continue,
            },
        };
        if let Definition::Atom(atom) = definition {
            name(atom, value.saturating_add_signed(reference.addend.saturating_add(8)));
        }
    }
    farthest
}

/// What symbols name, sorted by atom and place: functions with a size, in bytes from the start of the section, and places.
fn named(symbols: &[Symbol]) -> Vec<(AtomIdx, Range<u64>)> {
    let range = |symbol: &Symbol| match symbol.kind {
        SymbolKind::Func => symbol.value..symbol.value.saturating_add(symbol.size),
        _ => symbol.value..symbol.value,
    };
    let names = symbols.iter().filter(|symbol| symbol.kind != SymbolKind::Section);
    let mut named: Vec<(AtomIdx, Range<u64>)> = names
        .filter_map(|symbol| match symbol.definition {
            Definition::Atom(atom) => Some((atom, range(symbol))),
            _ => None,
        })
        .collect();
    named.sort_unstable_by_key(|(atom, range)| (*atom, range.start, range.end));
    named.dedup();
    named
}

/// Facts about an object that say whether control goes on behind the end of an atom: symbols, relocations and instructions.
struct SectionEnds<'t, 'a> {
    tables: &'t Tables<'a>,
    atoms: &'t [Atom],
    /// By atom, the last place in its section that is named.
    farthest: Vec<u64>,
    /// By atom, the ranges that symbols name.
    named: Vec<(AtomIdx, Range<u64>)>,
    /// The places that relocations change, sorted.
    relocated: Vec<(AtomIdx, u64)>,
    /// Room for instructions, used again for each section.
    instructions: Vec<Instruction>,
}

impl<'t, 'a> SectionEnds<'t, 'a> {
    fn new(tables: &'t Tables<'a>, atoms: &'t [Atom], symbols: &[Symbol], references: &[Reference]) -> Self {
        let (farthest, named) = (farthest(atoms, symbols, references), named(symbols));
        let mut relocated: Vec<_> = references.iter().map(|r| (r.from, r.offset)).collect();
        relocated.sort_unstable();
        SectionEnds { tables, atoms, farthest, named, relocated, instructions: Vec::new() }
    }

    /// Whether control may leave the atom at its end.
    fn may_go_on(&mut self, id: AtomIdx) -> Result<bool> {
        let SectionEnds { tables, atoms, farthest, named, relocated, instructions } = self;
        let Some(atom) = atoms.get(id.index()) else { return Ok(true) };
        let farthest = farthest.get(id.index()).copied().unwrap_or(u64::MAX);
        let own = named.partition_point(|n| n.0 < id)..named.partition_point(|n| n.0 <= id);
        let named = named.get(own).unwrap_or(&[]);
        let section = tables.data(atom.section)?;
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = section.get(at(atom.offset)..at(atom.offset.saturating_add(atom.size))).unwrap_or(&[]);
        instructions.clear();
        // The list ends at the first bytes that are no instruction.
        let mut is_code = decode::decode_flow(bytes, 0, instructions).is_ok();
        let ends = |i: &Instruction| {
            matches!(i.flow, Flow::Jump | Flow::JumpRegister | Flow::JumpMemory | Flow::Stop)
        };
        let is_padding =
            |i: &Instruction| decode::is_padding(bytes.get(i.offset as usize..at(i.end())).unwrap_or(&[]));
        // A table and behind it a function, the only thing with a name, as GHC has them.
        if !is_code && let [(_, function)] = named {
            let start = u32::try_from(function.start.saturating_sub(atom.offset)).unwrap_or(u32::MAX);
            let mut own = Vec::new();
            is_code = decode::decode_flow(bytes.get(start as usize..).unwrap_or(&[]), start, &mut own)
                .is_ok()
                && !function.is_empty()
                && !own.iter().all(is_padding);
            if is_code {
                instructions.retain(|i| i.end() <= start.into());
                instructions.append(&mut own);
            }
        }
        let last = instructions.iter().rposition(|i| !is_padding(i)).unwrap_or(0);
        let end = instructions.get(last).map_or(0, Instruction::end);
        let to = |i: &Instruction| i.target().and_then(|t| u64::try_from(t).ok());
        let is_relocated = |i: &Instruction| {
            let first = relocated.partition_point(|at| *at < (id, atom.offset + u64::from(i.offset)));
            let end = atom.offset.saturating_add(i.end());
            relocated.get(first).is_some_and(|(of, at)| *of == id && *at < end)
        };
        // An address that is formed may be jumped to. The field of the last jump is 0 if a relocation fills it.
        let leads_to_end = |(number, i): (usize, &Instruction)| {
            matches!(i.flow, Flow::Jump | Flow::Conditional | Flow::Next)
                && to(i).is_some_and(|to| to >= end)
                && (number != last || !is_relocated(i))
        };
        if instructions.iter().enumerate().any(leads_to_end) {
            return Ok(true);
        }
        let is_call = |i: &Instruction| matches!(i.flow, Flow::Call | Flow::IndirectCall);
        let functions_end = named.iter().filter(|(_, f)| !f.is_empty()).map(|(_, f)| f.end).max();
        let ends_function = functions_end == Some(atom.offset.saturating_add(end));
        if is_code && ends_function && instructions.get(last).is_some_and(is_call) {
            return Ok(false);
        }
        let Some(barrier) = instructions.iter().rposition(ends) else { return Ok(true) };
        let behind = instructions.get(barrier + 1..).unwrap_or(&[]);
        let start = instructions.get(barrier).map_or(0, Instruction::end);
        // A function may consist of padding alone.
        let names_padding = || {
            let tail = atom.offset.saturating_add(start)..atom.offset.saturating_add(atom.size);
            named.iter().any(|(_, range)| tail.contains(&range.start))
        };
        if is_code && behind.iter().all(is_padding) {
            return Ok(names_padding());
        }
        // It may be data. A part of a section has names that are not looked at here.
        let is_whole = bytes.len() == section.len();
        let leads = |i: &Instruction| {
            matches!(i.flow, Flow::JumpRegister | Flow::JumpMemory)
                || to(i).is_some_and(|to| to >= start) && !is_relocated(i)
        };
        Ok(!is_whole || farthest >= start || instructions.iter().any(leads))
    }
}
