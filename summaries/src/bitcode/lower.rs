//! Lowering of bitcode to a [`ModuleSummary`]: the same symbols, atoms and references that its object would have.
//!
//! Each defined function and variable is an atom in a section of its own, as linkers generate code, and module assembly is one atom. Below the granularity
//! `functions` references are those of the summary for ThinLTO, or of the first atom to every symbol. Such a module is linked as it is (limit
//! `opaque-bitcode`), so that they decide nothing. From `functions` on references are those of the IR, and from `pointers` on functions have
//! summaries, both by [`flow`]. The size of a function is that of its block of bitcode, or 0 if no body is read.

use rustc_hash::FxHashMap;

use super::file::BitcodeFile;
use super::flow::{self, FlowRequest, LocalValues};
use super::index::EntryKind;
use super::linkage::Linkage;
use super::module::{GlobalValue, Module, ValueKind};
use super::symbols::{self, FIRST_GLOBAL, LinkerSymbol, LinkerSymbols, ValueAt, keeps_its_elements};
use crate::ids::{AtomIdx, GroupIdx, NameRef, SymbolIdx};
use crate::limit::{Limit, LimitRecord};
use crate::native::sections::{is_c_identifier, is_standard_family};
use crate::parallel::{ParallelMap, in_order};
use crate::summary::{
    Atom, AtomKind, Binding, Definition, Granularity, Group, ModuleKind, ModuleSummary, Reference,
    ReferenceKind, Symbol, SymbolKind, Target, Visibility, atom_flags,
};

/// The atom and the symbol of each global value, by module and value id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbering {
    pub atoms: Vec<Vec<Option<AtomIdx>>>,
    pub symbols: Vec<Vec<Option<SymbolIdx>>>,
}

/// The numbering of the summary of this granularity.
pub fn numbering(file: &BitcodeFile<'_>, granularity: Granularity) -> Numbering {
    let mut lowering = Lowering::new(file, granularity);
    lowering.make_atoms();
    lowering.make_symbols();
    lowering.numbering
}

/// The values of function summaries, at the granularity `pointers`, for the values of their bodies.
///
/// # Errors
/// The module is linked as it is, and its functions have no summaries.
pub fn local_values(bytes: &[u8]) -> Result<Vec<LocalValues>, String> {
    let file = super::file::read(bytes).map_err(|e| e.to_string())?;
    let numbering = numbering(&file, Granularity::Pointers);
    let section = |_| Atom::NO_SECTION;
    let followed = flow::follow(bytes, &file, &numbering, &section, FlowRequest::Locals, &in_order)?;
    Ok(followed.locals)
}

/// Summarise a file that was read from `bytes`.
pub(super) fn lower(
    bytes: &[u8],
    file: &BitcodeFile<'_>,
    granularity: Granularity,
    parallel_map: ParallelMap<'_>,
) -> ModuleSummary {
    let mut lowering = Lowering::new(file, granularity);
    lowering.make_atoms();
    lowering.make_symbols();
    lowering.make_groups();
    let followed = match lowering.reads_bodies() {
        true => lowering.follow(bytes, parallel_map),
        false => Err("LLVM bitcode, which is linked as it is".to_owned()),
    };
    if followed.is_err() {
        lowering.refer();
    }
    lowering.limits(followed.err());
    lowering.summary
}

/// Whether a summary has the atoms, symbols and groups of the file.
pub(super) fn agrees(file: &BitcodeFile<'_>, summary: &ModuleSummary) -> bool {
    const OF_BODIES: u32 = atom_flags::TAKES_REGISTERS | atom_flags::RUNS_UNSEEN;
    let mut lowering = Lowering::new(file, summary.granularity);
    lowering.make_atoms();
    lowering.make_symbols();
    lowering.make_groups();
    let of_file = lowering.summary;
    let is_same = |(a, b): (&Atom, &Atom)| {
        let stated = Atom { size: a.size, flags: b.flags & !OF_BODIES, ..b.clone() };
        Atom { flags: a.flags & !OF_BODIES, ..a.clone() } == stated
    };
    of_file.names == summary.names
        && of_file.symbols == summary.symbols
        && of_file.groups == summary.groups
        && of_file.atoms.len() == summary.atoms.len()
        && of_file.atoms.iter().zip(&summary.atoms).all(is_same)
}

struct Lowering<'f, 'a> {
    file: &'f BitcodeFile<'a>,
    linker: LinkerSymbols<'a>,
    summary: ModuleSummary,
    numbering: Numbering,
    asm: Option<AtomIdx>,
}

