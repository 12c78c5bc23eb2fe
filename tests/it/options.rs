//! Our own options, and the linker's side outputs, which name the user's files and not ours.

use crate::reports;
use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/options.txt");

fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("options/{name}"));
    session.files(FILES, "prepare");
    session.cmd("gcc -O1 -fno-inline -ffunction-sections -c main.c lib.c");
    session.cmd("ar qcs liblib.a lib.o");
    session.shims();
    for linker in Linker::ALL {
        tools::shim_dir(&session.path(&format!("plain-{}", linker.name())), &linker.path());
    }
    session
}

/// Link main.o and liblib.a through us with `options`.
fn link(session: &mut Session, linker: Linker, options: &str) -> Outcome {
    let job = session.job("gcc -B shims main.o liblib.a -o out").words(options);
    session.must(&job.by(linker))
}

fn defined(session: &Session) -> std::collections::BTreeSet<String> {
    session.facts("out").defined
}

#[test]
fn level_off_is_the_plain_link() {
    for linker in Linker::ALL {
        let mut session = prepare(&format!("off-{}", linker.name()));
        let plain = format!("-B plain-{} main.o liblib.a -o out", linker.name());
        session.must(&session.job("gcc").words(&plain));
        let expected = session.bytes("out");
        link(&mut session, linker, "-Wl,--prune-level=off");
        session.check(session.bytes("out") == expected, "outputs differ");
    }
}

#[test]
fn keep_names_roots() {
    let mut session = prepare("keep");
    link(&mut session, Linker::Lld, "-Wl,--prune-keep=dead_t*");
    let names = defined(&session);
    // Its references are kept with it.
    for name in ["dead_two", "dead_one", "dead_three"] {
        session.check(names.contains(name), &format!("{name} is gone"));
    }
    link(&mut session, Linker::Lld, "-Wl,--prune-keep=dead_one");
    let names = defined(&session);
    session.check(names.contains("dead_one") && !names.contains("dead_two"), "--prune-keep=dead_one");
}

#[test]
fn report_adds_up() {
    let mut session = prepare("report");
    link(&mut session, Linker::Lld, "-Wl,--prune-report=report.json");
    let report = session.report("report.json");
    let atoms = report["atoms"].as_array().unwrap();
    let modules = report["modules"].as_array().unwrap();
    for atom in atoms {
        let module = atom["module"].as_u64().unwrap() as usize;
        session.check(module < modules.len(), &format!("module of {atom}"));
        session.check(atom["section"].is_string() && atom["kind"].is_string(), &format!("{atom}"));
        session.check(atom["size"].is_u64() && atom["live"].is_boolean(), &format!("{atom}"));
        let explained = atom["live"] == false || atom["witness"].is_object();
        session.check(explained, &format!("a live atom without a witness: {atom}"));
    }
    let names = reports::module_names(&report);
    let status = |name: &str| {
        let at = names.iter().position(|n| n.ends_with(name));
        modules[at.unwrap_or_else(|| session.fail(&format!("no {name} in {names:?}")))]["status"].clone()
    };
    session.check_eq(&status("main.o"), &"pruned".into(), "status of main.o");
    session.check_eq(&status("liblib.a(lib.o)"), &"pruned".into(), "status of lib.o");
    session.check_eq(&report["pruned"], &true.into(), "pruned");
    let text =
        atoms.iter().find(|a| a["symbols"].as_array().is_some_and(|s| s.contains(&"dead_three".into())));
    let text = text.unwrap_or_else(|| session.fail("no atom of dead_three"));
    session.check_eq(&text["live"], &false.into(), "dead_three");
    session.check_eq(&text["section"], &".text.dead_three".into(), "section of dead_three");
}

#[test]
fn emitted_objects_are_well_formed() {
    // readelf and eu-elflint find nothing that they don't find in the compiler's own object.
    let mut session = prepare("emit");
    link(&mut session, Linker::Lld, "-Wl,--prune-emit=emit -g");
    let objects = session.cmd("find emit -name *main.o -o -name *lib.o").stdout;
    let found: Vec<&str> = objects.lines().collect();
    session.check(!found.is_empty(), "no object in the emitted tree");
    for object in found {
        let lint = |session: &mut Session, file: &str| {
            let text = session.run(&session.job("eu-elflint --gnu-ld").arg(file));
            let mut lines: Vec<String> =
                format!("{}{}", text.stdout, text.stderr).lines().map(str::to_owned).collect();
            lines.retain(|l| l != "No errors");
            lines
        };
        let theirs = lint(&mut session, "main.o");
        let ours = lint(&mut session, object);
        session.check(ours.len() <= theirs.len(), &format!("eu-elflint: {ours:#?}"));
        let read = session.must(&session.job("readelf -aW").arg(object));
        session.check(read.stderr.is_empty(), &read.stderr);
    }
}

#[test]
fn files_are_named_after_the_output() {
    let mut session = prepare("pattern");
    session.mkdir("reports");
    let options = "-Wl,--prune-report=reports/%o.json -Wl,--prune-remarks=reports/%o.yaml -Wl,--prune-repro=%o.tar \
        -Wl,--prune-log=reports/%o-%o.log -Wl,--prune-limit-log=%o.limit -Wl,--prune-emit=objects-%o";
    link(&mut session, Linker::Lld, options);
    for name in
        ["reports/out.json", "reports/out.yaml", "reports/out-out.log", "out.tar", "out.limit", "objects-out"]
    {
        session.check(session.path(name).exists(), &format!("no {name}"));
    }
}

