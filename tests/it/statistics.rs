//! `--prune-stats` and the messages of links that are not pruned: each number and each verb is true.

use serde_json::Value;

use crate::run::Session;
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/statistics.txt");

fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("statistics/{name}"));
    session.files(FILES, "prepare");
    session.shims();
    session.cmd("gcc -O1 -c main.c");
    session
}

/// Link main.o; what we print, and the report.
fn link(session: &mut Session, words: &str) -> (String, Value) {
    let job = session.job("gcc -B shims main.o -o out -Wl,--prune-report=report.json").words(words);
    let outcome = session.must(&job.by(Linker::Lld));
    let report = session.report("report.json");
    (outcome.stderr + &outcome.stdout, report)
}

/// The loaded bytes of a file, as `size` adds them up, without the bytes with which lld fills a page.
fn size(session: &mut Session, file: &str) -> u64 {
    let text = session.must(&session.job("size").arg("-A").arg(file)).stdout;
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // A section that is not loaded has the address 0.
    let loaded =
        rows.filter(|row| row.len() == 3 && row[0] != ".relro_padding" && !matches!(row[2], "0" | "addr"));
    loaded.map(|row| row[1].parse::<u64>().unwrap()).sum()
}

fn separated(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap()).collect();
    groups.join(",")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

/// The line that says how many bytes of unwind entries could be removed.
fn of_unwind(report: &Value) -> String {
    let bytes = number(&report["unwind"]["bytes"]);
    format!("more: {bytes} bytes of unwind entries that nothing needs; link with --prune-unwind=unused\n")
}

#[test]
fn three_lines_with_numbers_that_hold() {
    let mut session = prepare("lines");
    let (said, report) = link(&mut session, "-rdynamic -Wl,--prune-stats -Wl,--prune-level=functions");
    let output = size(&mut session, "out");
    session.check_eq(&number(&report["loaded"]["output"]), &output, "the loaded bytes are those of size");
    let removed = number(&report["loaded"]["removed"]);
    let taken = |report: &Value| {
        let code = &report["live_code"];
        number(&code["by_mentions"]) - number(&code["start_file_mentions"])
    };
    let exports = number(&report["live_code"]["by_exports"]);
    session.check(removed == 0 && exports > taken(&report) && taken(&report) > 0, &said);
    let not_analysed = "link with --prune-level=pointers";
    let expected = format!(
        "lto-prune: out: {} bytes loaded, as many as without pruning\n  \
         not pruned: nothing can be removed\n  \
         {}",
        separated(output),
        of_unwind(&report)
    );
    session.check_eq(&said, &expected, "with -rdynamic");

    let (said, report) = link(&mut session, "-Wl,--prune-stats -Wl,--prune-level=functions");
    let (output, taken) = (size(&mut session, "out"), taken(&report));
    let removed = number(&report["loaded"]["removed"]);
    let plain = output + removed;
    let expected = format!(
        "lto-prune: out: {} bytes loaded, about {} without pruning (-{:.1}%)\n  \
         kept: at most {taken} bytes of code only because its address is taken; {not_analysed}\n  \
         {}",
        separated(output),
        separated(plain),
        removed as f64 * 100.0 / plain as f64,
        of_unwind(&report)
    );
    session.check_eq(&said, &expected, "pruned");
    // The estimate is near to a link without us.
    tools::shim_dir(&session.path("plain-shims"), &Linker::Lld.path());
    session.cmd("gcc -B plain-shims main.o -o plain");
    let difference = size(&mut session, "plain").abs_diff(plain);
    session.check(difference <= 32, &format!("the estimate is {difference} bytes away"));

    let (said, report) = link(&mut session, "-Wl,--prune-stats -Wl,--prune-level=off:functions");
    let output = size(&mut session, "out");
    session.check_eq(&report["pruned"], &false.into(), "off");
    let lines: Vec<&str> = said.lines().collect();
    let first = format!(
        "lto-prune: out: {} bytes loaded, about {} if pruned",
        separated(output),
        separated(output - removed)
    );
    session.check(lines.len() == 3 && lines[0].starts_with(&first), &said);
    session.check_eq(&lines[1], &"  not pruned: --prune-level=off; link without --prune-level=off", &said);
}

