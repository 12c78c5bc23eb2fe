//! Which memory always holds the same: the places for which a constant is looked for, and what they hold in the beginning.
//!
//! A place is followed only if every reference of the link to its object is a direct access of exactly these bytes by code
//! that was followed, dead code included; then nobody has its address, and nobody else writes there. So it is not exported, not a root
//! for any other reason, in a plain section of its own module, and the program starts with the bytes of the section. An
//! object that only its own module can name and that nothing there ever changes is not followed: a compiler would have put the
//! constant in its place, so it must be volatile. Which stores are reached is not asked here.

use rustc_hash::{FxHashMap, FxHashSet};
use summaries::constant::{Cell, Integer, cut};
use summaries::{Atom, AtomKind, Binding, Definition, ModuleSummary, Reference, Target, atom_flags};

use super::places::{Place, World};
use crate::ids::{AtomId, Id};
use crate::resolve::Prevailing;

/// Why a place that code accesses is not followed; the first reason that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotConstant {
    /// Exported, kept for a reason of its own, in a section that means something to others, or no plain data.
    Special,
    /// Something else than direct accesses refers to it.
    AddressTaken,
    /// It is accessed in other pieces, too.
    MixedWidth,
    /// What it holds in the beginning is not known.
    Contents,
    /// Only its own module can name it, and never changes it.
    NeverWritten,
    /// The link refers to the borders of its data.
    Borders,
}

impl NotConstant {
    pub const ALL: [NotConstant; 6] = [
        NotConstant::Special,
        NotConstant::AddressTaken,
        NotConstant::MixedWidth,
        NotConstant::Contents,
        NotConstant::NeverWritten,
        NotConstant::Borders,
    ];

    /// Stable name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            NotConstant::Special => "special",
            NotConstant::AddressTaken => "address-taken",
            NotConstant::MixedWidth => "mixed-width",
            NotConstant::Contents => "contents",
            NotConstant::NeverWritten => "never-written",
            NotConstant::Borders => "borders",
        }
    }
}

/// Names by which linkers mean the borders of data: whoever has one may walk over all of it.
const BORDERS: [&[u8]; 5] = [b"__bss_start", b"_edata", b"edata", b"_end", b"end"];

/// Bytes that the widest relocation writes.
const WIDEST: i64 = 8;

/// A place: atom, offset from the start of its section, bytes.
type Key = (AtomId, i64, u32);

/// The places that are followed.
#[derive(Default)]
pub(super) struct Globals {
    numbers: FxHashMap<Key, u32>,
    /// By number: what is there in the beginning.
    pub(super) initial: Vec<u64>,
    /// By reason, how many are not.
    pub(super) not_followed: [usize; NotConstant::ALL.len()],
}

/// References to what may be an object.
#[derive(Default)]
struct Taken {
    /// Whole atoms.
    atoms: FxHashSet<AtomId>,
    /// Parts of atoms: from, to.
    parts: FxHashMap<AtomId, Vec<(i64, i64)>>,
}

impl Globals {
    pub(super) fn new(world: &World<'_>) -> Globals {
        let mut globals = Globals::default();
        let keys = accessed(world);
        if keys.is_empty() {
            return globals;
        }
        let taken = taken(world, &keys);
        let roots: FxHashSet<AtomId> = world.sources.index.roots.iter().map(|r| r.atom).collect();
        let borders = has_borders(world);
        let mut nameable = Nameable::new(world, &keys);
        let mut candidates = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let reason = if borders {
                Err(NotConstant::Borders)
            } else if roots.contains(&key.0) || !is_plain(world, *key) {
                Err(NotConstant::Special)
            } else if taken.has(*key) {
                Err(NotConstant::AddressTaken)
            } else if overlaps(&keys, i) || !matches!(key.2, 1 | 2 | 4 | 8) {
                Err(NotConstant::MixedWidth)
            } else {
                contents(world, *key).ok_or(NotConstant::Contents)
            };
            match reason {
                Ok(value) => candidates.push((*key, value)),
                Err(reason) => globals.not_followed[reason as usize] += 1,
            }
        }
        let values: FxHashMap<Key, u64> = candidates.iter().copied().collect();
        let changed = changed(world, &values);
        for (key, value) in candidates {
            if !nameable.by_others(key) && !changed.contains(&key) {
                globals.not_followed[NotConstant::NeverWritten as usize] += 1;
                continue;
            }
            globals.numbers.insert(key, globals.initial.len() as u32);
            globals.initial.push(value);
        }
        globals
    }

    /// The number of a place that the module at `position` accesses.
    pub(super) fn number(&self, world: &World<'_>, position: usize, cell: Cell) -> Option<u32> {
        self.numbers.get(&key(world, position, cell)?).copied()
    }
}

