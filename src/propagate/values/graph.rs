//! The graph of inclusion constraints: nodes with sets of addresses, objects with cells, and what is asked of both.
//!
//! A node is anything that holds addresses: a value of a function, or a cell of 8 bytes of an object. A [`Use`] of a node
//! says what each address that it holds implies: a displaced copy elsewhere, a load, a store. Memory of an object is
//! divided into cells by known offset and one for stores at an unknown offset, which every load reads too. One node
//! collects all that escaped; an element that stands for it ([`Cause`]) is in every set that unseen code may write.
//!
//! This file builds; `solve` propagates. Neither knows what the objects are.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::sets::{Element, Set, UNKNOWN_OBJECT};

/// A node: index into the table of nodes. Collapsed nodes have one representative.
pub(super) type NodeId = u32;

/// The node of all that escaped.
pub(super) const ESCAPED: NodeId = 0;

/// Why a value may be anything that escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The front end lost it.
    FrontEnd,
    /// A parameter of something that escaped, or a value at a label that did.
    Parameter,
    /// Read from memory that escaped.
    Memory,
    /// The result of a call that goes to something unknown.
    Result,
    /// Defined outside of the modules.
    Outside,
}

impl Cause {
    pub const ALL: [Cause; 5] =
        [Cause::FrontEnd, Cause::Parameter, Cause::Memory, Cause::Result, Cause::Outside];

    pub(super) fn element(self) -> Element {
        Element::new(UNKNOWN_OBJECT, self as u32)
    }

    pub(super) fn of(element: Element) -> Option<Cause> {
        element.is_unknown().then(|| Cause::ALL.get(element.code() as usize).copied()).flatten()
    }
}

/// What an object is to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has contents.
    Memory,
    /// Loads read nothing, stores write nothing that can be read.
    Opaque,
    /// Memory of a library: its own addresses and what is stored there are all that can be read. Its cells have only
    /// what is stored.
    Owned,
    /// Memory that unseen code shares: loads read the unknown, what is stored escapes.
    Foreign,
}

/// Bytes in a cell.
pub(super) const CELL: i64 = 8;
/// How far an offset may leave its object and still be known.
const MARGIN: i64 = 4096;
/// Longest access that is divided into cells, in bytes; a longer one is of an unknown number.
const MAX_ACCESS: u32 = 256;

pub(super) struct Object {
    pub(super) kind: Kind,
    /// First and one past the last byte, in whatever coordinates the builder uses.
    start: i64,
    end: i64,
    pub(super) cells: BTreeMap<i64, NodeId>,
    /// What was stored at an unknown offset.
    pub(super) anywhere: Option<NodeId>,
    /// The union of all cells.
    pub(super) whole: Option<NodeId>,
    /// What was stored at an unknown offset not below the given one: parameters on the stack of a frame.
    pub(super) above: Option<(i64, NodeId)>,
    /// Ranges that are copied elsewhere, for cells that come later.
    pub(super) copied: Vec<RangeCopy>,
    pub(super) escaped: bool,
    /// Others were joined with it: its places are no longer told apart.
    pub(super) joined: bool,
}

/// Cells from `from` up to `end` go to the cells of `object` that are `shift` bytes further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RangeCopy {
    pub(super) from: i64,
    pub(super) end: i64,
    pub(super) object: u32,
    pub(super) shift: i64,
}

/// What each element of a node implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Use {
    /// `to` holds it, displaced.
    Displace { to: NodeId, by: Option<i64> },
    /// `to` holds what memory there holds.
    Load { to: NodeId, offset: Option<i64>, size: u32 },
    /// Memory there holds what `from` holds.
    Store { from: NodeId, offset: Option<i64>, size: u32 },
    /// Memory there is copied to where `to` points.
    CopyFrom { to: NodeId, from_offset: Option<i64>, to_offset: Option<i64>, size: u32 },
    /// Memory at `from` is copied there.
    CopyTo { from: NodeId, from_offset: Option<i64>, to_offset: Option<i64>, size: u32 },
    /// `to` holds it, if it is the address of code.
    Code { to: NodeId },
    /// The builder is told of it: something is called.
    Call { site: u32 },
}

/// What the builder is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Event {
    Called { site: u32, element: Element },
    Escaped(Element),
}

