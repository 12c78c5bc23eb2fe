//! The summary that a module carries for ThinLTO: references, calls and flags, by value id.
//!
//! The blocks of ThinLTO and of full LTO have the same records. Known layouts are those of versions 9 (LLVM 14) to 14 (LLVM 23). Of another version
//! only the number is read, see [`SummaryIndex::is_read`]. Records that a newer LLVM may have added without a new version are noted. Heap
//! profiles and parameter accesses say nothing about liveness, and records of combined indexes are in no linker input.

use super::codes::{HEAP_PROFILE, block, summary as code};
use super::error::{BitcodeErrorKind, Result};
use super::linkage::{self, Linkage};
use super::module::MAX_NOTES;
use super::stream::{Event, Stream};
use crate::summary::Visibility;

const VERSIONS: std::ops::RangeInclusive<u64> = 9..=14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueFlags {
    pub linkage: Linkage,
    pub visibility: Visibility,
    pub not_eligible_to_import: bool,
    /// Kept because of `llvm.used` or inline assembly.
    pub live: bool,
    pub dso_local: bool,
    pub can_auto_hide: bool,
}

/// The access of a reference to a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Any,
    ReadOnly,
    WriteOnly,
}

/// A reference that is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueRef {
    /// A value id, or for values outside the module an id in [`SummaryIndex::guids`].
    pub value: u32,
    pub access: Access,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Function {
        instructions: u64,
        /// As in the file: bit 8 is an indirect call that no record names.
        flags: u64,
        calls: Vec<u32>,
        type_tests: Vec<u64>,
        /// The number of virtual calls by type metadata.
        virtual_calls: usize,
    },
    Variable {
        flags: u64,
        /// (value id of a function, offset in the vtable).
        slots: Vec<(u32, u64)>,
    },
    Alias {
        aliasee: u32,
    },
}

/// The summary of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryEntry {
    pub value: u32,
    pub flags: ValueFlags,
    pub refs: Vec<ValueRef>,
    pub kind: EntryKind,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SummaryIndex {
    pub version: u64,
    pub full_lto: bool,
    pub flags: u64,
    /// In the order of the file.
    pub entries: Vec<SummaryEntry>,
    /// GUIDs of value ids that are not global values of the module.
    pub guids: Vec<(u32, u64)>,
    /// Value ids of the vtables in the records of types.
    pub vtables: Vec<u32>,
    pub block_count: u64,
    pub unknown: Vec<String>,
}

impl SummaryIndex {
    /// Whether its records were read: the version and all record codes are known.
    pub fn is_read(&self) -> bool {
        VERSIONS.contains(&self.version) && self.unknown.is_empty()
    }

    fn note(&mut self, what: String) {
        if self.unknown.len() < MAX_NOTES {
            self.unknown.push(what);
        }
    }
}

/// Facts about a function in the records before its own.
#[derive(Default)]
struct PendingTypeIds {
    type_tests: Vec<u64>,
    virtual_calls: usize,
}

/// Read the block that has just been entered, to its end.
pub(super) fn read(stream: &mut Stream<'_>, full_lto: bool) -> Result<SummaryIndex> {
    let mut index = SummaryIndex { full_lto, ..SummaryIndex::default() };
    let mut pending = PendingTypeIds::default();
    loop {
        match stream.next()? {
            Event::Enter(block) => {
                index.note(format!("block {block} in a summary"));
                stream.skip_block();
            }
            Event::Leave | Event::End => return Ok(index),
            Event::Record(code) => {
                let block =
                    if full_lto { block::FULL_LTO_GLOBALVAL_SUMMARY } else { block::GLOBALVAL_SUMMARY };
                // The version comes first; without one there is no layout.
                let known = code == code::VERSION || VERSIONS.contains(&index.version);
                if known && record(code, stream.operands(), &mut index, &mut pending).is_none() {
                    return Err(stream.error(BitcodeErrorKind::ShortRecord { block, code }));
                }
            }
        }
    }
}

