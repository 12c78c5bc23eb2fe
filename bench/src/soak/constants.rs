//! Random programs full of integers that are always the same, or nearly: modes that are passed down, flags that nobody sets.
//!
//! A program has *tests*: `if (WHAT op K) x += fN(x, ...)`, where WHAT is a parameter or a variable and fN a function of its own that
//! calls another one. Most are never true. Variables are written nowhere, with what they hold, where control can't come, by
//! another unit, through a pointer, in another width, by a handler of signals, through a structure's copy, or by the library; parameters are
//! the same at all calls, or at all but one, are passed on, come through pointers, change in loops and by recursion, or are
//! cut and extended. Whether a test may be true is nobody's to say here: a stub that runs is a difference.

use super::program::{Program, Unit};
use super::rng::Rng;

const HEAD: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <signal.h>\n#include <setjmp.h>\n#include <pthread.h>\n\
                    extern unsigned sum;\nextern volatile int zero;\nextern int fuel;\n";

/// Types of variables and parameters, each with the mask of what it can hold.
const TYPES: [&str; 7] = ["int", "unsigned", "char", "unsigned char", "short", "long", "unsigned long"];

#[derive(Debug, Clone)]
struct Variable {
    /// As an expression.
    name: String,
    unit: usize,
    global: bool,
    value: i64,
}

struct Weaver {
    rng: Rng,
    shared: String,
    units: Vec<String>,
    serial: usize,
    variables: Vec<Variable>,
    /// Functions that anything may call: name, and the types of their parameters.
    functions: Vec<(String, Vec<&'static str>, usize)>,
    main: String,
}

impl Weaver {
    fn fresh(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }

    fn constant(&mut self) -> i64 {
        *self.rng.pick(&[0, 0, 0, 1, 1, 2, 3, 5, -1, 127, 128, 255, 256, 65535, 1 << 31])
    }

    /// A function that only its test calls, with one that only it calls.
    fn rare(&mut self, unit: usize) -> String {
        let id = self.fresh();
        let (k, l) = (self.rng.literal(), self.rng.literal());
        let home = if self.rng.one_in(2) { unit } else { self.rng.below(self.units.len()) };
        let inner = if self.rng.one_in(2) { "static " } else { "" };
        self.shared.push_str(&format!("unsigned rare{id}(unsigned a);\n"));
        self.units[home].push_str(&format!(
            "{inner}__attribute__((noinline)) unsigned deep{id}(unsigned a) {{ sum = sum * 3u + {k}; return a ^ sum; }}\n\
             {}unsigned rare{id}(unsigned a) {{ return deep{id}(a + {l}) * 5u; }}\n",
            if self.rng.one_in(2) { "__attribute__((noinline)) " } else { "" }
        ));
        format!("rare{id}")
    }

    fn comparison(&mut self, value: i64) -> String {
        let near = [value, value, value.wrapping_add(1), value.wrapping_sub(1), 0];
        let k = *self.rng.pick(&near);
        let op = *self.rng.pick(&["==", "!=", "!=", "<", ">", "<=", ">=", "&"]);
        format!("{op} {k}")
    }

    /// A statement that tests `what`, which is mostly `value`.
    fn test(&mut self, unit: usize, what: &str, value: i64) -> String {
        let rare = self.rare(unit);
        let by = self.comparison(value);
        match self.rng.below(8) {
            0 => format!("  if (!({what} {by})) x += {rare}(x); else x++;\n"),
            1 => format!("  while ({what} {by}) {{ x += {rare}(x); if (fuel-- < 0) break; }}\n"),
            2 => format!("  x += ({what} {by}) ? {rare}(x) : 3u;\n"),
            3 => {
                let (other, k) = (self.variable(unit), self.constant());
                format!("  if ({what} {by} && {other} != {k}) x = {rare}(x + 1u);\n")
            }
            4 => {
                let (other, k) = (self.variable(unit), self.constant());
                format!("  if ({what} {by} || {other} == {k}) x = {rare}(x + 1u);\n")
            }
            5 => format!(
                "  switch ({what}) {{ case 3: x += {rare}(x); break; case 7: x ^= 9u; break; case 8: x += 4u; break; case 9: x *= 3u; break; case 11: x += 77u; break; default: x++; }}\n"
            ),
            _ => format!("  if ({what} {by}) x += {rare}(x);\n"),
        }
    }

    /// A variable that the unit can name.
    fn variable(&mut self, unit: usize) -> String {
        let all: Vec<String> =
            self.variables.iter().filter(|v| v.global || v.unit == unit).map(|v| v.name.clone()).collect();
        if all.is_empty() { "zero".to_owned() } else { self.rng.pick(&all).clone() }
    }

