//! Names that would control a terminal: no command prints one as it is.

use std::fs;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// ESC and a title by OSC with BEL, a line end, the C1 form of CSI, an override of the direction, DEL: each with a function of that name.
const NAMES: [&str; 6] =
    ["esc\x1b[31m", "osc\x1b]0;title\x07", "two\nlines", "c1\u{9b}2J", "bidi\u{202e}gnp", "del\x7f\u{2066}"];
/// A name that an assembler takes, with as many bytes as the hostile one of this number.
fn plain(number: usize) -> String {
    format!("n{number}{}", "A".repeat(NAMES[number].len() - 2))
}

fn is_control(c: char) -> bool {
    c != '\n' && c.is_control() || ('\u{2028}'..='\u{206f}').contains(&c)
}

/// The object with each plain name replaced by a hostile one of as many bytes.
fn rename(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (number, name) in NAMES.iter().enumerate() {
        let plain = plain(number);
        while let Some(at) = bytes.windows(plain.len()).position(|w| w == plain.as_bytes()) {
            bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
    }
    bytes
}

/// Symbols, sections and files of these names, alive and dead, in each answer of each command.
#[test]
fn no_name_reaches_the_terminal() {
    let mut session = Session::new("hostile_names");
    let dir = session.dir().to_owned();
    let names: Vec<String> = (0..NAMES.len()).map(plain).collect();
    let callees: String = names
        .iter()
        .map(|name| {
            format!(
                "__attribute__((noinline)) int {name}(int x) {{ __asm__(\"\"); return x * {}; }}\n",
                name.len()
            )
        })
        .collect();
    let dead: String =
        names.iter().map(|name| format!("int {name}_dead(int x) {{ return {name}(x); }}\n")).collect();
    let calls: Vec<String> = names.iter().map(|name| format!("{name}(c)")).collect();
    let main = format!(
        "int undefined(void) __attribute__((weak));\n{callees}{dead}int main(int c, char **v) {{ return v == 0 ? {} : 0; }}\n",
        calls.join(" + ")
    );
    session.write("main.c", main);
    session.cmd("gcc -O1 -ffunction-sections -c main.c");
    let object = rename(&session.bytes("main.o"));
    let hostile_file = "file\x1b[31m\u{202e}.o";
    session.write("main.o", &object);
    session.write(hostile_file, &object);
    session.cmd("ar rcs all.a main.o");
    session.shims();
    let link = |words: &str, file: &str| {
        Job::new(&dir, "gcc").words("-B shims -o out").arg(file).words(words).by(Linker::Lld)
    };
    let report =
        "-Wl,--prune-no-cache,--prune-report=report.json,--prune-remarks=remarks.yaml,--prune-log=log.jsonl";
    let mut jobs = vec![
        link(&format!("{report} -Wl,--prune-why=*,--prune-stats"), hostile_file),
        link("-Wl,--prune-no-cache,--prune-keep=none -Wl,--prune-emit=/dev/null/x", hostile_file),
        link("-Wl,--prune-strict,--prune-no-cache,--prune-level=sections,--prune-cache=/dev/null", "all.a"),
    ];
    let tool = |words: &str| Job::new(&dir, tools::lto_prune()).words(words);
    for format in ["table", "json", "csv", "markdown"] {
        for command in
            "top|garbage|duplicates|limits|calls|imports|dominators|why main|paths main main|reach *|\
                graph|diff report.json"
                .split('|')
        {
            let (name, words) = command.split_once(' ').unwrap_or((command, ""));
            jobs.push(tool(&format!("audit {name} --format={format} {words} report.json")));
        }
    }
    jobs.push(tool("audit graph --format=dot report.json"));
    jobs.push(tool("audit graph --format=folded report.json"));
    for format in ["openvex", "cyclonedx"] {
        jobs.push(tool(&format!(
            "audit reach --format={format} --vulnerability=V --product=P * report.json"
        )));
    }
    jobs.push(tool("audit html report.json"));
    jobs.push(tool("dump main.o"));
    jobs.push(tool("dump").arg(hostile_file));
    jobs.push(tool("dump all.a"));
    jobs.push(tool("dump").arg("missing\x1b]0;x\x07\n.o"));
    jobs.push(tool("split main.o -o divided.o"));
    jobs.push(tool("split").arg(hostile_file).words("-o divided.o"));
    jobs.push(tool("summarize").arg("missing\x1b[31m.o").words("-o x"));
    jobs.push(tool("emit --plan=none").arg("missing\x1b[31m.o").words("-o x"));
    jobs.push(tool("explain-trap out 0"));
    jobs.push(tool("bisect --").arg("\x1b[31mfalse"));
    let mut found = 0;
    for job in &jobs {
        let outcome = session.run(job);
        let files = ["remarks.yaml", "log.jsonl"]
            .map(|name| fs::read_to_string(session.path(name)).unwrap_or_default());
        for text in [&outcome.stdout, &outcome.stderr, &files[0], &files[1]] {
            found += usize::from(text.contains("esc\\u{1b}") || text.contains("esc\\u001b"));
            let ours = text.lines().filter(|line| line.starts_with("lines")).count();
            session.check_eq(&ours, &0, "a name ends a line");
            if let Some(at) = text.find(is_control) {
                let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
                session.fail(&format!("{:?}", text[start..].chars().take(120).collect::<String>()));
            }
        }
    }
    session.check(found >= 8, &format!("the names are in {found} texts"));
}