fn runs_by_itself(name: &[u8]) -> bool {
    name == b"llvm.global_ctors" || name == b"llvm.global_dtors"
}

/// Whether a value is a tentative definition; a record of a function can't make it one.
fn is_common(value: &GlobalValue<'_>) -> bool {
    let variable = matches!(value.kind, ValueKind::Variable { .. });
    let special = runs_by_itself(value.name) || keeps_its_elements(value.name);
    variable && !special && value.linkage == Linkage::Common
}

impl<'f, 'a> Lowering<'f, 'a> {
    fn new(file: &'f BitcodeFile<'a>, granularity: Granularity) -> Self {
        let mut summary = ModuleSummary::opaque();
        summary.kind = ModuleKind::Bitcode;
        summary.granularity = granularity;
        let none = |m: &Module<'_>| m.values.len();
        let numbering = Numbering {
            atoms: file.modules.iter().map(|m| vec![None; none(m)]).collect(),
            symbols: file.modules.iter().map(|m| vec![None; none(m)]).collect(),
        };
        Lowering { file, linker: symbols::of_file(file), summary, numbering, asm: None }
    }

    /// Whether functions are analysed by the IR.
    fn reads_bodies(&self) -> bool {
        self.summary.granularity >= Granularity::Functions
    }

    /// Add the facts of functions and initializers; `Err` is the reason why that fails.
    fn follow(&mut self, bytes: &[u8], parallel_map: ParallelMap<'_>) -> Result<(), String> {
        if !self.linker.complete {
            return Err("LLVM bitcode without a symbol table that could be read".to_owned());
        }
        let atoms = &self.summary.atoms;
        let section = |atom: AtomIdx| atoms.get(atom.index()).map_or(Atom::NO_SECTION, |a| a.section);
        let wanted = match self.summary.granularity >= Granularity::Pointers {
            true => FlowRequest::Functions,
            false => FlowRequest::References,
        };
        let found = flow::follow(bytes, self.file, &self.numbering, &section, wanted, parallel_map)?;
        for (atom, size) in found.sizes {
            if let Some(atom) = self.summary.atoms.get_mut(atom.index()) {
                atom.size = size;
            }
        }
        let flags = [
            (found.takes_registers, atom_flags::TAKES_REGISTERS),
            (found.runs_unseen, atom_flags::RUNS_UNSEEN),
        ];
        for (atom, flag) in
            flags.into_iter().flat_map(|(atoms, flag)| atoms.into_iter().map(move |a| (a, flag)))
        {
            if let Some(atom) = self.summary.atoms.get_mut(atom.index()) {
                atom.flags |= flag;
            }
        }
        self.summary.references = found.references;
        self.refer_from_assembly();
        self.summary.functions = found.functions;
        self.summary.limits = found.limits;
        Ok(())
    }

    fn make_atoms(&mut self) {
        if self.file.modules.iter().any(|m| !m.asm.is_empty()) {
            let flags =
                atom_flags::EXEC | atom_flags::RETAIN | atom_flags::STANDARD_FAMILY | atom_flags::RUNS_UNSEEN;
            self.asm = Some(self.push_atom(b".text", AtomKind::Code, flags, 1));
        }
        // Commons come last.
        for common in [false, true] {
            for (m, module) in self.file.modules.iter().enumerate() {
                for (v, value) in module.values.iter().enumerate() {
                    let is_object = matches!(value.kind, ValueKind::Function | ValueKind::Variable { .. });
                    // A copy of another module's body, which may be inlined at a call.
                    let is_copy = self.reads_bodies()
                        && value.linkage == Linkage::AvailableExternally
                        && !value.declaration;
                    if value.is_declaration_for_linker() && !is_copy
                        || !is_object
                        || common != is_common(value)
                        || (symbols::is_metadata(module, value) && !keeps_its_elements(value.name))
                    {
                        continue;
                    }
                    let atom = self.make_atom(module, value);
                    if let Some(slot) = self.numbering.atoms.get_mut(m).and_then(|a| a.get_mut(v)) {
                        *slot = Some(atom);
                    }
                }
            }
        }
    }

