//! The atoms that a user means by a name: as the linker writes it, as the programmer does, or by a pattern.
//!
//! The first way in which any atom has the name counts, from the strictest on, so that a name that exists is never taken for a
//! pattern. Of copies of a COMDAT group only the one in the link is meant.

use crate::error::{Error, Result, Stage};
use crate::inputs::glob::Glob;

use super::demangle::{self, demangle};
use super::model::{Model, State};

/// What of several things with the name is meant, ascending.
///
/// # Errors
/// Nothing has the name.
pub(crate) fn find(model: &Model<'_>, name: &str) -> Result<Vec<u32>> {
    let glob = Glob::new(name);
    let ways: [&dyn Fn(&str) -> bool; 4] = [
        &|symbol| symbol == name,
        &|symbol| demangle(symbol) == name,
        &|symbol| demangle::plain(&demangle(symbol)) == name,
        &|symbol| glob.matches(symbol.as_bytes()) || glob.matches(demangle(symbol).as_bytes()),
    ];
    for way in ways {
        let mut found = Vec::new();
        for (i, atom) in model.atoms.iter().enumerate() {
            if atom.symbols.iter().any(|s| way(s)) {
                found.push(i as u32);
            }
        }
        if !found.is_empty() {
            let discarded = |a: &u32| model.atoms.get(*a as usize).is_none_or(|a| a.discarded);
            if !found.iter().all(discarded) {
                found.retain(|a| !discarded(a));
            }
            return Ok(found);
        }
    }
    Err(Error::new(Stage::Report, format!("no module in the link defines {name}{}", similar(model, name)))
        .in_file(model.path.clone()))
}

/// Names that have it in them, for the message.
fn similar(model: &Model<'_>, name: &str) -> String {
    let wanted = name.trim_matches('*').to_lowercase();
    let mut names: Vec<String> = Vec::new();
    if !wanted.is_empty() {
        let symbols = model.atoms.iter().filter(|a| a.state != State::Dropped).flat_map(|a| &a.symbols);
        names
            .extend(symbols.map(|s| demangle(s).into_owned()).filter(|n| n.to_lowercase().contains(&wanted)));
    }
    names.sort_by_key(|n| (n.len(), n.clone()));
    names.dedup();
    names.truncate(3);
    if names.is_empty() { String::new() } else { format!("; there is {}", names.join(", ")) }
}

/// By atom: whether one of the patterns matches a symbol of it.
pub(crate) fn matching(model: &Model<'_>, patterns: &[String]) -> Vec<bool> {
    let globs: Vec<Glob> = patterns.iter().map(|p| Glob::new(p)).collect();
    let matches = |symbol: &str| {
        !globs.is_empty()
            && globs.iter().any(|g| g.matches(symbol.as_bytes()) || g.matches(demangle(symbol).as_bytes()))
    };
    model.atoms.iter().map(|a| a.symbols.iter().any(|s| matches(s))).collect()
}

/// By atom: whether a program begins there: `main`, and Rust's own main function.
pub(crate) fn is_main(model: &Model<'_>) -> Vec<bool> {
    let is_main = |symbol: &str| {
        symbol == "main" || {
            let rust = symbol.contains("4main") && demangle::is_rust(symbol);
            rust && demangle(symbol).split("::").collect::<Vec<_>>().get(1..) == Some(&["main"])
        }
    };
    model.atoms.iter().map(|a| a.symbols.iter().any(|s| is_main(s))).collect()
}
