//! Division of data sections, at the granularity of functions: sections of compilers are divided and lose no reference, and a section is kept whole
//! if a reference is not proved.

use std::collections::{BTreeMap, BTreeSet};

use crate::compilers::{assembled, object};
use crate::functions::divided;
use summaries::{AtomIdx, Definition, Granularity, Limit, ModuleSummary, SymbolKind, Target};

/// Objects of all kinds of use, and loops for which compilers bias bases below and past the objects.
const C: &str = include_str!("programs/data_c.c");

fn lines() -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    for compiler in ["gcc", "clang-19"] {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            for variant in
                [&["-fPIC"][..], &["-fPIE"], &["-fno-pic"], &["-fPIC", "-fvisibility=hidden", "-mavx2"]]
            {
                all.push([&[compiler, "-c", level][..], variant].concat());
            }
        }
    }
    all
}

/// For each atom the names of the functions and objects in it.
fn names(summary: &ModuleSummary) -> BTreeMap<AtomIdx, Vec<String>> {
    let mut names: BTreeMap<AtomIdx, Vec<String>> = BTreeMap::new();
    for symbol in &summary.symbols {
        if let (Definition::Atom(atom), SymbolKind::Func | SymbolKind::Object) =
            (symbol.definition, symbol.kind)
        {
            names
                .entry(atom)
                .or_default()
                .push(String::from_utf8_lossy(summary.name(symbol.name)).into_owned());
        }
    }
    names
}

/// All atoms that an atom leads to, itself included.
fn reached(summary: &ModuleSummary, from: AtomIdx) -> BTreeSet<AtomIdx> {
    let (mut found, mut next) = (BTreeSet::from([from]), vec![from]);
    while let Some(atom) = next.pop() {
        for reference in summary.references_of(atom) {
            let to = match reference.target {
                Target::Atom(to) => Some(to),
                Target::Symbol(symbol) => match summary.symbols[symbol.index()].definition {
                    Definition::Atom(to) | Definition::Common(to) => Some(to),
                    _ => None,
                },
            };
            next.extend(to.filter(|to| found.insert(*to)));
        }
    }
    found
}

/// From each name all names that it leads to.
fn closure(summary: &ModuleSummary) -> BTreeMap<String, BTreeSet<String>> {
    let names = names(summary);
    let own = |atoms: &BTreeSet<AtomIdx>| {
        atoms.iter().flat_map(|a| names.get(a).cloned().unwrap_or_default()).collect()
    };
    let of = |(atom, from): (&AtomIdx, &Vec<String>)| {
        let to: BTreeSet<String> = own(&reached(summary, *atom));
        from.iter().map(|name| (name.clone(), to.clone())).collect::<Vec<_>>()
    };
    names.iter().flat_map(of).collect()
}

fn parts(summary: &ModuleSummary, section: &str) -> usize {
    summary.atoms.iter().filter(|a| summary.name(a.name) == section.as_bytes()).count()
}

#[test]
fn nothing_is_lost_that_data_sections_have() {
    let mut gained = 0;
    for line in lines() {
        let mono = divided(&object(&line, "c", C));
        let apart = [&line[..], &["-ffunction-sections", "-fdata-sections"]].concat();
        let apart = summaries::extract::extract(&object(&apart, "c", C), Granularity::Sections);
        let (mono, apart) = (closure(&mono), closure(&apart));
        for (from, to) in &apart {
            let found = mono.get(from).unwrap_or_else(|| panic!("{line:?}: no {from}"));
            let lost: Vec<_> = to.difference(found).collect();
            assert!(lost.is_empty(), "{line:?}: {from} loses {lost:?}");
        }
        // Scalars are accessed directly, and the counter of the other function is removed.
        let count = &mono["count"];
        assert!(count.contains("hits") && count.contains("scalar"), "{line:?}: {count:?}");
        gained += usize::from(!count.contains("misses") && !count.contains("scalar2"));
    }
    assert!(gained > 20, "{gained}");
}

/// Bases that lie in another object than the one that they are for, as `objdump` of gcc 12 -O2 -fPIC shows: `target - 4` is
/// the last element of `other`.
#[test]
fn a_biased_base_keeps_all() {
    for line in lines() {
        let summary = divided(&object(&line, "c", C));
        let closure = closure(&summary);
        for (function, objects) in [
            ("fill", &["target", "other", "below"][..]),
            ("sum", &["target", "other"]),
            ("at", &["target", "primes"]),
        ] {
            for object in objects {
                assert!(closure[function].contains(*object), "{line:?}: {function} loses {object}");
            }
        }
    }
}

