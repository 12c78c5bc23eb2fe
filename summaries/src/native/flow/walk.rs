//! Abstract interpretation of one function: sparse reaching values of registers to a fixpoint, then the constraints.
//!
//! The value of a register at a block's start is computed on demand from the predecessors. The algorithm is that of Braun et al., "Simple
//! and efficient construction of static single assignment form", CC 2013. If the predecessors' values differ, a new value stands for their
//! union. Jumps and fall-through enter a block. Every indirect jump also enters a label, and so does every call if the label's address is
//! a value (`__builtin_longjmp`). The unwinder enters landing pads from every call, and from covered instructions that may fault. Three
//! blocks without instructions stand for these edges. A function with code that no edge enters is not analysed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::builder::{ConstraintBuilder, ValueKey};
use super::calls::not_to_the_caller;
use super::computed_labels::OwnPlace;
use super::module::FlowModule;
use super::state::{PathFacts, SlotValue};
use super::unit::{Destination, FlowResult, Op, Unit};
use crate::cfl::reduce;
use crate::ids::ValueIdx;
use crate::native::decode::effects::{InstructionEffect, RegisterId, SLOTS};
use crate::registers::{
    self, CONVENTIONAL, PRESERVABLE, R8, RAX, RBP, RCX, RDX, RSP, XMM0, XMM1, XMM2, XMM3,
};
use crate::relation::FunctionSummary;
use crate::summary::Target;

/// The maximum number of visits per block on average before the analysis of the function fails. Code of compilers needs only a few.
const MOST_VISITS_PER_BLOCK: usize = 64;

/// Registers that carry a result (psABI 3.2.3). They are rax and rdx for the class INTEGER, xmm0 and xmm1 for SSE. clang returns large
/// vectors in rcx, xmm2 and xmm3 too; `swiftcall` returns four values in rax, rdx, rcx and r8. A vector register holds an address if a
/// program keeps the address's bytes in a vector or in a floating-point number.
pub(super) const RESULTS: [RegisterId; 8] = [RAX, RCX, RDX, R8, XMM0, XMM1, XMM2, XMM3];

/// The successors of a block, except the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockExit {
    /// Control leads to the next instruction only.
    Falls,
    /// Control leads to this instruction and, if the flag is set, to the next one.
    To(usize, bool),
    /// Control leads to any label of the function.
    Labels,
    /// Control leads nowhere in the function.
    Ends,
}

/// The summary of a function, and the targets of its jumps with the frame in place.
pub(super) struct WalkOutcome {
    pub(super) summary: FlowResult<FunctionSummary>,
    pub(super) entered_in_frame: Vec<(Target, i64)>,
}

pub(super) fn walk(module: &FlowModule<'_, '_>, unit: &Unit) -> WalkOutcome {
    let mut builder = ConstraintBuilder::default();
    builder.frame_escapes = module.executes_stack;
    let walked = Walk::new(module, unit, &mut builder).run();
    let entered_in_frame = std::mem::take(&mut builder.entered_in_frame);
    let summary = walked.and_then(|(indirect_entry_values, predecessors)| {
        if builder.leaves_its_stack() {
            return Err("a return or jump that may be on another stack".to_owned());
        }
        let own_place = |target, offset| match module.place_of_target(target, offset) {
            Some((atom, _)) if unit.atoms.binary_search(&atom).is_ok() => OwnPlace::Code,
            Some((atom, offset)) if unit.is_label(atom, offset) => OwnPlace::JumpTable,
            _ => OwnPlace::Other,
        };
        if builder.jumps_to_computed_labels(!unit.labels.is_empty(), own_place) {
            return Err("a jump to a computed label".to_owned());
        }
        builder.forget_jumps_to_labels(|target, offset| {
            let place = module.place_of_target(target, offset);
            place.is_some_and(|(atom, offset)| unit.is_label(atom, offset))
        })?;
        let mut addressed = builder.take_addressed();
        let mut summary = builder.finish(&indirect_entry_values, &predecessors);
        // Another function of the unit may preserve a register that this one clobbers.
        if unit.entries.len() > 1 {
            summary.preserved = PRESERVABLE;
        }
        summary = reduce(&summary);
        // Each address that the code forms is in a constraint, or in this table.
        let named: BTreeSet<Target> = summary.named().collect();
        addressed.retain(|target| !named.contains(target));
        addressed.sort_unstable();
        addressed.dedup();
        summary.address_taken_only = addressed;
        Ok(summary)
    });
    WalkOutcome { summary, entered_in_frame }
}

