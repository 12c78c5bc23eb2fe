//! A random program of several modules: the definitions and references of each, and its place on the line.
//!
//! Functions call only functions of greater numbers, so that every program ends, whichever definition prevails. Each prints the module whose
//! definition runs. Every name has an owner, so that most programs link.

use std::fmt::Write as _;

use crate::rng::Rng;

const FUNCTIONS: usize = 10;
const VARIABLES: usize = 5;

const WEAK: &str = " __attribute__((weak))";
const HIDDEN: &str = " __attribute__((visibility(\"hidden\")))";
const PROTECTED: &str = " __attribute__((visibility(\"protected\")))";

/// The words of the driver for a mode, and the option of the compiler.
pub(crate) const MODES: [(&str, &str); 6] = [
    ("-pie", "-fPIE"),
    ("-pie", "-fPIE"),
    ("-no-pie", "-fno-pie"),
    ("-static -no-pie", "-fno-pie"),
    ("-static-pie", "-fPIE"),
    ("-shared", "-fPIC"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModuleContainer {
    Object,
    Archive(usize),
    Library(usize),
}

#[derive(Debug)]
pub(crate) struct LinkedModule {
    pub(crate) place: ModuleContainer,
    pub(crate) compiler: &'static str,
    pub(crate) flags: Vec<&'static str>,
    /// A name such as `m3.c`, and its object.
    pub(crate) source: String,
    pub(crate) object: String,
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) struct LinkProgram {
    pub(crate) mode: &'static str,
    pub(crate) modules: Vec<LinkedModule>,
    pub(crate) archives: usize,
    pub(crate) libraries: usize,
    /// Commons differ in size: mold 1.10 takes that of the first and wild that of the largest, which may be too little.
    pub(crate) has_commons: bool,
    pub(crate) has_cxx: bool,
}

/// Whether a module defines a name or refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    Nothing,
    Defines,
    DefinesWeak,
    Refers,
    RefersWeakly,
}

impl Stance {
    fn is_definition(self) -> bool {
        matches!(self, Stance::Defines | Stance::DefinesWeak)
    }

    fn weak(self) -> &'static str {
        if matches!(self, Stance::DefinesWeak | Stance::RefersWeakly) { WEAK } else { "" }
    }
}

pub(crate) fn generate(rng: &mut Rng) -> LinkProgram {
    let (mode, pic) = *rng.pick(&MODES);
    let archives = rng.below(4);
    let libraries = if mode.contains("static") { 0 } else { rng.below(3) };
    let count = 4 + rng.below(6);
    let has_commons = rng.chance(40);
    let owners: Vec<usize> = (0..FUNCTIONS + VARIABLES).map(|_| rng.below(count)).collect();
    let mut modules = Vec::new();
    for number in 0..count {
        let place = match rng.below(10) {
            _ if number == 0 => ModuleContainer::Object,
            3..=7 if archives > 0 => ModuleContainer::Archive(rng.below(archives)),
            8..=9 if libraries > 0 => ModuleContainer::Library(rng.below(libraries)),
            _ => ModuleContainer::Object,
        };
        let in_library = matches!(place, ModuleContainer::Library(_));
        let cxx = number != 0 && rng.chance(20);
        let has_commons = has_commons && !cxx && !in_library;
        let mut flags = vec![if in_library { "-fPIC" } else { pic }, *rng.pick(&["-O0", "-O1", "-O2"]), "-w"];
        let options: [(usize, &[&str]); 4] = [
            (60, &["-ffunction-sections", "-fdata-sections"]),
            (if has_commons { 100 } else { 0 }, &["-fcommon"]),
            (10, &["-fno-asynchronous-unwind-tables"]),
            (10, &["-g"]),
        ];
        flags
            .extend(options.iter().filter(|(percent, _)| rng.chance(*percent)).flat_map(|(_, words)| *words));
        let compilers = if cxx { ["g++", "clang++-19"] } else { ["gcc", "clang-19"] };
        let compiler = *rng.pick(&compilers);
        let main = if mode == "-shared" { "start_here" } else { "main" };
        let writer =
            Writer { rng: &mut *rng, number, place, owners: &owners, has_commons, expressions: Vec::new() };
        modules.push(LinkedModule {
            place,
            compiler,
            flags,
            source: format!("m{number}.{}", if cxx { "cpp" } else { "c" }),
            object: format!("m{number}.o"),
            text: writer.text(cxx, main),
        });
    }
    let has_cxx = modules.iter().any(|m| m.source.ends_with(".cpp"));
    LinkProgram { mode, modules, archives, libraries, has_commons, has_cxx }
}

