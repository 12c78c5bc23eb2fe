//! Programs that are pruned, linked by every linker and run.

use super::planner::Program;
use super::tools::{LINKERS, Workshop, lint, run, try_run};

const C_MAIN: &str = r#"
#include <stdio.h>
extern int used(int); extern int hidden_used(void); extern __thread int tls_used;
__attribute__((weak)) extern int nowhere(void);
int common_used; int common_dead[100];
static int dead_static(int x) { return x * 3; }
int dead_fn(int x) { printf("dead %d %d\n", dead_static(x), common_dead[x]); return 1; }
int (*dead_table[])(int) = { dead_fn, used };
int data_used = 7;
__attribute__((constructor)) static void ctor(void) { data_used++; }
int main(int argc, char **argv) {
    common_used = argc;
    printf("%d %d %d %d %d\n", used(argc), hidden_used(), data_used, nowhere ? nowhere() : 42, ++tls_used);
    switch (argc + data_used) { case 1: puts("a"); break; case 5: puts("b"); break; case 9: puts("nine"); break;
      case 10: puts("c"); break; case 12: puts("d"); break; case 13: puts("e"); break; }
    return 0;
}
"#;
const C_LIB: &str = r#"
extern int missing_everywhere(void);
__thread int tls_used = 3; __thread int tls_dead[64];
__attribute__((visibility("hidden"))) int hidden_used(void) { return 11; }
__attribute__((visibility("hidden"))) int hidden_dead(void) { return 12; }
static int impl1(int x) { return x + 100; }
static int (*resolve(void))(int) { return impl1; }
int used(int) __attribute__((ifunc("resolve")));
int lib_dead(void) { return hidden_dead() + missing_everywhere() + tls_dead[1]; }
const char *const dead_strings[] = { "x", "y" };
"#;

#[test]
fn c_program_on_all_linkers() {
    for compiler in ["gcc", "clang-19"] {
        for flags in [&["-O2"][..], &["-O0", "-fno-pic", "-no-pie", "-fcommon"], &["-Os", "-g", "-fPIC"]] {
            let shop = Workshop::new();
            let flags = [flags, &["-ffunction-sections", "-fdata-sections", "-w"]].concat();
            let program = Program::compile(&shop, compiler, &flags, &[("main.c", C_MAIN), ("lib.c", C_LIB)]);
            assert!(program.dropped() >= 6, "{compiler} {flags:?}: {}", program.dropped());
            let pruned = program.pruned();
            let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
            for linker in LINKERS {
                // The original has an undefined symbol in dead code; the pruned link proves that it went.
                let exe = shop.link("gcc", linker, &pruned, mode);
                let out = run(&mut shop.command(exe.to_str().unwrap()));
                assert_eq!(out, "101 11 8 42 4\nnine\n", "{compiler} {flags:?} {linker}");
                let symbols = run(shop.command("nm").arg(&exe));
                for gone in ["dead_fn", "dead_static", "common_dead", "lib_dead", "tls_dead", "hidden_dead"] {
                    assert!(!symbols.contains(gone), "{compiler} {flags:?} {linker}: {gone} is there");
                }
            }
        }
    }
}

const CXX_HEADER: &str = r#"
#include <stdexcept>
#include <string>
#include <vector>
#include <map>
struct Base { virtual ~Base(); virtual int f() { return 1; } };
template <class T> struct Box : Base { T t{}; int f() override { return int(sizeof(T)); } static int count; };
template <class T> int Box<T>::count = 5;
inline int inline_both(int x) { static int calls; if (x < 0) throw std::runtime_error("neg"); return ++calls; }
inline int inline_dead(int x) { static int calls; if (x < 0) throw std::logic_error("x"); return ++calls; }
inline int inline_variable = 3;
int other(int); int other_dead(int);
"#;
const CXX_MAIN: &str = r#"
#include "h.h"
#include <cstdio>
int dead(int x) { try { return other_dead(x) + inline_dead(x); } catch (std::logic_error &e) { return -2; } }
int main(int argc, char **) {
    int r = 0;
    try { r = other(-argc); } catch (std::runtime_error &e) { r = 77; printf("%s\n", e.what()); }
    Box<int> b; Base *p = &b;
    std::map<std::string, std::vector<int>> m; m["k"].push_back(inline_both(argc));
    printf("%d %d %d %d %zu\n", r, p->f(), inline_both(1) + Box<int>::count, inline_variable, m.size());
    return 0;
}
"#;
const CXX_LIB: &str = r#"
#include "h.h"
Base::~Base() {}
int other(int x) { try { Box<int> b; return inline_both(x) + b.f() + Box<int>::count + ++inline_variable; }
                   catch (int) { return -1; } }
int other_dead(int x) { Box<long> b; return inline_dead(x) + b.f() + Box<long>::count; }
struct Global { int v; Global() : v(other_count()) {} static int other_count() { return 4; } } global;
"#;

