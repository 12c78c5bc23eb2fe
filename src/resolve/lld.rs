//! Extraction as lld does it: a member is loaded the moment that a strong undefined symbol and its lazy definition
//! have both been seen, before anything further of the line is read.
//!
//! The rules are those of lld's `Symbol::resolve` (lld/ELF/Symbols.cpp) and `ObjFile::initializeSymbols` (InputFiles.cpp).
//! Within a file definitions count before references. An undefined weak symbol never extracts. A shared definition that was seen first
//! wins over a lazy one. A lazy non-common definition is extracted for a common symbol only under `--fortran-common`, which is not the default,
//! though its help says so. Extraction nests, so the order of loading is a preorder; the stack is explicit because archives may be deep.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use summaries::Limit;

use super::link_symbols::LinkSymbols;
use super::linker_defined::entry_symbol;
use super::resolution::{DsoMention, Extraction, link_limit};
use super::symtab::Entry;
use crate::ids::{DsoId, Id, ModuleId, SymbolId};
use crate::inputs::SequenceItem;

/// The state of a symbol while files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LldState {
    /// The name is in the table, and no file has named it yet.
    Placeholder,
    Undefined {
        weak: bool,
    },
    /// Defined by an archive member that is not loaded; `weak` if all references so far are.
    Lazy {
        module: ModuleId,
        weak: bool,
    },
    Common,
    Defined,
    Shared,
}

/// The kind of file that refers to a symbol and so extracts its definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Referrer {
    /// A loaded module refers to it, or an option of the line.
    Module,
    Dso,
}

/// A module whose undefined symbols are being looked at.
struct Frame {
    module: ModuleId,
    /// The position of the next global symbol to look at.
    next: usize,
}

struct Lld<'w, 'a> {
    link_symbols: &'w LinkSymbols<'a>,
    states: Vec<LldState>,
    /// A bit per symbol: its state may decide which members are loaded. Most names are defined by no lazy member.
    decides: Vec<AtomicU64>,
    /// By symbol: a module or the line refers to it.
    referenced: Vec<bool>,
    is_loaded: Vec<bool>,
    loaded: Vec<ModuleId>,
    stack: Vec<Frame>,
    fortran_common: bool,
    /// A symbol whose reference extracted a member before it on the line.
    backward_reference: Option<SymbolId>,
}

/// The modules in the link, in the order of loading, and the libraries between them.
pub(super) fn extract(link_symbols: &LinkSymbols<'_>) -> Extraction {
    let mut lld = Lld {
        link_symbols,
        states: vec![LldState::Placeholder; link_symbols.table.names.len()],
        decides: deciding(link_symbols),
        referenced: vec![false; link_symbols.table.names.len()],
        is_loaded: vec![false; link_symbols.modules.len()],
        loaded: Vec::new(),
        stack: Vec::new(),
        fortran_common: fortran_common(&link_symbols.config.linker_args),
        backward_reference: None,
    };
    for symbol in link_symbols.demanded_by_name() {
        lld.refer(symbol, false, Referrer::Module);
    }
    let mut seen_sonames: Vec<DsoId> = Vec::new();
    let mut mentions = Vec::new();
    let mut limits = Vec::new();
    for (i, item) in link_symbols.inputs.sequence.iter().enumerate() {
        let mut after = lld.loaded.len();
        match item {
            SequenceItem::Object { module, lazy: false, .. } => lld.load(*module),
            SequenceItem::Object { module, lazy: true, .. } => lld.add_lazy(*module),
            SequenceItem::Archive { modules, whole: true, .. } => modules.iter().for_each(|m| lld.load(*m)),
            SequenceItem::Archive { modules, .. } => modules.iter().for_each(|m| lld.add_lazy(*m)),
            SequenceItem::Dso { dso, implicit: false, .. } if !seen_sonames.contains(dso) => {
                seen_sonames.push(*dso);
                match lld.add_dso(*dso) {
                    Some(loaded) => after = loaded,
                    None => {
                        let name = link_symbols.inputs.dso_name(*dso);
                        let detail = format!("library {name} extracts members after some of its definitions");
                        limits.push(link_limit(Limit::AmbiguousResolution, detail));
                    }
                }
            }
            SequenceItem::Dso { .. } | SequenceItem::GroupStart | SequenceItem::GroupEnd => {}
        }
        if let SequenceItem::Dso { implicit: false, .. } = item {
            mentions.push(DsoMention { item: i, after, taken: true });
        }
    }
    // Expressions and the entry demand what no file defined so far (`LinkerDriver::link`, lld/ELF/Driver.cpp).
    for symbol in link_symbols.named_in_expressions() {
        lld.refer(symbol, false, Referrer::Module);
        lld.run();
    }
    if let Some(entry) = entry_symbol(link_symbols.config, &link_symbols.inputs.scripts)
        && let Some(symbol) = link_symbols.table.find(entry.as_bytes())
    {
        lld.demand_if_lazy(symbol);
    }
    let mut weak_wraps = Vec::new();
    for name in &link_symbols.config.wrap {
        // `addWrappedSymbols`, once all files are read: `__wrap_foo` is referred to if anything mentions foo, and
        // foo if anything mentions `__real_foo`, each as weakly as foo so far.
        let find = |name: String| link_symbols.table.find(name.as_bytes()).filter(|s| lld.is_mentioned(*s));
        let Some(symbol) = find(name.clone()) else { continue };
        let is_weak = match lld.states[symbol.index()] {
            LldState::Undefined { weak } | LldState::Lazy { weak, .. } => weak,
            LldState::Defined => !lld.has_strong_definition(symbol),
            LldState::Placeholder | LldState::Common | LldState::Shared => false,
        };
        let real = find(format!("__real_{name}"));
        if is_weak {
            weak_wraps.extend(link_symbols.table.find(format!("__wrap_{name}").as_bytes()));
            continue;
        }
        if let Some(wrapped) = link_symbols.table.find(format!("__wrap_{name}").as_bytes()) {
            lld.demand_if_lazy(wrapped);
        }
        if real.is_some() {
            lld.demand_if_lazy(symbol);
        }
    }
    if let (true, Some(symbol)) = (link_symbols.config.warn_backrefs, lld.backward_reference) {
        let name = String::from_utf8_lossy(link_symbols.table.names[symbol.index()]);
        let detail = format!("--warn-backrefs: {name} is in a file before the reference to it");
        limits.push(link_limit(Limit::LinkerMessage, detail));
    }
    let looked_for = lld.looked_for();
    let taken = vec![true; link_symbols.inputs.dsos.len()];
    Extraction {
        loaded: lld.loaded,
        taken,
        mentions,
        looked_for,
        limits,
        weak_wraps,
        ..Extraction::default()
    }
}

