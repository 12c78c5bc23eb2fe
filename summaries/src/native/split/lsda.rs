//! Divides exception tables (`.gcc_except_table`) by LSDA, the language-specific data area of an FDE.
//!
//! The FDEs' relocations give the first byte of each LSDA. The format gives the last one (Itanium C++ ABI, "Exception
//! Handling Tables"): header, call sites, their action records, types and exception specifications. LSDAs that share
//! bytes stay together, as those of a function and its cold part (`-mfs-split-ehcode`). Other bytes belong to the
//! LSDA before them. A table stays whole if an LSDA or a personality routine is unknown, or if anything except an FDE
//! refers to it.

use std::collections::BTreeSet;

use object::elf;
use object::endian::LittleEndian as LE;

use super::division::SplitContext;
use crate::limit::{Limit, LimitRecord};
use crate::native::eh_frame::{RecordKind, UnwindSection};
use crate::native::relocations::types::{R_X86_64_32, R_X86_64_64, R_X86_64_PC32, R_X86_64_PC64};
use crate::native::relocations::{Rela, symbol_of, type_of, width};
use crate::native::tables::{Result, Tables, record};
use crate::summary::{Atom, AtomKind, Binding, Definition, Symbol, SymbolKind, atom_flags};

/// Personality routines that read only an LSDA as in the Itanium C++ ABI.
const PERSONALITIES: &[&[u8]] = &[
    b"__gxx_personality_v0",
    b"__gcc_personality_v0",
    b"__gnat_personality_v0",
    b"__gdc_personality_v0",
    b"__gccgo_personality_v0",
    b"__objc_personality_v0",
    b"__gnu_objc_personality_v0",
    b"_d_eh_personality",
    b"rust_eh_personality",
];

/// The encoding of a missing value (`DW_EH_PE_omit`).
const OMIT: u8 = 0xff;

/// The maximum number of steps for each byte of a table. LSDAs of a hostile object may share all their bytes.
const STEPS_PER_BYTE: usize = 16;

/// An exception table that may be divided.
struct ExceptionTable {
    section: u32,
    /// The starts of LSDAs, from the FDEs.
    starts: Vec<u64>,
    refusal: Option<String>,
}

impl ExceptionTable {
    /// Keep the table whole. The first reason counts.
    fn refuse(&mut self, why: impl FnOnce() -> String) {
        self.refusal.get_or_insert_with(why);
    }
}

/// Whether an atom is an exception table that may have several LSDAs, by its header.
pub(super) fn is_divisible(tables: &Tables<'_>, atom: &Atom) -> bool {
    use atom_flags::{GROUPED, LINK_ORDER, MERGE, RETAIN};
    atom.kind == AtomKind::Lsda
        && !atom.has(RETAIN | LINK_ORDER | MERGE | GROUPED)
        && tables.sections.get(atom.section as usize).is_some_and(|s| s.ty == elf::SHT_PROGBITS.0)
}

/// The divided exception tables in ascending order, each with the starts of its parts.
pub(super) fn divide(
    context: &SplitContext<'_, '_>,
    limits: &mut Vec<LimitRecord>,
) -> Result<Vec<(u32, Vec<u64>)>> {
    let candidates = context.atoms.iter().filter(|a| is_divisible(context.tables, a));
    let mut tables: Vec<ExceptionTable> = candidates
        .map(|a| ExceptionTable { section: a.section, starts: Vec::new(), refusal: None })
        .collect();
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    for unwind in &context.unwind {
        read_fdes(context, &mut tables, unwind);
    }
    for (section, rela) in &context.relas {
        let is_unwind = || context.unwind.iter().any(|unwind| unwind.index == *section);
        if let Some((table, _)) = meant(context, &mut tables, rela).filter(|_| !is_unwind()) {
            table.refuse(|| format!("section {} refers to it", context.describe(*section)));
        }
    }
    for symbol in context.symbols.iter().filter(|s| s.binding != Binding::Local) {
        if let Some(table) = holding(context, &mut tables, symbol) {
            table.refuse(|| "a symbol that other modules see is in it".to_owned());
        }
    }
    let mut divided = Vec::new();
    for mut table in tables {
        table.starts.sort_unstable();
        table.starts.dedup();
        if table.starts.len() < 2 {
            continue;
        }
        let bytes = context.tables.data(table.section)?;
        let parts = match table.refusal.take() {
            Some(why) => Err(why),
            None => parts(bytes, &table.starts, context.relas_of(table.section)),
        };
        match parts {
            Ok(parts) if parts.len() > 1 => divided.push((table.section, parts)),
            Ok(_) => {}
            Err(why) => limits.push(LimitRecord {
                bytes: bytes.len() as u64,
                ..record(
                    Limit::UnprovedLsda,
                    Some(table.section),
                    format!("section {}: {why}", context.describe(table.section)),
                )
            }),
        }
    }
    Ok(divided)
}

