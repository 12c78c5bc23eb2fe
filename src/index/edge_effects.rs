//! Classification of references for value flow, at the level `pointers`: an edge keeps its target and lets its address escape, keeps it, or only takes its address.
//!
//! A weaker effect is given only if value flow models the reference: code by the constraints of its function's summary, ordinary data
//! by its contents. Every other reference, and every one at lower levels, keeps its target and lets the address escape.

use summaries::relation::FunctionSummary;
use summaries::{
    Atom, AtomIdx, AtomKind, Binding, Definition, ModuleSummary, Reference, ReferenceKind, Symbol,
    SymbolKind, Target, atom_flags,
};

/// The effect of an edge on its target, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeEffect {
    /// The target is live, and code that is not analysed may use its address.
    Escape,
    /// The target is live because its source is.
    Keep,
    /// Only the address is taken: the target is live once something calls it, or lets the address escape.
    AddressTaken,
}

/// The effects of the references of one module.
pub(super) struct EdgeEffects<'s> {
    summary: &'s ModuleSummary,
    functions: &'s FunctionTable,
    regions: &'s Regions,
    /// The ranges that belong to a function, as (owner, start, end, section), sorted.
    owned: Vec<(AtomIdx, u64, u64, u32)>,
    /// By function: the targets that its constraints and calls name, sorted.
    named: Vec<Vec<Target>>,
    /// Whether there is value flow in this link.
    follows: bool,
}

/// The place that a reference leads to, if it is defined in a module.
pub(super) struct ReferencedPlace<'s> {
    pub(super) summary: &'s ModuleSummary,
    pub(super) functions: &'s FunctionTable,
    pub(super) atom: AtomIdx,
    /// The symbol means the function that the resolver at this place returns.
    pub(super) ifunc: bool,
    /// In bytes from the start of the section; not exact for a PC-relative field.
    pub(super) offset: i64,
}

impl<'s> EdgeEffects<'s> {
    pub(super) fn new(
        summary: &'s ModuleSummary,
        functions: &'s FunctionTable,
        regions: &'s Regions,
        follows: bool,
    ) -> Self {
        let mut owned = Vec::new();
        let mut named = Vec::new();
        if follows {
            let section = |atom: AtomIdx| summary.atoms.get(atom.index()).map_or(0, |a| a.section);
            owned = summary.owned.iter().map(|o| (o.owner, o.start, o.end, section(o.atom))).collect();
            owned.sort_unstable();
            named = summary.functions.iter().map(|f| targets_of_summary(summary, regions, f)).collect();
        }
        EdgeEffects { summary, functions, regions, owned, named, follows }
    }

    /// The effect of reference `r` of `atom`; `target` is `None` for symbols that the linker defines.
    pub(super) fn of(&self, atom: &Atom, r: &Reference, target: Option<&ReferencedPlace<'_>>) -> EdgeEffect {
        let Some(target) = target.filter(|t| self.follows && !t.ifunc && r.kind != ReferenceKind::Unwind)
        else {
            return EdgeEffect::Escape;
        };
        let Some(to) = target.summary.atoms.get(target.atom.index()) else { return EdgeEffect::Escape };
        if atom.kind == AtomKind::Code {
            let Some(from) = self.functions.of(r.from) else { return EdgeEffect::Escape };
            let inside =
                std::ptr::eq(target.summary, self.summary) && self.functions.of(target.atom) == Some(from);
            let named = inside || self.names(from, r.target);
            let owned = r.kind == ReferenceKind::Data && self.owned_at(r.from, r.offset).next().is_some();
            return match (self.accounts(atom, from, r) && named, inside) {
                (false, true) if owned => EdgeEffect::Keep,
                (false, _) => EdgeEffect::Escape,
                (true, false) if to.kind == AtomKind::Code => EdgeEffect::AddressTaken,
                (true, _) => EdgeEffect::Keep,
            };
        }
        if !is_ordinary_data(atom) || r.kind != ReferenceKind::Data {
            return EdgeEffect::Escape;
        }
        if to.kind == AtomKind::Code && target.functions.is_entry(target.summary, target.atom, target.offset)
        {
            return EdgeEffect::AddressTaken;
        }
        EdgeEffect::Keep
    }

    /// Whether a constraint or call of the function names the target. Otherwise a summary that accounts for the reference is not
    /// trusted.
    fn names(&self, from: usize, target: Target) -> bool {
        let target = plain(self.summary, self.regions, target);
        self.named.get(from).is_some_and(|named| named.binary_search(&target).is_ok())
    }

    /// Sections in which `from` owns a range with this offset.
    fn owned_at(&self, from: AtomIdx, offset: u64) -> impl Iterator<Item = u32> + '_ {
        let start = self.owned.partition_point(|o| o.0 < from);
        let own = self.owned.get(start..).unwrap_or(&[]).iter().take_while(move |o| o.0 == from);
        own.filter(move |o| o.1 <= offset && offset < o.2).map(|o| o.3)
    }

    /// Whether the summary of function number `from` covers the reference.
    fn accounts(&self, atom: &Atom, from: usize, r: &Reference) -> bool {
        let Some(function) = self.summary.functions.get(from) else { return false };
        let at = |section: u32| function.covered_references.binary_search(&(section, r.offset)).is_ok();
        match r.kind {
            // For a reference in an owned table, the sections are those with such a table.
            ReferenceKind::Data => {
                let mut sections = self.owned_at(r.from, r.offset).peekable();
                sections.peek().is_some() && sections.all(at)
            }
            _ => at(atom.section),
        }
    }
}