/// No join of this register and block is needed.
const NO_JOIN: u32 = u32::MAX;

/// The content of a register at the start of a block.
struct Join {
    block: usize,
    slot: RegisterId,
    value: SlotValue,
    /// The value that stands for the union of different ones.
    own: Option<ValueIdx>,
    /// An instruction of the block reads it.
    is_read: bool,
    /// It is among the changed joins.
    is_changed: bool,
}

struct BlockState {
    is_reached: bool,
    is_queued: bool,
    /// Callers of the function enter at this block.
    is_entry: bool,
    /// It is an entry, a label or the target of a jump.
    is_target: bool,
    /// It is a label whose address is a value.
    is_value: bool,
    /// It is one instruction that may fault.
    throws: bool,
    /// It ends in a call, and control continues after it.
    returns: bool,
    start: PathFacts,
    end: PathFacts,
    predecessors: Vec<u32>,
    successors: Vec<u32>,
    /// The registers that the block writes, a bit each.
    written: u64,
}

pub(super) struct Walk<'u, 'm, 'a, 't> {
    pub(super) unit: &'u Unit,
    pub(super) module: &'m FlowModule<'a, 't>,
    pub(super) builder: &'u mut ConstraintBuilder,
    blocks: Vec<BlockState>,
    /// By instruction: the block that begins there.
    block_of: Vec<Option<u32>>,
    joins: Vec<Join>,
    /// By block and register: the join, or [`NO_JOIN`].
    join_of: Vec<u32>,
    /// By block and register: the value at the end of the block, if the block writes the register.
    at_end: Vec<SlotValue>,
    /// New joins, whose values are to be computed from the predecessors.
    new_joins: Vec<u32>,
    /// Joins whose values changed; the blocks behind theirs may not know.
    changed: Vec<u32>,
    /// The first block first: most blocks come behind those that lead there.
    queue: BinaryHeap<Reverse<usize>>,
    /// Call blocks that precede blocks with other predecessors too. They are taken only when the queue is empty: the callee may never
    /// return, and then the next block has another frame.
    deferred: Vec<usize>,
    /// A deferred call was taken to a block without other predecessors.
    has_guessed: bool,
    indirect_entry_values: Vec<ValueIdx>,
    /// The block that is walked, its registers, and which of these are known.
    pub(super) block: usize,
    current: [SlotValue; SLOTS],
    known: u64,
    written: u64,
    pub(super) facts: PathFacts,
    /// Something was pushed before the last call that the unwinder takes off the stack.
    pub(super) pushed_at_call: bool,
}

impl<'u, 'm, 'a, 't> Walk<'u, 'm, 'a, 't> {
    fn new(module: &'m FlowModule<'a, 't>, unit: &'u Unit, builder: &'u mut ConstraintBuilder) -> Self {
        let count = unit.blocks.len() + 3;
        let mut block_of = vec![None; unit.ops.len()];
        for (i, block) in (0u32..).zip(&unit.blocks) {
            if let Some(slot) = block_of.get_mut(block.start) {
                *slot = Some(i);
            }
        }
        let block = || BlockState {
            is_reached: false,
            is_queued: false,
            is_entry: false,
            is_target: false,
            is_value: false,
            throws: false,
            returns: false,
            start: PathFacts::UNREACHED,
            end: PathFacts::UNREACHED,
            predecessors: Vec::new(),
            successors: Vec::new(),
            written: 0,
        };
        Walk {
            unit,
            module,
            builder,
            blocks: (0..count).map(|_| block()).collect(),
            block_of,
            joins: Vec::new(),
            join_of: vec![NO_JOIN; count * SLOTS],
            at_end: vec![SlotValue::Undefined; count * SLOTS],
            new_joins: Vec::new(),
            changed: Vec::new(),
            queue: BinaryHeap::new(),
            deferred: Vec::new(),
            has_guessed: false,
            indirect_entry_values: Vec::new(),
            block: 0,
            current: [SlotValue::Undefined; SLOTS],
            known: 0,
            written: 0,
            facts: PathFacts::UNREACHED,
            pushed_at_call: false,
        }
    }

