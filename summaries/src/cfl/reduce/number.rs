//! Which values of a function always hold the same: value numbering of inclusion constraints.
//!
//! Every value gets the set of labels that reach it undisplaced: addresses, the unknown, what comes from outside, what is
//! loaded from a place, a displaced copy of a value. Two values with equal sets hold the same in the least solution, whatever
//! the surroundings are, because loads and displaced copies are distinguished by the class of what they start from. This is offline
//! variable substitution (Rountev and Chandra, PLDI 2000) in the form of Hardekopf and Lin's HU (SAS 2007), with offsets.
//!
//! Cycles through loads and displacements are cut: what is made from a value that has no class yet is a label by
//! itself, and so is a value that more than [`MOST_LABELS`] reach. Both only distinguish too much.

use rustc_hash::FxHashMap;

use super::rewrite::inflows;
use crate::cfl::components::{Adjacency, Components, components};
use crate::ids::ValueIdx;
use crate::relation::{Constraint, FunctionSummary, Place};
use crate::summary::Target;

/// How many labels may reach a value before it counts as one itself.
const MOST_LABELS: usize = 24;

/// A label that a value may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PointsToLabel {
    /// What comes into a component from outside.
    Inflow(u32),
    /// All of a component that too much reaches.
    Wide(u32),
    Address(Target, i64),
    Frame(Option<i64>),
    Unknown,
    Load(Base, Option<i64>, u32),
    Displaced(Base, Option<i64>),
}

/// What a load or a displaced copy starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Base {
    Class(u32),
    /// A component whose class isn't known yet.
    Later(u32),
    /// The address of the frame: the stack pointer at entry.
    Frame,
}

/// The number of a [`PointsToLabel`] in the order of their discovery.
type PointsToLabelId = u32;

/// A class of values that hold the same.
pub(super) struct ValueClass {
    /// The labels that each value of the class holds, sorted.
    pub(super) labels: Box<[PointsToLabelId]>,
    /// The representative of the class: the first of its values.
    pub(super) representative: ValueIdx,
    /// The one label in it is a displaced copy of this, or an address in the frame.
    origin: Option<(Base, Option<i64>)>,
}

/// The classes of the values of a function.
pub(super) struct ValueNumbering {
    /// In an order in which what a class holds undisplaced comes before it.
    pub(super) classes: Vec<ValueClass>,
    /// By value: the number of its class.
    class_of: Vec<u32>,
    /// By constraint that adds to a value: the label that it adds; `None` for plain copies and for what adds nothing.
    pub(super) adds: Vec<Option<PointsToLabelId>>,
    /// Pairs of classes (to, from), a plain copy each, sorted.
    pub(super) copies: Vec<(u32, u32)>,
}

/// Where a place really is: the value that its address is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberRoot {
    Value(ValueIdx),
    /// The address of the frame: the stack pointer at entry.
    Frame,
}

struct ClassBuilder {
    /// Components of plain copies, by value.
    plain: Components,
    numbers: FxHashMap<PointsToLabel, PointsToLabelId>,
    labels: Vec<PointsToLabel>,
    by_labels: FxHashMap<Box<[PointsToLabelId]>, u32>,
    classes: Vec<ValueClass>,
    /// By component of the graph: its class, once that is known.
    class_of: Vec<Option<u32>>,
    /// By component of the graph: its first value.
    first: Vec<ValueIdx>,
}