    fn make_atom(&mut self, module: &Module<'_>, value: &GlobalValue<'_>) -> AtomIdx {
        let constant = matches!(value.kind, ValueKind::Variable { constant: true });
        let (family, kind, mut flags): (&[u8], _, _) = match value.kind {
            _ if runs_by_itself(value.name) => {
                (b".init_array", AtomKind::InitFini, atom_flags::WRITE | atom_flags::RETAIN)
            }
            _ if keeps_its_elements(value.name) => (b"", AtomKind::ReadOnlyData, atom_flags::RETAIN),
            ValueKind::Function => (b".text.", AtomKind::Code, atom_flags::EXEC),
            _ if is_common(value) => (b"", AtomKind::Common, atom_flags::WRITE),
            _ if value.thread_local => (b".tdata.", AtomKind::TlsData, atom_flags::WRITE),
            _ if constant => (b".rodata.", AtomKind::ReadOnlyData, 0),
            _ => (b".data.", AtomKind::Data, atom_flags::WRITE),
        };
        let given = value.section.and_then(|s| module.sections.get(s as usize));
        let given = given.filter(|_| !keeps_its_elements(value.name));
        let name = match given {
            Some(section) => section.clone(),
            None if kind == AtomKind::InitFini => family.to_vec(),
            None => [family, value.name].concat(),
        };
        if kind != AtomKind::Common {
            flags |= if is_standard_family(&name) { atom_flags::STANDARD_FAMILY } else { 0 };
            flags |= if is_c_identifier(&name) { atom_flags::C_IDENTIFIER } else { 0 };
        }
        self.push_atom(&name, kind, flags, value.align)
    }

    fn push_atom(&mut self, name: &[u8], kind: AtomKind, flags: u32, align: u64) -> AtomIdx {
        let name = self.summary.push_name(name);
        let index = AtomIdx::new(self.summary.atoms.len());
        let section = if kind == AtomKind::Common { Atom::NO_SECTION } else { index.0.saturating_add(1) };
        self.summary.atoms.push(Atom {
            section,
            offset: 0,
            size: 0,
            align,
            kind,
            flags,
            name,
            group: None,
            link_order: None,
        });
        index
    }

    /// Make the null symbol, those that a linker sees first, in its order, those that it sees later, and local ones.
    fn make_symbols(&mut self) {
        let null = self.symbol(NameRef::default(), Binding::Local, Visibility::Default, SymbolKind::NoType);
        self.summary.symbols.push(null);
        for found in self.linker.symbols.clone() {
            self.make_global(&found);
        }
        for name in self.linker.unseen.clone() {
            let name = self.summary.push_name(name);
            let symbol = self.symbol(name, Binding::Weak, Visibility::Default, SymbolKind::NoType);
            self.push_symbol(symbol, None);
        }
        for (m, module) in self.file.modules.iter().enumerate() {
            for (v, value) in module.values.iter().enumerate() {
                let at = ValueAt { module: m as u32, value: v as u32 };
                if symbols::is_linker_symbol(module, value) || self.atom_of(at).is_none() {
                    continue;
                }
                let name = self.summary.push_name(value.name.strip_prefix(b"\x01").unwrap_or(value.name));
                let kind = kind_of(module, v as u32);
                let mut symbol = self.symbol(name, Binding::Local, Visibility::Default, kind);
                symbol.definition = self.definition(at);
                self.push_symbol(symbol, Some(at));
            }
        }
    }

    fn make_global(&mut self, found: &LinkerSymbol<'a>) {
        let name = self.summary.push_name(found.name);
        let module = found.value.and_then(|at| Some((self.file.modules.get(at.module as usize)?, at.value)));
        let kind = match module {
            Some((module, id)) => kind_of(module, id),
            None if found.thread_local => SymbolKind::Tls,
            None => SymbolKind::NoType,
        };
        let binding = if found.weak { Binding::Weak } else { Binding::Global };
        let mut symbol = self.symbol(name, binding, found.visibility, kind);
        if !found.undefined {
            symbol.definition = match (found.value, self.asm) {
                (Some(at), _) => self.definition(at),
                (None, Some(asm)) => Definition::Atom(asm),
                (None, None) => Definition::Absolute,
            };
        }
        if let (Definition::Common(atom), Some((size, align))) = (symbol.definition, found.common) {
            (symbol.size, symbol.value) = (size, align);
            if let Some(atom) = self.summary.atoms.get_mut(atom.index()) {
                atom.size = size;
                atom.align = if align.is_power_of_two() { align } else { atom.align };
            }
        }
        self.push_symbol(symbol, found.value);
    }

