//! The owners of bytes: functions and objects by symbol or unwind entry, imported symbols, and source files.

use std::borrow::Cow;

use object::elf;
use rustc_hash::FxHashMap;

use super::coverage::Coverage;
use super::file::AuditedSymbol;

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
