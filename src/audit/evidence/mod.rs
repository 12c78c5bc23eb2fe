//! The linked file as evidence of its code: symbols, debug information and the bytes between.
//!
//! A report lists the code that a link removed; only the file shows that no copy of it was inlined elsewhere. All code must be explained: by
//! debug information, as a function of a start file, as linker-made, or as padding.

use std::ops::Range;

use debug::DebugEvidence;
use object::elf::FileHeader64;
use object::read::archive::ArchiveFile;
use object::read::elf::FileHeader as _;
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SymbolKind};

pub(crate) mod debug;
pub(crate) mod names;

/// A symbol that names code in the file.
#[derive(Debug)]
pub(crate) struct CodeSymbol {
    pub(crate) address: u64,
    size: u64,
    pub(crate) name: String,
}

/// A section of code, as it is in the file.
#[derive(Debug)]
struct CodeSection {
    name: String,
    addresses: Range<u64>,
    bytes: Vec<u8>,
}

/// Tables of jumps to shared libraries, and the code that start files run before and after the program.
const LINKER_MADE: [&str; 7] = [".plt", ".plt.got", ".plt.sec", ".plt.bnd", ".iplt", ".init", ".fini"];

/// Code without debug information, which may hold copies of any function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UndescribedCode {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The linked file, as evidence of its contents.
#[derive(Debug)]
pub(crate) struct LinkedProgram {
    sections: Vec<CodeSection>,
    /// The symbols of code, dynamic ones too, ascending by address.
    pub(crate) symbols: Vec<CodeSymbol>,
    /// The shared libraries that it asks the loader for.
    pub(crate) libraries: Vec<String>,
    pub(crate) debug: DebugEvidence,
}

impl LinkedProgram {
    /// Read a linked file; `None` if it is no ELF file.
    pub(crate) fn read(data: &[u8]) -> Option<LinkedProgram> {
        let file = object::File::parse(data).ok()?;
        let mut sections = Vec::new();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            if sh_flags.0 & object::elf::SHF_EXECINSTR.0 == 0 || section.size() == 0 {
                continue;
            }
            let addresses = section.address()..section.address().checked_add(section.size())?;
            let name = String::from_utf8_lossy(section.name_bytes().ok()?).into_owned();
            sections.push(CodeSection { name, addresses, bytes: section.data().ok()?.to_vec() });
        }
        let is_code = |address: u64| sections.iter().any(|s| s.addresses.contains(&address));
        let mut symbols = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let names_code =
                matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label);
            if symbol.is_undefined() || !names_code || !is_code(symbol.address()) {
                continue;
            }
            let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
            symbols.push(CodeSymbol { address: symbol.address(), size: symbol.size(), name });
        }
        symbols.sort_by(|a, b| (a.address, &a.name, a.size).cmp(&(b.address, &b.name, b.size)));
        let code: Vec<Range<u64>> = sections.iter().map(|s| s.addresses.clone()).collect();
        let debug = debug::read(&file, &code);
        Some(LinkedProgram { sections, symbols, libraries: libraries(data), debug })
    }

    /// Whether a trap stands at an address, in the place of a function.
    pub(crate) fn is_trap(&self, address: u64) -> bool {
        let section = self.sections.iter().find(|s| s.addresses.contains(&address));
        let at = section.and_then(|s| s.bytes.get((address - s.addresses.start) as usize..));
        at.is_some_and(crate::emit::is_stub)
    }

    /// The code that neither debug information describes nor a symbol that `is_known` explains, nor is padding or made by the linker.
    pub(crate) fn undescribed(&self, is_known: &dyn Fn(&CodeSymbol) -> bool) -> Vec<UndescribedCode> {
        let mut found = Vec::new();
        for section in self.sections.iter().filter(|s| !LINKER_MADE.contains(&&*s.name)) {
            let mut at = section.addresses.start;
            let end = section.addresses.end;
            let inside = |r: &&Range<u64>| r.end > section.addresses.start && r.start < end;
            for described in self.debug.described.iter().filter(inside) {
                self.gap(section, at..described.start.max(at), is_known, &mut found);
                at = at.max(described.end);
            }
            self.gap(section, at.min(end)..end, is_known, &mut found);
        }
        found
    }

    /// Explain the bytes of a section between described functions.
    fn gap(
        &self,
        section: &CodeSection,
        gap: Range<u64>,
        is_known: &dyn Fn(&CodeSymbol) -> bool,
        found: &mut Vec<UndescribedCode>,
    ) {
        let first = self.symbols.partition_point(|s| s.address < gap.start);
        let inside = self.symbols.get(first..).unwrap_or(&[]);
        let inside = inside.get(..inside.partition_point(|s| s.address < gap.end)).unwrap_or(&[]);
        let mut at = gap.start;
        let nameless = |range: Range<u64>, found: &mut Vec<UndescribedCode>| {
            if !section.is_padding(&range) {
                let name = format!("[{}+{:#x}]", section.name, range.start - section.addresses.start);
                found.push(UndescribedCode { name, bytes: range.end - range.start });
            }
        };
        for here in inside.chunk_by(|a, b| a.address == b.address) {
            let Some(symbol) = here.first() else { continue };
            if symbol.address < at {
                continue;
            }
            nameless(at..symbol.address, found);
            // A symbol without a size reaches to the next one.
            let size = here.iter().map(|s| s.size).max().unwrap_or(0);
            let next = inside.iter().map(|s| s.address).find(|a| *a > symbol.address).unwrap_or(gap.end);
            let end = if size == 0 { next } else { symbol.address.saturating_add(size).min(gap.end) };
            if !here.iter().any(is_known) {
                found.push(UndescribedCode { name: symbol.name.clone(), bytes: end - symbol.address });
            }
            at = end;
        }
        nameless(at..gap.end, found);
    }
}

