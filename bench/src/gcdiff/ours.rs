//! What lto-prune kept, from its report (`--prune-report`, schema in docs/REPORT_FORMAT.md).
//!
//! At section level a section is an atom, so the n-th atom of a name in a module is the n-th section of that name.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::objects::{LinkObjects, SectionRef, label};
use crate::Result;
use crate::corpus::{Corpus, Link};
use crate::process::run_ok;

/// The pruner's side of the comparison.
#[derive(Debug)]
pub(super) struct Verdicts {
    /// Whether each section lives, by object and section; `None` where the report says nothing of it.
    live: Vec<Vec<Option<bool>>>,
    /// Atoms of the report that are no section of the link.
    pub(super) unknown: Vec<String>,
}

impl Verdicts {
    pub(super) fn of(&self, node: SectionRef) -> Option<bool> {
        self.live.get(node.0)?.get(node.1).copied().flatten()
    }
}

/// Link with lto-prune at section level and write its report.
pub(super) fn run(corpus: &Corpus, link: &Link, lld: &Path, ours: &Path, scratch: &Path) -> Result<Value> {
    let report = scratch.join("report.json");
    let mut command = corpus.linker_command(link, ours, &scratch.join("ours.out"));
    command
        .env("LTO_PRUNE_LINKER", lld)
        .env_remove("LTO_PRUNE_FLAGS")
        .args(["--prune-level=sections", "--prune-no-cache", "--prune-strict"])
        .arg(format!("--prune-report={}", report.display()));
    run_ok(&mut command, scratch)?;
    let report = crate::report::read(&report)?;
    // A link that fell back to the originals would agree with anything.
    if report.get("pruned").and_then(Value::as_bool) == Some(false) {
        return Err(format!("nothing was pruned: {}", report.get("limits").unwrap_or(&Value::Null)).into());
    }
    Ok(report)
}

/// Match the report's atoms with the sections of `link_objects`.
pub(super) fn verdicts(dir: &Path, link_objects: &LinkObjects, report: &Value) -> Result<Verdicts> {
    let list =
        |key: &str| report.get(key).and_then(Value::as_array).ok_or(format!("the report has no {key}"));
    let text = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or("").to_owned();

    // Objects of one label (members of one name) in order, and modules of that label in order, are the same.
    let mut objects: HashMap<&str, Vec<usize>> = HashMap::new();
    for (o, object) in link_objects.objects.iter().enumerate().rev() {
        objects.entry(&object.label).or_default().push(o);
    }
    let modules = list("modules")?;
    let mut object_of = Vec::with_capacity(modules.len());
    for module in modules {
        let (name, archive) = (text(module, "name"), text(module, "archive"));
        let name =
            if archive.is_empty() || name.ends_with(')') { name } else { format!("{archive}({name})") };
        object_of.push(objects.get_mut(&*label(dir, &name)).and_then(Vec::pop));
    }

    // The n-th of a name: popped from the back.
    let mut sections: HashMap<(usize, String), Vec<usize>> = HashMap::new();
    for (o, object) in link_objects.objects.iter().enumerate() {
        for (s, section) in object.sections.iter().enumerate().rev() {
            sections.entry((o, section.name.clone())).or_default().push(s);
        }
    }
    let mut live: Vec<Vec<Option<bool>>> =
        link_objects.objects.iter().map(|o| vec![None; o.sections.len()]).collect();
    let mut unknown = Vec::new();
    for atom in list("atoms")? {
        let module = atom.get("module").and_then(Value::as_u64).unwrap_or(u64::MAX) as usize;
        let alive = atom.get("live").and_then(Value::as_bool).ok_or("an atom without \"live\"")?;
        let name = text(atom, "section");
        let object = object_of.get(module).copied().flatten();
        let section = object.and_then(|o| sections.get_mut(&(o, name.clone())).and_then(Vec::pop));
        match object.zip(section) {
            Some((o, s)) => live[o][s] = Some(alive),
            None => unknown.push(format!("module {module}:({name})")),
        }
    }
    Ok(Verdicts { live, unknown })
}
