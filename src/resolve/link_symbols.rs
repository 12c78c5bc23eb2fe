//! The inputs of every simulation of extraction: the modules' symbols with ids for names, the DSOs, the options.
//!
//! They are frozen before extraction starts, and have no state of a linker.

use rayon::prelude::*;

use super::bitcode;
use super::symbol_table::SymbolTable;
use super::symtab::{self, Entry, Global, ModuleSymbols};
use crate::config::{Config, Defsym};
use crate::ids::{DsoId, Id, ModuleId, SymbolId};
use crate::inputs::{FileKind, Inputs, SequenceItem, SymbolType};

/// The minimum of symbols for one thread: with fewer, scheduling costs more than it saves.
pub(super) const GRAIN: usize = 1 << 13;

/// Everything that the simulations of extraction read: symbols, files, and the line.
#[derive(Debug)]
pub(super) struct LinkSymbols<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) config: &'a Config,
    /// `None` where the module is neither a well-formed x86-64 object nor, for lld, bitcode with a symbol table.
    pub(super) modules: Vec<Option<ModuleSymbols<'a>>>,
    /// The id of each global of each module, by the name that it has there.
    pub(super) ids: Vec<Vec<SymbolId>>,
    /// The same as the link sees it, where `--wrap` renames references; `None` where nothing is renamed.
    wrapped_ids: Option<Vec<Vec<SymbolId>>>,
    /// By DSO: (index in `Dso::symbols`, id); definitions under a hidden version are left out.
    pub(super) dso_ids: Vec<Vec<(u32, SymbolId)>>,
    pub(super) table: SymbolTable<'a>,
    /// The armap of each archive in `Inputs::sequence` order, with ids; empty for items that are no archive.
    pub(super) armaps: Vec<Vec<(SymbolId, ModuleId)>>,
    /// The names that have the form `name@version`, as a number each.
    pub(super) versioned: Vec<SymbolId>,
}

impl<'a> LinkSymbols<'a> {
    pub(super) fn new(inputs: &'a Inputs, config: &'a Config) -> Self {
        let module_ids: Vec<ModuleId> = inputs.modules.ids().collect();
        let modules: Vec<Option<ModuleSymbols<'a>>> = module_ids
            .par_iter()
            .map(|m| match inputs.modules[*m].kind {
                FileKind::Object => symtab::read(inputs.module_bytes(*m), config.rules()),
                FileKind::Bitcode if config.rules().reads_bitcode => bitcode::read(inputs.module_bytes(*m)),
                _ => None,
            })
            .collect();
        let mut lists: Vec<Vec<&'a [u8]>> = modules
            .par_iter()
            .map(|m| m.as_ref().map_or_else(Vec::new, |m| m.globals.iter().map(Global::stem).collect()))
            .collect();
        let n_modules = lists.len();
        let mut dso_places: Vec<Vec<u32>> = Vec::new();
        for dso in inputs.dsos.iter() {
            let visible = |(_, s): &(usize, &crate::inputs::DsoSymbol)| !(s.defined && s.hidden_version);
            let kept = || dso.symbols.iter().enumerate().filter(visible);
            dso_places.push(kept().map(|(i, _)| i as u32).collect());
            lists.push(kept().map(|(_, s)| &*s.name).collect());
        }
        let first_armap = lists.len();
        for item in &inputs.sequence {
            lists.push(match item {
                SequenceItem::Archive { armap: Some(armap), .. } => {
                    armap.iter().map(|(name, _)| symtab::stem(name)).collect()
                }
                _ => Vec::new(),
            });
        }
        let (table, mut ids) = SymbolTable::intern(&lists);
        let armap_ids = ids.split_off(first_armap);
        let dso_symbol_ids = ids.split_off(n_modules);
        let armaps = inputs
            .sequence
            .iter()
            .zip(armap_ids)
            .map(|(item, ids)| match item {
                SequenceItem::Archive { armap: Some(armap), .. } => {
                    ids.into_iter().zip(armap.iter().map(|(_, m)| *m)).collect()
                }
                _ => Vec::new(),
            })
            .collect();
        let dso_ids = dso_places.into_iter().zip(dso_symbol_ids).map(|(p, i)| p.into_iter().zip(i).collect());
        let is_versioned = |(i, name): (usize, &&[u8])| name.contains(&b'@').then(|| SymbolId::new(i));
        let versioned =
            table.names.par_iter().with_min_len(GRAIN).enumerate().filter_map(is_versioned).collect();
        let dso_ids = dso_ids.collect();
        let mut link_symbols = LinkSymbols {
            inputs,
            config,
            modules,
            ids,
            wrapped_ids: None,
            dso_ids,
            table,
            armaps,
            versioned,
        };
        if !config.wrap.is_empty() {
            let of_module =
                |m: &ModuleId| link_symbols.globals(*m).map(|(id, g)| link_symbols.wrapped(id, g)).collect();
            link_symbols.wrapped_ids = Some(module_ids.par_iter().map(of_module).collect());
        }
        link_symbols
    }

    /// `--wrap=foo` renames what is undefined in a module.
    fn wrapped(&self, symbol: SymbolId, global: &Global<'_>) -> SymbolId {
        if global.entry == Entry::Undefined { self.wrapped_reference(symbol) } else { symbol }
    }

