//! Division of code sections of gcc and clang: the result agrees with -ffunction-sections of the same compiler, and with objdump.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::compilers::object;
use summaries::{AtomIdx, AtomKind, Definition, Granularity, Limit, ModuleSummary, SymbolKind, Target};

pub(crate) fn divided(bytes: &[u8]) -> ModuleSummary {
    let summary = summaries::extract::extract(bytes, Granularity::Functions);
    assert_eq!(summary.check(), Ok(()));
    summary
}

/// Statics, pointers to them, switches (back to back, without default, in a loop), cold code, recursion, tail calls, labels.
const C: &str = include_str!("programs/functions_c.c");

const CPP: &str = include_str!("programs/functions_cpp.cc");

/// A name for each atom of code: the first of its function symbols; others by section.
fn names(summary: &ModuleSummary) -> BTreeMap<AtomIdx, String> {
    let mut names = BTreeMap::new();
    for symbol in &summary.symbols {
        if let (SymbolKind::Func | SymbolKind::Ifunc, Definition::Atom(atom)) =
            (symbol.kind, symbol.definition)
        {
            let name = String::from_utf8_lossy(summary.name(symbol.name)).into_owned();
            // Clang numbers, and gcc names, local copies the same in both compilations.
            let known: &mut String = names.entry(atom).or_insert_with(|| name.clone());
            if name < *known {
                *known = name;
            }
        }
    }
    names
}

/// [`names`] by the name of any symbol of the atom.
fn by_symbol(summary: &ModuleSummary) -> BTreeMap<String, String> {
    let names = names(summary);
    let symbols = summary.symbols.iter().filter_map(|s| match s.definition {
        Definition::Atom(atom) => {
            Some((String::from_utf8_lossy(summary.name(s.name)).into_owned(), names.get(&atom)?.clone()))
        }
        _ => None,
    });
    symbols.filter(|(name, _)| !name.is_empty()).collect()
}

/// Which function refers to which, over code and jump tables.
fn graph(summary: &ModuleSummary) -> BTreeSet<(String, String)> {
    let names = names(summary);
    let mut edges = BTreeSet::new();
    for reference in &summary.references {
        let Some(from) = names.get(&reference.from) else { continue };
        let to = match reference.target {
            Target::Atom(atom) => Some(atom),
            Target::Symbol(symbol) => match summary.symbols[symbol.index()].definition {
                Definition::Atom(atom) => Some(atom),
                _ => None,
            },
        };
        if let Some(to) = to.and_then(|a| names.get(&a)).filter(|to| *to != from) {
            edges.insert((from.clone(), to.clone()));
        }
    }
    edges
}

fn code_atoms(summary: &ModuleSummary) -> usize {
    summary.atoms.iter().filter(|a| a.kind == AtomKind::Code).count()
}

const LEVELS: [&str; 3] = ["-O0", "-O2", "-Os"];
const VARIANTS: &[&[&str]] = &[
    &["-fpic"],
    &["-fno-pic"],
    &["-fpie", "-fcf-protection"],
    &["-fpic", "-fno-plt"],
    &["-fpic", "-falign-functions=1"],
    &["-fno-pic", "-mcmodel=medium"],
    &["-fpic", "-fno-jump-tables", "-fstack-protector-all"],
];

fn for_all(mut check: impl FnMut(&[&str], &str, &str)) {
    for compiler in ["gcc", "clang-19"] {
        for level in LEVELS {
            for variant in VARIANTS {
                for (suffix, source) in [("c", C), ("cpp", CPP)] {
                    // A tail call by a short jump ties two functions: see `short_jumps_tie`.
                    let mut line = vec![compiler, "-c", level, "-fno-optimize-sibling-calls"];
                    line.extend(*variant);
                    check(&line, suffix, source);
                }
            }
        }
    }
}

/// Limits of sections that are divided all the same: objects or functions of them stay together.
const KEEPS_SOME_TOGETHER: [Limit; 3] = [Limit::UnprovedData, Limit::DoubtfulAddress, Limit::JoinedFunctions];