impl CodeSection {
    fn is_padding(&self, range: &Range<u64>) -> bool {
        let at = |address: u64| (address - self.addresses.start) as usize;
        let bytes = self.bytes.get(at(range.start)..at(range.end));
        bytes.is_some_and(summaries::native::is_filler)
    }
}

/// The names in the `DT_NEEDED` entries of a file.
fn libraries(data: &[u8]) -> Vec<String> {
    const LE: LittleEndian = LittleEndian;
    let table = || {
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        header.sections(LE, data)?.dynamic_table(LE, data)
    };
    let Ok(table) = table() else { return Vec::new() };
    let needed = table.iter().filter(|entry| entry.tag == object::elf::DT_NEEDED);
    let names = needed.filter_map(|entry| table.string(entry).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// A function that some member of an archive defines.
#[derive(Debug)]
pub(crate) struct ArchiveFunction {
    pub(crate) name: String,
    /// The member of the archive, as `archive(member)`.
    pub(crate) member: String,
}

/// The functions of all members that can be read, by archive and member. Unreadable archives are skipped. An archive may have changed since
/// the link, so this proves nothing.
pub(crate) fn archive_functions(archives: &[&str]) -> Vec<ArchiveFunction> {
    let mut found = Vec::new();
    for path in archives {
        let Ok(data) = std::fs::read(path) else { continue };
        let Ok(archive) = ArchiveFile::parse(&*data) else { continue };
        let base = path.rsplit('/').next().unwrap_or(path);
        for member in archive.members().flatten() {
            let file = member.data(&*data).ok().and_then(|bytes| object::File::parse(bytes).ok());
            let Some(file) = file else { continue };
            let member = format!("{base}({})", String::from_utf8_lossy(member.name()));
            let functions = file.symbols().filter(|s| s.kind() == SymbolKind::Text && !s.is_undefined());
            let names = functions.filter_map(|s| s.name().ok().filter(|name| !name.is_empty()));
            found.extend(names.map(|name| ArchiveFunction { name: name.to_owned(), member: member.clone() }));
        }
    }
    found
}