    /// The block for the states after calls, where the unwinder and long jumps start.
    fn behind_calls(&self) -> usize {
        self.unit.blocks.len()
    }

    /// The block that stands for the states at jumps to labels.
    fn at_labels(&self) -> usize {
        self.unit.blocks.len() + 1
    }

    /// The block for the edges from the unwinder to landing pads.
    fn unwinder(&self) -> usize {
        self.unit.blocks.len() + 2
    }

    fn block_at(&self, op: usize) -> Option<usize> {
        self.block_of.get(op).copied().flatten().map(|b| b as usize)
    }

    /// Runs to the fixpoint and records the constraints: the values at labels that other functions may enter, and the predecessors of each block.
    fn run(mut self) -> FlowResult<(Vec<ValueIdx>, Vec<Vec<u32>>)> {
        self.mark_blocks();
        for entry in &self.unit.entries {
            if let Some(block) = self.block_at(entry.2) {
                self.reach(block, &PathFacts::ENTRY);
                if self.blocks[block].throws {
                    let hub = self.behind_calls();
                    self.blocks[hub].is_entry = true;
                    self.reach(hub, &PathFacts::ENTRY);
                }
            }
        }
        let mut visits = 0;
        loop {
            while let Some(block) = self.next_block() {
                visits += 1;
                if visits > MOST_VISITS_PER_BLOCK * self.blocks.len() + 1024 {
                    return Err("the states don't settle".to_owned());
                }
                self.visit(block)?;
            }
            if self.follow_deferred()? {
                continue;
            }
            if !std::mem::take(&mut self.builder.grew) {
                break;
            }
            (0..self.unit.blocks.len()).for_each(|block| self.queue(block));
        }
        if self.has_unseen_code() {
            return Err("code that nothing is seen to lead to".to_owned());
        }
        self.builder.recording = true;
        let unwinder = self.unwinder();
        if self.blocks[unwinder].is_reached {
            self.unwind(unwinder);
        }
        for block in 0..self.unit.blocks.len() {
            if self.blocks[block].is_reached {
                self.walk_block(block)?;
            }
        }
        for join in 0..self.joins.len() {
            self.record_join(join)?;
        }
        // A value that changes now is not in the constraints of the blocks before.
        if self.next_block().is_some() {
            return Err("the states don't settle".to_owned());
        }
        if let Some(at) = self.builder.return_at.filter(|_| self.builder.moves_return) {
            return Err(not_to_the_caller(at));
        }
        let predecessors = self.blocks.into_iter().map(|block| block.predecessors).collect();
        Ok((self.indirect_entry_values, predecessors))
    }

    /// The first block to walk again. A new edge may have changed values that a block reads, and nothing else.
    fn next_block(&mut self) -> Option<usize> {
        self.settle();
        let Reverse(block) = self.queue.pop()?;
        self.blocks[block].is_queued = false;
        Some(block)
    }

