//! From the owners of a file's bytes to a [`Model`]: one atom for the bytes of each owner in each part of the file.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::coverage::{Claim, Coverage};
use super::file::{AuditedFile, is_elf};
use super::owners::{Owner, Owners};
use super::{owners, pointers, units, unwind};
use crate::audit::model::{Atom, AtomState, ElfKind, Model, UNKNOWN_MODULE, sum};
use crate::error::{Error, Result, Stage};
use crate::inputs::archive;
use crate::inputs::recognise::{ARCHIVE, THIN_ARCHIVE};
use crate::report::contents::{FileReport, PartReport};
use crate::report::{AtomReport, FixedWord, ModuleReport, Report, contents};

/// Zeros of data that are fewer than this are padding.
const MOST_PADDING: u64 = 64;

/// Whether an audit can read a file that begins so.
pub(in crate::audit) fn is_auditable(start: &[u8]) -> bool {
    is_elf(start) || start.starts_with(ARCHIVE) || start.starts_with(THIN_ARCHIVE)
}

/// The model of an ELF file or an archive of them; `path` is for messages.
pub(in crate::audit) fn read(path: &str, data: &[u8]) -> Result<Model> {
    let mut builder = ModelBuilder::default();
    let kind = if is_elf(data) {
        let file = AuditedFile::read(data).map_err(|e| e.in_file(path))?;
        let kind = match () {
            () if file.is_object() => ElfKind::Object,
            () if file.is_program() => ElfKind::Executable,
            () => ElfKind::Library,
        };
        let module = file.is_object().then(|| builder.module(path.to_owned(), None));
        builder.file(&file, module);
        kind
    } else {
        builder.archive(path, data)?;
        ElfKind::Archive
    };
    builder.model(path, data.len() as u64, kind)
}

#[derive(Default)]
struct ModelBuilder {
    parts: Vec<PartReport>,
    /// Parts of one name, category and kind of an archive's members are one.
    part_at: FxHashMap<(String, FixedWord, FixedWord, bool), u32>,
    atoms: Vec<Atom>,
    modules: Vec<ModuleReport>,
    duplicates: Vec<Vec<u32>>,
}

impl ModelBuilder {
    fn module(&mut self, name: String, archive: Option<&str>) -> u32 {
        let archive = archive.map(str::to_owned);
        self.modules.push(ModuleReport { name, archive, ..ModuleReport::default() });
        self.modules.len() as u32 - 1
    }

    fn part(
        &mut self,
        name: &str,
        what: impl Into<FixedWord>,
        category: impl Into<FixedWord>,
        loaded: bool,
    ) -> u32 {
        let (name, what, category) = (name.to_owned(), what.into(), category.into());
        let next = self.parts.len() as u32;
        let key = (name.clone(), what.clone(), category.clone(), loaded);
        *self.part_at.entry(key).or_insert_with(|| {
            self.parts.push(PartReport { name, what, category, loaded, ..PartReport::default() });
            next
        })
    }

    fn grow(&mut self, part: u32, size: u64, bytes: u64) {
        let part = &mut self.parts[part as usize];
        part.size = part.size.saturating_add(size);
        part.bytes = part.bytes.saturating_add(bytes);
    }

    /// The members of an archive and the bytes between them.
    fn archive(&mut self, path: &str, data: &[u8]) -> Result<()> {
        let damaged = |e: String| Error::new(Stage::Load, format!("is a damaged archive: {e}")).in_file(path);
        let read = archive::parse(data).map_err(damaged)?;
        if read.thin {
            let message = "is a thin archive, which names other files; audit these";
            return Err(Error::new(Stage::Load, message).in_file(path));
        }
        let mut rest = data.len() as u64;
        for member in &read.members {
            let bytes = data.get(member.data.clone()).unwrap_or_default();
            rest = rest.saturating_sub(bytes.len() as u64);
            let module = self.module(member.name.clone(), Some(path));
            if is_elf(bytes) {
                let file = AuditedFile::read(bytes);
                self.file(&file.map_err(|e| e.in_file(format!("{path}({})", member.name)))?, Some(module));
            } else {
                let part = self.part("members that are not ELF", "member", "other sections", false);
                self.grow(part, bytes.len() as u64, bytes.len() as u64);
                self.atom(None, "table", part, bytes.len() as u64, module);
            }
        }
        let part = self.part("archive headers and symbol table", "header", "headers", false);
        self.grow(part, rest, rest);
        Ok(())
    }

