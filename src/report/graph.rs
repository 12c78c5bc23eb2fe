//! The liveness graph of the report: references between live atoms, in which reachability from the roots is liveness.
//!
//! Below the level `pointers` the edges are those of the index. With value flow, an address-taken edge counts if the call was
//! resolved to its target or if the address escaped. An indirect call is an edge, and each atom of a function holds its others. An
//! escaped function counts as held by each atom that takes its address, so the retained sizes are lower bounds. An atom without such
//! an edge gets one for its witness. Symbols that no module defines are the report's `imports`; code generation by the linker may remove
//! references of bitcode to them, and add others.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use summaries::Target;

use super::names::{Facts, FixedWord, KINDS, code, edge_kind_name};
use super::why;
use crate::error::lossy;
use crate::ids::{AtomId, Id, SymbolId};
use crate::index::{Edge, EdgeEffect, EdgeKind, edge_kind};
use crate::plan::Action;
use crate::propagate::Witness;
use crate::resolve::Prevailing;

/// Edges between atoms that are kept or stubs. Atom `a` has the edges `start[a]` to `start[a + 1]`, ascending by target.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct GraphReport {
    pub kinds: Vec<FixedWord>,
    pub start: Vec<u32>,
    /// The elements are positions in `atoms`.
    pub target: Vec<u32>,
    /// The elements are positions in `kinds`.
    pub kind: Vec<u8>,
    /// In bytes, from the start of the section of the source (of its `.eh_frame` for `unwind`); -1 if there is no one
    /// place.
    pub offset: Vec<i64>,
    /// Places that it stands for; 255 is that or more.
    pub count: Vec<u8>,
    /// The bits are [`HOLDS`], [`STRUCTURAL`], [`ESCAPED`] and [`BY_SITE`].
    pub flags: Vec<u8>,
}

/// An atom that is live by itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct RootReport {
    /// It is a position in `atoms`.
    pub atom: u32,
    pub reason: FixedWord,
    pub symbol: Option<String>,
}

pub const HOLDS: u8 = 1;
/// No reference in the source makes it.
pub const STRUCTURAL: u8 = 2;
/// It keeps its target only because the address escaped.
pub const ESCAPED: u8 = 4;
/// It keeps its target only because an indirect call of its source may lead there.
pub const BY_SITE: u8 = 8;

/// Reasons that alone may keep the target of an edge.
const REASONS: u8 = ESCAPED | BY_SITE;

#[derive(Clone, Copy)]
struct Arc {
    target: AtomId,
    kind: u8,
    offset: i64,
    count: u8,
    flags: u8,
}

pub(super) fn roots(facts: Facts<'_>) -> Vec<RootReport> {
    let name = |s| lossy(facts.resolution.symbols[s].name);
    let roots = facts.index.roots.iter().filter(|r| is_in(facts, r.atom));
    let mut roots: Vec<RootReport> = roots
        .map(|r| RootReport { atom: r.atom.0, reason: r.reason.name().into(), symbol: r.symbol.map(name) })
        .collect();
    // Atoms that are live by value flow, and whose address no atom takes.
    let is_alone = |a: &AtomId| matches!(facts.liveness.witness[a.index()], Some(w) if source(facts, w) == EdgeSource::Nothing);
    let alone = (0..facts.index.atom_count()).map(AtomId::new).filter(|a| is_in(facts, *a) && is_alone(a));
    roots.extend(alone.map(|a| RootReport { atom: a.0, reason: "escaped".into(), symbol: None }));
    // The sort keeps the order of an atom's reasons.
    roots.sort_by_key(|r| r.atom);
    roots
}

