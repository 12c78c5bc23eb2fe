//! The program that is traced: where its indirect calls are, and what its addresses mean.
//!
//! Code is decoded by the function symbols of `.symtab`, from each start to its end. A call or jump through a slot of the
//! global offset table is a direct one and no site. Left out: code that no sized function symbol covers (start files,
//! assembly without `.size`), whose bytes are counted; `push` and `ret` as a jump.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SectionFlags,
    elf,
};

use crate::Result;
use crate::symbols::sized_functions;

/// A linked program, addresses as in the file.
#[derive(Debug)]
pub(super) struct TracedProgram {
    /// Device and inode: which file a process runs.
    pub(super) identity: (u64, u64),
    pub(super) entry: u64,
    /// Addresses that the loaded segments span, the end excluded.
    pub(super) extent: (u64, u64),
    /// Indirect calls and jumps by address.
    pub(super) sites: BTreeMap<u64, Instruction>,
    /// The byte of each that a breakpoint replaces.
    first_bytes: BTreeMap<u64, u8>,
    /// Sized functions: start and end, name; by start.
    functions: Vec<(u64, u64, String)>,
    /// Slots that the dynamic linker fills with a symbol's address: where, and whose.
    pub(super) slots: BTreeMap<u64, String>,
    /// Slots that jumps of `.plt` and its like go through, by address of the entry.
    pub(super) plt: BTreeMap<u64, u64>,
    /// Resolvers of IFUNCs that the program's own relocations name.
    pub(super) resolvers: BTreeSet<u64>,
    /// Bytes of code outside `.plt` that no function symbol covers, or that don't decode.
    pub(super) uncovered: u64,
}

impl TracedProgram {
    /// Read the program at `path`.
    ///
    /// # Errors
    /// If it is no ELF file or can't be read.
    pub(super) fn read(path: &Path) -> Result<TracedProgram> {
        let bytes = fs::read(path)?;
        let metadata = fs::metadata(path)?;
        let file = object::File::parse(&*bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut program = TracedProgram {
            identity: (metadata.dev(), metadata.ino()),
            entry: file.entry(),
            extent: (u64::MAX, 0),
            sites: BTreeMap::new(),
            first_bytes: BTreeMap::new(),
            functions: sized_functions(&file),
            slots: slots(&file),
            plt: BTreeMap::new(),
            resolvers: resolvers(&file),
            uncovered: 0,
        };
        let mut got = Vec::new();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            if !sh_flags.contains(elf::SHF_ALLOC) {
                continue;
            }
            let range = (section.address(), section.address().saturating_add(section.size()));
            program.extent = (program.extent.0.min(range.0), program.extent.1.max(range.1));
            if section.name()?.starts_with(".got") {
                got.push(range);
            }
        }
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            if !sh_flags.contains(elf::SHF_EXECINSTR) || section.size() == 0 {
                continue;
            }
            let (start, data) = (section.address(), section.data()?);
            if section.name()?.contains("plt") {
                program.add_plt(start, data);
            } else {
                program.add_code(start, data, &got);
            }
        }
        Ok(program)
    }

    fn add_code(&mut self, start: u64, data: &[u8], got: &[(u64, u64)]) {
        let end = start.saturating_add(data.len() as u64);
        let mut at = start;
        let mut sites = Vec::new();
        for (from, to, _) in &self.functions {
            let (from, to) = ((*from).max(at), (*to).min(end));
            if from >= to {
                continue;
            }
            self.uncovered += from - at;
            at = to;
            let Some(code) = data.get((from - start) as usize..(to - start) as usize) else { continue };
            for instruction in Decoder::with_ip(64, code, from, DecoderOptions::NONE) {
                if instruction.is_invalid() {
                    self.uncovered += to - instruction.ip();
                    break;
                }
                if is_site(&instruction) && !slot(&instruction).is_some_and(|s| inside(got, s)) {
                    sites.push((instruction.ip(), instruction));
                }
            }
        }
        self.uncovered += end - at;
        for (address, instruction) in sites {
            self.sites.insert(address, instruction);
            self.first_bytes.extend(data.get((address - start) as usize).map(|b| (address, *b)));
        }
    }

    /// Entries of a `.plt`: a jump through a slot, at most one other instruction (`endbr64`) before it.
    fn add_plt(&mut self, start: u64, data: &[u8]) {
        let mut before = start;
        for instruction in Decoder::with_ip(64, data, start, DecoderOptions::NONE) {
            if instruction.flow_control() == FlowControl::IndirectBranch
                && let Some(slot) = slot(&instruction)
            {
                self.plt.insert(instruction.ip(), slot);
                self.plt.insert(before, slot);
            }
            before = if matches!(instruction.code(), Code::Endbr64) {
                instruction.ip()
            } else {
                instruction.next_ip()
            };
        }
    }

    /// What a breakpoint at a site replaces.
    pub(super) fn first_byte(&self, site: u64) -> Option<u8> {
        self.first_bytes.get(&site).copied()
    }

    /// The function that covers an address, by name.
    pub(super) fn function(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|f| f.0 <= address);
        let before = self.functions.get(..after)?.iter().rev().take(8);
        before.into_iter().find(|f| address < f.1).map(|f| f.2.as_str())
    }
}

fn inside(ranges: &[(u64, u64)], address: u64) -> bool {
    ranges.iter().any(|(start, end)| (*start..*end).contains(&address))
}

fn is_site(instruction: &Instruction) -> bool {
    let indirect =
        matches!(instruction.flow_control(), FlowControl::IndirectCall | FlowControl::IndirectBranch);
    // Not far calls, whose operand is no plain address.
    let near = matches!(instruction.code(), Code::Call_rm64 | Code::Jmp_rm64);
    indirect && near
}

/// The fixed address that an instruction's memory operand names.
fn slot(instruction: &Instruction) -> Option<u64> {
    let fixed = matches!(instruction.memory_base(), Register::RIP | Register::None)
        && instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None;
    (instruction.op0_kind() == OpKind::Memory && fixed).then(|| instruction.memory_displacement64())
}

/// Where the dynamic linker writes the address of which symbol.
fn slots(file: &object::File<'_>) -> BTreeMap<u64, String> {
    let table = file.dynamic_symbol_table();
    let mut out = BTreeMap::new();
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
        if !matches!(r_type, elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_64) {
            continue;
        }
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let symbol = table.as_ref().and_then(|t| t.symbol_by_index(index).ok());
        if let Some(name) = symbol.and_then(|s| s.name().ok().map(str::to_owned)) {
            out.insert(at, name);
        }
    }
    out
}

/// Addends of `R_X86_64_IRELATIVE`. A static program has no dynamic section, so sections are read.
fn resolvers(file: &object::File<'_>) -> BTreeSet<u64> {
    let mut out = BTreeSet::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { continue };
        if sh_type != elf::SHT_RELA || !sh_flags.contains(elf::SHF_ALLOC) {
            continue;
        }
        // Offset, type in the low half of the information, addend.
        for record in section.data().unwrap_or_default().chunks_exact(24) {
            let word = |at: usize| record.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
            if let (Some(information), Some(addend)) = (word(8), word(16))
                && information as u32 == elf::R_X86_64_IRELATIVE.0
            {
                out.insert(addend);
            }
        }
    }
    out
}
