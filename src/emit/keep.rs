//! `--prune-emit=DIR`: the pruned objects as a folder, with a script that links them again.
//!
//! Copies keep their numbered folders, because basenames may repeat. Unmodified files are named in place. The script
//! writes to its first argument, or to the output of the link.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::tree::{EmissionInputs, EmittedLink, LineWord};
use crate::args::words;
use crate::error::{Error, Result, Stage};

/// Copy the tree at `copies` to `dir` and write `dir/link.sh`.
pub fn keep(sources: EmissionInputs<'_>, emitted: &EmittedLink, copies: &Path, dir: &Path) -> Result<()> {
    let failed = |e| Error::io(Stage::Emit, dir, "keep the pruned objects", e);
    std::fs::create_dir_all(dir).map_err(failed)?;
    for entry in std::fs::read_dir(copies).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        let folder = dir.join(entry.file_name());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        for file in std::fs::read_dir(entry.path()).map_err(failed)? {
            let file = file.map_err(failed)?;
            std::fs::copy(file.path(), folder.join(file.file_name())).map_err(failed)?;
        }
    }
    let script = dir.join("link.sh");
    std::fs::write(&script, text(sources, emitted, copies)).map_err(failed)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).map_err(failed)
}

fn quoted(word: &OsStr) -> Vec<u8> {
    words::for_shell(word).into_vec()
}

fn text(sources: EmissionInputs<'_>, emitted: &EmittedLink, copies: &Path) -> Vec<u8> {
    let mut out =
        b"#!/bin/sh\n# Links the pruned objects again; the output is the first argument, or what it was.\n"
            .to_vec();
    out.extend_from_slice(b"here=$(dirname \"$(readlink -f \"$0\")\")\nexec ");
    out.extend(quoted(sources.config.linker.path.as_os_str()));
    let prefix = [copies.as_os_str().as_bytes(), b"/"].concat();
    for word in &emitted.line {
        // A temporary file of the compiler, which no longer exists when the script runs.
        if matches!(word, LineWord::Word(w) if w.as_bytes().starts_with(b"-plugin-opt=-fresolution=")) {
            continue;
        }
        out.extend_from_slice(b" \\\n  ");
        match word {
            LineWord::Output(_) => {
                out.extend_from_slice(b"-o \"${1:-");
                out.extend(sources.config.output.as_os_str().as_bytes());
                out.extend_from_slice(b"}\"");
            }
            LineWord::Word(word) => match word.as_bytes().strip_prefix(&prefix[..]) {
                Some(rest) => {
                    out.extend_from_slice(b"\"$here\"/");
                    out.extend(quoted(OsStr::from_bytes(rest)));
                }
                None => out.extend(quoted(word)),
            },
        }
    }
    out.push(b'\n');
    out
}
