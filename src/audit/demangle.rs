//! Demangling, and the namespace (crate) and the generic or template of a name.
//!
//! A name that can't be demangled is shown as it is. Names are cut as demangled text, at separators outside of all brackets.

use std::borrow::Cow;

/// The text of a symbol for people: Rust and C++ demangled, without Rust's hash.
pub(crate) fn demangle(symbol: &str) -> Cow<'_, str> {
    // A version (`name@VERSION`) is no part of the mangled name.
    let (plain, version) = match symbol.find('@') {
        Some(at) if at > 0 => symbol.split_at(at),
        _ => (symbol, ""),
    };
    if let Ok(name) = rustc_demangle::try_demangle(plain) {
        return Cow::Owned(format!("{name:#}{version}"));
    }
    if plain.starts_with("_Z") || plain.starts_with("__Z") {
        let name = cpp_demangle::Symbol::new(plain).ok().and_then(|s| s.demangle().ok());
        if let Some(name) = name {
            return Cow::Owned(format!("{}{version}", customary(&name)));
        }
    }
    Cow::Borrowed(symbol)
}

/// Types of the standard library, with their customary names.
const SYNONYMS: [(&str, &str); 6] = [
    ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
    ("std::basic_string_view<char, std::char_traits<char> >", "std::string_view"),
    ("std::basic_ostream<char, std::char_traits<char> >", "std::ostream"),
    ("std::basic_istream<char, std::char_traits<char> >", "std::istream"),
    ("std::basic_streambuf<char, std::char_traits<char> >", "std::streambuf"),
    ("std::basic_ios<char, std::char_traits<char> >", "std::ios"),
];

/// The name with the customary names of types, and of tables that the compiler makes.
fn customary(name: &str) -> String {
    let mut name = name.to_owned();
    for (open, words) in [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")] {
        if let Some(of) = name.strip_prefix(open).and_then(|n| n.strip_suffix(")}")) {
            name = format!("{words}{of}");
        }
    }
    for (type_, synonym) in SYNONYMS {
        if name.contains(type_) {
            // Two brackets are kept apart; the type's own is gone.
            name = name.replace(type_, synonym).replace(&format!("{synonym} >"), &format!("{synonym}>"));
        }
    }
    name
}

/// A name as two people might both write it: customary, without tags of the ABI, and without `const` behind parameters.
pub(crate) fn loose(name: &str) -> String {
    let name = customary(name);
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some((before, tag)) = rest.split_once("[abi:") {
        out.push_str(before);
        rest = tag.split_once(']').map_or("", |t| t.1);
    }
    out.push_str(rest);
    if out.ends_with(") const") {
        out.truncate(out.len() - " const".len());
    }
    out
}

/// `ns::f(…)` for the name of a function, if that fits into `width` characters.
pub(crate) fn brief(name: &str, width: usize) -> Option<String> {
    let is_place = name.contains(":(");
    let called = qualified(name);
    // With parameters it ends in `)`, or in `const`.
    let brief = (!is_place && name.ends_with([')', 't']) && name.contains(&format!("{called}(")))
        .then(|| format!("{called}(…)"))?;
    (brief.chars().count() <= width).then_some(brief)
}

/// Whether the mangled name is of Rust.
pub(crate) fn is_rust(symbol: &str) -> bool {
    rustc_demangle::try_demangle(symbol).is_ok()
}

/// The depth of brackets at each byte; 0 is outside. The `>` of an arrow and of an operator close nothing.
struct Depths<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl Depths<'_> {
    fn new(text: &str) -> Depths<'_> {
        Depths { bytes: text.as_bytes(), at: 0, depth: 0 }
    }
}

impl Iterator for Depths<'_> {
    /// (position, byte, depth at which it is; brackets themselves are inside).
    type Item = (usize, u8, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let byte = *self.bytes.get(at)?;
        self.at += 1;
        let before = self.bytes.get(..at).unwrap_or(&[]);
        let of_operator = before.ends_with(b"operator")
            || (before.ends_with(b"operator<") && byte == b'<')
            || (before.ends_with(b"operator>") && byte == b'>')
            || (before.ends_with(b"operator(") && byte == b')')
            || (byte == b'>' && before.ends_with(b"-"))
            || (byte == b'>' && before.ends_with(b"operator<="));
        let depth = match byte {
            b'<' | b'(' | b'[' | b'{' if !of_operator => {
                self.depth += 1;
                self.depth
            }
            b'>' | b')' | b']' | b'}' if !of_operator => {
                let inside = self.depth.max(1);
                self.depth = self.depth.saturating_sub(1);
                inside
            }
            _ => self.depth,
        };
        Some((at, byte, depth))
    }
}

