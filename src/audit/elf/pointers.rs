//! Pointers in data, found by relocations, and data without a symbol, which belongs to the first function or object that refers to it.

use object::elf;

use super::coverage::{Claim, Coverage};
use super::file::{AuditedFile, AuditedRelocation, AuditedSection};
use super::owners::Owners;

/// A place that holds an address, and the entry of a table that says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointer {
    /// The places of the entry; `None` where the file has no entry for it.
    entry: Option<(u64, u64)>,
    pub(super) place: Option<u64>,
    /// The place that it holds the address of.
    pub(super) target: Option<u64>,
    /// The symbol that it names, and the section of its table.
    symbol: Option<(u32, u32)>,
    is_jump_slot: bool,
}

/// All pointers that relocations say, and in a program at a fixed address those that its words are.
pub(super) fn pointers(file: &AuditedFile<'_>) -> Vec<Pointer> {
    let mut found: Vec<Pointer> = file.relocations().iter().map(|r| pointer(file, r)).collect();
    for (entry, place) in file.packed_relocations() {
        let target = file.word(place).and_then(|address| file.place(address));
        let entry = Some((entry, entry + 8));
        found.push(Pointer { entry, place: Some(place), target, symbol: None, is_jump_slot: false });
    }
    if file.kind == elf::ET_EXEC {
        words(file, &mut found);
    }
    found
}

fn pointer(file: &AuditedFile<'_>, relocation: &AuditedRelocation) -> Pointer {
    let place = relocation.place;
    let symbol = (relocation.symbol != 0).then_some((relocation.symbols, relocation.symbol));
    let definition =
        symbol.and_then(|(table, number)| file.table(table)?.symbols.get(number as usize)?.place);
    // In code these are relative to the end of their field, in unwind entries to its start.
    let relative = [
        elf::R_X86_64_PC32,
        elf::R_X86_64_PLT32,
        elf::R_X86_64_GOTPCREL,
        elf::R_X86_64_GOTPCRELX,
        elf::R_X86_64_REX_GOTPCRELX,
        elf::R_X86_64_GOTTPOFF,
        elf::R_X86_64_TLSGD,
    ];
    let is_in_code = || place.and_then(|p| file.section_of(p)).is_some_and(|s| s.is_code());
    let behind = if relative.contains(&relocation.kind) && is_in_code() { 4 } else { 0 };
    let by_symbol = |start: u64| start.checked_add_signed(relocation.addend)?.checked_add(behind);
    let target = match symbol {
        Some(_) => definition.and_then(by_symbol),
        None => file.place(relocation.addend as u64),
    };
    Pointer {
        entry: Some((relocation.entry, relocation.entry + 24)),
        place,
        target,
        symbol,
        is_jump_slot: relocation.kind == elf::R_X86_64_JUMP_SLOT,
    }
}

/// Aligned words of data that are addresses of the program. A number that is one by chance counts too.
fn words(file: &AuditedFile<'_>, found: &mut Vec<Pointer>) {
    let is_table = |s: &str| s.starts_with(".got") || s.ends_with("_array");
    for section in file.sections.iter().filter(|s| s.is_data() || s.is_loaded() && is_table(&s.name)) {
        let skipped = section.address.wrapping_neg() % 8;
        let words = section.bytes.get(skipped as usize..).unwrap_or_default().chunks_exact(8);
        for (number, word) in words.enumerate() {
            let target = file.place(word.try_into().map_or(0, u64::from_le_bytes));
            let place = Some(section.start + skipped + number as u64 * 8);
            if target.is_some() {
                found.push(Pointer { entry: None, place, target, symbol: None, is_jump_slot: false });
            }
        }
    }
}

/// The owner of the target of a pointer.
fn target_owner<'a>(
    file: &AuditedFile<'a>,
    pointer: &Pointer,
    owners: &mut Owners<'a>,
    coverage: &Coverage,
) -> Option<u32> {
    let by_symbol = |owners: &mut Owners<'a>| {
        let (table, number) = pointer.symbol?;
        owners.of_symbol(file.table(table)?.symbols.get(number as usize)?, coverage)
    };
    pointer.target.and_then(|t| coverage.owner(t)).or_else(|| by_symbol(owners))
}

