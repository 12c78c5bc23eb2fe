//! Variable elimination on the constraint graph: a local value is replaced by edges from its sources to its copies.
//!
//! A value is eliminated if only copies read it, only the function defines it, and it has one source or one copy. So a step adds at most
//! as many constraints as it removes. The displacements of both edges are added. The constraint of a load, or of the address of code or
//! data, has no displacement. So a value with such a source is kept unless all its copies are plain.

use super::rewrite::{defined_mut, inflows, passed};
use crate::ids::ValueIdx;
use crate::relation::{Constraint, FunctionSummary};

/// (value at the other end, displacement).
type Copy = (ValueIdx, Option<i64>);

/// The end of a list.
const END: u32 = u32::MAX;

#[derive(Clone)]
struct CopyNode {
    /// The first of the copies into it, including those that eliminated values passed on.
    from: u32,
    /// The first of the copies out of it, including those to eliminated values.
    to: u32,
    /// The first of the other constraints that define it.
    made_by: u32,
    /// How many of the copies still count.
    froms: u32,
    tos: u32,
    /// An instruction other than a copy reads or defines it.
    fixed: bool,
    gone: bool,
}

/// A list of copies is searched only so far.
const MOST_COPIES: usize = 64;

pub(super) fn eliminate(function: &mut FunctionSummary) {
    let mut graph = CopyGraph::new(function);
    let mut work: Vec<u32> = (0..graph.nodes.len() as u32).rev().collect();
    while let Some(value) = work.pop() {
        graph.take_out(ValueIdx(value), &mut work);
    }
    graph.write(function);
}

struct CopyGraph {
    nodes: Vec<CopyNode>,
    /// The entries of all lists of copies, each with the number of the next one.
    copies: Vec<(Copy, u32)>,
    /// Constraints other than copies, whose values may change; each with the next one that defines the same value.
    others: Vec<(Constraint, u32)>,
    /// The copies of the value that is being eliminated.
    sources: Vec<Copy>,
    uses: Vec<Copy>,
}

impl CopyGraph {
    fn new(function: &FunctionSummary) -> Self {
        let node = CopyNode { from: END, to: END, made_by: END, froms: 0, tos: 0, fixed: false, gone: false };
        let mut graph = CopyGraph {
            nodes: vec![node; function.values as usize],
            copies: Vec::with_capacity(function.constraints.len() * 2),
            others: Vec::with_capacity(function.constraints.len()),
            sources: Vec::new(),
            uses: Vec::new(),
        };
        for (node, inflow) in graph.nodes.iter_mut().zip(inflows(function)) {
            node.fixed = inflow;
        }
        let passed = function.call_sites.iter().flat_map(passed);
        for value in function.results.iter().map(|r| r.1).chain(passed) {
            graph.nodes[value.index()].fixed = true;
        }
        for constraint in &function.constraints {
            let read = match *constraint {
                Constraint::Assign { from, to, offset } => {
                    graph.add_copy(from, to, offset);
                    continue;
                }
                Constraint::Load { from, .. } => [Some(from.value), None],
                Constraint::Address { .. } | Constraint::Frame { .. } | Constraint::Unknown { .. } => {
                    [None, None]
                }
                Constraint::Store { from, to, .. } => [Some(from), Some(to.value)],
                Constraint::Copy { from, to, .. } => [Some(from.value), Some(to.value)],
                Constraint::Escape { from } | Constraint::EscapeCode { from } => [Some(from), None],
            };
            read.into_iter().flatten().for_each(|value| graph.nodes[value.index()].fixed = true);
            let number = graph.others.len() as u32;
            graph.others.push((*constraint, END));
            if let Some(to) = graph.others.last_mut().and_then(|other| defined_mut(&mut other.0).copied()) {
                graph.make(to, number);
            }
        }
        graph
    }

    /// A constraint defines a value.
    fn make(&mut self, value: ValueIdx, number: u32) {
        let node = &mut self.nodes[value.index()];
        self.others[number as usize].1 = std::mem::replace(&mut node.made_by, number);
    }

