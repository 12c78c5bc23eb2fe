//! Every kind of damage to an emitted object must be found.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use goblin::elf::Elf;
use summaries::{Definition, Granularity, extract, native};

use super::{
    ExpectedObject, NameHash, OutputType, SymbolFacts, facts, missing, missing_error, object, output,
};
use crate::emit::object::rewrite;
use crate::emit::tree;
use crate::plan::{Action, DebugCollection, ModulePlan};

const SOURCE: &str = include_str!("tests/source.cc");

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?} {}", String::from_utf8_lossy(&output.stderr));
}

fn compile(dir: &Path, compiler: &str, flags: &[&str]) -> Vec<u8> {
    std::fs::write(dir.join("v.cc"), SOURCE).unwrap();
    let base = ["-O1", "-ffunction-sections", "-fdata-sections", "-c", "v.cc", "-o", "v.o"];
    run(Command::new(compiler).current_dir(dir).args(base).args(flags));
    std::fs::read(dir.join("v.o")).unwrap()
}

/// Original, emitted, expectation: `dead` and its table dropped.
fn sample(compiler: &str, flags: &[&str]) -> (Vec<u8>, Vec<u8>, ExpectedObject) {
    sample_without_unwind(compiler, flags, &[])
}

/// The same, with the code of these sections kept without unwind entries.
fn sample_without_unwind(
    compiler: &str,
    flags: &[&str],
    without: &[&[u8]],
) -> (Vec<u8>, Vec<u8>, ExpectedObject) {
    let dir = tempfile::tempdir().unwrap();
    let original = compile(dir.path(), compiler, flags);
    let summary = native::extract(&original);
    let action = |name: &[u8]| match name {
        b".text._Z4deadi" | b".gcc_except_table._Z4deadi" | b".bss.address_of_dead" => Action::Drop,
        _ => Action::Keep,
    };
    let atoms = summary.atoms.iter().map(|a| action(summary.name(a.name))).collect();
    let removes_unwind = summary.atoms.iter().map(|a| without.contains(&summary.name(a.name))).collect();
    let writes_debug_frame = !without.is_empty();
    let plan = ModulePlan { atoms, removes_unwind, writes_debug_frame, ..ModulePlan::default() };
    let emitted = rewrite(&original, &summary, &plan).unwrap();
    let expected = ExpectedObject::new(&summary, &plan);
    object("v.o", &original, &emitted, &expected).unwrap();
    (original, emitted, expected)
}

#[test]
fn every_changed_byte_of_what_the_program_sees_is_found() {
    let other: &[&[u8]] = &[b".text._Z5otheri"];
    for (compiler, flags, without) in [
        ("g++", &[][..], &[][..]),
        ("clang++-19", &["-g"], &[]),
        ("g++", &["-g", "-gz"], &[]),
        ("g++", &[], other),
        ("clang++-19", &[], other),
    ] {
        let (original, emitted, expected) = sample_without_unwind(compiler, flags, without);
        let file = Elf::parse(&emitted).unwrap();
        let mut watched: Vec<(usize, String)> = Vec::new();
        for section in &file.section_headers {
            let name = file.shdr_strtab.get_at(section.sh_name).unwrap().to_owned();
            // Names are compared by their users.
            let skipped = name.contains("strtab") || name == ".llvm_addrsig";
            if let (false, Some(range)) = (skipped, section.file_range()) {
                watched.extend(range.map(|at| (at, name.clone())));
            }
        }
        let mut missed: Vec<(usize, String)> = Vec::new();
        let total = watched.len();
        // A prime step keeps the test short and every kind of field covered.
        for (at, name) in watched.into_iter().step_by(7) {
            for flip in [0x01, 0x80] {
                let mut damaged = emitted.clone();
                damaged[at] ^= flip;
                if object("v.o", &original, &damaged, &expected).is_ok() {
                    missed.push((at, name.clone()));
                }
            }
        }
        missed.dedup();
        // The link and alignment of a table section are not compared, and neither is entry 0 of the symbol table.
        let symtab = file.section_headers.iter().find(|s| s.sh_type == 2).unwrap().sh_offset as usize;
        missed.retain(|(at, _)| !(symtab..symtab + 24).contains(at));
        assert!(total > 900 && missed.is_empty(), "{compiler} {flags:?}: {total} {missed:?}");
    }
}