/// Outputs of one name in several folders each have a report, and a second link of an output replaces its own.
#[test]
fn no_report_is_lost() {
    let mut session = prepare("unique");
    let top = session.dir().to_owned();
    let mut outputs = Vec::new();
    for folder in ["reports", "d1", "d2", "d1/sub"] {
        session.mkdir(folder);
    }
    for _ in 0..2 {
        // From one folder, and each in its own as a recursive make does.
        for (folder, output) in
            [("", "d1/prog"), ("", "d2/prog"), ("d1", "sub/../prog"), ("d1/sub", "prog"), ("", "./prog")]
        {
            let up = "../".repeat(folder.split('/').filter(|part| !part.is_empty()).count());
            for reports in [format!("{}/reports/%o.json", top.display()), format!("{up}reports/%o.json")] {
                let job = Job::new(&top.join(folder), "gcc").arg("-B").arg(top.join("shims"));
                let job = job.arg(top.join("main.o")).arg(top.join("liblib.a")).arg("-o").arg(output);
                session.must(&job.arg(format!("-Wl,--prune-report={reports}")).by(Linker::Lld));
            }
            outputs.push(output);
        }
    }
    let files = std::fs::read_dir(session.path("reports")).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<(String, String)> = files
        .map(|file| {
            let report = reports::report(&session, &file);
            (
                file.file_name().unwrap().to_string_lossy().into_owned(),
                report["output"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    names.sort();
    // d1/prog is linked by two paths.
    session.check_eq(&names.len(), &4, &format!("reports: {names:?}"));
    session.check(names.contains(&("prog.json".to_owned(), "./prog".to_owned())), &format!("{names:?}"));
    session.check(names.iter().all(|(name, _)| name.starts_with("prog")), &format!("{names:?}"));
}

#[test]
fn dependency_file_names_the_originals() {
    for linker in Linker::ALL {
        let mut session = prepare(&format!("depfile-{}", linker.name()));
        let line = "main.o liblib.a -o out -Wl,--dependency-file=out.d";
        let plain = session.job("gcc").arg("-B").arg(format!("plain-{}", linker.name())).words(line);
        session.must(&plain);
        let expected = session.text("out.d");
        link(&mut session, linker, "-Wl,--dependency-file=out.d");
        let actual = session.text("out.d");
        if matches!(linker, Linker::Lld | Linker::Mold | Linker::Wild) {
            session.check_eq(&actual, &expected, "dependency file");
        }
        // GNU ld names a file once for each time that it opens it, and gold in an order of its own.
        let names = |text: &str| {
            let words = text.split_whitespace().filter(|w| *w != "\\" && !w.ends_with(':'));
            words.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        session.check_eq(&names(&actual), &names(&expected), "files of the dependency file");
    }
}

#[test]
fn dependency_file_has_the_order_of_reading() {
    let mut session = prepare("depfile-order");
    session.files(FILES, "dependency_file_has_the_order_of_reading");
    let lists = "version-script=script.txt,--dynamic-list=names.txt,--export-dynamic-symbol-list=more.txt";
    for option in ["symbol-ordering-file=order.txt", "call-graph-ordering-file=graph.txt", lists] {
        let mut texts = Vec::new();
        for shims in ["plain-lld", "shims"] {
            let line = "main.o liblib.a -o out -Wl,--dependency-file=out.d,--no-warn-symbol-ordering";
            let job = session.job("gcc").arg("-B").arg(shims).words(line);
            session.must(&job.arg(format!("-Wl,--{option}")).by(Linker::Lld));
            texts.push(session.text("out.d"));
        }
        session.check_eq(&texts[1], &texts[0], option);
    }
}

#[test]
fn dependency_file_of_a_thin_archive() {
    for linker in Linker::ALL {
        let mut session = prepare(&format!("depfile-thin-{}", linker.name()));
        session.write("more.c", "int more(void) { return 1; }\n");
        session.write("less.c", "int less(void) { return 1; }\n");
        session.cmd("gcc -c -ffunction-sections more.c less.c");
        session.cmd("ar qcsT thin.a more.o less.o");
        let mut names = Vec::new();
        for shims in [format!("plain-{}", linker.name()), "shims".to_owned()] {
            let line = "main.o liblib.a thin.a -o out -Wl,-u,more,--dependency-file=out.d";
            session.must(&session.job("gcc").arg("-B").arg(shims).words(line).by(linker));
            let text = session.text("out.d");
            let words = text.split_whitespace().filter(|word| *word != "\\");
            names.push(words.map(str::to_owned).collect::<std::collections::BTreeSet<_>>());
        }
        session.check_eq(&names[1], &names[0], linker.name());
    }
}

#[test]
fn map_names_the_originals() {
    // wild makes no map.
    for linker in Linker::ALL.into_iter().filter(|l| *l != Linker::Wild) {
        let mut session = prepare(&format!("map-{}", linker.name()));
        link(&mut session, linker, "-Wl,-Map=out.map");
        let map = session.text("out.map");
        let named = |name: &str| map.lines().any(|l| l.split_whitespace().any(|w| w.starts_with(name)));
        for name in ["main.o", "liblib.a(lib.o)"] {
            session.check(named(name), &format!("no {name} in\n{map}"));
        }
        for foreign in ["/proc/", "/tmp/lto-prune", "memfd:"] {
            session.check(!map.contains(foreign), &format!("{foreign} in\n{map}"));
        }
        session.check(!map.contains(".text.dead_one") || map.contains("Discarded"), "dead_one in the map");
    }
}