fn holding<'t>(
    context: &SplitContext<'_, '_>,
    tables: &'t mut [ExceptionTable],
    symbol: &Symbol,
) -> Option<&'t mut ExceptionTable> {
    let Definition::Atom(atom) = symbol.definition else { return None };
    let section = context.section_of(atom)?;
    let found = tables.binary_search_by_key(&section, |t| t.section).ok()?;
    tables.get_mut(found)
}

/// The table that a relocation refers to, and the place in it; `None` for a place that is not exact.
fn meant<'t>(
    context: &SplitContext<'_, '_>,
    tables: &'t mut [ExceptionTable],
    rela: &Rela,
) -> Option<(&'t mut ExceptionTable, Option<u64>)> {
    let symbol = context.symbols.get(symbol_of(rela).index())?;
    let table = holding(context, tables, symbol)?;
    let addend = rela.r_addend.get(LE);
    // A relocation by name keeps the part of the name, so it must mean this part.
    let by_section = symbol.kind == SymbolKind::Section && symbol.value == 0;
    let exact = matches!(type_of(rela), R_X86_64_64 | R_X86_64_32 | R_X86_64_PC32 | R_X86_64_PC64)
        && (by_section || symbol.kind != SymbolKind::Section && addend == 0);
    Some((table, symbol.value.checked_add_signed(addend).filter(|_| exact)))
}

/// Note the LSDA of each FDE of an unwind section.
fn read_fdes(context: &SplitContext<'_, '_>, tables: &mut [ExceptionTable], unwind: &UnwindSection<'_>) {
    // Unreadable records have no LSDAs. Reading their references makes them a limit of the module.
    let Ok(records) = &unwind.records else {
        tables.iter_mut().for_each(|t| t.refuse(|| "an unwind table can't be split into records".to_owned()));
        return;
    };
    for fde in records {
        for rela in unwind.relas_of(fde) {
            let Some((table, place)) = meant(context, tables, rela) else { continue };
            let RecordKind::Fde { cie } = fde.kind else {
                table.refuse(|| format!("the CIE at {:#x} refers to it", fde.offset));
                continue;
            };
            let of_cie = records.get(cie).map_or(&[][..], |cie| unwind.relas_of(cie));
            match place.filter(|_| rela.r_offset.get(LE) != fde.pc_begin()) {
                Some(_) if of_cie.is_empty() || !of_cie.iter().all(|r| is_known(context, r)) => {
                    table.refuse(|| format!("the FDE at {:#x} has an unknown personality", fde.offset));
                }
                Some(place) => table.starts.push(place),
                None => table.refuse(|| format!("the FDE at {:#x} does not tell its LSDA", fde.offset)),
            }
        }
    }
}

/// Whether a relocation of a CIE names a known personality routine, or the cell with its address.
fn is_known(context: &SplitContext<'_, '_>, rela: &Rela) -> bool {
    let symbol = context.symbols.get(symbol_of(rela).index());
    let name = symbol.map_or(&[][..], |s| context.tables.name(s.name));
    PERSONALITIES.iter().any(|known| name.ends_with(known))
}

/// The starts of a table's parts, the first at 0. The error is the reason why it is kept whole.
fn parts(bytes: &[u8], starts: &[u64], relas: &[(u32, Rela)]) -> std::result::Result<Vec<u64>, String> {
    let mut steps = STEPS_PER_BYTE.saturating_mul(bytes.len());
    let mut parts: Vec<u64> = Vec::new();
    let mut end = 0;
    for (i, start) in starts.iter().enumerate() {
        let next = starts.get(i + 1).copied();
        let own = extent(bytes, *start, next, &mut steps);
        let own_end = own.ok_or_else(|| format!("the LSDA at {start:#x} is not understood"))?;
        if *start >= end {
            parts.push(*start);
        }
        end = own_end.max(end);
    }
    if let Some(first) = parts.first_mut() {
        *first = 0;
    }
    for (_, rela) in relas {
        let place = rela.r_offset.get(LE);
        let behind = place.saturating_add(width(type_of(rela)).map_or(0, u64::from));
        let next = parts.partition_point(|start| *start <= place);
        if parts.get(next).is_some_and(|next| *next < behind) {
            return Err(format!("the relocation at {place:#x} is in two LSDAs"));
        }
    }
    Ok(parts)
}

/// A place in a table that only moves forward.
struct ExceptionTableReader<'d> {
    bytes: &'d [u8],
    at: usize,
}

