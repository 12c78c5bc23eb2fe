//! Sections emitted in parts: programs of monolithic objects, pruned by function, linked by every linker and run.

use std::collections::BTreeSet;

use summaries::{AtomKind, Granularity, ModuleSummary, Target, native};

use proptest::prelude::*;

use super::planner::Program;
use super::random::{cases, close, random_plan, runner};
use super::splitter::split;
use super::tools::{LINKERS, Workshop, lint, run, try_run};
use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan};
use crate::verify;

const C_MAIN: &str = r#"
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
int lib_used(int), lib_dead(int), lib_switch(int, int);
static int odd(unsigned n);
static NOINLINE int even(unsigned n) { asm(""); return n == 0 ? 1 : odd(n - 1); }
static NOINLINE int odd(unsigned n) { asm(""); return n == 0 ? 0 : even(n - 1); }
static NOINLINE int dead_leaf(int x) { asm(""); return x * 3; }
static NOINLINE int leaf(int x) { asm(""); return x * 5; }
int dead_root(int x) { asm(""); return dead_leaf(x) + lib_dead(x) + leaf(x); }
static NOINLINE int pointed(int x) { return x + 1000; }
static int (*const table[])(int) = { pointed, leaf };
static int (*volatile dead_table[])(int) = { dead_leaf, dead_root };
int dead_user(int x) { return dead_table[x & 1](x); }
static NOINLINE int factorial(int n) { asm(""); return n < 2 ? 1 : n * factorial(n - 1); }
static int (*volatile chosen)(int);
static NOINLINE int taken(int x) { return x - 7; }
static NOINLINE void choose(void) { chosen = taken; }
int main(int argc, char **argv) {
    choose();
    printf("%d %d %d %d\n", even(10), table[argc & 1](3) + table[0](4), factorial(5), chosen(10));
    for (int i = 0; i < 12; i++) printf("%d ", lib_switch(i, argc));
    printf("%d\n", lib_used(argc));
    return 0;
}
"#;

const C_LIB: &str = r#"
#include <stdlib.h>
#define NOINLINE __attribute__((noinline, noclone))
static NOINLINE int helper(int x) { asm(""); return x * 2; }
static NOINLINE int dead_helper(int x) { asm(""); return x * 4; }
static NOINLINE __attribute__((cold)) void fail(int x) { if (x == 12345) abort(); }
int dead_switch(int k, int x) {
    switch (k) { case 0: return helper(x); case 1: return x + 1; case 2: return dead_helper(x) * 7; case 3: return x * x;
      case 4: return x / 3; case 5: return dead_helper(x); case 6: return x ^ 5; case 7: return -x; default: return 99; }
}
int lib_dead(int x) { return dead_helper(x) + dead_switch(x, x); }
int lib_switch(int k, int x) {
    switch (k) { case 0: return helper(x + 1); case 1: return x + 10; case 2: return x * 70; case 3: return x * x - 3;
      case 4: return x / 3 + 2; case 5: return helper(x) + 1; case 6: return x ^ 50; case 7: return -x;
      case 8: fail(x); return 1; default: return 9; }
}
int other_dead_switch(int k, int x) {
    switch (k) { case 0: return x + 3; case 1: return helper(x) + 2; case 2: return x * 6; case 3: return x * x - 9;
      case 4: return x / 5 + 2; case 5: return x + 11; case 6: fail(x + 1); return x ^ 50; case 7: return -x; default: return 8; }
}
int lib_used(int x) { fail(x); return helper(x) + 1; }
static int impl1(int x) { return x + 100; }
"#;

const FLAGS: &[&[&str]] = &[
    &["-O2"],
    &["-O0"],
    &["-O1", "-fno-pic", "-no-pie"],
    &["-Os", "-fPIC", "-falign-functions=1"],
    &["-O3", "-fcf-protection", "-fno-plt"],
];

fn summarised(shop: &Workshop, objects: &[(String, Vec<u8>)]) -> Vec<ModuleSummary> {
    objects.iter().map(|(_, bytes)| split(shop, bytes)).collect()
}

fn compiled(
    shop: &Workshop,
    compiler: &str,
    flags: &[&str],
    sources: &[(&str, &str)],
) -> Vec<(String, Vec<u8>)> {
    let compile =
        |(name, text): &(&str, &str)| (format!("{name}.o"), shop.compile(compiler, name, text, flags));
    sources.iter().map(compile).collect()
}

