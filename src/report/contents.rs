//! Contents of files, for the report: the bytes of an object's sections, and the part of the linked file that each byte belongs to.
//!
//! A file is divided into ranges from its first byte to its last: those that sections, headers and the section table claim, in this
//! order of precedence, and padding. So the ranges add up to the length of any file.

use std::ops::Range;

use object::LittleEndian;
use object::elf;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use serde::{Deserialize, Serialize};

use super::names::FixedWord;
use crate::hashing;

const LE: LittleEndian = LittleEndian;

type Section = elf::SectionHeader64<LittleEndian>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// It is the length of the file in bytes.
    pub size: u64,
    /// The hash of the file's contents, in hexadecimal digits.
    #[serde(default)]
    pub blake3: String,
    /// Its parts, by offset. Sections without bytes in the file are at the offset in their header.
    pub parts: Vec<PartReport>,
}

/// A section, a table of the file format, or padding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// The name of a section; else `ELF header`, `program headers`, `section headers` or `padding`.
    pub name: String,
    /// It is `section`, `header` or `padding`.
    pub what: FixedWord,
    pub category: FixedWord,
    /// The address in memory; 0 if it is not loaded.
    pub address: u64,
    #[serde(skip_deserializing)]
    pub offset: u64,
    /// The size of the section, as its header says.
    pub size: u64,
    /// In the file. All of them add up to the length of the file.
    pub bytes: u64,
    /// The program has it in memory: it lies in a loadable segment, or in an object in a section with `SHF_ALLOC`.
    #[serde(default)]
    pub loaded: bool,
    /// The number of the section, which readers of the same file need.
    #[serde(skip)]
    pub section: Option<u32>,
}

/// Categories, in the order in which they are shown.
#[rustfmt::skip]
pub const FILE_CATEGORIES: [&str; 14] = [
    "text", "rodata", "data", "bss", "eh_frame", "dynamic relocations", "dynamic linking", "init/fini",
    "notes", "symbol table", "debug", "other sections", "headers", "padding",
];

/// By section index: its bytes in the object; `None` without bytes.
pub(super) fn sections(data: &[u8]) -> Vec<Option<&[u8]>> {
    let Ok(header) = FileHeader64::<LittleEndian>::parse(data) else { return Vec::new() };
    let Ok(sections) = header.sections(LE, data) else { return Vec::new() };
    sections.iter().map(|s| s.data(LE, data).ok().filter(|d| !d.is_empty())).collect()
}

/// The parts of a linked file.
pub fn file(data: &[u8]) -> FileReport {
    let length = data.len() as u64;
    let mut claims: Vec<PartReport> = Vec::new();
    let mut segments = None;
    if let Ok(header) = FileHeader64::<LittleEndian>::parse(data) {
        claims = of_sections(header, data);
        claims.extend(of_headers(header, data));
        segments = (header.e_type(LE) != elf::ET_REL).then(|| loadable(header, data));
    }
    // Claims in order of precedence; a stable sort keeps it among those that begin at one place.
    claims.sort_by_key(|c| c.offset);
    let mut parts: Vec<PartReport> = Vec::with_capacity(claims.len() * 2);
    let mut end = 0;
    for mut claim in claims {
        let claimed = claim.offset.saturating_add(claim.bytes).min(length);
        if claim.bytes > 0 && claim.offset > end {
            let padding = claim.offset.min(length) - end;
            parts.extend(padding_of(end, padding));
            end += padding;
        }
        claim.bytes = if claim.bytes == 0 { 0 } else { claimed.saturating_sub(end.max(claim.offset)) };
        end += claim.bytes;
        parts.push(claim);
    }
    parts.extend(padding_of(end, length - end));
    if let Some(segments) = segments {
        parts = cut(parts, &segments);
    }
    FileReport { size: length, blake3: hashing::hex(&hashing::hash(data)), parts }
}

/// The ranges of the file that loadable segments have, in ascending order and apart from each other.
fn loadable(header: &FileHeader64<LittleEndian>, data: &[u8]) -> Vec<Range<u64>> {
    let length = data.len() as u64;
    let segments = header.program_headers(LE, data).unwrap_or_default();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for segment in segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD) {
        let start = segment.p_offset(LE).min(length);
        ranges.push(start..start.saturating_add(segment.p_filesz(LE)).min(length));
    }
    disjoint(ranges)
}

/// The same bytes in ascending ranges that neither overlap nor touch.
pub(crate) fn disjoint(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|r| (r.start, r.end));
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    ranges
}

/// The parts, cut where a segment begins or ends inside of one, so that each is loaded as a whole or not at all.
fn cut(parts: Vec<PartReport>, segments: &[Range<u64>]) -> Vec<PartReport> {
    let mut pieces = Vec::with_capacity(parts.len() + segments.len());
    let mut start = 0;
    for mut part in parts {
        let end = start + part.bytes;
        while part.bytes > 0 {
            let at = segments.partition_point(|s| s.end <= start);
            let next = segments.get(at);
            part.loaded = next.is_some_and(|s| s.start <= start);
            let edge = next.map_or(end, |s| if part.loaded { s.end } else { s.start }).min(end);
            if edge == end {
                break;
            }
            let bytes = edge - start;
            pieces.push(PartReport { bytes, ..part.clone() });
            part.bytes -= bytes;
            start = edge;
        }
        start = end;
        pieces.push(part);
    }
    pieces
}

fn padding_of(offset: u64, bytes: u64) -> Option<PartReport> {
    let padding = || PartReport {
        name: "padding".to_owned(),
        what: "padding".into(),
        category: "padding".into(),
        offset,
        size: bytes,
        bytes,
        ..PartReport::default()
    };
    (bytes > 0).then(padding)
}

