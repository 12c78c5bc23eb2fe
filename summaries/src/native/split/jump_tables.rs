//! Jump tables: the target function of each PC-relative entry in data.
//!
//! An entry at `p` of a table at `b` holds `target - b`, so its relocation is `PC32 section + target + (p - b)`. The
//! base `b` is proved if a register that holds `b` plus an entry loaded from `b` is jumped through
//! ([`super::dataflow`]). Entries belong to the nearest referenced place before them, which must be a proved base,
//! without a gap. Each must lead to an instruction of the jumping function, or of a part that shares jumps with it. A
//! similar table (clang's relative lookup tables) has a base of its own, without a jump. The possible targets of an
//! entry without a proved base stay together ([`keep_reached`]).
//!
//! A proved table that one part refers to is owned by it. Entries of a shared table are references from data.

use object::endian::LittleEndian as LE;

use super::dataflow::{self, IndirectJump};
use super::division::{SectionPlace, SplitContext, TextPlace};
use super::extents::part_of;
use super::references::{DataReference, PcRelativeReference, RetargetedRelocation, SplitReferences};
use super::text::{Text, Tie};
use crate::limit::Limit;
use crate::summary::{Atom, AtomKind, Definition, Symbol, SymbolKind};

/// A range of data that belongs to one part of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimedTable {
    pub(super) section: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Position of the text, offset in it.
    pub(super) owner: (usize, u64),
}

/// A part: position of its text, number of the part.
type Part = (usize, usize);

