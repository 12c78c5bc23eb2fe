//! The closure of symbol references: whatever the objects of the pruned link refer to is defined.
//!
//! A global symbol that a relocation of an allocated section refers to must be defined in some object, or elsewhere
//! (a shared library, the linker), or have been undefined in the plain link too. Weak references count as well:
//! one that the pruning left without definition would silently become a null pointer.
//!
//! Left out: which of several definitions is taken; references of debug information, which keep nothing.

use goblin::elf::sym::{STB_LOCAL, st_bind};
use rustc_hash::FxHashSet;

use super::elf::{Object, Place, by_target, error};
use crate::error::Result;

/// What one object contributes: names it defines, and names that it refers to and does not define.
#[derive(Debug, Default)]
pub struct SymbolFacts<'a> {
    /// It is the name of the object in errors.
    pub name: String,
    /// The names are in symbol-table order.
    pub defined: Vec<&'a [u8]>,
    /// The names are in symbol-table order.
    pub referenced: Vec<&'a [u8]>,
}

/// Read what an object contributes; can be done for all objects in parallel.
pub fn facts<'a>(name: &str, bytes: &'a [u8]) -> Result<SymbolFacts<'a>> {
    read(bytes).map(|facts| SymbolFacts { name: name.to_owned(), ..facts }).map_err(|e| e.in_file(name))
}

fn read(bytes: &[u8]) -> Result<SymbolFacts<'_>> {
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
    let mut facts = SymbolFacts::default();
    for (i, is_referenced) in is_referenced.into_iter().enumerate().skip(1) {
        let Some(symbol) = object.symbol(i) else { continue };
        if st_bind(symbol.st_info) == STB_LOCAL {
            continue;
        }
        match object.place(i, &symbol) {
            Place::Undefined if is_referenced => facts.referenced.push(object.symbol_name(&symbol)),
            Place::Undefined => {}
            _ => facts.defined.push(object.symbol_name(&symbol)),
        }
    }
    Ok(facts)
}

/// Check that the objects, as they are linked, refer to nothing that the pruning took away.
///
/// `defined_elsewhere` says whether a shared library or the linker defines a name; `undefined_in_plain` whether the
/// link of the originals has no definition of it either.
///
/// # Errors
/// Stage verify, naming the object and the symbol that is missing.
pub fn closure<'a>(
    objects: impl Iterator<Item = (&'a str, &'a [u8])>,
    defined_elsewhere: &dyn Fn(&[u8]) -> bool,
    undefined_in_plain: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    let facts = objects.map(|(name, bytes)| facts(name, bytes)).collect::<Result<Vec<_>>>()?;
    closure_of(&facts, defined_elsewhere, undefined_in_plain)
}

/// [`closure`] of objects that were read already.
pub fn closure_of<'a>(
    objects: &[SymbolFacts<'a>],
    defined_elsewhere: &dyn Fn(&[u8]) -> bool,
    undefined_in_plain: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    // `NAME@@VERSION` is the default version, and defines NAME too.
    let stem = |name: &'a [u8]| {
        let at = name.windows(2).position(|w| w == b"@@");
        at.and_then(|at| name.get(..at))
    };
    let names = objects.iter().flat_map(|o| o.defined.iter().copied());
    let defined: FxHashSet<&[u8]> = names.flat_map(|name| [Some(name), stem(name)]).flatten().collect();
    for object in objects {
        for name in &object.referenced {
            if !defined.contains(name) && !defined_elsewhere(name) && !undefined_in_plain(name) {
                return Err(error("is referred to, and its definition was dropped")
                    .in_file(object.name.as_str())
                    .at_symbol(String::from_utf8_lossy(name)));
            }
        }
    }
    Ok(())
}
