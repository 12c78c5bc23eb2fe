//! The constraint graph of inclusion-based (Andersen) points-to analysis, with field-sensitive objects.
//!
//! A node holds addresses: it is a value of a function, or a cell of 8 bytes of an object. A [`ComplexConstraint`] of a node
//! applies to each address in its set: a displaced copy, a load, a store. Two marks replace elements: the node may hold anything
//! that escaped ([`OVERDEFINED`]), and all that it holds escapes ([`ESCAPES`]). A node with both marks needs no set. The node
//! [`ESCAPED`] stands for all external code, and the object [`SHARED`] for all memory that escaped.
//!
//! This file has the tables; `edges` builds, `cells` divides memory, `solve` propagates. The builder (`flow`) gives the objects
//! their meaning.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::budget::{Budget, GivenUp};
use super::points_to::PointsToSet;
use super::queue::Queue;
use super::sets::{Element, SetId, SetTable, UNKNOWN_OBJECT};

/// A node: index into the table of nodes. Collapsed nodes have one representative.
pub(super) type NodeId = u32;

/// The node of all that escaped, and of all that external code may write.
pub(super) const ESCAPED: NodeId = 0;

/// The object of all memory that escaped; its parts are not distinguished.
pub(super) const SHARED: u32 = 1;

/// Why a value may be anything that escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverdefinedReason {
    /// The front end did not analyse the origin of the value.
    FrontEnd,
    /// A parameter of something that escaped, or a value at a label that did.
    Parameter,
    /// It was read from memory that escaped.
    Memory,
    /// It is the result of a call to something unknown.
    Result,
    /// It is or may be defined outside of the modules of the link, or it is code in a section of data.
    Outside,
    /// The link exceeded its budget of steps.
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

    /// The bit of this cause in a set of causes.
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    pub(super) fn of(element: Element) -> Option<OverdefinedReason> {
        element.is_unknown().then(|| OverdefinedReason::ALL.get(element.code() as usize).copied()).flatten()
    }
}

/// Why an address escapes to code that is not analysed and may call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EscapeReason {
    /// Code or data that is not analysed refers to it, or it is a root.
    Unfollowed,
    /// The front end did not analyse all uses of it.
    FrontEnd,
    /// A call passes it to a function that has no summary and no model, or that keeps it.
    CalleeWithoutSummary,
    /// A call of a value that may be anything passes it.
    OverdefinedCallee,
    /// It is stored through an overdefined pointer, or in memory of external code.
    Stored,
    /// A function whose own address escaped returns it.
    Returned,
    /// A library keeps it, and external code has the memory of that library.
    Library,
}

/// How the elements of a node escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeEscape {
    By(EscapeReason),
    /// They are stored in an object whose address escaped.
    Into(u32),
}

/// The node or object that held the address of an object when it escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapedThrough {
    Node(NodeId),
    /// It is in the contents of an object that had escaped before.
    Contents(u32),
}

/// The behaviour of an object for loads and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryClass {
    /// It has contents, which loads read and stores write.
    Memory,
    /// Loads read no address, and stores have no effect on later loads.
    Opaque,
    /// Bytes in a section of code that are not known to be code. Loads read anything, and stored values escape. Addresses of it are
    /// code addresses.
    Raw,
    /// Memory of a library. Loads read addresses of the object itself and all values stored there. Its cells have only the stored
    /// values.
    Owned,
    /// Memory that external code shares: loads read the unknown, and stored values escape.
    Foreign,
}

impl MemoryClass {
    /// Whether an access to the object keeps the body of a function.
    pub(super) fn is_code(self) -> bool {
        matches!(self, MemoryClass::Opaque | MemoryClass::Raw)
    }
}

/// The size of a cell of memory in bytes, which is that of an address.
pub(super) const CELL: i64 = 8;
/// The largest distance of a known offset from its object, in bytes.
const MARGIN: i64 = 4096;
/// The longest access that is divided into cells, in bytes. A longer one may access any part of the object.
pub(super) const MAX_ACCESS: u32 = 256;

