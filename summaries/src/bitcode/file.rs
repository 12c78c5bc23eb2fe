//! A file of bitcode: its producer, modules, string table and symbol table.
//!
//! The top-level order is identification, module (several in a split ThinLTO unit), symbol table, string table. A string table belongs to all
//! preceding modules and symbol tables that have none yet (LLVM, `getBitcodeFileContents`).

use super::codes::table::BLOB;
use super::codes::{block, identification as code};
use super::container;
use super::error::{BitcodeError, BitcodeErrorKind, Result};
use super::module::{self, MAX_NOTES, Module};
use super::stream::{Event, Stream};
use super::symtab::{self, BitcodeSymtab};

/// The contents of a file of bitcode.
#[derive(Debug, Clone, Default)]
pub struct BitcodeFile<'a> {
    /// As in the last identification, `LLVM19.1.7` or `LLVM22.1.2-rust-1.95.0-stable`.
    pub producer: Vec<u8>,
    /// There is always at least one of them.
    pub modules: Vec<Module<'a>>,
    /// The symbol table of all modules together; `None` if there is none, or one of an unknown version.
    pub symtab: Option<BitcodeSymtab<'a>>,
    pub unknown: Vec<String>,
}

impl BitcodeFile<'_> {
    /// The number before the first dot of the producer's version.
    pub fn producer_major(&self) -> Option<u32> {
        let digits = self.producer.strip_prefix(b"LLVM")?;
        let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
        std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
    }
}

/// Read bitcode, raw or wrapped.
///
/// # Errors
/// The bitcode is malformed.
pub fn read(bytes: &[u8]) -> Result<BitcodeFile<'_>> {
    let wrapper = BitcodeError { at: 0, kind: BitcodeErrorKind::Wrapper };
    let range = container::unwrap(bytes).ok_or(wrapper)?;
    let mut stream = Stream::new(bytes.get(range).unwrap_or_default())?;
    let mut file = BitcodeFile::default();
    let mut named = 0;
    let mut symtab_blob = None;
    loop {
        match stream.next()? {
            Event::Enter(block::IDENTIFICATION) => identification(&mut stream, &mut file)?,
            Event::Enter(block::MODULE) => {
                let module = module::read(&mut stream)?;
                if module.version != 2 {
                    return Err(stream.error(BitcodeErrorKind::ModuleVersion(module.version)));
                }
                file.modules.push(module);
            }
            Event::Enter(block::STRTAB) => {
                let Some(strtab) = blob(&mut stream)? else { continue };
                for module in file.modules.get_mut(named..).unwrap_or_default() {
                    let found = module::resolve_names(module, strtab);
                    found.ok_or_else(|| stream.error(BitcodeErrorKind::Name))?;
                }
                named = file.modules.len();
                if let Some(blob) = symtab_blob.take()
                    && file.symtab.is_none()
                {
                    file.symtab = symtab::read(blob, strtab)?;
                }
            }
            Event::Enter(block::SYMTAB) => {
                let found = blob(&mut stream)?;
                symtab_blob = symtab_blob.or(found);
            }
            Event::Enter(block) => {
                if file.unknown.len() < MAX_NOTES {
                    file.unknown.push(format!("block {block}"));
                }
                stream.skip_block();
            }
            Event::Leave | Event::Record(_) => {}
            Event::End => break,
        }
    }
    let nameless = |m: &Module<'_>| !m.values.is_empty();
    if file.modules.get(named..).unwrap_or_default().iter().any(nameless) {
        return Err(stream.error(BitcodeErrorKind::Name));
    }
    if file.modules.is_empty() {
        return Err(stream.error(BitcodeErrorKind::NoModule));
    }
    Ok(file)
}

fn identification(stream: &mut Stream<'_>, file: &mut BitcodeFile<'_>) -> Result<()> {
    stream.each_record(|stream, record| {
        match (record, stream.operands().first()) {
            (code::STRING, _) => file.producer = stream.operands().iter().map(|c| *c as u8).collect(),
            (code::EPOCH, Some(0)) => {}
            (code::EPOCH, epoch) => {
                let epoch = epoch.copied().unwrap_or(u64::MAX);
                return Err(stream.error(BitcodeErrorKind::Epoch(epoch)));
            }
            _ => {}
        }
        Ok(())
    })
}

/// The blob of the block that has just been entered, to the block's end.
fn blob<'a>(stream: &mut Stream<'a>) -> Result<Option<&'a [u8]>> {
    let mut found = None;
    stream.each_record(|stream, code| {
        found = found.or(stream.blob().filter(|_| code == BLOB));
        Ok(())
    })?;
    Ok(found)
}