    fn symbol(&self, name: NameRef, binding: Binding, visibility: Visibility, kind: SymbolKind) -> Symbol {
        Symbol { name, binding, visibility, kind, definition: Definition::Undefined, value: 0, size: 0 }
    }

    fn push_symbol(&mut self, symbol: Symbol, at: Option<ValueAt>) {
        let index = SymbolIdx::new(self.summary.symbols.len());
        self.summary.symbols.push(symbol);
        let slot =
            at.and_then(|at| self.numbering.symbols.get_mut(at.module as usize)?.get_mut(at.value as usize));
        if let Some(slot) = slot {
            *slot = Some(index);
        }
    }

    /// The atom of a value's base object.
    fn atom_of(&self, at: ValueAt) -> Option<AtomIdx> {
        let module = self.file.modules.get(at.module as usize)?;
        let base = symbols::base_object(module, at.value)?;
        *self.numbering.atoms.get(at.module as usize)?.get(base as usize)?
    }

    fn definition(&self, at: ValueAt) -> Definition {
        let Some(atom) = self.atom_of(at) else {
            // An alias of an expression may be anywhere in the module.
            return Definition::Absolute;
        };
        match self.summary.atoms.get(atom.index()).map(|a| a.kind) {
            Some(AtomKind::Common) => Definition::Common(atom),
            _ => Definition::Atom(atom),
        }
    }

    /// Make a section group for each COMDAT with an atom. Its signature is the symbol of its name, made if there is none.
    fn make_groups(&mut self) {
        let mut members: FxHashMap<(usize, u32), Vec<AtomIdx>> = FxHashMap::default();
        let mut order = Vec::new();
        for (m, (module, atoms)) in self.file.modules.iter().zip(&self.numbering.atoms).enumerate() {
            for (value, atom) in module.values.iter().zip(atoms) {
                let (Some(comdat), Some(atom)) = (value.comdat, *atom) else { continue };
                let list = members.entry((m, comdat)).or_default();
                if list.is_empty() {
                    order.push((m, comdat));
                }
                list.push(atom);
            }
        }
        let numbers = symbols::comdat_numbers(self.file, &self.linker);
        let mut unseen = self.linker.comdats.len() as u32;
        for key @ (m, comdat) in order {
            let found = self.file.modules.get(m).and_then(|module| module.comdats.get(comdat as usize));
            let (Some(found), Some(mut members)) = (found.copied(), members.remove(&key)) else { continue };
            members.sort_unstable();
            let index = GroupIdx::new(self.summary.groups.len());
            let number = numbers.get(&(m as u32, comdat)).copied().unwrap_or_else(|| {
                unseen = unseen.saturating_add(1);
                unseen
            });
            let section = symbols::group_section(number);
            let values = self.file.modules.get(m).map_or(&[][..], |module| &module.values);
            let of_name = values.iter().position(|v| v.name == found.name);
            let known = of_name.and_then(|v| *self.numbering.symbols.get(m)?.get(v)?);
            let signature = known.unwrap_or_else(|| {
                let name = self.summary.push_name(found.name);
                let visibility = Visibility::Default;
                let mut symbol = self.symbol(name, Binding::Local, visibility, SymbolKind::NoType);
                symbol.definition = Definition::OtherSection(section);
                self.push_symbol(symbol, None);
                SymbolIdx::new(self.summary.symbols.len().saturating_sub(1))
            });
            for member in &members {
                if let Some(atom) = self.summary.atoms.get_mut(member.index()) {
                    atom.group = Some(index);
                    atom.flags |= atom_flags::GROUPED;
                }
            }
            let comdat = !found.keeps_all;
            self.summary.groups.push(Group { section, signature, comdat, members });
        }
    }

