//! The names of divided sections, as gcc and clang name them with `-ffunction-sections` and `-fdata-sections`.
//!
//! Linkers and linker scripts place sections by their names (`.text.unlikely.*`, `.data.rel.ro.*`), so the name of a
//! section remains as prefix. Only sections with a compiler's name are renamed. The parts of other sections with jump
//! tables (`.rodata.some_name`) keep the name.

use summaries::native::sections::{CODE_OF_COMPILERS, DATA_OF_COMPILERS};

/// Whether compilers put several functions or objects into a section of this name.
pub(super) fn is_of_compilers(section: &[u8]) -> bool {
    CODE_OF_COMPILERS.contains(&section) || DATA_OF_COMPILERS.contains(&section)
}

/// The name for the part of a section that begins with `symbol`.
pub(super) fn of_part(section: &[u8], symbol: &[u8]) -> Vec<u8> {
    if symbol.is_empty() || !is_of_compilers(section) {
        return section.to_vec();
    }
    // gcc puts the cold part of `f` into `.text.unlikely.f`.
    let symbol = match section {
        b".text.unlikely" => without_cold(symbol),
        _ => symbol,
    };
    let dot: &[u8] = if section.ends_with(b".") { b"" } else { b"." };
    [section, dot, symbol].concat()
}

/// The function's name: `f` for `f.cold` and `f.cold.3`.
fn without_cold(symbol: &[u8]) -> &[u8] {
    let numberless = symbol.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |last| last + 1);
    let stem = match symbol.get(..numberless).and_then(|s| s.strip_suffix(b".")) {
        Some(stem) if numberless < symbol.len() => stem,
        _ => symbol,
    };
    stem.strip_suffix(b".cold").filter(|f| !f.is_empty()).unwrap_or(symbol)
}

#[cfg(test)]
mod tests {
    use super::of_part;

    #[test]
    fn names_are_those_of_compilers() {
        let name = |section: &str, symbol: &str| {
            String::from_utf8(of_part(section.as_bytes(), symbol.as_bytes())).unwrap_or_default()
        };
        assert_eq!(name(".text", "main"), ".text.main");
        assert_eq!(name(".text.hot", "f"), ".text.hot.f");
        assert_eq!(name(".text.unlikely", "f.cold"), ".text.unlikely.f");
        assert_eq!(name(".text.unlikely", "f.part.0.cold.12"), ".text.unlikely.f.part.0");
        assert_eq!(name(".text.unlikely", "f.constprop.0"), ".text.unlikely.f.constprop.0");
        assert_eq!(name(".text.unlikely.", "f"), ".text.unlikely.f");
        assert_eq!(name(".text", "f.cold"), ".text.f.cold");
        assert_eq!(name(".data.rel.ro.local", "table.1"), ".data.rel.ro.local.table.1");
        assert_eq!(name(".text.mine", "f"), ".text.mine");
        assert_eq!(name(".rodata", ""), ".rodata");
    }
}
