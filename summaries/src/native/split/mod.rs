//! Divides executable sections into functions, if the boundaries and all references across them are proved.
//!
//! A section is divided if sized function symbols and padding cover it ([`extents`]), and every function decodes
//! completely ([`code`]). Every relocation that means a place in it must mean one function ([`references`]).
//! PC-relative tables that lead into it must be jump tables with a proved base ([`jump_tables`]), and no address may
//! be ambiguous ([`unnamed`]). Otherwise the section is one atom, with a named limit. Functions stay together if a
//! short branch, a fall through, or a table without a proved base joins them.
//!
//! Sections of data are divided into objects ([`objects`], [`pointers`]), and jump tables are cut off ([`cut`]).
//! Exception tables are divided by LSDA ([`lsda`]), and metadata with its functions ([`metadata`]). Sections of
//! groups with several functions are not divided.

mod code;
mod cut;
mod dataflow;
mod extents;
mod in_frame;
mod objects;
mod division;
mod lsda;
mod metadata;
mod pointers;
mod references;
mod jump_tables;
mod text;
mod unnamed;

pub(crate) use division::{Division, IntraSectionReference, OwnedTable, SectionPlace};
pub(crate) use extents::{is_part, part_of};

use object::endian::LittleEndian as LE;

use super::eh_frame;
use super::fall_through::is_compiled_unit;
use super::relocations::{self, Rela};
use super::sections::{self, is_eh_frame};
use super::symbols::SectionAtoms;
use super::tables::{Result, Tables, record};
use crate::limit::{Limit, LimitRecord, Severity};
use crate::parallel::ParallelMap;
use crate::summary::{Atom, AtomKind, Binding, Definition, Granularity, SummaryOptions, Symbol, SymbolKind};
use division::SplitContext;
use metadata::Metadata;
use text::{Function, Text};

/// Decide how sections are divided. If values are analysed, sections with a single function are read too, for
/// [`Division::understood`]. `atoms` has an atom for each section, as at the granularity of sections.
///
/// Time and memory are linear in the size of the object, except for sorting and binary searches.
pub(crate) fn divide(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    options: SummaryOptions,
    parallel_map: ParallelMap<'_>,
    limits: &mut Vec<LimitRecord>,
) -> Result<Division> {
    let every = options.granularity >= Granularity::Pointers;
    // Such a module is passed through.
    if limits.iter().any(|l| l.limit.severity() >= Severity::Module) {
        return Ok(Division::default());
    }
    let mut texts = candidates(tables, atoms, symbols)?;
    let mut data = objects::candidates(tables, atoms, symbols);
    let divides = !data.is_empty() || !texts.is_empty() && (every || texts.iter().any(Text::is_worth_it));
    if !divides && !atoms.iter().any(|a| lsda::is_divisible(tables, a)) {
        return Ok(Division::default());
    }
    // `tcc -r` keeps the section symbols of joined objects, with values that relocations add to their addends.
    if symbols.iter().any(|s| s.kind == SymbolKind::Section && s.value != 0) {
        let detail = "section symbols have values, as tcc -r writes them; join the objects with ld -r";
        let bytes = texts.iter().filter(|t| t.is_worth_it()).map(|t| t.bytes.len() as u64).sum();
        limits.push(LimitRecord { bytes, ..record(Limit::AmbiguousTarget, None, detail.to_owned()) });
        return Ok(Division::default());
    }
    let mut text_of = vec![None; tables.sections.len()];
    for (i, text) in (0u32..).zip(&texts) {
        if let Some(slot) = text_of.get_mut(text.section as usize) {
            *slot = Some(i);
        }
    }
    // Emission makes the addresses in debug information explicit, so they do not prevent a division.
    let relas = relocations_beside_debug(tables, by_section)?;
    let mut rela_starts = Vec::with_capacity(tables.sections.len());
    for (i, (section, _)) in relas.iter().enumerate() {
        if *section as usize >= rela_starts.len() {
            rela_starts.resize(*section as usize + 1, i);
        }
    }
    let context = SplitContext {
        tables,
        atoms,
        symbols,
        compiled: is_compiled_unit(tables, atoms, symbols),
        parallel_map,
        unwind: eh_frame::sections(tables)?,
        text_of,
        data: data.iter().map(|d| d.section).collect(),
        relas,
        rela_starts,
    };
    let exception_tables = lsda::divide(&context, limits)?;
    if !divides {
        let mut division = Division { parts: exception_tables, ..Division::default() };
        keep_whole_before_ordered(&context, &mut division);
        return Ok(division);
    }
    let metadata = metadata::read(&context)?;
    undivided(&context, &metadata, &mut texts);
    extents::read(&context, &metadata, &mut texts);
    metadata::extend(&metadata, &mut texts);
    for text in &mut texts {
        code::read(&context, text);
    }
    let mut found = references::read(&context, &metadata, &mut texts);
    unnamed::refuse(&context, &mut texts, &found);
    let claimed = jump_tables::claim(&context, &mut texts, &mut found);
    found.retargets.extend(metadata::retargets(&metadata, &texts));
    references::one_meaning_each(&mut texts, &mut found.retargets);
    for text in &mut texts {
        text.form_parts();
        text.keep_aligned_together(tables.sections.get(text.section as usize).map_or(1, |s| s.align.max(1)));
    }
    let mut division = assemble(&texts, found.retargets, claimed);
    division.parts.extend(exception_tables);
    order(&metadata, &texts, &mut division);
    keep_whole_before_ordered(&context, &mut division);
    pointers::divide(&context, &texts, &mut data, &mut division, limits)?;
    for text in texts.iter_mut().filter(|t| t.is_worth_it()) {
        let Some((limit, detail)) = text.undivided.as_ref().or(text.refusal.as_ref()) else {
            limits_of_parts(&context, text, limits);
            continue;
        };
        let detail = format!("section {}: {detail}", tables.describe(text.section));
        limits.push(LimitRecord {
            bytes: text.bytes.len() as u64,
            ..record(*limit, Some(text.section), detail)
        });
    }
    Ok(division)
}

