//! Control flow graph of one function: its instructions with the meaning of their relocations, its blocks and its entries.
//!
//! A unit is an atom, the parts of it in other sections (`.cold`), and any atom into which it jumps other than at an entry. Labels are
//! places inside the unit whose address is referred to: the targets of jump tables and of `&&label`. An indirect jump may lead to each
//! label. Code that no jump leads to is a landing pad or dead.

use super::module::{FlowModule, Label, LabelUse};
use crate::exposure::Exposure;
use crate::ids::{AtomIdx, SymbolIdx};
use crate::native::decode::effects::{Effects, InstructionEffect, Operand};
use crate::native::decode::exposure::exposure;
use crate::native::decode::{self, Field, Flow, Instruction};
use crate::native::relocations::types::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_CODE_4_GOTPCRELX, R_X86_64_CODE_5_GOTPCRELX,
    R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PLT32,
    R_X86_64_REX_GOTPCRELX, R_X86_64_TLSDESC_CALL,
};
use crate::native::relocations::{Rela, is_thread_local, symbol_of, type_of};
use crate::summary::Target;

/// The operand that a relocation makes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelocatedOperand {
    /// The instruction has no such operand.
    Absent,
    /// This address (for a displacement with registers: the constant part of one).
    Place(Target, i64),
    /// The operand is the entry of the global offset table that holds the address of the symbol.
    Got(SymbolIdx),
    /// An offset in thread-local storage, or an operand of a sequence that computes one.
    Tls,
}

/// An instruction of the unit, with the meaning of its fields.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) atom: AtomIdx,
    pub(super) section: u32,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) flow: Flow,
    pub(super) effect: InstructionEffect,
    pub(super) exposure: Exposure,
    pub(super) displacement: RelocatedOperand,
    pub(super) immediate: RelocatedOperand,
    /// The target in the same section of a direct branch without relocation, or of a RIP-relative operand.
    pub(super) target: Option<u64>,
    /// A relocation marks it as the call of a TLS descriptor.
    pub(super) tls_call: bool,
    /// The instruction sets the register al to zero.
    pub(super) clears_al: bool,
    /// The constant that it moves to ecx.
    pub(super) sets_count: Option<u32>,
    /// The bytes of an element, if it is a repeated string instruction.
    pub(super) element: Option<u32>,
    /// It may fault, and an exception handling table covers it with a landing pad.
    pub(super) throws: bool,
}

impl Op {
    /// Whether it may fault, other than by a stack overflow. If a compiler turns faults into exceptions, its tables cover these
    /// instructions.
    fn may_fault(&self) -> bool {
        matches!(
            self.effect,
            InstructionEffect::Nothing
                | InstructionEffect::Compare { .. }
                | InstructionEffect::Keep
                | InstructionEffect::Move { to: Operand::Memory(_), .. }
                | InstructionEffect::Move { from: Operand::Memory(_), .. }
                | InstructionEffect::StringMove { .. }
                | InstructionEffect::StringStore { .. }
                | InstructionEffect::Other(_)
        )
    }
}

/// The target of a direct branch, in the unit or outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// It leads to the instruction of this number in the unit.
    Inner(usize),
    /// It leads out of the unit, to a byte offset in the target.
    Outer(Target, i64),
}

pub(super) struct Block {
    pub(super) start: usize,
    pub(super) end: usize,
}

pub(super) struct Unit {
    /// The atoms of the unit in ascending order, the function's own among them.
    pub(super) atoms: Vec<AtomIdx>,
    /// The instructions, in the order of atoms and offsets.
    pub(super) ops: Vec<Op>,
    /// The entries for callers: (atom, offset in its section), ascending, with the instruction.
    pub(super) entries: Vec<(AtomIdx, u64, usize)>,
    pub(super) blocks: Vec<Block>,
    /// Instructions that are labels, ascending; with whether their address is a value (and not only in a table).
    pub(super) labels: Vec<(usize, bool)>,
    /// The places of tables of labels, in the sections of these atoms, ascending.
    pub(super) tables: Vec<(AtomIdx, u64)>,
    /// Its unwind table refers to something: the unwinder may enter it.
    pub(super) has_handlers: bool,
    /// Instructions at which the unwinder enters, ascending.
    pub(super) pads: Vec<usize>,
    /// It compares a number with one that may be the size of a struct in memory, so that the other number is known then.
    pub(super) compares_sizes: bool,
}

/// The beginning of a [`Refusal`] if the function uses the caller's value of a register that passes nothing.
pub(super) const CALLERS_REGISTER: &str = "the caller's register";
/// The same for rax, which each call passes.
pub(super) const CALLERS_RAX: &str = "the caller's register rax";

