//! Demand-driven questions about one function: may two values hold addresses in the same object, may two accesses touch the
//! same memory?
//!
//! This is MAYALIAS of Zheng and Rugina: only the paths that the two can lie on are followed. "No" is proved; "yes" is also the answer
//! when the budget is spent.

use super::graph::{EnvironmentAssumption, Graph, NodeId};
use super::machine::Machine;
use crate::ids::ValueIdx;
use crate::relation::{FunctionSummary, Place};

/// Which two values, or accesses of memory, are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Both values may hold an address in the same object.
    Values(ValueIdx, ValueIdx),
    /// The accesses, of so many bytes (0: unknown), may touch the same cell of 8 bytes.
    Memory((Place, u32), (Place, u32)),
}

/// The answer, and what it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub may_alias: bool,
    /// The budget was spent: nothing is known.
    pub exhausted: bool,
    /// Facts that were found on the way.
    pub facts: usize,
}

/// Facts after which a question counts as unanswered.
pub const MOST_FACTS: usize = 1 << 20;

/// Ask whether two values of a function may alias, within the budget.
pub fn may_alias(
    function: &FunctionSummary,
    surroundings: EnvironmentAssumption,
    query: Query,
    most_facts: usize,
) -> Answer {
    let places: Vec<(Place, u32)> = match query {
        Query::Values(..) => Vec::new(),
        Query::Memory(a, b) => vec![a, b],
    };
    let (graph, contents) = Graph::new(function, surroundings, &places);
    let (a, b) = match query {
        Query::Values(a, b) => (a, b),
        Query::Memory(a, b) => (a.0.value, b.0.value),
    };
    let mut machine = Machine::new(&graph, most_facts);
    let (start, end): (NodeId, NodeId) = (a.0, b.0);
    machine.ask(start);
    let found = machine.run(|fact| {
        fact.from == start
            && fact.to == end
            && match contents.as_slice() {
                [a, b] => graph.overlap(*a, *b, fact.apart),
                _ => true,
            }
    });
    let facts = machine.facts.len();
    match found {
        Ok(may_alias) => Answer { may_alias, exhausted: false, facts },
        Err(_) => Answer { may_alias: true, exhausted: true, facts },
    }
}
