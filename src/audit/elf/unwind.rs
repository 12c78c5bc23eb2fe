//! Unwind tables (`.eh_frame`, `.debug_frame`): the bytes of each function in them, and the rows with the canonical frame address.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, RegisterRule,
    UnwindContext, UnwindSection, X86_64,
};
use summaries::native::eh_frame::RecordKind;
use summaries::native::{CfaRow, eh_frame};

use super::coverage::{Claim, Coverage};
use super::file::{AuditedFile, AuditedSection};
use super::pointers::{Pointer, is_linkage};
use super::units::contents;

/// A frame description entry (FDE), which covers one function.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnwindEntry {
    /// The places of the entry in its section.
    record: (u64, u64),
    /// The first place of its function and the one behind the last; these are the same in an object, whose symbols have sizes.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The address of the first byte of its function.
    pub(super) address: u64,
    /// The place of its exception table.
    exceptions: Option<u64>,
}

const EXCEPTIONS: &str = ".gcc_except_table";

/// The entries of all sections of unwind entries.
pub(super) fn entries(file: &AuditedFile<'_>, pointers: &[Pointer]) -> Vec<UnwindEntry> {
    let mut found = Vec::new();
    for section in file.sections.iter().filter(|s| s.is_named(".eh_frame") && s.is_loaded()) {
        match file.is_object() {
            true => relocated(file, section, pointers, &mut found),
            false => linked(file, section, &mut found),
        }
    }
    found
}

/// The addresses that encoded pointers of a section at `eh_frame` are relative to.
fn base_addresses(file: &AuditedFile<'_>, eh_frame: u64) -> BaseAddresses {
    let address_of = |name: &str| file.sections.iter().find(|s| s.name == name).map_or(0, |s| s.address);
    BaseAddresses::default()
        .set_eh_frame(eh_frame)
        .set_eh_frame_hdr(address_of(".eh_frame_hdr"))
        .set_text(address_of(".text"))
        .set_got(address_of(".got"))
}

fn linked(file: &AuditedFile<'_>, section: &AuditedSection<'_>, found: &mut Vec<UnwindEntry>) {
    let bases = base_addresses(file, section.address);
    let frames = EhFrame::new(section.bytes, LittleEndian);
    let mut entries = frames.entries(&bases);
    // The common entry of the last one is that of the next one, too, nearly always.
    let mut common = None;
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|frames, bases, offset| match &common {
            Some((at, cie)) if *at == offset => Ok(gimli::CommonInformationEntry::clone(cie)),
            _ => {
                let cie = frames.cie_from_offset(bases, offset)?;
                common = Some((offset, cie.clone()));
                Ok(cie)
            }
        });
        let Ok(fde) = parsed else { continue };
        let Some(start) = file.place(fde.initial_address()) else { continue };
        // One entry covers all stubs together.
        if file.section_of(start).is_some_and(|s| is_linkage(&s.name)) {
            continue;
        }
        let last = fde.len().checked_sub(1).and_then(|n| file.place(fde.initial_address().wrapping_add(n)));
        let record = section.start + fde.offset() as u64;
        let exceptions = match fde.lsda() {
            Some(gimli::Pointer::Direct(address)) => file.place(address),
            _ => None,
        };
        found.push(UnwindEntry {
            record: (record, record + 4 + fde.entry_len() as u64),
            start,
            end: last.map_or(start, |l| l + 1),
            address: fde.initial_address(),
            exceptions,
        });
    }
}

/// The entries of an object. The first relocation of an entry leads to its function, and one behind it to its exception table.
fn relocated(
    file: &AuditedFile<'_>,
    section: &AuditedSection<'_>,
    pointers: &[Pointer],
    found: &mut Vec<UnwindEntry>,
) {
    let mut places: Vec<(u64, u64)> = Vec::new();
    for pointer in pointers {
        let place = pointer.place.filter(|p| (section.start..section.end()).contains(p));
        places.extend(place.zip(pointer.target));
    }
    places.sort_unstable();
    let offsets: Vec<u64> = places.iter().map(|p| p.0 - section.start).collect();
    let Ok(records) = eh_frame::split(section.bytes, &offsets) else { return };
    let is_exceptions = |p: &u64| file.section_of(*p).is_some_and(|s| s.is_named(EXCEPTIONS));
    for record in records.iter().filter(|r| matches!(r.kind, RecordKind::Fde { .. })) {
        let inside = places.get(record.relocations.clone()).unwrap_or(&[]);
        let Some(((place, start), others)) = inside.split_first() else { continue };
        if *place == section.start + record.pc_begin() {
            found.push(UnwindEntry {
                record: (section.start + record.offset, section.start + record.end()),
                start: *start,
                end: *start,
                address: 0,
                exceptions: others.iter().map(|p| p.1).find(is_exceptions),
            });
        }
    }
}

