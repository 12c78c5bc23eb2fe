//! Our side of a thin link: what the report says of each atom, joined by GUID to the values of the modules of bitcode, and the plain
//! references that our reader finds in their IR.
//!
//! Atoms of a module are in the report in the order of its summary, so that [`numbering`] says which value each one is. A module without
//! such atoms is an error, never passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use object::read::archive::ArchiveFile;
use serde_json::Value;
use summaries::bitcode::{self, guid, numbering, symbols};
use summaries::{Granularity, Target};

use super::index::Guid;
use crate::Result;
use crate::report::list;

/// An edge of the report's graph keeps its target because the address escaped.
const ESCAPED: u64 = 4;

#[derive(Debug, Clone)]
pub(super) struct OracleAtom {
    pub(super) module: usize,
    /// It is `kept`, `stub` or `dropped`.
    pub(super) state: String,
    pub(super) witness: Witness,
    name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Witness {
    Nothing,
    Root(String),
    Reference { from: usize, kind: String },
}

/// An edge of the report's graph.
#[derive(Debug, Clone)]
pub(super) struct Mention {
    /// It is a position in the report's atoms.
    pub(super) from: usize,
    pub(super) kind: String,
    /// It lets the address of the atom escape.
    pub(super) escaped: bool,
}

/// A definition in one of the modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Definition {
    /// It is a position in the report's modules.
    pub(super) module: usize,
    /// It is a position in the report's atoms.
    pub(super) atom: usize,
}

#[derive(Debug, Default)]
pub(super) struct PrunedLink {
    /// As lld names them, but for the offset in an archive.
    pub(super) labels: Vec<String>,
    pub(super) atoms: Vec<OracleAtom>,
    pub(super) mentions: BTreeMap<usize, Vec<Mention>>,
    /// Atoms that an indirect call may go to, with the first caller.
    pub(super) called: BTreeMap<usize, usize>,
    pub(super) definitions: BTreeMap<Guid, Vec<Definition>>,
    pub(super) values: BTreeMap<usize, Guid>,
    pub(super) names: BTreeMap<Guid, String>,
    /// What the IR of a definition mentions.
    pub(super) references: BTreeMap<Guid, BTreeSet<Guid>>,
    /// Kept by the compiler's word, or mentioned by assembly.
    pub(super) kept: BTreeSet<Guid>,
    /// Values that never become code or data.
    pub(super) metadata: BTreeSet<Guid>,
}

#[cfg(test)]
impl OracleAtom {
    pub(super) fn new(module: usize, state: &str, witness: Witness) -> OracleAtom {
        OracleAtom { module, state: state.to_owned(), witness, name: None }
    }
}

