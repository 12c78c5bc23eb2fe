//! `lto-prune audit stack`: frames are those that gcc says (`-fstack-usage`), and each cause without which there would be a bound is named.

use serde_json::Value;

use crate::audit::{audit, json};
use crate::run::{Job, Session};
use crate::texts::blocks;

const SOURCE: &str = include_str!("programs/audit_stack_source.c");

const FUNCTIONS: &str =
    "leaf large variable allocated aligned again ping pong through tail chosen many pushes main";

/// The only row of the table of entries, and the names of the causes.
fn stack(session: &mut Session, words: &str) -> (Value, Vec<String>) {
    let answer = json(session, &format!("stack --json {words}"));
    let causes = answer["causes"].as_array().unwrap();
    let causes = causes.iter().map(|c| c["cause"].as_str().unwrap().to_owned()).collect();
    (answer["entries"][0].clone(), causes)
}

/// The depth of a function without that of its callees.
fn own(session: &mut Session, file: &str, function: &str) -> u64 {
    let others = FUNCTIONS.split(' ').filter(|f| *f != function);
    let assumed: Vec<String> = others.map(|f| format!("--assume={f}=0")).collect();
    stack(session, &format!("{} {file} {function}", assumed.join(" "))).0["at_least"].as_u64().unwrap()
}

#[test]
fn frames_are_those_of_the_compiler() {
    let mut session = Session::new("audit_stack/frames");
    session.write("a.c", SOURCE);
    let variants = [
        "-O0",
        "-O2",
        "-O2 -fno-omit-frame-pointer",
        "-O2 -fno-asynchronous-unwind-tables",
        "-O0 -fno-asynchronous-unwind-tables",
        "-O2 -fstack-clash-protection",
    ];
    for flags in variants {
        session.cmd(&format!("gcc {flags} -fstack-usage -c a.c -o a.o"));
        session.cmd("gcc a.o -o a");
        let usage = session.text("a.su");
        let mut compared = 0;
        for line in usage.lines() {
            let [place, bytes, kind] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            let (name, bytes) = (place.rsplit(':').next().unwrap(), bytes.parse::<u64>().unwrap());
            let ours = own(&mut session, "a", name);
            let what = format!("{name} with {flags}");
            match (name, kind) {
                // The alignment is at an unknown distance, and gcc counts the least amount of an allocation.
                ("aligned", _) => session.check(bytes <= ours && ours <= bytes + 32, &what),
                // A loop that probes an array of variable length has gone round.
                (_, "dynamic") if flags.contains("clash") => session.check(bytes <= ours, &what),
                (_, "dynamic") => session.check(ours <= bytes, &what),
                // A leaf has its variables in the red zone below the stack pointer.
                ("leaf", _) => session.check(bytes <= ours && ours <= bytes + 16, &what),
                _ => session.check_eq(&ours, &bytes, &what),
            }
            compared += 1;
        }
        session.check_eq(&compared, &FUNCTIONS.split(' ').count(), flags);
    }
}

#[test]
fn causes_are_named_and_can_be_cut() {
    let mut session = Session::new("audit_stack/causes");
    session.write("a.c", SOURCE);
    for compiler in ["gcc", "clang-19"] {
        session.cmd(&format!("{compiler} -O2 a.c -o a"));
        let cases = [
            ("variable", "dynamic frame"),
            ("allocated", "dynamic frame"),
            ("again", "recursion"),
            ("ping", "recursion"),
            ("through", "indirect call"),
        ];
        for (function, cause) in cases {
            let (row, causes) = stack(&mut session, &format!("a {function}"));
            session.check_eq(&causes, &vec![cause.to_owned()], function);
            session.check_eq(&row["bound"], &Value::Null, function);
        }
        let (row, _) = stack(&mut session, "a chosen");
        session.check(row["bound"].as_u64().is_some_and(|b| (65_536..66_000).contains(&b)), "a switch");
        let large = stack(&mut session, "a large").0["bound"].clone();
        let tail = stack(&mut session, "a tail").0["bound"].clone();
        session.check_eq(&tail, &large, "a tail call");
        let cut = "--assume=variable=100 --assume=allocated=100 --assume=again=1000 --assume=p[io]ng=500";
        let (row, causes) =
            stack(&mut session, &format!("{cut} --call=through=leaf --call=through=large a main"));
        session.check_eq(&causes, &Vec::new(), "all causes are cut");
        session.check(row["bound"].as_u64() > large.as_u64(), "main has a bound");
        let (row, _) = stack(&mut session, &format!("{cut} --assume=through=1000000 a main"));
        session.check(row["bound"].as_u64() > Some(1_000_000), "an assumption counts");
    }
}