pub(super) fn number(function: &FunctionSummary) -> ValueNumbering {
    let count = function.values as usize;
    let plain = plain_components(function);
    let component = |v: ValueIdx| plain.of[v.index()];
    let mut edges = Vec::new();
    let mut defined: Vec<(u32, u32)> = Vec::new();
    for (i, constraint) in (0u32..).zip(&function.constraints) {
        match *constraint {
            Constraint::Assign { from, to, .. }
            | Constraint::Load { from: Place { value: from, .. }, to, .. } => {
                edges.push((component(from), component(to)));
                defined.push((component(to), i));
            }
            Constraint::Address { to, .. } | Constraint::Frame { to, .. } | Constraint::Unknown { to } => {
                defined.push((component(to), i));
            }
            Constraint::Store { .. }
            | Constraint::Copy { .. }
            | Constraint::Escape { .. }
            | Constraint::EscapeCode { .. } => {}
        }
    }
    let all = components(&Adjacency::new(plain.count as usize, &edges));
    let defined = Adjacency::new(plain.count as usize, &defined);
    let mut order: Vec<u32> = (0..plain.count).collect();
    // Numbers fall along edges; plain copies between components are in no cycle of their own.
    order.sort_unstable_by_key(|c| std::cmp::Reverse((all.of[*c as usize], *c)));
    let mut first = vec![ValueIdx(u32::MAX); plain.count as usize];
    let mut has_inflow = vec![false; plain.count as usize];
    for (value, inflow) in inflows(function).into_iter().enumerate() {
        let c = plain.of[value] as usize;
        first[c] = first[c].min(ValueIdx::new(value));
        has_inflow[c] |= inflow;
    }
    let mut builder = ClassBuilder {
        class_of: vec![None; plain.count as usize],
        plain,
        numbers: FxHashMap::default(),
        labels: Vec::new(),
        by_labels: FxHashMap::default(),
        classes: Vec::new(),
        first,
    };
    let mut adds = vec![None; function.constraints.len()];
    let mut copies_of: Vec<(u32, u32)> = Vec::new();
    for c in order {
        let mut held: Vec<PointsToLabelId> = Vec::new();
        if has_inflow[c as usize] {
            held.push(builder.label(PointsToLabel::Inflow(c)));
        }
        for i in defined.of(c) {
            let constraint = &function.constraints[*i as usize];
            if let Constraint::Assign { from, offset: Some(0), .. } = constraint {
                let from = builder.plain.of[from.index()];
                if from != c {
                    copies_of.push((c, from));
                    held.extend(builder.labels_of(from));
                }
            } else if let Some(label) = builder.added_by(constraint) {
                let number = builder.label(label);
                adds[*i as usize] = Some(number);
                held.push(number);
            }
        }
        builder.classify(c, held);
    }
    let class = |c: u32| builder.class_of[c as usize].unwrap_or(0);
    let mut copies: Vec<(u32, u32)> =
        copies_of.into_iter().map(|(to, from)| (class(to), class(from))).collect();
    copies.retain(|(to, from)| to != from);
    copies.sort_unstable();
    copies.dedup();
    let class_of = (0..count).map(|v| class(builder.plain.of[v])).collect();
    ValueNumbering { class_of, classes: builder.classes, adds, copies }
}

/// Values that plain copies join in a cycle hold the same.
fn plain_components(function: &FunctionSummary) -> Components {
    let plain = function.constraints.iter().filter_map(|c| match c {
        Constraint::Assign { from, to, offset: Some(0) } => Some((from.0, to.0)),
        _ => None,
    });
    components(&Adjacency::new(function.values as usize, &plain.collect::<Vec<_>>()))
}

impl ClassBuilder {
    fn label(&mut self, label: PointsToLabel) -> PointsToLabelId {
        let next = self.labels.len() as PointsToLabelId;
        let number = *self.numbers.entry(label).or_insert(next);
        if number == next {
            self.labels.push(label);
        }
        number
    }

    /// What reaches a component, if that is known yet.
    fn labels_of(&self, component: u32) -> &[PointsToLabelId] {
        let class = self.class_of[component as usize];
        class.and_then(|c| self.classes.get(c as usize)).map_or(&[], |c| &c.labels)
    }

