//! Objects that other tools changed after the compiler: they are pruned, linked by every linker and run.

use super::planner::Program;
use super::tools::{LINKERS, Workshop, run};

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

/// Such objects have a section symbol for each section, another order, and tables that the tool did not know.
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
