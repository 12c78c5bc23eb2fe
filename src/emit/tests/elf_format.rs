//! Corner cases of ELF: large counts, visibility, groups, unwind tables, index tables; and wrong plans.

use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags};
use summaries::{ModuleSummary, native};

use super::planner::{discard_group, emitted, keeps_all, plan, verified};
use super::tools::{LINKERS, Workshop, run};
use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan, SymbolFlags};
use crate::verify;

/// Prune one object from `_start`, verified.
fn prune(bytes: &[u8]) -> (ModuleSummary, ModulePlan, Vec<u8>) {
    let summary = native::extract(bytes);
    assert!(summary.limits.is_empty(), "{:?}", summary.limits);
    let plan = plan(&summary, &["_start"]);
    let pruned = emitted(bytes, &summary, &plan);
    (summary, plan, pruned)
}

fn assemble(shop: &Workshop, source: &str) -> Vec<u8> {
    shop.compile("clang-19", "t.s", source, &[])
}

fn symbol_lines(shop: &Workshop, bytes: &[u8]) -> String {
    run(Command::new("readelf").arg("-sW").arg(shop.write("symbols.o", bytes)))
}

#[test]
fn more_sections_than_sixteen_bits_count() {
    for dead in [100, 50_000] {
        let shop = Workshop::new();
        let mut source = String::from(".section .text._start,\"ax\",@progbits\n.globl _start\n_start:\n");
        for i in 0..70_000 {
            if i % (70_000 / dead) != 0 || dead == 50_000 && i % 7 >= 5 {
                source += &format!("call f{i}\n");
            }
        }
        source += "mov $60,%eax\nxor %edi,%edi\nsyscall\n";
        for i in 0..70_000 {
            source +=
                &format!(".section .text.f{i},\"ax\",@progbits\n.globl f{i}\nf{i}: ret\nl{i}: jmp l{i}-1\n");
        }
        // Sections behind the 65,280th hold kept symbols.
        source += ".data\n.globl last\nlast: .quad f69999, last\n.section .text._start\n.quad last\n";
        let object = assemble(&shop, &source);
        let (_, plan, pruned) = prune(&object);
        let dropped = plan.atoms.iter().filter(|a| **a == Action::Drop).count();
        assert!(dropped > 50, "{dropped}");
        shop.write("n.o", &pruned);
        for linker in ["ld.lld-19", "mold", "ld.bfd", "ld.gold"] {
            let exe = shop.path("exe");
            run(Command::new(linker).arg("-o").arg(&exe).arg(shop.path("n.o")));
            run(&mut Command::new(&exe));
        }
        let file = object::File::parse(&*pruned).unwrap();
        let last = file.symbol_by_name("last").unwrap();
        let section = file.section_by_index(last.section_index().unwrap()).unwrap();
        assert_eq!(section.name().unwrap(), ".data");
        assert_eq!(file.section_by_name(".symtab_shndx").is_some(), file.sections().count() > 65_279);
    }
}

