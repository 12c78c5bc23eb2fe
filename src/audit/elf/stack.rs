//! The functions of a linked file, their entries, and the functions that calls through slots and stubs lead to.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use object::elf;
use summaries::models::NORETURN;
use summaries::native::{CfaRow, FunctionStack, StackCallee, StackCode, function_stack, never_returns};

use super::definitions::rank;
use super::file::{AuditedFile, AuditedSection, AuditedSymbol};
use super::pointers::{self, is_linkage};
use super::unwind::UnwindRows;
use crate::audit::demangle::demangle;
use crate::audit::find::is_called;
use crate::error::{Error, Result, Stage};

/// More imports that never return. A program may define such a name itself, so that the division of sections does not trust them.
#[rustfmt::skip]
const MORE_NORETURN: [&str; 7] =
    ["_Exit", "quick_exit", "siglongjmp", "__cxa_bad_typeid", "__cxa_pure_virtual", "pthread_exit", "thrd_exit"];

/// The function that a call or pointer leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::audit) enum FunctionTarget {
    /// It is at this address of the file.
    Address(u64),
    /// The dynamic linker finds it by this name.
    Import(String),
    /// The function at this address chooses it when the program starts (`IFUNC`).
    Resolved(u64),
    Unknown,
}

#[derive(Debug, Default)]
struct CodeRange<'a> {
    end: u64,
    name: Option<Cow<'a, str>>,
    has_landing_pads: bool,
}

/// A linked file whose functions have a stack.
#[derive(Debug)]
pub(in crate::audit) struct StackFile<'a> {
    file: AuditedFile<'a>,
    rows: UnwindRows,
    /// By the address of their first instruction.
    functions: BTreeMap<u64, CodeRange<'a>>,
    /// By the address of the pointer.
    slots: BTreeMap<u64, FunctionTarget>,
    /// Slots by the address of the stub that jumps through it.
    stubs: BTreeMap<u64, u64>,
    /// All names of functions with their addresses.
    names: BTreeSet<(String, u64)>,
    /// Whether functions never return, by address, where that is known already.
    finals: RefCell<BTreeMap<u64, bool>>,
}

impl<'a> StackFile<'a> {
    /// Read a file; `path` is for messages.
    pub(in crate::audit) fn read(path: &str, data: &'a [u8]) -> Result<Self> {
        let file = AuditedFile::read(data).map_err(|e| e.in_file(path))?;
        if file.is_object() {
            let message = "is an object, in which calls have no targets yet; link it, or put -- before it";
            return Err(Error::new(Stage::Load, message).in_file(path));
        }
        let rows = UnwindRows::read(&file);
        let mut read = StackFile {
            file,
            rows,
            functions: BTreeMap::new(),
            slots: BTreeMap::new(),
            stubs: BTreeMap::new(),
            names: BTreeSet::new(),
            finals: RefCell::default(),
        };
        read.read_functions();
        read.read_slots();
        Ok(read)
    }

    fn address(&self, place: u64) -> Option<u64> {
        self.file.section_of(place).map(|s| s.address.wrapping_add(place - s.start))
    }