#[test]
fn damaged_entries_of_debug_information_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let original = compile(dir.path(), "clang++-19", &["-g", "-gdwarf-4"]);
    let summary = native::extract(&original);
    let dead = |name: &[u8]| name == b".text._Z4deadi" || name == b".gcc_except_table._Z4deadi";
    let action = |name: &[u8]| if dead(name) { Action::Drop } else { Action::Keep };
    let atoms = summary.atoms.iter().map(|a| action(summary.name(a.name))).collect();
    let plan = ModulePlan { atoms, debug: Some(DebugCollection::RemovedCode), ..ModulePlan::default() };
    let source = tree::prepare_module(&original, &summary, &plan).unwrap();
    let (emitted, uncollected) = tree::rewrite_module(&original, &summary, &plan, &source).unwrap();
    assert!(uncollected.is_none());
    let expected = ExpectedObject::new(&summary, &plan);
    let said = |emitted: &[u8]| object("v.o", &original, emitted, &expected).map_err(|e| e.to_string());
    said(&emitted).unwrap();
    let range = |object: &[u8], name: &str| {
        let file = Elf::parse(object).unwrap();
        let mut named = file.section_headers.iter();
        named.find(|s| file.shdr_strtab.get_at(s.sh_name) == Some(name)).unwrap().file_range().unwrap()
    };
    let entries = range(&emitted, ".debug_info");
    assert!(entries.len() < range(&original, ".debug_info").len());
    let with = |at: usize, flip: u8| {
        let mut damaged = emitted.clone();
        damaged[at] ^= flip;
        said(&damaged).err().unwrap_or_default()
    };
    let errors: Vec<String> = entries.map(|at| with(at, 1)).collect();
    // Each relocation in turn has another type: R_X86_64_64 becomes R_X86_64_NONE.
    let relocations = range(&emitted, ".rela.debug_info").step_by(24).map(|at| with(at + 8, 1));
    let errors: Vec<String> = errors.into_iter().chain(relocations).collect();
    for what in ["where no entry begins", "is no tree of entries", "has no abbreviation", " is lost"] {
        assert!(errors.iter().any(|error| error.contains(what)), "{what}: {errors:?}");
    }
}

#[test]
fn an_unwind_entry_that_is_needed_must_be_there() {
    let other: &[&[u8]] = &[b".text._Z5otheri"];
    let (original, kept, expects_entry) = sample("g++", &[]);
    let (_, removed, expects_none) = sample_without_unwind("g++", &[], other);
    let found = |emitted, expected| object("v.o", &original, emitted, expected).map_err(|e| e.to_string());
    assert!(found(&removed, &expects_entry).unwrap_err().contains(".debug_frame"));
    assert!(found(&kept, &expects_none).is_err());
    let has = |object: &[u8], section: &str| {
        let file = Elf::parse(object).unwrap();
        file.section_headers.iter().any(|s| file.shdr_strtab.get_at(s.sh_name) == Some(section))
    };
    assert!(has(&removed, ".debug_frame") && !has(&kept, ".debug_frame") && has(&removed, ".eh_frame"));
}

#[test]
fn every_changed_section_header_field_that_matters_is_found() {
    let (original, emitted, expected) = sample("g++", &[]);
    let table = u64::from_le_bytes(emitted[40..48].try_into().unwrap()) as usize;
    let count = (emitted.len() - table) / 64;
    // sh_name, sh_type, sh_flags, sh_offset, sh_size; sh_link and sh_info of tables.
    let mut missed = Vec::new();
    for section in 1..count {
        for field in [0, 4, 8, 24, 32, 40, 44] {
            let at = table + section * 64 + field;
            let mut damaged = emitted.clone();
            damaged[at] ^= 1;
            let size = &emitted[table + section * 64 + 32..][..8];
            // The place of an empty section does not matter.
            let says_something = field != 24 || size != [0; 8];
            if says_something && object("v.o", &original, &damaged, &expected).is_ok() {
                let kind = emitted[table + section * 64 + 4];
                missed.push((section, kind, field));
            }
        }
    }
    // Names and flags of tables are decoration, and so are links of sections that have no use for them.
    missed.retain(|(_, kind, field)| match kind {
        2 => ![0, 8].contains(field),
        3 => ![0, 4, 8, 24, 32, 40, 44].contains(field),
        4 | 17 => ![0, 8].contains(field),
        _ => ![40, 44].contains(field),
    });
    assert!(missed.is_empty(), "{missed:?}");
}

