//! Who refers to whom in a link: functions, the code between them, and whole data sections.
//!
//! Every address that anything reached mentions counts as reached, and a data section is one piece: that is the measure which
//! a pruner without value flow must meet. The one refinement is that entries of jump tables are branches of the function
//! which jumps (`tables`). Left out: what the dynamic linker resolves.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use super::disassembly::{Instruction, Listing};
use super::input::{Inputs, LoadedSection, ReachedObject, Symbol};
use super::{tables, unwind};

/// A piece that is reached as a whole.
#[derive(Debug)]
pub(super) struct ReachedPiece {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Names of the functions here, if sized function symbols made this piece.
    pub(super) names: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Graph<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) nodes: Vec<ReachedPiece>,
    pub(super) edges: Vec<Vec<usize>>,
    /// Relative entries of data that lead to code and are of no jump table: taken as references of their section.
    pub(super) unclaimed: usize,
    /// Nodes of each section by start: module and section to indices of `nodes`.
    places: BTreeMap<(usize, usize), Vec<usize>>,
    /// Module, and index of symbol, of each global definition that the linker takes.
    prevailing: BTreeMap<&'a str, (usize, &'a Symbol)>,
}

/// Whether a field of this type counts from its own address (psABI, table 4.9).
pub(super) fn relative(kind: u32) -> bool {
    let relative = [
        elf::R_X86_64_PC32,
        elf::R_X86_64_PLT32,
        elf::R_X86_64_GOTPCREL,
        elf::R_X86_64_PC64,
        elf::R_X86_64_GOTPCREL64,
        elf::R_X86_64_GOTPC64,
        elf::R_X86_64_GOTPCRELX,
        elf::R_X86_64_REX_GOTPCRELX,
    ];
    relative.iter().any(|r_type| r_type.0 == kind)
}

pub(super) fn covering(listing: &[Instruction], offset: u64) -> Option<&Instruction> {
    let next = listing.partition_point(|i| i.at <= offset);
    listing.get(next.checked_sub(1)?).filter(|i| offset < i.at + i.len)
}

/// The pieces of a section: a data section is one, code is cut at sized functions; what overlaps is one piece.
fn pieces(index: usize, section: &LoadedSection, symbols: &BTreeMap<usize, Symbol>) -> Vec<ReachedPiece> {
    let node = |start, end, names| ReachedPiece { start, end, names };
    if !section.code {
        return vec![node(0, section.size, Vec::new())];
    }
    let mut functions: Vec<(u64, u64, &str)> = symbols
        .values()
        .filter(|s| s.function && s.section == Some(index) && s.size > 0)
        .map(|s| (s.value, (s.value + s.size).min(section.size), &*s.name))
        .collect();
    functions.sort_unstable();
    let mut out: Vec<ReachedPiece> = Vec::new();
    let mut covered = 0;
    for (start, end, name) in functions {
        match out.last_mut() {
            Some(last) if start < last.end => {
                last.end = last.end.max(end);
                last.names.push(name.to_owned());
            }
            _ => {
                if start > covered {
                    out.push(node(covered, start, Vec::new()));
                }
                out.push(node(start, end, vec![name.to_owned()]));
            }
        }
        covered = covered.max(end);
    }
    if covered < section.size {
        out.push(node(covered, section.size, Vec::new()));
    }
    out
}

/// Strong before common before weak; the first of equals.
fn rank(symbol: &Symbol) -> u8 {
    match (symbol.section, symbol.weak) {
        (Some(_), false) => 3,
        (None, _) => 2,
        (Some(_), true) => 1,
    }
}

fn prevailing(inputs: &Inputs) -> BTreeMap<&str, (usize, &Symbol)> {
    let mut out: BTreeMap<&str, (usize, &Symbol)> = BTreeMap::new();
    for (m, module) in inputs.modules.iter().enumerate() {
        for symbol in module.symbols.values().filter(|s| !s.local && !s.undefined && !s.name.is_empty()) {
            let discarded =
                symbol.section.is_some_and(|s| module.sections.get(&s).is_some_and(|s| s.discarded));
            if !discarded && out.get(&*symbol.name).is_none_or(|(_, old)| rank(symbol) > rank(old)) {
                out.insert(&symbol.name, (m, symbol));
            }
        }
    }
    out
}

