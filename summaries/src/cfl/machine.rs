//! The machine that finds value aliases: pairs of nodes that may hold the same address, by paths of the context-free grammar of
//! Zheng and Rugina (POPL 2008).
//!
//! A path goes back along assignments to where an address came from, and forth to where else it went; between two
//! assignments it may step once from the content of memory to that of the same memory under another name. Its states are LLVM's
//! `MatchState`s (`CFLAndersAliasAnalysis`): where the path is, and whether it has read or written on the way. The paper's S1
//! is [`MatchState::FlowFromReadOnly`], S2 the two that came back through a memory alias, S3 and S4 the others.
//!
//! Only paths from nodes that were asked for are followed; when one comes to the content of memory, the node that it is read through
//! is asked for as well. A fact carries the displacement of the two addresses; more than [`MOST_OFFSETS`] of them are any.
//! Work is bounded by a number of facts. There is no recursion.

use rustc_hash::{FxHashMap, FxHashSet};

use super::graph::{Graph, Node, NodeId};

/// Where in the grammar a path is: the state of the automaton.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum MatchState {
    /// The path has not begun: it is at its source.
    Start,
    /// The path went back along assignments, and nothing else.
    FlowFromReadOnly,
    /// At the same memory under another name, with no assignment before.
    FlowFromMemAliasNoReadWrite,
    /// The same, with assignments back before.
    FlowFromMemAliasReadOnly,
    /// The path went forth along assignments, and never back.
    FlowToWriteOnly,
    /// The path went forth, after some steps back.
    FlowToReadWrite,
    /// At the same memory under another name, on the way forth.
    FlowToMemAliasWriteOnly,
    FlowToMemAliasReadWrite,
}

impl MatchState {
    /// The state after a step back along an assignment; `None` if no path goes so.
    fn back(self) -> Option<MatchState> {
        use MatchState::*;
        match self {
            Start | FlowFromReadOnly | FlowFromMemAliasNoReadWrite | FlowFromMemAliasReadOnly => {
                Some(FlowFromReadOnly)
            }
            FlowToWriteOnly | FlowToReadWrite | FlowToMemAliasWriteOnly | FlowToMemAliasReadWrite => None,
        }
    }

    /// The state after a step forth along an assignment.
    fn forth(self) -> MatchState {
        use MatchState::*;
        match self {
            Start | FlowFromMemAliasNoReadWrite | FlowToWriteOnly | FlowToMemAliasWriteOnly => {
                FlowToWriteOnly
            }
            FlowFromReadOnly | FlowFromMemAliasReadOnly | FlowToReadWrite | FlowToMemAliasReadWrite => {
                FlowToReadWrite
            }
        }
    }

    /// The state behind a step to the same memory under another name: never twice in a row.
    fn aside(self) -> Option<MatchState> {
        use MatchState::*;
        match self {
            Start => Some(FlowFromMemAliasNoReadWrite),
            FlowFromReadOnly => Some(FlowFromMemAliasReadOnly),
            FlowToWriteOnly => Some(FlowToMemAliasWriteOnly),
            FlowToReadWrite => Some(FlowToMemAliasReadWrite),
            FlowFromMemAliasNoReadWrite
            | FlowFromMemAliasReadOnly
            | FlowToMemAliasWriteOnly
            | FlowToMemAliasReadWrite => None,
        }
    }
}

/// Displacements that are distinguished, for a pair of nodes and a state.
const MOST_OFFSETS: usize = 8;

/// What the second node holds may be what the first one holds, displaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) state: MatchState,
    pub(super) apart: Option<i64>,
}

/// The facts grew beyond the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