/// Three functions with a jump table each, and further objects in `.rodata`: none, one with direct accesses, or some with a biased base.
fn tables(more: &str) -> String {
    // gcc makes one of functions that are alike.
    let function = |(name, own): (&str, u32)| {
        format!(
            "int {name}(int x) {{ switch (x) {{ case 0: return in(); case 1: out({own}); return 4; case 2: return in() * 7; case 3: out(11); \
             return 1; case 4: return in() - 8; case 5: out(9); return 3; case 6: return in() / 3; }} return 0; }}\n"
        )
    };
    let functions: String = [("one", 71), ("two", 72), ("three", 73)].map(function).concat();
    format!("extern int in(void); extern void out(int);\n{functions}{more}")
}

/// A jump table is separate from the others, and from the objects of a biased base.
#[test]
fn tables_are_cut_off() {
    let direct = "static const long values[2] = {5, 6}; long direct(void) { return *(const volatile long *)&values[1]; }";
    let biased = "static const int values[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, others[9] = {9, 8, 7, 6, 5, 4, 3, 2, 1};\n\
                  int biased(int i) { return values[i - 100] + others[i - 7]; }";
    for (more, user) in [("", ""), (direct, "direct"), (biased, "biased")] {
        for compiler in ["gcc", "clang-19"] {
            let line = [compiler, "-c", "-O2", "-fPIE"];
            let summary = divided(&object(&line, "c", &tables(more)));
            let rodata = |name: &str| -> BTreeSet<AtomIdx> {
                let names = names(&summary);
                let own = names.iter().find(|(_, names)| names.iter().any(|n| n == name));
                let (from, _) = own.unwrap_or_else(|| panic!("{line:?}: no {name}"));
                let all = reached(&summary, *from).into_iter();
                all.filter(|a| summary.name(summary.atoms[a.index()].name) == b".rodata").collect()
            };
            let own: Vec<BTreeSet<AtomIdx>> = ["one", "two", "three"].map(rodata).into_iter().collect();
            let all: BTreeSet<AtomIdx> = own.iter().flatten().copied().collect();
            assert_eq!(own.iter().map(BTreeSet::len).sum::<usize>(), 3, "{compiler}: {own:?}");
            assert_eq!(all.len(), 3, "{compiler}: {own:?}");
            if !user.is_empty() {
                let used = rodata(user);
                assert!(!used.is_empty() && used.is_disjoint(&all), "{compiler} {user}: {used:?}");
            }
        }
    }
}

/// Objects in `.data`: a and b of 8 bytes with padding between, c behind b without, and code of a function.
fn source(code: &str, more: &str) -> String {
    format!(
        " .file \"a.c\"\n .ident \"GCC: (none)\"\n .text\n .globl f\n .type f, @function\nf:\n .cfi_startproc\n{code}\n ret\n .cfi_endproc\n .size f, .-f\n .type g, @function\ng:\n \
         .cfi_startproc\n ret\n .cfi_endproc\n .size g, .-g\n .data\n .p2align 5\n .type a, @object\na: .quad 1\n .size a, 8\n \
         .p2align 5\n .type b, @object\nb: .quad 2\n .size b, 8\n .type c, @object\nc: .quad 3\n .size c, 8\n{more}\n"
    )
}

/// The names that `f` reaches, and the number of parts of `.data`.
fn kept(code: &str, more: &str) -> (String, usize) {
    let summary = divided(&assembled(&source(code, more)));
    let mut names: Vec<_> = closure(&summary)["f"].iter().filter(|n| *n != "f").cloned().collect();
    names.sort_unstable();
    (names.join(" "), parts(&summary, ".data"))
}

#[test]
fn what_a_reference_from_code_means() {
    for (code, names) in [
        (" mov a(%rip), %rax", "a"),
        (" mov b(%rip), %rax", "b"),
        (" movb $1, c+7(%rip)", "c"),
        (" mov c, %eax", "c"),
        (" addl $100000, b+4(%rip)", "b"),
        (" jmp *b(%rip)", "b"),
        // More than the object, between objects, behind them.
        (" movups b(%rip), %xmm0", "a b c"),
        (" mov b-4(%rip), %rax", "a b c"),
        (" mov a+8(%rip), %rax", "a"),
        (" mov a+4(%rip), %rax", "a b c"),
        (" mov c+8(%rip), %rax", "a b c"),
        // Addresses, and accesses with a register.
        (" lea b(%rip), %rax\n mov (%rax,%rcx,8), %rax", "a b c"),
        (" mov $b, %eax\n add %rcx, %rax", "a b c"),
        (" mov b(,%rcx,8), %eax", "a b c"),
        (" bt %eax, b(%rip)", "a b c"),
        (" prefetcht0 b(%rip)", "a b c"),
    ] {
        assert_eq!(kept(code, ""), (names.to_owned(), 3), "{code}");
    }
}

