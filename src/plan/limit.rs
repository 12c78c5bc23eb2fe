//! `--prune-limit`: what a link could lose, one after the other, and only the first of it.
//!
//! An atom that stays keeps all that it refers to. So those that refer come before those that they refer to: then
//! each further step lets exactly one more atom go, but for atoms that refer to each other in a circle (which go
//! together with the last of them) and for what value flow finds. In all cases what goes grows with the limit, and
//! never leaves a dangling reference: the rest are roots. The order depends on the graph alone.
//!
//! A limit may be for one link of several ([`LinkId`]). A link is known again by what it could lose, not by paths or
//! the time, which change from run to run of a build: so a number means the same atom wherever the link has the same
//! id.

use summaries::Definition;

use crate::components::components;
use crate::config::{DropLimit, LinkId};
use crate::ids::{AtomId, Id};
use crate::index::{Index, LinkInputs};
use crate::propagate::values::ValueFlow;
use crate::propagate::{Liveness, Propagator};

/// What could go, and how much of it may.
#[derive(Debug)]
pub struct PruneCandidates {
    pub link: LinkId,
    /// What would go without a limit, in order.
    pub candidates: Vec<AtomId>,
    /// The number of them that may go.
    pub limit: usize,
    /// What is live when one less may; `None` where that wasn't asked for.
    pub before: Option<Liveness>,
}

/// `--prune-limit` and `--prune-limit-log`: the graph with each atom beyond the limit as a root, and the candidates.
pub fn apply(
    link: LinkInputs<'_>,
    index: Index,
    flow: ValueFlow,
    propagator: &Propagator<'_>,
) -> (Index, ValueFlow, Option<PruneCandidates>) {
    let prune = &link.config.prune;
    let (wanted, explain) = (prune.limit.as_ref(), prune.limit_log.is_some());
    if wanted.is_none() && !explain {
        return (index, flow, None);
    }
    let candidates = referrers_first(&index, &flow.liveness);
    let id = link_id(link, &index, &flow.liveness, &candidates);
    let wanted = match wanted {
        None => usize::MAX,
        Some(DropLimit::First(n)) => *n,
        Some(DropLimit::ByLink(links)) => links.iter().find(|(l, _)| *l == id).map_or(0, |(_, n)| *n),
    };
    let limit = wanted.min(candidates.len());
    let limited = |limit: usize| {
        propagator.run_again(index.clone().keeping_for_limit(candidates.get(limit..).unwrap_or_default()))
    };
    let is_asked = explain && wanted == limit && limit > 0;
    let before = is_asked.then(|| limited(limit - 1).1.liveness);
    let (index, flow) = if limit < candidates.len() { limited(limit) } else { (index, flow) };
    (index, flow, Some(PruneCandidates { link: id, candidates, limit, before }))
}

/// All that isn't live, those first that refer to the others; in load order where that leaves a choice.
fn referrers_first(index: &Index, liveness: &Liveness) -> Vec<AtomId> {
    let count = index.atom_count();
    let goes: Vec<bool> =
        (0..count).map(|a| !index.discarded[a] && !liveness.is_live(AtomId::new(a))).collect();
    // Edges to kept atoms are left out.
    let edge = |atom: usize, at: usize| {
        let target = index.edges_of(AtomId::new(atom)).1.get(at)?.target.index();
        Some(if goes[target] { target } else { atom })
    };
    let mut order = Vec::new();
    // Components come with those that they refer to before them, so everything is done from the end.
    for mut component in components(count, (0..count).rev().filter(|a| goes[*a]), edge) {
        component.sort_unstable_by(|a, b| b.cmp(a));
        order.extend(component.into_iter().map(AtomId::new));
    }
    order.reverse();
    order
}

/// A hash of what could go: names and places, not the paths of objects, which compilers make up anew each time.
fn link_id(names: LinkInputs<'_>, index: &Index, liveness: &Liveness, candidates: &[AtomId]) -> LinkId {
    let mut hasher = blake3::Hasher::new();
    // Each part with its length, so that no two lists of parts are the same bytes.
    let mut add = |name: &[u8], numbers: &[u64]| {
        hasher.update(&name.len().to_le_bytes());
        hasher.update(name);
        numbers.iter().for_each(|n| _ = hasher.update(&n.to_le_bytes()));
    };
    let mut goes = vec![false; index.atom_count()];
    for &id in candidates {
        goes[id.index()] = true;
        let (position, local) = index.locate(id);
        let atom = &names.summaries[position].atoms[local.index()];
        let name = names.summaries[position].name(atom.name);
        add(name, &[position as u64, atom.offset, atom.size, liveness.is_stub(id).into()]);
    }
    for (this, summary) in index.modules.iter().zip(names.summaries) {
        let archive = names.inputs.modules[this.module].archive.as_ref();
        add(archive.map_or(&[], |(_, member)| member.as_bytes()), &[]);
        for symbol in &summary.symbols {
            let (Definition::Atom(atom) | Definition::Common(atom)) = symbol.definition else { continue };
            if goes.get(this.first_atom as usize + atom.index()) == Some(&true) {
                add(summary.name(symbol.name), &[symbol.value]);
            }
        }
    }
    add(&[], &[names.resolution.loaded.len() as u64]);
    let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
    LinkId(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

#[cfg(test)]
mod tests;
