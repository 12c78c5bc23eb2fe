//! The objects of a link, as the linker itself lists them (`--trace`), read with the `object` crate.
//!
//! Nothing here shares code with the tool that is measured: not the reading of archives, nor the choice of members, nor
//! the resolution of symbols. Left out: linker scripts as inputs (their members are in the trace), thin archives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use object::read::archive::ArchiveFile;
use object::{
    Object, ObjectComdat, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags,
    SymbolFlags, SymbolSection, elf,
};

use crate::Result;

/// A relocation, with the symbol by its index in the object's table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reloc {
    pub(super) offset: u64,
    pub(super) kind: u32,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

/// A section that is loaded at run time; others have no place here.
#[derive(Debug)]
pub(super) struct LoadedSection {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) code: bool,
    pub(super) data: Vec<u8>,
    /// They are in ascending order of offset.
    pub(super) relocs: Vec<Reloc>,
    /// Another object's group of the same signature stands for it.
    pub(super) discarded: bool,
}

/// A symbol; `section` is an index of the object's sections, if it is defined in one that is loaded.
#[derive(Debug)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) section: Option<usize>,
    pub(super) value: u64,
    pub(super) size: u64,
    pub(super) function: bool,
    pub(super) names_section: bool,
    pub(super) local: bool,
    pub(super) weak: bool,
    pub(super) undefined: bool,
}

/// One relocatable object of the link. Indices of sections and symbols are the file's own.
#[derive(Debug)]
pub(super) struct ReachedObject {
    pub(super) bytes: Vec<u8>,
    pub(super) sections: BTreeMap<usize, LoadedSection>,
    pub(super) symbols: BTreeMap<usize, Symbol>,
}

/// All inputs of a link, in the linker's order.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) modules: Vec<ReachedObject>,
    /// Names that shared libraries define or ask for.
    pub(super) shared: BTreeSet<String>,
}

fn module(name: &str, bytes: Vec<u8>, groups: &mut BTreeSet<String>) -> Result<ReachedObject> {
    let mut sections = BTreeMap::new();
    let mut symbols = BTreeMap::new();
    {
        let file = object::File::parse(&*bytes).map_err(|e| format!("{name}: {e}"))?;
        let mut discarded = BTreeSet::new();
        for group in file.comdats() {
            if !groups.insert(group.name()?.to_owned()) {
                discarded.extend(group.sections().map(|s| s.0));
            }
        }
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            if !sh_flags.contains(elf::SHF_ALLOC) {
                continue;
            }
            let mut relocs: Vec<Reloc> = section
                .relocations()
                .filter_map(|(offset, r)| match (r.flags(), r.target()) {
                    (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(s)) => {
                        Some(Reloc { offset, kind: r_type.0, symbol: s.0, addend: r.addend() })
                    }
                    _ => None,
                })
                .collect();
            relocs.sort_by_key(|r| r.offset);
            sections.insert(
                section.index().0,
                LoadedSection {
                    name: section.name()?.to_owned(),
                    size: section.size(),
                    code: sh_flags.contains(elf::SHF_EXECINSTR),
                    data: section.data()?.to_vec(),
                    relocs,
                    discarded: discarded.contains(&section.index().0),
                },
            );
        }
        for symbol in file.symbols() {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
            let kind = st_info.st_type();
            symbols.insert(
                symbol.index().0,
                Symbol {
                    name: symbol.name().unwrap_or("").to_owned(),
                    section: match symbol.section() {
                        SymbolSection::Section(s) => Some(s.0),
                        _ => None,
                    },
                    value: symbol.address(),
                    size: symbol.size(),
                    function: kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC,
                    names_section: kind == elf::STT_SECTION,
                    local: symbol.is_local(),
                    weak: symbol.is_weak(),
                    undefined: symbol.is_undefined(),
                },
            );
        }
    }
    Ok(ReachedObject { bytes, sections, symbols })
}

fn shared(bytes: &[u8], names: &mut BTreeSet<String>) -> Result<()> {
    let file = object::File::parse(bytes)?;
    for symbol in file.dynamic_symbols() {
        names.insert(symbol.name().unwrap_or("").to_owned());
    }
    Ok(())
}

/// Read everything that `trace`, the linker's own list, names.
pub(super) fn read(trace: &str, dir: &Path) -> Result<Inputs> {
    let mut inputs = Inputs::default();
    let mut groups = BTreeSet::new();
    let mut archives: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    // Members of one name are taken in their order.
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for line in trace.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if let Some((archive, member)) = line.strip_suffix(')').and_then(|l| l.rsplit_once('(')) {
            if !archives.contains_key(archive) {
                archives.insert(archive.to_owned(), fs::read(dir.join(archive))?);
            }
            let bytes = archives.get(archive).map_or(&[][..], Vec::as_slice);
            let nth = taken.entry(line.to_owned()).or_default();
            let found = ArchiveFile::parse(bytes)?
                .members()
                .filter_map(std::result::Result::ok)
                .filter(|m| m.name() == member.as_bytes())
                .nth(*nth)
                .ok_or_else(|| format!("{line}: no such member"))?;
            *nth += 1;
            inputs.modules.push(module(line, found.data(bytes)?.to_vec(), &mut groups)?);
            continue;
        }
        let bytes = fs::read(dir.join(line)).map_err(|e| format!("{line}: {e}"))?;
        match object::File::parse(&*bytes).map(|f| f.kind()) {
            Ok(object::ObjectKind::Relocatable) => inputs.modules.push(module(line, bytes, &mut groups)?),
            Ok(object::ObjectKind::Dynamic) => shared(&bytes, &mut inputs.shared)?,
            // A script: what it leads to is listed too.
            _ => {}
        }
    }
    Ok(inputs)
}
