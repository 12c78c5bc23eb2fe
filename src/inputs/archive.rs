//! Archives: members and symbol table of GNU, thin and BSD archives, all from one pass over the headers.
//!
//! A member is known by the offset of its header, since names repeat; the symbol table names members by that offset. A
//! malformed archive is an error with the offset, never a partial list: a member that we missed could be one that the
//! linker extracts. Left out: nested archives (named as such) and COFF's second linker member.

use std::ffi::CStr;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::recognise::{ARCHIVE, THIN_ARCHIVE};

/// `struct ar_hdr`: name 16, date 12, uid 6, gid 6, mode 8, size 10, terminator 2.
const HEADER: usize = 60;

/// A member that is no table of the archive itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// For a thin archive: the path of the member's file, relative to the archive's directory unless absolute.
    pub name: String,
    /// In the archive; empty for a thin one.
    pub data: Range<usize>,
    /// The offset of its header in the archive.
    pub offset: usize,
}

/// A parsed archive: its members, and what its symbol index says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Archive {
    pub thin: bool,
    /// The members in the order of the file.
    pub members: Vec<Member>,
    /// Where each symbol name is in the archive, in table order, with the index of its member; `None` if there is no table.
    pub symbols: Option<Vec<(Range<usize>, usize)>>,
    /// The offset of a header whose name ends without a slash, as BSD writes them.
    pub without_slash: Option<usize>,
    /// Whether the symbol table or the name of a member is in BSD's form.
    pub has_bsd_form: bool,
}

/// Where the raw symbol table is, and its form.
enum RawSymbolTable {
    /// GNU: `/` (4-byte words) or `/SYM64/` (8-byte words), big-endian.
    Gnu { data: Range<usize>, word: usize },
    /// BSD: `__.SYMDEF`, `__.SYMDEF SORTED` (4) or `__.SYMDEF_64` (8), little-endian here.
    Bsd { data: Range<usize>, word: usize },
}

/// Reads an archive: where its members are, and its symbol table.
///
/// # Errors
/// What is malformed, with its offset.
pub fn parse(bytes: &[u8]) -> Result<Archive, String> {
    let thin = bytes.starts_with(THIN_ARCHIVE);
    if !thin && !bytes.starts_with(ARCHIVE) {
        return Err("no archive magic".to_owned());
    }
    let mut archive = Archive { thin, ..Archive::default() };
    let mut long_names = 0..0;
    let mut table = None;
    let mut offset = ARCHIVE.len();
    while offset < bytes.len() {
        let bad = |what: &str| format!("member header at offset {offset}: {what}");
        // A newline of padding may follow the last member.
        let header = bytes.get(offset..offset + HEADER).ok_or_else(|| bad("cut short"))?;
        if header.get(58..60) != Some(b"`\n") {
            return Err(bad("bad terminator"));
        }
        let size = decimal(header.get(48..58).unwrap_or_default()).ok_or_else(|| bad("bad size"))?;
        let name = header.get(..16).unwrap_or_default();
        let start = offset + HEADER;
        let end = start.checked_add(size).ok_or_else(|| bad("size overflows"))?;
        let mut data = start..end;
        let special = matches!(trimmed(name), b"/" | b"//" | b"/SYM64/");
        let stored = !thin || special;
        if stored && end > bytes.len() {
            return Err(bad("the member extends past the end of the file"));
        }
        let mut next = if stored { end } else { start };
        next += next & 1;
        match trimmed(name) {
            b"/" => table = table.or(Some(RawSymbolTable::Gnu { data, word: 4 })),
            b"/SYM64/" => table = table.or(Some(RawSymbolTable::Gnu { data, word: 8 })),
            b"//" => long_names = data,
            short => {
                let name = if let Some(length) = short.strip_prefix(b"#1/") {
                    // BSD: the name precedes the data.
                    archive.has_bsd_form = true;
                    let length = decimal(length).ok_or_else(|| bad("bad name length"))?;
                    let name_end = start.checked_add(length).filter(|e| *e <= end && stored);
                    let name_end = name_end.ok_or_else(|| bad("the name is longer than the member"))?;
                    data.start = name_end;
                    let raw = bytes.get(start..name_end).unwrap_or_default();
                    text(raw.split(|b| *b == 0).next().unwrap_or_default())
                } else if let Some(index) = short.strip_prefix(b"/") {
                    if index.contains(&b':') {
                        return Err(bad("a member of a nested archive"));
                    }
                    // A thin archive's member with a basename of 15 characters: GNU ar leaves the `/` that it padded that with.
                    let index = index.split(|b| *b == b' ').next().unwrap_or_default();
                    let index = decimal(index).ok_or_else(|| bad("bad reference to a long name"))?;
                    let names = bytes.get(long_names.clone()).unwrap_or_default();
                    text(long_name(names.get(index..).ok_or_else(|| bad("no such long name"))?))
                } else {
                    if !short.contains(&b'/') {
                        archive.without_slash.get_or_insert(offset);
                    }
                    text(short.strip_suffix(b"/").unwrap_or(short))
                };
                match name.as_str() {
                    "__.SYMDEF" | "__.SYMDEF SORTED" => {
                        table = table.or(Some(RawSymbolTable::Bsd { data, word: 4 }))
                    }
                    "__.SYMDEF_64" | "__.SYMDEF_64 SORTED" => {
                        table = table.or(Some(RawSymbolTable::Bsd { data, word: 8 }))
                    }
                    _ => {
                        let data = if stored { data } else { 0..0 };
                        archive.members.push(Member { name, data, offset });
                    }
                }
            }
        }
        offset = next;
    }
    if let Some(table) = table {
        archive.has_bsd_form |= matches!(table, RawSymbolTable::Bsd { .. });
        let by_offset: FxHashMap<usize, usize> =
            archive.members.iter().enumerate().map(|(i, m)| (m.offset, i)).collect();
        let symbols = table.read(bytes, &by_offset).ok_or("malformed archive symbol table")?;
        archive.symbols = Some(symbols);
    }
    Ok(archive)
}

