//! Name lookup: a name of the linker, of the source, or of a table, or a pattern, to atoms.
//!
//! The first way in which any atom has the name counts, from the strictest on, so that a name that exists is never taken for a
//! pattern. If no way finds it, what stands before a colon is taken for the module: `util.o:helper`, `src/a/util.o:(.text)`. Only the
//! copy of a COMDAT group in the link is found.

use std::borrow::Cow;

use crate::error::{Error, Result, Stage};
use crate::inputs::glob::Glob;

use super::attribute::place;
use super::demangle::{self, demangle};
use super::model::{Atom, AtomState, Model, ModuleReport};
use crate::report::graph::ImportReport;

/// The atoms with a name, ascending.
pub(crate) fn find(model: &Model, name: &str) -> Result<Vec<u32>> {
    let names = DemangledNames::new(model);
    let mut found = names.find(name, &|_| true);
    for (module, symbol) in modules_and_symbols(name) {
        if !found.is_empty() {
            break;
        }
        found = names.find(symbol, &|m| is_module(m, module));
    }
    if found.is_empty() {
        let import = model.report.imports.iter().find(|i| i.symbol == name || demangle(&i.symbol) == name);
        let message = match import {
            Some(import) => format!(
                "no module in the link defines {name}, and nothing leads on from it; {} defines it",
                import.definer()
            ),
            None => format!("no module in the link defines {name}{}", names.similar(name)),
        };
        return Err(Error::new(Stage::Report, message).in_file(model.path.clone()));
    }
    let discarded = |a: &u32| model.atom(*a).discarded;
    if !found.iter().all(discarded) {
        found.retain(|a| !discarded(a));
    }
    Ok(found)
}

/// A name as those of a module and of a symbol, divided at each colon.
pub(crate) fn modules_and_symbols(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let divided = name.match_indices(':').filter_map(|(at, _)| Some((name.get(..at)?, name.get(at + 1..)?)));
    divided.filter(|(module, symbol)| !module.is_empty() && !symbol.is_empty())
}

/// As [`find`]; if no atom has the name, the imports that have it, at positions after those of all atoms.
pub(crate) fn find_or_import(model: &Model, name: &str) -> Result<Vec<u32>> {
    let atoms = find(model, name);
    if atoms.is_ok() {
        return atoms;
    }
    let first = model.atoms.len() as u32;
    let exact = (first..).zip(&model.report.imports).filter(|(_, i)| i.symbol == name).map(|(at, _)| at);
    let mut found: Vec<u32> = exact.collect();
    if found.is_empty() {
        let called = |i: &ImportReport| {
            is_called(&demangle(&i.symbol), name) || Glob::new(name).matches(i.symbol.as_bytes())
        };
        found = (first..).zip(&model.report.imports).filter(|(_, i)| called(i)).map(|(at, _)| at).collect();
    }
    if found.is_empty() { atoms } else { Ok(found) }
}

/// Whether a user means the module: by its whole path or an end of it.
pub(crate) fn is_module(module: &ModuleReport, name: &str) -> bool {
    let name = name.strip_prefix("./").unwrap_or(name);
    let full = module.full();
    let behind =
        |path: &str| path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    behind(&full) || module.short() == name || behind(&module.name)
}

/// Whether a demangled symbol has the name or matches the pattern.
pub(crate) fn is_called(shown: &str, name: &str) -> bool {
    let (loose, wanted) = (demangle::loose(shown), demangle::loose(name));
    let glob = Glob::new(name);
    shown == name
        || demangle::qualified(shown) == name
        || loose == wanted
        || demangle::qualified(&loose) == wanted
        || glob.matches(shown.as_bytes())
        || glob.matches(demangle::qualified(shown).as_bytes())
}

/// Whether a symbol, as the linker writes it and demangled, has a name.
type Way<'w> = &'w dyn Fn(&str, &str) -> bool;

struct DemangledNames<'m> {
    model: &'m Model,
    /// By atom: for each symbol its name and the demangled one.
    names: Vec<Vec<(&'m str, Cow<'m, str>)>>,
}

