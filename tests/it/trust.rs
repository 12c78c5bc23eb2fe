//! Precomputed files of other users, or with false contents: none changes a program, and each is reported.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use lto_prune::hashing::{hash, with_checksum};
use lto_prune::inputs::interface::{self, ModuleForInterface};
use summaries::{AtomKind, Granularity, ModuleSummary, atom_flags, extract, format};

use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

/// A constructor, a note, retained and exported code: all of them are roots by the headers alone.
const MAIN: &str = include_str!("programs/trust_main.c");
/// So many functions in one section that a link takes the summary of the object from its interface or the cache.
const FUNCTIONS: usize = 400;
/// A user who has nothing to do with the link.
const STRANGER: u32 = 12345;

/// Whether the test may give files to another user.
fn is_root(session: &Session) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("{}: not root: files of other users are left out", session.dir().display());
    }
    is_root
}

fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("trust/{name}"));
    let function =
        |i: usize| format!("int f{i}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {i}; return x; }}\n");
    session.write("main.c", MAIN.to_owned() + &(0..FUNCTIONS).map(function).collect::<String>());
    session.cmd("gcc -O1 -c main.c");
    session
}

fn link(session: &mut Session, more: &str) -> Outcome {
    let job = session.job("lto-prune main.o -o out").words(more);
    let job = job.by(Linker::Lld);
    session.run(&job.env("XDG_CACHE_HOME", session.path("caches")))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The link says `fact` of `file` in one warning, keeps the constructor, and is refused under `--prune-strict`.
fn is_refused(session: &mut Session, more: &str, file: &str, fact: &str) {
    let outcome = link(session, more);
    session.check(outcome.ok(), &outcome.stderr);
    let warnings: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("warning:")).collect();
    let is_said = warnings.len() == 1 && warnings[0].contains(file) && warnings[0].contains(fact);
    session.check(is_said, &format!("not once `{file}` and `{fact}` in\n{}", outcome.stderr));
    session.cmd("./out");
    let outcome = link(session, &format!("{more} --prune-strict"));
    session.fails_with(&outcome, file);
}

/// The link prints nothing, and its program works.
fn is_taken(session: &mut Session, more: &str) {
    let outcome = link(session, &format!("{more} --prune-strict"));
    session.check(outcome.ok() && outcome.stderr.is_empty(), &outcome.stderr);
    session.cmd("./out");
}

fn summary_of(bytes: &[u8]) -> ModuleSummary {
    extract::extract(bytes, Granularity::Functions)
}

/// A summary of an object as a file has it, with the right hashes.
fn encoded(bytes: &[u8], summary: &ModuleSummary) -> Vec<u8> {
    with_checksum(format::encode(summary, hash(bytes)))
}