    /// Eliminate a value if that does not increase the number of constraints. With fewer copies the elimination of its neighbours may pay,
    /// so they are added to the work.
    fn take_out(&mut self, value: ValueIdx, work: &mut Vec<u32>) {
        let CopyNode { from, to, made_by, froms, tos, fixed, gone } = self.nodes[value.index()];
        let is_made = made_by != END;
        if fixed || gone || tos > 1 && (froms > 1 || is_made) {
            return;
        }
        let (mut sources, mut uses) = (std::mem::take(&mut self.sources), std::mem::take(&mut self.uses));
        self.living(from, &mut sources);
        self.living(to, &mut uses);
        let fits = sources.iter().all(|f| uses.iter().all(|t| sum(f.1, t.1).is_some()));
        let any = |copies: &[Copy]| copies.iter().any(|c| c.1.is_none());
        // An unknown displacement makes many offsets of one, so it is applied once.
        let repeats = any(&sources) && tos > 1 || any(&uses) && froms > 1;
        if !fits || repeats || is_made && uses.iter().any(|t| t.1 != Some(0)) {
            self.nodes[value.index()].fixed = true;
        } else {
            self.nodes[value.index()].gone = true;
            sources.iter().for_each(|f| self.nodes[f.0.index()].tos -= 1);
            uses.iter().for_each(|t| self.nodes[t.0.index()].froms -= 1);
            for (to, by) in &uses {
                for (from, before) in &sources {
                    if let Some(offset) = sum(*before, *by) {
                        self.copy(*from, *to, offset);
                    }
                }
                let mut number = made_by;
                while let Some((made, next)) = self.others.get_mut(number as usize) {
                    let own = std::mem::replace(&mut number, *next);
                    if let Some(defined) = defined_mut(made) {
                        *defined = *to;
                        self.make(*to, own);
                    }
                }
            }
            work.extend(sources.iter().chain(&uses).map(|n| n.0.0));
        }
        sources.clear();
        uses.clear();
        (self.sources, self.uses) = (sources, uses);
    }

    /// The copies of a list whose other ends still count.
    fn living(&self, mut at: u32, living: &mut Vec<Copy>) {
        while let Some((copy, next)) = self.copies.get(at as usize) {
            if !self.nodes[copy.0.index()].gone {
                living.push(*copy);
            }
            at = *next;
        }
    }

    /// Add a copy that replaces two; a copy that exists already is not added.
    fn copy(&mut self, from: ValueIdx, to: ValueIdx, offset: Option<i64>) {
        let mut at = self.nodes[from.index()].to;
        let mut is_known = false;
        for _ in 0..MOST_COPIES {
            let Some((copy, next)) = self.copies.get(at as usize).filter(|_| !is_known) else { break };
            is_known = *copy == (to, offset);
            at = *next;
        }
        if !is_known && (from != to || offset != Some(0)) {
            self.add_copy(from, to, offset);
        }
    }

    fn add_copy(&mut self, from: ValueIdx, to: ValueIdx, offset: Option<i64>) {
        let next = self.copies.len() as u32;
        let source = &mut self.nodes[from.index()];
        self.copies.push(((to, offset), std::mem::replace(&mut source.to, next)));
        source.tos += 1;
        // A value that is copied to itself cannot be eliminated.
        source.fixed |= from == to;
        let target = &mut self.nodes[to.index()];
        self.copies.push(((from, offset), std::mem::replace(&mut target.from, next + 1)));
        target.froms += 1;
    }

    fn write(self, function: &mut FunctionSummary) {
        function.constraints.clear();
        function.constraints.extend(self.others.iter().map(|other| other.0));
        let mut copies = Vec::new();
        for (i, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.gone) {
            self.living(node.to, &mut copies);
            let from = ValueIdx::new(i);
            let copies = copies.drain(..).map(|(to, offset)| Constraint::Assign { from, to, offset });
            function.constraints.extend(copies);
        }
    }
}

/// The sum of two displacements; `None` on overflow.
fn sum(a: Option<i64>, b: Option<i64>) -> Option<Option<i64>> {
    match a.zip(b) {
        Some((a, b)) => a.checked_add(b).map(Some),
        None => Some(None),
    }
}
