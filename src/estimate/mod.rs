//! The pass estimate: which modules are worth dividing, by reachability over symbols and relocations, before any code is decoded.
//!
//! Without decoding it is not known which static functions a function calls. So a local function counts as live with its section: compilers
//! emit none that nothing in its unit refers to. A global function or a cold part is live only if a relocation of live code refers to it, and so is
//! every object. A module in which such a range is dead may have more that is dead, and is worth decoding; any other is not ([`ranges`]).
//!
//! It decides where to look, and never what is removed. A module that is not divided keeps each section of which something lives. One from which
//! too few bytes would go is kept whole ([`Limit::NotWorth`]). So nothing goes that would not go if all were decoded. Left out: links of little code,
//! in which all is decoded sooner than this is computed.

mod ranges;

use std::collections::BTreeMap;

use rayon::prelude::*;
use summaries::{AtomKind, Granularity, Limit, LimitRecord, ModuleKind, ModuleSummary, native};

use crate::config::{Config, Dialect, Level};
use crate::index::{self, Index, LinkInputs};
use crate::inputs::{FileKind, Inputs};
use crate::propagate::solver::{Lattice, Problem, solve};
use crate::resolve::{Resolution, link_limit};
use crate::summarize::LoadedSummary;
use ranges::{RangeGraph, RangeKind};

/// A link with fewer bytes of code than this is decoded as a whole.
const LITTLE_CODE: u64 = 64 << 10;
/// A module is left as it is if fewer bytes than this would go from it. Measured: below it is nearly none of what goes.
const WORTH: u64 = 256;
/// Of so many bytes that are loaded at most one is left for the sake of all modules that are left as they are.
const LOADED_FOR_ONE: u64 = 4_000;