    /// Add what the owners of a file have. All of an object is of `module`.
    fn file(&mut self, file: &AuditedFile<'_>, module: Option<u32>) {
        let (owners, coverage) = attributed(file);
        let first = self.modules.len() as u32;
        if module.is_none() {
            for name in &owners.modules {
                self.module(name.clone().into_owned(), None);
            }
            self.module(UNKNOWN_MODULE.to_owned(), None);
        }
        let unknown = self.modules.len() as u32 - 1;
        let of_owner = |owner: &Owner<'_>| match (module, owner.module) {
            (Some(module), _) => module,
            (None, Some(module)) => first + module,
            (None, None) => unknown,
        };
        let mut pieces: Vec<(u32, u32, u64)> = Vec::new();
        let mut homes: Vec<Option<u32>> = vec![None; owners.list.len()];
        for (part, places) in self.parts_of(file) {
            for claim in coverage.inside(places.clone()) {
                pieces.push((claim.owner, part, claim.end - claim.start));
                let owner = claim.owner as usize;
                if owners.list[owner].home.is_some_and(|h| (claim.start..claim.end).contains(&h)) {
                    homes[owner] = Some(part);
                }
            }
            // Zero-initialised memory is behind the bytes of the file.
            let in_file = places.start < file.data.len() as u64;
            let (padding, rest) = if in_file { unowned(file, &coverage, places) } else { (0, 0) };
            if padding > 0 {
                self.atom(None, "padding", part, padding, module.unwrap_or(unknown));
            }
            // The remaining bytes of an object belong to its module.
            if let Some(module) = module.filter(|_| rest > 0) {
                self.atom(None, "table", part, rest, module);
            }
        }
        pieces.sort_unstable_by_key(|p| (p.0, p.1));
        let mut atom_of: FxHashMap<u32, u32> = FxHashMap::default();
        for group in pieces.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (number, part, _) = group[0];
            let owner = &owners.list[number as usize];
            let is_home = homes[number as usize] == Some(part);
            if is_home {
                atom_of.insert(number, self.atoms.len() as u32);
            }
            let kind = match &*self.parts[part as usize].category {
                "bss" => "bss",
                _ if !is_home => "table",
                "text" => "code",
                "rodata" => "rodata",
                _ => "data",
            };
            self.atom(owner.name.as_deref(), kind, part, group.iter().map(|p| p.2).sum(), of_owner(owner));
        }
        for group in duplicate_groups(file, &owners, &coverage) {
            let atoms = group.iter().filter_map(|o| atom_of.get(o).copied()).collect();
            self.duplicates.push(atoms);
        }
    }

    /// The parts of a file with their places.
    fn parts_of(&mut self, file: &AuditedFile<'_>) -> Vec<(u32, Range<u64>)> {
        let mut found = Vec::new();
        let mut end = 0u64;
        for part in contents::file(file.data).parts {
            let start = end;
            end += part.bytes;
            let section = part.section.and_then(|s| file.section(s));
            let bytes = file.data.get(start as usize..end as usize).unwrap_or_default();
            let mut named = PartReport { size: 0, bytes: 0, ..part.clone() };
            if part.what == "padding" && bytes.iter().any(|b| *b != 0) {
                named.name = "bytes outside of sections".to_owned();
                (named.what, named.category) = ("section".into(), "other sections".into());
            }
            // Sections of one name are one in an object, as they will be in the program.
            let number = match file.is_object() {
                true => self.part(&named.name, named.what, named.category, named.loaded),
                false => {
                    self.parts.push(named);
                    self.parts.len() as u32 - 1
                }
            };
            self.grow(number, part.size, part.bytes);
            let places = match section.filter(|s| s.bytes.is_empty()) {
                Some(section) => section.start..section.end(),
                None => start..end,
            };
            found.push((number, places));
        }
        found
    }

    fn atom(&mut self, name: Option<&str>, kind: &'static str, part: u32, size: u64, module: u32) {
        let report = AtomReport {
            module,
            section: self.parts[part as usize].name.clone(),
            size,
            kind: kind.into(),
            state: AtomState::Kept,
            linker_live: true,
            symbols: name.map(str::to_owned).into_iter().collect(),
            ..AtomReport::default()
        };
        self.atoms.push(Atom {
            report,
            main: name.is_some().then_some(0),
            placed: Some(part),
            ..Atom::default()
        });
    }

    /// Forget the files that have no bytes: another name for a compile unit, or one without code.
    fn forget_empty_modules(&mut self) {
        let mut number = vec![None; self.modules.len()];
        self.atoms.iter().for_each(|atom| number[atom.module as usize] = Some(0));
        for (next, slot) in (0u32..).zip(number.iter_mut().flatten()) {
            *slot = next;
        }
        let mut kept = number.iter();
        self.modules.retain(|_| kept.next().is_some_and(Option::is_some));
        for atom in &mut self.atoms {
            let module = &mut atom.report.module;
            *module = number[*module as usize].unwrap_or(*module);
        }
    }

    /// The model, once it is sure that no byte is counted twice or not at all.
    fn model(mut self, path: &str, length: u64, kind: ElfKind) -> Result<Model> {
        self.forget_empty_modules();
        let wrong = |what: String| Error::new(Stage::Report, format!("internal error: {what}")).in_file(path);
        let bytes = sum(self.parts.iter().map(|p| p.bytes));
        if bytes != Some(length) {
            return Err(wrong(format!("the parts of the file are {bytes:?} bytes and not {length}")));
        }
        if sum(self.parts.iter().map(|p| p.size)).is_none() {
            return Err(Error::new(Stage::Load, "has sections of a size beyond all bounds").in_file(path));
        }
        let mut taken = vec![0u64; self.parts.len()];
        for atom in &self.atoms {
            atom.placed.iter().for_each(|part| taken[*part as usize] += atom.size);
        }
        for (part, taken) in self.parts.iter().zip(&taken) {
            let most = if part.category == "bss" { part.size } else { part.bytes };
            if *taken > most {
                return Err(wrong(format!("{} has {most} bytes, and {taken} are attributed", part.name)));
            }
        }
        let file = FileReport { size: length, blake3: String::new(), parts: self.parts };
        Ok(Model {
            path: path.to_owned(),
            report: Report {
                output: path.to_owned(),
                modules: self.modules,
                duplicates: self.duplicates,
                file: Some(file),
                ..Report::default()
            },
            elf: Some(kind),
            atoms: self.atoms,
            edges: Vec::new(),
            import_edges: Vec::new(),
        })
    }
}

