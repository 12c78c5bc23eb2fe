//! `lto-prune audit reach` on a program whose functions are known to be present or not (fixtures/audit/reach.c). Its verdicts are compared
//! with `nm` on the linked file, and each reason against a proof is provoked.

use serde_json::Value;

use crate::audit::{audit, column, json, reported};
use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

/// Symbols with their verdicts, and whether an absence is proved where debug information describes the program.
const VERDICTS: [(&str, &str, &str); 13] = [
    ("holder", "reachable", ""),
    ("other_name", "reachable", ""),
    ("copied", "inlined", ""),
    ("lost", "removed", "yes"),
    ("gone_copy", "absent", "no"),
    ("lost_gone", "removed", "yes"),
    ("cloned", "reachable", ""),
    ("lost_clone", "removed", "yes"),
    ("parted", "reachable", ""),
    ("twin", "reachable", ""),
    ("reach.o:twin", "removed", "no"),
    ("printf", "imported", ""),
    ("never_written", "absent", "no"),
];

/// Compile the two sources of the fixture, each with its own flags.
fn compiled(session: &mut Session, compiler: &str, flags: [&str; 2]) {
    for (source, flags) in ["reach", "reach_main"].into_iter().zip(flags) {
        let job = session.job(&format!("{compiler} -O2 -c")).words(flags);
        let job = job.arg(tools::repository().join(format!("fixtures/audit/{source}.c"))).words("-o");
        session.must(&job.arg(format!("{source}.o")));
    }
}

/// Run `audit reach` with these further words.
fn reach(session: &mut Session, words: &str) -> Outcome {
    audit(session, &format!("reach {words}"))
}

fn answer(session: &mut Session, words: &str) -> Value {
    json(session, &format!("reach --json {words}"))
}

/// The notes of the answer about one symbol: why it is not proved.
fn doubts(session: &mut Session, words: &str) -> String {
    let outcome = reach(session, words);
    session.check_eq(&outcome.status, &1, &outcome.stdout);
    let notes = outcome.stdout.lines().filter(|l| l.contains("not proved"));
    notes.collect::<Vec<_>>().join("\n")
}

#[test]
fn verdicts_are_those_of_the_file_behind_every_linker() {
    for linker in Linker::ALL {
        let mut session = Session::new(&format!("reach/verdicts-{}", linker.name()));
        compiled(&mut session, "gcc", ["-g", "-g"]);
        reported(&mut session, "out", "reach.o reach_main.o", linker);
        let nm = session.cmd("nm --defined-only out").stdout;
        let names: Vec<&str> = nm.lines().filter_map(|l| l.split_whitespace().last()).collect();
        let has = |name: &str| names.iter().any(|n| *n == name || n.starts_with(&format!("{name}.")));
        let asked = VERDICTS.map(|v| v.0).join(" ");
        let found = answer(&mut session, &format!("{asked} out.json"));
        let verdicts = column(&found, "symbols", "verdict");
        let proved = column(&found, "symbols", "proved");
        for ((name, verdict, is_proved), (found, proof)) in VERDICTS.iter().zip(verdicts.iter().zip(&proved))
        {
            let what = format!("{} {name}", linker.name());
            session.check_eq(found, verdict, &what);
            session.check_eq(proof, is_proved, &what);
            if !name.contains(':') {
                session.check_eq(&has(name), &(*verdict == "reachable"), &format!("{what} in nm"));
            }
        }
        let steps = found["paths"].as_array().unwrap().iter().filter(|r| r["symbol"] == "holder");
        let to: Vec<&str> = steps.map(|r| r["to"].as_str().unwrap()).collect();
        session.check(to.first() == Some(&"_start") && to.last() == Some(&"holder"), &format!("{to:?}"));
        let outcome = reach(&mut session, "lost lost_clone out.json");
        session.check_eq(&outcome.status, &0, &outcome.stdout);
        let because = doubts(&mut session, "never_written out.json");
        session.check(because.contains("libc.so.6 may contain it"), &because);
        let outcome = reach(&mut session, "--scope=file gone_copy never_written out.json");
        session.check_eq(&outcome.status, &0, &outcome.stdout);
    }
}

