//! The depth of the stack in a function: an abstract interpretation of its control flow.
//!
//! A depth is the distance from the canonical frame address (CFA, the stack pointer before the call) down to the stack pointer, in bytes.
//! It is 8 at the first instruction, because of the return address. Each depth is an upper bound. Rows of unwind tables take part: they
//! decide where an unknown amount was added, and say that a call does not return if code behind it has another depth.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::stack_values::StackValue::{Constant, Loaded, Stack, Target, Unknown};
use super::stack_values::{RBP, RSP, StackState, StackValue, callee, number};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction as Decoded, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

/// The depth at the first instruction of a function.
const ENTRY_DEPTH: i64 = 8;

/// A depth that rises more often than this at one place rises without end.
const RISES: u32 = 16;

/// The bytes below the stack pointer that a function may use (psABI 3.2.2).
const RED_ZONE: i64 = 128;

/// The most rounds of probing loops, and the most instructions, that are interpreted for one function.
const ROUNDS: u32 = 1 << 16;
const INSTRUCTIONS: usize = 1 << 22;

/// The numbers in instructions of the registers that a callee may change (psABI 3.2.1).
const VOLATILE: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

/// A row of an unwind table: the CFA is `offset` above a register, which has this number in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CfaRow {
    pub register: u8,
    pub offset: i64,
}

/// The file that a function is in.
pub trait StackCode {
    /// The bytes from an address to the end of its section of code; empty elsewhere.
    fn code(&self, address: u64) -> &[u8];
    /// The row that covers an address, if its rule for the CFA is a register and an offset.
    fn row(&self, address: u64) -> Option<CfaRow>;
    /// A number of so many bytes, with its sign, in data that does not change.
    fn constant(&self, address: u64, size: usize) -> Option<i64>;
    /// Whether a function begins at an address.
    fn is_function(&self, address: u64) -> bool;
    /// Whether a call never comes back.
    fn is_final(&self, callee: StackCallee) -> bool;
}

/// The callee of a call or of a jump to another function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackCallee {
    Address(u64),
    /// The function whose address is in memory at this address.
    Slot(u64),
    Unknown,
}

/// A call or a tail call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSite {
    /// The distance from the caller's CFA to that of the callee.
    pub depth: i64,
    pub callee: StackCallee,
    /// The first three arguments, where they are constants.
    pub arguments: [Option<u64>; 3],
}

/// The stack of one function, without its callees.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FunctionStack {
    /// The largest depth of the stack pointer.
    pub frame: i64,
    /// The largest depth of the stack pointer or of memory that is used below it.
    pub deepest: i64,
    /// Calls and tail calls by their addresses.
    pub sites: BTreeMap<u64, StackSite>,
    /// The first instruction that moves the stack pointer by an unknown amount.
    pub dynamic: Option<u64>,
    /// The first address with bytes that are no instruction.
    pub undecoded: Option<u64>,
    /// Instructions for which the unwind row and the control flow give different depths.
    pub disagreements: BTreeSet<u64>,
    /// Functions whose address the code takes.
    pub taken: BTreeSet<u64>,
}

/// The stack of the function at `range`; its end may be that of its section. `parts` are other ranges that belong to it. With
/// `has_landing_pads` exceptions lead to code that no instruction does.
pub fn function_stack(
    file: &dyn StackCode,
    range: Range<u64>,
    parts: &[Range<u64>],
    has_landing_pads: bool,
) -> FunctionStack {
    let found = walk(file, &range, parts, has_landing_pads, RISES);
    match found.dynamic {
        // Rounds of a loop that moves the stack pointer are no depth that is known.
        Some(_) => FunctionStack { dynamic: found.dynamic, ..walk(file, &range, parts, has_landing_pads, 0) },
        None => found,
    }
}

fn walk(
    file: &dyn StackCode,
    range: &Range<u64>,
    parts: &[Range<u64>],
    has_landing_pads: bool,
    most_rises: u32,
) -> FunctionStack {
    let mut walk = StackWalk {
        file,
        range: range.clone(),
        most_rises,
        found: FunctionStack::default(),
        starts: BTreeMap::new(),
        work: Vec::new(),
        visited: BTreeSet::new(),
        has_landing_pads,
        rounds: 0,
        inner: None,
        inner_jumps: Vec::new(),
        info: InstructionInfoFactory::new(),
    };
    let state = StackState::at_entry(ENTRY_DEPTH);
    walk.reach(range.start, &state, false);
    walk.run();
    walk.unreached(parts);
    walk.found
}

