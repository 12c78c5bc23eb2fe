//! The file of options, sizes with units, the progress line, and messages about misspelt words.

use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/adoption.txt");

fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("adoption/{name}"));
    session.files(FILES, "prepare");
    session.cmd("gcc -O1 -c main.c");
    session.mkdir("build/deep");
    session
}

fn job(session: &Session, words: &str) -> Job {
    let job = session.job("lto-prune").words(words);
    job.by(Linker::Lld)
}

fn link(session: &mut Session, words: &str) -> Outcome {
    let job = job(session, &format!("main.o -o build/deep/out {words}"));
    session.must(&job)
}

fn has(session: &Session, name: &str) -> bool {
    session.facts("build/deep/out").defined.contains(name)
}

#[test]
fn a_file_of_options_holds_below_its_folder() {
    let mut session = prepare("file");
    session.files(FILES, "a_file_of_options_holds_below_its_folder");
    session.mkdir("build/reports");
    let outcome = link(&mut session, "");
    session.check(has(&session, "dead_one") && !has(&session, "dead_two"), "keep is not read");
    let reports = std::fs::read_dir(session.path("build/reports")).unwrap().count();
    session.check_eq(&reports, &1, "reports beside the file");
    session.says(&outcome.stderr, "bytes");
    // The line and the environment come after it.
    let flags = job(&session, "main.o -o build/deep/out --prune-keep=dead_two")
        .env("LTO_PRUNE_FLAGS", "--prune-report=flags.json");
    session.must(&flags);
    session.check(has(&session, "dead_one") && has(&session, "dead_two"), "--prune-keep adds to the file");
    session.check(session.path("flags.json").exists(), "LTO_PRUNE_FLAGS does not override the file");
    // A nearer file is the one that counts; one outside of the folder does not.
    session.write("build/deep/lto-prune.toml", "keep = \"dead_two\"\n");
    link(&mut session, "");
    session.check(!has(&session, "dead_one") && has(&session, "dead_two"), "the nearest file");
    session.must(&job(&session, "main.o -o out"));
    let facts = session.facts("out");
    session.check(!facts.defined.contains("dead_one"), "a file below the output is read");
}

#[test]
fn the_folder_is_that_of_the_output() {
    let mut session = prepare("folder");
    session.write("build/lto-prune.toml", "keep = \"dead_one\"\n");
    // The file in build is not above the output, however its path is written.
    for (words, kept) in [
        ("main.o -o build/../out", false),
        ("main.o -o build/deep/../out", true),
        ("main.o -Wl,--outpu=build/out", true),
    ] {
        session.must(&job(&session, words).by(Linker::Bfd));
        let path = if kept { "build/out" } else { "out" };
        let found = session.facts(path).defined.contains("dead_one");
        session.check_eq(&found, &kept, words);
    }
    // Folders, pipes and links without a target are named and not opened.
    std::fs::remove_file(session.path("build/lto-prune.toml")).unwrap();
    for make in [
        "mkdir build/lto-prune.toml",
        "mkfifo build/lto-prune.toml",
        "ln -s lto-prune.toml build/lto-prune.toml",
    ] {
        session.must(&session.job("sh").arg("-c").arg(make));
        let outcome = link(&mut session, "");
        session.says(&outcome.stderr, "build/lto-prune.toml: not read, since it is no file");
        session.cmd("rm -r build/lto-prune.toml");
    }
}

#[test]
fn a_variable_names_the_file_or_none() {
    let mut session = prepare("variable");
    session.write("build/lto-prune.toml", "keep = \"dead_one\"\n");
    session.write("other.toml", "keep = \"dead_two\"\n");
    for (value, kept) in [("other.toml", "dead_two"), ("", "none")] {
        session.must(&job(&session, "main.o -o build/deep/out").env("LTO_PRUNE_CONFIG", value));
        for name in ["dead_one", "dead_two"] {
            session.check_eq(&has(&session, name), &(name == kept), &format!("{name} with {value:?}"));
        }
    }
    let outcome = session.run(&job(&session, "main.o -o out").env("LTO_PRUNE_CONFIG", "absent.toml"));
    session.fails_with(&outcome, "absent.toml: cannot read the options");
}

