//! The check of the output detects a wrong output, and the originals are linked instead.
//!
//! A script replaces each linker. It makes the plain link as requested, and makes a different link of the pruned objects. There must be one warning
//! that names the difference, and no output with `--prune-strict`. The fixtures show that the check accepts correct outputs: there a warning is a
//! failure.

use std::path::PathBuf;

use crate::compare;
use crate::run::{Job, Session};
use crate::texts::blocks;
use crate::tools::Linker;

const FILES: &str = include_str!("programs/outputs.txt");

/// A script that makes the link to `out` as requested, and any other link as `wrong.line` says.
fn stand_in(session: &Session, linker: Linker) -> PathBuf {
    let body = include_str!("programs/outputs_stand_in.sh");
    session.script("stand-in/ld", body.replace("LINKER", &linker.path().display().to_string()))
}

fn prepare(linker: Linker) -> Session {
    let mut session = Session::new(&format!("outputs/{}", linker.name()));
    session.files(FILES, "prepare");
    let sources = "main.c a.c b.c init.c fini.c begin.c end.c tls.c version.c";
    session.must(&session.job("gcc -O1 -fPIC -ffunction-sections -c").words(sources));
    for name in ["a", "b"] {
        session.cmd(&format!("gcc -shared -nostdlib -o lib{name}.so -Wl,-soname,lib{name}.so {name}.o"));
    }
    session.shims();
    session
}

fn each_is_found(linker: Linker) {
    let mut session = prepare(linker);
    let dir = session.dir().to_owned();
    let stand_in = stand_in(&session, linker);
    let job = |program: PathBuf| Job::new(&dir, program).env("LTO_PRUNE_LINKER", &stand_in);
    // mold takes the beginning of the code for an entry that isn't there.
    let is_wrong = |wrong: &str, says: &str| match linker {
        Linker::Mold => !wrong.starts_with("-e 0"),
        // GNU ld treats names with an explicit version in its own way.
        Linker::Bfd => !says.contains("api@"),
        // It has no DT_INIT for a function of that name, and exports what has an explicit version by its own rules.
        Linker::Wild => !says.contains("DT_") && !says.contains("api@"),
        _ => true,
    };
    for case in blocks(include_str!("programs/wrong_outputs.txt")) {
        let (right, (wrong, says)) = (case.words, case.text.trim_end().split_once('\n').unwrap());
        if !is_wrong(wrong, says) {
            continue;
        }
        session.write("wrong.line", wrong);
        session.must(&job(linker.path()).words(right).words("-o out"));
        let plain = std::fs::read(dir.join("out")).unwrap();
        std::fs::remove_file(dir.join("out")).unwrap();
        let what = format!("{} makes {wrong} of {right}", linker.name());
        let outcome = session.must(&job(session.path("shims/ld")).words(right).words("-o out"));
        let lines = compare::ours(&outcome.stderr);
        session.check(
            lines.len() == 1 && lines[0].contains("warning") && lines[0].contains(says),
            &format!("{what}: {}", outcome.stderr),
        );
        session.check(std::fs::read(dir.join("out")).unwrap() == plain, &format!("{what}: another output"));
        std::fs::remove_file(dir.join("out")).unwrap();
        let strict = job(session.path("shims/ld")).words(right).words("--prune-strict -o out");
        let strict = session.run(&strict);
        session.check(strict.stderr.contains(says) && !strict.ok(), &format!("{what}: {}", strict.stderr));
        session.check(!dir.join("out").exists(), &format!("{what}: an output in spite of --prune-strict"));
    }
}

macro_rules! wrong_outputs_are_found {
    ($($name:ident: $linker:ident)*) => { $(#[test] fn $name() { each_is_found(Linker::$linker); })* };
}

wrong_outputs_are_found! {
    wrong_output_of_lld_is_found: Lld
    wrong_output_of_mold_is_found: Mold
    wrong_output_of_bfd_is_found: Bfd
    wrong_output_of_gold_is_found: Gold
    wrong_output_of_wild_is_found: Wild
}

/// GNU ld also writes the output under a name with a suffix.
#[test]
fn a_second_file_is_that_of_the_plain_link() {
    let mut session = Session::new("outputs/second");
    session.shims();
    session.write("main.c", "int dead(void) { return 1; }\nint main(void) { return 0; }\n");
    session.cmd("gcc -O1 -c main.c");
    let job = session.job("gcc -B shims main.o -o out -Wl,--force-exe-suffix -Wl,--prune-report=report.json");
    let outcome = session.must(&job.by(Linker::Bfd));
    let report = session.report("report.json");
    let reason = report["not_pruned"].as_str().unwrap_or_default().to_owned();
    session.check(
        reason.contains("the linker also writes out.exe next to the output (unmodelled-option)"),
        &reason,
    );
    session.check(outcome.stderr.is_empty(), &outcome.stderr);
    session.check(session.path("out.exe").exists(), "the second file is lost");
}
