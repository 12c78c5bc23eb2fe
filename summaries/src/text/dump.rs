//! The printer of the text form: one entry a line, in the order of the tables.
//!
//! What it prints the parser reads as the same summary. Left out: functions and relations, which `functions` and `relations` print.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{lex, words};
use crate::ids::{AtomIdx, GroupIdx, SymbolIdx};
use crate::summary::{Atom, Definition, ModuleSummary, Reference, Target, Visibility};

pub fn dump(summary: &ModuleSummary) -> String {
    let mut dumper = Dumper::new(summary);
    dumper.module();
    dumper.out
}

/// The only entry that has a name; `None` if several do.
type Unique<'a> = HashMap<&'a [u8], Option<usize>>;

fn unique<'a>(names: impl Iterator<Item = &'a [u8]>) -> Unique<'a> {
    let mut map = Unique::new();
    for (i, name) in names.enumerate().filter(|(_, n)| !n.is_empty()) {
        map.entry(name).and_modify(|e| *e = None).or_insert(Some(i));
    }
    map
}

pub(super) struct Dumper<'a> {
    summary: &'a ModuleSummary,
    symbols: Unique<'a>,
    atoms: Unique<'a>,
    groups: Unique<'a>,
    pub(super) out: String,
}

// Writing to a String never fails, so the results of `write!` are dropped.
impl<'a> Dumper<'a> {
    pub(super) fn new(summary: &'a ModuleSummary) -> Self {
        Dumper {
            summary,
            symbols: unique(summary.symbols.iter().map(|s| summary.name(s.name))),
            atoms: unique(summary.atoms.iter().map(|a| summary.name(a.name))),
            groups: unique(summary.groups.iter().map(|g| summary.symbol_name(g.signature))),
            out: String::new(),
        }
    }

    pub(super) fn module(&mut self) {
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

    pub(super) fn symbol_reference(&mut self, symbol: SymbolIdx) {
        let name = self.summary.symbol_name(symbol);
        write_reference(&mut self.out, &self.symbols, name, symbol.0);
    }

    pub(super) fn atom_reference(&mut self, atom: AtomIdx) {
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
}

fn write_reference(out: &mut String, unique: &Unique<'_>, name: &[u8], number: u32) {
    match unique.get(name) {
        Some(Some(i)) if *i == number as usize => lex::write_name(out, name),
        _ => {
            let _ = write!(out, "#{number}");
        }
    }
}
