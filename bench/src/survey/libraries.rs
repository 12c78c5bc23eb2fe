//! Debian's static libraries: which, and how they come here.
//!
//! Packages are downloaded one by one, by the system's apt, and unpacked, not installed; of what is in them only archives stay, so
//! that a second survey downloads nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{SurveyRow, hash, look};
use crate::corpus::Corpus;
use crate::process::run_ok;
use crate::{Options, Result};

pub(super) const RULE: &str = "The archives of 200 `-dev` packages (`--count`): section libdevel, architecture amd64, up to 4 MiB, in the order of the FNV-1a \
hash of their names, without those that have no archive.";

/// Packages with archives that are looked at, if nobody says how many.
const COUNT: u64 = 200;

/// Larger packages are left out, in bytes.
const MAX_SIZE: u64 = 4 << 20;

/// The packages in the order in which they are tried.
pub(crate) fn packages(scratch: &Path) -> Result<Vec<String>> {
    run_ok(Command::new("apt-cache").arg("dumpavail"), scratch)?;
    let text = String::from_utf8_lossy(&fs::read(scratch.join("stdout"))?).into_owned();
    let mut names = Vec::new();
    for stanza in text.split("\n\n") {
        let fields: BTreeMap<&str, &str> = stanza.lines().filter_map(|line| line.split_once(": ")).collect();
        let field = |key: &str| fields.get(key).copied().unwrap_or("");
        let size = field("Size").parse::<u64>().unwrap_or(u64::MAX);
        let fits = field("Section") == "libdevel" && field("Architecture") == "amd64" && size <= MAX_SIZE;
        if fits && field("Package").ends_with("-dev") {
            names.push(field("Package").to_owned());
        }
    }
    names.sort_by_key(|name| (hash(name), name.clone()));
    names.dedup();
    match names.is_empty() {
        true => Err("apt-cache knows no -dev packages; run `apt-get update`".into()),
        false => Ok(names),
    }
}

/// The archives of a package; they are fetched if that was not done before.
pub(crate) fn archives(package: &str, dir: &Path, scratch: &Path) -> Result<Vec<PathBuf>> {
    if !dir.join(".done").exists() {
        let download = scratch.join("download");
        let _ = fs::remove_dir_all(&download);
        fs::create_dir_all(&download)?;
        fs::create_dir_all(dir)?;
        let mut apt = Command::new("apt-get");
        apt.args(["-qq", "-o", "APT::Sandbox::User=root", "download", package]).current_dir(&download);
        if run_ok(&mut apt, scratch).is_ok() {
            let script = "dpkg-deb --fsys-tarfile ./*.deb | tar -x -C \"$1\" --wildcards '*.a' || true";
            let mut unpack = Command::new("sh");
            unpack.args(["-c", script, "sh"]).arg(dir).current_dir(&download);
            run_ok(&mut unpack, scratch)?;
        }
        fs::write(dir.join(".done"), "")?;
    }
    let mut found = Vec::new();
    find(dir, &mut found)?;
    found.sort();
    Ok(found)
}

fn find(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            find(&path, found)?;
        } else if metadata.is_file() && path.extension().is_some_and(|e| e == "a") && is_archive(&path)? {
            found.push(path);
        }
    }
    Ok(())
}

fn is_archive(path: &Path) -> Result<bool> {
    use std::io::Read;
    let mut magic = Vec::new();
    fs::File::open(path)?.take(8).read_to_end(&mut magic)?;
    Ok(magic == b"!<arch>\n")
}

pub(super) fn rows(corpus: &Corpus, options: &Options) -> Result<Vec<SurveyRow>> {
    let scratch = corpus.scratch("survey-libraries")?;
    let wanted = options.count.unwrap_or(COUNT);
    let mut having = 0;
    let mut rows = Vec::new();
    for package in packages(&scratch)? {
        if having == wanted {
            break;
        }
        let dir = corpus.root.join("work/survey").join(&package);
        let archives = archives(&package, &dir, &scratch)?;
        having += u64::from(!archives.is_empty());
        for archive in archives {
            let file = archive.strip_prefix(&dir)?.display().to_string();
            let short = file.strip_prefix("usr/lib/").unwrap_or(&file);
            let short = short.strip_prefix("x86_64-linux-gnu/").unwrap_or(short);
            eprintln!("{package} {short}");
            rows.push(look(corpus, &format!("{package} {short}"), &archive, &scratch)?);
        }
    }
    Ok(rows)
}
