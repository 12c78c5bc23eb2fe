//! `--prune-why=GLOB`: for each symbol that matches, the reason why it is kept, or dropped; for a symbol of a library, a reference to
//! it.
//!
//! The chain is that of the witnesses: a shortest path from a root.

use summaries::{Definition, LimitRecord, Severity, SymbolKind};

use super::graph::{ImportReport, imports};
use super::names::NotDone;
use super::names::{Facts, describe};
use super::names::{KINDS, edge_kind_name};
use crate::error::lossy;
use crate::ids::{AtomId, Id, ModuleId};
use crate::inputs::glob::Glob;
use crate::propagate::Witness;
use crate::terminal::printable;

/// The explanations, one block a symbol, in load order.
pub fn why(facts: Facts<'_>, patterns: &[String], not_pruned: Option<&NotDone>) -> String {
    let mut out = String::new();
    let globs: Vec<Glob> = patterns.iter().map(|p| Glob::new(p)).collect();
    for (position, summary) in facts.summaries.iter().enumerate() {
        for symbol in &summary.symbols {
            let (Definition::Atom(atom) | Definition::Common(atom)) = symbol.definition else { continue };
            let name = summary.name(symbol.name);
            let skip = matches!(symbol.kind, SymbolKind::Section | SymbolKind::File) || name.is_empty();
            if skip || !globs.iter().any(|g| g.matches(name)) {
                continue;
            }
            let atom = AtomId::new(facts.index.modules[position].first_atom as usize + atom.index());
            explain(facts, &lossy(name), position, atom, not_pruned, &mut out);
        }
    }
    for import in imports(facts).iter().filter(|i| globs.iter().any(|g| g.matches(i.symbol.as_bytes()))) {
        explain_import(facts, import, &mut out);
    }
    if out.is_empty() {
        out = format!("no module in the link defines a symbol that matches {}\n", patterns.join(", "));
    }
    out
}

fn explain(
    facts: Facts<'_>,
    name: &str,
    position: usize,
    atom: AtomId,
    not_pruned: Option<&NotDone>,
    out: &mut String,
) {
    let module = facts.inputs.module_name(facts.resolution.loaded[position]);
    let module = printable(&module);
    if facts.index.discarded[atom.index()] {
        *out += &format!("{name} in {module}: discarded, since another module has its COMDAT group\n");
        return;
    }
    let Some(witness) = facts.liveness.witness[atom.index()] else {
        let collected = facts.config.gc_sections && !facts.linker_live[atom.index()];
        let state = match not_pruned {
            None => "dropped, no live atom refers to it".to_owned(),
            Some(_) if collected => {
                "dropped by the linker's --gc-sections, no live atom refers to it".to_owned()
            }
            Some(why) => {
                format!("would be dropped, no live atom refers to it; not pruned: {}", printable(&why.reason))
            }
        };
        *out += &format!("{name} in {module}: {state}\n");
        return;
    };
    let state = match (facts.liveness.is_stub(atom), not_pruned) {
        (true, None) => "a stub, only its address is needed".to_owned(),
        (true, Some(why)) => {
            format!("would be a stub, only its address is needed; not pruned: {}", printable(&why.reason))
        }
        (false, _) => "live".to_owned(),
    };
    *out += &format!("{name} in {module}: {state}\n");
    if let Some(limit) = whole(facts, position, atom) {
        *out += &format!(
            "  {} ({}); {}\n",
            printable(&limit.detail),
            limit.limit.name(),
            limit.limit.lifted_by()
        );
    }
    chain(facts, witness, out);
}

/// The limit for which an atom holds several functions, that is a section which is kept whole or a part of one.
fn whole<'s>(facts: Facts<'s>, position: usize, atom: AtomId) -> Option<&'s LimitRecord> {
    let (module, (_, local)) = (facts.index.modules[position].module, facts.index.locate(atom));
    let atom = &facts.summaries[position].atoms[local.index()];
    let is_of_atom = |(of, limit): &&(Option<ModuleId>, LimitRecord)| {
        *of == Some(module)
            && limit.limit.severity() == Severity::Section
            && limit.section == Some(atom.section)
            && limit.offset.is_none_or(|offset| offset == atom.offset)
    };
    facts.limits.iter().find(is_of_atom).map(|(_, limit)| limit)
}

/// The definer of an import, and its first reference.
fn explain_import(facts: Facts<'_>, import: &ImportReport, out: &mut String) {
    *out += &format!("{} is in no module of the link: {} defines it\n", import.symbol, import.definer());
    let (Some(from), Some(kind)) = (import.from.first(), import.kind.first()) else { return };
    let (from, kind) = (AtomId(*from), KINDS.get(usize::from(*kind)).copied().unwrap_or_default());
    *out += &format!("  {kind} from {}\n", describe(facts, from));
    if let Some(witness) = facts.liveness.witness[from.index()] {
        chain(facts, witness, out);
    }
}

/// A line for each step from a witness back to a root.
fn chain(facts: Facts<'_>, first: Witness, out: &mut String) {
    let mut next = Some(first);
    while let Some(witness) = next {
        let (how, from) = match witness {
            Witness::Root(number) => {
                let root = facts.index.roots[number as usize];
                let symbol = root.symbol.map(|s| format!(" {}", lossy(facts.resolution.symbols[s].name)));
                (format!("root: {}{}", root.reason.name(), symbol.unwrap_or_default()), None)
            }
            Witness::Edge(number) => {
                let kind = edge_kind_name(facts.index.edges[number as usize].kind);
                (format!("{kind} from"), Some(facts.index.edge_source(number)))
            }
            Witness::Called { .. } | Witness::Escaped { .. } | Witness::Part(_) | Witness::Label(_) => {
                let (how, from) = followed(facts, witness);
                (how.to_owned(), from)
            }
        };
        let by = from.map(|from| format!(" {}", describe(facts, from))).unwrap_or_default();
        *out += &format!("  {how}{by}\n");
        next = from.and_then(|from| facts.liveness.witness[from.index()]);
    }
}

/// How value flow made an atom live, and the atom that had the address.
pub(super) fn followed(facts: Facts<'_>, witness: Witness) -> (&'static str, Option<AtomId>) {
    match witness {
        Witness::Called { caller } => ("called from", Some(caller)),
        Witness::Escaped { mention: Some(edge) } => {
            ("address escaped, taken by", Some(facts.index.edge_source(edge)))
        }
        Witness::Part(function) => ("part of the function of", Some(function)),
        Witness::Label(function) => ("a label in it is named by", Some(function)),
        _ => ("address escaped", None),
    }
}
