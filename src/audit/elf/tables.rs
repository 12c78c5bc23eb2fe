//! Symbol tables, string tables, hash tables and version tables: each entry belongs to the owner of its symbol.

use object::elf;

use super::coverage::{Claim, Coverage};
use super::file::{AuditedFile, AuditedTable};
use super::owners::Owners;

/// The bytes of the entries of all symbol tables.
pub(super) fn claims<'a>(file: &AuditedFile<'a>, owners: &mut Owners<'a>, coverage: &Coverage) -> Vec<Claim> {
    let mut claims = Vec::new();
    for table in [&file.static_symbols, &file.dynamic_symbols] {
        let of: Vec<Option<u32>> = table.symbols.iter().map(|s| owners.of_symbol(s, coverage)).collect();
        of_symbols(file, table, &of, &mut claims);
        if table.section == 0 {
            continue;
        }
        for section in file.sections.iter().filter(|s| s.link == table.section) {
            let mut add = |offset: u64, size: u64, owner: &Option<u32>| {
                let start = section.start.saturating_add(offset);
                let end = start.saturating_add(size).min(section.end());
                claims.extend(owner.map(|owner| Claim { start, end, owner }));
            };
            let word = |at: usize| {
                let bytes = section.bytes.get(at * 4..at * 4 + 4)?;
                bytes.try_into().ok().map(|b| u64::from(u32::from_le_bytes(b)))
            };
            // The first symbol that has an entry, where the entries begin, and their size.
            let entries = match section.kind {
                elf::SHT_GNU_VERSYM => Some((0, 0, 2)),
                elf::SHT_HASH => word(0).map(|buckets| (0, 8 + buckets * 4, 4)),
                elf::SHT_GNU_HASH => match (word(0), word(1), word(2)) {
                    (Some(buckets), Some(first), Some(words)) => {
                        Some((first as usize, 16 + words * 8 + buckets * 4, 4))
                    }
                    _ => None,
                },
                _ => None,
            };
            let Some((first, offset, size)) = entries else { continue };
            for (number, owner) in of.iter().skip(first).enumerate() {
                add(offset + number as u64 * size, size, owner);
            }
        }
    }
    claims
}

/// The entries of a table and their names.
fn of_symbols(
    file: &AuditedFile<'_>,
    table: &AuditedTable<'_>,
    owners: &[Option<u32>],
    claims: &mut Vec<Claim>,
) {
    let (Some(section), Some(strings)) = (file.section(table.section), file.section(table.strings)) else {
        return;
    };
    for (number, (symbol, owner)) in table.symbols.iter().zip(owners).enumerate() {
        let Some(owner) = *owner else { continue };
        let start = section.start + number as u64 * 24;
        claims.push(Claim { start, end: (start + 24).min(section.end()), owner });
        if symbol.name.is_empty() {
            continue;
        }
        let start = strings.start.saturating_add(symbol.name_offset);
        let end = start.saturating_add(symbol.name.len() as u64 + 1).min(strings.end());
        claims.push(Claim { start, end, owner });
    }
}
