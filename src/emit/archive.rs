//! Archives of emitted objects, in the form that GNU ar writes (System V ar with `//` and `/SYM64/`).
//!
//! Members keep their order and names. The symbol table lists every non-local definition of each ELF64 member, also
//! common and weak ones, because GNU ld and gold extract members by it alone. Dates, owners and modes are fixed, so
//! equal members give equal bytes.

use std::io::{self, Write};

use object::elf;
use object::read::elf::{FileHeader, SectionTable};

use super::input::{ElfHeader, LE};

const MAGIC: &[u8] = b"!<arch>\n";
const MEMBER_HEADER: usize = 60;
/// Longest name that is written in the member header itself, a slash behind it.
const SHORT_NAME: usize = 15;

/// Write an archive of `members` with a symbol table. Names may repeat. Returns the offsets of the members' bytes.
///
/// # Errors
/// `out` can't be written to.
pub fn write(out: &mut impl Write, members: &[(&str, &[u8])]) -> io::Result<Vec<u64>> {
    let symbols: Vec<(usize, &[u8])> = members
        .iter()
        .enumerate()
        .flat_map(|(i, (_, bytes))| definitions(bytes).into_iter().map(move |name| (i, name)))
        .collect();
    write_indexed(out, members, &symbols)
}

/// [`write()`], with this symbol table: the position of a member, and a name that it defines.
///
/// # Errors
/// `out` can't be written to.
pub fn write_indexed(
    out: &mut impl Write,
    members: &[(&str, &[u8])],
    symbols: &[(usize, &[u8])],
) -> io::Result<Vec<u64>> {
    let mut long_names = Vec::new();
    let name_fields: Vec<String> =
        members.iter().map(|(name, _)| name_field(name, &mut long_names)).collect();
    let names_size: usize = symbols.iter().map(|(_, name)| name.len() + 1).sum();

    let long_names_size = if long_names.is_empty() { 0 } else { member_size(long_names.len()) };
    let members_size: usize = members.iter().map(|(_, bytes)| member_size(bytes.len())).sum();
    // Offsets in the symbol table have 32 bits, or 64 bits under another name if the archive is too large.
    let narrow_table = 4 + 4 * symbols.len() + names_size;
    let narrow =
        MAGIC.len() + member_size(narrow_table) + long_names_size + members_size <= u32::MAX as usize;
    let width = if narrow { 4 } else { 8 };
    let table_size = width + width * symbols.len() + names_size;
    let first_member = MAGIC.len() + member_size(table_size) + long_names_size;

    let mut offsets = Vec::with_capacity(members.len());
    let mut offset = first_member;
    for (_, bytes) in members {
        offsets.push(offset as u64);
        offset += member_size(bytes.len());
    }

    out.write_all(MAGIC)?;
    write_header(out, if narrow { "/" } else { "/SYM64/" }, table_size, "0")?;
    let number = |n: u64| n.to_be_bytes().into_iter().skip(8 - width);
    let mut table: Vec<u8> = Vec::with_capacity(table_size);
    table.extend(number(symbols.len() as u64));
    for (member, _) in symbols {
        table.extend(number(offsets.get(*member).copied().unwrap_or(0)));
    }
    for (_, name) in symbols {
        table.extend_from_slice(name);
        table.push(0);
    }
    write_padded(out, &table)?;
    if !long_names.is_empty() {
        write_header(out, "//", long_names.len(), "")?;
        write_padded(out, &long_names)?;
    }
    for ((_, bytes), field) in members.iter().zip(&name_fields) {
        write_header(out, field, bytes.len(), "100644")?;
        write_padded(out, bytes)?;
    }
    Ok(offsets.iter().map(|header| header + MEMBER_HEADER as u64).collect())
}

/// The size of a member with header and padding.
fn member_size(contents: usize) -> usize {
    MEMBER_HEADER + contents.next_multiple_of(2)
}

/// Write the contents of a member, padded to an even size.
fn write_padded(out: &mut impl Write, contents: &[u8]) -> io::Result<()> {
    out.write_all(contents)?;
    out.write_all(if contents.len().is_multiple_of(2) { b"" } else { b"\n" })
}

/// The name field of a member. A name that does not fit goes into the table of long names.
fn name_field(name: &str, long_names: &mut Vec<u8>) -> String {
    if !name.is_empty() && name.len() <= SHORT_NAME && !name.contains('/') {
        return format!("{name}/");
    }
    let field = format!("/{}", long_names.len());
    long_names.extend_from_slice(name.as_bytes());
    long_names.extend_from_slice(b"/\n");
    field
}

fn write_header(out: &mut impl Write, name: &str, size: usize, mode: &str) -> io::Result<()> {
    // The tables have blank owner and mode, as GNU ar writes them; a date of 0 is that of its deterministic mode.
    let owner = if mode == "100644" { "0" } else { "" };
    let date = if name == "//" { "" } else { "0" };
    writeln!(out, "{name:<16}{date:<12}{owner:<6}{owner:<6}{mode:<8}{size:<10}`")
}

/// The names of the non-local definitions of an object, empty if it can't be read.
fn definitions(bytes: &[u8]) -> Vec<&[u8]> {
    let read = || {
        let header = ElfHeader::parse(bytes).ok()?;
        if !header.is_little_endian() {
            return None;
        }
        let sections: SectionTable<'_, ElfHeader> = header.sections(LE, bytes).ok()?;
        let symbols = sections.symbols(LE, bytes, elf::SHT_SYMTAB).ok()?;
        let mut names = Vec::new();
        for symbol in symbols.iter() {
            if symbol.st_bind() != elf::STB_LOCAL
                && symbol.st_shndx.get(LE) != elf::SHN_UNDEF
                && let Ok(name) = symbols.symbol_name(LE, symbol)
                && !name.is_empty()
            {
                names.push(name);
            }
        }
        Some(names)
    };
    read().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn written(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = Vec::new();
        write(&mut archive, members).unwrap();
        archive
    }

    #[test]
    fn members_come_back_under_their_names() {
        let long = "a name longer than fifteen bytes.o";
        let members: &[(&str, &[u8])] = &[
            ("a.o", b"odd"),
            (long, b"even"),
            ("dir/b.o", b""),
            ("exactly15bytes.", b"x"),
            ("a.o", b"again"),
        ];
        let archive = written(members);
        let read = object::read::archive::ArchiveFile::parse(&*archive).unwrap();
        let found: Vec<(String, Vec<u8>)> = read
            .members()
            .map(|m| m.unwrap())
            .map(|m| (String::from_utf8(m.name().to_vec()).unwrap(), m.data(&*archive).unwrap().to_vec()))
            .collect();
        let expected: Vec<(String, Vec<u8>)> =
            members.iter().map(|(n, b)| ((*n).to_owned(), b.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_empty_archive_is_one() {
        let archive = written(&[]);
        let read = object::read::archive::ArchiveFile::parse(&*archive).unwrap();
        assert_eq!(read.members().count(), 0);
    }
}