/// The names that lazy members define, and those that `--wrap` names.
fn deciding(link_symbols: &LinkSymbols<'_>) -> Vec<AtomicU64> {
    let decides: Vec<AtomicU64> =
        (0..link_symbols.table.names.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
    let add = |symbol: SymbolId| {
        if let Some(word) = decides.get(symbol.index() / 64) {
            word.fetch_or(1 << (symbol.index() % 64), Ordering::Relaxed);
        }
    };
    let lazy = link_symbols.inputs.sequence.iter().flat_map(|item| match item {
        SequenceItem::Object { module, lazy: true, .. } => std::slice::from_ref(module),
        SequenceItem::Archive { modules, whole: false, .. } => modules,
        _ => &[],
    });
    lazy.collect::<Vec<_>>().into_par_iter().for_each(|module| {
        let defined = link_symbols.globals(*module).filter(|(_, global)| global.entry != Entry::Undefined);
        defined.for_each(|(id, _)| add(id));
    });
    for name in &link_symbols.config.wrap {
        for name in [name.clone(), format!("__wrap_{name}"), format!("__real_{name}")] {
            link_symbols.table.find(name.as_bytes()).into_iter().for_each(add);
        }
    }
    decides
}

/// Whether the last of `--fortran-common` and `--no-fortran-common` is the former.
fn fortran_common(args: &[std::ffi::OsString]) -> bool {
    let says = |arg: &std::ffi::OsString| match arg.to_str()?.trim_start_matches('-') {
        "fortran-common" => Some(true),
        "no-fortran-common" => Some(false),
        _ => None,
    };
    args.iter().rev().find_map(says).unwrap_or(false)
}

fn decides(bits: &[AtomicU64], symbol: SymbolId) -> bool {
    let word = bits.get(symbol.index() / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (symbol.index() % 64) != 0)
}

impl Lld<'_, '_> {
    fn is_mentioned(&self, symbol: SymbolId) -> bool {
        self.states[symbol.index()] != LldState::Placeholder
    }

    fn demand_if_lazy(&mut self, symbol: SymbolId) {
        if matches!(self.states[symbol.index()], LldState::Lazy { .. }) {
            self.refer(symbol, false, Referrer::Module);
        }
        self.run();
    }

    /// Members that aren't loaded and have a name of a version script or symbol ordering: lld takes that for a definition
    /// (`SymbolTable::findByVersion`), or for one that can't be ordered.
    fn looked_for(&self) -> Vec<ModuleId> {
        let config = self.link_symbols.config;
        let names =
            self.link_symbols.inputs.scripts.name_matcher(config.linker.flavor, config.undefined_version);
        let ordered = &self.link_symbols.inputs.scripts.ordered_symbols;
        let states = self.states.iter().zip(&self.link_symbols.table.names);
        let module = |(state, name): (&LldState, &&[u8])| match *state {
            LldState::Lazy { module, .. } if names.must_be_defined(name) || ordered.contains(*name) => {
                Some(module)
            }
            _ => None,
        };
        states.filter_map(module).collect()
    }

    /// Whether a module that is loaded defines a symbol, and not weakly.
    fn has_strong_definition(&self, symbol: SymbolId) -> bool {
        let defines = |module: &ModuleId| {
            let globals = &mut self.link_symbols.globals(*module);
            globals.any(|(id, global)| id == symbol && global.entry != Entry::Undefined && !global.weak)
        };
        self.loaded.iter().any(defines)
    }

    /// Load a module of the line and all modules that it extracts.
    fn load(&mut self, module: ModuleId) {
        self.enter(module);
        self.run();
    }

    /// Record the definitions of a module and put it on the stack.
    fn enter(&mut self, module: ModuleId) {
        if std::mem::replace(&mut self.is_loaded[module.index()], true) {
            return;
        }
        self.loaded.push(module);
        for (id, global) in self.link_symbols.globals(module) {
            if !decides(&self.decides, id) {
                continue;
            }
            let state = &mut self.states[id.index()];
            match global.entry {
                Entry::Undefined => {}
                Entry::Common(_) => {
                    if *state != LldState::Defined {
                        *state = LldState::Common;
                    }
                }
                Entry::Section(_) | Entry::Absolute(_) => {
                    if !(*state == LldState::Common && global.weak) {
                        *state = LldState::Defined;
                    }
                }
            }
        }
        self.stack.push(Frame { module, next: 0 });
    }

    /// Continue with the innermost module until all are read.
    fn run(&mut self) {
        while let Some(Frame { module, next }) = self.stack.last_mut() {
            let module = *module;
            let rest = self.link_symbols.ids[module.index()].iter().enumerate().skip(*next);
            let found =
                rest.map(|(i, symbol)| (i, *symbol)).find(|(_, symbol)| decides(&self.decides, *symbol));
            *next = found.map_or(usize::MAX, |(i, _)| i + 1);
            let symbols = self.link_symbols.modules[module.index()].as_ref();
            let global = found.zip(symbols).and_then(|((i, symbol), m)| Some((m.globals.get(i)?, symbol)));
            let Some((global, symbol)) = global else {
                self.stack.pop();
                continue;
            };
            if global.entry == Entry::Undefined {
                let archive =
                    |m: ModuleId| self.link_symbols.inputs.modules[m].archive.as_ref().map(|(file, _)| file);
                if let LldState::Lazy { module: definer, .. } = self.states[symbol.index()]
                    && !global.weak
                    && archive(definer) != archive(module)
                {
                    self.backward_reference.get_or_insert(symbol);
                }
                self.refer(symbol, global.weak, Referrer::Module);
            }
        }
    }

    /// Take in an undefined symbol; the member that defines it may be put on the stack.
    ///
    /// Modules decide whether it is weak: the first module may make weak a symbol that so far only a DSO names. A DSO never changes it.
    fn refer(&mut self, symbol: SymbolId, weak: bool, by: Referrer) {
        let by_module = by == Referrer::Module;
        let referenced = &mut self.referenced[symbol.index()];
        let is_first = !*referenced;
        *referenced |= by_module;
        let state = &mut self.states[symbol.index()];
        match *state {
            LldState::Placeholder => *state = LldState::Undefined { weak },
            LldState::Undefined { .. } if by_module && (!weak || is_first) => {
                *state = LldState::Undefined { weak }
            }
            LldState::Lazy { module, .. } if weak => *state = LldState::Lazy { module, weak },
            LldState::Lazy { module, .. } => {
                *state = LldState::Undefined { weak: false };
                self.enter(module);
            }
            LldState::Undefined { .. } | LldState::Common | LldState::Defined | LldState::Shared => {}
        }
    }

    /// A member that is loaded only on demand.
    fn add_lazy(&mut self, module: ModuleId) {
        if self.is_loaded[module.index()] {
            return;
        }
        for (id, global) in self.link_symbols.globals(module) {
            if global.entry == Entry::Undefined {
                continue;
            }
            let state = self.states[id.index()];
            match state {
                LldState::Placeholder => self.states[id.index()] = LldState::Lazy { module, weak: false },
                LldState::Undefined { weak: true } => {
                    self.states[id.index()] = LldState::Lazy { module, weak: true };
                }
                LldState::Undefined { weak: false } => return self.load(module),
                LldState::Common
                    if self.fortran_common && self.link_symbols.has_non_common_definition(module, id) =>
                {
                    return self.load(module);
                }
                LldState::Common | LldState::Lazy { .. } | LldState::Defined | LldState::Shared => {}
            }
        }
    }

    /// The number of modules that are loaded before its definitions, including those that its own references extract, which linkers put before
    /// all definitions in `.dynsym`. `None` if the two are mixed, so that no place between modules on the pruned line is the library's.
    fn add_dso(&mut self, dso: DsoId) -> Option<usize> {
        let mut defines_after = None;
        for (id, symbol) in self.link_symbols.dso_symbols(dso) {
            if !symbol.defined {
                if symbol.version.is_some() {
                    // It means `name@version`, which is another symbol than `name`.
                    continue;
                }
                self.refer(id, symbol.weak, Referrer::Dso);
                self.run();
                continue;
            }
            defines_after.get_or_insert(self.loaded.len());
            let state = &mut self.states[id.index()];
            if matches!(state, LldState::Placeholder | LldState::Undefined { .. } | LldState::Lazy { .. }) {
                *state = LldState::Shared;
            }
        }
        let end = self.loaded.len();
        (defines_after.unwrap_or(end) == end).then_some(end)
    }
}
