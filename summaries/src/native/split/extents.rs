//! The extents of functions, by sized symbols and FDEs.
//!
//! The size of a symbol is the assembler's measure of the function (`.size`), so a section that such symbols and
//! padding cover has no other code. Symbols with overlapping extents are one function. An FDE that begins in the gap
//! before a function extends it to there (glibc's `__restore_rt`). One that spans several functions joins them. A
//! function without an FDE (`-fno-asynchronous-unwind-tables`, assembly) is what its symbol covers. Since assembly
//! may continue behind a last call, [`super::code`] checks for an FDE.

use std::ops::Range;

use object::endian::LittleEndian as LE;

use super::division::SplitContext;
use super::metadata::{self, Metadata};
use super::text::{Function, Text, Tie, is_text};
use crate::limit::Limit;
use crate::native::decode;
use crate::native::eh_frame;
use crate::native::relocations::symbol_of;
use crate::summary::{Atom, Binding, Definition, Symbol, SymbolKind};

/// The places of function symbols in sections of code, as (section, value), ascending and unique.
pub(super) fn places(atoms: &[Atom], symbols: &[Symbol]) -> Vec<(u32, u64)> {
    let functions = symbols.iter().filter(|s| matches!(s.kind, SymbolKind::Func | SymbolKind::Ifunc));
    let mut places: Vec<(u32, u64)> = functions
        .filter_map(|s| match s.definition {
            Definition::Atom(atom) => {
                atoms.get(atom.index()).filter(|a| is_text(a)).map(|a| (a.section, s.value))
            }
            _ => None,
        })
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// The range that a sized symbol covers.
struct SymbolExtent {
    text: usize,
    range: Range<u64>,
    cold: bool,
}

/// Set the functions of every section and join those that an FDE spans.
pub(super) fn read(context: &SplitContext<'_, '_>, metadata: &[Metadata], texts: &mut [Text<'_>]) {
    let places = metadata::places(metadata);
    let mut extents = Vec::new();
    for symbol in context.symbols {
        let Definition::Atom(atom) = symbol.definition else { continue };
        let Some(section) = context.section_of(atom) else { continue };
        let Some(index) = context.text_of(section) else { continue };
        let Some(text) = texts.get_mut(index) else { continue };
        let name = context.tables.name(symbol.name);
        let shown = || String::from_utf8_lossy(name).into_owned();
        match symbol.kind {
            SymbolKind::Section => {}
            // clang writes a label at a place that a record of metadata names.
            SymbolKind::NoType
                if is_label(symbol, name) && places.binary_search(&(index, symbol.value)).is_ok() => {}
            SymbolKind::Func | SymbolKind::Ifunc if symbol.size == 0 => {
                text.refuse(Limit::UnsizedSymbol, format!("function {} has no size", shown()));
            }
            SymbolKind::Func | SymbolKind::Ifunc => match symbol.value.checked_add(symbol.size) {
                Some(end) if end <= text.bytes.len() as u64 => {
                    let cold = is_part(name);
                    extents.push(SymbolExtent { text: index, range: symbol.value..end, cold });
                }
                _ => text.refuse(Limit::UnsizedSymbol, format!("function {} ends outside", shown())),
            },
            _ => text.refuse(Limit::SymbolInText, format!("symbol {} is no function", shown())),
        }
    }
    extents.sort_by_key(|e| (e.text, e.range.start, e.range.end));
    for run in extents.chunk_by(|a, b| a.text == b.text) {
        if let Some(text) = run.first().and_then(|e| texts.get_mut(e.text)) {
            text.functions = merge(run);
            text.joins = vec![0; text.functions.len()];
        }
    }
    for fde in descriptions(context, texts) {
        if let Some(text) = texts.get_mut(fde.text) {
            describe(text, &fde);
        }
    }
    for text in texts {
        describe_spanned(text);
        if text.functions.is_empty() {
            text.refuse(Limit::UnsizedSymbol, "no function has a size");
        }
    }
}

/// Whether a symbol is an assembler's label.
fn is_label(symbol: &Symbol, name: &[u8]) -> bool {
    symbol.binding == Binding::Local && symbol.size == 0 && name.starts_with(b".L")
}

/// Whether this is a compiler's name for a separate part of a function.
pub(crate) fn is_part(name: &[u8]) -> bool {
    part_of(name).is_some()
}

/// The name of the function, if this is a compiler's name for a separate part of it.
pub(crate) fn part_of(name: &[u8]) -> Option<&[u8]> {
    let marks = [&b".cold"[..], b".__part.", b".unlikely", b".eh"];
    let at = |part: &&[u8]| name.windows(part.len()).rposition(|window| window == *part);
    marks.iter().filter_map(at).max().and_then(|at| name.get(..at))
}

/// Make one function of overlapping extents.
fn merge(extents: &[SymbolExtent]) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for extent in extents {
        match functions.last_mut() {
            Some(last) if extent.range.start < last.end => {
                last.end = last.end.max(extent.range.end);
                last.cold |= extent.cold;
                last.align = last.align.max(alignment(extent.range.start));
            }
            _ => functions.push(Function {
                start: extent.range.start,
                end: extent.range.end,
                prefix: extent.range.start,
                align: alignment(extent.range.start),
                described: false,
                cold: extent.cold,
                instructions: (0, 0..0),
            }),
        }
    }
    functions
}

/// The largest power of two that divides an offset.
pub(super) fn alignment(offset: u64) -> u64 {
    1u64.checked_shl(offset.trailing_zeros()).unwrap_or(1 << 63)
}

/// A frame description entry of a section.
struct FdeRange {
    text: usize,
    range: Range<u64>,
}

/// The FDEs of all sections, by section and start.
fn descriptions(context: &SplitContext<'_, '_>, texts: &mut [Text<'_>]) -> Vec<FdeRange> {
    let mut found = Vec::new();
    // An unreadable section describes nothing. Reading its references makes it a limit of the module.
    for (unwind, fde) in context.unwind.iter().flat_map(|unwind| unwind.fdes().map(move |fde| (unwind, fde)))
    {
        let begin = fde.pc_begin();
        let Some(rela) = unwind.begin(fde) else { continue };
        let Some(symbol) = context.symbols.get(symbol_of(rela).index()) else { continue };
        let Definition::Atom(atom) = symbol.definition else { continue };
        let Some(text) = context.section_of(atom).and_then(|s| context.text_of(s)) else { continue };
        let Some(width) = eh_frame::width(rela) else { continue };
        let start = symbol.value.checked_add_signed(rela.r_addend.get(LE));
        let range = start.zip(unwind.length(fde, width));
        let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let at_begin = unwind.relas_of(fde).iter().filter(|r| r.r_offset.get(LE) == begin).count();
        let Some(target) = texts.get_mut(text) else { continue };
        match range.filter(|r| r.end <= target.bytes.len() as u64 && !r.is_empty()) {
            Some(range) if at_begin == 1 => found.push(FdeRange { text, range }),
            _ => target
                .refuse(Limit::MissingFde, format!("the FDE at {:#x} describes no range of it", fde.offset)),
        }
    }
    found.sort_by_key(|d| (d.text, d.range.start, d.range.end));
    found
}

/// Apply an FDE. FDEs are in the order of their starts.
fn describe(text: &mut Text<'_>, fde: &FdeRange) {
    let (begin, last) = (fde.range.start, fde.range.end - 1);
    // The function that holds the first byte, or the next one if the byte is in the gap before it.
    let first = text.functions.partition_point(|f| f.end <= begin);
    let end = text.functions.partition_point(|f| f.start <= last);
    let Some(function) = text.functions.get_mut(first).filter(|_| first < end) else {
        text.refuse(Limit::UncoveredCode, format!("an FDE at {begin:#x}, where no function symbol is"));
        return;
    };
    if begin <= function.start {
        function.start = begin;
        function.prefix = begin;
        function.described = true;
    }
    // Zeros in an FDE's range are code.
    let covered = text.functions.get(end - 1).map_or(0, |f| f.end);
    let behind = text.bytes.get(covered as usize..fde.range.end as usize).unwrap_or(&[]);
    if !decode::is_padding(behind) {
        text.refuse(Limit::UncoveredCode, format!("an FDE covers bytes of no function at {covered:#x}"));
    }
    text.keep_together(first, end - 1, Tie::UnwindRecord);
}

/// Mark each function of an FDE that spans several. No other joins exist yet.
fn describe_spanned(text: &mut Text<'_>) {
    let mut depth = 0;
    for (function, join) in text.functions.iter_mut().zip(&text.joins) {
        function.described |= depth > 0;
        depth += join;
    }
}
