//! The report of division, as text and as JSON.
//!
//! It counts sections with several functions or objects. Sections of groups are not counted, nor are data sections whose content the linker merges
//! or whose names are unusual. A limit counts with the bytes that it keeps together.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use summaries::{
    Atom, AtomKind, Definition, Limit, LimitRecord, ModuleSummary, SymbolKind, atom_flags, have_debug_info,
};

use super::divide::{SectionNames, SplitOptions, has_hub, is_of_compilers, may_be_divided};
use crate::report::table::count;
use crate::terminal::printable;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SplitOutcome {
    Divided,
    /// Only its code is divided, because emission or verification failed with more.
    DividedLess(String),
    /// There is nothing to divide in the object.
    AsItWas,
    /// The object has an unknown form.
    Limited {
        limit: &'static str,
        detail: String,
    },
    Failed(String),
    /// It is no object of this machine.
    Foreign(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionContent {
    Code,
    Data,
    /// Data that has no bytes in the file.
    Bss,
}

impl SectionContent {
    const ALL: [SectionContent; 3] = [SectionContent::Code, SectionContent::Data, SectionContent::Bss];

    fn name(self) -> &'static str {
        match self {
            SectionContent::Code => "code",
            SectionContent::Data => "data",
            SectionContent::Bss => "bss",
        }
    }
}

#[derive(Debug)]
pub(super) struct SectionReport {
    name: String,
    kind: SectionContent,
    bytes: u64,
    divided: u64,
    pieces: usize,
    /// The undivided bytes by reason: name of the limit, bytes, detail.
    limits: Vec<(&'static str, u64, String)>,
}

#[derive(Debug)]
pub(super) struct ObjectReport {
    pub(super) name: String,
    pub(super) outcome: SplitOutcome,
    sections: Vec<SectionReport>,
}

#[derive(Debug)]
pub(super) struct SplitFileReport {
    pub(super) name: String,
    pub(super) objects: Vec<ObjectReport>,
}

/// No part of the section could be divided, and there is no limit.
const TIED: &str = "tied-together";
/// The reason for data where `--data` is missing.
const NOT_ASKED: &str = "not-asked";
/// The name of the section is the program's.
const NAMED_SECTION: &str = Limit::NamedSection.name();
/// Emission or the check of it failed.
const INTERNAL: &str = "internal";

impl ObjectReport {
    /// The report of a member that is not read.
    pub(super) fn foreign(name: &str, what: &'static str) -> Self {
        let outcome = SplitOutcome::Foreign(what);
        ObjectReport { name: name.to_owned(), outcome, sections: Vec::new() }
    }

    pub(super) fn new(
        name: &str,
        summary: &ModuleSummary,
        names: Option<&SectionNames>,
        outcome: SplitOutcome,
        options: SplitOptions,
    ) -> Self {
        let counts = places(summary);
        let mut sections = Vec::new();
        let mut next = 0;
        for atoms in summary.atoms.chunk_by(|a, b| a.section == b.section) {
            let range = next..next + atoms.len();
            next = range.end;
            let Some(first) = atoms.first() else { continue };
            let several = counts.get(&first.section).is_some_and(|count| *count > 1);
            let code = first.kind == AtomKind::Code;
            let kind = match first.kind {
                AtomKind::Code => SectionContent::Code,
                AtomKind::Bss => SectionContent::Bss,
                _ => SectionContent::Data,
            };
            if !several || first.has(atom_flags::GROUPED) || !(code || is_plain_data(first)) {
                continue;
            }
            let bytes = atoms.iter().fold(0u64, |sum, a| sum.saturating_add(a.size));
            let parts = names.map_or(0, |p| {
                let named = summary.atoms.iter().zip(p);
                named.filter(|(a, name)| a.section == first.section && name.is_some()).count()
            });
            let mut limits = Vec::new();
            for record in summary.limits.iter().filter(|l| l.section == Some(first.section)) {
                let kept = record.bytes.min(bytes);
                limits.push((record.limit.name(), kept, detail(record)));
            }
            let whole = |limit: &'static str, why: &str| vec![(limit, bytes, why.to_owned())];
            match &outcome {
                SplitOutcome::Limited { limit, detail } => limits = whole(limit, detail),
                SplitOutcome::Failed(error) => limits = whole(INTERNAL, error),
                _ if parts > 1 => {}
                _ if !code && !options.data => limits = whole(NOT_ASKED, "--data divides it"),
                _ if !limits.is_empty() => {}
                _ if !may_be_divided(summary, first) || !is_of_compilers(summary.name(first.name)) => {
                    limits = whole(NAMED_SECTION, "the program may find it by its name, or walk over it");
                }
                _ if !code && has_hub(summary, range) => {
                    limits = whole("unproved-data", "references may mean any of its objects");
                }
                SplitOutcome::DividedLess(error) if !code => limits = whole(INTERNAL, error),
                _ if have_debug_info(&summary.atoms) => {
                    limits = whole("debug-info", "the object has debug information")
                }
                _ => limits = whole(TIED, "nothing in it can be divided"),
            }
            let kept = limits.iter().fold(0u64, |sum, (_, bytes, _)| sum.saturating_add(*bytes)).min(bytes);
            let divided = if parts > 1 { bytes - kept } else { 0 };
            let name = String::from_utf8_lossy(summary.name(first.name)).into_owned();
            sections.push(SectionReport { name, kind, bytes, divided, pieces: parts.max(1), limits });
        }
        ObjectReport { name: name.to_owned(), outcome, sections }
    }
}

/// The detail of a limit, without the name of the section.
fn detail(record: &LimitRecord) -> String {
    match record.detail.strip_prefix("section ").and_then(|d| d.split_once(": ")) {
        Some((_, what)) => what.to_owned(),
        None => record.detail.clone(),
    }
}

/// Whether an atom is of a section into which compilers put several objects.
fn is_plain_data(atom: &Atom) -> bool {
    use atom_flags::{MERGE, STANDARD_FAMILY};
    let kind = matches!(atom.kind, AtomKind::ReadOnlyData | AtomKind::Data | AtomKind::Bss);
    kind && atom.has(STANDARD_FAMILY) && !atom.has(MERGE)
}

/// By section, the number of places at which a function or object begins.
fn places(summary: &ModuleSummary) -> BTreeMap<u32, usize> {
    let mut all: Vec<(u32, u64)> = Vec::new();
    for symbol in &summary.symbols {
        let Definition::Atom(atom) = symbol.definition else { continue };
        let Some(atom) = summary.atoms.get(atom.index()) else { continue };
        let counts = match symbol.kind {
            SymbolKind::Func | SymbolKind::Ifunc => atom.kind == AtomKind::Code,
            SymbolKind::Object => atom.kind != AtomKind::Code && symbol.size > 0,
            _ => false,
        };
        if counts {
            all.push((atom.section, symbol.value));
        }
    }
    all.sort_unstable();
    all.dedup();
    let mut counts = BTreeMap::new();
    for (section, _) in all {
        *counts.entry(section).or_insert(0) += 1;
    }
    counts
}

#[derive(Debug, Default)]
struct SplitTotals {
    sections: usize,
    pieces: usize,
    bytes: u64,
    divided: u64,
    /// By limit: bytes, and an example.
    limits: BTreeMap<&'static str, (u64, String)>,
}

impl SplitTotals {
    fn of<'r>(files: impl IntoIterator<Item = &'r SplitFileReport>, kind: SectionContent) -> Self {
        let mut sum = SplitTotals::default();
        for file in files {
            for object in &file.objects {
                for section in object.sections.iter().filter(|s| s.kind == kind) {
                    sum.sections += 1;
                    sum.pieces += section.pieces;
                    sum.bytes += section.bytes;
                    sum.divided += section.divided;
                    for (limit, bytes, detail) in &section.limits {
                        let place = || format!("{} {}: {detail}", object.name, section.name);
                        let entry = sum.limits.entry(limit).or_insert_with(|| (0, place()));
                        entry.0 += bytes;
                    }
                }
            }
        }
        sum
    }

    fn json(&self) -> Value {
        let limits: BTreeMap<_, _> = self.limits.iter().map(|(name, (bytes, _))| (*name, *bytes)).collect();
        json!({
            "sections": self.sections, "pieces": self.pieces, "bytes": self.bytes, "divided": self.divided, "whole": limits,
        })
    }

    fn line(&self, kind: SectionContent, out: &mut String) {
        if self.sections == 0 {
            return;
        }
        let percent = self.divided as f64 * 100.0 / self.bytes.max(1) as f64;
        out.push_str(&format!(
            "  {}: {} of {} bytes divided ({percent:.1}%), {} sections became {}\n",
            kind.name(),
            count(self.divided),
            count(self.bytes),
            count(self.sections as u64),
            count(self.pieces as u64)
        ));
        let mut limits: Vec<_> = self.limits.iter().filter(|(name, _)| **name != NOT_ASKED).collect();
        limits.sort_by_key(|(name, (bytes, _))| (std::cmp::Reverse(*bytes), **name));
        for (name, (bytes, place)) in limits {
            out.push_str(&format!("    whole: {} bytes {name}, such as {place}\n", count(*bytes)));
        }
    }
}

/// The report for a terminal: for each file the sums, the undivided bytes by limit, and the objects that were not
/// read.
pub(super) fn text(files: &[SplitFileReport]) -> String {
    let mut out = String::new();
    for file in files {
        let divided = file.objects.iter().filter(|o| o.was_divided()).count();
        let name = printable(&file.name);
        out.push_str(&format!("{name}: {divided} of {} objects divided\n", file.objects.len()));
        SectionContent::ALL.iter().for_each(|kind| SplitTotals::of([file], *kind).line(*kind, &mut out));
        let mut troubles: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for object in &file.objects {
            if let Some(why) = object.trouble() {
                troubles.entry(why).or_insert((0, object.name.as_str())).0 += 1;
            }
        }
        for (why, (count, name)) in troubles {
            let others = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            out.push_str(&format!("  {}{others}: {}\n", printable(name), printable(&why)));
        }
    }
    if files.len() > 1 {
        out.push_str("total\n");
        SectionContent::ALL.iter().for_each(|kind| SplitTotals::of(files, *kind).line(*kind, &mut out));
    }
    out
}

impl ObjectReport {
    fn was_divided(&self) -> bool {
        matches!(self.outcome, SplitOutcome::Divided | SplitOutcome::DividedLess(_))
    }

    /// The reason why the object is not divided, or not completely.
    fn trouble(&self) -> Option<String> {
        match &self.outcome {
            SplitOutcome::Divided | SplitOutcome::AsItWas => None,
            SplitOutcome::Foreign(what) => Some(format!("as it was, {what}")),
            SplitOutcome::Limited { limit, detail } => Some(format!("as it was, {limit}: {detail}")),
            SplitOutcome::Failed(error) => Some(format!("as it was: {error}")),
            SplitOutcome::DividedLess(error) => Some(format!("only its code is divided: {error}")),
        }
    }

    fn json(&self) -> Value {
        let sections: Vec<Value> = self.sections.iter().map(SectionReport::json).collect();
        json!({
            "name": self.name, "divided": self.was_divided(), "trouble": self.trouble(), "sections": sections,
        })
    }
}

impl SectionReport {
    fn json(&self) -> Value {
        let limits = self.limits.iter().filter(|_| self.divided < self.bytes);
        let whole: Vec<Value> = limits
            .map(|(limit, bytes, detail)| json!({"limit": limit, "bytes": bytes, "detail": detail}))
            .collect();
        json!({
            "section": self.name, "kind": self.kind.name(), "bytes": self.bytes,
            "divided": self.divided, "pieces": self.pieces, "whole": whole,
        })
    }
}

pub(super) fn json(files: &[SplitFileReport]) -> Value {
    let sums = |files: &[SplitFileReport]| {
        let of = |kind: &SectionContent| (kind.name().to_owned(), SplitTotals::of(files, *kind).json());
        SectionContent::ALL.iter().map(of).collect::<serde_json::Map<_, _>>()
    };
    let each = files.iter().map(|file| {
        let objects: Vec<Value> = file.objects.iter().map(ObjectReport::json).collect();
        json!({"file": file.name, "sums": sums(std::slice::from_ref(file)), "objects": objects})
    });
    json!({"version": 1, "sums": sums(files), "files": each.collect::<Vec<_>>()})
}
