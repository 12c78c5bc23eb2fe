//! How much of real libraries is divided: for each archive, the bytes of sized functions by limit.
//!
//! `SURVEY="/usr/lib/x86_64-linux-gnu/libz.a ..." cargo test -p lto-prune-summaries survey -- --ignored --nocapture`

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
            let data = member.data(&*bytes).unwrap();
            let summary = summaries::extract::extract(data, Granularity::Functions);
            assert_eq!(summary.check(), Ok(()));
            assert!(summaries::extract::agrees(data, &summary), "{}", String::from_utf8_lossy(member.name()));
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

/// What the analysis of values understands of static libraries, and why it does not the rest.
#[test]
#[ignore = "a survey of what SURVEY names"]
fn survey_of_values() {
    let files = std::env::var("SURVEY").unwrap_or_default();
    for file in files.split_whitespace() {
        let bytes = std::fs::read(file).unwrap();
        let members: Vec<(String, &[u8])> = match ArchiveFile::parse(&*bytes) {
            Ok(archive) => archive
                .members()
                .map(|m| {
                    let m = m.unwrap();
                    (String::from_utf8_lossy(m.name()).into_owned(), m.data(&*bytes).unwrap())
                })
                .collect(),
            Err(_) => vec![(file.to_owned(), &bytes[..])],
        };
        let (mut code, mut known, mut constraints, mut sites, mut indirect) = (0u64, 0u64, 0, 0, 0);
        let (mut functions, mut frames, mut time) = (0, 0, std::time::Duration::ZERO);
        let mut why = BTreeMap::<String, (u64, u64, String)>::new();
        for (name, bytes) in members {
            let start = std::time::Instant::now();
            let summary = summaries::extract::extract(bytes, Granularity::Pointers);
            time += start.elapsed();
            assert_eq!(summary.check(), Ok(()), "{name}");
            let size = |a: &summaries::AtomIdx| summary.atoms[a.index()].size;
            let is_code = |a: &&summaries::Atom| a.kind == summaries::AtomKind::Code;
            code += summary.atoms.iter().filter(is_code).map(|a| a.size).sum::<u64>();
            for f in &summary.functions {
                known += size(&f.atom) + f.parts.iter().map(size).sum::<u64>();
                functions += 1;
                frames += usize::from(f.frame);
                constraints += f.constraints.len();
                sites += f.call_sites.len();
                let is_indirect = |s: &&summaries::relation::CallSite| {
                    matches!(s.callee, summaries::relation::Callee::Indirect(_))
                };
                indirect += f.call_sites.iter().filter(is_indirect).count();
            }
            for limit in &summary.limits {
                let reason: String = match limit.detail.split_once(": ") {
                    Some((_, reason)) => reason.split(" at 0x").next().unwrap_or("").to_owned(),
                    None => limit.detail.clone(),
                };
                let entry = why.entry(format!("{} {reason}", limit.limit.name())).or_default();
                entry.0 += limit.bytes;
                entry.1 += 1;
                if entry.2.len() < 300 {
                    entry.2 += &format!("{name}: {}; ", limit.detail);
                }
            }
        }
        println!(
            "{file}: {known} of {code} bytes, {functions} functions ({frames} frames), {constraints} constraints, \
             {sites} sites, {indirect} indirect, {time:?}"
        );
        for (reason, (bytes, count, first)) in why {
            println!("  {bytes:10} {count:5} {reason}\n      {first}");
        }
    }
}
