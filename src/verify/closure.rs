//! The closure of symbol references: the pruned link defines every symbol that its objects need.
//!
//! A global symbol with a relocation in an allocated section must be defined in an object or elsewhere (a shared
//! library, the linker), or be undefined in the plain link too. This also holds for weak references: without a
//! definition they would become null pointers.
//!
//! Names are compared by hashes of 64 bits, so no object has to stay in memory. For ten million names, the chance to
//! overlook a missing definition is one in 10^12. Which of several definitions prevails is not checked, and neither
//! are references of debug information, which keep nothing.

use std::hash::BuildHasher;

use goblin::elf::sym::{STB_LOCAL, st_bind};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::elf::{Object, SymbolSection, by_target, error};
use crate::error::{Error, Result};

/// The hash of a symbol's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameHash(u64);

impl NameHash {
    pub fn of(name: &[u8]) -> Self {
        NameHash(FxBuildHasher.hash_one(name))
    }
}

/// The names that an object defines, and those that it refers to and does not define.
#[derive(Debug, Default)]
pub struct SymbolFacts {
    defined: Vec<NameHash>,
    referenced: Vec<NameHash>,
}

impl SymbolFacts {
    pub(super) fn new<'a>(
        defined: impl Iterator<Item = &'a [u8]>,
        referenced: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        // `NAME@@VERSION` is the default version, and also defines NAME.
        let stem = |name: &'a [u8]| {
            let at = name.windows(2).position(|w| w == b"@@");
            at.and_then(|at| name.get(..at))
        };
        let defined = defined.flat_map(|name| [Some(name), stem(name)]).flatten();
        SymbolFacts {
            defined: defined.map(NameHash::of).collect(),
            referenced: referenced.map(NameHash::of).collect(),
        }
    }
}

/// Read the names of an object; can be done for all objects in parallel.
///
/// # Errors
/// Stage verify: it is no object that can be read.
pub fn facts(name: &str, bytes: &[u8]) -> Result<SymbolFacts> {
    let names = names(bytes).map_err(|e| e.in_file(name))?;
    Ok(SymbolFacts::new(names.defined.into_iter(), names.referenced.into_iter()))
}

/// The names of an object's symbols that other objects can see.
struct VisibleNames<'a> {
    defined: Vec<&'a [u8]>,
    referenced: Vec<&'a [u8]>,
}

fn names(bytes: &[u8]) -> Result<VisibleNames<'_>> {
    let object = Object::read(bytes)?;
    let count = object.symbol_count();
    let mut is_referenced = vec![false; count];
    for (target, index) in by_target(&object) {
        if !object.is_alloc(target) {
            continue;
        }
        for entry in object.relocations(index)?.iter() {
            *is_referenced
                .get_mut(entry.r_sym)
                .ok_or_else(|| object.about(index, format!("names symbol {}, not there", entry.r_sym)))? =
                true;
        }
    }
    let mut names = VisibleNames { defined: Vec::new(), referenced: Vec::new() };
    for (i, is_referenced) in is_referenced.into_iter().enumerate().skip(1) {
        let Some(symbol) = object.symbol(i) else { continue };
        if st_bind(symbol.st_info) == STB_LOCAL {
            continue;
        }
        match object.place(i, &symbol) {
            SymbolSection::Undefined if is_referenced => names.referenced.push(object.symbol_name(&symbol)),
            SymbolSection::Undefined => {}
            _ => names.defined.push(object.symbol_name(&symbol)),
        }
    }
    Ok(names)
}

/// The first reference to a name that no object defines: the position of the object, and the name.
/// `defined_elsewhere` says whether a name needs no definition in the objects: a shared library or the linker defines
/// it, or it is undefined in the plain link.
pub fn missing(
    objects: &[SymbolFacts],
    defined_elsewhere: &dyn Fn(NameHash) -> bool,
) -> Option<(usize, NameHash)> {
    let defined: FxHashSet<NameHash> = objects.iter().flat_map(|o| o.defined.iter().copied()).collect();
    let referenced =
        objects.iter().enumerate().flat_map(|(i, o)| o.referenced.iter().map(move |name| (i, *name)));
    referenced.into_iter().find(|(_, name)| !defined.contains(name) && !defined_elsewhere(*name))
}

/// The error for a reference that [`missing`] found in the object `bytes`.
pub fn missing_error(file: &str, bytes: &[u8], missing: NameHash) -> Error {
    let error = error("is referred to, and its definition was dropped").in_file(file);
    let names = names(bytes).map(|names| names.referenced).unwrap_or_default();
    match names.into_iter().find(|name| NameHash::of(name) == missing) {
        Some(name) => error.at_symbol(String::from_utf8_lossy(name)),
        None => error,
    }
}
