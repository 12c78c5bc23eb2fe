//! Value numbering, names, linkage and visibility against LLVM's assembly language, which `llvm-dis` and rustc write.

use std::process::Command;

use summaries::Visibility;
use summaries::bitcode::linkage::Linkage;
use summaries::bitcode::module::ValueKind;

use super::corpus::{Sample, run, samples};

pub(super) fn disassemble(sample: &Sample) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.bc");
    std::fs::write(&path, &sample.bytes).unwrap();
    let mut command = Command::new(format!("llvm-dis-{}", sample.tools?));
    // Of several modules it writes files `-.0`, `-.1` and so on where it stands.
    let output = run(command.current_dir(&dir).args(["-o", "-"]).arg(&path));
    Some(String::from_utf8_lossy(&output).into_owned())
}

/// The name behind an `@`, and the rest of the text.
pub(super) fn name(text: &str) -> (String, &str) {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"').unwrap();
        let mut bytes = Vec::new();
        let mut rest = &quoted[..end];
        while let Some(at) = rest.find('\\') {
            bytes.extend_from_slice(&rest.as_bytes()[..at]);
            bytes.push(u8::from_str_radix(&rest[at + 1..at + 3], 16).unwrap());
            rest = &rest[at + 3..];
        }
        bytes.extend_from_slice(rest.as_bytes());
        return (String::from_utf8(bytes).unwrap(), &quoted[end + 1..]);
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._$-".contains(c))).unwrap_or(text.len());
    (text[..end].to_owned(), &text[end..])
}

const LINKAGES: &[&str] = &[
    "available_externally",
    "linkonce",
    "linkonce_odr",
    "weak",
    "weak_odr",
    "appending",
    "internal",
    "private",
    "extern_weak",
    "common",
    "external",
];

/// `kind name linkage visibility thread? declared?`, in the order of value ids.
fn theirs(text: &str) -> Vec<String> {
    let (mut variables, mut functions, mut aliases, mut ifuncs) = (vec![], vec![], vec![], vec![]);
    for line in text.lines() {
        let (head, name, list, kind) = if let Some(rest) = line.strip_prefix('@') {
            let (name, rest) = name(rest);
            let rest = rest.strip_prefix(" = ").unwrap().to_owned();
            let word = |w: &str| rest.split_whitespace().take(8).any(|x| x == w);
            if word("alias") {
                (rest, name, &mut aliases, "alias")
            } else if word("ifunc") {
                (rest, name, &mut ifuncs, "ifunc")
            } else if word("constant") {
                (rest, name, &mut variables, "constant")
            } else {
                (rest, name, &mut variables, "variable")
            }
        } else if line.starts_with("define ") || line.starts_with("declare ") {
            let at = line.find('@').unwrap();
            let (name, _) = name(&line[at + 1..]);
            (line[..at].to_owned(), name, &mut functions, "function")
        } else {
            continue;
        };
        // The words before the type; initializers come after it.
        let end = ["global ", "constant ", "alias ", "ifunc "].iter().filter_map(|w| head.find(w)).min();
        let words: Vec<&str> = head[..end.unwrap_or(head.len())].split_whitespace().collect();
        let find = |known: &'static [&'static str]| known.iter().find(|w| words.contains(*w)).copied();
        let linkage = find(LINKAGES).unwrap_or("external");
        let visibility = find(&["hidden", "protected"]).unwrap_or("default");
        let thread = words.iter().any(|w| w.starts_with("thread_local"));
        let declared = words.contains(&"declare")
            || (words.iter().any(|w| ["external", "extern_weak"].contains(w)) && kind != "function");
        list.push(format!("{kind} {name} {linkage} {visibility} {thread} {declared}"));
    }
    [variables, functions, aliases, ifuncs].concat()
}

