//! Oracle: the same fixpoint by naive iteration of all rules over plain sets, until nothing changes.
//!
//! It shares no code with the solver. Its input is one module, with one section per function, entries at offset 0, and symbols at the
//! start of atoms. More than 16 offsets of one object are the unknown one, by definition.

use std::collections::{BTreeMap, BTreeSet};

use super::oracle_places::{
    Address, OracleNode, OracleObject, address, bounded, dependence, entered_from_outside, function_of,
    has_own_copy, is_foreign, unplaced,
};
use super::{defined, is_code};
use crate::propagate::values::function_clone::{Dependence, MAX_DEPTH};
use summaries::registers::{CONVENTIONAL, RAX};
use summaries::relation::{Callee, Constraint, FunctionSummary, Place};
use summaries::{AtomIdx, ModuleSummary, ReferenceKind};

/// The targets of a call: atoms, each with its offset if it is known.
type Targets = BTreeSet<(u32, Option<i64>)>;

/// The owner of unknown code: a library outside of the link, the link, or either if the address is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownCode {
    Library,
    Pointer,
    OfLink,
}

#[derive(Default)]
pub(super) struct Oracle {
    pub(super) live: BTreeSet<u32>,
    mentioned: BTreeSet<u32>,
    sets: BTreeMap<OracleNode, BTreeSet<Address>>,
    /// The targets of each (function, site), and whether it is overdefined.
    pub(super) sites: BTreeMap<(usize, usize), (Targets, bool)>,
    changed: bool,
    /// The copies of functions that external code enters. Their numbers follow those of the functions.
    entered: BTreeSet<usize>,
    /// The root, and atoms to which a reference exists that no analysed function accounts for.
    outside: BTreeSet<u32>,
    /// Calls (function, site, callee) that pass nothing to the shared function, since its copy stands for them.
    left_out: BTreeSet<(usize, usize, u32)>,
    /// Calls have copies of their callees, as the solver has clones. The keys of `copies` are caller, site and callee.
    has_copies: bool,
    copies: BTreeMap<(usize, usize, usize), usize>,
    /// By copy for a call: the length of the chain of such calls, and whether external code entered the first caller.
    contexts: BTreeMap<usize, (usize, bool)>,
    /// Functions and copies that something calls or enters.
    runs: BTreeSet<usize>,
}

impl Oracle {
    pub(super) fn run(summary: &ModuleSummary, root: u32, has_copies: bool) -> Oracle {
        Oracle::run_without(summary, root, has_copies, BTreeSet::new())
    }

    /// The calls that the solver may skip: an overdefined site calls the copy of each function that escaped.
    pub(super) fn covered_calls(&self, summary: &ModuleSummary) -> BTreeSet<(usize, usize, u32)> {
        let escaped = |atom: &u32| {
            let is_own = |a: &Address| matches!(a, Some((OracleObject::Atom(of), _)) if of == atom);
            self.set(OracleNode::Escaped).iter().any(is_own) && !self.outside.contains(atom)
        };
        let functions = summary.functions.iter().filter(|f| has_own_copy(f)).map(|f| f.atom.0);
        let functions: Vec<u32> = functions.filter(escaped).collect();
        let sites = self.sites.iter().filter(|(_, site)| site.1).map(|(at, _)| *at);
        // The same site in any copy of the caller.
        sites
            .map(|(f, site)| (f % summary.functions.len(), site))
            .flat_map(|(f, site)| functions.iter().map(move |atom| (f, site, *atom)))
            .collect()
    }

    pub(super) fn run_without(
        summary: &ModuleSummary,
        root: u32,
        has_copies: bool,
        left_out: BTreeSet<(usize, usize, u32)>,
    ) -> Oracle {
        let outside = entered_from_outside(summary, root);
        let mut oracle = Oracle { outside, left_out, has_copies, ..Oracle::default() };
        loop {
            oracle.changed = false;
            oracle.round(summary, root);
            if !oracle.changed {
                oracle.call_numbers(summary);
            }
            if !oracle.changed {
                return oracle;
            }
        }
    }