/// The slots of the global offset table and of arrays of functions, and the stubs of the procedure linkage table.
pub(super) fn slots<'a>(
    file: &AuditedFile<'a>,
    pointers: &[Pointer],
    owners: &mut Owners<'a>,
    coverage: &mut Coverage,
) {
    let arrays = [elf::SHT_INIT_ARRAY, elf::SHT_FINI_ARRAY, elf::SHT_PREINIT_ARRAY];
    let mut claims = Vec::new();
    let mut jumps = Vec::new();
    for pointer in pointers {
        let Some(place) = pointer.place else { continue };
        let is_table = |s: &AuditedSection<'_>| s.name.starts_with(".got") || arrays.contains(&s.kind);
        if !file.section_of(place).is_some_and(is_table) {
            continue;
        }
        let owner = target_owner(file, pointer, owners, coverage);
        claims.extend(owner.map(|owner| Claim { start: place, end: place + 8, owner }));
        jumps.extend(pointer.is_jump_slot.then_some(owner));
    }
    coverage.add(claims);
    let mut claims = Vec::new();
    for section in linkage_tables(file).filter(|_| !file.is_object()) {
        let mut add = |start: u64, owner: u32| {
            claims.push(Claim { start, end: (start + stub_size(section)).min(section.end()), owner })
        };
        for (stub, slot) in stubs(section) {
            if let Some(owner) = file.place(slot).and_then(|slot| coverage.owner(slot)) {
                add(section.start + stub, owner);
            }
        }
        // Stubs of a table that only pushes numbers: behind the first, in the order of the relocations.
        if section.name == ".plt" {
            for (owner, start) in jumps.iter().zip((section.start..section.end()).step_by(16).skip(1)) {
                if let Some(owner) = owner {
                    add(start, *owner);
                }
            }
        }
    }
    coverage.add(claims);
}

/// The procedure linkage tables of a file.
pub(super) fn linkage_tables<'f, 'a>(
    file: &'f AuditedFile<'a>,
) -> impl Iterator<Item = &'f AuditedSection<'a>> {
    file.sections.iter().filter(|section| section.is_code() && is_linkage(&section.name))
}

/// The bytes of a stub of a procedure linkage table.
fn stub_size(section: &AuditedSection<'_>) -> u64 {
    if section.name == ".plt.got" && section.entry_size == 8 { 8 } else { 16 }
}

/// The stubs of a procedure linkage table, each with an address that it refers to: the offset of the stub in the table, and the address of the slot.
pub(super) fn stubs(section: &AuditedSection<'_>) -> Vec<(u64, u64)> {
    let size = stub_size(section);
    let mut found = Vec::new();
    summaries::native::data_references(section.bytes, section.address, false, &mut |at, slot| {
        found.push((at.wrapping_sub(section.address) / size * size, slot));
    });
    found
}

/// Whether a section is a procedure linkage table (psABI 5.2).
pub(super) fn is_linkage(name: &str) -> bool {
    name.starts_with(".plt") || name == ".iplt"
}

/// The entries of relocation tables, for the owners of the relocated places.
pub(super) fn entries<'a>(
    file: &AuditedFile<'a>,
    pointers: &[Pointer],
    owners: &mut Owners<'a>,
    coverage: &Coverage,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    for pointer in pointers {
        let Some((start, end)) = pointer.entry else { continue };
        let owner = pointer.place.and_then(|p| coverage.owner(p));
        let owner = owner.or_else(|| target_owner(file, pointer, owners, coverage));
        claims.extend(owner.map(|owner| Claim { start, end, owner }));
    }
    claims
}

/// Pointers are followed this many times.
const ROUNDS: usize = 8;

/// Claim data without a symbol for the first function or object with an address of it, in an instruction or a pointer. It ends before the
/// next target or symbol. Each round follows the pointers in the targets of the round before.
pub(super) fn claim_referenced(file: &AuditedFile<'_>, pointers: &[Pointer], coverage: &mut Coverage) {
    // Each is a pair of target and source.
    let mut references: Vec<(u64, u64)> = Vec::new();
    let is_open = |place: u64, coverage: &Coverage| {
        coverage.owner(place).is_none() && file.section_of(place).is_some_and(|s| s.is_data())
    };
    if !file.is_object() {
        for section in file.sections.iter().filter(|s| s.is_code()) {
            for claim in coverage.inside(section.start..section.end()) {
                let range = (claim.start - section.start) as usize..(claim.end - section.start) as usize;
                let code = section.bytes.get(range).unwrap_or_default();
                let address = section.address.wrapping_add(claim.start - section.start);
                let fixed = file.kind == elf::ET_EXEC;
                summaries::native::data_references(code, address, fixed, &mut |_, target| {
                    let target = file.place(target).filter(|t| is_open(*t, coverage));
                    references.extend(target.map(|t| (t, claim.start)));
                });
            }
        }
    }
    for pointer in pointers {
        let target = pointer.target.filter(|t| is_open(*t, coverage));
        references.extend(target.zip(pointer.place));
    }
    references.sort_unstable();
    references.dedup();
    for _ in 0..ROUNDS {
        let mut claims: Vec<Claim> = Vec::new();
        for group in references.chunk_by(|a, b| a.0 == b.0) {
            let Some((start, _)) = group.first().copied() else { continue };
            let Some(owner) = group.iter().find_map(|r| coverage.owner(r.1)) else { continue };
            let Some(section) = file.section_of(start) else { continue };
            let next = references.partition_point(|r| r.0 <= start);
            let next = references.get(next).map_or(u64::MAX, |r| r.0);
            let end = coverage.free_until(start, next.min(section.end()));
            claims.push(Claim { start, end, owner });
        }
        if claims.is_empty() {
            break;
        }
        coverage.add(claims);
        references.retain(|r| coverage.owner(r.0).is_none());
    }
}
