//! The facts of an ELF file that the tests compare: symbols, the dynamic table, and headers that change how it runs.
//!
//! They are read by the `object` crate's high-level interface, which no pass of the tool uses.

use std::collections::BTreeSet;
use std::path::Path;

use object::elf;
use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags};

#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Names of the symbols that are defined here, without version suffix, and those of every binding.
    pub(crate) defined: BTreeSet<String>,
    /// Name and address of every defined function.
    pub(crate) functions: Vec<(String, u64)>,
    pub(crate) exports: BTreeSet<String>,
    /// Names that have a copy relocation: `.dynsym` defines them because code refers to a DSO's data.
    pub(crate) copies: BTreeSet<String>,
    /// The entries `DT_NEEDED`, in their order.
    pub(crate) needed: Vec<String>,
    /// Values that pruning must not change: `tag value` of the dynamic table, and program headers.
    pub(crate) properties: Vec<String>,
    /// The names of all sections of the file.
    pub(crate) sections: BTreeSet<String>,
}

impl Facts {
    pub(crate) fn read(path: &Path) -> Result<Facts, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Facts::parse(&bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Facts, object::Error> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        let endian = file.endian();
        let mut facts = Facts::default();
        for symbol in file.symbols().filter(|s| !s.is_undefined()) {
            if matches!(symbol.kind(), object::SymbolKind::File | object::SymbolKind::Section) {
                continue;
            }
            let name = base_name(symbol.name()?);
            if name.is_empty() {
                continue;
            }
            if symbol.kind() == object::SymbolKind::Text {
                facts.functions.push((name.clone(), symbol.address()));
            }
            facts.defined.insert(name);
        }
        for symbol in file.dynamic_symbols().filter(|s| !s.is_undefined()) {
            facts.exports.insert(symbol.name()?.to_owned());
        }
        for (_, relocation) in file.dynamic_relocations().into_iter().flatten() {
            if relocation.flags() == (RelocationFlags::Elf { r_type: elf::R_X86_64_COPY })
                && let object::RelocationTarget::Symbol(index) = relocation.target()
                && let Some(symbol) = file.dynamic_symbols().find(|s| s.index() == index)
            {
                facts.copies.insert(symbol.name()?.to_owned());
            }
        }
        facts.dynamic(&file, endian, bytes)?;
        for header in file.elf_program_headers() {
            match header.p_type(endian) {
                elf::PT_INTERP => {
                    let interp = header.data(endian, bytes).unwrap_or_default();
                    facts.properties.push(format!("interpreter {}", String::from_utf8_lossy(interp)));
                }
                // An object without .note.GNU-stack makes the stack executable.
                elf::PT_GNU_STACK => {
                    facts.properties.push(format!("stack flags {:?}", header.p_flags(endian)));
                }
                _ => {}
            }
        }
        for section in file.sections() {
            facts.sections.insert(section.name()?.to_owned());
            // The features that every object has (IBT, SHSTK): a lost note would turn them off or on.
            if section.name()? == ".note.gnu.property" {
                facts.properties.push(format!("property note {:?}", section.data()?));
            }
        }
        Ok(facts)
    }

    fn dynamic(
        &mut self,
        file: &ElfFile64<'_, Endianness>,
        endian: Endianness,
        bytes: &[u8],
    ) -> Result<(), object::Error> {
        let Some((entries, link)) = file.elf_section_table().dynamic(endian, bytes)? else {
            return Ok(());
        };
        let strings = file.elf_section_table().strings(endian, bytes, link)?;
        for entry in entries {
            let string = || -> Result<String, object::Error> {
                Ok(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned())
            };
            match entry.tag(endian) {
                elf::DT_NULL => break,
                elf::DT_NEEDED => self.needed.push(string()?),
                tag @ (elf::DT_SONAME | elf::DT_RPATH | elf::DT_RUNPATH) => {
                    self.properties.push(format!("{tag:?} {}", string()?));
                }
                tag @ (elf::DT_INIT | elf::DT_FINI | elf::DT_SYMBOLIC) => {
                    self.properties.push(format!("has {tag:?}"));
                }
                tag @ (elf::DT_INIT_ARRAYSZ | elf::DT_FINI_ARRAYSZ | elf::DT_PREINIT_ARRAYSZ) => {
                    self.properties.push(format!("{tag:?} {}", entry.val(endian)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn base_name(name: &str) -> String {
    match name.find('@') {
        Some(at) if at > 0 => name[..at].to_owned(),
        _ => name.to_owned(),
    }
}
