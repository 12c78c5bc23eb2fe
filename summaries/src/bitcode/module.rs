//! A module by its records: global values in the order of their ids, COMDATs, names, module assembly.
//!
//! Value ids count variables, functions, aliases and ifuncs in the order of their records. Names are resolved once the string table, which
//! follows the module, is known. Unknown records of a newer LLVM are noted, and the caller keeps the module. Types, constants,
//! metadata and function bodies are skipped.

use super::codes::{block, module as code};
use super::error::{BitcodeErrorKind, Result};
use super::index::{self, SummaryIndex};
use super::linkage::{self, Linkage};
use super::stream::{Event, Stream};
use crate::summary::Visibility;

/// Blocks of a module that are skipped, or read elsewhere.
#[rustfmt::skip]
const KNOWN: &[u32] = &[
    block::BLOCKINFO, block::PARAMATTR, block::PARAMATTR_GROUP, block::CONSTANTS, block::FUNCTION, block::VALUE_SYMTAB,
    block::METADATA, block::METADATA_ATTACHMENT, block::TYPE_NEW, block::USELIST, block::MODULE_STRTAB,
    block::OPERAND_BUNDLE_TAGS, block::METADATA_KIND, block::SYNC_SCOPE_NAMES,
];

/// A name as a place in the string table that is yet to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StrtabRange {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl StrtabRange {
    pub(super) fn of(self, strtab: &[u8]) -> Option<&[u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.size).ok()?)?;
        strtab.get(start..end)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Variable {
        constant: bool,
    },
    Function,
    /// An alias, with the value id of its aliasee: a global value or a constant expression.
    Alias {
        aliasee: u32,
    },
    /// An indirect function, with the value id of its resolver.
    Ifunc {
        resolver: u32,
    },
}

/// A global value. Its value id is its place in [`Module::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalValue<'a> {
    /// In the IR: what the linker sees may be mangled.
    pub name: &'a [u8],
    pub kind: ValueKind,
    pub linkage: Linkage,
    pub visibility: Visibility,
    pub thread_local: bool,
    /// It has no initializer and no body.
    pub declaration: bool,
    pub dso_local: bool,
    /// In bytes; 1 if none is given.
    pub align: u64,
    /// It is an index into [`Module::sections`].
    pub section: Option<u32>,
    /// It is an index into [`Module::comdats`].
    pub comdat: Option<u32>,
    name_at: StrtabRange,
}

impl GlobalValue<'_> {
    /// Whether a linker sees no definition: a declaration, or a copy for inlining.
    pub fn is_declaration_for_linker(&self) -> bool {
        self.declaration || self.linkage == Linkage::AvailableExternally
    }

    /// Whether it is a function of LLVM's own, which no linker sees.
    pub fn is_intrinsic(&self) -> bool {
        self.kind == ValueKind::Function && self.name.starts_with(b"llvm.")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comdat<'a> {
    pub name: &'a [u8],
    /// It says whether every copy is kept (`nodeduplicate`).
    pub keeps_all: bool,
    name_at: StrtabRange,
}

#[derive(Debug, Clone, Default)]
pub struct Module<'a> {
    /// The version of its records: 2 since LLVM 5.
    pub version: u64,
    pub triple: Vec<u8>,
    pub data_layout: Vec<u8>,
    pub source_file: Vec<u8>,
    pub asm: Vec<u8>,
    pub sections: Vec<Vec<u8>>,
    pub comdats: Vec<Comdat<'a>>,
    pub values: Vec<GlobalValue<'a>>,
    /// SHA-1 of the module, where `-flto=thin` wrote it.
    pub hash: Option<[u32; 5]>,
    pub summary: Option<SummaryIndex>,
    /// Records and blocks that are not known.
    pub unknown: Vec<String>,
}

/// More than this many notes say nothing new.
pub(super) const MAX_NOTES: usize = 8;

impl Module<'_> {
    /// Note an unknown record or block.
    fn note(&mut self, what: String) {
        if self.unknown.len() < MAX_NOTES {
            self.unknown.push(what);
        }
    }
}

/// Read a module, whose block has just been entered. Names are empty until [`resolve_names`].
pub(super) fn read<'a>(stream: &mut Stream<'a>) -> Result<Module<'a>> {
    let mut module = Module::default();
    loop {
        match stream.next()? {
            Event::Enter(block @ (block::GLOBALVAL_SUMMARY | block::FULL_LTO_GLOBALVAL_SUMMARY)) => {
                let full = block == block::FULL_LTO_GLOBALVAL_SUMMARY;
                let found = index::read(stream, full)?;
                if module.summary.replace(found).is_some() {
                    module.note("a second summary".to_owned());
                }
            }
            Event::Enter(block) => {
                if !KNOWN.contains(&block) {
                    module.note(format!("block {block}"));
                }
                // BLOCKINFO has to be read: it defines abbreviations of the others.
                if block != 0 {
                    stream.skip_block();
                }
            }
            Event::Leave if stream.is_in(block::MODULE) => {}
            Event::Leave | Event::End => return Ok(module),
            Event::Record(code) if stream.is_in(block::MODULE) => record(stream, code, &mut module)?,
            Event::Record(_) => {}
        }
    }
}

