//! External relations and attributes as comments of the text form: what callers see of each function.
//!
//! They are computed from the constraints when somebody asks ([`crate::cfl::relations()`]), and are no part of a summary: reading the text passes
//! them over. A line is `; (FROM, LEVEL) -> (TO, LEVEL) OFFSET`, in LLVM's words of interface values with dereference levels.

use std::fmt::Write as _;

use super::dump::Dumper;
use super::words;
use crate::cfl::{Attribute, ExternalRelation, InterfaceBase, InterfaceValue, Relations, relations};
use crate::relation::FunctionSummary;
use crate::summary::ModuleSummary;

/// Facts for a function, after which it is said that everything relates to everything.
const MOST_FACTS: usize = 1 << 14;

/// The text form with comments that say what callers see of each function.
pub fn dump_with_relations(summary: &ModuleSummary) -> String {
    let mut dumper = Dumper::new(summary);
    dumper.module();
    summary.functions.iter().for_each(|function| dumper.seen_by_callers(function));
    dumper.out
}

impl Dumper<'_> {
    fn seen_by_callers(&mut self, function: &FunctionSummary) {
        self.out.push_str("; callers of ");
        self.atom_reference(function.atom);
        match relations(function, MOST_FACTS) {
            Relations::Everything => self.out.push_str(": everything may relate to everything\n"),
            Relations::Closed { relations, attributes } => {
                let _ =
                    writeln!(self.out, ": {} relations, {} attributes", relations.len(), attributes.len());
                relations.iter().for_each(|relation| self.relation(*relation));
                for (value, attribute) in attributes {
                    self.out.push_str(";   ");
                    self.interface_value(value);
                    let _ = writeln!(self.out, " {}", attribute_name(attribute));
                }
            }
        }
    }

    fn relation(&mut self, relation: ExternalRelation) {
        self.out.push_str(";   ");
        self.interface_value(relation.from);
        self.out.push_str(" -> ");
        self.interface_value(relation.to);
        match relation.offset {
            Some(offset) => _ = writeln!(self.out, " {offset:+}"),
            None => self.out.push_str(" at an unknown offset\n"),
        }
    }

    fn interface_value(&mut self, value: InterfaceValue) {
        self.out.push('(');
        match value.base {
            InterfaceBase::Parameter(register) => {
                _ = write!(self.out, "parameter {}", words::register(register))
            }
            InterfaceBase::StackParameter(offset) => _ = write!(self.out, "stack parameter {offset}"),
            InterfaceBase::Result(register) => _ = write!(self.out, "result {}", words::register(register)),
            InterfaceBase::Actual(site, register) => {
                _ = write!(self.out, "site {site} actual {}", words::register(register));
            }
            InterfaceBase::StackActual(site, offset) => _ = write!(self.out, "site {site} stack {offset}"),
            InterfaceBase::Returned(site, register) => {
                _ = write!(self.out, "site {site} result {}", words::register(register));
            }
            InterfaceBase::Called(site) => _ = write!(self.out, "site {site} callee"),
            InterfaceBase::Label => self.out.push_str("label"),
            InterfaceBase::Global(target) => self.target(target),
            InterfaceBase::Frame => self.out.push_str("frame"),
            InterfaceBase::Unknown => self.out.push_str("unknown"),
        }
        let _ = write!(self.out, ", {})", value.level);
    }
}

fn attribute_name(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::Escaped => "escapes",
        Attribute::Unknown => "is unknown",
        Attribute::Caller => "is the caller's",
        Attribute::Global => "is the address of a symbol",
    }
}