impl<'m> DemangledNames<'m> {
    fn new(model: &'m Model) -> Self {
        let of = |symbol: &'m String| (symbol.as_str(), demangle(symbol));
        let names = model.atoms.iter().map(|a| a.symbols.iter().map(of).collect()).collect();
        DemangledNames { model, names }
    }

    /// The atoms of some modules that have the name in the strictest way in which any has it.
    fn find(&self, name: &str, of: &dyn Fn(&ModuleReport) -> bool) -> Vec<u32> {
        let glob = Glob::new(name);
        let wanted = demangle::loose(name);
        let ways: [Way<'_>; 6] = [
            &|symbol, _| symbol == name,
            &|_, shown| shown == name,
            &|_, shown| demangle::qualified(shown) == name,
            &|_, shown| {
                let loose = demangle::loose(shown);
                loose == wanted || demangle::qualified(&loose) == wanted
            },
            &|_, shown| demangle::generic(shown).as_deref() == Some(name),
            &|symbol, shown| {
                [symbol, shown, demangle::qualified(shown)].iter().any(|n| glob.matches(n.as_bytes()))
            },
        ];
        let is_of = |atom: &Atom| of(self.model.module_of(atom));
        let some = |has: &dyn Fn(usize, &Atom) -> bool| -> Vec<u32> {
            let atoms = self.model.atoms.iter().enumerate();
            atoms.filter(|(i, atom)| is_of(atom) && has(*i, atom)).map(|(i, _)| i as u32).collect()
        };
        for way in ways {
            let has =
                |i: usize| self.names.get(i).into_iter().flatten().any(|(symbol, shown)| way(symbol, shown));
            let found = some(&|i, _| has(i));
            if !found.is_empty() {
                return found;
            }
        }
        // A place, which tables show for atoms without a symbol.
        let at = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
        let section = at.strip_prefix('(').and_then(|n| n.strip_suffix(')'));
        some(&|_, atom| match section {
            Some(section) => atom.section == section,
            None => at.ends_with(')') && place(self.model, atom, None) == at,
        })
    }

    /// Names that have it in them, for the message.
    fn similar(&self, name: &str) -> String {
        let wanted = demangle::loose(name.trim_matches('*')).to_lowercase();
        let mut names: Vec<&str> = Vec::new();
        if !wanted.is_empty() {
            let live =
                self.model.atoms.iter().zip(&self.names).filter(|(a, _)| a.state != AtomState::Dropped);
            let shown = live.flat_map(|(_, names)| names.iter().map(|n| &*n.1));
            let imports = self.model.report.imports.iter().map(|i| &*i.symbol);
            names
                .extend(shown.chain(imports).filter(|n| demangle::loose(n).to_lowercase().contains(&wanted)));
        }
        names.sort_by_key(|n| (n.len(), *n));
        names.dedup();
        names.truncate(3);
        if names.is_empty() { String::new() } else { format!("; there is {}", names.join(", ")) }
    }
}

/// By atom: whether one of the patterns matches a symbol of it.
pub(crate) fn matching(model: &Model, patterns: &[&str]) -> Vec<bool> {
    let globs: Vec<Glob> = patterns.iter().map(|p| Glob::new(p)).collect();
    let matches = |symbol: &str| {
        let shown = demangle(symbol);
        let names = [symbol, &*shown, demangle::qualified(&shown)];
        globs.iter().any(|g| names.iter().any(|n| g.matches(n.as_bytes())))
    };
    model.atoms.iter().map(|a| !globs.is_empty() && a.symbols.iter().any(|s| matches(s))).collect()
}

/// By atom: whether a program begins there: `main`, and Rust's own main function.
pub(crate) fn is_main(model: &Model) -> Vec<bool> {
    let is_main = |symbol: &str| {
        symbol == "main" || {
            let rust = symbol.contains("4main") && demangle::is_rust(symbol);
            rust && demangle(symbol).split("::").collect::<Vec<_>>().get(1..) == Some(&["main"])
        }
    };
    model.atoms.iter().map(|a| a.symbols.iter().any(|s| is_main(s))).collect()
}
