//! The changed records of global values: dropped values and stubs.
//!
//! A dropped value becomes a weak declaration (`extern_weak`) of its type under a new name ([`super::names`]), with
//! default visibility, no COMDAT and no section. Its value id stays in use, and no archive member is extracted for
//! it. An alias or ifunc becomes a declaration of its target, since aliases have no declarations. A stub keeps its
//! place and visibility, but no attribute that describes its old body. Source: LLVM,
//! `BitcodeReader::parseGlobalVarRecord`, `parseFunctionRecord`, `parseGlobalIndirectSymbolRecord`. Two operands for
//! the name come first.

use summaries::bitcode::codes::module as code;

use super::names::{DroppedSymbolKind, ValueNames};
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
