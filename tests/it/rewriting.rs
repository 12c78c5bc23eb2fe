//! Rewritten bitcode, checked by LLVM's own tools, and by programs that two versions of lld link with and without rewriting.
//!
//! A value is dropped if the module's summary does not reach it from its roots, or if a test names it.

use std::collections::BTreeSet;
use std::path::Path;

use lto_prune::emit::bitcode::{Obstacle, RewriteError, Survey, ValueFate, rewrite};
use summaries::bitcode::container;
use summaries::bitcode::file::BitcodeFile;
use summaries::bitcode::index::EntryKind;
use summaries::bitcode::symbols::ValueAt;

use crate::run::{Job, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/rewriting.txt");

/// A file of C++ with every kind of definition, live and dead.
const SOURCE: &str = include_str!("programs/rewriting_source.cc");
const LIBRARY: &str = "int puts(const char *); __attribute__((constructor)) static void c(void) { puts(\"member\"); }\n\
    void only_dead(void) {} int dead_extern; __thread int dead_tls_extern;\n";

fn is_dead(name: &str) -> bool {
    name.contains("dead") || name.contains("4Dead")
}

fn name_of(file: &BitcodeFile<'_>, at: ValueAt) -> String {
    String::from_utf8_lossy(file.modules[at.module as usize].values[at.value as usize].name).into_owned()
}

/// The bitcode of a file with an action for each name.
fn by_name(bytes: &[u8], action: impl Fn(&str) -> ValueFate) -> Result<Vec<u8>, RewriteError> {
    let survey = Survey::new(bytes)?;
    rewrite(&survey, &|at| action(&name_of(survey.file(), at)), false)
}

fn dead_and_stub(name: &str) -> ValueFate {
    match name {
        "stubbed" => ValueFate::Stub,
        name if is_dead(name) || name == "only_dead" => ValueFate::Drop,
        _ => ValueFate::Keep,
    }
}

/// The ids of the values that a summary reaches from these names and from values that the compiler marks live.
fn reached(file: &BitcodeFile<'_>, roots: &[&str]) -> BTreeSet<u32> {
    let module = &file.modules[0];
    let index = module.summary.as_ref().unwrap();
    let is_root = |id: &u32| {
        let name = module.values[*id as usize].name;
        name.starts_with(b"llvm.") || roots.iter().any(|r| r.as_bytes() == name)
    };
    let mut found: BTreeSet<u32> = (0..module.values.len() as u32).filter(is_root).collect();
    found.extend(index.entries.iter().filter(|e| e.flags.live).map(|e| e.value));
    loop {
        let before = found.len();
        for entry in index.entries.iter().filter(|e| found.contains(&e.value)).collect::<Vec<_>>() {
            found.extend(entry.refs.iter().map(|r| r.value));
            match &entry.kind {
                EntryKind::Function { calls, .. } => found.extend(calls),
                EntryKind::Variable { slots, .. } => found.extend(slots.iter().map(|(f, _)| f)),
                EntryKind::Alias { aliasee } => {
                    found.insert(*aliasee);
                }
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

struct Work {
    session: Session,
}

impl Work {
    fn new(name: &str) -> Self {
        Work { session: Session::new(&format!("rewriting/{name}")) }
    }

    fn must(&mut self, program: &str, words: &str) -> String {
        let dir = self.session.dir().to_owned();
        self.session.must(&Job::new(&dir, program).words(words)).stdout
    }

    fn read(&self, name: &str) -> Vec<u8> {
        self.session.bytes(name)
    }

    /// Text of every module of a file, without what names the file.
    fn text(&mut self, name: &str, modules: usize) -> String {
        let mut all = String::new();
        for i in 0..modules {
            self.must("llvm-modextract-19", &format!("-b -n {i} -o one.bc {name}"));
            self.must("opt-19", "-passes=verify -disable-output one.bc");
            let text = self.must("llvm-dis-19", "-o - one.bc");
            let line = |l: &&str| !l.starts_with("; ModuleID") && !l.contains(" = module: (");
            all.extend(text.lines().filter(line).flat_map(|l| [l, "\n"]));
        }
        all
    }

    /// Dropped values are weak declarations without attributes, in the symbol table too, and absent from the summary.
    fn declared(&mut self, text: &str, pruned: &[u8]) {
        let prefix = "lto-prune.dropped.";
        let is_declaration = |l: &&str| l.starts_with("declare ") || l.starts_with('@');
        let lines: Vec<&str> =
            text.lines().filter(is_declaration).filter(|l| l.contains(&format!("@{prefix}"))).collect();
        let bare = |l: &&str| l.contains(" extern_weak ") && !l.contains('!') && !l.contains("comdat");
        self.session.check(lines.len() > 10 && lines.iter().all(bare), &format!("{lines:#?}"));
        let symbols = self.must("llvm-nm-19", "d.o");
        let strong = |l: &str| l.contains(prefix) && !l.trim_start().starts_with(['w', 'v']);
        self.session.check(!symbols.lines().any(strong), &symbols);
        let file = summaries::bitcode::read(pruned).unwrap();
        for module in &file.modules {
            let is_dropped = |id: u32| module.values[id as usize].name.starts_with(prefix.as_bytes());
            let Some(index) = &module.summary else { continue };
            let entries = index.entries.iter();
            self.session.check(!entries.clone().any(|e| is_dropped(e.value)), "an entry of a dropped value");
            for entry in entries.filter(|e| module.values[e.value as usize].name == b"stubbed") {
                let is_empty =
                    matches!(&entry.kind, EntryKind::Function { calls, flags: 0, .. } if calls.is_empty());
                self.session.check(is_empty && entry.refs.is_empty(), &format!("{entry:?}"));
                self.session.check(entry.flags.not_eligible_to_import, "the stub may be imported");
            }
            let has_dropped = index.vtables.iter().any(|id| is_dropped(*id));
            self.session.check(!has_dropped, "a vtable that was dropped");
        }
    }

    /// Link `objects` and run the program with `words`.
    fn runs(&mut self, lld: &Path, level: u32, objects: &str, words: &str) -> (i32, String) {
        let said = self
            .session
            .cmd(&format!("clang++-19 --ld-path={} -Wl,--lto-O{level} -o out {objects}", lld.display()))
            .stderr;
        self.session.check_eq(&said.as_str(), &"", "the linker's words");
        let outcome = self.session.run(&self.session.job("./out").words(words));
        (outcome.status, outcome.stdout)
    }
}

const WAYS: [(&str, &str, usize); 6] = [
    ("thin0", "-O0 -g -flto=thin", 1),
    ("thin2", "-O2 -flto=thin", 1),
    ("full2", "-O2 -g -flto", 1),
    ("full0", "-O0 -flto", 1),
    ("vtables", "-O2 -flto=thin -fwhole-program-vtables -fvisibility=hidden -fno-split-lto-unit", 1),
    ("split", "-O2 -flto=thin -fwhole-program-vtables -fvisibility=hidden -fsplit-lto-unit", 2),
];

#[test]
fn programs_without_what_is_dead() {
    for (name, flags, modules) in WAYS {
        let mut work = Work::new(name);
        work.session.write("a.cc", SOURCE);
        work.session.write("l.c", LIBRARY);
        work.must("clang++-19", &format!("-fPIC -fcommon {flags} -c a.cc -o a.o"));
        work.must("clang-19", "-O1 -c l.c -o l.o");
        work.must("llvm-ar-19", "rcs libl.a l.o");
        let bytes = work.read("a.o");
        work.session.write("same.o", by_name(&bytes, |_| ValueFate::Keep).unwrap());
        let (plain, same) = (work.text("a.o", modules), work.text("same.o", modules));
        work.session.check(plain == same, "the text is not the same");
        let pruned = by_name(&bytes, dead_and_stub).unwrap();
        let hash = |bytes: &[u8]| summaries::bitcode::read(bytes).unwrap().modules[0].hash;
        work.session.check((hash(&bytes) != hash(&pruned)) == flags.contains("thin"), "hashes");
        work.session.write("d.o", &pruned);
        let text = work.text("d.o", modules);
        work.session.check(text.contains("asm sideeffect \"9: ud2\\0A"), "no stub");
        // The stub has no attributes and no personality of the old body.
        let stub =
            text.lines().find(|l| l.starts_with("define ") && l.contains("@stubbed(")).unwrap_or_default();
        let is_bare = |l: &str| !l.is_empty() && !l.contains(" #") && !l.contains("personality");
        work.session.check(is_bare(stub), stub);
        let symbols = work.must("llvm-nm-19", "--format=just-symbols d.o");
        work.session.check(!symbols.lines().any(|l| is_dead(l) || l == "only_dead"), &symbols);
        work.declared(&text, &pruned);
        for lld in [Linker::Lld.path(), tools::lld_of_rustc()] {
            for level in [0, 2] {
                let (status, out) = work.runs(&lld, level, "a.o libl.a", "");
                work.session.check_eq(&status, &0, "exit status");
                work.session.check(out.contains("member\n"), "the member was not extracted");
                let pruned = work.runs(&lld, level, "d.o libl.a", "");
                work.session.check_eq(&pruned, &(0, out.replace("member\n", "")), "what it does");
                let symbols = work.must("nm", "out");
                work.session.check(!symbols.lines().any(|l| is_dead(l) || l.contains("dropped")), &symbols);
                // SIGILL.
                let trapped = work.runs(&lld, level, "d.o libl.a", "1");
                work.session.check_eq(&trapped.0, &(128 + 4), "the stub");
            }
        }
    }
}

/// A call that a pass makes by name, of a function whose declaration went: in a static program its member has to be extracted.
#[test]
fn library_functions_that_passes_call() {
    for flags in ["-O0 -Xclang -disable-O0-optnone -flto=thin", "-O1 -Xclang -disable-llvm-passes -flto"] {
        let mut work = Work::new("called_by_name");
        work.session.files(FILES, "library_functions_that_passes_call");
        work.must("clang-19", &format!("{flags} -c p.c -o p.o"));
        let drop =
            |name: &str| if ["dead", "putchar"].contains(&name) { ValueFate::Drop } else { ValueFate::Keep };
        let pruned = by_name(&work.read("p.o"), drop).unwrap();
        work.session.write("d.o", pruned);
        let ran = work.runs(&Linker::Lld.path(), 2, "-static d.o", "");
        work.session.check_eq(&ran, &(0, "h".to_owned()), flags);
    }
}

/// rustc's modules (LLVM 22): all that the summary does not reach.
#[test]
fn modules_of_rustc() {
    for level in [0, 2] {
        let mut work = Work::new(&format!("rust{level}"));
        work.session.files(FILES, "modules_of_rustc");
        work.must("clang-19", "-O1 -c main.c");
        let flags = "-g -Ccodegen-units=1 -Clinker-plugin-lto --crate-type=staticlib";
        work.must("rustc", &format!("{flags} -Copt-level={level} r.rs -o libr.a"));
        let members = work.must("ar", "t libr.a");
        let member = members.lines().find(|m| m.contains(".r.")).unwrap().to_owned();
        work.must("ar", &format!("x libr.a {member}"));
        let bytes = work.read(&member);
        let survey = Survey::new(&bytes).unwrap();
        let kept = reached(survey.file(), &["from_rust"]);
        let count = survey.file().modules[0].values.len();
        work.session.check(kept.len() < count, "nothing goes");
        let action = |at: ValueAt| if kept.contains(&at.value) { ValueFate::Keep } else { ValueFate::Drop };
        let pruned = rewrite(&survey, &action, false).unwrap();
        work.session.check(pruned.len() < bytes.len(), "it is not smaller");
        work.session.write("d.o", pruned);
        work.must("ar", &format!("d libr.a {member}"));
        let ran = work.runs(&tools::lld_of_rustc(), 2, "main.o d.o libr.a -lpthread -ldl", "");
        work.session.check_eq(&ran, &(0, "26\n".to_owned()), "what it does");
        let symbols = work.must("nm", "out");
        work.session.check(!symbols.contains("dead_rust") && !symbols.contains("dropped"), &symbols);
    }
}

/// Pointers have types here, and a module may lack those that a stub needs.
#[test]
fn modules_of_llvm_14() {
    let source = include_str!("programs/rewriting_modules_of_llvm_14.ll");
    let mut work = Work::new("old");
    work.session.write("old.ll", source);
    for flags in ["-module-summary -module-hash", ""] {
        work.must("opt-14", &format!("{flags} -o old.bc old.ll"));
        let pruned = by_name(&work.read("old.bc"), dead_and_stub).unwrap();
        work.session.write("d.o", pruned);
        work.must("opt-14", "-verify -disable-output d.o");
        work.text("d.o", 1);
        for lld in [Linker::Lld.path(), tools::lld_of_rustc()] {
            for (words, status) in [("", 0), ("1", 128 + 4)] {
                let ran = work.runs(&lld, 1, "d.o", words);
                work.session.check_eq(&ran.0, &status, words);
            }
        }
    }
}

#[test]
fn impossible_rewrites_are_errors() {
    let mut work = Work::new("refused");
    work.session.files(FILES, "impossible_rewrites_are_errors");
    work.must("clang-19", "-O0 -flto=thin -c a.c -o a.o");
    let bytes = work.read("a.o");
    let one = |which: &'static str, action: ValueFate| {
        by_name(&bytes, move |name| if name == which { action } else { ValueFate::Keep })
    };
    let refers = |result| matches!(result, Err(RewriteError::Refers { .. }));
    let why = |result| match result {
        Err(RewriteError::Value { why, .. }) => Some(why),
        _ => None,
    };
    assert!(refers(one("caller", ValueFate::Drop)), "its alias is kept");
    assert_eq!(why(one("llvm.compiler.used", ValueFate::Drop)), Some(Obstacle::Special));
    assert_eq!(why(one("jumps", ValueFate::Stub)), Some(Obstacle::BlockAddress));
    assert_eq!(why(one("data", ValueFate::Stub)), Some(Obstacle::NoBody));
    assert!(one("caller", ValueFate::Stub).is_ok() && one("named", ValueFate::Drop).is_ok());
    let survey = Survey::new(&bytes).unwrap();
    assert_eq!(survey.forbids(ValueAt { module: 3, value: 0 }, ValueFate::Drop), Some(Obstacle::NoValue));
    // Rewriting removes the wrapper and ignores its fields.
    let size = (bytes.len() as u32).to_le_bytes();
    let header = [[0xde, 0xc0, 0x17, 0x0b], [0; 4], [20, 0, 0, 0], size, [7, 0, 0, 1]].concat();
    let wrapped = [header, bytes.clone(), vec![0; 16]].concat();
    let of = |bytes: &[u8]| by_name(bytes, |_| ValueFate::Keep);
    assert_eq!(of(&wrapped), of(&bytes));
    // Cut off or with a bit changed it is an error, or another module; never a panic.
    let range = container::unwrap(&bytes).unwrap();
    for i in (0..range.len()).step_by(7) {
        assert!(Survey::new(&bytes[..i]).is_err(), "{i}");
        let mut changed = bytes.clone();
        changed[i] ^= 1 << (i % 8);
        if let Ok(survey) = Survey::new(&changed) {
            let _ = rewrite(
                &survey,
                &|at| [ValueFate::Keep, ValueFate::Drop, ValueFate::Stub][(at.value % 3) as usize],
                false,
            );
            let _ = rewrite(&survey, &|_| ValueFate::Keep, false);
        }
    }
}

/// The linker accepts a reference to a dropped value, with a null address. So the verifier must find it.
#[test]
fn what_stays_mentions_nothing_that_is_gone() {
    let mut work = Work::new("dangling");
    work.session.files(FILES, "what_stays_mentions_nothing_that_is_gone");
    for (flags, has_summary) in [("-emit-llvm", false), ("-flto=thin", true)] {
        work.must("clang-19", &format!("-O0 {flags} -c p.c -o p.bc"));
        check_references(&work, &work.read("p.bc"), has_summary);
    }
}

fn check_references(work: &Work, bytes: &[u8], has_summary: bool) {
    let survey = Survey::new(bytes).unwrap();
    work.session.check_eq(&survey.file().modules[0].summary.is_some(), &has_summary, "has a summary");
    for (gone, mentioned_by) in [
        (&["g"][..], Some("f")),
        (&["h"][..], Some("table")),
        (&["held"][..], Some("llvm.compiler.used")),
        (&["f", "g"][..], None),
        (&["h", "table"][..], None),
    ] {
        let fate = |at: ValueAt| {
            let goes = gone.contains(&name_of(survey.file(), at).as_str());
            if goes { ValueFate::Drop } else { ValueFate::Keep }
        };
        let pruned = rewrite(&survey, &fate, false).unwrap();
        let error = lto_prune::verify::bitcode("p.bc", bytes, &pruned, &fate).err();
        let symbol = error.as_ref().and_then(|e| e.symbol.as_deref());
        work.session.check_eq(&symbol, &mentioned_by, &format!("{gone:?}: {error:?}"));
    }
    let without_k = by_name(bytes, |name| if name == "k" { ValueFate::Drop } else { ValueFate::Keep });
    work.session.check(matches!(without_k, Err(RewriteError::Refers { .. })), "an alias of nothing");
    // The verifier also rejects a module that differs from the plan: a body instead of a stub, or a value that still needs a definition.
    for (name, fate) in [("f", ValueFate::Keep), ("f", ValueFate::Drop), ("table", ValueFate::Drop)] {
        let planned =
            |at: ValueAt| if name_of(survey.file(), at) == name { ValueFate::Drop } else { ValueFate::Keep };
        let made = |at: ValueAt| if name_of(survey.file(), at) == name { fate } else { ValueFate::Keep };
        let pruned = rewrite(&survey, &made, false).unwrap();
        let error = lto_prune::verify::bitcode("p.bc", bytes, &pruned, &planned).err();
        work.session.check_eq(&error.is_some(), &(fate == ValueFate::Keep), &format!("{name}: {error:?}"));
        let error = lto_prune::verify::bitcode("p.bc", bytes, &pruned, &|_| ValueFate::Keep).err();
        work.session.check_eq(&error.is_some(), &(fate == ValueFate::Drop), &format!("{name}: {error:?}"));
    }
}

/// The verifier detects each unplanned change of a module.
#[test]
fn a_module_that_is_not_what_it_has_to_be() {
    let mut work = Work::new("wrong");
    work.session.files(FILES, "a_module_that_is_not_what_it_has_to_be");
    work.must("clang-19", "-O0 -flto=thin -c p.c -o p.bc");
    let bytes = work.read("p.bc");
    let survey = Survey::new(&bytes).unwrap();
    let fate = |h: ValueFate, d: ValueFate| {
        let file = survey.file();
        move |at: ValueAt| match name_of(file, at).as_str() {
            "h" => h,
            "d" => d,
            _ => ValueFate::Keep,
        }
    };
    use ValueFate::{Drop, Keep, Stub};
    let ways = [(Keep, Keep), (Drop, Keep), (Stub, Keep), (Keep, Drop), (Stub, Drop)];
    for (i, done) in ways.iter().enumerate() {
        let pruned = rewrite(&survey, &fate(done.0, done.1), false).unwrap();
        for (j, wanted) in ways.iter().enumerate() {
            let error = lto_prune::verify::bitcode("p.bc", &bytes, &pruned, &fate(wanted.0, wanted.1)).err();
            work.session.check_eq(
                &error.is_none(),
                &(i == j),
                &format!("{done:?} for {wanted:?}: {error:?}"),
            );
        }
    }
    work.session.files(FILES, "a_module_that_is_not_what_it_has_to_be_2");
    work.must("clang-19", "-O0 -flto=thin -c q.c -o q.bc");
    let other = work.read("q.bc");
    for wrong in [&other[..], &bytes[..bytes.len() / 2], &[]] {
        let error = lto_prune::verify::bitcode("p.bc", &bytes, wrong, &fate(Keep, Keep)).err();
        work.session.check(error.is_some(), "another file is not told from it");
    }
}

/// Records of a summary that belong to the next entry are removed with it. Otherwise the entry behind it would own them.
#[test]
fn records_before_an_entry_are_removed_with_it() {
    let mut work = Work::new("leads_up");
    work.session.files(FILES, "records_before_an_entry_are_removed_with_it");
    let flags = "-O2 -flto=thin -fwhole-program-vtables -fvisibility=hidden -fno-split-lto-unit";
    work.must("clang++-19", &format!("{flags} -c p.cc -o p.bc"));
    let bytes = work.read("p.bc");
    for (gone, left) in [("none", &["0", "8"][..]), ("dead", &["8"]), ("live", &["0"])] {
        let drop = |name: &str| if name == gone { ValueFate::Drop } else { ValueFate::Keep };
        work.session.write("q.bc", by_name(&bytes, drop).unwrap());
        let dump = work.must("llvm-bcanalyzer-19", "--dump q.bc");
        // The slots that are called, in the order of the summary.
        let records = dump.lines().filter(|l| l.contains("<TYPE_TEST_ASSUME_CONST_VCALL "));
        let slots: Vec<&str> =
            records.map(|l| l.rsplit_once("op1=").unwrap().1.trim_end_matches("/>")).collect();
        work.session.check_eq(&slots, &left.to_vec(), gone);
    }
}
