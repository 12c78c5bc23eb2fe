//! Whether a function may continue in the next one behind a last call: a forward dataflow analysis of the stack
//! depth.
//!
//! The psABI (3.2.2) aligns the stack for a call, so a calling function has a saved register or room on its stack. If
//! the call returned, the next function would begin with that on top of the stack, and return to it. So control ends
//! at the call if its depth is known and not 0, and the next function returns from its entry and never pops below it.
//! Assembly with several entries fails one of these conditions.
//!
//! Code without a branch to it is entered by an indirect jump, with the stack of that jump. Behind a computed stack
//! pointer (`and $-16, %rsp`) the depth is unknown.

use super::text::{Function, Text};
use crate::native::decode::{self, Flow, Instruction, StackChange, Step, Steps};
use crate::registers::RBP;

/// The bytes on the stack above the return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Depth {
    /// The bytes on the stack since the entry; `None` if unknown.
    now: Option<i64>,
    /// The depth that the frame pointer points to, if known.
    frame: Option<i64>,
}

/// Whether control ends at the last call of a function.
pub(super) fn ends(text: &Text<'_>, function: usize) -> bool {
    let (Some(own), Some(next)) = (text.functions.get(function), text.functions.get(function + 1)) else {
        return true;
    };
    let last = depths(text, own).last().copied().flatten();
    last.and_then(|depth| depth.now).is_some_and(|now| now > 0) && returns(text, next)
}

/// Whether the return address is on top of the stack at the last instruction of a function. Then no compiler has
/// aligned the stack for a call.
pub(super) fn is_on_top(text: &Text<'_>, function: &Function) -> bool {
    depths(text, function).last().copied().flatten().is_some_and(|depth| depth.now == Some(0))
}

/// Whether a function returns only from its entry depth, and never pops below it.
fn returns(text: &Text<'_>, function: &Function) -> bool {
    let own = text.instructions_of(function);
    let depths = depths(text, function);
    let reached = || own.iter().zip(&depths).filter_map(|(i, depth)| Some((i, (*depth)?)));
    let mut returns = reached().filter(|(i, _)| {
        i.flow == Flow::Stop && matches!(bytes(text, i), [0xc3] | [0xf3, 0xc3] | [0xc2, ..])
    });
    let below = reached().any(|(_, depth)| depth.now.is_none_or(|now| now < 0));
    !below
        && returns.next().is_some_and(|(_, depth)| depth.now == Some(0))
        && returns.all(|(_, d)| d.now == Some(0))
}

fn bytes<'a>(text: &Text<'a>, instruction: &Instruction) -> &'a [u8] {
    text.bytes.get(instruction.offset as usize..instruction.end() as usize).unwrap_or(&[])
}

/// The depth before each instruction of a function; `None` for padding.
fn depths(text: &Text<'_>, function: &Function) -> Vec<Option<Depth>> {
    let own = text.instructions_of(function);
    let mut depths: Vec<Option<Depth>> = vec![None; own.len()];
    let mut steps = Steps::new();
    let mut work = vec![(0, Depth { now: Some(0), frame: None })];
    // The joined depth of all indirect jumps, and the next instruction to check for being reached.
    let (mut at_jumps, mut next) = (None, 0);
    loop {
        while let Some((at, depth)) = work.pop() {
            let (Some(slot), Some(instruction)) = (depths.get_mut(at), own.get(at)) else { continue };
            let joined = slot.map_or(depth, |old| old.join(depth));
            if *slot == Some(joined) {
                continue;
            }
            *slot = Some(joined);
            let bytes = bytes(text, instruction);
            let after = joined.after(decode::stack_change(bytes), steps.step(bytes));
            match instruction.flow {
                Flow::JumpRegister | Flow::JumpMemory => {
                    at_jumps = Some(at_jumps.map_or(after, |jumps: Depth| jumps.join(after)));
                }
                Flow::Jump | Flow::Stop => {}
                Flow::Next | Flow::Conditional | Flow::Call | Flow::IndirectCall => {
                    work.push((at + 1, after))
                }
            }
            if matches!(instruction.flow, Flow::Jump | Flow::Conditional) {
                let target = instruction.target().and_then(|t| u64::try_from(t).ok());
                let to = target.and_then(|t| own.binary_search_by_key(&t, |i| u64::from(i.offset)).ok());
                work.extend(to.map(|to| (to, after)));
            }
        }
        let is_padding = |i: &Instruction| decode::is_padding(bytes(text, i));
        while depths.get(next).is_some_and(Option::is_some) || own.get(next).is_some_and(is_padding) {
            next += 1;
        }
        if next >= own.len() {
            return depths;
        }
        work.push((next, at_jumps.unwrap_or(Depth { now: None, frame: None })));
    }
}

impl Depth {
    fn join(self, other: Depth) -> Depth {
        let keep = |a: Option<i64>, b: Option<i64>| a.filter(|_| a == b);
        Depth { now: keep(self.now, other.now), frame: keep(self.frame, other.frame) }
    }

    fn after(self, change: StackChange, step: Step) -> Depth {
        let kept = self.frame.filter(|_| matches!(step, Step::Call { .. }) || !step.may_write(RBP));
        match change {
            StackChange::By(n) => Depth { now: self.now.and_then(|now| now.checked_sub(n)), frame: kept },
            StackChange::Frame => Depth { now: self.now, frame: self.now },
            StackChange::Leave => Depth { now: self.frame.and_then(|f| f.checked_sub(8)), frame: None },
            StackChange::Unknown => Depth { now: None, frame: kept },
        }
    }
}