struct StackWalk<'f> {
    file: &'f dyn StackCode,
    range: Range<u64>,
    /// How often a depth may rise at one place.
    most_rises: u32,
    found: FunctionStack,
    /// The state and the number of its rises at each address that a jump leads to.
    starts: BTreeMap<u64, (StackState, u32)>,
    work: Vec<u64>,
    visited: BTreeSet<u64>,
    has_landing_pads: bool,
    /// Rounds of probing loops so far.
    rounds: u32,
    /// The join of the states at jumps through tables and, with landing pads, at calls.
    inner: Option<StackState>,
    /// Jumps with unknown targets inside of the function.
    inner_jumps: Vec<(u64, StackSite)>,
    info: InstructionInfoFactory,
}

impl StackWalk<'_> {
    /// A jump leads to an address. `is_bounded`: a comparison bounds how deep it gets.
    fn reach(&mut self, address: u64, state: &StackState, is_bounded: bool) {
        match self.starts.get_mut(&address) {
            None => {
                self.starts.insert(address, (state.clone(), 0));
                self.work.push(address);
            }
            Some((old, rises)) => {
                let joined = old.join(state, is_bounded || *rises < self.most_rises);
                if joined != *old {
                    *old = joined;
                    *rises += u32::from(!is_bounded);
                    self.work.push(address);
                }
            }
        }
    }

    fn run(&mut self) {
        while let Some(start) = self.work.pop() {
            let Some((state, _)) = self.starts.get(&start) else { continue };
            let state = state.clone();
            self.block(start, state);
        }
    }

    /// Give code of the function that no direct jump leads to the joined state of all places that may lead there.
    fn unreached(&mut self, parts: &[Range<u64>]) {
        let mut leaders: Vec<u64> = Vec::new();
        let ranges: Vec<Range<u64>> =
            std::iter::once(self.range.clone()).chain(parts.iter().cloned()).collect();
        while let Some(inner) = self.inner.clone() {
            for range in &ranges {
                let mut at = range.start;
                while at < range.end {
                    let Some(decoded) = self.decode(at) else { break };
                    let is_padding =
                        matches!(decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2);
                    if !self.visited.contains(&at) && !is_padding {
                        leaders.push(at);
                        self.lead(at, inner.clone());
                    }
                    at = decoded.next_ip();
                }
            }
            // A jump in that code may be deeper.
            if self.inner.as_ref() == Some(&inner) {
                break;
            }
            let deeper = self.inner.clone().unwrap_or(inner);
            leaders.iter().for_each(|at| self.lead(*at, deeper.clone()));
        }
        if leaders.is_empty() {
            for (address, site) in std::mem::take(&mut self.inner_jumps) {
                self.site(address, site);
            }
        }
    }

    /// Interpret code in a state that its unwind row, if it has one, knows better.
    fn lead(&mut self, address: u64, mut state: StackState) {
        if let Some(row) = self.file.row(address) {
            state.set(usize::from(row.register), Stack { depth: row.offset, dynamic: false });
        }
        self.reach(address, &state, false);
        self.run();
    }

    fn decode(&self, address: u64) -> Option<Decoded> {
        let decoded = Decoder::with_ip(64, self.file.code(address), address, DecoderOptions::NONE).decode();
        (!decoded.is_invalid()).then_some(decoded)
    }

    /// Interpret instructions up to the first that does not lead on, or that is known as the target of a jump.
    fn block(&mut self, start: u64, mut state: StackState) {
        let (mut previous, mut address) = (start, start);
        loop {
            let is_end = address == self.range.end
                || !self.range.contains(&address) && self.file.is_function(address) && address != start;
            if is_end && state.is_behind_call {
                return;
            }
            let is_short = self.visited.len() < INSTRUCTIONS;
            let Some(decoded) = self.decode(address).filter(|_| is_short) else {
                let first = self.found.undecoded.get_or_insert(address);
                *first = (*first).min(address);
                return;
            };
            if !self.apply_row(address, &mut state) {
                return;
            }
            if address != start && self.starts.contains_key(&address) {
                return self.reach(address, &state, false);
            }
            let (depth, dynamic) = state.depth();
            if is_end && depth == ENTRY_DEPTH && self.file.is_function(address) {
                return self.tail(address, StackCallee::Address(address), &state);
            }
            self.visited.insert(address);
            self.deepen(depth);
            if dynamic {
                let first = self.found.dynamic.get_or_insert(previous);
                *first = (*first).min(previous);
            }
            self.memory(&decoded, &state);
            if !self.step(&decoded, &mut state) {
                return;
            }
            self.deepen(state.depth().0);
            (previous, address) = (address, decoded.next_ip());
        }
    }

    fn deepen(&mut self, depth: i64) {
        self.found.frame = self.found.frame.max(depth);
        self.found.deepest = self.found.deepest.max(depth);
    }

    /// Compare with the unwind row. False if the row shows that control does not come here.
    fn apply_row(&mut self, address: u64, state: &mut StackState) -> bool {
        let Some(row) = self.file.row(address) else { return true };
        let register = usize::from(row.register);
        match state.get(register) {
            Stack { depth, dynamic: false } if depth == row.offset => {}
            Stack { dynamic: false, .. } if state.is_behind_call => return false,
            Stack { depth, dynamic: false } => {
                self.found.disagreements.insert(address);
                state.set(register, Stack { depth: depth.max(row.offset), dynamic: false });
            }
            _ => state.set(register, Stack { depth: row.offset, dynamic: false }),
        }
        true
    }

    /// Memory below the stack pointer that an instruction uses or points to.
    fn memory(&mut self, decoded: &Decoded, state: &StackState) {
        let has_memory = (0..decoded.op_count()).any(|n| decoded.op_kind(n) == OpKind::Memory);
        let Some(base) = number(decoded.memory_base()).filter(|_| has_memory) else { return };
        let Stack { depth, dynamic: false } = state.get(base) else { return };
        let place = depth.saturating_sub(decoded.memory_displacement64() as i64);
        let (top, _) = state.depth();
        // An address further below is of a frame that is still to be made.
        if place > top && (place <= top + RED_ZONE || decoded.mnemonic() != Mnemonic::Lea) {
            let has_index = decoded.memory_index() != Register::None;
            self.found.deepest =
                self.found.deepest.max(if has_index { place.max(top + RED_ZONE) } else { place });
        }
    }

    /// The effect of an instruction. False if control does not go on behind it.
    fn step(&mut self, decoded: &Decoded, state: &mut StackState) -> bool {
        let compared = state.compared.take();
        let is_padding = decoded.mnemonic() == Mnemonic::Nop;
        state.is_behind_call &= is_padding;
        let near = matches!(decoded.op0_kind(), OpKind::NearBranch64);
        match decoded.flow_control() {
            FlowControl::Next if decoded.code() == Code::Hlt => false,
            FlowControl::Next => {
                self.compute(decoded, state);
                true
            }
            FlowControl::UnconditionalBranch => {
                self.jump(decoded, state);
                false
            }
            FlowControl::ConditionalBranch => self.conditional(decoded, state, compared),
            FlowControl::XbeginXabortXend => {
                if near {
                    self.jump(decoded, state);
                }
                self.compute(decoded, state);
                true
            }
            FlowControl::IndirectBranch => {
                self.indirect_jump(decoded, state);
                false
            }
            FlowControl::Call if near && self.is_pushed_address(decoded) => {
                let (depth, dynamic) = state.depth();
                state.set(RSP, Stack { depth: depth + 8, dynamic });
                true
            }
            FlowControl::Call if near => {
                self.call(decoded, StackCallee::Address(decoded.near_branch_target()), state)
            }
            FlowControl::IndirectCall => {
                let callee = callee(self.operand(decoded, state));
                self.call(decoded, callee, state)
            }
            FlowControl::Return | FlowControl::Exception => false,
            FlowControl::Interrupt if decoded.mnemonic() == Mnemonic::Int3 => false,
            FlowControl::Interrupt | FlowControl::Call => {
                self.compute(decoded, state);
                true
            }
        }
    }

    /// Whether a call only pushes its own address, as position-independent code of 32 bits did.
    fn is_pushed_address(&self, decoded: &Decoded) -> bool {
        let target = decoded.near_branch_target();
        target == decoded.next_ip() && !self.file.is_function(target)
    }

    /// A conditional jump. False if control does not go on behind it.
    fn conditional(&mut self, decoded: &Decoded, state: &mut StackState, compared: Option<i64>) -> bool {
        let (depth, dynamic) = state.depth();
        let is_loop = decoded.mnemonic() == Mnemonic::Jne && decoded.near_branch_target() <= decoded.ip();
        match compared.filter(|_| is_loop && !dynamic) {
            // The loop of a stack probe: it ends at this depth.
            Some(limit) if depth <= limit && self.rounds < ROUNDS => {
                self.rounds += 1;
                if depth < limit {
                    self.reach(decoded.near_branch_target(), state, true);
                }
                state.set(RSP, Stack { depth: limit, dynamic });
            }
            _ => self.jump(decoded, state),
        }
        true
    }

    fn jump(&mut self, decoded: &Decoded, state: &StackState) {
        let target = decoded.near_branch_target();
        let (depth, dynamic) = state.depth();
        let is_outside = !self.range.contains(&target) && self.file.is_function(target);
        match is_outside && (depth == ENTRY_DEPTH || dynamic) {
            true => self.tail(decoded.ip(), StackCallee::Address(target), state),
            false => self.reach(target, state, false),
        }
    }

    fn indirect_jump(&mut self, decoded: &Decoded, state: &StackState) {
        let value = self.operand(decoded, state);
        let (depth, _) = state.depth();
        let is_inside = match value {
            Target { table, base, size } => {
                let offset = if size == 0 { Some(0) } else { self.file.constant(table, size) };
                let first = offset.map(|n| base.wrapping_add_signed(n));
                depth != ENTRY_DEPTH || first.is_some_and(|target| self.range.contains(&target))
            }
            Loaded(_) => false,
            _ => depth != ENTRY_DEPTH,
        };
        if let Constant(target) = value {
            let is_outside = self.file.is_function(target) && !self.range.contains(&target);
            return match is_outside {
                true => self.tail(decoded.ip(), StackCallee::Address(target), state),
                false => self.reach(target, state, false),
            };
        }
        if !is_inside {
            return self.tail(decoded.ip(), callee(value), state);
        }
        self.lead_inside(state);
        let site =
            StackSite { depth: depth - ENTRY_DEPTH, callee: StackCallee::Unknown, arguments: [None; 3] };
        self.inner_jumps.push((decoded.ip(), site));
    }

    /// Control may go on at any place of the function that nothing else leads to.
    fn lead_inside(&mut self, state: &StackState) {
        let mut state = state.clone();
        (state.compared, state.is_behind_call) = (None, false);
        self.inner = Some(match &self.inner {
            Some(inner) => inner.join(&state, true),
            None => state,
        });
    }

    /// The content of the only operand of a call or jump.
    fn operand(&self, decoded: &Decoded, state: &StackState) -> StackValue {
        match decoded.op0_kind() {
            OpKind::Register => number(decoded.op0_register()).map_or(Unknown, |n| state.get(n)),
            OpKind::Memory => state.load(decoded),
            _ => Unknown,
        }
    }

    /// A call. False if it does not come back.
    fn call(&mut self, decoded: &Decoded, callee: StackCallee, state: &mut StackState) -> bool {
        let constant = |register: usize| match state.get(register) {
            Constant(value) => Some(value),
            _ => None,
        };
        let arguments = [7, 6, 2].map(constant);
        self.site(decoded.ip(), StackSite { depth: state.depth().0, callee, arguments });
        if self.has_landing_pads {
            self.lead_inside(state);
        }
        for register in VOLATILE {
            state.set(register, Unknown);
        }
        state.is_behind_call = true;
        !self.file.is_final(callee)
    }

    fn tail(&mut self, address: u64, callee: StackCallee, state: &StackState) {
        let depth = state.depth().0 - ENTRY_DEPTH;
        self.site(address, StackSite { depth, callee, arguments: [None; 3] });
    }

    fn site(&mut self, address: u64, site: StackSite) {
        let old = self.found.sites.entry(address).or_insert(site);
        old.depth = old.depth.max(site.depth);
        if old.callee != site.callee {
            old.callee = StackCallee::Unknown;
        }
    }

    /// The effect of an instruction that leads to the next one.
    fn compute(&mut self, decoded: &Decoded, state: &mut StackState) {
        let (depth, dynamic) = state.depth();
        let to = match decoded.op0_kind() {
            OpKind::Register => decoded.op0_register(),
            _ => Register::None,
        };
        let wide = number(to).filter(|_| to.is_gpr64());
        match decoded.mnemonic() {
            Mnemonic::Leave => {
                let value = match state.get(RBP) {
                    Stack { depth, dynamic } => Stack { depth: depth - 8, dynamic },
                    _ => Unknown,
                };
                state.set(RSP, value);
                return state.set(RBP, Unknown);
            }
            Mnemonic::Enter => {
                state.set(RBP, Stack { depth: depth + 8, dynamic });
                let by = i64::from(decoded.stack_pointer_increment());
                return state.set(RSP, Stack { depth: depth - by, dynamic });
            }
            _ => {}
        }
        let by = i64::from(decoded.stack_pointer_increment());
        if by != 0 {
            state.set(RSP, Stack { depth: depth - by, dynamic });
            if by > 0
                && let Some(to) = number(to)
            {
                state.set(to, Unknown);
            }
            return;
        }
        if decoded.mnemonic() == Mnemonic::Cmp {
            let pair = [decoded.op0_register(), decoded.op1_register()];
            let other = match pair {
                [Register::RSP, other] | [other, Register::RSP] => number(other).map(|n| state.get(n)),
                _ => None,
            };
            if let Some(Stack { depth, dynamic: false }) = other {
                state.compared = Some(depth);
            }
            return;
        }
        let value = state.value(decoded);
        if let (Constant(address), Mnemonic::Lea | Mnemonic::Mov) = (value, decoded.mnemonic())
            && self.file.is_function(address)
        {
            self.found.taken.insert(address);
        }
        let info = self.info.info(decoded);
        let writes = |a| {
            matches!(a, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
        };
        let written = info.used_registers().iter().filter(|r| writes(r.access()));
        for register in written.filter_map(|r| number(r.register())) {
            let is_result = wide == Some(register) || number(to) == Some(register) && to.is_gpr32();
            state.set(register, if is_result { value } else { Unknown });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code at an address, without unwind rows and other functions.
    struct CodeAlone(&'static [u8]);

    const START: u64 = 0x1000;

    impl StackCode for CodeAlone {
        fn code(&self, address: u64) -> &[u8] {
            let from = address.checked_sub(START).and_then(|n| usize::try_from(n).ok());
            from.and_then(|n| self.0.get(n..)).unwrap_or_default()
        }
        fn row(&self, _: u64) -> Option<CfaRow> {
            None
        }
        fn constant(&self, _: u64, _: usize) -> Option<i64> {
            None
        }
        fn is_function(&self, address: u64) -> bool {
            address == START
        }
        fn is_final(&self, _: StackCallee) -> bool {
            false
        }
    }

    fn stack(code: &'static [u8]) -> FunctionStack {
        function_stack(&CodeAlone(code), START..START + code.len() as u64, &[], false)
    }

    #[test]
    fn a_loop_that_pushes_has_no_bound() {
        // 1: push %rax; dec %rdi; jne 1b; ret
        let found = stack(&[0x50, 0x48, 0xff, 0xcf, 0x75, 0xfa, 0xc3]);
        assert_eq!((found.dynamic.is_some(), found.frame), (true, 16));
    }

    #[test]
    fn a_probing_loop_ends_at_its_limit() {
        // lea -0x4000(%rsp),%r11; 1: sub $0x1000,%rsp; cmp %r11,%rsp; jne 1b; add $0x4000,%rsp; ret
        let code = &[
            0x4c, 0x8d, 0x9c, 0x24, 0x00, 0xc0, 0xff, 0xff, 0x48, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00, 0x4c,
            0x39, 0xdc, 0x75, 0xf4, 0x48, 0x81, 0xc4, 0x00, 0x40, 0x00, 0x00, 0xc3,
        ];
        let found = stack(code);
        assert_eq!((found.dynamic, found.frame, found.undecoded), (None, 0x4008, None));
    }

    #[test]
    fn bytes_that_are_no_instruction_are_named() {
        assert_eq!(stack(&[0x90, 0x06]).undecoded, Some(START + 1));
    }
}