pub(super) struct AbstractObject {
    pub(super) kind: MemoryClass,
    /// The offsets of the first byte and of the end, in coordinates that the builder chooses.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) cells: BTreeMap<i64, NodeId>,
    /// The node of stores at an unknown offset.
    pub(super) anywhere: Option<NodeId>,
    /// The union of all cells, for loads at an unknown offset.
    pub(super) whole: Option<NodeId>,
    /// The node of stores at an unknown offset not below the given one, as for the stack parameters of a frame.
    pub(super) above: Option<(i64, NodeId)>,
    /// Copies from this object, which also apply to cells that are added later.
    pub(super) copied: Vec<RangeCopy>,
    pub(super) escaped: bool,
    /// The part of `above` is read, and the builder has the event for it.
    pub(super) asked: bool,
    /// It is code whose bytes are read or written.
    pub(super) touched: bool,
    /// Its places are not distinguished: it was joined with other objects, or has a large alignment.
    pub(super) joined: bool,
}

/// A copy of the cells in `from..end` to `object`, with `shift` added to each offset. If `shift` is unknown, the target is the
/// node `unplaced`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RangeCopy {
    pub(super) from: i64,
    pub(super) end: i64,
    pub(super) object: u32,
    pub(super) shift: Option<i64>,
    pub(super) unplaced: NodeId,
}

/// A constraint that applies to each element of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ComplexConstraint {
    /// `to` includes the elements of the node plus `by` bytes; `None` is any number.
    Displace { to: NodeId, by: Option<i64> },
    /// `to` includes the contents of memory at the element.
    Load { to: NodeId, offset: Option<i64>, size: u32 },
    /// The contents of memory at the element include `from`.
    Store { from: NodeId, offset: Option<i64>, size: u32 },
    /// The copy of this number reads at the element.
    CopyFrom(u32),
    /// The copy of this number writes at the element.
    CopyTo(u32),
    /// `to` includes the element at any offset, if it is a code address.
    Code { to: NodeId },
    /// The builder gets an event: the site calls the element.
    Call { site: u32 },
}

/// Memory at `from` is copied to memory at `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryCopy {
    pub(super) from: (NodeId, Option<i64>),
    pub(super) to: (NodeId, Option<i64>),
    pub(super) size: u32,
    /// Places are not distinguished: the copy is one load and one store at unknown offsets.
    pub(super) at_once: bool,
}

/// A load or store through all elements of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Access {
    pub(super) offset: Option<i64>,
    pub(super) size: u32,
    pub(super) store: bool,
}

/// An edge or constraint that is redundant for a node with the marks [`OVERDEFINED`] and [`ESCAPES`].
#[derive(Debug, Clone, Copy)]
pub(super) enum SuppressedEdge {
    Edge(NodeId),
    ComplexConstraint(ComplexConstraint),
}

/// The work that remains before the graph is at its fixpoint.
#[derive(Default)]
pub(super) struct PendingWork {
    /// Nodes that became overdefined and were not processed since.
    pub(super) unknown: Vec<NodeId>,
    /// Objects of memory that escaped and were not processed since.
    pub(super) shared: Vec<u32>,
    /// Nodes whose elements have not all been propagated yet.
    pub(super) queue: Queue,
    /// The number of edges added since the last search for cycles.
    pub(super) new_edges: usize,
    pub(super) edges_searched: usize,
    /// The number of elements propagated since the last search for cycles.
    pub(super) since_search: usize,
    /// The number of sets propagated and elements read, and the same number at the last search.
    pub(super) steps: usize,
    pub(super) steps_searched: usize,
    /// A buffer for the elements of a node; it is empty between uses.
    pub(super) elements: Vec<Element>,
}

/// An event that the graph reports to the builder, which adds constraints for it.
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
    /// The part of an object above its division is read.
    AboveRead {
        object: u32,
    },
}

/// The end of a linked list, or an absent table index.
pub(super) const END: u32 = u32::MAX;

/// Mark: the node may hold anything that escaped.
pub(super) const OVERDEFINED: u8 = 1;
/// Mark: every element of the node escapes, now or later.
pub(super) const ESCAPES: u8 = 2;
/// Mark: the node is a cell of memory that escaped.
pub(super) const IS_SHARED: u8 = 4;
/// Mark: the node has elements to propagate and is queued.
pub(super) const QUEUED: u8 = 8;

