//! How a random program is compiled and linked: compilers, levels, options, archives, linker.
//!
//! Options that all units must share (position independence, type hashes) are drawn for a program, the others for each unit, so that one
//! link has objects of several kinds and now and then of both compilers.

use super::program::{SoakProgram, Unit};
use crate::rng::Rng;
use crate::texts::{blocks, words};

/// Even seeds are gcc's under `--one-compiler`.
pub(crate) const COMPILERS: [&str; 2] = ["gcc", "clang"];

fn driver(compiler: &str, cplus: bool) -> &'static str {
    match (compiler, cplus) {
        ("gcc", false) => "gcc",
        ("gcc", true) => "g++",
        (_, false) => "clang-19",
        (_, true) => "clang++-19",
    }
}

/// The commands that make one executable, with paths relative to the folder of the case.
#[derive(Debug, Default)]
pub(crate) struct Recipe {
    pub(crate) compile: Vec<Vec<String>>,
    /// The driver's link, without `-o` and without a choice of linker; [`LIBRARY`] stands for the shared library.
    pub(crate) link: Vec<String>,
    library: Vec<String>,
    /// The linker, by its short name.
    pub(crate) linker: String,
    clang: bool,
    /// The `--prune-unwind` of the pruned link.
    pub(crate) unwind: Option<&'static str>,
    /// The pass estimate chooses which modules are decoded.
    pub(crate) is_estimated: bool,
}

impl Recipe {
    /// Whether some unit has debug information that is about one function at each address: the linker folds none.
    pub(crate) fn has_debug_info(&self) -> bool {
        let folds = self.link.iter().any(|word| word.contains("--icf"));
        !folds && self.compile.iter().flatten().any(|word| word == "-g")
    }

    /// The link by `DIR/ld`, to `output`.
    pub(crate) fn link_by(&self, dir: &str, output: &str) -> Vec<String> {
        let mut command = self.link.clone();
        command.splice(1..1, [self.choice(dir), "-o".into(), output.into()]);
        if let Some(at) = command.iter().position(|w| w == LIBRARY) {
            command.splice(at..=at, [format!("{dir}/{LIBRARY}"), format!("-Wl,-rpath,$ORIGIN/{dir}")]);
        }
        command
    }

    /// The link of the shared library by `DIR/ld`, to `DIR`; `None` without a library.
    pub(crate) fn library_by(&self, dir: &str) -> Option<Vec<String>> {
        let driver = self.link.first().filter(|_| !self.library.is_empty())?.clone();
        let mut command = vec![driver, self.choice(dir), "-shared".into(), "-pthread".into()];
        command.extend(["-o".into(), format!("{dir}/{LIBRARY}"), format!("-Wl,-soname,{LIBRARY}")]);
        command.extend(self.library.iter().cloned());
        Some(command)
    }

    /// The driver's option for the linker of `dir`.
    fn choice(&self, dir: &str) -> String {
        if self.clang { format!("--ld-path={dir}/ld") } else { format!("-B{dir}/") }
    }
}

const LIBRARY: &str = "libpart.so";

/// Position independence: options of the compiler and of the link.
const POSITIONS: [(&str, &str); 10] = {
    const PIE: (&str, &str) = ("-fPIE", "-pie");
    const FIXED: (&str, &str) = ("-fno-pie", "-no-pie");
    const PIC: &str = "-fPIC -fno-semantic-interposition";
    [PIE, PIE, PIE, PIE, ("-fPIC", "-pie"), (PIC, "-pie"), FIXED, FIXED, FIXED, ("-fPIE", "-no-pie")]
};

/// The options of these groups that are drawn.
fn drawn(rng: &mut Rng, groups: &[&str]) -> Vec<String> {
    let all = blocks(include_str!("texts/options.txt"));
    let lines = all.iter().filter(|block| groups.contains(&block.key)).flat_map(|block| block.text.lines());
    let options = lines.filter_map(|line| line.split_once(' '));
    options.filter(|(times, _)| rng.one_in(times.parse().unwrap_or(1))).flat_map(|(_, o)| words(o)).collect()
}

fn unit_flags(rng: &mut Rng, compiler: &str, unit: &Unit) -> Vec<String> {
    let mut flags = vec![(*rng.pick(&["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"])).to_owned()];
    flags.extend(drawn(rng, &["both", compiler]));
    // Thunks exclude landing marks, and the large model excludes thunks.
    if flags.iter().any(|f| f.contains("thunk")) {
        flags.retain(|f| f != "-fcf-protection" && f != "-mcmodel=medium");
    }
    // clang refuses both kinds of hardening at once.
    if flags.iter().any(|f| f == "-mretpoline") {
        flags.retain(|f| f != "-mlvi-cfi");
    }
    if unit.text.contains("no_caller_saved_registers") || unit.text.contains("preserve_most") {
        // The hardened return of clang 19 clobbers rax, also for a caller that keeps it.
        flags.retain(|f| f != "-mlvi-cfi");
    }
    if unit.cplus {
        // gcc's table of entries refers to functions in discarded groups.
        flags.retain(|f| !f.starts_with("-fpatchable"));
    }
    if !unit.cplus && rng.one_in(4) {
        flags.push("-fno-asynchronous-unwind-tables".into());
    }
    flags
}

