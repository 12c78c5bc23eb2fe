//! A planner for tests: first definition wins, first group wins, everything else by reachability.
//!
//! It does not model archives and shared libraries, so programs have a few objects only.

use std::collections::{BTreeMap, BTreeSet};

use summaries::{
    AtomIdx, AtomKind, Binding, Definition, ModuleSummary, SymbolIdx, Target, atom_flags, native,
};

use super::tools::Workshop;
use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan, SymbolFlags};
use crate::verify;

/// A program of a few objects, with a plan for each.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) objects: Vec<(String, Vec<u8>)>,
    pub(super) summaries: Vec<ModuleSummary>,
    pub(super) plans: Vec<ModulePlan>,
}

fn definition_rank(summary: &ModuleSummary, symbol: usize) -> Option<(u8, AtomIdx)> {
    let s = &summary.symbols[symbol];
    match s.definition {
        Definition::Atom(a) if s.binding == Binding::Weak => Some((1, a)),
        Definition::Atom(a) => Some((2, a)),
        Definition::Common(a) => Some((0, a)),
        _ => None,
    }
}

impl Program {
    /// Plan the objects as if `roots` were all that the program needs.
    pub(super) fn new(objects: Vec<(String, Vec<u8>)>, roots: &[&str]) -> Self {
        let summaries: Vec<ModuleSummary> = objects.iter().map(|(_, b)| native::extract(b)).collect();
        for (summary, (name, _)) in summaries.iter().zip(&objects) {
            assert!(summary.limits.is_empty(), "{name}: {:?}", summary.limits);
        }
        Program::of(objects, summaries, roots)
    }

    /// Plan objects whose summaries are there already.
    pub(super) fn of(objects: Vec<(String, Vec<u8>)>, summaries: Vec<ModuleSummary>, roots: &[&str]) -> Self {
        let plans = plan(&summaries, roots);
        Program { objects, summaries, plans }
    }

    /// The objects after pruning, each verified, and the link of all of them too.
    pub(super) fn pruned(&self) -> Vec<(String, Vec<u8>)> {
        let mut pruned = Vec::new();
        for (i, (name, bytes)) in self.objects.iter().enumerate() {
            let (summary, plan) = (&self.summaries[i], &self.plans[i]);
            let new = rewrite(bytes, summary, plan).unwrap_or_else(|e| panic!("{name}: {e}"));
            verify::object(name, bytes, &new, &verify::ExpectedObject::new(summary, plan))
                .unwrap_or_else(|e| panic!("{e}"));
            pruned.push((name.clone(), new));
        }
        let facts = |objects: &[(String, Vec<u8>)]| -> Vec<verify::SymbolFacts> {
            objects.iter().map(|(n, b)| verify::facts(n, b).unwrap()).collect()
        };
        let mut undefined = BTreeSet::new();
        while let Some((_, name)) = verify::missing(&facts(&self.objects), &|name| undefined.contains(&name))
        {
            undefined.insert(name);
        }
        assert_eq!(verify::missing(&facts(&pruned), &|name| undefined.contains(&name)), None);
        pruned
    }

    /// How many atoms the plans drop.
    pub(super) fn dropped(&self) -> usize {
        self.plans.iter().flat_map(|p| &p.atoms).filter(|a| **a == Action::Drop).count()
    }

    /// Compile C or C++ sources and plan them from `main`.
    pub(super) fn compile(shop: &Workshop, compiler: &str, flags: &[&str], sources: &[(&str, &str)]) -> Self {
        let objects = sources
            .iter()
            .map(|(name, text)| (format!("{name}.o"), shop.compile(compiler, name, text, flags)))
            .collect();
        Program::new(objects, &["main"])
    }
}

