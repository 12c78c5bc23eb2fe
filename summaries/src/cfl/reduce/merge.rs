//! Writes a function anew with one value for each class of equal ones.
//!
//! Of what adds to the values of a class, only what brings something new stays: a copy of a value all of whose labels come
//! from elsewhere goes, and so does a constraint whose label a copy brings. That is safe because a copy between classes
//! leads from fewer labels to more, so that nothing is left out on account of itself. Loads, stores and displaced
//! copies start from where an address was made rather than from a displaced copy of it.

use super::number::{NumberRoot, ValueNumbering, number};
use super::rewrite::defined;
use crate::cfl::components::Adjacency;
use crate::ids::ValueIdx;
use crate::relation::{Callee, Constraint, FunctionSummary, Place};

/// Merge the values that hold the same, whatever is around the function.
pub(super) fn merge(function: &mut FunctionSummary) {
    let numbering = number(function);
    let mut writer = Writer {
        numbering: &numbering,
        base: None,
        next: function.values,
        constraints: Vec::new(),
        covered: Vec::new(),
    };
    let mut adding: Vec<(u32, u32)> = Vec::new();
    for (i, constraint) in (0u32..).zip(&function.constraints) {
        match defined(constraint) {
            Some(to) if numbering.adds[i as usize].is_some() => adding.push((numbering.class(to), i)),
            Some(_) => {}
            None => writer.effect(constraint),
        }
    }
    let adding = Adjacency::new(numbering.classes.len(), &adding);
    let copies = Adjacency::new(numbering.classes.len(), &numbering.copies);
    for class in 0..numbering.classes.len() as u32 {
        writer.definitions(class, &copies, &adding, &function.constraints);
    }
    function.constraints = writer.constraints;
    function.values = writer.next;
    interface(function, &numbering);
    function.constraints.sort_unstable();
    function.constraints.dedup();
}

struct Writer<'n> {
    numbering: &'n ValueNumbering,
    /// Holds the stack pointer at entry.
    base: Option<ValueIdx>,
    next: u32,
    constraints: Vec<Constraint>,
    /// By label: the class that has it from what was written, and one.
    covered: Vec<u32>,
}

impl Writer<'_> {
    /// What adds to the values of a class.
    fn definitions(&mut self, class: u32, copies: &Adjacency, adding: &Adjacency, old: &[Constraint]) {
        let numbering = self.numbering;
        let labels = |c: u32| numbering.classes.get(c as usize).map_or(&[][..], |c| &c.labels);
        let to = numbering.classes[class as usize].representative;
        let mut sources: Vec<u32> = copies.of(class).to_vec();
        sources.sort_by_key(|c| (std::cmp::Reverse(labels(*c).len()), *c));
        for source in sources {
            let mut new = false;
            labels(source).iter().for_each(|label| new |= self.cover(*label, class));
            if !new {
                continue;
            }
            let from = numbering.classes[source as usize].representative;
            self.constraints.push(Constraint::Assign { from, to, offset: Some(0) });
        }
        for i in adding.of(class) {
            let label = numbering.adds.get(*i as usize).copied().flatten();
            if !label.is_some_and(|label| self.cover(label, class)) {
                continue;
            }
            let new = match old[*i as usize] {
                Constraint::Assign { from, offset, .. } => match numbering.root(from, offset) {
                    Some((NumberRoot::Value(from), offset)) => Constraint::Assign { from, to, offset },
                    Some((NumberRoot::Frame, offset)) => Constraint::Frame { to, offset },
                    None => continue,
                },
                Constraint::Load { from, size, .. } => match self.place(from) {
                    Some(from) => Constraint::Load { from, to, size },
                    None => continue,
                },
                Constraint::Address { target, offset, .. } => Constraint::Address { to, target, offset },
                Constraint::Frame { offset, .. } => Constraint::Frame { to, offset },
                Constraint::Unknown { .. } => Constraint::Unknown { to },
                Constraint::Store { .. }
                | Constraint::Copy { .. }
                | Constraint::Escape { .. }
                | Constraint::EscapeCode { .. } => continue,
            };
            self.constraints.push(new);
        }
    }

    /// Whether a label is new to a class; from now on it isn't.
    fn cover(&mut self, label: u32, class: u32) -> bool {
        let label = label as usize;
        if self.covered.len() <= label {
            self.covered.resize(label + 1, 0);
        }
        std::mem::replace(&mut self.covered[label], class + 1) != class + 1
    }

    /// A constraint that adds to no value; what holds nothing has no effect.
    fn effect(&mut self, constraint: &Constraint) {
        let new = match *constraint {
            Constraint::Store { from, to, size } => self
                .numbering
                .value(from)
                .zip(self.place(to))
                .map(|(from, to)| Constraint::Store { from, to, size }),
            Constraint::Copy { from, to, size } => {
                self.place(from).zip(self.place(to)).map(|(from, to)| Constraint::Copy { from, to, size })
            }
            // Of an object all escapes, wherever in it the address points.
            Constraint::Escape { from } => self
                .place(Place { value: from, offset: Some(0) })
                .map(|place| Constraint::Escape { from: place.value }),
            Constraint::EscapeCode { from } => self
                .place(Place { value: from, offset: Some(0) })
                .map(|place| Constraint::EscapeCode { from: place.value }),
            _ => None,
        };
        self.constraints.extend(new);
    }

    fn place(&mut self, place: Place) -> Option<Place> {
        let (root, offset) = self.numbering.root(place.value, place.offset)?;
        let value = match root {
            NumberRoot::Value(value) => value,
            NumberRoot::Frame => *self.base.get_or_insert_with(|| {
                let to = ValueIdx(self.next);
                self.next += 1;
                self.constraints.push(Constraint::Frame { to, offset: Some(0) });
                to
            }),
        };
        Some(Place { value, offset })
    }
}

/// Put the representatives into the tables; what holds nothing is not passed and not returned.
fn interface(function: &mut FunctionSummary, numbering: &ValueNumbering) {
    let representative = |v: &mut ValueIdx| {
        if let Some(class) = numbering.classes.get(numbering.class(*v) as usize) {
            *v = class.representative;
        }
    };
    let holds = |v: ValueIdx| numbering.value(v).is_some();
    function.results.retain(|(_, v)| holds(*v));
    function.parameters.iter_mut().chain(&mut function.results).for_each(|(_, v)| representative(v));
    function.stack_parameters.iter_mut().for_each(|(_, v)| representative(v));
    function.indirect_entry_values.iter_mut().for_each(representative);
    for site in &mut function.call_sites {
        site.actuals.retain(|(_, v)| holds(*v));
        site.stack.retain(|(_, v)| holds(*v));
        site.actuals.iter_mut().chain(&mut site.results).for_each(|(_, v)| representative(v));
        site.stack.iter_mut().for_each(|(_, v)| representative(v));
        if let Callee::Indirect(value) = &mut site.callee {
            representative(value);
        }
    }
    function.indirect_entry_values.sort_unstable();
    function.indirect_entry_values.dedup();
}
