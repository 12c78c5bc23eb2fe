//! The native front end: from the bytes of an ELF64 x86-64 relocatable object to its summary.
//!
//! It reads headers, symbols, groups, relocations and `.eh_frame`, and a section is an atom. At the granularity of
//! functions it also decodes code, and makes several atoms of a section if that is proved safe ([`split`]). It runs
//! in every link, so tables are read in place, and relocations of debug information are not read. It never fails. An
//! unreadable file gives an opaque summary with a limit. A file with an unknown part gives a summary in which that
//! part refers to everything.

mod agreement;
pub(crate) mod decode;
pub mod divisible;
pub mod eh_frame;
mod fall_through;
mod flow;
mod groups;
mod indirect_calls;
mod parts;
mod relocations;
pub mod sections;
pub mod significance;
mod split;
mod symbols;
mod tables;

use object::elf;

use crate::ids::{AtomIdx, SymbolIdx};
use crate::limit::{LimitRecord, Severity};
use crate::parallel::{ParallelMap, in_order};
use crate::summary::{
    Atom, Granularity, ModuleKind, ModuleSummary, Reference, ReferenceKind, SummaryOptions, Target,
    atom_flags,
};
pub(crate) use agreement::agrees;
pub use decode::is_padding;
pub use decode::references::{call_targets, data_references};
pub use decode::stack::{CfaRow, FunctionStack, StackCallee, StackCode, StackSite, function_stack};
pub use decode::stack_returns::never_returns;
pub use eh_frame::{FunctionEntry, function_entries};
pub use fall_through::{AtomFate, next_sections};
pub use indirect_calls::{ComputedCalls, computed_calls};
use symbols::SectionAtoms;
use tables::{Result, Section, Tables, malformed};
pub use tables::{code_section_sizes, find_section, is_of_one_section};

/// Summarise an object. Every input gives a summary, and its problems are in [`ModuleSummary::limits`].
///
/// Time and memory are linear in the size of the input (but for sorting references that are out of order).
pub fn extract(bytes: &[u8]) -> ModuleSummary {
    extract_at(bytes, Granularity::Sections)
}

/// [`extract`] with atoms of the given granularity.
pub fn extract_at(bytes: &[u8], granularity: Granularity) -> ModuleSummary {
    extract_by(bytes, granularity, &in_order)
}

/// [`extract_at`], with a function that runs the tasks of a large object.
pub fn extract_by(
    bytes: &[u8],
    options: impl Into<SummaryOptions>,
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    read_or_limit(bytes, options.into(), None, parallel_map)
}

/// [`extract_by`] that analyses only functions of `live` atoms: see [`crate::extract::follow`].
pub(crate) fn follow(
    bytes: &[u8],
    options: SummaryOptions,
    live: &[bool],
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    read_or_limit(bytes, options, Some(live), parallel_map)
}

fn read_or_limit(
    bytes: &[u8],
    options: SummaryOptions,
    live: Option<&[bool]>,
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    read(bytes, options, live, parallel_map).unwrap_or_else(|limit| {
        let mut summary = ModuleSummary::opaque();
        (summary.granularity, summary.without_debug) = (options.granularity, options.without_debug);
        summary.limits.push(limit);
        summary
    })
}

/// Whether bytes among code are filler: forms of `nop`, `int3`, and zeros.
pub fn is_filler(bytes: &[u8]) -> bool {
    decode::is_alignment(bytes, u64::MAX)
}

