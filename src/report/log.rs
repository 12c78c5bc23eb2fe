//! `--prune-limit-log=F`: each link adds one line of JSON to the file, for a build of many links.
//!
//! The line has the id of the link for `--prune-limit`, the number of its droppable atoms, and with a limit the last dropped atom and
//! the reason. It is written at once, since links run in parallel.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::names::{atom_kind_name, symbols_of};
use super::table::first_names;
use crate::error::{Error, Stage, lossy};
use crate::ids::{AtomId, Id};
use crate::index::{Index, LinkInputs};
use crate::messages;
use crate::plan::limit::PruneCandidates;
use crate::propagate::Liveness;

/// More referring atoms than these are counted.
const NAMED_REFERRERS: usize = 3;

/// The line of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// The id of the link for `--prune-limit`.
    pub link: String,
    /// It is the absolute path of the output.
    pub output: String,
    /// The number of droppable atoms; 0 if the link isn't pruned.
    pub atoms: usize,
    /// The number of them that may be dropped.
    pub limit: usize,
    /// The last of those that may be dropped, if a limit was given.
    pub last: Option<LogAtom>,
    /// Atoms that are dropped together with the last one.
    pub with: Vec<LogAtom>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogAtom {
    pub symbols: Vec<String>,
    pub module: String,
    pub archive: Option<String>,
    pub section: String,
    pub offset: u64,
    /// It is a number of bytes.
    pub size: u64,
    pub kind: String,
    /// `dropped`, `stub`, or `kept`, because a kept atom refers to it.
    pub state: String,
    pub why: String,
}

fn line(
    names: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
    prune_candidates: &PruneCandidates,
    allowed: bool,
) -> LogLine {
    let output = &names.config.output;
    let writer = LogWriter { names, index, liveness };
    let last =
        prune_candidates.limit.checked_sub(1).and_then(|at| prune_candidates.candidates.get(at)).copied();
    let explained = prune_candidates.before.as_ref().filter(|_| allowed);
    let went = |before: &Liveness, atom: AtomId| before.is_live(atom) && !liveness.is_live(atom);
    let also = |before: &Liveness| {
        let others = prune_candidates.candidates.iter().filter(|a| Some(**a) != last && went(before, **a));
        others.map(|a| writer.atom(*a)).collect()
    };
    LogLine {
        link: prune_candidates.link.to_string(),
        output: std::path::absolute(output).unwrap_or(output.clone()).display().to_string(),
        atoms: if allowed { prune_candidates.candidates.len() } else { 0 },
        limit: if allowed { prune_candidates.limit } else { 0 },
        last: explained.and(last).map(|atom| writer.atom(atom)),
        with: explained.map(also).unwrap_or_default(),
    }
}

struct LogWriter<'s> {
    names: LinkInputs<'s>,
    index: &'s Index,
    liveness: &'s Liveness,
}

impl LogWriter<'_> {
    fn atom(&self, id: AtomId) -> LogAtom {
        let (position, local) = self.index.locate(id);
        let summary = self.names.summaries[position];
        let atom = &summary.atoms[local.index()];
        let module = &self.names.inputs.modules[self.names.resolution.loaded[position]];
        let path = |file| self.names.inputs.files[file].path.display().to_string();
        let (module, archive) = match &module.archive {
            Some((archive, member)) => (member.clone(), Some(path(*archive))),
            None => (path(module.file), None),
        };
        let state = match (self.liveness.is_stub(id), self.liveness.is_live(id)) {
            (true, _) => "stub",
            (false, true) => "kept",
            (false, false) => "dropped",
        };
        LogAtom {
            symbols: self.symbols(id).collect(),
            module,
            archive,
            section: lossy(summary.name(atom.name)),
            offset: atom.offset,
            size: atom.size,
            kind: atom_kind_name(atom.kind).to_owned(),
            state: state.to_owned(),
            why: self.why(id),
        }
    }

    fn symbols(&self, id: AtomId) -> impl Iterator<Item = String> {
        let (position, local) = self.index.locate(id);
        symbols_of(self.names.summaries[position], local)
    }

    /// The reason why it is dropped, from the atoms that refer to it.
    fn why(&self, id: AtomId) -> String {
        let (index, liveness) = (self.index, self.liveness);
        let refers = |from: &AtomId| {
            let mentions = || index.edges_of(*from).1.iter().any(|e| e.target == id);
            *from != id && index.alloc[from.index()] && !index.discarded[from.index()] && mentions()
        };
        let referrers: Vec<AtomId> = (0..index.atom_count()).map(AtomId::new).filter(refers).collect();
        let (live, dead): (Vec<_>, Vec<_>) = referrers.into_iter().partition(|a| liveness.is_live(*a));
        match (liveness.is_stub(id), live.is_empty(), dead.is_empty()) {
            (true, ..) => {
                let by = if live.is_empty() { dead } else { live };
                format!("its address is needed and its body is not: {} takes it", self.list(&by))
            }
            (false, true, true) => "nothing refers to it".to_owned(),
            (false, true, false) => format!("only dropped atoms refer to it: {}", self.list(&dead)),
            (false, false, _) => format!("no call reaches it, but {} takes its address", self.list(&live)),
        }
    }

    fn list(&self, atoms: &[AtomId]) -> String {
        let name = |id: &AtomId| {
            self.symbols(*id).next().unwrap_or_else(|| {
                let (position, local) = self.index.locate(*id);
                let summary = self.names.summaries[position];
                lossy(summary.name(summary.atoms[local.index()].name))
            })
        };
        match first_names(atoms.iter().map(name), NAMED_REFERRERS) {
            (named, 0) => named,
            (named, more) => format!("{named} and {more} more"),
        }
    }
}

/// Add a line to the file.
fn append(path: &Path, line: &LogLine) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    messages::append(path, &text)
}

/// Add the line of a link to the file that `--prune-limit-log` names, if there is one.
pub fn write(
    link: LinkInputs<'_>,
    index: &Index,
    liveness: &Liveness,
    prune_candidates: Option<&PruneCandidates>,
    allowed: bool,
) {
    let (Some(path), Some(candidates)) = (&link.config.prune.limit_log, prune_candidates) else { return };
    if let Err(error) = append(path, &line(link, index, liveness, candidates, allowed)) {
        messages::not_written(link.config, &Error::io(Stage::Report, path, "write the log", error));
    }
}
