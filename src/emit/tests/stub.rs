//! Stubs in objects of real compilers: verification rejects wrong ones, and emission fails where it can't make one.

use summaries::{AtomIdx, Definition, ModuleSummary, native};

use super::planner::{emitted, keeps_all, verified};
use super::tools::Workshop;
use crate::emit::object::rewrite;
use crate::plan::Action;
use crate::propagate::can_stub;

const SOURCE: &str = "int out(int);\n\
    __attribute__((noinline)) static int f(int x) { return out(x) + out(x + 1); }\n\
    __attribute__((noinline)) int g(int x) { return out(x) * 3; }\n\
    int (*table[])(int) = {f, g};\n";

fn atom_of(summary: &ModuleSummary, name: &str) -> AtomIdx {
    let found = summary.symbols.iter().find(|s| summary.name(s.name) == name.as_bytes()).unwrap();
    let Definition::Atom(atom) = found.definition else { panic!("{name} is not defined") };
    atom
}

fn find(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).position(|w| w == needle).unwrap()
}

#[test]
fn verification_refuses_what_is_no_stub() {
    let shop = Workshop::new();
    for compiler in ["gcc", "clang-19"] {
        let object =
            shop.compile(compiler, "s.c", SOURCE, &["-O2", "-ffunction-sections", "-fcf-protection"]);
        let summary = native::extract(&object);
        let mut plan = keeps_all(&summary);
        for name in ["f", "g"] {
            let atom = atom_of(&summary, name);
            assert!(can_stub(&summary)[atom.index()], "{name}");
            plan.atoms[atom.index()] = Action::Stub;
        }
        let good = emitted(&object, &summary, &plan);
        let after = native::extract(&good);
        assert_eq!(after.atoms[atom_of(&after, "f").index()].size, 6);
        assert!(after.symbols.iter().all(|s| after.name(s.name) != b"out"), "only the bodies call it");

        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(verified(&object, &bad, &summary, &plan).is_err());
        };
        let stub = [0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x0b];
        refused(&|bad| {
            let at = find(bad, &stub);
            bad[at + 5] = 0x05;
        });
        // The size, and the name, in the table.
        refused(&|bad| {
            let at = find(bad, b"\x06\0\0\0f\0");
            bad[at] = 7;
        });
        refused(&|bad| {
            let at = find(bad, b"\x06\0\0\0f\0");
            bad[at + 4] = 0;
        });
        // A plan that wants the bodies, and an object without stubs for one that wants stubs.
        let keep = keeps_all(&summary);
        assert!(verified(&object, &good, &summary, &keep).is_err());
        assert!(verified(&object, &object, &summary, &plan).is_err());
    }
}

#[test]
fn ranges_of_debug_information_end_where_a_stub_does() {
    let shop = Workshop::new();
    for compiler in ["gcc", "clang-19"] {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let flags = ["-O2", "-ffunction-sections", version];
            let object = shop.compile(compiler, "d.c", SOURCE, &flags);
            let summary = native::extract(&object);
            for names in [&["f"][..], &["g"], &["f", "g"]] {
                let mut plan = keeps_all(&summary);
                names.iter().for_each(|n| plan.atoms[atom_of(&summary, n).index()] = Action::Stub);
                emitted(&object, &summary, &plan);
            }
        }
    }
}

#[test]
fn the_body_of_a_stub_is_no_place() {
    let shop = Workshop::new();
    let source = ".text\n.section .text.f,\"ax\",@progbits\n.globl f\n.type f,@function\nf: nop\nnop\n.Lin: nop\nret\n\
        .size f,.-f\n.data\n.quad f\n";
    for (more, fits) in [("", true), (".quad f+2\n", false), (".quad .Lin\n", false)] {
        let object = shop.compile("gcc", "b.s", &format!("{source}{more}"), &[]);
        let summary = native::extract(&object);
        let atom = atom_of(&summary, "f");
        assert_eq!(can_stub(&summary)[atom.index()], fits, "{more}");
        let mut plan = keeps_all(&summary);
        plan.atoms[atom.index()] = Action::Stub;
        assert_eq!(rewrite(&object, &summary, &plan).is_ok(), fits, "{more}");
    }
}

/// A local name without a type, at code, may be that of a part of a function, to which a table leads.
#[test]
fn code_with_a_local_label_only_is_kept() {
    let shop = Workshop::new();
    for (kind, is_function) in [("", false), (".globl part\n", true), (".type part, @function\n", true)] {
        let text = format!(
            ".section .text.part,\"ax\"\n{kind}part: .cfi_startproc\ncall out\nret\n.cfi_endproc\n.size part, . - part\n\
             .section .data.rel.ro,\"aw\"\n.quad part\n.section .note.GNU-stack,\"\",@progbits\n"
        );
        let summary = native::extract(&shop.compile("gcc", "part.s", &text, &[]));
        assert_eq!(can_stub(&summary)[atom_of(&summary, "part").index()], is_function, "{kind}");
    }
}