    /// The section of code that an address is in.
    fn code_section(&self, address: u64) -> Option<&AuditedSection<'a>> {
        self.file.place(address).and_then(|p| self.file.section_of(p)).filter(|s| s.is_code())
    }

    pub(in crate::audit) fn is_code(&self, address: u64) -> bool {
        self.code_section(address).is_some()
    }

    fn read_functions(&mut self) {
        let mut found: Vec<(u64, u8, u64, Cow<'a, str>)> = Vec::new();
        let mut labels: Vec<(u64, Cow<'a, str>)> = Vec::new();
        for table in [&self.file.static_symbols, &self.file.dynamic_symbols] {
            for symbol in table.symbols.iter().filter(|s| s.is_definition() && !s.name.is_empty()) {
                let Some(address) = symbol.place.and_then(|p| self.address(p)) else { continue };
                if self.code_section(address).is_none() {
                    continue;
                }
                let name = String::from_utf8_lossy(symbol.name);
                match symbol.kind {
                    elf::STT_FUNC | elf::STT_GNU_IFUNC => {
                        found.push((address, rank(symbol), symbol.size, name));
                    }
                    elf::STT_NOTYPE if symbol.bind != elf::STB_LOCAL || name.contains(".cold") => {
                        labels.push((address, name))
                    }
                    _ => {}
                }
            }
        }
        found.sort();
        for (address, _, size, name) in found {
            self.names.insert((name.to_string(), address));
            let function = self.functions.entry(address).or_default();
            function.name.get_or_insert(name);
            function.end = function.end.max(address.saturating_add(size));
        }
        for unwound in &self.rows.functions {
            if self.code_section(unwound.start).is_none_or(|s| is_linkage(&s.name)) {
                continue;
            }
            let function = self.functions.entry(unwound.start).or_default();
            function.end = function.end.max(unwound.end);
            function.has_landing_pads |= unwound.has_landing_pads;
        }
        // Labels of assembly are functions outside of those that have a size.
        for (address, name) in labels {
            let before = self.functions.range(..=address).next_back();
            match before {
                Some((start, function)) if address < function.end && *start != address => {}
                _ => {
                    self.names.insert((name.to_string(), address));
                    let function = self.functions.entry(address).or_default();
                    function.name.get_or_insert(name);
                    function.end = function.end.max(address);
                }
            }
        }
    }

    fn read_slots(&mut self) {
        let mut slots = BTreeMap::new();
        for relocation in self.file.relocations() {
            let Some(address) = relocation.place.and_then(|p| self.address(p)) else { continue };
            let symbol = self.file.table(relocation.symbols).filter(|_| relocation.symbol != 0);
            let symbol = symbol.and_then(|t| t.symbols.get(relocation.symbol as usize));
            let by_symbol = |symbol: &AuditedSymbol<'a>| match symbol.place.and_then(|p| self.address(p)) {
                Some(start) if symbol.kind == elf::STT_GNU_IFUNC => FunctionTarget::Resolved(start),
                Some(start) => FunctionTarget::Address(start.wrapping_add_signed(relocation.addend)),
                None => FunctionTarget::Import(String::from_utf8_lossy(symbol.name).into_owned()),
            };
            let target = match (relocation.kind, symbol) {
                (elf::R_X86_64_IRELATIVE, _) => FunctionTarget::Resolved(relocation.addend as u64),
                (elf::R_X86_64_RELATIVE, _) => FunctionTarget::Address(relocation.addend as u64),
                (elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_64, Some(symbol)) => {
                    by_symbol(symbol)
                }
                _ => FunctionTarget::Unknown,
            };
            slots.insert(address, target);
        }
        self.slots = slots;
        let mut stubs = BTreeMap::new();
        for section in pointers::linkage_tables(&self.file) {
            for (stub, slot) in pointers::stubs(section) {
                // The first stub of a lazy table has two, and is no function.
                let is_lazy_start = section.name == ".plt" && stub == 0 && section.size > 16;
                if !is_lazy_start || self.slots.contains_key(&slot) {
                    stubs.insert(section.address + stub, slot);
                }
            }
        }
        self.stubs = stubs;
    }

    /// Whether a section does not change once the program runs.
    fn is_constant(section: &AuditedSection<'_>) -> bool {
        let is_protected = section.is_named(".data.rel.ro") || section.name.starts_with(".got");
        section.is_loaded() && (!section.is_writable() || is_protected)
    }

    /// The function whose address is in memory at an address.
    fn slot(&self, address: u64) -> FunctionTarget {
        let section = self.file.place(address).and_then(|p| self.file.section_of(p));
        if !section.is_some_and(Self::is_constant) {
            return FunctionTarget::Unknown;
        }
        if let Some(target) = self.slots.get(&address) {
            return target.clone();
        }
        match self.file.place(address).and_then(|p| self.file.word(p)) {
            Some(target) if self.code_section(target).is_some() => FunctionTarget::Address(target),
            _ => FunctionTarget::Unknown,
        }
    }

    pub(in crate::audit) fn target(&self, callee: StackCallee) -> FunctionTarget {
        match callee {
            StackCallee::Address(address) => match self.stubs.get(&address) {
                Some(slot) => self.slot(*slot),
                None => FunctionTarget::Address(address),
            },
            StackCallee::Slot(slot) => self.slot(slot),
            StackCallee::Unknown => FunctionTarget::Unknown,
        }
    }

    /// The linker's name of the function that begins at an address.
    fn linker_name(&self, address: u64) -> Option<&str> {
        self.functions.get(&address).and_then(|f| f.name.as_deref())
    }

    pub(in crate::audit) fn name(&self, address: u64) -> String {
        match self.linker_name(address) {
            Some(name) => demangle(name).into_owned(),
            None => format!("[function at {address:#x}]"),
        }
    }

    /// The range of code of the function that begins at an address, up to the next one if its size is unknown.
    fn range(&self, address: u64) -> Range<u64> {
        let known = self.functions.get(&address).map(|f| f.end).filter(|end| *end > address);
        let end = known.unwrap_or_else(|| {
            let next = self.functions.range(address + 1..).next().map_or(u64::MAX, |f| *f.0);
            let section = self.code_section(address);
            next.min(section.map_or(address, |s| s.address.saturating_add(s.size)))
        });
        address..end
    }

    /// The stack of the function that begins at an address.
    pub(in crate::audit) fn stack(&self, address: u64) -> FunctionStack {
        let function = self.functions.get(&address);
        let mut parts = Vec::new();
        if let Some(name) = function.and_then(|f| f.name.as_deref()) {
            let cold = format!("{name}.cold");
            let of_name = self.names.range((cold.clone(), 0)..).take_while(|n| n.0.starts_with(&cold));
            parts.extend(of_name.map(|n| self.range(n.1)));
        }
        function_stack(self, self.range(address), &parts, function.is_some_and(|f| f.has_landing_pads))
    }

    /// The functions that a name or pattern means, ascending by address. Linker's names count before those that people write.
    pub(in crate::audit) fn find(&self, name: &str) -> Vec<u64> {
        let by_address = name.strip_prefix("[function at 0x").and_then(|n| n.strip_suffix(']'));
        let by_address = by_address.or_else(|| name.strip_prefix("0x"));
        if let Some(address) = by_address.and_then(|n| u64::from_str_radix(n, 16).ok()) {
            return self.code_section(address).map(|_| address).into_iter().collect();
        }
        let exact = self.names.range((name.to_owned(), 0)..).take_while(|n| n.0 == name).map(|n| n.1);
        let mut found: BTreeSet<u64> = exact.collect();
        if found.is_empty() {
            found = self.names.iter().filter(|n| is_called(&demangle(&n.0), name)).map(|n| n.1).collect();
        }
        found.into_iter().collect()
    }

    /// The function that the dynamic linker finds by a name.
    pub(in crate::audit) fn export(&self, name: &str) -> Option<FunctionTarget> {
        let symbols = self.file.dynamic_symbols.symbols.iter();
        let symbol = symbols
            .filter(|s| s.is_definition() && s.bind != elf::STB_LOCAL)
            .find(|s| s.name == name.as_bytes())?;
        let address =
            symbol.place.and_then(|p| self.address(p)).filter(|a| self.code_section(*a).is_some())?;
        Some(match symbol.kind {
            elf::STT_GNU_IFUNC => FunctionTarget::Resolved(address),
            _ => FunctionTarget::Address(address),
        })
    }

    /// The functions that the system or the dynamic linker calls, and `main`, each with the reason.
    pub(in crate::audit) fn entries(&self) -> Vec<(u64, &'static str)> {
        let mut found: Vec<(u64, &'static str)> = Vec::new();
        found.extend(self.find("main").into_iter().map(|a| (a, "main")));
        let entry = self.file.word(24).filter(|a| self.code_section(*a).is_some());
        found.extend(entry.map(|a| (a, "start of the program")));
        let arrays = [
            (elf::SHT_PREINIT_ARRAY, "constructor"),
            (elf::SHT_INIT_ARRAY, "constructor"),
            (elf::SHT_FINI_ARRAY, "destructor"),
        ];
        for section in &self.file.sections {
            let Some((_, what)) = arrays.iter().find(|a| a.0 == section.kind) else { continue };
            for place in (section.start..section.end()).step_by(8) {
                let by_relocation = self.address(place).and_then(|a| self.slots.get(&a));
                let target = match by_relocation {
                    Some(FunctionTarget::Address(target)) => Some(*target),
                    _ => self.file.word(place),
                };
                found.extend(target.filter(|a| self.code_section(*a).is_some()).map(|a| (a, *what)));
            }
        }
        if !self.file.is_program() {
            let symbols = self.file.dynamic_symbols.symbols.iter();
            let exported = symbols.filter(|s| s.is_definition() && s.kind == elf::STT_FUNC);
            let addresses = exported.filter_map(|s| s.place.and_then(|p| self.address(p)));
            found.extend(addresses.map(|a| (a, "exported")));
        }
        let mut seen = BTreeSet::new();
        found.retain(|e| seen.insert(e.0));
        found
    }

    /// The functions whose address is taken in code or data, ascending.
    pub(in crate::audit) fn address_taken(&self) -> Vec<u64> {
        let mut found = BTreeSet::new();
        let pointers = pointers::pointers(&self.file);
        let in_data = pointers.iter().filter_map(|p| p.target.and_then(|t| self.address(t)));
        found.extend(in_data.filter(|a| self.functions.contains_key(a)));
        let is_fixed = self.file.kind == elf::ET_EXEC;
        for section in self.file.sections.iter().filter(|s| s.is_code() && !is_linkage(&s.name)) {
            summaries::native::data_references(section.bytes, section.address, is_fixed, &mut |_, target| {
                found.extend(self.functions.contains_key(&target).then_some(target));
            });
        }
        found.into_iter().collect()
    }
}

impl StackCode for StackFile<'_> {
    fn code(&self, address: u64) -> &[u8] {
        let section = self.code_section(address);
        let from = |s: &AuditedSection<'_>| usize::try_from(address.wrapping_sub(s.address)).ok();
        section.and_then(|s| s.bytes.get(from(s)?..)).unwrap_or_default()
    }

    fn row(&self, address: u64) -> Option<CfaRow> {
        self.rows.at(address)
    }

    fn constant(&self, address: u64, size: usize) -> Option<i64> {
        if size == 8
            && let FunctionTarget::Address(target) = self.slot(address)
        {
            return Some(target as i64);
        }
        let place = self.file.place(address)?;
        self.file.section_of(place).filter(|s| Self::is_constant(s))?;
        let start = usize::try_from(place).ok()?;
        let bytes = self.file.data.get(start..start.checked_add(size)?)?;
        match size {
            4 => bytes.try_into().ok().map(|b| i32::from_le_bytes(b).into()),
            8 => bytes.try_into().ok().map(i64::from_le_bytes),
            _ => None,
        }
    }

    fn is_function(&self, address: u64) -> bool {
        self.functions.contains_key(&address)
    }

    fn extent(&self, address: u64) -> Range<u64> {
        let start = self.functions.range(..=address).next_back().map_or(address, |f| *f.0);
        let is_stub = self.code_section(address).is_none_or(|s| is_linkage(&s.name));
        let range = if is_stub { address..address } else { self.range(start) };
        if range.contains(&address) { range } else { address..address }
    }

    fn is_final(&self, callee: StackCallee) -> bool {
        let address = match self.target(callee) {
            FunctionTarget::Address(address) => address,
            FunctionTarget::Import(name) => {
                let is_throw = name.starts_with("_ZSt") && name.contains("__throw_");
                let mut listed = NORETURN.iter().chain(&MORE_NORETURN);
                return is_throw || listed.any(|listed| *listed == name);
            }
            FunctionTarget::Resolved(_) | FunctionTarget::Unknown => return false,
        };
        if let Some(known) = self.finals.borrow().get(&address) {
            return *known;
        }
        // A call of it on the way counts as one that returns.
        self.finals.borrow_mut().insert(address, false);
        let is_final = !self.extent(address).is_empty() && never_returns(self, address);
        self.finals.borrow_mut().insert(address, is_final);
        is_final
    }
}
