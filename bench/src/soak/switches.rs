//! Switches and computed jumps of random programs.
//!
//! Switches become jump tables, bit tests, or tables of constants, strings and functions; labels become tables of
//! addresses or of differences. Which of them is the compiler's choice, by the level and by what the cases do.

use super::program::Generator;

impl Generator {
    /// A dense switch: a jump table where the compiler makes any. The default may be unreachable, and the range may
    /// begin below zero.
    pub(super) fn switch(&mut self, f: usize, depth: usize) -> String {
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

    pub(super) fn sparse_switch(&mut self, f: usize, depth: usize) -> String {
        let e = self.expression(2);
        let mut out = format!("switch ({e}) {{\n");
        let mut label = 0;
        for _ in 0..self.rng.range(3, 9) {
            label += 1 + self.rng.below(300);
            let s = self.statement(f, depth - 1);
            out.push_str(&format!("case {label}: {s}break;\n"));
        }
        out.push_str("default: z++;\n}\n");
        out
    }

    /// A switch that only chooses a value: tables of numbers, strings or functions, which in PIC clang makes relative.
    pub(super) fn switch_to_value(&mut self, f: usize) -> String {
        let n = self.rng.range(5, 10);
        let (kind, what) = *self.rng.pick(&[(0, "const char *"), (1, "fn "), (2, "unsigned ")]);
        let e = self.expression(1);
        let v = format!("chosen{}", self.fresh());
        let mut out = format!("{{ {what}{v}; switch ({e} % {n}u) {{\n");
        for i in 0..n {
            let value = match kind {
                0 => format!("\"choice {} of {v}\"", i * 7),
                1 => self.callee(f),
                _ => self.rng.literal(),
            };
            out.push_str(&if i + 1 == n {
                format!("default: {v} = {value};\n")
            } else {
                format!("case {i}: {v} = {value}; break;\n")
            });
        }
        out.push_str(&match kind {
            0 => format!("}} x = hash_text(x, {v}); }}\n"),
            1 => format!("}} x += {v}(y, z); }}\n"),
            _ => format!("}} x ^= {v}; }}\n"),
        });
        out
    }

    pub(super) fn computed_goto(&mut self, f: usize, depth: usize) -> String {
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

    pub(super) fn label_differences(&mut self) -> String {
        let id = self.fresh();
        let e = self.expression(1);
        format!(
            "{{ static const int gap{id}[] = {{&&D{id}_0 - &&D{id}_0, &&D{id}_1 - &&D{id}_0, &&D{id}_2 - &&D{id}_0}};\n\
             goto *(void *)((char *)&&D{id}_0 + gap{id}[{e} % 3u]);\n\
             D{id}_0: x += 3u; D{id}_1: y ^= x; D{id}_2: z += y; }}\n"
        )
    }
}
