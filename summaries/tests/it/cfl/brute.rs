//! Reference solver: Andersen's analysis by naive iteration over plain sets, for programs of a few small functions.
//!
//! It shares no code with the solver under test. Offsets are numbers modulo a ring, so sets are finite without widening, and each
//! property of all integers holds here. Symbol k is function k, and the objects in memory have the numbers after the functions.
//! Everything is live.

use std::collections::{BTreeMap, BTreeSet};

use summaries::relation::{Callee, Constraint, FunctionSummary, Place};
use summaries::{Target, ValueIdx};

/// The modulus of offsets for random programs, whose offsets are small.
pub(crate) const SMALL_RING: i64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Function(usize),
    Data(usize),
    Frame(usize),
}

/// `None` is any escaped address; an offset that is `None` is any offset.
pub(crate) type Address = Option<(Object, Option<i64>)>;
pub(crate) type Set = BTreeSet<Address>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Value(usize, u32),
    Cell(Object, i64),
    Anywhere(Object),
    /// The stack contents that external callers leave above a function's frame.
    Above(usize),
    Escaped,
}

pub(crate) struct Solution<'f> {
    pub(crate) functions: &'f [FunctionSummary],
    pub(crate) sets: BTreeMap<Node, Set>,
    /// The modulus of all offsets in the solution.
    ring: i64,
    /// Nodes of each object that hold anything.
    parts: BTreeMap<Object, BTreeSet<Node>>,
    changed: bool,
}

pub(crate) fn solve(functions: &[FunctionSummary]) -> Solution<'_> {
    solve_in(functions, SMALL_RING)
}

/// The same with offsets modulo `ring`.
pub(crate) fn solve_in(functions: &[FunctionSummary], ring: i64) -> Solution<'_> {
    let mut solution =
        Solution { functions, ring, sets: BTreeMap::new(), parts: BTreeMap::new(), changed: true };
    while std::mem::take(&mut solution.changed) {
        for (f, function) in functions.iter().enumerate() {
            function.constraints.iter().for_each(|c| solution.constraint(f, c));
            (0..function.call_sites.len()).for_each(|s| solution.call_site(f, s));
        }
        for address in solution.set(Node::Escaped) {
            solution.escaped(address);
        }
    }
    solution
}

