//! File-local ids: dense `u32` newtypes, one for each table of a [`ModuleSummary`](crate::ModuleSummary).
//!
//! They are only valid in their module; the index of a link has program-wide ids.

use serde::{Deserialize, Serialize};

macro_rules! local_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its table.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of table entry `index`. Tables hold fewer than 2^32 entries: ELF counts are 32 bit.
            #[inline]
            pub fn new(index: usize) -> Self {
                Self(index as u32)
            }
        }
    };
}

local_id! {
    /// A symbol of a module. For native modules it equals the index in the ELF symbol table (entry 0 included).
    SymbolIdx
}
local_id! {
    /// An atom of a module, in order of (section index, offset); commons come last.
    AtomIdx
}
local_id! {
    /// A section group (`SHT_GROUP`) of a module, in section order.
    GroupIdx
}
local_id! {
    /// A value of a function summary; its table is the function's, not the module's.
    ValueIdx
}

/// A name: a range of [`ModuleSummary::names`](crate::ModuleSummary::names). Bytes, not text: ELF names need not be UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct NameRef {
    pub start: u32,
    pub len: u32,
}