    fn mark_blocks(&mut self) {
        let (unit, module) = (self.unit, self.module);
        let jumps = unit.ops.iter().filter(|op| op.effect == InstructionEffect::Jump);
        let targets = jumps.filter_map(|op| match unit.destination(module, op) {
            Ok(Destination::Inner(to)) => Some(to),
            _ => None,
        });
        let entries = unit.entries.iter().map(|e| e.2);
        let labels = unit.labels.iter().map(|l| l.0);
        for op in targets.chain(labels).chain(entries.clone()).chain(unit.pads.iter().copied()) {
            if let Some(block) = self.block_at(op) {
                self.blocks[block].is_target = true;
            }
        }
        for op in entries {
            if let Some(block) = self.block_at(op) {
                self.blocks[block].is_entry = true;
            }
        }
        for (op, is_value) in &unit.labels {
            if let Some(block) = self.block_at(*op).filter(|_| *is_value) {
                self.blocks[block].is_value = true;
                self.blocks[block].start = PathFacts::LABEL;
            }
        }
        let throws = |block: usize| {
            let first = unit.blocks.get(block).and_then(|b| unit.ops.get(b.start));
            first.is_some_and(|op| op.throws)
        };
        (0..unit.blocks.len()).for_each(|block| self.blocks[block].throws = throws(block));
    }

    /// The current content of a register in the block that is walked.
    pub(super) fn get(&mut self, slot: RegisterId) -> SlotValue {
        if !registers::has(self.known, slot) {
            self.known |= 1 << slot;
            self.current[usize::from(slot)] = self.at_start(self.block, slot);
        }
        self.current[usize::from(slot)]
    }

    pub(super) fn set(&mut self, slot: RegisterId, value: SlotValue) {
        self.current[usize::from(slot)] = value;
        self.known |= 1 << slot;
        self.written |= 1 << slot;
        self.facts.set(slot, value);
    }

    /// The content of a register at the start of a block.
    fn at_start(&mut self, block: usize, slot: RegisterId) -> SlotValue {
        let join = self.join_at_start(block, slot);
        self.settle();
        // Blocks are queued again for later changes alone.
        self.joins[join].is_read = true;
        self.joins[join].value
    }

    /// The content of a register at the end of a block.
    fn at_end(&mut self, block: usize, slot: RegisterId) -> SlotValue {
        match registers::has(self.blocks[block].written, slot) {
            true => self.at_end[block * SLOTS + usize::from(slot)],
            false => self.at_start(block, slot),
        }
    }

    fn join_at_start(&mut self, block: usize, slot: RegisterId) -> usize {
        let at = block * SLOTS + usize::from(slot);
        if self.join_of[at] == NO_JOIN {
            self.join_of[at] = self.joins.len() as u32;
            let is_any = self.blocks[block].is_value && !matches!(slot, RSP | RBP);
            let own = is_any.then(|| self.builder.fresh());
            self.indirect_entry_values.extend(own);
            let value = own.map_or(SlotValue::Undefined, |own| SlotValue::Node(own, 0));
            self.new_joins.push(self.joins.len() as u32);
            self.joins.push(Join { block, slot, value, own, is_read: false, is_changed: false });
        }
        self.join_of[at] as usize
    }

    /// Computes new joins, and the joins that depend on changed ones.
    fn settle(&mut self) {
        loop {
            if let Some(number) = self.new_joins.pop() {
                let Join { block, slot, .. } = self.joins[number as usize];
                if self.blocks[block].is_entry {
                    let value = self.entry_value(slot);
                    self.add_to_join(number, value);
                }
                for i in 0..self.blocks[block].predecessors.len() {
                    let value = self.predecessor_value(self.blocks[block].predecessors[i] as usize, slot);
                    self.add_to_join(number, value);
                }
            } else if let Some(number) = self.changed.pop() {
                let join = &mut self.joins[number as usize];
                join.is_changed = false;
                let (block, slot, value) = (join.block, join.slot, join.value);
                if !registers::has(self.blocks[block].written, slot) {
                    self.add_to_successors(block, slot, value);
                }
            } else {
                return;
            }
        }
    }

