//! Random programs full of called values: addresses of functions that travel, and are called at the end.
//!
//! A program is a number of chains. A chain takes the address of a function and sends it through carriers (a field of a structure, memory
//! from `malloc`, a parameter on the stack, bytes, a callback's context...), now and then in another unit, and calls the result. Most carriers
//! also hold decoys: functions whose address is taken and that are not called, so that they should become stubs.
//!
//! Most carriers are texts with places to fill in ([`CARRIERS`]); `shapes` and `signatures` draw the others. The output depends on no address,
//! and compilers use no undefined behaviour.

mod shapes;
mod signatures;

use std::sync::LazyLock;

use super::program::{SoakProgram, Unit};
use crate::rng::Rng;
use crate::texts::{Template, filled, templates};

/// The texts that all units share. `zero` is volatile and never written, so that compilers do not know it. `touch` is a call whose callee they
/// do not see.
const HEAD: &str = include_str!("../texts/pointers.h");
const BASE: &str = include_str!("../texts/pointers.c");

/// Carriers: ways for a value of type `fn` from one variable to another. The words are the group that it is drawn from (see [`Weaver::carry`])
/// and the language of the unit, if it needs one. `shared` and `here` stand at file scope, in all units and in that of the chain; `there` in
/// any unit.
///
/// In the texts `@v` is the value, `@o` the variable to define, and `@#` a unique number. New functions are `@c` (it is called), `@d` (it need
/// not be) and `@t` (it may be). `@i` is a number from 0 to 3, the same each time. `@z` is a zero that compilers do not know, and `@K` a
/// constant. `@n` is `noinline` or nothing, and `@s` is `static` or nothing.
static CARRIERS: LazyLock<Vec<Template>> =
    LazyLock::new(|| templates(include_str!("../texts/carriers.txt"), &["shared", "here", "there"]));

#[derive(Debug, Default)]
struct PointerUnit {
    cplus: bool,
    items: String,
}

/// A chain while it grows: the function that it has come to.
#[derive(Debug)]
struct Chain {
    unit: usize,
    head: String,
    body: String,
    /// The variable that holds the value.
    value: String,
}

#[derive(Debug)]
struct Weaver {
    rng: Rng,
    drafts: Vec<PointerUnit>,
    shared: String,
    serial: usize,
    /// The last unit goes into a shared library.
    library: bool,
    /// Chains that are done: any function made later may call them.
    chains: Vec<String>,
}

impl Weaver {
    fn fresh(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }

    fn any_unit(&mut self) -> usize {
        self.rng.below(self.drafts.len())
    }

    /// A new function that `unit` can mention; its name begins with `prefix`.
    fn function(&mut self, prefix: &str, unit: usize) -> String {
        let name = format!("{prefix}{}", self.fresh());
        let (home, global) = match self.rng.below(3) {
            0 => (self.any_unit(), true),
            n => (unit, n == 1),
        };
        let (k, l) = (self.rng.literal(), self.rng.literal());
        let inner = match self.rng.below(6) {
            0 if !self.chains.is_empty() => {
                let chain = self.rng.pick(&self.chains).clone();
                format!("if (fuel-- > 0) a += {chain}(b, a);")
            }
            1 => format!("sum += hash_text(a, \"{name}\");"),
            2 => "for (unsigned i = 0; i < (b & 7u); i++) a = a * 3u + i;".to_owned(),
            _ => String::new(),
        };
        let body = format!(
            "(unsigned a, unsigned b) {{ {inner} sum = sum * 5u + {k}; return (a ^ {l}) + b * {k}; }}\n"
        );
        let cplus = self.drafts[home].cplus;
        let text = match self.rng.below(24) {
            0 if global && !cplus => format!("__attribute__((weak)) unsigned {name}{body}"),
            1 if global && !cplus => format!(
                "static unsigned {name}_real{body}extern unsigned {name}(unsigned, unsigned) __attribute__((alias(\"{name}_real\")));\n"
            ),
            2 if global && !cplus => format!(
                "static unsigned {name}_one{body}static unsigned {name}_two(unsigned a, unsigned b) {{ return a + b + {l}; }}\n\
                 static fn {name}_resolve(void) {{ volatile int never = 0; return never ? {name}_two : {name}_one; }}\n\
                 unsigned {name}(unsigned a, unsigned b) __attribute__((ifunc(\"{name}_resolve\")));\n"
            ),
            3 if global && !self.library => {
                format!("__attribute__((visibility(\"hidden\"))) unsigned {name}{body}")
            }
            4 => {
                format!("{}__attribute__((cold)) unsigned {name}{body}", if global { "" } else { "static " })
            }
            _ => format!("{}{}unsigned {name}{body}", if global { "" } else { "static " }, self.noinline()),
        };
        if global {
            self.shared.push_str(&format!("unsigned {name}(unsigned, unsigned);\n"));
        }
        self.drafts[home].items.push_str(&text);
        name
    }

