//! `lto-prune audit` on a program with known dominators, cuts and differences (fixtures/audit), on damaged reports, and on C++. Its totals are
//! compared with `size -A` and with the length of the file.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

pub(crate) const GROUPINGS: &str = "symbol module archive section category namespace generic";

/// Compiles `source`, a path in the repository or an absolute one, and links it with a report and further words.
pub(crate) fn linked(
    session: &mut Session,
    name: &str,
    source: &str,
    flags: &str,
    linker: Linker,
    words: &str,
) {
    let source = tools::repository().join(source);
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "g++" } else { "gcc" };
    // Two builds of one object are in two folders.
    session.mkdir(&format!("{name}.d"));
    let object = format!("{name}.d/main.o");
    let compile =
        session.job(&format!("{compiler} -O1 -ffunction-sections -fdata-sections -c {flags} -o {object}"));
    session.must(&compile.arg(source));
    reported(session, name, &format!("{object} {words}"), linker);
}

/// Links by the standalone mode, with the report `NAME.json`.
pub(crate) fn reported(session: &mut Session, name: &str, words: &str, linker: Linker) {
    let line = format!("lto-prune {words} -o {name} --prune-report={name}.json --prune-strict");
    session.must(&session.job(&line).env("CC", "gcc").env("CXX", "g++").by(linker));
}

pub(crate) fn audit(session: &mut Session, words: &str) -> Outcome {
    let job = session.job(&format!("lto-prune audit {words}"));
    session.run(&job)
}

pub(crate) fn json(session: &mut Session, words: &str) -> Value {
    let outcome = audit(session, words);
    match serde_json::from_str(&outcome.stdout) {
        Ok(value) => value,
        Err(error) => session.fail(&format!("{words}: {error}: {}{}", outcome.stdout, outcome.stderr)),
    }
}

/// A column of a table of an answer.
pub(crate) fn column<'v>(answer: &'v Value, table: &str, column: &str) -> Vec<&'v str> {
    let rows = answer[table].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().map(|r| r[column].as_str().unwrap_or_default()).collect()
}

/// Sizes of functions and objects by name, as the object file says.
pub(crate) fn sizes(session: &mut Session, object: &str) -> BTreeMap<String, u64> {
    let text = session.must(&session.job("nm -S --defined-only").arg(object)).stdout;
    let mut sizes = BTreeMap::new();
    for line in text.lines() {
        if let [_, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] {
            sizes.insert(name.to_owned(), u64::from_str_radix(size, 16).unwrap());
        }
    }
    sizes
}

/// The functions that each function of the fixture retains, from its source.
const RETAINS: [(&str, &[&str]); 11] = [
    ("left", &["left", "only_left"]),
    ("only_left", &["only_left"]),
    ("right", &["right"]),
    ("shared", &["shared", "leaf"]),
    ("leaf", &["leaf"]),
    ("table", &["table", "first", "second", "deep", "deeper"]),
    ("first", &["first", "deep", "deeper"]),
    ("deep", &["deep", "deeper"]),
    ("deeper", &["deeper"]),
    ("second", &["second"]),
    ("twin_one", &["twin_one"]),
];

#[test]
fn dominators_as_in_the_text() {
    let mut session = Session::new("audit/dominators");
    // The graph of references alone: that main calls what is in the table is known one level up.
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "--prune-level=functions");
    let sizes = sizes(&mut session, "main.d/main.o");
    let answer = json(&mut session, "dominators --json main.json");
    let rows = answer["dominators"].as_array().unwrap();
    let of = |name: &str| rows.iter().find(|r| r["symbol"] == name).unwrap_or(&Value::Null);
    for (name, retains) in RETAINS {
        let expected: u64 = retains.iter().map(|n| sizes[*n]).sum();
        session.check_eq(&of(name)["retained"], &Value::from(expected), name);
        session.check_eq(&of(name)["atoms"], &Value::from(retains.len()), name);
        session.check_eq(&of(name)["own"], &Value::from(sizes[name]), name);
    }
    let all: u64 = RETAINS.iter().map(|r| sizes[r.0]).sum::<u64>() + sizes["main"] + sizes["twin_two"];
    session.check(of("main")["retained"].as_u64() >= Some(all), "main holds all of it");
    session.check(of("dead").is_null() && of("dead_too").is_null(), "what is dead retains nothing");
    let tree = json(&mut session, "dominators --depth=9 -n 0 --json main.json");
    let tree = column(&tree, "dominators", "symbol").join("\n");
    for chain in ["left\n", "shared\n", "table\n"] {
        session.check(tree.contains(chain), chain);
    }
    let at = |text: &str| tree.lines().find(|l| l.trim() == text).map(|l| l.len() - text.len()).unwrap_or(0);
    let levels = ["main", "table", "first", "deep", "deeper"].map(at);
    session.check(
        levels.windows(2).all(|w| w[1] == w[0] + 2),
        &format!("depths of the tree: {levels:?}\n{tree}"),
    );
}

