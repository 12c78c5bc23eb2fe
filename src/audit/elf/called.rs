//! Functions without a symbol and without an unwind entry: each begins where a direct call or a pointer leads, and ends where the next one begins.
//!
//! Stripped programs have such functions if they were compiled without unwind tables, or written in assembly.

use std::borrow::Cow;
use std::ops::Range;

use summaries::native::{call_targets, is_padding};

use super::coverage::{Claim, Coverage};
use super::file::AuditedFile;
use super::owners::{Owner, Owners};
use super::pointers::Pointer;

/// The largest alignment of functions whose padding is taken from the end of the function before, in bytes.
const ALIGNMENT: usize = 64;

impl Owners<'_> {
    /// Claim the code without an owner that calls and pointers divide.
    pub(super) fn define_called(
        &mut self,
        file: &AuditedFile<'_>,
        pointers: &[Pointer],
        coverage: &mut Coverage,
    ) {
        let bytes = |places: &Range<u64>| {
            file.data.get(places.start as usize..places.end as usize).unwrap_or_default()
        };
        let sections = || file.sections.iter().filter(|s| s.is_code() && s.is_loaded());
        let gaps: Vec<Range<u64>> = sections()
            .flat_map(|s| coverage.gaps(s.start..s.end()))
            .filter(|g| !is_padding(bytes(g)))
            .collect();
        if gaps.is_empty() {
            return;
        }
        let mut starts: Vec<u64> = pointers.iter().filter_map(|p| p.target).collect();
        for section in sections() {
            call_targets(section.bytes, section.address, &mut |target| starts.extend(file.place(target)));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut claims = Vec::new();
        for gap in gaps {
            let first = starts.partition_point(|s| *s < gap.start);
            let mut inside = starts
                .get(first..)
                .unwrap_or_default()
                .iter()
                .copied()
                .take_while(|s| *s < gap.end)
                .peekable();
            while let Some(start) = inside.next() {
                let end = inside.peek().copied().unwrap_or(gap.end);
                let code = bytes(&(start..end));
                let padding = (1..ALIGNMENT.min(code.len()))
                    .rev()
                    .find(|n| is_padding(code.get(code.len() - n..).unwrap_or_default()));
                let end = end - padding.unwrap_or(0) as u64;
                let address = file.section_of(start).map_or(0, |s| s.address.wrapping_add(start - s.start));
                let name = Some(Cow::Owned(format!("[function at {address:#x}]")));
                let owner = self.push(Owner { name, home: Some(start), module: None });
                claims.push(Claim { start, end, owner });
            }
        }
        coverage.add(claims);
    }
}