    /// Once code addresses were exposed, a site without known callees may call anything.
    fn call_numbers(&mut self, summary: &ModuleSummary) {
        let is_code = |a: &Address| match a {
            Some((OracleObject::Atom(atom), _)) => is_code(summary, *atom),
            a => a.is_none_or(|a| a.0 == OracleObject::External),
        };
        let live = |f: &(usize, &FunctionSummary)| self.live.contains(&f.1.atom.0);
        let mut live: Vec<_> = summary.functions.iter().enumerate().filter(live).collect();
        live.extend(self.entered.iter().map(|f| (*f, function_of(summary, *f))));
        let exposed = live.iter().flat_map(|(f, function): &(usize, &FunctionSummary)| {
            let of = function.constraints.iter().filter_map(move |c| match c {
                Constraint::EscapeCode { from } => Some(OracleNode::Value(*f, from.0)),
                _ => None,
            });
            of.flat_map(|node| self.set(node))
        });
        let exposed =
            exposed.filter(|a: &Address| matches!(a, Some((OracleObject::Atom(_), _))) && is_code(a)).count();
        if exposed == 0 {
            return;
        }
        for (f, function) in live.into_iter().filter(|(f, _)| self.runs.contains(f)).collect::<Vec<_>>() {
            for (i, site) in function.call_sites.iter().enumerate() {
                if let Callee::Indirect(value) = site.callee
                    && !self.set(OracleNode::Value(f, value.0)).iter().any(is_code)
                    && !self.sites.get(&(f, i)).is_some_and(|s| s.1)
                {
                    self.changed = true;
                    self.call(summary, f, i, None);
                }
            }
        }
    }

    pub(super) fn stubs(&self) -> BTreeSet<u32> {
        self.mentioned.difference(&self.live).copied().collect()
    }

    fn set(&self, node: OracleNode) -> BTreeSet<Address> {
        self.sets.get(&node).cloned().unwrap_or_default()
    }

    fn add(&mut self, node: OracleNode, address: Address) {
        let set = self.sets.entry(node).or_default();
        let before = set.clone();
        set.insert(address);
        if let Some((object, _)) = address {
            let own: Vec<Address> =
                set.iter().copied().filter(|a| a.is_some_and(|a| a.0 == object)).collect();
            if own.len() > 16 || own.contains(&Some((object, None))) {
                own.iter().for_each(|a| {
                    set.remove(a);
                });
                set.insert(Some((object, None)));
            }
        }
        self.changed |= *set != before;
    }

    fn flow(&mut self, from: OracleNode, to: OracleNode) {
        for address in self.set(from) {
            self.add(to, address);
        }
    }

    fn live(&mut self, atom: u32) {
        self.changed |= self.live.insert(atom);
    }

    /// An access to the bytes of code keeps its body.
    fn touch(&mut self, summary: &ModuleSummary, a: Address) {
        if let Some((OracleObject::Atom(atom), _)) = a
            && is_code(summary, atom)
        {
            self.live(atom);
        }
    }

    fn round(&mut self, summary: &ModuleSummary, root: u32) {
        self.live(root);
        self.add(OracleNode::Escaped, Some((OracleObject::Atom(root), None)));
        for atom in self.live.clone() {
            match summary.functions.iter().position(|f| f.atom.0 == atom) {
                Some(f) => self.function(summary, f),
                None => self.plain(summary, atom),
            }
        }
        for f in self.entered.clone() {
            self.function(summary, f);
        }
        for address in self.set(OracleNode::Escaped) {
            let Some((object, _)) = address else { continue };
            match object {
                OracleObject::Atom(atom) if is_code(summary, atom) => self.escaped_code(summary, atom),
                OracleObject::External => {}
                _ => {
                    self.add(OracleNode::Anywhere(object), None);
                    for node in self.nodes_of(object) {
                        self.flow(node, OracleNode::Escaped);
                    }
                }
            }
        }
    }

    fn nodes_of(&self, object: OracleObject) -> Vec<OracleNode> {
        let of = |n: &&OracleNode| match n {
            OracleNode::Cell(o, _) | OracleNode::Anywhere(o) | OracleNode::Above(o) => *o == object,
            _ => false,
        };
        self.sets.keys().filter(of).copied().collect()
    }

