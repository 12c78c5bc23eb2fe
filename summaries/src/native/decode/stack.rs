//! The depth of the stack in a function: an abstract interpretation of its control flow.
//!
//! A depth is the distance from the canonical frame address (CFA, the stack pointer before the call) down to the stack pointer, in bytes.
//! It is 8 at the first instruction, because of the return address. Each depth is an upper bound. If a row of an unwind table has
//! another depth than the code, the larger one counts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::stack_values::StackValue::{Chosen, Constant, Loaded, Stack, Target, Unknown};
use super::stack_values::{RBP, RSP, StackState, StackValue, callee, is_write, number};
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

/// The most rounds of probing loops that are interpreted for one function.
const ROUNDS: u32 = 1 << 16;

/// Instructions of a function are interpreted this often on average, and this many more. Code beyond that is not decoded.
const REPETITIONS: usize = 16;
const INSTRUCTIONS: usize = 1 << 16;

/// A range with at most this many bytes is interpreted completely. Without symbols and unwind tables many functions are in one range.
const SWEPT: u64 = 1 << 16;

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
    /// A signed number of `size` bytes in constant data.
    fn constant(&self, address: u64, size: usize) -> Option<i64>;
    /// Whether a function begins at an address.
    fn is_function(&self, address: u64) -> bool;
    /// The code of the function that an address is in, or an empty range.
    fn extent(&self, address: u64) -> Range<u64>;
    /// Whether a call of this callee never returns.
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
    /// Addresses of code that are constants in the function.
    pub taken: BTreeSet<u64>,
    /// The function may return another value than one of these addresses.
    pub is_result_unknown: bool,
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
        steps: 0,
        has_landing_pads,
        rounds: 0,
        inner: None,
        inner_rises: 0,
        parts: parts.iter().map(|p| (p.start, p.end)).collect(),
        info: InstructionInfoFactory::new(),
    };
    let state = StackState::at_entry(ENTRY_DEPTH);
    walk.reach(range.start, &state, false);
    walk.run();
    walk.unreached();
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
    /// How many instructions were interpreted, repetitions included.
    steps: usize,
    has_landing_pads: bool,
    /// Rounds of probing loops so far.
    rounds: u32,
    /// The join of the states at jumps through tables and, with landing pads, at calls.
    inner: Option<StackState>,
    inner_rises: u32,
    /// Other ranges that belong to the function, with their ends.
    parts: BTreeMap<u64, u64>,
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
    fn unreached(&mut self) {
        let mut leaders: BTreeSet<u64> = BTreeSet::new();
        let mut decoded_parts: BTreeSet<u64> = BTreeSet::new();
        while let Some(inner) = self.inner.clone() {
            leaders.iter().for_each(|at| self.lead(*at, inner.clone()));
            let parts = self.parts.iter().map(|(start, end)| *start..*end);
            let ranges: Vec<Range<u64>> = std::iter::once(self.range.clone()).chain(parts).collect();
            for range in ranges.into_iter().filter(|r| decoded_parts.insert(r.start)) {
                if range.end.saturating_sub(range.start) > SWEPT {
                    self.found.undecoded.get_or_insert(range.start);
                    continue;
                }
                let mut at = range.start;
                while at < range.end {
                    let Some(decoded) = self.decode(at) else { break };
                    let is_padding =
                        matches!(decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2);
                    if !self.visited.contains(&at) && !is_padding {
                        leaders.insert(at);
                        self.lead(at, inner.clone());
                    }
                    at = decoded.next_ip();
                }
            }
            // A jump in that code may be deeper, and may lead to other parts.
            if self.inner.as_ref() == Some(&inner) && self.parts.keys().all(|p| decoded_parts.contains(p)) {
                break;
            }
        }
    }

    /// Interpret code in a state that its unwind row, if it has one, knows better.
    fn lead(&mut self, address: u64, mut state: StackState) {
        if let Some(row) = self.file.row(address) {
            let register = usize::from(row.register);
            if register != RSP || !state.depth().1 {
                state.set(register, Stack { depth: row.offset, dynamic: false });
            }
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
            if is_end && state.behind.is_some_and(|callee| self.is_last(callee, address, &state)) {
                return;
            }
            self.steps += 1;
            let is_short = self.steps < INSTRUCTIONS + REPETITIONS * self.visited.len();
            let Some(decoded) = self.decode(address).filter(|_| is_short) else {
                let first = self.found.undecoded.get_or_insert(address);
                *first = (*first).min(address);
                return;
            };
            self.apply_row(address, &mut state);
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

    /// Whether a call at the end of a function does not return. A compiler generates no code after such a call, and its frame is aligned.
    fn is_last(&self, callee: StackCallee, address: u64, state: &StackState) -> bool {
        let is_known = matches!(callee, StackCallee::Address(at) if !self.file.extent(at).is_empty());
        !(is_known || state.depth().0 == ENTRY_DEPTH && self.file.is_function(address))
    }

    /// Compare with the unwind row. In a function that moves the stack pointer by an unknown amount, rows on the stack pointer may be stale.
    fn apply_row(&mut self, address: u64, state: &mut StackState) {
        let Some(row) = self.file.row(address) else { return };
        let register = usize::from(row.register);
        match state.get(register) {
            Stack { depth, dynamic: false } if depth == row.offset => state.is_doubtful &= register != RSP,
            Stack { depth, dynamic: false } => {
                self.found.disagreements.insert(address);
                state.is_doubtful |= register == RSP && (state.behind.is_some() || depth < row.offset);
                state.set(register, Stack { depth: depth.max(row.offset), dynamic: false });
            }
            _ if register == RSP => {}
            _ => state.set(register, Stack { depth: row.offset, dynamic: false }),
        }
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

    /// Apply an instruction. False if control does not continue after it.
    fn step(&mut self, decoded: &Decoded, state: &mut StackState) -> bool {
        let compared = state.compared.take();
        if !matches!(decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            state.behind = None;
        }
        self.note_store(decoded, state);
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
            FlowControl::Return => {
                self.leave(decoded, state);
                false
            }
            FlowControl::Exception => false,
            FlowControl::Interrupt | FlowControl::Call => {
                self.compute(decoded, state);
                true
            }
        }
    }

    /// Remember that an instruction writes to the slot of the return address.
    fn note_store(&mut self, decoded: &Decoded, state: &mut StackState) {
        let (depth, dynamic) = state.depth();
        if !dynamic && depth <= 0 && depth.saturating_sub(decoded.stack_pointer_increment().into()) > 0 {
            state.is_return_written |= decoded.flow_control() == FlowControl::Next;
        }
        let has_index = decoded.memory_index() != Register::None;
        let Some(base) = number(decoded.memory_base()).filter(|_| !has_index) else { return };
        let Stack { depth, dynamic: false } = state.get(base) else { return };
        let place = depth.saturating_sub(decoded.memory_displacement64() as i64);
        let memory = self.info.info(decoded).used_memory().first().map(|m| (m.access(), m.memory_size()));
        let Some((access, size)) = memory.filter(|(access, _)| is_write(*access)) else { return };
        let end = place.saturating_sub(size.size() as i64);
        state.is_return_written |= access != OpAccess::None && place > 0 && end < ENTRY_DEPTH;
    }

    /// A return instruction: an indirect jump if the address on the stack is not that of the caller.
    fn leave(&mut self, decoded: &Decoded, state: &StackState) {
        let (depth, dynamic) = state.depth();
        let is_return = depth == ENTRY_DEPTH || dynamic || state.is_doubtful;
        if !is_return || state.is_return_written {
            return self.tail(decoded.ip(), StackCallee::Unknown, state);
        }
        match state.result() {
            Constant(address) if !self.file.code(address).is_empty() => {
                self.found.taken.insert(address);
            }
            Chosen => {}
            _ => self.found.is_result_unknown = true,
        }
    }

    /// Whether a call only pushes its own address, as position-independent code of 32 bits did.
    fn is_pushed_address(&self, decoded: &Decoded) -> bool {
        let target = decoded.near_branch_target();
        target == decoded.next_ip() && !self.file.is_function(target)
    }

    /// Apply a conditional jump. False if control does not continue after it.
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
            false => self.follow(decoded.ip(), target, state),
        }
    }

    fn is_own(&self, address: u64) -> bool {
        let part = self.parts.range(..=address).next_back();
        self.range.contains(&address) || part.is_some_and(|(_, end)| address < *end)
    }

    /// A jump to an address of the function, which may be in a part of it.
    fn follow(&mut self, from: u64, target: u64, state: &StackState) {
        if self.is_own(from) && !self.range.contains(&target) {
            let part = self.file.extent(target);
            self.parts.entry(part.start).or_insert(part.end);
        }
        self.reach(target, state, false);
    }

    /// Whether the first element of a table of jump targets is in the function, and no function begins there.
    fn is_switch(&self, table: u64, base: u64, size: usize) -> bool {
        let first = self.file.constant(table, size).map(|n| base.wrapping_add_signed(n));
        first.is_some_and(|target| self.is_own(target) && !self.file.is_function(target))
    }

    fn indirect_jump(&mut self, decoded: &Decoded, state: &StackState) {
        let value = self.operand(decoded, state);
        let (depth, _) = state.depth();
        if let Constant(target) = value {
            let is_outside = self.file.is_function(target) && !self.range.contains(&target);
            return match is_outside {
                true => self.tail(decoded.ip(), StackCallee::Address(target), state),
                false => self.follow(decoded.ip(), target, state),
            };
        }
        let is_switch = matches!(value, Target { table, base, size } if self.is_switch(table, base, size));
        if is_switch || depth != ENTRY_DEPTH && !matches!(value, Loaded(_)) {
            self.lead_inside(state);
        }
        if !is_switch {
            self.tail(decoded.ip(), callee(value), state);
        }
    }

    /// Record that control may reach any code of the function without another predecessor.
    fn lead_inside(&mut self, state: &StackState) {
        let mut state = state.clone();
        (state.compared, state.behind) = (None, None);
        let Some(inner) = &self.inner else {
            self.inner = Some(state);
            return;
        };
        let mut joined = inner.join(&state, self.inner_rises < RISES);
        joined.is_doubtful |= inner.depth() != state.depth();
        self.inner_rises += u32::from(joined.depth().0 > inner.depth().0);
        self.inner = Some(joined);
    }

    /// The content of the only operand of a call or jump.
    fn operand(&self, decoded: &Decoded, state: &StackState) -> StackValue {
        match decoded.op0_kind() {
            OpKind::Register => number(decoded.op0_register()).map_or(Unknown, |n| state.get(n)),
            OpKind::Memory => state.load(decoded),
            _ => Unknown,
        }
    }

    /// Apply a call. False if it does not return.
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
        state.behind = Some(callee);
        !self.file.is_final(callee)
    }

    fn tail(&mut self, address: u64, callee: StackCallee, state: &StackState) {
        let depth = state.depth().0 - ENTRY_DEPTH;
        self.found.is_result_unknown = true;
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
        if let Constant(address) = value
            && !self.file.code(address).is_empty()
        {
            self.found.taken.insert(address);
        }
        let info = self.info.info(decoded);
        let written = info.used_registers().iter().filter(|r| is_write(r.access()));
        for register in written.filter_map(|r| number(r.register())) {
            let is_result = wide == Some(register) || number(to) == Some(register) && to.is_gpr32();
            state.set(register, if is_result { value } else { Unknown });
        }
    }
}
