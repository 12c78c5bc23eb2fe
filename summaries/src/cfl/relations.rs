//! What a function does with addresses, as its callers see it: external relations and attributes.
//!
//! An interface value is something that both sides name, or memory reached from it by so many dereferences: `(parameter, 1)` is what
//! the parameter points to. A relation says that what one interface value holds, displaced, another one holds too. The words are those of
//! LLVM's `AliasAnalysisSummary`, with call sites and labels as further roots, so that the set is closed: nothing else of
//! the function is needed to tell what goes where, given that memory under several names is joined by whoever
//! joins relations. Within the function memory under several names is joined by the machine.
//!
//! Left out: that a parameter comes back in its own register, which `FunctionSummary::preserved` says; which bytes of memory; levels beyond [`MOST_LEVELS`] are one. When the budget is spent, everything relates to everything.

use std::collections::BTreeSet;

use super::graph::{EnvironmentAssumption, Graph, Node, NodeId};
use super::machine::Machine;
use crate::registers::Register;
use crate::relation::{Callee, FunctionSummary};
use crate::summary::Target;

/// The highest level of dereference; it stands for all above it.
pub const MOST_LEVELS: u8 = 3;

/// What both sides of the border name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterfaceBase {
    Parameter(Register),
    /// A cell of the stack at entry, by offset.
    StackParameter(i32),
    Result(Register),
    /// An argument of a call site, by the site's number.
    Actual(u32, Register),
    StackActual(u32, i32),
    Returned(u32, Register),
    /// What the call site of this number calls.
    Called(u32),
    /// What comes in where the function is entered at labels.
    Label,
    /// The address of a symbol, or of a place in the module.
    Global(Target),
    /// The address of the frame: the stack pointer at entry.
    Frame,
    /// Whatever escaped; what goes there escapes.
    Unknown,
}

/// A base of the interface, dereferenced `level` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceValue {
    pub base: InterfaceBase,
    pub level: u8,
}

/// What `from` holds, displaced, `to` holds too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExternalRelation {
    pub from: InterfaceValue,
    pub to: InterfaceValue,
    pub offset: Option<i64>,
}

/// What an interface value may hold besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// Unseen code may have the value's address.
    Escaped,
    /// It holds whatever escaped, from anywhere.
    Unknown,
    /// It holds something that the caller passed.
    Caller,
    /// It holds the address of a symbol.
    Global,
}

/// The closed set, sorted; or everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relations {
    Closed {
        relations: Vec<ExternalRelation>,
        attributes: Vec<(InterfaceValue, Attribute)>,
    },
    /// The budget was spent: every interface value relates to every other one, and escapes.
    Everything,
}

/// Displacements of a relation that are distinguished.
const MOST_OFFSETS: usize = 8;

/// The relations of a function, within a budget of facts.
pub fn relations(function: &FunctionSummary, most_facts: usize) -> Relations {
    let (graph, _) = Graph::new(function, EnvironmentAssumption::Nothing, &[]);
    let mut machine = Machine::new(&graph, most_facts);
    for node in &graph.nodes {
        if let Node::Content { base, .. } = node {
            machine.ask(*base);
        }
    }
    if machine.run(|_| false).is_err() {
        return Relations::Everything;
    }
    let mut flow = RootFlow { held: vec![BTreeSet::new(); graph.nodes.len()], work: Vec::new(), count: 0 };
    for (base, node) in sources(function, &graph) {
        flow.add(node, InterfaceValue { base, level: 0 }, Some(0));
    }
    let mut named: Vec<BTreeSet<InterfaceValue>> = vec![BTreeSet::new(); graph.nodes.len()];
    while let Some((node, value, offset)) = flow.work.pop() {
        if flow.count > most_facts {
            return Relations::Everything;
        }
        for (to, by) in graph.assigned_to(node) {
            let offset = offset.zip(by).and_then(|(offset, by)| offset.checked_add(by));
            flow.add(to, value, offset);
        }
        for other in machine.aliases(node) {
            flow.add(*other, value, offset);
        }
        let level = (value.level + 1).min(MOST_LEVELS);
        for content in graph.contents(node) {
            // What escaped is one, however deep.
            let inside = InterfaceValue {
                level: if value.base == InterfaceBase::Unknown { 0 } else { level },
                ..value
            };
            for name in std::iter::once(content).chain(machine.aliases(*content)) {
                named[*name as usize].insert(inside);
            }
            flow.add(*content, inside, Some(0));
        }
    }
    let mut found = BTreeSet::new();
    let sinks = sinks(function, &graph);
    let memory =
        named.iter().enumerate().flat_map(|(node, names)| names.iter().map(move |n| (node as NodeId, *n)));
    for (node, to) in sinks.into_iter().map(|(base, n)| (n, InterfaceValue { base, level: 0 })).chain(memory)
    {
        for (from, offset) in flow.held.get(node as usize).into_iter().flatten() {
            let nothing = *from == to && (*offset == Some(0) || to.base == InterfaceBase::Unknown);
            if !nothing {
                found.insert(ExternalRelation { from: *from, to, offset: *offset });
            }
        }
    }
    let attributes = attributes(&found);
    Relations::Closed { relations: found.into_iter().collect(), attributes }
}

