//! A random program of several modules: what each defines, what it refers to, and where on the line it stands.
//!
//! Functions are numbered and call only functions of greater numbers, so that every program ends whichever
//! definition prevails. Each function prints which module's definition ran. Every name has an owner, so that most
//! programs link; the others must fail alike.

use std::fmt::Write as _;

use crate::rng::Rng;

/// Append a formatted line to a text.
macro_rules! line {
    ($out:expr, $($args:tt)*) => {{ let _ = writeln!($out, $($args)*); }};
}

const FUNCTIONS: usize = 10;
const VARIABLES: usize = 5;
/// How many of them have no other definitions than tentative ones, in programs that have any.
const TENTATIVE: usize = 2;
const ODD: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pie,
    NoPie,
    Static,
    StaticPie,
    Shared,
}

impl Mode {
    pub(crate) fn is_static(self) -> bool {
        matches!(self, Mode::Static | Mode::StaticPie)
    }

    fn compile_flag(self) -> &'static str {
        match self {
            Mode::Pie | Mode::StaticPie => "-fPIE",
            Mode::NoPie | Mode::Static => "-fno-pie",
            Mode::Shared => "-fPIC",
        }
    }

    pub(crate) fn link_flags(self) -> &'static [&'static str] {
        match self {
            Mode::Pie => &["-pie"],
            Mode::NoPie => &["-no-pie"],
            Mode::Static => &["-static", "-no-pie"],
            Mode::StaticPie => &["-static-pie"],
            Mode::Shared => &["-shared"],
        }
    }
}

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
    /// It is a name such as `m3.c`.
    pub(crate) source: String,
    pub(crate) text: String,
}

impl LinkedModule {
    pub(crate) fn object(&self) -> String {
        format!("{}.o", self.source.split('.').next().unwrap_or_default())
    }
}

#[derive(Debug)]
pub(crate) struct LinkProgram {
    pub(crate) mode: Mode,
    pub(crate) modules: Vec<LinkedModule>,
    pub(crate) archives: usize,
    pub(crate) libraries: usize,
    /// Commons differ in size and alignment; mold 1.10 takes those of the first and wild those of the largest, which may be too little.
    pub(crate) has_commons: bool,
    pub(crate) has_cxx: bool,
}

/// How a module stands to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    Nothing,
    Defines,
    DefinesWeak,
    Refers,
    RefersWeakly,
}

pub(crate) fn generate(rng: &mut Rng) -> LinkProgram {
    let modes = [Mode::Pie, Mode::Pie, Mode::NoPie, Mode::Static, Mode::StaticPie, Mode::Shared];
    let mode = *rng.pick(&modes);
    let archives = rng.below(4);
    let libraries = if mode.is_static() { 0 } else { rng.below(3) };
    let count = 4 + rng.below(6);
    let has_commons = rng.chance(40);
    let mut places = vec![ModuleContainer::Object];
    for _ in 1..count {
        places.push(match rng.below(10) {
            0..=2 => ModuleContainer::Object,
            3..=7 if archives > 0 => ModuleContainer::Archive(rng.below(archives)),
            8..=9 if libraries > 0 => ModuleContainer::Library(rng.below(libraries)),
            _ => ModuleContainer::Object,
        });
    }
    let owners: Vec<usize> = (0..FUNCTIONS + VARIABLES + ODD).map(|_| rng.below(count)).collect();
    let modules: Vec<LinkedModule> = places
        .iter()
        .enumerate()
        .map(|(number, place)| {
            Writer { rng, number, place: *place, mode, owners: &owners, has_commons }.module()
        })
        .collect();
    let has_cxx = modules.iter().any(|m| m.source.ends_with(".cpp"));
    LinkProgram { mode, modules, archives, libraries, has_commons, has_cxx }
}

struct Writer<'r> {
    rng: &'r mut Rng,
    number: usize,
    place: ModuleContainer,
    mode: Mode,
    owners: &'r [usize],
    has_commons: bool,
}