/// The demangled name without parameters and return type: what is called, with its template arguments.
pub(crate) fn qualified(name: &str) -> &str {
    // `vtable for X`, `guard variable for X`: of X.
    let name = match name.find(" for ") {
        Some(at) if !name.get(..at).is_some_and(|n| n.contains(['(', '<'])) => {
            name.get(at + 5..).unwrap_or(name)
        }
        _ => name,
    };
    if name.starts_with('<') {
        return name;
    }
    let mut end = name.len();
    let mut start = 0;
    // `(anonymous namespace)::` goes on.
    let anonymous = |at: usize| name.get(at..).is_some_and(|rest| rest.starts_with("(anonymous namespace)"));
    for (at, byte, depth) in Depths::new(name) {
        match byte {
            b'(' if depth == 1 && at > start && !anonymous(at) => {
                end = at;
                break;
            }
            b' ' if depth == 0 && !name.get(..at).is_some_and(|n| n.ends_with("operator")) => start = at + 1,
            _ => {}
        }
    }
    name.get(start..end).unwrap_or(name)
}

/// The first `depth` segments of the path of a demangled name, without its own: namespaces and classes of C++, crate and modules of
/// Rust. A generic implementation has the path of its trait. `None` for a name without a path.
pub(crate) fn namespace(name: &str, depth: usize) -> Option<String> {
    let mut path = qualified(name);
    // `<T as Trait>::method` and `<T>::method` are of T's crate.
    while let Some(inner) = path.strip_prefix(['<', '&', '*', '[']) {
        path = inner.trim_start_matches("mut ").trim_start_matches("const ").trim_start_matches("dyn ");
    }
    let mut segments: Vec<&str> = Vec::new();
    let mut start = 0;
    for (at, byte, level) in Depths::new(path) {
        if level == 0 && byte == b':' && path.get(at..).is_some_and(|r| r.starts_with("::")) {
            segments.push(path.get(start..at).unwrap_or_default());
            start = at + 2;
        }
        // The end of the outermost brackets.
        let closes = byte == b'>' && level == 1 && !path.get(start..at).is_some_and(|s| s.contains('<'));
        if level == 0 && byte == b' ' || closes {
            // `T as Trait`: T's own name is no namespace.
            break;
        }
    }
    // A parameter of a generic implementation has no path; its trait has one.
    if segments.is_empty()
        && let Some((_, of_trait)) = path.split_once(" as ").filter(|_| qualified(name).starts_with('<'))
    {
        return namespace(of_trait, depth);
    }
    let plain = |s: &&str| s.split('<').next().unwrap_or(s).to_owned();
    let found: Vec<String> = segments.iter().take(depth.max(1)).map(plain).collect();
    (!found.is_empty() && found.iter().all(|s| !s.is_empty())).then(|| found.join("::"))
}

/// The crate of a compile unit of rustc: `name.HASH-cgu.NUMBER`, which compilers write behind a path.
pub(crate) fn crate_of_unit(unit: &str) -> Option<&str> {
    let (name, rest) = unit.rsplit('/').next()?.split_once('.')?;
    let (hash, number) = rest.split_once("-cgu.")?;
    let is_hash = hash.bytes().all(|b| b.is_ascii_hexdigit()) && number.bytes().all(|b| b.is_ascii_digit());
    (is_hash && !name.is_empty()).then_some(name)
}

/// A path of Rust, with the three crates of the standard library as one.
pub(crate) fn with_std(path: String) -> String {
    let (first, rest) = path.split_at(path.find("::").unwrap_or(path.len()));
    if matches!(first, "core" | "alloc") { format!("std{rest}") } else { path }
}