#[derive(Default)]
pub(super) struct Node {
    pub(super) set: Set,
    /// What is in `set` and has not been handed on.
    pub(super) delta: Vec<Element>,
    /// Nodes that hold all that this one holds.
    pub(super) successors: Vec<NodeId>,
    pub(super) uses: Vec<Use>,
    pub(super) queued: bool,
    pub(super) urgent: bool,
    /// All that it holds escapes.
    pub(super) leaks: bool,
    /// With fewer elements than this the set is within the budget.
    pub(super) counted_at: usize,
}

pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Union-find: a collapsed node points to the one that stands for it.
    pub(super) parent: Vec<NodeId>,
    pub(super) objects: Vec<Object>,
    /// Union-find over objects: one that was joined with others points to the one that stands for them.
    pub(super) same: Vec<u32>,
    /// Objects of memory that a set tells apart; beyond, they are joined.
    pub(super) budget: usize,
    /// Nodes whose sets exceed that.
    pub(super) over_budget: Vec<NodeId>,
    pub(super) joined_objects: usize,
    pub(super) known_edges: FxHashSet<(NodeId, NodeId)>,
    known_uses: FxHashSet<(NodeId, Use)>,
    pub(super) work: super::solve::Work,
    pub(super) events: Vec<Event>,
    /// Constraints that were stated, for the report.
    pub(super) constraints: usize,
    /// Nodes that may be anything by themselves, for explanations.
    pub(super) seeds: Vec<(NodeId, Cause)>,
}

impl Graph {
    pub(super) fn new(budget: usize) -> Self {
        let mut graph = Graph {
            nodes: Vec::new(),
            parent: Vec::new(),
            objects: Vec::new(),
            same: Vec::new(),
            budget,
            over_budget: Vec::new(),
            joined_objects: 0,
            known_edges: FxHashSet::default(),
            known_uses: FxHashSet::default(),
            work: super::solve::Work::default(),
            events: Vec::new(),
            constraints: 0,
            seeds: Vec::new(),
        };
        graph.node();
        // Object 0 is no object: its elements stand for the unknown.
        graph.object(Kind::Foreign, 0, 0);
        graph
    }

    pub(super) fn node(&mut self) -> NodeId {
        let id = self.nodes.len() as NodeId;
        self.nodes.push(Node::default());
        self.parent.push(id);
        id
    }

    /// `count` nodes in a row; the first one's number.
    pub(super) fn nodes(&mut self, count: u32) -> NodeId {
        let first = self.nodes.len() as NodeId;
        (0..count).for_each(|_| {
            self.node();
        });
        first
    }

    pub(super) fn object(&mut self, kind: Kind, start: i64, end: i64) -> u32 {
        self.objects.push(Object {
            kind,
            start,
            end,
            cells: BTreeMap::new(),
            anywhere: None,
            whole: None,
            above: None,
            copied: Vec::new(),
            escaped: false,
            joined: false,
        });
        self.same.push((self.objects.len() - 1) as u32);
        (self.objects.len() - 1) as u32
    }

    /// The address of an object, `None` anywhere in it.
    pub(super) fn element(&self, object: u32, offset: Option<i64>) -> Element {
        let Some(of) = self.objects.get(object as usize) else { return Element::new(object, 0) };
        let low = of.start.saturating_sub(MARGIN);
        if of.joined {
            return Element::new(object, 0);
        }
        let in_range = |o: &i64| low <= *o && *o <= of.end.saturating_add(MARGIN);
        let code = offset.filter(in_range).and_then(|o| o.checked_sub(low)?.checked_add(1));
        Element::new(object, code.and_then(|c| u32::try_from(c).ok()).unwrap_or(0))
    }

    /// The offset of an element, if it is known.
    pub(super) fn offset(&self, element: Element) -> Option<i64> {
        let of = self.objects.get(element.object() as usize)?;
        let code = element.code().checked_sub(1)?;
        of.start.saturating_sub(MARGIN).checked_add(i64::from(code))
    }

    /// An element displaced.
    pub(super) fn displaced(&self, element: Element, by: Option<i64>) -> Element {
        if element.is_unknown() {
            return element;
        }
        let offset = self.offset(element).zip(by).and_then(|(o, by)| o.checked_add(by));
        self.element(element.object(), offset)
    }

    pub(super) fn find(&self, mut node: NodeId) -> NodeId {
        while let Some(&parent) = self.parent.get(node as usize)
            && parent != node
        {
            node = parent;
        }
        node
    }