#[test]
fn cuts_as_in_the_text() {
    let mut session = Session::new("audit/cuts");
    // The graph of references alone: that main calls what is in the table is known one level up.
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "--prune-level=functions");
    let sizes = sizes(&mut session, "main.d/main.o");
    /// A function, further words of the command, the edges of its cut, and the functions that the cut removes.
    type AuditCommand =
        (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [AuditCommand; 6] = [
        ("leaf", "", &[("shared", "leaf")], &["leaf"]),
        ("shared", "", &[("left", "shared"), ("right", "shared")], &["shared", "leaf"]),
        ("only_left", "", &[("left", "only_left")], &["only_left"]),
        ("deeper", "", &[("deep", "deeper")], &["deeper"]),
        // Held by first and by deeper, which only it holds: one reference less is enough.
        ("deep", "", &[("first", "deep")], &["deep", "deeper"]),
        // A function that is kept anyway does not count.
        ("first", "--keep=deep", &[("table", "first")], &["first"]),
    ];
    for (name, words, edges, goes) in cases {
        let answer = json(&mut session, &format!("why {words} --json {name} main.json"));
        let found: Vec<(&str, &str)> =
            column(&answer, "cut", "from").into_iter().zip(column(&answer, "cut", "to")).collect();
        session.check_eq(&found, &edges.to_vec(), &format!("the cut of {name}"));
        let mut gone = column(&answer, "goes", "symbol");
        gone.sort_unstable();
        let mut expected = goes.to_vec();
        expected.sort_unstable();
        session.check_eq(&gone, &expected, &format!("what goes with {name}"));
        let bytes: u64 = gone.iter().map(|n| sizes[*n]).sum();
        session.check_eq(&answer["saves"], &Value::from(bytes), &format!("what {name} saves"));
        let paths = answer["paths"].as_array().unwrap().iter().filter_map(|p| p["path"].as_u64()).max();
        session.check_eq(&paths, &Some(edges.len() as u64), &format!("paths to {name}"));
    }
    // A shortest path has the places of its references.
    let answer = json(&mut session, "why --json deep main.json");
    let to = column(&answer, "path", "to");
    session.check_eq(&to, &vec!["_start", "main", "table", "first", "deep"], "a shortest path");
    let places = column(&answer, "path", "place");
    session.check(places[4].starts_with("main.o:(.text.first+0x"), places[4]);
    session.check_eq(&column(&answer, "path", "reference")[3..].to_vec(), &vec!["data", "call"], "kinds");
    let dead = audit(&mut session, "why dead main.json").stdout;
    session.check(dead.contains("dropped: no live atom refers to it"), &dead);
    let entry = json(&mut session, "why --json _start main.json");
    session.check(entry["cut"].is_null() && entry["kept"] == true, "the entry has no cut");
    let answer = json(&mut session, "paths --json main leaf main.json");
    let to = column(&answer, "paths", "to");
    session.check(["left", "right"].contains(&to[0]), "main leads to leaf");
    session.check_eq(&to[1..].to_vec(), &vec!["shared", "leaf"], "main leads to leaf");
    let none = audit(&mut session, "paths leaf main main.json").stdout;
    session.check(none.contains("leaf does not lead to main"), &none);
}

