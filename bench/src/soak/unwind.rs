//! Random programs that unwind: they throw, catch, rethrow, exit and cancel threads, and look at their own frames.
//!
//! A program has functions `f0`, `f1` and so on in units of C and C++. Each calls only later ones, so that calls end. The kinds of unwinding
//! are drawn first: in many programs only some functions need their unwind entries. The output depends on no address.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::program::{SoakProgram, Unit};
use crate::rng::Rng;
use crate::texts::{Template, filled, templates};

const PRELUDE: &str = include_str!("texts/unwind-prelude.h");
/// The first unit defines these for all units.
const BASE: &str = include_str!("texts/unwind-base.c");
const CXX: &str = include_str!("texts/unwind-cxx.hpp");
const LIBRARY: &str = include_str!("texts/unwind-library.hpp");
const CATCH_ALL: &str = "catch (abi::__forced_unwind &) { throw; } catch (...) { r += 5u; puts(\"any\"); }";

/// Statements: starts of unwindings, frames on the stack, and handlers. The key is the effect: `Passes` (an exception of the callee comes
/// out), `Catches` or `Throws`. The words are the property that it needs, see [`UnwindGenerator::fits`]. `item` stands before the function.
///
/// In the texts `@G` is a function that may be called, and `@Q` one that lets no exception out. `@N` is a number that occurs once, `@K` a
/// literal, and `@C` stands for handlers of everything but forced unwinding. `r` is the result so far, `a` and `b` are the parameters.
static STATEMENTS: LazyLock<Vec<Template>> =
    LazyLock::new(|| templates(include_str!("texts/unwind.txt"), &["item"]));

#[derive(Debug, Clone, Copy)]
struct UnitKind {
    cplus: bool,
    exceptions: bool,
    library_headers: bool,
}

#[derive(Debug)]
struct UnwindingFunction {
    unit: usize,
    global: bool,
    /// An exception may come out of it.
    throws: bool,
}

#[derive(Debug)]
struct UnwindGenerator {
    rng: Rng,
    /// Properties of the program as a whole.
    features: BTreeSet<&'static str>,
    kinds: Vec<UnitKind>,
    functions: Vec<UnwindingFunction>,
    serial: usize,
}

impl UnwindGenerator {
    fn has(&self, feature: &str) -> bool {
        self.features.contains(feature)
    }

    fn fits(&self, statement: &Template, kind: UnitKind) -> bool {
        match statement.words {
            "Cxx" => kind.cplus,
            "Throw" => kind.exceptions && self.has("Throw"),
            "Library" => kind.exceptions && self.has("Throw") && kind.library_headers,
            "Telling" => kind.exceptions && self.has("Throw") && self.has("Trace"),
            "Nothing" => true,
            feature => self.has(feature),
        }
    }

    /// A function that `from` may call, by its index: a later one.
    fn callee(&mut self, from: usize, quiet: bool) -> Option<usize> {
        let unit = self.functions[from].unit;
        let fits = |f: &UnwindingFunction| (f.global || f.unit == unit) && !(quiet && f.throws);
        let all: Vec<usize> =
            (from + 1..self.functions.len()).filter(|i| fits(&self.functions[*i])).collect();
        if all.is_empty() || self.rng.one_in(8) { None } else { Some(*self.rng.pick(&all)) }
    }

    /// Fill in a text. The result says too whether an exception may come out of a callee that is not quiet.
    fn fill(&mut self, from: usize, text: &str, serial: usize) -> (String, bool) {
        let mut throws = false;
        let text = filled(text, |mark| match mark {
            "G" | "Q" => {
                let callee = self.callee(from, mark == "Q");
                throws |= callee.is_some_and(|callee| self.functions[callee].throws);
                callee.map_or("simple".to_owned(), |callee| format!("f{callee}"))
            }
            "N" => serial.to_string(),
            "K" => self.rng.literal(),
            "C" => CATCH_ALL.to_owned(),
            _ => format!("@{mark}"),
        });
        (text, throws)
    }