/// Who has which bytes of a file.
fn attributed<'a>(file: &AuditedFile<'a>) -> (Owners<'a>, Coverage) {
    let (mut owners, mut coverage) = (Owners::default(), Coverage::default());
    let pointers = pointers::pointers(file);
    let entries = unwind::entries(file, &pointers);
    owners.define(file, &entries, &mut coverage);
    let mut of_units = Vec::new();
    if !file.is_object() {
        let ranges = units::read(file, &mut owners, &mut of_units);
        owners.join_modules(file, &ranges);
    }
    coverage.add(of_units);
    pointers::slots(file, &pointers, &mut owners, &mut coverage);
    coverage.add(unwind::claims(file, &entries, &coverage));
    if !file.is_object() {
        owners.define_called(file, &pointers, &mut coverage);
    }
    pointers::claim_referenced(file, &pointers, &mut coverage);
    let mut claims = pointers::entries(file, &pointers, &mut owners, &coverage);
    claims.extend(owners::of_tables(file, &mut owners, &coverage));
    coverage.add(claims);
    (owners, coverage)
}

/// The number of bytes in a range without an owner: padding, and the others.
fn unowned(file: &AuditedFile<'_>, coverage: &Coverage, places: Range<u64>) -> (u64, u64) {
    let (mut padding, mut rest) = (0, 0);
    for gap in coverage.gaps(places) {
        let bytes = file.data.get(gap.start as usize..gap.end as usize).unwrap_or_default();
        let section = file.section_of(gap.start).filter(|s| s.is_loaded());
        let is_padding = section.is_some_and(|s| match s.is_code() {
            true => summaries::native::is_padding(bytes),
            false => gap.end - gap.start < MOST_PADDING && bytes.iter().all(|b| *b == 0),
        });
        *(if is_padding { &mut padding } else { &mut rest }) += gap.end - gap.start;
    }
    (padding, rest)
}

/// The contents of a function or constant: its bytes, and its relocations by offset.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ComparedContents<'a> {
    bytes: &'a [u8],
    relocations: Vec<(u64, u32, u32, i64)>,
}

/// Groups of owners whose code or constants have the same bytes, and in an object the same relocations, each in the order of places.
fn duplicate_groups(file: &AuditedFile<'_>, owners: &Owners<'_>, coverage: &Coverage) -> Vec<Vec<u32>> {
    let mut relocations: Vec<(u64, u32, u32, i64)> = Vec::new();
    if file.is_object() {
        for r in file.relocations() {
            relocations.extend(r.place.map(|place| (place, r.kind.0, r.symbol, r.addend)));
        }
        relocations.sort_unstable();
    }
    let contents = |claim: &Claim| {
        let owner = owners.list.get(claim.owner as usize)?;
        let section =
            file.section_of(claim.start).filter(|s| s.is_code() || s.is_data() && !s.is_writable())?;
        let range = claim.start.checked_sub(section.start)? as usize..(claim.end - section.start) as usize;
        let bytes = section.bytes.get(range)?;
        let first = relocations.partition_point(|r| r.0 < claim.start);
        let inside = relocations.get(first..).unwrap_or(&[]).iter().take_while(|r| r.0 < claim.end);
        let relocations = inside.map(|r| (r.0 - claim.start, r.1, r.2, r.3)).collect();
        (owner.home == Some(claim.start)).then_some((ComparedContents { bytes, relocations }, claim.owner))
    };
    let mut all: Vec<(ComparedContents<'_>, u32)> = coverage.claims().iter().filter_map(contents).collect();
    all.sort();
    let same = all.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1);
    let mut groups: Vec<Vec<u32>> = same.map(|group| group.iter().map(|m| m.1).collect()).collect();
    groups.sort();
    groups
}
