//! Facts about roots in linker scripts, version scripts and dynamic lists.
//!
//! These are definitions, references, KEEP and exports, but not the layout of sections. An unknown construct is
//! [`Limit::UnmodelledScript`], and the link is not pruned. Names are not demangled, so that `extern "C++"` blocks match
//! as widely as is safe (see [`names`]).

mod expression;
pub(super) mod facts;
pub mod implicit;
mod lexer;
pub mod names;
mod sections;
mod version;

pub use facts::{Pattern, ProvideAssignment, ScriptFacts};
pub(super) use sections::ScriptInputs;

use std::path::Path;

use summaries::Limit;

use super::files::Inputs;
use super::search::{FoundFile, LibrarySearch};
use crate::config::Config;
use crate::ids::FileId;

/// Read a `-T` script: its own id, and the inputs that it names. An unreadable or unmodelled script is a limit.
pub(super) fn read_sections(
    path: &Path,
    search: &LibrarySearch<'_>,
    inputs: &mut Inputs,
) -> Option<(FileId, ScriptInputs)> {
    let file = open(path, search, inputs)?;
    match sections::parse(&inputs.files.get(file)?.bytes, &mut inputs.scripts) {
        Ok(named) => Some((file, named)),
        Err(construct) => {
            inputs.refuse(Some(file), Limit::UnmodelledScript, construct);
            None
        }
    }
}

/// Read every script that the options name, except those of `-T`.
pub(super) fn read_all(config: &Config, search: &LibrarySearch<'_>, inputs: &mut Inputs) {
    type Parse = fn(&[u8], &mut ScriptFacts) -> Result<(), String>;
    let lists = config.dynamic_lists.iter().chain(&config.export_dynamic_lists);
    let all = config.version_scripts.iter().map(|p| (p, version::parse_script as Parse));
    let all = all.chain(lists.map(|p| (p, version::parse_list as Parse)));
    let mut facts = std::mem::take(&mut inputs.scripts);
    for (path, parse) in all {
        let Some(file) = open(path, search, inputs) else { continue };
        let result = inputs.files.get(file).map(|f| parse(&f.bytes, &mut facts));
        if let Some(Err(construct)) = result {
            inputs.refuse(Some(file), Limit::UnmodelledScript, construct);
        }
    }
    // Linkers differ in which of two nodes decides.
    for pattern in &facts.version_local {
        facts.versions.remove(pattern.text.as_bytes());
    }
    let symbols = config.export_dynamic_symbols.iter();
    let pattern = |text: &String| Pattern { text: text.clone(), cplusplus: false, quoted: false };
    facts.dynamic_list.extend(symbols.map(pattern));
    facts.ordered_symbols.extend(config.keep_unique.iter().map(|name| name.clone().into_bytes()));
    // A line of a symbol ordering is a symbol; one of a call graph is two symbols and a number.
    let orderings = config.symbol_orderings.iter().map(|p| (p, 1));
    for (path, names) in orderings.chain(config.call_graph_orderings.iter().map(|p| (p, 2))) {
        let Some(file) = open(path, search, inputs) else { continue };
        let text = inputs.files.get(file).map_or(&[][..], |f| &f.bytes);
        let lines = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            let symbols = match names {
                1 => vec![line],
                _ => line.split(|b| *b == b' ').take(names).collect(),
            };
            facts.ordered_symbols.extend(symbols.into_iter().map(<[u8]>::to_vec));
        }
    }
    inputs.scripts = facts;
}

/// Open a script: by its path, else in the directories of `-L`, as lld and GNU ld do.
fn open(path: &Path, search: &LibrarySearch<'_>, inputs: &mut Inputs) -> Option<FileId> {
    let found = match path.exists() {
        true => path.to_owned(),
        false => match search.on_search_path(path) {
            FoundFile::At(found) => found,
            _ => path.to_owned(),
        },
    };
    match search.open(&found) {
        Ok(file) => {
            let file = inputs.files.push(file);
            inputs.opened.push(file);
            Some(file)
        }
        Err(error) => {
            inputs.refuse(None, Limit::UnreadableInput, format!("{}: {error}", path.display()));
            None
        }
    }
}

#[cfg(test)]
mod tests;
