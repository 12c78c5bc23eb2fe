//! Random programs of functions that are alike, for links that fold: which of them are one must not show.
//!
//! A program has families. The functions of a family have the same text, each in some unit, static or global, and are all
//! called; the address of some is formed besides, in one of the ways that programs do it: in data, in code, in another unit,
//! by the function itself, through a name of its own, by assembly. Whatever is formed is compared with all others of its
//! family, which is what the program prints. Functions may call each other, throw by `longjmp`, switch, count statically.

use std::fmt::Write as _;

use super::program::{SoakProgram, Unit};
use super::rng::Rng;

/// How the address of a function is formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Not at all: it is only called.
    Called,
    Data,
    Constant,
    Code,
    /// In the unit after its own.
    Elsewhere,
    /// It returns its own address, as do all of its family.
    Itself,
    Alias,
    Assembly,
    /// Passed to a function that gives it back.
    Passed,
}

const WAYS: [Way; 8] = [
    Way::Data,
    Way::Constant,
    Way::Code,
    Way::Elsewhere,
    Way::Itself,
    Way::Alias,
    Way::Assembly,
    Way::Passed,
];

const PRELUDE: &str = "#include <setjmp.h>\n#include <stdio.h>\n#ifdef __clang__\n#define TWIN __attribute__((noinline))\n\
    #else\n#define TWIN __attribute__((noipa))\n#endif\ntypedef void *any;\n#ifdef __PIC__\n\
    #define ASM(to, name) __asm__ volatile(\"lea \" #name \"(%%rip), %0\" : \"=r\"(to))\n#else\n\
    #define ASM(to, name) __asm__ volatile(\"movabs $\" #name \", %0\" : \"=r\"(to))\n#endif\n\
    extern unsigned state;\nextern jmp_buf out;\nextern any same(any);\nextern unsigned helper(unsigned);\n";

/// The body of a family; `NAME` stands for the function's own name.
fn body(rng: &mut Rng, way: Way) -> String {
    let (a, b) = (rng.literal(), rng.literal());
    if way == Way::Itself {
        return format!("{{ state = state * 3u + {a}; return (any)NAME; }}");
    }
    match rng.below(7) {
        0 => format!("{{ state += {a}; return 0; }}"),
        1 => format!("{{ state = helper(state ^ {a}) + {b}; return 0; }}"),
        2 => format!("{{ for (unsigned i = 0; i < 5; i++) state = state * {a} + helper(i); return 0; }}"),
        3 => format!(
            "{{ switch (state % 7) {{ case 0: state += {a}; break; case 1: state ^= {b}; break; \
             case 2: state *= 3; break; case 3: state = helper(state); break; case 4: state--; break; \
             case 5: state = ~state; break; }} return 0; }}"
        ),
        4 => {
            format!("{{ if (state % 3 == 0) {{ state += {a}; longjmp(out, 1); }} state += {b}; return 0; }}")
        }
        5 => format!("{{ static unsigned count; state += count++ * {a}; return 0; }}"),
        _ => format!(
            "{{ if (state % 5 > 1) {{ state--; return NAME(); }} state = (state ^ {b}) + {a}; return 0; }}"
        ),
    }
}

struct Member {
    name: String,
    unit: usize,
    global: bool,
    way: Way,
}

