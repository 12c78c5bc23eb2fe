//! Code that falls through the end of its section, as in hand-written assembly. Linkers place the next section of the
//! file there, or the next one by prefix (`.text.hot`).
//!
//! The last function of such a section refers to the first one of each section that may be next. Code counts as
//! falling through unless it provably ends. A jump or an operand that leads to the end counts, a last instruction
//! that is no jump or return, and code that may lead behind the last jump. One assumption: a call that ends a sized
//! function does not return. Compilers end functions so if the callee never returns, and distributions remove the
//! name of the compiler (`.comment`).
//!
//! Modules of one compiler's unit ([`is_compiled_unit`]) whose code symbols all have a type are not checked: in C
//! such a function has undefined behaviour. Some rare cases are not found. These are data before the end that decodes
//! as other instructions, unnamed code before the only name of a section, and a jump from other code to the end
//! behind a last call. Behind 64 sections of groups in a row none is found either.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::decode::{self, Flow, Instruction};
use super::tables::{Result, Tables};
use crate::ids::{AtomIdx, NameRef};
use crate::summary::{
    Atom, AtomKind, Definition, ModuleSummary, Reference, ReferenceKind, Symbol, SymbolKind, Target,
};

/// Add a reference from each section of code that may fall through to the next one of its family. Returns the atoms
/// of these sections.
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
    /// The link has another module's copy of it.
    Discarded,
}

/// The dropped atoms into which kept code may fall through. `summary` is the summary of the object's sections
/// ([`SummaryOptions::without_ends`](crate::SummaryOptions)). Code is read only if the section behind it is dropped.
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
    // The same bytes were read before.
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

/// For each section that may fall through: its last atom, its end, and the first atoms of the sections that linkers
/// may place behind it.
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

/// A section of code: its name, its first and last atom, and its end in bytes.
#[derive(Debug, Clone)]
struct CodeSection<'a> {
    name: &'a [u8],
    first: AtomIdx,
    last: AtomIdx,
    end: u64,
    grouped: bool,
    /// Control may fall through its end.
    goes_on: bool,
}

/// For each section that falls through: its last atom, its end, and the first atoms of the possible next sections.
/// Linkers place the sections of a family one after the other in the given order.
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
        // If another module's group prevails, the section behind the group comes next.
        match section.grouped {
            true => next.truncate(MOST_GROUPED),
            false => next.clear(),
        }
        next.insert(0, section.first);
    }
    all
}

/// The number of sections of groups in a row to look through. The bound prevents a quadratic number of references.
const MOST_GROUPED: usize = 64;

/// Parts of compilers' names in `.comment`.
const COMPILERS: &[&[u8]] = &[b"GCC: (", b"clang version ", b"rustc version ", b"ldc version ", b"GHC "];

/// Whether compilers made all of the module, as far as can be told.
fn is_of_compiler(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> bool {
    // Compilers write no code symbols without a type.
    let is_label = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) => {
            symbol.kind == SymbolKind::NoType
                && atoms.get(atom.index()).is_some_and(|a| a.kind == AtomKind::Code)
        }
        _ => false,
    };
    is_compiled_unit(tables, atoms, symbols) && !symbols.iter().any(is_label)
}

/// Whether the module has compilers' names only, and is one translation unit.
pub(super) fn is_compiled_unit(tables: &Tables<'_>, atoms: &[Atom], symbols: &[Symbol]) -> bool {
    has_name_of_compiler(tables) && is_one_unit(tables, atoms, symbols)
}

/// Whether the symbols are those of one translation unit, and not of objects joined by `-r`.
///
/// The first symbol of a unit is its only file symbol. GNU ld and gold write section symbols before it, and mold a
/// file symbol for each input. lld keeps it first. But lld and GNU ld write a symbol for `.comment`, and assemblers
/// write none.
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

/// Whether `.comment` has names of compilers only.
fn has_name_of_compiler(tables: &Tables<'_>) -> bool {
    let Some(index) = comment(tables) else { return false };
    let comment = u32::try_from(index).ok().and_then(|index| tables.data(index).ok()).unwrap_or(&[]);
    let is_known = |name: &[u8]| COMPILERS.iter().any(|c| name.windows(c.len()).any(|part| part == *c));
    let mut names = comment.split(|byte| *byte == 0).filter(|name| !name.is_empty()).peekable();
    names.peek().is_some() && names.all(is_known)
}

