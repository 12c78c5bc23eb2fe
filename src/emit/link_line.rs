//! The line of the pruned link: the words that stand for the inputs of the plain one.
//!
//! The linker is left no choice that pruning could change. Each module in the link is named outright, in the
//! order in which the plain link loads it; members of an archive come as an archive of the same basename under
//! `--whole-archive`, cut into several where members of other files were loaded in between; a DSO that the plain
//! link needs is not left to `--as-needed`, and stands between the modules where it stood. A module from which
//! nothing goes and that is no member is named by its original path. Members that stay out and are looked at follow.
//!
//! Left out: which members are loaded and which libraries needed ([`crate::resolve`], [`crate::gate`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::tree::{EmissionInputs, FileContent, OutputFiles};
use crate::config::LineArg;
use crate::ids::{DsoId, FileId, ModuleId};
use crate::inputs::{Inputs, SequenceItem};

/// The words that stand for all inputs.
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

/// Name the members that the plain link does not load and looks at: native ones when it makes code of bitcode, which it may load for that
/// code, and those that define a name that the linker looks for.
///
/// Behind everything else and without those that are loaded they give what they give in the plain link: of what is undefined
/// there, nothing is defined by one of them, or it would be loaded; and a library's definition comes before theirs wherever it stands.
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

/// Whether the words of the inputs stand in the place of this one, if they stand nowhere yet.
pub(super) fn begins_inputs(sources: EmissionInputs<'_>, arg: &LineArg) -> bool {
    match arg {
        LineArg::Input(_) | LineArg::State(_) => true,
        LineArg::Script(input, _) => sources.inputs.without_inputs.contains_key(input),
        _ => false,
    }
}

/// Each `--defsym` that stands behind an input, with the number of inputs before it.
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

/// Names the shared libraries, each where the plain link reads it.
struct Libraries<'s> {
    sources: EmissionInputs<'s>,
    seen: Vec<DsoId>,
    /// The `--defsym` that aren't named yet: each comes before the first library that it is before in the plain link. Which
    /// modules are loaded is decided, so its place among those says nothing any more.
    defined: &'s [(usize, &'s [OsString])],
    /// The first mention that isn't named yet.
    next: usize,
}

impl Libraries<'_> {
    /// How many modules come before the next one, `loaded` of them being named.
    fn until_next(&self, loaded: usize) -> Option<usize> {
        self.sources.resolution.dso_mentions.get(self.next).map(|m| m.after.saturating_sub(loaded))
    }

    /// Name those that come before module number `loaded`.
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
            // The first mention counts; a later one can only take back an earlier --as-needed.
            let again = self.seen.contains(dso);
            // What GNU ld forgot here it may open in the end for another library, by its path on the line. Of such a
            // one we know that no module needs it.
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

/// Whether GNU ld opens the library for the sake of another one.
fn is_implicit(inputs: &Inputs, wanted: DsoId) -> bool {
    let implicit =
        |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso, implicit: true, .. } if *dso == wanted);
    inputs.sequence.iter().any(implicit)
}

pub(super) fn member_of(inputs: &Inputs, module: ModuleId) -> Option<(FileId, &str)> {
    inputs.modules[module].archive.as_ref().map(|(archive, name)| (*archive, name.as_str()))
}