/// The edges, constraints and marks of a node. Its set is in another table, since few nodes need one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Union-find: a collapsed node points to its representative, or to a node that leads there.
    pub(super) parent: NodeId,
    /// First of the list of edges to nodes that include this one.
    pub(super) edges: u32,
    /// First of the list of complex constraints.
    pub(super) uses: u32,
    /// Its index in the table of points-to sets.
    pub(super) held: u32,
    /// How many edges it has, at most [`u16::MAX`].
    pub(super) degree: u16,
    pub(super) marks: u8,
    /// The causes that make this node itself overdefined, a bit for each cause.
    pub(super) causes: u8,
}

impl Node {
    /// A node that is its own representative, with an empty set.
    fn new(id: NodeId, marks: u8) -> Node {
        Node { parent: id, edges: END, uses: END, held: END, degree: 0, marks, causes: 0 }
    }
}

pub(super) struct ConstraintGraph {
    pub(super) nodes: Vec<Node>,
    pub(super) held: Vec<PointsToSet>,
    pub(super) sets: SetTable,
    /// The nodes for accesses through large sets, see `groups`.
    pub(super) groups: FxHashMap<(SetId, Access), NodeId>,
    pub(super) displacements: FxHashMap<(SetId, Option<i64>), SetId>,
    /// The number of times that objects were joined or escaped.
    pub(super) epoch: u32,
    /// The edges of all nodes as linked lists of (node, next).
    pub(super) edges: Vec<(NodeId, u32)>,
    /// The complex constraints of all nodes, as linked lists of (constraint, next).
    pub(super) uses: Vec<(ComplexConstraint, u32)>,
    pub(super) copies: Vec<MemoryCopy>,
    pub(super) objects: Vec<AbstractObject>,
    /// Union-find over objects: a joined object points to its representative.
    pub(super) same: Vec<u32>,
    pub(super) budget: Budget,
    pub(super) given_up: GivenUp,
    /// The object of all memory, if memory is no longer distinguished.
    pub(super) one_memory: Option<u32>,
    /// Nodes whose sets exceed the budget of objects.
    pub(super) over_budget: Vec<NodeId>,
    pub(super) joined_objects: usize,
    /// The edges of nodes that have many, to find duplicates.
    pub(super) known_edges: FxHashSet<(NodeId, NodeId)>,
    pub(super) work: PendingWork,
    pub(super) events: Vec<Event>,
    /// Keep redundant edges, to explain the origin of the unknown.
    pub(super) explain: bool,
    pub(super) suppressed: Vec<(NodeId, SuppressedEdge)>,
    /// The number of constraints added, for the report.
    pub(super) constraints: usize,
    /// Nodes that are overdefined for a cause of their own, for explanations.
    pub(super) seeds: Vec<(NodeId, OverdefinedReason)>,
    /// Nodes whose elements escape for a reason of their own, for explanations.
    pub(super) escapes: Vec<(NodeId, NodeEscape)>,
    /// The node that held the address of each object when that escaped, for explanations.
    pub(super) escaped_through: FxHashMap<u32, EscapedThrough>,
    /// For explanations: the escaped object whose contents are being added.
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

    /// Make a new object one place.
    pub(super) fn do_not_distinguish(&mut self, object: u32) {
        if let Some(of) = self.objects.get_mut(object as usize) {
            of.joined = true;
        }
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

    /// The element `by` bytes further on in its object; with `None` anywhere in it.
    pub(super) fn displaced(&self, element: Element, by: Option<i64>) -> Element {
        if element.is_unknown() {
            return element;
        }
        let offset = self.offset(element).zip(by).and_then(|(o, by)| o.checked_add(by));
        self.element(element.object(), offset)
    }

    /// The set with each element displaced by [`Self::displaced`].
    pub(super) fn displaced_set(&mut self, set: SetId, by: Option<i64>) -> SetId {
        if let Some(known) = self.displacements.get(&(set, by)) {
            return *known;
        }
        let elements: Vec<Element> = self.sets.elements(set).iter().map(|e| self.displaced(*e, by)).collect();
        let displaced = self.sets.of(elements);
        self.displacements.insert((set, by), displaced);
        displaced
    }

    /// The code addresses in a set, each at an unknown offset.
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

    /// Mark a representative; true if the mark is new.
    pub(super) fn mark(&mut self, id: NodeId, mark: u8) -> bool {
        let marks = &mut self.nodes[id as usize].marks;
        let was = std::mem::replace(marks, *marks | mark);
        was & mark == 0
    }

    /// Every element of `node` escapes, for the given reason.
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