fn ours(file: &summaries::bitcode::file::BitcodeFile<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for value in &file.modules[0].values {
        let kind = match value.kind {
            ValueKind::Variable { constant: true } => "constant",
            ValueKind::Variable { constant: false } => "variable",
            ValueKind::Function => "function",
            ValueKind::Alias { .. } => "alias",
            ValueKind::Ifunc { .. } => "ifunc",
        };
        let visibility = match value.visibility {
            Visibility::Default => "default",
            Visibility::Protected => "protected",
            Visibility::Hidden | Visibility::Internal => "hidden",
        };
        let name = String::from_utf8_lossy(value.name);
        // Weak declarations of functions are `declare extern_weak`.
        let declared = value.declaration;
        let linkage = value.linkage.word();
        all.push(format!("{kind} {name} {linkage} {visibility} {} {declared}", value.thread_local));
    }
    all
}

#[test]
fn values_are_what_llvm_says() {
    let mut compared = 0;
    for sample in samples().iter().filter(|s| s.name != "cxx-split") {
        let Some(text) = disassemble(sample) else { continue };
        let file = summaries::bitcode::read(&sample.bytes).unwrap();
        assert_eq!(file.modules.len(), 1);
        let (mut got, mut want) = (ours(&file), theirs(&text));
        // LLVM's assembly puts aliases and ifuncs behind functions, the numbers do too; their order among one kind is the module's.
        assert_eq!(got.len(), want.len(), "{}", sample.name);
        for (got, want) in got.iter_mut().zip(&mut want) {
            assert_eq!(got, want, "{}", sample.name);
            compared += 1;
        }
        let source = text.lines().find_map(|l| l.strip_prefix("source_filename = ")).unwrap();
        assert_eq!(source.trim_matches('"').as_bytes(), file.modules[0].source_file, "{}", sample.name);
        let triple = text.lines().find_map(|l| l.strip_prefix("target triple = ")).unwrap();
        assert_eq!(triple.trim_matches('"').as_bytes(), file.modules[0].triple, "{}", sample.name);
        let layout = text.lines().find_map(|l| l.strip_prefix("target datalayout = ")).unwrap();
        assert_eq!(layout.trim_matches('"').as_bytes(), file.modules[0].data_layout, "{}", sample.name);
        let comdats = text.lines().filter(|l| l.starts_with('$')).count();
        assert_eq!(comdats, file.modules[0].comdats.len(), "{}", sample.name);
        assert_eq!(file.producer_major().map(|v| v.to_string()).as_deref(), sample.tools);
    }
    assert!(compared > 500, "only {compared} values were compared");
}

#[test]
fn values_of_rustc_are_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let source = "pub static S: [fn(i32) -> i32; 1] = [twice];\npub fn twice(x: i32) -> i32 { x * 2 }\n\
        #[no_mangle] pub static mut COUNTER: u64 = 7;\nextern \"C\" { fn away(); }\n\
        pub fn calls(v: &mut Vec<String>) { unsafe { away() }; v.push(format!(\"{}\", v.len())); }\n";
    std::fs::write(dir.path().join("r.rs"), source).unwrap();
    run(Command::new("rustc").current_dir(dir.path()).args([
        "--crate-type=lib",
        "-Copt-level=1",
        "-Ccodegen-units=1",
        "--emit=llvm-bc=r.bc,llvm-ir=r.ll",
        "r.rs",
    ]));
    let bytes = std::fs::read(dir.path().join("r.bc")).unwrap();
    let file = summaries::bitcode::read(&bytes).unwrap();
    assert_eq!(file.producer_major(), Some(22));
    let text = std::fs::read_to_string(dir.path().join("r.ll")).unwrap();
    let (got, want) = (ours(&file), theirs(&text));
    assert!(got.len() > 10, "{got:?}");
    assert_eq!(got, want);
}

#[test]
fn linkages_have_their_words() {
    assert_eq!(Linkage::WeakOdr.word(), "weak_odr");
    assert!(Linkage::ExternWeak.is_weak() && Linkage::Private.is_local() && !Linkage::Common.is_weak());
}