#[test]
fn compilers_that_list_inlined_copies() {
    for (compiler, flags) in
        [("gcc", "-g1"), ("clang-19", "-g"), ("clang-19", "-g -gdwarf-4"), ("gcc", "-g -gz")]
    {
        let mut session = Session::new(&format!("reach/{compiler}{}", flags.replace(' ', "")));
        compiled(&mut session, compiler, [flags, flags]);
        reported(&mut session, "out", "reach.o reach_main.o", Linker::Lld);
        let found = answer(&mut session, "--scope=file copied gone_copy lost out.json");
        let verdicts = column(&found, "symbols", "verdict");
        session.check_eq(&verdicts, &vec!["inlined", "absent", "removed"], &format!("{compiler} {flags}"));
        session.check_eq(&column(&found, "symbols", "proved"), &vec!["", "yes", "yes"], compiler);
        // The report names its file from the folder of the link.
        let dir = session.mkdir("elsewhere");
        let job = Job::new(&dir, tools::lto_prune()).words("audit reach --scope=file gone_copy ../out.json");
        session.must(&job);
    }
}

#[test]
fn without_debug_information_inlined_copies_are_not_ruled_out() {
    let mut session = Session::new("reach/no-debug");
    compiled(&mut session, "gcc", ["", ""]);
    reported(&mut session, "out", "reach.o reach_main.o", Linker::Lld);
    let found = answer(&mut session, "lost copied out.json");
    session.check_eq(&column(&found, "symbols", "verdict"), &vec!["removed", "absent"], "verdicts");
    let because = doubts(&mut session, "lost out.json");
    session.check(because.contains("no debug information of its code"), &because);
    // One of two objects has some.
    let mut session = Session::new("reach/half-debug");
    compiled(&mut session, "gcc", ["-g", ""]);
    reported(&mut session, "out", "reach.o reach_main.o", Linker::Lld);
    let because = doubts(&mut session, "lost out.json");
    let expected = "no debug information that lists them: ";
    session
        .check(because.contains(expected) && because.contains("main") && because.contains("keep"), &because);
    // The assembler describes lines and does not know the inlined copies.
    let mut session = Session::new("reach/assembled");
    compiled(&mut session, "gcc", ["-g", "-S"]);
    session.cmd("gcc -g -x assembler -c reach_main.o -o main.o");
    std::fs::rename(session.path("main.o"), session.path("reach_main.o")).unwrap();
    reported(&mut session, "out", "reach.o reach_main.o", Linker::Bfd);
    let because = doubts(&mut session, "lost out.json");
    session.check(because.contains(expected) && because.contains("keep"), &because);
}

#[test]
fn a_link_of_the_originals_removes_nothing() {
    let mut session = Session::new("reach/originals");
    compiled(&mut session, "gcc", ["-g", "-g"]);
    reported(&mut session, "out", "reach.o reach_main.o --prune-level=off", Linker::Lld);
    let found = answer(&mut session, "lost lost_clone gone_copy holder out.json");
    let verdicts = column(&found, "symbols", "verdict");
    session.check_eq(&verdicts, &vec!["present", "present", "inlined", "reachable"], "originals");
    let text = reach(&mut session, "lost out.json").stdout;
    session.check(text.contains("nothing refers to it; not pruned: --prune-level=off"), &text);
    // The linker removes sections by itself, and the file shows that it did.
    let mut session = Session::new("reach/gc-sections");
    compiled(&mut session, "gcc", ["-g -ffunction-sections", "-g -ffunction-sections"]);
    reported(&mut session, "out", "reach.o reach_main.o --prune-level=off -Wl,--gc-sections", Linker::Lld);
    let found = answer(&mut session, "lost gone_copy holder out.json");
    session.check_eq(&column(&found, "symbols", "verdict"), &vec!["removed", "removed", "reachable"], "gc");
    session.check_eq(&column(&found, "symbols", "proved"), &vec!["yes", "yes", ""], "gc");
}