    /// The symbol that a reference names after `--wrap=foo`: `foo` becomes `__wrap_foo`, and `__real_foo` becomes `foo`.
    pub(super) fn wrapped_reference(&self, symbol: SymbolId) -> SymbolId {
        let renamed = || {
            let name = std::str::from_utf8(self.table.names[symbol.index()]).ok()?;
            if self.config.wrap.iter().any(|w| w == name) {
                return self.table.find(format!("__wrap_{name}").as_bytes());
            }
            let real = name.strip_prefix("__real_")?;
            self.config.wrap.iter().any(|w| w == real).then(|| self.table.find(real.as_bytes())).flatten()
        };
        let wraps = !self.config.wrap.is_empty();
        wraps.then(renamed).flatten().unwrap_or(symbol)
    }

    /// The ids of a module's globals as the link sees them, after `--wrap`.
    pub(super) fn linked_ids(&self, module: ModuleId) -> &[SymbolId] {
        &self.wrapped_ids.as_ref().unwrap_or(&self.ids)[module.index()]
    }

    /// The globals of a module together with the numbers of their names ([`LinkSymbols::globals`], [`LinkSymbols::linked_ids`]).
    pub(super) fn linked_globals(&self, module: ModuleId) -> impl Iterator<Item = (SymbolId, &Global<'a>)> {
        self.linked_ids(module).iter().copied().zip(self.globals(module).map(|(_, g)| g))
    }

    /// Whether a definition of `dso` satisfies a reference to `name@version`.
    pub(super) fn defines_version(&self, dso: DsoId, name: &[u8]) -> bool {
        let Some(at) = name.iter().position(|c| *c == b'@') else { return false };
        let (plain, version) = (&name[..at], &name[at + 1..]);
        let symbols = &self.inputs.dsos[dso].symbols;
        symbols.iter().any(|s| s.defined && &*s.name == plain && s.version.as_deref() == Some(version))
    }

    /// The globals of a module with their ids, in symbol table order.
    pub(super) fn globals(&self, module: ModuleId) -> impl Iterator<Item = (SymbolId, &Global<'a>)> {
        let symbols = self.modules[module.index()].as_ref();
        let globals = symbols.map_or(&[][..], |m| &m.globals[..]);
        self.ids[module.index()].iter().copied().zip(globals)
    }

    /// Whether `module` defines `symbol` other than as a common (lld's `isNonCommonDef`).
    pub(super) fn has_non_common_definition(&self, module: ModuleId, symbol: SymbolId) -> bool {
        self.defines(module, symbol, |_| true)
    }

    /// Whether `module` has a definition for which GNU ld loads a member while the symbol is common (bfd/elflink.c
    /// `elf_link_is_defined_archive_symbol`).
    pub(super) fn has_data_definition(&self, module: ModuleId, symbol: SymbolId) -> bool {
        self.defines(module, symbol, |global| !global.weak && global.ty != SymbolType::Code)
    }

    fn defines(&self, module: ModuleId, symbol: SymbolId, has: impl Fn(&Global<'_>) -> bool) -> bool {
        let is_definition = |g: &Global<'_>| matches!(g.entry, Entry::Section(_) | Entry::Absolute(_));
        self.globals(module).any(|(id, g)| id == symbol && is_definition(g) && has(g))
    }

    /// The `.dynsym` entries of a DSO that take part in resolution, in order.
    pub(super) fn dso_symbols(
        &self,
        dso: DsoId,
    ) -> impl Iterator<Item = (SymbolId, &crate::inputs::DsoSymbol)> {
        let symbols = &self.inputs.dsos[dso].symbols;
        self.dso_ids[dso.index()].iter().map(move |(i, id)| (*id, &symbols[*i as usize]))
    }

    /// Names that the command line and scripts demand (`-u`, expressions), before any file is read.
    pub(super) fn demanded(&self) -> Vec<SymbolId> {
        self.demanded_by_name().into_iter().chain(self.named_in_expressions()).collect()
    }

    /// Names that `-u` and its like demand.
    pub(super) fn demanded_by_name(&self) -> Vec<SymbolId> {
        self.config.undefined.iter().filter_map(|name| self.table.find(name.as_bytes())).collect()
    }

    /// Names that linker scripts and the expressions of `--defsym` refer to.
    pub(super) fn named_in_expressions(&self) -> Vec<SymbolId> {
        let of_defsym = self.config.defsym.iter().flat_map(|defsym| self.named_by(defsym));
        self.named_in_scripts().into_iter().chain(of_defsym).collect()
    }

    pub(super) fn named_in_scripts(&self) -> Vec<SymbolId> {
        let names = &self.inputs.scripts.referenced_symbols;
        names.iter().filter_map(|name| self.table.find(name.as_bytes())).collect()
    }

    /// The symbols that the expression of a `--defsym` refers to.
    pub(super) fn named_by(&self, defsym: &Defsym) -> Vec<SymbolId> {
        symbols_of(&defsym.expression).filter_map(|name| self.table.find(name.as_bytes())).collect()
    }
}

/// The symbol names in a linker expression.
pub(crate) fn symbols_of(expression: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
    expression
        .split(move |c| !word(c))
        .filter(|w| !w.is_empty() && !w.starts_with(|c: char| c.is_ascii_digit()))
}
