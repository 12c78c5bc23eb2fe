//! Compares a plain with a pruned link, and two runs of a linker. The fixture's own `Gone` and `Kept` test which symbols are removed.

use crate::elf::Facts;
use crate::run::Session;
use crate::tools::Linker;

/// Hold the pruned output against the plain one.
pub(crate) fn outputs(session: &Session, plain: &Facts, pruned: &Facts, what: &str) {
    session.check_eq(&pruned.needed, &plain.needed, &format!("{what}: DT_NEEDED"));
    session.check_eq(&pruned.properties, &plain.properties, &format!("{what}: dynamic table and headers"));
    // mold defines this one itself where the start files' own definition went and its visibility stays.
    let by_linker = |name: &&String| name.as_str() == "__dso_handle";
    let invented: Vec<_> = pruned.defined.difference(&plain.defined).filter(|n| !by_linker(n)).collect();
    session.check(invented.is_empty(), &format!("{what}: symbols that the plain link has not: {invented:?}"));
    let invented: Vec<_> = pruned.exports.difference(&plain.exports).collect();
    session.check(invented.is_empty(), &format!("{what}: exports that the plain link has not: {invented:?}"));
    // A copy relocation goes with the code that needs it; every other export stays.
    let lost: Vec<_> =
        plain.exports.difference(&pruned.exports).filter(|n| !plain.copies.contains(*n)).collect();
    session.check(lost.is_empty(), &format!("{what}: lost exports {lost:?}"));
}

/// A linker's messages without the linker's name, which differs between two calls.
pub(crate) fn messages(text: &str, linker: Linker) -> String {
    let path = linker.path();
    let canonical = path.canonicalize().unwrap();
    let mut names: Vec<String> = vec![path.to_string_lossy().into(), canonical.to_string_lossy().into()];
    for name in
        ["ld.lld-19", "ld.lld", "ld.gold", "ld.bfd", "x86_64-linux-gnu-ld", "mold", "lld", "wild", "ld"]
    {
        names.push(name.to_owned());
    }
    let mut result = String::new();
    for line in text.lines() {
        // Everything up to the last slash of the first word is a directory of a shim or of the linker.
        let (head, tail) = line.split_once(':').unwrap_or((line, ""));
        let base = head.rsplit('/').next().unwrap_or(head);
        if names.iter().any(|n| n == head || n == base) && !tail.is_empty() {
            result.push_str(&format!("LINKER:{tail}\n"));
        } else {
            result.push_str(line);
            result.push('\n');
        }
    }
    result
}

/// The lines of `stderr` that are ours.
pub(crate) fn ours(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|l| l.starts_with("lto-prune: ")).collect()
}

/// `stderr` without the lines that are ours.
pub(crate) fn not_ours(stderr: &str) -> String {
    let lines = stderr.lines().filter(|l| !l.starts_with("lto-prune: "));
    lines.map(|l| format!("{l}\n")).collect()
}

#[test]
fn only_the_linker_s_name_is_normalised() {
    let a = messages("ld.lld-19: error: undefined symbol: x\n>>> referenced by a.c\n", Linker::Lld);
    let b = messages("/tmp/shims/ld: error: undefined symbol: x\n>>> referenced by a.c\n", Linker::Lld);
    assert_eq!(a, b);
    assert_ne!(a, messages("ld: error: undefined symbol: y\n>>> referenced by a.c\n", Linker::Lld));
    assert_ne!(messages("a.o: bad\n", Linker::Bfd), messages("b.o: bad\n", Linker::Bfd));
}