impl PrunedLink {
    /// Read a report, and the modules of bitcode that it names by paths from `dir`.
    ///
    /// # Errors
    /// If a file isn't there or can't be read, or the link was not pruned.
    pub(super) fn read(report: &Path, dir: &Path) -> Result<PrunedLink> {
        let root = crate::report::read(report)?;
        if root["pruned"] != Value::Bool(true) {
            return Err("the originals were linked".into());
        }
        let mut ours = PrunedLink { atoms: atoms(&root)?, ..PrunedLink::default() };
        ours.graph(&root["graph"])?;
        for site in list(&root, "call_sites")? {
            let caller = site["caller"].as_u64().ok_or("a call site without a caller")? as usize;
            for target in list(site, "targets")?.iter().filter_map(|t| t["atom"].as_u64()) {
                ours.called.entry(target as usize).or_insert(caller);
            }
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (position, module) in list(&root, "modules")?.iter().enumerate() {
            let name = module["name"].as_str().unwrap_or_default();
            let archive = module["archive"].as_str();
            let label = archive.map_or_else(|| name.to_owned(), |a| format!("{a}({name})"));
            let nth = seen.entry(label.clone()).or_default();
            if module["kind"] == "bitcode" {
                let data = fs::read(dir.join(archive.unwrap_or(name)))?;
                let data = match archive {
                    Some(_) => member(&data, name, *nth)?,
                    None => data,
                };
                ours.module(position, &data).map_err(|e| format!("{label}: {e}"))?;
            }
            *nth += 1;
            ours.labels.push(label);
        }
        Ok(ours)
    }

    fn graph(&mut self, graph: &Value) -> Result<()> {
        let numbers = |name: &str| -> Result<Vec<u64>> {
            Ok(list(graph, name)?.iter().filter_map(Value::as_u64).collect())
        };
        let (start, target) = (numbers("start")?, numbers("target")?);
        let (kind, flags) = (numbers("kind")?, numbers("flags")?);
        let kinds = list(graph, "kinds")?;
        for (from, range) in start.windows(2).enumerate() {
            for edge in range[0] as usize..range[1] as usize {
                let to = *target.get(edge).ok_or("an edge without a target")? as usize;
                let escaped = flags.get(edge).ok_or("an edge without flags")? & ESCAPED != 0;
                let kind = kind.get(edge).and_then(|k| kinds.get(*k as usize)).and_then(Value::as_str);
                let kind = kind.ok_or("an edge without a kind")?.to_owned();
                self.mentions.entry(to).or_default().push(Mention { from, kind, escaped });
            }
        }
        Ok(())
    }

    /// Put in a module's values and references.
    fn module(&mut self, position: usize, bytes: &[u8]) -> Result<()> {
        let file = bitcode::read(bytes).map_err(|e| e.to_string())?;
        let summary = bitcode::extract_at(bytes, Granularity::Pointers);
        let base = self.atoms.iter().position(|a| a.module == position);
        let base = base.unwrap_or(self.atoms.len());
        let in_report = self.atoms.iter().filter(|a| a.module == position).count();
        if in_report != summary.atoms.len() {
            return Err(
                format!("{in_report} atoms in the report, {} in the module", summary.atoms.len()).into()
            );
        }
        let numbering = numbering(&file, Granularity::Pointers);
        let (mut by_atom, mut by_symbol) = (BTreeMap::new(), BTreeMap::new());
        for (m, module) in file.modules.iter().enumerate() {
            let guids: Vec<Guid> = module
                .values
                .iter()
                .map(|v| {
                    let local = v.linkage.is_local();
                    guid::guid_of(v.name, local, &module.source_file, file.producer_major())
                })
                .collect();
            for (v, value) in module.values.iter().enumerate() {
                let guid = guids[v];
                self.names.entry(guid).or_insert_with(|| String::from_utf8_lossy(value.name).into_owned());
                if let Some(symbol) = numbering.symbols[m][v] {
                    by_symbol.insert(symbol, guid);
                }
                if symbols::is_metadata(module, value) {
                    self.metadata.insert(guid);
                }
                let Some(object) = symbols::base_object(module, v as u32) else { continue };
                let Some(atom) = numbering.atoms[m][object as usize] else { continue };
                let definition = Definition { module: position, atom: base + atom.index() };
                self.definitions.entry(guid).or_default().push(definition);
                if object as usize == v {
                    by_atom.insert(atom, guid);
                    self.values.insert(definition.atom, guid);
                } else {
                    self.references.entry(guid).or_default().insert(guids[object as usize]);
                }
            }
            let entries = module.summary.iter().flat_map(|s| &s.entries).filter(|e| e.flags.live);
            self.kept.extend(entries.filter_map(|e| guids.get(e.value as usize)));
        }
        for reference in &summary.references {
            let target = match reference.target {
                Target::Symbol(symbol) => by_symbol.get(&symbol),
                Target::Atom(atom) => by_atom.get(&atom),
            };
            let Some(target) = target.copied() else { continue };
            match by_atom.get(&reference.from) {
                Some(from) => self.references.entry(*from).or_default().insert(target),
                // Assembly.
                None => self.kept.insert(target),
            };
        }
        Ok(())
    }

    /// Whether any definition of a value is kept.
    pub(super) fn is_kept(&self, guid: Guid) -> bool {
        self.definitions.get(&guid).into_iter().flatten().any(|d| self.state(d.atom) == "kept")
    }

    /// Whether the definition of this module is.
    pub(super) fn is_kept_in(&self, guid: Guid, module: &str) -> bool {
        let mut here = self.definitions.get(&guid).into_iter().flatten();
        here.any(|d| self.labels.get(d.module).is_some_and(|l| l == module) && self.state(d.atom) == "kept")
    }

    /// `stub` if one of the definitions is.
    pub(super) fn is_stub(&self, guid: Guid) -> bool {
        self.definitions.get(&guid).into_iter().flatten().any(|d| self.state(d.atom) == "stub")
    }

    pub(super) fn state(&self, atom: usize) -> &str {
        self.atoms.get(atom).map_or("", |a| a.state.as_str())
    }

    pub(super) fn name(&self, guid: Guid) -> String {
        self.names.get(&guid).cloned().unwrap_or_else(|| format!("{guid:#x}"))
    }

    pub(super) fn describe(&self, atom: usize) -> String {
        let value = self.values.get(&atom).map(|g| self.name(*g));
        let name = value.or_else(|| self.atoms.get(atom)?.name.clone()).unwrap_or_else(|| "unnamed".into());
        let module = self.atoms.get(atom).and_then(|a| self.labels.get(a.module));
        format!("{name} ({})", module.map_or("", String::as_str))
    }

    /// What is reached by references of the IR from these names, and from what the compiler keeps.
    pub(super) fn reached(&self, roots: &BTreeSet<String>) -> BTreeSet<Guid> {
        let named = roots.iter().map(|name| guid::guid(name.as_bytes()));
        let mut work: Vec<Guid> = named.chain(self.kept.iter().copied()).collect();
        let mut reached = BTreeSet::new();
        while let Some(next) = work.pop() {
            if reached.insert(next) {
                work.extend(self.references.get(&next).into_iter().flatten());
            }
        }
        reached
    }
}

fn atoms(root: &Value) -> Result<Vec<OracleAtom>> {
    let atom = |value: &Value| -> Result<OracleAtom> {
        let witness = &value["witness"];
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let witness = match witness["by"].as_str() {
            Some("root") => Witness::Root(text(&witness["reason"])),
            Some(_) => Witness::Reference {
                from: witness["from"].as_u64().ok_or("a witness without an atom")? as usize,
                kind: text(&witness["kind"]),
            },
            None => Witness::Nothing,
        };
        Ok(OracleAtom {
            module: value["module"].as_u64().ok_or("an atom without a module")? as usize,
            state: value["state"].as_str().ok_or("an atom without a state")?.to_owned(),
            witness,
            name: value["symbols"][0].as_str().map(str::to_owned),
        })
    };
    list(root, "atoms")?.iter().map(atom).collect()
}

/// The `nth` member of this name.
fn member(archive: &[u8], name: &str, nth: usize) -> Result<Vec<u8>> {
    let parsed = ArchiveFile::parse(archive)?;
    let mut left = nth;
    for member in parsed.members() {
        let member = member?;
        if member.name() != name.as_bytes() {
            continue;
        }
        if left == 0 {
            return Ok(member.data(archive)?.to_vec());
        }
        left -= 1;
    }
    Err(format!("no member {name}").into())
}