/// The bytes of unwind entries, of their index and of exception tables. Each belongs to the owner of its function.
pub(super) fn claims(file: &AuditedFile<'_>, entries: &[UnwindEntry], coverage: &Coverage) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut tables: Vec<(u64, u32)> = Vec::new();
    for entry in entries {
        let Some(owner) = coverage.owner(entry.start) else { continue };
        claims.push(Claim { start: entry.record.0, end: entry.record.1, owner });
        tables.extend(entry.exceptions.map(|place| (place, owner)));
    }
    // A table ends where the next one begins.
    tables.sort_unstable();
    tables.dedup_by_key(|t| t.0);
    for (number, (start, owner)) in tables.iter().enumerate() {
        let Some(section) = file.section_of(*start).filter(|s| s.is_named(EXCEPTIONS)) else {
            continue;
        };
        let end = tables.get(number + 1).map_or(u64::MAX, |t| t.0).min(section.end());
        claims.push(Claim { start: *start, end, owner: *owner });
    }
    for section in file.sections.iter().filter(|s| s.is_named(".eh_frame_hdr") && !file.is_object()) {
        // Version 1 with a count of 4 bytes and pairs of 4 bytes relative to the section, as all linkers write it.
        if !section.bytes.starts_with(&[1, 0x1b, 0x03, 0x3b]) {
            continue;
        }
        let pairs = section.bytes.get(12..).unwrap_or_default().chunks_exact(8);
        for (number, pair) in pairs.enumerate() {
            let distance = pair.first_chunk().map_or(0, |b| i32::from_le_bytes(*b));
            let function = file.place(section.address.wrapping_add_signed(distance.into()));
            let start = section.start + 12 + number as u64 * 8;
            let owner = function.and_then(|f| coverage.owner(f));
            claims.extend(owner.map(|owner| Claim { start, end: start + 8, owner }));
        }
    }
    claims
}

/// The numbers in instructions of the registers that DWARF numbers (psABI 3.6.2).
const ENCODED: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// A function that an unwind table describes.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnwoundFunction {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) has_landing_pads: bool,
}

#[derive(Debug, Default)]
pub(super) struct UnwindRows {
    /// Addresses, ascending, with the rows there. `None`: another rule than a register and an offset.
    rows: Vec<(u64, u64, Option<CfaRow>)>,
    pub(super) functions: Vec<UnwoundFunction>,
}

impl UnwindRows {
    /// All rows of a linked file. If both tables describe a function, `.eh_frame` counts.
    pub(super) fn read(file: &AuditedFile<'_>) -> Self {
        let mut found = UnwindRows::default();
        let section = file.sections.iter().find(|s| s.name == ".eh_frame");
        let bases = base_addresses(file, section.map_or(0, |s| s.address));
        for section in &file.sections {
            let Some(bytes) = contents(section) else { continue };
            match &*section.name {
                ".eh_frame" => found.add(&EhFrame::new(&bytes, LittleEndian), &bases),
                ".debug_frame" => found.add(&DebugFrame::new(&bytes, LittleEndian), &bases),
                _ => {}
            }
        }
        // The sort is stable.
        found.rows.sort_by_key(|r| r.0);
        found.functions.sort_by_key(|f| f.start);
        found.functions.dedup_by_key(|f| f.start);
        found
    }

    fn add<'b, S>(&mut self, section: &S, bases: &BaseAddresses)
    where
        S: UnwindSection<EndianSlice<'b, LittleEndian>>,
    {
        let known: Vec<u64> = self.functions.iter().map(|f| f.start).collect();
        let mut context = UnwindContext::new();
        let mut entries = section.entries(bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(S::cie_from_offset) else { continue };
            let (start, end) = (fde.initial_address(), fde.initial_address().saturating_add(fde.len()));
            // Linkers leave 0 or 1 where code was removed.
            if start <= 1 || start >= end || known.binary_search(&start).is_ok() {
                continue;
            }
            self.functions.push(UnwoundFunction { start, end, has_landing_pads: fde.lsda().is_some() });
            let Ok(mut table) = fde.rows(section, bases, &mut context) else { continue };
            while let Ok(Some(row)) = table.next_row() {
                // The outermost function has no return address, and its rows are not used.
                let is_outermost = row.register(X86_64::RA) == Some(RegisterRule::Undefined);
                let rule = match row.cfa() {
                    CfaRule::RegisterAndOffset { register, offset } if !is_outermost => ENCODED
                        .get(usize::from(register.0))
                        .map(|register| CfaRow { register: *register, offset: *offset }),
                    _ => None,
                };
                self.rows.push((row.start_address(), row.end_address(), rule));
            }
        }
        self.functions.sort_by_key(|f| f.start);
    }

    /// The row that covers an address.
    pub(super) fn at(&self, address: u64) -> Option<CfaRow> {
        let next = self.rows.partition_point(|r| r.0 <= address);
        let row = self.rows.get(next.checked_sub(1)?)?;
        row.2.filter(|_| address < row.1)
    }
}