#[test]
fn differences_add_up() {
    let mut session = Session::new("audit/diff");
    linked(&mut session, "old", "fixtures/audit/main.c", "", Linker::Lld, "");
    linked(&mut session, "new", "fixtures/audit/main.c", "-DGROW", Linker::Lld, "");
    let (before, after) = (sizes(&mut session, "old.d/main.o"), sizes(&mut session, "new.d/main.o"));
    let length = |name: &str| std::fs::metadata(session.path(name)).unwrap().len() as i64;
    let difference = length("new") - length("old");
    for by in GROUPINGS.split(' ') {
        let answer = json(&mut session, &format!("diff --all --by={by} --json old.json new.json"));
        let rows = answer["diff"].as_array().unwrap();
        let sum: i64 = rows.iter().map(|r| r["change"].as_i64().unwrap()).sum();
        session.check_eq(&sum, &difference, by);
        session.check_eq(&answer["difference"], &Value::from(difference), by);
        let parts = ["added", "removed", "grown", "shrunk"].map(|k| answer[k].as_i64().unwrap());
        session.check_eq(&parts.iter().sum::<i64>(), &difference, by);
    }
    let answer = json(&mut session, "diff --json old.json new.json");
    let rows = answer["diff"].as_array().unwrap();
    let of = |name: &str| rows.iter().find(|r| r["symbol"] == name).unwrap_or(&Value::Null);
    session.check_eq(&of("extra")["what"], &Value::from("added"), "extra");
    session.check_eq(&of("extra")["change"], &Value::from(after["extra"]), "extra");
    session.check_eq(&of("main")["what"], &Value::from("grown"), "main");
    session.check_eq(&of("main")["change"], &Value::from(after["main"] - before["main"]), "main");
    session.check(of("left").is_null(), "what is the same is in no difference");
    let same = audit(&mut session, "diff old.json old.json").stdout;
    session.check(same.contains("+0 loaded bytes"), &same);
    let back = json(&mut session, "diff --all --json new.json old.json");
    session.check_eq(&back["difference"], &Value::from(-difference), "the other way round");
}

/// Compares the sections in rows of `top` with `size -A`, which has more than `least`.
pub(crate) fn sections_of_size(session: &mut Session, file: &str, rows: &[Value], least: usize) {
    let text = session.cmd(&format!("size -A {file}")).stdout;
    let mut checked = 0;
    for line in text.lines() {
        let [section, size, _] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let Ok(size) = size.parse::<u64>() else { continue };
        let found = rows.iter().filter(|r| r["section"] == section).map(|r| r["size"].as_u64().unwrap());
        session.check_eq(&found.sum(), &size, &format!("{file}: {section}"));
        checked += 1;
    }
    session.check(checked > least, &format!("{file}: size -A names {checked} sections"));
}

/// The rows of `top` add up to the file, and their sections are those of `size -A`.
fn totals(session: &mut Session, name: &str) {
    let length = std::fs::metadata(session.path(name)).unwrap().len();
    for by in GROUPINGS.split(' ') {
        let answer = json(session, &format!("top --all --by={by} --json {name}.json"));
        let sum: i64 = answer["top"].as_array().unwrap().iter().map(|r| r["bytes"].as_i64().unwrap()).sum();
        session.check_eq(&sum, &(length as i64), &format!("{name} by {by}"));
    }
    let answer = json(session, &format!("top --all --by=section --json {name}.json"));
    let rows = answer["top"].as_array().unwrap();
    sections_of_size(session, name, rows, 15);
}

/// The atoms of the output are those that the report's graph reaches from its roots.
fn graph_reaches_what_is_kept(session: &mut Session, name: &str) {
    let text = session.text(&format!("{name}.json"));
    let report: Value = serde_json::from_str(&text).unwrap();
    let table = |column: &str| -> Vec<usize> {
        report["graph"][column].as_array().unwrap().iter().map(|n| n.as_u64().unwrap_or(0) as usize).collect()
    };
    let (start, target, flags) = (table("start"), table("target"), table("flags"));
    let atoms = report["atoms"].as_array().unwrap();
    let roots = report["roots"].as_array().unwrap();
    let mut work: Vec<usize> = roots.iter().map(|r| r["atom"].as_u64().unwrap() as usize).collect();
    let mut reached = vec![false; atoms.len()];
    while let Some(atom) = work.pop() {
        if !std::mem::replace(&mut reached[atom], true) {
            work.extend((start[atom]..start[atom + 1]).filter(|e| flags[*e] & 1 != 0).map(|e| target[e]));
        }
    }
    for (atom, reached) in atoms.iter().zip(reached) {
        session.check_eq(&(atom["state"] != "dropped"), &reached, &format!("{name}: {atom}"));
    }
}