    fn escaped_code(&mut self, summary: &ModuleSummary, atom: u32) {
        self.live(atom);
        let Some(f) = summary.functions.iter().position(|f| f.atom.0 == atom) else { return };
        let function = function_of(summary, f);
        if !function.indirect_entry_values.is_empty() {
            self.label(function, f);
        }
        let has_own = has_own_copy(function) && !self.outside.contains(&atom);
        let f = if has_own { f + summary.functions.len() } else { f };
        self.changed |= has_own && self.entered.insert(f);
        self.changed |= self.runs.insert(f);
        let stack = function.stack_parameters.iter().map(|p| p.1);
        for value in function.parameters.iter().map(|p| p.1).chain(stack) {
            self.add(OracleNode::Value(f, value.0), None);
        }
        if function.frame {
            self.add(OracleNode::Above(OracleObject::Frame(f as u32)), None);
        }
        for (_, value) in &function.results {
            self.flow(OracleNode::Value(f, value.0), OracleNode::Escaped);
        }
    }

    fn label(&mut self, function: &FunctionSummary, f: usize) {
        self.changed |= self.runs.insert(f);
        for value in &function.indirect_entry_values {
            self.add(OracleNode::Value(f, value.0), None);
        }
        for (_, value) in &function.results {
            self.flow(OracleNode::Value(f, value.0), OracleNode::Escaped);
        }
    }

    /// An atom without a summary: all addresses that it takes escape.
    fn plain(&mut self, summary: &ModuleSummary, atom: u32) {
        for r in summary.references_of(AtomIdx(atom)) {
            let Some(target) = defined(summary, r.target) else {
                if r.kind == ReferenceKind::Data {
                    self.contents(atom, r.offset, Some((OracleObject::External, Some(0))));
                }
                continue;
            };
            if is_code(summary, atom) {
                self.live(target);
                self.add(OracleNode::Escaped, Some((OracleObject::Atom(target), None)));
                continue;
            }
            if is_code(summary, target) && r.addend == 0 {
                self.changed |= self.mentioned.insert(target);
            } else {
                self.live(target);
            }
            self.contents(atom, r.offset, Some((OracleObject::Atom(target), Some(r.addend))));
        }
    }

    fn contents(&mut self, atom: u32, offset: u64, address: Address) {
        let offset = offset as i64;
        for cell in [offset.div_euclid(8), (offset + 7).div_euclid(8)] {
            self.add(OracleNode::Cell(OracleObject::Atom(atom), cell), address);
        }
    }

    fn function(&mut self, summary: &ModuleSummary, f: usize) {
        let function = function_of(summary, f);
        for r in summary.references_of(function.atom) {
            let Some(target) = defined(summary, r.target) else { continue };
            let section = summary.atoms[function.atom.index()].section;
            let accounted = function.covered_references.contains(&(section, r.offset));
            if !accounted {
                self.live(target);
                self.add(OracleNode::Escaped, Some((OracleObject::Atom(target), None)));
            } else if is_code(summary, target) && target != function.atom.0 {
                self.changed |= self.mentioned.insert(target);
            } else {
                self.live(target);
            }
        }
        for constraint in &function.constraints {
            self.constraint(summary, f, constraint);
        }
        for (i, site) in function.call_sites.iter().enumerate() {
            let addresses = match site.callee {
                Callee::Indirect(value) => self.set(OracleNode::Value(f, value.0)),
                Callee::Direct { target, offset } => BTreeSet::from([address(summary, target, offset)]),
            };
            for address in addresses {
                if let (Callee::Direct { .. }, Some((OracleObject::Atom(atom), _))) = (site.callee, address)
                    && !is_code(summary, atom)
                {
                    // The callee is code in a section of data.
                    self.live(atom);
                    self.add(OracleNode::Escaped, Some((OracleObject::Atom(atom), None)));
                    self.call_unknown(summary, f, i, UnknownCode::Pointer);
                }
                self.call(summary, f, i, address);
            }
        }
    }

