//! A link in actions, as in distributed ThinLTO: summarise each file, plan the link, emit each file, link.
//!
//! A build system runs each action again only if its inputs changed. `summarize --interface` makes the interface of a file
//! ([`crate::inputs::interface`]). A link with `--prune-plan` writes a plan for each file from interfaces alone ([`write_plans`]), and
//! `emit` prunes the modules of a file by its plan ([`emit_command`]). A link with `--prune-emitted` takes the pruned modules
//! ([`EmittedAhead`](crate::emit::ahead::EmittedAhead)).
//!
//! The link plans again from the files themselves. It takes a pruned module only under the key of the module, summary and plan that it has
//! itself, and verifies it; otherwise it emits the module. So its output is that of a link by one command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use summaries::{ModuleSummary, format};

use crate::args::help::{CommandWord, CommandWords};
use crate::emit::{ahead, archive, tree};
use crate::error::{Error, Result, Stage, all_or_first_error};
use crate::gate::Verdict;
use crate::index::LinkInputs;
use crate::inputs::recognise::recognise;
use crate::inputs::{FileKind, InputFile, interface};
use crate::plan::file::PlannedModule;
use crate::plan::{ModulePlan, Plan, file as plan_file};
use crate::pruned_link::verify_rewritten;
use crate::{hashing, messages, precomputed};

/// Write the plan of each file of the link that has an interface into `dir`, and say why, where every file stays as it is. Files that have one path there
/// are one file by several names, with the modules of all of them.
/// Under `--prune-strict` it is an error if a failure of ours keeps something.
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
        let written = precomputed::write(path, &plan_file::encode(planned));
        written.map_err(|e| Error::io(Stage::Plan, path, "write the plan", e))
    })
}

const USAGE: &str = "; usage: lto-prune emit --plan=FILE IN -o OUT";

/// `lto-prune emit --plan=FILE IN -o OUT`, without the first two words.
pub fn emit_command(words: &[OsString]) -> Result<()> {
    let [plan, input, output] = parse(words)?;
    let read = |path: &Path| fs::read(path).map_err(|e| Error::io(Stage::Emit, path, "read", e));
    let name = input.display().to_string();
    let plan_bytes =
        precomputed::open(&plan, Some(&input)).map_err(|e| Error::new(Stage::Emit, e.to_string()))?;
    let planned = plan_file::decode(&plan_bytes).map_err(|e| e.in_file(plan.display().to_string()))?;
    let bytes = read(&input)?;
    if [&input, &plan].into_iter().any(|file| precomputed::same_file(file, &output)) {
        let error = Error::new(Stage::Arguments, "the output is an input");
        return Err(error.in_file(output.display().to_string()));
    }
    let one = |module: &PlannedModule| {
        let name = module.member.as_ref().map_or_else(|| name.clone(), |member| format!("{name}({member})"));
        let (summary, plan, original) = planned_module(&bytes, module).map_err(|e| e.in_file(&name))?;
        match emit_module(&name, &summary, plan, original) {
            Ok(object) => Ok(Some(ahead::with_key(object, &module.key()))),
            // The link comes to the same end, says so, and takes the originals.
            Err(error) => {
                eprintln!("lto-prune: warning: {error}; the module is left out");
                Ok(None)
            }
        }
    };
    let objects = all_or_first_error(planned.par_iter().map(one))?;
    let emitted = planned.iter().zip(objects).filter_map(|(module, object)| Some((module, object?)));
    let mut emitted: Vec<(&PlannedModule, Vec<u8>)> = emitted.collect();
    let is_archive = matches!(recognise(&bytes), FileKind::Archive | FileKind::ThinArchive);
    let written = match emitted.len() {
        0 if !is_archive => precomputed::write(&output, &bytes),
        1 if !is_archive => precomputed::write(&output, &emitted.remove(0).1),
        // An object that is named twice is two modules, and each has a plan of its own.
        _ => archive_of(&input, &emitted).and_then(|archive| precomputed::write(&output, &archive)),
    };
    written.map_err(|e| Error::io(Stage::Emit, &output, "write", e))
}

