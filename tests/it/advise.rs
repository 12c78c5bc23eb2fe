//! `lto-prune advise`: each row is a link that a hand can repeat, and nothing of the user's is written.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::audit_elf::loadable;
use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/advise.txt");

/// A session with objects, an archive, shims, an old output and a folder for temporary files.
fn prepare(name: &str, flags: &str) -> Session {
    let mut session = Session::new(&format!("advise/{name}"));
    session.files(FILES, "prepare");
    session.must(&session.job("gcc -O1 -c main.c lib.c").words(flags));
    session.cmd("ar qcs liblib.a lib.o");
    session.cmd("lto-prune install-shims shims");
    session.write("app", "old");
    session.mkdir("tmp");
    session
}

fn advise(session: &mut Session, options: &str, command: &str) -> Outcome {
    let before = session.listing("");
    let job = session.job("lto-prune").arg("advise").words(options);
    let outcome = session.run(&job.arg("--").words(command).env("TMPDIR", session.path("tmp")));
    session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    let is_ours = |name: &String| name != "kept";
    let after: Vec<String> = session.listing("").into_iter().filter(is_ours).collect();
    session.check_eq(&after, &before.into_iter().filter(is_ours).collect(), "files in the folder");
    session.check_eq(&session.bytes("app"), &b"old".to_vec(), "the output");
    outcome
}

/// The rows of a link in JSON. Each is linked again from its flags.
fn repeated(session: &mut Session, options: &str, command: &str) -> Vec<Value> {
    let outcome = advise(session, &format!("--runs=1 --format=json {options}"), command);
    session.check(outcome.ok(), &outcome.stderr);
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let rows = answer["links"].as_array().unwrap().clone();
    session.check(rows.len() > 8, &outcome.stdout);
    for row in &rows {
        let flags = row["flags"].as_str().unwrap();
        let out = session.path("by-hand");
        let _ = std::fs::remove_file(&out);
        let line = by_hand(session, command, flags);
        let link = session.run(&session.job("sh").arg("-c").arg(line));
        let Some(file) = row["file"].as_u64() else {
            session.check(row["note"].as_str().unwrap().starts_with("fails: "), &row.to_string());
            let is_behind = note(row).contains("put -B SHIMS before");
            session.check(is_behind || !link.ok() || !out.exists(), &format!("{row}: succeeds by hand"));
            continue;
        };
        session.check(link.ok(), &format!("{row}: {}", link.stderr));
        session.check_eq(&out.metadata().unwrap().len(), &file, &format!("bytes of {row}"));
        let loaded = loadable(session, "by-hand");
        session.check_eq(&Some(loaded), &row["loaded"].as_u64(), &row.to_string());
    }
    let _ = std::fs::remove_file(session.path("by-hand"));
    rows
}

/// The command with the words of a row, as a person would write it.
fn by_hand(session: &Session, command: &str, flags: &str) -> String {
    let flags = flags.replace("SHIMS", session.path("shims").to_str().unwrap());
    let mut words: Vec<&str> = command.split_whitespace().collect();
    let mut rest: Vec<&str> = flags.split_whitespace().collect();
    if rest.get(1) == Some(&"for") {
        words[0] = rest[0];
        rest.drain(..3);
    }
    let mut rest = rest.into_iter();
    while let Some(word) = rest.next() {
        match word {
            "without" => {
                let removed = rest.next().unwrap();
                words.retain(|word| *word != removed);
            }
            word => words.push(word),
        }
    }
    format!("{} -o by-hand", words.join(" "))
}

fn row<'r>(session: &Session, rows: &'r [Value], name: &str) -> &'r Value {
    let found = rows.iter().find(|row| row["row"] == name);
    found.unwrap_or_else(|| session.fail(&format!("no row {name} in {rows:#?}")))
}

fn note(row: &Value) -> &str {
    row["note"].as_str().unwrap()
}

#[test]
fn rows_of_a_program_are_repeated_by_hand() {
    let mut session = prepare("bfd", "-g");
    let rows = repeated(&mut session, "", "gcc main.o liblib.a -o app -Wl,-Map,app.map,-z,now");
    let sizes = |name: &str| row(&session, &rows, name)["loaded"].as_u64().unwrap();
    session.check(sizes("lto-prune") + 16_000 <= sizes("as-given"), "the dead array is removed");
    session.check(sizes("combined") <= sizes("lto-prune"), "the combination is the smallest");
    let strip = row(&session, &rows, "strip");
    session.check_eq(&note(strip), &"no symbol table; no debug information", "what -s loses");
    for name in ["lto-prune-debug", "strip-debug", "compress-zstd", "gold", "lld", "lld-icf", "mold"] {
        row(&session, &rows, name);
    }
    let first = rows[0]["loaded"].as_u64().unwrap();
    session.check(rows.iter().all(|r| r["loaded"].as_u64().is_none_or(|l| l >= first)), "best first");
}

