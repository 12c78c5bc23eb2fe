//! Links that fail or are interrupted: status, messages, and files.
//!
//! An output exists only if it is complete, a link that the linker refuses ends as without lto-prune, and no temporary file is left. Fixtures test
//! undefined and duplicate symbols, and missing libraries.

use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/errors.txt");

/// A session with main.o and an empty folder for temporary files.
fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("errors/{name}"));
    session.files(FILES, "prepare");
    session.cmd("gcc -O1 -ffunction-sections -c main.c");
    session.mkdir("tmp");
    session
}

fn ours(session: &Session) -> Job {
    session.job("lto-prune").env("TMPDIR", session.path("tmp"))
}

/// A job that calls us as a linker does: by the name `ld`.
fn as_linker(session: &Session) -> Job {
    let shims = session.path("shims");
    if !shims.exists() {
        tools::shim_dir(&shims, &tools::lto_prune());
    }
    Job::new(session.dir(), shims.join("ld")).env("TMPDIR", session.path("tmp"))
}

/// A linker stand-in: a shell script.
fn fake_linker(session: &Session, body: &str) -> std::path::PathBuf {
    session.script("ld.fake/ld.lld", format!("#!/bin/sh\n{body}\n"))
}

/// Finds `-o` and makes half a file there; what a linker that dies in the middle leaves.
const HALF_AN_OUTPUT: &str = include_str!("programs/errors_half_an_output.sh");

/// The status of a link that was asked to end.
fn ended(session: &mut Session, child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > Duration::from_secs(10) {
            child.kill().unwrap();
            child.wait().unwrap();
            session.fail("a signal does not end the link");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn interrupt_sent_to_us_alone_ends_the_linker() {
    let mut session = prepare("interrupted-alone");
    let fake = fake_linker(&session, &format!("{HALF_AN_OUTPUT}\nexec sleep 60"));
    let job = as_linker(&session).words("-r main.o -o out --prune-report=report.json");
    let mut command = job.env("LTO_PRUNE_LINKER", fake).command();
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    session.wait_for("started");
    session.must(&session.job("/bin/kill").arg("-INT").arg(child.id().to_string()));
    let status = ended(&mut session, &mut child);
    session.check(status.signal() == Some(2), "the linker's signal is ours");
}

/// Run lld by a shell with these words and `redirections`.
fn by_lld(session: &mut Session, linker: &Path, words: &str, redirections: &str) -> Outcome {
    let script = format!("\"$0\" -m elf_x86_64 --threads=1 {words} {redirections}");
    let job = session.job("bash").arg("-c").arg(script).arg(linker);
    session.run(&job.by(Linker::Lld))
}

#[test]
fn messages_of_lld_keep_their_order() {
    let mut session = prepare("order");
    session.write("undefined.c", "int missing(void);\nint _start(void) { return missing(); }\n");
    session.cmd("gcc -O1 -c undefined.c");
    let ours = as_linker(&session).command().get_program().to_owned();
    let words = "main.o undefined.o -o out --gc-sections --print-gc-sections";
    let plain = by_lld(&mut session, &Linker::Lld.path(), words, "2>&1");
    let found = by_lld(&mut session, Path::new(&ours), words, "2>&1");
    session.check(plain.stdout.ends_with("undefined.o:(_start)\n"), &plain.stdout);
    session.check_eq(&(found.status, found.stdout), &(plain.status, plain.stdout), "messages in one file");
}

#[test]
fn map_that_cannot_be_written_fails_the_link() {
    let mut session = prepare("full");
    let ours = as_linker(&session).command().get_program().to_owned();
    // One link that is pruned, and one of the originals.
    for options in ["", "--gc-sections"] {
        let words = format!("main.o -e main -o out -Map=- {options}");
        let plain = by_lld(&mut session, &Linker::Lld.path(), &words, ">/dev/full");
        let found = by_lld(&mut session, Path::new(&ours), &words, ">/dev/full");
        session.check(!plain.ok() && !session.path("out").exists(), "lld fails");
        session.check_eq(&found.status, &plain.status, &found.stderr);
        session.check(found.stderr.ends_with(&plain.stderr), &found.stderr);
        session.check(!session.path("out").exists(), "an output without its map");
    }
}

#[test]
fn interrupted_link_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let mut session = prepare(&format!("interrupted-{signal}"));
        let fake = fake_linker(&session, &format!("{HALF_AN_OUTPUT}\nexec sleep 60"));
        let before = {
            as_linker(&session);
            session.listing("")
        };
        let job = as_linker(&session).words("main.o -e main -o out").env("LTO_PRUNE_LINKER", fake);
        // A group of its own, as a terminal signals the whole group.
        let mut command = job.command();
        let mut child = command.stderr(Stdio::null()).process_group(0).spawn().unwrap();
        session.wait_for("started");
        session.cmd(&format!("/bin/kill -{signal} -- -{}", child.id()));
        let status = ended(&mut session, &mut child);
        session.check(!status.success(), "an interrupted link succeeds");
        let mut after = session.listing("");
        after.retain(|n| n != "started");
        session.check_eq(&after, &before, "files after the interruption");
        session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    }
}

