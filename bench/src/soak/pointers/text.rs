//! What all units of a program share, and how the texts of carriers are filled in.
//!
//! `zero` is never written and volatile, so that compilers can't know it; `touch` is a call that they can't see into.

use super::{Carrier, Chain, Weaver};

pub(super) const HEAD: &str = r#"#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <ucontext.h>
#include <unistd.h>
#include <link.h>
#include <sys/mman.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned (*fn)(unsigned, unsigned);
extern volatile unsigned zero;
extern int fuel;
extern unsigned sum;
unsigned hash_text(unsigned h, const char *s);
void touch(unsigned *x);
void *xmalloc(size_t n);
void *xrealloc(void *p, size_t n);
void *arena(size_t n);
#ifdef __cplusplus
}
#endif
"#;

/// What a unit of C++ needs besides: the header, and the words of its text that ask for it. Only these are included, since
/// reading headers would be half of a soak's time.
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

/// What a unit of C++ with this text begins with besides [`HEAD`].
pub(super) fn plus(text: &str) -> String {
    let mut out = String::from("#include <exception>\n#include <new>\n#include <typeinfo>\n");
    for (header, words) in PLUS {
        if words.iter().any(|w| text.contains(w)) {
            out.push_str(&format!("#include <{header}>\n"));
        }
    }
    out
}

pub(super) const BASE: &str = r#"volatile unsigned zero;
int fuel;
unsigned sum = 17;
unsigned hash_text(unsigned h, const char *s) { while (*s) h = h * 31u + (unsigned char)*s++; return h; }
__attribute__((noinline)) void touch(unsigned *x) { *x += 3u + zero; }
void *xmalloc(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
void *xrealloc(void *p, size_t n) { p = realloc(p, n); if (!p) abort(); return p; }
static union { char bytes[16384]; long double align; } pool;
static size_t used;
void *arena(size_t n) { void *p = pool.bytes + (used + n <= sizeof pool.bytes ? used : (used = 0)); used += (n + 15) & ~(size_t)15; return p; }
"#;

impl Weaver {
    /// Fill in a text of `carrier` that is to stand in `unit`.
    fn fill(&mut self, text: &str, unit: usize, of: &Filling) -> String {
        let mut out = String::with_capacity(text.len() * 2);
        let mut rest = text;
        while let Some(at) = rest.find('@') {
            out.push_str(&rest[..at]);
            let mark = rest[at + 1..].chars().next().unwrap_or('@');
            rest = &rest[at + 1 + mark.len_utf8()..];
            match mark {
                'v' => out.push_str(&of.value),
                'o' => out.push_str(&format!("v{}", of.id)),
                '#' => out.push_str(&of.id.to_string()),
                'd' => out.push_str(&self.function("decoy", unit)),
                't' => out.push_str(&self.function("other", unit)),
                'i' => out.push_str(&of.index.to_string()),
                'z' => out.push_str(self.rng.pick::<&str>(&["zero", "zero", "(a & zero)", "0u"])),
                'K' => out.push_str(&self.rng.literal()),
                'n' => {
                    let perhaps = self.noinline();
                    out.push_str(perhaps);
                }
                's' => out.push_str(self.rng.pick::<&str>(&["", "static "])),
                other => out.extend(['@', other]),
            }
        }
        out.push_str(rest);
        out
    }

    /// Send the value of a chain through a carrier.
    pub(super) fn place(&mut self, chain: &mut Chain, carrier: &Carrier) {
        let of = Filling { value: chain.value.clone(), id: self.fresh(), index: self.rng.below(4) };
        let shared = self.fill(carrier.shared, chain.unit, &of);
        self.shared.push_str(&shared);
        let there = self.any_unit();
        for (text, unit) in [(carrier.there, there), (carrier.here, chain.unit)] {
            let text = self.fill(text, unit, &of);
            self.drafts[unit].items.push_str(&text);
        }
        let body = self.fill(carrier.body, chain.unit, &of);
        chain.body.push_str(&body);
        chain.body.push('\n');
        chain.value = format!("v{}", of.id);
    }
}

/// What one use of a carrier is filled in with.
struct Filling {
    value: String,
    id: usize,
    index: usize,
}