    /// The text of a function and of the declarations before it.
    fn function(&mut self, index: usize) -> String {
        let kind = self.kinds[self.functions[index].unit];
        let own = |needs: &str| ["Throw", "Forced", "Raw", "Trace"].contains(&needs);
        let (mut items, mut body) = (String::new(), String::new());
        for _ in 0..self.rng.range(1, 4) {
            // Half of the statements are about unwinding where something fits.
            let about = self.rng.one_in(2);
            let all: Vec<&Template> =
                STATEMENTS.iter().filter(|s| self.fits(s, kind) && (!about || own(s.words))).collect();
            let statement = if all.is_empty() { &STATEMENTS[0] } else { *self.rng.pick(&all) };
            self.serial += 1;
            let serial = self.serial;
            let (item, item_throws) = self.fill(index, statement.part("item"), serial);
            let (text, text_throws) = self.fill(index, statement.text.trim_end_matches('\n'), serial);
            self.functions[index].throws |= match statement.key {
                "Passes" => item_throws || text_throws,
                "Catches" => false,
                _ => true,
            };
            items.push_str(&item);
            body.push_str(&format!("  {text}\n"));
        }
        let tail = match self.rng.one_in(4).then(|| self.callee(index, false)).flatten() {
            Some(callee) => {
                self.functions[index].throws |= self.functions[callee].throws;
                format!("f{callee}(r, b)")
            }
            None => "r".to_owned(),
        };
        let storage = if self.functions[index].global { "" } else { "static " };
        let attributes =
            ["", "", "", "NOINLINE ", "NOINLINE ", "__attribute__((cold)) ", "__attribute__((weak)) "];
        let attribute = *self.rng.pick(&attributes);
        let attribute = if storage.is_empty() || !attribute.contains("weak") { attribute } else { "" };
        let k = self.rng.literal();
        format!(
            "{items}{storage}{attribute}unsigned f{index}(unsigned a, unsigned b) {{\n  unsigned r = a * 3u + b + {k};\n  if (fuel-- <= 0) return r;\n{body}  return {tail};\n}}\n"
        )
    }

    fn main(&mut self) -> String {
        let kind = self.kinds[0];
        let catches = kind.exceptions && self.has("Throw");
        let mut text = String::new();
        if self.has("Signal") {
            let action = match self.rng.below(4) {
                0 if catches => "if (sum % 2u) throw Derived(sum);",
                1 => "sum += 3u;",
                _ => "void *f[32]; sum += (unsigned)backtrace(f, 32);",
            };
            text.push_str(&format!("static void on_signal(int s) {{ (void)s; {action} }}\n"));
        }
        text.push_str("int main(int argc, char **argv) {\n  unsigned r = (unsigned)argc; (void)argv;\n");
        if self.has("Signal") {
            text.push_str("  signal(SIGUSR1, on_signal);\n");
        }
        if catches && !self.rng.one_in(4) {
            let says = match self.has("Trace") {
                true => "void *f[48]; printf(\"terminate %d\\n\", backtrace(f, 48));",
                false => "puts(\"terminate\");",
            };
            text.push_str(&format!("  std::set_terminate([] {{ {says} fflush(stdout); _exit(3); }});\n"));
        }
        let uncaught = self.rng.one_in(10);
        let fits = |f: &UnwindingFunction| (f.global || f.unit == 0) && (catches || uncaught || !f.throws);
        let all: Vec<usize> = (0..self.functions.len()).filter(|i| fits(&self.functions[*i])).collect();
        for i in 0..self.rng.range(2, 5).min(all.len()) {
            // The first ones reach more.
            let root = all[self.rng.below(all.len().div_ceil(2))];
            let (fuel, k) = (self.rng.range(5, 60), self.rng.literal());
            let call = format!("r = r * 7u + f{root}(r + {k}, {i}u);");
            let call = match catches && !(uncaught && self.rng.one_in(2)) {
                true => {
                    format!("try {{ {call} }} catch (std::exception &e) {{ puts(e.what()); }} {CATCH_ALL}")
                }
                false => call,
            };
            text.push_str(&format!("  fuel = {fuel}; {call} printf(\"{i} %08x\\n\", r);\n"));
        }
        let end = match self.has("Forced") && self.rng.one_in(10) {
            true => "pthread_exit(0);",
            false => "return (int)((r ^ sum) & 63u);",
        };
        text.push_str(&format!("  printf(\"%08x\\n\", sum); fflush(stdout);\n  {end}\n}}\n"));
        text
    }
}

