//! The symbols of an emitted object against those of its original.
//!
//! Each must be one of the original's, in order. It is defined at the same place of the same section, or undefined as
//! in the original, or undefined because the plan drops its definition. The check of relocations finds missing
//! symbols.

use goblin::elf::sym::{STB_LOCAL, STB_WEAK, Sym, st_bind};

use super::elf::{SHN_ABS, SHN_COMMON, SymbolSection, error};
use super::pair::Pair;
use crate::error::Result;

/// The symbols of the emitted object by those of the original.
#[derive(Debug)]
pub(super) struct SymbolMap {
    /// The new number of each symbol of the original; `u32::MAX` for a missing one.
    new_of_old: Vec<u32>,
}

impl SymbolMap {
    pub(super) fn new(pair: &Pair<'_>) -> Result<Self> {
        let count = pair.old.symbol_count();
        let mut map = SymbolMap { new_of_old: vec![u32::MAX; count] };
        let mut next_old = 0;
        for j in 0..pair.new.symbol_count() {
            let symbol = pair.new.symbol(j).ok_or_else(|| error("a symbol can't be read"))?;
            if !pair.new.has_name(&symbol) {
                return Err(error(format!("the name of symbol {j} is outside of its table")));
            }
            let local = st_bind(symbol.st_info) == STB_LOCAL;
            if local != (j < pair.new.first_global) {
                return Err(error(format!("symbol {j} is on the wrong side of sh_info")));
            }
            let Some(i) = (next_old..count).find(|i| is_same(pair, *i, j, &symbol)) else {
                if pair.is_of_part(j, &symbol) {
                    continue;
                }
                let name = String::from_utf8_lossy(pair.new.symbol_name(&symbol)).into_owned();
                return Err(error(format!("symbol {j} is none of the original's")).at_symbol(name));
            };
            if let Some(slot) = map.new_of_old.get_mut(i) {
                *slot = j as u32;
            }
            next_old = i + 1;
        }
        Ok(map)
    }

    /// Whether symbol `new` of the emitted object means what `old` of the original does.
    pub(super) fn agrees(&self, pair: &Pair<'_>, old: usize, new: usize) -> bool {
        match self.new_of_old.get(old) {
            Some(mapped) if *mapped as usize == new => true,
            // Two symbols of the original may differ in their number only.
            Some(_) => pair.new.symbol(new).is_some_and(|s| is_same(pair, old, new, &s)),
            None => false,
        }
    }
}

/// Whether symbol `j` of the emitted object may stand for symbol `i` of the original.
fn is_same(pair: &Pair<'_>, i: usize, j: usize, new: &Sym) -> bool {
    let Some(old) = pair.old.symbol(i) else { return false };
    if i == 0 || j == 0 {
        return i == j;
    }
    let (old_place, new_place) = (pair.old.place(i, &old), pair.new.place(j, new));
    let size = match new_place {
        SymbolSection::Section(t) if old.st_size != 0 => pair.stub_size(t).unwrap_or(old.st_size),
        _ => old.st_size,
    };
    let same_shape = (old.st_info, old.st_other, size) == (new.st_info, new.st_other, new.st_size);
    let plausible = match (old_place, new_place) {
        (SymbolSection::Section(s), SymbolSection::Section(t)) if pair.old.is_table(s) => {
            let types = (pair.old.sections.get(s), pair.new.sections.get(t));
            same_shape && matches!(types, (Some(a), Some(b)) if a.sh_type == b.sh_type)
        }
        (SymbolSection::Section(s), SymbolSection::Section(t)) => {
            let section = pair.parted_by_symbol(i);
            let first = || pair.parts_of(s).first().is_some_and(|p| p.new == t) && new.st_value == 0;
            same_shape
                && match section {
                    Some(_) => first(),
                    None => pair.is_same_place(s, old.st_value, t, new.st_value),
                }
        }
        (SymbolSection::Undefined, SymbolSection::Undefined) => {
            let weakened = weak(new) && old.st_other == new.st_other && is_global(&old);
            (same_shape && old.st_value == new.st_value) || (weakened && new.st_value == 0)
        }
        (SymbolSection::Section(s), SymbolSection::Undefined) => {
            let gone = pair.is_dropped(s, old.st_value) || pair.old.is_table(s);
            gone && may_be_undefined(pair, i, &old, new)
        }
        (SymbolSection::Special(SHN_COMMON), SymbolSection::Undefined) => {
            may_be_undefined(pair, i, &old, new)
        }
        (SymbolSection::Special(a), SymbolSection::Special(b)) => {
            a == b && same_shape && old.st_value == new.st_value
        }
        // The local signature of a group, its own definition dropped.
        (SymbolSection::Section(s), SymbolSection::Special(SHN_ABS)) => {
            pair.is_dropped(s, old.st_value)
                && !is_global(&old)
                && old.st_info == new.st_info
                && new.st_value == 0
        }
        _ => false,
    };
    plausible && pair.old.symbol_name(&old) == pair.new.symbol_name(new)
}

fn is_global(symbol: &Sym) -> bool {
    st_bind(symbol.st_info) != STB_LOCAL
}

fn weak(symbol: &Sym) -> bool {
    st_bind(symbol.st_info) == STB_WEAK
}

/// Whether a dropped definition may become a reference: another one prevails, or the reference is weak and for its
/// visibility only.
fn may_be_undefined(pair: &Pair<'_>, i: usize, old: &Sym, new: &Sym) -> bool {
    is_global(old)
        && (new.st_other, new.st_value, new.st_size) == (old.st_other, 0, 0)
        && (weak(new) || pair.expected.is_replaced(i))
}