impl ExceptionTableReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A LEB128 number, and the number of its bits.
    fn leb(&mut self) -> Option<(u64, u32)> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((value, shift + 7));
            }
        }
        None
    }

    fn uleb(&mut self) -> Option<u64> {
        self.leb().map(|(value, _)| value)
    }

    fn sleb(&mut self) -> Option<i64> {
        let (value, bits) = self.leb()?;
        Some(((value << (64 - bits)) as i64) >> (64 - bits))
    }

    /// Skip a number of this encoding (`DW_EH_PE_*`).
    fn skip(&mut self, encoding: u8) -> Option<()> {
        match encoding & 0x0f {
            1 | 9 => self.uleb().map(|_| ()),
            _ => {
                self.at = self.at.checked_add(size(encoding)?)?;
                (self.at <= self.bytes.len()).then_some(())
            }
        }
    }
}

/// The size of a number of this encoding, if it is absolute or PC-relative and of a fixed size.
fn size(encoding: u8) -> Option<usize> {
    if !matches!(encoding & 0x70, 0 | 0x10) {
        return None;
    }
    match encoding & 0x0f {
        0 | 4 | 0xc => Some(8),
        2 | 0xa => Some(2),
        3 | 0xb => Some(4),
        _ => None,
    }
}

/// The data behind the call sites of an LSDA, in bytes from the start of the table.
struct Behind {
    /// The end of the call sites, and start of the action records.
    actions: usize,
    /// The end of the types, and the size of each; `None` if there are no types.
    types: Option<(usize, usize)>,
}

impl Behind {
    /// Whether there is a type of this number, counted from the end.
    fn has_type(&self, number: u64) -> Option<()> {
        let (end, size) = self.types?;
        let back = usize::try_from(number).ok()?.checked_mul(size)?;
        end.checked_sub(back).filter(|at| *at >= self.actions).map(|_| ())
    }
}

/// The end of the LSDA at `start`. If the start of the next one is among its call sites, both share all data behind.
/// `None` for another form, or if `steps` are used up.
fn extent(bytes: &[u8], start: u64, next: Option<u64>, steps: &mut usize) -> Option<u64> {
    let mut head = ExceptionTableReader { bytes, at: usize::try_from(start).ok()? };
    let base = head.byte()?;
    if base != OMIT {
        head.skip(base)?;
    }
    let encoding = head.byte()?;
    let types_end = match encoding {
        OMIT => None,
        _ => {
            let length = usize::try_from(head.uleb()?).ok()?;
            Some(head.at.checked_add(length)?)
        }
    };
    let site_encoding = head.byte()?;
    let length = usize::try_from(head.uleb()?).ok()?;
    let actions = head.at.checked_add(length).filter(|end| *end <= bytes.len())?;
    let types = match types_end {
        None => None,
        Some(end) if (actions..=bytes.len()).contains(&end) => Some((end, size(encoding)?)),
        Some(_) => return None,
    };
    let behind = Behind { actions, types };
    let next = next.and_then(|next| usize::try_from(next).ok()).unwrap_or(usize::MAX);
    let mut sites = ExceptionTableReader { bytes: bytes.get(..actions.min(next))?, at: head.at };
    let mut end = types.map_or(actions, |(end, _)| end);
    let mut seen = BTreeSet::new();
    while sites.at < sites.bytes.len() {
        *steps = steps.checked_sub(1)?;
        let site = (0..3).try_for_each(|_| sites.skip(site_encoding)).and_then(|()| sites.uleb());
        match site {
            Some(0) => {}
            Some(action) => {
                let first = actions.checked_add(usize::try_from(action - 1).ok()?)?;
                end = end.max(actions_end(bytes, first, &behind, &mut seen, steps)?);
            }
            // The padding before the next LSDA.
            None if next < actions => break,
            None => return None,
        }
    }
    Some(end as u64)
}

/// The end of a chain of action records and of their exception specifications.
fn actions_end(
    bytes: &[u8],
    first: usize,
    behind: &Behind,
    seen: &mut BTreeSet<usize>,
    steps: &mut usize,
) -> Option<usize> {
    let mut end = 0;
    let mut at = first;
    while seen.insert(at) {
        *steps = steps.checked_sub(1)?;
        let mut action = ExceptionTableReader { bytes, at };
        let filter = action.sleb()?;
        let place = action.at;
        let distance = action.sleb()?;
        end = end.max(action.at);
        match filter {
            0 => {}
            1.. => behind.has_type(filter as u64)?,
            _ => end = end.max(specification_end(bytes, filter, behind, steps)?),
        }
        if distance == 0 {
            break;
        }
        at = place.checked_add_signed(isize::try_from(distance).ok()?).filter(|at| *at >= behind.actions)?;
    }
    Some(end)
}

