//! The sections of an object: which are kept, and their new numbers.
//!
//! A section is kept or dropped with its atom, a relocation section with its target, and a group with its members. Other
//! tables are kept. The ties between sections (gABI) are checked: emission fails for a kept section that is ordered after a
//! dropped one, or whose group another module's group replaces.
//!
//! The parts of a divided section ([`parts`](super::parts)) take its place, and so do their relocation sections.

use summaries::{Atom, ModuleSummary};

use super::input::{Input, LE, Role};
use super::parts::SplitSections;
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan};

/// The fate of each section of the input.
#[derive(Debug)]
pub(super) struct SectionDisposition {
    /// By section index of the input: whether it is kept, as a whole or in parts.
    kept: Vec<bool>,
}

/// A section of the output, in old numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// A section that is not divided.
    Whole(u32),
    /// A part of a divided section.
    Part {
        section: u32,
        part: u32,
    },
    /// The entries of a relocation section for one part of its target.
    Relocations {
        section: u32,
        part: u32,
    },
    /// Relocations of a part whose section has no relocation section.
    NewRelocations {
        target: u32,
        part: u32,
    },
    Stubs,
    StubRelocations,
    Addrsig,
}

impl Slot {
    /// The section of the input; for new relocations their target, and 0 for other new sections.
    pub(super) fn old(self) -> u32 {
        match self {
            Slot::Whole(section) | Slot::Part { section, .. } | Slot::Relocations { section, .. } => section,
            Slot::NewRelocations { target, .. } => target,
            Slot::Stubs | Slot::StubRelocations | Slot::Addrsig => 0,
        }
    }
}

/// The parts of divided sections that have relocations.
#[derive(Debug, Default)]
pub(super) struct PartRelocations {
    /// The kept entries, by old relocation section and part, sorted.
    pub(super) old: Vec<(u32, u32)>,
    /// Parts without a relocation section in the input, by old target section and part, sorted.
    pub(super) new: Vec<(u32, u32)>,
}

/// The new numbers of the kept sections.
#[derive(Debug)]
pub(super) struct SectionNumbering {
    /// By old section index: its first section of the output; 0 for a dropped one, and for entry 0.
    new: Vec<u32>,
    /// The sections of the output. The parts of a section come first, then its relocation sections. Entry 0 is the
    /// null section.
    pub(super) order: Vec<Slot>,
}

impl SectionDisposition {
    /// Apply the plan to the sections.
    pub(super) fn decide(
        input: &Input<'_>,
        summary: &ModuleSummary,
        plan: &ModulePlan,
        split: &SplitSections<'_>,
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
                    if split.of(atom.section).is_none() {
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
        dispositions.check_order(input, summary, plan, split)?;
        Ok(dispositions)
    }

    /// Whether the section is kept, as a whole or in parts.
    pub(super) fn keeps(&self, section: usize) -> bool {
        self.kept.get(section).copied().unwrap_or(false)
    }

    /// Drop a section that is found empty later.
    pub(super) fn drop(&mut self, section: usize) {
        self.set(section, false);
    }

    fn set(&mut self, section: usize, kept: bool) {
        if let Some(slot) = self.kept.get_mut(section) {
            *slot = kept;
        }
    }

    /// Drop the groups that another module's group replaces, with all their members.
    fn replace_groups(
        &mut self,
        input: &Input<'_>,
        plan: &ModulePlan,
        by_atom: &[Option<Action>],
    ) -> Result<()> {
        for &group in &plan.discarded_groups {
            let group = group as usize;
            if input.role(group) != Role::Group {
                return Err(input.about(group, "planned as a replaced group, and is no group"));
            }
            for member in group_members(input, group)? {
                if matches!(by_atom.get(member), Some(Some(Action::Keep | Action::Stub))) {
                    return Err(input.about(member, "planned to be kept in a group that is replaced"));
                }
                self.set(member, false);
            }
            self.set(group, false);
        }
        Ok(())
    }

    /// Drop the groups whose members are all dropped.
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

    /// Check `SHF_LINK_ORDER`: a section is dropped with the one that it is ordered after (gABI, "Sections").
    fn check_order(
        &self,
        input: &Input<'_>,
        summary: &ModuleSummary,
        plan: &ModulePlan,
        split: &SplitSections<'_>,
    ) -> Result<()> {
        for (atom, action) in summary.atoms.iter().zip(&plan.atoms) {
            let Some(target) = atom.link_order.filter(|_| *action != Action::Drop) else { continue };
            let index = atom.section as usize;
            let (after, _) = split.atom(target)?;
            if !self.keeps(index) {
                continue;
            }
            if split.atom(target)?.1 == Action::Drop || !self.keeps(after.section as usize) {
                return Err(
                    input.about(index, "is kept, but the section that it is ordered after is dropped")
                );
            }
            if split.of(atom.section).is_none() && split.part_of(target).is_some() {
                return Err(input.about(index, "is ordered after a divided section"));
            }
        }
        Ok(())
    }

    /// Number the kept sections, in their old order.
    pub(super) fn number(
        &self,
        input: &Input<'_>,
        split: &SplitSections<'_>,
        relocations: &PartRelocations,
    ) -> SectionNumbering {
        let parts_of = |table: &[(u32, u32)], old: u32| -> Vec<u32> {
            let start = table.partition_point(|(section, _)| *section < old);
            table
                .iter()
                .skip(start)
                .take_while(|(section, _)| *section == old)
                .map(|(_, part)| *part)
                .collect()
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
                (Role::Relocations, Some(header)) => split.of(header.sh_info.get(LE)),
                _ => None,
            };
            if let Some(divided) = split.of(section) {
                let parts = 0..divided.parts.len() as u32;
                order.extend(parts.map(|part| Slot::Part { section, part }));
                let fresh = parts_of(&relocations.new, section).into_iter();
                order.extend(fresh.map(|part| Slot::NewRelocations { target: section, part }));
            } else if target.is_some() {
                let parts = parts_of(&relocations.old, section).into_iter();
                order.extend(parts.map(|part| Slot::Relocations { section, part }));
            } else {
                order.push(Slot::Whole(section));
            }
        }
        if split.has_stubs() {
            order.extend([Slot::Stubs, Slot::StubRelocations]);
        }
        if split.plan.addresses.is_some() {
            order.push(Slot::Addrsig);
        }
        SectionNumbering { new, order }
    }
}

impl SectionNumbering {
    /// The new index of an old section or of its first part; `None` if it is dropped.
    pub(super) fn of(&self, old: u32) -> Option<u32> {
        match self.new.get(old as usize) {
            Some(0) if old != 0 => None,
            other => other.copied(),
        }
    }

    /// The new index of a part.
    pub(super) fn part(&self, section: u32, part: u32) -> Option<u32> {
        let index = self.of(section)?.checked_add(part)?;
        (self.order.get(index as usize) == Some(&Slot::Part { section, part })).then_some(index)
    }

    /// The new indices of an old section, its parts and their relocation sections.
    pub(super) fn all_of(&self, old: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.of(old).unwrap_or(0);
        let slots = self.order.get(first as usize..).unwrap_or(&[]);
        let count = slots.iter().take_while(|s| s.old() == old).count();
        first..first + count as u32
    }
}

/// The old indices of a group's members, in its order.
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