#[test]
fn budgets_and_mistakes() {
    let mut session = Session::new("audit_stack/budgets");
    session.write("a.c", SOURCE);
    session.cmd("gcc -O2 a.c -o a");
    session.cmd("gcc -O2 -c a.c -o a.o");
    session.cmd("strip a -o stripped");
    let cases = [
        ("leaf = 64\nchosen = \"80 KiB\"\n", 0, "within the budget"),
        ("chosen = 60000\n", 1, "OVER"),
        ("ping = \"1 MiB\"\n", 1, "UNBOUNDED"),
        ("nothing = 5\n", 1, "NOTHING"),
        ("leaf = -1\n", 2, "is no size"),
    ];
    for (limits, code, says) in cases {
        session.write("b.toml", format!("[stack]\n{limits}"));
        let done = audit(&mut session, "budget b.toml a");
        session.check_eq(&done.status, &code, limits);
        session.check(format!("{}{}", done.stdout, done.stderr).contains(says), &format!("{limits}: {says}"));
    }
    let mistakes = [
        ("stack a nothing", "has no function nothing"),
        ("stack --assume=x a main", "--assume takes FUNCTION=BYTES, not x"),
        ("stack --call=x a main", "--call takes CALLER=CALLEE, not x"),
    ];
    for (words, says) in mistakes {
        let done = audit(&mut session, words);
        session.check_eq(&done.status, &2, words);
        session.check(done.stderr.contains(says), &format!("{words}: {}", done.stderr));
    }
    let done = audit(&mut session, "stack a.o");
    session.check(done.status != 0 && done.stderr.contains("is an object"), &done.stderr);
    // Without symbols functions are those of the unwind tables, and main is passed to the C library.
    let answer = json(&mut session, "stack --json stripped");
    session.check_eq(&answer["entries"][0]["what"], &Value::from("main"), "main of a stripped program");
}

/// A frame of 20,000 bytes, and a function that takes little.
const BIG: &str = include_str!("programs/audit_stack_big.c");

#[test]
fn no_bound_is_less_than_a_run_takes() {
    let mut session = Session::new("audit_stack/deep");
    let dir = session.dir().to_owned();
    let check = |session: &mut Session, compiler: &str, words: &str, what: &str| {
        session.must(&Job::new(&dir, compiler).words(words));
        let (row, causes) = stack(session, "a work");
        let is_true = match row["bound"].as_u64() {
            Some(bound) => bound >= 20_000,
            None => !causes.is_empty(),
        };
        session.check(is_true, &format!("{what}: {row} {causes:?}"));
    };
    for case in blocks(include_str!("programs/audit_stack_deep.txt")) {
        session.write("a.c", format!("{BIG}{}\nint main(int c, char **v) {{ work(0); }}\n", case.text));
        let (compiler, flags) = case.words.split_once(' ').unwrap();
        // `work` has a name without a static symbol table.
        check(&mut session, compiler, &format!("-w -rdynamic {flags} a.c -o a"), &case.text);
    }
    // A circle of more tail calls than are searched.
    let mut source = BIG.to_owned();
    for n in 0..2100 {
        source += &format!("void f{n}(long);\n");
    }
    for n in 0..2100 {
        let deep = if n == 2099 { "big(a);" } else { "" };
        let next = (n + 1) % 2100;
        source += &format!(
            "void f{n}(long a) {{ static volatile int x; x = {n}; {deep} if (a < 5000) f{next}(a + 1); }}\n"
        );
    }
    session.write("a.c", source + "void work(long a) { f0(a); }\nint main() { work(0); }\n");
    check(&mut session, "gcc", "-w -O1 -foptimize-sibling-calls a.c -o a", "a circle of tail calls");
    // Stubs that are thunks.
    session.write("a.c", "void imp(long); void work(long a) { imp(a + 1); } int main() { work(0); }");
    session.write("b.c", format!("{BIG}void imp(long a) {{ big(a); ASM(\"\"); }}"));
    session.cmd("gcc -O2 -shared -fPIC b.c -o libb.so");
    for flags in ["-Wl,-z,retpolineplt", "-Wl,-z,retpolineplt,-z,now"] {
        let words = format!("-O2 -fuse-ld=lld {flags} a.c libb.so -o a");
        check(&mut session, "clang-19", &words, flags);
    }
}
