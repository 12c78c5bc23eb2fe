//! Functions that members of archives define: those of members that the link did not load are in no module.
//!
//! An archive may have changed since the link, so that this says which component a function is of, and proves nothing.

use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol as _, SymbolKind};

/// A function that some member of an archive defines.
#[derive(Debug)]
pub(crate) struct ArchiveFunction {
    pub(crate) name: String,
    /// The member of the archive, as `archive(member)`.
    pub(crate) member: String,
}

/// The functions of all members that can be read, by archive and member. Unreadable archives are skipped.
pub(crate) fn functions(archives: &[&str]) -> Vec<ArchiveFunction> {
    let mut found = Vec::new();
    for path in archives {
        let Ok(data) = std::fs::read(path) else { continue };
        let Ok(archive) = ArchiveFile::parse(&*data) else { continue };
        let base = path.rsplit('/').next().unwrap_or(path);
        for member in archive.members().flatten() {
            let file = member.data(&*data).ok().and_then(|bytes| object::File::parse(bytes).ok());
            let Some(file) = file else { continue };
            let member = format!("{base}({})", String::from_utf8_lossy(member.name()));
            let functions = file.symbols().filter(|s| s.kind() == SymbolKind::Text && !s.is_undefined());
            let names = functions.filter_map(|s| s.name().ok().filter(|name| !name.is_empty()));
            found.extend(names.map(|name| ArchiveFunction { name: name.to_owned(), member: member.clone() }));
        }
    }
    found
}
