//! Noreturn inference: no return instruction is reachable in a function. Functions that it jumps to, or calls at its end, count too.

use std::collections::BTreeSet;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction as Decoded, Mnemonic, OpKind, Register,
};

use super::stack::{StackCallee, StackCode};

/// Whether no path from a function's entry reaches a return instruction. False if that is unknown.
pub fn never_returns(file: &dyn StackCode, address: u64) -> bool {
    let mut seen = BTreeSet::from([address]);
    let mut work = vec![address];
    while let Some(at) = work.pop() {
        let range = file.extent(at);
        let code = file.code(range.start);
        let size = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let code = code.get(..size).unwrap_or(code);
        let mut last: Option<Decoded> = None;
        for decoded in &mut Decoder::with_ip(64, code, range.start, DecoderOptions::NONE) {
            if decoded.is_invalid() || decoded.flow_control() == FlowControl::Return {
                return false;
            }
            if is_jump(&decoded) && !range.contains(&decoded.near_branch_target()) {
                if !leads(file, &decoded, &mut seen, &mut work) {
                    return false;
                }
            } else if decoded.flow_control() == FlowControl::IndirectBranch
                && !leads(file, &decoded, &mut seen, &mut work)
            {
                return false;
            }
            if !matches!(decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                last = Some(decoded);
            }
        }
        let ends = last.is_some_and(|last| match last.flow_control() {
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Exception => true,
            FlowControl::Call | FlowControl::IndirectCall => leads(file, &last, &mut seen, &mut work),
            _ => last.code() == Code::Hlt,
        });
        if !ends {
            return false;
        }
    }
    true
}

fn is_jump(decoded: &Decoded) -> bool {
    decoded.op0_kind() == OpKind::NearBranch64 && decoded.flow_control() != FlowControl::Call
}

/// Add the target of a jump or call to the work. False if it may return or is unknown.
fn leads(file: &dyn StackCode, decoded: &Decoded, seen: &mut BTreeSet<u64>, work: &mut Vec<u64>) -> bool {
    if decoded.op0_kind() == OpKind::NearBranch64 {
        let target = decoded.near_branch_target();
        if !file.extent(target).is_empty() {
            if seen.insert(target) {
                work.push(target);
            }
            return true;
        }
        return file.is_final(StackCallee::Address(target));
    }
    let is_slot = decoded.op0_kind() == OpKind::Memory && decoded.memory_base() == Register::RIP;
    is_slot && file.is_final(StackCallee::Slot(decoded.ip_rel_memory_address()))
}