    fn constraint(&mut self, summary: &ModuleSummary, f: usize, constraint: &Constraint) {
        let value = |v: summaries::ValueIdx| OracleNode::Value(f, v.0);
        match *constraint {
            Constraint::Address { to, target, offset } => {
                self.add(value(to), address(summary, target, offset));
                if let Some(atom) = defined(summary, target)
                    && is_code(summary, atom)
                    && offset != 0
                {
                    self.live(atom);
                }
            }
            Constraint::Frame { to, offset } => {
                self.add(value(to), Some((OracleObject::Frame(f as u32), offset)))
            }
            Constraint::Assign { from, to, offset } => {
                for a in self.set(value(from)) {
                    let moved = a.map(|(o, at)| bounded(summary, o, at.zip(offset).map(|(a, b)| a + b)));
                    self.add(value(to), moved);
                }
            }
            Constraint::Load { from, to, size } => {
                for a in self.set(value(from.value)) {
                    self.load(summary, a, from, size, value(to));
                }
            }
            Constraint::Store { from, to, size } => {
                for a in self.set(value(to.value)) {
                    self.store(summary, value(from), a, to, size);
                }
            }
            Constraint::Copy { from, to, size } => {
                for a in self.set(value(from.value)) {
                    for b in self.set(value(to.value)) {
                        self.copy(summary, (a, from.offset), (b, to.offset), size);
                    }
                }
            }
            Constraint::Unknown { to } => self.add(value(to), None),
            Constraint::Escape { from } => self.flow(value(from), OracleNode::Escaped),
            Constraint::EscapeCode { from } => {
                let is_code = |object| matches!(object, OracleObject::Atom(atom) if is_code(summary, atom));
                for (object, _) in self.set(value(from)).into_iter().flatten().filter(|a| is_code(a.0)) {
                    self.add(OracleNode::Escaped, Some(bounded(summary, object, None)));
                }
            }
        }
    }

    fn load(&mut self, summary: &ModuleSummary, a: Address, place: Place, size: u32, to: OracleNode) {
        self.touch(summary, a);
        let Some((object, at)) = a.filter(|a| !is_foreign(summary, a.0)) else { return self.add(to, None) };
        if matches!(object, OracleObject::Atom(atom) if is_code(summary, atom)) {
            return;
        }
        let start = bounded(summary, object, at.zip(place.offset).map(|(a, b)| a + b)).1;
        for node in self.nodes_of(object) {
            let read = match (node, start.filter(|_| size != 0)) {
                (_, None) | (OracleNode::Anywhere(_), _) => true,
                (OracleNode::Cell(_, cell), Some(s)) => cell * 8 < s + i64::from(size) && s < cell * 8 + 8,
                (_, Some(s)) => s + i64::from(size) > 8,
            };
            if read {
                self.flow(node, to);
            }
        }
    }

    fn store(&mut self, summary: &ModuleSummary, from: OracleNode, a: Address, place: Place, size: u32) {
        self.touch(summary, a);
        let Some((object, at)) = a.filter(|a| !is_foreign(summary, a.0)) else {
            return self.flow(from, OracleNode::Escaped);
        };
        if matches!(object, OracleObject::Atom(atom) if is_code(summary, atom)) {
            return;
        }
        let start = bounded(summary, object, at.zip(place.offset).map(|(a, b)| a + b)).1;
        match start.filter(|_| size != 0) {
            None => self.flow(from, OracleNode::Anywhere(object)),
            Some(s) => {
                for cell in s.div_euclid(8)..=(s + i64::from(size) - 1).div_euclid(8) {
                    self.flow(from, OracleNode::Cell(object, cell));
                }
            }
        }
    }