#[test]
fn rows_behind_lld_and_of_a_linker_are_repeated_by_hand() {
    let mut session = prepare("lld", "");
    session.mkdir("lld");
    std::os::unix::fs::symlink(Linker::Lld.path(), session.path("lld/ld.lld")).unwrap();
    let rows = repeated(&mut session, "", "gcc -B lld -fuse-ld=lld main.o -oapp -Wl,--gc-sections liblib.a");
    row(&session, &rows, "icf");
    row(&session, &rows, "bfd");
    session.check(!rows.iter().any(|row| row["row"] == "gc-sections"), "it is on the line");
    let command = "ld.bfd --output=app -shared -soname=libapp.so -Map app.map lib.o main.o -lc";
    let mut direct = prepare("linker", "-fPIC");
    let rows = repeated(&mut direct, "", command);
    let gold = row(&direct, &rows, "gold")["flags"].as_str().unwrap();
    direct.check(gold.ends_with("ld.gold for ld.bfd"), gold);
    row(&direct, &rows, "lto-prune");
}

#[test]
fn words_of_response_files_and_of_a_cxx_program() {
    let mut session = prepare("cxx", "");
    session.files(FILES, "words_of_response_files_and_of_a_cxx_program");
    session.cmd("g++ -O1 -ffunction-sections -c app.cpp");
    session.write("words", "app.o -o app -Wl,@linker-words -MD -MF app.d");
    session.write("linker-words", "-z relro --dependency-file=app.dep");
    let test = r#"--test=$LTO_PRUNE_OUTPUT"#;
    let rows = repeated(&mut session, test, "g++ @words");
    let good = rows.iter().filter(|row| row["file"].is_u64()).all(|row| !note(row).contains("test fails"));
    session.check(good, &format!("{rows:#?}"));
    let _ = std::fs::remove_file(session.path("app.dep"));
}

#[test]
fn exports_that_are_lost_are_named_and_not_combined() {
    let mut session = prepare("rdynamic", "");
    let rows = repeated(&mut session, "", "gcc -rdynamic main.o liblib.a -o app");
    let without = row(&session, &rows, "no-export-dynamic");
    session.check_eq(&without["flags"], &Value::from("without -rdynamic"), "its flags");
    session.check(note(without).contains("no longer exports "), note(without));
    let combined = rows.iter().find(|row| row["row"] == "combined").map(|row| row["flags"].to_string());
    session.check(combined.is_none_or(|flags| !flags.contains("without")), "it is not combined");
    let table = advise(&mut session, "--runs=1", "gcc -rdynamic main.o liblib.a -o app").stdout;
    session.check(table.contains("no longer exports ") && table.contains("\nBest: "), &table);
}

#[test]
fn a_library_with_a_version_script_exports_the_same() {
    let mut session = prepare("version", "-fPIC");
    session.write("exports.map", "V1 { global: helper; unused; local: *; };\n");
    let command = "gcc -shared main.o lib.o -o app -Wl,--version-script=exports.map -Wl,-soname=libapp.so.1";
    let rows = repeated(&mut session, "", command);
    for row in rows.iter().filter(|row| row["file"].is_u64()) {
        session.check(!note(row).contains("export") && !note(row).contains("it is"), &row.to_string());
    }
}

#[test]
fn a_failed_test_is_named_and_not_combined() {
    let mut session = prepare("test", "");
    session.script(
        "check.sh",
        "#!/bin/sh\nnm \"$LTO_PRUNE_OUTPUT\" 2>/dev/null | grep -q ' dead$' || { echo no dead; exit 3; }\n",
    );
    let rows = repeated(&mut session, "--test=./check.sh", "gcc main.o liblib.a -o app");
    for name in ["lto-prune", "strip"] {
        let note = note(row(&session, &rows, name));
        session.check(note.contains("the test fails: exit status 3: no"), note);
    }
    let combined = row(&session, &rows, "combined")["flags"].as_str().unwrap();
    session.check(!combined.contains("SHIMS") && !combined.contains("-s "), combined);
}

