//! The kinds of files that a word of `lto-prune audit` may name, by their first bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Whether a file is an executable of ELF: one that names an interpreter, or that has a fixed place.
pub(super) fn is_program(path: &Path) -> bool {
    let Ok(data) = std::fs::read(path) else { return false };
    let Ok(file) = object::File::parse(&*data) else { return false };
    match object::Object::kind(&file) {
        object::ObjectKind::Executable => true,
        object::ObjectKind::Dynamic => object::Object::section_by_name(&file, ".interp").is_some(),
        _ => false,
    }
}

/// The kinds of files that can be audited without a report.
pub(super) enum AuditableFile {
    /// An executable or a shared library.
    Linked,
    /// An object or an archive, which may be the beginning of a link line too.
    Input,
}

/// The kind of a file by its first bytes; `None` if an audit of it needs a report.
pub(super) fn file_kind(path: &Path) -> Option<AuditableFile> {
    let start = beginning(path);
    if start.starts_with(b"\x7fELF") {
        // The type is at the same place in files of all classes, in the byte order of the machine.
        let kind = start.get(16..18)?;
        return Some(if kind == [1, 0] { AuditableFile::Input } else { AuditableFile::Linked });
    }
    super::elf::is_auditable(&start).then_some(AuditableFile::Input)
}

/// Whether a word is a report or a linked file, with which no link line begins.
pub(super) fn is_alone(path: &Path) -> bool {
    is_report(path) || matches!(file_kind(path), Some(AuditableFile::Linked))
}

/// Whether a file begins as a JSON object does, or has the name of one.
pub(super) fn is_report(path: &Path) -> bool {
    if path.extension() == Some(OsStr::new("json")) {
        return true;
    }
    beginning(path).trim_ascii_start().starts_with(b"{")
}

/// Whether a file begins as a report does; its name means nothing.
pub(super) fn says_schema(path: &Path) -> bool {
    let start = beginning(path);
    start.trim_ascii_start().starts_with(b"{") && String::from_utf8_lossy(&start).contains("\"schema\"")
}

/// The first bytes of a file; none if it can't be read.
fn beginning(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(64).read_to_end(&mut start)) {
        Ok(_) => start,
        Err(_) => Vec::new(),
    }
}
