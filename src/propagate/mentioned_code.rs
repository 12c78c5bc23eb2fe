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

/// The bytes of live code, and of live code that only address-taking references keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct MentionedCode {
    live: u64,
    /// In bytes: the code that no call reaches.
    candidates: u64,
}

impl MentionedCode {
    /// Count the code of a link; `liveness` is that by references.
    fn of(index: &Index, summaries: &[&ModuleSummary], liveness: &Liveness) -> Self {
        let code = code_sizes(index, summaries);
        let candidates = candidates(index, &code, liveness);
        let mut bytes = MentionedCode::default();
        for (atom, size) in code.iter().enumerate().filter(|(atom, _)| liveness.is_live(AtomId::new(*atom))) {
            bytes.live += size;
            bytes.candidates += if candidates[atom] { *size } else { 0 };
        }
        bytes
    }

    /// Whether value flow may remove at least this percentage of the code, and any code at all.
    fn reaches(self, percent: u8) -> bool {
        self.candidates > 0
            && self.candidates.saturating_mul(100) >= self.live.saturating_mul(u64::from(percent))
    }
}

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
    let live: u64 =
        code.iter().zip(&liveness.witness).filter(|(_, w)| w.is_some()).map(|(size, _)| size).sum();
    live <= prune.budget() && MentionedCode::of(index, summaries, liveness).reaches(prune.threshold())
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
        let bytes = MentionedCode::of(&index, &summaries, &live(&index));
        assert_eq!(bytes, MentionedCode { live: 108, candidates: 90 });
        assert!(bytes.reaches(0) && bytes.reaches(83) && !bytes.reaches(84));
        assert!(!MentionedCode { live: 108, candidates: 0 }.reaches(0));
    }
}