struct Writer<'r> {
    rng: &'r mut Rng,
    number: usize,
    place: ModuleContainer,
    owners: &'r [usize],
    /// Some definitions of this module may be tentative.
    has_commons: bool,
    /// Expressions that a body may have; functions with their number.
    expressions: Vec<(usize, String)>,
}

impl Writer<'_> {
    fn stance(&mut self, name: usize) -> Stance {
        if self.owners[name] == self.number {
            return if self.rng.chance(12) { Stance::DefinesWeak } else { Stance::Defines };
        }
        let in_archive = matches!(self.place, ModuleContainer::Archive(_));
        match self.rng.below(100) {
            0..=9 => Stance::DefinesWeak,
            10..=12 if in_archive => Stance::Defines,
            13..=45 => Stance::Refers,
            46..=60 => Stance::RefersWeakly,
            _ => Stance::Nothing,
        }
    }

    fn visibility(&mut self, stance: Stance) -> &'static str {
        let in_library = matches!(self.place, ModuleContainer::Library(_));
        match self.rng.below(100) {
            0..=3 if !in_library => HIDDEN,
            4..=7 if stance.is_definition() => PROTECTED,
            _ => "",
        }
    }

    /// `+ f5() + ...`, of functions with numbers above `above` only.
    fn body(&mut self, above: usize) -> String {
        let usable: Vec<&String> =
            self.expressions.iter().filter(|(i, _)| *i > above).map(|(_, e)| e).collect();
        let count = if usable.is_empty() { 0 } else { self.rng.below(4) };
        (0..count).map(|_| format!(" + {}", self.rng.pick(&usable))).collect()
    }

    fn text(mut self, cxx: bool, main: &str) -> String {
        let n = self.number;
        let mut out = String::from("#include <stdio.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
        let stances: Vec<Stance> = (0..FUNCTIONS + VARIABLES).map(|i| self.stance(i)).collect();
        let (functions, variables) = stances.split_at(FUNCTIONS);
        for (i, stance) in functions.iter().enumerate().filter(|(_, stance)| **stance != Stance::Nothing) {
            let _ = writeln!(out, "extern int f{i}(void){}{};", self.visibility(*stance), stance.weak());
            let guarded = format!("(f{i} ? f{i}() : -1)");
            let call = if *stance == Stance::RefersWeakly { guarded } else { format!("f{i}()") };
            self.expressions.push((i, call));
        }
        for (v, stance) in variables.iter().enumerate() {
            self.variable(v, *stance, &mut out);
        }
        for (i, _) in functions.iter().enumerate().filter(|(_, stance)| stance.is_definition()) {
            let _ = writeln!(out, "int f{i}(void) {{ puts(\"f{i}@m{n}\"); return {i}{}; }}", self.body(i));
        }
        let _ = writeln!(out, "int dead_{n}(void) {{ return 0{}; }}", self.body(0));
        let local = self.body(2);
        let _ =
            writeln!(out, "static int __attribute__((noinline,used)) local_{n}(void) {{ return 1{local}; }}");
        if self.rng.chance(35) {
            // `__start_` and `__stop_` walk over these sections.
            let section = self.rng.pick(&["regs", "regt"]);
            let retain = if self.rng.chance(30) { ",retain" } else { "" };
            let _ = writeln!(
                out,
                "int reg_target_{n}(void) {{ return {n}; }}\n\
                 static int (*const reg_{n})(void) __attribute__((section(\"{section}\"),used{retain})) = reg_target_{n};"
            );
        }
        if self.rng.chance(45) {
            let priority = *self.rng.pick(&["", "(101)", "(200)", "(200)", "(65000)"]);
            let body = self.body(4);
            let _ = writeln!(
                out,
                "static void __attribute__((constructor{priority})) ctor_{n}(void) {{ printf(\"ctor m{n} %d\\n\", 0{body}); }}"
            );
        }
        if self.rng.chance(15) {
            let _ = writeln!(
                out,
                "static void __attribute__((destructor)) dtor_{n}(void) {{ puts(\"dtor m{n}\"); }}"
            );
        }
        out.push_str("#ifdef __cplusplus\n}\n#endif\n");
        if cxx {
            let value = self.rng.below(3);
            let _ = writeln!(
                out,
                "template <int N> struct Counter {{ static int n; virtual int next() {{ static int k; return ++k + ++n; }} virtual ~Counter() {{}} }};\n\
                 template <int N> int Counter<N>::n = N;\ninline int vague() {{ static int calls; return ++calls; }}\n\
                 static Counter<{value}> counter_{n};\n\
                 extern \"C\" int cxx_{n}() {{ Counter<{value}> *c = &counter_{n}; return c->next() + vague(); }}"
            );
            if self.rng.chance(50) {
                let _ = writeln!(out, "static int started_{n} = printf(\"static m{n} %d\\n\", cxx_{n}());");
            }
        }
        if n == 0 {
            self.main_function(main, &mut out);
        }
        out
    }

    fn variable(&mut self, v: usize, stance: Stance, out: &mut String) {
        let is_tentative = matches!(stance, Stance::Defines | Stance::Refers) && self.has_commons;
        let _ = match stance {
            Stance::Nothing => return,
            _ if is_tentative && self.rng.chance(50) => {
                let align = *self.rng.pick(&["", "", " __attribute__((aligned(64)))"]);
                writeln!(out, "int v{v}[{}]{align};", 1 + self.rng.below(40))
            }
            Stance::Defines | Stance::DefinesWeak => {
                let visibility = self.visibility(stance);
                let value = self.number + 1;
                writeln!(
                    out,
                    "extern int v{v}[4]{visibility}{};\nint v{v}[4] = {{ {value} }};",
                    stance.weak()
                )
            }
            _ => writeln!(out, "extern int v{v}[]{};", stance.weak()),
        };
        let guarded = format!("(v{v} ? v{v}[0] : -1)");
        let expression = if stance == Stance::RefersWeakly { guarded } else { format!("v{v}[0]") };
        self.expressions.push((usize::MAX, expression));
    }

    fn main_function(&mut self, name: &str, out: &mut String) {
        let mut walks = String::new();
        for section in if self.rng.chance(50) { &["regs", "regt"][..] } else { &[] } {
            for end in ["start", "stop"] {
                let _ = writeln!(
                    out,
                    "extern int (*const __{end}_{section}[])(void) __attribute__((weak,visibility(\"hidden\")));"
                );
            }
            let _ = writeln!(
                walks,
                "  for (int (*const *p)(void) = __start_{section}; p < __stop_{section}; p++) if (*p) printf(\"{section} %d\\n\", (*p)());"
            );
        }
        let sums: String =
            (0..2 + self.rng.below(3)).map(|_| format!("  sum += 0{};\n", self.body(0))).collect();
        let _ = writeln!(
            out,
            "int {name}(void) {{\n  int sum = 0;\n{sums}{walks}  printf(\"sum %d\\n\", sum);\n  return 0;\n}}"
        );
    }
}