/// The instructions that compilers use to set al to zero: `xor` and `sub` of a register with itself, and moves of 0.
const CLEARS_AL: [&[u8]; 10] = [
    &[0x31, 0xc0],
    &[0x33, 0xc0],
    &[0x29, 0xc0],
    &[0x2b, 0xc0],
    &[0x30, 0xc0],
    &[0x32, 0xc0],
    &[0x48, 0x31, 0xc0],
    &[0xb0, 0],
    &[0xb8, 0, 0, 0, 0],
    &[0x48, 0xc7, 0xc0, 0, 0, 0, 0],
];

/// The constant that `mov $N,%ecx` moves.
fn count_set_by(instruction: &[u8]) -> Option<u32> {
    match instruction {
        [0xb9, constant @ ..] => Some(u32::from_le_bytes(constant.try_into().ok()?)),
        _ => None,
    }
}

/// The bytes of an element of `rep movs` and `rep stos`.
fn element_of(instruction: &[u8]) -> Option<u32> {
    match instruction {
        [0xf3, 0xa4 | 0xaa] => Some(1),
        [0xf3, 0xa5 | 0xab] => Some(4),
        [0xf3, 0x48, 0xa5 | 0xab] => Some(8),
        _ => None,
    }
}

/// The reason why a function cannot be analysed.
pub(super) type Refusal = String;

/// The result of a step of the analysis; the error is the reason why the function is not analysed.
pub(super) type FlowResult<T> = Result<T, Refusal>;

impl Unit {
    /// Decode the atoms. `Err` names the first instruction or relocation without a meaning here.
    pub(super) fn read(
        module: &FlowModule<'_, '_>,
        atoms: Vec<AtomIdx>,
        effects: &mut Effects,
    ) -> FlowResult<Unit> {
        let mut unit = Unit {
            atoms,
            ops: Vec::new(),
            entries: Vec::new(),
            blocks: Vec::new(),
            labels: Vec::new(),
            tables: Vec::new(),
            has_handlers: false,
            pads: Vec::new(),
            compares_sizes: false,
        };
        unit.has_handlers = unit.atoms.iter().any(|a| module.handled.binary_search(a).is_ok());
        for atom in unit.atoms.clone() {
            unit.decode(module, atom, effects)?;
        }
        let is_size = |op: &Op| matches!(op.effect, InstructionEffect::Compare { constant: 17.., .. });
        unit.compares_sizes = unit.ops.iter().any(is_size);
        for atom in unit.atoms.clone() {
            for offset in module.entries_of(atom) {
                let op = unit.find(atom, offset).ok_or("an entry between instructions")?;
                unit.entries.push((atom, offset, op));
            }
        }
        if unit.entries.is_empty() {
            return Err("no entry".to_owned());
        }
        for atom in unit.atoms.clone() {
            for handler in module.handlers(atom)? {
                unit.pads.push(unit.find(atom, handler.pad).ok_or("a landing pad between instructions")?);
                let before = |offset| unit.ops.partition_point(|op| (op.atom, op.offset) < (atom, offset));
                let covered = before(handler.covered.start)..before(handler.covered.end);
                let covered = unit.ops.get_mut(covered).unwrap_or(&mut []);
                covered.iter_mut().for_each(|op| op.throws = op.may_fault());
            }
        }
        unit.pads.sort_unstable();
        unit.pads.dedup();
        let (mut labels, mut leaders) = (Vec::new(), vec![0]);
        let named = module.labels_in(&unit.atoms);
        for label in &named {
            match label.by {
                LabelUse::Data if !unit.traps(label) => {
                    return Err(format!("a label at {:#x} for others to jump to", label.offset));
                }
                LabelUse::Code(atom) if unit.atoms.binary_search(&atom).is_err() => {
                    return Err(format!("a label at {:#x} that code elsewhere leads to", label.offset));
                }
                LabelUse::Table((section, offset)) => unit.tables.extend(module.place(section, offset)),
                LabelUse::Data | LabelUse::Code(_) | LabelUse::Name => {}
            }
        }
        unit.tables.sort_unstable();
        unit.tables.dedup();
        for label in named {
            let op = unit.find(label.atom, label.offset).ok_or("a label between instructions")?;
            labels.push((op, label.is_value));
        }
        for (i, op) in unit.ops.iter().enumerate() {
            if let (InstructionEffect::Lea { .. }, RelocatedOperand::Absent, Some(target)) =
                (&op.effect, op.displacement, op.target)
                && let Some((atom, offset)) = module.place(op.section, target)
                && unit.atoms.binary_search(&atom).is_ok()
                && !unit.is_entry(atom, offset)
            {
                labels.push((unit.find(atom, offset).ok_or("a label between instructions")?, true));
            }
            let branches = matches!(op.effect, InstructionEffect::Jump | InstructionEffect::Call);
            if let Some(Destination::Inner(to)) =
                branches.then(|| unit.destination(module, op)).transpose()?
            {
                leaders.push(to);
            }
            let next = unit.ops.get(i + 1);
            if op.flow != Flow::Next || op.throws || next.is_some_and(|n| n.atom != op.atom) {
                leaders.push(i + 1);
            }
            if op.throws {
                leaders.push(i);
            }
        }
        // A label that is a value and in a table counts as a value.
        labels.sort_unstable_by_key(|(op, value)| (*op, !value));
        labels.dedup_by_key(|l| l.0);
        unit.labels = labels;
        leaders.extend(unit.labels.iter().map(|l| l.0));
        leaders.extend(unit.entries.iter().map(|e| e.2));
        leaders.extend(unit.pads.iter().copied());
        leaders.sort_unstable();
        leaders.dedup();
        let count = unit.ops.len();
        let ends = leaders.iter().copied().skip(1).chain([count]);
        let ranges = leaders.iter().copied().zip(ends).filter(|(start, end)| start < end);
        unit.blocks = ranges.map(|(start, end)| Block { start, end }).collect();
        Ok(unit)
    }

