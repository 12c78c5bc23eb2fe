//! Module summaries of bitcode against the object that LLVM makes of it, and symbol tables against `llvm-nm`.

use std::process::Command;

use summaries::bitcode::{hidden, symbols};
use summaries::{AtomKind, Binding, Definition, Granularity, Limit, SymbolKind, Target, Visibility};

use super::corpus::{run, sample, samples};
use crate::compilers::Find;

fn summary(name: &str) -> summaries::ModuleSummary {
    let summary = summaries::extract::extract(&sample(name).bytes, Granularity::Sections);
    assert_eq!(summary.check(), Ok(()));
    summary
}

/// `name letter` by `llvm-nm`: U undefined, w weak undefined, W and V weak, C common, lower case local.
fn nm(tools: &str, bytes: &[u8]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.bc");
    std::fs::write(&path, bytes).unwrap();
    let output = run(Command::new(format!("llvm-nm-{tools}")).arg("--format=posix").arg(&path));
    let text = String::from_utf8_lossy(&output).into_owned();
    let word = |l: &str| l.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = text.lines().map(word).collect();
    lines.sort();
    lines
}

#[test]
fn symbols_are_what_nm_says() {
    let mut compared = 0;
    for sample in samples().iter().filter(|s| s.tools.is_some()) {
        let file = summaries::bitcode::read(&sample.bytes).unwrap();
        let found = symbols::of_file(&file);
        assert!(found.complete, "{}", sample.name);
        let class = |s: &symbols::LinkerSymbol<'_>| match (s.undefined, s.weak) {
            (true, true) => "w",
            (true, false) => "U",
            _ if s.common.is_some() => "C",
            (false, true) => "W",
            (false, false) => "T",
        };
        let mut got: Vec<String> = found
            .symbols
            .iter()
            .map(|s| format!("{} {}", String::from_utf8_lossy(s.name), class(s)))
            .collect();
        // nm lists what a linker does not see.
        got.extend(found.unseen.iter().map(|n| format!("{} w", String::from_utf8_lossy(n))));
        got.sort();
        got.dedup();
        let mut want: Vec<String> = nm(sample.tools.unwrap(), &sample.bytes);
        want.retain(|l| !l.ends_with(|c: char| "tdbri".contains(c)) && !l.starts_with("llvm."));
        for line in &mut want {
            // Of a definition that is not weak nm only says which kind of section it is in.
            if line.ends_with(['D', 'B', 'R', 'I']) {
                line.replace_range(line.len() - 1.., "T");
            }
            if line.ends_with('V') {
                line.replace_range(line.len() - 1.., "W");
            }
            if line.ends_with('v') {
                line.replace_range(line.len() - 1.., "w");
            }
        }
        want.sort();
        want.dedup();
        assert_eq!(got, want, "{}", sample.name);
        compared += got.len();
    }
    assert!(compared > 300, "only {compared} symbols were compared");
}

#[test]
fn records_and_symbol_tables_agree() {
    // Two ways to the same symbols: the table that the file carries, and the module's records.
    let mut tables = 0;
    for sample in samples() {
        let file = summaries::bitcode::read(&sample.bytes).unwrap();
        let stored = symbols::of_file(&file);
        let made = symbols::of_modules(&file);
        if file.symtab.is_none() {
            assert!(!stored.complete);
            continue;
        }
        tables += 1;
        let plain = |s: &symbols::LinkerSymbol<'_>, table: &symbols::LinkerSymbols<'_>| {
            let comdat = s.comdat.map(|c| table.comdats[c as usize]);
            let align = s.common.map(|(_, align)| align);
            (
                s.name.to_vec(),
                s.value,
                s.undefined,
                s.weak,
                s.thread_local,
                s.visibility,
                align,
                comdat.map(|c| (c.name.to_vec(), c.keeps_all)),
            )
        };
        let want: Vec<_> =
            stored.symbols.iter().filter(|s| s.value.is_some()).map(|s| plain(s, &stored)).collect();
        let got: Vec<_> = made.symbols.iter().map(|s| plain(s, &made)).collect();
        assert_eq!(got, want, "{}", sample.name);
    }
    assert!(tables > 10, "only {tables} symbol tables");
}

#[test]
fn a_summary_of_c() {
    let summary = summary("c-thin");
    assert_eq!(summary.limits_found(), [Limit::OpaqueBitcode]);
    let symbol = |name: &str| *summary.symbol_named(name);
    assert_eq!((symbol("w").binding, symbol("w").kind), (Binding::Weak, SymbolKind::Func));
    assert_eq!(symbol("h").visibility, Visibility::Hidden);
    assert_eq!(symbol("p").visibility, Visibility::Protected);
    assert_eq!((symbol("t").kind, symbol("st").binding), (SymbolKind::Tls, Binding::Local));
    assert_eq!(symbol("alias_of_w").definition, symbol("w").definition);
    assert_eq!(symbol("ifn").kind, SymbolKind::Ifunc);
    for undefined in ["ext", "weak_ext", "printf", "other"] {
        assert_eq!(symbol(undefined).definition, Definition::Undefined, "{undefined}");
    }
    assert_eq!(symbol("weak_ext").binding, Binding::Weak);
    let Definition::Common(common) = symbol("tentative").definition else { panic!("no common") };
    assert_eq!(
        (summary.atoms[common.index()].kind, summary.atoms[common.index()].size),
        (AtomKind::Common, 160)
    );
    assert_eq!(summary.atom_named("mine").1.kind, AtomKind::Data);
    assert_eq!(summary.atom_named(".init_array").1.kind, AtomKind::InitFini);
    assert_eq!(summary.edges(".init_array"), ["Data ctor"]);
    let main = summary.edges(".text.main");
    for edge in ["Call printf", "Call sum", "Address g", "Address tentative", "Address weak_ext"] {
        assert!(main.contains(&edge.to_owned()), "{edge} is not in {main:?}");
    }
}