/// Add a limit for each part of several functions.
fn limits_of_parts(context: &SplitContext<'_, '_>, text: &mut Text<'_>, limits: &mut Vec<LimitRecord>) {
    let parts = text.tied_parts();
    if parts.is_empty() {
        return;
    }
    let is_own = |symbol: &&Symbol| {
        let is_function = matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc);
        matches!(symbol.definition, Definition::Atom(atom) if context.section_of(atom) == Some(text.section))
            && is_function
    };
    let mut symbols: Vec<&Symbol> = context.symbols.iter().filter(is_own).collect();
    // A global name is more helpful than that of an alias.
    symbols.sort_by_key(|symbol| (symbol.value, symbol.binding == Binding::Local));
    let name_of = |function: usize| {
        let start = text.functions.get(function).map_or(0, |f| f.start);
        let symbol = symbols.get(symbols.partition_point(|symbol| symbol.value < start));
        symbol.map_or("?".into(), |symbol| String::from_utf8_lossy(context.tables.name(symbol.name)))
    };
    for part in parts {
        let (first, last) = (part.functions.start, part.functions.end - 1);
        let others = match part.functions.len() - 2 {
            0 => String::new(),
            n => format!(", {n} more"),
        };
        let (section, names) = (context.describe(text.section), [name_of(first), name_of(last)]);
        let [first, last] = names;
        let detail = format!("section {section}: {first}{others} and {last} stay together: {}", part.why);
        limits.push(LimitRecord {
            offset: Some(part.start),
            bytes: part.bytes,
            ..record(part.limit, Some(text.section), detail)
        });
    }
}

/// The executable sections with a function symbol.
fn candidates<'a>(tables: &Tables<'a>, atoms: &[Atom], symbols: &[Symbol]) -> Result<Vec<Text<'a>>> {
    let places = extents::places(atoms, symbols);
    let mut texts: Vec<Text<'a>> = Vec::new();
    for run in places.chunk_by(|a, b| a.0 == b.0) {
        let Some((section, _)) = run.first() else { continue };
        let Some(header) = tables.sections.get(*section as usize) else { continue };
        if header.ty != object::elf::SHT_PROGBITS.0 || header.size >= 1 << 31 {
            continue;
        }
        let (bytes, places) = (tables.data(*section)?, run.len());
        texts.push(Text { section: *section, bytes, places, ..Text::default() });
    }
    Ok(texts)
}

/// The relocations of every section except debug information, by section and place.
pub(crate) fn relocations_beside_debug(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
) -> Result<Vec<(u32, Rela)>> {
    let mut all = Vec::new();
    for (i, section) in tables.sections.iter().enumerate() {
        if section.ty != object::elf::SHT_RELA.0 {
            continue;
        }
        let Some(target) = tables.sections.get(section.info as usize) else { continue };
        let name = tables.name(target.name);
        let beside = sections::atom_kind(target, name) == AtomKind::Debug;
        let unwind = is_eh_frame(target.ty, name);
        if beside || by_section.get(section.info).is_none() && !unwind {
            continue;
        }
        let entries = relocations::entries(tables, i as u32, section)?;
        all.reserve(entries.len());
        let telling = entries.iter().filter(|rela| !(unwind && relocations::is_left_over(rela)));
        all.extend(telling.map(|rela| (section.info, *rela)));
    }
    let key = |(section, rela): &(u32, Rela)| (*section, rela.r_offset.get(LE));
    if !all.is_sorted_by_key(key) {
        all.sort_by_key(key);
    }
    Ok(all)
}

