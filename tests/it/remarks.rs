//! Remarks about dead functions, compared with LLVM's own thin link of the same sources (fixtures/tu): its index has two live functions and a dead
//! one, and its remark has the same fields.
//!
//! LLVM writes this remark (`LTO::linkRegularLTO`) only for a module of the combined module. So the module with the dead function is compiled with
//! `-flto=full`, and joins the thin link.

use serde_json::Value;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

/// Links fixtures/tu, compiled with these options, through the tool. The session has `out`, `report.json` and `remarks.yaml`.
fn link(name: &str, compiler: &str, flags: &str, linker: Linker) -> Session {
    let mut session = Session::new(name);
    let dir = session.dir().to_owned();
    let fixture = tools::repository().join("fixtures/tu");
    for source in ["tu1", "tu2"] {
        let job = session.job(&format!("{compiler} -O2 -ffunction-sections -c")).words(flags);
        session.must(&job.arg(fixture.join(format!("{source}.c"))).arg("-o").arg(format!("{source}.o")));
    }
    let shims = session.path("shims");
    tools::shim_dir(&shims, &tools::lto_prune());
    let job = Job::new(&dir, compiler).arg("-B").arg(&shims).words("tu1.o tu2.o -o out").words(flags);
    session.must(&job.words("-Wl,--prune-report=report.json -Wl,--prune-remarks=remarks.yaml").by(linker));
    session.cmd("./out");
    session
}

/// Documents of a remarks file, each as its lines.
fn documents(yaml: &str) -> Vec<Vec<String>> {
    let mut result: Vec<Vec<String>> = Vec::new();
    for line in yaml.lines().filter(|l| !l.is_empty()) {
        if line.starts_with("---") {
            result.push(Vec::new());
        }
        // Runs of blanks only align the fields.
        let words: Vec<&str> = line.split(' ').filter(|w| !w.is_empty()).collect();
        result.last_mut().expect("a document begins with ---").push(words.join(" "));
    }
    result
}

/// The report says that `main` and `probably_inlined` live and that `unused` is dead, and there is one remark about it.
fn check_counts(session: &Session) {
    let facts = session.facts("out");
    session.check(!facts.defined.contains("unused"), "unused is still there");
    let report = session.report("report.json");
    let modules = report["modules"].as_array().unwrap();
    let of_ours = |atom: &Value| {
        let index = atom["module"].as_u64().unwrap_or(u64::MAX) as usize;
        modules.get(index).and_then(|m| m["name"].as_str()).is_some_and(|n| n.starts_with("tu"))
    };
    let mut live = Vec::new();
    let mut dead = Vec::new();
    for atom in report["atoms"].as_array().unwrap().iter().filter(|a| of_ours(a)) {
        for name in atom["symbols"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if ["main", "probably_inlined", "unused"].contains(&name) {
                if atom["live"] == true { &mut live } else { &mut dead }.push(name);
            }
        }
    }
    live.sort_unstable();
    session.check_eq(&live, &vec!["main", "probably_inlined"], "live functions");
    session.check_eq(&dead, &vec!["unused"], "dead functions");
    let remarks = documents(&session.text("remarks.yaml"));
    let of_unused = remarks.iter().filter(|d| d.iter().any(|l| l == "Function: unused")).count();
    session.check_eq(&of_unused, &1, "remarks about unused");
}

#[test]
fn unused_function_is_gone_and_counted() {
    for compiler in ["gcc", "clang-19"] {
        for linker in Linker::ALL {
            let session = link(&format!("tu/{compiler}-{}", linker.name()), compiler, "", linker);
            let facts = session.facts("out");
            session.check(facts.defined.contains("probably_inlined"), "probably_inlined is gone");
            check_counts(&session);
        }
    }
    for flags in ["-flto", "-flto=thin"] {
        check_counts(&link(&format!("tu/clang-19{flags}"), "clang-19", flags, Linker::Lld));
    }
}

