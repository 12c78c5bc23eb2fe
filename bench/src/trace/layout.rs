//! Where each section of code of the inputs lies in the plain program: by lld's link map, held against the bytes.
//!
//! Nothing divides sections in a plain link, so an address in one is a place in the input. The map names file and section; of
//! several sections of one name in one file it is the sizes and the bytes that tell which. Bytes are compared but for
//! fields of relocations and what a linker may rewrite around them. A section that isn't recognised for certain has no
//! place, and whatever runs there is counted as such.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags, elf};

use super::report::{InputPlace, TraceReport};
use crate::Result;

/// Bytes before and after the start of a relocated field that a linker may rewrite: relaxed GOT loads, and TLS
/// sequences of up to 16 bytes whose second field is marked too.
const REWRITTEN: (usize, usize) = (4, 12);

/// A section of code in the linked file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) file: String,
    pub(super) section: String,
}

/// Code sections of an input object.
struct Candidate {
    index: u32,
    name: String,
    data: Vec<u8>,
    /// Whether each byte is what it is in the linked file too.
    fixed: Vec<bool>,
    mentions: Vec<(u64, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    /// By address: size, and the start of the section.
    sections: BTreeMap<u64, (u64, InputPlace)>,
    /// By module and section: offset and symbol of each relocation.
    mentions: BTreeMap<(usize, u32), Vec<(u64, String)>>,
    /// Sections of code that were not distinguished.
    pub(super) unknown: Vec<Piece>,
}

impl Layout {
    /// Read the layout of the program at `linked`, with lld's map of the link, that was made in `dir`.
    ///
    /// # Errors
    /// If a file can't be read.
    pub(super) fn read(linked: &Path, map: &Path, dir: &Path, report: &TraceReport) -> Result<Layout> {
        let bytes = fs::read(linked)?;
        let file = object::File::parse(&*bytes)?;
        let mut by_file: BTreeMap<String, Vec<Piece>> = BTreeMap::new();
        for piece in pieces(&fs::read_to_string(map)?) {
            if piece.size > 0 && code_at(&file, piece.address, piece.size).is_some() {
                by_file.entry(piece.file.clone()).or_default().push(piece);
            }
        }
        let mut modules: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, (archive, name)) in report.modules.iter().enumerate() {
            let name = archive.as_ref().map_or_else(|| name.clone(), |a| format!("{a}({name})"));
            modules.entry(name).or_default().push(i);
        }
        let mut layout = Layout::default();
        for (name, pieces) in by_file {
            let Some(&[module]) = modules.get(&name).map(Vec::as_slice) else {
                layout.unknown.extend(pieces);
                continue;
            };
            let (archive, member) = &report.modules[module];
            let candidates = candidates(
                &dir.join(archive.as_ref().unwrap_or(member)),
                archive.is_some().then_some(member),
            )?;
            layout.place(module, pieces, &candidates, &file);
        }
        Ok(layout)
    }

    /// Tell the pieces of one module apart.
    fn place(
        &mut self,
        module: usize,
        pieces: Vec<Piece>,
        candidates: &[Candidate],
        file: &object::File<'_>,
    ) {
        let mut by_name: BTreeMap<String, Vec<Piece>> = BTreeMap::new();
        for piece in pieces {
            by_name.entry(piece.section.clone()).or_default().push(piece);
        }
        for (name, pieces) in by_name {
            let named: Vec<&Candidate> = candidates.iter().filter(|c| c.name == name).collect();
            let fits = |piece: &Piece, candidate: &Candidate| {
                code_at(file, piece.address, piece.size).is_some_and(|linked| candidate.is(linked))
            };
            // All are there, in their order; or this one has one place alone.
            let in_order = named.len() == pieces.len() && pieces.iter().zip(&named).all(|(p, c)| fits(p, c));
            for (i, piece) in pieces.iter().enumerate() {
                let mut fitting = named.iter().filter(|c| fits(piece, c));
                let found = match (in_order, fitting.next(), fitting.next()) {
                    (true, ..) => named.get(i),
                    (false, Some(one), None) => Some(one),
                    _ => None,
                };
                match found {
                    Some(candidate) => {
                        let place = InputPlace { module, section: candidate.index, offset: 0 };
                        self.sections.insert(piece.address, (piece.size, place));
                        self.mentions.insert((module, candidate.index), candidate.mentions.clone());
                    }
                    None => self.unknown.push(piece.clone()),
                }
            }
        }
    }

    /// The place of an address; `None` if it is in no section that is known.
    pub(super) fn place_of(&self, address: u64) -> Option<InputPlace> {
        let (start, (size, place)) = self.sections.range(..=address).next_back()?;
        let offset = address - start;
        (offset < *size).then_some(InputPlace { offset, ..*place })
    }

