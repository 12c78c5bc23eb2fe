//! Intraprocedural value flow analysis of native code: a [`FunctionSummary`] for every function that can be analysed.
//!
//! A function is analysed, together with its cold parts, if its section was proved to hold only functions ([`super::split`]). Every
//! instruction must be modelled, and every relocation must have a meaning. Control must enter only at symbols and leave only after the
//! frame is popped. Three properties of compilers are assumed. The psABI's calling convention holds between modules. Callee-saved
//! registers (rbx, rbp, r12 to r15) are only saved and restored. Addresses come from relocations and flow through operands, not through
//! comparisons. Any other function gets no summary: all that it refers to and receives escapes.

mod arguments;
mod builder;
mod calls;
mod computed_labels;
mod follow;
mod formats;
mod groups;
mod handlers;
mod limits;
mod mapping;
mod memory;
mod module;
mod needed;
mod stacks;
mod state;
mod transfer;
mod unit;
mod nonstandard_registers;
mod walk;

pub(crate) use module::{FlowModule, FlowTables, References};

use object::endian::LittleEndian as LE;

use super::decode::effects::Effects;
use super::split::{self, Division};
use super::symbols::SectionAtoms;
use super::tables::{Result, Tables};
use crate::ids::AtomIdx;
use crate::limit::LimitRecord;
use crate::relation::FunctionSummary;
use crate::summary::{Atom, AtomKind, ReferenceKind, Symbol, Target};
use unit::{RelocatedOperand, Unit};

/// Summarise every function that can be analysed; the others are counted in `limits`.
pub(crate) fn read(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    division: &Division,
    of: References<'_>,
    limits: &mut Vec<LimitRecord>,
) -> Result<FlowTables> {
    // Sections that are not loaded do not affect values.
    let mut relas = split::relocations_beside_debug(tables, by_section)?;
    relas.retain(|(section, _)| tables.sections.get(*section as usize).is_some_and(|s| s.is_alloc()));
    let mut module = FlowModule {
        tables,
        by_section,
        atoms,
        symbols,
        relas,
        entries: Vec::new(),
        cold: vec![false; atoms.len()],
        has_loose_parts: false,
        routines: Vec::new(),
        outlined: Vec::new(),
        labels: Vec::new(),
        handled: Vec::new(),
        lsdas: Vec::new(),
        followed: Vec::new(),
        executes_stack: tables.sections.iter().any(|s| {
            s.flags & object::elf::SHF_EXECINSTR.0 != 0 && tables.name(s.name) == b".note.GNU-stack"
        }),
        live: of.live,
    };
    let unwind = of.references.iter().filter(|r| r.kind == ReferenceKind::Unwind);
    module.handled = unwind.map(|r| r.from).collect();
    module.handled.sort_unstable();
    module.lsdas = handlers::tables(&module, of.references);
    module.find_entries();
    module.find_labels(division);
    module.followed = division.understood.clone();
    module.find_routines();
    let groups = module.groups();
    module.has_loose_parts = module.has_code_without_entry(&groups);
    let mut found = FlowTables::default();
    let mut entered: Vec<(AtomIdx, String)> = Vec::new();
    for followed in follow::follow(&module, &groups, of) {
        limits.extend(followed.limits);
        entered.extend(followed.entered);
        found.functions.extend(followed.functions);
        found.takes_registers.extend(followed.takes_registers);
        found.runs_unseen.extend(followed.runs_unseen);
    }
    let mut effects = Effects::new();
    for (i, atom) in module.atoms.iter().enumerate() {
        let left = atom.kind == AtomKind::Code && division.understood.binary_search(&atom.section).is_err();
        let number = AtomIdx::new(i);
        if left && atom.size > 0 && module.may_run(number) {
            if module.may_take_registers(number, &mut effects) {
                found.takes_registers.push(number);
            }
            if module.may_call_kernel(number, &mut effects) {
                found.runs_unseen.push(number);
            }
            module.give_up(&[number], "its section is not understood as functions", limits);
        }
    }
    entered.extend(of.goes_on.iter().map(|atom| (*atom, "it may go on in the next section".to_owned())));
    entered.sort_unstable();
    entered.dedup_by_key(|of| of.0);
    let why =
        |atom: &AtomIdx| entered.binary_search_by_key(atom, |of| of.0).ok().and_then(|at| entered.get(at));
    found.functions.retain(|f| {
        let given_up = std::iter::once(&f.atom).chain(&f.parts).find_map(why);
        if let Some((atom, why)) = given_up {
            module.give_up(&[*atom], why, limits);
        }
        given_up.is_none()
    });
    found.functions.sort_by_key(|f| f.atom);
    module.find_mappings(division, &found.functions, limits);
    Ok(found)
}

impl FlowModule<'_, '_> {
    /// Fill in the data that constraints don't give: atoms, entries, and the references that are accounted for.
    fn complete(&self, unit: &Unit, of: References<'_>, summary: &mut FunctionSummary) {
        let main = unit.entries.first().map_or(AtomIdx(0), |e| e.0);
        summary.atom = main;
        summary.parts = unit.atoms.iter().copied().filter(|a| *a != main).collect();
        summary.entries = unit.entries.iter().map(|e| (e.0, e.1)).collect();
        let inside =
            |target: &Target| matches!(target, Target::Atom(a) if unit.atoms.binary_search(a).is_ok());
        let mut known: Vec<(u32, u64)> = Vec::new();
        for op in &unit.ops {
            if matches!(op.displacement, RelocatedOperand::Place(..) | RelocatedOperand::Got(_))
                || matches!(op.immediate, RelocatedOperand::Place(..))
            {
                let own = self.relas_of(op.section, op.offset, op.end);
                known.extend(own.iter().map(|(s, r)| (*s, r.r_offset.get(LE))));
            }
        }
        for atom in unit.atoms.iter().filter_map(|a| self.atoms.get(a.index())) {
            let from = of.resolved.partition_point(|r| (r.section, r.field) < (atom.section, atom.offset));
            let end = (atom.section, atom.offset.saturating_add(atom.size));
            let own = of.resolved.iter().skip(from).take_while(|r| (r.section, r.field) < end);
            known.extend(own.map(|r| (r.section, r.field)));
        }
        // Tables of its own lead to its own labels.
        for range in of.owned.iter().filter(|o| unit.atoms.binary_search(&o.owner).is_ok()) {
            let Some(section) = self.atoms.get(range.atom.index()).map(|a| a.section) else { continue };
            for atom in &unit.atoms {
                let start = of.references.partition_point(|r| r.from < *atom);
                let own = of.references.get(start..).unwrap_or(&[]).iter().take_while(|r| r.from == *atom);
                known.extend(
                    own.filter(|r| {
                        (range.start..range.end).contains(&r.offset)
                            && r.kind == ReferenceKind::Data
                            && inside(&r.target)
                    })
                    .map(|r| (section, r.offset)),
                );
            }
        }
        known.sort_unstable();
        known.dedup();
        summary.covered_references = known;
    }
}