/// Nothing that tools complain about is new.
fn lint_all(shop: &Workshop, what: &str, before: &[(String, Vec<u8>)], after: &[(String, Vec<u8>)]) {
    for ((name, old), (_, new)) in before.iter().zip(after) {
        let old = lint(&shop.write(&format!("before.{name}"), old));
        let new = lint(&shop.write(&format!("after.{name}"), new));
        let fresh: Vec<_> = new.iter().filter(|l| !old.contains(l)).collect();
        assert!(fresh.is_empty(), "{what} {name}: {fresh:?}");
        for tool in ["readelf", "llvm-readelf-19"] {
            let text = try_run(shop.command(tool).args(["-aW", "--unwind"]).arg(format!("after.{name}")));
            assert_eq!(String::from_utf8_lossy(&text.stderr), "", "{what} {name}");
        }
    }
}

#[test]
fn c_program_in_parts_on_all_linkers() {
    for compiler in ["gcc", "clang-19"] {
        for flags in FLAGS {
            let shop = Workshop::new();
            let flags = [flags, &["-w"][..]].concat();
            let what = format!("{compiler} {flags:?}");
            let objects = compiled(&shop, compiler, &flags, &[("main.c", C_MAIN), ("lib.c", C_LIB)]);
            let summaries = summarised(&shop, &objects);
            let program = Program::of(objects, summaries, &["main"]);
            assert!(program.dropped() >= 3, "{what}: {}", program.dropped());
            let pruned = program.pruned();
            lint_all(&shop, &what, &program.objects, &pruned);
            let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
            for linker in LINKERS {
                let plain = shop.link("gcc", linker, &program.objects, mode);
                let expected = run(&mut shop.command(plain.to_str().unwrap()));
                let exe = shop.link("gcc", linker, &pruned, mode);
                let out = run(&mut shop.command(exe.to_str().unwrap()));
                assert_eq!(out, expected, "{what} {linker}");
                let symbols = run(shop.command("nm").arg(&exe));
                for gone in
                    ["dead_root", "dead_leaf", "dead_user", "lib_dead", "dead_switch", "dead_helper", "impl1"]
                {
                    let there = symbols.lines().any(|l| l.ends_with(&format!(" {gone}")));
                    // Data is not split: absolute jump tables keep all functions that have one, and what is tied to them.
                    let by_data = ["dead_switch", "dead_helper", "lib_dead"];
                    assert!(!there || by_data.contains(&gone), "{what} {linker}: {gone} is there");
                }
            }
        }
    }
}

const CXX: &str = r#"
#include <cstdio>
#include <stdexcept>
#include <string>
#define NOINLINE __attribute__((noinline))
struct S { const char *n; S(const char *n) : n(n) {} ~S() { std::printf("~%s ", n); } };
static NOINLINE int thrower(int x) { asm(""); S s("t"); if (x > 2) throw std::runtime_error("big"); return x; }
int dead_thrower(int x) { S s("d"); try { return thrower(x) + 1; } catch (std::logic_error &e) { return -2; } }
static NOINLINE int middle(int x) { S s("m"); return thrower(x) + 1; }
int dead_middle(int x) { S s("e"); if (x > 77) throw std::logic_error("dead"); return dead_thrower(x) + middle(x); }
NOINLINE int catcher(int x) {
    try { S s("c"); return middle(x); } catch (const std::runtime_error &e) { std::printf("%s ", e.what()); return -1; }
    catch (int i) { return dead_middle == nullptr ? i : i + 1; }
}
struct Base { virtual ~Base() {} virtual int f(int x) { return x; } };
struct Derived : Base { int f(int x) override { return catcher(x) * 2; } };
NOINLINE Base *make(int x) { asm(""); if (x) return new Derived; return new Base; }
int dead_last(int x) { Derived d; try { return d.f(x) + dead_middle(x); } catch (...) { return 7; } }
int main(int argc, char **) {
    Base *b = make(argc); int r = 0;
    for (int i = 0; i < 5; i++) r = r * 3 + b->f(i);
    std::printf("%d\n", r);
    delete b;
    return 0;
}
"#;