fn of_headers(header: &FileHeader64<LittleEndian>, data: &[u8]) -> Vec<PartReport> {
    let table = |name: &str, offset: u64, count: u64, size: u16| PartReport {
        name: name.to_owned(),
        what: "header".into(),
        category: "headers".into(),
        offset,
        size: count.saturating_mul(size.into()),
        bytes: count.saturating_mul(size.into()),
        ..PartReport::default()
    };
    // The header can't say how many there are if they are very many.
    let sections = header.sections(LE, data).map_or(0, |s| s.len() as u64);
    let segments = header.program_headers(LE, data).map_or(0, |p| p.len() as u64);
    let mut tables = vec![table("ELF header", 0, 1, header.e_ehsize(LE))];
    tables.push(table("program headers", header.e_phoff(LE), segments, header.e_phentsize(LE)));
    tables.push(table("section headers", header.e_shoff(LE), sections, header.e_shentsize(LE)));
    tables.retain(|t| t.bytes > 0);
    tables
}

fn of_sections(header: &FileHeader64<LittleEndian>, data: &[u8]) -> Vec<PartReport> {
    let Ok(sections) = header.sections(LE, data) else { return Vec::new() };
    let used = sections.iter().zip(0u32..).filter(|(s, _)| s.sh_type(LE) != elf::SHT_NULL);
    let part = |(s, number): (&Section, u32)| {
        let name = sections.section_name(LE, s).unwrap_or(b"");
        PartReport {
            name: String::from_utf8_lossy(name).into_owned(),
            what: "section".into(),
            category: category(s, name).into(),
            address: s.sh_addr(LE),
            offset: s.sh_offset(LE),
            size: s.sh_size(LE),
            bytes: if s.sh_type(LE) == elf::SHT_NOBITS { 0 } else { s.sh_size(LE) },
            loaded: s.sh_flags(LE).0 & elf::SHF_ALLOC.0 != 0,
            section: Some(number),
        }
    };
    used.map(part).collect()
}

fn category(section: &Section, name: &[u8]) -> &'static str {
    let flags = section.sh_flags(LE).0;
    let has = |flag: u64| flags & flag != 0;
    let alloc = has(elf::SHF_ALLOC.0);
    let starts = |prefixes: &[&[u8]]| prefixes.iter().any(|p| name.starts_with(p));
    match section.sh_type(LE) {
        elf::SHT_NOBITS => "bss",
        elf::SHT_RELA | elf::SHT_REL | elf::SHT_RELR if alloc => "dynamic relocations",
        elf::SHT_DYNSYM | elf::SHT_DYNAMIC | elf::SHT_HASH | elf::SHT_GNU_HASH => "dynamic linking",
        elf::SHT_GNU_VERSYM | elf::SHT_GNU_VERNEED | elf::SHT_GNU_VERDEF => "dynamic linking",
        elf::SHT_STRTAB if alloc => "dynamic linking",
        elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_SYMTAB_SHNDX => "symbol table",
        elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY => "init/fini",
        elf::SHT_NOTE => "notes",
        _ if !alloc && starts(&[b".debug", b".zdebug", b".gdb_index", b".stab"]) => "debug",
        _ if !alloc => "other sections",
        _ if starts(&[b".eh_frame", b".gcc_except_table"]) => "eh_frame",
        _ if starts(&[b".interp", b".got", b".plt", b".iplt"]) => "dynamic linking",
        _ if has(elf::SHF_EXECINSTR.0) => "text",
        _ if has(elf::SHF_WRITE.0) => "data",
        _ => "rodata",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn total(report: &FileReport) -> u64 {
        report.parts.iter().map(|p| p.bytes).sum()
    }

    /// Each byte belongs to one range, and the ranges follow on one another.
    fn check(data: &[u8]) -> FileReport {
        let report = file(data);
        assert_eq!(total(&report), data.len() as u64);
        let mut end = 0;
        for part in report.parts.iter().filter(|p| p.bytes > 0) {
            // A part that another one overlaps begins later than it says.
            assert!(part.offset <= end, "{part:?}");
            end += part.bytes;
        }
        assert!(report.parts.iter().all(|p| FILE_CATEGORIES.contains(&&*p.category)));
        report
    }

    #[test]
    fn a_program_adds_up() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let report = check(&data);
        let header = FileHeader64::<LittleEndian>::parse(&*data).unwrap();
        let sections = header.sections(LE, &*data).unwrap();
        for s in sections.iter().filter(|s| s.sh_type(LE) != elf::SHT_NULL) {
            let name = String::from_utf8_lossy(sections.section_name(LE, s).unwrap()).into_owned();
            let found = report.parts.iter().filter(|p| p.name == name && p.what == "section");
            let nobits = s.sh_type(LE) == elf::SHT_NOBITS;
            let expected = (s.sh_size(LE), if nobits { 0 } else { s.sh_size(LE) });
            assert!(found.map(|p| (p.size, p.bytes)).any(|sizes| sizes == expected), "{name}");
        }
        assert_eq!(report.parts.first().unwrap().name, "ELF header");
    }

    #[test]
    fn whatever_is_in_it_adds_up() {
        check(b"");
        check(b"#!/bin/sh\n");
        let mut data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let header = FileHeader64::<LittleEndian>::parse(&*data).unwrap();
        let table = header.e_shoff(LE) as usize;
        // Sections that overlap, are longer than the file, or lie before and behind it.
        for (number, (field, value)) in
            [(24, 0u64), (24, u64::MAX), (32, u64::MAX / 2), (24, 1 << 20), (32, 1 << 30)]
                .into_iter()
                .enumerate()
        {
            let at = table + 64 * (number + 1) + field;
            data[at..at + 8].copy_from_slice(&value.to_le_bytes());
            check(&data);
        }
    }
}