    /// Symbols that the input's relocations name in `size` bytes from `place` on.
    pub(super) fn mentions(&self, place: InputPlace, size: u64) -> BTreeSet<String> {
        let range = place.offset..place.offset.saturating_add(size);
        let all = self.mentions.get(&(place.module, place.section)).into_iter().flatten();
        all.filter(|(at, _)| range.contains(at)).map(|(_, name)| name.clone()).collect()
    }
}

impl Candidate {
    fn is(&self, linked: &[u8]) -> bool {
        let same = |((a, b), fixed): ((&u8, &u8), &bool)| !fixed || a == b;
        linked.len() == self.data.len() && linked.iter().zip(&self.data).zip(&self.fixed).all(same)
    }
}

/// Input sections of lld's map, in its order. A line is four columns of numbers, 8 more spaces, and `FILE:(SECTION)`.
fn pieces(map: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    for line in map.lines() {
        let mut rest = line;
        let mut numbers = [0; 4];
        let mut complete = true;
        for (i, number) in numbers.iter_mut().enumerate() {
            rest = rest.trim_start();
            let end = rest.find(' ').unwrap_or(rest.len());
            let radix = if i == 3 { 10 } else { 16 };
            match rest.get(..end).and_then(|digits| u64::from_str_radix(digits, radix).ok()) {
                Some(n) => *number = n,
                None => complete = false,
            }
            rest = rest.get(end..).unwrap_or("");
        }
        let Some(text) = rest.strip_prefix("         ").filter(|t| complete && !t.starts_with(' ')) else {
            continue;
        };
        let Some((file, section)) = text.strip_suffix(')').and_then(|t| t.rsplit_once(":(")) else {
            continue;
        };
        let [address, _, size, _] = numbers;
        // What the linker makes itself: `.plt`.
        if file == "<internal>" {
            continue;
        }
        out.push(Piece { address, size, file: file.into(), section: section.into() });
    }
    out
}

/// Bytes of the linked file, if they are code.
fn code_at<'d>(file: &object::File<'d>, address: u64, size: u64) -> Option<&'d [u8]> {
    file.sections().find_map(|section| {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return None };
        let code = sh_flags.contains(elf::SHF_EXECINSTR);
        let start = address.checked_sub(section.address())?;
        let end = start.checked_add(size)?;
        if !code || end > section.size() {
            return None;
        }
        section.data().ok()?.get(start as usize..end as usize)
    })
}

/// Code sections of an object, or of the one member of an archive that has the name; none if several have it.
fn candidates(path: &Path, member: Option<&String>) -> Result<Vec<Candidate>> {
    let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let Some(member) = member else { return code_sections(&bytes) };
    let archive = ArchiveFile::parse(&*bytes)?;
    let mut found = None;
    for entry in archive.members() {
        let entry = entry?;
        if entry.name() == member.as_bytes() && found.replace(entry.data(&*bytes)?).is_some() {
            return Ok(Vec::new());
        }
    }
    found.map_or_else(|| Ok(Vec::new()), code_sections)
}

fn code_sections(bytes: &[u8]) -> Result<Vec<Candidate>> {
    let file = object::File::parse(bytes)?;
    let mut out = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if !sh_flags.contains(elf::SHF_EXECINSTR) || section.size() == 0 {
            continue;
        }
        let data = section.data()?.to_vec();
        let mut fixed = vec![true; data.len()];
        let mut mentions = Vec::new();
        for (at, relocation) in section.relocations() {
            if let RelocationTarget::Symbol(index) = relocation.target()
                && let Ok(name) = file.symbol_by_index(index).and_then(|s| s.name())
            {
                mentions.push((at, name.to_owned()));
            }
            let start = (at as usize).saturating_sub(REWRITTEN.0);
            let end = (at as usize).saturating_add(REWRITTEN.1).min(fixed.len());
            fixed.get_mut(start..end).into_iter().flatten().for_each(|f| *f = false);
        }
        out.push(Candidate {
            index: section.index().0 as u32,
            name: section.name()?.to_owned(),
            data,
            fixed,
            mentions,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_input_sections() {
        let map = "             VMA              LMA     Size Align Out     In      Symbol\n\
                   \x20          15450            15450    2a971    16 .text\n\
                   \x20          15540            15540      fdf    16         lua.o:(.text)\n\
                   \x20          15540            15540        f     1                 main\n\
                   \x20          165f0            165f0     3099    16         a dir/lib(1).a(lapi.o):(.text.x)\n";
        let found = pieces(map);
        let piece = |address, size, file: &str, section: &str| Piece {
            address,
            size,
            file: file.into(),
            section: section.into(),
        };
        let first = piece(0x15540, 0xfdf, "lua.o", ".text");
        assert_eq!(found, [first, piece(0x165f0, 0x3099, "a dir/lib(1).a(lapi.o)", ".text.x")]);
    }
}
