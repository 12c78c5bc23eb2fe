//! The input words of the pruned link.
//!
//! Every choice that pruning could change is made here. Each loaded module is named, in the load order of the plain
//! link. Archive members come as an archive of the same basename under `--whole-archive`, in several pieces if
//! modules of other files were loaded in between. A needed DSO gets `--no-as-needed`, and keeps its place between the
//! modules. An unmodified object is named by its original path. Unloaded members that the linker still searches come
//! last.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::tree::{EmissionInputs, FileContent, OutputFiles};
use crate::config::LineArg;
use crate::ids::{DsoId, FileId, ModuleId};
use crate::inputs::{Inputs, SequenceItem};

/// The words that replace all inputs.
pub(super) fn input_block(sources: EmissionInputs<'_>, files: &mut OutputFiles<'_>) -> Vec<OsString> {
    let EmissionInputs { inputs, resolution, plan, .. } = sources;
    let mut words: Vec<OsString> = Vec::new();
    let loaded = &resolution.loaded;
    let defined = defined_among_inputs(sources);
    let mut libraries = Libraries { sources, seen: Vec::new(), next: 0, defined: defined.as_slice() };
    let mut i = 0;
    while i < loaded.len() {
        libraries.add(i, &mut words);
        let module = &inputs.modules[loaded[i]];
        let Some((archive, _)) = &module.archive else {
            words.push(match plan.modules[i].passed_through {
                false => files.add(&inputs.files[module.file].path.to_string_lossy(), FileContent::Object(i)),
                true => inputs.files[module.file].path.clone().into_os_string(),
            });
            i += 1;
            continue;
        };
        let same = |m: &ModuleId| member_of(inputs, *m).is_some_and(|(a, _)| a == *archive);
        let room = libraries.until_next(i).unwrap_or(usize::MAX);
        let run = loaded[i..].iter().take_while(|m| same(m)).count().min(room);
        words.push("--whole-archive".into());
        words.push(
            files.add(&inputs.files[*archive].path.to_string_lossy(), FileContent::Archive(i..i + run)),
        );
        words.push("--no-whole-archive".into());
        i += run;
    }
    libraries.add(usize::MAX, &mut words);
    words.extend(libraries.defined.iter().flat_map(|(_, words)| *words).cloned());
    unloaded(sources, files, &mut words);
    for symbol in &sources.plan.demanded {
        words.extend(["-u".into(), OsStr::from_bytes(resolution.symbols[*symbol].name).to_owned()]);
    }
    words
}

/// Name the unloaded members that the linker searches: native members if it compiles bitcode, whose code may need
/// them, and members that define a name it looks for.
///
/// They come last and without the loaded ones, so they have the same effect as in the plain link. None of them
/// defines a symbol that is undefined there, or it would be loaded. A definition in a library comes before theirs at
/// any place.
fn unloaded(sources: EmissionInputs<'_>, files: &mut OutputFiles<'_>, words: &mut Vec<OsString>) {
    let EmissionInputs { inputs, resolution, .. } = sources;
    let late = |m: &ModuleId| resolution.late.binary_search(m).is_ok();
    let mut named: Vec<FileId> = Vec::new();
    for item in &inputs.sequence {
        match item {
            SequenceItem::Archive { file, modules, .. } if !named.contains(file) => {
                named.push(*file);
                let members: Vec<ModuleId> = modules.iter().copied().filter(late).collect();
                if !members.is_empty() {
                    let path = inputs.files[*file].path.to_string_lossy();
                    words.push(files.add(&path, FileContent::Unloaded(members)));
                }
            }
            SequenceItem::Object { module, lazy: true, .. } if late(module) => {
                let path = inputs.files[inputs.modules[*module].file].path.clone().into_os_string();
                words.extend(["--start-lib".into(), path, "--end-lib".into()]);
            }
            _ => {}
        }
    }
}

/// Whether the words of the inputs are written at this argument, if they were not written before.
pub(super) fn begins_inputs(sources: EmissionInputs<'_>, arg: &LineArg) -> bool {
    match arg {
        LineArg::Input(_) | LineArg::State(_) => true,
        LineArg::Script(input, _) => sources.inputs.without_inputs.contains_key(input),
        _ => false,
    }
}

/// Each `--defsym` behind an input, with the number of inputs before it.
fn defined_among_inputs<'s>(sources: EmissionInputs<'s>) -> Vec<(usize, &'s [OsString])> {
    let mut before = 0;
    let mut begun = false;
    let mut defined = Vec::new();
    for arg in &sources.config.line {
        match arg {
            LineArg::Input(_) | LineArg::Script(..) => before += 1,
            LineArg::Defsym(words) if begun => defined.push((before, words.as_slice())),
            _ => {}
        }
        begun |= begins_inputs(sources, arg);
    }
    defined
}

/// The writer of shared libraries, each at the place where the plain link reads it.
struct Libraries<'s> {
    sources: EmissionInputs<'s>,
    seen: Vec<DsoId>,
    /// The `--defsym` options that are not written yet. Each comes before the first library that follows it in the
    /// plain link. Its place among the modules no longer matters, since the loaded ones are decided.
    defined: &'s [(usize, &'s [OsString])],
    /// The index of the next library to write.
    next: usize,
}

impl Libraries<'_> {
    /// The number of modules before the next library, after the first `loaded` ones.
    fn until_next(&self, loaded: usize) -> Option<usize> {
        self.sources.resolution.dso_mentions.get(self.next).map(|m| m.after.saturating_sub(loaded))
    }

    /// Write the libraries before module number `loaded`.
    fn add(&mut self, loaded: usize, words: &mut Vec<OsString>) {
        let EmissionInputs { inputs, resolution, needed, .. } = self.sources;
        while let Some(mention) = resolution.dso_mentions.get(self.next).filter(|m| m.after <= loaded) {
            self.next += 1;
            let input = inputs.origins.get(mention.item).copied().flatten();
            while let [(before, of), rest @ ..] = self.defined
                && input.is_none_or(|input| *before <= input)
            {
                words.extend(of.iter().cloned());
                self.defined = rest;
            }
            let Some(SequenceItem::Dso { dso, as_needed, token, .. }) = inputs.sequence.get(mention.item)
            else {
                continue;
            };
            // The first mention counts. A later one can only revoke an earlier `--as-needed`.
            let again = self.seen.contains(dso);
            // GNU ld may open a library that it skipped here for another library, by its path on the line. No module
            // needs such a library.
            let opened = mention.taken || is_implicit(inputs, *dso);
            if again && *as_needed || !opened {
                continue;
            }
            let forced = !*as_needed || mention.taken && needed(*dso);
            if mention.taken {
                self.seen.push(*dso);
            }
            words.push(if forced { "--no-as-needed" } else { "--as-needed" }.into());
            words.push("-Bdynamic".into());
            words.push(token.into());
        }
    }
}

/// Whether GNU ld opens the library because another library needs it.
fn is_implicit(inputs: &Inputs, wanted: DsoId) -> bool {
    let implicit =
        |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso, implicit: true, .. } if *dso == wanted);
    inputs.sequence.iter().any(implicit)
}

pub(super) fn member_of(inputs: &Inputs, module: ModuleId) -> Option<(FileId, &str)> {
    inputs.modules[module].archive.as_ref().map(|(archive, name)| (*archive, name.as_str()))
}
