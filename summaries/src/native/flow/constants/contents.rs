//! What small objects of data hold in the beginning.
//!
//! Safe because the bytes are those of the section, and an object of which the loader or the linker writes any byte is left out. So
//! are objects without a symbol, large ones, and what other objects overlap.

use object::endian::LittleEndian as LE;

use super::super::Module;
use crate::constant::Contents;
use crate::summary::{AtomKind, Definition, SymbolKind, atom_flags};

/// The largest object, in bytes: a structure of options fits, a table doesn't.
const LARGEST: u64 = 256;
/// The widest field of a relocation, in bytes.
const WIDEST: u64 = 8;

impl Module<'_, '_> {
    pub(in super::super) fn contents(&self) -> Vec<Contents> {
        let mut all: Vec<Contents> = Vec::new();
        for symbol in self.symbols {
            let Definition::Atom(index) = symbol.definition else { continue };
            let Some(atom) = self.atoms.get(index.index()) else { continue };
            let fits = symbol.kind == SymbolKind::Object
                && matches!(atom.kind, AtomKind::Data | AtomKind::ReadOnlyData)
                && !atom.has(atom_flags::MERGE)
                && (1..=LARGEST).contains(&symbol.size);
            let Some(end) = symbol.value.checked_add(symbol.size).filter(|_| fits) else { continue };
            if symbol.value < atom.offset || end > atom.offset.saturating_add(atom.size) {
                continue;
            }
            let relocated = self.relas_of(atom.section, symbol.value.saturating_sub(WIDEST - 1), end);
            let touches = |offset: u64| offset.saturating_add(WIDEST) > symbol.value && offset < end;
            if relocated.iter().any(|(_, r)| touches(r.r_offset.get(LE))) {
                continue;
            }
            let Ok(data) = self.tables.data(atom.section) else { continue };
            let range = usize::try_from(symbol.value).ok().zip(usize::try_from(end).ok());
            let Some(bytes) = range.and_then(|(start, end)| data.get(start..end)) else { continue };
            all.push(Contents { atom: index, offset: symbol.value, bytes: bytes.to_vec() });
        }
        // Of two at one place the longer one stands for both.
        all.sort_by_key(|c| (c.atom, c.offset, std::cmp::Reverse(c.bytes.len())));
        let mut kept: Vec<Contents> = Vec::with_capacity(all.len());
        for contents in all {
            let apart = kept.last().is_none_or(|b| {
                b.atom != contents.atom || b.offset + b.bytes.len() as u64 <= contents.offset
            });
            if apart {
                kept.push(contents);
            }
        }
        kept
    }
}
