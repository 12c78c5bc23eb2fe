//! `lto-prune.toml`: options of every link below a folder, as a TOML table.
//!
//! A key is the name of an option without `--prune-`. Its value is a string, a number, `true` for an option that needs no value, or an array
//! of them for an option that may be repeated. `LTO_PRUNE_FLAGS` overrides the file, and the command line overrides both.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::args::environment::Environment;
use crate::args::help::{OptionValue, prune_options};
use crate::error::{Error, Result, Stage};
use crate::inputs::mapped::others_write;

/// The variable that names the file. An empty value means that no file is read.
pub(crate) const VARIABLE: &str = "LTO_PRUNE_CONFIG";
/// The name of the file, in the folder of the output or in one above.
const NAME: &str = "lto-prune.toml";
/// A longer file is no list of options.
const MAX_BYTES: u64 = 1 << 20;

/// The file and its options as words, if a link that writes `output` has such a file.
///
/// A file that was found in a folder, not named by the environment, is not read if another user may write to it: an option may name a program
/// that is run. A warning says so.
pub(crate) fn words(env: &Environment<'_>, output: &Path) -> Result<Option<(PathBuf, Vec<OsString>)>> {
    let path = match env.get(VARIABLE) {
        Some(name) if name.is_empty() => return Ok(None),
        Some(name) => PathBuf::from(name),
        None => match found(output) {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    let error = |message: String| Error::new(Stage::Arguments, message).in_file(path.display().to_string());
    let unreadable = |e| Error::io(Stage::Arguments, &path, "read the options", e);
    let is_found = env.get(VARIABLE).is_none();
    let not_read = |why: &str| eprintln!("lto-prune: warning: {}: not read, since {why}", path.display());
    // A pipe would wait for its writer.
    if is_found && !path.is_file() {
        not_read("it is no file");
        return Ok(None);
    }
    let file = File::open(&path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if is_found && others_write(&file, &meta) {
        not_read(&format!("another user may write to it; {VARIABLE} names a file that is read in any case"));
        return Ok(None);
    }
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(error("is no file of options".to_owned()));
    }
    let text = fs::read_to_string(&path).map_err(unreadable)?;
    let table: Table =
        toml::from_str(&text).map_err(|e| error(e.to_string().trim_end().replace('\n', "; ")))?;
    // Relative paths start at the folder of the file, because links run in many folders.
    let folder = std::path::absolute(&path).ok().and_then(|path| path.parent().map(Path::to_owned));
    let folder = folder.unwrap_or_default();
    let mut words = Vec::new();
    for (name, value) in &table {
        if !prune_options().iter().any(|option| option.name == *name) {
            return Err(super::unknown(name).in_file(path.display().to_string()));
        }
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            let wrong = || {
                error(format!("{name}: a value is a string, a number, true or false, or an array of them"))
            };
            words.extend(word(name, value, &folder).ok_or_else(wrong)?);
        }
    }
    Ok(Some((path, words)))
}

/// The file nearest above the output.
fn found(output: &Path) -> Option<PathBuf> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok()?;
    folder.ancestors().map(|folder| folder.join(NAME)).find(|path| path.symlink_metadata().is_ok())
}

/// An option as a word of the command line, or none if it is switched off; `None` if it has a value of another kind.
fn word(name: &str, value: &Value, folder: &Path) -> Option<Option<OsString>> {
    let value = match value {
        Value::Boolean(false) => return Some(None),
        Value::Boolean(true) => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => return None,
    };
    let mut word = OsString::from(format!("--prune-{name}"));
    if let Some(value) = value {
        word.push("=");
        let kind = prune_options().into_iter().find(|option| option.name == name).map(|option| option.value);
        let is_path = matches!(kind, Some(OptionValue::File | OptionValue::Folder));
        // A linker may be named as a command.
        let is_command = name == "linker" && !value.contains('/');
        match is_path && !is_command && !value.is_empty() {
            true => word.push(folder.join(value)),
            false => word.push(value),
        }
    }
    Some(Some(word))
}

/// The output that the words of a linker name, as far as the file of options is concerned: the flavor of the linker is not known before.
pub(in crate::args) fn output_of(words: &[OsString]) -> PathBuf {
    let mut output = None;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        let joined =
            [b"--output=".as_slice(), b"-output=", b"-o"].iter().find_map(|name| bytes.strip_prefix(*name));
        match bytes {
            b"-o" | b"--output" | b"-output" => output = rest.next().map(|word| word.as_os_str()),
            _ => output = joined.map(OsStr::from_bytes).or(output),
        }
    }
    PathBuf::from(output.unwrap_or(OsStr::new("a.out")))
}
