//! Interprocedural edges: each callee of a call site is joined with its arguments, results and stack.
//!
//! A callee with a summary takes the arguments as its parameters and returns its results. For a callee without a summary, and for
//! the unknown, all arguments escape and the result may be anything that escaped. A library function has the effects of its model,
//! else it is the unknown. Each callee is joined once.

use std::borrow::Cow;

use summaries::ValueIdx;
use summaries::registers::{self, RAX};
use summaries::relation::Callee;

use super::flow::{FIRST_STACK_PARAMETER, Flow, ObjectKind};
use super::graph::{CELL, ComplexConstraint, ESCAPED, EscapeReason, NodeId, OVERDEFINED, OverdefinedReason};
use super::places::ResolvedPlace;
use super::sets::Element;
use super::site::{CallInterface, PendingStackArguments, Site, both, pairs};
use crate::ids::{AtomId, Id};
use crate::propagate::liveness::Witness;

impl<'s> Flow<'s> {
    pub(super) fn add_site(&mut self, function: u32, number: u32, caller: AtomId) {
        let position = self.functions[function as usize].position;
        let Some(call) = self.summary(function).call_sites.get(number as usize) else { return };
        let passed = CallInterface {
            first: self.node_of_value(function, ValueIdx(0)),
            actuals: Cow::Borrowed(&call.actuals),
            stack: &call.stack,
            in_frame: call.stack_in_frame.and_then(|o| self.frame(function).map(|f| (f, o))),
            results: Cow::Borrowed(&call.results),
        };
        self.graph.constraints += 1;
        let place = match call.callee {
            Callee::Direct { target, offset } => Some(self.places.place(position, target, offset)),
            Callee::Indirect(_) => None,
        };
        if let Some((ResolvedPlace::Atom(atom, offset), false)) = place
            && let Some(callee) = self.function_of(atom)
            && self.places.is_entry(atom, offset)
        {
            // Such a call needs no site, since its callees are final.
            self.called[atom.index()] = true;
            self.live(atom, Witness::Called { caller });
            let callee = self.clone_for_call(function, passed.result(RAX).is_some(), callee, atom);
            return self.join_call(&passed, callee);
        }
        let (indirect, jump, no_vectors) = (place.is_none(), call.jump, call.no_vectors);
        let id = self.sites.len() as u32;
        self.sites.push(Site {
            number: Some(number),
            indirect,
            jump,
            no_vectors,
            formats: &call.formats,
            ..Site::new(function, caller, passed)
        });
        match (call.callee, place) {
            (Callee::Indirect(value), _) => {
                let node = self.node_of_value(function, value);
                self.sites[id as usize].callee = Some(node);
                self.graph.add_use(node, ComplexConstraint::Call { site: id });
            }
            (_, Some(place)) => self.direct(id, place),
            _ => {}
        }
    }

    fn direct(&mut self, site: u32, (place, preemptible): (ResolvedPlace, bool)) {
        if preemptible {
            self.called(site, OverdefinedReason::Outside.element());
        }
        match place {
            ResolvedPlace::Atom(atom, offset) => match self.address(atom, Some(offset)) {
                Some(element) if matches!(self.kind_of_element(element), ObjectKind::Code(_)) => {
                    self.called(site, element);
                }
                // The callee is code in a section of data.
                _ => {
                    self.live(atom, Witness::Called { caller: self.sites[site as usize].caller });
                    self.escape_atom(atom);
                    self.called(site, OverdefinedReason::Outside.element());
                }
            },
            // The address has its own node, as in a call through a pointer.
            place => {
                let node = self.graph.node();
                self.hold(node, (place, false));
                self.graph.add_use(node, ComplexConstraint::Call { site });
            }
        }
    }

    fn kind_of_element(&self, element: Element) -> ObjectKind {
        self.kind_of_object(element.object())
    }

    fn kind_of_object(&self, object: u32) -> ObjectKind {
        self.object_kinds.get(object as usize).copied().unwrap_or(ObjectKind::Unknown)
    }

