//! The constraint graph of inclusion-based (Andersen) points-to analysis: nodes with sets of addresses, objects divided into cells, complex constraints.
//!
//! A node is anything that holds addresses: a value of a function, or a cell of 8 bytes of an object. A [`ComplexConstraint`] of a node
//! says what each address that it holds implies: a displaced copy elsewhere, a load, a store. That a node may hold anything that
//! escaped is a mark of the node and no element, and so is that all that it holds escapes; a node with both marks needs
//! no set at all, for whatever comes there is covered. One such node, [`ESCAPED`], stands for all of unseen code, and one
//! object, [`SHARED`], for all memory that escaped.
//!
//! This file has the tables; `edges` builds, `cells` divides memory, `solve` propagates. None knows what the objects are.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::budget::{Budget, GivenUp};
use super::points_to::PointsToSet;
use super::queue::Queue;
use super::sets::{Element, SetId, SetTable, UNKNOWN_OBJECT};

/// A node: index into the table of nodes. Collapsed nodes have one representative.
pub(super) type NodeId = u32;

/// The node of all that escaped, and of all that unseen code may write.
pub(super) const ESCAPED: NodeId = 0;

/// The object of all memory that escaped: one of it is as good as another.
pub(super) const SHARED: u32 = 1;

/// Why a value may be anything that escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverdefinedReason {
    /// The front end did not follow where the value comes from.
    FrontEnd,
    /// A parameter of something that escaped, or a value at a label that did.
    Parameter,
    /// It was read from memory that escaped.
    Memory,
    /// The result of a call that goes to something unknown.
    Result,
    /// It is, or at run time may be, defined outside of the modules of the link; or it is code in a section of data.
    Outside,
    /// The work that a link may be was spent.
    Budget,
}

impl OverdefinedReason {
    pub const ALL: [OverdefinedReason; 6] = [
        OverdefinedReason::FrontEnd,
        OverdefinedReason::Parameter,
        OverdefinedReason::Memory,
        OverdefinedReason::Result,
        OverdefinedReason::Outside,
        OverdefinedReason::Budget,
    ];

    pub(super) fn element(self) -> Element {
        Element::new(UNKNOWN_OBJECT, self as u32)
    }

    /// A set of causes has a bit for each.
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    pub(super) fn of(element: Element) -> Option<OverdefinedReason> {
        element.is_unknown().then(|| OverdefinedReason::ALL.get(element.code() as usize).copied()).flatten()
    }
}

/// Where an address goes that code which is not followed may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EscapeReason {
    /// Code or data that is not followed refers to it, or it is a root.
    Unfollowed,
    /// The front end did not follow where it goes.
    FrontEnd,
    /// A call passes it to a function that has no summary and no model, or that keeps it.
    CalleeWithoutSummary,
    /// A call of a value that may be anything passes it.
    OverdefinedCallee,
    /// It is stored through a pointer that may be anything, or in memory of others.
    Stored,
    /// A function returns it whose own address escaped.
    Returned,
    /// A library keeps it, and unseen code has what that library keeps.
    Library,
}

/// How what a node holds escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeEscape {
    By(EscapeReason),
    /// It is stored in an object, whose address escaped.
    Into(u32),
}

/// Where the address of an object was when it escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapedThrough {
    Node(NodeId),
    /// It is among the contents of an object that had escaped before.
    Contents(u32),
}

/// What an object is to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryClass {
    /// It has contents, which loads read and stores write.
    Memory,
    /// Loads read no address, stores write nothing that can be read.
    Opaque,
    /// Among code, and not known to be code: loads read anything, what is stored escapes. Its addresses are those of code.
    Raw,
    /// Memory of a library: its own addresses and what is stored there are all that can be read. Its cells have only
    /// what is stored.
    Owned,
    /// Memory that unseen code shares: loads read the unknown, what is stored escapes.
    Foreign,
}

impl MemoryClass {
    /// Whoever reads or writes it needs the bytes of a function.
    pub(super) fn is_code(self) -> bool {
        matches!(self, MemoryClass::Opaque | MemoryClass::Raw)
    }
}

/// How many bytes a cell of memory has: those of an address.
pub(super) const CELL: i64 = 8;
/// How far an offset may leave its object and still be known.
const MARGIN: i64 = 4096;
/// Longest access that is divided into cells, in bytes; a longer one is of an unknown number.
pub(super) const MAX_ACCESS: u32 = 256;