fn record(stream: &Stream<'_>, code: u32, module: &mut Module<'_>) -> Result<()> {
    let ops = Operands { stream, ops: stream.operands(), code };
    match code {
        code::VERSION => module.version = ops.required(0)?,
        code::TRIPLE => module.triple = ops.text(),
        code::DATALAYOUT => module.data_layout = ops.text(),
        code::ASM => module.asm = ops.text(),
        code::SOURCE_FILENAME => module.source_file = ops.text(),
        code::SECTIONNAME => module.sections.push(ops.text()),
        code::GCNAME => {}
        code::VSTOFFSET => {}
        code::HASH => {
            let mut hash = [0; 5];
            for (i, word) in hash.iter_mut().enumerate() {
                *word = ops.required(i)? as u32;
            }
            module.hash = Some(hash);
        }
        code::COMDAT => {
            // Selection kinds: any 1, exact match 2, largest 3, no duplicates 4, same size 5.
            let kind = ops.required(2)?;
            module.comdats.push(Comdat { name: &[], keeps_all: kind == 4, name_at: ops.name()? });
            if !(1..=5).contains(&kind) {
                module.note(format!("COMDAT selection kind {kind}"));
            }
        }
        code::GLOBALVAR | code::FUNCTION | code::ALIAS | code::IFUNC => value(ops, module)?,
        code => module.note(format!("module record {code}")),
    }
    Ok(())
}

/// Positions of operands after the two of the name, by record.
struct OperandPositions {
    linkage: usize,
    visibility: usize,
    thread_local: Option<usize>,
    comdat: Option<usize>,
    section: Option<usize>,
    align: Option<usize>,
    dso_local: usize,
}

fn value(ops: Operands<'_, '_>, module: &mut Module<'_>) -> Result<()> {
    let at = |i: usize| ops.optional(i + 2);
    let id = |i: usize| u32::try_from(ops.required(i + 2)?).map_err(|_| ops.short());
    let (kind, declaration, places) = match ops.code {
        code::GLOBALVAR => {
            ops.required(7)?;
            let (thread_local, comdat, section, align) = (Some(7), Some(11), Some(5), Some(4));
            let places = OperandPositions {
                linkage: 3,
                visibility: 6,
                thread_local,
                comdat,
                section,
                align,
                dso_local: 13,
            };
            (ValueKind::Variable { constant: at(1) & 1 != 0 }, at(2) == 0, places)
        }
        code::FUNCTION => {
            ops.required(9)?;
            let (thread_local, comdat, section, align) = (None, Some(12), Some(6), Some(5));
            let places = OperandPositions {
                linkage: 3,
                visibility: 7,
                thread_local,
                comdat,
                section,
                align,
                dso_local: 15,
            };
            (ValueKind::Function, at(2) != 0, places)
        }
        code => {
            let (is_alias, target) = (code == code::ALIAS, id(2)?);
            let (thread_local, dso_local) = if is_alias { (Some(6), 8) } else { (None, 5) };
            let (comdat, section, align) = (None, None, None);
            let places = OperandPositions {
                linkage: 3,
                visibility: 4,
                thread_local,
                comdat,
                section,
                align,
                dso_local,
            };
            let kind = match is_alias {
                true => ValueKind::Alias { aliasee: target },
                false => ValueKind::Ifunc { resolver: target },
            };
            (kind, false, places)
        }
    };
    let number = at(places.linkage);
    // An unknown linkage is treated as external.
    let linkage = Linkage::of_record(number).unwrap_or_else(|| {
        module.note(format!("linkage {number}"));
        Linkage::External
    });
    let visibility = linkage::visibility(at(places.visibility)).unwrap_or(Visibility::Default);
    let place = |place: Option<usize>| place.map_or(0, at);
    let index = |value: u64| u32::try_from(value).ok()?.checked_sub(1);
    let value = GlobalValue {
        name: &[],
        kind,
        linkage,
        // LLVM ignores the visibility of a local value.
        visibility: if linkage.is_local() { Visibility::Default } else { visibility },
        thread_local: place(places.thread_local) != 0,
        declaration,
        dso_local: at(places.dso_local) != 0 || linkage.is_local(),
        align: match place(places.align) {
            log @ 1..=63 => 1 << (log - 1),
            _ => 1,
        },
        section: index(place(places.section)),
        comdat: index(place(places.comdat)),
        name_at: ops.name()?,
    };
    let exists = |i: Option<u32>, n: usize| i.is_none_or(|i| (i as usize) < n);
    if !exists(value.section, module.sections.len()) || !exists(value.comdat, module.comdats.len()) {
        return Err(ops.short());
    }
    module.values.push(value);
    Ok(())
}

/// The operands of a record, checked.
#[derive(Clone, Copy)]
struct Operands<'s, 'a> {
    stream: &'s Stream<'a>,
    ops: &'s [u64],
    code: u32,
}

impl Operands<'_, '_> {
    fn short(&self) -> super::error::BitcodeError {
        self.stream.error(BitcodeErrorKind::ShortRecord { block: block::MODULE, code: self.code })
    }

    fn required(&self, i: usize) -> Result<u64> {
        self.ops.get(i).copied().ok_or_else(|| self.short())
    }

    /// 0 where a record ends early, as one of an older LLVM does.
    fn optional(&self, i: usize) -> u64 {
        self.ops.get(i).copied().unwrap_or_default()
    }

    fn name(&self) -> Result<StrtabRange> {
        Ok(StrtabRange { offset: self.required(0)?, size: self.required(1)? })
    }

    fn text(&self) -> Vec<u8> {
        self.ops.iter().map(|c| *c as u8).collect()
    }
}

/// Give every value and COMDAT its name.
pub(super) fn resolve_names<'a>(module: &mut Module<'a>, strtab: &'a [u8]) -> Option<()> {
    for value in &mut module.values {
        value.name = value.name_at.of(strtab)?;
    }
    for comdat in &mut module.comdats {
        comdat.name = comdat.name_at.of(strtab)?;
    }
    Some(())
}