fn read(
    bytes: &[u8],
    options: SummaryOptions,
    live: Option<&[bool]>,
    parallel_map: ParallelMap<'_>,
) -> Result<ModuleSummary> {
    let granularity = options.granularity;
    let mut tables = Tables::read(bytes)?;
    check_overlap(&tables)?;
    let mut limits: Vec<LimitRecord> = Vec::new();
    let mut hidden = false;
    let (mut atoms, mut by_section) = section_atoms(&tables, &mut limits, &mut hidden)?;
    let sections_end = atoms.len();
    let mut symbols = symbols::read(&mut tables, &by_section, &mut atoms)?;
    let mut groups = groups::read(&tables, &by_section, &mut atoms)?;
    groups::read_link_order(&tables, &by_section, atoms.get_mut(..sections_end).unwrap_or(&mut []))?;

    let division = match granularity {
        Granularity::Sections => split::Division::default(),
        Granularity::Functions | Granularity::Pointers => {
            split::divide(&tables, &by_section, &atoms, &symbols, options, parallel_map, &mut limits)?
        }
    };
    if !division.parts.is_empty() {
        parts::divide(&division, &mut atoms, &mut by_section, &mut symbols, &mut groups);
    }
    let parts::SplitTables { resolved, owned, retargets } = parts::tables(&division, &atoms, &by_section);

    let mut references = Vec::new();
    let divided = !division.parts.is_empty();
    let divided_targets = relocations::DividedTargets { divided, owned: &owned, retargets: &retargets };
    relocations::read(&tables, &by_section, &atoms, &symbols, divided_targets, &mut references, &mut limits)?;
    relocations::mark_fixed_addresses(&tables, &by_section, &mut atoms)?;
    parts::refer(&division, &resolved, &atoms, &mut references);
    parts::connect(&division, &atoms, &by_section, &mut references);
    let goes_on = match options.without_ends {
        true => Vec::new(),
        false => fall_through::read(&tables, &atoms, &symbols, &mut references)?,
    };
    let before = limits.len();
    eh_frame::read(&tables, &by_section, &atoms, &symbols, &mut references, &mut limits)?;
    hidden |= limits.len() > before;
    if hidden {
        let first_global = tables.symtab.as_ref().map_or(0, |s| s.first_global);
        refer_to_everything(&atoms, first_global, symbols.len(), &mut references)?;
    }
    let key = |r: &Reference| (r.from, r.offset);
    if !references.is_sorted_by_key(key) {
        references.sort_by_key(key);
    }
    let found = match granularity {
        Granularity::Pointers => {
            let of = flow::References {
                references: &references,
                resolved: &resolved,
                owned: &owned,
                live,
                parallel_map,
                goes_on: &goes_on,
            };
            flow::read(&tables, &by_section, &atoms, &symbols, &division, of, &mut limits)?
        }
        Granularity::Sections | Granularity::Functions => flow::FlowTables::default(),
    };
    let flags = [
        (&found.takes_registers, atom_flags::TAKES_REGISTERS),
        (&found.runs_unseen, atom_flags::RUNS_UNSEEN),
    ];
    for (atom, flag) in flags.into_iter().flat_map(|(atoms, flag)| atoms.iter().map(move |a| (a, flag))) {
        if let Some(atom) = atoms.get_mut(atom.index()) {
            atom.flags |= flag;
        }
    }
    let kept = atoms.iter().filter(|a| a.kind.is_alloc()).fold(0u64, |sum, a| sum.saturating_add(a.size));
    for limit in limits.iter_mut().filter(|l| l.limit.severity() >= Severity::Module) {
        limit.bytes = kept;
    }
    Ok(ModuleSummary {
        kind: ModuleKind::Native,
        granularity,
        without_debug: options.without_debug,
        names: tables.names,
        symbols,
        atoms,
        groups,
        references,
        resolved,
        owned,
        retargets,
        functions: found.functions,
        limits,
    })
}

/// Check that tables do not overlap, as in any real object. In a hostile object many headers may claim the same
/// bytes, and reading them would take quadratic time and memory.
fn check_overlap(tables: &Tables<'_>) -> Result<()> {
    let is_table = |s: &&Section| {
        s.ty == elf::SHT_RELA.0
            || s.ty == elf::SHT_GROUP.0
            || sections::is_eh_frame(s.ty, tables.name(s.name))
    };
    let total = tables.sections.iter().filter(is_table).fold(0u64, |sum, s| sum.saturating_add(s.size));
    if total > tables.bytes.len() as u64 {
        return Err(malformed("relocation, group and unwind sections are larger than the file"));
    }
    Ok(())
}

/// Make the atoms of sections, and the limits of section types and names.
fn section_atoms(
    tables: &Tables<'_>,
    limits: &mut Vec<LimitRecord>,
    hidden: &mut bool,
) -> Result<(Vec<Atom>, SectionAtoms)> {
    let mut atoms = Vec::with_capacity(tables.sections.len());
    let mut by_section = SectionAtoms(vec![None; tables.sections.len()]);
    let mut is_relocated = vec![false; tables.sections.len()];
    for section in tables.sections.iter().filter(|section| section.ty == elf::SHT_RELA.0) {
        if let Some(target) = is_relocated.get_mut(section.info as usize) {
            *target = true;
        }
    }
    for (i, (section, slot)) in tables.sections.iter().zip(&mut by_section.0).enumerate() {
        let index = i as u32;
        let name = tables.name(section.name);
        if let Some(found) = sections::limit_of(tables, index, section, name, is_relocated[i]) {
            *hidden |= found.hides_references;
            // The first one names the cause. gcc's LTO brings a dozen sections, and a hostile file thousands.
            if !limits.iter().any(|l| l.limit == found.limit) {
                limits.push(tables::record(found.limit, Some(index), found.detail));
            }
        }
        if !sections::is_atom(section, name) {
            continue;
        }
        tables.data(index)?;
        let align = section.align.max(1);
        if !align.is_power_of_two() {
            return Err(malformed(format!("section {}: alignment {align}", tables.describe(index))));
        }
        *slot = Some(AtomIdx::new(atoms.len()));
        atoms.push(Atom {
            section: index,
            offset: 0,
            size: section.size,
            align,
            kind: sections::atom_kind(section, name),
            flags: sections::flags(section, name),
            name: section.name,
            group: None,
            link_order: None,
        });
    }
    Ok((atoms, by_section))
}

/// A section has references that were not read. It may refer to every symbol that other modules can define, and the
/// first atom refers to them in its place. All atoms of such a module are roots, so local targets need no reference.
fn refer_to_everything(
    atoms: &[Atom],
    first_global: u32,
    symbols: usize,
    references: &mut Vec<Reference>,
) -> Result<()> {
    if atoms.is_empty() && symbols > first_global as usize {
        return Err(malformed("no section can stand for references that were not understood"));
    }
    let globals = (first_global as usize..symbols).map(SymbolIdx::new);
    references.extend(globals.map(|symbol| Reference {
        from: AtomIdx(0),
        offset: 0,
        kind: ReferenceKind::Data,
        target: Target::Symbol(symbol),
        addend: 0,
    }));
    Ok(())
}
