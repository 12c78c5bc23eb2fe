//! Divided sections: programs of random sets of functions, and wrong plans, summaries and objects.

use std::collections::BTreeSet;

use summaries::{AtomIdx, AtomKind, Granularity, ModuleSummary, native};

use super::planner::{emitted, plan, verified};
use super::tools::{LINKERS, Workshop, run};
use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan};

pub(super) const C_LIB: &str = include_str!("divided.c");

/// A program of functions that call each other at random, some of them static, some through tables.
fn generated(seed: u32) -> String {
    let mut state = seed;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut text = String::from("#include <stdio.h>\n#define F __attribute__((noinline, noclone))\n");
    for i in 0..30 {
        text += &format!("{} F int f{i}(int x);\n", if i % 3 == 0 { "" } else { "static" });
    }
    text += "int (*const volatile by_table[])(int) = { f1, f7 };\n";
    for i in 0..30 {
        let (a, b, c) = (next(30), next(30), next(30));
        let body = match next(4) {
            0 => format!("return x > 0 ? f{a}(x - 1) + {i} : {c};"),
            1 => format!("return x > 1 ? f{a}(x - 2) * 3 + f{b}(x / 2) : x + {i};"),
            2 => format!(
                "switch (x) {{ case 0: return {a}; case 1: return f{b}(0) ^ 3; case 2: return x * {c}; case 3: return f{a}(1) + 7; \
                 case 4: return {b}; case 5: return f{c}(2); case 6: return x - {i}; default: return {i}; }}"
            ),
            _ => format!("return x ^ {c};"),
        };
        text += &format!(
            "{} F int f{i}(int x) {{ asm(\"\"); {body} }}\n",
            if i % 3 == 0 { "" } else { "static" }
        );
    }
    text += &format!(
        "int user(int x) {{ return by_table[x & 1](x); }}\nint main(void) {{ for (int i = 0; i < 9; i++) \
        printf(\"%d %d\\n\", f{}(i), f{}(i)); return 0; }}\n",
        next(10) * 3,
        next(10) * 3
    );
    text
}

/// Each set of functions gives other parts. The program that is linked of them must do what the original does.
#[test]
fn any_set_of_functions_that_is_closed_under_references() {
    let mut linked = 0;
    for (seed, compiler, flags) in [
        (1, "gcc", &["-O2"][..]),
        (2, "gcc", &["-Os", "-fPIC", "-falign-functions=1"]),
        (3, "clang-19", &["-O2"]),
        (4, "clang-19", &["-O1", "-fno-pic", "-no-pie"]),
        (5, "gcc", &["-O3", "-fcf-protection", "-fno-plt"]),
    ] {
        let shop = Workshop::new();
        let object = shop.compile(compiler, "main.c", &generated(seed), &[flags, &["-w"]].concat());
        let summary = native::extract_at(&object, Granularity::Functions);
        let objects = vec![(String::from("main.o"), object.clone())];
        let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
        let plain = shop.link("gcc", "lld", &objects, mode);
        let expected = run(&mut shop.command(plain.to_str().unwrap()));
        let mut seen = BTreeSet::new();
        for round in 0..12u32 {
            let chosen = (0..30u32)
                .filter(|i| (round.wrapping_mul(0x9e37_79b9) ^ i.wrapping_mul(0x85eb_ca6b)) >> 13 & 7 == 0);
            let roots: Vec<String> = chosen.map(|i| format!("f{i}")).chain([String::from("main")]).collect();
            let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
            let pruned = vec![("main.o".to_owned(), emitted(&object, &summary, &plan(&summary, &roots)))];
            if !seen.insert(pruned.clone()) {
                continue;
            }
            let linker = LINKERS[seen.len() % LINKERS.len()];
            let exe = shop.link("gcc", linker, &pruned, mode);
            let out = run(&mut shop.command(exe.to_str().unwrap()));
            assert_eq!(out, expected, "{compiler} {flags:?} {linker} {roots:?}");
        }
        linked += seen.len();
    }
    assert!(linked > 20, "{linked}");
}

fn sample(shop: &Workshop) -> (Vec<u8>, ModuleSummary, ModulePlan) {
    let object = shop.compile("gcc", "lib.c", C_LIB, &["-O2"]);
    let summary = native::extract_at(&object, Granularity::Functions);
    let plan = plan(&summary, &["lib_switch"]);
    (object, summary, plan)
}