/// The end of the exception specification of a negative filter: numbers of types, and 0.
fn specification_end(bytes: &[u8], filter: i64, behind: &Behind, steps: &mut usize) -> Option<usize> {
    let into = usize::try_from(filter.checked_neg()?.checked_sub(1)?).ok()?;
    let mut list = ExceptionTableReader { bytes, at: behind.types?.0.checked_add(into)? };
    loop {
        *steps = steps.checked_sub(1)?;
        match list.uleb()? {
            0 => return Some(list.at),
            number => behind.has_type(number)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(bytes: &[u8], starts: &[u64]) -> std::result::Result<Vec<u64>, String> {
        parts(bytes, starts, &[])
    }

    /// No types; one call site without action.
    const CLEANUP: &[u8] = &[0xff, 0xff, 1, 4, 0, 5, 9, 0];
    /// One call site whose action is of type 1; an action record, two bytes that align, the type.
    const CATCH: &[u8] = &[0xff, 0x9b, 13, 1, 4, 0, 5, 9, 1, 1, 0, 0, 0, 9, 9, 9, 9];

    #[test]
    fn each_lsda_is_a_part() {
        let table = [CLEANUP, &[0], CATCH, CLEANUP].concat();
        assert_eq!(starts(&table, &[0, 9, 26]), Ok(vec![0, 9, 26]));
        assert_eq!(starts(&table, &[0, 26]), Ok(vec![0, 26]), "what no FDE means stays with the one before");
        assert_eq!(starts(&table, &[9, 26]), Ok(vec![0, 26]));
    }

    #[test]
    fn lsdas_that_share_bytes_stay_together() {
        // The head of the second one is among the call sites of the first. They have the same actions and types.
        let first = [0xff, 0x9b, 23, 1, 15, 0, 5, 9, 1, 0, 0];
        let second = [0xff, 0x9b, 12, 1, 4, 0, 5, 9, 1, 1, 0, 9, 9, 9, 9];
        let table = [&first[..], &second, CLEANUP].concat();
        assert_eq!(starts(&table, &[0, 11, 26]), Ok(vec![0, 26]));
    }

    #[test]
    fn exception_specifications_are_of_the_lsda() {
        // A filter of -1 names the list behind the types: type 1, and the end.
        let table = [&[0xff, 0x9b, 12, 1, 4, 0, 5, 9, 1, 0x7f, 0, 9, 9, 9, 9, 1, 0][..], CLEANUP].concat();
        assert_eq!(starts(&table, &[0, 17]), Ok(vec![0, 17]));
    }

    #[test]
    fn other_forms_are_not_understood() {
        let aligned_types = [0xff, 0x50, 13, 1, 4, 0, 5, 9, 1, 1, 0, 0, 0, 9, 9, 9, 9];
        let type_before_the_table = [0xff, 0x9b, 13, 1, 4, 0, 5, 9, 1, 4, 0, 0, 0, 9, 9, 9, 9];
        let odd_sites = [0xff, 0xff, 1, 3, 0, 5, 9];
        let ends_outside = [0xff, 0xff, 1, 100, 0, 5, 9, 0];
        let action_without_types = [0xff, 0xff, 1, 4, 0, 5, 9, 1, 1, 0];
        let wide_sites = [0xff, 0xff, 0x20, 4, 0, 5, 9, 0];
        for wrong in [
            &aligned_types[..],
            &type_before_the_table,
            &odd_sites,
            &ends_outside,
            &action_without_types,
            &wide_sites,
        ] {
            let table = [wrong, &[0; 4], CLEANUP].concat();
            let behind = wrong.len() as u64 + 4;
            assert!(starts(&table, &[0, behind]).is_err(), "{wrong:x?}");
        }
        assert!(starts(CLEANUP, &[0, 100]).is_err());
    }

    #[test]
    fn work_is_bounded() {
        // Each byte begins an LSDA, with all the others among its call sites.
        let table = [0xff; 4096];
        let all: Vec<u64> = (0..4096).collect();
        assert!(starts(&table, &all).is_err());
    }

    #[test]
    fn a_field_is_in_one_part() {
        let table = [CLEANUP, CLEANUP].concat();
        let mut rela = Rela {
            r_offset: object::U64::new(LE, 6),
            r_info: object::U64::new(LE, u64::from(R_X86_64_PC32)),
            r_addend: object::I64::new(LE, 0),
        };
        assert!(parts(&table, &[0, 8], &[(0, rela)]).is_err());
        rela.r_offset = object::U64::new(LE, 4);
        assert_eq!(parts(&table, &[0, 8], &[(0, rela)]), Ok(vec![0, 8]));
    }
}