impl Writer<'_> {
    fn module(mut self) -> LinkedModule {
        let in_library = matches!(self.place, ModuleContainer::Library(_));
        let compiler = *self.rng.pick(&["gcc", "clang-19"]);
        let cxx = self.number != 0 && self.rng.chance(20);
        let pic = if in_library { "-fPIC" } else { self.mode.compile_flag() };
        let mut flags = vec![pic, *self.rng.pick(&["-O0", "-O1", "-O2"]), "-w"];
        if self.rng.chance(60) {
            flags.extend(["-ffunction-sections", "-fdata-sections"]);
        }
        if self.has_commons && !cxx && !in_library {
            flags.push("-fcommon");
        }
        if self.rng.chance(10) {
            flags.push("-fno-asynchronous-unwind-tables");
        }
        if self.rng.chance(10) {
            flags.push("-g");
        }
        let text = self.text(cxx, in_library);
        let source = format!("m{}.{}", self.number, if cxx { "cpp" } else { "c" });
        let compiler = match (compiler, cxx) {
            ("gcc", true) => "g++",
            (_, true) => "clang++-19",
            _ => compiler,
        };
        LinkedModule { place: self.place, compiler, flags, source, text }
    }

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

    fn visibility(&mut self, definition: bool, in_library: bool) -> &'static str {
        match self.rng.below(100) {
            0..=3 if !in_library => " __attribute__((visibility(\"hidden\")))",
            4..=7 if definition => " __attribute__((visibility(\"protected\")))",
            _ => "",
        }
    }

    fn text(&mut self, cxx: bool, in_library: bool) -> String {
        let n = self.number;
        let mut out = String::from("#include <stdio.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
        let stances: Vec<Stance> = (0..FUNCTIONS + VARIABLES + ODD).map(|i| self.stance(i)).collect();
        let mut expressions: Vec<(usize, String)> = Vec::new();
        for (i, stance) in stances.iter().enumerate().take(FUNCTIONS) {
            let definition = matches!(stance, Stance::Defines | Stance::DefinesWeak);
            let visibility = self.visibility(definition, in_library);
            let weak = match stance {
                Stance::Nothing => continue,
                Stance::DefinesWeak | Stance::RefersWeakly => " __attribute__((weak))",
                _ => "",
            };
            line!(out, "extern int f{i}(void){visibility}{weak};");
            expressions.push((
                i,
                match stance {
                    Stance::RefersWeakly => format!("(f{i} ? f{i}() : -1)"),
                    _ => format!("f{i}()"),
                },
            ));
        }
        for v in 0..VARIABLES {
            self.variable(v, stances[FUNCTIONS + v], cxx, in_library, &mut out, &mut expressions);
        }
        self.odd_ones(&stances[FUNCTIONS + VARIABLES..], &mut out, &mut expressions);
        // Of each kind of function one that is called, one that isn't, one whose address is all that is wanted.
        for (i, stance) in stances.iter().enumerate().take(FUNCTIONS) {
            if matches!(stance, Stance::Defines | Stance::DefinesWeak) {
                let body = self.body(&expressions, i);
                line!(out, "int f{i}(void) {{ puts(\"f{i}@m{n}\"); return {i}{body}; }}");
            }
        }
        let dead = self.body(&expressions, 0);
        line!(out, "int dead_{n}(void) {{ return 0{dead}; }}");
        let local = self.body(&expressions, 2);
        line!(out, "static int __attribute__((noinline,used)) local_{n}(void) {{ return 1{local}; }}");
        self.sections(&mut out);
        self.constructors(&expressions, &mut out);
        out.push_str("#ifdef __cplusplus\n}\n#endif\n");
        if cxx {
            self.vague_linkage(&mut out);
        }
        if n == 0 {
            self.main_function(&expressions, &mut out);
        }
        out
    }

    fn variable(
        &mut self,
        v: usize,
        stance: Stance,
        cxx: bool,
        in_library: bool,
        out: &mut String,
        expressions: &mut Vec<(usize, String)>,
    ) {
        let n = self.number;
        let common = self.has_commons && !cxx && !in_library;
        let elements = if common { 1 + self.rng.below(40) } else { 4 };
        let aligns = ["", "", " __attribute__((aligned(64)))", " __attribute__((aligned(256)))"];
        let align = if common { *self.rng.pick(&aligns) } else { "" };
        if self.has_commons && v < TENTATIVE {
            // Nothing but tentative definitions: of the greatest size and alignment among them.
            if common && stance != Stance::Nothing {
                line!(out, "int v{v}[{elements}]{align};");
                let modulus = if align.contains("256") { 256 } else { 64 };
                let place = if align.is_empty() {
                    "0".into()
                } else {
                    format!("(int)((unsigned long)v{v} % {modulus})")
                };
                expressions.push((usize::MAX, format!("v{v}[{}] + {place}", elements - 1)));
            }
            return;
        }
        match stance {
            Stance::Nothing => return,
            // A tentative definition beside whatever others define.
            Stance::Defines | Stance::Refers if common && self.rng.chance(50) => {
                line!(out, "int v{v}[{elements}];");
            }
            Stance::Defines | Stance::DefinesWeak => {
                let weak = if stance == Stance::DefinesWeak { " __attribute__((weak))" } else { "" };
                let visibility = self.visibility(true, in_library);
                line!(out, "extern int v{v}[{elements}]{visibility}{weak};");
                line!(out, "int v{v}[{elements}] = {{ {} }};", n + 1);
            }
            Stance::Refers => {
                line!(out, "extern int v{v}[];");
            }
            Stance::RefersWeakly => {
                line!(out, "extern int v{v}[] __attribute__((weak));");
            }
        }
        let expression = match stance {
            Stance::RefersWeakly => format!("(v{v} ? v{v}[0] : -1)"),
            _ => format!("v{v}[0]"),
        };
        expressions.push((usize::MAX, expression));
    }

    /// A thread-local variable, an alias, an IFUNC.
    fn odd_ones(&mut self, stances: &[Stance], out: &mut String, expressions: &mut Vec<(usize, String)>) {
        let n = self.number;
        let defines = |s: Stance| matches!(s, Stance::Defines | Stance::DefinesWeak);
        let weak = |s: Stance| {
            if matches!(s, Stance::DefinesWeak | Stance::RefersWeakly) {
                " __attribute__((weak))"
            } else {
                ""
            }
        };
        match stances[0] {
            Stance::Nothing | Stance::RefersWeakly => {}
            s => {
                line!(out, "extern __thread int tls0{};", weak(s));
                if defines(s) {
                    line!(out, "__thread int tls0{} = {n};", weak(s));
                }
                expressions.push((usize::MAX, "tls0".to_owned()));
            }
        }
        match stances[1] {
            Stance::Nothing => {}
            s => {
                if defines(s) {
                    line!(out, "int alias_target_{n}(void) {{ puts(\"alias@m{n}\"); return {n}; }}");
                    line!(
                        out,
                        "extern int al(void) __attribute__((alias(\"alias_target_{n}\"))){};",
                        weak(s)
                    );
                } else {
                    line!(out, "extern int al(void){};", weak(s));
                }
                let call = if s == Stance::RefersWeakly { "(al ? al() : -1)" } else { "al()" };
                expressions.push((usize::MAX, call.to_owned()));
            }
        }
        // Position-independent static IFUNCs are beyond some of the linkers.
        if self.mode == Mode::StaticPie {
            return;
        }
        // No compiler makes a weak one.
        match stances[2] {
            Stance::Nothing | Stance::RefersWeakly | Stance::DefinesWeak => {}
            s => {
                if defines(s) {
                    line!(out, "static int fast_{n}(void) {{ return {n} + 100; }}");
                    line!(out, "int (*resolve_{n}(void))(void) {{ return fast_{n}; }}");
                    line!(out, "int ifn(void) __attribute__((ifunc(\"resolve_{n}\"))){};", weak(s));
                } else {
                    line!(out, "extern int ifn(void){};", weak(s));
                }
                expressions.push((usize::MAX, "ifn()".to_owned()));
            }
        }
    }

    /// `+ f5() + ...`, of functions with numbers above `above` only.
    fn body(&mut self, expressions: &[(usize, String)], above: usize) -> String {
        let usable: Vec<&String> = expressions.iter().filter(|(i, _)| *i > above).map(|(_, e)| e).collect();
        let mut out = String::new();
        if !usable.is_empty() {
            for _ in 0..self.rng.below(4) {
                let _ = write!(out, " + {}", self.rng.pick(&usable));
            }
        }
        out
    }

    /// Sections that `__start_` and `__stop_` walk over.
    fn sections(&mut self, out: &mut String) {
        let n = self.number;
        if self.rng.chance(35) {
            let section = self.rng.pick(&["regs", "regt"]);
            let retain = if self.rng.chance(30) { ",retain" } else { "" };
            line!(out, "int reg_target_{n}(void) {{ return {n}; }}");
            line!(
                out,
                "static int (*const reg_{n})(void) __attribute__((section(\"{section}\"),used{retain})) = reg_target_{n};"
            );
        }
    }

    fn constructors(&mut self, expressions: &[(usize, String)], out: &mut String) {
        let n = self.number;
        if self.rng.chance(45) {
            let priority = *self.rng.pick(&["", "(101)", "(200)", "(200)", "(65000)"]);
            let body = self.body(expressions, 4);
            line!(
                out,
                "static void __attribute__((constructor{priority})) ctor_{n}(void) {{ printf(\"ctor m{n} %d\\n\", 0{body}); }}"
            );
        }
        if self.rng.chance(15) {
            line!(out, "static void __attribute__((destructor)) dtor_{n}(void) {{ puts(\"dtor m{n}\"); }}");
        }
    }

    /// Inline functions and their static variables, virtual tables.
    fn vague_linkage(&mut self, out: &mut String) {
        let n = self.number;
        out.push_str("template <int N> struct Counter { static int n; virtual int next() { static int k; return ++k + ++n; } virtual ~Counter() {} };\n");
        out.push_str("template <int N> int Counter<N>::n = N;\ninline int vague() { static int calls; return ++calls; }\n");
        let value = self.rng.below(3);
        line!(out, "static Counter<{value}> counter_{n};");
        line!(
            out,
            "extern \"C\" int cxx_{n}() {{ Counter<{value}> *c = &counter_{n}; return c->next() + vague(); }}"
        );
        if self.rng.chance(50) {
            line!(out, "static int started_{n} = printf(\"static m{n} %d\\n\", cxx_{n}());");
        }
    }

    fn main_function(&mut self, expressions: &[(usize, String)], out: &mut String) {
        let walks = self.rng.chance(50);
        if walks {
            for section in ["regs", "regt"] {
                line!(
                    out,
                    "extern int (*const __start_{section}[])(void) __attribute__((weak,visibility(\"hidden\")));"
                );
                line!(
                    out,
                    "extern int (*const __stop_{section}[])(void) __attribute__((weak,visibility(\"hidden\")));"
                );
            }
        }
        let name = if self.mode == Mode::Shared { "start_here" } else { "main" };
        line!(out, "int {name}(void) {{\n  int sum = 0;");
        for _ in 0..2 + self.rng.below(3) {
            let body = self.body(expressions, 0);
            line!(out, "  sum += 0{body};");
        }
        if walks {
            for section in ["regs", "regt"] {
                line!(
                    out,
                    "  for (int (*const *p)(void) = __start_{section}; p < __stop_{section}; p++) if (*p) printf(\"{section} %d\\n\", (*p)());"
                );
            }
        }
        out.push_str("  printf(\"sum %d\\n\", sum);\n  return 0;\n}\n");
    }
}