#[test]
fn what_is_not_known_is_an_error() {
    let shop = Workshop::new();
    let (object, summary, plan) = sample(&shop);
    rewrite(&object, &summary, &plan).unwrap();
    let refused = |change: &dyn Fn(&mut ModuleSummary, &mut ModulePlan), message: &str| {
        let (mut summary, mut plan) = (summary.clone(), plan.clone());
        change(&mut summary, &mut plan);
        let error = rewrite(&object, &summary, &plan).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    let stays = |plan: &ModulePlan, a: AtomIdx| plan.atoms[a.index()] == Action::Keep;
    refused(&|s, _| s.retargets.clear(), "no known target");
    let resolved = *summary.resolved.iter().find(|r| stays(&plan, r.from) && stays(&plan, r.target)).unwrap();
    refused(&|_, p| p.atoms[resolved.target.index()] = Action::Drop, "dropped");
    // The entries of a kept table lead to its dropped owner.
    let owned = *summary.owned.iter().find(|o| !stays(&plan, o.owner)).unwrap();
    let keeps_table = |s: &mut ModuleSummary, p: &mut ModulePlan| {
        s.owned.clear();
        p.atoms[owned.atom.index()] = Action::Keep;
    };
    refused(&keeps_table, "refers to a dropped atom");
    // Atoms that overlap or reach out of the section.
    let code = summary.atoms.iter().position(|a| a.kind == AtomKind::Code).unwrap();
    refused(&|s, _| s.atoms[code].size += 1, "no place");
    refused(&|s, _| s.atoms[code].size = 0, "no place");
    let from_kept = summary.resolved.iter().position(|r| stays(&plan, r.from)).unwrap();
    refused(&|s, _| s.resolved[from_kept].field = u64::MAX, "is not from one atom");
}

#[test]
fn verification_finds_parts_that_are_not_right() {
    let shop = Workshop::new();
    let (object, summary, plan) = sample(&shop);
    let emitted = emitted(&object, &summary, &plan);
    let is_found = |damaged: &[u8]| verified(&object, damaged, &summary, &plan).is_err();
    assert!(is_found(&object));
    let elf = goblin::elf::Elf::parse(&emitted).unwrap();
    let mut watched = 0;
    for section in &elf.section_headers {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap();
        let is_part = name.starts_with(".text") || name.starts_with(".rela") || name == ".eh_frame";
        for at in section.file_range().filter(|_| is_part).into_iter().flatten() {
            let mut damaged = emitted.clone();
            damaged[at] ^= 1;
            assert!(is_found(&damaged), "{name} {at:#x}");
            watched += 1;
        }
    }
    assert!(watched > 500, "{watched}");
    // A part that is aligned less than its functions were.
    let table = elf.header.e_shoff as usize;
    let parts = elf.section_headers.iter().enumerate().filter(|(_, s)| s.sh_flags & 4 != 0 && s.sh_size > 0);
    for (i, section) in parts.filter(|(_, s)| s.sh_addralign > 1) {
        let mut damaged = emitted.clone();
        damaged[table + 64 * i + 48] = (section.sh_addralign / 2) as u8;
        assert!(is_found(&damaged));
    }
}

/// Verification rejects what emission makes of a wrong summary, also if it receives that summary too.
#[test]
fn a_wrong_target_is_found() {
    let shop = Workshop::new();
    let (object, summary, plan) = sample(&shop);
    let stays = |a: AtomIdx| plan.atoms[a.index()] == Action::Keep;
    let mut tried = 0;
    for i in 0..summary.retargets.len() {
        let mut wrong = summary.clone();
        let section = summary.atoms[wrong.retargets[i].target.index()].section;
        for (a, atom) in summary.atoms.iter().enumerate() {
            let a = AtomIdx::new(a);
            if atom.section != section || !stays(a) || a == summary.retargets[i].target {
                continue;
            }
            wrong.retargets[i].target = a;
            let Ok(new) = rewrite(&object, &wrong, &plan) else { continue };
            let same = new == rewrite(&object, &summary, &plan).unwrap();
            assert!(same || verified(&object, &new, &summary, &plan).is_err());
            assert!(same || verified(&object, &new, &wrong, &plan).is_err());
            tried += usize::from(!same);
        }
    }
    assert!(tried > 3, "{tried}");
}
