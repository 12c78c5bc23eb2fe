//! `audit calls`: the callees of each indirect call by value flow, or what stops following it, and the bytes that hang on it.
//!
//! What hangs on a call is what the graph no longer reaches without the edges that are there only for it. That is a lower bound: a callee
//! that another call of the same function may reach too, or that is kept by a mention, hangs on none. Calls that nobody knows
//! share what they keep, as each of them may call all that escaped; so it is one number. Left out: direct calls.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{place, symbol};
use crate::audit::commands::limits::{Reachable, escaped, unknown_calls};
use crate::audit::demangle::demangle;
use crate::audit::model::Model;
use crate::audit::read::ReadCallSite;
use crate::audit::table::{Answer, Cell, Table};
use crate::report::graph::BY_SITE;

const COLUMNS: [&str; 6] = ["bytes", "atoms", "call", "in", "state", "leads to"];

/// What may become of a function that only mentions of its address reach, in words.
const FATES: [(&str, &str); 11] = [
    ("dropped", "nothing needs it or its address"),
    ("stub", "its address is needed, and nothing calls it"),
    ("called", "a call whose callees are known leads there"),
    ("kept-whole", "what refers to it is not followed, or it can be no stub"),
    ("unfollowed", "code or data that is not followed has its address"),
    ("not-modelled", "an instruction that is not modelled has its address"),
    ("unseen-callee", "it is passed to a function that is not followed"),
    ("unknown-callee", "it is passed by a call that may lead anywhere"),
    ("stored", "it is stored where anything may read it"),
    ("returned", "a function returns it that anything may call"),
    ("library", "a library keeps it"),
];

/// Callees that a row of a table names; of more it says how many.
const NAMED: usize = 4;

pub(crate) fn answer(model: &Model<'_>, request: &Request) -> Answer {
    let mut answer = Answer::default();
    let mut table = Table::new("calls", "indirect calls of what lives", &COLUMNS);
    let title = "what stops following values, by the first place where it does";
    let mut stops = Table::new("stops", title, &["calls", "because"]);
    let title = "code that only mentions of its address reach, by what became of it";
    let mut fates = Table::new("candidates", title, &["bytes", "atoms", "what", "that is"]);
    let reachable = Reachable::new(model);
    match &model.value_flow {
        None => answer.lines.push(match &model.report.not_analysed {
            Some(why) => {
                let action = why.action.as_ref().map(|action| format!("; {action}")).unwrap_or_default();
                format!("{}: addresses were not analysed: {}{action}", model.report.output, why.reason)
            }
            None => format!(
                "{}: addresses were not analysed; link with --prune-level=pointers",
                model.report.output
            ),
        }),
        Some(flow) => {
            answer.lines.extend(unknown_calls(flow, escaped(model, &reachable)));
            let mut candidates: Vec<_> = flow.candidates.iter().collect();
            candidates.sort_by_key(|c| std::cmp::Reverse(c.bytes));
            for found in candidates {
                let words = FATES.iter().find(|fate| fate.0 == found.what).map_or("", |fate| fate.1);
                let numbers = [found.bytes, found.atoms].map(Cell::Number);
                fates.row(numbers.into_iter().chain([Cell::text(&*found.what), Cell::text(words)]).collect());
            }
        }
    }
    let mut sites_of: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for site in &model.call_sites {
        for target in callees_of(site) {
            *sites_of.entry((site.caller, target)).or_default() += 1;
        }
    }
    let mut found: Vec<(u64, u64, &ReadCallSite<'_>)> = Vec::new();
    let mut because: BTreeMap<&str, u64> = BTreeMap::new();
    for site in &model.call_sites {
        let (bytes, atoms) = hanging(model, &reachable, &sites_of, site);
        found.push((bytes, atoms, site));
        if let Some(why) = site.because.as_deref() {
            *because.entry(why).or_default() += 1;
        }
    }
    // Stable: those of one size stay in the order of the link.
    found.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    for (bytes, atoms, site) in found {
        let caller = model.atoms.get(site.caller as usize);
        let at = caller.map(|caller| match caller.section_index == Some(site.section) {
            true => place(model, caller, Some(site.offset)),
            false => format!("{} [section {}+{:#x}]", place(model, caller, None), site.section, site.offset),
        });
        table.row(vec![
            Cell::Number(bytes),
            Cell::Number(atoms),
            Cell::Text(at.unwrap_or_default()),
            Cell::Text(caller.map(|caller| symbol(model, caller)).unwrap_or_default()),
            Cell::text(&*site.state),
            Cell::Text(callees(model, site)),
        ]);
    }
    table.limit(rows(request, ROWS));
    let mut sorted: Vec<(&str, u64)> = because.into_iter().collect();
    sorted.sort_by_key(|(why, calls)| (std::cmp::Reverse(*calls), *why));
    for (why, calls) in sorted {
        stops.row(vec![Cell::Number(calls), Cell::text(why)]);
    }
    stops.limit(rows(request, ROWS));
    answer.facts = vec![("sites", model.call_sites.len().into())];
    answer.tables = vec![table, stops, fates];
    answer
}

/// The atoms that a call may call, ascending.
fn callees_of(site: &ReadCallSite<'_>) -> BTreeSet<u32> {
    site.targets.iter().map(|t| t.atom).collect()
}

/// Bytes and atoms that live only through a call. `sites_of` has the number of calls from each atom to another.
fn hanging(
    model: &Model<'_>,
    reachable: &Reachable,
    sites_of: &BTreeMap<(u32, u32), usize>,
    site: &ReadCallSite<'_>,
) -> (u64, u64) {
    let mut own = callees_of(site);
    own.retain(|target| sites_of.get(&(site.caller, *target)) == Some(&1));
    let is_own = |number: u32| {
        let edge = model.edges.get(number as usize);
        edge.is_some_and(|e| e.from == site.caller && e.flags & BY_SITE != 0 && own.contains(&e.to))
    };
    if own.is_empty() { (0, 0) } else { reachable.only_through(is_own) }
}

/// What a call may call, in words.
fn callees(model: &Model<'_>, site: &ReadCallSite<'_>) -> String {
    if let Some(because) = &site.because {
        return because.clone().into_owned();
    }
    let own = site.targets.iter().filter_map(|t| model.atoms.get(t.atom as usize)).map(|a| symbol(model, a));
    let mut names: Vec<String> = own.chain(site.externals.iter().map(|e| demangle(e).into_owned())).collect();
    // Functions that stay together are one atom.
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    let named = names.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named}, … and {more} more") }
}