    fn noinline(&mut self) -> &'static str {
        const PERHAPS: [&str; 3] = ["", "__attribute__((noinline)) ", "__attribute__((noinline)) "];
        PERHAPS[self.rng.below(PERHAPS.len())]
    }

    /// A chain, from the first function that it is to its call.
    fn chain(&mut self) {
        let id = self.fresh();
        let unit = self.any_unit();
        let name = format!("chain{id}");
        self.shared.push_str(&format!("unsigned {name}(unsigned a, unsigned b);\n"));
        let mut chain = Chain {
            unit,
            head: format!("unsigned {name}(unsigned a, unsigned b)"),
            body: String::new(),
            value: String::new(),
        };
        self.carry(&mut chain, id, "begin", "");
        for _ in 0..self.rng.range(1, 6) {
            match self.rng.below(14) {
                0 => self.hand_over(&mut chain),
                1 | 2 => self.structure(&mut chain),
                3 => self.parameters(&mut chain),
                4 => self.variadic(&mut chain),
                5 | 6 => self.signature(&mut chain),
                _ => self.text(&mut chain),
            }
            if self.rng.one_in(3) {
                chain.body.push_str("  touch(&x);\n");
            }
        }
        self.end(&mut chain);
        self.chains.push(name);
    }

    /// One of the carriers that are texts.
    fn text(&mut self, chain: &mut Chain) {
        let cplus = self.drafts[chain.unit].cplus;
        // C++ has its own as often as all the others together.
        let kind = match cplus && self.rng.one_in(2) {
            true => "cplus",
            false => self.rng.word("data data data passing passing callbacks callbacks machine"),
        };
        let id = self.fresh();
        self.carry(chain, id, kind, if cplus { " C++" } else { " C" });
    }

    /// Send the value of a chain through a carrier of a group.
    fn carry(&mut self, chain: &mut Chain, id: usize, kind: &str, language: &str) {
        let fit = |c: &&Template| c.words.strip_prefix(kind).is_some_and(|l| l.is_empty() || l == language);
        let all: Vec<&Template> = CARRIERS.iter().filter(fit).collect();
        let carrier = *self.rng.pick(&all);
        let of = Filling { value: chain.value.clone(), id, index: self.rng.below(4) };
        let shared = self.fill(carrier.part("shared"), chain.unit, &of);
        self.shared.push_str(&shared);
        let there = self.any_unit();
        for (text, unit) in [("there", there), ("here", chain.unit)] {
            let text = self.fill(carrier.part(text), unit, &of);
            self.drafts[unit].items.push_str(&text);
        }
        let body = self.fill(&carrier.text, chain.unit, &of);
        chain.body.push_str(&body);
        chain.value = format!("v{id}");
    }

    /// The main function, which calls every chain.
    fn main(&mut self) {
        let mut text = String::from(
            "int main(int argc, char **argv) {\n  unsigned r = (unsigned)argc;\n  (void)argv;\n",
        );
        for (i, chain) in self.chains.iter().enumerate() {
            text.push_str(&format!(
                "  fuel = 40; r = r * 7u + {chain}({i}u, r & 63u); printf(\"{chain} %08x %08x\\n\", r, sum); fflush(stdout);\n"
            ));
        }
        text.push_str("  return (int)((r ^ sum) & 63u);\n}\n");
        self.drafts[0].items.push_str(&text);
    }
}