    fn refer(&mut self) {
        let mut references = Vec::new();
        let mut push = |from: AtomIdx, kind, target: Target| {
            references.push(Reference { from, offset: 0, kind, target, addend: 0 });
        };
        for (m, module) in self.file.modules.iter().enumerate() {
            let Some(index) = module.summary.as_ref().filter(|s| s.is_read()) else { continue };
            // A value id without a value is a callee that a profile knows: the call itself is indirect.
            let target = |value: u32| {
                let symbol = *self.numbering.symbols.get(m)?.get(value as usize)?;
                symbol.map(Target::Symbol)
            };
            for entry in &index.entries {
                let Some(from) = self.atom_of(ValueAt { module: m as u32, value: entry.value }) else {
                    continue;
                };
                let (kind, calls) = match &entry.kind {
                    EntryKind::Function { calls, .. } => (ReferenceKind::Address, &calls[..]),
                    EntryKind::Variable { .. } => (ReferenceKind::Data, &[][..]),
                    // The alias's symbol has the atom of its aliasee.
                    EntryKind::Alias { .. } => continue,
                };
                entry.refs.iter().filter_map(|r| target(r.value)).for_each(|t| push(from, kind, t));
                calls.iter().filter_map(|c| target(*c)).for_each(|t| push(from, ReferenceKind::Call, t));
            }
        }
        let globals = || self.globals().map(Target::Symbol);
        if !self.knows_its_references() && !self.summary.atoms.is_empty() {
            globals().for_each(|target| push(AtomIdx(0), ReferenceKind::Data, target));
        }
        references.sort_by_key(|r| r.from);
        self.summary.references = references;
        if self.knows_its_references() {
            self.refer_from_assembly();
        }
    }

    /// Add references of module assembly to all symbols without a value.
    fn refer_from_assembly(&mut self) {
        let Some(from) = self.asm else { return };
        let in_ir = |i: usize| self.linker.symbols.get(i).is_some_and(|s| s.value.is_some());
        let named = self.globals().map(Target::Symbol).enumerate().filter(|(i, _)| !in_ir(*i));
        let kind = ReferenceKind::Data;
        let named: Vec<Reference> =
            named.map(|(_, target)| Reference { from, offset: 0, kind, target, addend: 0 }).collect();
        self.summary.references.extend(named);
        self.summary.references.sort_by_key(|r| (r.from, r.offset));
    }

    /// The symbols of [`LinkerSymbols::symbols`], then those of [`LinkerSymbols::unseen`].
    fn globals(&self) -> impl Iterator<Item = SymbolIdx> + use<> {
        let count = self.linker.symbols.len().saturating_add(self.linker.unseen.len());
        (FIRST_GLOBAL..count.saturating_add(FIRST_GLOBAL)).map(SymbolIdx::new)
    }

    fn knows_its_references(&self) -> bool {
        let read = |m: &Module<'_>| m.summary.as_ref().is_some_and(super::index::SummaryIndex::is_read);
        self.linker.complete && self.file.modules.iter().all(read)
    }

    /// Add the limits. `opaque` is the reason why the module is linked as it is.
    fn limits(&mut self, opaque: Option<String>) {
        let mut found: Vec<(Limit, String)> =
            opaque.into_iter().map(|why| (Limit::OpaqueBitcode, why)).collect();
        let mut unknown: Vec<String> = self.file.unknown.clone();
        for module in &self.file.modules {
            unknown.extend(module.unknown.iter().cloned());
            if let Some(summary) = &module.summary {
                unknown.extend(summary.unknown.iter().cloned());
                if !summary.is_read() && summary.unknown.is_empty() {
                    let detail = format!("a summary of version {}", summary.version);
                    found.push((Limit::BitcodeSummaryVersion, detail));
                }
            }
        }
        if self.file.symtab.is_none() {
            unknown.push("no symbol table that could be read".to_owned());
        }
        if let Some(first) = self.linker.dependent_libraries.first() {
            let detail = format!("LLVM bitcode asks for the library {}", String::from_utf8_lossy(first));
            found.push((Limit::DependentLibraries, detail));
        }
        if !unknown.is_empty() {
            found.push((Limit::UnknownBitcode, unknown.join(", ")));
        }
        let records = found.into_iter().map(|(limit, detail)| LimitRecord::new(limit, detail));
        self.summary.limits.splice(0..0, records);
    }
}

fn kind_of(module: &Module<'_>, id: u32) -> SymbolKind {
    let values = &module.values;
    let Some(value) = values.get(id as usize) else { return SymbolKind::NoType };
    let base = symbols::base_object(module, id).and_then(|base| values.get(base as usize));
    match (value.kind, base.map(|b| b.kind)) {
        (ValueKind::Ifunc { .. }, _) => SymbolKind::Ifunc,
        _ if value.thread_local => SymbolKind::Tls,
        // A declaration in an object has no type.
        _ if value.is_declaration_for_linker() => SymbolKind::NoType,
        (_, Some(ValueKind::Function)) => SymbolKind::Func,
        (_, Some(ValueKind::Variable { .. })) => SymbolKind::Object,
        // An alias of an expression.
        _ => SymbolKind::NoType,
    }
}
