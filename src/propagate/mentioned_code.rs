//! Upper bound of the gain of value flow: the bytes of code that is live only because its address is taken.
//!
//! Two reachability passes find this code: one over all edges, and one without the edges that only take the address of code.
//! Value flow keeps everything that the second pass reaches. If the difference is too small, value flow is skipped, and liveness
//! by references is the result. Data that is removed with such code is not counted.

use summaries::{AtomKind, ModuleSummary};

use super::liveness::{Liveness, reach};
use crate::config::{Config, Level};
use crate::ids::{AtomId, Id};
use crate::index::{Edge, EdgeKind, Index, Root, RootReason};

/// By atom: it is live, and reached only through an address that is taken. `code` has the bytes of code of each atom.
pub(crate) fn candidates(index: &Index, code: &[u64], liveness: &Liveness) -> Vec<bool> {
    // The start file's code has the address of `main` to have it called.
    let entry = |root: &&Root| root.reason == RootReason::Entry;
    let entries: Vec<AtomId> = index.roots.iter().filter(entry).map(|root| root.atom).collect();
    let is_mention = |edge: &Edge| {
        let by_address = matches!(edge.kind, EdgeKind::Address | EdgeKind::Data | EdgeKind::Got);
        by_address && !edge.has(Edge::STRUCTURAL | Edge::CALLS) && code[edge.target.index()] > 0
    };
    let called = reach(index, &|_| true, &|from, edge| entries.contains(&from) || !is_mention(edge));
    let atoms = (0..index.atom_count()).map(AtomId::new);
    atoms.map(|atom| liveness.is_live(atom) && !called.is_live(atom)).collect()
}

/// Whether the functions that are live by references are summarised for value flow. This needs the level `pointers`, enough code
/// that may be removed, and live code within the budget.
pub fn is_followed(
    config: &Config,
    summaries: &[&ModuleSummary],
    index: &Index,
    liveness: &Liveness,
) -> bool {
    let prune = &config.prune;
    if prune.level != Level::Pointers {
        return false;
    }
    let code = code_sizes(index, summaries);
    let live = bytes_of(&code, |atom| liveness.is_live(atom));
    live <= prune.budget() && {
        let candidates = candidates(index, &code, liveness);
        reaches(bytes_of(&code, |atom| candidates[atom.index()]), live, prune.threshold())
    }
}

/// Whether value flow may remove at least this percentage of the live bytes of code, and any code at all.
fn reaches(candidates: u64, live: u64, percent: u8) -> bool {
    candidates > 0 && candidates.saturating_mul(100) >= live.saturating_mul(u64::from(percent))
}

/// The bytes of code of these atoms.
pub(crate) fn bytes_of(code: &[u64], is_counted: impl Fn(AtomId) -> bool) -> u64 {
    code.iter().enumerate().filter(|(atom, _)| is_counted(AtomId::new(*atom))).map(|(_, size)| size).sum()
}

/// The bytes of code of each atom. A function of LLVM bitcode counts by its block of bitcode.
pub(crate) fn code_sizes(index: &Index, summaries: &[&ModuleSummary]) -> Vec<u64> {
    let mut sizes = Vec::with_capacity(index.atom_count());
    for atom in summaries.iter().flat_map(|summary| &summary.atoms) {
        sizes.push(if atom.kind == AtomKind::Code { atom.size } else { 0 });
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::build;
    use crate::index::tests::Link;
    use crate::inputs::Inputs;
    use crate::propagate::live;

    /// The start takes the address of `f`, as of `main`, and a table those of `g` and `h`; `g` calls `k`; nothing refers to `dead`.
    const MODULE: &str = "module native functions
symbol \"\"
symbol _start global func in [.text._start] size 8
atom .text._start code section 1 size 8 flags exec,standard
  address @1 [.text.f] 0
  address @5 [table] -4
atom .text.f code section 2 size 10 flags exec,standard
atom .text.g code section 3 size 20 flags exec,standard
  call @2 [.text.k] -4
atom .text.h code section 4 size 30 flags exec,standard
atom .text.k code section 5 size 40 flags exec,standard
atom .text.dead code section 6 size 50 flags exec,standard
atom table data section 7 size 16 flags write,standard
  data @0 [.text.g] 0
  data @8 [.text.h] 0
";

    #[test]
    fn what_no_call_reaches_is_counted() {
        let link = Link::new("a.o -e _start -o out", &[MODULE]);
        let resolution = link.resolution();
        let summaries: Vec<&ModuleSummary> = link.summaries.iter().collect();
        let index = build(link.inputs(&Inputs::default(), &resolution, &summaries));
        let (liveness, code) = (live(&index), code_sizes(&index, &summaries));
        let candidates = candidates(&index, &code, &liveness);
        let bytes = bytes_of(&code, |atom| candidates[atom.index()]);
        assert_eq!((bytes_of(&code, |atom| liveness.is_live(atom)), bytes), (108, 90));
        assert!(reaches(90, 108, 0) && reaches(90, 108, 83) && !reaches(90, 108, 84));
        assert!(!reaches(0, 108, 0));
    }
}