    fn decode(
        &mut self,
        module: &FlowModule<'_, '_>,
        atom: AtomIdx,
        effects: &mut Effects,
    ) -> FlowResult<()> {
        let (section, start, bytes) = module.code(atom).ok_or("its bytes can't be read")?;
        let mut instructions = Vec::with_capacity(bytes.len() / 4);
        let start32 = u32::try_from(start).map_err(|_| "too large")?;
        decode::decode(bytes, start32, &mut instructions)
            .map_err(|at| format!("no instruction at {at:#x}"))?;
        let mut relas = module.relas_of(section, start, start + bytes.len() as u64).iter().peekable();
        self.ops.reserve_exact(instructions.len());
        for instruction in &instructions {
            let from = (u64::from(instruction.offset) - start) as usize;
            let own = bytes.get(from..from + usize::from(instruction.len)).unwrap_or(&[]);
            let mut op = Op {
                atom,
                section,
                offset: u64::from(instruction.offset),
                end: instruction.end(),
                flow: instruction.flow,
                effect: effects.effect(own, u64::from(instruction.offset)),
                exposure: exposure(own),
                displacement: RelocatedOperand::Absent,
                immediate: RelocatedOperand::Absent,
                target: instruction.target().and_then(|t| u64::try_from(t).ok()),
                tls_call: false,
                clears_al: CLEARS_AL.contains(&own),
                sets_count: count_set_by(own),
                element: element_of(own),
                throws: false,
            };
            while let Some((_, rela)) = relas.next_if(|(_, r)| place_of(r) < instruction.end()) {
                apply(module, rela, instruction, &mut op)?;
            }
            op.clears_al &= op.immediate == RelocatedOperand::Absent;
            op.sets_count = op.sets_count.filter(|_| op.immediate == RelocatedOperand::Absent);
            self.ops.push(op);
        }
        Ok(())
    }

    /// The number of the instruction at this place, if one begins there.
    pub(super) fn find(&self, atom: AtomIdx, offset: u64) -> Option<usize> {
        self.ops.binary_search_by_key(&(atom, offset), |op| (op.atom, op.offset)).ok()
    }

    pub(super) fn is_entry(&self, atom: AtomIdx, offset: u64) -> bool {
        self.entries.binary_search_by_key(&(atom, offset), |e| (e.0, e.1)).is_ok()
    }

    /// Whether the label is at a trap, like those that sanitizers list (`.kcfi_traps`).
    fn traps(&self, label: &Label) -> bool {
        let op = self.find(label.atom, label.offset).and_then(|op| self.ops.get(op));
        op.is_some_and(|op| op.effect == InstructionEffect::Stop)
    }

    /// Whether the place is a label, or the start of a table of labels.
    pub(super) fn is_label(&self, atom: AtomIdx, offset: u64) -> bool {
        let is_op = |op: usize| self.labels.binary_search_by_key(&op, |label| label.0).is_ok();
        self.tables.binary_search(&(atom, offset)).is_ok() || self.find(atom, offset).is_some_and(is_op)
    }