/// The plans of a program's modules.
pub(super) fn plan(summaries: &[ModuleSummary], roots: &[&str]) -> Vec<ModulePlan> {
    let mut plans: Vec<ModulePlan> = summaries
        .iter()
        .map(|s| ModulePlan { atoms: vec![Action::Drop; s.atoms.len()], ..ModulePlan::default() })
        .collect();
    let mut signatures = BTreeSet::new();
    let mut discarded: Vec<BTreeSet<AtomIdx>> = vec![BTreeSet::new(); summaries.len()];
    for (m, s) in summaries.iter().enumerate() {
        for group in s.groups.iter().filter(|g| g.comdat) {
            if !signatures.insert(s.symbol_name(group.signature).to_vec()) {
                plans[m].discarded_groups.push(group.section);
                discarded[m].extend(&group.members);
            }
        }
    }
    let mut prevailing: BTreeMap<Vec<u8>, (u8, usize, usize)> = BTreeMap::new();
    for (m, s) in summaries.iter().enumerate() {
        for (i, symbol) in s.symbols.iter().enumerate() {
            let Some((rank, atom)) = definition_rank(s, i) else { continue };
            if symbol.binding == Binding::Local || discarded[m].contains(&atom) {
                continue;
            }
            let best = prevailing.entry(s.name(symbol.name).to_vec()).or_insert((rank, m, i));
            if rank > best.0 {
                *best = (rank, m, i);
            }
        }
    }
    let mut work: Vec<(usize, AtomIdx)> = Vec::new();
    for (m, s) in summaries.iter().enumerate() {
        for (a, atom) in s.atoms.iter().enumerate() {
            let is_root = matches!(atom.kind, AtomKind::InitFini | AtomKind::Note)
                || (!atom.kind.is_alloc() && !atom.has(atom_flags::LINK_ORDER | atom_flags::GROUPED))
                || atom.has(atom_flags::RETAIN);
            if is_root && !discarded[m].contains(&AtomIdx::new(a)) {
                work.push((m, AtomIdx::new(a)));
            }
        }
        let of_symbol = |i: usize| definition_rank(s, i).map(|(_, a)| (m, a));
        let named = |n: &[u8]| roots.iter().any(|r| r.as_bytes() == n);
        work.extend(
            (0..s.symbols.len()).filter(|i| named(s.symbol_name(SymbolIdx::new(*i)))).filter_map(of_symbol),
        );
    }
    let resolve = |m: usize, target: Target| match target {
        Target::Atom(a) => Some((m, a)),
        Target::Symbol(i) => {
            let s = &summaries[m];
            match s.symbols[i.index()].binding {
                Binding::Local => definition_rank(s, i.index()).map(|(_, a)| (m, a)),
                _ => prevailing
                    .get(s.symbol_name(i))
                    .and_then(|(_, m, i)| definition_rank(&summaries[*m], *i).map(|(_, a)| (*m, a))),
            }
        }
    };
    loop {
        while let Some((m, a)) = work.pop() {
            if plans[m].atoms[a.index()] == Action::Keep {
                continue;
            }
            plans[m].atoms[a.index()] = Action::Keep;
            if !summaries[m].atoms[a.index()].kind.is_alloc() {
                continue;
            }
            work.extend(summaries[m].references_of(a).iter().filter_map(|r| resolve(m, r.target)));
        }
        for (m, s) in summaries.iter().enumerate() {
            let live = |a: AtomIdx| plans[m].atoms[a.index()] == Action::Keep;
            for (i, atom) in s.atoms.iter().enumerate() {
                let i = AtomIdx::new(i);
                let by_order = atom.link_order.is_some_and(live);
                // Debug sections of a group come with it.
                let by_group = !atom.kind.is_alloc() && atom.group.is_some() && !discarded[m].contains(&i);
                if !live(i) && (by_order || by_group) {
                    work.push((m, i));
                }
            }
        }
        if work.is_empty() {
            break;
        }
    }
    for (m, s) in summaries.iter().enumerate() {
        let mut symbols = vec![SymbolFlags::default(); s.symbols.len()];
        for (i, symbol) in s.symbols.iter().enumerate().filter(|(_, s)| s.binding != Binding::Local) {
            let best = prevailing.get(s.name(symbol.name));
            let elsewhere = best.is_some_and(|(_, bm, bi)| (*bm, *bi) != (m, i))
                && symbol.definition != Definition::Undefined;
            let dropped = best.is_some_and(|(_, bm, bi)| {
                let (_, atom) = definition_rank(&summaries[*bm], *bi).unwrap();
                plans[*bm].atoms[atom.index()] == Action::Drop
            });
            symbols[i].set(SymbolFlags::PREVAILS_ELSEWHERE, elsewhere);
            symbols[i].set(SymbolFlags::DEFINITION_DROPPED, dropped);
            symbols[i].set(SymbolFlags::DEFINITION_KEPT, !dropped);
        }
        plans[m].symbols = symbols;
    }
    plans
}
