//! Which sections of an object stay, and the numbers that they get.
//!
//! Decides nothing by itself: a section stays or goes as the plan says of its atom, and what is no atom follows
//! (a relocation section its target, a group its members, tables always stay). Safe because every tie that the
//! gABI puts between sections is checked here: a section that is ordered after a dropped one, or that stays
//! although its group is replaced by another module's, is an error.
//!
//! A section of which only a part stays becomes several, one after the other in its place ([`parts`](super::parts)); so
//! do its relocations. What is tied to such a section as a whole is an error.

use summaries::{Atom, ModuleSummary};

use super::input::{Input, LE, Role};
use super::parts::SplitSections;
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan};

/// What happens to each section of the input.
#[derive(Debug)]
pub(super) struct SectionDisposition {
    /// By section index of the input: it stays, whole or in parts.
    kept: Vec<bool>,
}

/// A section of the output, in old numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// A section that is emitted as it was in the input.
    Whole(u32),
    /// A run of a divided section.
    Part {
        section: u32,
        run: u32,
    },
    /// The entries of a relocation section that are of this run of its target.
    Relocations {
        section: u32,
        run: u32,
    },
    /// Relocations of a run of a section that had none.
    NewRelocations {
        target: u32,
        run: u32,
    },
    /// The table of the stubs of this object.
    Stubs,
    StubRelocations,
    /// The address-significance table of an object that has none.
    Addrsig,
}

impl Slot {
    /// The section of the input that this is, or is part of; for new relocations, their target; 0 for what is of no section of the input.
    pub(super) fn old(self) -> u32 {
        match self {
            Slot::Whole(section) | Slot::Part { section, .. } | Slot::Relocations { section, .. } => section,
            Slot::NewRelocations { target, .. } => target,
            Slot::Stubs | Slot::StubRelocations | Slot::Addrsig => 0,
        }
    }
}

/// Which runs of divided sections have relocations, as emission found them.
#[derive(Debug, Default)]
pub(super) struct PartRelocations {
    /// The relocation sections of parts, as (old relocation section, run), sorted.
    pub(super) old: Vec<(u32, u32)>,
    /// (old target section, run) without relocation section in the input, sorted.
    pub(super) new: Vec<(u32, u32)>,
}

/// The new numbers of the sections that stay.
#[derive(Debug)]
pub(super) struct SectionNumbering {
    /// By old section index: the first section of the output that is of it; 0 for one that goes (and for entry 0).
    new: Vec<u32>,
    /// In the new order; what is of one old section is together, its runs first. Entry 0 is the null section.
    pub(super) order: Vec<Slot>,
}

impl SectionDisposition {
    /// Apply the plan to the sections.
    pub(super) fn decide(
        input: &Input<'_>,
        summary: &ModuleSummary,
        plan: &ModulePlan,
        parts: &SplitSections<'_>,
    ) -> Result<Self> {
        let mut by_atom: Vec<Option<Action>> = vec![None; input.sections.len()];
        for (atom, action) in summary.atoms.iter().zip(&plan.atoms) {
            if atom.section == Atom::NO_SECTION {
                continue;
            }
            let index = atom.section as usize;
            let slot = by_atom.get_mut(index).ok_or_else(|| {
                Error::new(Stage::Emit, format!("an atom is of section {index}, not there"))
            })?;
            match slot {
                Some(other) if other != action => {
                    if parts.of(atom.section).is_none() {
                        return Err(input.about(index, "only a part of the section is dropped"));
                    }
                    *slot = Some(Action::Keep);
                }
                _ => *slot = Some(*action),
            }
            if *action == Action::Drop && input.role(index) != Role::Content {
                return Err(input.about(index, "a table is planned to be dropped"));
            }
        }
        let kept = by_atom.iter().map(|a| *a != Some(Action::Drop)).collect();
        let mut dispositions = SectionDisposition { kept };
        dispositions.replace_groups(input, plan, &by_atom)?;
        for index in 1..input.sections.len() {
            if input.role(index) == Role::Relocations {
                let target = input.section(index)?.sh_info.get(LE) as usize;
                input.section(target)?;
                let stays = dispositions.keeps(target);
                dispositions.set(index, stays && dispositions.keeps(index));
            }
        }
        dispositions.empty_groups(input)?;
        dispositions.check_order(input, summary, plan, parts)?;
        Ok(dispositions)
    }

    /// Whether the section stays, whole or in parts.
    pub(super) fn keeps(&self, section: usize) -> bool {
        self.kept.get(section).copied().unwrap_or(false)
    }

    /// Let a section go that is found empty later.
    pub(super) fn drop(&mut self, section: usize) {
        self.set(section, false);
    }

    fn set(&mut self, section: usize, kept: bool) {
        if let Some(slot) = self.kept.get_mut(section) {
            *slot = kept;
        }
    }