    /// The function that a place is in, by the entries before it. A cold part is in the function that comes first among its atoms.
    pub(super) fn function_at(&self, at: (AtomIdx, u64)) -> usize {
        let before = self.entries.partition_point(|e| (e.0, e.1) <= at);
        let of_atom = before.checked_sub(1).filter(|e| self.entries.get(*e).is_some_and(|e| e.0 == at.0));
        of_atom.unwrap_or(0)
    }

    /// The destination of a direct jump or call.
    pub(super) fn destination(&self, module: &FlowModule<'_, '_>, op: &Op) -> FlowResult<Destination> {
        let place = match (op.displacement, op.target) {
            (RelocatedOperand::Place(Target::Symbol(symbol), offset), _) => {
                return Ok(Destination::Outer(Target::Symbol(symbol), offset));
            }
            (RelocatedOperand::Place(Target::Atom(atom), offset), _) => (atom, u64::try_from(offset).ok()),
            (RelocatedOperand::Absent, Some(target)) => {
                let (atom, offset) = module.place(op.section, target).ok_or("a branch to nowhere")?;
                (atom, Some(offset))
            }
            _ => return Err(format!("a branch at {:#x} by an odd relocation", op.offset)),
        };
        let (atom, Some(offset)) = place else { return Err("a branch to nowhere".to_owned()) };
        let inside = self.atoms.binary_search(&atom).is_ok();
        // A recursive call of one of the unit's own entries is a call.
        if !inside || op.effect == InstructionEffect::Call && self.is_entry(atom, offset) {
            return Ok(Destination::Outer(Target::Atom(atom), offset as i64));
        }
        match self.find(atom, offset) {
            Some(to) => Ok(Destination::Inner(to)),
            // Code may jump over a `lock` prefix, into the same instruction.
            None => offset
                .checked_sub(1)
                .and_then(|o| self.find(atom, o))
                .map(Destination::Inner)
                .ok_or_else(|| format!("a branch at {:#x} between instructions", op.offset)),
        }
    }
}

pub(super) fn place_of(rela: &Rela) -> u64 {
    rela.r_offset.get(object::endian::LittleEndian)
}

/// Apply a relocation to the operand of an instruction.
fn apply(module: &FlowModule<'_, '_>, rela: &Rela, instruction: &Instruction, op: &mut Op) -> FlowResult<()> {
    let (place, ty) = (place_of(rela), type_of(rela));
    if ty == R_X86_64_NONE {
        return Ok(());
    }
    if ty == R_X86_64_TLSDESC_CALL {
        op.tls_call = true;
        return Ok(());
    }
    let in_instruction = place.wrapping_sub(op.offset) as u8;
    let displacement = instruction.displacement().1 != 0 && instruction.displacement().0 == in_instruction;
    let immediate = instruction.immediate().1 != 0 && instruction.immediate().0 == in_instruction;
    if !displacement && !immediate {
        return Err(format!("a relocation at {place:#x} in no field"));
    }
    let addend = rela.r_addend.get(object::endian::LittleEndian);
    let relative = matches!(instruction.field, Field::Branch | Field::RipRelative { .. });
    let meaning = match ty {
        R_X86_64_PC32 | R_X86_64_PLT32 if displacement && relative => {
            let offset = addend.wrapping_add(instruction.end().wrapping_sub(place) as i64);
            module.target(symbol_of(rela), offset)
        }
        R_X86_64_64 | R_X86_64_32 | R_X86_64_32S if immediate || !relative => {
            module.target(symbol_of(rela), addend)
        }
        R_X86_64_GOTPCREL
        | R_X86_64_GOTPCRELX
        | R_X86_64_REX_GOTPCRELX
        | R_X86_64_CODE_4_GOTPCRELX
        | R_X86_64_CODE_5_GOTPCRELX
            if displacement && addend == -4 || ty == R_X86_64_CODE_4_GOTPCRELX =>
        {
            Some(RelocatedOperand::Got(symbol_of(rela)))
        }
        // The entry of the table that a shorter or longer instruction reads.
        R_X86_64_GOTPCREL | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX if displacement && relative => {
            Some(RelocatedOperand::Got(symbol_of(rela)))
        }
        _ if is_thread_local(ty) => Some(RelocatedOperand::Tls),
        _ => None,
    };
    let Some(meaning) = meaning else {
        return Err(format!("a relocation of type {ty} at {place:#x}"));
    };
    match displacement {
        true => op.displacement = meaning,
        false => op.immediate = meaning,
    }
    Ok(())
}
