//! The targets of `jmp` through a register: a forward dataflow analysis of a function's registers.
//!
//! Compilers add the base of a PC-relative jump table (`lea`) and an entry (a 32-bit load from base plus index).
//! Values are tracked in general registers. A 64-bit load, a parameter or a result is a pointer, and unequal values
//! join to unknown. A jump through a pointer is a tail call or a computed `goto`. A jump through an address of the
//! function's own code plus a number is a `goto` by difference of labels (glibc's `vfprintf`), which stays in the
//! function.
//!
//! A base may come from an untracked place (the stack, a register across calls, a join). If a loaded value is added
//! to its own base, the base is that of some table. Compilers form it in the function that jumps, so the jump uses
//! one of the tables whose addresses the function takes. Each of these must lead into the function.
//!
//! A jump through another computed number leads, in compiled code, to the target of a relocation or of an unclaimed
//! table. Assembly may compute the distance between functions: there such a jump is unproved, and so is a call. A
//! wrong pointer can't make a claim, and a table without a found jump remains unclaimed.

use std::num::NonZeroU32;

use object::endian::LittleEndian as LE;

use super::code::is_noreturn;
use super::division::{SectionPlace, SplitContext};
use super::references::{PcRelativeReference, SplitReferences};
use super::text::{Function, Text};
use crate::native::decode::{self, Field, Flow, Gpr, Instruction, Step, Steps};
use crate::native::relocations::types::{R_X86_64_PC32, R_X86_64_PLT32};
use crate::native::relocations::{Rela, symbol_of, type_of};
use crate::parallel::collect;
use crate::registers::RSP;
use crate::summary::Definition;

/// A jump through a register that holds no pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndirectJump {
    /// It is through the table with this base. The jump is at an offset of a text.
    Table { base: SectionPlace, text: usize, offset: u64 },
    /// It is through a table with an untracked base.
    AnyTable { text: usize, offset: u64 },
    /// It is through another computed number. Calls and sums with the address of another function count too.
    Unproved { text: usize, offset: u64 },
}

/// The position of a relocation in [`SplitReferences::relative`], plus one, so that a [`Value`] has eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TableIndex(NonZeroU32);

impl TableIndex {
    fn new(position: usize) -> Option<Self> {
        u32::try_from(position).ok()?.checked_add(1).and_then(NonZeroU32::new).map(TableIndex)
    }

