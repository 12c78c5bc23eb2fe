//! The native front end on what compilers write.

use crate::compilers::{Find, object, summary};
use summaries::native::eh_frame::{self, RecordKind};
use summaries::{AtomKind, Binding, Definition, Limit, ModuleKind, ReferenceKind, SymbolKind, atom_flags};

const C: &str = include_str!("programs/native_c.c");

#[test]
fn c_by_gcc_and_clang() {
    for compiler in ["gcc", "clang-19"] {
        let bytes =
            object(&[compiler, "-c", "-O1", "-g", "-fPIC", "-ffunction-sections", "-fdata-sections"], "c", C);
        let s = summary(&bytes);
        assert_eq!((s.kind, s.limits_found()), (ModuleKind::Native, vec![]), "{compiler}");
        assert_eq!(s.symbols[0].definition, Definition::Undefined);
        assert_eq!(s.symbol_named("outside").definition, Definition::Undefined);
        assert_eq!(s.symbol_named("soft").binding, Binding::Weak);

        let (main, atom) = s.atom_named(".text.main");
        assert_eq!(atom.kind, AtomKind::Code);
        assert_eq!(atom.flags, atom_flags::EXEC | atom_flags::STANDARD_FAMILY);
        let symbol = s.symbol_named("main");
        assert_eq!(
            (symbol.definition, symbol.kind, symbol.value),
            (Definition::Atom(main), SymbolKind::Func, 0)
        );
        assert_eq!(symbol.size, atom.size);
        assert_eq!(s.edges(".text.main"), ["Call soft"]);

        let own = s.atom_named("own_section").1;
        assert_eq!(own.kind, AtomKind::Data);
        assert_eq!(
            own.flags & (atom_flags::C_IDENTIFIER | atom_flags::STANDARD_FAMILY),
            atom_flags::C_IDENTIFIER
        );
        assert_eq!(s.atom_named(".tdata.per_thread").1.kind, AtomKind::TlsData);
        assert_eq!(s.atom_named(".tbss.per_thread_zero").1.kind, AtomKind::TlsBss);
        assert_eq!(s.atom_named(".bss.counter").1.kind, AtomKind::Bss);
        assert_eq!(s.atom_named(".init_array").1.kind, AtomKind::InitFini);
        assert_eq!(s.atom_named(".debug_info").1.kind, AtomKind::Debug);
        assert_eq!(s.atom_named(".comment").1.kind, AtomKind::NonAlloc);
        let strings = s
            .atoms
            .iter()
            .find(|a| s.name(a.name).starts_with(b".rodata") && a.has(atom_flags::STRINGS))
            .unwrap();
        assert!(strings.has(atom_flags::MERGE) && strings.kind == AtomKind::ReadOnlyData);

        let start = s.edges(".text.start");
        assert!(start.contains(&"Got counter".to_owned()), "{start:?}");
        assert!(start.contains(&"Tls per_thread".to_owned()), "{start:?}");
        // A static function is named by its section symbol or by its own, as the assembler likes.
        let Definition::Atom(table) = s.symbol_named("table").definition else { panic!("no table") };
        let table: Vec<_> =
            s.references_of(table).iter().map(|r| format!("{:?} {}", r.kind, s.edge_name(r))).collect();
        let table = table.join(" ");
        assert!(table == "Data [.text.helper]" || table == "Data helper", "{table}");
        // References of debug sections are not in the summary, although they have relocations.
        assert!(s.references.iter().all(|r| s.atoms[r.from.index()].kind.is_alloc()));
    }
}

const CPP: &str = include_str!("programs/native_cpp.cc");

#[test]
fn cplusplus_groups_and_unwind() {
    for compiler in ["g++", "clang++-19"] {
        let bytes = object(&[compiler, "-c", "-O0", "-fPIC", "-ffunction-sections"], "cpp", CPP);
        let s = summary(&bytes);
        assert_eq!(s.limits_found(), []);
        let (twice, atom) = s.atom_named(".text._Z5twiceIiET_S0_");
        let group = &s.groups[atom.group.unwrap().index()];
        assert!(group.comdat && group.members.contains(&twice) && atom.has(atom_flags::GROUPED));
        assert_eq!(s.symbol_name(group.signature), b"_Z5twiceIiET_S0_");
        assert_eq!(s.symbol_named("_ZZ5twiceIiET_S0_E4last").binding, Binding::Unique.min_of(compiler));

        // The personality and the LSDA belong to the functions that have them, and to no others.
        let unwind = |atom: &str| -> Vec<String> {
            s.edges(atom).into_iter().filter_map(|e| e.strip_prefix("Unwind ").map(str::to_owned)).collect()
        };
        let catcher = unwind(".text._Z7catcheri");
        assert!(catcher.contains(&"DW.ref.__gxx_personality_v0".to_owned()), "{catcher:?}");
        let lsda = s.atoms.iter().filter(|a| a.kind == AtomKind::Lsda).count();
        assert!(lsda >= 1);
        assert!(
            catcher.iter().any(|e| e.contains("gcc_except_table") || e.starts_with("GCC_except_table")),
            "{catcher:?}"
        );
        assert_eq!(unwind(".text._Z5twiceIiET_S0_"), Vec::<String>::new());
        assert_eq!(unwind(".text.main"), Vec::<String>::new());
        // .eh_frame is no atom; what refers to it would be told.
        assert!(s.atoms.iter().all(|a| s.name(a.name) != b".eh_frame"));
    }
}