    fn copy(
        &mut self,
        summary: &ModuleSummary,
        from: (Address, Option<i64>),
        to: (Address, Option<i64>),
        size: u32,
    ) {
        let memory = |a: Address| {
            a.filter(|a| {
                !is_foreign(summary, a.0) && !matches!(a.0, OracleObject::Atom(x) if is_code(summary, x))
            })
        };
        self.touch(summary, from.0);
        self.touch(summary, to.0);
        let outside = |a: Address| a.is_none_or(|a| is_foreign(summary, a.0));
        // The nodes of the source that the copy reads: cells, and the part above the frame.
        let read = |node: OracleNode, x: Option<i64>| match (node, x) {
            (OracleNode::Cell(_, cell), Some(x)) => {
                cell >= x.div_euclid(8) && (size == 0 || cell * 8 < x + i64::from(size))
            }
            (OracleNode::Above(_), Some(x)) => size == 0 || x + i64::from(size) > 8,
            _ => true,
        };
        match (memory(from.0), memory(to.0)) {
            (Some((a, x)), Some((b, y))) => {
                let x = bounded(summary, a, x.zip(from.1).map(|(p, q)| p + q)).1;
                let y = bounded(summary, b, y.zip(to.1).map(|(p, q)| p + q)).1;
                if a == b && x.is_some() && x == y {
                    return;
                }
                let known = x.zip(y).filter(|(x, y)| (x - y) % 8 == 0 && a != b);
                for node in self.nodes_of(a).into_iter().filter(|n| read(*n, x)) {
                    let place = match (known, node) {
                        (Some((x, y)), OracleNode::Cell(_, cell)) => {
                            bounded(summary, b, Some(cell * 8 + y - x)).1
                        }
                        _ => None,
                    };
                    self.flow(node, place.map_or(unplaced(b, y), |place| OracleNode::Cell(b, place / 8)));
                }
            }
            (Some((a, x)), None) if outside(to.0) => {
                let x = bounded(summary, a, x.zip(from.1).map(|(p, q)| p + q)).1;
                for node in self.nodes_of(a).into_iter().filter(|n| read(*n, x)) {
                    self.flow(node, OracleNode::Escaped);
                }
            }
            (None, Some((b, y))) if outside(from.0) => {
                let y = bounded(summary, b, y.zip(to.1).map(|(p, q)| p + q)).1;
                self.add(unplaced(b, y), None);
            }
            _ => {}
        }
    }

    fn call(&mut self, summary: &ModuleSummary, f: usize, number: usize, callee: Address) {
        let site = &function_of(summary, f).call_sites[number];
        let code = callee.filter(|a| matches!(a.0, OracleObject::Atom(x) if is_code(summary, x)));
        let mut entry = self.sites.remove(&(f, number)).unwrap_or_default();
        let Some((OracleObject::Atom(atom), offset)) = code else {
            let escaped = self.set(OracleNode::Escaped);
            // Memory that external code has may contain code.
            let memory = callee.filter(|c| c.0 != OracleObject::External);
            let runs = memory.is_some_and(|c| escaped.iter().flatten().any(|e| e.0 == c.0));
            let unknown = runs || callee.is_none_or(|c| c.0 == OracleObject::External);
            entry.1 |= runs || callee.is_none();
            self.sites.insert((f, number), entry);
            if unknown {
                let of_library = callee.is_some_and(|c| c.0 == OracleObject::External);
                let code = if of_library { UnknownCode::Library } else { UnknownCode::Pointer };
                self.call_unknown(summary, f, number, code);
            }
            return;
        };
        let target = summary.functions.iter().position(|g| g.atom.0 == atom);
        let stays = site.jump && target == Some(f);
        if !stays || matches!(offset, None | Some(0)) {
            entry.0.insert((atom, offset));
        }
        self.sites.insert((f, number), entry);
        if stays && !matches!(offset, None | Some(0)) {
            return;
        }
        self.live(atom);
        if self.left_out.contains(&(f % summary.functions.len(), number, atom)) {
            return;
        }
        let Some(g) = target else {
            self.add(OracleNode::Escaped, Some((OracleObject::Atom(atom), None)));
            return self.call_unknown(summary, f, number, UnknownCode::OfLink);
        };
        let function = &summary.functions[g];
        if offset != Some(0) && !stays {
            let passed = site.actuals.iter().map(|a| a.1).chain(site.stack.iter().map(|s| s.1));
            let mut passed: Vec<OracleNode> = passed.map(|v| OracleNode::Value(f, v.0)).collect();
            if site.stack_in_frame.is_some() {
                passed.extend(self.nodes_of(OracleObject::Frame(f as u32)));
            }
            for (value, from) in
                function.indirect_entry_values.iter().flat_map(|v| passed.iter().map(move |p| (*v, *p)))
            {
                self.flow(from, OracleNode::Value(g, value.0));
            }
        }
        let g = if stays { g } else { self.copy_for(summary, (f, number), g, offset == Some(0)) };
        self.changed |= self.runs.insert(g);
        for (register, value) in &function.parameters {
            for (_, actual) in site.actuals.iter().filter(|a| a.0 == *register) {
                self.flow(OracleNode::Value(f, actual.0), OracleNode::Value(g, value.0));
            }
        }
        for (register, value) in &function.results {
            for (_, result) in site.results.iter().filter(|a| a.0 == *register) {
                self.flow(OracleNode::Value(g, value.0), OracleNode::Value(f, result.0));
            }
        }
        for (register, result) in site.results.iter().filter(|r| function.preserved & 1 << r.0 != 0) {
            for (_, before) in site.actuals.iter().filter(|a| a.0 == *register) {
                self.flow(OracleNode::Value(f, before.0), OracleNode::Value(f, result.0));
            }
        }
        let (mine, its) = (OracleObject::Frame(f as u32), OracleObject::Frame(g as u32));
        for (at, actual) in &site.stack {
            let from = OracleNode::Value(f, actual.0);
            if function.frame {
                self.flow(from, OracleNode::Cell(its, i64::from(*at) / 8));
            }
            for (_, value) in function.stack_parameters.iter().filter(|p| p.0 == *at) {
                self.flow(from, OracleNode::Value(g, value.0));
            }
        }
        let Some(base) = site.stack_in_frame else { return };
        if function.frame && base.is_none() {
            for node in self.nodes_of(mine) {
                self.flow(node, OracleNode::Above(its));
            }
        } else if function.frame {
            let from = (Some(bounded(summary, mine, base.map(|b| b + 8))), Some(0));
            self.copy(summary, from, (Some((its, Some(8))), Some(0)), 0);
        }
        for (at, value) in &function.stack_parameters {
            let place = bounded(summary, mine, base.map(|b| b + i64::from(*at)));
            let start = Place { value: *value, offset: Some(0) };
            self.load(summary, Some(place), start, 8, OracleNode::Value(g, value.0));
        }
    }

