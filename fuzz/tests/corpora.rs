//! Every reader reads its corpus: what fuzzing has found, and what shows it the way.

use std::path::Path;

#[test]
fn every_corpus_is_read() {
    for (name, reader) in fuzz::READERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            eprintln!("{}", file.display());
            reader(&std::fs::read(&file).unwrap_or_default());
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
