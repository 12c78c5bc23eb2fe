//! Variable elimination on the constraint graph: a local value is replaced by edges from its sources to its copies.
//!
//! A value is eliminated if only copies read it, only the function defines it, and it has one source or one copy. So a step adds at most
//! as many constraints as it removes. The displacements of both edges are added. The constraint of a load, or of the address of code or
//! data, has no displacement. So a value with such a source is kept unless all its copies are plain.

use super::rewrite::{inflows, passed};
use crate::ids::ValueIdx;
use crate::relation::{Constraint, FunctionSummary};

/// (value at the other end, displacement).
type Copy = (ValueIdx, Option<i64>);

#[derive(Default, Clone)]
struct CopyNode {
    /// Copies into it, including those that eliminated values passed on.
    from: Vec<Copy>,
    /// Other constraints that add to it, by number.
    made_by: Vec<u32>,
    /// Copies out of it, including those to eliminated values.
    to: Vec<Copy>,
    /// How many of the copies still count.
    froms: usize,
    tos: usize,
    /// An instruction other than a copy reads or defines it.
    fixed: bool,
    gone: bool,
}

/// A list of copies with more entries than this is not searched.
const MOST_COPIES: usize = 64;

pub(super) fn eliminate(function: &mut FunctionSummary) {
    let mut graph = CopyGraph::new(function);
    let mut work: Vec<u32> = (0..graph.nodes.len() as u32).rev().collect();
    while let Some(value) = work.pop() {
        let Some(neighbours) = graph.take_out(ValueIdx(value)) else { continue };
        // With fewer copies the elimination of the neighbours may pay.
        work.extend(neighbours);
    }
    graph.write(function);
}

struct CopyGraph {
    nodes: Vec<CopyNode>,
    /// Constraints other than copies; the value that one defines may change.
    others: Vec<Constraint>,
}

impl CopyGraph {
    fn new(function: &FunctionSummary) -> Self {
        let mut graph =
            CopyGraph { nodes: vec![CopyNode::default(); function.values as usize], others: Vec::new() };
        for (node, inflow) in graph.nodes.iter_mut().zip(inflows(function)) {
            node.fixed = inflow;
        }
        let fix = |v: ValueIdx, graph: &mut CopyGraph| graph.nodes[v.index()].fixed = true;
        for value in function.results.iter().map(|r| r.1).chain(function.call_sites.iter().flat_map(passed)) {
            fix(value, &mut graph);
        }
        for constraint in &function.constraints {
            let number = graph.others.len() as u32;
            match *constraint {
                Constraint::Assign { from, to, offset } => {
                    graph.add_copy(from, to, offset);
                    continue;
                }
                Constraint::Load { from, to, .. } => {
                    fix(from.value, &mut graph);
                    graph.nodes[to.index()].made_by.push(number);
                }
                Constraint::Address { to, .. }
                | Constraint::Frame { to, .. }
                | Constraint::Unknown { to } => {
                    graph.nodes[to.index()].made_by.push(number);
                }
                Constraint::Store { from, to, .. } => {
                    [from, to.value].into_iter().for_each(|v| fix(v, &mut graph))
                }
                Constraint::Copy { from, to, .. } => {
                    [from.value, to.value].into_iter().for_each(|v| fix(v, &mut graph));
                }
                Constraint::Escape { from } | Constraint::EscapeCode { from } => fix(from, &mut graph),
            }
            graph.others.push(*constraint);
        }
        graph
    }

    /// Eliminate a value if that does not increase the number of constraints; returns its neighbours.
    fn take_out(&mut self, value: ValueIdx) -> Option<Vec<u32>> {
        let node = &self.nodes[value.index()];
        let (sources, uses) = (node.froms + node.made_by.len(), node.tos);
        let made = !node.made_by.is_empty();
        if node.fixed || node.gone || uses > 1 && (sources > 1 || made) {
            return None;
        }
        let nodes = &self.nodes;
        let lives = |c: &&Copy| !nodes[c.0.index()].gone;
        let from: Vec<Copy> = node.from.iter().filter(lives).copied().collect();
        let to: Vec<Copy> = node.to.iter().filter(lives).copied().collect();
        let fits = from.iter().all(|f| to.iter().all(|t| sum(f.1, t.1).is_some()));
        let any = |copies: &[Copy]| copies.iter().any(|c| c.1.is_none());
        // An unknown displacement makes many offsets of one, so it is applied once.
        let repeats = any(&from) && uses > 1 || any(&to) && sources > 1;
        if !fits || repeats || made && to.iter().any(|t| t.1 != Some(0)) {
            self.nodes[value.index()].fixed = true;
            return None;
        }
        let node =
            std::mem::replace(&mut self.nodes[value.index()], CopyNode { gone: true, ..CopyNode::default() });
        from.iter().for_each(|f| self.nodes[f.0.index()].tos -= 1);
        to.iter().for_each(|t| self.nodes[t.0.index()].froms -= 1);
        for (to, by) in &to {
            for (from, before) in &from {
                if let Some(offset) = sum(*before, *by) {
                    self.copy(*from, *to, offset);
                }
            }
            for made_by in &node.made_by {
                let new = self.others.get_mut(*made_by as usize).and_then(target);
                if let Some(made) = new {
                    *made = *to;
                    self.nodes[to.index()].made_by.push(*made_by);
                }
            }
        }
        Some(from.iter().chain(&to).map(|n| n.0.0).collect())
    }

    /// Add a copy that replaces two; a copy that exists already is not added.
    fn copy(&mut self, from: ValueIdx, to: ValueIdx, offset: Option<i64>) {
        let known = &self.nodes[from.index()].to;
        let is_known = known.len() <= MOST_COPIES && known.contains(&(to, offset));
        if !is_known && (from != to || offset != Some(0)) {
            self.add_copy(from, to, offset);
        }
    }

    fn add_copy(&mut self, from: ValueIdx, to: ValueIdx, offset: Option<i64>) {
        let source = &mut self.nodes[from.index()];
        source.to.push((to, offset));
        source.tos += 1;
        // A value that is copied to itself cannot be eliminated.
        source.fixed |= from == to;
        let target = &mut self.nodes[to.index()];
        target.from.push((from, offset));
        target.froms += 1;
    }

    fn write(self, function: &mut FunctionSummary) {
        function.constraints = self.others;
        for (i, node) in self.nodes.iter().enumerate() {
            let from = ValueIdx::new(i);
            let lives = |t: &&Copy| !self.nodes[t.0.index()].gone;
            let copies = node.to.iter().filter(lives).map(|(to, offset)| Constraint::Assign {
                from,
                to: *to,
                offset: *offset,
            });
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

/// The value that a constraint defines, if it defines one.
fn target(constraint: &mut Constraint) -> Option<&mut ValueIdx> {
    match constraint {
        Constraint::Address { to, .. }
        | Constraint::Frame { to, .. }
        | Constraint::Assign { to, .. }
        | Constraint::Load { to, .. }
        | Constraint::Unknown { to } => Some(to),
        Constraint::Store { .. }
        | Constraint::Copy { .. }
        | Constraint::Escape { .. }
        | Constraint::EscapeCode { .. } => None,
    }
}