    /// Joins a value to the content of a register at the start of a block.
    fn add_to_join(&mut self, number: u32, new: SlotValue) {
        let join = &mut self.joins[number as usize];
        let value = join.value.join(new).unwrap_or_else(|| {
            let own = *join.own.get_or_insert_with(|| self.builder.fresh());
            SlotValue::Node(own, 0)
        });
        if std::mem::replace(&mut join.value, value) == value {
            return;
        }
        if !std::mem::replace(&mut join.is_changed, true) {
            self.changed.push(number);
        }
        let (block, is_read) = (join.block, join.is_read);
        if is_read {
            self.queue(block);
        }
    }

    fn add_to_successors(&mut self, block: usize, slot: RegisterId, value: SlotValue) {
        for i in 0..self.blocks[block].successors.len() {
            let successor = self.blocks[block].successors[i] as usize;
            let number = self.join_of[successor * SLOTS + usize::from(slot)];
            if number != NO_JOIN {
                self.add_to_join(number, value);
            }
        }
    }

    /// The content of a register at the end of a block, as far as it is computed yet.
    fn predecessor_value(&mut self, block: usize, slot: RegisterId) -> SlotValue {
        if registers::has(self.blocks[block].written, slot) {
            return self.at_end[block * SLOTS + usize::from(slot)];
        }
        let join = self.join_at_start(block, slot);
        self.joins[join].value
    }

    /// The content of a register at an entry for callers. A register in which the psABI passes nothing holds the caller's value. The
    /// function does not use that value (psABI 3.2.1 and 3.2.3). rax passes only the number of vector registers.
    fn entry_value(&mut self, slot: RegisterId) -> SlotValue {
        match slot {
            RSP => SlotValue::Frame(0),
            slot if registers::has(CONVENTIONAL, slot) => {
                SlotValue::Node(self.builder.value(ValueKey::Parameter(slot)), 0)
            }
            slot => SlotValue::Saved(slot),
        }
    }

    fn queue(&mut self, block: usize) {
        let state = &mut self.blocks[block];
        if state.is_reached && !std::mem::replace(&mut state.is_queued, true) {
            self.queue.push(Reverse(block));
        }
    }

    /// Control may come to a block.
    fn reach(&mut self, block: usize, facts: &PathFacts) {
        let state = &mut self.blocks[block];
        let is_first = !std::mem::replace(&mut state.is_reached, true);
        if state.start.join(facts) || is_first {
            self.queue(block);
        }
    }

    /// Control may come to a block from the end of another one.
    fn enter(&mut self, from: usize, to: usize, facts: &PathFacts) {
        if !self.blocks[from].successors.contains(&(to as u32)) {
            self.blocks[from].successors.push(to as u32);
            self.blocks[to].predecessors.push(from as u32);
            for slot in 0..SLOTS as RegisterId {
                let number = self.join_of[to * SLOTS + usize::from(slot)];
                if number != NO_JOIN {
                    let value = self.predecessor_value(from, slot);
                    self.add_to_join(number, value);
                }
            }
        }
        self.reach(to, facts);
        if self.blocks[to].throws {
            let hub = self.behind_calls();
            self.enter(from, hub, facts);
        }
    }

    fn enter_at(&mut self, from: usize, op: usize, facts: &PathFacts) {
        if let Some(block) = self.block_at(op) {
            self.enter(from, block, facts);
        }
    }

    fn visit(&mut self, block: usize) -> FlowResult<()> {
        let unit = self.unit;
        if block == self.behind_calls() {
            let facts = PathFacts { pushed: false, ..self.blocks[block].start.behind_guess() };
            for (op, _) in unit.labels.iter().filter(|label| label.1) {
                self.enter_at(block, *op, &facts);
            }
            if !unit.pads.is_empty() {
                let unwinder = self.unwinder();
                self.enter(block, unwinder, &facts);
                // The stack may have changed while the facts of the paths are the same.
                self.queue(unwinder);
            }
        } else if block == self.at_labels() {
            let facts = self.blocks[block].start;
            for (op, _) in &unit.labels {
                self.enter_at(block, *op, &facts);
            }
        } else if block == self.unwinder() {
            self.unwind(block);
        } else {
            let exit = self.walk_block(block)?;
            self.leave(block, exit);
        }
        Ok(())
    }

