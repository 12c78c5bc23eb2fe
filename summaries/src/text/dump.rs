//! The printer of the text form: one entry a line, in the order of the tables. The parser reads its output as the same summary.
//!
//! Value flow has one line a constraint or call site, with values by number as `%3`. Every constraint is written with the value that
//! grows on the left, as in `%5 = %3 +8`; stores are arrows.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{lex, words};
use crate::ids::{AtomIdx, GroupIdx, SymbolIdx, ValueIdx};
use crate::registers::Register;
use crate::relation::{CallSite, Callee, Constraint, FunctionSummary, Place};
use crate::summary::{Atom, Definition, ModuleSummary, Reference, Target, Visibility};

pub fn dump(summary: &ModuleSummary) -> String {
    let mut dumper = Dumper::new(summary);
    dumper.module();
    dumper.out
}

/// The entries by name; `None` for a name of several.
type Unique<'a> = HashMap<&'a [u8], Option<usize>>;

fn unique<'a>(names: impl Iterator<Item = &'a [u8]>) -> Unique<'a> {
    let mut map = Unique::new();
    for (i, name) in names.enumerate().filter(|(_, n)| !n.is_empty()) {
        map.entry(name).and_modify(|e| *e = None).or_insert(Some(i));
    }
    map
}

struct Dumper<'a> {
    summary: &'a ModuleSummary,
    symbols: Unique<'a>,
    atoms: Unique<'a>,
    groups: Unique<'a>,
    out: String,
}

// Writing to a String never fails, so the results of `write!` are dropped.
impl<'a> Dumper<'a> {
    fn new(summary: &'a ModuleSummary) -> Self {
        Dumper {
            summary,
            symbols: unique(summary.symbols.iter().map(|s| summary.name(s.name))),
            atoms: unique(summary.atoms.iter().map(|a| summary.name(a.name))),
            groups: unique(summary.groups.iter().map(|g| summary.symbol_name(g.signature))),
            out: String::new(),
        }
    }

    fn module(&mut self) {
        let summary = self.summary;
        let kind = words::module_kind(summary.kind);
        let debug = if summary.without_debug { " without-debug" } else { "" };
        let _ = writeln!(self.out, "module {kind} {}{debug}", words::granularity(summary.granularity));
        for (i, symbol) in summary.symbols.iter().enumerate() {
            self.out.push_str("symbol ");
            lex::write_name(&mut self.out, summary.name(symbol.name));
            let _ = write!(self.out, " {}", words::binding(symbol.binding));
            if symbol.visibility != Visibility::Default {
                let _ = write!(self.out, " {}", words::visibility(symbol.visibility));
            }
            let _ = write!(self.out, " {}", words::symbol_kind(symbol.kind));
            match symbol.definition {
                Definition::Undefined => self.out.push_str(" undefined"),
                Definition::Absolute => self.out.push_str(" absolute"),
                Definition::Atom(atom) => {
                    self.out.push_str(" in ");
                    self.atom_reference(atom);
                }
                Definition::Common(atom) => {
                    self.out.push_str(" common ");
                    self.atom_reference(atom);
                }
                Definition::OtherSection(section) => {
                    let _ = write!(self.out, " outside {section}");
                }
            }
            self.number("value", symbol.value);
            self.number("size", symbol.size);
            let _ = writeln!(self.out, " ; {i}");
        }
        for group in &summary.groups {
            self.out.push_str("group ");
            self.symbol_reference(group.signature);
            let _ =
                writeln!(self.out, "{} section {}", if group.comdat { " comdat" } else { "" }, group.section);
        }
        for (i, atom) in summary.atoms.iter().enumerate() {
            self.atom(i, atom);
            for reference in summary.references_of(AtomIdx::new(i)) {
                self.reference(reference);
            }
        }
        self.split_tables();
        for function in &summary.functions {
            self.function(function);
        }
        for record in &summary.limits {
            let _ = write!(self.out, "limit {}", record.limit.name());
            if let Some(section) = record.section {
                let _ = write!(self.out, " section {section}");
            }
            if let Some(offset) = record.offset {
                let _ = write!(self.out, " offset {offset:#x}");
            }
            let _ = write!(self.out, " bytes {} ", record.bytes);
            lex::write_quoted(&mut self.out, record.detail.as_bytes());
            self.out.push('\n');
        }
    }

