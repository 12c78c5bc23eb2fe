//! The fixpoint of liveness and value flow: live functions add constraints, and their solution makes functions live.
//!
//! An atom that becomes live is visited once. [`index::EdgeEffect`](crate::index::EdgeEffect) says how each of its edges affects
//! the target. A function with a summary adds its constraints and call sites, and data adds its contents. The solved graph has
//! events for the addresses that are called or that escaped. Their functions become live. Every rule only adds facts, so the result
//! is the least fixpoint.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use summaries::models::MemoryIdx;
use summaries::registers::RAX;
use summaries::relation::{Constraint, FunctionSummary, MOVABLE_ALIGNMENT};
use summaries::{AtomIdx, AtomKind, ReferenceKind, ValueIdx, atom_flags};

use super::budget::Budget;
use super::function_clone::FunctionClone;
use super::graph::{
    CELL, ComplexConstraint, ConstraintGraph, ESCAPED, EscapeReason, Event, MemoryClass, NodeId,
    OverdefinedReason,
};
use super::mappings::FixedMapping;
use super::places::{Content, LinkPlaces, ResolvedPlace};
use super::sets::Element;
use super::site::{PendingStackArguments, Site};
use crate::ids::{AtomId, Id, SymbolId};
use crate::index::{EdgeEffect, EdgeKind};
use crate::propagate::liveness::Witness;

/// The part of the link that an object of the graph stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Unknown,
    Code(AtomId),
    Data(AtomId),
    Frame(u32),
    /// Memory that this call site allocates.
    Heap(u32),
    /// Memory of a library with models.
    Library,
    External(SymbolId),
}

/// The offsets of a frame that are distinguished, from the stack pointer at entry, in bytes.
const FRAME: (i64, i64) = (-(1 << 18), 1 << 12);
/// The offset in the callee's frame where stack parameters begin: behind the return address.
pub(super) const FIRST_STACK_PARAMETER: i64 = 8;

pub(super) struct Flow<'s> {
    pub(super) places: LinkPlaces<'s>,
    pub(super) graph: ConstraintGraph,
    /// By object: the part of the link that it stands for.
    pub(super) object_kinds: Vec<ObjectKind>,
    object_of: Vec<Option<u32>>,
    first_function: Vec<u32>,
    /// First the shared copy of each function, then the clones.
    pub(super) functions: Vec<FunctionClone>,
    /// The number of functions: indices of `functions` from here on are clones.
    pub(super) common: usize,
    /// By atom: control may enter it from outside in every link ([`Flow::entered_atoms`]).
    pub(super) entered: Vec<bool>,
    /// The number of clones for calls.
    pub(super) call_clones: usize,
    /// New clones whose constraints are not in the graph yet, with the atoms of their functions.
    pub(super) made: Vec<(u32, AtomId)>,
    pub(super) sites: Vec<Site<'s>>,
    /// By function: arguments that calls pass on the stack, until something reads the stack parameters.
    pub(super) pending_stack_arguments: Vec<Vec<PendingStackArguments<'s>>>,
    /// By atom: code enters it by a direct call.
    pub(super) called: Vec<bool>,
    externals: FxHashMap<SymbolId, u32>,
    pub(super) files: Option<NodeId>,
    /// The addresses of code that are used other than by copying them.
    pub(super) exposed_code: Option<NodeId>,
    /// The objects for memory that a library owns and returns to callers.
    pub(super) owned: BTreeMap<(&'s str, MemoryIdx), u32>,
    /// External code runs, so that it has the memory of libraries and the files.
    pub(super) shared: bool,
    /// Some live code takes arguments in registers that the psABI does not use.
    pub(super) takes_registers: bool,
    /// Pairs of a site and an object in memory that it calls and that has not escaped.
    pub(super) executed: Vec<(u32, u32)>,
    /// A call may map memory at a fixed address.
    pub(super) fixed_mapping: Option<FixedMapping>,
    /// Live code takes the address of a function that maps memory.
    pub(super) taken_mapping: Option<FixedMapping>,
    /// By atom: the reason why it is live; `None` if it is dead.
    pub(super) witness: Vec<Option<Witness>>,
    /// By atom: the first edge from a live atom that takes its address.
    pub(super) mention: Vec<Option<u32>>,
    /// By atom: external code may have its address.
    pub(super) escaped: Vec<bool>,
    pending: VecDeque<AtomId>,
}