    /// The state at landing pads: that behind a call, with the exception in rax and its selector in rdx. The stack pointer is that of the call,
    /// less what was pushed for it.
    fn unwind(&mut self, block: usize) {
        self.begin(block);
        let exception = SlotValue::Node(self.builder.unknown(), 0);
        self.set(RAX, exception);
        self.set(RDX, exception);
        let pushes = self.blocks[self.behind_calls()].start.pushed;
        if pushes || !matches!(self.get(RSP), SlotValue::Frame(_)) {
            let anywhere = self.builder.somewhere_in_frame();
            self.set(RSP, SlotValue::Node(anywhere, 0));
        }
        self.end(block);
        let facts = self.facts;
        for op in &self.unit.pads {
            self.enter_at(block, *op, &facts);
        }
    }

    fn begin(&mut self, block: usize) {
        self.block = block;
        self.facts = self.blocks[block].start;
        (self.known, self.written) = (0, 0);
    }

    /// Keeps what the block leaves in registers.
    fn end(&mut self, block: usize) {
        let (before, written) = (self.blocks[block].written, self.written);
        self.blocks[block].written |= written;
        self.blocks[block].end = self.facts;
        for slot in (0..SLOTS as RegisterId).filter(|slot| registers::has(written, *slot)) {
            let (at, new) = (block * SLOTS + usize::from(slot), self.current[usize::from(slot)]);
            if std::mem::replace(&mut self.at_end[at], new) != new || !registers::has(before, slot) {
                self.add_to_successors(block, slot, new);
            }
        }
        self.settle();
    }

    /// Goes through the instructions of a block.
    fn walk_block(&mut self, block: usize) -> FlowResult<BlockExit> {
        let unit = self.unit;
        let Some(range) = unit.blocks.get(block) else { return Err("no such block".to_owned()) };
        self.begin(block);
        let mut exit = BlockExit::Falls;
        for at in range.start..range.end {
            let Some(op) = unit.ops.get(at) else { break };
            exit = self.step(at, op)?;
            if exit != BlockExit::Falls {
                break;
            }
        }
        if let Some(op) = self.last(block) {
            self.builder.write(unit.function_at((op.atom, op.offset)), self.facts.written);
        }
        self.end(block);
        Ok(exit)
    }

    /// Propagates the state along the edges from the end of a block.
    fn leave(&mut self, block: usize, exit: BlockExit) {
        let facts = self.facts;
        let is_call =
            |op: &Op| matches!(op.effect, InstructionEffect::Call | InstructionEffect::CallThrough(_));
        if self.last(block).is_some_and(is_call) && exit == BlockExit::Falls {
            let is_entered = !self.unit.pads.is_empty() || self.unit.labels.iter().any(|label| label.1);
            if is_entered {
                let hub = self.behind_calls();
                let pushed = self.pushed_at_call;
                self.enter(block, hub, &PathFacts { pushed, ..facts });
            }
            let behind =
                self.next(block).filter(|op| self.block_at(*op).is_some_and(|b| self.blocks[b].is_target));
            if let Some(op) = behind {
                if self.blocks[block].returns {
                    self.go_on_behind(block, op);
                } else if !self.deferred.contains(&block) {
                    self.deferred.push(block);
                }
                return;
            }
            self.blocks[block].returns = true;
        }
        match exit {
            BlockExit::Falls => self.next(block).into_iter().for_each(|op| self.enter_at(block, op, &facts)),
            BlockExit::To(to, falls) => {
                self.enter_at(block, to, &facts);
                if falls && let Some(op) = self.next(block) {
                    self.enter_at(block, op, &facts);
                }
            }
            BlockExit::Labels => {
                let hub = self.at_labels();
                self.enter(block, hub, &facts.behind_guess());
            }
            BlockExit::Ends => {}
        }
    }

