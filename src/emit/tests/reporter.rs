//! Stubs that report: the code that the assembler makes of it, and that verification refuses every other byte.

use std::path::Path;

use object::{Object, ObjectSection};
use summaries::{AtomIdx, Definition, ModuleSummary, native};

use super::tools::{Workshop, run};
use crate::emit::object::{reporting_stubs, rewrite};
use crate::plan::{Action, ModulePlan, can_stub};
use crate::verify;

/// Room for a call in `f` and `g`, also behind endbr64; none in `tiny`, and `other` is far away.
const SOURCE: &str = "int out(int);\n\
    __attribute__((noinline)) static int f(int x) { return out(x) + out(x + 1); }\n\
    __attribute__((noinline)) int g(int x) { return out(x) * 3; }\n\
    __attribute__((noinline)) int tiny(void) { return 0; }\n\
    __attribute__((noinline, section(\".ltext\"))) int far(int x) { return out(x) * 5; }\n\
    int (*table[])(int) = {f, g, (int (*)(int))tiny, far};\n";

/// The reporter as GNU as writes it, but for the order of the entries and messages, which are those of `f` and `g` of `dir/s.o`.
const REPORTER: &str = "
write:  push %rsi
        push %rdi
        push %rcx
        push %r11
        mov %rax, %rsi
next:   mov $2, %edi
        mov $1, %eax
        syscall
        cmp $-4, %rax
        je next
        test %rax, %rax
        jle done
        add %rax, %rsi
        sub %rax, %rdx
        jne next
done:   pop %r11
        pop %rcx
        pop %rdi
        pop %rsi
        pop %rdx
        pop %rax
        ret
.macro entry name
        push %rax
        push %rdx
        lea message_\\name(%rip), %rax
        mov $end_\\name - message_\\name, %edx
        {disp32} jmp write
.endm
.macro message name
message_\\name: .ascii \"lto-prune: the function \\name of dir/s.o was called although nothing was found to call it; \"
        .ascii \"--prune-keep=\\name keeps it\\n\"
end_\\name:
.endm
";

fn atom_of(summary: &ModuleSummary, name: &str) -> AtomIdx {
    let found = summary.symbols.iter().find(|s| summary.name(s.name) == name.as_bytes()).unwrap();
    let Definition::Atom(atom) = found.definition else { panic!("{name} is not defined") };
    atom
}

/// All four functions as stubs.
fn plan(summary: &ModuleSummary, report_as: Option<&str>) -> ModulePlan {
    let mut atoms = vec![Action::Keep; summary.atoms.len()];
    for name in ["f", "g", "tiny", "far"] {
        let atom = atom_of(summary, name);
        // Code outside of the standard sections is kept by the analysis; emission is told, and must not call from there.
        assert!(name == "far" || can_stub(summary)[atom.index()], "{name}");
        atoms[atom.index()] = Action::Stub;
    }
    ModulePlan { atoms, report_as: report_as.map(str::to_owned), ..ModulePlan::default() }
}

/// The contents of the last section of the name.
fn last<'o>(object: &'o [u8], name: &str) -> (usize, &'o [u8]) {
    let file = object::File::parse(object).unwrap();
    let section = file.sections().filter(|s| s.name() == Ok(name)).last().unwrap();
    let (start, size) = section.file_range().unwrap();
    (start as usize, &object[start as usize..(start + size) as usize])
}

#[test]
fn the_reporter_is_what_the_assembler_makes_of_it() {
    let shop = Workshop::new();
    for compiler in ["gcc", "clang-19"] {
        for landing in ["-fcf-protection", "-fcf-protection=none"] {
            let object = shop.compile(compiler, "s.c", SOURCE, &["-O2", "-ffunction-sections", landing]);
            let summary = native::extract(&object);
            let plan = plan(&summary, Some("dir/s.o"));
            let good = rewrite(&object, &summary, &plan).unwrap();
            let reporting = reporting_stubs(&object, &summary, &plan).unwrap();
            let order = if reporting[0] == atom_of(&summary, "f") { ["f", "g"] } else { ["g", "f"] };
            assert_eq!(reporting, order.map(|name| atom_of(&summary, name)));
            let of = |kind: &str| order.map(|name| format!("{kind} {name}\n")).concat();
            let assembled =
                shop.compile("gcc", "r.s", &format!("{REPORTER}{}{}", of("entry"), of("message")), &[]);
            assert_eq!(last(&good, ".text").1, last(&assembled, ".text").1);
            verify::object("s.o", &object, &good, &verify::Expected::new(&summary, &plan)).unwrap();
            let lines = super::tools::lint(&shop.write("good.o", &good));
            let before = super::tools::lint(Path::new(&shop.path("s.o")));
            assert!(lines.iter().all(|l| before.contains(l)), "{lines:?}");
            let text = run(shop.command("objdump").args(["-dr", "good.o"]));
            assert_eq!(text.matches("R_X86_64_PLT32").count(), 2, "{text}");
        }
    }
}

#[test]
fn verification_refuses_every_other_reporter() {
    let shop = Workshop::new();
    let flags = ["-O2", "-ffunction-sections", "-fcf-protection"];
    let object = shop.compile("gcc", "s.c", SOURCE, &flags);
    let summary = native::extract(&object);
    let plans = [plan(&summary, Some("dir/s.o")), plan(&summary, None), plan(&summary, Some("dir/t.o"))];
    let expected: Vec<_> = plans.iter().map(|p| verify::Expected::new(&summary, p)).collect();
    let objects: Vec<_> = plans.iter().map(|p| rewrite(&object, &summary, p).unwrap()).collect();
    for (i, emitted) in objects.iter().enumerate() {
        for (j, expected) in expected.iter().enumerate() {
            assert_eq!(verify::object("s.o", &object, emitted, expected).is_ok(), i == j, "{i} {j}");
        }
    }
    let refused = |at: usize| {
        let mut bad = objects[0].clone();
        bad[at] ^= 1;
        assert!(verify::object("s.o", &object, &bad, &expected[0]).is_err(), "{at:#x}");
    };
    for name in [".text", ".text.f", ".text.g", ".text.tiny", ".rela.text.f", ".rela.text.g"] {
        let (start, bytes) = last(&objects[0], name);
        for at in start..start + bytes.len() {
            refused(at);
        }
    }
}

#[test]
fn an_object_of_another_system_only_traps() {
    let shop = Workshop::new();
    let mut object = shop.compile("gcc", "s.c", SOURCE, &["-O2", "-ffunction-sections"]);
    object[7] = 9;
    let summary = native::extract(&object);
    let plan = plan(&summary, Some("dir/s.o"));
    assert_eq!(reporting_stubs(&object, &summary, &plan).unwrap(), []);
    let emitted = rewrite(&object, &summary, &plan).unwrap();
    verify::object("s.o", &object, &emitted, &verify::Expected::new(&summary, &plan)).unwrap();
    assert!(!emitted.windows(9).any(|w| w == b"lto-prune"), "a message");
}