#[test]
fn the_graph_is_that_of_function_sections() {
    let mut many = 0;
    for_all(|line, suffix, source| {
        let mono = divided(&object(line, suffix, source));
        assert!(
            mono.limits.iter().all(|l| KEEPS_SOME_TOGETHER.contains(&l.limit)),
            "{line:?} {suffix}: {:?}",
            mono.limits
        );
        let apart: Vec<&str> = line.iter().copied().chain(["-ffunction-sections"]).collect();
        let apart = summaries::extract::extract(&object(&apart, suffix, source), Granularity::Sections);
        // Functions that a short jump ties, or a jump to the end (clang -O0, where it is unreachable), are one.
        let together = by_symbol(&mono);
        let joined = |name: &String| together.get(name).cloned().unwrap_or_else(|| name.clone());
        let expected: BTreeSet<_> = graph(&apart).iter().map(|(a, b)| (joined(a), joined(b))).collect();
        let (found, expected) = (graph(&mono), expected.into_iter().filter(|(a, b)| a != b).collect());
        assert_eq!(found, expected, "{line:?} {suffix}");
        // A handful at most is together.
        let (parts, sections) = (names(&mono).len(), names(&apart).len());
        assert!(parts + 4 >= sections, "{line:?} {suffix}: {parts} of {sections}");
        many += usize::from(parts == sections);
    });
    assert!(many > 60, "{many} without ties");
}

/// The output of objdump: (start, target) of each instruction without a relocation that refers to another atom.
fn by_objdump(bytes: &[u8], summary: &ModuleSummary) -> BTreeSet<(u64, u64)> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let output = Command::new("objdump")
        .args(["-dr", "--no-show-raw-insn", "-w", "-j", ".text"])
        .arg(file.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let section = summary.atoms.iter().find(|a| summary.name(a.name) == b".text").unwrap().section;
    let atom = |offset: u64| {
        summary
            .atoms
            .iter()
            .position(|a| a.section == section && (a.offset..a.offset + a.size).contains(&offset))
    };
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let Some((address, rest)) = line.split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
        // Under -w the relocation stands on the line of its instruction.
        if rest.contains("R_X86_64_") {
            continue;
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        let target = match rest.split_once("# ") {
            Some((_, comment)) => comment.split_whitespace().next(),
            None => words
                .iter()
                .position(|w| w.starts_with('<'))
                .and_then(|at| words.get(at.checked_sub(1)?))
                .copied(),
        };
        let Some(target) = target.and_then(|t| u64::from_str_radix(t.trim_start_matches("0x"), 16).ok())
        else {
            continue;
        };
        if atom(address) != atom(target) {
            found.insert((address, target));
        }
    }
    found
}

/// The same from a summary; `starts` are those of the instructions that objdump found.
fn by_summary(summary: &ModuleSummary) -> BTreeMap<u64, u64> {
    let text = summary.atoms.iter().find(|a| summary.name(a.name) == b".text").unwrap().section;
    let mut found = BTreeMap::new();
    for resolved in summary.resolved.iter().filter(|r| r.section == text) {
        let mut own = summary.references_of(resolved.from).iter();
        let reference =
            own.find(|r| r.offset == resolved.field && r.target == Target::Atom(resolved.target)).unwrap();
        // Operands with an immediate behind the field have a smaller addend.
        let start = summary.atoms[resolved.target.index()].offset;
        found.insert(resolved.field, start.wrapping_add_signed(reference.addend));
    }
    found
}

fn agrees_with_objdump(bytes: &[u8], what: &str) -> usize {
    let summary = divided(bytes);
    let (expected, found) = (by_objdump(bytes, &summary), by_summary(&summary));
    assert_eq!(expected.len(), found.len(), "{what}");
    for (address, target) in &expected {
        let fits = found
            .range(address + 1..address + 12)
            .any(|(_, biased)| (4..=8).any(|n| biased.wrapping_add(n) == *target));
        assert!(fits, "{what}: {address:#x} to {target:#x}");
    }
    found.len()
}