    /// A variable, with whatever writes it.
    fn declare(&mut self) {
        let id = self.fresh();
        let unit = self.rng.below(self.units.len());
        let ty = *self.rng.pick(&TYPES);
        let value = self.constant();
        let kind = self.rng.below(16);
        let global = kind >= 12 || self.rng.one_in(2);
        let linkage = if global { "" } else { "static " };
        let volatile = if self.rng.one_in(8) { "volatile " } else { "" };
        let name = format!("v{id}");
        let field = self.rng.one_in(4);
        let (declared, expression) = match field {
            true => (format!("{volatile}struct s{id} {name}"), format!("{name}.b")),
            false => (format!("{volatile}{ty} {name}"), name.clone()),
        };
        if field {
            self.shared.push_str(&format!("struct s{id} {{ int a; {ty} b; long c; }};\n"));
        }
        let initial = if field { format!("{{1, ({ty}){value}, 3}}") } else { format!("({ty}){value}") };
        let initial = if value == 0 && self.rng.one_in(2) { String::new() } else { format!(" = {initial}") };
        let attribute = if self.rng.one_in(16) { " __attribute__((section(\"own\")))" } else { "" };
        if global {
            self.shared.push_str(&format!("extern {declared};\n"));
        }
        self.units[unit].push_str(&format!("{linkage}{declared}{attribute}{initial};\n"));
        let writer = if global { self.rng.below(self.units.len()) } else { unit };
        let other = self.constant();
        let e = &expression;
        let body = match kind {
            0 | 1 => String::new(),
            2 => format!("{e} = ({ty}){value};"),
            3 => format!("if (zero) {e} = ({ty}){other};"),
            4 => format!("if (k == 77) {e} = ({ty}){other};"),
            5 => format!("{e} = ({ty}){other};"),
            6 => format!("{e} = k;"),
            7 => format!("{volatile}{ty} *p = &{e}; p[zero] = ({ty}){other};"),
            8 => format!("((volatile char *)&{e})[zero] = 1;"),
            9 => format!("memset((void *)&{e}, k & 1, sizeof {e});"),
            10 => format!("{e}++;"),
            11 => format!("{e} |= 1;"),
            12 => format!("struct {{ {ty} q; }} l = {{{other}}}; memcpy((void *)&{e}, &l, sizeof l);"),
            13 => format!("sscanf(\"1\", \"%hhd\", (signed char *)&{e});"),
            14 => format!("static {ty} from = ({ty}){other}; {e} = from;"),
            _ => format!("__atomic_store_n(&{e}, ({ty}){other}, __ATOMIC_SEQ_CST);"),
        };
        self.variables.push(Variable { name: expression.clone(), unit, global, value });
        if body.is_empty() {
            return;
        }
        // Called, called where control can't come, a handler, or not at all.
        let how = self.rng.below(8);
        let function = format!("write{id}");
        self.shared.push_str(&format!("void {function}(int k);\n"));
        self.units[writer].push_str(&format!("void {function}(int k) {{ {body} sum += (unsigned)k; }}\n"));
        let call = match how {
            0 => String::new(),
            1 => format!("  signal(SIGUSR2, {function}); raise(SIGUSR2);\n"),
            2 => {
                let v = self.variable(0);
                format!("  if ({v} > 100) {function}(3);\n")
            }
            3 => format!("  {{ void (*volatile by)(int) = {function}; by(0); }}\n"),
            _ => format!("  {function}({value});\n"),
        };
        self.main.push_str(&call);
    }

    /// An argument of this type, from inside a function with these parameters.
    fn argument(&mut self, ty: &str, parameters: &[&str], unit: usize, value: i64) -> String {
        let passes = parameters.iter().position(|p| *p == ty).filter(|_| self.rng.one_in(2));
        match (passes, self.rng.below(10)) {
            (Some(n), _) => format!("p{n}"),
            (None, 0) => format!("({ty}){}", self.variable(unit)),
            (None, 1) => format!("({ty})({} + zero)", self.constant()),
            _ => format!("({ty}){value}"),
        }
    }

    /// A call of an earlier function, mostly with the one constant that it has.
    fn call(&mut self, unit: usize, parameters: &[&str]) -> String {
        if self.functions.is_empty() {
            return String::new();
        }
        let (name, types, id) = self.rng.pick(&self.functions).clone();
        let mut text = String::new();
        for (i, ty) in types.iter().enumerate() {
            let usual = ((id * 7 + i * 3) % 4) as i64 - 1;
            let value = if self.rng.one_in(8) { self.constant() } else { usual };
            let argument = self.argument(ty, parameters, unit, value);
            text.push_str(&format!(", {argument}"));
        }
        match self.rng.below(12) {
            0 => format!(
                "  {{ unsigned (*volatile by)(unsigned{}) = {name}; x ^= by(x{text}); }}\n",
                list(&types)
            ),
            1 if self.rng.one_in(3) => format!("  return {name}(x{text});\n"),
            _ => format!("  x += {name}(x{text});\n"),
        }
    }

