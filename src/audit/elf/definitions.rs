//! The functions and objects of a file, by symbols, unwind entries, calls and pointers, and their source files.
//!
//! Code of a stripped program without an unwind entry belongs to functions that begin at the target of a direct call or a pointer, and end
//! where the next one begins.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use object::elf;
use summaries::native::{call_targets, is_padding};

use super::coverage::{Claim, Coverage};
use super::file::{AuditedFile, AuditedSymbol};
use super::owners::{Owner, Owners};
use super::pointers::Pointer;
use super::units::UnitRanges;
use super::unwind::UnwindEntry;

impl<'a> Owners<'a> {
    /// Claim the bytes of functions and objects by symbols and unwind entries.
    pub(super) fn define(&mut self, file: &AuditedFile<'a>, unwind: &[UnwindEntry], coverage: &mut Coverage) {
        let has_functions = |s: &AuditedSymbol<'_>| s.is_definition() && s.kind == elf::STT_FUNC;
        let table = match file.static_symbols.symbols.iter().any(has_functions) {
            true => &file.static_symbols,
            false if file.dynamic_symbols.symbols.is_empty() => &file.static_symbols,
            false => &file.dynamic_symbols,
        };
        let mut symbols: Vec<&AuditedSymbol<'a>> =
            table.symbols.iter().filter(|s| s.is_definition()).collect();
        symbols.retain(|s| !s.name.is_empty());
        symbols.sort_by_key(|s| (s.place, Reverse(s.size), rank(s)));
        symbols.dedup_by_key(|s| s.place);
        // Symbols without a size own what follows, in sections of code alone.
        let mut unsized_symbols: Vec<(u64, u64, u32)> = Vec::new();
        let mut claims = Vec::new();
        for symbol in symbols {
            let Some((start, section)) = symbol.place.zip(symbol.section.and_then(|s| file.section(s)))
            else {
                continue;
            };
            if symbol.size == 0 && !section.is_code() {
                continue;
            }
            let module = symbol.file.map(|f| self.module(String::from_utf8_lossy(f)));
            let name = Some(String::from_utf8_lossy(symbol.name));
            let owner = self.push(Owner { name, home: Some(start), module });
            match symbol.size {
                0 => unsized_symbols.push((start, section.end(), owner)),
                size => {
                    claims.push(Claim { start, end: start.saturating_add(size).min(section.end()), owner })
                }
            }
        }
        coverage.add(claims);
        let at = |place: u64| {
            let found = unsized_symbols.binary_search_by_key(&place, |s| s.0).ok();
            found.and_then(|i| unsized_symbols.get(i)).map(|s| s.2)
        };
        let mut claims = Vec::new();
        for entry in unwind.iter().filter(|e| e.end > e.start) {
            if coverage.owner(entry.start).is_none() {
                let nameless = || Owner {
                    name: Some(Cow::Owned(format!("[function at {:#x}]", entry.address))),
                    home: Some(entry.start),
                    module: None,
                };
                let owner = at(entry.start).unwrap_or_else(|| self.push(nameless()));
                claims.push(Claim { start: entry.start, end: entry.end, owner });
            }
        }
        coverage.add(claims);
        let mut claims = Vec::new();
        for (number, (start, section_end, owner)) in unsized_symbols.iter().enumerate() {
            let next = unsized_symbols.get(number + 1).map_or(u64::MAX, |s| s.0);
            let end = coverage.free_until(*start, next.min(*section_end));
            claims.push(Claim { start: *start, end, owner: *owner });
        }
        coverage.add(claims);
    }

    /// Move functions to the compile unit that contains their code, and other owners to the only unit with the name of their source file.
    pub(super) fn join_modules(&mut self, file: &AuditedFile<'_>, units: &UnitRanges) {
        let base = |m: u32| self.modules.get(m as usize).map(|name| name.rsplit('/').next().unwrap_or(name));
        let mut by_base: Vec<(Option<&str>, u32)> =
            units.modules().into_iter().map(|m| (base(m), m)).collect();
        by_base.sort_unstable();
        let unit_of = |m: u32| {
            let first = by_base.partition_point(|b| b.0 < base(m));
            let mut found = by_base.get(first..).unwrap_or(&[]).iter().take_while(|b| b.0 == base(m));
            found.next().map(|b| b.1).filter(|_| found.next().is_none())
        };
        for owner in self.list.iter_mut() {
            let Some(home) = owner.home else { continue };
            let address = file.section_of(home).map(|s| s.address.wrapping_add(home - s.start));
            let by_address = address.and_then(|a| units.module(a));
            owner.module = by_address.or_else(|| owner.module.and_then(unit_of)).or(owner.module);
        }
    }
}

/// The better name of two is the smaller: global ones come before local ones, and labels last.
pub(super) fn rank(symbol: &AuditedSymbol<'_>) -> u8 {
    match symbol.bind {
        _ if symbol.name.starts_with(b".L") => 3,
        elf::STB_GLOBAL => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    }
}

/// The largest alignment of functions whose padding is taken from the end of the function before, in bytes.
const ALIGNMENT: usize = 64;

impl Owners<'_> {
    /// Claim the code without an owner that calls and pointers divide.
    pub(super) fn define_called(
        &mut self,
        file: &AuditedFile<'_>,
        pointers: &[Pointer],
        coverage: &mut Coverage,
    ) {
        let bytes = |places: &Range<u64>| {
            file.data.get(places.start as usize..places.end as usize).unwrap_or_default()
        };
        let sections = || file.sections.iter().filter(|s| s.is_code() && s.is_loaded());
        let gaps: Vec<Range<u64>> = sections()
            .flat_map(|s| coverage.gaps(s.start..s.end()))
            .filter(|g| !is_padding(bytes(g)))
            .collect();
        if gaps.is_empty() {
            return;
        }
        let mut starts: Vec<u64> = pointers.iter().filter_map(|p| p.target).collect();
        for section in sections() {
            call_targets(section.bytes, section.address, &mut |target| starts.extend(file.place(target)));
        }
        starts.sort_unstable();
        starts.dedup();
        let mut claims = Vec::new();
        for gap in gaps {
            let first = starts.partition_point(|s| *s < gap.start);
            let mut inside = starts
                .get(first..)
                .unwrap_or_default()
                .iter()
                .copied()
                .take_while(|s| *s < gap.end)
                .peekable();
            while let Some(start) = inside.next() {
                let end = inside.peek().copied().unwrap_or(gap.end);
                let code = bytes(&(start..end));
                let padding = (1..ALIGNMENT.min(code.len()))
                    .rev()
                    .find(|n| is_padding(code.get(code.len() - n..).unwrap_or_default()));
                let end = end - padding.unwrap_or(0) as u64;
                let address = file.section_of(start).map_or(0, |s| s.address.wrapping_add(start - s.start));
                let name = Some(Cow::Owned(format!("[function at {address:#x}]")));
                let owner = self.push(Owner { name, home: Some(start), module: None });
                claims.push(Claim { start, end, owner });
            }
        }
        coverage.add(claims);
    }
}