    fn position(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The value of a register, as jumps through tables need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Unknown,
    /// An address that comes from elsewhere: a parameter, a result, a 64-bit load or constant, or an address in data.
    Pointer,
    /// The address of another function of the object.
    Function,
    /// An address in this function's code, or its sum with a number.
    Code,
    /// A number that this function computes, such as a sum with a pointer or the result of an untracked instruction.
    Arithmetic,
    /// The address of a relative relocation in data.
    Base(TableIndex),
    /// A 32-bit word loaded from a base plus an index: the table, if the base is tracked, and a bit for each register
    /// that still holds the base.
    Entry {
        table: Option<TableIndex>,
        bases: u16,
    },
    /// The sum of a table's address and its entry.
    Sum(TableIndex),
    /// The sum of an entry and its untracked base: a target in some table of the function.
    AnySum,
}

type State = [Value; 16];

/// The registers that a call may change: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CALLER_SAVED: u16 = 0b0000_1111_1100_0111;

fn join(into: &mut State, other: &State) -> bool {
    let mut changed = false;
    for (a, b) in into.iter_mut().zip(other) {
        let joined = joined(*a, *b);
        changed |= *a != joined;
        *a = joined;
    }
    changed
}

/// An entry, if its base is known.
fn entry(table: Option<TableIndex>, bases: u16) -> Option<Value> {
    (table.is_some() || bases != 0).then_some(Value::Entry { table, bases })
}

fn joined(a: Value, b: Value) -> Value {
    match (a, b) {
        (x, y) if x == y => x,
        (Value::Pointer | Value::Function | Value::Code, Value::Pointer | Value::Function | Value::Code) => {
            Value::Pointer
        }
        (Value::Sum(_) | Value::AnySum, Value::Sum(_) | Value::AnySum) => Value::AnySum,
        (Value::Entry { table: s, bases: x }, Value::Entry { table: t, bases: y }) => {
            entry(s.filter(|_| s == t), x & y).unwrap_or(Value::Unknown)
        }
        _ => Value::Unknown,
    }
}

/// All jumps of decoded functions through registers without pointers. Without tables only code is analysed that no
/// compiler need have written, which may compute distances between functions.
pub(super) fn jumps(
    context: &SplitContext<'_, '_>,
    texts: &[Text<'_>],
    found: &SplitReferences,
) -> Vec<IndirectJump> {
    // The entries of code from other functions and from data.
    let mut entered: Vec<(usize, u64)> = found.retargets.iter().map(|r| (r.text, r.target)).collect();
    for (i, text) in texts.iter().enumerate() {
        entered.extend(text.intra_section_refs.iter().map(|c| (i, c.target)));
    }
    entered.sort_unstable();
    entered.dedup();
    let mut pieces = Vec::new();
    for (index, text) in texts.iter().enumerate().filter(|(_, t)| t.decoded) {
        let is_indirect = |i: &Instruction| match i.flow {
            Flow::IndirectCall => !context.compiled,
            flow => flow == Flow::JumpRegister,
        };
        let jumping = |f: &Function| text.instructions_of(f).iter().any(is_indirect);
        for function in &text.functions {
            let is_asked = match jumping(function) {
                true if !found.relative.is_empty() || !context.compiled => true,
                is_jumping => {
                    let is_free = !context.compiled || is_jumping && !function.is_compiled();
                    is_free && takes_functions(context, text, function)
                }
            };
            if is_asked {
                pieces.push((index, text, function));
            }
        }
    }
    // Real tables have few jumps. Analysing the targets only adds precision, so it may stop.
    let tables = found.relative.len() / pieces.len().max(1);
    let of_function = |number: usize| {
        let mut jumps = Vec::new();
        let Some((index, text, function)) = pieces.get(number).copied() else { return jumps };
        let own = text.instructions_of(function);
        let mut steps = Steps::new();
        let steps = own.iter().map(|i| {
            let bytes = text.bytes.get(i.offset as usize..i.end() as usize);
            steps.step(bytes.unwrap_or(&[]))
        });
        let mut flowing = RegisterDataflow {
            context,
            found,
            section: text.section,
            index,
            function,
            bytes: text.bytes,
            own,
            relas: relas_within(context.relas_of(text.section), function),
            steps: steps.collect(),
            leaders: vec![0; own.len()],
            states: Vec::new(),
            reached: vec![false; own.len()],
            jumped: vec![None; own.len()],
            computed: None,
            work: Vec::new(),
            budget: (own.len() + tables).saturating_mul(64),
        };
        flowing.run(&entered);
        flowing.results(&mut jumps);
        jumps
    };
    collect(context.parallel_map, pieces.len(), of_function).concat()
}

/// Whether a function has an operand with the address of another function.
fn takes_functions(context: &SplitContext<'_, '_>, text: &Text<'_>, function: &Function) -> bool {
    let own = text.instructions_of(function);
    let relas = context.relas_of(text.section);
    let within = |t: i64| u64::try_from(t).is_ok_and(|t| (function.start..function.end).contains(&t));
    let is_other = |rela: &Rela, i: &Instruction| {
        let Some(symbol) = context.symbols.get(symbol_of(rela).index()) else { return false };
        let Definition::Atom(atom) = symbol.definition else { return false };
        let Some(section) = context.section_of(atom).filter(|s| context.text_of(*s).is_some()) else {
            return false;
        };
        let distance = match type_of(rela) {
            R_X86_64_PC32 | R_X86_64_PLT32 => i.end().saturating_sub(rela.r_offset.get(LE)) as i64,
            _ => 0,
        };
        let to = rela.r_addend.get(LE).saturating_add(distance).saturating_add_unsigned(symbol.value);
        section != text.section || !within(to)
    };
    own.iter().filter(|i| i.field != Field::Branch).any(|i| {
        let first = relas.partition_point(|(_, r)| r.r_offset.get(LE) < u64::from(i.offset));
        let inside =
            relas.get(first..).unwrap_or(&[]).iter().take_while(|(_, r)| r.r_offset.get(LE) < i.end());
        let resolved = matches!(i.field, Field::RipRelative { .. }) && !i.target().is_some_and(within);
        let mut inside = inside.peekable();
        if inside.peek().is_none() { resolved } else { inside.any(|(_, rela)| is_other(rela, i)) }
    })
}

fn relas_within<'r>(relas: &'r [(u32, Rela)], function: &Function) -> &'r [(u32, Rela)] {
    let before = |end: u64| relas.partition_point(|(_, r)| r.r_offset.get(LE) < end);
    relas.get(before(function.start)..before(function.end)).unwrap_or(&[])
}