fn targets_of_summary(summary: &ModuleSummary, regions: &Regions, function: &FunctionSummary) -> Vec<Target> {
    let address_taken_only = function.address_taken_only.iter().copied();
    let mut named: Vec<Target> =
        function.named().chain(address_taken_only).map(|t| plain(summary, regions, t)).collect();
    named.sort_unstable();
    named.dedup();
    named
}

/// A target as an atom: that of a local symbol, and the first one of a data section, whose memory is one object. The reference says which
/// part of it an address means.
fn plain(summary: &ModuleSummary, regions: &Regions, target: Target) -> Target {
    let atom = match target {
        Target::Atom(atom) => atom,
        Target::Symbol(index) => match summary.symbols.get(index.index()) {
            Some(Symbol { binding: Binding::Local, definition: Definition::Atom(atom), .. }) => *atom,
            _ => return target,
        },
    };
    regions.of(atom).map_or(target, |region| Target::Atom(region.first))
}

/// Whether value flow models the contents of an atom: data that only pointers reach, in no section with a meaning to the
/// loader or the linker, or whose name code enumerates.
pub(crate) fn is_ordinary_data(atom: &Atom) -> bool {
    matches!(atom.kind, AtomKind::ReadOnlyData | AtomKind::Data | AtomKind::Bss | AtomKind::Common)
        && !atom.has(atom_flags::RETAIN | atom_flags::C_IDENTIFIER | atom_flags::EXEC)
}

/// The function of each atom of a module.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionTable {
    of: Vec<Option<u32>>,
}

impl FunctionTable {
    pub(crate) fn new(summary: &ModuleSummary) -> Self {
        let mut of = Vec::new();
        if !summary.functions.is_empty() {
            of = vec![None; summary.atoms.len()];
        }
        for (i, function) in summary.functions.iter().enumerate() {
            for atom in std::iter::once(&function.atom).chain(&function.parts) {
                if let Some(slot) = of.get_mut(atom.index()) {
                    *slot = Some(i as u32);
                }
            }
        }
        FunctionTable { of }
    }

    /// Position in `functions` of an atom's function.
    pub(crate) fn of(&self, atom: AtomIdx) -> Option<usize> {
        self.of.get(atom.index()).copied().flatten().map(|f| f as usize)
    }

    /// Whether calls enter the code atom at this offset from the start of its section: at an entry of its function, or at its
    /// start if it has no summary.
    pub(crate) fn is_entry(&self, summary: &ModuleSummary, atom: AtomIdx, offset: i64) -> bool {
        let Ok(offset) = u64::try_from(offset) else { return false };
        match self.of(atom).and_then(|f| summary.functions.get(f)) {
            Some(function) => {
                let entries = &function.entries;
                entries.first() == Some(&(atom, offset)) || entries.binary_search(&(atom, offset)).is_ok()
            }
            None => summary.atoms.get(atom.index()).is_some_and(|a| a.offset == offset),
        }
    }
}

/// The place of a target in a module, with `addend` bytes added; `None` for a symbol that it does not define.
pub(super) fn leads<'s>(
    summary: &'s ModuleSummary,
    functions: &'s FunctionTable,
    target: Target,
    addend: i64,
) -> Option<ReferencedPlace<'s>> {
    let mut ifunc = false;
    let (atom, base) = match target {
        Target::Atom(atom) => (atom, 0),
        Target::Symbol(symbol) => {
            let symbol = summary.symbols.get(symbol.index())?;
            ifunc = symbol.kind == SymbolKind::Ifunc;
            match symbol.definition {
                Definition::Atom(atom) => (atom, symbol.value as i64),
                // The value of a common symbol is its alignment.
                Definition::Common(atom) => (atom, 0),
                _ => return None,
            }
        }
    };
    Some(ReferencedPlace { summary, functions, atom, ifunc, offset: base.wrapping_add(addend) })
}

/// Memory of one section of data: to value flow its parts are one object. An address that is computed from that of one part may be in
/// any other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) first: AtomIdx,
    /// In bytes, from the start of the section.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Some part refers to another section.
    pub(crate) refers: bool,
}

/// The regions of a module, and the region of each atom. Each code atom has its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Regions {
    /// By atom of the module: the number of its region.
    of: Vec<u32>,
    regions: Vec<Region>,
}

impl Regions {
    pub(crate) fn new(summary: &ModuleSummary) -> Self {
        let mut table = Regions { of: Vec::with_capacity(summary.atoms.len()), regions: Vec::new() };
        let mut before = None;
        for (i, atom) in summary.atoms.iter().enumerate() {
            let local = AtomIdx::new(i);
            let end = atom.offset.saturating_add(atom.size);
            let leads_out = |r: &Reference| match r.target {
                Target::Atom(to) => summary.atoms.get(to.index()).is_none_or(|t| t.section != atom.section),
                Target::Symbol(_) => true,
            };
            let refers = summary.references_of(local).iter().any(leads_out);
            let section =
                (atom.kind != AtomKind::Code && atom.section != Atom::NO_SECTION).then_some(atom.section);
            match table.regions.last_mut() {
                Some(region) if section.is_some() && section == before => {
                    region.start = region.start.min(atom.offset);
                    region.end = region.end.max(end);
                    region.refers |= refers;
                }
                _ => table.regions.push(Region { first: local, start: atom.offset, end, refers }),
            }
            before = section;
            table.of.push(table.regions.len() as u32 - 1);
        }
        table
    }

    pub(crate) fn of(&self, atom: AtomIdx) -> Option<Region> {
        self.regions.get(*self.of.get(atom.index())? as usize).copied()
    }
}
