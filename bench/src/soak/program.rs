//! Random programs of several units, from a seed: their functions, the units of these, and who may call whom.
//!
//! Every function is `unsigned f(unsigned a, unsigned b)` and is live or dead. Live ones refer only to live ones; dead ones to any. Programs end:
//! a function that calls takes from a counter of fuel and returns when it is empty, and loops are short. `jump_ok` says whether a longjmp
//! to `jump_to` has a target. The output depends on no address. Bodies are in `statements`.
//!
//! Undefined behaviour is avoided only where it could depend on the layout: the same objects are linked in two ways.

use crate::rng::Rng;

/// All units have these declarations, and the first one these definitions.
const PRELUDE: &str = include_str!("texts/prelude.h");
const BASE: &str = include_str!("texts/base.c");
/// The header of all C++ units, so that vtables, inline functions and template instances are in COMDAT groups.
const CXX: &str = include_str!("texts/shared.hpp");

#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) cplus: bool,
    /// The archive that has it as a member.
    pub(crate) archive: Option<usize>,
    /// It goes into the program's shared library.
    pub(crate) library: bool,
    pub(crate) flags: Vec<String>,
}

impl Unit {
    /// The unit of a number. A C++ unit has the text `cxx` between the head, which opens a block `extern "C"`, and the body in such a block.
    pub(crate) fn new(number: usize, head: &str, cxx: Option<String>, body: &str) -> Unit {
        let text = match &cxx {
            Some(cxx) => format!("{head}}}\n{cxx}extern \"C\" {{\n{body}}}\n"),
            None => format!("{head}{body}"),
        };
        let name = format!("u{number}");
        Unit { name, text, cplus: cxx.is_some(), archive: None, library: false, flags: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct SoakProgram {
    pub(crate) units: Vec<Unit>,
    /// Archives; some may be without members.
    pub(crate) archives: usize,
    pub(crate) flags: Vec<String>,
    pub(crate) link_flags: Vec<String>,
    /// Once in so many times it is linked statically.
    pub(crate) static_one_in: usize,
    /// Once in so many times lld folds equal functions whose address is not taken.
    pub(crate) fold_one_in: usize,
    /// Whether some addresses of functions have no type hash before them (assembly, IFUNC): `-fsanitize=kcfi` won't do.
    pub(crate) hashless: bool,
    /// The `--prune-unwind` of the pruned link.
    pub(crate) unwind: Option<&'static str>,
}

impl SoakProgram {
    pub(crate) fn new(units: Vec<Unit>, archives: usize) -> SoakProgram {
        SoakProgram {
            units,
            archives,
            flags: Vec::new(),
            link_flags: Vec::new(),
            static_one_in: 40,
            fold_one_in: 3,
            hashless: false,
            unwind: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A function with a body of random statements.
    Plain,
    Leaf,
    /// Weak, and where the number is a unit, defined strongly there too.
    Weak(Option<usize>),
    /// Another name of the function of that index, in its unit.
    Alias(usize),
    /// Chosen by a resolver at start-up.
    Ifunc,
    Assembly,
}

/// A function that others may mention.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) unit: usize,
    pub(super) global: bool,
    pub(super) live: bool,
    pub(super) form: Form,
}

/// A table of functions at file scope, or in a structure.
#[derive(Debug, Clone)]
pub(super) struct FunctionTable {
    pub(super) name: String,
    pub(super) len: usize,
    pub(super) live: bool,
    /// Whether its elements are structures with a function in member `f`.
    pub(super) structs: bool,
}

/// The pieces of a unit while it grows.
#[derive(Debug, Default)]
pub(super) struct UnitDraft {
    pub(super) cplus: bool,
    /// Tables, data and helpers: after the declarations, before the functions.
    pub(super) items: String,
    pub(super) bodies: String,
    pub(super) tables: Vec<FunctionTable>,
}

#[derive(Debug)]
pub(super) struct Generator {
    pub(super) rng: Rng,
    pub(super) functions: Vec<Function>,
    pub(super) drafts: Vec<UnitDraft>,
    /// It makes names that occur only once.
    serial: usize,
}

impl Generator {
    /// A number that was not given before.
    pub(super) fn fresh(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }

    /// A function that `from` may call or take the address of.
    pub(super) fn callee(&mut self, from: usize) -> String {
        let caller = &self.functions[from];
        let all: Vec<&Function> = self
            .functions
            .iter()
            .filter(|g| (g.global || g.unit == caller.unit) && (g.live || !caller.live))
            .collect();
        self.rng.pick(&all).name.clone()
    }

    fn attributes(&mut self, form: Form) -> String {
        let mut out = String::new();
        if form == Form::Leaf && self.rng.one_in(4) {
            return "__attribute__((always_inline)) inline ".into();
        }
        if self.rng.below(5) < 2 {
            out.push_str("__attribute__((noinline)) ");
        }
        if self.rng.one_in(8) {
            out.push_str("__attribute__((cold)) ");
        }
        match self.rng.below(40) {
            0 => out.push_str("__attribute__((aligned(64))) "),
            1 if !out.contains("cold") => out.push_str("__attribute__((hot)) "),
            2 => out.push_str("__attribute__((patchable_function_entry(5, 2))) "),
            3 => out.push_str("__attribute__((section(\".text.elsewhere\"))) "),
            4 => out.push_str("__attribute__((flatten)) "),
            5 => out.push_str("__attribute__((visibility(\"hidden\"))) "),
            _ => {}
        }
        out
    }

    /// The parts of the definition that depend on the form; the body comes from `statements`.
    fn define(&mut self, index: usize) {
        let (name, unit, global, form) = {
            let f = &self.functions[index];
            (f.name.clone(), f.unit, f.global, f.form)
        };
        let storage = if global { "" } else { "static " };
        let attributes = if self.drafts[unit].cplus { String::new() } else { self.attributes(form) };
        // A function that is always inlined has no symbol for other units.
        let attributes =
            if global && attributes.contains("always_inline") { String::new() } else { attributes };
        let prefix = format!("{storage}{attributes}");
        let function = |prefix: &str, name: &str, body: &str| {
            format!("{prefix}unsigned {name}(unsigned a, unsigned b) {{\n{body}}}\n")
        };
        let text = match form {
            Form::Plain => function(&prefix, &name, &self.body(index)),
            Form::Leaf => {
                let body = self.leaf_body();
                // gcc folds twins into aliases.
                let twin = function("", &format!("{name}_twin"), &body);
                function(&prefix, &name, &body) + if self.rng.one_in(6) { &twin } else { "" }
            }
            Form::Weak(strong) => {
                let body = self.body(index);
                if let Some(other) = strong {
                    let twin = function("", &name, &self.body_in(index, other));
                    self.drafts[other].bodies.push_str(&twin);
                }
                function("__attribute__((weak)) ", &name, &body)
            }
            Form::Alias(of) => {
                let target = self.functions[of].name.clone();
                format!(
                    "extern unsigned {name}(unsigned a, unsigned b) __attribute__((alias(\"{target}\")));\n"
                )
            }
            Form::Ifunc => {
                let (one, two) = (self.body(index), self.leaf_body());
                let choice = if self.rng.one_in(2) { "one" } else { "two" };
                format!(
                    "static unsigned {name}_one(unsigned a, unsigned b) {{\n{one}}}\n\
                     static unsigned {name}_two(unsigned a, unsigned b) {{\n{two}}}\n\
                     static fn {name}_resolve(void) {{ volatile int never = 0; \
                     return never ? {name}_one : {name}_two == {name}_{choice} ? {name}_two : {name}_one; }}\n\
                     unsigned {name}(unsigned a, unsigned b) __attribute__((ifunc(\"{name}_resolve\")));\n"
                )
            }
            Form::Assembly => {
                let size =
                    if self.rng.one_in(2) { format!(".size {name}, .-{name}\\n") } else { String::new() };
                // The second label is inside of the first function, which falls into it.
                format!(
                    "__asm__(\".pushsection .text\\n.globl {name}\\n.type {name},@function\\n{name}:\\n\"\n\
                     \"lea 3(%rdi,%rsi,2),%eax\\n{name}_inner:\\njmp 1f\\n.byte 0x0f,0x0b\\n1: xor $21,%eax\\nret\\n\"\n\
                     \"{size}.popsection\\n\");\n"
                )
            }
        };
        self.drafts[unit].bodies.push_str(&text);
    }

    /// Declarations of all functions that `unit` may mention.
    fn declarations(&self, unit: usize) -> String {
        let visible = self.functions.iter().filter(|f| f.global || f.unit == unit);
        let storage = |f: &Function| if f.global { "" } else { "static " };
        visible.map(|f| format!("{}unsigned {}(unsigned, unsigned);\n", storage(f), f.name)).collect()
    }

    /// Choose the functions of a program with `units` units.
    fn populate(&mut self, units: usize) {
        let counts = [(true, self.rng.range(6, 14)), (false, self.rng.range(5, 14))];
        for (live, count) in counts {
            for i in 0..count {
                let unit = self.rng.below(units);
                let form = match self.rng.below(24) {
                    0..=5 => Form::Leaf,
                    6 if !self.drafts[unit].cplus => {
                        let other = self.rng.below(units);
                        let strong = other != unit && !self.drafts[other].cplus && self.rng.one_in(2);
                        Form::Weak(strong.then_some(other))
                    }
                    7 if !self.drafts[unit].cplus && self.rng.one_in(2) => Form::Ifunc,
                    8 if !self.drafts[unit].cplus && self.rng.one_in(4) => Form::Assembly,
                    _ => Form::Plain,
                };
                let plain = matches!(form, Form::Plain | Form::Leaf);
                self.functions.push(Function {
                    name: format!("{}{i}", if live { "live" } else { "dead" }),
                    unit,
                    global: !plain || i == 0 || self.rng.one_in(2),
                    live,
                    form,
                });
            }
        }
        for index in 0..self.functions.len() {
            let f = &self.functions[index];
            if matches!(f.form, Form::Plain) && !self.drafts[f.unit].cplus && self.rng.one_in(12) {
                let f = &self.functions[index];
                let alias = Function {
                    name: format!("{}_alias", f.name),
                    unit: f.unit,
                    global: true,
                    live: f.live,
                    form: Form::Alias(index),
                };
                self.functions.push(alias);
            }
        }
    }

    /// Constructors, destructors and the main function.
    fn frame(&mut self) {
        for unit in 0..self.drafts.len() {
            if self.rng.one_in(4) {
                let k = self.rng.literal();
                let kind = if self.rng.one_in(3) {
                    "destructor"
                } else {
                    *self.rng.pick(&["constructor", "constructor(200)"])
                };
                let speak = if kind == "destructor" { "printf(\"end %u\\n\", sum & 255u);" } else { "" };
                self.drafts[unit].bodies.push_str(&format!(
                    "static void __attribute__(({kind})) at_edge_{unit}(void) {{ sum = sum * 5u + {k}; {speak} }}\n"
                ));
            }
        }
        let roots: Vec<String> = {
            let all: Vec<String> = self
                .functions
                .iter()
                .filter(|f| f.live && (f.global || f.unit == 0))
                .map(|f| f.name.clone())
                .collect();
            let count = self.rng.range(2, 5);
            (0..count).map(|_| self.rng.pick(&all).clone()).collect()
        };
        let mut text = String::from("int main(int argc, char **argv) {\n  unsigned r = (unsigned)argc;\n");
        for (i, root) in roots.iter().enumerate() {
            let (fuel, k) = (self.rng.range(50, 900), self.rng.literal());
            text.push_str(&format!(
                "  fuel = {fuel}; r = r * 7u + {root}(r + {k}, {i}u); printf(\"{i} %08x\\n\", r);\n"
            ));
        }
        text.push_str(
            "  printf(\"%08x %u %u\\n\", sum, per_thread, per_thread_zero);\n  (void)argv; return (int)((r ^ sum) & 63u);\n}\n",
        );
        self.drafts[0].bodies.push_str(&text);
    }
}

pub(crate) fn generate(seed: u64) -> SoakProgram {
    let mut rng = Rng::new(seed, 0);
    let units = rng.range(2, 4);
    let cplus = rng.one_in(3);
    let drafts = (0..units)
        .map(|u| UnitDraft { cplus: cplus && u > 0 && (u == 1 || rng.one_in(2)), ..UnitDraft::default() })
        .collect();
    let mut generator = Generator { rng, functions: Vec::new(), drafts, serial: 0 };
    generator.populate(units);
    for index in 0..generator.functions.len() {
        generator.define(index);
    }
    generator.frame();
    let archives = generator.rng.below(3);
    let mut out = Vec::new();
    let mut link_flags = Vec::new();
    for unit in 0..units {
        let declarations = generator.declarations(unit);
        let draft = &generator.drafts[unit];
        let body = [if unit == 0 { BASE } else { "" }, &draft.items, &draft.bodies].concat();
        let archive =
            (unit > 0 && archives > 0 && generator.rng.one_in(2)).then(|| generator.rng.below(archives));
        let cxx = draft.cplus.then(|| CXX.to_owned());
        let mut unit = Unit::new(unit, &format!("{PRELUDE}{declarations}"), cxx, &body);
        unit.archive = archive;
        if unit.text.contains("unsigned inner") {
            // lld doesn't take the wish for it from the objects.
            link_flags = vec!["-Wl,-z,execstack".to_owned()];
        }
        out.push(unit);
    }
    let mut program = SoakProgram::new(out, archives);
    program.hashless = generator.functions.iter().any(|f| matches!(f.form, Form::Assembly | Form::Ifunc));
    program.link_flags = link_flags;
    program
}
