//! `--prune-remarks=F`: one LLVM optimisation remark for each function that went, in LLVM's YAML.
//!
//! Pass, name, function and arguments are those that LLVM's LTO writes for a definition that its index found dead
//! (llvm/lib/LTO/LTO.cpp, remark `deadfunction` of pass `lto`), so `llvm-remarkutil` and every reader of
//! `--opt-remarks-filename` reads them. There is no `DebugLoc`: native debug information is not read.

use std::borrow::Cow;
use std::fmt::Write;

use super::Report;

/// The remarks, in load order.
pub fn remarks(report: &Report) -> String {
    let mut out = String::new();
    for symbol in &report.symbols {
        let function = symbol.kind == "function" || symbol.kind == "ifunc";
        if !function || symbol.live || !symbol.prevails {
            continue;
        }
        let name = scalar(&symbol.name);
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "--- !Passed\nPass:            lto\nName:            deadfunction\nFunction:        {name}\nArgs:\n  \
             - Function:        {name}\n  - String:          ' not added to the combined module '\n...\n"
        );
    }
    out
}

/// A YAML scalar as LLVM's YAML output quotes it.
fn scalar(text: &str) -> Cow<'_, str> {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-^., \t".contains(c);
    let plain_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if plain_start && !text.ends_with([' ', '\t']) && text.chars().all(safe) && !is_keyword(text) {
        return Cow::Borrowed(text);
    }
    if text.chars().all(|c| c == '\t' || !c.is_control()) {
        return Cow::Owned(format!("'{}'", text.replace('\'', "''")));
    }
    // JSON strings are YAML double-quoted scalars.
    Cow::Owned(serde_json::to_string(text).unwrap_or_default())
}

/// Words that YAML would read as something else than a string.
fn is_keyword(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(lower.as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_quoted_where_yaml_needs_it() {
        assert_eq!(scalar("_ZN1a1bEv.cold"), "_ZN1a1bEv.cold");
        assert_eq!(scalar("f$g"), "'f$g'");
        assert_eq!(scalar("it's"), "'it''s'");
        assert_eq!(scalar("y"), "'y'");
        assert_eq!(scalar("a\u{1}"), "\"a\\u0001\"");
    }
}
