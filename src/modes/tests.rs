//! Names and words to modes.

#![allow(clippy::unwrap_used)]

use super::*;

fn decide(line: &str) -> Result<Mode> {
    let lookup = |name: &str| match name {
        args::linker::LINKER_VARIABLE => Some("ld.bfd".into()),
        other => std::env::var_os(other),
    };
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    mode(&words, &Environment::new(&lookup))
}

#[test]
fn names() {
    for name in "ld /x/ld.lld ld.lto-prune x86_64-linux-gnu-ld x86_64-linux-gnu-ld.bfd ld.lld-19 /x/mold wild"
        .split(' ')
    {
        assert!(is_linker_name(OsStr::new(name)), "{name}");
        let stands_for = Path::new(name).file_name().filter(|name| *name != "ld.lto-prune");
        assert_eq!(namesake(Path::new(name)), stands_for, "{name}");
    }
    for name in ["lto-prune", "/usr/bin/lto-prune", "lld", "build", "old", "molds"] {
        assert!(!is_linker_name(OsStr::new(name)), "{name}");
    }
}

#[test]
fn modes() {
    assert!(matches!(decide("ld a.o -o x"), Ok(Mode::Link(_))));
    assert!(matches!(decide("ld -v a.o"), Ok(Mode::Link(_))));
    assert!(matches!(decide("ld -v"), Ok(Mode::LinkerOnly { .. })));
    assert!(matches!(decide("ld --version a.o"), Ok(Mode::LinkerOnly { .. })));
    assert!(matches!(decide("ld --target-help"), Ok(Mode::LinkerOnly { .. })));
    assert!(matches!(decide("ld a.o --print-sysroot"), Ok(Mode::LinkerOnly { .. })));
    assert!(matches!(decide("ld --prune-strict -V"), Ok(Mode::LinkerOnly { args, .. }) if args == ["-V"]));
    assert!(matches!(decide("ld.lto-prune --help"), Ok(Mode::Help(Some(_)))));
    assert!(decide("ld --prune-typo a.o").is_err());
    assert!(decide("lto-prune").is_err(), "nothing to do is a mistake");
    assert!(matches!(decide("lto-prune --version"), Ok(Mode::Version)));
    assert!(matches!(decide("lto-prune --help"), Ok(Mode::Help(None))));
    for (name, words) in
        [("summarize", "--help"), ("explain-trap", "a.o -h"), ("cargo", "-h"), ("emit", "x --help")]
    {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        assert!(print_command_help(name, &words).is_some(), "{name}");
    }
    assert!(print_command_help("cargo", &["run".into(), "--help".into()]).is_none());
    assert!(matches!(decide("lto-prune a.o --help"), Ok(Mode::Standalone(_))));
    assert!(matches!(decide("lto-prune a.o -o x"), Ok(Mode::Standalone(w)) if w.len() == 3));
    let misspelt = decide("lto-prune audti top").unwrap_err().message;
    assert!(misspelt.ends_with("did you mean audit?"), "{misspelt}");
    assert!(matches!(decide("lto-prune quite-another-file"), Ok(Mode::Standalone(_))));
    assert!(matches!(decide("lto-prune install-shims d"), Ok(Mode::Command("install-shims", _))));
    assert!(matches!(decide("lto-prune dump f"), Ok(Mode::Command("dump", _))));
    assert!(matches!(decide("lto-prune bisect -- make x"), Ok(Mode::Command("bisect", w)) if w.len() == 3));
    let environment = Environment::new(&|_| None);
    let usage = run_command("install-shims", &[], &environment).unwrap_err().message;
    assert!(usage.ends_with("lto-prune install-shims DIR"), "{usage}");
    assert!(matches!(decide("lto-prune audit top x"), Ok(Mode::Command("audit", w)) if w.len() == 2));
}

#[test]
fn a_script_may_have_all_inputs() {
    assert!(matches!(decide("ld -T link.res -o x"), Ok(Mode::Link(c)) if c.scripts.len() == 1));
    assert!(matches!(decide("ld -T link.res --version"), Ok(Mode::LinkerOnly { .. })));
}
