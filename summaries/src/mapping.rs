//! Functions that map memory at an address that the program chooses.
//!
//! Analysed addresses come from relocations and from calls that allocate memory. A program that asks the kernel for memory at a fixed address can form
//! addresses from numbers alone, and keep functions there that no analysis sees. So these calls must leave the address to the
//! kernel, or the link has no value flow ([`crate::limit::Limit::FixedMapping`]). `__mmap` and the like are internal to the C
//! library.

use crate::limit::{Limit, LimitRecord, Severity};
use crate::registers::{RCX, RDI, RSI, Register};
use crate::summary::{AtomKind, Definition, ModuleSummary, Target};

pub(crate) struct Mapping {
    pub(crate) name: &'static [u8],
    /// The register of the argument with the address, or with the flag for one.
    pub(crate) register: Register,
    /// The number of that argument, from 0.
    pub(crate) argument: usize,
    says: PlaceCondition,
}

/// The condition under which an argument requests an address.
enum PlaceCondition {
    /// If one of these bits is set.
    Bits(u64),
    /// If its low 32 bits are one of these.
    Values([u64; 5]),
}

impl Mapping {
    /// Whether a call with this constant argument leaves the address to the kernel, or maps and protects no memory.
    pub(crate) fn leaves_it_open(&self, argument: u64) -> bool {
        match self.says {
            PlaceCondition::Bits(bits) => argument & bits == 0,
            PlaceCondition::Values(values) => !values.contains(&(argument & 0xffff_ffff)),
        }
    }
}

/// The numbers of the system calls `mmap`, `mremap` and `shmat`, and of `mprotect` and `pkey_mprotect`, which make data
/// writable.
const SYSTEM_CALLS: [u64; 5] = [9, 25, 30, 10, 329];

/// `mmap(2)`, `shmat(2)`; `mremap(2)` takes an address if its flags have `MREMAP_FIXED`; `syscall(2)` can be any of them.
const MAPPINGS: [Mapping; 5] = [
    Mapping { name: b"mmap", register: RDI, argument: 0, says: PlaceCondition::Bits(u64::MAX) },
    Mapping { name: b"mmap64", register: RDI, argument: 0, says: PlaceCondition::Bits(u64::MAX) },
    Mapping { name: b"shmat", register: RSI, argument: 1, says: PlaceCondition::Bits(u64::MAX) },
    Mapping { name: b"syscall", register: RDI, argument: 0, says: PlaceCondition::Values(SYSTEM_CALLS) },
    Mapping { name: b"mremap", register: RCX, argument: 3, says: PlaceCondition::Bits(2) },
];

/// Add the limit for a module that is linked as it is, so that its calls were not analysed, if it may call one of these functions.
pub(crate) fn count_unseen(summary: &mut ModuleSummary) {
    let is_seen = |l: &LimitRecord| l.limit == Limit::FixedMapping || l.limit.severity() < Severity::Module;
    if summary.limits.iter().all(is_seen) {
        return;
    }
    let undefined = summary.symbols.iter().filter(|s| s.definition == Definition::Undefined);
    let Some(found) = undefined.map(|s| summary.name(s.name)).find(|name| mapping(name).is_some()) else {
        return;
    };
    let detail = format!("a call of {} may say where", String::from_utf8_lossy(found));
    summary.limits.push(LimitRecord::new(Limit::FixedMapping, detail));
}

/// Note that live data has the address of such a function, because its reader may call it. `live` gives the liveness of each atom.
/// The front ends find the same, but only after analysing the functions of the module. True if there is such data.
pub fn note_in_data(summary: &mut ModuleSummary, live: &[bool]) -> bool {
    let maps: Vec<bool> = summary.symbols.iter().map(|s| maps_memory(summary.name(s.name))).collect();
    if !maps.contains(&true) {
        return false;
    }
    let found = summary.references.iter().find_map(|r| {
        let Target::Symbol(symbol) = r.target else { return None };
        let atom = summary.atoms.get(r.from.index())?;
        let is_data = atom.kind.is_alloc() && atom.kind != AtomKind::Code;
        let is_live = live.get(r.from.index()) == Some(&true);
        (is_data && is_live && maps.get(symbol.index()) == Some(&true)).then_some((atom, symbol))
    });
    let Some((atom, symbol)) = found else { return false };
    let [section, callee] =
        [summary.name(atom.name), summary.symbol_name(symbol)].map(String::from_utf8_lossy);
    let detail =
        format!("data in section {section} has the address of {callee}, so that a call of it may say where");
    let (section, bytes) = (Some(atom.section), atom.size);
    summary.limits.push(LimitRecord { limit: Limit::FixedMapping, section, offset: None, bytes, detail });
    true
}

/// Whether the function of this name can map memory at a requested address.
pub fn maps_memory(name: &[u8]) -> bool {
    mapping(name).is_some()
}

/// The function of this name, if it maps memory.
pub(crate) fn mapping(name: &[u8]) -> Option<&'static Mapping> {
    // With or without a version.
    let name = name.split(|b| *b == b'@').next().unwrap_or(name);
    MAPPINGS.iter().find(|m| m.name == name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MODULE: &str = "module native functions
symbol \"\"
symbol mmap undefined
symbol read undefined
atom .text code section 1 size 8 flags exec,standard
  address @1 mmap 0
atom table data section 2 size 16 flags write,standard
  data @0 read 0
atom .data.dead data section 3 size 8 flags write,standard
  data @0 mmap 0
";

    #[test]
    fn only_live_data_is_noted() {
        for (live, expected) in [([true, true, false], 0), ([true, true, true], 1), ([true, false, true], 1)]
        {
            let mut summary = crate::text::parse(MODULE).unwrap();
            assert_eq!(note_in_data(&mut summary, &live), expected > 0, "{live:?}");
            let noted =
                summary.limits.iter().filter(|l| l.limit == Limit::FixedMapping && l.section == Some(3));
            assert_eq!(noted.count(), expected, "{live:?}");
        }
    }
}
