//! DWARF of a linked file: which code it describes, and where functions were inlined.
//!
//! `DW_TAG_inlined_subroutine` is the record of an inlined copy (DWARF 5, section 3.3.8); its abstract origin names the function.
//! Code counts as described only if its compiler is known to write these entries. Addresses outside of the file's code are those of
//! removed code.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, EndianSlice, LittleEndian};
use object::{CompressionFormat, Object as _, ObjectSection as _};

use super::names::DebugName;
use crate::report::contents::disjoint;

type DebugReader<'d> = EndianSlice<'d, LittleEndian>;
type Dwarf<'d> = gimli::Dwarf<DebugReader<'d>>;
type Unit<'d> = gimli::Unit<DebugReader<'d>>;
type DwarfEntry<'d> = gimli::DebuggingInformationEntry<DebugReader<'d>>;

/// A function that debug information calls inlined somewhere.
#[derive(Debug)]
pub(crate) struct InlinedFunction {
    pub(crate) function: DebugName,
    /// The functions in which copies are that the file has.
    pub(crate) into: BTreeSet<DebugName>,
    /// Whether a copy is in code that debug information says was removed.
    pub(crate) removed: bool,
}

/// The statements of debug information about the code of a file.
#[derive(Debug, Default)]
pub(crate) struct DebugEvidence {
    /// The code that it describes, by compilers that list inlined copies: ascending and disjoint.
    pub(crate) described: Vec<Range<u64>>,
    /// Functions that the file has, with the addresses at which they begin.
    pub(crate) functions: Vec<(DebugName, u64)>,
    pub(crate) inlined: Vec<InlinedFunction>,
    /// The first thing that could not be read; then no copy can be ruled out.
    pub(crate) unreadable: Option<String>,
}

/// Read the debug information of a file whose code lies at the addresses `code`.
pub(super) fn read(file: &object::File<'_>, code: &[Range<u64>]) -> DebugEvidence {
    let sections = match gimli::DwarfSections::load(|id| contents(file, id.name())) {
        Ok(sections) => sections,
        Err(name) => {
            let unreadable = Some(format!("{name} is compressed in an unknown way or damaged"));
            return DebugEvidence { unreadable, ..DebugEvidence::default() };
        }
    };
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut walk = Walk { dwarf: &dwarf, code, units: Vec::new(), evidence: DebugEvidence::default() };
    let mut copies = Copies::default();
    if let Err(error) = walk.all(&mut copies) {
        walk.evidence.unreadable.get_or_insert(format!("debug information: {error}"));
    }
    walk.named(copies)
}

/// The contents of a debug section, empty if it is missing.
fn contents(file: &object::File<'_>, name: &str) -> Result<Vec<u8>, String> {
    let Some(section) = file.section_by_name(name) else { return Ok(Vec::new()) };
    let damaged = || name.to_owned();
    let data = section.compressed_data().map_err(|_| damaged())?;
    let kind = match data.format {
        CompressionFormat::None => return Ok(data.data.to_vec()),
        CompressionFormat::Zlib => 1,
        CompressionFormat::Zstandard => 2,
        _ => return Err(damaged()),
    };
    crate::compression::decompress(kind, data.uncompressed_size, data.data).ok_or_else(damaged)
}

/// Inlined copies by the entry of the function: the entries of the functions that they are in, and whether one was removed.
type Copies = BTreeMap<DebugInfoOffset, (BTreeSet<DebugInfoOffset>, bool)>;

struct Walk<'d, 'r> {
    dwarf: &'r Dwarf<'d>,
    code: &'r [Range<u64>],
    units: Vec<Unit<'d>>,
    evidence: DebugEvidence,
}

/// A function out of line whose entries are being read.
struct OpenFunction {
    depth: isize,
    entry: DebugInfoOffset,
    in_file: bool,
}