/// The demangled name with each list of template or generic arguments as `<…>` and without parameters; `None` if it has no such list.
/// The brackets of `<T as Trait>` are no such list.
pub(crate) fn generic(name: &str) -> Option<String> {
    let path = qualified(name);
    let mut out = String::with_capacity(path.len());
    let mut open = 0usize;
    let mut found = false;
    // The brackets that a path of Rust begins with are no list of arguments.
    let leading = path.starts_with('<');
    let base = usize::from(leading);
    for (at, byte, depth) in Depths::new(path) {
        let is_argument = byte == b'<' && depth > base && open == 0 && !(leading && at == 0);
        if is_argument {
            open = depth;
            found = true;
            out.push_str("<…>");
            continue;
        }
        if open > 0 {
            if byte == b'>' && depth == open && !path.get(..at).is_some_and(|p| p.ends_with('-')) {
                open = 0;
            }
            continue;
        }
        let width = path.get(at..).and_then(|r| r.chars().next());
        // Bytes inside of a character were copied with its first.
        if let Some(c) = width {
            out.push(c);
        }
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_three_languages() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Z3fooi"), "foo(int)");
        assert_eq!(
            demangle("_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE"),
            "core::fmt::Formatter::write_str"
        );
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(demangle("memcpy@GLIBC_2.14"), "memcpy@GLIBC_2.14");
        assert_eq!(demangle("_Z3foov@V1"), "foo()@V1");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
        assert!(is_rust("_RNvC6_123foo3bar") && !is_rust("_Z3fooi"));
    }

    #[test]
    fn names_that_people_write() {
        let string = "_Z1fRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
        assert_eq!(demangle(string), "f(std::string const&)");
        assert_eq!(
            customary("std::less<std::basic_ios<char, std::char_traits<char> > >"),
            "std::less<std::ios>"
        );
        assert_eq!(demangle("_ZTV1A"), "vtable for A");
        assert_eq!(demangle("_ZTT1A"), "VTT for A");
        assert_eq!(loose("a::b[abi:cxx11](int) const"), "a::b(int)");
        assert_eq!(loose("a::b[abi:cxx11"), "a::b");
        assert_eq!(brief("ns::f(int, long)", 8), Some("ns::f(…)".to_owned()));
        assert_eq!(brief("void ns::f<int>(int, long) const", 20), Some("ns::f<int>(…)".to_owned()));
        assert_eq!(brief("ns::f(int, long)", 7), None);
        assert_eq!(brief("a.o:(.text)", 40), None);
        assert_eq!(brief("main", 40), None);
    }

    #[test]
    fn namespaces() {
        let cases = [
            ("foo(int)", 1, None),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", 1, Some("std")),
            ("std::vector<int>::push_back(int const&)", 2, Some("std::vector")),
            ("void ns::run<a::b>(a::b)", 1, Some("ns")),
            ("vtable for ns::Class", 1, Some("ns")),
            ("(anonymous namespace)::helper()", 1, Some("(anonymous namespace)")),
            ("core::fmt::Formatter::pad", 1, Some("core")),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", 1, Some("alloc")),
            ("<&mut std::io::Stderr as core::fmt::Write>::write_str", 2, Some("std::io")),
            ("<T as core::convert::Into<U>>::into", 1, Some("core")),
            ("<[T] as alloc::slice::Join>::join", 2, Some("alloc::slice")),
            ("main", 1, None),
            ("ns::operator<<(std::ostream&, int)", 1, Some("ns")),
        ];
        for (name, depth, expected) in cases {
            assert_eq!(namespace(name, depth).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn crates_of_units() {
        assert_eq!(crate_of_unit("regex_syntax.30a35072e850257b-cgu.01"), Some("regex_syntax"));
        assert_eq!(crate_of_unit("src/lib.rs/@/app.9f-cgu.0"), Some("app"));
        assert_eq!(crate_of_unit("zstd_fast.c"), None);
        assert_eq!(with_std("core::fmt".to_owned()), "std::fmt");
        assert_eq!(with_std("alloc".to_owned()), "std");
        assert_eq!(with_std("allocator".to_owned()), "allocator");
    }

    #[test]
    fn generics() {
        let cases = [
            ("foo(int)", None),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                Some("std::vector<…>::push_back"),
            ),
            ("void ns::run<a::b>(a::b)", Some("ns::run<…>")),
            ("core::ptr::drop_in_place<alloc::vec::Vec<u8>>", Some("core::ptr::drop_in_place<…>")),
            (
                "<alloc::vec::Vec<u8> as core::ops::Drop>::drop",
                Some("<alloc::vec::Vec<…> as core::ops::Drop>::drop"),
            ),
            ("f<fn(u8) -> u16>::g", Some("f<…>::g")),
            ("ns::operator<<(std::ostream&, int)", None),
        ];
        for (name, expected) in cases {
            assert_eq!(generic(name).as_deref(), expected, "{name}");
        }
    }
}