struct RegisterDataflow<'f, 'c, 'a, 't> {
    context: &'c SplitContext<'a, 't>,
    found: &'f SplitReferences,
    section: u32,
    /// The position of the section in the list of texts.
    index: usize,
    function: &'f Function,
    /// The bytes of the section that holds the function.
    bytes: &'f [u8],
    own: &'f [Instruction],
    /// The relocations of the function, ascending by place.
    relas: &'f [(u32, Rela)],
    steps: Vec<Step>,
    /// By instruction: for the start of a basic block, the position of its state in `states` plus one; else 0.
    leaders: Vec<u32>,
    states: Vec<State>,
    /// By instruction: whether it was reached.
    reached: Vec<bool>,
    /// By instruction: the value of a jump through a register, as far as analysed.
    jumped: Vec<Option<Value>>,
    /// The first instruction that computes with the address of another function.
    computed: Option<u64>,
    /// Starts of basic blocks to visit.
    work: Vec<usize>,
    /// The number of table entries that may still be analysed.
    budget: usize,
}

impl RegisterDataflow<'_, '_, '_, '_> {
    fn run(&mut self, entered: &[(usize, u64)]) {
        // Parameters are pointers. The values at the start of a cold part are unknown.
        let start = if self.function.cold { Value::Unknown } else { Value::Pointer };
        self.enter(0, &[start; 16]);
        let from = entered.partition_point(|e| *e <= (self.index, self.function.start));
        for (text, offset) in entered.get(from..).unwrap_or(&[]) {
            if *text != self.index || *offset >= self.function.end {
                break;
            }
            if let Some(at) = self.at(*offset) {
                self.enter(at, &[Value::Unknown; 16]);
            }
        }
        let mut unreached = 0;
        loop {
            while let Some(at) = self.work.pop() {
                self.visit(at);
            }
            // Visit landing pads and other unreached code, except padding.
            while self.reached.get(unreached) == Some(&true)
                || self.steps.get(unreached) == Some(&Step::Padding)
            {
                unreached += 1;
            }
            if unreached >= self.reached.len() {
                return;
            }
            self.enter(unreached, &[Value::Unknown; 16]);
        }
    }

    fn at(&self, offset: u64) -> Option<usize> {
        self.own.binary_search_by_key(&offset, |i| u64::from(i.offset)).ok()
    }

    /// Enter an instruction, which begins a block from now on.
    fn enter(&mut self, at: usize, state: &State) {
        let next = self.states.len();
        match self.leaders.get_mut(at) {
            Some(leader @ 0) => {
                *leader = u32::try_from(next + 1).unwrap_or(u32::MAX);
                self.states.push(*state);
                // The block before it must be visited again.
                if self.reached.get(at) == Some(&true) {
                    let before = self.leaders.get(..at).unwrap_or(&[]);
                    self.work.extend(before.iter().rposition(|leader| *leader != 0));
                }
            }
            Some(leader) => {
                let state_of = self.states.get_mut(*leader as usize - 1);
                if !state_of.is_some_and(|old| join(old, state)) {
                    return;
                }
            }
            None => return,
        }
        self.work.push(at);
    }

    fn is_leader(&self, at: usize) -> bool {
        self.leaders.get(at).is_some_and(|leader| *leader != 0)
    }

