//! Constants and variables without a symbol: they belong to the first function or object that refers to them.
//!
//! A reference is an address that an instruction or a pointer in data holds. Its target ends where the next target or symbol
//! begins. Each round follows the pointers in the targets of the round before.

use object::elf;

use super::coverage::{Claim, Coverage};
use super::file::AuditedFile;
use super::pointers::Pointer;

/// Pointers are followed so many times.
const ROUNDS: usize = 8;

/// Claim data that is only referred to.
pub(super) fn claim(file: &AuditedFile<'_>, pointers: &[Pointer], coverage: &mut Coverage) {
    // Each is a pair of target and source.
    let mut references: Vec<(u64, u64)> = Vec::new();
    let is_open = |place: u64, coverage: &Coverage| {
        coverage.owner(place).is_none() && file.section_of(place).is_some_and(|s| s.is_data())
    };
    if !file.is_object() {
        for section in file.sections.iter().filter(|s| s.is_code()) {
            for claim in coverage.inside(section.start..section.end()) {
                let range = (claim.start - section.start) as usize..(claim.end - section.start) as usize;
                let code = section.bytes.get(range).unwrap_or_default();
                let address = section.address.wrapping_add(claim.start - section.start);
                let fixed = file.kind == elf::ET_EXEC;
                summaries::native::data_references(code, address, fixed, &mut |_, target| {
                    let target = file.place(target).filter(|t| is_open(*t, coverage));
                    references.extend(target.map(|t| (t, claim.start)));
                });
            }
        }
    }
    for pointer in pointers {
        let target = pointer.target.filter(|t| is_open(*t, coverage));
        references.extend(target.zip(pointer.place));
    }
    references.sort_unstable();
    references.dedup();
    for _ in 0..ROUNDS {
        let mut claims: Vec<Claim> = Vec::new();
        for group in references.chunk_by(|a, b| a.0 == b.0) {
            let Some((start, _)) = group.first().copied() else { continue };
            let Some(owner) = group.iter().find_map(|r| coverage.owner(r.1)) else { continue };
            let Some(section) = file.section_of(start) else { continue };
            let next = references.partition_point(|r| r.0 <= start);
            let next = references.get(next).map_or(u64::MAX, |r| r.0);
            let end = coverage.free_until(start, next.min(section.end()));
            claims.push(Claim { start, end, owner });
        }
        if claims.is_empty() {
            break;
        }
        coverage.add(claims);
        references.retain(|r| coverage.owner(r.0).is_none());
    }
}
