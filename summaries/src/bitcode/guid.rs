//! GUIDs: the names of global values in LLVM's summaries, the low 64 bits of the MD5 of their identifier.
//!
//! The identifier of a local value begins with its source file. MD5 is only a naming scheme here.

pub fn guid(identifier: &[u8]) -> u64 {
    md5::compute(identifier).first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// The GUID of a global value. `producer_major` is LLVM's version: the mark between file and name was `:` before 18.
pub fn guid_of(name: &[u8], is_local: bool, source_file: &[u8], producer_major: Option<u32>) -> u64 {
    // A leading 1 marks an unmangled name and is no part of it.
    let name = name.strip_prefix(b"\x01").unwrap_or(name);
    if !is_local {
        return guid(name);
    }
    let file = if source_file.is_empty() { b"<unknown>" } else { source_file };
    let mark: &[u8] = if producer_major.is_some_and(|v| v < 18) { b":" } else { b";" };
    guid(&[file, mark, name].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_of_values() {
        assert_eq!(guid_of(b"printf", false, b"a.c", Some(19)), 7_383_291_119_112_528_047);
        assert_eq!(guid_of(b"\x01printf", false, b"a.c", Some(19)), 7_383_291_119_112_528_047);
        assert_eq!(guid_of(b"s", true, b"a.c", Some(19)), 12_859_985_728_976_346_645);
        assert_eq!(guid_of(b"s", true, b"a.c", Some(14)), guid(b"a.c:s"));
    }
}