impl Solution<'_> {
    pub(crate) fn set(&self, node: Node) -> Set {
        self.sets.get(&node).cloned().unwrap_or_default()
    }

    pub(crate) fn value(&self, f: usize, value: ValueIdx) -> Set {
        self.set(Node::Value(f, value.0))
    }

    /// Whether accesses through two values of function 0 may alias; each has a size in bytes.
    pub(crate) fn may_alias(&self, a: (Place, u32), b: (Place, u32)) -> bool {
        let places = |(place, size): (Place, u32)| {
            let held = self.value(0, place.value);
            held.into_iter().map(move |address| (self.plus(address, place.offset), size)).collect::<Vec<_>>()
        };
        let escaped = self.set(Node::Escaped);
        let has_escaped = |object: Object| escaped.iter().flatten().any(|(escaped, _)| *escaped == object);
        let meet = |a: (Address, u32), b: (Address, u32)| match (a, b) {
            ((None, _), (None, _)) => true,
            ((None, _), (Some((object, _)), _)) | ((Some((object, _)), _), (None, _)) => has_escaped(object),
            ((Some((one, x)), m), (Some((other, y)), n)) => {
                let share = |(x, y)| self.cells(x, m).any(|cell| self.touches(y, n, cell));
                one == other && x.zip(y).is_none_or(share)
            }
        };
        places(a).into_iter().any(|a| places(b).into_iter().any(|b| meet(a, b)))
    }

    pub(crate) fn nodes_of(&self, object: Object) -> Vec<Node> {
        self.parts.get(&object).into_iter().flatten().copied().collect()
    }

    fn add(&mut self, node: Node, address: Address) {
        let offset =
            |at: Option<i64>| at.filter(|_| node != Node::Escaped).map(|at| at.rem_euclid(self.ring));
        // External code has all of an escaped object, at any offset.
        let address = address.map(|(o, at)| (o, offset(at)));
        if !self.sets.entry(node).or_default().insert(address) {
            return;
        }
        self.changed = true;
        let object = match node {
            Node::Cell(object, _) | Node::Anywhere(object) => object,
            Node::Above(f) => Object::Frame(f),
            Node::Value(..) | Node::Escaped => return,
        };
        self.parts.entry(object).or_default().insert(node);
    }

    fn flow(&mut self, from: Node, to: Node) {
        for address in self.set(from) {
            self.add(to, address);
        }
    }

    fn target(&self, target: Target, offset: i64) -> Address {
        let Target::Symbol(symbol) = target else { panic!("symbols only") };
        let known = self.functions.len();
        let object = match symbol.index() {
            k if k < known => Object::Function(k),
            k => Object::Data(k - known),
        };
        Some((object, Some(offset)))
    }

    fn constraint(&mut self, f: usize, constraint: &Constraint) {
        let node = |v: ValueIdx| Node::Value(f, v.0);
        match *constraint {
            Constraint::Address { to, target, offset } => self.add(node(to), self.target(target, offset)),
            Constraint::Frame { to, offset } => self.add(node(to), Some((Object::Frame(f), offset))),
            Constraint::Assign { from, to, offset } => {
                for a in self.value(f, from) {
                    self.add(node(to), self.plus(a, offset));
                }
            }
            Constraint::Load { from, to, size } => {
                for a in self.value(f, from.value) {
                    self.load(self.plus(a, from.offset), size, node(to));
                }
            }
            Constraint::Store { from, to, size } => {
                for a in self.value(f, to.value) {
                    self.store(node(from), self.plus(a, to.offset), size);
                }
            }
            Constraint::Copy { from, to, size } => self.copy(f, from, to, size),
            Constraint::Unknown { to } => self.add(node(to), None),
            Constraint::Escape { from } | Constraint::EscapeCode { from } => {
                self.flow(node(from), Node::Escaped)
            }
        }
    }

    fn load(&mut self, from: Address, size: u32, to: Node) {
        let Some((object, at)) = from else { return self.add(to, None) };
        for node in self.nodes_of(object) {
            let read = match (node, at) {
                (Node::Cell(_, cell), Some(at)) => self.touches(at, size, cell),
                // The cell is above the return address.
                (Node::Above(_), Some(at)) => size == 0 || self.cells(at, size).any(|cell| cell > 0),
                _ => true,
            };
            if read {
                self.flow(node, to);
            }
        }
    }

    fn store(&mut self, from: Node, to: Address, size: u32) {
        match to {
            None => self.flow(from, Node::Escaped),
            Some((Object::Function(_), _)) => {}
            Some((object, at)) => match at.filter(|_| size > 0) {
                None => self.flow(from, Node::Anywhere(object)),
                Some(at) => {
                    for cell in self.cells(at, size) {
                        self.flow(from, Node::Cell(object, cell));
                    }
                }
            },
        }
    }

    fn copy(&mut self, f: usize, from: Place, to: Place, size: u32) {
        for a in self.value(f, from.value) {
            for b in self.value(f, to.value) {
                self.copy_memory(self.plus(a, from.offset), self.plus(b, to.offset), size);
            }
        }
    }

    fn copy_memory(&mut self, from: Address, to: Address, size: u32) {
        match (from, to) {
            (None | Some(_), Some((Object::Function(_), _))) | (None, None) => {}
            (Some((a, _)), None) => self.nodes_of(a).into_iter().for_each(|n| self.flow(n, Node::Escaped)),
            (None, Some((b, _))) => self.add(Node::Anywhere(b), None),
            (Some((a, x)), Some((b, y))) => {
                for node in self.nodes_of(a) {
                    if let (Node::Cell(_, cell), Some(x)) = (node, x)
                        && !self.touches(x, size, cell)
                    {
                        continue;
                    }
                    match (node, x.zip(y).filter(|(x, y)| (x - y) % 8 == 0)) {
                        (Node::Cell(_, cell), Some((x, y))) => {
                            let cell = (cell + (y - x) / 8).rem_euclid(self.ring / 8);
                            self.flow(node, Node::Cell(b, cell));
                        }
                        _ => self.flow(node, Node::Anywhere(b)),
                    }
                }
            }
        }
    }

    fn call_site(&mut self, f: usize, number: usize) {
        let site = &self.functions[f].call_sites[number];
        let callees = match site.callee {
            Callee::Indirect(value) => self.value(f, value),
            Callee::Direct { target, offset } => Set::from([self.target(target, offset)]),
        };
        for callee in callees {
            match callee {
                Some((Object::Function(g), None | Some(0))) => self.call(f, number, g),
                Some((Object::Function(g), Some(_))) => {
                    self.labels(g);
                    self.call_unknown(f, number);
                }
                Some(_) => {}
                None => self.call_unknown(f, number),
            }
        }
    }

    fn call(&mut self, f: usize, number: usize, g: usize) {
        let (site, callee) = (&self.functions[f].call_sites[number], &self.functions[g]);
        for (register, parameter) in &callee.parameters {
            for (_, actual) in site.actuals.iter().filter(|a| a.0 == *register) {
                self.flow(Node::Value(f, actual.0), Node::Value(g, parameter.0));
            }
        }
        for (register, value) in &callee.results {
            for (_, result) in site.results.iter().filter(|r| r.0 == *register) {
                self.flow(Node::Value(g, value.0), Node::Value(f, result.0));
            }
        }
        for (register, result) in site.results.iter().filter(|r| callee.preserved & 1 << r.0 != 0) {
            for (_, before) in site.actuals.iter().filter(|a| a.0 == *register) {
                self.flow(Node::Value(f, before.0), Node::Value(f, result.0));
            }
        }
        for (offset, actual) in &site.stack {
            if callee.frame {
                self.store(Node::Value(f, actual.0), Some((Object::Frame(g), Some(i64::from(*offset)))), 8);
            }
            for (_, parameter) in callee.stack_parameters.iter().filter(|p| p.0 == *offset) {
                self.flow(Node::Value(f, actual.0), Node::Value(g, parameter.0));
            }
        }
        if let Some(base) = site.stack_in_frame {
            let at = |o: i64| Some((Object::Frame(f), base.map(|b| b + o)));
            if callee.frame {
                self.copy_memory(at(8), Some((Object::Frame(g), Some(8))), 0);
            }
            for (offset, parameter) in &callee.stack_parameters {
                self.load(at(i64::from(*offset)), 8, Node::Value(g, parameter.0));
            }
        }
    }

    fn call_unknown(&mut self, f: usize, number: usize) {
        let site = &self.functions[f].call_sites[number];
        for value in site.actuals.iter().map(|a| a.1).chain(site.stack.iter().map(|s| s.1)) {
            self.flow(Node::Value(f, value.0), Node::Escaped);
        }
        if site.stack_in_frame.is_some() {
            self.nodes_of(Object::Frame(f)).into_iter().for_each(|n| self.flow(n, Node::Escaped));
        }
        for (_, value) in &site.results {
            self.add(Node::Value(f, value.0), None);
        }
    }

    fn labels(&mut self, g: usize) {
        for value in &self.functions[g].indirect_entry_values {
            self.add(Node::Value(g, value.0), None);
        }
    }

    fn escaped(&mut self, address: Address) {
        match address {
            None => {}
            Some((Object::Function(g), _)) => {
                let callee = &self.functions[g];
                self.labels(g);
                let stack = callee.stack_parameters.iter().map(|p| p.1);
                for value in callee.parameters.iter().map(|p| p.1).chain(stack) {
                    self.add(Node::Value(g, value.0), None);
                }
                if callee.frame {
                    self.add(Node::Above(g), None);
                }
                for (_, value) in &callee.results {
                    self.flow(Node::Value(g, value.0), Node::Escaped);
                }
            }
            Some((object, _)) => {
                self.add(Node::Anywhere(object), None);
                self.nodes_of(object).into_iter().for_each(|n| self.flow(n, Node::Escaped));
            }
        }
    }

    fn plus(&self, address: Address, by: Option<i64>) -> Address {
        address.map(|(object, at)| (object, at.zip(by).map(|(at, by)| (at + by).rem_euclid(self.ring))))
    }

    /// The cells that an access of `size` bytes touches; 0 is an unknown number.
    fn cells(&self, at: i64, size: u32) -> impl Iterator<Item = i64> + use<> {
        let ring = self.ring;
        let last = if size == 0 { at + ring - 8 } else { at + i64::from(size) - 1 };
        (at.div_euclid(8)..=last.div_euclid(8))
            .take((ring / 8) as usize)
            .map(move |cell| cell.rem_euclid(ring / 8))
    }

    /// Whether an access touches a cell.
    fn touches(&self, at: i64, size: u32, cell: i64) -> bool {
        size == 0 || self.cells(at, size).any(|touched| touched == cell)
    }
}