#[test]
fn cxx_exceptions_in_parts_on_all_linkers() {
    for compiler in ["g++", "clang++-19"] {
        for flags in FLAGS {
            let shop = Workshop::new();
            let flags = [flags, &["-w", "-std=c++17"][..]].concat();
            let what = format!("{compiler} {flags:?}");
            let objects = compiled(&shop, compiler, &flags, &[("x.cc", CXX)]);
            let summaries = summarised(&shop, &objects);
            let program = Program::of(objects, summaries, &["main"]);
            assert!(program.dropped() >= 2, "{what}: {}", program.dropped());
            let pruned = program.pruned();
            lint_all(&shop, &what, &program.objects, &pruned);
            let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
            for linker in LINKERS {
                let plain = shop.link("g++", linker, &program.objects, mode);
                let expected = run(&mut shop.command(plain.to_str().unwrap()));
                let exe = shop.link("g++", linker, &pruned, mode);
                assert_eq!(run(&mut shop.command(exe.to_str().unwrap())), expected, "{what} {linker}");
                let symbols = run(shop.command("nm").arg(&exe));
                assert!(!symbols.contains("dead_last"), "{what} {linker}");
            }
        }
    }
}

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

/// `main` and random other functions: other sets, so other runs.
#[test]
fn any_set_of_functions_that_is_closed_under_references() {
    let mut linked = 0;
    for (seed, compiler, flags) in [
        (1, "gcc", FLAGS[0]),
        (2, "gcc", FLAGS[3]),
        (3, "clang-19", FLAGS[0]),
        (4, "clang-19", FLAGS[2]),
        (5, "gcc", FLAGS[1]),
    ] {
        let shop = Workshop::new();
        let flags = [flags, &["-w"][..]].concat();
        let objects = compiled(&shop, compiler, &flags, &[("main.c", &generated(seed))]);
        let summaries = summarised(&shop, &objects);
        let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
        let plain = shop.link("gcc", "lld", &objects, mode);
        let expected = run(&mut shop.command(plain.to_str().unwrap()));
        let mut seen = BTreeSet::new();
        for round in 0..12u32 {
            let chosen = (0..30u32)
                .filter(|i| (round.wrapping_mul(0x9e37_79b9) ^ i.wrapping_mul(0x85eb_ca6b)) >> 13 & 7 == 0);
            let roots: Vec<String> = chosen.map(|i| format!("f{i}")).chain([String::from("main")]).collect();
            let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
            let program = Program::of(objects.clone(), summaries.clone(), &roots);
            let pruned = program.pruned();
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

/// The same programs by the front end that links use: it may refuse to split, but what it splits must run.
#[test]
fn what_the_native_front_end_splits() {
    let (mut in_parts, mut resolved, mut owned) = (0, 0, 0);
    let text = generated(9);
    for (i, (compiler, flags)) in ["gcc", "clang-19", "g++", "clang++-19"]
        .iter()
        .flat_map(|c| FLAGS.iter().map(move |f| (*c, *f)))
        .enumerate()
    {
        let shop = Workshop::new();
        let flags = [flags, &["-w"][..]].concat();
        let cxx: &[(&str, &str)] = &[("x.cc", CXX)];
        let c: [&[(&str, &str)]; 2] = [&[("main.c", C_MAIN), ("lib.c", C_LIB)], &[("g.c", &text)]];
        let programs =
            if compiler.ends_with("cc") || compiler.starts_with("clang-") { &c[..] } else { &[cxx] };
        for sources in programs {
            let what = format!("{compiler} {flags:?} {}", sources[0].0);
            let objects = compiled(&shop, compiler, &flags, sources);
            let summaries =
                objects.iter().map(|(_, b)| native::extract_at(b, Granularity::Functions)).collect();
            let program = Program::of(objects, summaries, &["main"]);
            let pruned = program.pruned();
            lint_all(&shop, &what, &program.objects, &pruned);
            for (summary, plan) in program.summaries.iter().zip(&program.plans) {
                resolved += summary.resolved.len();
                owned += summary.owned.len();
                let planned: Vec<_> = summary.atoms.iter().zip(&plan.atoms).collect();
                in_parts += planned
                    .chunk_by(|a, b| a.0.section == b.0.section)
                    .filter(|a| a[0].0.kind == AtomKind::Code && a.iter().any(|x| x.1 != a[0].1))
                    .count();
            }
            let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
            let driver = if sources[0].0.ends_with("cc") { "g++" } else { "gcc" };
            let linker = LINKERS[i % LINKERS.len()];
            let plain = shop.link(driver, linker, &program.objects, mode);
            let expected = run(&mut shop.command(plain.to_str().unwrap()));
            let exe = shop.link(driver, linker, &pruned, mode);
            assert_eq!(run(&mut shop.command(exe.to_str().unwrap())), expected, "{what} {linker}");
        }
    }
    assert!(in_parts > 15 && resolved > 100 && owned > 10, "{in_parts} {resolved} {owned}");
}

/// A section of code whose functions refer to each other only as the assembler resolves it, in a group: it has no
/// relocations before, and has them after.
#[test]
fn relocations_of_a_part_are_made_in_the_group_of_the_section() {
    let function = |name: &str, body: &str| {
        format!(".globl {name}\n.type {name},@function\n.p2align 3\n{name}: {body}\n.size {name}, .-{name}\n")
    };
    let source = format!(
        ".section .text.g,\"axG\",@progbits,sig,comdat\n{}{}{}{}.weak sig\n.text\n{}",
        function("sig", "movl $1, %eax; .byte 0xe8; .long last - . - 4; ret"),
        function("dead", "movl $2, %eax; ret"),
        function("near", "leal 5(%rax), %eax; ret"),
        function("last", ".byte 0xe8; .long near - . - 4; .byte 0xe8; .long near - . - 4; ret"),
        function("main", "call sig; subl $11, %eax; ret"),
    );
    let shop = Workshop::new();
    let object = shop.compile("gcc", "g.s", &source, &[]);
    let object = (String::from("g.o"), object);
    let program = Program::of(vec![object.clone()], vec![split(&shop, &object.1)], &["main"]);
    let summary = &program.summaries[0];
    let dropped = summary.atoms.iter().zip(&program.plans[0].atoms).filter(|(_, a)| **a == Action::Drop);
    assert_eq!(dropped.filter(|(a, _)| a.kind == AtomKind::Code).count(), 1);
    let pruned = program.pruned();
    lint_all(&shop, "group", &[object], &pruned);
    let headers = run(shop.command("readelf").args(["-SgW", "after.g.o"]));
    assert_eq!(headers.matches(".rela.text.g").count(), 2, "{headers}");
    assert_eq!(headers.matches("contains 3 sections").count(), 1, "{headers}");
    for linker in LINKERS {
        let exe = shop.link("gcc", linker, &pruned, &["-Wl,-z,noexecstack"]);
        run(&mut shop.command(exe.to_str().unwrap()));
    }
}

fn sample(shop: &Workshop) -> (Vec<u8>, ModuleSummary, ModulePlan) {
    let object = shop.compile("gcc", "lib.c", C_LIB, &["-O2"]);
    let summary = split(shop, &object);
    let roots = ["lib_switch"];
    let program = Program::of(vec![(String::from("lib.o"), object.clone())], vec![summary.clone()], &roots);
    (object, summary, program.plans[0].clone())
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
    let stays = |plan: &ModulePlan, a: summaries::AtomIdx| plan.atoms[a.index()] == Action::Keep;
    refused(&|s, _| s.retargets.clear(), "no known target");
    let resolved = *summary.resolved.iter().find(|r| stays(&plan, r.from) && stays(&plan, r.target)).unwrap();
    refused(&|_, p| p.atoms[resolved.target.index()] = Action::Drop, "dropped");
    // Without its owner the table's entries would dangle.
    refused(&|s, _| s.owned.clear(), "refers to what is dropped");
    // A symbol's atom elsewhere, atoms that overlap or reach out of the section.
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
    let emitted = rewrite(&object, &summary, &plan).unwrap();
    let expected = verify::ExpectedObject::new(&summary, &plan);
    verify::object("lib.o", &object, &emitted, &expected).unwrap();
    assert!(verify::object("lib.o", &object, &object, &expected).is_err());
    let elf = goblin::elf::Elf::parse(&emitted).unwrap();
    let mut watched = 0;
    for section in &elf.section_headers {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap();
        let is_part = name.starts_with(".text") || name.starts_with(".rela") || name == ".eh_frame";
        for at in section.file_range().filter(|_| is_part).into_iter().flatten() {
            let mut damaged = emitted.clone();
            damaged[at] ^= 1;
            assert!(verify::object("lib.o", &object, &damaged, &expected).is_err(), "{name} {at:#x}");
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
        assert!(verify::object("lib.o", &object, &damaged, &expected).is_err());
    }
}

/// Random plans on objects with several atoms a section, damaged objects among them: an error or a verified object.
#[test]
fn random_plans_of_parts_are_carried_out_or_refused() {
    let shop = Workshop::new();
    let objects: Vec<Vec<u8>> = vec![
        shop.compile("gcc", "a.c", C_LIB, &["-O2"]),
        shop.compile("clang-19", "b.c", C_LIB, &["-O1", "-fno-pic"]),
        shop.compile("g++", "x.cc", CXX, &["-O2", "-std=c++17"]),
        shop.compile("clang++-19", "y.cc", CXX, &["-O0", "-std=c++17"]),
    ];
    let summaries: Vec<_> = objects.iter().map(|o| split(&shop, o)).collect();
    let in_parts = std::cell::Cell::new(0);
    let some = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6);
    let damage = prop_oneof![Just(Vec::new()), some];
    let strategy = (0..objects.len(), prop::collection::vec(any::<u8>(), 64), 0u8..40, any::<bool>(), damage);
    runner(cases(1500))
        .run(&strategy, |(which, seed, percent, closed, damage)| {
            let (object, mut summary) = (&objects[which], summaries[which].clone());
            let mut plan = random_plan(&summary, &seed, percent);
            if closed {
                close(&summary, &mut plan);
            }
            let mut bytes = object.clone();
            for (at, value, in_tables) in &damage {
                let start = if *in_tables { bytes.len() - bytes.len() / 8 } else { 0 };
                let at = start + at.index(bytes.len() - start);
                bytes[at] = *value;
                if *value < 16 && !summary.atoms.is_empty() {
                    let atom = at % summary.atoms.len();
                    summary.atoms[atom].offset ^= 1 << (value % 16);
                }
            }
            let expected = verify::ExpectedObject::new(&summary, &plan);
            match rewrite(&bytes, &summary, &plan) {
                Err(e) if closed && damage.is_empty() => panic!("{e}"),
                Err(_) => {}
                Ok(new) => {
                    let verified = verify::object("p.o", &bytes, &new, &expected);
                    if damage.is_empty() {
                        verified.unwrap_or_else(|e| panic!("{e}"));
                        let planned: Vec<_> = summary.atoms.iter().zip(&plan.atoms).collect();
                        let mut sections = planned.chunk_by(|a, b| a.0.section == b.0.section);
                        let divided = sections.any(|a| a.iter().any(|(_, action)| *action != a[0].1));
                        in_parts.set(in_parts.get() + usize::from(divided));
                    }
                }
            }
            let _ = verify::object("p.o", object, &bytes, &expected);
            let _ = verify::object("p.o", &bytes, object, &expected);
            Ok(())
        })
        .unwrap();
    assert!(in_parts.get() > 5, "{}", in_parts.get());
}

/// A summary that says less than the object does not make verification say yes to what emission makes of it.
#[test]
fn a_wrong_target_is_found() {
    let shop = Workshop::new();
    let (object, summary, plan) = sample(&shop);
    let expected = verify::ExpectedObject::new(&summary, &plan);
    let stays = |a: summaries::AtomIdx| plan.atoms[a.index()] == Action::Keep;
    let mut tried = 0;
    for i in 0..summary.retargets.len() {
        let mut wrong = summary.clone();
        let section = summary.atoms[wrong.retargets[i].target.index()].section;
        for (a, atom) in summary.atoms.iter().enumerate() {
            let a = summaries::AtomIdx::new(a);
            if atom.section != section || !stays(a) || a == summary.retargets[i].target {
                continue;
            }
            wrong.retargets[i].target = a;
            let Ok(new) = rewrite(&object, &wrong, &plan) else { continue };
            let same = new == rewrite(&object, &summary, &plan).unwrap();
            assert!(same || verify::object("lib.o", &object, &new, &expected).is_err());
            // Nor if verification is told the same.
            let told = verify::ExpectedObject::new(&wrong, &plan);
            assert!(same || verify::object("lib.o", &object, &new, &told).is_err());
            tried += usize::from(!same);
        }
    }
    assert!(tried > 3, "{tried}");
    assert!(summary.references.iter().any(|r| matches!(r.target, Target::Atom(_))));
}