#[test]
fn a_repro_is_linked_again_and_outputs_are_kept() {
    let mut session = prepare("repro", "");
    let repro = "-B shims main.o liblib.a -o other -Wl,--prune-repro=link.tar";
    session.must(&session.job("gcc").words(repro));
    let job = session.job("lto-prune advise --runs=1 --format=json --keep=kept --repro=link.tar");
    let outcome = session.must(&job.env("TMPDIR", session.path("tmp")));
    session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let rows = answer["links"].as_array().unwrap();
    for row in rows.iter().filter(|row| row["file"].is_u64()) {
        let kept = session.path("kept").join(row["row"].as_str().unwrap()).join("a.out");
        session.check_eq(&kept.metadata().unwrap().len(), &row["file"].as_u64().unwrap(), &row.to_string());
    }
    row(&session, rows, "lto-prune");
    let again = advise(&mut session, "--keep=kept", "gcc main.o liblib.a -o app");
    session.check(again.status == 2 && again.stderr.contains("not empty"), &again.stderr);
}

#[test]
fn options_that_write_are_dropped() {
    let mut session = prepare("writes", "");
    session.mkdir("lld");
    std::os::unix::fs::symlink(Linker::Lld.path(), session.path("lld/ld.lld")).unwrap();
    let clang = tools::tool("clang-19");
    session.must(&Job::new(session.dir(), &clang).words("-O1 -flto=thin -c main.c -o thin.o"));
    let compile = "main.c liblib.a -o app -save-temps";
    for command in [
        "gcc -B lld -fuse-ld=lld thin.o liblib.a -o app -Wl,--thinlto-cache-dir=tc,--save-temps,--time-trace=t.json \
         -Wl,--lto-obj-path=l.o,--reproduce=r.tar -Wl,-Map=m.map",
        "gcc -B lld -fuse-ld=lld thin.o liblib.a -o app -Wl,-plugin-opt=obj-path=l.o,--plugin-opt=cache-dir=tc \
         -Wl,-plugin-opt,save-temps",
        &format!(
            "gcc {compile} -Wa,-adhln=l.lst,--MD,l.d,--noexecstack -Xassembler -ahl=x.lst -Xassembler --MD -Xassembler x.d -fprofile-note=n.gcno \
             -fdiagnostics-format=sarif-file -fstack-usage --for-linker=-Map=f.map --for-linker -Map=g.map"
        ),
        &format!(
            "{} {compile} -serialize-diagnostics d.dia --serialize-diagnostics e.dia -MJ j.json -MJk.json \
             -save-stats -ftime-trace=t.json -fcrash-diagnostics-dir=crash",
            clang.display()
        ),
    ] {
        let outcome = advise(&mut session, "--runs=1 --format=json", command);
        session.check(outcome.ok(), &outcome.stderr);
    }
}

#[test]
fn abbreviated_options_that_write_are_refused() {
    let mut session = prepare("abbreviated", "");
    for (words, full) in [
        ("-Wl,--outpu=app", "--output"),
        ("-Xlinker --outpu -Xlinker app", "--output"),
        ("-Wl,--dependency-fi=dd.d", "--dependency-file"),
        ("-Wl,-dependency-fi,dd.d", "--dependency-file"),
        ("-Wl,--Ma=m.map", "--Map"),
        ("-Wl,-Ma=m.map", "--Map"),
        ("-Wl,--M=m.map", "--Map"),
        ("-Wl,-M=m.map", "--Map"),
    ] {
        let outcome = advise(&mut session, "", &format!("gcc main.o liblib.a {words} -o other"));
        session.check_eq(&outcome.status, &2, words);
        let text = format!("may abbreviate {full}, which writes a file");
        session.says(&outcome.stderr, &text);
    }
    let whole = "gcc main.o liblib.a -o app -Wl,-M,-lm,--as-need,--prune-report=r.txt -B shims";
    let outcome = advise(&mut session, "--runs=1", whole);
    session.check(outcome.ok(), &outcome.stderr);
}

#[test]
fn a_file_that_the_first_link_changes_ends_the_experiments() {
    let mut session = prepare("changes", "");
    session.mkdir("out");
    for (change, verb, file) in [
        ("echo link >> extra", "wrote", "extra"),
        ("echo link >> out/extra", "wrote", "out/extra"),
        ("rm extra; mkdir extra", "wrote", "extra"),
        ("rm gone", "removed", "gone"),
    ] {
        let _ = std::fs::remove_dir(session.path("extra"));
        session.write("extra", "old\n");
        session.write("out/extra", "old\n");
        session.write("gone", "");
        session.script("driver", format!("#!/bin/sh\n{change}\nexec gcc \"$@\"\n"));
        let job = session.job("lto-prune advise -- ./driver main.o liblib.a -o out/app");
        let outcome = session.run(&job.env("TMPDIR", session.path("tmp")));
        session.check_eq(&outcome.status, &1, &outcome.stderr);
        session.says(&outcome.stderr, &format!("the first link {verb} this file"));
        session.says(&outcome.stderr, file);
        if change.starts_with("echo") {
            let text = session.text(file);
            session.check_eq(&text.as_str(), &"old\nlink\n", "one link was made");
        }
        session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    }
}