pub(crate) fn generate(seed: u64) -> SoakProgram {
    let mut rng = Rng::new(seed, 77);
    let units = rng.range(2, 4);
    let mut texts: Vec<String> = vec![PRELUDE.to_owned(); units];
    let mut calls = vec![String::new(); units];
    let mut compares = String::new();
    let mut declarations = String::new();
    for family in 0..rng.range(4, 9) {
        let itself = rng.one_in(6);
        let text = body(&mut rng, if itself { Way::Itself } else { Way::Called });
        let members: Vec<Member> = (0..rng.range(2, 5))
            .map(|i| Member {
                name: format!("f{family}_{i}"),
                unit: rng.below(units),
                global: rng.one_in(2),
                way: match (itself, rng.one_in(2)) {
                    (true, _) => Way::Itself,
                    (_, true) => Way::Called,
                    _ => *rng.pick(&WAYS),
                },
            })
            .collect();
        let mut formed = Vec::new();
        for member in &members {
            let Member { name, unit, .. } = member;
            let way = if member.way == Way::Itself && !itself { Way::Code } else { member.way };
            let global = member.global || matches!(way, Way::Elsewhere);
            let linkage = if global { "" } else { "static " };
            let used = if way == Way::Assembly { "__attribute__((used)) " } else { "" };
            let code = text.replace("NAME", name);
            let getter = format!("{name}_address");
            let place = if way == Way::Elsewhere { (unit + 1) % units } else { *unit };
            let Some(own) = texts.get_mut(*unit) else { continue };
            let _ = writeln!(own, "TWIN {used}{linkage}any {name}(void) {code}");
            if let Some(calls) = calls.get_mut(*unit) {
                let _ = writeln!(calls, "    if (!setjmp(out)) {name}();");
            }
            let answer = match way {
                Way::Called => continue,
                Way::Data => {
                    let _ = writeln!(own, "any (*volatile {name}_slot)(void) = {name};");
                    format!("return (any){name}_slot;")
                }
                Way::Constant => {
                    let _ = writeln!(own, "any (*const volatile {name}_slots[])(void) = {{0, {name}}};");
                    format!("return (any){name}_slots[1];")
                }
                Way::Code | Way::Elsewhere => format!("any volatile at = (any){name}; return at;"),
                Way::Itself => format!("return {name}();"),
                Way::Alias => {
                    let hidden = if global { "" } else { "static " };
                    let attribute = format!("__attribute__((alias(\"{name}\")))");
                    let _ = writeln!(own, "{hidden}any {name}_alias(void) {attribute};");
                    format!("any volatile at = (any){name}_alias; return at;")
                }
                Way::Assembly => format!("any at; ASM(at, {name}); return at;"),
                Way::Passed => format!("return same((any){name});"),
            };
            if let Some(text) = texts.get_mut(place) {
                if way == Way::Elsewhere {
                    let _ = writeln!(text, "extern any {name}(void);");
                }
                let _ = writeln!(text, "any {getter}(void) {{ {answer} }}");
            }
            let _ = writeln!(declarations, "any {getter}(void);");
            formed.push(getter);
        }
        for (i, a) in formed.iter().enumerate() {
            for b in formed.iter().skip(i + 1) {
                let _ = writeln!(compares, "    printf(\"{a} {b} %d\\n\", {a}() == {b}());");
            }
        }
    }
    for (i, (text, calls)) in texts.iter_mut().zip(&calls).enumerate() {
        let _ = writeln!(text, "void calls{i}(void) {{\n{calls}}}");
        let _ = writeln!(declarations, "void calls{i}(void);");
    }
    let rounds: String = (0..units).map(|i| format!(" calls{i}();")).collect();
    let main = format!(
        "{PRELUDE}unsigned state = {};\njmp_buf out;\nany same(any at) {{ any volatile kept = at; return kept; }}\n\
         TWIN unsigned helper(unsigned x) {{ return x * 7u + 1u; }}\n{declarations}\
         int main(void) {{\n    for (int round = 0; round < 9; round++) {{{rounds} }}\n{compares}    \
         printf(\"%u\\n\", state);\n    return 0;\n}}\n",
        rng.literal()
    );
    let mut all = vec![Unit::new("main".into(), main, false)];
    all.extend(texts.into_iter().enumerate().map(|(i, text)| Unit::new(format!("unit{i}"), text, false)));
    SoakProgram { fold_one_in: 1, ..SoakProgram::new(all, 0) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn programs_differ_and_repeat() {
        let text = |seed| super::generate(seed).units.iter().map(|u| u.text.clone()).collect::<String>();
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        let many: String = (0..40).map(text).collect();
        for word in ["_alias", "ASM(at", "same((any)", "_slots[1]", "longjmp", "return (any)f"] {
            assert!(many.contains(word), "{word}");
        }
    }
}