    /// The instruction after a block, if control may fall through to it. Padding does nothing, so blocks of padding are skipped.
    fn next(&self, block: usize) -> Option<usize> {
        let mut next = self.unit.blocks.get(block)?.end;
        while let Some(behind) = self.block_at(next)
            && self.is_padding(behind)
            && !self.blocks[behind].is_target
        {
            next = self.unit.blocks.get(behind)?.end;
        }
        // No instruction follows the last one of an atom.
        let atom = self.last(block).map(|op| op.atom);
        self.unit.ops.get(next).filter(|op| Some(op.atom) == atom).map(|_| next)
    }

    fn last(&self, block: usize) -> Option<&'u Op> {
        self.unit.ops.get(self.unit.blocks.get(block)?.end.checked_sub(1)?)
    }

    fn is_padding(&self, block: usize) -> bool {
        let ops = self.unit.blocks.get(block).and_then(|b| self.unit.ops.get(b.start..b.end));
        ops.is_some_and(|ops| ops.iter().all(|op| op.effect == InstructionEffect::Padding))
    }

    /// Continues after deferred calls, unless the frame there is another one: then the callee does not return. If the next block has no
    /// state yet, this is unknown. Such a call is tried last, and later differences of the frame may come from it.
    fn follow_deferred(&mut self) -> FlowResult<bool> {
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.sort_unstable();
        let mut open = Vec::new();
        for block in deferred {
            let Some((op, there)) = self.next(block).and_then(|op| Some((op, self.block_at(op)?))) else {
                continue;
            };
            if !self.blocks[there].is_reached {
                open.push(block);
                continue;
            }
            // With a frame pointer the depth of the stack may be set right later.
            let (pointer, pointer_there) = (self.at_end(block, RBP), self.at_start(there, RBP));
            let has_pointer = matches!(pointer, SlotValue::Frame(_)) && pointer == pointer_there;
            match (self.at_start(there, RSP), self.at_end(block, RSP)) {
                (SlotValue::Frame(there), SlotValue::Frame(here)) if there != here && !has_pointer => {
                    if self.has_guessed {
                        return Err("it isn't clear which callees return".to_owned());
                    }
                }
                _ => self.go_on_behind(block, op),
            }
        }
        self.deferred = open;
        if self.queue.is_empty() && !self.deferred.is_empty() {
            let block = self.deferred.remove(0);
            self.has_guessed = true;
            if let Some(op) = self.next(block) {
                self.go_on_behind(block, op);
            }
        }
        self.settle();
        Ok(!self.queue.is_empty())
    }

    fn go_on_behind(&mut self, block: usize, op: usize) {
        self.blocks[block].returns = true;
        let facts = self.blocks[block].end.behind_guess();
        self.enter_at(block, op, &facts);
    }

    /// Whether there is code without a known predecessor. Such code may be one of these:
    /// - a label that is computed from another one (`&&a + offsets[i]`)
    /// - an entry of a signal handler or of a call through a pointer
    /// - the place to which a callee returns after changing its return address
    fn has_unseen_code(&self) -> bool {
        let does_something = |op: &Op| {
            !matches!(
                op.effect,
                InstructionEffect::Nothing
                    | InstructionEffect::Compare { .. }
                    | InstructionEffect::Padding
                    | InstructionEffect::Stop
            )
        };
        let unseen = self.unit.blocks.iter().zip(&self.blocks).filter(|(_, state)| !state.is_reached);
        unseen
            .filter_map(|(range, _)| self.unit.ops.get(range.start..range.end))
            .flatten()
            .any(does_something)
    }

    /// Records the assignments to the value that stands for a union.
    fn record_join(&mut self, number: usize) -> FlowResult<()> {
        let Join { block, slot, own: Some(own), .. } = self.joins[number] else { return Ok(()) };
        if self.blocks[block].is_entry {
            let value = self.entry_value(slot);
            self.builder.flow(value, own, Some(0))?;
        }
        for i in 0..self.blocks[block].predecessors.len() {
            let value = self.predecessor_value(self.blocks[block].predecessors[i] as usize, slot);
            self.builder.flow(value, own, Some(0))?;
        }
        Ok(())
    }
}
