//! A planner for tests, of one module: all that the roots reach is kept.

use summaries::{Atom, AtomIdx, AtomKind, Binding, Definition, ModuleSummary, Symbol, Target, atom_flags};

use crate::emit::object::rewrite;
use crate::plan::{Action, ModulePlan, SymbolFlags};
use crate::verify;

/// The plan of a program of one module that needs nothing but these names.
pub(super) fn plan(summary: &ModuleSummary, roots: &[&str]) -> ModulePlan {
    let atom_of = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) | Definition::Common(atom) => Some(atom),
        _ => None,
    };
    let all = || summary.atoms.iter().enumerate().map(|(i, atom)| (AtomIdx::new(i), atom));
    let is_root = |atom: &Atom| {
        matches!(atom.kind, AtomKind::InitFini | AtomKind::Note)
            || (!atom.kind.is_alloc() && !atom.has(atom_flags::LINK_ORDER | atom_flags::GROUPED))
            || atom.has(atom_flags::RETAIN)
    };
    let is_named = |symbol: &&Symbol| roots.iter().any(|r| r.as_bytes() == summary.name(symbol.name));
    let mut work: Vec<AtomIdx> = all().filter(|(_, atom)| is_root(atom)).map(|(i, _)| i).collect();
    work.extend(summary.symbols.iter().filter(is_named).filter_map(atom_of));
    let mut plan = ModulePlan { atoms: vec![Action::Drop; summary.atoms.len()], ..ModulePlan::default() };
    while !work.is_empty() {
        while let Some(atom) = work.pop() {
            let before = std::mem::replace(&mut plan.atoms[atom.index()], Action::Keep);
            if before == Action::Drop && summary.atoms[atom.index()].kind.is_alloc() {
                work.extend(summary.references_of(atom).iter().filter_map(|r| match r.target {
                    Target::Atom(atom) => Some(atom),
                    Target::Symbol(symbol) => atom_of(&summary.symbols[symbol.index()]),
                }));
            }
        }
        let stays = |atom: AtomIdx| plan.atoms[atom.index()] == Action::Keep;
        // Debug sections of a group come with it.
        let comes = |(i, atom): &(AtomIdx, &Atom)| {
            let is_grouped = !atom.kind.is_alloc() && atom.group.is_some();
            !stays(*i) && (is_grouped || atom.link_order.is_some_and(stays))
        };
        work = all().filter(comes).map(|(i, _)| i).collect();
    }
    let flags = |symbol: &Symbol| match atom_of(symbol) {
        _ if symbol.binding == Binding::Local => SymbolFlags::default(),
        Some(atom) if plan.atoms[atom.index()] == Action::Drop => SymbolFlags::DEFINITION_DROPPED,
        _ => SymbolFlags::DEFINITION_KEPT,
    };
    plan.symbols = summary.symbols.iter().map(flags).collect();
    plan
}

/// The plan that keeps all.
pub(super) fn keeps_all(summary: &ModuleSummary) -> ModulePlan {
    ModulePlan { atoms: vec![Action::Keep; summary.atoms.len()], ..ModulePlan::default() }
}

/// The plan drops the group of this signature, which another module has too.
pub(super) fn discard_group(summary: &ModuleSummary, plan: &mut ModulePlan, signature: &[u8]) {
    let group = summary.groups.iter().find(|g| summary.symbol_name(g.signature) == signature).unwrap();
    plan.discarded_groups.push(group.section);
    group.members.iter().for_each(|m| plan.atoms[m.index()] = Action::Drop);
    let is_in_group = |i: usize| match summary.symbols[i].definition {
        Definition::Atom(atom) => group.members.contains(&atom),
        _ => false,
    };
    for i in (0..summary.symbols.len()).filter(|i| is_in_group(*i)) {
        plan.symbols[i] = SymbolFlags::DEFINITION_KEPT;
        plan.symbols[i].set(SymbolFlags::PREVAILS_ELSEWHERE, true);
    }
}

/// The result of the verification of an object.
pub(super) fn verified(
    object: &[u8],
    new: &[u8],
    summary: &ModuleSummary,
    plan: &ModulePlan,
) -> Result<(), String> {
    let expected = verify::ExpectedObject::new(summary, plan);
    verify::object("t.o", object, new, &expected).map_err(|e| e.to_string())
}

/// The object of a plan, verified.
pub(super) fn emitted(object: &[u8], summary: &ModuleSummary, plan: &ModulePlan) -> Vec<u8> {
    let new = rewrite(object, summary, plan).unwrap_or_else(|e| panic!("{e}"));
    verified(object, &new, summary, plan).unwrap_or_else(|e| panic!("{e}"));
    new
}
