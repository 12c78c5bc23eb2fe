//! Classification of references at the level `pointers`: an edge keeps its target and lets its address escape, keeps it, or only takes its address.
//!
//! Safe because the weaker effects are only given where value flow takes over. What code of a function with a summary
//! says at a place that the summary accounts for is followed by its constraints; what an ordinary data atom holds is
//! followed as its contents. Every other reference keeps its target and lets it escape. So does every reference at the
//! levels below, where nobody asks.

use summaries::relation::FunctionSummary;
use summaries::{
    Atom, AtomIdx, AtomKind, Binding, Definition, ModuleSummary, Reference, ReferenceKind, Symbol,
    SymbolKind, Target, atom_flags,
};

use super::regions::Regions;

/// What an edge does to its target, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeEffect {
    /// It lives, and code that isn't followed may do anything with its address.
    Escape,
    /// What the edge leads to lives, because its source does.
    Keep,
    /// Its address is there: it lives once something calls it, or lets the address escape.
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
    /// What is meant is what the function there returns.
    pub(super) ifunc: bool,
    /// In bytes from the start of the section; of a PC-relative field it is not exact.
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

    /// The effect of reference `r` of `atom`; `target` is `None` for what the linker defines from sections.
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

    /// Whether some constraint or call of the function names the target. A summary that accounts for a reference and says
    /// nothing of where it leads is not believed.
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

    /// Whether the summary of function number `from` says everything about the reference.
    fn accounts(&self, atom: &Atom, from: usize, r: &Reference) -> bool {
        let Some(function) = self.summary.functions.get(from) else { return false };
        let at = |section: u32| function.covered_references.binary_search(&(section, r.offset)).is_ok();
        match r.kind {
            // Of a table that it owns, in one of the sections where one is.
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

/// A target as the atom that it means, if it is a local symbol; of a section of data, as the first one: which of the
/// parts an address means is said by the reference, and memory is that of the whole section.
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

/// Whether the contents of an atom are followed: data that only pointers reach, and no section that means something
/// to the loader, the linker or whoever walks over all of its name.
pub(crate) fn is_ordinary_data(atom: &Atom) -> bool {
    matches!(atom.kind, AtomKind::ReadOnlyData | AtomKind::Data | AtomKind::Bss | AtomKind::Common)
        && !atom.has(atom_flags::RETAIN | atom_flags::C_IDENTIFIER | atom_flags::EXEC)
}

/// Which function each atom of a module belongs to.
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

    /// Position in `functions` of the function that an atom is of.
    pub(crate) fn of(&self, atom: AtomIdx) -> Option<usize> {
        self.of.get(atom.index()).copied().flatten().map(|f| f as usize)
    }

    /// Whether calls enter the code atom at this offset from the start of its section: at an entry of its function, or,
    /// if it has no summary, at its start.
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

/// Where a target of a module leads inside of it, with `addend` bytes added; `None` for what it does not define.
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
                // Its value is its alignment.
                Definition::Common(atom) => (atom, 0),
                _ => return None,
            }
        }
    };
    Some(ReferencedPlace { summary, functions, atom, ifunc, offset: base.wrapping_add(addend) })
}