#[test]
fn totals_are_exact_behind_every_linker() {
    for linker in Linker::ALL {
        let mut session = Session::new(&format!("audit/totals-{}", linker.name()));
        linked(&mut session, "main", "fixtures/audit/main.c", "-g", linker, "");
        totals(&mut session, "main");
        let zero = json(&mut session, "top --bss --json main.json");
        let sum: i64 = zero["top"].as_array().unwrap().iter().map(|r| r["bytes"].as_i64().unwrap()).sum();
        session.check_eq(&Value::from(sum), &zero["bss"], "zero-initialised memory");
    }
}

#[test]
fn totals_are_exact_in_every_form() {
    const FORMS: [(&str, &str); 9] = [
        ("static", "-static"),
        ("library", "-shared"),
        ("relocatable", "-r -nostdlib"),
        ("stripped", "-s"),
        ("compressed", "-Wl,--compress-debug-sections=zlib"),
        ("identified", "-Wl,--build-id=sha1"),
        ("folded", "-Wl,--icf=all -Wl,--gc-sections"),
        ("shadow", "--prune-level=off"),
        ("static-shadow", "-static --prune-level=off"),
    ];
    for linker in [Linker::Lld, Linker::Bfd] {
        let mut session = Session::new(&format!("audit/forms-{}", linker.name()));
        for (name, words) in FORMS {
            if linker == Linker::Bfd && words.contains("icf") {
                continue;
            }
            linked(&mut session, name, "fixtures/audit/main.c", "-g -fPIC", linker, words);
            totals(&mut session, name);
            graph_reaches_what_is_kept(&mut session, name);
            // A byte in two rows would make the rest negative, unless the section is compressed or loses entries.
            let answer = json(&mut session, &format!("top --all --json {name}.json"));
            let rows = answer["top"].as_array().unwrap();
            let negative: Vec<&Value> = rows.iter().filter(|r| r["bytes"].as_i64() < Some(0)).collect();
            let is_debug = |r: &&Value| {
                r["symbol"].as_str().unwrap().starts_with("[compressed, joined or removed in .debug")
            };
            session.check(negative.iter().all(is_debug), &format!("{name}: {negative:?}"));
        }
    }
}

#[test]
fn a_root_for_two_reasons_has_two_edges_in_its_cut() {
    let mut session = Session::new("audit/roots");
    let words = "-shared -Wl,-u,dead";
    linked(&mut session, "library", "fixtures/audit/main.c", "-fPIC", Linker::Lld, words);
    let answer = json(&mut session, "why --json dead library.json");
    let cut = column(&answer, "cut", "reference");
    session.check_eq(&cut, &vec!["root: undefined-option", "root: exported"], "the cut of dead");
    // dead_too is exported, and dead calls it.
    let answer = json(&mut session, "why --json dead_too library.json");
    let cut = column(&answer, "cut", "reference");
    session.check_eq(&cut, &vec!["root: exported", "call"], "the cut of dead_too");
}

#[test]
fn a_link_of_the_originals_is_told_too() {
    let mut session = Session::new("audit/originals");
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "");
    let job = session.job("lto-prune main.d/main.o -o plain --prune-level=off --prune-report=plain.json");
    session.must(&job.env("CC", "gcc").by(Linker::Lld));
    totals(&mut session, "plain");
    let answer = json(&mut session, "top --all --json plain.json");
    session.check(column(&answer, "top", "symbol").contains(&"dead"), "what would go is in the file");
    let answer = json(&mut session, "garbage --json plain.json");
    session.check(column(&answer, "garbage", "symbol").contains(&"dead"), "and is garbage");
    let job = session.job("gcc main.d/main.o -o alone -fuse-ld=lld").arg("-B").arg(session.mkdir("bin"));
    std::os::unix::fs::symlink(Linker::Lld.path(), session.path("bin/ld.lld")).unwrap();
    session.must(&job);
    let read = |name: &str| session.bytes(name);
    session.check(read("plain") == read("alone"), "the same bytes as the linker alone makes");
}