    /// The copy of a function that a call joins, or the function itself. A copy for external code calls other such copies.
    fn copy_for(
        &mut self,
        summary: &ModuleSummary,
        (f, number): (usize, usize),
        g: usize,
        is_entry: bool,
    ) -> usize {
        let (count, function) = (summary.functions.len(), &summary.functions[g]);
        let (depth, unseen) = self.contexts.get(&f).copied().unwrap_or((0, f >= count));
        let looks = function_of(summary, f).call_sites[number].results.iter().any(|r| r.0 == RAX);
        if self.has_copies && is_entry && depth <= MAX_DEPTH {
            let by = dependence(summary, g, MAX_DEPTH - depth.min(MAX_DEPTH));
            if by == Dependence::Effect || by == Dependence::Result && looks {
                let next = g + count * (2 + self.copies.len());
                let copy = *self.copies.entry((f, number, g)).or_insert(next);
                self.contexts.insert(copy, (depth + 1, unseen));
                self.changed |= self.entered.insert(copy);
                return copy;
            }
        }
        if unseen && has_own_copy(function) && !self.outside.contains(&function.atom.0) {
            self.changed |= self.entered.insert(g + count);
            return g + count;
        }
        g
    }

    fn call_unknown(&mut self, summary: &ModuleSummary, f: usize, number: usize, code: UnknownCode) {
        let site = &function_of(summary, f).call_sites[number];
        let takes = |register: u8| code != UnknownCode::Library || CONVENTIONAL & 1 << register != 0;
        let actuals = site.actuals.iter().filter(|a| takes(a.0)).map(|a| a.1);
        for value in actuals.chain(site.stack.iter().map(|s| s.1)) {
            self.flow(OracleNode::Value(f, value.0), OracleNode::Escaped);
        }
        for (register, result) in site.results.iter().filter(|_| code != UnknownCode::Library) {
            for (_, before) in site.actuals.iter().filter(|a| a.0 == *register) {
                self.flow(OracleNode::Value(f, before.0), OracleNode::Value(f, result.0));
            }
        }
        if site.stack_in_frame.is_some() {
            for node in self.nodes_of(OracleObject::Frame(f as u32)) {
                self.flow(node, OracleNode::Escaped);
            }
        }
        for (_, value) in &site.results {
            self.add(OracleNode::Value(f, value.0), None);
        }
    }
}
