//! The bitcode that the tests read.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use summaries::bitcode;

pub(super) struct Sample {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    /// The tools that read it: `19` or `14`; none for LLVM 22.
    pub(super) tools: Option<&'static str>,
}

const C: &str = r#"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
void away(void);
int g = 3; static int s; int tentative[40]; __thread int t; static __thread int st = 4; extern int ext;
extern int weak_ext __attribute__((weak));
extern __thread int ext_t;
__attribute__((weak)) int w(int a) { return a + ext; }
static int (*table[2])(int) = { w, w };
__attribute__((visibility("hidden"))) int h(int i) { return table[i](i) + s; }
__attribute__((visibility("protected"))) int p(int i) { return h(i) + st + ext_t; }
int alias_of_w(int) __attribute__((alias("w")));
static int resolve(int x) { return x; }
static int (*resolver(void))(int) { return resolve; }
int ifn(int) __attribute__((ifunc("resolver")));
__attribute__((used)) static void used_one(void) { s++; st++; }
__attribute__((section("mine"))) int in_section = 5;
__attribute__((retain, used)) int retained;
__attribute__((constructor)) static void ctor(void) { away(); }
extern inline __attribute__((gnu_inline)) int avail(int x) { return x * 7; }
int renamed(int) __asm__("\x01other");
const char *text(int i) { static const char *const names[] = { "a", "b", "c" }; return names[i % 3]; }
int sum(int n, ...) { va_list l; va_start(l, n); int r = 0; while (n--) r += va_arg(l, int); va_end(l); return r; }
int main(int c, char **v) {
    char b[100];
    memset(b, c, 100);
    switch (c) { case 1: w(1); break; case 2: h(2); break; case 3: p(3); break; case 4: ifn(2); break; case 5: renamed(6); }
    printf("%d\n", h(c) + g + t + (&weak_ext ? weak_ext : 0) + b[3] + tentative[c] + avail(c) + sum(2, 1, 2));
    return alias_of_w(c);
}
"#;

const ASM: &str = r#"
asm(".globl asm_defined\nasm_defined: jmp asm_wanted\n.weak asm_weak\n.hidden asm_hidden\n.globl asm_hidden\nasm_hidden: ret\n");
extern void asm_defined(void);
void call(void) { asm_defined(); }
"#;

const CXX: &str = r#"
#include <string>
#include <vector>
#include <memory>
#include <stdexcept>
struct Base { virtual int f() { return 1; } virtual int g(); virtual ~Base(); };
int Base::g() { return 2; }
Base::~Base() {}
struct Derived final : Base { int f() override { return 3; } int g() override; std::string s; };
int Derived::g() { try { if (s.empty()) throw std::runtime_error(s); } catch (const std::exception &e) { return 5; } return 4; }
namespace { struct Hidden : Base { int f() override { return 6; } }; }
template <class T> T twice(T x) { static T cache = x; return cache + x; }
inline thread_local int counter = 0;
int call(Base &b) { counter++; return b.f() + b.g(); }
std::unique_ptr<Base> make(int i) { if (i) return std::make_unique<Derived>(); return std::make_unique<Hidden>(); }
int use(std::vector<std::string> &v) { v.push_back("x"); return twice(2) + static_cast<int>(twice<std::string>("y").size()); }
"#;

const RUST: &str = r#"
use std::sync::atomic::{AtomicUsize, Ordering};
static C: AtomicUsize = AtomicUsize::new(0);
std::thread_local!(static L: std::cell::Cell<i32> = std::cell::Cell::new(3));
#[no_mangle] pub extern "C" fn rust_fn(x: i32) -> i32 { C.fetch_add(1, Ordering::Relaxed); L.with(|l| l.set(x)); x * 3 }
pub trait T { fn f(&self) -> i32; fn g(&self) -> i32 { 3 } }
pub struct A(pub i32);
impl T for A { fn f(&self) -> i32 { self.0 } }
pub fn dynamic(t: &dyn T) -> i32 { t.f() + t.g() }
pub fn boxes(n: usize) -> Vec<Box<dyn T>> { (0..n).map(|i| Box::new(A(i as i32)) as Box<dyn T>).collect() }
"#;

/// What LLVM 14 is given: its compiler isn't needed to have its bitcode.
const IR14: &str = r#"
source_filename = "old.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
$grouped = comdat any
$kept = comdat nodeduplicate
@g = global i32 3, align 4
@s = internal global i32 0, section "mine", align 8
@c = private unnamed_addr constant [3 x i8] c"ab\00"
@common = common hidden global i64 0, align 8
@t = thread_local(localdynamic) global i32 4
@ext = external global i32
@weak = extern_weak global i32
@table = internal constant [2 x i32 (i32)*] [i32 (i32)* @f, i32 (i32)* @grouped]
@kept = linkonce_odr protected global i32 2, comdat
@llvm.used = appending global [1 x i8*] [i8* bitcast (i32* @s to i8*)], section "llvm.metadata"
@al = weak alias i32 (i32), i32 (i32)* @f
@if = ifunc i32 (i32), i32 (i32)* ()* @resolver
define i32 @f(i32 %x) {
  %a = load i32, i32* @g
  store i32 %x, i32* @s
  %r = call i32 @grouped(i32 %a)
  %q = tail call i32 @away(i32 %r)
  ret i32 %q
}
define linkonce_odr i32 @grouped(i32 %x) comdat {
  %p = getelementptr [2 x i32 (i32)*], [2 x i32 (i32)*]* @table, i32 0, i32 %x
  %f = load i32 (i32)*, i32 (i32)** %p
  %r = call i32 %f(i32 %x)
  ret i32 %r
}
define internal i32 (i32)* @resolver() { ret i32 (i32)* @f }
define available_externally i32 @copy() { ret i32 4 }
define weak_odr hidden void @odr() { ret void }
declare i32 @away(i32)
declare extern_weak void @maybe()
define void @calls_maybe() {
  call void @maybe()
  ret void
}
"#;

pub(super) fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(make)
}

pub(super) fn sample(name: &str) -> &'static Sample {
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
        // The name in the module is what we say, wherever the test runs.
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