#[test]
fn keeping_everything_changes_nothing() {
    let shop = Workshop::new();
    for (compiler, flags) in [
        ("g++", &["-g", "-O2"][..]),
        ("clang++-19", &["-g", "-O2", "-gz", "-fstack-size-section", "-fbasic-block-address-map"]),
        ("clang++-19", &["-O2", "-fdebug-types-section", "-g", "-funique-internal-linkage-names"]),
    ] {
        let flags = [flags, &["-ffunction-sections", "-fdata-sections"]].concat();
        let source = "#include <map>\n#include <string>\nint f(std::map<std::string, int> &m) {\n\
            try { return m[\"x\"]++; } catch (int) { return 2; } }\nthread_local int t; int g() { return t; }";
        let object = shop.compile(compiler, "k.cc", source, &flags);
        let summary = native::extract(&object);
        let keep = vec![Action::Keep; summary.atoms.len()];
        let plan = ModulePlan { atoms: keep, ..ModulePlan::default() };
        let same = emitted(&object, &summary, &plan);
        assert_eq!(native::extract(&same), {
            let mut again = native::extract(&same);
            (again.symbols, again.references) = (summary.symbols.clone(), summary.references.clone());
            again.symbols.iter_mut().zip(&native::extract(&same).symbols).for_each(|(a, b)| a.name = b.name);
            again
        });
        // The output of readelf, without file offsets.
        let dump = |bytes: &[u8]| {
            let path = shop.write("dump.o", bytes);
            let text = run(Command::new("readelf").args(["-sgrnuW", "-x.llvm_addrsig"]).arg(path));
            text.lines().filter(|l| !l.contains(" at offset 0x")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(dump(&object), dump(&same), "{compiler} {flags:?}");
    }
}

#[test]
fn visibility_of_a_dropped_symbol_reaches_the_linker() {
    let shop = Workshop::new();
    let source = ".section .text.d,\"ax\",@progbits\n.globl hid\n.hidden hid\nhid: ret\n.globl gone\ngone: call far\n\
        .hidden far\n.section .text._start,\"ax\",@progbits\n.globl _start\n_start: ret\n";
    let object = assemble(&shop, source);
    let summary = native::extract(&object);
    let mut plan = plan(&summary, &["_start"]);
    plan.symbols.clear();
    let text = symbol_lines(&shop, &rewrite(&object, &summary, &plan).unwrap());
    for name in ["hid", "far"] {
        let line = text.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
        assert!(line.contains("WEAK") && line.contains("HIDDEN") && line.contains("UND"), "{line}");
    }
    assert!(!text.contains("gone"));
    plan.symbols = vec![SymbolFlags::DEFINITION_DROPPED; summary.symbols.len()];
    let pruned = rewrite(&object, &summary, &plan).unwrap();
    let text = symbol_lines(&shop, &pruned);
    assert!(!text.contains("hid") && !text.contains("far"), "{text}");
    verified(&object, &pruned, &summary, &plan).unwrap();
}

#[test]
fn a_reference_without_definition_is_an_error() {
    let shop = Workshop::new();
    let source = ".section .text.d,\"ax\",@progbits\n.globl dead\ndead: ret\nlocal: ret\n\
        .section .text._start,\"ax\",@progbits\n.globl _start\n_start: call dead\n.quad local\n";
    let object = assemble(&shop, source);
    let summary = native::extract(&object);
    let drop = |name: &[u8], plan: &mut ModulePlan| {
        for (atom, action) in summary.atoms.iter().zip(&mut plan.atoms) {
            if summary.name(atom.name) == name {
                *action = Action::Drop;
            }
        }
    };
    let mut plan = keeps_all(&summary);
    drop(b".text.d", &mut plan);
    let error = rewrite(&object, &summary, &plan).unwrap_err();
    assert_eq!(error.symbol.as_deref(), Some("dead"), "{error}");
    assert!(error.section.as_deref().unwrap().starts_with(".text._start"), "{error}");
    // Another definition does for the global one, never for the local one.
    plan.symbols = vec![SymbolFlags::PREVAILS_ELSEWHERE; summary.symbols.len()];
    let error = rewrite(&object, &summary, &plan).unwrap_err();
    assert_ne!(error.symbol.as_deref(), Some("dead"), "{error}");
}

#[test]
fn undefined_symbols_that_were_never_referred_to_stay() {
    // `.globl x` alone makes the linker look for x in archives.
    let shop = Workshop::new();
    let source = ".globl pull_in\n.section .text.d,\"ax\",@progbits\ncall only_dead\n\
        .section .text._start,\"ax\",@progbits\n.globl _start\n_start: call both\n.section .text.e,\"ax\",@progbits\n\
        call both\n";
    let object = shop.compile("clang-19", "t.s", &format!("{source}\n.weak pull_weak\n"), &[]);
    let (_, _, pruned) = prune(&object);
    let (before, after) = (symbol_lines(&shop, &object), symbol_lines(&shop, &pruned));
    for name in ["pull_in", "pull_weak", "both"] {
        assert_eq!(before.contains(name), after.contains(name), "{name}: {after}");
    }
    assert!(after.contains("both") && !after.contains("only_dead"), "{after}");
}

#[test]
fn section_names_outside_of_the_file_are_an_error() {
    let shop = Workshop::new();
    let mut object = assemble(&shop, ".globl _start\n_start: ret\n");
    let summary = native::extract(&object);
    let plan = plan(&summary, &["_start"]);
    let file = object::File::parse(&*object).unwrap();
    let names = file.sections().find(|s| s.name() == Ok(".strtab")).unwrap().index().0;
    drop(file);
    let table = u64::from_le_bytes(object[40..48].try_into().unwrap()) as usize;
    object[table + names * 64 + 24..][..8].fill(0x7f);
    assert!(rewrite(&object, &summary, &plan).is_err());
    assert!(verify::object("t.o", &object, &object, &verify::ExpectedObject::default()).is_err());
}

#[test]
fn unwind_entries_follow_their_functions() {
    let shop = Workshop::new();
    let function = |name: &str, personality: &str| {
        format!(
            ".section .text.{name},\"ax\",@progbits\n.globl {name}\n{name}:\n.cfi_startproc\n{personality}\n\
             push %rbx\n.cfi_adjust_cfa_offset 8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
        )
    };
    let personality = ".cfi_personality 0x9b, DW.pers\n.cfi_lsda 0x1b, lsda";
    let source = [
        ".section .gcc_except_table,\"a\",@progbits\nlsda: .quad 0\n".to_owned(),
        ".data\n.globl DW.pers\n.hidden DW.pers\n.weak DW.pers\nDW.pers: .quad 0\n".to_owned(),
        function("dead1", personality),
        function("_start", ""),
        function("dead2", ""),
        function("kept", ".cfi_signal_frame"),
        function("dead3", personality),
        ".section .text._start\n.quad kept\n".to_owned(),
    ]
    .concat();
    // As in crtend.o, with a symbol that marks the place. Linkers stop reading there.
    let terminated = format!("{source}.section .eh_frame,\"a\",@unwind\nframe_end: .long 0\n");
    for source in [&source, &terminated] {
        let object = shop.compile("clang-19", "t.s", source, &[]);
        let (_, _, pruned) = prune(&object);
        let frames = |bytes: &[u8]| {
            let path = shop.write("f.o", bytes);
            run(Command::new("readelf").arg("--debug-dump=frames").arg(path))
        };
        let (before, after) = (frames(&object), frames(&pruned));
        let count = |text: &str, word: &str| text.matches(word).count();
        assert_eq!((count(&before, " FDE "), count(&after, " FDE ")), (5, 2), "{after}");
        assert_eq!((count(&before, " CIE\n"), count(&after, " CIE\n")), (3, 2), "{before}{after}");
        assert_eq!(count(&after, "ZERO terminator"), count(&before, "ZERO terminator"));
        assert!(!symbol_lines(&shop, &pruned).contains("DW.pers"));
        // mold refuses a symbol in .eh_frame, the others stop at a terminator.
        for linker in ["ld.lld-19", "mold", "ld.bfd", "ld.gold"].iter().filter(|_| *source != terminated) {
            let exe = shop.path("exe");
            let input = shop.write("f.o", &pruned);
            run(Command::new(linker).args(["--eh-frame-hdr", "-o"]).arg(&exe).arg(&input));
            let text = run(Command::new("readelf").args(["-SW", "--debug-dump=frames"]).arg(&exe));
            assert_eq!(count(&text, " FDE "), 2, "{linker}: {text}");
        }
    }
}

#[test]
fn an_unwind_section_of_which_nothing_is_left_goes() {
    let shop = Workshop::new();
    let source = ".section .text.d,\"ax\",@progbits\ndead:\n.cfi_startproc\nret\n.cfi_endproc\n\
        .section .text._start,\"ax\",@progbits\n.globl _start\n_start: ret\n";
    let (_, _, pruned) = prune(&assemble(&shop, source));
    let file = object::File::parse(&*pruned).unwrap();
    assert!(file.section_by_name(".eh_frame").is_none());
    // A symbol that marks the place keeps it.
    let marked = format!("{source}.section .eh_frame,\"a\",@unwind\n.globl mark\nmark:\n");
    let (_, _, pruned) = prune(&assemble(&shop, &marked));
    let file = object::File::parse(&*pruned).unwrap();
    assert_eq!(file.section_by_name(".eh_frame").unwrap().size(), 0);
    assert_eq!(file.symbol_by_name("mark").unwrap().address(), 0);
}

#[test]
fn unwind_of_a_kept_function_with_a_dropped_table_is_an_error() {
    let shop = Workshop::new();
    let source = ".section .gcc_except_table,\"a\",@progbits\nlsda: .quad 0\n\
        .section .text._start,\"ax\",@progbits\n.globl _start\n_start:\n.cfi_startproc\n.cfi_lsda 0x1b, lsda\nret\n.cfi_endproc\n";
    let object = assemble(&shop, source);
    let summary = native::extract(&object);
    let mut plan = plan(&summary, &["_start"]);
    for (atom, action) in summary.atoms.iter().zip(&mut plan.atoms) {
        if summary.name(atom.name) == b".gcc_except_table" {
            assert_eq!(*action, Action::Keep);
            *action = Action::Drop;
        }
    }
    let error = rewrite(&object, &summary, &plan).unwrap_err();
    assert!(error.section.as_deref().unwrap().starts_with(".eh_frame"), "{error}");
}

#[test]
fn index_tables_are_renumbered() {
    let shop = Workshop::new();
    let source = include_str!("index_tables.s");
    let (_, _, pruned) = prune(&assemble(&shop, source));
    let path = shop.write("p.o", &pruned);
    let text = run(Command::new("llvm-readobj-19").args(["--cg-profile", "--addrsig"]).arg(&path));
    let facts: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| {
            l.starts_with("From") || l.starts_with("To") || l.starts_with("Weight") || l.starts_with("Sym")
        })
        .map(|l| l.split(" (").next().unwrap())
        .collect();
    let expected = "From: _start|To: a|Weight: 10|From: _start|To: b|Weight: 40|Sym: b|Sym: a";
    assert_eq!(facts.join("|"), expected);
    // The linker reads both.
    for linker in LINKERS {
        let program = if *linker == "lld" { "ld.lld-19".to_owned() } else { format!("ld.{linker}") };
        let mut command = Command::new(program);
        if *linker == "lld" {
            command.arg("--icf=safe");
        }
        run(command.arg("-o").arg(shop.path("exe")).arg(&path));
    }
}

#[test]
fn groups_shrink() {
    let shop = Workshop::new();
    let source = include_str!("groups.s");
    let object = assemble(&shop, source);
    let summary = native::extract(&object);
    let mut plan = plan(&summary, &["_start"]);
    // The group's own name may go with its section: drop `i`, nothing refers to it but data that is made to go too.
    for (atom, action) in summary.atoms.iter().zip(&mut plan.atoms) {
        if [&b".text.g"[..], b".text.h"].contains(&summary.name(atom.name)) {
            *action = Action::Drop;
        }
    }
    let pruned = emitted(&object, &summary, &plan);
    let text = run(Command::new("readelf").arg("-gW").arg(shop.write("g.o", &pruned)));
    assert!(text.contains("[sig] contains 1 sections") && !text.contains("[h]"), "{text}");
    assert!(text.contains("[i] contains 3 sections"), "{text}");
    let file = object::File::parse(&*pruned).unwrap();
    let grouped = |name: &str| match file.section_by_name(name).unwrap().flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & object::elf::SHF_GROUP.0 != 0,
        _ => false,
    };
    assert!(grouped(".text.f"));
    // A group that another module's group replaces is dropped as a whole. References to it become undefined.
    discard_group(&summary, &mut plan, b"i");
    let pruned = emitted(&object, &summary, &plan);
    let line = symbol_lines(&shop, &pruned);
    assert!(line.lines().any(|l| l.contains("WEAK") && l.ends_with("UND j")), "{line}");
}