#[test]
fn cxx_exceptions_and_comdat_on_all_linkers() {
    for compiler in ["g++", "clang++-19"] {
        for flags in [
            &["-O2"][..],
            &["-O0", "-g"],
            &["-O1", "-fvisibility=hidden", "-fvisibility-inlines-hidden"],
            &["-O2", "-g", "-fdebug-types-section", "-gdwarf-4"],
            &["-O2", "-fno-pic", "-no-pie", "-g3", "-gz"],
        ] {
            let shop = Workshop::new();
            shop.write("h.h", CXX_HEADER);
            let flags = [flags, &["-ffunction-sections", "-fdata-sections", "-std=c++17", "-w"]].concat();
            let sources = [("main.cc", CXX_MAIN), ("lib.cc", CXX_LIB)];
            let program = Program::compile(&shop, compiler, &flags, &sources);
            assert!(program.dropped() > 10, "{compiler} {flags:?}: {}", program.dropped());
            let pruned = program.pruned();
            for ((name, old), (_, new)) in program.objects.iter().zip(&pruned) {
                let before = lint(&shop.write(&format!("before.{name}"), old));
                let after = lint(&shop.write(&format!("after.{name}"), new));
                let fresh: Vec<_> = after.iter().filter(|l| !before.contains(l)).collect();
                assert!(fresh.is_empty(), "{compiler} {flags:?} {name}: {fresh:?}");
                let text = try_run(
                    shop.command("readelf").args(["-aW", "--debug-dump=frames"]).arg(format!("after.{name}")),
                );
                assert_eq!(String::from_utf8_lossy(&text.stderr), "", "{compiler} {flags:?} {name}");
            }
            let mode: &[&str] = if flags.contains(&"-no-pie") { &["-no-pie"] } else { &[] };
            for linker in LINKERS {
                let plain = shop.link("g++", linker, &program.objects, mode);
                let expected = run(&mut shop.command(plain.to_str().unwrap()));
                let exe = shop.link("g++", linker, &pruned, mode);
                let out = run(&mut shop.command(exe.to_str().unwrap()));
                assert_eq!(out, expected, "{compiler} {flags:?} {linker}");
                assert_eq!(out, "neg\n77 4 7 3 1\n");
                let symbols = run(shop.command("nm").arg(&exe));
                assert!(!symbols.contains("dead"), "{compiler} {flags:?} {linker}: {symbols}");
            }
        }
    }
}

/// Objects that went through another tool after the compiler: they have section symbols for everything, other
/// orders, and tables that the tool did not know.
#[test]
fn objects_of_other_tools() {
    let tools: &[&[&str]] = &[
        &["ld.bfd", "-r", "-o", "OUT", "IN"],
        &["ld.gold", "-r", "-o", "OUT", "IN"],
        &["ld.lld-19", "-r", "-o", "OUT", "IN"],
        &["mold", "-r", "-o", "OUT", "IN"],
        &["objcopy", "IN", "OUT"],
        &["llvm-objcopy-19", "IN", "OUT"],
        &["objcopy", "--compress-debug-sections=zlib", "IN", "OUT"],
        &["strip", "--strip-unneeded", "-o", "OUT", "IN"],
        &["llvm-strip-19", "-g", "-o", "OUT", "IN"],
    ];
    let mut linked = 0;
    for compiler in ["g++", "clang++-19"] {
        let shop = Workshop::new();
        shop.write("h.h", CXX_HEADER);
        let flags = ["-O1", "-g", "-ffunction-sections", "-fdata-sections", "-std=c++17", "-w"];
        let compiled =
            Program::compile(&shop, compiler, &flags, &[("main.cc", CXX_MAIN), ("lib.cc", CXX_LIB)]);
        for tool in tools {
            let processed = compiled.objects.iter().map(|(name, bytes)| {
                let (input, output) = (shop.write("IN", bytes), shop.path("OUT"));
                let _ = std::fs::remove_file(&output);
                drop(input);
                run(shop.command(tool[0]).args(&tool[1..]));
                (name.clone(), std::fs::read(output).unwrap())
            });
            let program = Program::new(processed.collect(), &["main"]);
            assert!(program.dropped() > 5, "{compiler} {tool:?}");
            let pruned = program.pruned();
            for linker in LINKERS {
                // Not every linker takes what another one writes with -r.
                if shop.try_link("g++", linker, &program.objects, &[]).is_err() {
                    continue;
                }
                let exe = shop.link("g++", linker, &pruned, &[]);
                let out = run(&mut shop.command(exe.to_str().unwrap()));
                assert_eq!(out, "neg\n77 4 7 3 1\n", "{compiler} {tool:?} {linker}");
                linked += 1;
            }
        }
    }
    assert!(linked > 60, "{linked}");
}
