//! Names of functions under which their code may be in a file: aliases, versions, and the clones that compilers make.
//!
//! A symbol is a function's own if the name before its first dot is the function's: `f.part.0`, `f.constprop.0`, `f.cold` and
//! `f.llvm.123` hold code of `f`. All ways of writing a name count at once, so that a match may be one too many and never one too few.

use std::borrow::Cow;

use crate::audit::demangle::{self, demangle};
use crate::inputs::glob::Glob;

/// The name of a function in debug information.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DebugName {
    /// The name that linkers know, if it differs.
    pub(crate) linkage: Option<String>,
    /// The last part of the name in the source.
    pub(crate) name: Option<String>,
}

impl DebugName {
    /// The name in the form for a person.
    pub(crate) fn shown(&self) -> String {
        match (&self.linkage, &self.name) {
            (Some(linkage), _) => demangle(linkage).into_owned(),
            (None, Some(name)) => name.clone(),
            (None, None) => "[a function without a name]".to_owned(),
        }
    }
}

/// All forms of a symbol's name that a user may write.
#[derive(Debug)]
pub(crate) struct SymbolForms<'s>(Vec<Cow<'s, str>>);

impl<'s> SymbolForms<'s> {
    pub(crate) fn new(symbol: &'s str) -> Self {
        let mut forms: Vec<Cow<'s, str>> = Vec::new();
        let function = function_of(symbol);
        for name in [symbol, function].into_iter().take(if function == symbol { 1 } else { 2 }) {
            let shown = demangle(name);
            forms.push(Cow::Borrowed(name));
            if shown != name {
                let loose = demangle::loose(&shown);
                forms.push(Cow::Owned(demangle::qualified(&shown).to_owned()));
                forms.push(Cow::Owned(demangle::qualified(&loose).to_owned()));
                forms.extend(demangle::generic(&shown).map(Cow::Owned));
                forms.push(Cow::Owned(loose));
                forms.push(shown);
            }
        }
        SymbolForms(forms)
    }
}

/// The function that a symbol belongs to: its name without a version and without the suffix of a clone.
fn function_of(symbol: &str) -> &str {
    let end = symbol.char_indices().skip(1).find(|c| matches!(c.1, '.' | '@')).map_or(symbol.len(), |c| c.0);
    symbol.get(..end).unwrap_or(symbol)
}

/// A function that a user asks for, by name or by pattern.
#[derive(Debug)]
pub(crate) struct WantedFunction {
    text: String,
    loose: String,
    pattern: Glob,
    /// The last part of the name, which debug information has.
    last: Glob,
}

impl WantedFunction {
    pub(crate) fn new(text: &str) -> Self {
        // Advisories write `f()`; a version says nothing of the code.
        let text = text.strip_suffix("()").unwrap_or(text);
        let text = text.split_once('@').map_or(text, |parts| parts.0);
        let last = last(&demangle(function_of(text)));
        WantedFunction {
            text: text.to_owned(),
            loose: demangle::loose(text),
            pattern: Glob::new(text),
            last: Glob::new(&last),
        }
    }

    /// Whether a symbol is a name of it or of a clone of it.
    pub(crate) fn is(&self, symbol: &SymbolForms<'_>) -> bool {
        let is =
            |form: &str| form == self.text || form == self.loose || self.pattern.matches(form.as_bytes());
        symbol.0.iter().any(|form| is(form))
    }

    /// Whether an entry of debug information may be about it.
    pub(crate) fn is_entry(&self, entry: &DebugName) -> bool {
        match (&entry.linkage, &entry.name) {
            (Some(linkage), _) => self.is(&SymbolForms::new(linkage)),
            (None, Some(name)) => {
                let is = |name: &str| self.pattern.matches(name.as_bytes());
                is(name) || self.last.matches(last(name).as_bytes())
            }
            (None, None) => true,
        }
    }
}

/// The last part of a name of a source: without namespaces, parameters and template arguments.
fn last(name: &str) -> String {
    let path = demangle::qualified(name);
    let plain = path.split('<').next().filter(|p| !p.is_empty()).unwrap_or(path);
    plain.rsplit("::").next().unwrap_or(plain).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_and_versions_are_of_their_function() {
        let cases = [
            ("f", "f", true),
            ("f", "f.part.0", true),
            ("f", "f.constprop.0.isra.1", true),
            ("f", "f.cold", true),
            ("f", "f@@V1", true),
            ("f()", "f.cold", true),
            ("f@V1", "f@@V2", true),
            ("ns::f()", "_ZN2ns1fEi", true),
            ("f", "f2", false),
            ("f", "g.f", false),
            ("f.part.0", "f.part.0", true),
            ("f.part.0", "f", false),
            ("ns::f", "_ZN2ns1fEi.part.0", true),
            ("ns::f(int)", "_ZN2ns1fEi", true),
            ("_ZN2ns1fEi", "_ZN2ns1fEi.cold", true),
            ("ns::f(long)", "_ZN2ns1fEi", false),
            ("in*_fast", "inflate_fast.cold", true),
            (".Lf", ".Lf.g", true),
        ];
        for (wanted, symbol, is) in cases {
            let found = WantedFunction::new(wanted).is(&SymbolForms::new(symbol));
            assert_eq!(found, is, "{wanted} {symbol}");
        }
    }

    #[test]
    fn entries_without_a_linkage_name_match_by_their_last_part() {
        let entry = |name: &str| DebugName { linkage: None, name: Some(name.to_owned()) };
        let is = |wanted: &str, name: &str| WantedFunction::new(wanted).is_entry(&entry(name));
        assert!(is("f", "f") && is("ns::f(int)", "f") && is("ns::f<int>", "f<int>") && is("_ZN2ns1fEi", "f"));
        assert!(is("main.*", "main.run") && is("f()", "f"));
        assert!(is("f*", "foo") && is("f.part.0", "f") && !is("f", "g") && !is("ns::f", "ns"));
        let linked = DebugName { linkage: Some("_ZN2ns1fEi".to_owned()), name: Some("f".to_owned()) };
        assert!(
            WantedFunction::new("ns::f").is_entry(&linked) && !WantedFunction::new("f").is_entry(&linked)
        );
        assert!(WantedFunction::new("f").is_entry(&DebugName::default()));
    }
}