/// `None` if the record is too short, or a number in it too large.
fn record(code: u32, ops: &[u64], index: &mut SummaryIndex, pending: &mut PendingTypeIds) -> Option<()> {
    match code {
        code::VERSION => index.version = *ops.first()?,
        code::FLAGS => index.flags = *ops.first()?,
        code::BLOCK_COUNT => index.block_count = *ops.first()?,
        code::PERMODULE | code::PERMODULE_PROFILE | code::PERMODULE_RELBF => {
            function(code, ops, index, pending)?;
        }
        code::PERMODULE_GLOBALVAR_INIT_REFS => {
            let (value, flags) = head(ops, index)?;
            let refs = references(ops.get(3..)?, 0, 0)?;
            let kind = EntryKind::Variable { flags: *ops.get(2)?, slots: Vec::new() };
            index.entries.push(SummaryEntry { value, flags, refs, kind });
        }
        code::PERMODULE_VTABLE_GLOBALVAR_INIT_REFS => {
            let (value, flags) = head(ops, index)?;
            let count = usize::try_from(*ops.get(3)?).ok()?;
            let end = count.checked_add(4)?;
            let refs = references(ops.get(4..end)?, 0, 0)?;
            let slots = pairs(ops.get(end..)?).map(|(id, at)| Some((value_id(id)?, at)));
            let kind = EntryKind::Variable { flags: *ops.get(2)?, slots: slots.collect::<Option<_>>()? };
            index.entries.push(SummaryEntry { value, flags, refs, kind });
        }
        code::ALIAS => {
            let (value, flags) = head(ops, index)?;
            let kind = EntryKind::Alias { aliasee: value_id(*ops.get(2)?)? };
            index.entries.push(SummaryEntry { value, flags, refs: Vec::new(), kind });
        }
        code::TYPE_TESTS => pending.type_tests.extend_from_slice(ops),
        code::TYPE_TEST_ASSUME_VCALLS | code::TYPE_CHECKED_LOAD_VCALLS => {
            pending.virtual_calls += ops.len() / 2
        }
        code::TYPE_TEST_ASSUME_CONST_VCALL | code::TYPE_CHECKED_LOAD_CONST_VCALL => {
            ops.get(..2)?;
            pending.virtual_calls += 1;
        }
        code::VALUE_GUID => {
            let guid = match index.version {
                // Since version 11 the two halves are apart.
                11.. => *ops.get(1)? << 32 | (*ops.get(2)? & 0xffff_ffff),
                _ => *ops.get(1)?,
            };
            index.guids.push((value_id(*ops.first()?)?, guid));
        }
        code::TYPE_ID_METADATA => {
            for (_, id) in pairs(ops.get(2..)?) {
                index.vtables.push(value_id(id)?);
            }
        }
        code::CFI_FUNCTION_DEFS | code::CFI_FUNCTION_DECLS | code::PARAM_ACCESS => {}
        code if HEAP_PROFILE.contains(&code) => {}
        code => index.note(format!("summary record {code}")),
    }
    Some(())
}

fn function(code: u32, ops: &[u64], index: &mut SummaryIndex, pending: &mut PendingTypeIds) -> Option<()> {
    let (value, flags) = head(ops, index)?;
    let count = |at: usize| usize::try_from(*ops.get(at)?).ok();
    let (refs, read_only, write_only) = (count(4)?, count(5)?, count(6)?);
    let end = refs.checked_add(7)?;
    let refs = references(ops.get(7..end)?, read_only, write_only)?;
    let callees = ops.get(end..)?;
    // A profile adds a second number to each call.
    let step = if code == code::PERMODULE { 1 } else { 2 };
    if callees.len() % step != 0 {
        return None;
    }
    let calls = callees.iter().step_by(step).map(|id| value_id(*id)).collect::<Option<_>>()?;
    let PendingTypeIds { type_tests, virtual_calls } = std::mem::take(pending);
    let (instructions, fflags) = (*ops.get(2)?, *ops.get(3)?);
    let kind = EntryKind::Function { instructions, flags: fflags, calls, type_tests, virtual_calls };
    index.entries.push(SummaryEntry { value, flags, refs, kind });
    Some(())
}

/// The first two operands of every entry.
fn head(ops: &[u64], index: &mut SummaryIndex) -> Option<(u32, ValueFlags)> {
    let value = value_id(*ops.first()?)?;
    let raw = *ops.get(1)?;
    let bit = |n: u32| raw >> n & 1 != 0;
    let linkage = Linkage::of_summary(raw & 15);
    if linkage.is_none() {
        index.note(format!("summary linkage {}", raw & 15));
    }
    let flags = ValueFlags {
        linkage: linkage.unwrap_or(Linkage::External),
        visibility: linkage::visibility(raw >> 8 & 3).unwrap_or(Visibility::Default),
        not_eligible_to_import: bit(4),
        live: bit(5),
        dso_local: bit(6),
        can_auto_hide: bit(7),
    };
    Some((value, flags))
}

/// The list is in this order: any access, read only, write only.
fn references(ids: &[u64], read_only: usize, write_only: usize) -> Option<Vec<ValueRef>> {
    let first_write = ids.len().checked_sub(write_only)?;
    let first_read = first_write.checked_sub(read_only)?;
    let access = |i: usize| match i {
        i if i >= first_write => Access::WriteOnly,
        i if i >= first_read => Access::ReadOnly,
        _ => Access::Any,
    };
    ids.iter()
        .enumerate()
        .map(|(i, id)| Some(ValueRef { value: value_id(*id)?, access: access(i) }))
        .collect()
}

fn pairs(ops: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    ops.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
}

fn value_id(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}
