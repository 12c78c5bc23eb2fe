//! The constants of the oracle: every rule again and again over plain maps. It shares no code with the solver.

use std::collections::{BTreeMap, BTreeSet};

use super::defined;
use summaries::constant::{Cell, Comparison, Integer, Outcome, Quantity, Source};
use summaries::relation::CallSite;
use summaries::{AtomKind, ModuleSummary};

/// `None`: anything. Nothing so far is no entry.
type Value = Option<u64>;

#[derive(Default)]
pub(super) struct Integers {
    parameters: BTreeMap<(usize, u8), Value>,
    /// By atom and offset; others are not followed.
    memory: BTreeMap<(u32, i64), Value>,
}

impl Integers {
    /// All places of 4 bytes that only direct accesses of 4 bytes name, in data that nothing refers to.
    pub(super) fn start(summary: &ModuleSummary) -> Integers {
        let mut accesses: BTreeSet<(u32, i64, u32)> = BTreeSet::new();
        for of in &summary.constants {
            for cell in of.puts.iter().map(|p| p.cell).chain(of.gets.iter().copied()) {
                accesses.extend(defined(summary, cell.target).map(|a| (a, cell.offset, cell.size)));
            }
        }
        let referred: BTreeSet<u32> =
            summary.references.iter().filter_map(|r| defined(summary, r.target)).collect();
        let mut integers = Integers::default();
        for (atom, offset, size) in &accesses {
            let others = accesses.iter().filter(|o| {
                o.0 == *atom && o.1 < offset + i64::from(*size) && *offset < o.1 + i64::from(o.2)
            });
            let data = summary.atoms[*atom as usize].kind == AtomKind::Data;
            if others.count() > 1 || referred.contains(atom) || !data {
                continue;
            }
            let held = summary
                .contents
                .iter()
                .find(|c| c.atom.0 == *atom)
                .map(|c| c.bytes.clone())
                .unwrap_or_default();
            let from = *offset as usize;
            let Some(bytes) = held.get(from..from + *size as usize) else { continue };
            let mut value = 0u64;
            for (i, byte) in bytes.iter().enumerate() {
                value += u64::from(*byte) << (8 * i);
            }
            integers.memory.insert((*atom, *offset), Some(value));
        }
        integers
    }

    fn add<K: Ord>(map: &mut BTreeMap<K, Value>, key: K, value: Value) -> bool {
        match map.get(&key) {
            None => map.insert(key, value).is_none(),
            Some(None) => false,
            Some(old) if *old == value => false,
            Some(_) => map.insert(key, None).is_some(),
        }
    }

    pub(super) fn open(&mut self, f: usize) -> bool {
        let registers = [1, 2, 6, 7, 8, 9];
        registers
            .into_iter()
            .fold(false, |changed, r| changed | Self::add(&mut self.parameters, (f, r), None))
    }

    /// The value of a source; outside `None` is nothing so far.
    fn source(&self, summary: &ModuleSummary, f: usize, source: Source) -> Option<Value> {
        match source {
            Source::Parameter(register) => self.parameters.get(&(f, register)).copied(),
            Source::Memory(Cell { target, offset, .. }) => {
                let place = defined(summary, target).map(|a| (a, offset));
                Some(place.and_then(|p| self.memory.get(&p).copied()).flatten())
            }
        }
    }

    fn quantity(&self, summary: &ModuleSummary, f: usize, q: &Quantity) -> Option<Value> {
        assert_eq!((q.signed, q.mask), (0, u64::MAX), "the random programs make no others");
        let low = |v: u64| if q.bytes == 8 { v } else { v % (1 << (8 * q.bytes)) };
        self.source(summary, f, q.source).map(|v| v.map(low))
    }

    fn integer(&self, summary: &ModuleSummary, f: usize, integer: &Integer) -> Option<Value> {
        match integer {
            Integer::Constant(value) => Some(Some(*value)),
            Integer::Of(quantity) => self.quantity(summary, f, quantity),
        }
    }

    fn may_be(&self, summary: &ModuleSummary, f: usize, need: &Outcome) -> bool {
        let of = summary.constants.iter().find(|c| c.atom == summary.functions[f].atom).unwrap();
        let condition = &of.conditions[need.condition as usize];
        let cut = |v: u64| (v % (1 << 32)) as u32;
        match self.quantity(summary, f, &condition.quantity) {
            None => false,
            Some(None) => true,
            Some(Some(value)) => {
                let (left, right) = (cut(value), cut(condition.with));
                let holds = match condition.comparison {
                    Comparison::Equal => left == right,
                    Comparison::Less => (left as i32) < right as i32,
                    other => unreachable!("{other:?}: the random programs make no others"),
                };
                holds == need.holds
            }
        }
    }

    pub(super) fn is_reached(&self, summary: &ModuleSummary, f: usize, site: &CallSite) -> bool {
        let of = summary.constants.iter().find(|c| c.atom == summary.functions[f].atom);
        let pass =
            of.and_then(|of| of.passes.iter().find(|p| (p.section, p.offset) == (site.section, site.offset)));
        pass.is_none_or(|p| p.needs.iter().all(|n| self.may_be(summary, f, n)))
    }

    pub(super) fn pass(&mut self, summary: &ModuleSummary, f: usize, site: &CallSite, g: usize) -> bool {
        let of = summary.constants.iter().find(|c| c.atom == summary.functions[f].atom);
        let pass =
            of.and_then(|of| of.passes.iter().find(|p| (p.section, p.offset) == (site.section, site.offset)));
        let mut changed = false;
        for register in [1, 2, 6, 7, 8, 9] {
            let actual = pass.and_then(|p| p.actuals.iter().find(|a| a.0 == register));
            let value = match actual {
                Some((_, integer)) => self.integer(summary, f, integer),
                None => Some(None),
            };
            if let Some(value) = value {
                changed |= Self::add(&mut self.parameters, (g, register), value);
            }
        }
        changed
    }

    pub(super) fn store(&mut self, summary: &ModuleSummary, f: usize) -> bool {
        let Some(of) = summary.constants.iter().find(|c| c.atom == summary.functions[f].atom) else {
            return false;
        };
        let mut changed = false;
        for put in &of.puts {
            if !put.needs.iter().all(|n| self.may_be(summary, f, n)) {
                continue;
            }
            let place = defined(summary, put.cell.target).map(|a| (a, put.cell.offset));
            let Some(place) = place.filter(|p| self.memory.contains_key(p)) else { continue };
            let value = match &put.value {
                Some(integer) => self.integer(summary, f, integer),
                None => Some(None),
            };
            if let Some(value) = value {
                changed |= Self::add(&mut self.memory, place, value.map(|v| v % (1 << 32)));
            }
        }
        changed
    }
}
