//! The gate of the level `pointers`: whether functions are followed at all, and which.

use serde_json::Value;

use crate::run::Session;

const FILES: &str = include_str!("programs/gate.txt");

/// No code calls the member of the table that holds `rare`. If `dead` were live, values would not be analysed.
const MAIN: &str = include_str!("programs/gate_main.c");

fn stubs(session: &mut Session, options: &str) -> (u64, Value) {
    let job = session.job("gcc -O0 main.c -B shims -o main -Wl,--prune-level=pointers -Wl,--prune-strict");
    session.must(&job.words("-Wl,--gc-sections -Wl,--prune-report=report.json").words(options));
    session.cmd("./main");
    let report: Value = serde_json::from_slice(&session.bytes("report.json")).unwrap();
    (report["functions"]["stubs"].as_u64().unwrap(), report)
}

#[test]
fn dead_functions_are_not_followed() {
    let mut session = Session::new("gate/dead");
    session.write("main.c", MAIN);
    session.shims();
    let (count, report) = stubs(&mut session, "");
    session.check_eq(&count, &1, "stubs");
    session.check_eq(&report["value_flow"].is_null(), &false, "followed");
    // Alive it maps memory at a place of its own choice.
    let (count, _) = stubs(&mut session, "-Wl,-u,dead");
    session.check_eq(&count, &0, "stubs beside a call of mmap");
}

#[test]
fn data_that_maps_memory_ends_the_analysis_first() {
    let mut session = Session::new("gate/data");
    session.files(FILES, "data_that_maps_memory_ends_the_analysis_first");
    session.shims();
    for (options, followed) in [("", true), ("-Wl,-u,map", false)] {
        let (count, report) = stubs(&mut session, &format!("table.c -fdata-sections {options}"));
        session.check_eq(&(count == 1), &followed, &format!("a stub with {options}"));
        let limits = report["limits"].as_array().unwrap();
        let is_noted = |limit: &Value| limit["detail"].as_str().unwrap().starts_with("data in section");
        session.check_eq(&limits.iter().any(is_noted), &!followed, "the data is named, and no function");
    }
}

/// An object whose debug information can't be read is kept whole, with functions that were dead when functions were followed.
#[test]
fn what_lives_later_turns_value_flow_off() {
    let mut session = Session::new("gate/later");
    session.write("main.c", MAIN);
    session.shims();
    let unit = |length: u32| {
        format!(
            ".text\n.globl kept, idle\n.type kept, @function\nkept: .cfi_startproc\nret\n.cfi_endproc\n.size kept, .-kept\n\
             .type idle, @function\nidle: .cfi_startproc\nnop\nret\n.cfi_endproc\n.size idle, .-idle\n\
             .section .debug_abbrev,\"\",@progbits\n.byte 1, 0x11, 0, 0x11, 1, 0x12, 7, 0, 0, 0\n\
             .section .debug_info,\"\",@progbits\n.long {length}\n.value 4\n.long .debug_abbrev\n.byte 8, 1\n.quad .text\n.quad 3\n"
        )
    };
    for (length, followed) in [(24, true), (0x1000, false)] {
        session.write("unit.s", unit(length));
        session.cmd("gcc -c unit.s");
        let (count, report) = stubs(&mut session, "unit.o -Wl,-u,kept");
        session.check_eq(&(count == 1), &followed, &format!("a stub beside a unit of {length} bytes"));
        session.check_eq(&report["value_flow"].is_null(), &!followed, "value flow");
    }
}

#[test]
fn values_are_not_analysed_below_the_gate() {
    let mut session = Session::new("gate/percent");
    session.write("main.c", MAIN);
    session.shims();
    let (_, report) = stubs(&mut session, "-Wl,--prune-gate=0");
    let code = &report["live_code"];
    let (live, candidates) = (code["live"].as_u64().unwrap(), code["by_mentions"].as_u64().unwrap());
    session.check(candidates > 0 && candidates < live, "some code lives by calls, some by mentions");
    let percent = candidates * 100 / live;
    for (gate, followed) in [(percent, true), (percent + 1, false)] {
        let (count, report) = stubs(&mut session, &format!("-Wl,--prune-gate={gate}"));
        session.check_eq(&(count == 1), &followed, &format!("a stub at {gate} of {percent} per cent"));
        session.check_eq(&report["value_flow"].is_null(), &!followed, "value flow");
    }
}

