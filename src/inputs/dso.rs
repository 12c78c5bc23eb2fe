//! Shared libraries as linkers read them: names, versions, `DT_SONAME` and `DT_NEEDED`; and the libraries of the system by name.
//!
//! They are read through the section headers (`SHT_DYNSYM`, `SHT_DYNAMIC`), as static linkers do, not through the program headers.

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::SymbolIndex;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use summaries::Limit;

use super::files::{DsoSymbol, SymbolType};

/// A shared library as read from its bytes.
#[derive(Debug, Default)]
pub struct DsoFacts {
    pub soname: Option<String>,
    pub needed: Vec<String>,
    /// `DT_RUNPATH`, or without one `DT_RPATH`, split at colons.
    pub runpath: Vec<String>,
    /// `DF_1_PIE`: a program, which GNU ld refuses as an input.
    pub is_program: bool,
    /// The code of another library may run in its place ([`super::Dso::stands_in`]).
    pub stands_in: bool,
    /// The dynamic symbols that it defines or asks for ([`super::Dso::symbols`]).
    pub symbols: Vec<DsoSymbol>,
}

/// The system's own C libraries (glibc). They call back, start unwinding only by functions that are listed by name, and their landing pads are cleanups.
#[rustfmt::skip]
pub const C_LIBRARIES: &[&str] = &[
    "ld-linux-x86-64.so.2", "libanl.so.1", "libc.so.6", "libdl.so.2", "libm.so.6", "libmvec.so.1", "libpthread.so.0",
    "libresolv.so.2", "librt.so.1", "libutil.so.1",
];
/// The unwinders of gcc and of LLVM.
pub const UNWINDERS: &[&str] = &["libgcc_s.so.1", "libunwind.so.1"];
/// Libraries of C++. Each of their functions may throw, and they catch.
pub const CXX_LIBRARIES: &[&str] = &["libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"];

/// Whether unwinding through a library of this soname is modelled, so that its own needs don't matter.
pub fn is_known(soname: &str) -> bool {
    [C_LIBRARIES, UNWINDERS, CXX_LIBRARIES].iter().any(|known| known.contains(&soname))
}

/// Read a shared library.
///
/// # Errors
/// The limit for a foreign or malformed library, and the reason.
pub fn parse(bytes: &[u8]) -> Result<DsoFacts, (Limit, String)> {
    if super::recognise::is_foreign_elf(bytes) {
        return Err((Limit::ForeignObject, "a shared library of another machine".to_owned()));
    }
    read(bytes).map_err(|e| (Limit::MalformedObject, format!("shared library: {e}")))
}

fn read(bytes: &[u8]) -> object::Result<DsoFacts> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut facts = DsoFacts::default();

    let dynamic = sections.dynamic_table(endian, bytes)?;
    let mut rpath = Vec::new();
    for entry in dynamic.iter() {
        let string = || dynamic.string(entry).map(|s| String::from_utf8_lossy(s).into_owned());
        match entry.tag {
            elf::DT_NEEDED => facts.needed.push(string()?),
            elf::DT_SONAME => facts.soname = Some(string()?),
            elf::DT_RUNPATH => facts.runpath = string()?.split(':').map(str::to_owned).collect(),
            elf::DT_FLAGS_1 => facts.is_program = entry.val & elf::DF_1_PIE.0 != 0,
            elf::DT_FILTER | elf::DT_AUXILIARY => facts.stands_in = true,
            elf::DT_RPATH => rpath = string()?.split(':').map(str::to_owned).collect(),
            _ => {}
        }
    }
    if facts.runpath.is_empty() {
        facts.runpath = rpath;
    }

    let has_code = sections
        .iter()
        .any(|section| section.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0 && section.sh_size(endian) > 0);
    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, bytes)?;
    facts.symbols.reserve(symbols.len());
    for (index, symbol) in symbols.enumerate() {
        // Local entries (section symbols of old linkers) bind nothing.
        if index == SymbolIndex(0) || symbol.st_bind() == elf::STB_LOCAL {
            continue;
        }
        let name = symbol.name(endian, symbols.strings())?;
        let defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
        let mut hidden_version = false;
        let mut version = None;
        if let Some(versions) = &versions {
            let versym = versions.version_index(endian, index);
            // VER_NDX_LOCAL on a definition: the symbol is not available to others.
            if defined && versym.index() == elf::VER_NDX_LOCAL {
                continue;
            }
            hidden_version = defined && versym.is_hidden();
            version = versions.version(versym.index())?.map(|v| v.name().into());
        }
        let weak = symbol.st_bind() == elf::STB_WEAK;
        let section = symbols.symbol_section(endian, symbol, index)?.and_then(|i| sections.section(i).ok());
        let has_contents = section.is_none_or(|s| s.sh_type(endian) != elf::SHT_NOBITS);
        let ty = SymbolType::of(symbol.st_type());
        let is_code = |s: &elf::SectionHeader64<Endianness>| s.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0;
        // In a library without code a symbol without type may be a function too.
        facts.stands_in |= defined
            && match ty {
                SymbolType::Code => !section.is_some_and(is_code),
                SymbolType::Untyped => !has_code,
                SymbolType::Data | SymbolType::Tls => false,
            };
        let overrides_common = defined && has_contents && !weak && ty != SymbolType::Code;
        facts.symbols.push(DsoSymbol {
            name: name.into(),
            defined,
            weak,
            ty,
            size: symbol.st_size(endian),
            hidden_version,
            overrides_common,
            version,
        });
    }
    Ok(facts)
}

#[cfg(test)]
mod tests;
