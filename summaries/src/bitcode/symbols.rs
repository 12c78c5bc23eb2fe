//! The linker's view of bitcode: names as in the object, in the order in which linkers read them.
//!
//! It comes from the file's own symbol table. Without a readable one it is made from the modules by the rules of LLVM (`ModuleSymbolTable`), but
//! without names in module assembly: [`LinkerSymbols::complete`] is false then.

use rustc_hash::FxHashMap;

use super::file::BitcodeFile;
use super::linkage::Linkage;
use super::module::{GlobalValue, Module, ValueKind};
use super::symtab::{BitcodeSymtab, SymtabComdat, SymtabSymbol};
use crate::summary::Visibility;

/// A global value of a file: the module's place, and the value id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueAt {
    pub module: u32,
    pub value: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkerSymbol<'a> {
    pub name: &'a [u8],
    /// `None` for one of inline assembly.
    pub value: Option<ValueAt>,
    pub undefined: bool,
    pub weak: bool,
    /// Size and alignment of a tentative definition, in bytes; 0 if the size is not known.
    pub common: Option<(u64, u64)>,
    pub thread_local: bool,
    /// As [`SymtabSymbol::omittable`]; false without a symbol table.
    pub omittable: bool,
    /// As [`SymtabSymbol::unnamed_addr`]; false without a symbol table.
    pub unnamed_addr: bool,
    pub visibility: Visibility,
    /// It is an index into [`LinkerSymbols::comdats`].
    pub comdat: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkerComdat<'a> {
    pub name: &'a [u8],
    /// It says whether every copy is linked.
    pub keeps_all: bool,
}

#[derive(Debug, Clone, Default)]
pub struct LinkerSymbols<'a> {
    pub symbols: Vec<LinkerSymbol<'a>>,
    pub comdats: Vec<LinkerComdat<'a>>,
    /// Libraries that the modules ask the linker for.
    pub dependent_libraries: Vec<&'a [u8]>,
    /// Names in module assembly that linkers see only in the compiled code: weak references.
    pub unseen: Vec<&'a [u8]>,
    /// Made from the file's own symbol table, so that nothing is missing.
    pub complete: bool,
}

/// Index in a summary's table of symbols of the first of [`LinkerSymbols::symbols`]; the others follow in order.
pub const FIRST_GLOBAL: usize = 1;

/// The section number of the group of COMDAT number `comdat` in a summary. Bitcode has no sections, and its atoms have
/// small numbers.
pub fn group_section(comdat: u32) -> u32 {
    (1 << 30) | comdat
}

/// LLVM's `Comdat::SelectionKind` that keeps every copy.
const NO_DEDUPLICATE: u32 = 3;

pub fn of_file<'a>(file: &BitcodeFile<'a>) -> LinkerSymbols<'a> {
    match &file.symtab {
        Some(symtab) if symtab.modules.len() == file.modules.len() => of_symtab(file, symtab),
        _ => of_modules(file),
    }
}

fn of_symtab<'a>(file: &BitcodeFile<'a>, symtab: &BitcodeSymtab<'a>) -> LinkerSymbols<'a> {
    let mut out = LinkerSymbols { complete: true, ..LinkerSymbols::default() };
    let comdat =
        |c: &SymtabComdat<'a>| LinkerComdat { name: c.name, keeps_all: c.selection == NO_DEDUPLICATE };
    out.comdats = symtab.comdats.iter().map(comdat).collect();
    out.dependent_libraries.clone_from(&symtab.dependent_libraries);
    for ((i, module), (begin, end)) in file.modules.iter().enumerate().zip(&symtab.modules) {
        let ids: FxHashMap<&[u8], u32> =
            module.values.iter().enumerate().map(|(id, v)| (v.name, id as u32)).collect();
        let range = *begin as usize..*end as usize;
        let symbols = symtab.symbols.get(range).unwrap_or_default().iter();
        let is_unseen = |s: &&SymtabSymbol<'_>| s.ir_name.is_empty() && s.undefined && !s.global;
        out.unseen.extend(symbols.clone().filter(is_unseen).map(|s| s.name));
        out.symbols.extend(symbols.filter(|s| s.global && !s.format_specific).map(|s| {
            let value = ids.get(s.ir_name).filter(|_| !s.ir_name.is_empty());
            LinkerSymbol {
                name: s.name,
                value: value.map(|value| ValueAt { module: i as u32, value: *value }),
                undefined: s.undefined,
                weak: s.weak,
                common: s.common,
                thread_local: s.thread_local,
                omittable: s.omittable,
                unnamed_addr: s.unnamed_addr,
                visibility: s.visibility,
                comdat: s.comdat,
            }
        }));
    }
    out
}