impl<'s> Flow<'s> {
    pub(super) fn new(places: LinkPlaces<'s>, budget: Budget) -> Self {
        let mut functions = Vec::new();
        for (position, summary) in places.sources.summaries.iter().enumerate() {
            functions.extend((0..summary.functions.len()).map(|local| FunctionClone::new(position, local)));
        }
        let (atoms, entered) = (places.atoms(), Flow::entered_atoms(&places));
        Flow {
            first_function: places.first_functions(),
            places,
            graph: ConstraintGraph::new(budget),
            // Object 0 stands for no memory; object 1 is all memory that escaped.
            object_kinds: vec![ObjectKind::Unknown, ObjectKind::Library],
            object_of: vec![None; atoms],
            pending_stack_arguments: vec![Vec::new(); functions.len()],
            common: functions.len(),
            call_clones: 0,
            entered,
            made: Vec::new(),
            functions,
            sites: Vec::new(),
            called: vec![false; atoms],
            externals: FxHashMap::default(),
            files: None,
            exposed_code: None,
            owned: BTreeMap::new(),
            shared: false,
            takes_registers: false,
            executed: Vec::new(),
            fixed_mapping: None,
            taken_mapping: None,
            witness: vec![None; atoms],
            mention: vec![None; atoms],
            escaped: vec![false; atoms],
            pending: VecDeque::new(),
        }
    }

    /// Run from the roots to the fixpoint.
    pub(super) fn run(&mut self) {
        if self.places.sources.unseen_code {
            self.share_with_unseen();
        }
        self.find_renamed();
        let roots = &self.places.sources.index.roots;
        for (i, root) in roots.iter().enumerate() {
            self.live(root.atom, Witness::Root(i as u32));
            self.escape_atom(root.atom);
        }
        loop {
            // Visits count as work, too.
            while !self.graph.is_over_work()
                && let Some(atom) = self.pending.pop_front()
            {
                self.visit(atom);
                // Overdefined nodes need fewer edges, so they are found first.
                self.graph.settle();
                while !self.graph.events.is_empty() {
                    let events = std::mem::take(&mut self.graph.events);
                    self.follow(events);
                    self.graph.settle();
                }
            }
            let events = self.graph.solve();
            let is_done = events.is_empty() && self.pending.is_empty();
            if is_done && !self.call_escaped_data() && !self.call_numbers() {
                return;
            }
            self.follow(events);
            if self.fixed_mapping.is_some() {
                return;
            }
        }
    }