    /// Groups that another module's replaces go with all their members.
    fn replace_groups(
        &mut self,
        input: &Input<'_>,
        plan: &ModulePlan,
        by_atom: &[Option<Action>],
    ) -> Result<()> {
        for &group in &plan.discarded_groups {
            let group = group as usize;
            if input.role(group) != Role::Group {
                return Err(input.about(group, "planned as a replaced group, and is none"));
            }
            for member in group_members(input, group)? {
                if matches!(by_atom.get(member), Some(Some(Action::Keep | Action::Stub))) {
                    return Err(input.about(member, "planned to stay in a group that is replaced"));
                }
                self.set(member, false);
            }
            self.set(group, false);
        }
        Ok(())
    }

    /// A group whose members all went goes too.
    fn empty_groups(&mut self, input: &Input<'_>) -> Result<()> {
        for index in 1..input.sections.len() {
            if input.role(index) == Role::Group && self.keeps(index) {
                let members = group_members(input, index)?;
                if !members.is_empty() && !members.iter().any(|m| self.keeps(*m)) {
                    self.set(index, false);
                }
            }
        }
        Ok(())
    }

    /// `SHF_LINK_ORDER`: what is ordered after a section does not outlive it (gABI, "Sections").
    fn check_order(
        &self,
        input: &Input<'_>,
        summary: &ModuleSummary,
        plan: &ModulePlan,
        parts: &SplitSections<'_>,
    ) -> Result<()> {
        for (atom, action) in summary.atoms.iter().zip(&plan.atoms) {
            let Some(target) = atom.link_order.filter(|_| *action != Action::Drop) else { continue };
            let index = atom.section as usize;
            let (after, _) = parts.atom(target)?;
            if !self.keeps(index) {
                continue;
            }
            if parts.atom(target)?.1 == Action::Drop || !self.keeps(after.section as usize) {
                return Err(input.about(index, "stays, but the section that it is ordered after goes"));
            }
            if parts.of(atom.section).is_none() && parts.run_of(target).is_some() {
                return Err(input.about(index, "is ordered after a section of which only a part stays"));
            }
        }
        Ok(())
    }

    /// Number the sections that stay, in their old order.
    pub(super) fn number(
        &self,
        input: &Input<'_>,
        parts: &SplitSections<'_>,
        relocations: &PartRelocations,
    ) -> SectionNumbering {
        let runs_of = |table: &[(u32, u32)], old: u32| -> Vec<u32> {
            let start = table.partition_point(|(section, _)| *section < old);
            table.iter().skip(start).take_while(|(section, _)| *section == old).map(|(_, run)| *run).collect()
        };
        let mut new = vec![0; self.kept.len()];
        let mut order = Vec::with_capacity(self.kept.len());
        for (old, slot) in new.iter_mut().enumerate() {
            if old != 0 && !self.keeps(old) {
                continue;
            }
            *slot = order.len() as u32;
            let section = old as u32;
            let target = match (input.role(old), input.sections.get(old)) {
                (Role::Relocations, Some(header)) => parts.of(header.sh_info.get(LE)),
                _ => None,
            };
            if let Some(divided) = parts.of(section) {
                let runs = 0..divided.runs.len() as u32;
                order.extend(runs.map(|run| Slot::Part { section, run }));
                let fresh = runs_of(&relocations.new, section).into_iter();
                order.extend(fresh.map(|run| Slot::NewRelocations { target: section, run }));
            } else if target.is_some() {
                let runs = runs_of(&relocations.old, section).into_iter();
                order.extend(runs.map(|run| Slot::Relocations { section, run }));
            } else {
                order.push(Slot::Whole(section));
            }
        }
        if parts.has_stubs() {
            order.extend([Slot::Stubs, Slot::StubRelocations]);
        }
        if parts.addresses().is_some() {
            order.push(Slot::Addrsig);
        }
        SectionNumbering { new, order }
    }
}

impl SectionNumbering {
    /// The new index of an old section, of the first one where it is several; `None` if it goes.
    pub(super) fn of(&self, old: u32) -> Option<u32> {
        match self.new.get(old as usize) {
            Some(0) if old != 0 => None,
            other => other.copied(),
        }
    }

    /// The new index of a run of a divided section.
    pub(super) fn part(&self, section: u32, run: u32) -> Option<u32> {
        let index = self.of(section)?.checked_add(run)?;
        (self.order.get(index as usize) == Some(&Slot::Part { section, run })).then_some(index)
    }

    /// The new indices of everything that is of an old section.
    pub(super) fn all_of(&self, old: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.of(old).unwrap_or(0);
        let slots = self.order.get(first as usize..).unwrap_or(&[]);
        let count = slots.iter().take_while(|s| s.old() == old).count();
        first..first + count as u32
    }
}

/// The old indices of a group's members, in the order in which it lists them.
pub(super) fn group_members(input: &Input<'_>, group: usize) -> Result<Vec<usize>> {
    let words: &[object::U32<object::LittleEndian>] = input.table(group)?;
    let mut members = Vec::with_capacity(words.len());
    for word in words.iter().skip(1) {
        let member = word.get(LE) as usize;
        input.section(member)?;
        members.push(member);
    }
    Ok(members)
}
