//! The pass estimate: the modules that are worth dividing, by reachability over symbols and relocations, before any code is decoded.
//!
//! Without decoding, calls between static functions are unknown. So a local function counts as live with its section; compilers
//! emit no unreferenced static function. A global function, a cold part or an object is live only if a relocation of live code refers
//! to it. A module with a dead range is decoded, because more of it may be dead ([`ranges`]).
//!
//! The estimate only chooses the modules to decode; liveness over the index decides what is removed. A module that is not decoded keeps each section
//! with a live byte, and one with too few removable bytes is kept whole ([`Limit::NotWorth`]). Links of little code are decoded as a
//! whole, which takes less time than the estimate.

mod ranges;

use std::collections::BTreeMap;

use rayon::prelude::*;
use summaries::{AtomKind, Granularity, Limit, LimitRecord, ModuleKind, ModuleSummary, extract, native};

use crate::config::{Config, Level, UnwindPruning};
use crate::ids::{ModuleId, SymbolId};
use crate::index::{self, Index, LinkInputs};
use crate::inputs::{FileKind, Inputs};
use crate::resolve::{Prevailing, Resolution, link_limit};
use crate::summarize::LoadedSummary;
use crate::summarize::cache::LinkCache;
use ranges::{BY_PROGRAM, RangeEdges, RangeGraph, RangeKind, Ranges, Reached};

/// A link with fewer bytes of code than this is decoded as a whole.
const LITTLE_CODE: u64 = 64 << 10;
/// Links with fewer bytes of bitcode files than this are always analysed.
const LITTLE_BITCODE: usize = 128 << 10;
/// A module is passed through if fewer bytes than this could be removed from it. `bench links` prints the missed bytes.
const WORTH: u64 = 256;
/// All modules that are passed through together keep at most one dead byte for this many live bytes.
const LIVE_FOR_ONE: u64 = 4_000;

