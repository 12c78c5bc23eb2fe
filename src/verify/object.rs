//! One emitted object against its original and its plan.
//!
//! The emitted object must be well formed by itself (every index, offset and size in range), hold exactly the
//! sections that the plan keeps, in order, each bit by bit as it was where the program can see it, and relocate them
//! exactly as the original did; a section of which only a part stays is there in parts. What differs must be explained by the plan, else it is an error.
//!
//! Left out: whether the plan is right.

use goblin::elf::section_header as sh;
use summaries::{Atom, AtomKind, ModuleSummary};

use super::addresses;
use super::debug;
use super::elf::{Object, error};
use super::groups;
use super::parts::{self, ExpectedParts, Part};
use super::relocations::{self, SymbolMap};
use super::stubs;
use super::unwind;
use crate::error::Result;
use crate::plan::{Action, ModulePlan};

/// What the plan says of one module, in numbers of the original's ELF tables.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// By ELF section index: planned to be dropped. Sections behind the end stay.
    pub dropped: Vec<bool>,
    /// By ELF symbol index: another definition prevails, so a reference may outlive this one.
    pub prevails_elsewhere: Vec<bool>,
    /// What it says of sections of which only a part stays.
    pub parts: ExpectedParts,
    /// It says whether the object gets an address-significance table.
    pub addresses: bool,
    /// A section with several functions goes, so that debug information is written anew.
    pub(super) drops_functions: bool,
}

impl Expected {
    /// What a plan says. A section of several atoms is dropped if all of them are.
    pub fn new(summary: &ModuleSummary, plan: &ModulePlan) -> Self {
        let sections = summary.atoms.iter().map(|a| a.section).filter(|s| *s != Atom::NO_SECTION);
        let count = sections.max().map_or(0, |s| s as usize + 1);
        let mut dropped = vec![false; count];
        let mut kept = vec![false; count];
        for (atom, action) in summary.atoms.iter().zip(&plan.atoms) {
            let set = if *action == Action::Drop { &mut dropped } else { &mut kept };
            if let Some(slot) = set.get_mut(atom.section as usize) {
                *slot = true;
            }
        }
        for (dropped, kept) in dropped.iter_mut().zip(kept) {
            *dropped &= !kept;
        }
        let is_dropped = |section: u32| dropped.get(section as usize) == Some(&true);
        let several = |atoms: &&[Atom]| matches!(atoms, [first, _, ..] if first.kind == AtomKind::Code && is_dropped(first.section));
        let drops_functions =
            summary.atoms.chunk_by(|a, b| a.section == b.section).any(|atoms| several(&atoms));
        Expected {
            dropped,
            prevails_elsewhere: plan.prevails_elsewhere.clone(),
            parts: ExpectedParts::new(summary, plan),
            addresses: plan.addresses.is_some(),
            drops_functions,
        }
    }

    pub(super) fn drops(&self, section: usize) -> bool {
        self.dropped.get(section).copied().unwrap_or(false)
    }

    pub(super) fn is_replaced(&self, symbol: usize) -> bool {
        self.prevails_elsewhere.get(symbol).copied().unwrap_or(false)
    }
}

/// Original and emitted object, and which section of one is which of the other.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub(super) old: Object<'a>,
    pub(super) new: Object<'a>,
    /// By section of the original; 0 for one that is not there any more, and for one that is there in parts. Tables are
    /// not mapped.
    pub(super) new_of_old: Vec<usize>,
    /// By section of the original and start.
    pub(super) parts: Vec<Part>,
    /// Code is in several parts, so that debug information is there in another form: [`debug`](super::debug) compares it.
    pub(super) rewritten_debug: bool,
    pub(super) expected: &'a Expected,
}

/// Check the object `emitted` in place of `original`. `name` is what errors call it.
///
/// # Errors
/// Stage verify, naming the section and symbol: a malformed table, a section that is missing, left over or
/// changed, a relocation that is missing, left over, or refers to something else.
pub fn object(name: &str, original: &[u8], emitted: &[u8], expected: &Expected) -> Result<()> {
    check(original, emitted, expected).map_err(|e| e.in_file(name))
}

fn check(original: &[u8], emitted: &[u8], expected: &Expected) -> Result<()> {
    let old = Object::read(original)?;
    let new = Object::read(emitted)?;
    well_formed(&new)?;
    let rewritten_debug = debug::is_rewritten(&old, expected);
    let (new_of_old, parts) = match_sections(&old, &new, expected, rewritten_debug)?;
    let pair = Pair { old, new, new_of_old, parts, rewritten_debug, expected };
    let symbols = SymbolMap::new(&pair)?;
    groups::check(&pair, &symbols)?;
    relocations::check(&pair, &symbols)?;
    unwind::check(&pair, &symbols)?;
    debug::check(&pair)?;
    addresses::check(&pair)
}

