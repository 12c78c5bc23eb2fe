//! Stubs: traps that replace functions, and the table that names the function of each.
//!
//! A stub is `ud2`, behind an `endbr64` if the original has one. In one byte it is `into`, which is invalid in 64-bit mode
//! (Intel SDM, "INT n"). So a stub is never larger than the original, and running it raises SIGILL.
//!
//! The table is a section `.debug_lto_prune_stubs`. An entry is a relocated 64-bit address, the size in 32 bits, and the name with
//! a NUL, without padding. The name of the section makes it debug information to linkers: with `--gc-sections` GNU ld drops
//! any other section that has relocations and no flags, and gold may refuse it.

use object::{elf, pod};

use super::input::{Input, SymbolPlace};
use super::parts::SplitSections;
use super::symbols::EmittedSymbols;
use super::write::relocation;
use crate::error::Result;

/// The name of the table, and the name of its relocation section.
pub(super) const TABLE: &[u8] = b".debug_lto_prune_stubs";
pub(super) const TABLE_RELOCATIONS: &[u8] = b".rela.debug_lto_prune_stubs";

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const UD2: [u8; 2] = [0x0f, 0x0b];
const INTO: u8 = 0xce;

/// The bytes of a stub: at most six.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    bytes: [u8; 6],
    len: u8,
}

/// Whether code begins with the trap of a stub.
pub(crate) fn is_stub(code: &[u8]) -> bool {
    let code = code.strip_prefix(&ENDBR64).unwrap_or(code);
    code.starts_with(&UD2) || code.first() == Some(&INTO)
}

impl Code {
    /// The stub of a function of these bytes. It is empty for an empty function.
    pub(super) fn of(original: &[u8]) -> Self {
        let has_endbr = original.starts_with(&ENDBR64) && original.len() > ENDBR64.len();
        let (prefix, room): (&[u8], usize) = match has_endbr {
            true => (&ENDBR64, original.len() - ENDBR64.len()),
            false => (&[], original.len()),
        };
        let trap: &[u8] = match room {
            0 => &[],
            1 => &[INTO],
            _ => &UD2,
        };
        let mut code = Code { bytes: [0; 6], len: 0 };
        for (slot, byte) in code.bytes.iter_mut().zip(prefix.iter().chain(trap)) {
            *slot = *byte;
            code.len += 1;
        }
        code
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The size of the stub's code in bytes.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.len)
    }
}

/// The contents of the table and of its relocation section.
#[derive(Debug, Default)]
pub(super) struct StubTable {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<u8>,
}

/// The table for the stubs of an object, by section and place. `explain-trap` reads it.
pub(super) fn table(
    input: &Input<'_>,
    split: &SplitSections<'_>,
    symbols: &EmittedSymbols,
) -> Result<StubTable> {
    // The symbols of each part (section, part). Global symbols come first, since the linker knows the function by them.
    let mut names: Vec<((u32, u32), bool, usize)> = Vec::new();
    for home in symbols.homes.iter().filter(|h| h.stub.is_some()) {
        let symbol = home.symbol as usize;
        let local = symbol < input.first_global;
        if let SymbolPlace::Section(section) = input.place(symbol)?
            && !input.symbol_name(symbol).is_empty()
        {
            names.push(((section, home.part), local, symbol));
        }
    }
    names.sort_unstable();
    let mut table = StubTable::default();
    for divided in &split.sections {
        for (part, code) in divided.stubs() {
            let place = (divided.section, part);
            let first = names.partition_point(|(p, _, _)| *p < place);
            let name = names.get(first).filter(|(p, _, _)| *p == place);
            let name = name.map_or(input.section_name(divided.section as usize), |n| input.symbol_name(n.2));
            let symbol = symbols
                .part(divided.section, part)
                .ok_or_else(|| input.about(divided.section as usize, "a stub in it has no section symbol"))?;
            let entry = relocation(table.bytes.len() as u64, elf::R_X86_64_64, symbol, 0);
            table.relocations.extend_from_slice(pod::bytes_of(&entry));
            table.bytes.extend_from_slice(&[0; 8]);
            table.bytes.extend_from_slice(&(code.size() as u32).to_le_bytes());
            table.bytes.extend_from_slice(name);
            table.bytes.push(0);
        }
    }
    Ok(table)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_larger_than_what_it_replaces() {
        let endbr = |rest: &[u8]| [&ENDBR64[..], rest].concat();
        let cases: &[(Vec<u8>, Vec<u8>)] = &[
            (vec![], vec![]),
            (vec![0xc3], vec![INTO]),
            (vec![0x31, 0xc0], UD2.to_vec()),
            (vec![0x31, 0xc0, 0xc3], UD2.to_vec()),
            (endbr(&[]), UD2.to_vec()),
            (endbr(&[0xc3]), endbr(&[INTO])),
            (endbr(&[0x31, 0xc0]), endbr(&UD2)),
            (endbr(&[0x31, 0xc0, 0xc3]), endbr(&UD2)),
        ];
        for (original, want) in cases {
            assert_eq!(Code::of(original).bytes(), want, "{original:x?}");
        }
    }
}