/// Draw the recipe for `program` of `seed`, mostly by `compiler`. With `bitcode` most units of clang are LLVM bitcode.
pub(crate) fn draw(
    seed: u64,
    program: &SoakProgram,
    compiler: &str,
    linkers: &[String],
    bitcode: bool,
) -> Recipe {
    // Bitcode has a stream of its own. `-fsplit-lto-unit` makes two modules a file; all units of a program have it or none.
    let mut lto_rng = Rng::new(seed, 60);
    let lto = *lto_rng.pick(&["-flto=thin", "-flto=thin", "-flto"]);
    let split = if lto == "-flto=thin" && lto_rng.one_in(3) {
        "-fsplit-lto-unit -fwhole-program-vtables"
    } else {
        ""
    };
    let clang = compiler == "clang";
    let mut rng = Rng::new(seed, 1 + u64::from(clang));
    let cplus = program.units.iter().any(|u| u.cplus);
    let (mut position, mut link_position) = *rng.pick(&POSITIONS);
    let library = program.units.iter().any(|u| u.library);
    if rng.one_in(program.static_one_in) && !library {
        (position, link_position) = *rng.pick(&[("-fPIE", "-static-pie"), ("-fno-pie", "-static")]);
    }
    // Of two units one is gcc's then, and native.
    let mixed = rng.one_in(6) || bitcode && Rng::new(seed, 61).one_in(3);
    let hashes = clang && !cplus && !mixed && !program.hashless && rng.one_in(16);

    let mut compile = Vec::new();
    let mut archives: Vec<Vec<String>> = vec![Vec::new(); program.archives];
    let (mut objects, mut parts) = (Vec::new(), Vec::new());
    for unit in &program.units {
        let by = if mixed && rng.one_in(2) { *rng.pick(&COMPILERS) } else { compiler };
        let extension = if unit.cplus { "cc" } else { "c" };
        let mut command = vec![driver(by, unit.cplus).to_owned(), "-w".into()];
        command.extend(words(if unit.library { "-fPIC" } else { position }));
        command.extend(unit_flags(&mut rng, by, unit));
        command.extend(unit.flags.iter().cloned());
        if hashes {
            command.push("-fsanitize=kcfi".into());
        }
        command.extend(program.flags.iter().cloned());
        if by == "clang" && !unit.library {
            let is_bitcode = bitcode && !lto_rng.one_in(4);
            command.extend(words(lto).into_iter().chain(words(split)).filter(|_| is_bitcode));
        }
        let object = format!("{}.o", unit.name);
        command.extend(["-c".into(), format!("{}.{extension}", unit.name), "-o".into(), object.clone()]);
        compile.push(command);
        match unit.archive.and_then(|a| archives.get_mut(a)) {
            _ if unit.library => parts.push(object),
            Some(members) => members.push(object),
            None => objects.push(object),
        }
    }
    let mut link = vec![driver(compiler, cplus).to_owned(), link_position.into()];
    link.extend(drawn(&mut rng, &["link"]));
    link.extend(program.link_flags.iter().cloned());
    let level = *lto_rng.pick(&["-O0", "-O1", "-O2", "-O2", "-O3"]);
    link.extend([lto, level].into_iter().filter(|_| bitcode && level != "-O1").map(str::to_owned));
    link.extend(objects);
    link.push("-Wl,--start-group".into());
    for (i, members) in archives.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
        let name = format!("lib{i}.a");
        let ar = if bitcode { "llvm-ar-19" } else { "ar" };
        let mut command = vec![ar.into(), "rcs".into(), name.clone()];
        command.extend(members.iter().cloned());
        compile.push(command);
        link.push(name);
    }
    link.push("-Wl,--end-group".into());
    if library {
        link.push(LIBRARY.into());
    }
    let linker = rng.pick(linkers).clone();
    // A stream of its own, so that seeds keep their meaning.
    let folds = Rng::new(seed, 50 + u64::from(clang)).one_in(program.fold_one_in);
    if folds && linker == "lld" {
        link.push("-Wl,--icf=safe".into());
    }
    let is_estimated = program.unwind.is_none() && Rng::new(seed, 62).one_in(3);
    Recipe { compile, link, library: parts, linker, clang, unwind: program.unwind, is_estimated }
}