#[test]
fn variables_before_the_command_are_set_for_each_link() {
    let mut session = prepare("variables", "");
    let script =
        "#!/bin/sh\n[ \"$FIRST\" = a=b ] && [ \"${SECOND-unset}\" = \"\" ] || exit 7\nexec gcc \"$@\"\n";
    session.script("driver", script);
    repeated(&mut session, "", "FIRST=a=b SECOND= ./driver main.o liblib.a -o app");
    let outcome = advise(&mut session, "", "FIRST=a=b ./driver main.o liblib.a -o app");
    session.check_eq(&outcome.status, &7, &outcome.stderr);
    let outcome = advise(&mut session, "", "FIRST=1");
    session.check(outcome.status == 2 && outcome.stderr.contains("no link command"), &outcome.stderr);
    for runner in ["", "env"] {
        let record =
            format!("{runner} DEPENDENCIES_OUTPUT=dd.d LLD_REPRODUCE=r.tar gcc main.c liblib.a -o app");
        let outcome = advise(&mut session, "--runs=1", &record);
        session.check(outcome.ok(), &outcome.stderr);
    }
}

#[test]
fn mistakes_and_failed_links() {
    let mut session = prepare("mistakes", "");
    for (command, status, text) in [
        ("", 2, "no link command"),
        ("gcc -c main.c -o app", 2, "the command has -c: it compiles and does not link"),
        ("make app", 2, "make is no linker and no compiler driver"),
        ("no-such-driver main.o -o app", 1, "no-such-driver"),
        ("gcc main.o -o app", 1, "undefined reference to `helper'"),
        ("gcc -r main.o -o app", 1, "is no program and no shared library"),
        ("./forgets main.o -o app", 1, "the link succeeded and wrote no app"),
    ] {
        session.script("forgets", "#!/bin/sh\nexit 0\n");
        let outcome = advise(&mut session, "", command);
        session.check_eq(&outcome.status, &status, &outcome.stderr);
        session.check(outcome.stderr.contains(text), &format!("{command}: {}", outcome.stderr));
    }
    let outcome = advise(&mut session, "--tets=true", "gcc main.o");
    session.says(&outcome.stderr, "did you mean --test?");
    let outcome = advise(&mut session, "--test=false", "gcc main.o liblib.a -o app");
    session.check(outcome.status == 1 && outcome.stderr.contains("the test fails"), &outcome.stderr);
    session.script("slow", "#!/bin/sh\nsleep 60\n");
    let outcome = advise(&mut session, "--timeout=0.2", "./slow main.o -o app");
    session.check(outcome.status == 1 && outcome.stderr.contains("longer than 0.2 s"), &outcome.stderr);
}

#[test]
fn a_link_through_shims_is_known_as_one() {
    let mut session = prepare("shims", "");
    let rows = repeated(&mut session, "", "gcc -B shims main.o liblib.a -o app");
    session.check(!rows.iter().any(|row| row["row"] == "lto-prune"), "lto-prune is no news");
    let unwind = row(&session, &rows, "lto-prune-unwind")["flags"].as_str().unwrap();
    session.check_eq(&unwind, &"-Wl,--prune-unwind=unused", "no shims are added");
}

#[test]
fn an_interrupt_leaves_nothing() {
    let session = prepare("interrupt", "");
    // The second link does not end.
    session.script(
        "driver",
        "#!/bin/sh\nif [ -e \"$TMPDIR/begun\" ]; then echo $$ > started; touch \"$TMPDIR/left\"; sleep 60; fi\n: > \"$TMPDIR/begun\"\nexec gcc \"$@\"\n",
    );
    let job = session.job("lto-prune advise -- ./driver main.o liblib.a -o app");
    let job = job.env("TMPDIR", session.path("tmp"));
    let mut child = job.command().stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let start = Instant::now();
    session.wait_for("started");
    let kill = session.job("/bin/kill").arg("-INT").arg(child.id().to_string());
    kill.command().status().unwrap();
    let status = child.wait().unwrap();
    session.check_eq(&status.signal(), &Some(2), "the signal that ended it");
    session.check(start.elapsed() < Duration::from_secs(40), "it waits for the command");
    session.check_eq(&session.listing("tmp"), &Vec::new(), "temporary files");
    session.check_eq(&session.bytes("app"), &b"old".to_vec(), "the output");
}
