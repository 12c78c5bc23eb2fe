//! Slots of `.debug_addr` (DWARF 5, 7.27): addresses that lists name by an index of a byte or two, and not by eight bytes each.
//!
//! An object has one table of them, which all its units share. It is there (LLVM writes one), or emission made an empty one.

use std::collections::BTreeMap;

use super::entries::{EntryTable, invalid};
use crate::emit::debug::view::{DebugSection, decode};
use crate::emit::input::{LE, Rela};
use crate::emit::write::relocation;
use crate::error::Result;

/// The size of the header of a table, in bytes: the length, the version, and the sizes of an address and of a segment selector.
pub(super) const HEADER: u64 = 8;
/// A table that has no slots yet.
const EMPTY_TABLE: [u8; 8] = [4, 0, 0, 0, 5, 0, 8, 0];
/// A distance of fewer bytes is at most two bytes in LEB128.
const REACH: u64 = 1 << 14;

/// A slot, and its made-up address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressSlot {
    pub(super) index: u64,
    pub(super) address: u64,
}

impl AddressSlot {
    /// Whether `address` is behind it in the same section, and not far away.
    pub(super) fn reaches(self, address: u64) -> bool {
        let section = |address: u64| decode(address).map(|(section, _)| section);
        address.checked_sub(self.address).is_some_and(|far| far < REACH)
            && section(address) == section(self.address)
    }
}

/// The table of an object, to which slots are added.
#[derive(Debug)]
pub(super) struct AddressSlots {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<Rela>,
    /// Indices of slots, by made-up address.
    by_address: BTreeMap<u64, u64>,
    /// No unit refers to the table so far.
    pub(super) is_new: bool,
}

impl AddressSlots {
    /// The table of these units; `None` unless all of them share one table.
    pub(super) fn of(section: &DebugSection<'_>, entries: &EntryTable) -> Option<AddressSlots> {
        let is_empty = section.raw.is_empty();
        let bytes = if is_empty { EMPTY_TABLE.to_vec() } else { section.raw.to_vec() };
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let is_one = u32::from_le_bytes(*length) as usize == rest.len() && rest.get(..4)? == [5, 0, 8, 0];
        let bases = || entries.units.iter().map(|unit| unit.of.addresses);
        // readelf wants a table for each unit.
        let is_new = is_empty && entries.units.len() == 1 && bases().all(|base| base.is_none());
        let are_alike = entries.units.iter().all(|unit| unit.version == 5);
        if !is_one || !are_alike || !is_new && !bases().all(|base| base == Some(HEADER)) {
            return None;
        }
        let slots = section.linked.get(HEADER as usize..).unwrap_or(&[]).as_chunks::<8>().0;
        let slots = slots.iter().map(|slot| u64::from_le_bytes(*slot)).zip(0u64..);
        let by_address = slots.filter(|(address, _)| decode(*address).is_some()).collect();
        Some(AddressSlots { bytes, relocations: section.relocations.to_vec(), by_address, is_new })
    }

    /// The last slot at or before this address, if the distance is short.
    pub(super) fn near(&self, address: u64) -> Option<AddressSlot> {
        let (&at, &index) = self.by_address.range(..=address).next_back()?;
        Some(AddressSlot { index, address: at }).filter(|slot| slot.reaches(address))
    }

    /// Make a slot. `of` is a relocation against the section of the slot, for the address `target`.
    ///
    /// # Errors
    /// The table is too long.
    pub(super) fn add(&mut self, address: u64, of: &Rela, target: u64) -> Result<()> {
        let (at, symbol, kind) = (self.bytes.len() as u64, of.r_sym(LE, false), of.r_type(LE, false));
        let addend = of.r_addend.get(LE).wrapping_add(address.wrapping_sub(target) as i64);
        self.by_address.insert(address, self.count());
        self.relocations.push(relocation(at, kind, symbol, addend));
        self.bytes.extend_from_slice(&[0; 8]);
        let length =
            u32::try_from(self.bytes.len() - 4).map_err(|_| invalid("there are too many addresses"))?;
        if let Some(field) = self.bytes.first_chunk_mut::<4>() {
            *field = length.to_le_bytes();
        }
        Ok(())
    }

    /// How many slots there are, which is the index of the next one.
    pub(super) fn count(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(HEADER) / 8
    }
}
