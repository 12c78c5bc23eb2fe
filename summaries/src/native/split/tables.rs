//! Jump tables: which function each PC-relative entry in data leads into.
//!
//! An entry at `p` of a table at `b` holds `target - b`, so its relocation is `PC32 section + target + (p - b)`: the target
//! is known once `b` is. A base is proved where a register that surely holds `b` plus an entry loaded from `b` is jumped
//! through ([`super::dataflow`]). All entries belong to the nearest place before them that anything refers to, which must
//! be a proved base, without a gap; and each must lead to an instruction of the function that jumps, or of a part that it
//! shares jumps with. A table that looks alike and is none (clang's relative lookup tables) has a base of its own, which no
//! jump proves, and refuses the sections that it leads into.
//!
//! A proved table that only one part refers to is owned by it; entries of a shared one refer from the data as any other
//! relocation does.

use super::dataflow::{self, Jump};
use super::references::{DataReference, Found, Relative, Retargeted};
use super::{Context, Place, Text};
use crate::limit::Limit;
use crate::native::decode::Flow;

/// A range of data that belongs to the part that holds an offset of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimed {
    pub(super) section: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Position of the text, offset in it.
    pub(super) owner: (usize, u64),
}

/// A part: position of its text, number of the part.
type Part = (usize, usize);

/// Find the table of each relative relocation, add what the entries mean to `found.retargets`, and refuse what remains.
pub(super) fn claim(context: &Context<'_, '_>, texts: &mut [Text<'_>], found: &mut Found) -> Vec<Claimed> {
    let mut claimed = Vec::new();
    if found.relative.is_empty() {
        return claimed;
    }
    let jumps = dataflow::jumps(context, texts, found);
    let mut proofs: Vec<(Place, Part)> = Vec::new();
    for jump in jumps {
        match jump {
            Jump::Table { base, text, offset } => {
                if let Some(part) = texts.get(text).and_then(|t| t.part_at(offset)) {
                    proofs.push((base, (text, part)));
                }
            }
            Jump::Unproved { text, offset } => {
                if let Some(text) = texts.get_mut(text) {
                    text.refuse(Limit::UnprovedJump, format!("the jump at {offset:#x}"));
                }
            }
        }
    }
    proofs.sort_unstable();
    proofs.dedup();
    let partners = partners(context, texts, &found.retargets);
    let relative = std::mem::take(&mut found.relative);
    for table in relative.chunk_by(|a, b| base_of(a, &found.data) == base_of(b, &found.data)) {
        let Some(first) = table.first() else { continue };
        let Some(base) = base_of(first, &found.data) else {
            refuse(texts, table, "nothing refers to a place before it");
            continue;
        };
        let owners = owners(&proofs, base);
        match entries(texts, base, table, owners, &partners) {
            Ok(targets) => {
                found.retargets.extend(targets);
                let end = table.last().map_or(base.1, |r| r.at.1 + 4);
                if let [(_, owner)] = owners
                    && only_from(texts, &found.data, base, end, *owner)
                    && let Some(start) =
                        texts.get(owner.0).and_then(|t| t.functions.get(owner.1)).map(|f| f.start)
                {
                    claimed.push(Claimed { section: base.0, start: base.1, end, owner: (owner.0, start) });
                }
            }
            Err(what) => refuse(texts, table, what),
        }
    }
    claimed
}

/// The nearest place at or before a relocation that anything refers to.
fn base_of(relative: &Relative, data: &[DataReference]) -> Option<Place> {
    let found = data.partition_point(|d| d.to <= relative.at).checked_sub(1)?;
    data.get(found).map(|d| d.to).filter(|to| to.0 == relative.at.0)
}

fn owners(proofs: &[(Place, Part)], base: Place) -> &[(Place, Part)] {
    let start = proofs.partition_point(|(b, _)| *b < base);
    let end = proofs.partition_point(|(b, _)| *b <= base);
    proofs.get(start..end).unwrap_or(&[])
}

fn refuse(texts: &mut [Text<'_>], table: &[Relative], what: &str) {
    for entry in table {
        if let Some(text) = texts.get_mut(entry.text) {
            text.refuse(
                Limit::UnclaimedPcrelTable,
                format!("PC-relative at {:#x} of section [{}]: {what}", entry.at.1, entry.at.0),
            );
        }
    }
}

/// What the entries of the table at `base` mean, or why they are no entries.
fn entries(
    texts: &[Text<'_>],
    base: Place,
    table: &[Relative],
    owners: &[(Place, Part)],
    partners: &[(Part, Part)],
) -> Result<Vec<Retargeted>, &'static str> {
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
        targets.push(Retargeted { at: entry.at, text: entry.text, target });
    }
    Ok(targets)
}

/// Whether every reference to the range is from this part.
fn only_from(texts: &[Text<'_>], data: &[DataReference], base: Place, end: u64, owner: Part) -> bool {
    let start = data.partition_point(|d| d.to < base);
    let inside = data.get(start..).unwrap_or(&[]).iter().take_while(|d| d.to < (base.0, end));
    inside.into_iter().all(|d| {
        d.from.is_some_and(|(text, offset)| {
            texts.get(text).and_then(|t| t.part_at(offset)).map(|part| (text, part)) == Some(owner)
        })
    })
}

/// Pairs of parts of which one jumps to the other (a function and its cold part), in both orders, sorted.
fn partners(context: &Context<'_, '_>, texts: &[Text<'_>], retargets: &[Retargeted]) -> Vec<(Part, Part)> {
    let part =
        |text: usize, offset: u64| texts.get(text).and_then(|t| t.part_at(offset)).map(|part| (text, part));
    let jumps = |text: usize, field: u64| {
        let instructions = texts.get(text).map_or(&[][..], |t| &t.instructions);
        let at = instructions.partition_point(|i| i.end() <= field);
        instructions.get(at).is_some_and(|i| matches!(i.flow, Flow::Jump | Flow::Conditional))
    };
    let mut pairs = Vec::new();
    let mut add = |from: (usize, u64), to: (usize, u64)| {
        if let (true, Some(a), Some(b)) = (jumps(from.0, from.1), part(from.0, from.1), part(to.0, to.1)) {
            pairs.extend([(a, b), (b, a)]);
        }
    };
    for (i, text) in texts.iter().enumerate() {
        for crossing in &text.crossings {
            add((i, crossing.field), (i, crossing.target));
        }
    }
    for retarget in retargets {
        if let Some(source) = context.text_of(retarget.at.0) {
            add((source, retarget.at.1), (retarget.text, retarget.target));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
