//! From the code of one function to its summary: the states at all blocks to a fixpoint, then the constraints.
//!
//! A block is entered by jumps and by falling through, a label also by every jump through a register or memory and, if
//! its address is a value, by every call (`__builtin_longjmp`). What a table of handlers names is entered by the
//! unwinder: from every call, and every instruction that the table covers and that may fault, with the exception in rax and rdx, and with the
//! stack pointer of the call, less what was pushed for it. A function with code that nothing enters so is not understood.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::builder::{ConstraintBuilder, ValueKey};
use super::compact::compact;
use super::module::FlowModule;
use super::state::{RegisterState, SlotValue};
use super::unit::{Destination, FlowResult, Op, Unit};
use super::walker::{BlockExit, BlockWalker, at_entry};
use crate::ids::ValueIdx;
use crate::native::decode::effects::{InstructionEffect, SLOTS};
use crate::registers::{PRESERVABLE, RAX, RBP, RDX, RSP};
use crate::relation::FunctionSummary;
use crate::summary::Target;

/// How often blocks are visited, on average, before a function is given up: a few times is enough for any that compilers make.
const MOST_VISITS_PER_BLOCK: usize = 64;

/// The states that many blocks share, as the block of a [`ValueKey::Join`]: behind any call, and at any jump to a label. Each edge leads to one of
/// these, and from there to every block, so that there are not as many edges as jumps times labels.
const BEHIND_CALLS: usize = usize::MAX;
const AT_LABELS: usize = usize::MAX - 1;

/// What came of a function: its summary, and where it jumps to with its frame in place.
pub(super) struct WalkOutcome {
    pub(super) summary: FlowResult<FunctionSummary>,
    pub(super) entered_in_frame: Vec<(Target, i64)>,
}

pub(super) fn walk(module: &FlowModule<'_, '_>, unit: &Unit) -> WalkOutcome {
    let mut builder = ConstraintBuilder::default();
    builder.frame_escapes = module.executes_stack;
    let summary = fixpoint(module, unit, &mut builder);
    let entered_in_frame = std::mem::take(&mut builder.entered_in_frame);
    let summary = summary.and_then(|indirect_entry_values| {
        if builder.leaves_its_stack() {
            return Err("a return or jump that may be on another stack".to_owned());
        }
        builder.forget_jumps_to_labels(|target, offset| {
            let place = module.place_of_target(target, offset);
            place.is_some_and(|(atom, offset)| unit.is_label(atom, offset))
        })?;
        let addressed = builder.addressed();
        let mut summary = builder.finish(&indirect_entry_values);
        // What one function clobbers another one beside it may leave alone.
        if unit.entries.len() > 1 {
            summary.preserved = PRESERVABLE;
        }
        compact(&mut summary, addressed);
        Ok(summary)
    });
    WalkOutcome { summary, entered_in_frame }
}

struct UnitWalk<'u> {
    unit: &'u Unit,
    /// By block: the state at its start.
    at: Vec<RegisterState>,
    /// The first one first: most blocks come behind those that lead there, and so are walked when these are settled.
    queue: BinaryHeap<Reverse<usize>>,
    queued: Vec<bool>,
    /// By instruction: the block that begins there.
    block_of: Vec<Option<u32>>,
    /// The join of the states after calls.
    after_calls: RegisterState,
    /// The join of the states at jumps to labels.
    at_labels: RegisterState,
    /// The blocks that the unwinder enters, at landing pads.
    pads: Vec<usize>,
    /// Something may be on the stack at a call that the unwinder takes off.
    pushes: bool,
    /// Ways on from calls into blocks that others lead to as well, to be followed when nothing else is left: the callee
    /// may be one that never returns, and then the block has another frame.
    deferred: Vec<(usize, RegisterState)>,
    /// One of them was followed to where nothing else had led.
    has_guessed: bool,
    /// By block: it ends in a call, and goes on behind it.
    returns: Vec<bool>,
    /// By block: jumps lead to it, or it is an entry or label.
    is_target: Vec<bool>,
}