pub(crate) fn generate(seed: u64) -> SoakProgram {
    let mut rng = Rng::new(seed, 91);
    // The last two call the unwinder without a language's runtime, and read their own unwind tables.
    let shares = [("Forced", 2), ("Trace", 6), ("Signal", 14), ("Raw", 8), ("Reader", 30)];
    let mut features: BTreeSet<&str> =
        shares.into_iter().filter(|(_, n)| rng.one_in(*n)).map(|(name, _)| name).collect();
    let throws = !rng.one_in(4);
    features.extend(throws.then_some("Throw"));
    let units = rng.range(1, 3);
    let kinds: Vec<UnitKind> = (0..units)
        .map(|unit| {
            let cplus = match throws {
                true => unit == 0 && !rng.one_in(6) || rng.one_in(2),
                false => rng.one_in(3),
            };
            let exceptions = cplus && (throws && !rng.one_in(5) || rng.one_in(4));
            UnitKind { cplus, exceptions, library_headers: exceptions && rng.one_in(8) }
        })
        .collect();
    let functions = (0..rng.range(5, 14))
        .map(|_| UnwindingFunction { unit: rng.below(units), global: !rng.one_in(3), throws: false })
        .collect();
    let mut generator = UnwindGenerator { rng, features, kinds, functions, serial: 0 };
    let mut bodies = vec![Vec::new(); units];
    for index in (0..generator.functions.len()).rev() {
        let text = generator.function(index);
        bodies[generator.functions[index].unit].push(text);
    }
    let main = generator.main();
    bodies[0].push(main);
    let library = (units > 1 && generator.rng.one_in(6)).then(|| generator.rng.range(1, units - 1));
    let archives = generator.rng.below(2);
    let mut out = Vec::new();
    for (unit, bodies) in bodies.iter().enumerate() {
        let kind = generator.kinds[unit];
        let mut text = PRELUDE.to_owned();
        for (i, f) in generator.functions.iter().enumerate().filter(|(_, f)| f.global || f.unit == unit) {
            let storage = if f.global { "" } else { "UNUSED static " };
            text.push_str(&format!("{storage}unsigned f{i}(unsigned a, unsigned b);\n"));
        }
        let body = [if unit == 0 { BASE } else { "" }, &bodies.concat()].concat();
        let cxx = format!("{}{CXX}", if kind.library_headers { LIBRARY } else { "" });
        let mut made = Unit::new(unit, &text, kind.cplus.then_some(cxx), &body);
        made.library = library == Some(unit);
        made.archive = (unit > 0 && archives > 0 && generator.rng.one_in(2)).then_some(0);
        let rng = &mut generator.rng;
        made.flags = match (kind.cplus, kind.exceptions) {
            (true, true) => Vec::new(),
            (true, false) if rng.one_in(2) => vec!["-fno-exceptions".into(), "-fno-rtti".into()],
            (true, false) => vec!["-fno-exceptions".into()],
            (false, _) if rng.one_in(3) => Vec::new(),
            (false, _) => vec!["-fexceptions".into()],
        };
        if rng.one_in(12) {
            made.flags.push("-fnon-call-exceptions".into());
        }
        // Without a table in C the first exception that passes ends the program.
        if !rng.one_in(10) {
            made.flags.push("-fasynchronous-unwind-tables".into());
        }
        out.push(made);
    }
    let rng = &mut generator.rng;
    let mode = if rng.one_in(6) { "drop" } else { "unused" };
    SoakProgram {
        flags: vec!["-D_GNU_SOURCE".into(), "-pthread".into()],
        link_flags: vec!["-pthread".into()],
        static_one_in: 5,
        fold_one_in: 12,
        hashless: true,
        unwind: Some(mode),
        ..SoakProgram::new(out, archives)
    }
}
