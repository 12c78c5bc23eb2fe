//! The objects of a link: allocated sections, their references, their unwind tables.
//!
//! The `object` crate reads them, so that no code is shared with the pruner. A name resolves to every definition of it in the link, which
//! cannot hide a dangling reference.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;
use object::read::elf::{ElfFile64, SectionHeader as _};
use object::{
    Endianness, Object, ObjectComdat, ObjectSection, ObjectSymbol, RelocationTarget, SymbolIndex, elf,
};

use crate::Result;

/// A section of an object of the link: indices in [`LinkObjects::objects`] and [`InputObject::sections`].
pub(super) type SectionRef = (usize, usize);

#[derive(Debug, Clone, Default)]
pub(super) struct InputSection {
    pub(super) name: String,
    /// It is a number of bytes.
    pub(super) size: u64,
    /// It is allocated, and garbage collection decides about it.
    pub(super) collectable: bool,
    /// It is in a COMDAT group that an earlier object has too.
    pub(super) discarded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReferenceTarget {
    Section(usize),
    Name(String),
}

/// An FDE, with the targets of its references and of its CIE's.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) function: Option<ReferenceTarget>,
    pub(super) tables: Vec<ReferenceTarget>,
    pub(super) personality: Vec<ReferenceTarget>,
}

#[derive(Debug, Default)]
pub(super) struct InputObject {
    /// `PATH`, or `PATH(MEMBER)`, with the path canonical.
    pub(super) label: String,
    /// The elements are indexed by ELF section index.
    pub(super) sections: Vec<InputSection>,
    pub(super) references: Vec<(usize, ReferenceTarget)>,
    pub(super) frames: Vec<Frame>,
    /// Undefined symbols to which no relocation refers: the link fails unless they are defined.
    pub(super) declared: Vec<ReferenceTarget>,
    definitions: Vec<(String, usize)>,
}

/// All objects of a link, in the order in which the linker read them.
#[derive(Debug, Default)]
pub(super) struct LinkObjects {
    pub(super) objects: Vec<InputObject>,
    by_name: HashMap<String, Vec<SectionRef>>,
}

impl LinkObjects {
    /// Read the relocatable objects among the files that lld's `--trace` named.
    pub(super) fn read(dir: &Path, trace: &[String]) -> Result<LinkObjects> {
        let mut link_objects = LinkObjects::default();
        let mut signatures = HashSet::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for name in trace {
            let label = label(dir, name);
            let nth = seen.entry(label.clone()).or_default();
            let Some(data) = contents(dir, name, *nth)? else { continue };
            if let Some(object) = read_object(&data, label, &mut signatures)? {
                *nth += 1;
                link_objects.objects.push(object);
            }
        }
        for (o, object) in link_objects.objects.iter().enumerate() {
            for (name, s) in &object.definitions {
                link_objects.by_name.entry(name.clone()).or_default().push((o, *s));
            }
        }
        Ok(link_objects)
    }

    pub(super) fn section(&self, node: SectionRef) -> Option<&InputSection> {
        self.objects.get(node.0)?.sections.get(node.1)
    }