/// Find the table of each relative relocation, and add the targets of the entries to `found.retargets`.
pub(super) fn claim(
    context: &SplitContext<'_, '_>,
    texts: &mut [Text<'_>],
    found: &mut SplitReferences,
) -> Vec<ClaimedTable> {
    let mut claimed = Vec::new();
    let asked = !found.relative.is_empty() || !found.mid_function_addresses.is_empty();
    let partners = if asked { partners(context, texts, &found.jumps) } else { Vec::new() };
    refuse_mid_function_addresses(context, texts, found, &partners);
    let jumps = dataflow::jumps(context, texts, found);
    let is_unread = |atom: &&Atom| {
        let text = context.text_of(atom.section).and_then(|t| texts.get(t));
        atom.kind == AtomKind::Code && atom.size > 0 && !text.is_some_and(|t| t.decoded)
    };
    if let Some(unread) = context.atoms.iter().find(is_unread).filter(|_| !context.compiled) {
        let own = context.describe(unread.section);
        refuse_all(texts, &format!("any jump of section {own}, which was not decoded"));
    }
    let mut proofs: Vec<(SectionPlace, Part)> = Vec::new();
    let mut any: Vec<Part> = Vec::new();
    for jump in jumps {
        let (IndirectJump::Table { text, offset, .. }
        | IndirectJump::AnyTable { text, offset }
        | IndirectJump::Unproved { text, offset }) = jump;
        let part = texts.get(text).and_then(|t| t.part_at(offset)).map(|part| (text, part));
        match jump {
            IndirectJump::Table { base, .. } => proofs.extend(part.map(|part| (base, part))),
            IndirectJump::AnyTable { .. } => any.extend(part),
            IndirectJump::Unproved { .. } => {
                let own = texts.get(text).map_or(0, |t| t.section);
                let detail = format!("the jump at {offset:#x} of section {}", context.describe(own));
                match (context.compiled, texts.get_mut(text)) {
                    (false, _) => refuse_all(texts, &detail),
                    (true, Some(text)) => text.refuse(Limit::UnprovedJump, detail),
                    (true, None) => {}
                }
            }
        }
    }
    any.sort_unstable();
    any.dedup();
    proofs.extend(formed_by(texts, found, &any, &partners));
    proofs.sort_unstable();
    proofs.dedup();
    let relative = std::mem::take(&mut found.relative);
    let mut unclaimed = Vec::new();
    for table in relative.chunk_by(|a, b| base_of(a.at, &found.data) == base_of(b.at, &found.data)) {
        let base = table.first().and_then(|first| base_of(first.at, &found.data));
        let Some(base) = base else {
            unclaimed.push((table, "nothing refers to a place before it"));
            continue;
        };
        let owners = owners(&proofs, base);
        match entries(texts, base, table, owners, &partners) {
            Ok(targets) => {
                found.retargets.extend(targets);
                let end = table.last().map_or(base.1, |r| r.at.1.saturating_add(4));
                if let [(_, owner)] = owners
                    && only_from(texts, &found.data, base, end, *owner)
                    && let Some(start) =
                        texts.get(owner.0).and_then(|t| t.functions.get(owner.1)).map(|f| f.start)
                {
                    claimed.push(ClaimedTable {
                        section: base.0,
                        start: base.1,
                        end,
                        owner: (owner.0, start),
                    });
                }
            }
            Err(what) => unclaimed.push((table, what)),
        }
    }
    for run in relative.chunk_by(|a, b| b.at == (a.at.0, a.at.1.saturating_add(4))) {
        let base = run.first().and_then(|first| base_of(first.at, &found.data)).map_or(0, |base| base.1);
        for entry in run {
            let own = unclaimed.partition_point(|(table, _)| table.first().is_some_and(|r| r.at <= entry.at));
            let table = own.checked_sub(1).and_then(|own| unclaimed.get(own));
            if let Some((_, what)) = table.filter(|(table, _)| table.last().is_some_and(|r| entry.at <= r.at))
            {
                keep_reached(texts, entry, base, what, &mut found.retargets);
            }
        }
    }
    claimed
}

/// Refuse all sections of assembly with several functions, because it may know their distances.
fn refuse_all(texts: &mut [Text<'_>], detail: &str) {
    for text in texts.iter_mut().filter(|text| text.is_worth_it()) {
        text.refuse(Limit::UnprovedJump, detail);
    }
}

/// Refuse the sections with addresses in the middle of a function, except entries of absolute tables. Such an entry
/// follows, without a gap, a place in data that code with an indirect jump names. It leads into that code, or a part
/// that shares jumps with it.
fn refuse_mid_function_addresses(
    context: &SplitContext<'_, '_>,
    texts: &mut [Text<'_>],
    found: &mut SplitReferences,
    partners: &[(Part, Part)],
) {
    found.mid_function_addresses.sort_unstable();
    let part = |texts: &[Text<'_>], text: usize, at: u64| Some((text, texts.get(text)?.part_at(at)?));
    for table in
        found.mid_function_addresses.chunk_by(|a, b| base_of(a.at, &found.data) == base_of(b.at, &found.data))
    {
        let base = table.first().and_then(|first| base_of(first.at, &found.data));
        let start = found.data.partition_point(|d| Some(d.to) < base);
        let named = found.data.get(start..).unwrap_or(&[]).iter().take_while(|d| Some(d.to) == base);
        let mut from: Vec<Part> = named.filter_map(|d| part(texts, d.from?.0, d.from?.1)).collect();
        from.sort_unstable();
        from.dedup();
        from.retain(|(text, part)| texts.get(*text).is_some_and(|t| t.jumps_indirectly(*part)));
        for middle in table {
            let to = part(texts, middle.text, middle.target);
            let is_near =
                |own: &Part| to.is_some_and(|to| *own == to || partners.binary_search(&(*own, to)).is_ok());
            let is_entry =
                base.is_some_and(|base| is_run(context, base, middle.at.1)) && from.iter().any(is_near);
            if !is_entry && let Some(text) = texts.get_mut(middle.text) {
                let (section, place) = middle.at;
                text.refuse(
                    Limit::AmbiguousTarget,
                    format!("an address in the middle of a function at {place:#x} of section [{section}]"),
                );
            }
        }
    }
}

/// Whether there is a relocation for every 8 bytes from a place to a later offset.
fn is_run(context: &SplitContext<'_, '_>, base: SectionPlace, end: u64) -> bool {
    let own = context.relas_of(base.0);
    let at = |offset: u64| own.binary_search_by_key(&offset, |(_, r)| r.r_offset.get(LE)).ok();
    let count = at(base.1).zip(at(end)).and_then(|(first, last)| last.checked_sub(first));
    count.is_some_and(|count| end.checked_sub(base.1) == Some(8 * count as u64))
}

/// Keep the possible targets of an entry with an unknown base together. The base is between `base`, the nearest
/// referenced place before its run of entries, and the entry. The target is as far before the addend. If all possible
/// targets are one part, the field means this part.
fn keep_reached(
    texts: &mut [Text<'_>],
    entry: &PcRelativeReference,
    base: u64,
    what: &str,
    retargets: &mut Vec<RetargetedRelocation>,
) {
    let Some(text) = texts.get_mut(entry.text) else { return };
    let size = text.bytes.len() as i64;
    let furthest = entry.addend.saturating_sub_unsigned(entry.at.1.saturating_sub(base)).max(0);
    if !text.decoded || entry.addend < 0 || furthest >= size {
        let (section, place) = entry.at;
        return text.refuse(
            Limit::UnclaimedPcrelTable,
            format!("PC-relative at {place:#x} of section [{section}]: {what}"),
        );
    }
    let holding =
        |offset: i64| text.functions.partition_point(|f| f.start <= offset.cast_unsigned()).saturating_sub(1);
    let (from, to) = (holding(furthest), holding(entry.addend.min(size - 1)));
    text.keep_together(from, to, Tie::Distance);
    text.has_loose_tables = true;
    if let Some(function) = text.functions.get(from) {
        retargets.push(RetargetedRelocation { at: entry.at, text: entry.text, target: function.start });
    }
}

/// The tables whose bases these parts, or their partners, form.
fn formed_by(
    texts: &[Text<'_>],
    found: &SplitReferences,
    parts: &[Part],
    partners: &[(Part, Part)],
) -> Vec<(SectionPlace, Part)> {
    let mut proofs = Vec::new();
    if parts.is_empty() {
        return proofs;
    }
    for reference in &found.data {
        if found.relative.binary_search_by_key(&reference.to, |r| r.at).is_err() {
            continue;
        }
        let Some(from) = reference.from.and_then(|(text, at)| Some((text, texts.get(text)?.part_at(at)?)))
        else {
            continue;
        };
        let own = partners.partition_point(|(a, _)| *a < from);
        let near = partners.get(own..).unwrap_or(&[]).iter().take_while(|(a, _)| *a == from).map(|(_, b)| *b);
        let jumping = near.chain([from]).filter(|part| parts.binary_search(part).is_ok());
        proofs.extend(jumping.map(|part| (reference.to, part)));
    }
    proofs
}

/// The nearest referenced place at or before a relocation.
fn base_of(at: SectionPlace, data: &[DataReference]) -> Option<SectionPlace> {
    let found = data.partition_point(|d| d.to <= at).checked_sub(1)?;
    data.get(found).map(|d| d.to).filter(|to| to.0 == at.0)
}

fn owners(proofs: &[(SectionPlace, Part)], base: SectionPlace) -> &[(SectionPlace, Part)] {
    let start = proofs.partition_point(|(b, _)| *b < base);
    let end = proofs.partition_point(|(b, _)| *b <= base);
    proofs.get(start..end).unwrap_or(&[])
}

/// The targets of the entries of the table at `base`, or the reason why they are no entries.
fn entries(
    texts: &[Text<'_>],
    base: SectionPlace,
    table: &[PcRelativeReference],
    owners: &[(SectionPlace, Part)],
    partners: &[(Part, Part)],
) -> Result<Vec<RetargetedRelocation>, &'static str> {
    if owners.is_empty() {
        return Err("no jump is proved to go through a table there");
    }
    let mut targets = Vec::with_capacity(table.len());
    for (entry, place) in table.iter().zip((base.1..).step_by(4)) {
        if entry.at.1 != place {
            return Err("the table has a gap");
        }
        let bias = i64::try_from(place - base.1).unwrap_or(i64::MAX);
        let target = entry.addend.checked_sub(bias).and_then(|t| u64::try_from(t).ok());
        let text = texts.get(entry.text).filter(|t| t.decoded);
        let (Some(target), Some(text)) = (target, text) else {
            return Err("an entry leads to no known code");
        };
        let part = text.part_at(target).filter(|_| text.is_boundary(target));
        let Some(part) = part.map(|p| (entry.text, p)) else {
            return Err("an entry leads to no instruction");
        };
        let is_near = |owner: &Part| *owner == part || partners.binary_search(&(*owner, part)).is_ok();
        if !owners.iter().any(|(_, owner)| is_near(owner)) {
            return Err("an entry leads into another function");
        }
        targets.push(RetargetedRelocation { at: entry.at, text: entry.text, target });
    }
    Ok(targets)
}

/// Whether every reference to the range is from this part.
fn only_from(texts: &[Text<'_>], data: &[DataReference], base: SectionPlace, end: u64, owner: Part) -> bool {
    let start = data.partition_point(|d| d.to < base);
    let inside = data.get(start..).unwrap_or(&[]).iter().take_while(|d| d.to < (base.0, end));
    inside.into_iter().all(|d| {
        d.from.is_some_and(|(text, offset)| {
            texts.get(text).and_then(|t| t.part_at(offset)).map(|part| (text, part)) == Some(owner)
        })
    })
}

/// Pairs of parts with a jump from one to the other (a function and its cold part), also by name, in both orders,
/// sorted.
fn partners(
    context: &SplitContext<'_, '_>,
    texts: &[Text<'_>],
    jumps: &[(TextPlace, TextPlace)],
) -> Vec<(Part, Part)> {
    let part =
        |text: usize, offset: u64| texts.get(text).and_then(|t| t.part_at(offset)).map(|part| (text, part));
    let resolved = texts.iter().enumerate();
    let resolved = resolved.flat_map(|(i, text)| text.jumps.iter().map(move |(at, to)| ((i, *at), (i, *to))));
    let mut pairs = Vec::new();
    for (a, b) in resolved.chain(jumps.iter().copied()).chain(named_parts(context)) {
        if let (Some(a), Some(b)) = (part(a.0, a.1), part(b.0, b.1))
            && a != b
        {
            pairs.extend([(a, b), (b, a)]);
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Text and offset of each named part, with those of its function.
fn named_parts(context: &SplitContext<'_, '_>) -> Vec<(TextPlace, TextPlace)> {
    let place = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) if matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc) => {
            Some((context.text_of(context.section_of(atom)?)?, symbol.value))
        }
        _ => None,
    };
    let name = |symbol: &Symbol| context.tables.name(symbol.name);
    let mut parts: Vec<_> =
        context.symbols.iter().filter_map(|symbol| Some((part_of(name(symbol))?, place(symbol)?))).collect();
    parts.sort_unstable();
    let mut found = Vec::new();
    for symbol in context.symbols.iter().filter(|_| !parts.is_empty()) {
        let Some(whole) = place(symbol) else { continue };
        let first = parts.partition_point(|(of, _)| *of < name(symbol));
        let own = parts.get(first..).unwrap_or(&[]).iter().take_while(|(of, _)| *of == name(symbol));
        found.extend(own.map(|(_, part)| (whole, *part)));
    }
    found
}