    /// Visit a block, and enter its successors.
    fn visit(&mut self, leader: usize) {
        let position = self.leaders.get(leader).and_then(|leader| leader.checked_sub(1));
        let Some(mut state) = position.and_then(|p| self.states.get(p as usize)).copied() else { return };
        for at in leader.. {
            if at != leader && self.is_leader(at) {
                return self.enter(at, &state);
            }
            let (Some(instruction), Some(step)) = (self.own.get(at), self.steps.get(at).copied()) else {
                return;
            };
            if let Some(reached) = self.reached.get_mut(at) {
                *reached = true;
            }
            let through = match step {
                Step::Jump { through } | Step::Call { through: Some(through) } => Some(get(&state, through)),
                _ => None,
            };
            if let Some(slot) = self.jumped.get_mut(at) {
                *slot = through;
            }
            if self.computes_with_function(at, step, &state) {
                self.computed.get_or_insert(instruction.offset.into());
            }
            self.apply(instruction, step, &mut state);
            if matches!(instruction.flow, Flow::Jump | Flow::Conditional)
                && let Some(target) = instruction.target().and_then(|t| u64::try_from(t).ok())
                && !self.is_relocated(instruction)
                && let Some(to) = self.at(target)
            {
                self.enter(to, &state);
            }
            match instruction.flow {
                Flow::Call if is_noreturn(self.context, self.section, instruction) => return,
                Flow::Next | Flow::Conditional | Flow::Call | Flow::IndirectCall => {}
                Flow::JumpRegister => {
                    if let Some(Value::Sum(base)) = through {
                        self.enter_targets(base, &state);
                    }
                    return;
                }
                Flow::Jump | Flow::JumpMemory | Flow::Stop => return,
            }
        }
    }

    /// Enter the targets of a table's entries.
    fn enter_targets(&mut self, base: TableIndex, state: &State) {
        let found = self.found;
        let table: &[PcRelativeReference] = found.relative.get(base.position()..).unwrap_or(&[]);
        let Some(base) = table.first().map(|r| r.at) else { return };
        // The next referenced place is another table.
        let next = found.data.partition_point(|d| d.to <= base);
        let end = found.data.get(next).map_or((u32::MAX, 0), |d| d.to);
        for (entry, place) in table.iter().zip((base.1..).step_by(4)) {
            if entry.at != (base.0, place) || entry.at >= end || self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let bias = i64::try_from(place - base.1).unwrap_or(i64::MAX);
            let target = entry.addend.checked_sub(bias).and_then(|t| u64::try_from(t).ok());
            if let Some(to) = target.filter(|_| entry.text == self.index).and_then(|t| self.at(t)) {
                self.enter(to, state);
            }
        }
    }

    fn is_relocated(&self, instruction: &Instruction) -> bool {
        self.relocation(instruction).is_some()
    }

    /// The position of the relocation of an instruction's displacement.
    fn relocation(&self, instruction: &Instruction) -> Option<usize> {
        let field = instruction.displacement_at();
        self.relas.binary_search_by_key(&field, |(_, r)| r.r_offset.get(LE)).ok()
    }

    /// The value of a RIP-relative operand: a possible table in data, or a place in code.
    fn address(&self, instruction: &Instruction) -> Value {
        let is_own = |offset: u64| (self.function.start..self.function.end).contains(&offset);
        // Assembly may also add a distance to a label of its own function.
        let code = |own: bool| if own && self.context.compiled { Value::Code } else { Value::Function };
        let rela = self.relocation(instruction).and_then(|r| self.relas.get(r)).map(|(_, r)| r);
        let Some(rela) = rela else {
            return code(instruction.target().and_then(|t| u64::try_from(t).ok()).is_some_and(is_own));
        };
        if type_of(rela) != R_X86_64_PC32 {
            return Value::Pointer;
        }
        let Some(symbol) = self.context.symbols.get(symbol_of(rela).index()) else { return Value::Pointer };
        let Definition::Atom(atom) = symbol.definition else { return Value::Pointer };
        let Some(section) = self.context.section_of(atom) else { return Value::Pointer };
        let distance = instruction.end().saturating_sub(instruction.displacement_at());
        let delta = rela.r_addend.get(LE).checked_add(distance as i64);
        let Some(offset) = delta.and_then(|d| symbol.value.checked_add_signed(d)) else {
            return Value::Unknown;
        };
        if self.context.text_of(section).is_some() {
            return code(section == self.section && is_own(offset));
        }
        let place = (section, offset);
        // A table is where its entries are. Any other address is a pointer.
        match self.found.relative.binary_search_by_key(&place, |r| r.at) {
            Ok(found) => TableIndex::new(found).map_or(Value::Pointer, Value::Base),
            Err(_) => Value::Pointer,
        }
    }

