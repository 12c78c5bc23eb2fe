//! The lexer of command lines: response files (`@file`) and strings of flags, split as GNU ld, lld and gcc split them.
//!
//! Rules of libiberty's `expandargv` and LLVM's `TokenizeGNUCommandLine`, which agree: white space separates, either quote groups, a
//! backslash takes the next byte as it is, inside quotes too. A file that can't be read leaves its word as it stands, so that the
//! linker reports it. The linker reads files with `--rsp-quoting=windows` or a byte order mark itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// libiberty's bound on expansions: a response file that names itself would never end.
const MAX_EXPANSIONS: usize = 2000;
/// Of UTF-8 and both orders of UTF-16.
const BYTE_ORDER_MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];

pub fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(b) = bytes.next() {
        match (quote, b) {
            (_, b'\\') => {
                if let Some(next) = bytes.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(q), _) if q == b => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(b),
            (None, b'"' | b'\'') => {
                quote = Some(b);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(b),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// The words of `flags` and then `more`, quoted so that [`split`] gives them back.
pub fn joined(flags: &OsStr, more: &[OsString]) -> OsString {
    let mut text = flags.as_bytes().to_vec();
    for word in more {
        if !text.is_empty() {
            text.push(b' ');
        }
        for byte in word.as_bytes() {
            if !(is_plain(*byte) || *byte >= 0x80) {
                text.push(b'\\');
            }
            text.push(*byte);
        }
    }
    OsString::from_vec(text)
}

/// A word as a shell takes it back.
pub fn for_shell(word: &OsStr) -> OsString {
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(|b| is_plain(*b)) {
        return word.to_owned();
    }
    let mut out = b"'".to_vec();
    for &byte in bytes {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(byte),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

/// Whether a byte means itself to shells and to [`split`].
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_=./:,+@%".contains(&byte)
}

/// `args` with every `@file` replaced by the words of that file, recursively.
pub fn expand(args: &[OsString]) -> Vec<OsString> {
    let mut out = Vec::with_capacity(args.len());
    // A stack instead of recursion: nesting is the input's choice.
    let mut stack: Vec<OsString> = args.iter().rev().cloned().collect();
    let mut expansions = 0;
    while let Some(word) = stack.pop() {
        match word.as_bytes().strip_prefix(b"@").filter(|_| expansions < MAX_EXPANSIONS).and_then(read) {
            Some(text) => {
                expansions += 1;
                stack.extend(split(&text).into_iter().rev());
            }
            None => out.push(word),
        }
    }
    out
}

/// Whether lld reads response files in another syntax than ours, unless a later word says otherwise.
pub fn is_quoting(word: &OsStr) -> bool {
    let name = word.as_bytes().strip_prefix(b"-").map(|name| name.strip_prefix(b"-").unwrap_or(name));
    name.is_some_and(|name| name.starts_with(b"rsp-quoting") && name != b"rsp-quoting=posix")
}

/// Whether a word is a response file that [`expand`] leaves to the linker.
pub fn is_response_file(word: &OsStr) -> bool {
    // It may be a pipe, which the linker can read only once.
    word.as_bytes().strip_prefix(b"@").is_some_and(|name| Path::new(OsStr::from_bytes(name)).exists())
}

/// Whether a response file names another one, which to mold is a name of a file like any other.
pub fn are_nested(args: &[OsString]) -> bool {
    let files = args.iter().filter_map(|word| read(word.as_bytes().strip_prefix(b"@")?));
    files.flat_map(|text| split(&text)).any(|word| word.as_bytes().starts_with(b"@"))
}

fn read(name: &[u8]) -> Option<Vec<u8>> {
    let text = std::fs::read(Path::new(OsStr::from_bytes(name))).ok()?;
    // To lld a file that begins with a byte order mark is text in that encoding.
    let is_marked = BYTE_ORDER_MARKS.iter().any(|mark| text.starts_with(mark));
    (!is_marked).then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn os(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn quotes_and_backslashes() {
        assert_eq!(
            split(b"a  'b c'\n\"d \\\" e\" f\\ g '' h'i'j"),
            os(&["a", "b c", "d \" e", "f g", "", "hij"])
        );
        assert_eq!(split(b""), os(&[]));
        assert_eq!(split(b" \t\n"), os(&[]));
        assert_eq!(split(b"unterminated 'x y"), os(&["unterminated", "x y"]));
        assert_eq!(split(b"end\\"), os(&["end"]));
    }

    #[test]
    fn joined_words_survive() {
        let ours = os(&["--prune-why=a b*", "--prune-report=x'\"\\y.json"]);
        let want = [os(&["--prune-strict"]), ours.clone()].concat();
        assert_eq!(split(joined(OsStr::new("--prune-strict"), &ours).as_bytes()), want);
        assert_eq!(split(joined(OsStr::new(""), &ours).as_bytes()), ours);
        let quoted = for_shell(OsStr::new("a 'b' $c"));
        assert_eq!(quoted, "'a '\\''b'\\'' $c'");
        assert_eq!(for_shell(OsStr::new("--a=b@c")), "--a=b@c");
        assert_eq!(for_shell(OsStr::new("")), "''");
    }

    #[test]
    fn response_files_nest_and_missing_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&a, format!("one @{} '-o' x\\ y", b.display())).unwrap();
        std::fs::write(&b, "two @/nonexistent/file").unwrap();
        let args = os(&["first", &format!("@{}", a.display()), "last"]);
        assert_eq!(expand(&args), os(&["first", "one", "two", "@/nonexistent/file", "-o", "x y", "last"]));
    }

    #[test]
    fn files_of_another_syntax_are_left_to_the_linker() {
        let dir = tempfile::tempdir().unwrap();
        for mark in BYTE_ORDER_MARKS {
            let file = dir.path().join("marked");
            std::fs::write(&file, [mark, b"a.o"].concat()).unwrap();
            let args = os(&[&format!("@{}", file.display())]);
            assert_eq!(expand(&args), args);
            assert!(is_response_file(&args[0]));
        }
        for word in ["--rsp-quoting=windows", "-rsp-quoting=windows", "--rsp-quoting"] {
            assert!(is_quoting(OsStr::new(word)), "{word}");
        }
        assert!(!is_quoting(OsStr::new("--rsp-quoting=posix")) && !is_response_file(OsStr::new("@/none")));
    }

    #[test]
    fn a_file_that_names_itself_ends() {
        let dir = tempfile::tempdir().unwrap();
        let a = dir.path().join("a");
        std::fs::write(&a, format!("x @{}", a.display())).unwrap();
        let words = expand(&os(&[&format!("@{}", a.display())]));
        assert!(words.len() == MAX_EXPANSIONS + 1 && is_response_file(&words[MAX_EXPANSIONS]));
    }
}
