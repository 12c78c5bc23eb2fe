//! Which sections of an object stay, and the numbers that they get.
//!
//! Decides nothing by itself: a section stays or goes as the plan says of its atom, and what is no atom follows
//! (a relocation section its target, a group its members, tables always stay). Safe because every tie that the
//! gABI puts between sections is checked here: a section that is ordered after a dropped one, or that stays
//! although its group is replaced by another module's, is an error.
//!
//! Left out: atoms that are parts of a section. The plan of such a section must agree on all its parts.

use object::elf;
use summaries::{Atom, ModuleSummary};

use super::input::{Input, LE, Role};
use crate::error::{Error, Result, Stage};
use crate::plan::{Action, ModulePlan};

/// What happens to each section of the input.
#[derive(Debug)]
pub(super) struct Fates {
    /// By old section index.
    kept: Vec<bool>,
}

/// The new numbers of the sections that stay.
#[derive(Debug)]
pub(super) struct Numbering {
    /// By old section index; 0 for a section that goes (and for entry 0).
    new: Vec<u32>,
    /// Old indices, in the new order. Entry 0 is the null section.
    pub(super) order: Vec<u32>,
}

impl Fates {
    /// Apply the plan to the sections.
    pub(super) fn decide(input: &Input<'_>, summary: &ModuleSummary, plan: &ModulePlan) -> Result<Self> {
        if plan.atoms.len() != summary.atoms.len() {
            return Err(Error::new(Stage::Emit, "the plan is not of this module: its atoms differ"));
        }
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
                    return Err(input.about(index, "only a part of the section is dropped"));
                }
                _ => *slot = Some(*action),
            }
            if *action == Action::Drop && input.role(index) != Role::Content {
                return Err(input.about(index, "a table is planned to be dropped"));
            }
        }
        let kept = by_atom.iter().map(|a| *a != Some(Action::Drop)).collect();
        let mut fates = Fates { kept };
        fates.replace_groups(input, plan, &by_atom)?;
        for index in 1..input.sections.len() {
            if input.role(index) == Role::Relocations {
                let target = input.section(index)?.sh_info.get(LE) as usize;
                input.section(target)?;
                let stays = fates.keeps(target);
                fates.set(index, stays && fates.keeps(index));
            }
        }
        fates.empty_groups(input)?;
        fates.check_order(input)?;
        Ok(fates)
    }

    /// Whether the section stays.
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
                if by_atom.get(member) == Some(&Some(Action::Keep)) {
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
    fn check_order(&self, input: &Input<'_>) -> Result<()> {
        for (index, section) in input.sections.iter().enumerate().skip(1) {
            let ordered = section.sh_flags.get(LE).0 & elf::SHF_LINK_ORDER.0 != 0;
            let target = section.sh_link.get(LE) as usize;
            if ordered && target != 0 && self.keeps(index) && !self.keeps(target) {
                return Err(input.about(index, "stays, but the section that it is ordered after goes"));
            }
        }
        Ok(())
    }

    /// Number the sections that stay, in their old order.
    pub(super) fn number(&self) -> Numbering {
        let mut new = vec![0; self.kept.len()];
        let mut order = Vec::with_capacity(self.kept.len());
        for (old, slot) in new.iter_mut().enumerate() {
            if old == 0 || self.keeps(old) {
                *slot = order.len() as u32;
                order.push(old as u32);
            }
        }
        Numbering { new, order }
    }
}

impl Numbering {
    /// The new index of an old section; `None` if it goes.
    pub(super) fn of(&self, old: u32) -> Option<u32> {
        match self.new.get(old as usize) {
            Some(0) if old != 0 => None,
            other => other.copied(),
        }
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
