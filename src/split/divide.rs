//! The division of one object: summary, plan, emission and verification.
//!
//! The plan keeps every atom, and gives those of divided sections a section of their own. The result is verified as
//! in a link. If emission or verification fails, the object is divided again without jump tables and data, or else
//! passed through, with the reason.

use std::collections::BTreeMap;

use summaries::native::extract_by;
use summaries::native::sections::{CODE_OF_COMPILERS, DATA_OF_COMPILERS};
use summaries::{
    Atom, AtomKind, Binding, Definition, Granularity, ModuleSummary, OwnedRange, ReferenceKind, Severity,
    Symbol, SymbolKind, Target, atom_flags,
};

use super::report::{ObjectReport, SplitOutcome};
use crate::error::Result;
use crate::plan::{Action, ModulePlan};
use crate::summarize::at_once;
use crate::{emit, verify};

#[derive(Debug, Clone, Copy)]
pub(super) struct SplitOptions {
    /// It says whether sections of data are divided, too.
    pub(super) data: bool,
}

/// Divide an object; `None` if it is passed through.
pub(super) fn object(name: &str, bytes: &[u8], options: SplitOptions) -> (Option<Vec<u8>>, ObjectReport) {
    let summary = extract_by(bytes, Granularity::Functions, &at_once);
    if let Some(limit) = summary.limits.iter().find(|l| l.limit.severity() >= Severity::Module) {
        let detail = if limit.detail.is_empty() { limit.limit.lifted_by() } else { &limit.detail };
        let outcome = SplitOutcome::Limited { limit: limit.limit.name(), detail: detail.to_owned() };
        return (None, ObjectReport::new(name, &summary, None, outcome, options));
    }
    let mut failure = None;
    let plain = SplitOptions { data: false };
    for (tables, tried) in [(true, options), (false, plain)] {
        let names = choose(&summary, tables, tried);
        if names.iter().all(Option::is_none) {
            break;
        }
        match emit(name, bytes, &summary, &names) {
            Ok(divided) => {
                let outcome = failure.map_or(SplitOutcome::Divided, SplitOutcome::DividedLess);
                return (Some(divided), ObjectReport::new(name, &summary, Some(&names), outcome, options));
            }
            Err(error) => failure = failure.or(Some(error.to_string())),
        }
    }
    let outcome = failure.map_or(SplitOutcome::AsItWas, SplitOutcome::Failed);
    (None, ObjectReport::new(name, &summary, None, outcome, options))
}

fn emit(name: &str, bytes: &[u8], summary: &ModuleSummary, names: &SectionNames) -> Result<Vec<u8>> {
    let plan = ModulePlan {
        atoms: vec![Action::Keep; summary.atoms.len()],
        section_names: names.clone(),
        ..ModulePlan::default()
    };
    let divided = emit::object::rewrite(bytes, summary, &plan)?;
    verify::object(name, bytes, &divided, &verify::ExpectedObject::new(summary, &plan))?;
    Ok(divided)
}

/// The largest padding before or behind a table, in bytes.
const MAX_PADDING: u64 = 7;

/// The names of the sections that atoms become, by `AtomIdx`; `None` for an atom of an undivided section.
pub(super) type SectionNames = Vec<Option<Box<[u8]>>>;

/// Decide how an object is divided. Without `tables`, jump tables are not cut off.
pub(super) fn choose(summary: &ModuleSummary, tables: bool, options: SplitOptions) -> SectionNames {
    let labels = labels(summary);
    let owners = if tables { owners(summary) } else { BTreeMap::new() };
    let mut all = vec![None; summary.atoms.len()];
    let mut next = 0;
    for atoms in summary.atoms.chunk_by(|a, b| a.section == b.section) {
        let range = next..next + atoms.len();
        next = range.end;
        let Some(first) = atoms.first().filter(|a| a.section != Atom::NO_SECTION && atoms.len() > 1) else {
            continue;
        };
        let divides = match first.kind {
            AtomKind::Code => true,
            _ => {
                range.clone().any(|i| owners.contains_key(&i))
                    || options.data && !has_hub(summary, range.clone())
            }
        };
        if !divides || !may_be_divided(summary, first) {
            continue;
        }
        for (index, name) in range.clone().zip(all.iter_mut().skip(range.start)) {
            // Without `--data`, the rest of a section with tables keeps its name.
            let label = match owners.get(&index) {
                Some(owner) => labels.get(*owner).copied().flatten(),
                None if first.kind != AtomKind::Code && !options.data => None,
                None => labels.get(index).copied().flatten(),
            };
            let symbol = label.map_or(&[][..], |symbol| summary.name(symbol.name));
            *name = Some(of_part(summary.name(first.name), symbol).into_boxed_slice());
        }
    }
    all
}

/// The atoms that are a jump table with its padding, with their owners.
fn owners(summary: &ModuleSummary) -> BTreeMap<usize, usize> {
    let is_whole = |owned: &&OwnedRange| {
        summary.atoms.get(owned.atom.index()).is_some_and(|atom| {
            let end = atom.offset.saturating_add(atom.size);
            owned.start.abs_diff(atom.offset) <= MAX_PADDING && end.abs_diff(owned.end) <= MAX_PADDING
        })
    };
    summary.owned.iter().filter(is_whole).map(|o| (o.atom.index(), o.owner.index())).collect()
}

/// Whether a section may be divided by its name: a program may find a section by its name, and linkers take one
/// `.gnu.linkonce.*` section of each name.
pub(super) fn may_be_divided(summary: &ModuleSummary, atom: &Atom) -> bool {
    atom.has(atom_flags::STANDARD_FAMILY)
        && !atom.has(atom_flags::C_IDENTIFIER | atom_flags::RETAIN)
        && !summary.name(atom.name).starts_with(b".gnu.linkonce.")
}

/// Whether one of these atoms of a section is a hub, which refers to all the others from its first byte.
pub(super) fn has_hub(summary: &ModuleSummary, atoms: std::ops::Range<usize>) -> bool {
    atoms.clone().any(|hub| {
        let Some(atom) = summary.atoms.get(hub) else { return false };
        let from = summary.references.partition_point(|r| r.from.index() < hub);
        let own = summary.references.get(from..).unwrap_or(&[]).iter();
        let own = own.take_while(|r| r.from.index() == hub && r.offset <= atom.offset);
        let mut others: Vec<usize> = own
            .filter(|r| (r.offset, r.kind, r.addend) == (atom.offset, ReferenceKind::Data, 0))
            .filter_map(|r| match r.target {
                Target::Atom(target) => Some(target.index()),
                Target::Symbol(_) => None,
            })
            .filter(|target| atoms.contains(target) && *target != hub)
            .collect();
        others.sort_unstable();
        others.dedup();
        others.len() + 1 == atoms.len()
    })
}

/// By atom: the symbol that gives its name. A name that other modules see is preferred.
fn labels(summary: &ModuleSummary) -> Vec<Option<&Symbol>> {
    let mut labels: Vec<Option<&Symbol>> = vec![None; summary.atoms.len()];
    let rank = |s: &Symbol| {
        let binding = match s.binding {
            Binding::Global | Binding::Unique => 0,
            Binding::Weak => 1,
            Binding::Local => 2,
        };
        (s.value, binding)
    };
    for symbol in &summary.symbols {
        let Definition::Atom(atom) = symbol.definition else { continue };
        let named = matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc | SymbolKind::Object);
        if let Some(label) = labels.get_mut(atom.index()).filter(|_| named && symbol.name.len > 0)
            && label.is_none_or(|other| rank(symbol) < rank(other))
        {
            *label = Some(symbol);
        }
    }
    labels
}

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
