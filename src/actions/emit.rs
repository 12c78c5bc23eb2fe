//! The action emit (`lto-prune emit`): the modules of one file pruned by its plan file.
//!
//! An object gives an object, the same one where nothing goes from it; an archive gives an archive of the members from which something goes. It does
//! for them what the pass emit does in a link, and verifies them as a link does.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use lexopt::prelude::{Long, Short, Value};
use rayon::prelude::*;
use summaries::{ModuleKind, ModuleSummary};

use crate::emit::tree::{self, Prepared};
use crate::emit::{ahead, archive, object};
use crate::error::{Error, Result, Stage};
use crate::hashing;
use crate::inputs::FileKind;
use crate::inputs::recognise::recognise;
use crate::made_ahead;
use crate::plan::ModulePlan;
use crate::plan::file::{self, PlannedModule};
use crate::pruned_link::verify_rewritten;

const USAGE: &str = "usage: lto-prune emit --plan=FILE IN -o OUT";

/// `lto-prune emit --plan=FILE IN -o OUT`, without the first two words.
///
/// # Errors
/// A mistake in the words; a file that can't be read or written; `IN` is not the file that was planned; a module that can't be emitted as planned.
pub fn emit_command(words: &[OsString]) -> Result<()> {
    let EmitRequest { plan, input, output } = parse(words)?;
    let read = |path: &Path| fs::read(path).map_err(|e| Error::io(Stage::Emit, path, "read", e));
    let name = input.display().to_string();
    let planned = file::decode(&read(&plan)?).map_err(|e| e.in_file(plan.display().to_string()))?;
    let bytes = read(&input)?;
    if [&input, &plan]
        .iter()
        .any(|file| file.canonicalize().is_ok_and(|file| output.canonicalize().is_ok_and(|o| o == file)))
    {
        return Err(
            Error::new(Stage::Arguments, "the output is an input").in_file(output.display().to_string())
        );
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
    let emitted: Vec<Option<Vec<u8>>> = planned.par_iter().map(one).collect::<Result<_>>()?;
    let emitted = planned.iter().zip(emitted).filter_map(|(module, object)| Some((module, object?)));
    let (planned, objects): (Vec<&PlannedModule>, Vec<Vec<u8>>) = emitted.unzip();
    let is_archive = matches!(recognise(&bytes), FileKind::Archive | FileKind::ThinArchive);
    let emitted = match objects.as_slice() {
        [] if !is_archive => bytes,
        [object] if !is_archive => object.clone(),
        // A file that is named twice is two modules, and each has a plan of its own.
        objects => {
            let base = input.file_name().unwrap_or_default().to_string_lossy();
            let name_of = |module: &&PlannedModule| module.member.clone().unwrap_or_else(|| base.to_string());
            let names: Vec<String> = planned.iter().map(name_of).collect();
            let members: Vec<(&str, &[u8])> =
                names.iter().zip(objects).map(|(name, object)| (name.as_str(), object.as_slice())).collect();
            let mut archive = Vec::new();
            let written = archive::write(&mut archive, &members);
            written.map_err(|e| Error::io(Stage::Emit, &output, "write", e))?;
            archive
        }
    };
    made_ahead::write(&output, &emitted).map_err(|e| Error::io(Stage::Emit, &output, "write", e))
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
    let in_file = |e: Error| e.in_file(name);
    let explicit = match summary.kind == ModuleKind::Native {
        true => object::explicit_debug(original, summary, plan).map_err(in_file)?,
        false => None,
    };
    let prepared = explicit.map_or(Prepared::Original, Prepared::Explicit);
    let pruned = tree::rewrite_module(original, summary, plan, &prepared).map_err(in_file)?;
    verify_rewritten(name, original, &pruned, summary, plan)?;
    Ok(pruned)
}

struct EmitRequest {
    plan: PathBuf,
    input: PathBuf,
    output: PathBuf,
}

fn parse(words: &[OsString]) -> Result<EmitRequest> {
    let wrong = |what: String| Error::new(Stage::Arguments, format!("{what}; {USAGE}"));
    let mistake = |e: lexopt::Error| wrong(e.to_string());
    let (mut plan, mut input, mut output) = (None, None, None);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(word) = parser.next().map_err(mistake)? {
        match word {
            Long("plan") => plan = Some(PathBuf::from(parser.value().map_err(mistake)?)),
            Short('o') | Long("output") => output = Some(PathBuf::from(parser.value().map_err(mistake)?)),
            Value(file) if input.is_none() => input = Some(PathBuf::from(file)),
            Value(file) => {
                return Err(wrong(format!("one file at a time, and {} is the second", file.display())));
            }
            other => return Err(mistake(other.unexpected())),
        }
    }
    match (plan, input, output) {
        (Some(plan), Some(input), Some(output)) => Ok(EmitRequest { plan, input, output }),
        (None, _, _) => Err(wrong("no --plan".to_owned())),
        (_, None, _) => Err(wrong("no file to emit".to_owned())),
        (_, _, None) => Err(wrong("no -o".to_owned())),
    }
}