/// Pair the sections that are not tables, in order.
fn match_sections(
    old: &Object<'_>,
    new: &Object<'_>,
    expected: &Expected,
    rewritten_debug: bool,
) -> Result<(Vec<usize>, Vec<Part>)> {
    let mut all_parts = Vec::new();
    let mut new_of_old = vec![0; old.sections.len()];
    let mut rest = (1..new.sections.len()).filter(|i| !new.is_table(*i)).peekable();
    for (i, before) in old.sections.iter().enumerate().skip(1) {
        if old.is_table(i) || expected.drops(i) {
            continue;
        }
        if let Some(atoms) = expected.parts.of(i) {
            all_parts.extend(parts::find(old, new, i, &expected.parts, atoms, &mut rest)?);
            continue;
        }
        let Some(j) = rest.next() else {
            return Err(old.about(i, "is planned to stay, and is missing"));
        };
        let Some(after) = new.sections.get(j) else { continue };
        let shape = |s: &sh::SectionHeader| {
            (s.sh_type, s.sh_flags, s.sh_size, s.sh_addralign, s.sh_entsize, s.sh_addr)
        };
        let of_any_size =
            rewritten_debug && debug::is_debug(old, i) || debug::is_decompressed(old, i, new, j);
        if old.section_name(i) != new.section_name(j) || !of_any_size && shape(before) != shape(after) {
            let found = String::from_utf8_lossy(new.section_name(j)).into_owned();
            return Err(old.about(i, format!("is planned to stay, and in its place is {found} [{j}]")));
        }
        if let Some(slot) = new_of_old.get_mut(i) {
            *slot = j;
        }
    }
    // Units whose spans became ranges may be the first that need such a section.
    while rewritten_debug && rest.next_if(|j| debug::is_new_section(new.section_name(*j))).is_some() {}
    stubs::check(new, &all_parts, &mut rest)?;
    if let Some(extra) = rest.next() {
        return Err(new.about(extra, "is planned to be dropped, and is there"));
    }
    for (i, before) in old.sections.iter().enumerate().skip(1) {
        let ordered = before.sh_flags & u64::from(sh::SHF_LINK_ORDER) != 0 && before.sh_link != 0;
        if !ordered {
            continue;
        }
        let mapped = |i: usize| new_of_old.get(i).copied().unwrap_or(0);
        let of_parts = all_parts.iter().filter(|p: &&Part| p.old == i).map(|p| p.new);
        let whole = (mapped(i) != 0).then(|| mapped(i));
        for j in whole.into_iter().chain(of_parts) {
            let after = new.sections.get(j).map_or(0, |s| s.sh_link as usize);
            let to = before.sh_link as usize;
            let stub =
                all_parts.iter().any(|p: &Part| (p.old, p.start, p.new, p.stub) == (to, 0, after, true));
            if after == 0 || (after != mapped(to) && !stub) {
                return Err(new.about(j, "is ordered after another section than before"));
            }
        }
    }
    Ok((new_of_old, all_parts))
}

/// Check everything that can be checked without the original.
fn well_formed(new: &Object<'_>) -> Result<()> {
    let count = new.sections.len();
    for (i, section) in new.sections.iter().enumerate().skip(1) {
        let data = new.contents(i)?;
        let alignment = section.sh_addralign.max(1);
        if !alignment.is_power_of_two() {
            return Err(new.about(i, "has an alignment that is no power of two"));
        }
        // A page is as much as a reader that maps the file can rely on.
        if !data.is_empty() && section.sh_offset % alignment.min(4096) != 0 {
            return Err(new.about(i, "is not aligned in the file"));
        }
        if section.sh_link as usize >= count {
            return Err(new.about(i, "has a link to no section"));
        }
        let entry = match section.sh_type {
            sh::SHT_SYMTAB | sh::SHT_RELA => 24,
            sh::SHT_GROUP | sh::SHT_SYMTAB_SHNDX => 4,
            _ => 1,
        };
        if section.sh_size % entry != 0 {
            return Err(new.about(i, format!("has a size that is no multiple of {entry}")));
        }
        match section.sh_type {
            sh::SHT_GROUP => group(new, i, data)?,
            sh::SHT_RELA if section.sh_info == 0 || section.sh_info as usize >= count => {
                return Err(new.about(i, "relocates no section"));
            }
            sh::SHT_RELA if section.sh_link as usize != new.symbol_table => {
                return Err(new.about(i, "is not linked to the symbol table"));
            }
            sh::SHT_SYMTAB_SHNDX if data.len() / 4 != new.symbol_count() => {
                return Err(new.about(i, "has not one entry a symbol"));
            }
            _ => {}
        }
    }
    if new.symbol_count() > 0 && (new.first_global == 0 || new.first_global > new.symbol_count()) {
        return Err(error("sh_info of the symbol table is out of range"));
    }
    Ok(())
}

fn group(new: &Object<'_>, index: usize, data: &[u8]) -> Result<()> {
    let signature = new.sections.get(index).map_or(0, |s| s.sh_info as usize);
    if signature == 0 || signature >= new.symbol_count() {
        return Err(new.about(index, "has no signature"));
    }
    let (words, _) = data.as_chunks::<4>();
    if words.is_empty() {
        return Err(new.about(index, "is a group without flags"));
    }
    for word in words.iter().skip(1) {
        let member = u32::from_le_bytes(*word) as usize;
        if member == 0 || member == index || member >= new.sections.len() {
            return Err(new.about(index, format!("has section {member} as a member, which is none")));
        }
        // `ld -r` leaves the flag out of relocation sections.
        let says_so = |s: &sh::SectionHeader| s.sh_flags & u64::from(sh::SHF_GROUP) != 0;
        if !new.is_table(member) && !new.sections.get(member).is_some_and(says_so) {
            return Err(new.about(member, "is a member of a group and does not say so"));
        }
    }
    Ok(())
}