    /// Join the callee with the address `element` to the site.
    pub(super) fn called(&mut self, site: u32, element: Element) {
        if !self.sites[site as usize].seen.insert(element) {
            return;
        }
        if element.is_unknown() {
            self.sites[site as usize].causes.extend(OverdefinedReason::of(element));
            return self.call_unknown_code(site);
        }
        match self.kind_of_element(element) {
            ObjectKind::Code(atom) => {
                let offset = self.graph.offset(element);
                self.call_code(site, atom, offset);
            }
            ObjectKind::External(symbol) => {
                self.sites[site as usize].externals.insert(symbol);
                self.calls_external(site, symbol);
                match (self.places.sources.models)(symbol) {
                    Some(model) => self.apply_model(site, symbol, model),
                    None => self.call_unknown(site),
                }
            }
            ObjectKind::Data(_) | ObjectKind::Frame(_) | ObjectKind::Heap(_) | ObjectKind::Library => {
                self.call_data(site, element.object());
            }
            ObjectKind::Unknown => {}
        }
    }

    fn call_code(&mut self, site: u32, atom: AtomId, offset: Option<i64>) {
        let witness = Witness::Called { caller: self.sites[site as usize].caller };
        let Some(function) = self.function_of(atom) else {
            self.sites[site as usize].targets.insert((atom, offset));
            self.live(atom, witness);
            self.escape_atom(atom);
            self.pass_all(site);
            return self.call_unknown_code(site);
        };
        let entry = offset.is_some_and(|o| self.places.is_entry(atom, o));
        let this = &self.sites[site as usize];
        // A jump within the function is no call; the front end analysed it.
        let stays = this.jump && this.function == function;
        if !entry && stays && offset.is_some() {
            return;
        }
        self.sites[site as usize].targets.insert((atom, offset));
        self.live(atom, witness);
        if !entry && !stays {
            self.join_label(site, function);
        }
        let passed = self.sites[site as usize].passed.clone();
        let Site { function: caller, number, .. } = self.sites[site as usize];
        let callee = match (stays, entry && number.is_some()) {
            (true, _) => function,
            (false, true) => self.clone_for_call(caller, passed.result(RAX).is_some(), function, atom),
            (false, false) => self.clone_for_context(caller, function, atom),
        };
        self.join_call(&passed, callee);
    }

    /// Control may enter at an address-taken label (`__builtin_longjmp`). Its values may be any argument of the site.
    fn join_label(&mut self, site: u32, function: u32) {
        let summary = self.summary(function);
        if summary.indirect_entry_values.is_empty() {
            return;
        }
        let this = &self.sites[site as usize];
        let mut passed: Vec<NodeId> = this.passed.all().collect();
        if let Some((frame, _)) = this.passed.in_frame {
            passed.push(self.graph.whole(frame));
        }
        for value in &summary.indirect_entry_values {
            let to = self.node_of_value(function, *value);
            passed.iter().for_each(|from| self.graph.assign(*from, to));
        }
    }

    /// Assign arguments to parameters, and results to the site's results.
    fn join_call(&mut self, passed: &CallInterface<'s>, function: u32) {
        self.functions[function as usize].runs = true;
        let summary = self.summary(function);
        let first = self.node_of_value(function, ValueIdx(0));
        for (actual, parameter) in pairs(&passed.actuals, &summary.parameters) {
            self.graph.assign(passed.first + actual.0, first + parameter.0);
        }
        for (result, value) in pairs(&passed.results, &summary.results) {
            self.graph.assign(first + value.0, passed.first + result.0);
        }
        // A register that the callee preserves has the same value after the call.
        for (register, before, result) in both(&passed.actuals, &passed.results) {
            if registers::has(summary.preserved, register) {
                self.graph.assign(passed.first + before.0, passed.first + result.0);
            }
        }
        let in_frame = passed.in_frame;
        if let Some(frame) = self.frame(function) {
            match PendingStackArguments::of(passed) {
                Some(given) if self.graph.is_unasked(frame) => {
                    self.pending_stack_arguments[function as usize].push(given)
                }
                Some(given) => self.give(given, frame),
                None => {}
            }
            return;
        }
        for (offset, value) in &summary.stack_parameters {
            let parameter = self.node_of_value(function, *value);
            // The cells that overlap the parameter's.
            let overlaps = |o: i32| (i64::from(o) - i64::from(*offset)).abs() < 8;
            for (_, actual) in passed.stack().filter(|s| overlaps(s.0)) {
                self.graph.assign(actual, parameter);
            }
            if let Some((caller, base)) = in_frame {
                let place = base.and_then(|b| b.checked_add(i64::from(*offset)));
                let from = self.graph.element(caller, place);
                self.graph.load(from, Some(0), 8, parameter);
            }
        }
    }