#[test]
fn the_file_has_to_be_that_of_the_report() {
    let mut session = Session::new("reach/other-file");
    compiled(&mut session, "gcc", ["-g", "-g"]);
    reported(&mut session, "out", "reach.o reach_main.o", Linker::Lld);
    let dir = session.dir().to_owned();
    session.cmd("strip -o stripped out");
    std::fs::rename(session.path("stripped"), session.path("out")).unwrap();
    let because = doubts(&mut session, "lost out.json");
    session.check(because.contains("out: is not the file that the report"), &because);
    std::fs::remove_file(session.path("out")).unwrap();
    let because = doubts(&mut session, "lost out.json");
    session.check(because.contains("out: cannot read the linked file"), &because);
    // A file that was linked without symbols and debug information proves nothing.
    reported(&mut session, "out", "reach.o reach_main.o -s", Linker::Lld);
    let because = doubts(&mut session, "lost out.json");
    session.check(because.contains("no debug information of its code"), &because);
    let before = std::fs::read_dir(&dir).unwrap().count();
    let job = session.job("lto-prune audit reach lost lost_gone reach.o reach_main.o");
    let outcome = session.run(&job.env("CC", "gcc").by(Linker::Lld));
    session.check_eq(&outcome.status, &0, &(outcome.stdout + &outcome.stderr));
    session.check_eq(&std::fs::read_dir(&dir).unwrap().count(), &before, "an audit writes nothing");
}

#[test]
fn members_that_were_not_loaded_are_named() {
    let mut session = Session::new("reach/members");
    compiled(&mut session, "gcc", ["-g", "-g"]);
    session.write("more.c", "int spare(int a) { return a + 2; }\n");
    session.cmd("gcc -g -O2 -c more.c");
    session.cmd("ar rcs libx.a reach.o more.o");
    reported(&mut session, "out", "reach_main.o libx.a", Linker::Lld);
    let outcome = reach(&mut session, "spare lost out.json");
    session.check_eq(&outcome.status, &0, &outcome.stdout);
    let expected = "absent   yes     libx.a(more.o) defines it and was not loaded";
    session.says(&outcome.stdout, expected);
    session.says(&outcome.stdout, "removed  yes     libx.a(reach.o):(.text+0x");
}

#[test]
fn a_function_of_which_a_trap_is_left_is_removed() {
    let mut session = Session::new("reach/stub");
    for source in ["main", "other"] {
        let source_file = tools::repository().join(format!("fixtures/stub_mentioned/{source}.c"));
        session.must(&session.job("gcc -O1 -g -c").arg(source_file).words("-o").arg(format!("{source}.o")));
    }
    let job = session.job("lto-prune main.o other.o -o out --prune-stub-symbol=first");
    session.must(&job.words("--prune-report=out.json --prune-strict").env("CC", "gcc").by(Linker::Lld));
    let found = answer(&mut session, "first out.json");
    session.check_eq(&column(&found, "symbols", "verdict"), &vec!["removed"], &found.to_string());
    session.check(column(&found, "symbols", "because")[0].contains("a trap stands in its place"), "a trap");
    session.check_eq(&column(&found, "symbols", "proved"), &vec!["yes"], &found.to_string());
}

