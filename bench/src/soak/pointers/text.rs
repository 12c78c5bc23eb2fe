//! The texts that all units of a program share, and how the texts of carriers are filled in.
//!
//! `zero` is volatile and never written, so that compilers do not know it. `touch` is a call whose callee they do not see.

use super::{Carrier, Chain, Weaver};

pub(super) const HEAD: &str = include_str!("../texts/pointers.h");
pub(super) const BASE: &str = include_str!("../texts/pointers.c");

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
pub(super) fn plus(text: &str) -> String {
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
        let shared = self.fill(&carrier.shared, chain.unit, &of);
        self.shared.push_str(&shared);
        let there = self.any_unit();
        for (text, unit) in [(&carrier.there, there), (&carrier.here, chain.unit)] {
            let text = self.fill(text, unit, &of);
            self.drafts[unit].items.push_str(&text);
        }
        let body = self.fill(&carrier.body, chain.unit, &of);
        chain.body.push_str(&body);
        chain.body.push('\n');
        chain.value = format!("v{}", of.id);
    }
}

/// The values for the marks of one use of a carrier.
struct Filling {
    value: String,
    id: usize,
    index: usize,
}