#[test]
fn what_a_pointer_in_data_means() {
    let pointer = |to: &str| {
        format!(" .section .data.p, \"aw\"\n .globl p\n .type p, @object\np: .quad {to}\n .size p, 8\n")
    };
    for (to, names, parts) in [
        ("a", "a p", 3),
        ("b", "b p", 3),
        // The end of b is the start of c; the middle of an object may be meant for the next one.
        ("c", "b c p", 2),
        ("b+8", "b c p", 2),
        ("a+4", "a b p", 2),
        ("a+8", "a b p", 2),
        ("c+4", "c p", 3),
        ("c+8", "a b c p", 3),
        ("a-1", "a b c p", 3),
    ] {
        let found = kept(" mov p(%rip), %rax", &pointer(to));
        assert_eq!(found, (names.to_owned(), parts), "{to}");
    }
    let (names, parts) = kept(" mov p(%rip), %rax", &pointer("0\n .long b - .\n .long 0"));
    assert_eq!((names.as_str(), parts), ("a b c p", 3), "relative");
}

/// Beside an object that code names: the one that it accesses there stays.
#[test]
fn accesses_next_to_a_named_object() {
    let named = " .globl d\n .type d, @object\nd: .quad 4\n .size d, 8";
    let (names, parts) = kept(" mov d(%rip), %rax", named);
    assert_eq!((names.as_str(), parts), ("d", 4), "the object itself");
    let (names, parts) = kept(" mov d-8(%rip), %rax", named);
    assert_eq!((names.as_str(), parts), ("b c d", 2), "the one before, and b, behind which d is aligned");
}

#[test]
fn what_is_not_divided() {
    for (code, more) in [
        ("", "d: .quad 4"),
        ("", " .type d, @object\nd: .quad 4"),
        ("", " .type d, @object\n .size d, 9\nd: .quad 4"),
        ("", " .section .note.mine, \"\"\n .quad b"),
        ("", " .section .later, \"ao\", @progbits, .data\n .quad 0"),
        (
            "",
            " .globl d\n .type d, @object\nd: .quad 4\n .size d, 8\n .section .data.p, \"aw\"\n .quad d + 9",
        ),
        // Far outside of the object that is named.
        (
            " mov d+400(%rip), %rax",
            " .globl d\n .type d, @object\nd: .quad 4\n .size d, 8\n .type e, @object\ne: .zero 512\n .size e, 512",
        ),
    ] {
        let summary = divided(&assembled(&source(code, more)));
        assert_eq!(parts(&summary, ".data"), 1, "{code} {more}");
        assert!(summary.limits.iter().any(|l| l.limit == Limit::UnprovedData), "{code} {more}");
    }
}

/// Assembly may find an object by its distance from another one.
#[test]
fn objects_of_assembly_stay_together() {
    let compiled = source(" lea a(%rip), %rax", "");
    assert_eq!(parts(&divided(&assembled(&compiled)), ".data"), 3);
    for other in ["", " .ident \"The Netwide Assembler 2.16\"\n"] {
        let text = compiled.replace(" .ident \"GCC: (none)\"\n", other);
        assert_eq!(parts(&divided(&assembled(&text)), ".data"), 1, "{other}");
    }
}

#[test]
fn parts_are_aligned_as_they_were() {
    let summary = divided(&assembled(&source("", "")));
    let atoms: Vec<_> = summary.atoms.iter().filter(|a| summary.name(a.name) == b".data").collect();
    let found: Vec<_> = atoms.iter().map(|a| (a.offset, a.size, a.align)).collect();
    assert_eq!(found, [(0, 32, 32), (32, 8, 32), (40, 8, 8)]);
    // The object behind c has no name or is tied to it, and is aligned better than c: the part begins with b.
    let tied = " .p2align 4\n .type d, @object\nd: .quad 4\n .size d, 8\n .section .data.p, \"aw\"\n .quad d";
    for more in [" .p2align 4\n .quad 4, 5", tied] {
        let summary = divided(&assembled(&source("", more)));
        let atoms = summary.atoms.iter().filter(|a| summary.name(a.name) == b".data");
        let found: Vec<_> = atoms.map(|a| (a.offset, a.align)).collect();
        assert_eq!(found, [(0, 32), (32, 32)], "{more}");
    }
}
