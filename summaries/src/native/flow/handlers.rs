//! Exception handling tables: the landing pads at which the unwinder enters a function.
//!
//! The call site table of the LSDA lists them (Itanium C++ ABI, "Exception Handling Tables"; LSB, `.gcc_except_table`). The code alone
//! does not tell a landing pad from the instruction after a call that never returns. A function whose table has another form is not
//! analysed. With `-fnon-call-exceptions` (Ada, D, Go) a faulting instruction throws, and the entries cover these instructions too. So
//! each covered instruction may lead to a landing pad. The types of exceptions are ignored.

use std::ops::Range;

use object::endian::LittleEndian as LE;

use super::module::{FlowModule, Lsda};
use super::unit::FlowResult;
use crate::ids::AtomIdx;
use crate::native::relocations::{Rela, symbol_of};
use crate::summary::{AtomKind, Definition, Reference, ReferenceKind, SymbolKind, Target};

/// The encoding that says there is no value (`DW_EH_PE_omit`).
const OMIT: u8 = 0xff;
/// The encoding of an unsigned number in LEB128 (`DW_EH_PE_uleb128`).
const ULEB: u8 = 0x01;
/// The encoding of an unsigned number in 4 bytes (`DW_EH_PE_udata4`).
const UDATA4: u8 = 0x03;

/// The tables of handlers of all atoms that have one.
pub(super) fn tables(module: &FlowModule<'_, '_>, references: &[Reference]) -> Vec<Lsda> {
    let mut unwind: Vec<u32> =
        module.relas.iter().map(|(s, _)| *s).filter(|s| module.is_unwind(*s)).collect();
    unwind.dedup();
    let table = |r: &Reference| match r.target {
        Target::Atom(to) => {
            let atom = module.atoms.get(to.index()).filter(|a| a.kind == AtomKind::Lsda)?;
            // With a symbol other than that of the section, the reference alone does not tell where the table begins.
            let by_section = |rela: &Rela| {
                module.symbols.get(symbol_of(rela).index()).is_some_and(|s| s.kind == SymbolKind::Section)
            };
            // The relocation before it in `.eh_frame` is the start of its FDE, and landing pads are relative to that place.
            let begins = |s: u32| {
                let begin = module.relas_of(s, 0, r.offset).last();
                begin.is_some_and(|(_, rela)| is_start(module, r.from, rela))
            };
            let mut own = unwind.iter().flat_map(|s| {
                module.relas_of(*s, r.offset, r.offset.saturating_add(1)).iter().map(|rela| (*s, &rela.1))
            });
            let is_known = own.all(|(s, rela)| by_section(rela) && begins(s));
            let offset = if is_known { r.addend } else { -1 };
            Some(Lsda { of: r.from, section: atom.section, offset })
        }
        Target::Symbol(symbol) => {
            let definition = module.symbols.get(symbol.index()).map(|s| s.definition);
            let Some(Definition::Atom(to)) = definition else { return None };
            let atom = module.atoms.get(to.index()).filter(|a| a.kind == AtomKind::Lsda)?;
            Some(Lsda { of: r.from, section: atom.section, offset: -1 })
        }
    };
    let of_unwind = references.iter().filter(|r| r.kind == ReferenceKind::Unwind);
    let mut found: Vec<Lsda> = of_unwind.filter_map(table).collect();
    found.sort_unstable();
    found
}

/// Whether a relocation refers to the first byte of an atom.
fn is_start(module: &FlowModule<'_, '_>, of: AtomIdx, rela: &Rela) -> bool {
    let symbol = module.symbols.get(symbol_of(rela).index());
    let (Some(symbol), Some(of)) = (symbol, module.atoms.get(of.index())) else { return false };
    let Definition::Atom(to) = symbol.definition else { return false };
    let same_section = module.atoms.get(to.index()).is_some_and(|to| to.section == of.section);
    let place = symbol.value.checked_add_signed(rela.r_addend.get(LE));
    same_section && place == Some(of.offset)
}