#[test]
fn mistakes_in_the_file_are_errors_that_name_it() {
    let mut session = prepare("mistakes");
    let cases = [
        ("kepe = \"x\"", "did you mean --prune-keep?"),
        ("level = \"max\"", "the levels are"),
        ("level = ", "TOML parse error"),
        ("[keep]\nx = 1", "a value is a string"),
        ("jobs = 1.5", "a value is a string"),
        ("worth = \"4Q\"", "not a size"),
        ("strict = 1", "takes no value"),
        ("srtict = false", "did you mean --prune-strict?"),
    ];
    for (text, says) in cases {
        session.write("build/lto-prune.toml", text);
        let outcome = session.run(&job(&session, "main.o -o build/deep/out"));
        let named = outcome.stderr.contains("build/lto-prune.toml") && outcome.stderr.contains(says);
        session.check(!outcome.ok() && named, &format!("{text}: {}", outcome.stderr));
    }
    session.write("build/lto-prune.toml", "strict = false\n");
    link(&mut session, "");
}

#[test]
fn a_file_of_somebody_else_is_not_read() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let mut session = prepare("strangers");
    let file = session.write("build/lto-prune.toml", "keep = \"dead_one\"\n");
    let refused = |session: &mut Session, what: &str| {
        let outcome = link(session, "");
        let warned = outcome.stderr.contains("lto-prune.toml: not read, since another user may write to it");
        session.check(warned && !has(session, "dead_one"), &format!("{what}: {}", outcome.stderr));
    };
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    refused(&mut session, "others may write");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&file, Some(12345), None).unwrap();
        refused(&mut session, "another owner");
        let named = job(&session, "main.o -o build/deep/out").env("LTO_PRUNE_CONFIG", "build/lto-prune.toml");
        session.must(&named);
        session.check(has(&session, "dead_one"), "a file that is named is read");
    }
}

#[test]
fn keeping_what_is_not_there_is_a_warning() {
    let mut session = prepare("keep");
    let outcome = link(&mut session, "--prune-keep=dead_one --prune-keep=daed_*");
    let says = "out: --prune-keep=daed_* matches no symbol that an input defines";
    session.says(&outcome.stderr, says);
    session.check(!outcome.stderr.contains("keep=dead_one"), &outcome.stderr);
    // A list for all links of a build is no mistake in one of them; the log has it.
    session.write("lto-prune.toml", "keep = [\"daed_*\"]\nlog = \"log\"\n");
    let outcome = link(&mut session, "");
    session.check(!outcome.stderr.contains("daed"), &outcome.stderr);
    let log = session.text("log");
    session.check(log.contains(&format!("note: build/deep/{says}")), &log);
}

#[test]
fn a_source_file_has_no_summary() {
    let mut session = prepare("summarize");
    for (words, file) in [("summarize main.c -o out", "main.c"), ("dump main.c", "main.c")] {
        let outcome = session.run(&job(&session, words));
        let says = format!("{file}: is no object, LLVM bitcode or archive");
        session.fails_with(&outcome, &says);
        session.check(!session.path("out").exists(), "a summary is written");
    }
}

#[test]
fn a_long_link_shows_its_pass_on_a_terminal_alone() {
    let mut session = prepare("progress");
    let lld = Linker::Lld.path();
    let slow = session.script(
        "ld.lld",
        format!(
            "#!/bin/sh\ncase \"$1\" in --version|-v|-V) ;; *) sleep 3;; esac\nexec {} \"$@\"\n",
            lld.display()
        ),
    );
    let dir = session.dir().to_owned();
    let own = tools::lto_prune();
    let line = format!("{} main.o -o build/deep/out", own.display());
    let job = |program: &str| Job::new(&dir, program).env("LTO_PRUNE_LINKER", &slow);
    let shown = session.must(&job("script").words("-qec").arg(&line).arg("/dev/null"));
    session
        .check(shown.stdout.contains("lto-prune: link (") && shown.stdout.contains(" of 12)"), &shown.stdout);
    // It is gone when the link has ended.
    let last = shown.stdout.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
    session.check(last.trim().is_empty(), &shown.stdout);
    let quiet = session.must(&job("sh").arg("-c").arg(&line));
    session.check_eq(&quiet.stderr.as_str(), &"", "messages without a terminal");
}