#[test]
fn vex_documents_say_what_is_proved() {
    let mut session = Session::new("reach/vex");
    compiled(&mut session, "gcc", ["-g", "-g"]);
    reported(&mut session, "out", "reach.o reach_main.o", Linker::Lld);
    session.write("list", "# of an advisory\nlost\n  lost_clone # a clone\n\n");
    let about = "--vulnerability=CVE-2026-0001 --product=pkg:generic/out@1.0 --author=tests";
    let document = |session: &mut Session, words: &str| -> (i32, Value) {
        let job = session.job("lto-prune audit reach").words(about).words(words);
        let outcome = session.run(&job.env("SOURCE_DATE_EPOCH", "1767225600"));
        match serde_json::from_str(&outcome.stdout) {
            Ok(value) => (outcome.status, value),
            Err(error) => session.fail(&format!("{error}: {}{}", outcome.stdout, outcome.stderr)),
        }
    };
    let (status, found) = document(&mut session, "--format=openvex --from=list out.json");
    let statement = &found["statements"][0];
    session.check_eq(&status, &0, &found.to_string());
    session.check_eq(&found["@context"], &Value::from("https://openvex.dev/ns/v0.2.0"), "context");
    session.check_eq(&found["timestamp"], &Value::from("2026-01-01T00:00:00Z"), "timestamp");
    session.check_eq(&statement["status"], &Value::from("not_affected"), "status");
    session.check_eq(
        &statement["justification"],
        &Value::from("vulnerable_code_not_present"),
        "justification",
    );
    session.check_eq(&statement["vulnerability"]["name"], &Value::from("CVE-2026-0001"), "vulnerability");
    session.check_eq(&statement["products"][0]["@id"], &Value::from("pkg:generic/out@1.0"), "product");
    let why = statement["status_notes"].as_str().unwrap();
    for part in ["lost is removed", "lost_clone is removed", "blake3 ", "libc.so.6"] {
        session.check(why.contains(part), why);
    }
    let again = document(&mut session, "--format=openvex --from=list out.json");
    session.check_eq(&again.1, &found, "the same question has the same answer");
    let (status, found) = document(&mut session, "--format=openvex lost holder out.json");
    let statement = &found["statements"][0];
    session.check_eq(&status, &1, &found.to_string());
    session.check_eq(&statement["status"], &Value::from("under_investigation"), "status");
    session.check(statement["justification"].is_null(), "no claim");
    session.check(statement["status_notes"].as_str().unwrap().contains("holder is reachable"), "notes");
    let (_, found) = document(&mut session, "--format=cyclonedx lost out.json");
    let analysis = &found["vulnerabilities"][0]["analysis"];
    session.check_eq(&analysis["state"], &Value::from("not_affected"), "state");
    session.check_eq(&analysis["justification"], &Value::from("code_not_present"), "justification");
    session.check_eq(
        &found["vulnerabilities"][0]["affects"][0]["ref"],
        &found["metadata"]["component"]["bom-ref"],
        "ref",
    );
    let time = "--timestamp=2026-02-03T04:05:06Z";
    let (_, found) = document(&mut session, &format!("--format=cyclonedx {time} copied out.json"));
    session.check_eq(&found["vulnerabilities"][0]["analysis"]["state"], &Value::from("in_triage"), "state");
    session.check_eq(&found["metadata"]["timestamp"], &Value::from("2026-02-03T04:05:06Z"), "timestamp");
    for words in [
        "--format=openvex lost out.json",
        "--from=missing out.json",
        "--timestamp=today --format=cyclonedx --vulnerability=X --product=Y lost out.json",
        "--from=out.json.none lost out.json",
    ] {
        let outcome = reach(&mut session, words);
        session.check_eq(&outcome.status, &2, &format!("{words}: {}", outcome.stderr));
    }
}

#[test]
fn bitcode_is_proved_by_the_code_that_is_made_of_it() {
    let mut session = Session::new("reach/bitcode");
    compiled(&mut session, "clang-19", ["-g -flto", "-g -flto"]);
    reported(&mut session, "out", "reach.o reach_main.o", Linker::Lld);
    let found = answer(&mut session, "lost copied gone_copy out.json");
    let verdicts = column(&found, "symbols", "verdict");
    session.check_eq(&verdicts[..2].to_vec(), &vec!["removed", "inlined"], &found.to_string());
    session.check_eq(&column(&found, "symbols", "proved")[0], &"yes", &found.to_string());
}
