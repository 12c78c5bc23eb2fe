//! String tables without the strings that are no longer used.
//!
//! The used ranges are copied in their old order, and overlapping ones once, so strings that shared a tail still do.

/// A string table that is compacted: [`note`](Self::note) every offset in use, then [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct StringTable<'a> {
    old: &'a [u8],
    used: Vec<u32>,
    verbatim: bool,
}

/// A string table with the used strings.
#[derive(Debug, Default)]
pub(super) struct PrunedStringTable {
    pub(super) bytes: Vec<u8>,
    /// Old start, old end (behind the NUL) and new start of each copied range, by old start.
    ranges: Vec<(u32, u32, u32)>,
}

impl<'a> StringTable<'a> {
    /// A table of the old bytes. A `verbatim` table keeps all, because a section that is not rewritten uses its strings.
    pub(super) fn new(old: &'a [u8], verbatim: bool) -> Self {
        StringTable { old, used: Vec::new(), verbatim }
    }

    /// Note that the string at `offset` is in use.
    pub(super) fn note(&mut self, offset: u32) {
        if !self.verbatim {
            self.used.push(offset);
        }
    }

    /// Copy the used strings. Offset 0 is the empty string (gABI, "String Table").
    pub(super) fn finish(mut self) -> PrunedStringTable {
        if self.verbatim {
            let end = u32::try_from(self.old.len()).unwrap_or(u32::MAX);
            return PrunedStringTable { bytes: self.old.to_vec(), ranges: vec![(0, end, 0)] };
        }
        self.used.sort_unstable();
        let mut table = PrunedStringTable { bytes: vec![0], ranges: vec![(0, 1, 0)] };
        let mut covered = 1;
        for offset in self.used {
            if offset < covered {
                continue;
            }
            let Some(rest) = self.old.get(offset as usize..) else { continue };
            let length = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
            let new = table.bytes.len() as u32;
            table.bytes.extend_from_slice(rest.get(..length).unwrap_or(&[]));
            table.bytes.push(0);
            covered = offset.saturating_add(length as u32).saturating_add(1);
            table.ranges.push((offset, covered, new));
        }
        table
    }
}

impl PrunedStringTable {
    /// The new offset of a string; 0, the empty string, if it was not noted.
    pub(super) fn new_offset(&self, old: u32) -> u32 {
        let next = self.ranges.partition_point(|(start, _, _)| *start <= old);
        match next.checked_sub(1).and_then(|i| self.ranges.get(i)) {
            Some((start, end, new)) if old < *end => new + (old - start),
            _ => 0,
        }
    }

    /// Append a string and return its offset.
    pub(super) fn push(&mut self, string: &[u8]) -> u32 {
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
        offset
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shared_tails_stay_shared_and_unused_strings_go() {
        let old = b"\0.rela.text.f\0dead\0g\0";
        let mut table = StringTable::new(old, false);
        for offset in [6, 1, 19] {
            table.note(offset);
        }
        let new = table.finish();
        assert_eq!(new.bytes, b"\0.rela.text.f\0g\0");
        assert_eq!((new.new_offset(1), new.new_offset(6), new.new_offset(19)), (1, 6, 14));
        assert_eq!(new.new_offset(14), 0, "a string that was not noted is dropped");
    }

    #[test]
    fn unterminated_and_foreign_offsets_are_harmless() {
        let mut table = StringTable::new(b"xab", false);
        for offset in [0, 1, 2, 77, u32::MAX] {
            table.note(offset);
        }
        let new = table.finish();
        assert_eq!(new.bytes, b"\0ab\0");
        assert_eq!(new.new_offset(u32::MAX), 0);
    }
}