#[test]
fn remark_equals_that_of_llvm() {
    let mut session = link("tu/remark", "clang-19", "", Linker::Lld);
    let dir = session.dir().to_owned();
    let fixture = tools::repository().join("fixtures/tu");
    let compile = |mode: &str, source: &str| {
        let job = Job::new(&dir, "clang-19").words("-O2 -c").arg(mode);
        job.arg(fixture.join(format!("{source}.c"))).arg("-o").arg(format!("{source}.bc"))
    };
    session.must(&compile("-flto=thin", "tu1"));
    session.must(&compile("-flto=full", "tu2"));
    let link = session.job("clang-19").arg("-B").arg(Linker::Lld.path().parent().unwrap());
    let link = link.arg(format!("--ld-path={}", Linker::Lld.path().display()));
    let link = link.words("-flto=thin tu1.bc tu2.bc -o llvm");
    session.must(&link.words("-Wl,--opt-remarks-passes,lto -Wl,--opt-remarks-filename,llvm.yaml"));

    let read = |name: &str| documents(&session.text(name));
    let dead = |documents: Vec<Vec<String>>| {
        // LLVM does not see the dead functions of the start files.
        let of_ours = |d: &Vec<String>| d.iter().any(|l| l == "Function: unused");
        documents.into_iter().filter(of_ours).collect::<Vec<_>>()
    };
    let expected = dead(read("llvm.yaml"));
    session.check_eq(&expected.len(), &1, "LLVM's remarks about unused");
    session.check_eq(&dead(read("remarks.yaml")), &expected, "remarks");
}

#[test]
fn llvm_reads_our_remarks() {
    let mut session = link("tu/remarkutil", "clang-19", "", Linker::Lld);
    session.cmd("llvm-remarkutil-19 yaml2bitstream remarks.yaml -o remarks.bitstream");
    // To standard output: LLVM 19 leaves no file behind `bitstream2yaml -o FILE`.
    let back = session.cmd("llvm-remarkutil-19 bitstream2yaml remarks.bitstream -o -");
    let read = |name: &str| documents(&session.text(name));
    session.check_eq(
        &documents(&back.stdout),
        &read("remarks.yaml"),
        "remarks through LLVM's reader and writer",
    );
}

#[test]
fn indirect_calls_have_remarks() {
    let mut session = Session::new("remarks/calls");
    let source = tools::repository().join("fixtures/traced_calls/main.c");
    session.must(&session.job("gcc -O2 -pthread -fno-inline -c -o main.o").arg(source));
    session.shims();
    session.link(Linker::Lld, "gcc -B shims main.o -pthread -o out -Wl,--prune-level=pointers -Wl,--prune-remarks=remarks.yaml -Wl,--prune-report=report.json");
    let remarks = documents(&session.text("remarks.yaml"));
    let of = |name: &str| remarks.iter().filter(|d| d.iter().any(|l| l == &format!("Name: {name}"))).count();
    let report = session.report("report.json");
    let flow = &report["value_flow"];
    for (name, count) in [("resolved", "resolved"), ("nevercalled", "never"), ("overdefined", "overdefined")]
    {
        session.check_eq(&(of(name) as u64), &flow[count].as_u64().unwrap(), name);
    }
    let field = remarks.iter().find(|d| d.contains(&"Function: by_field".to_owned())).unwrap();
    let place = field[5].clone();
    session.check(place.starts_with("- CallSite: '.text at 0x"), &place);
    let expected = ["--- !Passed", "Pass: called-value-propagation", "Name: resolved", "Function: by_field"];
    session.check_eq(&field[..4].to_vec(), &expected.map(str::to_owned).to_vec(), "the remark of by_field");
    session.check_eq(
        &field[6..].join(" "),
        &"- String: ' calls ' - Callee: mul ...".to_owned(),
        "its callees",
    );
    session.cmd("llvm-remarkutil-19 yaml2bitstream remarks.yaml -o remarks.bitstream");
}
