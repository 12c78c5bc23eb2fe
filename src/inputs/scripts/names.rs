//! Names against the patterns of version scripts and dynamic lists, compiled once for many names.
//!
//! The precedence is that of GNU ld, gold, lld and wild: names, then patterns, then `*`; of equal rank global prevails, since
//! exporting too much is safe. To mold a name is a pattern like others, and the first that matches prevails; here a global one does. Names are
//! not demangled: a global pattern of an `extern "C++"` block matches every mangled name, and a local one (except `*`) matches none.

use rustc_hash::FxHashSet;

use super::super::glob::Glob;
use super::facts::{Pattern, ScriptFacts};
use crate::config::Flavor;

/// The assumption about a pattern that can't be evaluated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnevaluatedPattern {
    AssumeMatch,
    AssumeNoMatch,
}

/// Patterns by rank: exact names before globs, and `*` last.
#[derive(Debug, Default)]
struct Set {
    literals: FxHashSet<Vec<u8>>,
    globs: Vec<Glob>,
    /// A pattern of a C++ block is here, which may match any mangled name.
    mangled: bool,
    star: bool,
}

impl Set {
    /// Compile `patterns`. GNU ld and gold take a quoted one for a name; the others ignore the quotes.
    fn new(patterns: &[Pattern], flavor: Flavor, unevaluated: UnevaluatedPattern) -> Self {
        let mut set = Set::default();
        for pattern in patterns {
            let glob = Glob::new(&pattern.text);
            let quoted = pattern.quoted && flavor.rules().quoted_are_names;
            if !quoted && glob.is_star() {
                set.star = true;
                continue;
            }
            if pattern.cplusplus {
                set.mangled |= unevaluated == UnevaluatedPattern::AssumeMatch;
                if unevaluated == UnevaluatedPattern::AssumeNoMatch {
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
    /// Names that the linker reports if nothing defines them.
    demanded: Set,
    /// It also reports hidden symbols that a dynamic list names.
    hidden_exports: bool,
    /// A name and a pattern have equal rank.
    equal_rank: bool,
}

impl ScriptFacts {
    /// Compile the version scripts' and dynamic lists' patterns as the linker reads them; `undefined_version` is its option of that name.
    pub fn name_matcher(&self, flavor: Flavor, undefined_version: Option<bool>) -> NameMatcher {
        let set = |patterns: &[Pattern], unevaluated| Set::new(patterns, flavor, unevaluated);
        let global = self.version_global.as_ref();
        let version = global.map(|g| {
            (
                set(g, UnevaluatedPattern::AssumeMatch),
                set(&self.version_local, UnevaluatedPattern::AssumeNoMatch),
            )
        });
        // lld refuses names of version scripts that are not defined, and mold reports them, unless an option forbids it. GNU ld and gold
        // refuse global ones only by option; wild never looks. mold also reports names of dynamic lists, and gold hidden symbols that
        // a list exports.
        let global = global.map_or(&[][..], Vec::as_slice);
        let asked: [&[Pattern]; 3] = match (flavor, undefined_version) {
            (Flavor::Lld, None | Some(false)) => [global, &self.version_local, &[]],
            (Flavor::Mold, None | Some(false)) => [global, &self.version_local, &self.dynamic_list],
            (Flavor::Mold, Some(true)) => [&[], &[], &self.dynamic_list],
            (Flavor::Bfd | Flavor::Gold, Some(false)) => [global, &[], &[]],
            (Flavor::Lld | Flavor::Bfd | Flavor::Gold, _) | (Flavor::Wild, _) => [&[]; 3],
        };
        let is_name = |p: &&Pattern| p.quoted || Glob::new(&p.text).is_literal();
        let mut names: Vec<Pattern> = asked.into_iter().flatten().filter(is_name).cloned().collect();
        if flavor == Flavor::Gold {
            // It reports the version that it takes for a definition that several nodes name.
            let mut seen = FxHashSet::default();
            let all = global.iter().chain(&self.version_local);
            names.extend(all.filter(|p| !seen.insert(p.text.as_str())).cloned());
        }
        let demanded = set(&names, UnevaluatedPattern::AssumeMatch);
        let hidden_exports = flavor == Flavor::Gold;
        NameMatcher {
            version,
            dynamic: set(&self.dynamic_list, UnevaluatedPattern::AssumeMatch),
            demanded,
            hidden_exports,
            equal_rank: flavor.rules().first_version_pattern_wins,
        }
    }
}

impl NameMatcher {
    /// Whether the version scripts leave a default-visibility definition of `name` (without its version) global: true
    /// when in doubt, without any version script, and for names that no pattern matches.
    pub fn version_exports(&self, name: &[u8]) -> bool {
        let Some((global, local)) = &self.version else { return true };
        if global.has_literal(name) || self.equal_rank && global.has_glob(name) {
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

    /// Whether a pattern may decide about a name that the version scripts also have literally.
    pub fn pattern_may_decide(&self, name: &[u8]) -> bool {
        let matches = |(global, local): &(Set, Set)| global.has_glob(name) || local.has_glob(name);
        self.equal_rank && self.version.as_ref().is_some_and(matches)
    }

    /// Whether the linker reports `name` (without its version) if it is not defined or hidden, because a version script or a dynamic list
    /// names it: true when in doubt.
    pub fn must_be_defined(&self, name: &[u8]) -> bool {
        let name = name.split(|b| *b == b'@').next().unwrap_or(name);
        let is_demanded = self.demanded.has_literal(name) || self.demanded.mangled && name.starts_with(b"_Z");
        is_demanded || self.hidden_exports && self.dynamic_list_names(name)
    }

    /// Whether a dynamic list or `--export-dynamic-symbol` names `name`: true when in doubt.
    pub fn dynamic_list_names(&self, name: &[u8]) -> bool {
        self.dynamic.star || self.dynamic.has_literal(name) || self.dynamic.has_glob(name)
    }
}