fn fixpoint(
    module: &FlowModule<'_, '_>,
    unit: &Unit,
    builder: &mut ConstraintBuilder,
) -> FlowResult<Vec<ValueIdx>> {
    let mut block_of = vec![None; unit.ops.len()];
    for (i, block) in (0u32..).zip(&unit.blocks) {
        if let Some(slot) = block_of.get_mut(block.start) {
            *slot = Some(i);
        }
    }
    let mut flow = UnitWalk {
        unit,
        at: vec![RegisterState::unreached(); unit.blocks.len()],
        queue: BinaryHeap::new(),
        queued: vec![false; unit.blocks.len()],
        block_of,
        after_calls: RegisterState::unreached(),
        at_labels: RegisterState::unreached(),
        pads: Vec::new(),
        pushes: false,
        deferred: Vec::new(),
        has_guessed: false,
        returns: vec![false; unit.blocks.len()],
        is_target: vec![false; unit.blocks.len()],
    };
    let targets = unit.ops.iter().filter(|op| op.effect == InstructionEffect::Jump);
    let mut targets: Vec<usize> = targets
        .filter_map(|op| match unit.destination(module, op) {
            Ok(Destination::Inner(to)) => Some(to),
            _ => None,
        })
        .collect();
    targets.extend(unit.labels.iter().map(|l| l.0));
    targets.extend(unit.entries.iter().map(|e| e.2));
    targets.extend(unit.pads.iter().copied());
    for target in targets {
        if let Some(slot) = flow.block(target).and_then(|b| flow.is_target.get_mut(b)) {
            *slot = true;
        }
    }
    flow.pads = unit.pads.iter().filter_map(|op| flow.block(*op)).collect();
    let entry = at_entry(builder);
    let mut indirect_entry_values = Vec::new();
    for (op, is_value) in &unit.labels {
        let Some(block) = flow.block(*op) else { continue };
        for slot in (0..SLOTS as u8).filter(|s| *is_value && !matches!(*s, RSP | RBP)) {
            let value = builder.value(ValueKey::Join(block, slot));
            indirect_entry_values.push(value);
            if let Some(state) = flow.at.get_mut(block) {
                state.set(slot, SlotValue::Node(value, 0));
            }
        }
    }
    for (_, _, op) in &unit.entries {
        flow.enter(*op, &entry, builder);
    }
    let mut visits = 0;
    loop {
        while let Some(block) = flow.next() {
            visits += 1;
            if visits > MOST_VISITS_PER_BLOCK * unit.blocks.len() + 1024 {
                return Err("the states don't settle".to_owned());
            }
            flow.visit(module, builder, block)?;
        }
        if flow.follow_deferred(builder)? {
            continue;
        }
        if !std::mem::take(&mut builder.grew) {
            break;
        }
        flow.visit_again();
    }
    if flow.has_unseen_code() {
        return Err("code that nothing is seen to lead to".to_owned());
    }
    builder.recording = true;
    // Marks of the first walk hold for the second, too, and the constraints of both ends of an edge are made in it.
    for (_, _, op) in &unit.entries {
        flow.record_edge(*op, &entry, builder)?;
    }
    let pads = flow.pads.clone();
    let after = flow.at_pad(builder);
    for pad in pads {
        flow.record_join(pad, &after, builder)?;
    }
    for (op, is_value) in &unit.labels {
        flow.record_edge(*op, &flow.at_labels, builder)?;
        if *is_value {
            flow.record_edge(*op, &flow.after_calls, builder)?;
        }
    }
    for block in 0..unit.blocks.len() {
        flow.record(module, builder, block)?;
    }
    Ok(indirect_entry_values)
}