fn key(world: &World<'_>, position: usize, cell: Cell) -> Option<Key> {
    match world.place(position, cell.target, cell.offset) {
        (Place::Atom(atom, offset), false) => Some((atom, offset, cell.size)),
        _ => None,
    }
}

/// Every place that some code accesses directly, sorted.
fn accessed(world: &World<'_>) -> Vec<Key> {
    let mut keys = Vec::new();
    for (position, summary) in world.sources.summaries.iter().enumerate() {
        for table in &summary.constants {
            let cells = table.puts.iter().map(|p| p.cell).chain(table.gets.iter().copied());
            keys.extend(cells.filter_map(|cell| key(world, position, cell)));
        }
    }
    keys.retain(|key| world.atom(key.0).is_some_and(|a| a.kind != AtomKind::Code));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Whether a place of the sorted table shares bytes with another of its atom.
fn overlaps(keys: &[Key], at: usize) -> bool {
    let Some((atom, start, size)) = keys.get(at).copied() else { return true };
    let end = start.saturating_add(i64::from(size));
    let of_atom = |k: &&Key| k.0 == atom;
    // Sorted by offset: those before may be of any length, those behind begin before its end.
    let before = keys.get(..at).unwrap_or(&[]).iter().rev().take_while(of_atom);
    let behind = keys.get(at + 1..).unwrap_or(&[]).iter().take_while(of_atom).take_while(|k| k.1 < end);
    behind.count() > 0 || before.into_iter().any(|k| k.1.saturating_add(i64::from(k.2)) > start)
}

/// Data of its own module that the program starts with as the object has it, and the access lies in it.
fn is_plain(world: &World<'_>, (atom, offset, size): Key) -> bool {
    const NOT: u32 = atom_flags::RETAIN
        | atom_flags::LINK_ORDER
        | atom_flags::C_IDENTIFIER
        | atom_flags::MERGE
        | atom_flags::STRINGS
        | atom_flags::EXEC
        | atom_flags::GROUPED;
    let (_, _, summary) = world.locate(atom);
    let Some(this) = world.atom(atom) else { return false };
    let end = offset.checked_add(i64::from(size));
    let (start, limit) = (this.offset as i64, this.offset.saturating_add(this.size) as i64);
    matches!(this.kind, AtomKind::Data | AtomKind::Bss | AtomKind::ReadOnlyData)
        && this.has(atom_flags::STANDARD_FAMILY)
        && !this.has(NOT)
        && this.group.is_none()
        && !world.sources.index.discarded[atom.index()]
        && !summary.name(this.name).starts_with(b".data.rel")
        && start <= offset
        && end.is_some_and(|end| end <= limit)
}

/// Whether the link refers to borders that the linker defines.
fn has_borders(world: &World<'_>) -> bool {
    let symbols = &world.sources.resolution.symbols;
    symbols.enumerated().any(|(_, s)| matches!(s.prevailing, Prevailing::Linker) && BORDERS.contains(&s.name))
}

/// All that is referred to in another way than by direct accesses, as far as `keys` speak of it.
fn taken(world: &World<'_>, keys: &[Key]) -> Taken {
    let mut taken = Taken::default();
    let is_asked = |atom: AtomId| {
        let at = keys.partition_point(|k| k.0 < atom);
        keys.get(at).is_some_and(|k| k.0 == atom)
    };
    for (position, summary) in world.sources.summaries.iter().enumerate() {
        let mut direct: Vec<(u32, u64)> =
            summary.constants.iter().flat_map(|c| c.direct.iter().copied()).collect();
        direct.sort_unstable();
        for reference in &summary.references {
            if is_direct(summary, &direct, reference) {
                continue;
            }
            let place = world.place(position, reference.target, 0).0;
            let Place::Atom(atom, _) = place else { continue };
            match world.extent(position, reference.target) {
                Some((start, end)) if is_asked(atom) => {
                    taken.parts.entry(atom).or_default().push((start, end))
                }
                Some(_) => {}
                // Whatever is in its section.
                None => taken.atoms.extend(world.section_of(atom).filter(|a| is_asked(*a))),
            }
        }
    }
    // An access that leaves its object may mean anything around it.
    for (atom, offset, size) in keys {
        let inside = world.atom(*atom).is_some_and(|a: &Atom| {
            a.offset as i64 <= *offset
                && offset.saturating_add(i64::from(*size)) <= a.offset.saturating_add(a.size) as i64
        });
        if !inside {
            taken.atoms.extend(world.section_of(*atom));
        }
    }
    taken
}

fn is_direct(summary: &ModuleSummary, direct: &[(u32, u64)], reference: &Reference) -> bool {
    let from = summary.atoms.get(reference.from.index());
    from.is_some_and(|from| {
        from.kind == AtomKind::Code && direct.binary_search(&(from.section, reference.offset)).is_ok()
    })
}

impl Taken {
    fn has(&self, (atom, offset, size): Key) -> bool {
        let end = offset.saturating_add(i64::from(size));
        let parts = self.parts.get(&atom);
        self.atoms.contains(&atom)
            || parts.is_some_and(|p| p.iter().any(|(start, limit)| *start < end && offset < *limit))
    }
}

/// What is there in the beginning.
fn contents(world: &World<'_>, (atom, offset, size): Key) -> Option<u64> {
    let (_, local, summary) = world.locate(atom);
    let this = summary.atoms.get(local.index())?;
    if this.kind == AtomKind::Bss {
        return Some(0);
    }
    let own = summary.references_of(local).iter().map(|r| r.offset as i64);
    if own
        .into_iter()
        .any(|r| r < offset.saturating_add(i64::from(size)) && offset < r.saturating_add(WIDEST))
    {
        return None;
    }
    let offset = u64::try_from(offset).ok()?;
    let at = summary.contents.partition_point(|c| (c.atom, c.offset) <= (local, offset));
    let found = summary.contents.get(at.checked_sub(1)?).filter(|c| c.atom == local)?;
    let start = usize::try_from(offset.checked_sub(found.offset)?).ok()?;
    let bytes = found.bytes.get(start..start.checked_add(size as usize)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The places to which some store, reached or not, brings what they don't hold in the beginning.
fn changed(world: &World<'_>, values: &FxHashMap<Key, u64>) -> FxHashSet<Key> {
    let mut changed = FxHashSet::default();
    for (position, summary) in world.sources.summaries.iter().enumerate() {
        for put in summary.constants.iter().flat_map(|c| &c.puts) {
            let Some(key) = key(world, position, put.cell) else { continue };
            let Some(value) = values.get(&key) else { continue };
            let same =
                matches!(put.value, Some(Integer::Constant(v)) if cut(v, key.2.min(8) as u8) == *value);
            if !same {
                changed.insert(key);
            }
        }
    }
    changed
}

/// What symbols that other modules can name cover.
struct Nameable {
    parts: FxHashMap<AtomId, Vec<(i64, i64)>>,
}

impl Nameable {
    fn new(world: &World<'_>, keys: &[Key]) -> Nameable {
        let mut parts: FxHashMap<AtomId, Vec<(i64, i64)>> = FxHashMap::default();
        let mut positions: Vec<usize> = keys.iter().map(|k| world.locate(k.0).0).collect();
        positions.sort_unstable();
        positions.dedup();
        for position in positions {
            for symbol in &world.sources.summaries[position].symbols {
                let Definition::Atom(atom) = symbol.definition else { continue };
                if symbol.binding != Binding::Local {
                    let start = symbol.value as i64;
                    let part = (start, start.saturating_add(symbol.size as i64));
                    parts.entry(world.global(position, atom)).or_default().push(part);
                }
            }
        }
        Nameable { parts }
    }

    fn by_others(&mut self, (atom, offset, size): Key) -> bool {
        let end = offset.saturating_add(i64::from(size));
        let parts = self.parts.get(&atom);
        parts.is_some_and(|p| p.iter().any(|(start, limit)| *start <= offset && end <= *limit))
    }
}

impl World<'_> {
    /// The bytes of the object that a symbol means, whatever is added to it; `None` if the reference may mean any object of its
    /// section: it is by the section, by a local symbol, or by one without a size.
    fn extent(&self, position: usize, target: Target) -> Option<(i64, i64)> {
        let Target::Symbol(symbol) = target else { return None };
        let module = self.sources.index.modules[position].module;
        let id = self.sources.resolution.symbol_id(module, symbol)?;
        let Prevailing::Module { module, symbol } = self.sources.resolution.symbols[id].prevailing else {
            return None;
        };
        let position = *self.position_of.get(&module)?;
        let symbol = self.sources.summaries[position].symbols.get(symbol.index())?;
        let start = i64::try_from(symbol.value).ok()?;
        let end = start.checked_add(i64::try_from(symbol.size).ok()?)?;
        (start < end).then_some((start, end))
    }

    /// All atoms of the section of one.
    fn section_of(&self, atom: AtomId) -> impl Iterator<Item = AtomId> {
        let (position, local, summary) = self.locate(atom);
        let section = summary.atoms.get(local.index()).map(|a| a.section);
        let same = move |i: &usize| summary.atoms.get(*i).map(|a| a.section) == section;
        let first = (0..local.index()).rev().take_while(same).last().unwrap_or(local.index());
        let count = (first..summary.atoms.len()).take_while(same).count();
        let start = AtomId::new(self.sources.index.modules[position].first_atom as usize + first);
        (0..count).map(move |i| AtomId::new(start.index() + i))
    }
}