/// How many bytes have to go from a module for it to be rewritten. 0: all modules are decoded, and each byte counts.
pub fn threshold(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> u64 {
    let prune = &config.prune;
    // Each action of a build system sees one module, and would come to another estimate.
    let in_actions = prune.plan_dir.is_some()
        || prune.emitted_dir.is_some()
        || inputs.files.iter().any(|file| file.interface.is_some());
    if in_actions || prune.level == Level::Sections || prune.limit.is_some() || prune.limit_log.is_some() {
        return 0;
    }
    prune.worth.unwrap_or_else(|| {
        let code = |module: &_| match inputs.modules[*module].kind {
            FileKind::Object => native::code_section_sizes(inputs.module_bytes(*module)).iter().sum(),
            _ => 0,
        };
        let is_large = || resolution.loaded.par_iter().map(code).sum::<u64>() >= LITTLE_CODE;
        if !prune.level_explicit && is_large() { WORTH } else { 0 }
    })
}

/// What the estimate says of a link whose modules have these summaries.
#[derive(Debug)]
pub struct Estimate {
    /// Positions of modules whose code has to be decoded, ascending.
    pub divide: Vec<usize>,
    /// Modules that are left as they are: the position, and the bytes that would go.
    pub not_worth: Vec<(usize, u64)>,
}

impl Estimate {
    /// Keep the modules whole that are left as they are.
    pub fn keep_whole(&self, modules: &mut [LoadedSummary]) {
        for (position, bytes) in &self.not_worth {
            let detail = format!("{bytes} bytes would go from it and for its sake");
            let record = LimitRecord { bytes: *bytes, ..link_limit(Limit::NotWorth, detail) };
            modules[*position].summary.limits.push(record);
        }
    }
}

/// What reaches a range: 0 the program, and else one more than the position of the module that is left as it is, if nothing before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FirstReason(u32);

impl Lattice for FirstReason {
    fn join(&mut self, other: &Self) -> bool {
        let is_first = *other < *self;
        *self = (*self).min(*other);
        is_first
    }
}

impl Problem for RangeGraph {
    type Fact = FirstReason;

    fn keys(&self) -> usize {
        self.range_count()
    }

    fn transfer(&self, key: u32, fact: &FirstReason, implies: &mut dyn FnMut(u32, FirstReason)) {
        self.targets(key).iter().for_each(|target| implies(*target, *fact));
    }
}

/// The bytes of one module.
#[derive(Debug, Clone, Copy, Default)]
struct ModuleBytes {
    loaded: u64,
    live_code: u64,
    /// In sections that live, the ranges that are dead by themselves.
    dead: u64,
    /// In those sections, the local functions that may be dead with them.
    doubtful: u64,
    /// In sections or atoms of which nothing lives.
    whole: u64,
}

/// Estimate what goes from each module.
pub fn of_link(link: LinkInputs<'_>, threshold: u64) -> Estimate {
    let LinkInputs { config, summaries, .. } = link;
    let index = index::without_edges(link);
    let graph = RangeGraph::new(link, &index);
    let roots: Vec<(u32, FirstReason)> =
        graph.roots(link, &index).map(|node| (node, FirstReason(0))).collect();
    let reached = solve(&graph, roots.clone());
    let is_live = |node: u32| reached[node as usize].is_some();
    let of_module = |position| module_bytes(&graph, &index, summaries[position], position, &is_live);
    let bytes: Vec<ModuleBytes> = (0..summaries.len()).into_par_iter().map(of_module).collect();
    let is_undivided = |position: &usize| {
        let summary = summaries[*position];
        summary.kind == ModuleKind::Native
            && summary.granularity == Granularity::Sections
            && !index.modules[*position].kept_whole
    };
    let live_code: u64 = bytes.iter().map(|bytes| bytes.live_code).sum();
    // Values are followed in all live functions, or in none.
    let is_followed = config.prune.level == Level::Pointers && live_code <= config.prune.budget();
    let not_worth = not_worth(link, &index, &graph, roots, &is_live, &bytes, threshold);
    let divide = |position: &usize| {
        let ModuleBytes { dead, live_code, .. } = bytes[*position];
        let is_worth = not_worth.binary_search_by_key(position, |(position, _)| *position).is_err();
        is_undivided(position) && (dead > 0 && is_worth || is_followed && live_code > 0)
    };
    Estimate { divide: (0..summaries.len()).filter(divide).collect(), not_worth }
}

fn module_bytes(
    graph: &RangeGraph,
    index: &Index,
    summary: &ModuleSummary,
    position: usize,
    is_live: &dyn Fn(u32) -> bool,
) -> ModuleBytes {
    let mut bytes = ModuleBytes::default();
    for (id, atom) in index.atoms_of(position).zip(&summary.atoms) {
        if index.discarded[id] || !atom.kind.is_alloc() {
            continue;
        }
        bytes.loaded += atom.size;
        let ranges = graph.ranges_of(id);
        if !is_live(ranges.start) {
            bytes.whole += atom.size;
            continue;
        }
        let of = |kind: RangeKind, live: bool| -> u64 {
            let is_of = |node: &u32| graph.kind(*node) == kind && is_live(*node) == live;
            ranges.clone().skip(1).filter(is_of).map(|node| graph.size(node)).sum()
        };
        let dead = of(RangeKind::ByReference, false);
        bytes.dead += dead;
        if atom.kind == AtomKind::Code {
            bytes.live_code += atom.size - dead.min(atom.size);
        }
        if dead > 0 {
            bytes.doubtful += of(RangeKind::WithSection, true);
        }
    }
    bytes
}

/// The modules from which little would go, with all that they alone refer to, the smallest first, until together they keep too much.
fn not_worth(
    link: LinkInputs<'_>,
    index: &Index,
    graph: &RangeGraph,
    roots: Vec<(u32, FirstReason)>,
    is_live: &dyn Fn(u32) -> bool,
    bytes: &[ModuleBytes],
    threshold: u64,
) -> Vec<(usize, u64)> {
    let LinkInputs { config, summaries, .. } = link;
    // lld collects dead sections of the objects that it gets. Nothing of an object has to be rewritten for those.
    let linker_collects = config.gc_sections && config.linker.dialect == Dialect::Lld;
    let own = |position: usize| {
        let ModuleBytes { dead, doubtful, whole, .. } = bytes[position];
        dead + doubtful + if linker_collects { 0 } else { whole }
    };
    let goes = |position: &usize| {
        let ModuleBytes { dead, whole, .. } = bytes[*position];
        dead + whole > 0
            && summaries[*position].kind == ModuleKind::Native
            && !index.modules[*position].kept_whole
    };
    let candidates: Vec<usize> = (0..bytes.len()).filter(goes).filter(|p| own(*p) < threshold).collect();
    let mut initial = roots;
    for position in &candidates {
        let atoms =
            index.atoms_of(*position).filter(|id| !index.discarded[*id]).map(|id| graph.ranges_of(id));
        let stay = atoms.filter(|ranges| !linker_collects || is_live(ranges.start));
        initial.extend(stay.flatten().map(|node| (node, FirstReason(*position as u32 + 1))));
    }
    let reached = solve(graph, initial);
    let mut kept: BTreeMap<usize, u64> =
        candidates.iter().map(|position| (*position, own(*position))).collect();
    for position in (0..summaries.len()).filter(|position| candidates.binary_search(position).is_err()) {
        for node in index.atoms_of(position).flat_map(|id| graph.ranges_of(id)) {
            if let Some(FirstReason(reason @ 1..)) = reached[node as usize]
                && let Some(sum) = kept.get_mut(&(reason as usize - 1))
            {
                *sum += graph.size(node);
            }
        }
    }
    let loaded: u64 = bytes.iter().map(|bytes| bytes.loaded).sum();
    let mut left = loaded / LOADED_FOR_ONE;
    let mut sums: Vec<(u64, usize)> = kept.into_iter().map(|(position, sum)| (sum, position)).collect();
    sums.sort_unstable();
    let fits = |(sum, _): &(u64, usize)| {
        let fits = *sum < threshold && *sum <= left;
        left -= if fits { *sum } else { 0 };
        fits
    };
    let mut fitting: Vec<(usize, u64)> =
        sums.into_iter().take_while(fits).map(|(sum, position)| (position, sum)).collect();
    fitting.sort_unstable();
    fitting
}

#[cfg(test)]
mod tests {
    use summaries::ModuleSummary;

    use super::*;
    use crate::index::tests::Link;

    /// The start calls `used`, whose cold part is in another section. Nothing refers to `dead`, which is beside it, nor to its cold part. The local
    /// function may be called by either.
    const ONE: &str = "module native
symbol \"\"
symbol _start global func in [.text.start] size 0x10
symbol used global func in [.text] size 0x100
symbol dead global func in [.text] value 0x100 size 0x180
symbol local local func in [.text] value 0x280 size 0x40
symbol used.cold local func in [.text.unlikely] size 0x10
symbol dead.cold local func in [.text.unlikely] value 0x10 size 0x300
atom .text.start code section 1 size 0x10 align 16 flags exec,standard
  call @0x4 used -4
atom .text code section 2 size 0x2c0 align 16 flags exec,standard
  address @0x4 [.text.unlikely] -4
  address @0x104 [.text.unlikely] 12
atom .text.unlikely code section 3 size 0x310 align 16 flags exec,standard
";

    /// All of it is dead; the other module's `dead` has the only mention of it.
    const OTHER: &str = "module native
symbol \"\"
symbol other global func in [.text] size 0x80
symbol dead global
atom .text code section 1 size 0x80 align 16 flags exec,standard
  call @0x4 dead -4
";

    fn of_texts(budget: u64, texts: &[&str], threshold: u64) -> Estimate {
        let mut link = Link::new("a.o -e _start -o a", texts);
        link.config.prune.budget = Some(budget);
        let (inputs, resolution) = (Inputs::default(), link.resolution());
        let summaries: Vec<&ModuleSummary> = link.summaries.iter().collect();
        of_link(link.inputs(&inputs, &resolution, &summaries), threshold)
    }

    /// So that there is enough to leave something for.
    const LARGE: &str = "module native
symbol \"\"
symbol large global func in [.text] size 0x1000000
atom .text code section 1 size 0x1000000 align 16 flags exec,standard
";

    fn one_of_large() -> String {
        let one = ONE.replace("symbol dead global", "symbol large global\nsymbol dead global");
        one.replace("call @0x4 used -4", "call @0x4 used -4\n  call @0x9 large -4")
    }

    #[test]
    fn a_dead_function_and_its_cold_part_are_worth_decoding() {
        let one = one_of_large();
        // 0x180 of the function, 0x300 of its cold part, and the local function.
        assert_eq!(of_texts(0, &[&one, LARGE], 0x4c0).divide, [0]);
        let found = of_texts(0, &[&one, LARGE], 0x4c1);
        assert!(found.divide.is_empty() && found.not_worth == [(0, 0x4c0)], "{found:?}");
        // With so little beside it, it is not left.
        assert_eq!(of_texts(0, &[ONE], 0x4c1).divide, [0]);
        let all_live = ONE.replace("call @0x4 used -4", "call @0x4 used -4\n  call @0x9 dead -4");
        assert!(of_texts(0, &[&all_live], 1).divide.is_empty());
    }

    #[test]
    fn what_is_not_worth_it_is_left_unless_it_keeps_much() {
        let one = one_of_large();
        // Of the other module all goes.
        assert_eq!(of_texts(0, &[&one, OTHER, LARGE], 0x1000).not_worth, [(0, 0x4c0), (1, 0x80)]);
        let other = OTHER.replace("call @0x4 dead -4", "call @0x4 dead -4\n  call @0x9 unused -4");
        let other = other.replace("symbol dead global", "symbol dead global\nsymbol unused global func");
        let unused = "module native
symbol \"\"
symbol unused global func in [.text] size 0x2000
atom .text code section 1 size 0x2000 align 16 flags exec,standard
";
        let found = of_texts(0, &[&one, &other, LARGE, unused], 0x1000);
        assert_eq!(found.not_worth, [(0, 0x4c0)]);
    }

    #[test]
    fn values_are_followed_in_all_live_functions_or_in_none() {
        let all_live = ONE.replace("call @0x4 used -4", "call @0x4 used -4\n  call @0x9 dead -4");
        assert_eq!(of_texts(1 << 14, &[&all_live], 256).divide, [0]);
    }
}
