//! What of an output must not depend on pruning, as binutils' `readelf` reads it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The dynamic interface of an output.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) needed: Vec<String>,
    /// `NAME@VERSION BINDING VISIBILITY` of what `.dynsym` defines.
    pub(crate) exports: BTreeSet<String>,
    /// The names of those that a copy relocation made; they go with the code that needs them.
    copies: BTreeSet<String>,
    /// Names that it leaves to others, with version.
    pub(crate) imports: BTreeSet<String>,
    pub(crate) stack: String,
}

impl Facts {
    /// Whether an entry of `exports`, or of the imports of another output, is there for a copy relocation only.
    pub(crate) fn is_copy(&self, export: &str) -> bool {
        let name = export.split([' ', '@']).next().unwrap_or_default();
        self.copies.contains(name)
    }

    /// Whether a name that the loader says it found nowhere is one that this output leaves to others.
    pub(crate) fn imports_what_was_not_found(&self, said: &str) -> bool {
        let name = said.split_once("undefined symbol: ").and_then(|(_, rest)| rest.split_whitespace().next());
        name.is_some_and(|name| self.imports.contains(name))
    }
}

/// Names that linkers define themselves, at places that move.
const PLACES: &[&str] = &["_end", "_edata", "__bss_start", "_etext", "end", "edata", "etext"];

pub(crate) fn facts(path: &Path) -> Result<Facts, String> {
    let mut command = Command::new("readelf");
    command.args(["-W", "-d", "-l", "-r", "--dyn-syms"]).arg(path).env("LC_ALL", "C");
    let output = command.output().map_err(|e| format!("readelf: {e}"))?;
    // wild, and GNU ld in a program at fixed addresses, export an IFUNC as a function once code refers to it. wild's other
    // ones are in a file of no OS that readelf knows.
    let text = String::from_utf8_lossy(&output.stdout)
        .replace("<OS specific>: 10", "FUNC")
        .replace(" IFUNC ", " FUNC ");
    let mut facts = Facts::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((_, name)) = line.split_once("(NEEDED)") {
            facts.needed.push(name.trim().to_owned());
        } else if words.first() == Some(&"GNU_STACK") {
            facts.stack = words[6..].join(" ");
        } else if words.get(2) == Some(&"R_X86_64_COPY") {
            let name = words.get(4).and_then(|n| n.split('@').next());
            facts.copies.extend(name.map(str::to_owned));
        } else if let [number, _, _, kind, binding, visibility, section, name] = words[..]
            && number.ends_with(':')
            && number.trim_end_matches(':').parse::<u32>().is_ok()
        {
            // An undefined one with a value is the address of a function in the program's own PLT. A local one is there for a
            // dynamic relocation of code alone.
            if section == "UND" {
                facts.imports.insert(name.to_owned());
            } else if binding != "LOCAL" && !PLACES.contains(&name) {
                facts.exports.insert(format!("{name} {kind} {binding} {visibility}"));
            }
        }
    }
    Ok(facts)
}