/// Two functions that end in short jumps to a third. One is next to it and in the same part. Between the other one
/// and its target a function is dropped.
const SHORT_JUMPS: &str = "
 .macro function name, body:vararg
 .p2align 4
 .globl \\name
 .type \\name, @function
\\name: .cfi_startproc
 \\body
 .cfi_endproc
 .size \\name, .-\\name
 .endm
 .text
 function far, jmp .Lcallee
 function dead, ret
 function beside, jmp .Lcallee
 .p2align 4
 .type callee, @function
callee:
.Lcallee: .cfi_startproc
 ret
 .cfi_endproc
 .size callee, .-callee
";

/// A jump that is not relaxed would run other code. One that is relaxed without need has no relocation.
#[test]
fn short_jumps_are_relaxed_where_they_leave_a_part_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("j.s"), SHORT_JUMPS).unwrap();
    run(Command::new("gcc").current_dir(dir.path()).args(["-c", "j.s", "-o", "j.o"]));
    let original = std::fs::read(dir.path().join("j.o")).unwrap();
    let summary = extract::extract(&original, Granularity::Functions);
    let named =
        |name: &[u8]| summary.symbols.iter().find(|s| summary.name(s.name) == name).unwrap().definition;
    let mut plan = ModulePlan { atoms: vec![Action::Keep; summary.atoms.len()], ..ModulePlan::default() };
    let Definition::Atom(dead) = named(b"dead") else { unreachable!() };
    plan.atoms[dead.index()] = Action::Drop;
    let emitted = rewrite(&original, &summary, &plan).unwrap();
    let expected = ExpectedObject::new(&summary, &plan);
    object("j.o", &original, &emitted, &expected).unwrap();
    let file = Elf::parse(&emitted).unwrap();
    let parts: Vec<_> =
        file.section_headers.iter().filter(|s| s.sh_flags & 4 != 0 && s.sh_size > 0).collect();
    let [far, rest] = parts[..] else { unreachable!("{} parts", parts.len()) };
    let (far, rest) = (far.file_range().unwrap(), rest.file_range().unwrap());
    assert_eq!((emitted[far.start], emitted[rest.start]), (0xe9, 0xeb));
    for (at, opcode) in [(far.start, 0xeb), (rest.start, 0xe9)] {
        let mut damaged = emitted.clone();
        damaged[at] = opcode;
        object("j.o", &original, &damaged, &expected).unwrap_err();
    }
    // Every byte of code, and of the relocation that leads to the target.
    let relocations = file.section_headers.iter().filter(|s| s.sh_type == 4).flat_map(|s| s.file_range());
    for at in relocations.chain([far, rest]).flatten() {
        let mut damaged = emitted.clone();
        damaged[at] ^= 0x01;
        assert!(object("j.o", &original, &damaged, &expected).is_err(), "the byte at {at:#x}");
    }
}

#[test]
fn sections_that_should_have_gone_or_stayed_are_found() {
    let (original, emitted, expected) = sample("g++", &[]);
    assert!(object("v.o", &original, &original, &expected).is_err());
    let nothing_dropped = ExpectedObject::default();
    let error = object("v.o", &original, &emitted, &nothing_dropped).unwrap_err();
    assert!(error.section.is_some() && error.file.as_deref() == Some("v.o"), "{error}");
    assert!(object("v.o", &original, &original, &nothing_dropped).is_ok());
}

