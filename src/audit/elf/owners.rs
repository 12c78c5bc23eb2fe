//! The owners of bytes: functions and objects by symbol or unwind entry, imported symbols, and source files.

use std::borrow::Cow;

use object::elf;
use rustc_hash::FxHashMap;

use super::coverage::{Claim, Coverage};
use super::file::{AuditedFile, AuditedSymbol, AuditedTable};

/// A function, object, imported symbol or source file that has bytes.
#[derive(Debug)]
pub(super) struct Owner<'a> {
    /// It is `None` for a source file, which owns its debug information.
    pub(super) name: Option<Cow<'a, str>>,
    /// Its place; `None` if another file defines it.
    pub(super) home: Option<u64>,
    /// It is a position in [`Owners::modules`].
    pub(super) module: Option<u32>,
}

/// The module of symbols that another file defines.
const IMPORTED: &str = "[imported symbols]";

#[derive(Debug, Default)]
pub(super) struct Owners<'a> {
    pub(super) list: Vec<Owner<'a>>,
    /// The names of source files, each once.
    pub(super) modules: Vec<Cow<'a, str>>,
    module_at: FxHashMap<Cow<'a, str>, u32>,
    /// Owners of symbols without a place, by name.
    named: FxHashMap<&'a [u8], u32>,
}

impl<'a> Owners<'a> {
    pub(super) fn module(&mut self, name: Cow<'a, str>) -> u32 {
        let next = self.modules.len() as u32;
        *self.module_at.entry(name.clone()).or_insert_with(|| {
            self.modules.push(name);
            next
        })
    }

    pub(super) fn push(&mut self, owner: Owner<'a>) -> u32 {
        self.list.push(owner);
        self.list.len() as u32 - 1
    }

    /// A symbol without a place, as the owner of its table entries. Its version is no part of its name.
    pub(super) fn named(&mut self, name: &'a [u8]) -> Option<u32> {
        let name = name.split(|b| *b == b'@').next().filter(|n| !n.is_empty())?;
        if let Some(owner) = self.named.get(name) {
            return Some(*owner);
        }
        let module = Some(self.module(Cow::Borrowed(IMPORTED)));
        let owner = self.push(Owner { name: Some(String::from_utf8_lossy(name)), home: None, module });
        self.named.insert(name, owner);
        Some(owner)
    }

    /// The owner of a symbol: who has the bytes that it names, else the symbol itself.
    pub(super) fn of_symbol(&mut self, symbol: &AuditedSymbol<'a>, coverage: &Coverage) -> Option<u32> {
        match symbol.place {
            _ if [elf::STT_SECTION, elf::STT_FILE].contains(&symbol.kind) => None,
            Some(place) => coverage.owner(place).or_else(|| self.named(symbol.name)),
            None => self.named(symbol.name),
        }
    }
}

/// The bytes of the entries of all symbol tables.
pub(super) fn of_tables<'a>(
    file: &AuditedFile<'a>,
    owners: &mut Owners<'a>,
    coverage: &Coverage,
) -> Vec<Claim> {
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
