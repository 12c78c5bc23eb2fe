//! Extraction as GNU ld and gold do it: the line is read once, and an archive is searched at its position through its
//! symbol table until a search adds nothing (bfd/elflink.c `elf_link_add_archive_symbols`, gold/archive.cc
//! `Archive::add_symbols`). A group repeats its archives until none adds anything.
//!
//! GNU ld forgets an `--as-needed` library that nothing before it needs. A library before it needs it too, unless that names it in its own
//! DT_NEEDED. Libraries that GNU ld opens itself after all files of the line extract nothing and are not modelled here.

use super::link_symbols::LinkSymbols;
use super::resolution::{DsoMention, Extraction};
use super::symtab::Entry;
use crate::config::{Defsym, Flavor};
use crate::ids::{DsoId, Id, ModuleId, SymbolId};
use crate::inputs::SequenceItem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SequentialState {
    New,
    Undefined {
        weak: bool,
    },
    Common,
    /// `weak`: a common symbol takes its place.
    Defined {
        weak: bool,
    },
    /// By a library: a common symbol takes its place.
    Shared(DsoId),
}

struct Sequential<'w, 'a> {
    link_symbols: &'w LinkSymbols<'a>,
    gold: bool,
    states: Vec<SequentialState>,
    /// Referred to strongly by a module, not only by a DSO.
    regular_reference: Vec<bool>,
    /// The first DSO that was taken and refers to it strongly.
    dynamic_reference: Vec<Option<DsoId>>,
    /// The DT_NEEDED names of the DSOs so far, each with the name of its DSO, and whether that was taken.
    needed_names: Vec<(&'w str, &'w str, bool)>,
    is_loaded: Vec<bool>,
    loaded: Vec<ModuleId>,
    dso_seen: Vec<bool>,
    mentions: Vec<DsoMention>,
    /// Libraries that owned a symbol when a module referred to it. gold records them, even if another definition prevails later
    /// (gold/resolve.cc, `Symbol_table::resolve`, which marks the library at the reference).
    referenced: Vec<DsoId>,
    /// The `--defsym` options that GNU ld has not reached.
    defsym: &'w [Defsym],
    /// Symbols that expressions define in the end: gold extracts no member for them (`Archive::should_include_member`, gold/archive.cc).
    pending: Vec<SymbolId>,
}

/// The modules in the link, in the order of loading, and the libraries between them.
pub(super) fn extract(link_symbols: &LinkSymbols<'_>) -> Extraction {
    let symbols = link_symbols.table.names.len();
    let mut s = Sequential {
        link_symbols,
        gold: link_symbols.config.linker.flavor == Flavor::Gold,
        states: vec![SequentialState::New; symbols],
        regular_reference: vec![false; symbols],
        dynamic_reference: vec![None; symbols],
        needed_names: Vec::new(),
        is_loaded: vec![false; link_symbols.modules.len()],
        loaded: Vec::new(),
        dso_seen: vec![false; link_symbols.inputs.dsos.len()],
        mentions: Vec::new(),
        referenced: Vec::new(),
        defsym: &link_symbols.config.defsym,
        pending: Vec::new(),
    };
    if s.gold {
        let assigned = link_symbols.config.defsym.iter().map(|defsym| &defsym.name);
        let assigned = assigned.chain(&link_symbols.inputs.scripts.assigned_symbols);
        s.pending.extend(assigned.filter_map(|name| link_symbols.table.find(name.as_bytes())));
    }
    // None of these makes a library needed (`ldlang_add_undef`, ld/ldlang.c).
    let by_defsym =
        link_symbols.config.defsym.iter().filter(|_| s.gold).flat_map(|d| link_symbols.named_by(d));
    let entry =
        link_symbols.config.entry.as_ref().and_then(|entry| link_symbols.table.find(entry.as_bytes()));
    let demanded =
        link_symbols.demanded_by_name().into_iter().chain(link_symbols.named_in_scripts()).chain(by_defsym);
    for symbol in demanded.chain(entry).collect::<Vec<_>>() {
        s.refer(symbol, false, false);
    }
    let sequence = &link_symbols.inputs.sequence;
    let mut i = 0;
    while i < sequence.len() {
        if !matches!(sequence[i], SequenceItem::GroupStart) {
            s.item(i);
            i += 1;
            continue;
        }
        let end = group_end(sequence, i);
        loop {
            let before = s.loaded.len();
            (i + 1..end).for_each(|k| s.item(k));
            if s.loaded.len() == before {
                break;
            }
        }
        i = end + 1;
    }
    let Sequential { loaded, dso_seen: taken, mentions, mut referenced, .. } = s;
    referenced.sort_unstable();
    referenced.dedup();
    Extraction { loaded, taken, mentions, referenced, ..Extraction::default() }
}