impl<'a> Graph<'a> {
    /// Build the graph of `inputs` from their relocations and disassembly.
    pub(super) fn new(inputs: &'a Inputs, listings: &[Listing]) -> Graph<'a> {
        let mut graph = Graph {
            inputs,
            nodes: Vec::new(),
            edges: Vec::new(),
            unclaimed: 0,
            places: BTreeMap::new(),
            prevailing: prevailing(inputs),
        };
        for (m, module) in inputs.modules.iter().enumerate() {
            for (index, section) in module.sections.iter().filter(|(_, s)| !s.discarded) {
                let mut here = Vec::new();
                for node in pieces(*index, section, &module.symbols) {
                    here.push(graph.nodes.len());
                    graph.nodes.push(node);
                }
                graph.places.insert((m, *index), here);
            }
        }
        graph.edges = vec![Vec::new(); graph.nodes.len()];
        for (m, module) in inputs.modules.iter().enumerate() {
            let empty = Listing::new();
            let listing = listings.get(m).unwrap_or(&empty);
            let claimed = tables::claim(&mut graph, m, listing);
            for (index, section) in module.sections.iter().filter(|(_, s)| !s.discarded) {
                if section.code {
                    graph.code(m, *index, section, listing.get(index).map_or(&[], Vec::as_slice));
                } else if section.name == ".eh_frame" {
                    unwind::add(&mut graph, m, section);
                } else {
                    graph.data(m, *index, section, &claimed);
                }
            }
        }
        for edges in &mut graph.edges {
            edges.sort_unstable();
            edges.dedup();
        }
        graph
    }

    /// The piece at an offset; the end of a section belongs to its last.
    pub(super) fn at(&self, module: usize, section: usize, offset: u64) -> Option<usize> {
        let here = self.places.get(&(module, section))?;
        let next = here.partition_point(|n| self.nodes.get(*n).is_some_and(|n| n.start <= offset));
        here.get(next.saturating_sub(1)).copied()
    }

    /// The pieces of all sections of a name.
    pub(super) fn named(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let mut out = Vec::new();
        for ((m, s), nodes) in &self.places {
            let name = self.inputs.modules.get(*m).and_then(|m| m.sections.get(s)).map_or("", |s| &s.name);
            if wanted(name) {
                out.extend(nodes);
            }
        }
        out
    }

    /// The piece of a global symbol.
    pub(super) fn global(&self, name: &str) -> Option<usize> {
        let (m, symbol) = self.prevailing.get(name)?;
        self.at(*m, symbol.section?, symbol.value)
    }

    /// What a reference to `symbol` of `module` reaches. `displacement` is what the field adds to the symbol's address, after
    /// correction for the place that it counts from: it tells where in a section a section's symbol points.
    pub(super) fn targets(&self, module: usize, symbol: usize, displacement: i64) -> Vec<usize> {
        let Some(symbol) = self.inputs.modules.get(module).and_then(|m| m.symbols.get(&symbol)) else {
            return Vec::new();
        };
        if !symbol.local {
            if let Some(node) = self.global(&symbol.name) {
                return vec![node];
            }
            let section =
                symbol.name.strip_prefix("__start_").or_else(|| symbol.name.strip_prefix("__stop_"));
            return section.map_or_else(Vec::new, |section| self.named(|name| name == section));
        }
        let Some(section) = symbol.section else { return Vec::new() };
        let whole =
            self.inputs.modules.get(module).and_then(|m| m.sections.get(&section)).is_none_or(|s| !s.code);
        let offset = if whole || !symbol.names_section {
            symbol.value
        } else {
            symbol.value.saturating_add_signed(displacement)
        };
        self.at(module, section, offset).into_iter().collect()
    }

    pub(super) fn edge(&mut self, from: usize, to: usize) {
        if from != to
            && let Some(edges) = self.edges.get_mut(from)
        {
            edges.push(to);
        }
    }

    /// Relocations, branches that the assembler resolved, and falling through.
    fn code(&mut self, m: usize, index: usize, section: &LoadedSection, listing: &[Instruction]) {
        for r in &section.relocs {
            let Some(from) = self.at(m, index, r.offset) else { continue };
            let end = covering(listing, r.offset).map_or(r.offset + 4, |i| i.at + i.len);
            let correction = if relative(r.kind) { (end - r.offset) as i64 } else { 0 };
            for to in self.targets(m, r.symbol, r.addend + correction) {
                self.edge(from, to);
            }
        }
        for (k, i) in listing.iter().enumerate() {
            let next_reloc = section.relocs.partition_point(|r| r.offset < i.at);
            let relocated = section.relocs.get(next_reloc).is_some_and(|r| r.offset < i.at + i.len);
            if let (Some(target), false) = (i.target, relocated)
                && let (Some(from), Some(to)) = (self.at(m, index, i.at), self.at(m, index, target))
            {
                self.edge(from, to);
            }
            let Some(next) = listing.get(k + 1) else { continue };
            if let (Some(from), Some(to)) = (self.at(m, index, i.at), self.at(m, index, next.at))
                && from != to
                && !i.ends
                && !i.nop
            {
                // What falls through goes on after the padding.
                let after = listing.iter().skip(k + 1).find(|i| !i.nop).and_then(|i| self.at(m, index, i.at));
                self.edge(from, after.unwrap_or(to));
                self.edge(from, to);
            }
        }
    }

    /// Relocations of data, but those in `claimed`: (section, offset) of jump tables' entries.
    fn data(&mut self, m: usize, index: usize, section: &LoadedSection, claimed: &BTreeSet<(usize, u64)>) {
        let Some(from) = self.at(m, index, 0) else { return };
        for r in section.relocs.iter().filter(|r| !claimed.contains(&(index, r.offset))) {
            let targets = self.targets(m, r.symbol, r.addend);
            if relative(r.kind)
                && targets.iter().any(|t| self.nodes.get(*t).is_some_and(|n| !n.names.is_empty()))
            {
                self.unclaimed += 1;
            }
            for to in targets {
                self.edge(from, to);
            }
        }
    }

    /// What the roots reach, by node.
    pub(super) fn reach(&self, roots: &[usize]) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        let mut work: Vec<usize> = roots.to_vec();
        while let Some(node) = work.pop() {
            if let Some(mark) = reached.get_mut(node)
                && !std::mem::replace(mark, true)
            {
                work.extend(self.edges.get(node).into_iter().flatten());
            }
        }
        reached
    }

    /// What is live by itself: the entry, constructors and destructors, notes, everything in sections of unusual names, and what
    /// shared libraries see. C identifiers are reached by `__start_` and `__stop_` of their name.
    pub(super) fn roots(&self) -> Vec<usize> {
        const USUAL: [&str; 15] = [
            ".text",
            ".rodata",
            ".data",
            ".bss",
            ".tdata",
            ".tbss",
            ".eh_frame",
            ".gcc_except_table",
            ".lrodata",
            ".ldata",
            ".lbss",
            ".sdata",
            ".sbss",
            ".tm_clone_table",
            ".gnu.linkonce",
        ];
        let mut roots = self.named(|name| {
            let usual = USUAL
                .iter()
                .any(|u| name.strip_prefix(u).is_some_and(|r| r.is_empty() || r.starts_with('.')));
            let identifier = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            !usual && !identifier
        });
        roots.extend(self.global("_start"));
        for name in &self.inputs.shared {
            roots.extend(self.global(name));
        }
        roots
    }

    pub(super) fn module(&self, m: usize) -> Option<&'a ReachedObject> {
        self.inputs.modules.get(m)
    }
}