#[test]
fn closure_finds_what_nothing_defines() {
    let (original, emitted, _) = sample("g++", &[]);
    let but = |name: &[u8]| {
        let name = NameHash::of(name);
        move |other: NameHash| other != name
    };
    let closure = |objects: [(&str, &[u8]); 2], elsewhere: &dyn Fn(NameHash) -> bool| {
        let all: Vec<SymbolFacts> = objects.iter().map(|(name, bytes)| facts(name, bytes).unwrap()).collect();
        let (object, name) = missing(&all, elsewhere)?;
        Some(missing_error(objects[object].0, objects[object].1, name))
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("v.cc"),
        "int dead(int); __attribute__((weak)) int maybe(); \
        int user() { return maybe ? maybe() : dead(1); }",
    )
    .unwrap();
    run(Command::new("g++").current_dir(dir.path()).args(["-c", "v.cc", "-o", "v.o"]));
    let user = std::fs::read(dir.path().join("v.o")).unwrap();
    let whole = [("user.o", user.as_slice()), ("v.o", original.as_slice())];
    assert!(closure(whole, &but(b"_Z4deadi")).is_none());
    let pruned = [("user.o", user.as_slice()), ("v.o", emitted.as_slice())];
    let error = closure(pruned, &but(b"_Z4deadi")).unwrap();
    assert_eq!((error.file.as_deref(), error.symbol.as_deref()), (Some("user.o"), Some("_Z4deadi")));
    assert!(closure(pruned, &|_| true).is_none());
    // This also holds for a weak reference.
    let error = closure(pruned, &but(b"_Z5maybev")).unwrap();
    assert_eq!(error.symbol.as_deref(), Some("_Z5maybev"));
}

#[test]
fn outputs_are_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("m.c"),
        "#include <math.h>\nint main(int c, char **v) { return sin(c) > 2; }",
    )
    .unwrap();
    std::fs::write(dir.path().join("l.c"), "__thread int t = 1; int exported(void) { return t; } int e(void) { return 2; } __asm__(\".symver e, earlier@V1\");").unwrap();
    std::fs::write(
        dir.path().join("l.map"),
        "V1 { global: earlier; local: *; }; V2 { global: exported; } V1;",
    )
    .unwrap();
    let build = |args: &[&str]| run(Command::new("gcc").current_dir(dir.path()).args(args));
    build(&["m.c", "-o", "pie", "-lm"]);
    build(&["m.c", "-no-pie", "-o", "exe", "-lm"]);
    build(&["m.c", "-static-pie", "-o", "static-pie", "-lm"]);
    build(&["l.c", "-shared", "-fPIC", "-o", "lib.so", "-s", "-Wl,-soname,l,--version-script=l.map"]);
    let facts = |name: &str| output(&dir.path().join(name)).unwrap();
    for (name, kind) in [
        ("pie", OutputType::PositionIndependentExecutable),
        ("exe", OutputType::Executable),
        ("static-pie", OutputType::PositionIndependentExecutable),
        ("lib.so", OutputType::SharedLibrary),
    ] {
        assert_eq!(facts(name).kind, kind, "{name}");
    }
    assert_eq!(facts("exe").needed, [b"libm.so.6".to_vec(), b"libc.so.6".to_vec()]);
    assert_eq!(facts("static-pie").needed, Vec::<Vec<u8>>::new());
    let library = facts("lib.so");
    let symbols = library.dynamic_symbols().unwrap().unwrap();
    let version = |name: &[u8]| {
        let found: Vec<_> = symbols.exports(name).iter().map(|s| (s.version, s.by_default)).collect();
        found
    };
    assert_eq!(version(b"exported"), [(&b"V2"[..], true)]);
    assert_eq!(version(b"earlier"), [(&b"V1"[..], false)]);
    assert!(!symbols.undefined.contains(&&b"exported"[..]) && version(b"sin").is_empty());
    assert_eq!((library.soname.as_deref(), &library.interpreter), (Some(&b"l"[..]), &None));
    let program = facts("exe");
    let symbols = program.dynamic_symbols().unwrap().unwrap();
    assert!(symbols.undefined.contains(&&b"sin"[..]) && symbols.exports(b"sin").is_empty());
    assert_eq!((program.init, program.fini, program.tls, library.tls), (Some(true), Some(true), false, true));
    assert_eq!(program.interpreter.as_deref(), Some(&b"/lib64/ld-linux-x86-64.so.2"[..]));
    assert_eq!((program.init_array, program.fini_array, program.execstack), (Some(8), Some(8), Some(false)));
    // A truncated file gives an error or facts, and no panic.
    let bytes = std::fs::read(dir.path().join("exe")).unwrap();
    for cut in (0..bytes.len()).step_by(97) {
        let path = dir.path().join("cut");
        std::fs::write(&path, &bytes[..cut]).unwrap();
        if let Ok(facts) = output(&path) {
            let _ = facts.dynamic_symbols();
        }
    }
    std::fs::write(dir.path().join("cut"), &bytes[..4096]).unwrap();
    assert!(output(&dir.path().join("cut")).is_err());
}