    /// Store the stack arguments of a call in the callee's frame.
    fn give(&mut self, given: PendingStackArguments<'s>, frame: u32) {
        for (offset, actual) in given.cells() {
            if offset + CELL > FIRST_STACK_PARAMETER {
                self.graph.store_at(actual, frame, offset);
            }
        }
        let to = (self.graph.element(frame, Some(FIRST_STACK_PARAMETER)), Some(0));
        match given.in_frame {
            Some((caller, Some(base))) => {
                let from = self.graph.element(caller, base.checked_add(FIRST_STACK_PARAMETER));
                self.graph.copy_memory((from, Some(0)), to, 0);
            }
            Some((caller, None)) => {
                let whole = self.graph.whole(caller);
                let above = self.graph.divide_above(frame, FIRST_STACK_PARAMETER);
                self.graph.assign(whole, above);
            }
            None => {}
        }
    }

    /// Store the pending stack arguments in a frame, since its stack parameters are read.
    pub(super) fn asked(&mut self, object: u32) {
        if let ObjectKind::Frame(function) = self.kind_of_object(object) {
            let given = std::mem::take(&mut self.pending_stack_arguments[function as usize]);
            given.into_iter().for_each(|given| self.give(given, object));
        }
    }

    /// Call external code: the arguments by the calling convention escape, and the results may be anything.
    pub(super) fn call_unknown(&mut self, site: u32) {
        let reason = self.callee_reason(site);
        let this = &mut self.sites[site as usize];
        if std::mem::replace(&mut this.calls_unknown, true) {
            return;
        }
        let passed = this.passed.clone();
        passed.by_convention().for_each(|node| self.graph.let_escape(node, reason));
        if let Some((frame, _)) = passed.in_frame {
            // The whole frame escapes, also the part below the callee's stack pointer.
            let whole = self.graph.whole(frame);
            self.graph.let_escape(whole, reason);
        }
        let results = passed.results.iter().map(|r| passed.first + r.1.0);
        results.for_each(|node| self.graph.add_unknown(node, OverdefinedReason::Result));
    }

    /// Call the unknown, which may be code of the link. It may preserve registers, and take an argument in rax (`regcall`).
    pub(super) fn call_unknown_code(&mut self, site: u32) {
        self.call_unknown(site);
        let passed = self.sites[site as usize].passed.clone();
        for (_, before, result) in both(&passed.actuals, &passed.results) {
            self.graph.assign(passed.first + before.0, passed.first + result.0);
        }
        if let Some(node) = passed.actual(RAX) {
            self.graph.let_escape(node, self.callee_reason(site));
        }
    }

    /// The reason why the arguments of the site escape.
    fn callee_reason(&self, site: u32) -> EscapeReason {
        let callee = self.sites[site as usize].callee.map(|node| self.graph.find(node));
        match callee.is_some_and(|node| self.graph.has(node, OVERDEFINED)) {
            true => EscapeReason::OverdefinedCallee,
            false => EscapeReason::CalleeWithoutSummary,
        }
    }

    /// Call code of the link that was not analysed: it may read any register.
    fn pass_all(&mut self, site: u32) {
        let reason = self.callee_reason(site);
        let passed = self.sites[site as usize].passed.clone();
        passed.all().for_each(|node| self.graph.let_escape(node, reason));
    }

    /// Live code takes arguments in registers that the psABI does not use. Its callers may pass such registers on from their own
    /// callers, which no summary shows. So all values of analysed functions escape.
    pub(super) fn expose_all(&mut self) {
        if !std::mem::replace(&mut self.takes_registers, true) {
            let active = (0..self.functions.len() as u32).filter(|f| self.functions[*f as usize].active);
            active.collect::<Vec<_>>().into_iter().for_each(|function| self.expose_values_of(function));
        }
    }

    /// All values of a function escape, and all addresses that it takes.
    pub(super) fn expose_values_of(&mut self, function: u32) {
        let (summary, position) = (self.summary(function), self.functions[function as usize].position);
        let first = self.node_of_value(function, ValueIdx(0));
        let nodes = first..first + summary.values;
        nodes.for_each(|node| self.graph.let_escape(node, EscapeReason::CalleeWithoutSummary));
        for target in &summary.address_taken_only {
            let place = self.places.place(position, *target, 0);
            self.hold(ESCAPED, place);
        }
    }
}