impl UnitWalk<'_> {
    fn block(&self, op: usize) -> Option<usize> {
        self.block_of.get(op).copied().flatten().map(|b| b as usize)
    }

    fn next(&mut self) -> Option<usize> {
        let Reverse(block) = self.queue.pop()?;
        if let Some(queued) = self.queued.get_mut(block) {
            *queued = false;
        }
        Some(block)
    }

    /// All that was reached is to be walked once more.
    fn visit_again(&mut self) {
        for block in (0..self.unit.blocks.len()).filter(|block| self.is_reached(*block)).collect::<Vec<_>>() {
            if let Some(queued) = self.queued.get_mut(block)
                && !std::mem::replace(queued, true)
            {
                self.queue.push(Reverse(block));
            }
        }
    }

    /// Join a state into the block at this instruction.
    fn enter(&mut self, op: usize, state: &RegisterState, builder: &mut ConstraintBuilder) {
        if let Some(block) = self.block(op) {
            self.join(block, state, builder);
        }
    }

    fn join(&mut self, block: usize, state: &RegisterState, builder: &mut ConstraintBuilder) {
        let (Some(at), Some(queued)) = (self.at.get_mut(block), self.queued.get_mut(block)) else { return };
        let first = at.get(RSP) == SlotValue::Undefined;
        let changed = at.join(state, |slot, held| builder.joined(block, slot, held));
        if (changed || first) && !std::mem::replace(queued, true) {
            self.queue.push(Reverse(block));
        }
    }

    /// Whether control may come to some place from any call: the unwinder's, or a jump's to a label.
    fn is_entered_after_calls(&self) -> bool {
        !self.pads.is_empty() || self.unit.labels.iter().any(|(_, is_value)| *is_value)
    }

    /// Whether there is code that nothing is seen to lead to: a label that is reckoned from another one (`&&a + offsets[i]`), where a handler of
    /// signals or a call through a pointer enters, what a callee comes back to that moves its return address.
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
        let unseen = (0..self.unit.blocks.len()).filter(|block| !self.is_reached(*block));
        let ops = unseen.filter_map(|block| {
            let range = self.unit.blocks.get(block)?;
            self.unit.ops.get(range.start..range.end)
        });
        ops.flatten().any(does_something)
    }

    fn is_reached(&self, block: usize) -> bool {
        self.at.get(block).is_some_and(|s| s.get(RSP) != SlotValue::Undefined)
    }

    /// Walk through a block; the instructions where control leaves it, with the state there.
    fn through(
        &self,
        module: &FlowModule<'_, '_>,
        builder: &mut ConstraintBuilder,
        block: usize,
        mut after_call: impl FnMut(&RegisterState, bool),
    ) -> FlowResult<(RegisterState, BlockExit)> {
        let (Some(range), Some(state)) = (self.unit.blocks.get(block), self.at.get(block)) else {
            return Err("no such block".to_owned());
        };
        let mut state = state.clone();
        let mut walk = BlockWalker { unit: self.unit, module, builder };
        let mut leaves = BlockExit::Falls;
        for at in range.start..range.end {
            let Some(op) = self.unit.ops.get(at) else { break };
            let pushed = state.pushed;
            if op.throws {
                after_call(&state, pushed);
            }
            leaves = walk.step(at, op, &mut state)?;
            if matches!(op.effect, InstructionEffect::Call | InstructionEffect::CallThrough(_)) {
                after_call(&state, pushed);
            }
            if leaves != BlockExit::Falls {
                break;
            }
        }
        if let Some(op) = self.last(block).and_then(|op| self.unit.ops.get(op)) {
            builder.write(self.unit.function_at((op.atom, op.offset)), state.written);
        }
        Ok((state, leaves))
    }

    fn visit(
        &mut self,
        module: &FlowModule<'_, '_>,
        builder: &mut ConstraintBuilder,
        block: usize,
    ) -> FlowResult<()> {
        let mut calls = Vec::new();
        let is_followed = self.is_entered_after_calls();
        let (state, leaves) = self.through(module, builder, block, |state, pushed| {
            if is_followed {
                calls.push((state.clone(), pushed));
            }
        })?;
        let mut changed = false;
        for (state, pushed) in calls {
            self.pushes |= pushed;
            changed |= self.after_calls.join(&state, |slot, held| builder.joined(BEHIND_CALLS, slot, held));
        }
        if changed {
            let (after, pads) = (self.at_pad(builder), self.pads.clone());
            for pad in pads {
                self.join(pad, &after, builder);
            }
            let after = self.after_calls.clone().behind_guess();
            for (op, is_value) in &self.unit.labels {
                if *is_value {
                    self.enter(*op, &after, builder);
                }
            }
        }
        if self.is_behind_call(block, leaves) {
            let behind = self.successors(block, BlockExit::Falls).first().and_then(|op| self.block(*op));
            if behind.is_some_and(|b| self.is_target.get(b) == Some(&true)) {
                self.deferred.retain(|(b, _)| *b != block);
                self.deferred.push((block, state.behind_guess()));
                return Ok(());
            }
            self.set_returns(block);
        }
        if leaves == BlockExit::Labels {
            let state = state.behind_guess();
            if self.at_labels.join(&state, |slot, held| builder.joined(AT_LABELS, slot, held)) {
                let state = self.at_labels.clone();
                for (op, _) in &self.unit.labels {
                    self.enter(*op, &state, builder);
                }
            }
            return Ok(());
        }
        for op in self.successors(block, leaves) {
            self.enter(op, &state, builder);
        }
        Ok(())
    }

    /// The last instruction of a block.
    fn last(&self, block: usize) -> Option<usize> {
        self.unit.blocks.get(block)?.end.checked_sub(1)
    }

    fn is_behind_call(&self, block: usize, leaves: BlockExit) -> bool {
        let last = self.last(block).and_then(|op| self.unit.ops.get(op));
        let call = last.is_some_and(|op| {
            matches!(op.effect, InstructionEffect::Call | InstructionEffect::CallThrough(_))
        });
        call && leaves == BlockExit::Falls
    }

    fn set_returns(&mut self, block: usize) {
        if let Some(slot) = self.returns.get_mut(block) {
            *slot = true;
        }
    }

    /// Go on behind calls that were put off, unless the frame there is another one: then the callee doesn't return. Where nothing else has led
    /// yet, that isn't known; it is tried last, and what is found to differ from then on may differ for that.
    fn follow_deferred(&mut self, builder: &mut ConstraintBuilder) -> FlowResult<bool> {
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.sort_by_key(|(block, _)| *block);
        let mut open = Vec::new();
        for (block, state) in deferred {
            let behind = self.successors(block, BlockExit::Falls).first().copied();
            let Some(op) = behind.filter(|op| self.block(*op).is_some()) else { continue };
            let there = self.block(op).and_then(|b| self.at.get(b));
            // With a frame pointer the depth of the stack may be set right later.
            let frame_pointer =
                |s: &RegisterState| matches!(s.get(RBP), SlotValue::Frame(_)).then(|| s.get(RBP));
            let has_pointer =
                frame_pointer(&state).is_some() && there.and_then(frame_pointer) == frame_pointer(&state);
            match (there.map(|s| s.get(RSP)), state.get(RSP)) {
                (Some(SlotValue::Undefined), _) => open.push((block, state)),
                (Some(SlotValue::Frame(there)), SlotValue::Frame(here)) if there != here && !has_pointer => {
                    if self.has_guessed {
                        return Err("it isn't clear which callees return".to_owned());
                    }
                }
                _ => {
                    self.set_returns(block);
                    self.enter(op, &state, builder);
                }
            }
        }
        self.deferred = open;
        if self.queue.is_empty() && !self.deferred.is_empty() {
            let (block, state) = self.deferred.remove(0);
            self.has_guessed = true;
            self.set_returns(block);
            for op in self.successors(block, BlockExit::Falls) {
                self.enter(op, &state, builder);
            }
        }
        Ok(!self.queue.is_empty())
    }

    /// The instructions, by their number in the unit, that the block of this number leads to.
    fn successors(&self, block: usize, leaves: BlockExit) -> Vec<usize> {
        let mut next = self.unit.blocks.get(block).map(|b| b.end);
        // Padding does nothing: what follows it follows the block, and whether others lead there is asked of that.
        while let Some(behind) = next.and_then(|n| self.block(n))
            && self.is_padding(behind)
            && self.is_target.get(behind) != Some(&true)
        {
            next = self.unit.blocks.get(behind).map(|b| b.end);
        }
        // Behind the last instruction of an atom there is nothing to fall into.
        let atom = |op: usize| self.unit.ops.get(op).map(|o| o.atom);
        let next = next.filter(|n| self.last(block).and_then(atom) == atom(*n));
        match leaves {
            BlockExit::Falls => next.into_iter().collect(),
            BlockExit::To(to, falls) => [Some(to), next.filter(|_| falls)].into_iter().flatten().collect(),
            // Labels have a state of their own.
            BlockExit::Labels | BlockExit::Ends => Vec::new(),
        }
    }

    /// The state at a landing pad: what any call that may throw leaves, with the exception in rax and its selector in rdx.
    fn at_pad(&self, builder: &mut ConstraintBuilder) -> RegisterState {
        let mut state = self.after_calls.clone().behind_guess();
        let exception = builder.unknown();
        state.set(RAX, SlotValue::Node(exception, 0));
        state.set(RDX, SlotValue::Node(exception, 0));
        if self.pushes || !matches!(state.get(RSP), SlotValue::Frame(_)) {
            let anywhere = builder.somewhere_in_frame();
            state.set(RSP, SlotValue::Node(anywhere, 0));
        }
        state
    }

    fn is_padding(&self, block: usize) -> bool {
        let ops = self.unit.blocks.get(block).and_then(|b| self.unit.ops.get(b.start..b.end));
        ops.is_some_and(|ops| ops.iter().all(|op| op.effect == InstructionEffect::Padding))
    }

    /// Keep the constraints of a block, and those of the joins that it leads to.
    fn record(
        &self,
        module: &FlowModule<'_, '_>,
        builder: &mut ConstraintBuilder,
        block: usize,
    ) -> FlowResult<()> {
        if !self.is_reached(block) {
            return Ok(());
        }
        let mut calls = Vec::new();
        let is_followed = self.is_entered_after_calls();
        let (state, leaves) = self.through(module, builder, block, |state, _| {
            if is_followed {
                calls.push(state.clone());
            }
        })?;
        for after in calls {
            builder.flow_into(BEHIND_CALLS, &self.after_calls, &after)?;
        }
        if leaves == BlockExit::Labels {
            return builder.flow_into(AT_LABELS, &self.at_labels, &state);
        }
        if self.is_behind_call(block, leaves) && self.returns.get(block) != Some(&true) {
            return Ok(());
        }
        for op in self.successors(block, leaves) {
            self.record_edge(op, &state, builder)?;
        }
        Ok(())
    }

    fn record_edge(
        &self,
        op: usize,
        state: &RegisterState,
        builder: &mut ConstraintBuilder,
    ) -> FlowResult<()> {
        self.block(op).map_or(Ok(()), |block| self.record_join(block, state, builder))
    }

    fn record_join(
        &self,
        block: usize,
        state: &RegisterState,
        builder: &mut ConstraintBuilder,
    ) -> FlowResult<()> {
        self.at.get(block).map_or(Ok(()), |at| builder.flow_into(block, at, state))
    }
}

impl ConstraintBuilder {
    /// The value that stands for the union in a slot where a block begins, which the slot may hold already.
    fn joined(&mut self, block: usize, slot: u8, held: SlotValue) -> ValueIdx {
        let key = ValueKey::Join(block, slot);
        match held {
            SlotValue::Node(value, 0) if self.key(value) == Some(key) => value,
            _ => self.value(key),
        }
    }

    /// What `state` brings to the values that stand for unions where a block begins, with the state `at`.
    fn flow_into(&mut self, block: usize, at: &RegisterState, state: &RegisterState) -> FlowResult<()> {
        for slot in 0..SLOTS as u8 {
            if let SlotValue::Node(to, 0) = at.get(slot)
                && self.key(to) == Some(ValueKey::Join(block, slot))
            {
                self.flow(state.get(slot), to, Some(0))?;
            }
        }
        Ok(())
    }
}