    fn atom(&mut self, index: usize, atom: &Atom) {
        self.out.push_str("atom ");
        lex::write_name(&mut self.out, self.summary.name(atom.name));
        let _ = write!(self.out, " {}", words::atom_kind(atom.kind));
        if atom.section != Atom::NO_SECTION {
            let _ = write!(self.out, " section {}", atom.section);
        }
        self.number("offset", atom.offset);
        self.number("size", atom.size);
        if atom.align != 1 {
            let _ = write!(self.out, " align {}", atom.align);
        }
        if atom.flags != 0 {
            let _ = write!(self.out, " flags {}", words::flags(atom.flags));
        }
        if let Some(group) = atom.group {
            self.out.push_str(" group ");
            self.group_reference(group);
        }
        if let Some(after) = atom.link_order {
            self.out.push_str(" after ");
            self.atom_reference(after);
        }
        let _ = writeln!(self.out, " ; {index}");
    }

    fn reference(&mut self, reference: &Reference) {
        let _ = write!(self.out, "  {} @{:#x} ", words::reference_kind(reference.kind), reference.offset);
        match reference.target {
            Target::Symbol(symbol) => self.symbol_reference(symbol),
            Target::Atom(atom) => self.atom_reference(atom),
        }
        let _ = writeln!(self.out, " {:+}", reference.addend);
    }

    fn split_tables(&mut self) {
        let summary = self.summary;
        for resolved in &summary.resolved {
            let _ = write!(self.out, "resolved section {} @{:#x} ", resolved.section, resolved.field);
            self.atom_reference(resolved.from);
            self.out.push_str(" -> ");
            self.atom_reference(resolved.target);
            self.out.push('\n');
        }
        for range in &summary.owned {
            self.out.push_str("owned ");
            self.atom_reference(range.atom);
            let _ = write!(self.out, " @{:#x} @{:#x} ", range.start, range.end);
            self.atom_reference(range.owner);
            self.out.push('\n');
        }
        for retarget in &summary.retargets {
            let _ = write!(self.out, "retarget section {} @{:#x} ", retarget.section, retarget.offset);
            self.atom_reference(retarget.target);
            self.out.push('\n');
        }
    }

    /// A key with its value, unless that is 0, the default of each.
    fn number(&mut self, key: &str, value: u64) {
        if value != 0 {
            let _ = write!(self.out, " {key} {value:#x}");
        }
    }

    fn symbol_reference(&mut self, symbol: SymbolIdx) {
        let name = self.summary.symbol_name(symbol);
        write_reference(&mut self.out, &self.symbols, name, symbol.0);
    }

    fn atom_reference(&mut self, atom: AtomIdx) {
        let name = self.summary.atoms.get(atom.index()).map_or(&[][..], |a| self.summary.name(a.name));
        self.out.push('[');
        write_reference(&mut self.out, &self.atoms, name, atom.0);
        self.out.push(']');
    }

    fn group_reference(&mut self, group: GroupIdx) {
        let signature = self.summary.groups.get(group.index()).map(|g| g.signature);
        let name = signature.map_or(&[][..], |s| self.summary.symbol_name(s));
        write_reference(&mut self.out, &self.groups, name, group.0);
    }

    fn function(&mut self, function: &FunctionSummary) {
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

    fn target(&mut self, target: Target) {
        match target {
            Target::Symbol(symbol) => self.symbol_reference(symbol),
            Target::Atom(atom) => self.atom_reference(atom),
        }
    }
}

fn write_reference(out: &mut String, unique: &Unique<'_>, name: &[u8], number: u32) {
    match unique.get(name) {
        Some(Some(i)) if *i == number as usize => lex::write_name(out, name),
        _ => {
            let _ = write!(out, "#{number}");
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
