//! The changed records of global values: dropped values and stubs.
//!
//! A dropped value becomes a weak declaration (`extern_weak`) of its type under a new name ([`ValueNames`]), with
//! default visibility, no COMDAT and no section. Its value id stays in use, and no archive member is extracted for
//! it. An alias or ifunc becomes a declaration of its target, since aliases have no declarations. A stub keeps its
//! place and visibility, but no attribute that describes its old body. Source: LLVM,
//! `BitcodeReader::parseGlobalVarRecord`, `parseFunctionRecord`, `parseGlobalIndirectSymbolRecord`. Two operands for
//! the name come first.

use summaries::bitcode::codes::{abbreviation, module as code, table};

use super::bits::Bits;
use super::error::{RewriteError, Unsupported};
use super::survey::Types;

const EXTERN_WEAK: u64 = 7;

/// The place of the type in the record of any value, behind the name.
const TYPE: usize = 2;

/// Places in a record of a variable.
mod variable {
    pub(super) const CONSTANT: usize = 3;
    pub(super) const LINKAGE: usize = 5;
    pub(super) const ALIGNMENT: usize = 6;
    pub(super) const THREAD_LOCAL: usize = 9;
    pub(super) const LENGTH: usize = 16;
    /// The flag of [`CONSTANT`] that says that the type is the variable's own and not a pointer to it.
    pub(super) const EXPLICIT_TYPE: u64 = 2;
}

/// Places in a record of a function.
mod function {
    pub(super) const CALLING_CONVENTION: usize = 3;
    pub(super) const IS_DECLARATION: usize = 4;
    pub(super) const LINKAGE: usize = 5;
    pub(super) const ATTRIBUTES: usize = 6;
    pub(super) const COLLECTOR: usize = 10;
    pub(super) const PROLOGUE: usize = 12;
    pub(super) const PREFIX: usize = 15;
    pub(super) const PERSONALITY: usize = 16;
    pub(super) const ADDRESS_SPACE: usize = 18;
    pub(super) const LENGTH: usize = 19;
}

/// Places in a record of an alias or ifunc, thread-local being an alias's only.
mod indirect {
    pub(super) const ADDRESS_SPACE: usize = 3;
    pub(super) const THREAD_LOCAL: usize = 8;
}

/// A record with these operands at these places, zeros elsewhere.
fn record(name: (u64, u64), ty: u64, length: usize, fields: &[(usize, u64)]) -> Vec<u64> {
    let mut out = vec![name.0, name.1, ty];
    out.resize(length, 0);
    for (place, value) in fields {
        if let Some(field) = out.get_mut(*place) {
            *field = *value;
        }
    }
    out
}

/// The declaration that stands for a dropped value: its record's code and operands. `None` if `ops` are not those of a record of a value.
pub(super) fn dropped(
    code: u32,
    ops: &[u64],
    types: &Types,
    names: &mut ValueNames<'_>,
) -> Option<(u32, Vec<u64>)> {
    let at = |place: usize| ops.get(place).copied();
    let ty = at(TYPE)?;
    let mut record = |kind: DroppedSymbolKind, length: usize, fields: &[(usize, u64)]| {
        record(names.add(kind), ty, length, fields)
    };
    let kind_of = |thread_local: u64| {
        if thread_local == 0 { DroppedSymbolKind::Variable } else { DroppedSymbolKind::ThreadLocal }
    };
    match code {
        code::GLOBALVAR => {
            // A name is thread-local for all or for none.
            let thread_local = at(variable::THREAD_LOCAL).unwrap_or_default();
            let fields = [
                (variable::CONSTANT, at(variable::CONSTANT)?),
                (variable::LINKAGE, EXTERN_WEAK),
                (variable::ALIGNMENT, at(variable::ALIGNMENT)?),
                (variable::THREAD_LOCAL, thread_local),
            ];
            Some((code, record(kind_of(thread_local), variable::LENGTH, &fields)))
        }
        code::FUNCTION => {
            let fields = [
                (function::CALLING_CONVENTION, at(function::CALLING_CONVENTION)?),
                (function::IS_DECLARATION, 1),
                (function::LINKAGE, EXTERN_WEAK),
                (function::ADDRESS_SPACE, at(function::ADDRESS_SPACE).unwrap_or_default()),
            ];
            Some((code, record(DroppedSymbolKind::Function, function::LENGTH, &fields)))
        }
        code::ALIAS | code::IFUNC => {
            let type_id = usize::try_from(ty).ok()?;
            let space = at(indirect::ADDRESS_SPACE)?;
            if *types.functions.get(type_id)? {
                let fields = [
                    (function::IS_DECLARATION, 1),
                    (function::LINKAGE, EXTERN_WEAK),
                    (function::ADDRESS_SPACE, space),
                ];
                return Some((
                    code::FUNCTION,
                    record(DroppedSymbolKind::Function, function::LENGTH, &fields),
                ));
            }
            let thread_local = at(indirect::THREAD_LOCAL).filter(|_| code == code::ALIAS).unwrap_or_default();
            let fields = [
                (variable::CONSTANT, variable::EXPLICIT_TYPE | space << 2),
                (variable::LINKAGE, EXTERN_WEAK),
                (variable::THREAD_LOCAL, thread_local),
            ];
            Some((code::GLOBALVAR, record(kind_of(thread_local), variable::LENGTH, &fields)))
        }
        _ => None,
    }
}

