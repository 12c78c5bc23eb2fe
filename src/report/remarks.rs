//! `--prune-remarks=F`: LLVM optimisation remarks, in LLVM's YAML: one for each removed function, and one for each indirect call of a
//! live function (at the level `pointers`).
//!
//! Remarks about removed functions are as those of LLVM's LTO for a dead definition (llvm/lib/LTO/LTO.cpp, remark `deadfunction` of
//! pass `lto`), so that `llvm-remarkutil` reads them. LLVM's called value propagation writes none; those of calls are named after it:
//! passed, with the callees, missed, with the reason, or an analysis, of a call that calls nothing. There is no `DebugLoc`: native
//! debug information is not read.

use std::borrow::Cow;
use std::fmt::Write;

use super::calls::CallSiteReport;
use super::schema::Report;
use crate::config::OptRemarks;
use crate::terminal;

pub fn remarks(report: &Report) -> String {
    let mut out = removed_functions(report);
    for site in &report.call_sites {
        let named =
            |atom: u32| report.atoms.get(atom as usize).and_then(|a| a.symbols.first()).map(String::as_str);
        let place = format!("{} at {:#x}", section(report, site), site.offset);
        let (kind, name, mut arguments) = match &*site.state {
            "resolved" => ("Passed", "resolved", vec![("String", " calls ")]),
            "never" => ("Analysis", "nevercalled", vec![("String", " calls nothing ")]),
            _ => {
                ("Missed", "overdefined", vec![("String", " may call any function whose address escaped: ")])
            }
        };
        arguments.insert(0, ("CallSite", &place));
        arguments.extend(site.targets.iter().map(|t| ("Callee", named(t.atom).unwrap_or("?"))));
        arguments.extend(site.externals.iter().map(|e| ("Callee", e.as_str())));
        arguments.extend(site.because.iter().map(|b| ("Reason", b.as_str())));
        let caller = named(site.caller).unwrap_or("?");
        document(&mut out, [kind, "called-value-propagation", name], caller, arguments);
    }
    out
}

/// The remarks about removed functions that lld's own remarks lack, if it writes any that the user selects: the functions are not in the
/// bitcode that lld gets.
pub fn missing_in_linkers(report: &Report, options: &OptRemarks) -> Option<String> {
    let is_written = report.pruned && report.modules.iter().any(|module| module.kind == "bitcode");
    let is_selected = !options.is_by_hotness && options.passes.as_deref().is_none_or(may_match_lto);
    (is_written && is_selected).then(|| removed_functions(report)).filter(|text| !text.is_empty())
}

/// Whether a regular expression may match the name of the pass `lto`. One that is more than alternatives of words is taken to.
fn may_match_lto(passes: &str) -> bool {
    passes.split('|').any(|word| {
        let text = word.trim_start_matches('^').trim_end_matches('$');
        let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let (from_start, to_end) = (word.starts_with('^'), word.ends_with('$'));
        !is_word
            || "lto".contains(text)
                && (!from_start || "lto".starts_with(text))
                && (!to_end || "lto".ends_with(text))
    })
}

fn removed_functions(report: &Report) -> String {
    let mut out = String::new();
    for symbol in &report.symbols {
        let function = symbol.kind == "function" || symbol.kind == "ifunc";
        if !function || symbol.live || !symbol.prevails {
            continue;
        }
        let (kind, text) = match report.pruned {
            true => ("Passed", " not added to the combined module "),
            // The originals were linked, and the function is there.
            false => ("Analysis", " would not be added to the combined module "),
        };
        let reason = report.unpruned.iter().map(|why| ("Reason", why.reason.as_str()));
        let arguments = [("Function", symbol.name.as_str()), ("String", text)].into_iter().chain(reason);
        document(&mut out, [kind, "lto", "deadfunction"], &symbol.name, arguments);
    }
    out
}

/// The section of a call in its object.
fn section<'r>(report: &'r Report, site: &CallSiteReport) -> &'r str {
    report.atoms.get(site.caller as usize).map_or("?", |a| a.section.as_str())
}

/// Append a remark of a kind, of a pass, with a name.
fn document<'r>(
    out: &mut String,
    [kind, pass, name]: [&str; 3],
    function: &str,
    arguments: impl IntoIterator<Item = (&'r str, &'r str)>,
) {
    // Writing to a String can't fail.
    let _ = write!(out, "--- !{kind}\nPass:            {pass}\nName:            {name}\n");
    let _ = write!(out, "Function:        {}\nArgs:\n", scalar(function));
    for (key, value) in arguments {
        let key = format!("{key}:");
        let _ = writeln!(out, "  - {key:<16} {}", scalar(value));
    }
    out.push_str("...\n");
}

/// Words that YAML would read as something else than a string.
const KEYWORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// A YAML scalar as LLVM's YAML output quotes it.
fn scalar(text: &str) -> Cow<'_, str> {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-^., \t".contains(c);
    let is_keyword = KEYWORDS.iter().any(|word| text.eq_ignore_ascii_case(word));
    let plain_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if plain_start && !text.ends_with([' ', '\t']) && text.chars().all(safe) && !is_keyword {
        return Cow::Borrowed(text);
    }
    if text.chars().all(|c| c == '\t' || !terminal::is_control(c)) {
        return Cow::Owned(format!("'{}'", text.replace('\'', "''")));
    }
    // JSON strings are YAML double-quoted scalars.
    Cow::Owned(terminal::json(&serde_json::to_string(text).unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_that_may_be_lto() {
        for passes in ["lto", "inline|lto", "^lto$", "l", ".*", "", "lt[o]", "^l"] {
            assert!(may_match_lto(passes), "{passes}");
        }
        for passes in ["inline", "inline|gvn", "^to", "lt$", "lto-x"] {
            assert!(!may_match_lto(passes), "{passes}");
        }
    }

    #[test]
    fn scalars_are_quoted_where_yaml_needs_it() {
        assert_eq!(scalar("_ZN1a1bEv.cold"), "_ZN1a1bEv.cold");
        assert_eq!(scalar("f$g"), "'f$g'");
        assert_eq!(scalar("it's"), "'it''s'");
        assert_eq!(scalar("y"), "'y'");
        assert_eq!(scalar("a\u{1}"), "\"a\\u0001\"");
    }
}
