//! The report of a link at `--prune-level=pointers`, as far as call sites are concerned: atoms by place, and what the analysis of
//! values says of each indirect call.
//!
//! Fields are read by name (docs/REPORT_FORMAT.md); one that is missing is an error, never a default, so a report of another
//! schema can't pass.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::report::list;

/// A place in an input: module by its position in the report, ELF section index, bytes from the start of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputPlace {
    pub(crate) module: usize,
    pub(crate) section: u32,
    pub(crate) offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TracedAtom {
    pub(crate) place: InputPlace,
    pub(crate) size: u64,
    /// It is `kept`, `stub` or `dropped`.
    pub(crate) state: String,
    /// The atom that callers of its function enter; `None` if its values were not followed.
    pub(crate) function: Option<usize>,
    pub(crate) section: String,
    pub(crate) symbols: Vec<String>,
    pub(crate) code: bool,
}

/// What is known of a site's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Resolved,
    Never,
    Overdefined,
}

/// One indirect call site of the analysis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) state: State,
    /// Atom, and the offset from the start of its section; `None` is anywhere in the atom.
    pub(crate) targets: BTreeSet<(usize, Option<u64>)>,
    pub(crate) externals: BTreeSet<String>,
    pub(crate) causes: Vec<String>,
    /// Where the first of them began, in words.
    pub(crate) because: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct TraceReport {
    /// As linkers name files: a path, or `ARCHIVE(MEMBER)`.
    pub(crate) modules: Vec<(Option<String>, String)>,
    pub(crate) atoms: Vec<TracedAtom>,
    pub(crate) claims: BTreeMap<InputPlace, Claim>,
    pub(crate) ifuncs: BTreeSet<String>,
    /// Counts of the analysis, by name; `code live`, `code by_mentions` and `code stubs` are bytes.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) causes: BTreeMap<String, u64>,
    /// Atoms by place: first byte, with the position.
    pub(super) places: BTreeMap<InputPlace, usize>,
}

impl TraceReport {
    /// Read a report.
    ///
    /// # Errors
    /// If it isn't there, is of another form, or says that the originals were linked.
    pub(crate) fn read(path: &Path) -> Result<TraceReport> {
        let root = crate::report::read(path)?;
        if root["pruned"] != Value::Bool(true) {
            return Err(format!("{}: the originals were linked", path.display()).into());
        }
        let mut report = TraceReport::default();
        for module in list(&root, "modules")? {
            report.modules.push((module["archive"].as_str().map(str::to_owned), text_of(module, "name")?));
        }
        for atom in list(&root, "atoms")? {
            report.atoms.push(read_atom(atom)?);
        }
        for symbol in list(&root, "symbols")?.iter().filter(|s| s["kind"] == "ifunc") {
            report.ifuncs.insert(text_of(symbol, "name")?);
        }
        for site in list(&root, "call_sites")? {
            let (place, claim) = read_site(site, &report.atoms)?;
            report.claims.insert(place, claim);
        }
        // Where a limit says that values are followed nowhere, nothing is claimed.
        let nowhere = list(&root, "limits")?.iter().any(|l| l["severity"] == "values");
        let flow = &root["value_flow"];
        if flow.is_null() && nowhere {
            report.atoms.iter_mut().for_each(|a| a.function = None);
            report.index();
            return Ok(report);
        }
        let counts = flow.as_object().ok_or("the report has no value_flow")?;
        report.counts = counts.iter().filter_map(|(k, v)| Some((k.clone(), v.as_u64()?))).collect();
        for name in ["live", "by_mentions"] {
            let bytes = root["live_code"][name].as_u64().ok_or("the report has no live_code")?;
            report.counts.insert(format!("code {name}"), bytes);
        }
        let stubs = report.atoms.iter().filter(|a| a.code && a.state == "stub");
        report.counts.insert("code stubs".to_owned(), stubs.map(|a| a.size).sum());
        for cause in list(flow, "by_cause")? {
            if let (Some(name), Some(sites)) = (cause[0].as_str(), cause[1].as_u64()) {
                report.causes.insert(name.to_owned(), sites);
            }
        }
        report.index();
        Ok(report)
    }

    /// Make the atoms known by place.
    pub(crate) fn index(&mut self) {
        let sized = self.atoms.iter().enumerate().filter(|(_, a)| a.size > 0);
        self.places = sized.map(|(i, a)| (a.place, i)).collect();
    }

    /// The atom that covers a place.
    pub(crate) fn atom_at(&self, place: InputPlace) -> Option<usize> {
        let (start, atom) = self.places.range(..=place).next_back()?;
        let same = (start.module, start.section) == (place.module, place.section);
        let size = self.atoms.get(*atom)?.size;
        (same && place.offset - start.offset < size).then_some(*atom)
    }

    /// An atom for a person to read.
    pub(crate) fn describe(&self, atom: usize) -> String {
        let Some(this) = self.atoms.get(atom) else { return "no atom".into() };
        let module = match self.modules.get(this.place.module) {
            Some((Some(archive), member)) => format!("{archive}({member})"),
            Some((None, file)) => file.clone(),
            None => "no module".into(),
        };
        let name = this.symbols.first().map_or(this.section.as_str(), String::as_str);
        format!("{name} ({module}:({}))", this.section)
    }
}

fn text_of(value: &Value, name: &str) -> Result<String> {
    Ok(value[name].as_str().ok_or_else(|| format!("the report has no {name} in {value}"))?.to_owned())
}

fn number(value: &Value, name: &str) -> Result<u64> {
    Ok(value[name].as_u64().ok_or_else(|| format!("the report has no {name} in {value}"))?)
}

fn read_atom(atom: &Value) -> Result<TracedAtom> {
    // A common symbol has no section.
    let section = atom["section_index"].as_u64().and_then(|i| u32::try_from(i).ok()).unwrap_or(u32::MAX);
    let place =
        InputPlace { module: number(atom, "module")? as usize, section, offset: number(atom, "offset")? };
    let symbols = list(atom, "symbols")?.iter().filter_map(|s| s.as_str().map(str::to_owned)).collect();
    Ok(TracedAtom {
        place,
        size: number(atom, "size")?,
        state: text_of(atom, "state")?,
        function: atom["function"].as_u64().map(|f| f as usize),
        section: text_of(atom, "section")?,
        symbols,
        code: atom["kind"] == "code",
    })
}

fn read_site(site: &Value, atoms: &[TracedAtom]) -> Result<(InputPlace, Claim)> {
    let place = InputPlace {
        module: number(site, "module")? as usize,
        section: number(site, "section")? as u32,
        offset: number(site, "offset")?,
    };
    let state = match site["state"].as_str() {
        Some("resolved") => State::Resolved,
        Some("never") => State::Never,
        Some("overdefined") => State::Overdefined,
        other => return Err(format!("the report has a call site of state {other:?}").into()),
    };
    let mut targets = BTreeSet::new();
    for target in list(site, "targets")? {
        let atom = number(target, "atom")? as usize;
        if atom >= atoms.len() {
            return Err("the report has a target that is no atom".into());
        }
        targets.insert((atom, target["offset"].as_u64()));
    }
    let names = |name: &str| -> Result<Vec<String>> {
        Ok(list(site, name)?.iter().filter_map(|s| s.as_str().map(str::to_owned)).collect())
    };
    let externals = names("externals")?.into_iter().collect();
    Ok((
        place,
        Claim {
            state,
            targets,
            externals,
            causes: names("causes")?,
            because: site["because"].as_str().map(str::to_owned),
        },
    ))
}