/// Without an option for the level, functions are analysed within a budget of live code; with the option, there is no budget.
#[test]
fn small_links_are_followed_by_default() {
    let mut session = Session::new("gate/budget");
    session.write("main.c", MAIN);
    session.shims();
    let stubs = |session: &mut Session, options: &str| {
        let job = session.job("gcc -O0 main.c -B shims -o main -Wl,--prune-strict -Wl,--gc-sections");
        session.must(&job.words("-Wl,--prune-report=report.json").words(options));
        session.cmd("./main");
        let report = session.bytes("report.json");
        let report: Value = serde_json::from_slice(&report).unwrap();
        (report["functions"]["stubs"].as_u64().unwrap(), report["live_code"]["live"].as_u64().unwrap())
    };
    let (count, live) = stubs(&mut session, "");
    session.check_eq(&count, &1, "stubs by default");
    for (options, expected) in [
        (format!("-Wl,--prune-budget={live}"), 1),
        (format!("-Wl,--prune-budget={}", live - 1), 0),
        (format!("-Wl,--prune-budget={} -Wl,--prune-level=pointers", live - 1), 0),
        ("-Wl,--prune-level=functions".to_owned(), 0),
    ] {
        let (count, _) = stubs(&mut session, &options);
        session.check_eq(&count, &expected, &options);
    }
    session.write("large.c", "#define R(x) x x x x x x x x\nvoid large(void) { R(R(R(__asm__ volatile(\"movl $1, %%eax\" ::: \"eax\"); R(__asm__ volatile(\"movl $1, %%eax\" ::: \"eax\");)))) }\n");
    for (options, expected) in [("", 0), ("-Wl,--prune-level=pointers", 1)] {
        let (count, _) = stubs(&mut session, &format!("large.c -Wl,-u,large -Wl,--prune-gate=0 {options}"));
        session.check_eq(&count, &expected, options);
    }
}

#[test]
fn stats_say_what_exports_keep() {
    let mut session = Session::new("gate/exports");
    session.write("main.c", "int api(int x) { return x * 3; }\nint main(void) { return 0; }\n");
    session.shims();
    for (option, is_kept) in [("", false), ("-rdynamic", true)] {
        let job = session.job("gcc -O1 main.c -B shims -o main -Wl,--prune-stats=full").words(option);
        let outcome = session.must(&job);
        let said = outcome.stderr + &outcome.stdout;
        session.check_eq(
            &said.contains("bytes of code only because the output exports it; link without -rdynamic"),
            &is_kept,
            &said,
        );
    }
}

/// A link in which addresses are not analysed says why, and only such a link.
#[test]
fn stats_say_why_addresses_were_not_analysed() {
    let mut session = Session::new("gate/levels");
    session.write("main.c", MAIN);
    session.shims();
    for (options, says) in [
        ("-ffunction-sections -Wl,--prune-level=functions", Some("--prune-level=functions does not analyse")),
        ("-Wl,--prune-budget=8", Some("more than the 8 that --prune-budget allows; link with a larger")),
        ("-Wl,--prune-level=sections", Some("--prune-level=sections does not analyse addresses")),
        ("", None),
        ("-Wl,--prune-level=pointers", None),
        ("-Wl,--prune-level=pointers,--prune-gate=100", Some("less than --prune-gate=100%")),
        ("-Wl,--prune-level=pointers,-u,dead", Some("(fixed-mapping); call mmap without MAP_FIXED")),
    ] {
        let job = session.job("gcc -O0 -nostartfiles -Wl,-e,main main.c -B shims -o main");
        let outcome = session.must(&job.words("-Wl,--prune-stats=full").words(options));
        let said = outcome.stderr + &outcome.stdout;
        let line = said.lines().find(|l| l.starts_with("addresses were not analysed: "));
        session.check_eq(&line.is_some(), &says.is_some(), &format!("{options}: {said}"));
        session.check(
            says.is_none_or(|text| line.unwrap_or_default().contains(text)),
            &format!("{options}: {said}"),
        );
        let sums: Vec<&str> = said.lines().filter(|l| l.starts_with("code and data")).collect();
        session.check_eq(&sums.len(), &1, &said);
    }
}