/// The record of a function whose body is a stub: no attributes (`readnone`, `speculatable`, `willreturn` would be false), nothing that its body alone needs.
pub(super) fn stubbed(ops: &[u64]) -> Vec<u64> {
    let mut out = ops.to_vec();
    for place in [
        function::ATTRIBUTES,
        function::COLLECTOR,
        function::PROLOGUE,
        function::PREFIX,
        function::PERSONALITY,
    ] {
        if let Some(field) = out.get_mut(place) {
            *field = 0;
        }
    }
    out
}

/// The prefix of every new name.
const PREFIX: &str = "lto-prune.dropped.";

/// Abbreviation ids in the block, in bits.
pub(super) const WIDTH: u32 = 3;
/// The encoding of a blob, in an abbreviation.
const ENCODING_BLOB: u64 = 5;

/// The kind of a dropped symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DroppedSymbolKind {
    Function,
    Variable,
    ThreadLocal,
}

#[derive(Debug)]
pub(super) struct ValueNames<'a> {
    old: &'a [u8],
    added: Vec<u8>,
    count: u64,
}

impl<'a> ValueNames<'a> {
    pub(super) fn new(old: &'a [u8]) -> Self {
        ValueNames { old, added: Vec::new(), count: 0 }
    }

    /// A new name: its offset and size.
    pub(super) fn add(&mut self, kind: DroppedSymbolKind) -> (u64, u64) {
        let letter = match kind {
            DroppedSymbolKind::Function => 'f',
            DroppedSymbolKind::Variable => 'v',
            DroppedSymbolKind::ThreadLocal => 't',
        };
        let name = format!("{PREFIX}{letter}{}", self.count);
        self.count += 1;
        let offset = self.old.len() + self.added.len();
        self.added.extend_from_slice(name.as_bytes());
        (offset as u64, name.len() as u64)
    }

    /// The text of all names, in two parts.
    pub(super) fn text(&self) -> [&[u8]; 2] {
        [self.old, &self.added]
    }

    /// Write the STRTAB block, with abbreviation ids of [`WIDTH`] bits.
    pub(super) fn write(&self, out: &mut Bits) -> Result<(), RewriteError> {
        let length = self.old.len() + self.added.len();
        if u32::try_from(length).is_err() {
            return Err(Unsupported::Size.into());
        }
        out.fixed(abbreviation::DEFINE, WIDTH);
        // Two operands: a literal (1, then its value), and one with an encoding (0, then which).
        out.vbr(2, 5);
        out.fixed(1, 1);
        out.vbr(table::BLOB.into(), 8);
        out.fixed(0, 1);
        out.fixed(ENCODING_BLOB, 3);
        out.fixed(abbreviation::FIRST, WIDTH);
        out.vbr(length as u64, 6);
        out.align32();
        for part in [self.old, &self.added] {
            out.copy(part, 0, part.len() as u64 * 8);
        }
        out.align32();
        Ok(())
    }
}