    /// Every section that `target`, seen from `object`, may mean.
    pub(super) fn resolve(&self, object: usize, target: &ReferenceTarget) -> Vec<SectionRef> {
        match target {
            ReferenceTarget::Section(s) => vec![(object, *s)],
            ReferenceTarget::Name(name) => self.by_name.get(name).cloned().unwrap_or_default(),
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = SectionRef> + '_ {
        self.objects.iter().enumerate().flat_map(|(o, object)| {
            object.sections.iter().enumerate().filter(|(_, s)| s.collectable).map(move |(s, _)| (o, s))
        })
    }
}

fn split_member(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(')').and_then(|n| n.rsplit_once('(')) {
        Some((path, member)) => (path, Some(member)),
        None => (name, None),
    }
}

/// The name of an input, the same however the path to it is spelled.
pub(super) fn label(dir: &Path, name: &str) -> String {
    let (path, member) = split_member(name);
    let full: PathBuf = dir.join(path);
    let path = full.canonicalize().unwrap_or(full);
    match member {
        Some(member) => format!("{}({member})", path.display()),
        None => path.display().to_string(),
    }
}

/// The bytes of an input; of several members of one name, the `nth`. `None` for a file that is not there.
fn contents(dir: &Path, name: &str, nth: usize) -> Result<Option<Vec<u8>>> {
    let (path, member) = split_member(name);
    let Ok(data) = fs::read(dir.join(path)) else { return Ok(None) };
    let Some(member) = member else { return Ok(Some(data)) };
    let archive = ArchiveFile::parse(&*data)?;
    let members =
        archive.members().filter_map(std::result::Result::ok).filter(|m| m.name() == member.as_bytes());
    // A member that is listed again is read once.
    let found = members.take(nth + 1).last();
    Ok(found.map(|m| m.data(&*data)).transpose()?.map(<[u8]>::to_vec))
}

fn read_object(data: &[u8], label: String, signatures: &mut HashSet<String>) -> Result<Option<InputObject>> {
    let Ok(file) = ElfFile64::<Endianness>::parse(data) else { return Ok(None) };
    if file.kind() != object::ObjectKind::Relocatable {
        return Ok(None);
    }
    let endian = file.endian();
    let mut object = InputObject { label, ..InputObject::default() };
    for section in file.sections() {
        let index = section.index().0;
        if object.sections.len() <= index {
            object.sections.resize(index + 1, InputSection::default());
        }
        let header = section.elf_section_header();
        let flags = header.sh_flags(endian).0;
        let name = String::from_utf8_lossy(section.name_bytes()?).into_owned();
        // The linker itself makes the output's unwind and property sections out of the inputs'.
        let made = name == ".eh_frame" || name == ".note.gnu.property";
        object.sections[index] = InputSection {
            collectable: flags & elf::SHF_ALLOC.0 != 0 && flags & elf::SHF_EXCLUDE.0 == 0 && !made,
            size: section.size(),
            discarded: false,
            name,
        };
    }
    for comdat in file.comdats() {
        if !signatures.insert(comdat.name()?.to_owned()) {
            for index in comdat.sections() {
                if let Some(s) = object.sections.get_mut(index.0) {
                    s.discarded = true;
                }
            }
        }
    }
    for symbol in file.symbols() {
        if let (false, Some(section)) = (symbol.is_local(), symbol.section_index()) {
            object.definitions.push((symbol.name()?.to_owned(), section.0));
        }
    }
    let target = |relocation: &object::Relocation| -> Option<ReferenceTarget> {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = file.symbol_by_index(index).ok()?;
        match symbol.section_index() {
            Some(section) if symbol.is_local() => Some(ReferenceTarget::Section(section.0)),
            _ => Some(ReferenceTarget::Name(symbol.name().ok()?.to_owned())),
        }
    };
    for section in file.sections() {
        let index = section.index().0;
        if object.sections.get(index).is_some_and(|s| s.collectable) {
            object.references.extend(section.relocations().filter_map(|(_, r)| Some((index, target(&r)?))));
        } else if section.name_bytes()? == b".eh_frame" {
            let places: Vec<(u64, ReferenceTarget)> =
                section.relocations().filter_map(|(o, r)| Some((o, target(&r)?))).collect();
            object.frames.extend(frames(section.data()?, &places));
        }
    }
    let targets = file.sections().flat_map(|s| s.relocations()).map(|(_, r)| r.target());
    let referenced: HashSet<SymbolIndex> = targets
        .filter_map(|target| match target {
            RelocationTarget::Symbol(index) => Some(index),
            _ => None,
        })
        .collect();
    let declared = file.symbols().filter(|s| s.is_undefined() && !referenced.contains(&s.index()));
    object.declared.extend(declared.filter_map(|s| Some(ReferenceTarget::Name(s.name().ok()?.to_owned()))));
    Ok(Some(object))
}

/// The FDEs of an `.eh_frame` section (LSB, "Exception Frames"), with the relocations that lie in each.
fn frames(data: &[u8], relocations: &[(u64, ReferenceTarget)]) -> Vec<Frame> {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?)) };
    let within = |from: usize, to: usize| {
        relocations
            .iter()
            .filter(move |(o, _)| (from as u64..to as u64).contains(o))
            .map(|(o, t)| (*o as usize, t.clone()))
    };
    let mut personality_of: HashMap<usize, Vec<ReferenceTarget>> = HashMap::new();
    let mut out = Vec::new();
    let mut at = 0;
    while let (Some(length), Some(id)) = (word(at), word(at + 4)) {
        if length == 0 || length == u32::MAX {
            // A terminator; no compiler writes 64-bit records.
            break;
        }
        let end = at + 4 + length as usize;
        if id == 0 {
            personality_of.insert(at, within(at, end).map(|(_, t)| t).collect());
        } else {
            let mut frame = Frame::default();
            for (offset, target) in within(at, end) {
                if offset == at + 8 {
                    frame.function = Some(target);
                } else {
                    frame.tables.push(target);
                }
            }
            let cie = (at + 4).wrapping_sub(id as usize);
            frame.personality = personality_of.get(&cie).cloned().unwrap_or_default();
            out.push(frame);
        }
        at = end;
    }
    out
}