#[test]
fn the_table_has_separators_and_no_start_files() {
    let mut session = prepare("table");
    session.write("large.c", "char large[1234567] = {1};\nint unused(int x) { return x + large[x]; }\n");
    session.cmd("gcc -O1 -c large.c");
    let (said, report) = link(&mut session, "large.o -Wl,--prune-stats=full");
    session.check(said.contains(" -1,234,567\n") || said.contains("1,234,5"), &said);
    session.check(!said.contains("crtbegin"), &said);
    session.check(!said.contains("1234567"), &said);
    let limits = report["limits"].as_array().unwrap();
    let of_start_files = limits.iter().find(|l| l["limit"] == "unsized-symbol");
    let count = of_start_files.map(|l| (l["count"].clone(), l["start_files"].clone()));
    session.check(count.is_some_and(|(all, start)| all == start && all != 0), &said);
    let text = session.cmd("lto-prune audit limits report.json").stdout;
    session.check(!text.contains("crtbegin"), &text);
}

/// Messages of a link that is not pruned never say "dropped".
#[test]
fn messages_of_unpruned_links_never_say_dropped() {
    let mut session = prepare("unpruned");
    session
        .write("script.ld", "SECTIONS { .text : { *(.text*) } .data : { *(.data*) } .bss : { *(.bss*) } }\n");
    for (words, reason) in [
        ("-Wl,--emit-relocs", "--emit-relocs (relocatable-output)"),
        ("-nostdlib -static -Wl,-e,main,-T,script.ld", "a -T script with SECTIONS (script-without-gc)"),
        ("-Wl,--prune-level=off", "--prune-level=off"),
        ("-Wl,--trace", "--trace (linker-message)"),
        ("-Wl,--print-archive-stats=-", "--print-archive-stats"),
    ] {
        let all = format!("{words} -Wl,--prune-why=dead -Wl,--prune-remarks=remarks.yaml -Wl,--prune-stats");
        let (said, report) = link(&mut session, &all);
        session.check_eq(&report["pruned"], &false.into(), words);
        let line = said.lines().find(|l| l.starts_with("dead in ")).unwrap_or_default();
        let would = line.contains(": would be dropped, no live atom refers to it; not pruned: ");
        session.check(would && line.contains(reason), &format!("{words}: {said}"));
        let not_pruned = said.lines().find(|l| l.starts_with("  not pruned: ")).unwrap_or_default();
        session.check(not_pruned.contains(reason) && not_pruned.contains("; "), &format!("{words}: {said}"));
        let remarks = session.text("remarks.yaml");
        session.check(!remarks.contains("!Passed") && remarks.contains("Reason:"), &remarks);
        for command in ["why dead", "garbage", "top"] {
            let text = session.cmd(&format!("lto-prune audit {command} report.json")).stdout;
            session.check(
                text.contains("not pruned: ") && !text.contains(", dropped:"),
                &format!("{words} {command}: {text}"),
            );
            session.check(!text.contains("were dropped"), &text);
        }
    }
}

/// Code that the linker's own `--gc-sections` removes is in no number, also if its module is kept whole.
#[test]
fn what_the_linker_removes_is_kept_by_no_limit() {
    let mut session = prepare("linker-gc");
    let source = "__attribute__((noipa)) int one(int x) { return x * 3; }\n\
        __attribute__((section(\".text.big\"))) int big(volatile int *p) { *p += 1; *p += 1; *p += 1; return *p; }\n\
        int main(int c, char **v) { return one(c) - 3 * c; }\n";
    session.write("main.c", source);
    session.cmd("gcc -O1 -c main.c");
    let level = "-Wl,--prune-stats -Wl,--prune-level=functions -Wl,--prune-worth=100000";
    let (said, report) = link(&mut session, &format!("{level} -Wl,--gc-sections"));
    let code = &report["live_code"];
    session.check(said.contains("the linker's own --gc-sections removes as much"), &said);
    session.check(said.contains("more: no option removes more") && code["by_limits"] == 0, &said);
    let (said, collected) = link(&mut session, level);
    session.check_eq(&code["live"], &collected["live_code"]["live"], &said);
}

/// A link by -r is not told to export less.
#[test]
fn relocatable_output_has_its_own_action() {
    let mut session = prepare("relocatable");
    let (said, _) = link(&mut session, "-r -nostdlib -Wl,--prune-stats");
    session.check(
        said.contains("not pruned: -r (relocatable-output); prune the link that takes this output"),
        &said,
    );
    session.check(!said.contains("-rdynamic"), &said);
}