/// A lie: what it says, and how a summary is changed.
type Lie = (&'static str, fn(&mut ModuleSummary));

/// The lies. Nothing of it is seen in the hash of the object.
fn lies() -> [Lie; 7] {
    fn atoms(summary: &mut ModuleSummary, change: fn(&mut summaries::Atom)) {
        summary.atoms.iter_mut().for_each(change);
    }
    [
        ("the constructors are data", |summary| {
            atoms(summary, |atom| {
                if atom.kind == AtomKind::InitFini {
                    (atom.kind, atom.flags) = (AtomKind::Data, atom.flags | atom_flags::STANDARD_FAMILY);
                }
            });
        }),
        ("nothing is retained", |summary| atoms(summary, |atom| atom.flags &= !atom_flags::RETAIN)),
        ("all is of a standard family", |summary| {
            atoms(summary, |atom| atom.flags |= atom_flags::STANDARD_FAMILY);
        }),
        ("main is not defined", |summary| {
            let at = (0..summary.symbols.len()).find(|at| summary.name(summary.symbols[*at].name) == b"main");
            summary.symbols[at.unwrap()].definition = summaries::Definition::Undefined;
        }),
        ("all is hidden", |summary| {
            summary.symbols.iter_mut().for_each(|s| s.visibility = summaries::Visibility::Hidden);
        }),
        ("there is no section but the first", |summary| {
            *summary = ModuleSummary { granularity: summary.granularity, ..ModuleSummary::opaque() };
        }),
        ("it is bitcode", |summary| summary.kind = summaries::ModuleKind::Bitcode),
    ]
}

/// Each lie, in a place that the link trusts: the headers of the object tell.
#[test]
fn the_headers_say_what_is_a_root() {
    let mut session = prepare("lies");
    let bytes = session.bytes("main.o");
    session.mkdir("made");
    for place in ["main.o.ltosum", "made/main.o.ltoif"] {
        let options = match place {
            "main.o.ltosum" => "--prune-no-cache --prune-level=functions",
            _ => "--prune-no-cache --prune-level=functions --prune-interfaces=made",
        };
        let honest = |summary: &ModuleSummary| match place {
            "main.o.ltosum" => encoded(&bytes, summary),
            _ => interface::encode(
                &bytes,
                &[ModuleForInterface {
                    range: 0..bytes.len(),
                    left_out: Vec::new(),
                    summaries: vec![encoded(&bytes, summary)],
                }],
            ),
        };
        session.write(place, honest(&summary_of(&bytes)));
        is_taken(&mut session, options);
        for (what, lie) in lies() {
            let mut summary = summary_of(&bytes);
            lie(&mut summary);
            println!("{place}: {what}");
            session.write(place, honest(&summary));
            is_refused(&mut session, options, "main.o", "contradicts the headers");
        }
        fs::remove_file(session.path(place)).unwrap();
    }
}

/// A reason not to trust a file or its folder: the name, the change, and the text of the warning.
type Untrusted = (&'static str, fn(&Path), &'static str);

/// Each of these by itself. `file` is in a folder that is not that of the input.
fn untrusted(session: &Session) -> Vec<Untrusted> {
    fn folder(file: &Path) -> &Path {
        file.parent().unwrap()
    }
    let mut found: Vec<Untrusted> = vec![
        ("all write", |file| mode(file, 0o666), "others may write to it"),
        ("a group writes", |file| mode(file, 0o664), "others may write to it"),
        ("all write to the folder", |file| mode(folder(file), 0o777), "others may write to its folder"),
        ("a group writes to the folder", |file| mode(folder(file), 0o775), "others may write to its folder"),
        ("a sticky folder", |file| mode(folder(file), 0o1777), "others may write to its folder"),
    ];
    if is_root(session) {
        let more: [Untrusted; 4] = [
            (
                "a stranger's file in a sticky folder",
                |file| {
                    chown(file, Some(STRANGER), None).unwrap();
                    mode(folder(file), 0o1777);
                },
                "user 12345 owns it",
            ),
            (
                "a stranger's folder",
                |file| chown(folder(file), Some(STRANGER), None).unwrap(),
                "owns its folder",
            ),
            (
                "a stranger's link",
                |file| {
                    fs::rename(file, file.with_extension("target")).unwrap();
                    symlink(file.with_extension("target"), file).unwrap();
                    lchown(file, Some(STRANGER), None).unwrap();
                },
                "owns the link to it",
            ),
            (
                "a link into a stranger's folder",
                |file| {
                    let other = folder(file).parent().unwrap().join("stranger");
                    fs::create_dir_all(&other).unwrap();
                    let target = other.join("target");
                    fs::rename(file, &target).unwrap();
                    symlink(&target, file).unwrap();
                    chown(&other, Some(STRANGER), None).unwrap();
                },
                "owns its folder",
            ),
        ];
        found.extend(more);
    }
    found
}

/// Interfaces, which are in a folder of their own.
#[test]
fn interfaces_of_others() {
    let mut session = prepare("interfaces");
    for (what, make, fact) in untrusted(&session) {
        println!("{what}");
        let _ = fs::remove_dir_all(session.path("made"));
        session.mkdir("made");
        let words = "summarize --interface main.o -o made/main.o.ltoif";
        session.must(&session.job("lto-prune").words(words));
        is_taken(&mut session, "--prune-no-cache --prune-interfaces=made");
        make(&session.path("made/main.o.ltoif"));
        is_refused(&mut session, "--prune-no-cache --prune-interfaces=made", "made/main.o.ltoif", fact);
        let plan = link(&mut session, "-Wl,--prune-interfaces=made,--prune-plan=plans");
        session.fails_with(&plan, fact);
    }
    // A group that may write the object, and perhaps can't reach it.
    let _ = fs::remove_dir_all(session.path("made"));
    session.mkdir("made");
    session.cmd("lto-prune summarize --interface main.o -o made/main.o.ltoif");
    for file in ["main.o", "made/main.o.ltoif"] {
        mode(&session.path(file), 0o664);
    }
    let fact = "others may write to it";
    is_refused(&mut session, "--prune-no-cache --prune-interfaces=made", "made/main.o.ltoif", fact);
}

/// Files next to the object, in its folder. Another user who can write there can write the object too; the summary is not used anyway.
#[test]
fn summaries_of_others() {
    let mut session = prepare("sidecars");
    let dir = session.dir().to_owned();
    for (what, make, fact) in untrusted(&session) {
        println!("{what}");
        for file in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
            if file.file_name().unwrap().to_string_lossy().starts_with("main.o.") {
                fs::remove_file(file).unwrap();
            }
        }
        session.cmd("lto-prune summarize main.o -o main.o.ltosum");
        is_taken(&mut session, "--prune-no-cache");
        make(&session.path("main.o.ltosum"));
        is_refused(&mut session, "--prune-no-cache", "main.o.ltosum", fact);
        mode(&dir, 0o755);
        if is_root(&session) {
            chown(&dir, Some(0), None).unwrap();
        }
    }
    // A group that may write the object may write its summary, and the owner of the object may have made it.
    fs::remove_file(session.path("main.o.ltosum")).unwrap();
    session.cmd("lto-prune summarize main.o -o main.o.ltosum");
    for file in ["main.o", "main.o.ltosum"] {
        mode(&session.path(file), 0o664);
    }
    mode(&dir, 0o775);
    is_taken(&mut session, "--prune-no-cache");
    // With an access control list the group's bits are those of its mask.
    for file in ["main.o", "main.o.ltosum"] {
        let with_list = session.run(&session.job("setfacl -m g::r,u:1:rw").arg(file));
        if !with_list.ok() {
            println!("skipped: the file system has no access control lists: {}", with_list.stderr);
            continue;
        }
        is_refused(&mut session, "--prune-no-cache", "main.o.ltosum", "others may write to it");
        session.must(&session.job("setfacl").arg("-b").arg(file));
        mode(&session.path(file), 0o664);
    }
    is_taken(&mut session, "--prune-no-cache");
    if is_root(&session) {
        for file in ["main.o", "main.o.ltosum"] {
            chown(session.path(file), Some(STRANGER), None).unwrap();
        }
        is_taken(&mut session, "--prune-no-cache");
    }
}