/// Mark the sections of code that are not divided: those of groups, those that the program names, and those after
/// which another section is ordered.
fn undivided(context: &SplitContext<'_, '_>, metadata: &[Metadata], texts: &mut [Text<'_>]) {
    for atom in context.atoms {
        if let Some(text) = context.text_of(atom.section).and_then(|t| texts.get_mut(t)) {
            if atom.group.is_some() {
                text.keep_undivided(Limit::GroupedSection, "several functions in a section of a group");
            }
            if !sections::CODE_OF_COMPILERS.contains(&context.tables.name(atom.name)) {
                let why = "the program names it, and may find its functions by their place";
                text.keep_undivided(Limit::NamedSection, why);
            }
        }
        let after = atom.link_order.and_then(|a| context.section_of(a)).and_then(|s| context.text_of(s));
        let is_known = metadata.binary_search_by_key(&atom.section, |m| m.section).is_ok();
        if let Some(text) = after.filter(|_| !is_known).and_then(|t| texts.get_mut(t)) {
            text.keep_undivided(
                Limit::OrderedSection,
                format!("section {} is ordered after it", context.describe(atom.section)),
            );
        }
    }
}

/// Divide metadata together with the code that it describes.
fn order(metadata: &[Metadata], texts: &[Text<'_>], division: &mut Division) {
    for metadata in metadata {
        let Some(parts) = metadata::parts(metadata, texts) else { continue };
        let is_divided = |(section, _): SectionPlace| division.parts.iter().any(|(of, _)| *of == section);
        if !parts.first().is_some_and(|(_, after)| is_divided(*after)) {
            continue;
        }
        division.orders.extend(parts.iter().map(|(start, after)| ((metadata.section, *start), *after)));
        if parts.len() > 1 {
            division.parts.push((metadata.section, parts.iter().map(|(start, _)| *start).collect()));
        }
    }
}

/// Keep sections whole if other sections are ordered after them that are not divided with functions.
fn keep_whole_before_ordered(context: &SplitContext<'_, '_>, division: &mut Division) {
    let mut ordered: Vec<u32> = division.orders.iter().map(|((section, _), _)| *section).collect();
    ordered.sort_unstable();
    let others = context.atoms.iter().filter(|a| ordered.binary_search(&a.section).is_err());
    let mut before: Vec<u32> =
        others.filter_map(|a| a.link_order).filter_map(|a| context.section_of(a)).collect();
    before.sort_unstable();
    division.parts.retain(|(section, _)| before.binary_search(section).is_err());
}

/// Build the division of the sections that are divided.
fn assemble(
    texts: &[Text<'_>],
    retargets: Vec<references::RetargetedRelocation>,
    owned: Vec<jump_tables::ClaimedTable>,
) -> Division {
    let mut division = Division::default();
    let mut divided = vec![false; texts.len()];
    for (text, divided) in texts.iter().zip(&mut divided) {
        let mut parts: Vec<u64> = text.part.iter().map(|p| text.part_start(*p)).collect();
        parts.dedup();
        if text.refusal.is_some() {
            continue;
        }
        if !text.has_loose_tables && text.functions.iter().all(Function::is_compiled) {
            division.understood.push(text.section);
        }
        let operands = text.intra_section_refs.iter().filter(|c| !c.branch);
        division.exact.extend(operands.map(|c| ((c.section, c.field), (c.section, c.target))));
        if text.undivided.is_some() || parts.len() < 2 {
            continue;
        }
        *divided = true;
        division.parts.push((text.section, parts));
        let apart = |c: &&IntraSectionReference| text.part_at(c.field) != text.part_at(c.target);
        division.resolved.extend(text.intra_section_refs.iter().filter(apart));
    }
    let is_divided = |text: usize| divided.get(text).copied().unwrap_or(false);
    let section = |text: usize| texts.get(text).map_or(0, |t| t.section);
    division.exact.extend(retargets.iter().map(|r| (r.at, (section(r.text), r.target))));
    division.exact.sort_unstable();
    division.understood.sort_unstable();
    let known = retargets.into_iter().filter(|r| is_divided(r.text));
    division.retargets = known.map(|r| (r.at, (section(r.text), r.target))).collect();
    for claimed in owned.into_iter().filter(|c| is_divided(c.owner.0)) {
        let owner = (section(claimed.owner.0), claimed.owner.1);
        division.owned.push(OwnedTable {
            section: claimed.section,
            start: claimed.start,
            end: claimed.end,
            owner,
        });
    }
    division.resolved.sort_unstable();
    division.retargets.sort_unstable();
    division.owned.sort_unstable();
    division
}
