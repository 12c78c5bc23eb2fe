//! Sizes in the report: bytes by category, loaded bytes, and live code by the reason that keeps it.
//!
//! The categories of an object add up to its file size plus its zero-initialised memory, since `other` is computed as the rest.

use object::elf::{FileHeader64, SHF_ALLOC};
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, elf};
use serde::Serialize;
use summaries::{AtomKind, ModuleKind};

use super::names::{Facts, is_start_file};
use crate::ids::{AtomId, Id};
use crate::index::RootReason;
use crate::plan::Action;
use crate::propagate::{bytes_of, candidates, code_sizes, live, reach};

const LE: LittleEndian = LittleEndian;

/// Names of the categories, in the order of [`Sizes`].
pub const CATEGORIES: [&str; 10] =
    ["code", "rodata", "data", "bss", "unwind", "relocations", "symbols", "debug", "non-alloc", "other"];
const BSS: usize = 3;
/// How many categories at the beginning are code and data.
const CODE_AND_DATA: usize = 4;
const OTHER: usize = 9;
const ADDRSIG: elf::SectionType = elf::SectionType(0x6fff_4c03);

/// The bytes of each of the [`CATEGORIES`].
pub type Sizes = [u64; 10];

/// Bytes of all loaded modules, as they came and as they were given to the linker.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Totals {
    pub categories: Vec<CategoryTotal>,
    /// The sums of the program's own memory (`code and data`), and of all other bytes (`bookkeeping`).
    pub groups: Vec<CategoryTotal>,
    pub plain: u64,
    pub pruned: u64,
    /// `plain - pruned`; the sum of the categories' differences.
    pub difference: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct CategoryTotal {
    pub category: &'static str,
    pub plain: u64,
    pub pruned: u64,
    pub difference: i64,
}

fn difference(plain: u64, pruned: u64) -> i64 {
    (plain as i64).wrapping_sub(pruned as i64)
}

impl Totals {
    /// Join the sizes of modules: each as it came, and as it was given to the linker.
    pub fn new(modules: impl Iterator<Item = (Sizes, Sizes)>) -> Self {
        let (mut plain, mut pruned) = (Sizes::default(), Sizes::default());
        for (before, after) in modules {
            plain.iter_mut().zip(before).for_each(|(sum, n)| *sum = sum.saturating_add(n));
            pruned.iter_mut().zip(after).for_each(|(sum, n)| *sum = sum.saturating_add(n));
        }
        let total = |category, plain, pruned| CategoryTotal {
            category,
            plain,
            pruned,
            difference: difference(plain, pruned),
        };
        let categories = CATEGORIES.iter().zip(plain).zip(pruned);
        let all = |sizes: &[u64]| sizes.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let (plain_contents, plain_rest) = plain.split_at(CODE_AND_DATA);
        let (pruned_contents, pruned_rest) = pruned.split_at(CODE_AND_DATA);
        let (all_plain, all_pruned) = (all(&plain), all(&pruned));
        Totals {
            categories: categories
                .map(|((category, plain), pruned)| total(category, plain, pruned))
                .collect(),
            groups: vec![
                total("code and data", all(plain_contents), all(pruned_contents)),
                total("bookkeeping", all(plain_rest), all(pruned_rest)),
            ],
            plain: all_plain,
            pruned: all_pruned,
            difference: difference(all_plain, all_pruned),
        }
    }
}

/// The bytes of an object by category. If its tables lie, all of it is `other`.
pub fn sizes(data: &[u8]) -> Sizes {
    let mut sizes = Sizes::default();
    let length = data.len() as u64;
    let sections = FileHeader64::<LittleEndian>::parse(data).and_then(|header| header.sections(LE, data));
    if let Ok(sections) = sections {
        for section in sections.iter() {
            let name = sections.section_name(LE, section).unwrap_or(b"");
            if let Some(category) = category(section, name) {
                // The header may be wrong.
                sizes[category] = sizes[category].saturating_add(section.sh_size(LE));
            }
        }
    }
    let named = (0..OTHER).filter(|c| *c != BSS).fold(0, |sum: u64, c| sum.saturating_add(sizes[c]));
    match length.checked_sub(named) {
        Some(rest) => sizes[OTHER] = rest,
        // Sections that overlap, or tables that lie: nothing can be said of the parts.
        None => {
            sizes = Sizes::default();
            sizes[OTHER] = length;
        }
    }
    sizes
}

fn category(section: &elf::SectionHeader64<LittleEndian>, name: &[u8]) -> Option<usize> {
    let flags = section.sh_flags(LE).0;
    let has = |flag: u64| flags & flag != 0;
    let index = match section.sh_type(LE) {
        elf::SHT_NULL => return None,
        elf::SHT_NOBITS => BSS,
        elf::SHT_RELA | elf::SHT_REL => 5,
        elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_SYMTAB_SHNDX | elf::SHT_GROUP => 6,
        ADDRSIG => 6,
        _ if name == b".eh_frame" || name.starts_with(b".gcc_except_table") => 4,
        _ if !has(elf::SHF_ALLOC.0) && name.starts_with(b".debug") => 7,
        _ if !has(elf::SHF_ALLOC.0) => 8,
        _ if has(elf::SHF_EXECINSTR.0) => 0,
        _ if has(elf::SHF_WRITE.0) => 2,
        _ => 1,
    };
    Some(index)
}

