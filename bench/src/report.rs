//! Reports (docs/REPORT_FORMAT.md) and linked files, as several commands read them.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SymbolFlags, elf};
use serde_json::Value;

use crate::Result;

/// The JSON of a report or of an answer.
///
/// # Errors
/// The file is unreadable, or is not JSON.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// A list of the report. A missing one is an error, so that a report of another schema cannot pass.
pub(crate) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v Vec<Value>> {
    Ok(value[name].as_array().ok_or_else(|| format!("the report has no {name}"))?)
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

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
