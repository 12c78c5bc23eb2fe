//! `--prune-limit`: the atoms that a link could lose, in an order, and only the first of them are removed.
//!
//! A kept atom keeps all atoms that it refers to. So the order has referrers before their targets: each step then removes exactly one more
//! atom. Cycles go with the last of their atoms, and value flow may remove more at a step. The removed set
//! always grows with the limit and leaves no dangling reference, because all other atoms are roots. The order depends on the graph alone.
//!
//! A limit may be for one link of several ([`LinkId`]). The id is a hash of the atoms that the link could lose, without paths and times. So a
//! number means the same atom in each link with the same id.

use summaries::Definition;

use crate::components::components;
use crate::config::{DropLimit, LinkId};
use crate::ids::{AtomId, Id};
use crate::index::{Index, LinkInputs};
use crate::propagate::values::ValueFlow;
use crate::propagate::{Liveness, Propagator};

/// The atoms that a link could lose, and how many of them may be removed.
#[derive(Debug)]
pub struct PruneCandidates {
    pub link: LinkId,
    /// The atoms that are removed without a limit, in order.
    pub candidates: Vec<AtomId>,
    /// The number of them that may be removed.
    pub limit: usize,
    /// The liveness under a limit that is one less, if a log asks for it.
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
    // The log names what the last step removes.
    let has_last_step = explain && wanted == limit && limit > 0;
    let before = has_last_step.then(|| limited(limit - 1).1.liveness);
    let (index, flow) = if limit < candidates.len() { limited(limit) } else { (index, flow) };
    (index, flow, Some(PruneCandidates { link: id, candidates, limit, before }))
}

/// The dead atoms, referrers before their targets; otherwise in load order.
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
    // Components come after those that they refer to, so that the order is reversed.
    for mut component in components(count, (0..count).rev().filter(|a| goes[*a]), edge) {
        component.sort_unstable_by(|a, b| b.cmp(a));
        order.extend(component.into_iter().map(AtomId::new));
    }
    order.reverse();
    order
}

/// A hash of names and places of the candidates, without the paths of objects, which compilers invent anew each time.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use summaries::ModuleSummary;

    use super::*;
    use crate::index::tests::random_link;
    use crate::inputs::Inputs;
    use crate::propagate::live;

    const COUNT: usize = 24;

    /// The dropped atoms under each limit from 0 on, and the number of dead atoms without one.
    fn dropped(edges: &[(usize, usize)]) -> (Vec<Vec<usize>>, usize) {
        let link = random_link(edges, 4, COUNT / 4);
        let resolution = link.resolution();
        let summaries: Vec<&ModuleSummary> = link.summaries.iter().collect();
        let index = crate::index::build(link.inputs(&Inputs::default(), &resolution, &summaries));
        let order = referrers_first(&index, &live(&index));
        let mut all = Vec::new();
        for limit in 0..=order.len() {
            let liveness = live(&index.clone().keeping_for_limit(&order[limit..]));
            all.push((0..COUNT).filter(|a| !liveness.is_live(AtomId::new(*a))).collect());
        }
        (all, order.len())
    }

    proptest! {
        #[test]
        fn the_dropped_set_grows(edges in prop::collection::vec((0usize..COUNT, 0usize..COUNT), 0..60)) {
            let (all, count) = dropped(&edges);
            prop_assert!(all[0].is_empty());
            prop_assert_eq!(all[count].len(), count);
            for pair in all.windows(2) {
                prop_assert!(pair[0].iter().all(|a| pair[1].contains(a)), "{:?}", pair);
            }
        }

        #[test]
        fn without_circles_each_step_drops_one(edges in prop::collection::vec((0usize..COUNT, 0usize..COUNT), 0..60)) {
            // All edges lead to a greater remainder of a multiplication: there is no cycle, and load order is no order of edges.
            let rank = |n: &usize| n * 7 % COUNT;
            let edges: Vec<(usize, usize)> = edges
                .iter()
                .map(|(a, b)| if rank(a) < rank(b) { (*a, *b) } else { (*b, *a) })
                .filter(|(a, b)| a != b)
                .collect();
            let (all, _) = dropped(&edges);
            for (limit, gone) in all.iter().enumerate() {
                prop_assert_eq!(gone.len(), limit, "{:?}", edges);
            }
        }
    }
}