/// The minimum of removable bytes for a module to be rewritten. With 0 all modules are decoded, and every dead byte is removed.
pub fn threshold(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> u64 {
    let prune = &config.prune;
    // Each action of a build system sees one module, and would come to another estimate.
    let in_actions = prune.plan_dir.is_some()
        || prune.emitted_dir.is_some()
        || inputs.files.iter().any(|file| file.interface.is_some());
    // Only decoded code shows which functions may unwind.
    let asks_code = prune.unwind != UnwindPruning::Keep;
    if in_actions
        || asks_code
        || prune.level == Level::Sections
        || prune.limit.is_some()
        || prune.limit_log.is_some()
    {
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

/// Whether a link of LLVM bitcode is left to the linker. LLVM itself removes unreachable definitions, except those that dead native code
/// refers to. So the answer is no if there is such a reference, or if native modules have enough dead bytes. No function body is read.
pub fn is_left_to_llvm(config: &Config, inputs: &Inputs, resolution: &Resolution<'_>) -> bool {
    let loaded = &resolution.loaded;
    let bitcode = loaded.iter().filter(|module| inputs.modules[**module].kind == FileKind::Bitcode);
    let bitcode: usize = bitcode.map(|module| inputs.module_bytes(*module).len()).sum();
    let prune = &config.prune;
    let worth = prune.worth.unwrap_or(if prune.level_explicit { 0 } else { WORTH });
    if !config.rules().reads_bitcode || worth == 0 || bitcode < LITTLE_BITCODE {
        return false;
    }
    let summary = |module: &ModuleId| match inputs.modules[*module].kind {
        FileKind::Object => extract::extract(inputs.module_bytes(*module), Granularity::Sections),
        _ => ModuleSummary::opaque(),
    };
    let summaries: Vec<ModuleSummary> = loaded.par_iter().map(summary).collect();
    let summaries: Vec<&ModuleSummary> = summaries.iter().collect();
    let link = LinkInputs { config, inputs, resolution, summaries: &summaries, cached: LinkCache::default() };
    let index = index::without_edges(link);
    let mut parts = GraphParts::default();
    parts.add_ranges(&summaries);
    let graph = parts.graph(link, &index);
    let mentioned = resolution.symbols.enumerated().filter(|(_, symbol)| symbol.by_bitcode);
    let by_bitcode = mentioned.filter_map(|(id, _)| graph.range_of(id));
    let mut reached = Reached::new(&graph);
    reached.add(graph.roots(link, &index).chain(by_bitcode), BY_PROGRAM);
    let is_bitcode = |symbol: SymbolId| match resolution.symbols[symbol].prevailing {
        Prevailing::Module { module, .. } => inputs.modules[module].kind == FileKind::Bitcode,
        _ => false,
    };
    let mut dead = 0;
    for (position, summary) in summaries.iter().enumerate() {
        let bytes = module_bytes(&reached, &index, summary, position);
        dead += bytes.dead + bytes.doubtful + bytes.whole;
        // A local function may be dead with the range that calls it.
        let is_live = |node| {
            reached.is_live(node) && !(bytes.dead > 0 && graph.ranges.of(node).kind == RangeKind::WithSection)
        };
        if graph.symbols_of(link, &index, position).any(|(from, symbol)| !is_live(from) && is_bitcode(symbol))
        {
            return false;
        }
    }
    dead < worth
}

/// The modules of a link that have to be decoded, and those that are not worth it.
#[derive(Debug)]
struct Estimate {
    /// Positions of modules whose code has to be decoded, ascending.
    divide: Vec<usize>,
    /// Modules that are passed through, ascending: the position, and the dead bytes that are kept by that.
    not_worth: Vec<(usize, u64)>,
}

/// The vertices and edges of each module. They are made once, and again when the module is divided.
#[derive(Debug, Default)]
pub struct GraphParts {
    ranges: Vec<Option<Ranges>>,
    edges: Vec<Option<RangeEdges>>,
}

impl GraphParts {
    /// The positions of the modules to decode, ascending. `None` if there are none left; then the modules that are not worth it get
    /// a limit.
    pub fn to_divide(
        &mut self,
        link: LinkInputs<'_>,
        modules: &mut [LoadedSummary],
        threshold: u64,
    ) -> Option<Vec<usize>> {
        if threshold == 0 {
            return None;
        }
        let summaries: Vec<&ModuleSummary> = modules.iter().map(|module| &module.summary).collect();
        let estimate = of_link(LinkInputs { summaries: &summaries, ..link }, self, threshold);
        if estimate.divide.is_empty() {
            for (position, bytes) in &estimate.not_worth {
                let detail = format!("{bytes} bytes of it, or that it refers to, could be removed");
                let record = LimitRecord { bytes: *bytes, ..link_limit(Limit::NotWorth, detail) };
                modules[*position].summary.limits.push(record);
            }
            return None;
        }
        for position in &estimate.divide {
            (self.ranges[*position], self.edges[*position]) = (None, None);
        }
        Some(estimate.divide)
    }

    /// Make the vertices of new and divided modules. True if no section may be divided.
    fn add_ranges(&mut self, summaries: &[&ModuleSummary]) -> bool {
        self.ranges.resize_with(summaries.len(), || None);
        let all = self.ranges.par_iter_mut().zip(summaries);
        let of = |(ranges, summary): (&mut Option<Ranges>, &&ModuleSummary)| {
            ranges.get_or_insert_with(|| Ranges::of_module(summary)).is_whole()
        };
        all.map(of).reduce(|| true, |a, b| a && b)
    }

    /// The graph of the link. The modules have vertices.
    fn graph(&mut self, link: LinkInputs<'_>, index: &Index) -> RangeGraph {
        let GraphParts { ranges, edges } = self;
        edges.resize_with(ranges.len(), || None);
        let all = edges.par_iter_mut().zip(&*ranges).enumerate();
        let of = |(position, (edges, ranges)): (usize, (&mut Option<RangeEdges>, &Option<Ranges>))| {
            if let (None, Some(ranges)) = (&edges, ranges) {
                *edges = Some(RangeEdges::new(link, index, position, ranges));
            }
        };
        all.for_each(of);
        let parts = ranges.iter().zip(&*edges).filter_map(|(r, e)| Some((r.as_ref()?, e.as_ref()?)));
        RangeGraph::new(link.resolution.symbols.len(), &parts.collect::<Vec<_>>())
    }
}

/// The loaded, live and dead bytes of one module, by the estimate.
#[derive(Debug, Clone, Copy, Default)]
struct ModuleBytes {
    loaded: u64,
    live_code: u64,
    /// In live sections: the ranges and atoms that are dead by themselves.
    dead: u64,
    /// In those sections: the local functions that may be dead with them.
    doubtful: u64,
    /// In sections without a live byte: all bytes.
    whole: u64,
}

/// Estimate how many bytes can be removed from each module.
fn of_link(link: LinkInputs<'_>, parts: &mut GraphParts, threshold: u64) -> Estimate {
    let LinkInputs { config, summaries, .. } = link;
    let is_whole = parts.add_ranges(summaries);
    // Then no section is divided, and all dead sections are removed by the plan.
    if is_whole && !config.lld_collects() {
        let code =
            summaries.iter().flat_map(|summary| &summary.atoms).filter(|atom| atom.kind == AtomKind::Code);
        if config.prune.follows_no_values(code.map(|atom| atom.size).sum()) {
            return Estimate { divide: Vec::new(), not_worth: Vec::new() };
        }
    }
    let index = index::without_edges(link);
    let graph = parts.graph(link, &index);
    let mut reached = Reached::new(&graph);
    reached.add(graph.roots(link, &index), BY_PROGRAM);
    let of_module = |position| module_bytes(&reached, &index, summaries[position], position);
    let bytes: Vec<ModuleBytes> = (0..summaries.len()).into_par_iter().map(of_module).collect();
    let is_undivided = |position: &usize| {
        let summary = summaries[*position];
        summary.kind == ModuleKind::Native
            && summary.granularity == Granularity::Sections
            && !index.modules[*position].kept_whole
    };
    let live_code: u64 = bytes.iter().map(|bytes| bytes.live_code).sum();
    // Value flow covers all live functions, or none.
    let is_followed = config.prune.level == Level::Pointers && live_code <= config.prune.budget();
    let not_worth = not_worth(link, &index, &reached, &bytes, threshold);
    let divide = |position: &usize| {
        let ModuleBytes { dead, live_code, .. } = bytes[*position];
        let is_worth = not_worth.binary_search_by_key(position, |(position, _)| *position).is_err();
        is_undivided(position) && (dead > 0 && is_worth || is_followed && live_code > 0)
    };
    Estimate { divide: (0..summaries.len()).filter(divide).collect(), not_worth }
}

/// For each atom of a module, whether its section has no live byte. Linkers that collect sections remove those by themselves.
fn dead_sections(
    reached: &Reached<'_>,
    index: &Index,
    summary: &ModuleSummary,
    position: usize,
) -> Vec<bool> {
    let atoms = || index.atoms_of(position).zip(&summary.atoms);
    let live = atoms().filter(|(id, _)| reached.is_live(reached.graph.ranges.of_atom(*id).start));
    let mut live: Vec<u32> = live.map(|(_, atom)| atom.section).collect();
    live.sort_unstable();
    atoms().map(|(_, atom)| live.binary_search(&atom.section).is_err()).collect()
}

fn module_bytes(
    reached: &Reached<'_>,
    index: &Index,
    summary: &ModuleSummary,
    position: usize,
) -> ModuleBytes {
    let (graph, is_live) = (reached.graph, |node| reached.is_live(node));
    let mut bytes = ModuleBytes::default();
    let dead_sections = dead_sections(reached, index, summary, position);
    for ((id, atom), is_section_dead) in index.atoms_of(position).zip(&summary.atoms).zip(dead_sections) {
        if index.discarded[id] || !atom.kind.is_alloc() {
            continue;
        }
        bytes.loaded += atom.size;
        let ranges = graph.ranges.of_atom(id);
        if !is_live(ranges.start) {
            *if is_section_dead { &mut bytes.whole } else { &mut bytes.dead } += atom.size;
            continue;
        }
        let of = |kind: RangeKind, live: bool| -> u64 {
            let is_of = |node: &u32| graph.ranges.of(*node).kind == kind && is_live(*node) == live;
            ranges.clone().skip(1).filter(is_of).map(|node| graph.ranges.of(node).size).sum()
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

/// The modules that are passed through, with the bytes that each keeps by that: its own dead ones and those that it refers to. Modules
/// that keep least come first, until together they would keep too much.
fn not_worth(
    link: LinkInputs<'_>,
    index: &Index,
    reached: &Reached<'_>,
    bytes: &[ModuleBytes],
    threshold: u64,
) -> Vec<(usize, u64)> {
    let LinkInputs { config, summaries, .. } = link;
    let own = |position: usize| {
        let ModuleBytes { dead, doubtful, whole, .. } = bytes[position];
        dead + doubtful + if config.lld_collects() { 0 } else { whole }
    };
    let goes = |position: &usize| {
        let ModuleBytes { dead, whole, .. } = bytes[*position];
        dead + whole > 0
            && summaries[*position].kind == ModuleKind::Native
            && !index.modules[*position].kept_whole
    };
    let candidates = (0..bytes.len()).filter(goes).filter(|p| own(*p) < threshold);
    let candidates = candidates.map(|position| (position, own(position))).collect();
    let live: u64 = bytes.iter().map(|bytes| bytes.loaded.saturating_sub(bytes.whole + bytes.dead)).sum();
    let fitting = |kept: &Kept| -> BTreeMap<usize, u64> {
        let mut sums: Vec<(u64, usize)> = kept.sums.iter().map(|(position, sum)| (*sum, *position)).collect();
        sums.sort_unstable();
        let mut left = live / LIVE_FOR_ONE;
        let fits = |(sum, _): &(u64, usize)| {
            let fits = *sum < threshold && *sum <= left;
            left -= if fits { *sum } else { 0 };
            fits
        };
        sums.into_iter().take_while(fits).map(|(_, position)| (position, own(position))).collect()
    };
    let first = fitting(&Kept::by(link, index, reached, &candidates));
    // A vertex that two modules refer to was counted for the first one, which may have been excluded since.
    let kept = Kept::by(link, index, reached, &first);
    let second = fitting(&kept);
    let too_much = kept.nodes.iter().filter(|(_, by)| !second.contains_key(by)).map(|(node, _)| *node);
    let too_much: Vec<u32> = too_much.collect();
    let refers = reached.graph.referrers(&too_much);
    let keeps_little = |(position, _): &(usize, u64)| {
        let mut nodes = index.atoms_of(*position).flat_map(|id| reached.graph.ranges.of_atom(id));
        !nodes.any(|node| refers[node as usize])
    };
    kept.sums.into_iter().filter(|(p, _)| second.contains_key(p)).filter(keeps_little).collect()
}

/// The dead bytes that modules keep if they are passed through.
struct Kept {
    /// By position: the bytes of the module itself, and those of other modules that it is the first one to refer to.
    sums: BTreeMap<usize, u64>,
    /// The vertices of other modules, each with the position of the first module that refers to it.
    nodes: Vec<(u32, usize)>,
}

impl Kept {
    /// The bytes that `modules` keep; the values are each module's own bytes.
    fn by(
        link: LinkInputs<'_>,
        index: &Index,
        reached: &Reached<'_>,
        modules: &BTreeMap<usize, u64>,
    ) -> Self {
        let LinkInputs { config, summaries, .. } = link;
        let (graph, mut all) = (reached.graph, reached.clone());
        for position in modules.keys() {
            let atoms = index.atoms_of(*position).filter(|id| !index.discarded[*id]);
            all.add(atoms.flat_map(|id| graph.ranges.of_atom(id)), *position as u32 + 1);
        }
        let mut kept = Kept { sums: modules.clone(), nodes: Vec::new() };
        for position in (0..summaries.len()).filter(|position| !modules.contains_key(position)) {
            let dead_sections = dead_sections(reached, index, summaries[position], position);
            let atoms = index.atoms_of(position).zip(dead_sections);
            let atoms = atoms.filter(|(_, is_section_dead)| !(config.lld_collects() && *is_section_dead));
            for node in atoms.flat_map(|(id, _)| graph.ranges.of_atom(id)) {
                if let Some(by) = all.by_module(node)
                    && let Some(sum) = kept.sums.get_mut(&by)
                {
                    *sum += graph.ranges.of(node).size;
                    kept.nodes.push((node, by));
                }
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use summaries::ModuleSummary;

    use super::*;
    use crate::index::tests::Link;

    /// The start calls `used`, which has a cold part in another section. Nothing refers to `dead` or to its cold part. Each of the two may
    /// call the local function.
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
        of_link(link.inputs(&inputs, &resolution, &summaries), &mut GraphParts::default(), threshold)
    }

    /// A module that is large enough to allow for dead bytes.
    const LARGE: &str = "module native
symbol \"\"
symbol large global func in [.text] size 0x560000
atom .text code section 1 size 0x560000 align 16 flags exec,standard
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
        // In so small a link every byte counts.
        assert_eq!(of_texts(0, &[ONE], 0x4c1).divide, [0]);
        let all_live = ONE.replace("call @0x4 used -4", "call @0x4 used -4\n  call @0x9 dead -4");
        assert!(of_texts(0, &[&all_live], 1).divide.is_empty());
    }

    #[test]
    fn what_is_not_worth_it_is_left_unless_it_keeps_much() {
        let one = one_of_large();
        // The other module is dead as a whole.
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