    /// Whether a relocation of the instruction is against a symbol of divisible code: an immediate, or an entry of
    /// the offset table.
    fn names_function(&self, instruction: &Instruction) -> bool {
        let place = |r: &(u32, Rela)| r.1.r_offset.get(LE);
        let first = self.relas.partition_point(|r| place(r) < u64::from(instruction.offset));
        let own = self.relas.get(first..).unwrap_or(&[]).iter().take_while(|r| place(r) < instruction.end());
        own.filter_map(|(_, rela)| self.context.symbols.get(symbol_of(rela).index())).any(|symbol| {
            let Definition::Atom(atom) = symbol.definition else { return false };
            self.context.section_of(atom).is_some_and(|section| self.context.text_of(section).is_some())
        })
    }

    fn apply(&self, instruction: &Instruction, step: Step, state: &mut State) {
        if matches!(step, Step::Padding | Step::Jump { .. } | Step::Other { written: 0 }) {
            return;
        }
        let value = self.value(instruction, step, state);
        Self::keep_bases(step, state);
        match step {
            Step::Load64 { written, .. } | Step::Other { written } => {
                set_all(state, written, Value::Arithmetic);
            }
            Step::Call { .. } => set_all(state, CALLER_SAVED, Value::Unknown),
            _ => {}
        }
        let (to, value) = match (step, value) {
            // The moved value without the register itself, if it is a base.
            (Step::Move { to, from } | Step::Extend { to, from }, None) => (to, get(state, from)),
            (step, Some(value)) => match step.to() {
                Some(to) => (to, value),
                None => return,
            },
            (_, None) => return,
        };
        if let Some(slot) = state.get_mut(usize::from(to)) {
            *slot = value;
        }
    }

    /// The value that the instruction writes, by the state before it. `None` if it copies a register ([`Step::Move`], or the extension
    /// of an entry), or if [`Self::apply`] knows all that it writes ([`Step::Jump`], [`Step::Padding`], [`Step::Other`]).
    fn value(&self, instruction: &Instruction, step: Step, state: &State) -> Option<Value> {
        let of = |r: Gpr| get(state, r);
        let is_of =
            |entry: Value, base: Gpr| matches!(entry, Value::Entry { bases, .. } if bases & 1 << base != 0);
        let sum = |a: Gpr, b: Gpr| match (of(a), of(b)) {
            (Value::Code, Value::Arithmetic | Value::Entry { table: None, .. })
            | (Value::Arithmetic | Value::Entry { table: None, .. }, Value::Code) => Value::Code,
            (Value::Base(x), Value::Entry { table: Some(y), .. })
            | (Value::Entry { table: Some(y), .. }, Value::Base(x))
                if x == y =>
            {
                Value::Sum(x)
            }
            (x, y) if is_of(x, b) || is_of(y, a) => Value::AnySum,
            // The entry was spilled to memory.
            (Value::Base(x), Value::Pointer | Value::Unknown)
            | (Value::Pointer | Value::Unknown, Value::Base(x)) => Value::Sum(x),
            // It may be a label plus a distance.
            (Value::Unknown, _) | (_, Value::Unknown) => Value::Unknown,
            _ => Value::Arithmetic,
        };
        Some(match step {
            Step::Address { .. } => self.address(instruction),
            Step::Sum { a, b, .. } => sum(a, b),
            Step::LoadConstant32 { .. } => match self.address(instruction) {
                // The index is the constant 0.
                Value::Base(base) => Value::Entry { table: Some(base), bases: 0 },
                _ => Value::Arithmetic,
            },
            Step::Load32 { to, base, index, plain } => {
                let table = match (of(base), of(index)) {
                    (Value::Base(table), _) => Some(table),
                    (_, Value::Base(table)) if plain => Some(table),
                    _ => None,
                };
                let compiled = self.function.is_compiled();
                let may_be = |r: Gpr| match of(r) {
                    Value::Unknown | Value::Pointer | Value::Function | Value::Base(_) => r != to,
                    // A compiler computes bases, too. In assembly the sum with such a number may lead to another function.
                    Value::Arithmetic => r != to && compiled,
                    _ => false,
                };
                let bases = u16::from(may_be(base)) << base | u16::from(plain && may_be(index)) << index;
                entry(table, bases).unwrap_or(Value::Arithmetic)
            }
            Step::Move { .. } => return None,
            Step::Extend { from, .. } => match of(from) {
                Value::Entry { .. } => return None,
                _ => Value::Arithmetic,
            },
            Step::Add { to, from } => sum(to, from),
            Step::Load64 { .. } | Step::Constant { .. } if self.names_function(instruction) => {
                Value::Function
            }
            Step::Load64 { .. } | Step::Constant { .. } | Step::Call { .. } => Value::Pointer,
            Step::Select { to, from } => joined(of(to), from.map_or(Value::Pointer, of)),
            Step::Jump { .. } | Step::Padding | Step::Other { .. } => return None,
        })
    }