#[test]
fn garbage_duplicates_and_limits() {
    let mut session = Session::new("audit/garbage");
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "");
    let sizes = sizes(&mut session, "main.d/main.o");
    let answer = json(&mut session, "garbage --json main.json");
    let rows = answer["garbage"].as_array().unwrap();
    for name in ["dead", "dead_too"] {
        let row = rows.iter().find(|r| r["symbol"] == name).unwrap_or(&Value::Null);
        session.check_eq(&row["bytes"], &Value::from(sizes[name]), name);
    }
    session.check(rows.iter().all(|r| r["symbol"] != "leaf"), "leaf is no garbage");
    let total: u64 = rows.iter().map(|r| r["bytes"].as_u64().unwrap()).sum();
    session.check_eq(&answer["dropped"], &Value::from(total), "garbage adds up");
    let reasons: u64 =
        answer["reasons"].as_array().unwrap().iter().map(|r| r["bytes"].as_u64().unwrap()).sum();
    session.check_eq(&reasons, &total, "reasons add up");

    let answer = json(&mut session, "duplicates --json main.json");
    let rows = answer["duplicates"].as_array().unwrap();
    let twins = rows.iter().find(|r| r["symbol"] == "twin_one, twin_two").unwrap_or(&Value::Null);
    session.check_eq(&twins["waste"], &Value::from(sizes["twin_one"]), &format!("twins: {rows:?}"));
    session.check_eq(&twins["copies"], &Value::from(2), "twins");
    session.check(rows.iter().all(|r| !r["symbol"].as_str().unwrap().contains("left")), "left has no twin");
    let limits = audit(&mut session, "limits main.json");
    session.check_eq(&limits.status, &0, "limits");
}

#[test]
fn budgets_break() {
    let mut session = Session::new("audit/budget");
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "");
    let length = std::fs::metadata(session.path("main")).unwrap().len();
    session.write(
        "ok.toml",
        format!("total = {length}\n[symbol]\n\"twin_*\" = 100\n[module]\n\"main.o\" = \"10 KiB\"\n"),
    );
    let outcome = audit(&mut session, "budget ok.toml main.json");
    session.check_eq(&outcome.status, &0, &outcome.stdout);
    session.write("bad.toml", format!("total = {}\n[section]\n\".text\" = 1\n\".none*\" = 0\n", length - 1));
    let outcome = audit(&mut session, "budget bad.toml main.json");
    session.check_eq(&outcome.status, &1, &outcome.stdout);
    session.says(&outcome.stdout, "2 limits are broken");
    session.check(!outcome.stdout.contains('\u{1b}'), "no colours in a pipe");
    let outcome = audit(&mut session, "budget --format=markdown bad.toml main.json");
    session.check_eq(&outcome.status, &1, &outcome.stdout);
    session.says(&outcome.stdout, "|---|--:|--:|--:|---|---|\n| OVER | ");
    let outcome = audit(&mut session, "budget --format=sarif bad.toml main.json");
    let sarif: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    session.check_eq(&(outcome.status, results.len()), &(1, 2), &outcome.stdout);
    let section = results.iter().find(|r| r["partialFingerprints"]["limit/v1"] == "section .text");
    let region = &section.unwrap()["locations"][0]["physicalLocation"];
    session.check_eq(&region["region"]["startLine"], &Value::from(3), "the line of .text");
    session.check_eq(&region["artifactLocation"]["uri"], &Value::from("bad.toml"), "the file");

    // A file without its report; once it is stripped, no symbol is known to be absent.
    session.write("file.toml", format!("total = {length}\n[symbol]\nleaf = 1000\nno_such = 0\n"));
    let outcome = audit(&mut session, "budget file.toml main");
    session.check_eq(&outcome.status, &0, &outcome.stdout);
    session.cmd("strip main -o stripped");
    let outcome = audit(&mut session, "budget file.toml stripped");
    let nothing = outcome.stdout.matches("\nNOTHING  ").count();
    session.check_eq(&(outcome.status, nothing), &(1, 2), &outcome.stdout);

    // Limits are lowered, not raised, and the rest of the file stays as it is.
    let budget = |total: &str, text: &str, leaf: &str| {
        format!(
            "# sizes\n[symbol]\nleaf = {leaf} # small\n\"no_such\" = 7\n\n[section]\n  \".text\"   = {text}\n\n[module]\n\
             \"main.o\" = \"1 MiB\"\n# the end\n[category]\n'other*' = 1_000_000\n{total}"
        )
    };
    session.write("ratchet.toml", budget("", "1", "1000000"));
    let outcome = audit(&mut session, "budget --ratchet ratchet.toml main.json");
    session.check_eq(&outcome.status, &1, &outcome.stdout);
    let text = session.text("ratchet.toml");
    let sizes = sizes(&mut session, "main.d/main.o");
    let number = |key: &str| text.split(key).nth(1).unwrap().split('\n').next().unwrap().trim().to_owned();
    session.check_eq(&number("leaf ="), &format!("{} # small", sizes["leaf"]), &text);
    session.check_eq(&number("\".text\"   ="), &"1".to_owned(), "a broken limit is not raised");
    session.check_eq(&number("\"no_such\" ="), &"7".to_owned(), "nor one of nothing changed");
    session.check(!text.contains("MiB") && text.contains("# the end\n[category]\n'other*' = "), &text);
    session.says(&outcome.stdout, "ratchet.toml: symbol leaf is lowered from 1,000,000 to ");
    audit(&mut session, "budget --ratchet ratchet.toml main.json");
    let again = session.text("ratchet.toml");
    session.check_eq(&again, &text, "a second time changes nothing");
    session.write("typo.toml", "totl = 1\n");
    let outcome = audit(&mut session, "budget typo.toml main.json");
    session
        .check(outcome.status == 2 && outcome.stderr.contains("typo.toml: has a key totl"), &outcome.stderr);
}

