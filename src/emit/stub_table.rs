//! The table that says of which function each stub is.
//!
//! The table is a section `.debug_lto_prune_stubs` of each object with stubs: for each a relocated 64-bit address, 32 bits
//! of size, and the name with a NUL, without padding. Its name makes it debug information to linkers: GNU ld drops any
//! other section without flags that has relocations under `--gc-sections`, and gold refuses it if a stub goes there.
//!
//! Left out: what becomes a stub, which the plan says, and its body ([`stub_code`](super::stub_code)).

use object::{I64, U32, U64, elf, pod};

use super::input::{Input, LE, Rela, Shdr, SymbolPlace};
use super::parts::SplitSections;
use super::stub_code::Code;
use super::symbol_table::EmittedSymbols;
use crate::error::Result;

/// The name of the table, and of the relocations of it.
pub(super) const TABLE: &[u8] = b".debug_lto_prune_stubs";
pub(super) const TABLE_RELOCATIONS: &[u8] = b".rela.debug_lto_prune_stubs";

/// Contents of the table and of its relocations.
#[derive(Debug, Default)]
pub(super) struct StubTable {
    pub(super) bytes: Vec<u8>,
    pub(super) relocations: Vec<u8>,
}

/// A stub of an object, with the name of its function.
#[derive(Debug)]
pub(super) struct NamedStub<'n> {
    pub(super) code: Code,
    /// The function's, or where that has none its section's.
    pub(super) name: &'n [u8],
    /// The new index of its section symbol.
    symbol: u32,
}

/// The stubs of an object, by section and place.
pub(super) fn named<'n>(
    input: &Input<'n>,
    parts: &SplitSections<'_>,
    symbols: &EmittedSymbols,
) -> Result<Vec<NamedStub<'n>>> {
    // (section, run) -> the name by which the linker knows the function, or else the first one.
    let mut names: Vec<((u32, u32), bool, usize)> = Vec::new();
    for home in symbols.homes.iter().filter(|h| h.stub.is_some()) {
        let symbol = home.symbol as usize;
        let local = symbol < input.first_global;
        if let SymbolPlace::Section(section) = input.place(symbol)?
            && !input.symbol_name(symbol).is_empty()
        {
            names.push(((section, home.run), local, symbol));
        }
    }
    names.sort_unstable();
    let mut stubs = Vec::new();
    for divided in &parts.sections {
        for (run, code) in divided.stubs() {
            let place = (divided.section, run);
            let first = names.partition_point(|(p, _, _)| *p < place);
            let name = names.get(first).filter(|(p, _, _)| *p == place);
            let name = name.map_or(input.section_name(divided.section as usize), |n| input.symbol_name(n.2));
            let symbol = symbols
                .run(divided.section, run)
                .ok_or_else(|| input.about(divided.section as usize, "a stub in it has no section symbol"))?;
            stubs.push(NamedStub { code, name, symbol });
        }
    }
    Ok(stubs)
}

/// The table that names these stubs, for `explain-trap`.
pub(super) fn table(stubs: &[NamedStub<'_>]) -> StubTable {
    let mut table = StubTable::default();
    for stub in stubs {
        let mut entry = Rela {
            r_offset: U64::new(LE, table.bytes.len() as u64),
            r_info: U64::default(),
            r_addend: I64::default(),
        };
        entry.set_r_info(LE, false, stub.symbol, elf::R_X86_64_64);
        table.relocations.extend_from_slice(pod::bytes_of(&entry));
        table.bytes.extend_from_slice(&[0; 8]);
        table.bytes.extend_from_slice(&(stub.code.size() as u32).to_le_bytes());
        table.bytes.extend_from_slice(stub.name);
        table.bytes.push(0);
    }
    table
}

/// The header of the table; with `link` (the symbol table, the table) that of its relocations.
pub(super) fn header(name: u32, link: Option<(u32, u32)>) -> Shdr {
    let Some((symbols, table)) = link else { return new_header(name, elf::SHT_PROGBITS, 0) };
    Shdr {
        sh_link: U32::new(LE, symbols),
        sh_info: U32::new(LE, table),
        sh_addralign: U64::new(LE, 8),
        sh_entsize: U64::new(LE, size_of::<Rela>() as u64),
        ..new_header(name, elf::SHT_RELA, elf::SHF_INFO_LINK.0)
    }
}

/// The header of a section that the input has not; the alignment is 1.
pub(super) fn new_header(name: u32, kind: elf::SectionType, flags: u64) -> Shdr {
    Shdr {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, kind),
        sh_flags: U64::new(LE, elf::SectionFlags(flags)),
        sh_addr: U64::default(),
        sh_offset: U64::default(),
        sh_size: U64::default(),
        sh_link: U32::default(),
        sh_info: U32::default(),
        sh_addralign: U64::new(LE, 1),
        sh_entsize: U64::default(),
    }
}
