//! `--prune-repro=F.tar`: all inputs of a link, to run it again elsewhere.
//!
//! The archive holds a folder `repro` with each file that was opened, under its absolute path, `response.txt` with the line in terms
//! of those paths, and `version.txt`. It is written before anything is decided, so that it exists for links that fail. It lacks the
//! linker and the shared libraries that only the loader opens.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::{Config, InputArg, LineArg};
use crate::error::{Error, Result, Stage};
use crate::inputs::Inputs;
use crate::link::response_file;

const FOLDER: &str = "repro";

/// Write the archive, if `--prune-repro` names one; not where a link is only planned, maybe without its files.
pub fn write_if_asked(config: &Config, inputs: &Inputs) -> Result<()> {
    let Some(path) = config.prune.repro.as_ref().filter(|_| config.prune.plan_dir.is_none()) else {
        return Ok(());
    };
    let failed = |e| Error::io(Stage::Load, path, "write the repro archive", e);
    let file = std::fs::File::create(path).map_err(failed)?;
    let mut tar = tar::Builder::new(std::io::BufWriter::new(file));
    tar.mode(tar::HeaderMode::Deterministic);
    let mut add = |name: &Path, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, Path::new(FOLDER).join(name), bytes).map_err(failed)
    };
    let mut seen: Vec<PathBuf> = Vec::new();
    for input in inputs.files.iter() {
        let name = inner(&input.path);
        if !seen.contains(&name) {
            add(&name, &input.bytes)?;
            seen.push(name);
        }
    }
    let side_files = config.scripts.iter().chain(&config.version_scripts).chain(&config.dynamic_lists);
    for side in side_files.chain(&config.export_dynamic_lists) {
        let name = inner(side);
        if let (false, Ok(bytes)) = (seen.contains(&name), std::fs::read(side)) {
            add(&name, &bytes)?;
            seen.push(name);
        }
    }
    add(Path::new("response.txt"), &response_file(&line(config, &seen)))?;
    let version = format!(
        "lto-prune {}\nlinker: {} ({:?})\nrun in this folder: ld.lto-prune @response.txt\n",
        env!("CARGO_PKG_VERSION"),
        config.linker.path.display(),
        config.linker.flavor
    );
    add(Path::new("version.txt"), version.as_bytes())?;
    tar.finish().map_err(failed)
}

/// The path inside the folder: absolute, without dots, without the leading slash.
fn inner(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut out = PathBuf::new();
    for part in absolute.components() {
        match part {
            std::path::Component::Normal(name) => out.push(name),
            std::path::Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

/// The line with each path that the archive holds, and each search folder, in terms of the archive.
fn line(config: &Config, seen: &[PathBuf]) -> Vec<OsString> {
    let mut out = Vec::new();
    let held = |word: &OsStr| {
        let name = inner(Path::new(word));
        seen.contains(&name).then(|| name.into_os_string())
    };
    for arg in &config.line {
        match arg {
            LineArg::Input(i) => match config.inputs.get(*i) {
                Some(InputArg::File { path, .. }) => out.push(held(path).unwrap_or_else(|| path.clone())),
                Some(InputArg::Library { name, .. }) => {
                    let mut word = OsString::from("-l");
                    word.push(name);
                    out.push(word);
                }
                Some(InputArg::GroupStart) => out.push("--start-group".into()),
                Some(InputArg::GroupEnd) => out.push("--end-group".into()),
                Some(InputArg::Script { .. }) | None => {}
            },
            LineArg::Output(_) => out.extend(["-o".into(), "a.out".into()]),
            LineArg::State(words) => out.extend(words.iter().cloned()),
            LineArg::Script(_, words) | LineArg::Defsym(words) | LineArg::Other(words) => {
                for (i, word) in words.iter().enumerate() {
                    let after_l = i == 1 && words[0].as_bytes() == b"-L";
                    out.push(rewritten(word, after_l, &held));
                }
            }
        }
    }
    out
}

fn rewritten(word: &OsStr, is_folder: bool, held: &dyn Fn(&OsStr) -> Option<OsString>) -> OsString {
    let bytes = word.as_bytes();
    if is_folder {
        return inner(Path::new(word)).into_os_string();
    }
    if let Some(folder) = bytes.strip_prefix(b"-L").filter(|f| !f.is_empty()) {
        let mut out = OsString::from("-L");
        out.push(inner(Path::new(OsStr::from_bytes(folder))));
        return out;
    }
    if let Some(name) = held(word) {
        return name;
    }
    if let Some(at) = bytes.iter().position(|c| *c == b'=')
        && let Some(name) = held(OsStr::from_bytes(&bytes[at + 1..]))
    {
        let mut out = OsStr::from_bytes(&bytes[..=at]).to_owned();
        out.push(name);
        return out;
    }
    word.to_owned()
}