/// What roots hold, carried forth along assignments.
struct RootFlow {
    /// By node: the interface values that it holds, each displaced.
    held: Vec<BTreeSet<(InterfaceValue, Option<i64>)>>,
    work: Vec<(NodeId, InterfaceValue, Option<i64>)>,
    count: usize,
}

impl RootFlow {
    fn add(&mut self, node: NodeId, value: InterfaceValue, offset: Option<i64>) {
        let Some(held) = self.held.get_mut(node as usize) else { return };
        let own = held.range((value, None)..).take_while(|h| h.0 == value);
        let (count, any) = own.fold((0, false), |(n, any), h| (n + 1, any || h.1.is_none()));
        let offset = offset.filter(|_| count < MOST_OFFSETS);
        if !any && held.insert((value, offset)) {
            self.count += 1;
            self.work.push((node, value, offset));
        }
    }
}

/// Where addresses come into the function, and the nodes that hold them then.
fn sources(function: &FunctionSummary, graph: &Graph) -> Vec<(InterfaceBase, NodeId)> {
    let mut sources: Vec<(InterfaceBase, NodeId)> = vec![(InterfaceBase::Unknown, graph.unknown)];
    sources.extend(function.parameters.iter().map(|(r, v)| (InterfaceBase::Parameter(*r), v.0)));
    sources.extend(function.stack_parameters.iter().map(|(o, v)| (InterfaceBase::StackParameter(*o), v.0)));
    sources.extend(function.indirect_entry_values.iter().map(|v| (InterfaceBase::Label, v.0)));
    for (i, site) in (0..).zip(&function.call_sites) {
        sources.extend(site.results.iter().map(|(r, v)| (InterfaceBase::Returned(i, *r), v.0)));
    }
    for (i, node) in (0..).zip(&graph.nodes) {
        match node {
            Node::Symbol(target) => sources.push((InterfaceBase::Global(*target), i)),
            Node::Frame => sources.push((InterfaceBase::Frame, i)),
            Node::Value(_) | Node::Content { .. } | Node::Unknown => {}
        }
    }
    sources
}

/// Where addresses leave the function, and the nodes that hold them then.
fn sinks(function: &FunctionSummary, graph: &Graph) -> Vec<(InterfaceBase, NodeId)> {
    let mut sinks: Vec<(InterfaceBase, NodeId)> = vec![(InterfaceBase::Unknown, graph.unknown)];
    sinks.extend(function.results.iter().map(|(r, v)| (InterfaceBase::Result(*r), v.0)));
    for (i, site) in (0..).zip(&function.call_sites) {
        sinks.extend(site.actuals.iter().map(|(r, v)| (InterfaceBase::Actual(i, *r), v.0)));
        sinks.extend(site.stack.iter().map(|(o, v)| (InterfaceBase::StackActual(i, *o), v.0)));
        if let Callee::Indirect(value) = site.callee {
            sinks.push((InterfaceBase::Called(i), value.0));
        }
    }
    sinks
}

fn attributes(relations: &BTreeSet<ExternalRelation>) -> Vec<(InterfaceValue, Attribute)> {
    let mut attributes = BTreeSet::new();
    for ExternalRelation { from, to, .. } in relations {
        if to.base == InterfaceBase::Unknown {
            attributes.insert((*from, Attribute::Escaped));
        }
        match from.base {
            InterfaceBase::Unknown => attributes.insert((*to, Attribute::Unknown)),
            InterfaceBase::Parameter(_) | InterfaceBase::StackParameter(_) => {
                attributes.insert((*to, Attribute::Caller))
            }
            InterfaceBase::Global(_) => attributes.insert((*to, Attribute::Global)),
            _ => false,
        };
    }
    attributes.into_iter().collect()
}