#[test]
fn resolved_references_are_what_objdump_reads() {
    let mut total = 0;
    for_all(|line, suffix, source| {
        total += agrees_with_objdump(&object(line, suffix, source), &format!("{line:?}"))
    });
    assert!(total > 300, "{total}");
}

#[test]
fn jump_tables_belong_to_their_functions() {
    for compiler in ["gcc", "clang-19"] {
        let line = [compiler, "-c", "-O2", "-fpic", "-fno-optimize-sibling-calls"];
        let summary = divided(&object(&line, "c", C));
        let names = names(&summary);
        let owners: BTreeSet<&str> =
            summary.owned.iter().filter_map(|o| names.get(&o.owner)).map(String::as_str).collect();
        // gcc folds the switch of `dense` into its caller's.
        for owner in ["nodefault", "looping"] {
            assert!(owners.iter().any(|o| o.starts_with(owner)), "{compiler}: {owners:?}");
        }
        for range in &summary.owned {
            // Every relocation in it refers from the owner.
            let section = summary.atoms[range.atom.index()].section;
            let inside = summary
                .retargets
                .iter()
                .filter(|r| r.section == section && (range.start..range.end).contains(&r.offset));
            assert_eq!(inside.count() as u64, (range.end - range.start) / 4);
            let own = summary.references_of(range.atom);
            assert!(own.iter().all(|r| !(range.start..range.end).contains(&r.offset)));
        }
        assert!(code_atoms(&summary) > 10);
    }
}

#[test]
fn variants_that_are_divided_or_named() {
    for (line, limit) in [
        (&["gcc", "-c", "-O2", "-mindirect-branch=thunk", "-fcf-protection=none"][..], None),
        (&["clang-19", "-c", "-O2", "-mretpoline", "-fpic"], None),
        (&["gcc", "-c", "-O2", "-fpatchable-function-entry=4,2"], None),
        (&["clang-19", "-c", "-O2", "-fpatchable-function-entry=4,2"], None),
        (&["clang-19", "-c", "-O2", "-fstack-size-section", "-fbasic-block-address-map"], None),
        (&["clang-19", "-c", "-O2", "-fexperimental-sanitize-metadata=covered"], None),
        (&["clang-19", "-c", "-O2", "-fxray-instrument"], Some("ordered-section")),
        (&["gcc", "-c", "-O2", "-g"], None),
        (&["clang-19", "-c", "-O1", "-g1"], None),
        (&["gcc", "-c", "-O2", "-fno-asynchronous-unwind-tables"], None),
        (&["clang-19", "-c", "-O2", "-fsanitize=kcfi"], None),
        (&["clang-19", "-c", "-O2", "-fsanitize=function"], Some("uncovered-code")),
        (&["gcc", "-c", "-O2", "-mcmodel=large", "-fpic"], Some("ambiguous-target")),
    ] {
        let summary = divided(&object(line, "c", C));
        let of_code = summary.limits.iter().filter(|l| !KEEPS_SOME_TOGETHER.contains(&l.limit));
        let mut limits: Vec<&str> = of_code.map(|l| l.limit.name()).collect();
        limits.dedup();
        assert_eq!(limits, Vec::from_iter(limit), "{line:?}: {:?}", summary.limits);
        assert_eq!(code_atoms(&summary) > 9, limit.is_none(), "{line:?}");
    }
}

/// An undivided object has the same summary at both granularities.
#[test]
fn sections_are_as_before_where_nothing_is_divided() {
    let bytes = object(&["clang-19", "-c", "-O2", "-fxray-instrument", "-fdata-sections"], "c", C);
    let mut fine = divided(&bytes);
    let coarse = summaries::extract::extract(&bytes, Granularity::Sections);
    fine.granularity = Granularity::Sections;
    fine.limits.clear();
    assert_eq!(fine, coarse);
}
