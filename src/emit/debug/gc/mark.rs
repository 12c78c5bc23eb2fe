//! Mark phase of the collection of debugging information entries: which entries are kept.
//!
//! An entry is kept if it is a root, or if a kept entry refers to it. The parents of a kept entry are kept, and so are its children
//! unless it is complete without them, as a namespace is. LLVM's `DWARFLinker` follows the same rules.

use gimli::constants as dw;

use super::entries::{Addresses, EntryTable, invalid};
use crate::error::Result;
use crate::plan::DebugCollection;

/// By entry: whether it is kept, and whether a child of it is.
#[derive(Debug)]
pub(super) struct Marked {
    pub(super) kept: Vec<bool>,
    pub(super) has_child: Vec<bool>,
    work: Vec<u32>,
}

impl Marked {
    /// Mark all entries that the roots of this kind of collection reach.
    ///
    /// # Errors
    /// A reference to a place where no entry begins.
    pub(super) fn of(table: &EntryTable, collection: DebugCollection) -> Result<Marked> {
        let count = table.entries.len();
        let mut marked = Marked { kept: vec![false; count], has_child: vec![false; count], work: Vec::new() };
        for unit in &table.units {
            marked.roots(table, unit.entries.start, collection);
        }
        while let Some(position) = marked.work.pop() {
            marked.follow(table, position)?;
        }
        Ok(marked)
    }

    /// Keep the roots among the descendants of a unit's own entry, and that entry.
    fn roots(&mut self, table: &EntryTable, unit: u32, collection: DebugCollection) {
        self.keep(unit);
        let end = table.entries.get(unit as usize).map_or(unit, |entry| entry.next);
        let mut position = unit + 1;
        while position < end {
            let Some(entry) = table.entries.get(position as usize) else { return };
            let is_live = entry.addresses == Addresses::Live;
            let is_root = match collection {
                DebugCollection::RemovedCode => entry.addresses != Addresses::Removed && !entry.is_abstract,
                DebugCollection::Unreferenced => match entry.tag {
                    dw::DW_TAG_base_type
                    | dw::DW_TAG_imported_module
                    | dw::DW_TAG_imported_declaration
                    | dw::DW_TAG_imported_unit => true,
                    dw::DW_TAG_variable => entry.has_constant || is_live,
                    _ => is_live,
                },
            };
            if holds_others(entry.tag) {
                position += 1;
                continue;
            }
            if is_root {
                self.keep(position);
            } else {
                self.keep_live_inside(table, position);
            }
            position = entry.next;
        }
    }

    /// Keep the live functions that a removed function or an unreferenced type holds.
    fn keep_live_inside(&mut self, table: &EntryTable, position: u32) {
        let next = table.entries.get(position as usize).map_or(position, |entry| entry.next);
        for inner in position + 1..next {
            if table.entries.get(inner as usize).is_some_and(|entry| entry.addresses == Addresses::Live) {
                self.keep(inner);
            }
        }
    }

    fn keep(&mut self, position: u32) {
        if let Some(kept) = self.kept.get_mut(position as usize)
            && !std::mem::replace(kept, true)
        {
            self.work.push(position);
        }
    }

    /// Keep the entries that a kept entry needs.
    fn follow(&mut self, table: &EntryTable, position: u32) -> Result<()> {
        for reference in table.references_of(position) {
            self.keep(reference.entry.ok_or_else(|| invalid("a reference leads to where no entry begins"))?);
        }
        let Some(entry) = table.entries.get(position as usize) else { return Ok(()) };
        if entry.parent != position {
            self.keep(entry.parent);
            if let Some(slot) = self.has_child.get_mut(entry.parent as usize) {
                *slot = true;
            }
        }
        // A removed function may hold what a type outside of it refers to.
        if holds_others(entry.tag) || entry.addresses == Addresses::Removed {
            return Ok(());
        }
        let mut child = position + 1;
        while child < entry.next {
            let Some(this) = table.entries.get(child as usize) else { break };
            // Users see a static variable of a live function, with or without an address.
            if this.addresses != Addresses::Removed || this.tag == dw::DW_TAG_variable {
                self.keep(child);
            } else {
                self.keep_live_inside(table, child);
            }
            child = this.next;
        }
        Ok(())
    }
}

/// Whether entries of this tag are complete without their children.
fn holds_others(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_compile_unit
            | dw::DW_TAG_partial_unit
            | dw::DW_TAG_type_unit
            | dw::DW_TAG_namespace
            | dw::DW_TAG_module
    )
}
