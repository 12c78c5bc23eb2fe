//! The summary of a module for the thin link, changed: entries of dropped values gone, with the records that lead up to them, and those of
//! stubs without references.
//!
//! A kept vtable or alias that needs a dropped value is an error, because that would be a wrong prune. Other
//! references and calls may come from metadata (profiles, `!callees`, annotations), which needs no definition. In the
//! thin link such an edge leads to an undefined function. Verification checks the IR ([`crate::verify::bitcode`]).
//! Records of heap profiles and parameters come before their entry, like type tests. The layouts are those of
//! `summaries::bitcode::index`, and unknown versions are rejected.

use summaries::bitcode::codes::summary as code;
use summaries::bitcode::stream::Event;
use summaries::bitcode::symbols::ValueAt;

use super::copier::BitstreamCopier;
use super::error::{RewriteError, Unsupported, ValueFate};

/// The flag of an entry that no other module may import.
const NOT_ELIGIBLE_TO_IMPORT: u64 = 1 << 4;
const STUB_SIZE: u64 = 2;

/// Records that belong to the next entry of a function.
fn leads_up(code: u32) -> bool {
    matches!(
        code,
        code::TYPE_TESTS
            ..=code::TYPE_CHECKED_LOAD_CONST_VCALL
                | code::PARAM_ACCESS
                | code::PERMODULE_CALLSITE_INFO
                | code::PERMODULE_ALLOC_INFO
    )
}

fn is_function(code: u32) -> bool {
    matches!(code, code::PERMODULE | code::PERMODULE_PROFILE | code::PERMODULE_RELBF)
}

fn is_entry(code: u32) -> bool {
    is_function(code)
        || matches!(
            code,
            code::PERMODULE_GLOBALVAR_INIT_REFS | code::PERMODULE_VTABLE_GLOBALVAR_INIT_REFS | code::ALIAS
        )
}

/// The fate of each function, in the order of the summary's entries. It is needed before the entry itself is read.
pub(super) fn fates(
    index: &summaries::bitcode::index::SummaryIndex,
    module: u32,
    action: &impl Fn(u32) -> ValueFate,
) -> Result<Vec<ValueFate>, RewriteError> {
    use summaries::bitcode::index::EntryKind;
    let mut functions = Vec::new();
    for entry in &index.entries {
        let fate = action(entry.value);
        let (slots, aliasee) = match &entry.kind {
            EntryKind::Function { .. } => {
                functions.push(fate);
                continue;
            }
            EntryKind::Variable { slots, .. } => (&slots[..], None),
            EntryKind::Alias { aliasee } => (&[][..], Some(*aliasee)),
        };
        if fate != ValueFate::Keep {
            continue;
        }
        let mut needed = slots.iter().map(|(f, _)| *f).chain(aliasee);
        if let Some(to) = needed.find(|to| action(*to) == ValueFate::Drop) {
            return Err(RewriteError::Refers { from: ValueAt { module, value: entry.value }, to });
        }
    }
    Ok(functions)
}

/// Rewrite the current block. `functions` is the result of [`fates`].
pub(super) fn rewrite(
    copier: &mut BitstreamCopier<'_>,
    functions: Vec<ValueFate>,
    action: &impl Fn(u32) -> ValueFate,
) -> Result<(), RewriteError> {
    let mut functions = functions.into_iter();
    let mut next = functions.next();
    loop {
        let code = match copier.next()? {
            Event::Record(code) => code,
            Event::Leave => return copier.close(&[]),
            Event::Enter(_) | Event::End => return Err(Unsupported::Place("a block in a summary").into()),
        };
        if leads_up(code) {
            if next.is_some_and(|fate| fate != ValueFate::Keep) {
                copier.drop_record();
            }
        } else if is_entry(code) {
            let ops = copier.operands();
            let id = ops.first().and_then(|id| u32::try_from(*id).ok());
            match id.map_or(ValueFate::Keep, action) {
                ValueFate::Keep => {}
                ValueFate::Drop => copier.drop_record(),
                ValueFate::Stub if is_function(code) => {
                    let flags = ops.get(1).copied().unwrap_or_default() | NOT_ELIGIBLE_TO_IMPORT;
                    // It has no references, and so none that is only read or only written.
                    let stub = [id.unwrap_or_default().into(), flags, STUB_SIZE, 0, 0, 0, 0];
                    copier.replace(code, &stub);
                }
                ValueFate::Stub => return Err(Unsupported::Place("a summary's entry").into()),
            }
            if is_function(code) {
                next = functions.next();
            }
        } else if code == code::TYPE_ID_METADATA {
            type_id(copier, action);
        }
    }
}

/// Rewrite the vtables of a type: a name in two operands, then pairs of an address point and a value id.
fn type_id(copier: &mut BitstreamCopier<'_>, action: &impl Fn(u32) -> ValueFate) {
    let ops = copier.operands();
    let (name, pairs) = ops.split_at_checked(2).unwrap_or((ops, &[]));
    let goes = |pair: &&[u64]| {
        let id = pair.get(1).and_then(|id| u32::try_from(*id).ok());
        id.is_some_and(|id| action(id) == ValueFate::Drop)
    };
    let kept: Vec<&[u64]> = pairs.chunks(2).filter(|pair| !goes(pair)).collect();
    if kept.len() == pairs.chunks(2).len() {
        return;
    }
    if kept.is_empty() {
        copier.drop_record();
        return;
    }
    let ops = [name, &kept.concat()].concat();
    copier.replace(code::TYPE_ID_METADATA, &ops);
}
