//! Intraprocedural analysis of all functions of a module, in pieces that are independent of each other.
//!
//! A piece is a number of functions in the order of their atoms. The concatenated results of the pieces are the same for every number of
//! threads and every schedule. A finding of one function about another ([`FollowedPiece::entered`]) is applied after all pieces.

use std::sync::OnceLock;

use super::module::{FlowModule, References};
use super::unit::{CALLERS_RAX, CALLERS_REGISTER, Unit};
use super::walk;
use crate::ids::AtomIdx;
use crate::limit::LimitRecord;
use crate::native::decode;
use crate::native::decode::effects::{Effects, InstructionEffect};
use crate::relation::FunctionSummary;

/// Functions of a piece: enough that handing it out costs nothing, and few enough that there are pieces for all.
const PIECE: usize = 16;

/// The result of the analysis of a piece of the module's functions.
#[derive(Default)]
pub(super) struct FollowedPiece {
    pub(super) functions: Vec<FunctionSummary>,
    /// Functions without a summary that may take arguments in registers that no calling convention uses.
    pub(super) takes_registers: Vec<AtomIdx>,
    /// Functions that make system calls by instructions, or may do so.
    pub(super) runs_unseen: Vec<AtomIdx>,
    /// Other functions that cannot be analysed, and the reason for each.
    pub(super) entered: Vec<(AtomIdx, String)>,
    pub(super) limits: Vec<LimitRecord>,
}

/// Analyse all functions, each with its parts. The result is by piece.
pub(super) fn follow(
    module: &FlowModule<'_, '_>,
    groups: &[Vec<AtomIdx>],
    of: References<'_>,
) -> Vec<FollowedPiece> {
    let pieces: Vec<&[Vec<AtomIdx>]> = groups.chunks(PIECE).collect();
    let followed: Vec<OnceLock<FollowedPiece>> = pieces.iter().map(|_| OnceLock::new()).collect();
    (of.parallel_map)(pieces.len(), &|number| {
        if let (Some(groups), Some(slot)) = (pieces.get(number), followed.get(number)) {
            slot.get_or_init(|| piece(module, of, groups));
        }
    });
    let all = followed.into_iter().zip(pieces);
    all.map(|(done, groups)| done.into_inner().unwrap_or_else(|| piece(module, of, groups))).collect()
}

fn piece(module: &FlowModule<'_, '_>, of: References<'_>, groups: &[Vec<AtomIdx>]) -> FollowedPiece {
    let mut effects = Effects::new();
    let mut found = FollowedPiece::default();
    for group in groups {
        let unit = Unit::read(module, group.clone(), &mut effects);
        let outcome = unit.and_then(|unit| {
            if group.iter().any(|atom| module.outlined.binary_search(atom).is_ok()) {
                return Err("it was taken out of functions".to_owned());
            }
            let walked = walk::walk(module, &unit);
            for (target, offset) in walked.entered_in_frame {
                if let Some((atom, _)) = module.local(target, offset) {
                    found.entered.push((atom, "another function jumps into it with its frame".to_owned()));
                }
            }
            let summary = walked.summary?;
            Ok((unit, summary))
        });
        match outcome {
            Ok((unit, mut summary)) => {
                module.complete(&unit, of, &mut summary);
                if unit.ops.iter().any(|op| op.effect == InstructionEffect::System) {
                    found.runs_unseen.push(summary.atom);
                }
                found.functions.push(summary);
            }
            Err(refusal) => {
                module.give_up(group, &refusal, &mut found.limits);
                let takes = match refusal.starts_with(CALLERS_REGISTER) && !refusal.starts_with(CALLERS_RAX) {
                    true => !group.iter().any(|a| module.saves_context(*a, &mut effects)),
                    false => group.iter().any(|a| module.may_take_registers(*a, &mut effects)),
                };
                if takes {
                    found.takes_registers.extend(group);
                }
                found.runs_unseen.extend(group.iter().filter(|a| module.may_call_kernel(**a, &mut effects)));
            }
        }
    }
    found
}

impl FlowModule<'_, '_> {
    /// Whether code without a summary makes system calls by instructions; a breakpoint does not count.
    pub(super) fn may_call_kernel(&self, atom: AtomIdx, effects: &mut Effects) -> bool {
        const BREAKPOINT: &[u8] = &[0xcc];
        let Some((_, _, bytes)) = self.code(atom) else { return true };
        let mut instructions = Vec::new();
        let is_decoded = decode::decode(bytes, 0, &mut instructions).is_ok();
        let own = |i: &decode::Instruction| {
            let at = i.offset as usize;
            bytes.get(at..at + usize::from(i.len)).unwrap_or(&[])
        };
        let mut calls = |i| effects.effect(own(i), 0) == InstructionEffect::System && own(i) != BREAKPOINT;
        !is_decoded || instructions.iter().any(&mut calls)
    }
}
