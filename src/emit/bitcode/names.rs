//! The string table, with new names for dropped values.
//!
//! A dropped value gets a unique name. Under its old name a pass that makes calls by name (`getOrInsertLibFunc`,
//! `alloc-variant-zeroed`) could find the weak declaration, for which no member is extracted. LLVM 22 also rejects a
//! module where such an attribute names a function of another family. A definition of that name in another module
//! would count as used. The new name shows the kind of symbol, since a name is thread-local in all modules or in
//! none. Old names keep their places.

use summaries::bitcode::codes::{abbreviation, table};

use super::bits::Bits;
use super::error::{RewriteError, Unsupported};

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