/// Bytes of the program in memory: the sizes of all sections with `SHF_ALLOC`, as `size` adds them up, without the padding of a page
/// that lld adds (`.relro_padding`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LoadedBytes {
    /// The loaded bytes of the output; null if it could not be read, or has no section headers.
    pub output: Option<u64>,
    /// An estimate of the loaded bytes that pruning removed, or would remove.
    pub removed: u64,
}

/// The loaded bytes of a linked file, by its section headers.
pub(super) fn loaded_bytes(data: &[u8]) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let sections = header.sections(LE, data).ok()?;
    let is_padding = |s| sections.section_name(LE, s).is_ok_and(|name| name == b".relro_padding");
    let loaded = sections.iter().filter(|s| s.sh_flags(LE).0 & SHF_ALLOC.0 != 0 && !is_padding(s));
    let bytes = loaded.fold(0u64, |sum, s| sum.saturating_add(s.sh_size(LE)));
    (bytes > 0).then_some(bytes)
}

/// An estimate of the bytes that pruning removes from the output: input atoms and their share of the unwind tables, without alignment
/// and linker-made sections.
pub(super) fn removed_bytes(facts: Facts<'_>, totals: &Totals) -> u64 {
    let gc = facts.config.gc_sections;
    // The bytes of code in all, those that are not kept, and those of them that the plain output has.
    let (mut code, mut dropped_code, mut saved_code, mut saved) = (0u64, 0u64, 0u64, 0u64);
    for (position, summary) in facts.summaries.iter().enumerate() {
        // The size of the code that is made of bitcode is not known.
        if summary.kind != ModuleKind::Native {
            continue;
        }
        let first = facts.index.modules[position].first_atom as usize;
        for ((i, atom), action) in summary.atoms.iter().enumerate().zip(&facts.plan.modules[position].atoms) {
            let id = AtomId::new(first + i);
            if !atom.kind.is_alloc() || facts.index.discarded[id.index()] {
                continue;
            }
            let code_size = if atom.kind == AtomKind::Code { atom.size } else { 0 };
            code = code.saturating_add(code_size);
            if *action == Action::Keep {
                continue;
            }
            dropped_code = dropped_code.saturating_add(code_size);
            if !gc || facts.linker_live[id.index()] {
                saved = saved.saturating_add(atom.size);
                saved_code = saved_code.saturating_add(code_size);
            }
        }
    }
    let share = |bytes: u64, part: u64, whole: u64| {
        (u128::from(bytes) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0) as u64
    };
    let unwind = totals.categories.iter().find(|c| c.category == "unwind");
    let unwind = unwind.map_or(0, |unwind| match unwind.plain.saturating_sub(unwind.pruned) {
        0 => share(unwind.plain, saved_code, code),
        difference => share(difference, saved_code, dropped_code),
    });
    saved.saturating_add(unwind)
}

/// The bytes of live code, in all and for one reason alone: the difference to reachability without edges that only take addresses, without
/// exports, or without modules that a limit keeps whole. Code that two reasons keep is in none of these numbers, and code that the linker's own
/// `--gc-sections` removes is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LiveCode {
    /// The bytes of code that live by references.
    pub live: u64,
    /// Code that no call reaches: the most that the level `pointers` can drop.
    pub by_mentions: u64,
    /// The part of it in start files of the compiler, which no option can remove.
    pub start_file_mentions: u64,
    /// Code that is live only because it is exported.
    pub by_exports: u64,
    /// Code that is live only because a limit keeps its module, or a module that refers to it.
    pub by_limits: u64,
}

impl LiveCode {
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let index = facts.index;
        let code = code_sizes(index, facts.summaries);
        let liveness = live(index);
        let candidates = candidates(index, &code, &liveness);
        let is_live = |atom: AtomId| facts.is_linked(atom) && liveness.is_live(atom);
        let is_mention = |atom: AtomId| facts.is_linked(atom) && candidates[atom.index()];
        let in_start_file = |atom: AtomId| is_start_file(facts, index.modules[index.locate(atom).0].module);
        let without = |reason: RootReason| {
            let reached = reach(index, &|root| root.reason != reason, &|_, _| true);
            bytes_of(&code, |atom| is_live(atom) && !reached.is_live(atom))
        };
        LiveCode {
            live: bytes_of(&code, is_live),
            by_mentions: bytes_of(&code, is_mention),
            start_file_mentions: bytes_of(&code, |atom| is_mention(atom) && in_start_file(atom)),
            by_exports: without(RootReason::Exported),
            by_limits: without(RootReason::ModuleKept),
        }
    }
}