struct LsdaReader<'d>(&'d [u8]);

impl LsdaReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn value(&mut self, encoding: u8) -> Option<u64> {
        match encoding {
            ULEB => self.uleb(),
            UDATA4 => {
                let (value, rest) = self.0.split_first_chunk::<4>()?;
                self.0 = rest;
                Some(u64::from(u32::from_le_bytes(*value)))
            }
            _ => None,
        }
    }
}

/// An entry of a table of handlers that has a landing pad.
#[derive(Debug)]
pub(super) struct Handler {
    /// The landing pad, in bytes from the start of the section.
    pub(super) pad: u64,
    /// The code that may throw to the landing pad, in the same unit.
    pub(super) covered: Range<u64>,
}

/// The handlers in the table of a function that begins at `start` of its section; `None` if it is of another form.
fn handlers(table: &[u8], start: u64) -> Option<Vec<Handler>> {
    let mut reader = LsdaReader(table);
    if reader.byte()? != OMIT {
        return None;
    }
    if reader.byte()? != OMIT {
        reader.uleb()?;
    }
    let encoding = reader.byte()?;
    let length = usize::try_from(reader.uleb()?).ok()?;
    let mut sites = LsdaReader(reader.0.get(..length)?);
    let mut found = Vec::new();
    while !sites.0.is_empty() {
        let from = start.saturating_add(sites.value(encoding)?);
        let covered = from..from.saturating_add(sites.value(encoding)?);
        let pad = sites.value(encoding)?;
        sites.uleb()?;
        if pad != 0 {
            found.push(Handler { pad: start.saturating_add(pad), covered });
        }
    }
    Some(found)
}

impl FlowModule<'_, '_> {
    /// The handlers of an atom, as its table has them.
    pub(super) fn handlers(&self, atom: AtomIdx) -> FlowResult<Vec<Handler>> {
        let first = self.lsdas.partition_point(|l| l.of < atom);
        let mut own = self.lsdas.get(first..).unwrap_or(&[]).iter().take_while(|l| l.of == atom);
        let Some(lsda) = own.next() else { return Ok(Vec::new()) };
        let start = self.atoms.get(atom.index()).map(|a| a.offset);
        let bytes = self.tables.data(lsda.section).ok();
        let table = bytes.zip(usize::try_from(lsda.offset).ok()).and_then(|(b, o)| b.get(o..));
        // Each is of one FDE.
        let (Some(Some(found)), None) = (table.zip(start).map(|(t, s)| handlers(t, s)), own.next()) else {
            return Err("its table of handlers is of another form".to_owned());
        };
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::handlers;

    #[test]
    fn tables_of_both_forms() {
        let pads = |table: &[u8]| {
            let found = handlers(table, 0x100)?;
            Some(found.into_iter().map(|h| (h.covered.start, h.covered.end, h.pad)).collect::<Vec<_>>())
        };
        // Header, no types, uleb128: two sites, and one has a pad.
        assert_eq!(pads(&[0xff, 0xff, 1, 8, 0, 5, 0, 0, 5, 3, 0x90, 1]), None, "the last site has no action");
        assert_eq!(
            pads(&[0xff, 0xff, 1, 9, 0, 5, 0, 0, 5, 3, 0x90, 1, 0, 7]),
            Some(vec![(0x105, 0x108, 0x190)])
        );
        assert_eq!(
            pads(&[0xff, 0x9b, 20, 3, 13, 1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 1]),
            Some(vec![(0x101, 0x103, 0x109)])
        );
        assert_eq!(pads(&[0xff, 0xff, 1, 0]), Some(vec![]));
        for wrong in [&[0u8, 0xff, 1, 0][..], &[0xff, 0xff, 0x1b, 4, 0, 0, 0, 0], &[0xff, 0xff, 1, 9, 0], &[]]
        {
            assert_eq!(pads(wrong), None, "{wrong:x?}");
        }
    }
}