pub(super) struct AbstractObject {
    pub(super) kind: MemoryClass,
    /// First and one past the last byte, in whatever coordinates the builder uses.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) cells: BTreeMap<i64, NodeId>,
    /// What was stored at an unknown offset.
    pub(super) anywhere: Option<NodeId>,
    /// The union of all cells, for loads at an unknown offset.
    pub(super) whole: Option<NodeId>,
    /// What was stored at an unknown offset not below the given one: parameters on the stack of a frame.
    pub(super) above: Option<(i64, NodeId)>,
    /// Ranges that are copied elsewhere, for cells that come later.
    pub(super) copied: Vec<RangeCopy>,
    pub(super) escaped: bool,
    /// Somebody looks at what is above: the builder was told.
    pub(super) asked: bool,
    /// Code whose bytes somebody reads or writes.
    pub(super) touched: bool,
    /// Others were joined with it: its places are no longer distinguished.
    pub(super) joined: bool,
}

/// Cells from `from` up to `end` go to the cells of `object` that are `shift` bytes further; where that isn't known, to `unplaced`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RangeCopy {
    pub(super) from: i64,
    pub(super) end: i64,
    pub(super) object: u32,
    pub(super) shift: Option<i64>,
    pub(super) unplaced: NodeId,
}

/// What each element of a node implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ComplexConstraint {
    /// `to` holds what the node holds, displaced by so many bytes; `None` is any number.
    Displace { to: NodeId, by: Option<i64> },
    /// `to` holds what memory there holds.
    Load { to: NodeId, offset: Option<i64>, size: u32 },
    /// Memory there holds what `from` holds.
    Store { from: NodeId, offset: Option<i64>, size: u32 },
    /// The copy of this number reads there.
    CopyFrom(u32),
    /// The copy of this number writes there.
    CopyTo(u32),
    /// `to` holds it displaced, if it is the address of code.
    Code { to: NodeId },
    /// The builder is told of it: something is called.
    Call { site: u32 },
}

/// Memory at `from` is copied to memory at `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryCopy {
    pub(super) from: (NodeId, Option<i64>),
    pub(super) to: (NodeId, Option<i64>),
    pub(super) size: u32,
    /// Places are not distinguished: one copy is of all that is there.
    pub(super) at_once: bool,
}

/// An access through all of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Access {
    pub(super) offset: Option<i64>,
    pub(super) size: u32,
    pub(super) store: bool,
}

/// What would say nothing new of a node that may be anything and lets all escape.
#[derive(Debug, Clone, Copy)]
pub(super) enum SuppressedEdge {
    Edge(NodeId),
    ComplexConstraint(ComplexConstraint),
}

/// The work that is to be done before the graph is at its fixpoint.
#[derive(Default)]
pub(super) struct PendingWork {
    /// Nodes that have become unknown since they were last looked at.
    pub(super) unknown: Vec<NodeId>,
    /// Objects of memory that have escaped.
    pub(super) shared: Vec<u32>,
    /// Nodes whose elements have not all been propagated yet.
    pub(super) queue: Queue,
    /// Edges since the last search for cycles.
    pub(super) new_edges: usize,
    pub(super) edges_searched: usize,
    /// Elements of what was propagated since.
    pub(super) since_search: usize,
    /// Sets that were propagated, elements that were looked at; and how many at the last search.
    pub(super) steps: usize,
    pub(super) steps_searched: usize,
    /// Room for the elements of a node; it is empty between uses.
    pub(super) elements: Vec<Element>,
}

/// What the graph tells the builder, which makes more of the graph for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Event {
    Called {
        site: u32,
        element: Element,
    },
    Escaped(Element),
    /// The bytes of code are read or written.
    Touched {
        object: u32,
    },
    /// Somebody looks at what is above the division of an object.
    AboveRead {
        object: u32,
    },
}

/// The end of a list, and no entry of a table.
pub(super) const END: u32 = u32::MAX;

/// It may hold anything that escaped.
pub(super) const OVERDEFINED: u8 = 1;
/// All that the node holds, now or later, escapes.
pub(super) const ESCAPES: u8 = 2;
/// A cell of memory that escaped.
pub(super) const IS_SHARED: u8 = 4;
/// It has elements to propagate and waits for that.
pub(super) const QUEUED: u8 = 8;