/// `STB_GNU_UNIQUE` is gcc's; clang writes weak symbols.
trait MinOf {
    fn min_of(self, compiler: &str) -> Binding;
}

impl MinOf for Binding {
    fn min_of(self, compiler: &str) -> Binding {
        if compiler.starts_with("clang") { Binding::Weak } else { self }
    }
}

#[test]
fn one_section_for_all_functions() {
    let bytes = object(&["g++", "-c", "-O2", "-fno-pic"], "cpp", CPP);
    let s = summary(&bytes);
    assert_eq!(s.limits_found(), []);
    let edges = s.edges(".text");
    assert!(edges.contains(&"Call _Z9may_throwi".to_owned()), "{edges:?}");
    assert!(edges.contains(&"Unwind __gxx_personality_v0".to_owned()), "{edges:?}");
    // Although several FDEs share the CIE, the atom refers to its personality a few times at most.
    let cies = edges.iter().filter(|e| *e == "Unwind __gxx_personality_v0").count();
    let fdes = edges.iter().filter(|e| e.starts_with("Unwind [")).count();
    assert!(cies <= fdes + 1, "{edges:?}");
}

#[test]
fn records_of_a_real_eh_frame() {
    let bytes = object(&["g++", "-c", "-O1"], "cpp", CPP);
    let range = summaries::native::find_section(&bytes, b".eh_frame").unwrap();
    let records = eh_frame::split(&bytes[range.clone()], &[]).unwrap();
    let fdes = records.iter().filter(|r| matches!(r.kind, RecordKind::Fde { .. })).count();
    let listing = object(&["g++", "-S", "-O1"], "cpp", CPP);
    let expected = String::from_utf8(listing).unwrap().matches(".cfi_endproc").count();
    assert_eq!(fdes, expected);
    assert_eq!(records.iter().map(|r| r.size).sum::<u64>(), range.len() as u64);
}

#[test]
fn commons_come_last() {
    let s =
        summary(&object(&["gcc", "-c", "-fcommon"], "c", "int shared[5]; int f(void) { return shared[1]; }"));
    let last = s.atoms.last().unwrap();
    assert_eq!((last.kind, last.section, last.size), (AtomKind::Common, summaries::Atom::NO_SECTION, 20));
    let shared = s.symbol_named("shared");
    assert_eq!(shared.definition, Definition::Common(summaries::AtomIdx::new(s.atoms.len() - 1)));
    assert_eq!(last.align, shared.value);
    assert_eq!(s.name(last.name), b"shared");
}

#[test]
fn bitcode_and_gcc_lto() {
    let bitcode = object(&["clang-19", "-c", "-flto"], "c", C);
    assert_eq!(
        (summary(&bitcode).kind, summary(&bitcode).limits_found()),
        (ModuleKind::Bitcode, vec![Limit::OpaqueBitcode])
    );
    for fat in ["-fno-fat-lto-objects", "-ffat-lto-objects"] {
        let s = summary(&object(&["gcc", "-c", "-flto", fat], "c", C));
        assert_eq!((s.kind, s.limits_found()), (ModuleKind::Native, vec![Limit::GccLto]), "{fat}");
    }
}

#[test]
fn other_files_are_foreign() {
    let s = summary(&object(&["gcc", "-c", "-m32"], "s", "nop"));
    assert_eq!((s.kind, s.limits_found()), (ModuleKind::Opaque, vec![Limit::ForeignObject]));
    let s = summary(&object(&["gcc", "-shared", "-nostdlib", "-fPIC"], "c", "int x;"));
    assert_eq!(s.limits_found(), [Limit::ForeignObject]);
}

#[test]
fn position_dependent_code_and_ifunc() {
    let source = "static int impl(void) { return 1; } static void *pick(void) { return impl; }
                  int chosen(void) __attribute__((ifunc(\"pick\"))); int *p; int f(void) { return *p + chosen(); }";
    let s = summary(&object(&["gcc", "-c", "-O1", "-fno-pie", "-ffunction-sections"], "c", source));
    assert_eq!(s.symbol_named("chosen").kind, SymbolKind::Ifunc);
    let kinds: Vec<_> = s.references_of(s.atom_named(".text.f").0).iter().map(|r| r.kind).collect();
    assert!(kinds.contains(&ReferenceKind::Call) && kinds.contains(&ReferenceKind::Address));
}