#[test]
fn straight_from_objects() {
    let mut session = Session::new("audit/objects");
    let dir = session.dir().to_owned();
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "");
    let before = session.listing("");
    let link = |words: &str| {
        let job = Job::new(&dir, tools::lto_prune()).words("audit").words(words);
        job.env("CC", "gcc").by(Linker::Lld)
    };
    let outcome = session.must(&link("top --csv main.d/main.o -lm -o kept"));
    session.check(outcome.stdout.starts_with("bytes,percent,symbol,module\n"), &outcome.stdout);
    session.check(outcome.stdout.lines().any(|l| l.contains(",only_left,main.o")), &outcome.stdout);
    session.check_eq(&session.listing(""), &before, "an audit writes nothing");
    for (words, name) in [("top main.d/main.o -lm -o some/kept", "kept"), ("garbage main.d/main.o", "a.out")]
    {
        let text = session.must(&link(words)).stdout;
        session.check(text.starts_with(name), &text);
    }
    let outcome = session.run(&link("top missing.o"));
    session.check(outcome.status == 2 && outcome.stderr.contains("the link failed"), &outcome.stderr);
}

#[test]
fn bad_reports_are_named() {
    let mut session = Session::new("audit/bad");
    linked(&mut session, "main", "fixtures/audit/main.c", "", Linker::Lld, "");
    let text = session.text("main.json");
    let cases = [
        ("empty.json", String::new(), "is no report of lto-prune"),
        ("other.json", "{}".to_owned(), "is no report of lto-prune"),
        (
            "old.json",
            text.replacen("\"schema\": 2", "\"schema\": 1", 1),
            "is a report of schema 1, and this version reads 2",
        ),
        ("cut.json", text[..text.len() / 2].to_owned(), "cut.json"),
        ("target.json", text.replacen("\"target\": [", "\"target\": [999999,", 1), "is a damaged report"),
        ("sum.json", text.replacen("\"size\": ", "\"size\": 9", 1), ""),
    ];
    for (name, text, expected) in cases {
        session.write(name, text);
        for command in
            "top|dominators|why main|paths main main|reach main|garbage|duplicates|limits|calls|imports|\
                html"
                .split('|')
        {
            let outcome = audit(&mut session, &format!("{command} {name}"));
            let named =
                outcome.status == 2 && outcome.stderr.contains(expected) && outcome.stderr.contains(name);
            session.check(named || name == "sum.json", &format!("{command} {name}: {}", outcome.stderr));
            session.check(!outcome.stderr.contains("panicked"), &outcome.stderr);
        }
    }
    let outcome = audit(&mut session, "top missing.json");
    session.says(&outcome.stderr, "missing.json: cannot read the report");
    let outcome = audit(&mut session, "why shred main.json");
    session.says(&outcome.stderr, "no module in the link defines shred");
    let outcome = audit(&mut session, "why share main.json");
    session.says(&outcome.stderr, "; there is shared");
    for command in
        "|top|dominators|why|paths|reach|garbage|duplicates|limits|calls|graph|imports|diff|budget|\
            stack|html"
            .split('|')
    {
        let help = audit(&mut session, &format!("{command} --help")).stdout;
        session.check(help.contains("Usage: lto-prune audit") && help.contains("--json"), &help);
        session.check(help.lines().all(|l| l.len() <= 120), &help);
    }
}