/// Whether a process is there whose words have `text`.
fn is_running(text: &str) -> bool {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(|p| p.path().join("cmdline"));
    lines.map(|l| std::fs::read(l).unwrap_or_default()).any(|l| String::from_utf8_lossy(&l).contains(text))
}

#[test]
fn killed_link_ends_its_linker_and_the_next_link_cleans_up() {
    for options in ["", "--prune-level=off --prune-report=report.json"] {
        let mut session = prepare(&format!("killed-{}", options.len()));
        // A time that no other process sleeps for.
        let time = format!("61.{}", std::process::id());
        let fake = fake_linker(&session, &format!("{HALF_AN_OUTPUT}\nexec sleep {time}"));
        session.write("out", "old");
        // By its output's path the linker is known among all processes.
        let out = session.path("out");
        let job = as_linker(&session).words("main.o -e main").words(options).arg("-o").arg(&out);
        let before = session.listing("");
        let mut command = job.env("LTO_PRUNE_LINKER", fake).command();
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        session.wait_for("started");
        child.kill().unwrap();
        child.wait().unwrap();
        let start = Instant::now();
        // `exec sleep` has no word of ours; the shell before it has.
        while is_running(&out.to_string_lossy()) || is_running(&format!("sleep\0{time}")) {
            session.check(start.elapsed() < Duration::from_secs(10), "the linker goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        if options.is_empty() {
            session.check_eq(&std::fs::read(&out).unwrap(), &b"old".to_vec(), "the old output");
        }
        session.must(&as_linker(&session).words("main.o -e main -o").arg(&out).by(Linker::Lld));
        let mut after = session.listing("");
        after.retain(|n| n != "started" && n != "report.json");
        session.check_eq(&after, &before, "files after the next link");
        session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    }
}

#[test]
fn failing_linker_leaves_what_it_leaves_alone() {
    for status in [1, 3] {
        let mut session = prepare(&format!("failing-{status}"));
        let fake =
            fake_linker(&session, &format!("{HALF_AN_OUTPUT}\necho 'ld: it hurts' >&2\nexit {status}"));
        let job = as_linker(&session).words("main.o -e main -o out").env("LTO_PRUNE_LINKER", fake);
        let outcome = session.run(&job);
        session.check_eq(&outcome.status, &status, "exit status is the linker's");
        session.check_eq(&outcome.stderr.as_str(), &"ld: it hurts\n", "messages are the linker's, once");
        // It links the originals in our place, so half an output is its own.
        let text = std::fs::read_to_string(session.path("out")).unwrap_or_default();
        session.check_eq(&text.as_str(), &"half\n", "what is left");
        session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    }
}

#[test]
fn no_temporary_files_after_a_good_link() {
    for linker in Linker::ALL {
        let mut session = prepare(&format!("clean-{}", linker.name()));
        session.shims();
        let before = session.listing("");
        let job = session.job("gcc -B shims main.o -o out").env("TMPDIR", session.path("tmp"));
        session.must(&job.by(linker));
        let mut after = session.listing("");
        after.retain(|n| n != "out");
        session.check_eq(&after, &before, "files beside the output");
        session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
        session.cmd("./out");
    }
}

/// A private null device for root. A tool that replaces its output by renaming destroys the device, and root could destroy the machine's own. Another
/// user can neither make a device nor destroy one.
fn null_device(session: &mut Session) -> std::path::PathBuf {
    let uid = session.cmd("id -u").stdout;
    if uid.trim() != "0" {
        return "/dev/null".into();
    }
    let node = session.path("null");
    session.must(&session.job("mknod -m 666").arg(&node).words("c 1 3"));
    node
}

#[test]
fn output_to_a_device() {
    // Configure scripts link to /dev/null; a linker that replaces the node breaks the machine.
    for linker in Linker::ALL {
        let mut session = prepare(&format!("null-{}", linker.name()));
        session.shims();
        let null = null_device(&mut session);
        session.must(&session.job("gcc -B shims main.o -o").arg(&null).by(linker));
        let kind = std::fs::symlink_metadata(&null).unwrap().file_type();
        session.check(kind.is_char_device(), "the device has become a file");
    }
}

#[test]
fn output_with_other_names() {
    // Some linkers replace a symbolic or hard link, some write through it, and so must the pruned link.
    for linker in Linker::ALL {
        for link in ["ln -s", "ln"] {
            let mut session = prepare(&format!("links-{}-{}", linker.name(), link.len()));
            tools::shim_dir(&session.path("plain"), &linker.path());
            session.shims();
            let mut results = Vec::new();
            for shims in ["plain", "shims"] {
                session.write("real", "old");
                session.must(&session.job("sh").arg("-c").arg(format!("rm -f out; {link} real out")));
                session.must(&session.job("gcc").arg("-B").arg(shims).words("main.o -o out").by(linker));
                let is_link = std::fs::symlink_metadata(session.path("out")).unwrap().is_symlink();
                let is_old = session.bytes("real") == b"old";
                results.push((is_link, is_old));
            }
            session.check_eq(
                &results[1],
                &results[0],
                &format!("{link}: (out is a link, real is untouched)"),
            );
        }
    }
}

#[test]
fn output_is_a_link_to_nothing() {
    for linker in Linker::ALL {
        for target in ["new", "no-folder/new"] {
            let mut session = prepare(&format!("dangling-{}-{}", linker.name(), target.len()));
            let dir = session.dir().to_owned();
            let mut results = Vec::new();
            for job in [Job::new(&dir, linker.path()), as_linker(&session)] {
                session.must(&session.job("sh").arg("-c").arg(format!("rm -f new out; ln -s {target} out")));
                let outcome = session.run(&job.words("main.o -e main -o out").by(linker));
                let is_link = session.path("out").is_symlink();
                results.push((outcome.status, outcome.stderr, is_link, session.path("new").exists()));
            }
            let what =
                format!("{target}, {}: (status, messages, out is a link, new is there)", linker.name());
            session.check_eq(&results[1], &results[0], &what);
        }
    }
}

#[test]
fn output_to_standard_output() {
    // For GNU ld it is a file of that name.
    for linker in Linker::ALL {
        let mut session = prepare(&format!("dash-{}", linker.name()));
        let line = "main.o -e main -o -";
        let mut made = Vec::new();
        for job in [Job::new(session.dir(), linker.path()), as_linker(&session)] {
            let outcome = session.must(&job.words(line).by(linker));
            made.push((outcome.stdout.contains("ELF"), session.path("-").exists()));
            let _ = std::fs::remove_file(session.path("-"));
        }
        session.check_eq(&made[1], &made[0], &format!("{}: (on the standard output, a file)", linker.name()));
        session.check(made[0].0 != made[0].1, "no program");
    }
}

#[test]
fn output_replaces_a_running_program() {
    // The old output is in use: it must be replaced and not written into.
    let mut session = prepare("busy");
    session.shims();
    session.write("sleep.c", "#include <unistd.h>\nint main(void) { return sleep(30) != 0; }\n");
    session.cmd("gcc -o out sleep.c");
    let mut running = session.job("./out").command().spawn().unwrap();
    let outcome = session.run(&session.job("gcc -B shims main.o -o out").by(Linker::Lld));
    running.kill().unwrap();
    running.wait().unwrap();
    session.check(outcome.ok(), &outcome.stderr);
    session.cmd("./out");
}

#[test]
fn mode_of_the_output_follows_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut session = prepare("umask");
    let shims = session.path("shims");
    tools::shim_dir(&shims, &tools::lto_prune());
    let mut modes = Vec::new();
    for (name, linker) in [("plain", Linker::Lld.path()), ("pruned", shims.join("ld"))] {
        let line = format!("umask 027; {} main.o -e main -o {name}", linker.display());
        session.must(&session.job("sh").arg("-c").arg(line).by(Linker::Lld));
        modes.push(std::fs::metadata(session.path(name)).unwrap().permissions().mode());
    }
    session.check_eq(&modes[1], &modes[0], "mode of the output");
}

