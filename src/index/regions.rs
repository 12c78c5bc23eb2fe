//! Which parts of a section of data are one memory to value flow.
//!
//! Safe because the parts of a section lie in a row in the table of atoms, and an address that is computed from that of one may be
//! of any other: all of them are one object. Left out: code, of which each atom is its own.

use summaries::{Atom, AtomIdx, AtomKind, ModuleSummary, Reference, Target};

/// Memory of one section of data: one object, whatever its parts are. Which part an address leads into is known where the
/// section was divided, but of an address that is computed from it only that it stays in the section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) first: AtomIdx,
    /// In bytes, from the start of the section.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Some part refers to something outside of it.
    pub(crate) refers: bool,
}

/// The regions of a module, and which of them each atom is in.
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
            // What holds nothing but places in itself leads nowhere.
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