/// The symbols by the modules' records alone.
pub fn of_modules<'a>(file: &BitcodeFile<'a>) -> LinkerSymbols<'a> {
    let mut out = LinkerSymbols::default();
    for (i, module) in file.modules.iter().enumerate() {
        // By index into the module's COMDATs.
        let mut comdats: FxHashMap<u32, u32> = FxHashMap::default();
        for kind in 0..4 {
            for (id, value) in module.values.iter().enumerate().filter(|(_, v)| rank(v) == kind) {
                if !is_linker_symbol(module, value) {
                    continue;
                }
                let own = comdat_of(module, id as u32);
                let comdat =
                    own.and_then(|c| Some((c, module.comdats.get(c as usize)?))).map(|(c, found)| {
                        *comdats.entry(c).or_insert_with(|| {
                            out.comdats.push(LinkerComdat { name: found.name, keeps_all: found.keeps_all });
                            out.comdats.len() as u32 - 1
                        })
                    });
                out.symbols.push(LinkerSymbol {
                    name: value.name.strip_prefix(b"\x01").unwrap_or(value.name),
                    value: Some(ValueAt { module: i as u32, value: id as u32 }),
                    undefined: value.is_declaration_for_linker(),
                    weak: value.linkage.is_weak(),
                    common: (value.linkage == Linkage::Common).then_some((0, value.align)),
                    thread_local: value.thread_local,
                    omittable: false,
                    unnamed_addr: false,
                    visibility: value.visibility,
                    comdat,
                });
            }
        }
    }
    out
}

/// By module and its own number of a COMDAT: the linker's number. A COMDAT without a symbol has none.
pub(super) fn comdat_numbers(
    file: &BitcodeFile<'_>,
    linker: &LinkerSymbols<'_>,
) -> FxHashMap<(u32, u32), u32> {
    let number = |s: &LinkerSymbol<'_>| {
        let at = s.value?;
        let own = comdat_of(file.modules.get(at.module as usize)?, at.value)?;
        Some(((at.module, own), s.comdat?))
    };
    linker.symbols.iter().filter_map(number).collect()
}

/// The order of a symbol table.
fn rank(value: &GlobalValue<'_>) -> u32 {
    match value.kind {
        ValueKind::Function => 0,
        ValueKind::Variable { .. } => 1,
        ValueKind::Alias { .. } => 2,
        ValueKind::Ifunc { .. } => 3,
    }
}

/// Whether a linker sees a symbol of this value: it is not local, no intrinsic, and no metadata.
pub(super) fn is_linker_symbol(module: &Module<'_>, value: &GlobalValue<'_>) -> bool {
    !value.linkage.is_local() && !value.name.starts_with(b"llvm.") && !is_metadata(module, value)
}

/// Whether it never becomes data: it is in the section `llvm.metadata`.
pub fn is_metadata(module: &Module<'_>, value: &GlobalValue<'_>) -> bool {
    let section = value.section.and_then(|s| module.sections.get(s as usize));
    section.is_some_and(|s| s == b"llvm.metadata")
}

/// Whether an array keeps its elements although it never becomes data.
pub fn keeps_its_elements(name: &[u8]) -> bool {
    name == b"llvm.used" || name == b"llvm.compiler.used"
}

/// The base object of an alias or ifunc; `None` if that is an expression, or a cycle.
pub fn base_object(module: &Module<'_>, value: u32) -> Option<u32> {
    let mut at = value;
    for _ in 0..=module.values.len() {
        match module.values.get(at as usize)?.kind {
            ValueKind::Alias { aliasee } => at = aliasee,
            ValueKind::Ifunc { resolver } => at = resolver,
            ValueKind::Variable { .. } | ValueKind::Function => return Some(at),
        }
    }
    None
}

fn comdat_of(module: &Module<'_>, value: u32) -> Option<u32> {
    module.values.get(base_object(module, value)? as usize)?.comdat
}