    /// What a constraint other than a plain copy adds; `None` if it is nothing.
    fn added_by(&self, constraint: &Constraint) -> Option<PointsToLabel> {
        Some(match *constraint {
            Constraint::Address { target, offset, .. } => PointsToLabel::Address(target, offset),
            Constraint::Frame { offset, .. } => PointsToLabel::Frame(offset),
            Constraint::Unknown { .. } => PointsToLabel::Unknown,
            Constraint::Assign { from, offset, .. } => match self.base(from, offset)? {
                (Base::Frame, offset) => PointsToLabel::Frame(offset),
                (base, offset) => PointsToLabel::Displaced(base, offset),
            },
            Constraint::Load { from, size, .. } => {
                let (base, offset) = self.base(from.value, from.offset)?;
                PointsToLabel::Load(base, offset, size)
            }
            Constraint::Store { .. }
            | Constraint::Copy { .. }
            | Constraint::Escape { .. }
            | Constraint::EscapeCode { .. } => return None,
        })
    }

    /// What an address is made from; `None` if nothing reaches it.
    fn base(&self, value: ValueIdx, offset: Option<i64>) -> Option<(Base, Option<i64>)> {
        let component = self.plain.of[value.index()];
        match self.class_of[component as usize] {
            Some(class) => origin_of(&self.classes, class, offset),
            None => Some((Base::Later(component), offset)),
        }
    }

    fn classify(&mut self, component: u32, mut held: Vec<PointsToLabelId>) {
        held.sort_unstable();
        held.dedup();
        if held.len() > MOST_LABELS {
            held = vec![self.label(PointsToLabel::Wide(component))];
        }
        let labels = held.into_boxed_slice();
        let next = self.classes.len() as u32;
        let class = *self.by_labels.entry(labels.clone()).or_insert(next);
        if class == next {
            let origin = match labels.as_ref() {
                [single] => match self.labels[*single as usize] {
                    PointsToLabel::Displaced(base, offset) => Some((base, offset)),
                    PointsToLabel::Frame(offset) => Some((Base::Frame, offset)),
                    _ => None,
                },
                _ => None,
            };
            self.classes.push(ValueClass { labels, representative: self.first[component as usize], origin });
        }
        self.class_of[component as usize] = Some(class);
    }
}

/// What an address in a class is made from, displaced; `None` if the class holds nothing.
fn origin_of(classes: &[ValueClass], class: u32, offset: Option<i64>) -> Option<(Base, Option<i64>)> {
    let of = classes.get(class as usize)?;
    if of.labels.is_empty() {
        return None;
    }
    let plain = Some((Base::Class(class), offset));
    match of.origin {
        // A cycle of displacements leads nowhere that is better, and one that isn't known makes one of many offsets.
        None | Some((Base::Later(_), _) | (_, None)) => plain,
        Some((base, Some(by))) => match offset.map(|offset| by.checked_add(offset)) {
            None => Some((base, None)),
            Some(Some(sum)) => Some((base, Some(sum))),
            Some(None) => plain,
        },
    }
}

impl ValueNumbering {
    pub(super) fn class(&self, value: ValueIdx) -> u32 {
        self.class_of[value.index()]
    }

    /// The representative of this value's class; `None` if it holds nothing.
    pub(super) fn value(&self, value: ValueIdx) -> Option<ValueIdx> {
        let class = self.classes.get(self.class(value) as usize)?;
        (!class.labels.is_empty()).then_some(class.representative)
    }

    /// Where an address comes from; `None` if it holds nothing.
    pub(super) fn root(&self, value: ValueIdx, offset: Option<i64>) -> Option<(NumberRoot, Option<i64>)> {
        let (base, offset) = origin_of(&self.classes, self.class(value), offset)?;
        let root = match base {
            Base::Class(class) => NumberRoot::Value(self.classes.get(class as usize)?.representative),
            Base::Frame => NumberRoot::Frame,
            // `origin_of` gives none.
            Base::Later(_) => NumberRoot::Value(self.value(value)?),
        };
        Some((root, offset))
    }
}
