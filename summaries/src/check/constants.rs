//! Whether the tables of constants keep what the solver goes by: conditions, registers, symbols and atoms in range, sizes that
//! an integer has, everything in its stated order.
//!
//! What is not checked: that the conditions and accesses describe the code.

use super::CheckError;
use crate::constant::{Cell, FunctionConstants, Integer, Outcome, PARAMETERS, Quantity, Source};
use crate::summary::{AtomKind, ModuleSummary, Target};

pub(super) fn check(summary: &ModuleSummary) -> Result<(), CheckError> {
    for (i, of) in summary.constants.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|b| summary.constants.get(b));
        if before.is_some_and(|b| b.atom >= of.atom) {
            return Err(CheckError::Order("constants", i));
        }
        let function = summary.functions.binary_search_by_key(&of.atom, |f| f.atom);
        if function.is_err() || !(Checker { summary, of }).fits() {
            return Err(CheckError::Constants(i));
        }
    }
    for (i, contents) in summary.contents.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|b| summary.contents.get(b));
        let end = |offset: u64, bytes: &[u8]| offset.checked_add(bytes.len() as u64);
        let apart = before.is_none_or(|b| {
            let behind = end(b.offset, &b.bytes).is_some_and(|end| end <= contents.offset);
            b.atom < contents.atom || b.atom == contents.atom && behind
        });
        if !apart {
            return Err(CheckError::Order("contents", i));
        }
        let fits = summary.atoms.get(contents.atom.index()).is_some_and(|atom| {
            let inside = end(contents.offset, &contents.bytes)
                .is_some_and(|end| end <= atom.offset.saturating_add(atom.size));
            matches!(atom.kind, AtomKind::Data | AtomKind::ReadOnlyData)
                && contents.offset >= atom.offset
                && inside
        });
        if !fits {
            return Err(CheckError::Contents(i));
        }
    }
    Ok(())
}

struct Checker<'s> {
    summary: &'s ModuleSummary,
    of: &'s FunctionConstants,
}

impl Checker<'_> {
    fn fits(&self) -> bool {
        let of = self.of;
        of.conditions.iter().all(|c| self.quantity(&c.quantity) && matches!(c.size, 1 | 2 | 4 | 8))
            && of.passes.is_sorted_by(|a, b| (a.section, a.offset) < (b.section, b.offset))
            && of.passes.iter().all(|p| {
                self.needs(&p.needs)
                    && p.actuals.is_sorted_by(|a, b| a.0 < b.0)
                    && p.actuals.iter().all(|(r, i)| PARAMETERS.contains(r) && self.integer(i))
            })
            && of.puts.is_sorted()
            && of.puts.iter().all(|p| {
                self.cell(&p.cell) && self.needs(&p.needs) && p.value.iter().all(|i| self.integer(i))
            })
            && of.gets.is_sorted_by(|a, b| a < b)
            && of.gets.iter().all(|c| self.cell(c))
            && of.direct.is_sorted_by(|a, b| a < b)
    }

    fn cell(&self, cell: &Cell) -> bool {
        cell.size > 0
            && match cell.target {
                Target::Symbol(symbol) => symbol.index() < self.summary.symbols.len(),
                Target::Atom(atom) => atom.index() < self.summary.atoms.len(),
            }
    }

    fn quantity(&self, quantity: &Quantity) -> bool {
        let source = match &quantity.source {
            Source::Parameter(register) => PARAMETERS.contains(register),
            Source::Memory(cell) => self.cell(cell) && cell.size <= 8,
        };
        source && (1..=8).contains(&quantity.bytes) && quantity.signed <= 8
    }

    fn integer(&self, integer: &Integer) -> bool {
        match integer {
            Integer::Constant(_) => true,
            Integer::Of(quantity) => self.quantity(quantity),
        }
    }

    fn needs(&self, needs: &[Outcome]) -> bool {
        needs.iter().all(|n| (n.condition as usize) < self.of.conditions.len())
    }
}
