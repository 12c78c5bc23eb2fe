//! The bitcode that the tests read.

use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use summaries::bitcode;

pub(crate) struct Sample {
    pub(super) name: String,
    pub(crate) bytes: Vec<u8>,
    /// The tools that read it: `19` or `14`; none for LLVM 22.
    pub(super) tools: Option<&'static str>,
}

const C: &str = include_str!("programs/corpus_c.c");

const ASM: &str = include_str!("../programs/bitcode_corpus_asm.c");

const CXX: &str = include_str!("programs/corpus_cxx.cc");

const RUST: &str = include_str!("../programs/bitcode_corpus_rust.txt");

/// IR for LLVM 14, so that its compiler is not needed.
const IR14: &str = include_str!("programs/corpus_ir14.ll");

/// The samples, from a folder that the first test fills: a process for each test would compile them again.
pub(super) fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let mut hasher = std::hash::DefaultHasher::new();
        [include_str!("corpus.rs"), C, CXX, IR14].hash(&mut hasher);
        for tool in ["clang-19", "opt-14", "rustc"] {
            run(Command::new(tool).arg("--version")).hash(&mut hasher);
        }
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = parent.join(format!("corpus-{:x}", hasher.finish()));
        if !folder.is_dir() {
            let made = tempfile::tempdir_in(parent).unwrap();
            for (i, sample) in make().iter().enumerate() {
                let name = format!("{i:03} {} {}", sample.tools.unwrap_or("none"), sample.name);
                std::fs::write(made.path().join(name), &sample.bytes).unwrap();
            }
            let made = made.keep();
            // Another test may have been first.
            if std::fs::rename(&made, &folder).is_err() {
                let _ = std::fs::remove_dir_all(made);
            }
        }
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        let read = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let (tools, name) = name[4..].split_once(' ').unwrap();
            let tools = ["19", "14"].into_iter().find(|known| *known == tools);
            Sample { name: name.to_owned(), bytes: std::fs::read(path).unwrap(), tools }
        };
        files.iter().map(read).collect()
    })
}

pub(crate) fn sample(name: &str) -> &'static Sample {
    samples().iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no sample {name}"))
}

pub(super) fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn make() -> Vec<Sample> {
    let dir = tempfile::tempdir().unwrap();
    let mut samples = Vec::new();
    let mut clang = |name: &str, compiler: &str, suffix: &str, source: &str, flags: &str| {
        let input = dir.path().join(format!("t.{suffix}"));
        std::fs::write(&input, source).unwrap();
        let output = dir.path().join("t.o");
        let words = flags.split_whitespace();
        // The source name in the module does not depend on the folder of the test.
        run(Command::new(compiler)
            .current_dir(dir.path())
            .args(words)
            .args(["-c", "-o"])
            .arg(&output)
            .arg(input.file_name().unwrap()));
        let bytes = std::fs::read(&output).unwrap();
        let bytes = match bitcode::embedded(&bytes) {
            Some(range) => bytes[range].to_vec(),
            None => bytes,
        };
        samples.push(Sample { name: name.to_owned(), bytes, tools: Some("19") });
    };
    for (name, flags) in [
        ("c-thin", "-O2 -flto=thin -fcommon"),
        ("c-full", "-O2 -flto -fcommon"),
        ("c-debug", "-O0 -g -flto=thin -fcommon"),
        ("c-fat", "-O2 -flto=thin -ffat-lto-objects -fcommon -fPIC"),
        ("c-fat-full", "-Oz -flto -ffat-lto-objects -fcommon"),
        ("c-plain", "-O1 -emit-llvm -fcommon"),
    ] {
        clang(name, "clang-19", "c", C, flags);
    }
    clang("asm-thin", "clang-19", "c", ASM, "-O2 -flto=thin");
    for (name, flags) in [
        ("cxx-thin", "-O2 -flto=thin"),
        ("cxx-full", "-O1 -g -flto"),
        ("cxx-vtables", "-O2 -flto=thin -fwhole-program-vtables -fvisibility=hidden -fno-split-lto-unit"),
        ("cxx-vtables-full", "-O2 -flto -fwhole-program-vtables -fvisibility=hidden"),
        ("cxx-split", "-O2 -flto=thin -fwhole-program-vtables -fvisibility=hidden -fsplit-lto-unit"),
        ("cxx-sanitized", "-O1 -flto=thin -fsanitize=undefined,address"),
    ] {
        clang(name, "clang++-19", "cc", CXX, flags);
    }
    wrapped(&mut samples);
    llvm14(dir.path(), &mut samples);
    rust(dir.path(), &mut samples);
    samples
}

