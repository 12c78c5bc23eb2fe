//! Gives a crate a number of its own: a hash of its sources.
//!
//! The number is a part of the keys of cached summaries and pruned objects, so that a changed program does not use those of its
//! predecessor. No version has to be raised for that. The lock file fixes the versions of libraries.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

fn files(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut found = Vec::new();
    files(Path::new("src"), &mut found)?;
    found.sort();
    // FNV-1a is enough, since no source is made to collide.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for path in found {
        let name = path.to_string_lossy().into_owned();
        let bytes = std::fs::read(&path)?;
        for byte in name.bytes().chain([0]).chain(bytes).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=CRATE_SOURCES={:08x}", (hash >> 32) as u32 ^ hash as u32);
    println!(
        "cargo::rustc-env=BUILT_FROM={}",
        built_from().map_or(String::new(), |commit| format!(" ({commit})"))
    );
    Ok(())
}

/// The commit that the sources are of, for `--version`: as `cargo package` recorded it, or as git says.
///
/// `None` in builds for development, which would otherwise be made anew after each commit, and for libraries.
fn built_from() -> Option<String> {
    if std::env::var_os("PROFILE")? != "release" || std::env::var_os("CARGO_PKG_NAME")? != "lto-prune" {
        return None;
    }
    const RECORD: &str = ".cargo_vcs_info.json";
    if let Ok(record) = std::fs::read_to_string(RECORD) {
        println!("cargo::rerun-if-changed={RECORD}");
        let hash = record.split('"').skip_while(|word| *word != "sha1").nth(2)?;
        return hash.get(..12).map(str::to_owned);
    }
    let git = |words: &[&str]| {
        let output =
            Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    // The log of HEAD grows with each commit and each checkout.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "."])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}, changed") })
}
