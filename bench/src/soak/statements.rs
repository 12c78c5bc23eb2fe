//! Statements of a random program, in C that compilers turn into all that a splitter must see through.
//!
//! Most statements are templates of `texts/functions.txt`. Switches become jump tables, bit tests, or tables of constants, strings and
//! functions; labels become tables of addresses; loops over arrays get pointers before the start or past the end. Statements use the variables `x`, `y`, `z` and the parameters `a` and `b`,
//! all unsigned.

use std::sync::LazyLock;

use super::program::{FunctionTable, Generator};
use crate::texts::{Template, filled, templates};

/// Statements by group, each with its weight, and `item`: its text at file scope.
static TEMPLATES: LazyLock<Vec<Template>> =
    LazyLock::new(|| templates(include_str!("texts/functions.txt"), &["item"]));

impl Generator {
    fn variable(&mut self) -> &'static str {
        const ALL: [&str; 5] = ["x", "y", "z", "a", "b"];
        ALL[self.rng.below(ALL.len())]
    }

    pub(super) fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return if self.rng.one_in(3) { self.rng.literal() } else { self.variable().into() };
        }
        let (l, r) = (self.expression(depth - 1), self.expression(depth - 1));
        match self.rng.below(9) {
            0 => format!("({l} + {r})"),
            1 => format!("({l} - {r})"),
            2 => format!("({l} * {r})"),
            3 => format!("({l} ^ {r})"),
            4 => format!("({l} / ({r} | 1u))"),
            5 => format!("({l} >> ({r} & 31u))"),
            6 => format!("({l} < {r} ? {l} : {r})"),
            7 => format!("plain_data[{l} & 31u]"),
            _ => format!("constant_data[{l} % 24u]"),
        }
    }

    pub(super) fn arithmetic(&mut self) -> String {
        let v = *self.rng.pick(&["x", "y", "z"]);
        let e = self.expression(2);
        format!("{v} {} {e};\n", self.rng.pick(&["=", "+=", "^=", "-="]))
    }

    pub(super) fn call(&mut self, f: usize) -> String {
        let g = self.callee(f);
        let (l, r) = (self.expression(1), self.expression(1));
        format!("{g}({l}, {r})")
    }

    /// A body that ends for all callees.
    pub(super) fn body(&mut self, f: usize) -> String {
        let unit = self.functions[f].unit;
        self.body_in(f, unit)
    }

    /// A body for function `f` that is put in `unit`, from where only globals can be called if it isn't its own.
    pub(super) fn body_in(&mut self, f: usize, unit: usize) -> String {
        let home = self.functions[f].unit;
        self.functions[f].unit = unit;
        let mut out = String::from("  unsigned x = a, y = b, z = 1;\n  if (fuel-- <= 0) return a ^ b;\n");
        let count = self.rng.range(2, 5);
        for _ in 0..count {
            if self.drafts[unit].cplus && self.rng.one_in(3) {
                // A longjmp would skip destructors.
                let text = self.template(f, 2, &["cplus"]);
                out.push_str(&format!("{{ NoJump guard; (void)guard;\n{text}}}\n"));
            } else {
                out.push_str(&self.statement(f, 2));
            }
        }
        out.push_str(&match self.rng.below(4) {
            // A tail call, direct or through a pointer.
            0 => format!("  return {};\n", self.call(f)),
            1 => {
                let (t, e) = (self.table(f), self.expression(1));
                let member = if t.structs { ".f" } else { "" };
                format!("  return {}[{e} % {}u]{member}(x, y);\n", t.name, t.len)
            }
            _ => "  return x ^ y ^ z;\n".into(),
        });
        self.functions[f].unit = home;
        out
    }

    pub(super) fn leaf_body(&mut self) -> String {
        let mut out = String::from("  unsigned x = a, y = b, z = 3;\n");
        for _ in 0..self.rng.range(1, 3) {
            let s = self.arithmetic();
            out.push_str(&s);
        }
        if self.rng.one_in(3) {
            let (n, base) = (self.rng.range(5, 12), self.rng.below(4));
            out.push_str(&format!("switch (x % {n}u) {{\n"));
            for i in base..n {
                let e = self.expression(2);
                out.push_str(&format!("case {i}: y ^= {e}; break;\n"));
            }
            out.push_str("}\n");
        }
        out.push_str("  return x + y * 5u + z;\n");
        out
    }

    /// A table that `f` may use: one of the unit, or a new one.
    fn table(&mut self, f: usize) -> FunctionTable {
        let (unit, live) = (self.functions[f].unit, self.functions[f].live);
        let fit: Vec<FunctionTable> =
            self.drafts[unit].tables.iter().filter(|t| t.live || !live).cloned().collect();
        if !fit.is_empty() && self.rng.one_in(2) {
            return self.rng.pick(&fit).clone();
        }
        let structs = self.rng.one_in(3);
        let name = format!("table{}_{}", self.fresh(), if live { "live" } else { "dead" });
        let len = self.rng.range(2, 6);
        let elements: Vec<String> = (0..len)
            .map(|i| {
                let g = self.callee(f);
                if structs { format!("{{{i}u, {g}, \"text {name} {i}\"}}") } else { g }
            })
            .collect();
        let constant = if self.rng.one_in(3) { "" } else { "const " };
        let kind = if structs { "struct entry" } else { "fn" };
        let place = if structs {
            format!("static {constant}{kind} {name}")
        } else {
            // The qualifier of a typedef for a pointer: the array itself is constant.
            format!("static {kind} {constant}{name}")
        };
        let text = format!("{place}[{len}] = {{{}}};\n", elements.join(", "));
        self.drafts[unit].items.push_str(&text);
        let table = FunctionTable { name, len, live, structs };
        self.drafts[unit].tables.push(table.clone());
        table
    }

    /// One statement of any kind; `depth` bounds the nesting.
    pub(super) fn statement(&mut self, f: usize, depth: usize) -> String {
        let cplus = self.drafts[self.functions[f].unit].cplus;
        match self.rng.below(if depth == 0 { 6 } else { 26 }) {
            0 | 1 => self.arithmetic(),
            2 | 3 => format!("x += {};\n", self.call(f)),
            4 | 5 => self.template(f, depth, &["simple"]),
            6..=8 => self.switch(f, depth),
            9 => {
                let (t, e) = (self.table(f), self.expression(1));
                let (name, n) = (t.name, t.len);
                match t.structs {
                    true => format!("x = hash_text({name}[{e} % {n}u].f(x, y), {name}[y % {n}u].text);\n"),
                    false => format!("x += {name}[{e} % {n}u](y, z);\n"),
                }
            }
            10 => self.heap_table(f),
            11 if !cplus => self.computed_goto(f, depth),
            // In C++ labels as values may not skip constructors.
            _ => self.template(f, depth, if cplus { &["deep"] } else { &["deep", "C"] }),
        }
    }

    /// A template of these groups, with all marks filled in.
    fn template(&mut self, f: usize, depth: usize, groups: &[&str]) -> String {
        let fit = |t: &&Template| groups.contains(&t.key);
        let weight = |t: &Template| t.words.parse().unwrap_or(1);
        let all: Vec<&Template> =
            TEMPLATES.iter().filter(fit).flat_map(|t| std::iter::repeat_n(t, weight(t))).collect();
        let template = *self.rng.pick(&all);
        let number = self.fresh();
        let item = self.fill(template.part("item"), f, depth, number);
        let unit = self.functions[f].unit;
        self.drafts[unit].items.push_str(&item);
        self.fill(&template.text, f, depth, number)
    }

    fn fill(&mut self, text: &str, f: usize, depth: usize, number: usize) -> String {
        filled(text, |mark| match mark {
            "E" => self.expression(1),
            "C" => self.call(f),
            "F" => self.callee(f),
            "N" => number.to_string(),
            "K" => self.rng.literal(),
            "R" => self.rng.range(2, 6).to_string(),
            "D" => self.rng.below(8).to_string(),
            "S" => self.statement(f, depth.saturating_sub(1)),
            "L" => if self.functions[f].live { "live" } else { "dead" }.to_owned(),
            _ => "tail of a string".get(self.rng.below(12)..).unwrap_or_default().to_owned(),
        })
    }

    /// A table that is copied to the heap and called from there.
    fn heap_table(&mut self, f: usize) -> String {
        let t = self.table(f);
        let (name, n) = (&t.name, t.len);
        let kind = if t.structs { "struct entry" } else { "fn" };
        let member = if t.structs { ".f" } else { "" };
        format!(
            "{{ {kind} *copy = ({kind} *)malloc(sizeof {name}); memcpy((void *)copy, (const void *)&{name}[0], sizeof {name}); \
             x += copy[y % {n}u]{member}(x, z); free((void *)copy); }}\n"
        )
    }

    /// A dense switch: a jump table where the compiler makes any. The default may be unreachable, and the range may
    /// begin below zero.
    fn switch(&mut self, f: usize, depth: usize) -> String {
        let n = self.rng.range(4, 14);
        let total = self.rng.one_in(3);
        let holes = !total && self.rng.one_in(2);
        let e = self.expression(1);
        let (subject, first) = match self.rng.below(3) {
            0 => (format!("(int)({e} % {n}u) - 4"), -4),
            1 => (format!("({e} % {n}u) + 100u"), 100),
            _ => (format!("{e} % {n}u"), 0),
        };
        let mut out = format!("switch ({subject}) {{\n");
        for i in 0..n as i64 {
            if holes && self.rng.one_in(3) {
                continue;
            }
            let label = i + first;
            let text = match self.rng.below(7) {
                0 => self.statement(f, depth - 1),
                1 => format!("return {};\n", self.call(f)),
                2 => format!("x = {} + {i}u;\n", self.call(f)),
                3 => format!(
                    "if (__builtin_expect(y == {}, 0)) {{ x += {}; }}\n",
                    self.rng.literal(),
                    self.call(f)
                ),
                _ => self.arithmetic(),
            };
            // Never into the default, which may be unreachable.
            let falls = i + 1 < n as i64 && self.rng.one_in(6);
            let end = if falls { "/* falls through */" } else { "break;" };
            out.push_str(&format!("case {label}: {text}{end}\n"));
        }
        if total {
            out.push_str("default: __builtin_unreachable();\n");
        } else if self.rng.one_in(2) {
            let s = self.statement(f, depth - 1);
            out.push_str(&format!("default: {s}"));
        }
        out.push_str("}\n");
        out
    }

    fn computed_goto(&mut self, f: usize, depth: usize) -> String {
        let (id, n) = (self.fresh(), self.rng.range(3, 7));
        let labels: Vec<String> = (0..n).map(|i| format!("&&L{id}_{i}")).collect();
        let code: Vec<String> = (0..8).map(|_| self.rng.below(n).to_string()).collect();
        let mut out = format!(
            "{{ static const void *const labels{id}[] = {{{}}}; static const unsigned char code{id}[] = {{{}}};\n\
             unsigned at = 0, steps = 0;\ngoto *labels{id}[code{id}[x & 7u]];\n",
            labels.join(", "),
            code.join(", ")
        );
        for i in 0..n {
            let s = if i == 0 { self.statement(f, depth - 1) } else { self.arithmetic() };
            out.push_str(&format!(
                "L{id}_{i}: {s}if (++steps > 10u) goto L{id}_end; at = (at + 1u) & 7u; goto *labels{id}[code{id}[at]];\n"
            ));
        }
        out.push_str(&format!("L{id}_end:; }}\n"));
        out
    }
}
