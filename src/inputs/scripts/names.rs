//! Names against the patterns of version scripts and dynamic lists, compiled once for many names.
//!
//! Precedence as GNU ld, gold and lld have it: names, then patterns, then `*`; of equal rank global wins, because
//! exporting too much keeps too much, which is safe. A pattern of an `extern "C++"` block may match every mangled name, so a
//! global one does and a local one (except `*`) doesn't. Left out: demangling.

use rustc_hash::FxHashSet;

use super::super::glob::Glob;
use super::{Pattern, ScriptFacts};
use crate::config::Dialect;

/// Which way doubt goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Matches,
    DoesNot,
}

/// Patterns by rank.
#[derive(Debug, Default)]
struct Set {
    literals: FxHashSet<Vec<u8>>,
    globs: Vec<Glob>,
    /// Some pattern of a C++ block, of which it isn't known what it matches.
    mangled: bool,
    star: bool,
}

impl Set {
    /// Compile `patterns`. GNU ld and gold take a quoted one for a name; the others ignore the quotes.
    fn new(patterns: &[Pattern], dialect: Dialect, doubt: Doubt) -> Self {
        let mut set = Set::default();
        for pattern in patterns {
            let glob = Glob::new(&pattern.text);
            let quoted = pattern.quoted && matches!(dialect, Dialect::Bfd | Dialect::Gold);
            if !quoted && glob.is_star() {
                set.star = true;
                continue;
            }
            if pattern.cplusplus {
                set.mangled |= doubt == Doubt::Matches;
                if doubt == Doubt::DoesNot {
                    continue;
                }
            }
            if quoted || glob.is_literal() {
                set.literals.insert(if quoted { pattern.text.clone().into_bytes() } else { glob.literal() });
            } else {
                set.globs.push(glob);
            }
        }
        set
    }

    fn has_literal(&self, name: &[u8]) -> bool {
        self.literals.contains(name)
    }

    fn has_glob(&self, name: &[u8]) -> bool {
        (self.mangled && name.starts_with(b"_Z")) || self.globs.iter().any(|g| g.matches(name))
    }
}

/// The compiled patterns of a link.
#[derive(Debug)]
pub struct NameMatcher {
    /// Global and local patterns; `None` without a version script.
    version: Option<(Set, Set)>,
    dynamic: Set,
}

impl ScriptFacts {
    /// Compile the version scripts' and dynamic lists' patterns as the linker reads them.
    pub fn name_matcher(&self, dialect: Dialect) -> NameMatcher {
        let set = |patterns, doubt| Set::new(patterns, dialect, doubt);
        let global = self.version_global.as_ref();
        let version = global.map(|g| (set(g, Doubt::Matches), set(&self.version_local, Doubt::DoesNot)));
        NameMatcher { version, dynamic: set(&self.dynamic_list, Doubt::Matches) }
    }
}

impl NameMatcher {
    /// Whether the version scripts leave a default-visibility definition of `name` (without its version) global: true
    /// when in doubt, without any version script, and for names that no pattern matches.
    pub fn version_exports(&self, name: &[u8]) -> bool {
        let Some((global, local)) = &self.version else { return true };
        if global.has_literal(name) {
            return true;
        }
        if local.has_literal(name) {
            return false;
        }
        if global.has_glob(name) {
            return true;
        }
        !local.has_glob(name) && (global.star || !local.star)
    }

    /// Whether a version script names `name` by itself, not by a pattern.
    pub fn version_names(&self, name: &[u8]) -> bool {
        self.version
            .as_ref()
            .is_some_and(|(global, local)| global.has_literal(name) || local.has_literal(name))
    }

    /// Whether a dynamic list or `--export-dynamic-symbol` names `name`: true when in doubt.
    pub fn dynamic_list_names(&self, name: &[u8]) -> bool {
        self.dynamic.star || self.dynamic.has_literal(name) || self.dynamic.has_glob(name)
    }
}
