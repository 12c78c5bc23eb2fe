//! The printer of value flow in the text form: one line a constraint, one line a call site, values by number as `%3`.
//!
//! Every constraint is written with the value that grows on the left, as in `%5 = %3 +8`; what stores is an arrow.

use std::fmt::Write as _;

use super::dump::Dumper;
use super::words;
use crate::ids::ValueIdx;
use crate::registers::Register;
use crate::relation::{CallSite, Callee, Constraint, FunctionSummary, Place};
use crate::summary::Target;

impl Dumper<'_> {
    pub(super) fn function(&mut self, function: &FunctionSummary) {
        self.out.push_str("function ");
        self.atom_reference(function.atom);
        let frame = if function.frame { " frame" } else { "" };
        let _ = writeln!(self.out, "{frame} values {}", function.values);
        if !function.parts.is_empty() {
            self.out.push_str("  parts");
            for part in &function.parts {
                self.out.push(' ');
                self.atom_reference(*part);
            }
            self.out.push('\n');
        }
        for (atom, offset) in &function.entries {
            self.out.push_str("  entry ");
            self.atom_reference(*atom);
            let _ = writeln!(self.out, " @{offset:#x}");
        }
        for (register, value) in &function.parameters {
            let _ = writeln!(self.out, "  param {} {}", words::register(*register), DisplayedValue(*value));
        }
        for (offset, value) in &function.stack_parameters {
            let _ = writeln!(self.out, "  stackparam {offset} {}", DisplayedValue(*value));
        }
        for (register, value) in &function.results {
            let _ = writeln!(self.out, "  result {} {}", words::register(*register), DisplayedValue(*value));
        }
        if function.preserved != 0 {
            self.out.push_str("  preserves");
            for register in (0..64).filter(|r| function.preserved & 1 << r != 0) {
                let _ = write!(self.out, " {}", words::register(register));
            }
            self.out.push('\n');
        }
        for value in &function.indirect_entry_values {
            let _ = writeln!(self.out, "  atlabel {}", DisplayedValue(*value));
        }
        for target in &function.address_taken_only {
            self.out.push_str("  addressonly ");
            self.target(*target);
            self.out.push('\n');
        }
        for constraint in &function.constraints {
            self.out.push_str("  ");
            self.constraint(constraint);
            self.out.push('\n');
        }
        for site in &function.call_sites {
            self.call_site(site);
        }
        for (section, offset) in &function.covered_references {
            let _ = writeln!(self.out, "  accounts section {section} @{offset:#x}");
        }
    }

    fn constraint(&mut self, constraint: &Constraint) {
        match *constraint {
            Constraint::Address { to, target, offset } => {
                let _ = write!(self.out, "{} = address ", DisplayedValue(to));
                self.target(target);
                self.offset(Some(offset));
            }
            Constraint::Frame { to, offset } => {
                let _ = write!(self.out, "{} = frame", DisplayedValue(to));
                self.offset(offset);
            }
            Constraint::Assign { from, to, offset } => {
                let _ = write!(self.out, "{} = {}", DisplayedValue(to), DisplayedValue(from));
                self.offset(offset);
            }
            Constraint::Load { from, to, size } => {
                let _ = write!(self.out, "{} = load ", DisplayedValue(to));
                self.place(from);
                let _ = write!(self.out, " size {size}");
            }
            Constraint::Store { from, to, size } => {
                let _ = write!(self.out, "store {} -> ", DisplayedValue(from));
                self.place(to);
                let _ = write!(self.out, " size {size}");
            }
            Constraint::Copy { from, to, size } => {
                self.out.push_str("copy ");
                self.place(from);
                self.out.push_str(" -> ");
                self.place(to);
                let _ = write!(self.out, " size {size}");
            }
            Constraint::Unknown { to } => {
                let _ = write!(self.out, "{} = unknown", DisplayedValue(to));
            }
            Constraint::Escape { from } => {
                let _ = write!(self.out, "escape {}", DisplayedValue(from));
            }
            Constraint::EscapeCode { from } => {
                let _ = write!(self.out, "escape-code {}", DisplayedValue(from));
            }
        }
    }

    fn call_site(&mut self, site: &CallSite) {
        let _ = write!(self.out, "  site section {} @{:#x} ", site.section, site.offset);
        match site.callee {
            Callee::Direct { target, offset } => {
                self.out.push_str("direct ");
                self.target(target);
                self.offset(Some(offset));
            }
            Callee::Indirect(value) => {
                let _ = write!(self.out, "indirect {}", DisplayedValue(value));
            }
        }
        if site.jump {
            self.out.push_str(" jump");
        }
        if site.no_vectors {
            self.out.push_str(" novectors");
        }
        for (register, of) in &site.formats {
            let _ = write!(self.out, " format {} {} {}", words::register(*register), of.count, of.strings);
        }
        self.registers("actual", &site.actuals);
        for (offset, value) in &site.stack {
            let _ = write!(self.out, " stack {offset} {}", DisplayedValue(*value));
        }
        if let Some(offset) = site.stack_in_frame {
            self.out.push_str(" instack");
            self.offset(offset);
        }
        self.registers("result", &site.results);
        self.out.push('\n');
    }

    fn registers(&mut self, word: &str, of: &[(Register, ValueIdx)]) {
        for (register, value) in of {
            let _ = write!(self.out, " {word} {} {}", words::register(*register), DisplayedValue(*value));
        }
    }

    fn place(&mut self, place: Place) {
        let _ = write!(self.out, "{}", DisplayedValue(place.value));
        self.offset(place.offset);
    }

    fn offset(&mut self, offset: Option<i64>) {
        let _ = match offset {
            Some(offset) => write!(self.out, " {offset:+}"),
            None => write!(self.out, " unknown"),
        };
    }

    pub(super) fn target(&mut self, target: Target) {
        match target {
            Target::Symbol(symbol) => self.symbol_reference(symbol),
            Target::Atom(atom) => self.atom_reference(atom),
        }
    }
}

/// A value is written as `%3`, by its number.
struct DisplayedValue(ValueIdx);

impl std::fmt::Display for DisplayedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "%{}", self.0.0)
    }
}
