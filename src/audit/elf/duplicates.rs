//! Functions and constants with the same bytes. In an object their relocations have to be the same, too.

use super::coverage::{Claim, Coverage};
use super::file::AuditedFile;
use super::owners::Owners;

/// The contents of a function or constant: its bytes, and its relocations by offset.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ComparedContents<'a> {
    bytes: &'a [u8],
    relocations: Vec<(u64, u32, u32, i64)>,
}

/// Groups of owners whose code or constants are the same, each in the order of places.
pub(super) fn groups(file: &AuditedFile<'_>, owners: &Owners<'_>, coverage: &Coverage) -> Vec<Vec<u32>> {
    let mut relocations: Vec<(u64, u32, u32, i64)> = Vec::new();
    if file.is_object() {
        for r in file.relocations() {
            relocations.extend(r.place.map(|place| (place, r.kind.0, r.symbol, r.addend)));
        }
        relocations.sort_unstable();
    }
    let contents = |claim: &Claim| {
        let owner = owners.list.get(claim.owner as usize)?;
        let section =
            file.section_of(claim.start).filter(|s| s.is_code() || s.is_data() && !s.is_writable())?;
        let range = claim.start.checked_sub(section.start)? as usize..(claim.end - section.start) as usize;
        let bytes = section.bytes.get(range)?;
        let first = relocations.partition_point(|r| r.0 < claim.start);
        let inside = relocations.get(first..).unwrap_or(&[]).iter().take_while(|r| r.0 < claim.end);
        let relocations = inside.map(|r| (r.0 - claim.start, r.1, r.2, r.3)).collect();
        (owner.home == Some(claim.start)).then_some((ComparedContents { bytes, relocations }, claim.owner))
    };
    let mut all: Vec<(ComparedContents<'_>, u32)> = coverage.claims().iter().filter_map(contents).collect();
    all.sort();
    let same = all.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1);
    let mut groups: Vec<Vec<u32>> = same.map(|group| group.iter().map(|m| m.1).collect()).collect();
    groups.sort();
    groups
}
