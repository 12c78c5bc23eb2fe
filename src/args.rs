//! The command line: words of a GNU ld line become a [`Config`], and our own options are taken out of it.
//!
//! An unknown word stays on the line for the linker. Options that change the list or the meaning of inputs must be known; `table` has
//! those that take the next word. An option that is known and not modelled is in [`Config::unmodelled`], and the original objects are
//! linked.

mod environment;
pub mod help;
mod line;
pub mod linker;
pub(crate) mod lto;
pub mod prune;
pub(crate) mod size;
pub(crate) mod table;
pub mod words;

pub use environment::Environment;

use std::ffi::{OsStr, OsString};

use crate::config::{Config, Flavor};
use crate::error::Result;

/// The meaning of a linker's command line. `args` are the words after the program's name, `namesake` is the linker that the name stands for.
/// The linker reports mistakes in its own options.
pub fn parse(args: &[OsString], namesake: Option<&OsStr>, env: &Environment<'_>) -> Result<Config> {
    // Another syntax than that of the words here.
    let is_quoted = args.iter().any(|word| words::is_quoting(word));
    let words = if is_quoted { args.to_vec() } else { words::expand(args) };
    let (unread, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|w| words::is_response_file(w));
    let (ours, theirs): (Vec<_>, Vec<_>) = words.into_iter().partition(|w| prune::is_ours(w));
    let options = prune::parse(&ours, Some(&prune::file::output_of(&theirs)), env)?;
    let linker = linker::choose(options.linker.as_deref(), namesake, env)?;
    let mut config = line::interpret(theirs, linker, options);
    config.prune.name_files_after(&config.output);
    if is_quoted {
        config.unmodelled.push("--rsp-quoting".to_owned());
    }
    config.unmodelled.extend((env.names)().into_iter().filter(|name| is_option(name, config.linker.flavor)));
    if !unread.is_empty() {
        config.unmodelled.push("a response file of another syntax, or that names itself".to_owned());
    }
    let is_nested = config.linker.flavor == Flavor::Mold && words::are_nested(args);
    if is_nested {
        config.malformed.push("a response file that names another one".to_owned());
    }
    if is_nested || !unread.is_empty() {
        config.linker_args = args.iter().filter(|word| !prune::is_ours(word)).cloned().collect();
    }
    Ok(config)
}

/// Whether a variable of the environment is an option of the linker's: `LLD_REPRODUCE`, `MOLD_REPRO`, `WILD_SAVE_DIR` and their like
/// record, print or check what the linker is given.
fn is_option(name: &str, flavor: Flavor) -> bool {
    match flavor {
        Flavor::Lld => name.starts_with("LLD_"),
        // How many links run at once, and where `mold -run` is.
        Flavor::Mold => name.starts_with("MOLD_") && !matches!(name, "MOLD_JOBS" | "MOLD_PATH"),
        Flavor::Wild => name.starts_with("WILD_"),
        Flavor::Bfd | Flavor::Gold => false,
    }
}

#[cfg(test)]
pub(crate) mod tests;