pub(super) struct Machine<'g> {
    pub(super) graph: &'g Graph,
    /// The displacements of each pair and state; any displacement is `[None]`.
    known: FxHashMap<(NodeId, NodeId, MatchState), Vec<Option<i64>>>,
    pub(super) facts: Vec<Fact>,
    /// How many facts have been followed; those behind it wait.
    followed: usize,
    asked: FxHashSet<NodeId>,
    /// By content: others of the same memory.
    aliases: FxHashMap<NodeId, Vec<NodeId>>,
    known_aliases: FxHashSet<(NodeId, NodeId)>,
    /// By content: the paths that came there and may step aside.
    waiting: FxHashMap<NodeId, Vec<Fact>>,
    most_facts: usize,
}

impl<'g> Machine<'g> {
    pub(super) fn new(graph: &'g Graph, most_facts: usize) -> Self {
        Machine {
            graph,
            known: FxHashMap::default(),
            facts: Vec::new(),
            followed: 0,
            asked: FxHashSet::default(),
            aliases: FxHashMap::default(),
            known_aliases: FxHashSet::default(),
            waiting: FxHashMap::default(),
            most_facts,
        }
    }

    /// Follow all paths from a node, too.
    pub(super) fn ask(&mut self, from: NodeId) {
        if self.asked.insert(from) {
            self.add(Fact { from, to: from, state: MatchState::Start, apart: Some(0) });
        }
    }

    /// Follow paths until there is no more, or until `done` says of a new fact that it is enough; true if it did.
    pub(super) fn run(&mut self, done: impl Fn(&Fact) -> bool) -> Result<bool, Exhausted> {
        while let Some(fact) = self.facts.get(self.followed).copied() {
            if self.facts.len() > self.most_facts {
                return Err(Exhausted);
            }
            if done(&fact) {
                return Ok(true);
            }
            self.followed += 1;
            self.follow(fact);
        }
        Ok(false)
    }

    /// Other names of the memory of a content, in the order of their discovery.
    pub(super) fn aliases(&self, content: NodeId) -> &[NodeId] {
        self.aliases.get(&content).map_or(&[], |a| a)
    }

    fn add(&mut self, fact: Fact) {
        let known = self.known.entry((fact.from, fact.to, fact.state)).or_default();
        if known.contains(&None) || known.contains(&fact.apart) {
            return;
        }
        let apart = fact.apart.filter(|_| known.len() < MOST_OFFSETS);
        if apart.is_none() {
            known.clear();
        }
        known.push(apart);
        self.facts.push(Fact { apart, ..fact });
    }

    fn follow(&mut self, fact: Fact) {
        let graph = self.graph;
        let Fact { from, to, state, apart } = fact;
        let next = |to, state, apart| Fact { from, to, state, apart };
        if let Some(state) = state.back() {
            for (source, by) in graph.assigned_from(to) {
                let apart = apart.zip(by).and_then(|(apart, by)| apart.checked_sub(by));
                self.add(next(source, state, apart));
            }
        }
        for (target, by) in graph.assigned_to(to) {
            let apart = apart.zip(by).and_then(|(apart, by)| apart.checked_add(by));
            self.add(next(target, state.forth(), apart));
        }
        if let Some(Node::Content { base, .. }) = graph.node(to)
            && let Some(state) = state.aside()
        {
            self.waiting.entry(to).or_default().push(fact);
            self.ask(base);
            for other in self.aliases(to).to_vec() {
                self.add(next(other, state, apart));
            }
        }
        // Both ends may point to the same memory.
        for content in graph.contents(from) {
            for other in graph.contents(to) {
                if content != other && graph.overlap(*content, *other, apart) {
                    self.alias(*content, *other);
                }
            }
        }
    }

    /// Two contents are of the same memory; told in both directions, as both may be asked for apart.
    fn alias(&mut self, a: NodeId, b: NodeId) {
        for (a, b) in [(a, b), (b, a)] {
            if !self.known_aliases.insert((a, b)) {
                continue;
            }
            self.aliases.entry(a).or_default().push(b);
            for fact in self.waiting.get(&a).cloned().unwrap_or_default() {
                if let Some(state) = fact.state.aside() {
                    self.add(Fact { to: b, state, ..fact });
                }
            }
        }
    }
}