/// An archive of the emitted modules of the file `input`, by their names in it.
fn archive_of(input: &Path, emitted: &[(&PlannedModule, Vec<u8>)]) -> std::io::Result<Vec<u8>> {
    let base = input.file_name().unwrap_or_default().to_string_lossy();
    let member = |(module, object): &(&'_ PlannedModule, Vec<u8>)| {
        (module.member.clone().unwrap_or_else(|| base.to_string()), object.clone())
    };
    let members: Vec<(String, Vec<u8>)> = emitted.iter().map(member).collect();
    let members: Vec<(&str, &[u8])> =
        members.iter().map(|(name, object)| (name.as_str(), object.as_slice())).collect();
    let mut archive = Vec::new();
    archive::write(&mut archive, &members)?;
    Ok(archive)
}

/// The summary and the plan of a module, and its bytes in `file`.
fn planned_module<'f, 'p>(
    file: &'f [u8],
    module: &'p PlannedModule,
) -> Result<(ModuleSummary, &'p ModulePlan, &'f [u8])> {
    let (hash, summary, plan) = module.decoded()?;
    let original = file.get(module.range()).filter(|bytes| hashing::hash(bytes) == hash);
    let other = "it is not what was planned: its interface is of other contents";
    Ok((summary, plan, original.ok_or_else(|| Error::new(Stage::Emit, other))?))
}

/// One module by its plan, verified.
fn emit_module(name: &str, summary: &ModuleSummary, plan: &ModulePlan, original: &[u8]) -> Result<Vec<u8>> {
    let rewritten = tree::prepare_module(original, summary, plan)
        .and_then(|prepared| tree::rewrite_module(original, summary, plan, &prepared));
    let (pruned, _) = rewritten.map_err(|e| e.in_file(name))?;
    verify_rewritten(name, original, &pruned, summary, plan)?;
    Ok(pruned)
}

/// The plan, the file to emit, and the output.
fn parse(words: &[OsString]) -> Result<[PathBuf; 3]> {
    let (mut plan, mut input, mut output) = (None, None, None);
    let mut words = CommandWords::new("emit", words, USAGE);
    while let Some(word) = words.next()? {
        match word {
            CommandWord::Option("plan", file) => plan = Some(PathBuf::from(file)),
            CommandWord::Option(_, file) => output = Some(PathBuf::from(file)),
            CommandWord::Value(file) if input.is_none() => input = Some(PathBuf::from(file)),
            CommandWord::Value(file) => {
                let message = format!("one file at a time, and {} is the second{USAGE}", file.display());
                return Err(words.wrong(message));
            }
        }
    }
    let missing = |what: &str| Err(words.wrong(format!("no {what}{USAGE}")));
    match (plan, input, output) {
        (Some(plan), Some(input), Some(output)) => Ok([plan, input, output]),
        (None, _, _) => missing("--plan"),
        (_, None, _) => missing("file to emit"),
        (_, _, None) => missing("-o"),
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::process::Command;

    use summaries::{Granularity, extract, format};

    use crate::plan::Action;

    /// A plan that can't be applied ends no build: the file stays as it is, and the link says what it makes of it.
    #[test]
    fn what_cannot_be_emitted_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(
            path("a.c"),
            "int callee(int x) { return x; }\nint caller(int x) { return callee(x) + 1; }\n",
        )
        .unwrap();
        let gcc =
            Command::new("gcc").current_dir(dir.path()).args(["-O1", "-fno-inline", "-c", "a.c"]).status();
        assert!(gcc.unwrap().success());
        let bytes = fs::read(path("a.o")).unwrap();
        let summary = extract::extract(&bytes, Granularity::Functions);
        let symbol = |name: &[u8]| summary.symbols.iter().find(|s| summary.name(s.name) == name).unwrap();
        for (dropped, is_emitted) in [(&b"caller"[..], true), (b"callee", false)] {
            let summaries::Definition::Atom(atom) = symbol(dropped).definition else {
                panic!("no definition")
            };
            let action = |at: usize| if at == atom.index() { Action::Drop } else { Action::Keep };
            let plan =
                ModulePlan { atoms: (0..summary.atoms.len()).map(action).collect(), ..ModulePlan::default() };
            let encoded = format::encode(&summary, hashing::hash(&bytes));
            let planned = [PlannedModule::new(&(0..bytes.len()), None, encoded, &plan)];
            fs::write(path("plan"), plan_file::encode(&planned)).unwrap();
            let words = [
                format!("--plan={}", path("plan").display()),
                path("a.o").display().to_string(),
                "-o".to_owned(),
            ];
            let words: Vec<OsString> =
                words.into_iter().chain([path("out.o").display().to_string()]).map(OsString::from).collect();
            emit_command(&words).unwrap();
            assert_eq!(fs::read(path("out.o")).unwrap() != bytes, is_emitted);
        }
    }
}