/// What hangs on a node. Most nodes hold nothing, so that what is held lies elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Union-find: a collapsed node points to its representative, or to one that does.
    pub(super) parent: NodeId,
    /// First of the list of nodes that hold all that this one holds.
    pub(super) edges: u32,
    /// First of the list of uses.
    pub(super) uses: u32,
    /// Its number in the table of what nodes hold.
    pub(super) held: u32,
    /// How many edges it has, at most [`u16::MAX`].
    pub(super) degree: u16,
    pub(super) marks: u8,
    /// Why it may hold anything by itself, a bit for each cause.
    pub(super) causes: u8,
}

impl Node {
    /// A node that is its own representative, with nothing in it.
    fn new(id: NodeId, marks: u8) -> Node {
        Node { parent: id, edges: END, uses: END, held: END, degree: 0, marks, causes: 0 }
    }
}

pub(super) struct ConstraintGraph {
    pub(super) nodes: Vec<Node>,
    pub(super) held: Vec<PointsToSet>,
    pub(super) sets: SetTable,
    /// Nodes that stand for accesses through sets.
    pub(super) groups: FxHashMap<(SetId, Access), NodeId>,
    pub(super) displacements: FxHashMap<(SetId, Option<i64>), SetId>,
    /// How often objects were joined or escaped.
    pub(super) epoch: u32,
    /// The edges of all nodes as linked lists of (node, next).
    pub(super) edges: Vec<(NodeId, u32)>,
    /// The constraints that wait for a node, as linked lists of (use, next).
    pub(super) uses: Vec<(ComplexConstraint, u32)>,
    pub(super) copies: Vec<MemoryCopy>,
    pub(super) objects: Vec<AbstractObject>,
    /// Union-find over objects: one that was joined with others points to their representative.
    pub(super) same: Vec<u32>,
    pub(super) budget: Budget,
    pub(super) given_up: GivenUp,
    /// The object of all memory, once that is not distinguished.
    pub(super) one_memory: Option<u32>,
    /// Nodes whose sets exceed the budget of objects.
    pub(super) over_budget: Vec<NodeId>,
    pub(super) joined_objects: usize,
    /// The edges of nodes that have many, so that none is made twice.
    pub(super) known_edges: FxHashSet<(NodeId, NodeId)>,
    pub(super) work: PendingWork,
    pub(super) events: Vec<Event>,
    /// Keep what is left out, to tell where the unknown came from.
    pub(super) explain: bool,
    pub(super) suppressed: Vec<(NodeId, SuppressedEdge)>,
    /// Constraints that were stated, for the report.
    pub(super) constraints: usize,
    /// Nodes that may be anything by themselves, for explanations.
    pub(super) seeds: Vec<(NodeId, OverdefinedReason)>,
    /// Nodes all of which escapes by itself, for explanations.
    pub(super) escapes: Vec<(NodeId, NodeEscape)>,
    /// The node that held the address of each object when that escaped, for explanations.
    pub(super) escaped_through: FxHashMap<u32, EscapedThrough>,
    /// For explanations: the object that has escaped and whose contents are being said.
    pub(super) filled: Option<u32>,
}

impl ConstraintGraph {
    pub(super) fn new(budget: Budget) -> Self {
        let mut graph = ConstraintGraph {
            nodes: Vec::new(),
            held: Vec::new(),
            sets: SetTable::default(),
            groups: FxHashMap::default(),
            displacements: FxHashMap::default(),
            epoch: 0,
            edges: Vec::new(),
            uses: Vec::new(),
            copies: Vec::new(),
            objects: Vec::new(),
            same: Vec::new(),
            budget,
            given_up: GivenUp::Nothing,
            one_memory: None,
            over_budget: Vec::new(),
            joined_objects: 0,
            known_edges: FxHashSet::default(),
            work: PendingWork::default(),
            events: Vec::new(),
            explain: false,
            suppressed: Vec::new(),
            constraints: 0,
            seeds: Vec::new(),
            escapes: Vec::new(),
            escaped_through: FxHashMap::default(),
            filled: None,
        };
        let escaped = graph.node();
        graph.mark(escaped, OVERDEFINED | ESCAPES | IS_SHARED);
        // Object 0 is no object: its elements stand for the unknown.
        graph.object(MemoryClass::Foreign, 0, 0);
        let shared = graph.object(MemoryClass::Foreign, 0, 0);
        let object = &mut graph.objects[shared as usize];
        (object.anywhere, object.whole) = (Some(escaped), Some(escaped));
        (object.escaped, object.joined) = (true, true);
        graph
    }