    /// What a node holds.
    pub(super) fn set(&self, node: NodeId) -> &[Element] {
        self.nodes[self.find(node) as usize].set.as_slice()
    }

    /// `node` holds `element`.
    pub(super) fn add(&mut self, node: NodeId, element: Element) {
        self.join(node, &[element]);
    }

    /// `node` may hold anything that escaped.
    pub(super) fn add_unknown(&mut self, node: NodeId, cause: Cause) {
        if !self.nodes[self.find(node) as usize].set.covers(cause.element()) {
            self.seeds.push((node, cause));
            self.add(node, cause.element());
        }
    }

    pub(super) fn join(&mut self, node: NodeId, elements: &[Element]) {
        let id = self.find(node);
        let canonical: Vec<Element>;
        let mut elements = elements;
        if self.joined_objects > 0 {
            canonical = elements.iter().map(|e| self.canonical(*e)).collect();
            elements = &canonical;
        }
        let node = &mut self.nodes[id as usize];
        let before = node.delta.len();
        node.set.join(elements, &mut node.delta);
        if id != ESCAPED && node.set.as_slice().len() > node.counted_at.max(self.budget) {
            self.over_budget.push(id);
            node.counted_at = usize::MAX;
        }
        let news = node.delta.get(before..).unwrap_or(&[]);
        if news.is_empty() {
            return;
        }
        // What escapes, and what may be anything, comes first: both cover much of the rest.
        let leaking = if node.leaks { news.to_vec() } else { Vec::new() };
        let urgent = id == ESCAPED || news.iter().any(|e| e.is_unknown());
        self.work.push(id, node, urgent);
        if !leaking.is_empty() {
            self.join(ESCAPED, &leaking);
        }
    }

    /// `to` holds all that `from` holds.
    pub(super) fn assign(&mut self, from: NodeId, to: NodeId) {
        let (from, to) = (self.find(from), self.find(to));
        if from == to || !self.known_edges.insert((from, to)) {
            return;
        }
        if to == ESCAPED {
            // Nothing is read from there, so the edge is in no cycle.
            self.nodes[from as usize].leaks = true;
        } else {
            self.nodes[from as usize].successors.push(to);
            self.work.new_edges += 1;
        }
        let set = std::mem::take(&mut self.nodes[from as usize].set);
        self.hand_on(set.as_slice(), to);
        self.nodes[from as usize].set = set;
    }

    /// `node` is used so; its elements imply what they imply, now and later.
    pub(super) fn add_use(&mut self, node: NodeId, what: Use) {
        if let Use::Displace { to, by: Some(0) } = what {
            return self.assign(node, to);
        }
        let id = self.find(node);
        if !self.known_uses.insert((id, what)) {
            return;
        }
        let node = &mut self.nodes[id as usize];
        node.uses.push(what);
        let set = node.set.as_slice().to_vec();
        self.apply(what, &set);
    }

    /// Memory is copied from where `from` points to where `to` points.
    pub(super) fn copy(
        &mut self,
        (from, from_offset): (NodeId, Option<i64>),
        (to, to_offset): (NodeId, Option<i64>),
        size: u32,
    ) {
        self.add_use(from, Use::CopyFrom { to, from_offset, to_offset, size });
        self.add_use(to, Use::CopyTo { from, from_offset, to_offset, size });
    }

    /// The cell at `offset`, a multiple of [`CELL`].
    pub(super) fn cell(&mut self, object: u32, offset: i64) -> NodeId {
        let object = self.object_of(object);
        if self.objects[object as usize].joined {
            return self.anywhere(object);
        }
        if let Some(cell) = self.objects[object as usize].cells.get(&offset) {
            return *cell;
        }
        let first = self.new_cell(object, offset);
        // A copy makes cells elsewhere, from which others copy.
        let mut new = vec![(object, offset, first)];
        while let Some((object, offset, cell)) = new.pop() {
            for copy in self.objects[object as usize].copied.clone() {
                new.extend(self.copy_cell(offset, cell, copy));
            }
        }
        first
    }

    fn new_cell(&mut self, object: u32, offset: i64) -> NodeId {
        let cell = self.node();
        self.objects[object as usize].cells.insert(offset, cell);
        if let Some(whole) = self.objects[object as usize].whole {
            self.assign(cell, whole);
        }
        if self.objects[object as usize].escaped {
            self.assign(cell, ESCAPED);
        }
        cell
    }

