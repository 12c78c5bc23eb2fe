//! How much of real libraries is divided: for each archive, the bytes of sized functions by limit.
//!
//! `SURVEY="/usr/lib/x86_64-linux-gnu/libz.a ..." cargo test -p summaries survey -- --ignored --nocapture`

use std::collections::{BTreeMap, BTreeSet};

use object::read::archive::ArchiveFile;
use summaries::{Definition, Granularity, ModuleSummary, SymbolKind};

/// Bytes of sized functions, by section.
fn functions(summary: &ModuleSummary) -> BTreeMap<u32, u64> {
    let mut places = BTreeSet::new();
    for symbol in &summary.symbols {
        if let (SymbolKind::Func | SymbolKind::Ifunc, Definition::Atom(atom)) =
            (symbol.kind, symbol.definition)
        {
            places.insert((summary.atoms[atom.index()].section, symbol.value, symbol.size));
        }
    }
    let mut bytes = BTreeMap::new();
    for (section, _, size) in places {
        *bytes.entry(section).or_default() += size;
    }
    bytes
}

#[test]
#[ignore = "a survey of what SURVEY names"]
fn survey() {
    let files = std::env::var("SURVEY").unwrap_or_default();
    for file in files.split_whitespace() {
        let bytes = std::fs::read(file).unwrap();
        let archive = ArchiveFile::parse(&*bytes).unwrap();
        let (mut total, mut atoms, mut by_limit) = (0u64, 0usize, BTreeMap::<&str, (u64, String)>::new());
        for member in archive.members() {
            let member = member.unwrap();
            let summary = summaries::extract::extract(member.data(&*bytes).unwrap(), Granularity::Functions);
            assert_eq!(summary.check(), Ok(()));
            let functions = functions(&summary);
            total += functions.values().sum::<u64>();
            atoms += summary.atoms.len();
            for limit in &summary.limits {
                let cost = limit.section.and_then(|s| functions.get(&s)).copied().unwrap_or(0);
                let entry = by_limit.entry(limit.limit.name()).or_default();
                entry.0 += cost;
                if cost > 0 && (entry.1.is_empty() || std::env::var_os("SURVEY_ALL").is_some()) {
                    let name = String::from_utf8_lossy(member.name());
                    entry.1 += &format!("{cost} {name}: {}; ", limit.detail);
                }
            }
        }
        let refused: u64 = by_limit.values().map(|(bytes, _)| bytes).sum();
        println!(
            "{file}: {total} bytes, {atoms} atoms, {refused} refused ({:.2}%)",
            100.0 * refused as f64 / total.max(1) as f64
        );
        for (limit, (bytes, first)) in by_limit {
            println!("  {limit:24} {bytes:10}  {first}");
        }
    }
}