    pub(super) fn node(&mut self) -> NodeId {
        self.nodes(1)
    }

    /// `count` nodes in a row; the first one's number.
    pub(super) fn nodes(&mut self, count: u32) -> NodeId {
        let first = self.nodes.len() as NodeId;
        let marks = if self.given_up == GivenUp::Values { OVERDEFINED | ESCAPES } else { 0 };
        self.nodes.extend((first..first.saturating_add(count)).map(|id| Node::new(id, marks)));
        first
    }

    pub(super) fn object(&mut self, kind: MemoryClass, start: i64, end: i64) -> u32 {
        self.objects.push(AbstractObject {
            kind,
            start,
            end,
            cells: BTreeMap::new(),
            anywhere: None,
            whole: None,
            above: None,
            copied: Vec::new(),
            escaped: false,
            asked: false,
            touched: false,
            joined: false,
        });
        let object = (self.objects.len() - 1) as u32;
        self.same.push(object);
        self.joined_from_birth(object);
        object
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

    /// The element so many bytes further on in its object; with `None` anywhere in it.
    pub(super) fn displaced(&self, element: Element, by: Option<i64>) -> Element {
        if element.is_unknown() {
            return element;
        }
        let offset = self.offset(element).zip(by).and_then(|(o, by)| o.checked_add(by));
        self.element(element.object(), offset)
    }

    /// The set with each of its elements displaced as [`Self::displaced`] says.
    pub(super) fn displaced_set(&mut self, set: SetId, by: Option<i64>) -> SetId {
        if let Some(known) = self.displacements.get(&(set, by)) {
            return *known;
        }
        let elements: Vec<Element> = self.sets.elements(set).iter().map(|e| self.displaced(*e, by)).collect();
        let displaced = self.sets.of(elements);
        self.displacements.insert((set, by), displaced);
        displaced
    }

    /// The addresses of code in a set, anywhere in it.
    pub(super) fn code_in(&mut self, set: SetId) -> SetId {
        if let Some(known) = self.sets.facts(set).code {
            return known;
        }
        let opaque = |e: &&Element| {
            matches!(self.objects[e.object() as usize].kind, MemoryClass::Opaque | MemoryClass::Raw)
        };
        let elements = self.sets.elements(set).iter().filter(opaque);
        let code: Vec<Element> = elements.map(|e| self.displaced(*e, None)).collect();
        let code = self.sets.of(code);
        self.sets.facts(set).code = Some(code);
        code
    }

    pub(super) fn find(&self, mut node: NodeId) -> NodeId {
        while let Some(of) = self.nodes.get(node as usize)
            && of.parent != node
        {
            node = of.parent;
        }
        node
    }

    /// Whether a representative has all of the marks.
    pub(super) fn has(&self, id: NodeId, marks: u8) -> bool {
        self.nodes.get(id as usize).is_some_and(|n| n.marks & marks == marks)
    }

    /// Mark a representative; true if it had not been.
    pub(super) fn mark(&mut self, id: NodeId, mark: u8) -> bool {
        let marks = &mut self.nodes[id as usize].marks;
        let was = std::mem::replace(marks, *marks | mark);
        was & mark == 0
    }

    /// All that `node` holds escapes, for a reason of its own.
    pub(super) fn let_escape(&mut self, node: NodeId, reason: EscapeReason) {
        self.add_escape(node, NodeEscape::By(reason));
    }

    pub(super) fn add_escape(&mut self, node: NodeId, escape: NodeEscape) {
        if self.explain {
            self.escapes.push((node, escape));
        }
        self.assign(node, ESCAPED);
    }

    /// `node` may hold anything that escaped.
    pub(super) fn add_unknown(&mut self, node: NodeId, cause: OverdefinedReason) {
        let id = self.find(node);
        let causes = &mut self.nodes[id as usize].causes;
        if id == ESCAPED || *causes & cause.bit() != 0 {
            return;
        }
        *causes |= cause.bit();
        self.seeds.push((node, cause));
        self.set_unknown(id);
    }
}
