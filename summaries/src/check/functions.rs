//! Whether the tables of value flow keep what the solver indexes by: values, atoms and symbols in range, everything in its
//! stated order, no atom in two functions.
//!
//! What is not checked: that `covered_references` names places where there is a reference (one that names nothing excuses nothing),
//! and that the constraints describe the code.

use super::CheckError;
use crate::ids::{AtomIdx, ValueIdx};
use crate::registers::{PRESERVABLE, Register};
use crate::relation::{CallSite, Callee, Constraint, FunctionSummary, Place};
use crate::summary::{AtomKind, ModuleSummary, Target};

const REGISTERS: Register = 49;

pub(super) fn check(summary: &ModuleSummary) -> Result<(), CheckError> {
    let mut taken = vec![false; summary.atoms.len()];
    for (i, function) in summary.functions.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|b| summary.functions.get(b));
        if before.is_some_and(|b| b.atom >= function.atom) {
            return Err(CheckError::Order("function", i));
        }
        let checker = Checker { summary, function };
        let apart = checker.atoms().all(|atom| match taken.get_mut(atom.index()) {
            Some(taken) => !std::mem::replace(taken, true),
            None => false,
        });
        if !apart || !checker.fits() {
            return Err(CheckError::Function(i));
        }
    }
    Ok(())
}

struct Checker<'s> {
    summary: &'s ModuleSummary,
    function: &'s FunctionSummary,
}

impl Checker<'_> {
    fn atoms(&self) -> impl Iterator<Item = AtomIdx> + '_ {
        std::iter::once(self.function.atom).chain(self.function.parts.iter().copied())
    }

    fn fits(&self) -> bool {
        let f = self.function;
        let code = |a: AtomIdx| self.summary.atoms.get(a.index()).is_some_and(|a| a.kind == AtomKind::Code);
        self.atoms().all(code)
            && f.parts.is_sorted_by(|a, b| a < b)
            && f.entries.is_sorted_by(|a, b| a < b)
            && f.entries.iter().all(|(atom, _)| self.atoms().any(|a| a == *atom))
            && self.registers(&f.parameters)
            && self.registers(&f.results)
            && self.cells(&f.stack_parameters)
            && f.stack_parameters.first().is_none_or(|(offset, _)| *offset >= 8 && !f.frame)
            && f.indirect_entry_values.iter().all(|v| self.value(*v))
            && f.address_taken_only.is_sorted_by(|a, b| a < b)
            && f.address_taken_only.iter().all(|t| self.target(*t))
            && f.constraints.iter().all(|c| self.constraint(c))
            && f.call_sites.is_sorted_by_key(|s| (s.section, s.offset))
            && f.call_sites.iter().all(|s| self.call_site(s))
            && f.covered_references.is_sorted_by(|a, b| a < b)
            && f.preserved & !PRESERVABLE == 0
    }

    fn value(&self, value: ValueIdx) -> bool {
        value.0 < self.function.values
    }

    fn place(&self, place: Place) -> bool {
        self.value(place.value)
    }

    fn target(&self, target: Target) -> bool {
        match target {
            Target::Symbol(symbol) => symbol.index() < self.summary.symbols.len(),
            Target::Atom(atom) => atom.index() < self.summary.atoms.len(),
        }
    }

    fn registers(&self, of: &[(Register, ValueIdx)]) -> bool {
        of.is_sorted_by(|a, b| a.0 < b.0) && of.iter().all(|(r, v)| *r < REGISTERS && self.value(*v))
    }

    fn cells(&self, of: &[(i32, ValueIdx)]) -> bool {
        of.is_sorted_by(|a, b| a.0 < b.0) && of.iter().all(|(_, v)| self.value(*v))
    }

    fn constraint(&self, constraint: &Constraint) -> bool {
        match *constraint {
            Constraint::Address { to, target, .. } => self.value(to) && self.target(target),
            Constraint::Frame { to, .. } => self.value(to) && self.function.frame,
            Constraint::Assign { from, to, .. } => self.value(from) && self.value(to),
            Constraint::Load { from, to, .. } => self.place(from) && self.value(to),
            Constraint::Store { from, to, .. } => self.value(from) && self.place(to),
            Constraint::Copy { from, to, .. } => self.place(from) && self.place(to),
            Constraint::Unknown { to: value }
            | Constraint::Escape { from: value }
            | Constraint::EscapeCode { from: value } => self.value(value),
        }
    }

    fn call_site(&self, site: &CallSite) -> bool {
        let callee = match site.callee {
            Callee::Direct { target, .. } => self.target(target),
            Callee::Indirect(value) => self.value(value),
        };
        callee
            && self.registers(&site.actuals)
            && self.registers(&site.results)
            && self.cells(&site.stack)
            && site.stack.first().is_none_or(|(offset, _)| *offset >= 8)
            && (site.stack_in_frame.is_none() || self.function.frame)
    }
}