/// The folder next to an archive.
#[test]
fn summaries_of_an_archive() {
    let mut session = prepare("archive");
    session.cmd("ar rcs libmain.a main.o");
    session.cmd("lto-prune summarize libmain.a -o libmain.a.ltosum");
    session.write("main.c", "int start;\n");
    session.cmd("gcc -c main.c");
    is_taken(&mut session, "libmain.a --prune-no-cache");
    mode(&session.path("libmain.a.ltosum"), 0o777);
    is_refused(
        &mut session,
        "libmain.a --prune-no-cache",
        "libmain.a.ltosum",
        "others may write to its folder",
    );
}

/// Plans and pruned objects to which others may write.
#[test]
fn actions_of_others() {
    let mut session = prepare("actions");
    let dir = session.dir().to_owned();
    let run = |words: &str| Job::new(&dir, tools::lto_prune()).words(words);
    session.must(&run("summarize --interface main.o -o made/main.o.ltoif"));
    session.must(&run("-Wl,main.o -o out --prune-interfaces=made --prune-plan=plans").by(Linker::Lld));
    let emit = "emit --plan=plans/main.o.ltoplan main.o -o emitted/main.o";
    session.must(&run(emit));
    let options = "--prune-no-cache --prune-interfaces=made --prune-emitted=emitted";
    is_taken(&mut session, options);
    mode(&session.path("emitted/main.o"), 0o666);
    let outcome = link(&mut session, options);
    session.check(outcome.ok() && outcome.stderr.contains("others may write to it"), &outcome.stderr);
    session.cmd("./out");
    mode(&session.path("plans/main.o.ltoplan"), 0o666);
    let outcome = session.run(&run(emit));
    session.fails_with(&outcome, "main.o.ltoplan: not used");
}

/// A cache to which others may write, and entries of others in one to which they might once.
#[test]
fn caches_of_others() {
    let mut session = prepare("cache");
    session.mkdir("caches/lto-prune");
    for (options, folder) in [("", "caches/lto-prune"), ("--prune-cache=chosen", "chosen")] {
        session.mkdir(folder);
        for bits in [0o777, 0o1777, 0o775] {
            mode(&session.path(folder), bits);
            is_refused(&mut session, options, folder, "others may write to it");
            let entries = fs::read_dir(session.path(folder)).unwrap().count();
            session.check_eq(&entries, &0, "entries of a cache that is not used");
        }
        mode(&session.path(folder), 0o755);
        is_taken(&mut session, options);
        if is_root(&session) {
            chown(session.path(folder), Some(STRANGER), None).unwrap();
            is_refused(&mut session, options, folder, "user 12345 owns it");
        }
    }
}