/// `audit calls` says why it has nothing to say.
#[test]
fn calls_that_were_not_analysed_have_a_reason() {
    let mut session = prepare("calls");
    for (words, reason) in [
        (
            "-Wl,--prune-level=functions",
            "--prune-level=functions does not analyse addresses; link with --prune-level=pointers",
        ),
        ("-Wl,--prune-budget=8", "that --prune-budget allows; link with a larger --prune-budget"),
        ("-Wl,--prune-gate=100", "less than --prune-gate=100%; link with --prune-gate=0"),
    ] {
        link(&mut session, words);
        let text = session.cmd("lto-prune audit calls report.json").stdout;
        session.check(text.contains(reason), &format!("{words}: {text}"));
    }
    let (_, report) = link(&mut session, "-Wl,--prune-gate=0");
    session.check(report["not_analysed"].is_null() && !report["value_flow"].is_null(), "analysed");
}

/// The answer of `--prune-why` for a function of an object, and whether the function is live.
fn why(session: &mut Session, source: &str, options: &str, name: &str) -> (String, bool) {
    session.write("tie.c", source);
    session.must(&session.job("gcc -c tie.c -o tie.o").words(options));
    let words = format!(
        "-B shims tie.o -o tie -Wl,--prune-strict -Wl,--prune-why={name} -Wl,--prune-report=tie.json"
    );
    let outcome = session.must(&session.job("gcc").words(&words).by(Linker::Lld));
    let report = session.report("tie.json");
    let symbols = report["symbols"].as_array().unwrap();
    let is_live = symbols.iter().any(|s| s["name"] == name && s["live"] == true);
    (outcome.stdout, is_live)
}

const TABLE: &str = "typedef int (*fn)(int); static int f1(int x) { return x + 1; } fn table[] = {f1};\n\
    int dead(int x) { return x + 77; } int main(int c, char **v) { return table[0](c); }\n";

/// A function is tied to another one only if an address may mean it, and the tie is reported.
#[test]
fn ties_are_limits() {
    let mut session = prepare("ties");
    // Every address of a global function in data has its name.
    let (said, live) = why(&mut session, TABLE, "-O1", "dead");
    session.check(!live && said.contains("dead in tie.o: dropped"), &said);
    // A local alias is referred to without a name.
    let alias = format!("{TABLE}static int local(int) __attribute__((alias(\"dead\"), used));\n");
    let (said, live) = why(&mut session, &alias, "-O1", "dead");
    session.check(live && said.contains("f1 and dead stay together: the address 0x0 has no name"), &said);
    session.check(said.contains("(doubtful-address); compile with -ffunction-sections"), &said);
    // The table holds the address of a local function less a tag.
    let tagged = "typedef int (*fn)(int); __attribute__((noipa)) static int f1(int x) { return x + 1; }\n\
        __attribute__((noipa)) static int f2(int x) { return x + 77; } char *table[] = {(char *)f2 - 4};\n\
        int main(int c, char **v) { return c > 7 ? f1(c) : ((fn)(table[0] + 4))(c) - c - 77; }\n";
    let (said, live) = why(&mut session, tagged, "-O1", "f2");
    session.check(live && said.contains("f1 and f2 stay together"), &said);
    session.cmd("./tie");
    // One reference without a name, and a function that nothing refers to.
    let unnamed = "typedef int (*F)(int); static int f1(int x) { return x + 1; } static int f2(int x) { return x + 2; }\n\
        static int f3(int x) { return x + 3; } static F g = f1;\n\
        int main(int c, char **v) { if (c > 1) g = f2; if (0) g = f3; return g(c) - c - 1; }\n";
    let (said, live) = why(&mut session, unnamed, "-O0", "f3");
    session.check(
        live && said.contains("stay together: the address") && said.contains("(doubtful-address)"),
        &said,
    );
    let text = session.cmd("lto-prune audit limits tie.json").stdout;
    session.check(text.contains("doubtful-address"), &text);
    let split = session.cmd("lto-prune split tie.o -o split.o");
    let text = split.stdout + &split.stderr;
    session.check(text.contains("doubtful-address") && !text.contains("(100.0%)"), &text);
    // A global one ends the doubt.
    let (said, live) = why(&mut session, &unnamed.replace("static int f3", "int f3"), "-O0", "f3");
    session.check(!live, &said);
    // Assembly that falls through.
    let falls = "__asm__(\".globl upper\\n.type upper,@function\\nupper: nop\\n.size upper,.-upper\\n\
        .globl lower\\n.type lower,@function\\nlower: ret\\n.size lower,.-lower\\n\");\n\
        void lower(void); int main(void) { lower(); return 0; }\n";
    let (said, live) = why(&mut session, falls, "-O1", "upper");
    session.check(live && said.contains("upper and lower stay together: a short branch"), &said);
    session.check(said.contains("(joined-functions)"), &said);
}
