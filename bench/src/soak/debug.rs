//! Whether debug information has the same answers in the plain and the pruned program.
//!
//! LLVM's symbolizer is asked for places a few bytes apart in each function that both programs have once by its name. Not compared are
//! functions with several names, places that debug information of other code may describe ([`MisleadingLines`]), and
//! functions without debug information.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection};

use super::case::ran;
use crate::Result;
use crate::report::{self, number, sized_functions};

/// The distance of places in bytes, and the most places of a program.
const STEP: u64 = 5;
const MOST: usize = 1500;

/// A place of a function, and its address in both programs.
struct AskedPlace<'n> {
    name: &'n str,
    offset: u64,
    plain: u64,
    pruned: u64,
}

/// The functions that exist once and have one name, by it: first byte and size.
fn functions(path: &Path) -> Result<BTreeMap<String, (u64, u64)>> {
    let data = fs::read(path)?;
    let mut all: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let functions = sized_functions(&object::File::parse(&*data)?);
    for names in functions.chunk_by(|a, b| a.0 == b.0) {
        if let [(start, end, name)] = names {
            all.entry(name.clone()).or_default().push((*start, end - start));
        }
    }
    Ok(all
        .into_iter()
        .filter_map(|(name, at)| Some((name, *at.first().filter(|_| at.len() == 1)?)))
        .collect())
}

/// The names of stubs, which have no debug information.
fn stubs(report: &Path) -> Result<Vec<String>> {
    let report = report::read(report)?;
    let stubs = report::list(&report, "atoms")?.iter().filter(|atom| atom["state"] == "stub");
    let names = stubs.flat_map(|atom| atom["symbols"].as_array().into_iter().flatten());
    Ok(names.filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

/// Places that debug information of other code may describe.
///
/// Linkers put debug information of removed code at 0, over the code of a small program, and GNU ld and gold let that of a discarded copy of
/// a group describe the kept one (docs/SOUNDNESS.md).
struct MisleadingLines {
    /// The number of objects that define each function, and how many of them have debug information.
    objects: BTreeMap<String, (usize, usize)>,
    /// The most bytes of code that were removed from one section: their debug information reaches no higher.
    reach: u64,
}

impl MisleadingLines {
    /// Read the objects and the report of a case.
    fn read(dir: &Path) -> Result<Self> {
        let report = report::read(&dir.join("report.json"))?;
        let mut gone: BTreeMap<(Option<u64>, Option<u64>), u64> = BTreeMap::new();
        for atom in report::list(&report, "atoms")? {
            if atom["state"] == "dropped" && atom["kind"] == "code" {
                let section = (atom["module"].as_u64(), atom["section_index"].as_u64());
                *gone.entry(section).or_default() += number(atom, "size");
            }
        }
        let reach = gone.into_values().max().unwrap_or(0);
        let mut found = MisleadingLines { objects: BTreeMap::new(), reach };
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|e| e != "o") {
                continue;
            }
            let data = fs::read(path)?;
            // A unit may be bitcode.
            let Ok(file) = object::File::parse(&*data) else { continue };
            let is_described = file.sections().any(|s| s.name().is_ok_and(|n| n.contains("debug_line")));
            for (_, _, name) in sized_functions(&file) {
                let (all, described) = found.objects.entry(name).or_default();
                *all += 1;
                *described += usize::from(is_described);
            }
        }
        Ok(found)
    }

    fn may_mislead(&self, place: &AskedPlace<'_>) -> bool {
        // Code that the link makes of bitcode depends on the other code of the link.
        let Some((all, described)) = self.objects.get(place.name).copied() else { return true };
        // A function without debug information has the file of the symbol table, which depends on other symbols.
        described < all || all == 0 || place.plain.min(place.pruned) < self.reach
    }
}

/// The first difference between the answers for `a.plain` and `a.pruned` in `dir`, in words.
///
/// # Errors
/// A reader that can't be started, a program that can't be read.
pub(crate) fn difference(dir: &Path) -> Result<Option<String>> {
    let (plain, mut pruned) = (functions(&dir.join("a.plain"))?, functions(&dir.join("a.pruned"))?);
    for stub in stubs(&dir.join("report.json"))? {
        pruned.remove(&stub);
    }
    let mut places: Vec<AskedPlace<'_>> = Vec::new();
    for (name, (at, size)) in &pruned {
        let Some((before, of)) = plain.get(name).filter(|(_, of)| of == size) else { continue };
        let place = |offset| AskedPlace { name, offset, plain: before + offset, pruned: at + offset };
        places.extend((0..*of).step_by(STEP as usize).map(place));
    }
    let misleading = MisleadingLines::read(dir)?;
    places.retain(|place| !misleading.may_mislead(place));
    places.truncate(MOST);
    let ask = |file: &str, of: &dyn Fn(&AskedPlace<'_>) -> u64| -> Result<Vec<String>> {
        let mut words = ["llvm-symbolizer-19", "-i", "-a", "-e", file].map(str::to_owned).to_vec();
        words.extend(places.iter().map(|place| format!("{:#x}", of(place))));
        let text = String::from_utf8_lossy(&ran(dir, &words, &[])?.stdout).into_owned();
        // The answer to each address begins with it.
        let mut answers: Vec<String> = Vec::new();
        for line in text.lines() {
            match (line.starts_with("0x"), answers.last_mut()) {
                (false, Some(last)) => *last += &format!("{line}\n"),
                _ => answers.push(String::new()),
            }
        }
        Ok(answers)
    };
    let (before, after) = (ask("a.plain", &|p| p.plain)?, ask("a.pruned", &|p| p.pruned)?);
    if before.len() != places.len() || after.len() != places.len() {
        return Ok(Some("the symbolizer does not answer".to_owned()));
    }
    for (AskedPlace { name, offset, .. }, (before, after)) in places.iter().zip(before.iter().zip(&after)) {
        if before != after {
            return Ok(Some(format!(
                "debug information of {name}+{offset:#x}: {after:?} instead of {before:?}"
            )));
        }
    }
    Ok(None)
}