pub(super) fn generate(seed: u64) -> SoakProgram {
    let mut rng = Rng::new(seed, 20);
    let units = rng.range(2, 4);
    let cplus = rng.one_in(2);
    let drafts = (0..units)
        .map(|u| PointerUnit { cplus: cplus && u > 0 && (u == 1 || rng.one_in(2)), ..PointerUnit::default() })
        .collect();
    let library = rng.one_in(6);
    let mut weaver = Weaver { rng, drafts, shared: String::new(), serial: 0, library, chains: Vec::new() };
    for _ in 0..weaver.rng.range(3, 8) {
        weaver.chain();
    }
    weaver.main();
    let archives = weaver.rng.below(3);
    let mut out = Vec::new();
    for (u, draft) in weaver.drafts.iter().enumerate() {
        let base = if u == 0 { BASE } else { "" };
        let (head, shared, items) = (HEAD, &weaver.shared, &draft.items);
        let text = match draft.cplus {
            true => format!("{head}{}extern \"C\" {{\n{shared}{base}{items}}}\n", plus(items)),
            false => format!("{head}{shared}{base}{items}"),
        };
        let last = u + 1 == weaver.drafts.len();
        let archive = (u > 0 && archives > 0 && weaver.rng.one_in(2)).then(|| weaver.rng.below(archives));
        let mut unit = Unit::new(u, &text, None, "");
        unit.cplus = draft.cplus;
        unit.archive = archive;
        unit.library = library && last;
        let flags = ["-mavx2", "-fno-optimize-sibling-calls", "-fno-tree-vectorize"];
        unit.flags.extend(flags.iter().filter(|_| weaver.rng.one_in(12)).map(|f| (*f).to_owned()));
        if weaver.rng.one_in(2) {
            // With all data of a kind in one section, what escapes of it takes the rest along.
            unit.flags.push("-fdata-sections".into());
        }
        out.push(unit);
    }
    let mut program = SoakProgram::new(out, archives);
    program.flags = ["-pthread", "-D_GNU_SOURCE"].map(str::to_owned).into();
    program.link_flags = vec!["-pthread".into()];
    program.static_one_in = 16;
    program.hashless = true;
    if program.units.iter().any(|u| u.text.contains("dlsym(")) {
        program.link_flags.push("-rdynamic".into());
    }
    if program.units.iter().any(|u| u.text.contains("#ifdef __clang__")) {
        // Trampolines of gcc's nested functions; lld doesn't take the wish for it from the objects.
        program.link_flags.push("-Wl,-z,execstack".into());
    }
    program
}

/// Headers of C++, and the words of a unit that ask for them. Others are not included, since compilers take long to read them.
const PLUS: [(&str, &[&str]); 8] = [
    ("algorithm", &["std::sort", "std::find_if"]),
    ("functional", &["std::function"]),
    ("map", &["std::map"]),
    ("memory", &["std::unique_ptr", "std::shared_ptr"]),
    ("stdexcept", &["std::runtime_error"]),
    ("string", &["std::string"]),
    ("utility", &["std::pair"]),
    ("vector", &["std::vector"]),
];

/// The headers that a unit of C++ with this text includes.
fn plus(text: &str) -> String {
    let mut out = String::from("#include <exception>\n#include <new>\n#include <typeinfo>\n");
    for (header, words) in PLUS {
        if words.iter().any(|w| text.contains(w)) {
            out.push_str(&format!("#include <{header}>\n"));
        }
    }
    out
}

impl Weaver {
    /// Fill in a text of `carrier` that is to stand in `unit`.
    fn fill(&mut self, text: &str, unit: usize, of: &Filling) -> String {
        filled(text, |mark| match mark {
            "v" => of.value.clone(),
            "o" => format!("v{}", of.id),
            "#" => of.id.to_string(),
            "c" => self.function("called", unit),
            "d" => self.function("decoy", unit),
            "t" => self.function("other", unit),
            "i" => of.index.to_string(),
            "z" => (*self.rng.pick(&["zero", "zero", "(a & zero)", "0u"])).to_owned(),
            "K" => self.rng.literal(),
            "n" => self.noinline().to_owned(),
            "s" => (*self.rng.pick(&["", "static "])).to_owned(),
            other => format!("@{other}"),
        })
    }
}

/// The values for the marks of one use of a carrier.
struct Filling {
    value: String,
    id: usize,
    index: usize,
}