    /// What a copy does with a cell of its source; the cell that it made, if it made one.
    fn copy_cell(&mut self, offset: i64, cell: NodeId, copy: RangeCopy) -> Option<(u32, i64, NodeId)> {
        if offset < copy.from || offset >= copy.end {
            return None;
        }
        let target = self.object_of(copy.object);
        let place = offset.checked_add(copy.shift);
        let place = place.filter(|p| self.offset(self.element(target, Some(*p))).is_some());
        let Some(place) = place else {
            let anywhere = self.anywhere(target);
            self.assign(cell, anywhere);
            return None;
        };
        let known = self.objects[target as usize].cells.get(&place).copied();
        let to = known.unwrap_or_else(|| self.new_cell(target, place));
        self.assign(cell, to);
        known.is_none().then_some((target, place, to))
    }

    /// Copy the cells of `source` that `copy` says, those that come later too.
    pub(super) fn copy_range(&mut self, source: u32, copy: RangeCopy) {
        if self.objects[source as usize].copied.contains(&copy) {
            return;
        }
        self.objects[source as usize].copied.push(copy);
        let cells = self.objects[source as usize].cells.range(copy.from..);
        let cells: Vec<(i64, NodeId)> = cells.map(|(o, n)| (*o, *n)).collect();
        let mut new: Vec<(u32, i64, NodeId)> = Vec::new();
        for (offset, cell) in cells {
            new.extend(self.copy_cell(offset, cell, copy));
        }
        while let Some((object, offset, cell)) = new.pop() {
            for copy in self.objects[object as usize].copied.clone() {
                new.extend(self.copy_cell(offset, cell, copy));
            }
        }
    }

    /// The node of stores at unknown offsets.
    pub(super) fn anywhere(&mut self, object: u32) -> NodeId {
        let object = self.object_of(object);
        if let Some(node) = self.objects[object as usize].anywhere {
            return node;
        }
        let node = self.node();
        self.objects[object as usize].anywhere = Some(node);
        if let Some(whole) = self.objects[object as usize].whole {
            self.assign(node, whole);
        }
        if self.objects[object as usize].escaped {
            self.assign(node, ESCAPED);
        }
        node
    }

    /// The node of all that the object holds.
    pub(super) fn whole(&mut self, object: u32) -> NodeId {
        let object = self.object_of(object);
        if let Some(whole) = self.objects[object as usize].whole {
            return whole;
        }
        let whole = self.node();
        let of = &mut self.objects[object as usize];
        of.whole = Some(whole);
        self.parts(object).into_iter().for_each(|part| self.assign(part, whole));
        whole
    }

    /// Every node of an object but the whole.
    pub(super) fn parts(&self, object: u32) -> Vec<NodeId> {
        let of = &self.objects[object as usize];
        let above = of.above.map(|a| a.1);
        of.cells.values().copied().chain(of.anywhere).chain(above).collect()
    }

    /// Give an object a node for what was stored from `offset` on; once, before anything reads it.
    pub(super) fn divide_above(&mut self, object: u32, offset: i64) -> NodeId {
        let object = self.object_of(object);
        if self.objects[object as usize].joined {
            return self.anywhere(object);
        }
        if let Some((_, node)) = self.objects[object as usize].above {
            return node;
        }
        let node = self.node();
        self.objects[object as usize].above = Some((offset, node));
        node
    }

    /// The cells that an access overlaps; `None` if that isn't known.
    pub(super) fn overlapped(&self, element: Element, offset: Option<i64>, size: u32) -> Option<(i64, i64)> {
        let place = self.displaced(element, offset);
        let start = self.offset(place).filter(|_| (1..=MAX_ACCESS).contains(&size))?;
        let end = start.checked_add(i64::from(size))?;
        Some((start.div_euclid(CELL) * CELL, end))
    }

    /// Let the memory of an object escape: what it holds does, and anything may be stored there.
    pub(super) fn escape_object(&mut self, object: u32) {
        let object = self.object_of(object);
        if std::mem::replace(&mut self.objects[object as usize].escaped, true) {
            return;
        }
        if matches!(self.objects[object as usize].kind, Kind::Memory | Kind::Owned) {
            self.parts(object).into_iter().for_each(|part| self.assign(part, ESCAPED));
            let anywhere = self.anywhere(object);
            self.add_unknown(anywhere, Cause::Memory);
        }
    }
}