    fn function(&mut self) {
        let id = self.fresh();
        let unit = self.rng.below(self.units.len());
        let count = self.rng.range(1, 6);
        let types: Vec<&'static str> = (0..count).map(|_| *self.rng.pick(&TYPES)).collect();
        let name = format!("f{id}");
        let parameters: String = types.iter().enumerate().map(|(i, t)| format!(", {t} p{i}")).collect();
        let linkage = if self.rng.one_in(3) { "__attribute__((noinline)) " } else { "" };
        self.shared.push_str(&format!("unsigned {name}(unsigned x{parameters});\n"));
        let mut body = String::new();
        if self.rng.one_in(6) {
            body.push_str("  volatile unsigned frame[4] = {x}; frame[zero] = 3;\n");
        }
        for _ in 0..self.rng.range(1, 6) {
            let statement = match self.rng.below(8) {
                0..3 => {
                    let i = self.rng.below(types.len());
                    let usual = ((id * 7 + i * 3) % 4) as i64 - 1;
                    self.test(unit, &format!("p{i}"), usual)
                }
                3 => {
                    let i = self.rng.below(types.len());
                    let cut = *self.rng.pick(&[
                        "(signed char)",
                        "(unsigned char)",
                        "(short)",
                        "(long)",
                        "3 & ",
                        "!",
                    ]);
                    self.test(unit, &format!("({cut}p{i})"), 0)
                }
                4 => {
                    let i = self.rng.below(types.len());
                    let change = *self.rng.pick(&["++", " = 1", " ^= 1", " += zero", " = (int)x", " |= 4"]);
                    format!("  if (x & 1u) p{i}{change};\n")
                }
                5 if self.rng.one_in(2) => {
                    let mine: String = types.iter().enumerate().map(|(i, _)| format!(", p{i}")).collect();
                    format!("  if (fuel-- > 0) x += {name}(x / 2u{mine});\n")
                }
                5 => {
                    let i = self.rng.below(types.len());
                    let test = self.test(unit, "kept", 0);
                    format!(
                        "  {{ static jmp_buf at; volatile int kept = (int)p{i}; if (setjmp(at) == 0) {{ kept = 1; longjmp(at, 1); }}\n{test}  }}\n"
                    )
                }
                _ => {
                    let fit: Vec<Variable> =
                        self.variables.iter().filter(|v| v.global || v.unit == unit).cloned().collect();
                    match fit.is_empty() {
                        true => self.test(unit, "zero", 0),
                        false => {
                            let v = self.rng.pick(&fit).clone();
                            self.test(unit, &v.name, v.value)
                        }
                    }
                }
            };
            body.push_str(&statement);
            if self.rng.one_in(2) {
                let call = self.call(unit, &types);
                // A return in the middle leaves the rest dead, which is as well.
                body.push_str(&call);
            }
        }
        self.units[unit].push_str(&format!(
            "{linkage}unsigned {name}(unsigned x{parameters}) {{\n{body}  return x;\n}}\n"
        ));
        self.functions.push((name, types, id));
    }
}

fn list(types: &[&str]) -> String {
    types.iter().map(|t| format!(", {t}")).collect()
}

/// The program of a seed.
pub(super) fn generate(seed: u64) -> Program {
    let mut rng = Rng::new(seed, 21);
    let units = rng.range(2, 5);
    let mut weaver = Weaver {
        rng,
        shared: String::new(),
        units: vec![String::new(); units],
        serial: 0,
        variables: Vec::new(),
        functions: Vec::new(),
        main: String::new(),
    };
    for _ in 0..weaver.rng.range(4, 14) {
        weaver.declare();
    }
    for _ in 0..weaver.rng.range(4, 12) {
        weaver.function();
    }
    let mut calls = String::new();
    for i in 0..weaver.rng.range(4, 12) {
        let call = weaver.call(0, &[]).replace("  return ", "  x = ");
        calls.push_str(&format!("  fuel = 30;\n{call}  printf(\"{i} %08x %08x\\n\", x, sum);\n"));
    }
    let (shared, main) = (&weaver.shared, &weaver.main);
    let mut out = Vec::new();
    for (u, items) in weaver.units.iter().enumerate() {
        let base = if u == 0 { "unsigned sum;\nvolatile int zero;\nint fuel;\n" } else { "" };
        let main = match u {
            0 => format!(
                "int main(int argc, char **argv) {{\n  unsigned x = (unsigned)argc;\n  (void)argv;\n{main}{calls}  return (int)((x ^ sum) & 63u);\n}}\n"
            ),
            _ => String::new(),
        };
        let mut unit = Unit::new(format!("u{u}"), format!("{HEAD}{shared}{base}{items}{main}"), false);
        unit.flags.push("-fno-strict-aliasing".into());
        if weaver.rng.one_in(2) {
            unit.flags.push("-fdata-sections".into());
        }
        out.push(unit);
    }
    let mut program = Program::new(out, 0);
    program.flags = ["-pthread", "-D_GNU_SOURCE"].map(str::to_owned).into();
    program.link_flags = vec!["-pthread".into()];
    program.static_one_in = 16;
    if weaver.rng.one_in(8) {
        program.link_flags.push("-rdynamic".into());
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_program() {
        for seed in 0..20 {
            let (a, b) = (generate(seed), generate(seed));
            assert!(a.units.iter().zip(&b.units).all(|(x, y)| x.text == y.text && x.flags == y.flags));
            assert!(a.units.iter().any(|u| u.text.contains("rare")));
        }
    }
}
