//! A link in actions, as distributed ThinLTO has them: summarise each file, plan the link, emit each file, link.
//!
//! Each action reads what it is given and nothing else, so that a build system runs it where it likes and again only where its inputs changed.
//! `summarize --interface` makes the interface of a file ([`crate::inputs::interface`]), a link with `--prune-plan` writes a plan for each file from
//! interfaces alone ([`write_plans`]), `emit` makes pruned modules of a file by its plan ([`emit_command`]), and a link with `--prune-emitted` takes
//! those ([`EmittedAhead`](crate::emit::ahead::EmittedAhead)).
//!
//! Safe because the link decides everything once more from the files themselves: it takes what was emitted only under the key of the module, summary and
//! plan that it has itself, verifies it, and else emits the module, so that its output is that of a link by one command whatever the actions did.

mod emit;

use std::fs;
use std::path::Path;

use summaries::format;

pub use emit::emit_command;

use crate::error::{Error, Result, Stage};
use crate::ids::Id;
use crate::index::LinkInputs;
use crate::inputs::interface;
use crate::plan::file::PlannedModule;
use crate::plan::{Plan, file as plan_file};

/// Write the plan of each file of the link that has an interface into `dir`, and leave those alone that are there already: who compares times
/// runs no action again for them. Without a plan every file stays as it is.
///
/// # Errors
/// A plan can't be written.
pub fn write_plans(link: LinkInputs<'_>, plan: Option<&Plan>, dir: &Path) -> Result<()> {
    let LinkInputs { inputs, resolution, summaries, .. } = link;
    let mut by_file: Vec<Vec<PlannedModule>> = inputs.files.iter().map(|_| Vec::new()).collect();
    for (position, module) in resolution.loaded.iter().enumerate() {
        let Some(of_module) = plan.map(|plan| &plan.modules[position]).filter(|plan| !plan.is_untouched())
        else {
            continue;
        };
        let entry = &inputs.modules[*module];
        let summary = format::encode(summaries[position], crate::summarize::module_hash(inputs, *module));
        let member = entry.archive.as_ref().filter(|(archive, _)| *archive == entry.file);
        let member = member.map(|(_, name)| name.clone());
        by_file[entry.file.index()].push(PlannedModule::new(&entry.range, member, summary, of_module));
    }
    for (file, planned) in inputs.files.iter().zip(by_file) {
        if file.interface.is_none() {
            continue;
        }
        let path = interface::path_of(dir, &file.path, plan_file::SUFFIX);
        let failed = |e| Error::io(Stage::Plan, &path, "write the plan", e);
        let bytes = plan_file::encode(&planned);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&path, bytes).map_err(failed)?;
    }
    Ok(())
}
