//! The facts of an ELF file that the tests compare: symbols, the dynamic table, and headers that change how it runs.
//!
//! They are read by the `object` crate, as `bench differ` reads them; no pass of the tool reads outputs so.

use std::collections::BTreeSet;
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use crate::facts;

#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Names of the symbols that are defined here, without version suffix, and those of every binding.
    pub(crate) defined: BTreeSet<String>,
    /// Name and address of every defined function.
    pub(crate) functions: Vec<(String, u64)>,
    pub(crate) exports: BTreeSet<String>,
    /// Names that have a copy relocation: `.dynsym` defines them because code refers to a DSO's data.
    pub(crate) copies: BTreeSet<String>,
    /// The entries `DT_NEEDED`, in their order.
    pub(crate) needed: Vec<String>,
    /// Values that pruning must not change: `tag value` of the dynamic table, and program headers.
    pub(crate) properties: Vec<String>,
    /// The names of all sections of the file.
    pub(crate) sections: BTreeSet<String>,
}

impl Facts {
    pub(crate) fn read(path: &Path) -> Result<Facts, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Facts::parse(&bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Facts, object::Error> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        let mut facts = Facts::default();
        for symbol in file.symbols().filter(|s| !s.is_undefined()) {
            let name = base_name(symbol.name()?);
            if matches!(symbol.kind(), SymbolKind::File | SymbolKind::Section) || name.is_empty() {
                continue;
            }
            if symbol.kind() == SymbolKind::Text {
                facts.functions.push((name.clone(), symbol.address()));
            }
            facts.defined.insert(name);
        }
        for section in file.sections() {
            facts.sections.insert(section.name()?.to_owned());
        }
        for fact in facts::read(bytes)? {
            let (kind, value) = fact.split_once(": ").unwrap_or((&fact, ""));
            match kind {
                "export" => {
                    facts.exports.insert(base_name(value.split(' ').next().unwrap_or_default()));
                }
                "copy" => {
                    facts.copies.insert(value.to_owned());
                }
                // The features that every object has (IBT, SHSTK) are a property: a lost note would turn them off or on.
                // An object without .note.GNU-stack makes the stack executable.
                "interp" | "stack" | "property" | "soname" | "rpath" | "runpath" | "dynamic-array" => {
                    facts.properties.push(fact);
                }
                // DT_INIT, DT_FINI and DT_SYMBOLIC.
                "tag" if ["c", "d", "10"].contains(&value) => facts.properties.push(fact),
                _ if kind.starts_with("needed ") => facts.needed.push(value.to_owned()),
                _ => {}
            }
        }
        Ok(facts)
    }
}

fn base_name(name: &str) -> String {
    match name.find('@') {
        Some(at) if at > 0 => name[..at].to_owned(),
        _ => name.to_owned(),
    }
}
