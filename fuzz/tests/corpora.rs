//! Every reader reads its corpus, unchanged and damaged. The corpus has seeds and the inputs that fuzzing found.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// How many damaged inputs each reader reads.
const DAMAGED: usize = 2000;

fn corpus(reader: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(reader);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap_or_default()).collect()
}

/// Read bytes; those that make a reader panic are kept in a file.
fn read(name: &str, reader: fuzz::Reader, bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| reader(bytes))) {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("panics-{name}"));
        eprintln!("{name} panics on {}: {:?}", file.display(), std::fs::write(&file, bytes));
        resume_unwind(panic);
    }
}

/// A few mutations, as libFuzzer makes them without its feedback.
fn damage(rng: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.usize(..4) {
        let at = rng.usize(..=bytes.len());
        let part = at..(at + rng.usize(..=16)).min(bytes.len());
        match rng.u8(..6) {
            0 => bytes.truncate(at),
            1 => bytes[part].iter_mut().for_each(|byte| *byte ^= 1 << rng.u8(..8)),
            2 => bytes[part].fill(0),
            3 => bytes[part].fill(0xff),
            4 => drop(bytes.drain(part)),
            _ => {
                let copy = bytes[part].to_vec();
                let to = rng.usize(..=bytes.len());
                bytes.splice(to..to, copy);
            }
        }
    }
}

#[test]
fn every_corpus_is_read() {
    for (name, reader) in fuzz::READERS {
        corpus(name).iter().for_each(|bytes| read(name, *reader, bytes));
    }
}

#[test]
fn every_corpus_is_read_damaged() {
    for (name, reader) in fuzz::READERS {
        let files = corpus(name);
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..DAMAGED {
            let mut bytes = rng.choice(&files).cloned().unwrap_or_default();
            damage(&mut rng, &mut bytes);
            read(name, *reader, &bytes);
        }
    }
}

#[test]
fn every_corpus_has_a_reader() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        assert!(fuzz::READERS.iter().any(|(reader, _)| name == *reader), "{name:?} is read by nobody");
    }
}