/// The name of the output section: `.text` for `.text.f`.
fn family(name: &[u8]) -> &[u8] {
    if name.starts_with(b".gnu.linkonce.t.") {
        return b".text";
    }
    let dot = name.iter().skip(1).position(|byte| *byte == b'.');
    dot.and_then(|dot| name.get(..=dot)).unwrap_or(name)
}

/// How linkers gather sections of code by name before the others of the family. GNU ld has the rules in its default
/// script, gold by prefix, and lld and mold with `-z keep-text-section-prefix`.
#[derive(Debug, Clone, Copy)]
enum GatherRules {
    Bfd,
    Gold,
    Lld,
}

impl GatherRules {
    const ALL: [GatherRules; 3] = [GatherRules::Bfd, GatherRules::Gold, GatherRules::Lld];

    /// In the order of GNU ld's default script. gold has the first four, and GNU ld the first five.
    const PREFIXES: &'static [&'static [u8]] = &[
        b".text.unlikely",
        b".text.exit",
        b".text.startup",
        b".text.hot",
        b".text.sorted",
        b".text.unknown",
        b".text.split",
    ];

    /// The number of a name's prefix.
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

    /// The place of a section in the order: the number of its prefix, and its name if the linker sorts by name.
    fn place(self, name: &[u8]) -> (usize, &[u8]) {
        let is_sorted = matches!(self, GatherRules::Bfd) && name.starts_with(b".text.sorted.");
        (self.prefix(name).unwrap_or(Self::PREFIXES.len()), if is_sorted { name } else { b"" })
    }

    /// The output section. lld and mold have one for each prefix.
    fn output_section(self, name: &[u8]) -> &[u8] {
        let of_prefix = self.prefix(name).filter(|_| matches!(self, GatherRules::Lld));
        of_prefix.and_then(|number| Self::PREFIXES.get(number)).copied().unwrap_or_else(|| family(name))
    }
}

/// By atom, the last named place of its section.
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

/// The ranges of functions and the places of other symbols, sorted by atom and place.
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

/// The facts about an object that decide whether an atom falls through: symbols, relocations and instructions.
struct SectionEnds<'t, 'a> {
    tables: &'t Tables<'a>,
    atoms: &'t [Atom],
    /// By atom, the last place in its section that is named.
    farthest: Vec<u64>,
    named: Vec<(AtomIdx, Range<u64>)>,
    relocated: Vec<(AtomIdx, u64)>,
    instructions: Vec<Instruction>,
}

impl<'t, 'a> SectionEnds<'t, 'a> {
    fn new(tables: &'t Tables<'a>, atoms: &'t [Atom], symbols: &[Symbol], references: &[Reference]) -> Self {
        let (farthest, named) = (farthest(atoms, symbols, references), named(symbols));
        let mut relocated: Vec<_> = references.iter().map(|r| (r.from, r.offset)).collect();
        relocated.sort_unstable();
        SectionEnds { tables, atoms, farthest, named, relocated, instructions: Vec::new() }
    }

    /// Whether control may fall through the end of the atom.
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
        // The list ends at the first undecodable bytes.
        let mut is_code = decode::decode_flow(bytes, 0, instructions).is_ok();
        let ends = |i: &Instruction| {
            matches!(i.flow, Flow::Jump | Flow::JumpRegister | Flow::JumpMemory | Flow::Stop)
        };
        let is_padding =
            |i: &Instruction| decode::is_padding(bytes.get(i.offset as usize..at(i.end())).unwrap_or(&[]));
        // GHC writes a table, and behind it a function with the only name.
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
        // An address that is taken may be jumped to. The field of the last jump is 0 if it has a relocation.
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
        // It may be data. A part of a section has names that are not checked here.
        let is_whole = bytes.len() == section.len();
        let leads = |i: &Instruction| {
            matches!(i.flow, Flow::JumpRegister | Flow::JumpMemory)
                || to(i).is_some_and(|to| to >= start) && !is_relocated(i)
        };
        Ok(!is_whole || farthest >= start || instructions.iter().any(leads))
    }
}
