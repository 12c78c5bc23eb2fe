//! The symbol table of a linked file, as far as several commands read it.

use object::{Object, ObjectSymbol, SymbolFlags, elf};

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