#[test]
fn mode_of_an_old_output() {
    use std::os::unix::fs::PermissionsExt as _;
    // GNU ld and gold write to an existing empty file, which keeps its mode. Compilers create their temporary outputs with a mode of their own. wild
    // overwrites an existing program; docs/SOUNDNESS.md accepts this.
    let mut session = prepare("old-mode");
    for linker in Linker::ALL.into_iter().filter(|linker| *linker != Linker::Wild) {
        for old in ["", "old"] {
            let mut modes = Vec::new();
            for job in [Job::new(session.dir(), linker.path()), as_linker(&session)] {
                let out = session.write("out", old);
                std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o600)).unwrap();
                session.must(&job.words("main.o -e main -o out").by(linker));
                modes.push(std::fs::metadata(&out).unwrap().permissions().mode());
                std::fs::remove_file(&out).unwrap();
            }
            session.check_eq(&modes[1], &modes[0], &format!("{} over {old:?}", linker.name()));
        }
    }
}

#[test]
fn missing_linker_is_said_once() {
    let mut session = prepare("no-linker");
    let job = as_linker(&session).words("main.o -o out").env("LTO_PRUNE_LINKER", "/nowhere/ld.lld");
    let outcome = session.run(&job);
    session.check_eq(&outcome.status, &1, "exit status");
    session.check(outcome.stderr.contains("/nowhere/ld.lld"), &format!("no path in {}", outcome.stderr));
    session.check(!session.path("out").exists(), "an output without a linker");
}

#[test]
fn unknown_option_of_ours_is_an_error() {
    let mut session = prepare("bad-option");
    for option in ["--prune-levle=off", "--prune-level=everything", "--prune-jobs=many"] {
        let job = as_linker(&session).arg("main.o").arg(option).words("-o out");
        let outcome = session.run(&job.by(Linker::Lld));
        session.check(!outcome.ok(), &format!("{option} is accepted"));
        let word = option.split('=').next().unwrap();
        session.check(outcome.stderr.contains(word), &format!("{option} is not named in {}", outcome.stderr));
    }
}

#[test]
fn help_and_no_arguments() {
    let mut session = prepare("help");
    let help = session.run(&ours(&session).arg("--help"));
    session.check(help.ok() && help.stdout.contains("--prune-report"), "--help");
    let nothing = session.run(&ours(&session));
    session.check(!nothing.ok() && !nothing.stderr.is_empty(), "no arguments");
}
