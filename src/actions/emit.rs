//! The action emit (`lto-prune emit`): the modules of one file pruned by its plan file.
//!
//! An object gives an object, the same one where nothing goes from it; an archive gives an archive of the members from which something goes. It does
//! for them what the pass emit does in a link, and verifies them as a link does.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use summaries::ModuleSummary;

use crate::args::help::{CommandWord, CommandWords};
use crate::emit::{ahead, archive, tree};
use crate::error::{Error, Result, Stage, all_or_first_error};
use crate::hashing;
use crate::inputs::FileKind;
use crate::inputs::recognise::recognise;
use crate::made_ahead;
use crate::plan::ModulePlan;
use crate::plan::file::{self, PlannedModule};
use crate::pruned_link::verify_rewritten;

const USAGE: &str = "; usage: lto-prune emit --plan=FILE IN -o OUT";

/// `lto-prune emit --plan=FILE IN -o OUT`, without the first two words.
///
/// # Errors
/// A mistake in the words; a file that can't be read or written; `IN` is not the file that was planned; a module that can't be emitted as planned.
pub fn emit_command(words: &[OsString]) -> Result<()> {
    let EmitRequest { plan, input, output } = parse(words)?;
    let read = |path: &Path| fs::read(path).map_err(|e| Error::io(Stage::Emit, path, "read", e));
    let name = input.display().to_string();
    let plan_bytes =
        made_ahead::open(&plan, Some(&input)).map_err(|e| Error::new(Stage::Emit, e.to_string()))?;
    let planned = file::decode(&plan_bytes).map_err(|e| e.in_file(plan.display().to_string()))?;
    let bytes = read(&input)?;
    if [&input, &plan].into_iter().any(|file| made_ahead::same_file(file, &output)) {
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
        0 if !is_archive => made_ahead::write(&output, &bytes),
        1 if !is_archive => made_ahead::write(&output, &emitted.remove(0).1),
        // An object that is named twice is two modules, and each has a plan of its own.
        _ => archive_of(&input, &emitted).and_then(|archive| made_ahead::write(&output, &archive)),
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

struct EmitRequest {
    plan: PathBuf,
    input: PathBuf,
    output: PathBuf,
}

fn parse(words: &[OsString]) -> Result<EmitRequest> {
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
        (Some(plan), Some(input), Some(output)) => Ok(EmitRequest { plan, input, output }),
        (None, _, _) => missing("--plan"),
        (_, None, _) => missing("file to emit"),
        (_, _, None) => missing("-o"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::process::Command;

    use summaries::{Granularity, extract, format};

    use super::*;
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
            fs::write(path("plan"), file::encode(&planned)).unwrap();
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