/// Index of the item that closes the group opened at `start` (groups nest in scripts).
fn group_end(sequence: &[SequenceItem], start: usize) -> usize {
    let mut depth = 0;
    for (i, item) in sequence.iter().enumerate().skip(start) {
        match item {
            SequenceItem::GroupStart => depth += 1,
            SequenceItem::GroupEnd => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    sequence.len()
}

impl Sequential<'_, '_> {
    /// GNU ld defines the name if no file has mentioned it, or if the expression has a value already.
    fn assign(&mut self, defsym: &Defsym) {
        let Some(name) = self.link_symbols.table.find(defsym.name.as_bytes()) else { return };
        let is_defined = |id: &SymbolId| matches!(self.states[id.index()], SequentialState::Defined { .. });
        if self.states[name.index()] == SequentialState::New
            || self.link_symbols.named_by(defsym).iter().all(is_defined)
        {
            self.states[name.index()] = SequentialState::Defined { weak: false };
        }
    }

    /// GNU ld defines the name of a `--defsym` at the option's position, and refers to the names in its expression
    /// (`open_input_bfds` in ld/ldlang.c).
    fn come_to_expressions(&mut self, input: usize) {
        while let Some((defsym, rest)) = self.defsym.split_first()
            && defsym.inputs_before <= input
        {
            self.defsym = rest;
            self.assign(defsym);
            for symbol in self.link_symbols.named_by(defsym) {
                self.refer(symbol, false, false);
            }
        }
    }

    fn item(&mut self, i: usize) {
        if let (false, Some(input)) = (self.gold, self.link_symbols.inputs.origins[i]) {
            self.come_to_expressions(input);
        }
        match &self.link_symbols.inputs.sequence[i] {
            // GNU ld has no --start-lib before 2.42 and loads such objects; gold searches them as an archive of one.
            SequenceItem::Object { module, lazy, .. } if self.gold && *lazy => {
                let definitions: Vec<_> = self.link_symbols.globals(*module).collect();
                let wanted = |(id, g): &(SymbolId, &super::symtab::Global<'_>)| {
                    g.entry != Entry::Undefined
                        && self.states[id.index()] == SequentialState::Undefined { weak: false }
                        && !self.pending.contains(id)
                };
                if definitions.iter().any(wanted) {
                    self.load(*module);
                }
            }
            SequenceItem::Object { module, .. } => self.load(*module),
            SequenceItem::Archive { modules, whole: true, .. } => modules.iter().for_each(|m| self.load(*m)),
            SequenceItem::Archive { .. } => self.search(i),
            SequenceItem::Dso { dso, as_needed, implicit: false, .. } => {
                let after = self.loaded.len();
                self.add_dso(*dso, *as_needed);
                self.mentions.push(DsoMention { item: i, after, taken: self.dso_seen[dso.index()] });
            }
            SequenceItem::Dso { .. } | SequenceItem::GroupStart | SequenceItem::GroupEnd => {}
        }
    }

    /// Search the archive that is item `i`, until a pass over its symbol table adds nothing.
    fn search(&mut self, i: usize) {
        loop {
            let before = self.loaded.len();
            for (symbol, module) in &self.link_symbols.armaps[i] {
                if self.is_loaded[module.index()] {
                    continue;
                }
                match self.states[symbol.index()] {
                    SequentialState::Undefined { weak: false } if !self.pending.contains(symbol) => {
                        self.load(*module)
                    }
                    SequentialState::Common
                        if !self.gold && self.link_symbols.has_data_definition(*module, *symbol) =>
                    {
                        self.load(*module);
                    }
                    _ => {}
                }
            }
            if self.loaded.len() == before {
                return;
            }
        }
    }

    fn load(&mut self, module: ModuleId) {
        if std::mem::replace(&mut self.is_loaded[module.index()], true) {
            return;
        }
        self.loaded.push(module);
        for (id, global) in self.link_symbols.linked_globals(module) {
            let state = &mut self.states[id.index()];
            match global.entry {
                Entry::Undefined => self.refer(id, global.weak, true),
                Entry::Common(_) => {
                    // To GNU ld a common symbol is a reference that may end in a definition of its own.
                    self.regular_reference[id.index()] = true;
                    if *state != (SequentialState::Defined { weak: false }) {
                        *state = SequentialState::Common;
                    }
                }
                Entry::Section(_) | Entry::Absolute(_)
                    if global.weak && *state == SequentialState::Common => {}
                Entry::Section(_) | Entry::Absolute(_) => {
                    let was_strong = *state == SequentialState::Defined { weak: false };
                    *state = SequentialState::Defined { weak: global.weak && !was_strong };
                }
            }
        }
    }

    fn refer(&mut self, symbol: SymbolId, weak: bool, regular: bool) {
        self.regular_reference[symbol.index()] |= regular && !weak;
        let state = &mut self.states[symbol.index()];
        match *state {
            SequentialState::New => *state = SequentialState::Undefined { weak },
            SequentialState::Shared(dso) if regular && !weak => self.referenced.push(dso),
            // To gold the symbol stays that of the DSO that left it undefined, and a module refers to it.
            SequentialState::Undefined { weak: false }
                if regular && weak && !self.regular_reference[symbol.index()] =>
            {
                self.referenced.extend(self.dynamic_reference[symbol.index()]);
            }
            // gold leaves what a module said alone when a DSO says otherwise.
            SequentialState::Undefined { weak: true } if regular || !self.gold => {
                *state = SequentialState::Undefined { weak }
            }
            _ => {}
        }
    }

    fn add_dso(&mut self, dso: DsoId, as_needed: bool) {
        if std::mem::replace(&mut self.dso_seen[dso.index()], true) {
            return;
        }
        let taken = self.gold || !as_needed || self.is_needed(dso);
        let inputs = self.link_symbols.inputs;
        let name = inputs.recorded_name(dso);
        self.needed_names.extend(inputs.dsos[dso].needed.iter().map(|needed| (needed.as_str(), name, taken)));
        if !taken {
            // A later mention on the line gets a new chance.
            self.dso_seen[dso.index()] = false;
            return;
        }
        for (id, symbol) in self.link_symbols.dso_symbols(dso) {
            if !symbol.defined {
                // Both linkers treat undefined symbols of a library like those of a module.
                let reference = self.link_symbols.wrapped_reference(id);
                if !symbol.weak {
                    self.dynamic_reference[reference.index()].get_or_insert(dso);
                }
                // With a version it means `name@version`, which no armap has. gold drops the version if the name is wrapped.
                if symbol.version.is_none() || self.gold && reference != id {
                    self.refer(reference, symbol.weak, false);
                }
            } else if matches!(
                self.states[id.index()],
                SequentialState::New | SequentialState::Undefined { .. }
            ) || !self.gold && symbol.overrides_common
            {
                if self.regular_reference[id.index()] {
                    self.referenced.push(dso);
                }
                self.states[id.index()] = SequentialState::Shared(dso);
            }
        }
    }

    /// GNU ld's rule for an `--as-needed` library, where it stands (bfd/elflink.c `elf_link_add_object_symbols`).
    fn is_needed(&self, dso: DsoId) -> bool {
        let link_symbols = self.link_symbols;
        let missing = |id: SymbolId| self.states[id.index()] == SequentialState::Undefined { weak: false };
        let overridden = |id: SymbolId, s: &crate::inputs::DsoSymbol| {
            s.overrides_common && self.states[id.index()] == SequentialState::Common
        };
        let by_dso = !is_on_list(link_symbols.inputs.recorded_name(dso), &self.needed_names);
        let referenced = |id: SymbolId| {
            self.regular_reference[id.index()] || (by_dso && self.dynamic_reference[id.index()].is_some())
        };
        let plain = |(id, s): (SymbolId, &crate::inputs::DsoSymbol)| {
            s.defined && (missing(id) || overridden(id, s)) && referenced(id)
        };
        link_symbols.dso_symbols(dso).any(plain)
            || link_symbols.versioned.iter().any(|id| {
                missing(*id)
                    && self.regular_reference[id.index()]
                    && link_symbols.defines_version(dso, link_symbols.table.names[id.index()])
            })
    }
}

/// Whether a library of this name is needed by one that was taken, directly or through others. These are searched further up the list only,
/// so that the search ends (elflink.c `on_needed_list`).
fn is_on_list(name: &str, list: &[(&str, &str, bool)]) -> bool {
    let mut wanted = vec![(name, list.len())];
    while let Some((name, end)) = wanted.pop() {
        for (i, (needed, by, taken)) in list[..end].iter().enumerate() {
            if *needed == name {
                if *taken {
                    return true;
                }
                wanted.push((by, i));
            }
        }
    }
    false
}
