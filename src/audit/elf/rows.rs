//! The rows of unwind tables (`.eh_frame`, `.debug_frame`): how far the canonical frame address is from a register.

use gimli::{BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian};
use gimli::{RegisterRule, UnwindContext, UnwindSection, X86_64};
use summaries::native::CfaRow;

use super::file::AuditedFile;
use super::units::contents;

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
        let address_of = |name: &str| file.sections.iter().find(|s| s.name == name).map_or(0, |s| s.address);
        let bases = BaseAddresses::default()
            .set_eh_frame(address_of(".eh_frame"))
            .set_eh_frame_hdr(address_of(".eh_frame_hdr"))
            .set_text(address_of(".text"))
            .set_got(address_of(".got"));
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