impl<'d> Walk<'d, '_> {
    fn all(&mut self, copies: &mut Copies) -> gimli::Result<()> {
        let mut headers = self.dwarf.units();
        let mut functions: Vec<(DebugInfoOffset, u64)> = Vec::new();
        while let Some(header) = headers.next()? {
            let unit = self.dwarf.unit(header)?;
            let read = self.unit(&unit, copies, &mut functions);
            self.units.push(unit);
            read?;
        }
        self.evidence.described = disjoint(std::mem::take(&mut self.evidence.described));
        self.evidence.functions =
            functions.into_iter().map(|(entry, address)| (self.name(entry), address)).collect();
        Ok(())
    }

    fn unit(
        &mut self,
        unit: &Unit<'d>,
        copies: &mut Copies,
        functions: &mut Vec<(DebugInfoOffset, u64)>,
    ) -> gimli::Result<()> {
        let mut lists_copies = false;
        let mut open: Vec<OpenFunction> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            while open.last().is_some_and(|f| f.depth >= entry.depth()) {
                open.pop();
            }
            let Some(offset) = entry.offset().to_debug_info_offset(&unit.header) else { continue };
            match entry.tag() {
                dw::DW_TAG_compile_unit => lists_copies = self.lists_copies(unit, entry)?,
                dw::DW_TAG_subprogram => {
                    let (in_file, any) = self.in_code(unit, entry)?;
                    if any {
                        open.push(OpenFunction {
                            depth: entry.depth(),
                            entry: offset,
                            in_file: !in_file.is_empty(),
                        });
                    }
                    functions.extend(in_file.first().map(|first| (offset, first.start)));
                    if lists_copies {
                        self.evidence.described.extend(in_file);
                    }
                }
                dw::DW_TAG_inlined_subroutine => {
                    let (own, any) = self.in_code(unit, entry)?;
                    let of = open.last();
                    // Without addresses of its own it may be anywhere in the function.
                    let in_file = !own.is_empty() || !any && of.is_some_and(|f| f.in_file);
                    let Some(function) = origin(unit, entry, dw::DW_AT_abstract_origin) else {
                        self.evidence.unreadable.get_or_insert_with(|| elsewhere(entry));
                        continue;
                    };
                    let copy = copies.entry(function).or_default();
                    match in_file {
                        true => copy.0.extend(Some(of.map_or(offset, |f| f.entry))),
                        false => copy.1 = true,
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The addresses of an entry that are of the file's code, and whether it has any.
    fn in_code(&self, unit: &Unit<'d>, entry: &DwarfEntry<'d>) -> gimli::Result<(Vec<Range<u64>>, bool)> {
        let (mut found, mut any) = (Vec::new(), false);
        for range in self.ranges(unit, entry)? {
            any |= range.start < range.end;
            // The addresses of removed code begin at 0 or 1, however long it was.
            let code = self.code.iter().find(|code| code.contains(&range.start));
            if let Some(code) = code.filter(|_| range.start > 1 && range.start < range.end) {
                found.push(range.start..range.end.min(code.end));
            }
        }
        Ok((found, any))
    }

    /// The addresses of an entry, as `gimli::Dwarf::die_ranges` has them without its unchecked addition.
    fn ranges(&self, unit: &Unit<'d>, entry: &DwarfEntry<'d>) -> gimli::Result<Vec<Range<u64>>> {
        if let Some(value) = entry.attr_value(dw::DW_AT_ranges)
            && let Some(mut list) = self.dwarf.attr_ranges(unit, value)?
        {
            let mut ranges = Vec::new();
            while let Some(range) = list.next()? {
                ranges.push(range.begin..range.end);
            }
            return Ok(ranges);
        }
        let address = |name| match entry.attr_value(name) {
            Some(AttributeValue::Udata(_)) | None => Ok(None),
            Some(value) => self.dwarf.attr_address(unit, value),
        };
        let Some(start) = address(dw::DW_AT_low_pc)? else { return Ok(Vec::new()) };
        let end = match entry.attr_value(dw::DW_AT_high_pc) {
            Some(AttributeValue::Udata(size)) => start.checked_add(size),
            _ => address(dw::DW_AT_high_pc)?,
        };
        Ok(end.map(|end| start..end).into_iter().collect())
    }

    /// Whether the compiler of a unit is one that writes an entry for each inlined copy.
    fn lists_copies(&self, unit: &Unit<'d>, entry: &DwarfEntry<'d>) -> gimli::Result<bool> {
        let is_assembly = |v| matches!(v, AttributeValue::Language(dw::DW_LANG_Mips_Assembler));
        if entry.attr_value(dw::DW_AT_language).is_some_and(is_assembly) {
            return Ok(false);
        }
        let Some(producer) = entry.attr_value(dw::DW_AT_producer) else { return Ok(false) };
        let producer = self.dwarf.attr_string(unit, producer)?.to_string_lossy();
        let gcc = producer.starts_with("GNU ") && !producer.starts_with("GNU AS");
        Ok(gcc || ["clang", "rustc", "Go cmd/compile"].iter().any(|name| producer.contains(name)))
    }

    fn named(mut self, copies: Copies) -> DebugEvidence {
        let mut inlined = Vec::with_capacity(copies.len());
        for (function, (into, removed)) in copies {
            let into = into.into_iter().map(|entry| self.name(entry)).collect();
            inlined.push(InlinedFunction { function: self.name(function), into, removed });
        }
        self.evidence.inlined = inlined;
        self.evidence
    }

    /// The names of the function of an entry, which its declaration or its abstract instance may have.
    fn name(&self, entry: DebugInfoOffset) -> DebugName {
        const HOPS: usize = 8;
        let mut found = DebugName::default();
        let mut next = Some(entry);
        for _ in 0..HOPS {
            let Some(at) = next else { break };
            let after =
                self.units.partition_point(|u| u.header.debug_info_offset().is_none_or(|o| o.0 <= at.0));
            let Some(unit) = after.checked_sub(1).and_then(|i| self.units.get(i)) else { break };
            let Some(entry) = at.to_unit_offset(&unit.header).and_then(|at| unit.entry(at).ok()) else {
                break;
            };
            let text = |name| {
                let value = entry.attr_value(name)?;
                Some(self.dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned())
            };
            let linkage = || text(dw::DW_AT_linkage_name).or_else(|| text(dw::DW_AT_MIPS_linkage_name));
            found.linkage = found.linkage.or_else(linkage);
            found.name = found.name.or_else(|| text(dw::DW_AT_name));
            next = [dw::DW_AT_abstract_origin, dw::DW_AT_specification]
                .into_iter()
                .find_map(|name| origin(unit, &entry, name));
        }
        found
    }
}

/// The entry that an attribute refers to, if it is in this file.
fn origin(unit: &Unit<'_>, entry: &DwarfEntry<'_>, name: gimli::DwAt) -> Option<DebugInfoOffset> {
    match entry.attr_value(name)? {
        AttributeValue::UnitRef(offset) => offset.to_debug_info_offset(&unit.header),
        AttributeValue::DebugInfoRef(offset) => Some(offset),
        _ => None,
    }
}

fn elsewhere(entry: &DwarfEntry<'_>) -> String {
    format!("the inlined function of the debugging entry at {:#x} is named in another file", entry.offset().0)
}
