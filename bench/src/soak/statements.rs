//! What the functions of a random program do: statements in C that compilers turn into everything that a splitter
//! must see through.
//!
//! Switches and labels are in `switches`. Here, unlikely blocks move to `.cold` parts; loops over arrays get pointers before the start
//! or past the end. Which of them happens is the compiler's choice: variety of shape is what is wanted here.
//!
//! Statements use the variables `x`, `y`, `z`, and the parameters `a`, `b`, all unsigned. They are valid C++ too.

use super::program::{FunctionTable, Generator};

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

    /// A body that ends, whatever it calls.
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
            let statement = if self.drafts[unit].cplus && self.rng.one_in(3) {
                self.cplus(f)
            } else {
                self.statement(f, 2)
            };
            out.push_str(&statement);
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

    /// One statement of any kind; `depth` bounds how deep they nest.
    pub(super) fn statement(&mut self, f: usize, depth: usize) -> String {
        let simple = depth == 0;
        // Labels as values are for C: in C++ they may not skip the constructors between them.
        let cplus = self.drafts[self.functions[f].unit].cplus;
        match self.rng.below(if simple { 6 } else { 26 }) {
            0 | 1 => self.arithmetic(),
            2 | 3 => format!("x += {};\n", self.call(f)),
            4 => self.text_use(),
            5 => {
                let e = self.expression(1);
                format!("y ^= add_all(3, {e}, x, z);\n")
            }
            6..=8 => self.switch(f, depth),
            9 => self.sparse_switch(f, depth),
            10 => {
                let (v, n) = (format!("i{}", self.fresh()), self.rng.range(2, 6));
                let inner = self.statement(f, depth - 1);
                format!("for (int {v} = 0; {v} < {n}; {v}++) {{ x += (unsigned){v};\n{inner}}}\n")
            }
            11 => {
                let (t, e) = (self.table(f), self.expression(1));
                let (name, n) = (t.name, t.len);
                if t.structs {
                    format!("x = hash_text({name}[{e} % {n}u].f(x, y), {name}[y % {n}u].text);\n")
                } else {
                    format!("x += {name}[{e} % {n}u](y, z);\n")
                }
            }
            12 => self.heap_table(f),
            13 if !cplus => self.computed_goto(f, depth),
            14 if !cplus => self.label_differences(),
            15 => self.unlikely(f, depth),
            16 => self.array_walk(),
            17 => self.sort(f),
            18 => {
                let v = *self.rng.pick(&["per_thread", "per_thread_zero", "sum", "common_data[x & 15u]"]);
                let e = self.expression(1);
                format!("{v} += {e}; z ^= {v};\n")
            }
            19 => self.set_jump(f),
            20 => {
                let name = format!("maybe{}", self.fresh());
                let unit = self.functions[f].unit;
                self.drafts[unit]
                    .items
                    .push_str(&format!("extern unsigned {name}(unsigned) __attribute__((weak));\n"));
                format!("if ({name}) x += {name}(x); else x ^= 5u;\n")
            }
            21 => self.switch_to_value(f),
            22 => {
                let e = self.expression(1);
                format!(
                    "{{ double d = (double)x * 0.37 + 1e-3 * (double)({e}); float g = (float)y * 1.5f; x ^= (unsigned)(long long)d; y += (unsigned)(long long)g; }}\n"
                )
            }
            23 => {
                let g = self.callee(f);
                let e = self.expression(1);
                let name = format!("state{}", self.fresh());
                // A pointer that code sets: the target is known to nobody.
                format!(
                    "{{ static unsigned {name}; {name} += x; fn keep = settable; if ({e} & 1u) settable = {g}; if (settable == {g}) x += 3u + {name}; if (settable) y += settable(x, z); settable = keep; }}\n"
                )
            }
            24 => self.nested_or_compound(f),
            _ => {
                let inner = self.statement(f, depth - 1);
                let e = self.expression(1);
                format!("if ({e} % 3u == 1u) {{\n{inner}}}\n")
            }
        }
    }

    fn text_use(&mut self) -> String {
        let (n, k) = (self.rng.below(1000), self.rng.below(4));
        let tail = "tail of a string".get(self.rng.below(12)..).unwrap_or("");
        match k {
            // Ends of one another, which merge.
            0 => format!("y = hash_text(y, \"{tail}\");\n"),
            1 => format!(
                "{{ static const char text[] = \"local text {n}\"; y = hash_text(y, text + (x & 7u)); }}\n"
            ),
            2 => format!("y ^= (unsigned)strlen(\"literal {n}\" + (x & 3u));\n"),
            _ => format!(
                "{{ static const char *const words[] = {{\"one\", \"two {n}\", \"three\", \"{tail}\"}}; y = hash_text(y, words[x & 3u]); }}\n"
            ),
        }
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

    fn unlikely(&mut self, f: usize, depth: usize) -> String {
        let (e, k) = (self.expression(1), self.rng.literal());
        let inner = self.statement(f, depth - 1);
        let end = match self.rng.below(6) {
            0 => "give_up(x);",
            1 => "__builtin_trap();",
            2 => "return y;",
            _ => "",
        };
        // A trap or an end that the fuel can't bring about.
        let guard = if end.contains("trap") { " && fuel > 1000000" } else { "" };
        let guard = if end.contains("give_up") { " && jump_ok" } else { guard };
        format!("if (__builtin_expect(({e} & 15u) == ({k} & 15u){guard}, 0)) {{\n{inner}{end} }}\n")
    }

    /// Loops whose pointers begin before their array or end past it.
    fn array_walk(&mut self) -> String {
        let (id, n, k) = (self.fresh(), self.rng.range(6, 20), self.rng.range(1, 5));
        let values: Vec<String> = (0..n).map(|_| self.rng.below(100).to_string()).collect();
        let (constant, mutate) = if self.rng.one_in(2) { ("const ", "") } else { ("", "w[0] += x;") };
        let w = format!("walk{id}");
        let loops = match self.rng.below(3) {
            0 => format!("for ({constant}unsigned *p = {w}; p != {w} + {n}; p++) x = x * 3u + *p;"),
            1 => format!("for (int i = {k}; i < {k} + {n}; i++) x = x * 3u + {w}[i - {k}];"),
            _ => format!("for ({constant}unsigned *p = {w} + {n}; p-- != {w};) x = x * 3u + *p;"),
        };
        format!(
            "{{ static {constant}unsigned {w}[{n}] = {{{}}}; {} {loops} }}\n",
            values.join(", "),
            mutate.replace('w', &w)
        )
    }

    fn sort(&mut self, f: usize) -> String {
        let (id, unit) = (self.fresh(), self.functions[f].unit);
        let live = if self.functions[f].live { "live" } else { "dead" };
        let k = self.rng.below(1000) * 2 + 1;
        self.drafts[unit].items.push_str(&format!(
            "static int order{id}_{live}(const void *l, const void *r) {{\n\
             unsigned p = *(const unsigned *)l * {k}u, q = *(const unsigned *)r * {k}u; return p < q ? -1 : p > q;\n}}\n"
        ));
        format!(
            "{{ unsigned v[6] = {{x, y, z, a, b, 9u}}; qsort(v, 6, sizeof v[0], order{id}_{live}); x = v[0] ^ (v[3] * 3u); }}\n"
        )
    }

    /// A jump out of what is called, in a helper so that no variable of the body is clobbered.
    fn set_jump(&mut self, f: usize) -> String {
        let (id, unit) = (self.fresh(), self.functions[f].unit);
        let live = if self.functions[f].live { "live" } else { "dead" };
        let call = self.callee(f);
        let k = self.rng.below(8);
        let text = if self.rng.one_in(3) {
            format!(
                "static __attribute__((noinline)) void leap{id}_{live}(unsigned v) {{ if ((v & 7u) == {k}u) __builtin_longjmp(short_jump, 1); sum += v; }}\n\
                 static __attribute__((noinline)) unsigned try{id}_{live}(unsigned a, unsigned b) {{\n\
                 volatile unsigned r = a; if (__builtin_setjmp(short_jump) == 0) {{ leap{id}_{live}(b); r += 5u; }} else {{ r *= 3u; }} return r;\n}}\n"
            )
        } else {
            format!(
                "static __attribute__((noinline)) unsigned try{id}_{live}(unsigned a, unsigned b) {{\n\
                 jmp_buf saved; memcpy(&saved, &jump_to, sizeof saved); volatile unsigned r = a; volatile int ok = jump_ok; volatile int k = setjmp(jump_to);\n\
                 if (k == 0) {{ jump_ok = 1; r += {call}(a, b); if ((b & 7u) == {k}u) give_up(b); }} else {{ r += (unsigned)k * 7u; }}\n\
                 memcpy(&jump_to, &saved, sizeof saved); jump_ok = ok; return r;\n}}\n"
            )
        };
        self.drafts[unit].items.push_str(&text);
        format!("x ^= try{id}_{live}(x, y);\n")
    }

    /// Extensions: nested functions of gcc with their trampolines, statement expressions, inline assembly.
    fn nested_or_compound(&mut self, f: usize) -> String {
        let cplus = self.drafts[self.functions[f].unit].cplus;
        let g = self.callee(f);
        match self.rng.below(4) {
            0 if !cplus => {
                let id = self.fresh();
                format!(
                    "{{\n#ifndef __clang__\n unsigned inner{id}(unsigned p, unsigned q) {{ x += p; return {g}(p, q) ^ y; }}\n\
                     fn volatile through = inner{id}; y += through(z, 3u);\n#else\n y += {g}(z, 3u);\n#endif\n}}\n"
                )
            }
            1 => "__asm__ volatile(\"xorl $12, %0\\n\\tjmp 1f\\n\\tud2\\n1:\" : \"+r\"(x) : : \"cc\");\n"
                .into(),
            2 => {
                // A helper of libgcc: an archive member that only arithmetic asks for.
                let e = self.expression(1);
                format!(
                    "{{ __extension__ unsigned __int128 wide = (unsigned __int128)x << 70 | y; x += (unsigned)(wide / ({e} | 1u)); }}\n"
                )
            }
            _ => format!("x += __extension__({{ unsigned t = {g}(y, 2u); t * 3u; }});\n"),
        }
    }
}