    /// Remove overwritten bases from each entry.
    fn keep_bases(step: Step, state: &mut State) {
        if !state.iter().any(|value| matches!(value, Value::Entry { .. })) {
            return;
        }
        // A moved base is in both registers.
        let moved = match step {
            Step::Move { to, from } => 1 << to | 1 << from,
            _ => 0u16,
        };
        for slot in state.iter_mut() {
            if let Value::Entry { table, bases } = *slot {
                let kept = (0..16).filter(|r| bases & 1 << r != 0 && !step.may_write(*r));
                let kept = kept.fold(0u16, |all, r| all | 1 << r);
                let kept = kept | if kept & moved != 0 { moved } else { 0 };
                *slot = entry(table, kept).unwrap_or(Value::Arithmetic);
            }
        }
    }

    /// Whether an instruction computes with the address of another function. A copy, a comparison or a store does
    /// not.
    fn computes_with_function(&self, at: usize, step: Step, state: &State) -> bool {
        let is_function = |r: Gpr| get(state, r) == Value::Function;
        match step {
            Step::Sum { a, b, .. } => is_function(a) || is_function(b),
            Step::Add { to, from } => is_function(to) || is_function(from),
            Step::Other { written } if written & !(1 << RSP) != 0 => {
                let own = self.own.get(at).and_then(|i| self.bytes.get(i.offset as usize..i.end() as usize));
                let bytes = own.unwrap_or(&[]);
                (0..16).any(|register| is_function(register) && decode::effects::reads(bytes, register))
            }
            _ => false,
        }
    }

    fn results(&self, jumps: &mut Vec<IndirectJump>) {
        if let Some(offset) = self.computed.filter(|_| !self.context.compiled) {
            jumps.push(IndirectJump::Unproved { text: self.index, offset });
        }
        for (instruction, through) in self.own.iter().zip(&self.jumped) {
            let Some(through) = *through else { continue };
            let (text, offset) = (self.index, u64::from(instruction.offset));
            let compiled = self.context.compiled && self.function.is_compiled();
            match through {
                // An untracked value leads to the target of a relocation or table.
                Value::Pointer | Value::Function | Value::Code | Value::Unknown => {}
                // So does a number in compiled code.
                Value::Arithmetic | Value::Base(_) | Value::Entry { .. } if compiled => {}
                _ if instruction.flow == Flow::IndirectCall => {
                    if !compiled {
                        jumps.push(IndirectJump::Unproved { text, offset });
                    }
                }
                Value::AnySum => jumps.push(IndirectJump::AnyTable { text, offset }),
                Value::Sum(base) => {
                    if let Some(entry) = self.found.relative.get(base.position()) {
                        jumps.push(IndirectJump::Table { base: entry.at, text, offset });
                    }
                }
                Value::Arithmetic | Value::Base(_) | Value::Entry { .. } => {
                    jumps.push(IndirectJump::Unproved { text, offset });
                }
            }
        }
    }
}

fn get(state: &State, register: Gpr) -> Value {
    state.get(usize::from(register)).copied().unwrap_or(Value::Unknown)
}

fn set_all(state: &mut State, registers: u16, value: Value) {
    for (i, slot) in state.iter_mut().enumerate() {
        if registers & (1 << i) != 0 {
            *slot = value;
        }
    }
}
