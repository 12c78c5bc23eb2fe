//! Archives: members and symbol table of GNU, thin and BSD archives, in one pass over the headers.
//!
//! Member names repeat, so a member is identified by the offset of its header, as in the symbol table. A malformed archive is an
//! error with the offset, never a partial list, which could lack a member that the linker extracts. Nested archives are errors.

use std::ffi::CStr;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::recognise::{ARCHIVE, THIN_ARCHIVE};

/// `struct ar_hdr`: name 16, date 12, uid 6, gid 6, mode 8, size 10, terminator 2.
const HEADER: usize = 60;

/// A member with contents, not a table of the archive itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// For a thin archive: the path of the member's file, relative to the archive's directory unless absolute.
    pub name: String,
    /// In the archive; empty for a thin one.
    pub data: Range<usize>,
    /// The offset of its header in the archive.
    pub offset: usize,
}

/// A parsed archive: its members and its symbol table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Archive {
    pub thin: bool,
    /// The members in the order of the file.
    pub members: Vec<Member>,
    /// The place of each symbol name, in table order, with the index of its member; `None` if there is no table.
    pub symbols: Option<Vec<(Range<usize>, usize)>>,
    /// The offset of a header whose name ends without a slash, as BSD writes them.
    pub without_slash: Option<usize>,
    /// Whether the symbol table or the name of a member is in BSD's form.
    pub has_bsd_form: bool,
}

/// The place and format of the raw symbol table.
enum RawSymbolTable {
    /// GNU: `/` (4-byte words) or `/SYM64/` (8-byte words), big-endian.
    Gnu { data: Range<usize>, word: usize },
    /// BSD: `__.SYMDEF`, `__.SYMDEF SORTED` (4) or `__.SYMDEF_64` (8), little-endian here.
    Bsd { data: Range<usize>, word: usize },
}

/// Read an archive: the places of its members, and its symbol table.
///
/// # Errors
/// The archive is malformed; the text has the offset.
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
                    // In thin archives GNU ar leaves padding behind a name of 15 characters.
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

/// The field without the padding of its fixed width.
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

/// The end of the string at `start`: a NUL, or the end of the bytes.
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
