//! A link in actions, as distributed ThinLTO has them: summarise each file, plan the link, emit each file, link.
//!
//! Each action reads what it is given and nothing else, so that a build system runs it where it likes and again only where its inputs changed.
//! `summarize --interface` makes the interface of a file ([`crate::inputs::interface`]), a link with `--prune-plan` writes a plan for each file from
//! interfaces alone ([`write_plans`]), and `emit` makes pruned modules of a file by its plan ([`emit_command`]). A link with `--prune-emitted` takes them
//! from where `emit` wrote them ([`EmittedAhead`](crate::emit::ahead::EmittedAhead)).
//!
//! Safe because the link decides everything once more from the files themselves: it takes what was emitted only under the key of the module, summary and
//! plan that it has itself, verifies it, and else emits the module, so that its output is that of a link by one command whatever the actions did.

mod emit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use summaries::format;

pub use emit::emit_command;

use crate::error::{Error, Result, Stage};
use crate::gate::Verdict;
use crate::index::LinkInputs;
use crate::inputs::{InputFile, interface};
use crate::made_ahead;
use crate::messages;
use crate::plan::file::PlannedModule;
use crate::plan::{Plan, file as plan_file};

/// Write the plan of each file of the link that has an interface into `dir`, and say why, where every file stays as it is. Files that have one path there
/// are one file by several names, with the modules of all of them.
///
/// # Errors
/// A plan can't be written; under `--prune-strict`, a failure of ours keeps something.
pub fn write_plans(link: LinkInputs<'_>, plan: &Plan, verdict: &Verdict, dir: &Path) -> Result<()> {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let failure = verdict.failure(link);
    if let (true, Some(failure)) = (config.prune.strict, &failure) {
        return Err(Error::new(Stage::Plan, failure));
    }
    let why_nothing = || Some(format!("plan: {}; nothing is pruned", verdict.why_nothing(link)?));
    failure.or_else(why_nothing).iter().for_each(|warning| messages::warning(config, warning));
    let is_pruned = verdict.allows() && !config.prune.off;
    let path_of = |file: &InputFile| interface::path_of(dir, &file.path, plan_file::SUFFIX);
    let with_interface = inputs.files.iter().filter(|file| file.interface.is_some());
    let mut plans: BTreeMap<PathBuf, Vec<PlannedModule>> =
        with_interface.map(|file| (path_of(file), Vec::new())).collect();
    for (position, module) in resolution.loaded.iter().enumerate() {
        let of_module = &plan.modules[position];
        if !is_pruned || of_module.passed_through {
            continue;
        }
        let entry = &inputs.modules[*module];
        let Some(planned) = plans.get_mut(&path_of(&inputs.files[entry.file])) else { continue };
        let summary = format::encode(summaries[position], crate::summarize::module_hash(inputs, *module));
        let member = entry.archive.as_ref().filter(|(archive, _)| *archive == entry.file);
        let member = member.map(|(_, name)| name.clone());
        planned.push(PlannedModule::new(&entry.range, member, summary, of_module));
    }
    if plans.is_empty() {
        messages::warning(
            config,
            "plan: no file of this link has an interface, so that there is no plan to write",
        );
    }
    plans.iter().try_for_each(|(path, planned)| {
        let written = made_ahead::write(path, &plan_file::encode(planned));
        written.map_err(|e| Error::io(Stage::Plan, path, "write the plan", e))
    })
}
