//! Loaded bytes: the sizes of all sections of the output that are in memory (`SHF_ALLOC`), as `size` adds them up, without the bytes
//! with which lld fills a page (`.relro_padding`).
//!
//! The bytes that pruning removes are an estimate: sizes of input atoms, and their share of the unwind tables. Alignment, and
//! the sections that the linker makes itself, are left out.

use object::LittleEndian;
use object::elf::{FileHeader64, SHF_ALLOC};
use object::read::elf::{FileHeader, SectionHeader};
use serde::Serialize;
use summaries::{AtomKind, ModuleKind};

use super::accounting::Totals;
use super::facts::Facts;
use crate::ids::{AtomId, Id};
use crate::plan::Action;

const LE: LittleEndian = LittleEndian;

/// Bytes of the program in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LoadedBytes {
    /// The loaded bytes of the output; null if it could not be read, or has no section headers.
    pub output: Option<u64>,
    /// An estimate of the loaded bytes that pruning removed, or would remove.
    pub removed: u64,
}

/// The loaded bytes of a linked file, by its section headers.
pub(super) fn of_file(data: &[u8]) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let sections = header.sections(LE, data).ok()?;
    let is_padding = |s| sections.section_name(LE, s).is_ok_and(|name| name == b".relro_padding");
    let loaded = sections.iter().filter(|s| s.sh_flags(LE).0 & SHF_ALLOC.0 != 0 && !is_padding(s));
    let bytes = loaded.fold(0u64, |sum, s| sum.saturating_add(s.sh_size(LE)));
    (bytes > 0).then_some(bytes)
}

/// An estimate of the bytes that the plain output has and the pruned one has not.
pub(super) fn removed(facts: Facts<'_>, totals: &Totals) -> u64 {
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