#[test]
fn a_copy_for_inlining_is_a_reference() {
    let summary = summary("14-thin");
    assert_eq!(summary.symbol_named("copy").definition, Definition::Undefined);
    assert_eq!(summary.symbol_named("maybe").binding, Binding::Weak);
    assert_eq!(summary.edges(".text.f"), ["Address g", "Address s", "Call grouped", "Call away"]);
    let kept: Vec<bool> = summary.groups.iter().map(|g| g.comdat).collect();
    assert_eq!(kept, [false, true]);
}

#[test]
fn a_summary_of_cxx_has_groups() {
    let summary = summary("cxx-thin");
    let groups: Vec<String> = summary
        .groups
        .iter()
        .map(|g| String::from_utf8_lossy(summary.symbol_name(g.signature)).into_owned())
        .collect();
    assert!(groups.iter().any(|g| g == "_ZN7DerivedD0Ev" || g.starts_with("_ZN")), "{groups:?}");
    assert!(summary.groups.iter().all(|g| g.comdat && !g.members.is_empty()));
}

#[test]
fn inline_assembly_keeps_what_it_names() {
    let followed = summaries::extract::extract(&sample("asm-thin").bytes, Granularity::Pointers);
    assert_eq!(followed.limits, []);
    for summary in [summary("asm-thin"), followed] {
        let edges = summary.edges(".text");
        for name in ["asm_wanted", "asm_defined", "asm_weak", "asm_hidden"] {
            assert!(edges.contains(&format!("Data {name}")), "{edges:?}");
        }
        let symbol = summary
            .symbols
            .iter()
            .find(|s| summary.name(s.name) == b"asm_hidden" && matches!(s.definition, Definition::Atom(_)));
        assert!(symbol.is_some());
    }
}

#[test]
fn without_a_summary_everything_is_referred_to() {
    let summary = summary("c-plain");
    let targets: Vec<Target> = summary.references.iter().map(|r| r.target).collect();
    let globals = summary.symbols.iter().filter(|s| s.binding != Binding::Local).count();
    assert_eq!(targets.len(), globals);
    assert!(summary.references.iter().all(|r| r.from.index() == 0));
}

#[test]
fn defined_symbols_are_those_of_the_object() {
    // The object that LLVM makes of the module has the same global symbols, with the same binding, kind and visibility.
    for name in ["c-thin", "cxx-thin", "cxx-full", "asm-thin"] {
        let dir = tempfile::tempdir().unwrap();
        let (input, output) = (dir.path().join("t.bc"), dir.path().join("t.o"));
        std::fs::write(&input, &sample(name).bytes).unwrap();
        run(Command::new("llc-19")
            .args(["-filetype=obj", "-relocation-model=pic", "-function-sections", "-data-sections", "-o"])
            .arg(&output)
            .arg(&input));
        let object = crate::compilers::summary(&std::fs::read(&output).unwrap());
        let bitcode = summary(name);
        let list = |s: &summaries::ModuleSummary| {
            let defined = s
                .symbols
                .iter()
                .filter(|x| x.binding != Binding::Local && x.definition != Definition::Undefined);
            let kind = |k| if k == SymbolKind::NoType { SymbolKind::Object } else { k };
            let mut all: Vec<String> = defined
                .map(|x| {
                    format!(
                        "{} {:?} {:?} {:?}",
                        String::from_utf8_lossy(s.name(x.name)),
                        x.binding,
                        kind(x.kind),
                        x.visibility
                    )
                })
                .collect();
            // The personality by way of data, which code generation makes.
            all.retain(|line| !line.starts_with("DW.ref."));
            // LLVM's table has no visibility of symbols from inline assembly.
            all.retain(|line| !line.starts_with("asm_hidden"));
            all.sort();
            all
        };
        let (got, want) = (list(&bitcode), list(&object));
        assert_eq!(got, want, "{name}");
        // References of the object that LLVM adds are library calls; all others the summary has.
        let names = |s: &summaries::ModuleSummary| {
            let undefined = s
                .symbols
                .iter()
                .filter(|x| x.binding != Binding::Local && x.definition == Definition::Undefined);
            let mut all: Vec<String> =
                undefined.map(|x| String::from_utf8_lossy(s.name(x.name)).into_owned()).collect();
            all.sort();
            all
        };
        let known = names(&bitcode);
        let added: Vec<String> = names(&object).into_iter().filter(|n| !known.contains(n)).collect();
        let expected = [
            "memset",
            "memcpy",
            "memmove",
            "bcmp",
            "_Unwind_Resume",
            "_GLOBAL_OFFSET_TABLE_",
            "__tls_get_addr",
        ];
        assert!(added.iter().all(|n| expected.contains(&n.as_str())), "{name}: {added:?}");
    }
}

#[test]
fn words_that_no_table_has() {
    for sample in samples() {
        assert!(hidden::words(&sample.bytes).is_some(), "{}", sample.name);
    }
}