/// As for Darwin: offset and size in a header, padding behind.
fn wrapped(samples: &mut Vec<Sample>) {
    let inner = samples.iter().find(|s| s.name == "c-thin").unwrap().bytes.clone();
    let mut bytes = Vec::new();
    for word in [0x0b17_c0deu32, 0, 20, inner.len() as u32, 7] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&inner);
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    samples.push(Sample { name: "c-wrapped".to_owned(), bytes, tools: Some("19") });
}

fn llvm14(dir: &Path, samples: &mut Vec<Sample>) {
    let (input, output) = (dir.join("old.ll"), dir.join("old.bc"));
    std::fs::write(&input, IR14).unwrap();
    for (name, flags) in [("14-thin", &["-module-summary", "-module-hash"][..]), ("14-plain", &[])] {
        run(Command::new("opt-14").args(flags).arg("-o").arg(&output).arg(&input));
        let bytes = std::fs::read(&output).unwrap();
        samples.push(Sample { name: name.to_owned(), bytes, tools: Some("14") });
    }
}

fn rust(dir: &Path, samples: &mut Vec<Sample>) {
    let input = dir.join("r.rs");
    std::fs::write(&input, RUST).unwrap();
    let rustc = |emit: &str, flags: &str| {
        let words = flags.split_whitespace();
        run(Command::new("rustc")
            .current_dir(dir)
            .args(["--crate-type=lib", "-Ccodegen-units=1"])
            .args(words)
            .args([emit, "r.rs"]));
    };
    for (name, flags) in [
        ("rust-plugin", "-Copt-level=2 -Clinker-plugin-lto"),
        ("rust-debug", "-Copt-level=0 -g -Clinker-plugin-lto"),
    ] {
        rustc("--emit=obj=r.o", flags);
        let bytes = std::fs::read(dir.join("r.o")).unwrap();
        samples.push(Sample { name: name.to_owned(), bytes, tools: None });
    }
    rustc("--emit=llvm-bc=r.bc", "-Copt-level=3");
    let bytes = std::fs::read(dir.join("r.bc")).unwrap();
    samples.push(Sample { name: "rust-bc".to_owned(), bytes, tools: None });
    // The standard library carries its bitcode in `.llvmbc`.
    let sysroot = String::from_utf8(run(Command::new("rustc").args(["--print", "sysroot"]))).unwrap();
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/lib");
    let is_alloc = |p: &std::path::PathBuf| {
        let name = p.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("liballoc-") && name.ends_with(".rlib")
    };
    let entries = std::fs::read_dir(libraries).unwrap().map(|e| e.unwrap().path());
    let library = entries.into_iter().find(is_alloc).unwrap();
    run(Command::new("ar").current_dir(dir).arg("x").arg(&library));
    let mut members: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    members.retain(|p| p.to_string_lossy().ends_with(".rcgu.o"));
    members.sort();
    for (i, member) in members.iter().enumerate() {
        let object = std::fs::read(member).unwrap();
        let range = bitcode::embedded(&object).unwrap_or_else(|| panic!("{member:?} has no bitcode"));
        samples.push(Sample { name: format!("rust-alloc-{i}"), bytes: object[range].to_vec(), tools: None });
    }
}