/// A name up to its end in the `//` table: `/` and newline (GNU), or either newline or NUL alone (others).
fn long_name(names: &[u8]) -> &[u8] {
    let end = names.iter().position(|b| matches!(b, b'\n' | 0)).unwrap_or(names.len());
    let name = names.get(..end).unwrap_or_default();
    name.strip_suffix(b"/").unwrap_or(name)
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Without the padding of a fixed-width field.
fn trimmed(field: &[u8]) -> &[u8] {
    field.trim_ascii_end()
}

fn decimal(field: &[u8]) -> Option<usize> {
    std::str::from_utf8(trimmed(field)).ok()?.parse().ok()
}

impl RawSymbolTable {
    /// Names with member indices; `None` if a count or an offset is wrong.
    fn read(&self, bytes: &[u8], by_offset: &FxHashMap<usize, usize>) -> Option<Vec<(Range<usize>, usize)>> {
        match self {
            RawSymbolTable::Gnu { data, word } => {
                let table = bytes.get(data.clone())?;
                let count = usize::try_from(integer(table, 0, *word, true)?).ok()?;
                let names_at = count.checked_add(1)?.checked_mul(*word)?;
                // No more entries than there are bytes.
                table.get(names_at..)?;
                let mut name = data.start.checked_add(names_at)?;
                let mut symbols = Vec::with_capacity(count);
                for i in 1..=count {
                    let offset = usize::try_from(integer(table, i.checked_mul(*word)?, *word, true)?).ok()?;
                    let end = string_end(bytes.get(..data.end)?, name)?;
                    symbols.push((name..end, *by_offset.get(&offset)?));
                    name = end + 1;
                }
                Some(symbols)
            }
            RawSymbolTable::Bsd { data, word } => {
                let table = bytes.get(data.clone())?;
                let entries_size = usize::try_from(integer(table, 0, *word, false)?).ok()?;
                let entries = table.get(*word..word.checked_add(entries_size)?)?;
                let names_at = data.start.checked_add(word.checked_mul(2)?)?.checked_add(entries_size)?;
                let mut symbols = Vec::with_capacity(entries.len() / (2 * word));
                for entry in entries.chunks_exact(2 * word) {
                    let name = usize::try_from(integer(entry, 0, *word, false)?).ok()?;
                    let offset = usize::try_from(integer(entry, *word, *word, false)?).ok()?;
                    let name = names_at.checked_add(name)?;
                    symbols.push((name..string_end(bytes.get(..data.end)?, name)?, *by_offset.get(&offset)?));
                }
                Some(symbols)
            }
        }
    }
}

/// Where the string at `start` ends: before a NUL, or with the bytes.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = bytes.get(start..)?;
    let length = CStr::from_bytes_until_nul(rest).map_or(rest.len(), CStr::count_bytes);
    start.checked_add(length)
}

fn integer(bytes: &[u8], at: usize, width: usize, big_endian: bool) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(if big_endian { field.iter().fold(0, fold) } else { field.iter().rev().fold(0, fold) })
}

#[cfg(test)]
mod tests;
