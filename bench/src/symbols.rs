//! What several commands read of a linked file: sizes, and the symbol table.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SymbolFlags, elf};

use crate::Result;

/// Bytes of `.text` in a linked file.
pub(crate) fn text_size(path: &Path) -> Result<u64> {
    let data = fs::read(path)?;
    Ok(object::File::parse(&*data)?.section_by_name(".text").map_or(0, |s| s.size()))
}

/// The functions with a size: first byte, one past the last, and name; sorted.
pub(crate) fn sized_functions(file: &object::File<'_>) -> Vec<(u64, u64, String)> {
    let mut all = Vec::new();
    for symbol in file.symbols() {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let function = matches!(st_info.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        if function && symbol.size() > 0 && !symbol.is_undefined() {
            let end = symbol.address().saturating_add(symbol.size());
            all.push((symbol.address(), end, symbol.name().unwrap_or("").to_owned()));
        }
    }
    all.sort();
    all
}