/// The source of the edge that keeps an atom, with its kind.
#[derive(PartialEq)]
pub(super) enum EdgeSource {
    Root,
    Atom(AtomId, &'static str),
    Nothing,
}

pub(super) fn source(facts: Facts<'_>, witness: Witness) -> EdgeSource {
    let kind = match witness {
        Witness::Root(_) => return EdgeSource::Root,
        Witness::Edge(number) => {
            let kind = facts.index.edges.get(number as usize).map_or("unknown", |e| edge_kind_name(e.kind));
            return EdgeSource::Atom(facts.index.edge_source(number), kind);
        }
        Witness::Called { .. } => "called",
        Witness::Part(_) => "part",
        Witness::Label(_) => "label",
        Witness::Escaped { .. } => "escaped",
    };
    why::followed(facts, witness).1.map_or(EdgeSource::Nothing, |from| EdgeSource::Atom(from, kind))
}

/// Whether an atom is in the output. Debug information that the linker throws away is not, although it is live.
fn is_in(facts: Facts<'_>, atom: AtomId) -> bool {
    let (position, index) = facts.index.locate(atom);
    let action = facts.plan.modules.get(position).and_then(|m| m.atoms.get(index.index()));
    action.is_some_and(|a| *a != Action::Drop)
}

pub(super) fn graph(facts: Facts<'_>) -> GraphReport {
    let parts = parts(facts);
    let witnesses = witnesses(facts);
    let mut report =
        GraphReport { kinds: KINDS.map(FixedWord::from).to_vec(), start: vec![0], ..GraphReport::default() };
    let mut arcs: Vec<Arc> = Vec::new();
    for atom in (0..facts.index.atom_count()).map(AtomId::new) {
        arcs.clear();
        if facts.liveness.is_live(atom) && is_in(facts, atom) {
            of_index(facts, atom, &mut arcs);
            let extra = |list: &[(AtomId, AtomId)], kind: &str, flags: u8, arcs: &mut Vec<Arc>| {
                let first = list.partition_point(|p| p.0 < atom);
                let mine = list.iter().skip(first).take_while(|p| p.0 == atom).filter(|p| is_in(facts, p.1));
                let kind = code(kind);
                arcs.extend(mine.map(|p| Arc { target: p.1, kind, offset: -1, count: 1, flags }));
            };
            extra(&facts.flow.called, "called", HOLDS | BY_SITE, &mut arcs);
            extra(&parts, "part", HOLDS | STRUCTURAL, &mut arcs);
            let first = witnesses.partition_point(|w| w.0 < atom);
            let mine = witnesses.iter().skip(first).take_while(|w| w.0 == atom);
            let reason = |kind: u8| match kind {
                kind if kind == code("escaped") => ESCAPED,
                kind if kind == code("called") => BY_SITE,
                _ => 0,
            };
            let arc = |w: &(AtomId, AtomId, u8)| Arc {
                target: w.1,
                kind: w.2,
                offset: -1,
                count: 1,
                flags: HOLDS | reason(w.2),
            };
            arcs.extend(mine.map(arc));
        } else if facts.liveness.is_stub(atom) {
            of_index(facts, atom, &mut arcs);
            arcs.retain(|a| a.kind == code("same-name"));
        }
        join(&mut arcs);
        for arc in &arcs {
            report.target.push(arc.target.0);
            report.kind.push(arc.kind);
            report.offset.push(arc.offset);
            report.count.push(arc.count);
            report.flags.push(arc.flags);
        }
        report.start.push(report.target.len() as u32);
    }
    report
}

/// The edges of a live atom in the index.
fn of_index(facts: Facts<'_>, atom: AtomId, arcs: &mut Vec<Arc>) {
    let index = facts.index;
    let alloc = index.alloc[atom.index()];
    let references = &facts.summaries[index.locate(atom).0].references;
    for edge in index.edges_of(atom).1 {
        // As in `propagate`: an atom that is not loaded keeps only its metadata.
        let follows = alloc || matches!(edge.kind, EdgeKind::LinkOrder | EdgeKind::Group);
        if !follows || edge.target == atom || !is_in(facts, edge.target) {
            continue;
        }
        let flags = match edge.effect {
            EdgeEffect::Escape | EdgeEffect::Keep => HOLDS,
            EdgeEffect::AddressTaken if edge.has(Edge::CALLS) || lives_by_mention(facts, edge.target) => {
                HOLDS
            }
            EdgeEffect::AddressTaken if facts.liveness.is_stub(edge.target) => HOLDS,
            EdgeEffect::AddressTaken if facts.flow.escaped.get(edge.target.index()) == Some(&true) => {
                HOLDS | ESCAPED
            }
            EdgeEffect::AddressTaken => 0,
        };
        let reference =
            references.get(edge.reference as usize).filter(|_| edge.reference != Edge::NO_REFERENCE);
        arcs.push(Arc {
            target: edge.target,
            kind: code(edge_kind_name(edge.kind)),
            offset: reference.and_then(|r| i64::try_from(r.offset).ok()).unwrap_or(-1),
            count: edge.count,
            flags: flags | if edge.has(Edge::STRUCTURAL) { STRUCTURAL } else { 0 },
        });
    }
}

/// Whether an address-taken edge keeps an atom, since it can't be a stub.
fn lives_by_mention(facts: Facts<'_>, atom: AtomId) -> bool {
    let edge = match facts.liveness.witness[atom.index()] {
        Some(Witness::Edge(number)) => facts.index.edges.get(number as usize),
        _ => None,
    };
    edge.is_some_and(|e| e.effect == EdgeEffect::AddressTaken)
}

/// One edge for each target: the first has the place, it holds if any of them does, and for one reason alone if those that hold all do.
fn join(arcs: &mut Vec<Arc>) {
    arcs.sort_by_key(|a| (a.target, a.offset < 0));
    arcs.dedup_by(|next, first| {
        let same = next.target == first.target;
        if same {
            let reasons = |arc: &Arc| if arc.flags & HOLDS == 0 { None } else { Some(arc.flags & REASONS) };
            let of_both = reasons(first).zip(reasons(next)).map(|(a, b)| a & b);
            let alone = of_both.or(reasons(first)).or(reasons(next)).unwrap_or(0);
            first.flags = (first.flags | next.flags) & !REASONS | alone;
        }
        same
    });
}

/// (one atom of a function, another), both ways between its first and each of the others, sorted.
fn parts(facts: Facts<'_>) -> Vec<(AtomId, AtomId)> {
    let mut pairs = Vec::new();
    if facts.flow.escaped.is_empty() {
        return pairs;
    }
    for (this, summary) in facts.index.modules.iter().zip(facts.summaries) {
        for function in &summary.functions {
            let global = |atom: summaries::AtomIdx| AtomId(this.first_atom + atom.0);
            for part in function.parts.iter().filter(|p| **p != function.atom) {
                pairs.push((global(function.atom), global(*part)));
                pairs.push((global(*part), global(function.atom)));
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// (source, atom, kind) of the witnesses of all that is not live by an edge of the index, sorted.
fn witnesses(facts: Facts<'_>) -> Vec<(AtomId, AtomId, u8)> {
    let mut found = Vec::new();
    for (i, witness) in facts.liveness.witness.iter().enumerate() {
        let (Some(witness), target) = (witness, AtomId::new(i)) else { continue };
        if let EdgeSource::Atom(from, kind) = source(facts, *witness) {
            found.push((from, target, code(kind)));
        }
    }
    found.sort_unstable();
    found
}

/// A symbol that modules of the link refer to and none of them defines, with one place of each live atom that refers to it,
/// ascending by atom.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImportReport {
    pub symbol: String,
    /// It is `library`, `linker`, or `nothing`.
    pub defined_by: FixedWord,
    /// The name of the library for the loader.
    pub library: Option<String>,
    /// The elements are positions in `atoms`.
    pub from: Vec<u32>,
    /// The elements are positions in the graph's `kinds`.
    pub kind: Vec<u8>,
    /// In bytes, from the start of the section of the source (of its `.eh_frame` for `unwind`).
    pub offset: Vec<i64>,
    /// Places that it stands for; 255 is that or more.
    pub count: Vec<u8>,
}

impl ImportReport {
    /// The name of who defines it, as in `X defines it`. A weak reference that nothing defines is 0.
    pub(crate) fn definer(&self) -> &str {
        match &*self.defined_by {
            "library" => self.library.as_deref().unwrap_or("a library"),
            "linker" => "the linker",
            _ => "nothing",
        }
    }
}

pub(super) fn imports(facts: Facts<'_>) -> Vec<ImportReport> {
    let symbols = &facts.resolution.symbols;
    let mut at: FxHashMap<SymbolId, usize> = FxHashMap::default();
    let mut imports: Vec<ImportReport> = Vec::new();
    for (this, summary) in facts.index.modules.iter().zip(facts.summaries) {
        for r in &summary.references {
            let from = AtomId(this.first_atom + r.from.0);
            let Target::Symbol(symbol) = r.target else { continue };
            if !facts.liveness.is_live(from) || !facts.index.alloc[from.index()] {
                continue;
            }
            let Some(id) = facts.resolution.symbol_id(this.module, symbol) else { continue };
            let (defined_by, library) = match symbols[id].prevailing {
                Prevailing::Module { .. } => continue,
                Prevailing::Dso(dso) => ("library", Some(facts.inputs.dso_name(dso).to_owned())),
                Prevailing::Linker => ("linker", None),
                Prevailing::Undefined { .. } => ("nothing", None),
            };
            let position = *at.entry(id).or_insert_with(|| {
                let symbol = lossy(symbols[id].name);
                let (from, kind, offset, count) = Default::default();
                imports.push(ImportReport {
                    symbol,
                    defined_by: defined_by.into(),
                    library,
                    from,
                    kind,
                    offset,
                    count,
                });
                imports.len() - 1
            });
            let Some(import) = imports.get_mut(position) else { continue };
            match import.count.last_mut() {
                Some(count) if import.from.last() == Some(&from.0) => *count = count.saturating_add(1),
                _ => {
                    import.from.push(from.0);
                    import.kind.push(code(edge_kind_name(edge_kind(r.kind))));
                    import.offset.push(i64::try_from(r.offset).unwrap_or(-1));
                    import.count.push(1);
                }
            }
        }
    }
    imports.sort_by(|a, b| a.symbol.cmp(&b.symbol));
    imports
}