    fn follow(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Called { site, element } => self.called(site, element),
                Event::Escaped(element) => self.escape(element),
                Event::Touched { object } => self.touched(object),
                Event::AboveRead { object } => self.asked(object),
            }
            self.activate_made();
        }
    }

    /// Keep the body of a function whose bytes are read or written. If data may be executed, a copy of the bytes may run as the
    /// function does, with unknown arguments.
    fn touched(&mut self, object: u32) {
        let Some(ObjectKind::Code(atom)) = self.object_kinds.get(object as usize).copied() else { return };
        let mention = self.mention[atom.index()];
        self.live(atom, mention.map_or(Witness::Escaped { mention }, Witness::Edge));
        if !self.places.process.executes_data {
            return;
        }
        self.escape_atom(atom);
        let (position, local, summary) = self.places.locate(atom);
        for r in summary.references_of(local) {
            let place = self.places.place(position, r.target, r.addend);
            self.hold(ESCAPED, place);
        }
    }

    pub(super) fn live(&mut self, atom: AtomId, witness: Witness) {
        if self.places.is_dead(atom) {
            return;
        }
        let slot = &mut self.witness[atom.index()];
        if slot.is_none() {
            *slot = Some(witness);
            self.pending.push_back(atom);
        }
    }

    fn visit(&mut self, atom: AtomId) {
        let index = self.places.sources.index;
        let (first, edges) = index.edges_of(atom);
        let alloc = index.alloc[atom.index()];
        for (number, edge) in (first..).zip(edges) {
            // As in `liveness`: a section that is not loaded keeps only its linked metadata.
            let follows = alloc || matches!(edge.kind, EdgeKind::LinkOrder | EdgeKind::Group);
            if !follows || self.places.is_dead(edge.target) || index.is_removed_unwind(atom, edge) {
                continue;
            }
            match edge.effect {
                EdgeEffect::AddressTaken => self.address_taken(edge.target, number),
                EdgeEffect::Keep => self.live(edge.target, Witness::Edge(number)),
                EdgeEffect::Escape => {
                    self.live(edge.target, Witness::Edge(number));
                    self.escape_atom(edge.target);
                }
            }
        }
        let has = |flag| self.places.atom(atom).is_some_and(|a| a.has(flag));
        let (takes_registers, runs_unseen) = (has(atom_flags::TAKES_REGISTERS), has(atom_flags::RUNS_UNSEEN));
        if takes_registers {
            self.expose_all();
        }
        if runs_unseen {
            self.share_with_unseen();
        }
        if let Some(function) = self.function_of(atom) {
            self.activate(function, atom);
            self.activate_made();
        } else if self.places.content(atom) == Content::Data {
            self.contents(atom);
            if self.places.process.scans_data {
                self.escape_atom(atom);
            }
        } else if alloc {
            self.externals_escape(atom);
        }
    }

    /// Code that is not analysed may use functions and variables of libraries in any way.
    fn externals_escape(&mut self, atom: AtomId) {
        let (position, local, summary) = self.places.locate(atom);
        for r in summary.references_of(local).iter().filter(|r| r.kind != ReferenceKind::Unwind) {
            if let place @ (ResolvedPlace::External(_), _) = self.places.place(position, r.target, 0) {
                self.hold(ESCAPED, place);
            }
        }
    }

    /// A live atom takes the address of a function. The function becomes a stub unless it is called; if it cannot be a stub, it is
    /// live.
    fn address_taken(&mut self, atom: AtomId, edge: u32) {
        if self.mention[atom.index()].is_some() {
            return;
        }
        self.mention[atom.index()] = Some(edge);
        if !(self.places.sources.can_stub)(atom) {
            return self.live(atom, Witness::Edge(edge));
        }
        // A stub still defines its symbols, so the definitions that they prevail over are kept.
        let (first, edges) = self.places.sources.index.edges_of(atom);
        for (number, edge) in (first..).zip(edges).filter(|(_, e)| e.kind == EdgeKind::SameName) {
            self.live(edge.target, Witness::Edge(number));
        }
    }

    pub(super) fn function_of(&self, atom: AtomId) -> Option<u32> {
        self.places.function_of(atom).map(|(position, local)| self.first_function[position] + local as u32)
    }

    pub(super) fn summary(&self, function: u32) -> &'s FunctionSummary {
        let clone = self.functions[function as usize];
        &self.places.sources.summaries[clone.position].functions[clone.local]
    }

    /// The node of a value of a function. The first call makes the nodes of all its values, and its frame.
    pub(super) fn node_of_value(&mut self, function: u32, value: ValueIdx) -> NodeId {
        if let Some(first) = self.functions[function as usize].values {
            return first + value.0;
        }
        let summary = self.summary(function);
        let first = self.graph.nodes(summary.values);
        self.functions[function as usize].values = Some(first);
        if summary.frame {
            let frame = self.object(MemoryClass::Memory, FRAME.0, FRAME.1, ObjectKind::Frame(function));
            self.graph.divide_above(frame, FIRST_STACK_PARAMETER);
            self.functions[function as usize].frame = Some(frame);
        }
        first + value.0
    }

    /// The frame of a function, if it is an object.
    pub(super) fn frame(&mut self, function: u32) -> Option<u32> {
        self.node_of_value(function, ValueIdx(0));
        self.functions[function as usize].frame
    }

    pub(super) fn object(&mut self, kind: MemoryClass, start: i64, end: i64, object_kind: ObjectKind) -> u32 {
        self.object_kinds.push(object_kind);
        self.graph.object(kind, start, end)
    }

    /// The object of an atom that is code or analysed data.
    fn object_of(&mut self, atom: AtomId) -> u32 {
        if let Some(object) = self.object_of[atom.index()] {
            return object;
        }
        // Each atom of code is an object, and each section of data.
        let of_section = self.places.region(atom).filter(|_| self.places.content(atom) != Content::Code);
        let of_atom = || self.places.atom(atom).map(|a| (a.offset, a.offset.saturating_add(a.size)));
        let (start, end) = of_section.map(|(_, r)| (r.start, r.end)).or_else(of_atom).unwrap_or((0, 0));
        let (start, end) = (start as i64, end.min(i64::MAX as u64) as i64);
        let object = match of_section {
            Some((first, _)) if first != atom => self.object_of(first),
            Some(_) => {
                let object = self.object(MemoryClass::Memory, start, end, ObjectKind::Data(atom));
                if self.places.atom(atom).is_some_and(|a| a.align >= MOVABLE_ALIGNMENT) {
                    self.graph.do_not_distinguish(object);
                }
                object
            }
            None => self.object(self.kind_of_code(atom), start, end, ObjectKind::Code(atom)),
        };
        self.object_of[atom.index()] = Some(object);
        object
    }

    /// The class of memory of a code atom. The bytes of a function contain no addresses unless they are writable. Other bytes in a
    /// section of code may be a table or a variable.
    fn kind_of_code(&self, atom: AtomId) -> MemoryClass {
        let is_written = self.places.process.writes_constants
            || self.places.atom(atom).is_none_or(|a| a.has(atom_flags::WRITE));
        if self.function_of(atom).is_some() && !is_written { MemoryClass::Opaque } else { MemoryClass::Raw }
    }

    /// The address of a place in an atom; `None` if the place is constant data without addresses.
    pub(super) fn address(&mut self, atom: AtomId, offset: Option<i64>) -> Option<Element> {
        let object = match self.places.content(atom) {
            Content::Code | Content::Data => self.object_of(atom),
            Content::Constant => return None,
            Content::Unfollowed => return Some(OverdefinedReason::Outside.element()),
        };
        Some(self.graph.element(object, offset))
    }

    /// `to` includes the address of the place.
    pub(super) fn hold(&mut self, to: NodeId, (place, preemptible): (ResolvedPlace, bool)) {
        if preemptible {
            self.graph.add_unknown(to, OverdefinedReason::Outside);
        }
        match place {
            ResolvedPlace::Atom(atom, offset) => {
                if let Some(element) = self.address(atom, Some(offset)) {
                    self.graph.add(to, element);
                }
            }
            ResolvedPlace::External(symbol) => {
                let is_function = (self.places.sources.models)(symbol).is_some();
                let memory = (self.places.sources.memory)(symbol).filter(|_| !is_function);
                let element = match memory {
                    Some(memory) => self.memory_of_library(memory),
                    None => self.external(symbol),
                };
                self.graph.add(to, element);
            }
            ResolvedPlace::Resolver(atom, _) => {
                let function = self.function_of(atom);
                let result = function.and_then(|f| {
                    let results = &self.summary(f).results;
                    let found = results.iter().find(|r| r.0 == RAX);
                    found.map(|r| (f, r.1))
                });
                match result {
                    Some((function, value)) => {
                        self.functions[function as usize].runs = true;
                        let result = self.node_of_value(function, value);
                        self.graph.assign(result, to);
                    }
                    None => self.graph.add_unknown(to, OverdefinedReason::Outside),
                }
            }
            ResolvedPlace::Unknown => self.graph.add_unknown(to, OverdefinedReason::Outside),
            ResolvedPlace::Nothing => {}
        }
    }

    fn external(&mut self, symbol: SymbolId) -> Element {
        let object = match self.externals.get(&symbol) {
            Some(object) => *object,
            None => {
                // A symbol with a model is a function: it is not read or written.
                let kind = match (self.places.sources.models)(symbol) {
                    Some(_) => MemoryClass::Opaque,
                    None => {
                        self.share_with_unseen();
                        MemoryClass::Foreign
                    }
                };
                let object = self.object(kind, 0, 0, ObjectKind::External(symbol));
                self.externals.insert(symbol, object);
                object
            }
        };
        self.graph.element(object, Some(0))
    }

    /// Add the initial contents of a data atom. Data that is not analysed has escaped through the edge that reached it.
    fn contents(&mut self, atom: AtomId) {
        let object = self.object_of(atom);
        let (position, local, summary) = self.places.locate(atom);
        for r in summary.references_of(local) {
            let place = match r.kind {
                ReferenceKind::Data => self.places.place(position, r.target, r.addend),
                _ => (ResolvedPlace::Unknown, false),
            };
            let start = (r.offset.min(i64::MAX as u64 / 2) as i64).div_euclid(CELL) * CELL;
            let crosses = r.offset % CELL as u64 != 0;
            for cell in [Some(start), crosses.then_some(start + CELL)].into_iter().flatten() {
                let cell = self.graph.cell(object, cell);
                self.graph.filled = Some(object);
                self.hold(cell, place);
                self.graph.filled = None;
            }
        }
    }

    /// Add the constraints and call sites of a function that became live by one of its atoms.
    pub(super) fn activate(&mut self, function: u32, by: AtomId) {
        if std::mem::replace(&mut self.functions[function as usize].active, true) {
            return;
        }
        let summary = self.summary(function);
        let position = self.functions[function as usize].position;
        for part in std::iter::once(&summary.atom).chain(&summary.parts) {
            let part = self.places.global(position, *part);
            self.live(part, Witness::Part(by));
        }
        let first = self.node_of_value(function, ValueIdx(0));
        for constraint in &summary.constraints {
            self.constraint(function, first, constraint, by);
        }
        for number in 0..summary.call_sites.len() as u32 {
            self.add_site(function, number, by);
        }
        if self.takes_registers {
            self.expose_values_of(function);
        }
    }

    fn constraint(&mut self, function: u32, first: NodeId, constraint: &Constraint, by: AtomId) {
        let node = |value: ValueIdx| first + value.0;
        self.graph.constraints += 1;
        match *constraint {
            Constraint::Address { to, target, offset } => {
                let position = self.functions[function as usize].position;
                let place = self.places.place(position, target, offset);
                let to = node(to);
                self.takes(position, target, place, by);
                self.hold(to, place);
                if let ResolvedPlace::Atom(atom, offset) = place.0
                    && self.places.content(atom) == Content::Code
                    && !self.places.is_entry(atom, offset)
                {
                    // A stub has an address only for its entry.
                    self.live(atom, Witness::Label(by));
                }
            }
            Constraint::Frame { to, offset } => {
                let to = node(to);
                if let Some(frame) = self.frame(function) {
                    let element = self.graph.element(frame, offset);
                    self.graph.add(to, element);
                }
            }
            Constraint::Assign { from, to, offset } => {
                let (from, to) = (node(from), node(to));
                self.graph.add_use(from, ComplexConstraint::Displace { to, by: offset });
            }
            Constraint::Load { from, to, size } => {
                let (base, to) = (node(from.value), node(to));
                self.graph.add_use(base, ComplexConstraint::Load { to, offset: from.offset, size });
            }
            Constraint::Store { from, to, size } => {
                let (from, base) = (node(from), node(to.value));
                self.graph.add_use(base, ComplexConstraint::Store { from, offset: to.offset, size });
            }
            Constraint::Copy { from, to, size } => {
                let (source, target) = (node(from.value), node(to.value));
                self.graph.copy((source, from.offset), (target, to.offset), size);
            }
            Constraint::Unknown { to } => {
                let to = node(to);
                self.graph.add_unknown(to, OverdefinedReason::FrontEnd);
            }
            Constraint::Escape { from } => {
                let from = node(from);
                self.graph.let_escape(from, EscapeReason::FrontEnd);
            }
            Constraint::EscapeCode { from } => {
                let to = self.exposed_code();
                self.graph.add_use(node(from), ComplexConstraint::Code { to });
            }
        }
    }

    /// The node of all code addresses that escape because they are used other than by copying them.
    pub(super) fn exposed_code(&mut self) -> NodeId {
        if let Some(known) = self.exposed_code {
            return known;
        }
        let node = self.graph.node();
        self.graph.let_escape(node, EscapeReason::FrontEnd);
        self.exposed_code = Some(node);
        node
    }

    /// Whether an atom is code that is address-taken but not live.
    pub(super) fn is_stub(&self, atom: AtomId) -> bool {
        let code = self.places.atom(atom).is_some_and(|a| a.kind == AtomKind::Code);
        code && self.witness[atom.index()].is_none() && self.mention[atom.index()].is_some()
    }

    /// The global id of an atom of the module of a function.
    pub(super) fn atom_of(&self, function: u32, atom: AtomIdx) -> AtomId {
        self.places.global(self.functions[function as usize].position, atom)
    }
}
