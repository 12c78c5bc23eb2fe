//! Registers and the stack pointer in an abstract interpretation of code: [`super::stack`] walks the control flow with these.

use iced_x86::{ConditionCode, Instruction as Decoded, Mnemonic, OpAccess, OpKind, Register};

use super::stack::StackCallee;

/// No code or data is at lower addresses.
const FIRST: i64 = 4096;

/// No stack is deeper, in bytes.
const DEEPEST: i64 = 1 << 40;

pub(super) const RSP: usize = 4;
pub(super) const RBP: usize = 5;

/// The content of a register, as far as it matters to the stack pointer and to jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackValue {
    Unknown,
    Constant(u64),
    /// One of several constants, by a join or a conditional move.
    Chosen,
    /// An address of the stack at this depth or above. `dynamic`: or below it by an unknown amount.
    Stack {
        depth: i64,
        dynamic: bool,
    },
    /// The 8 bytes at an address.
    Loaded(u64),
    /// 4 bytes of a table at an address, at an unknown index.
    Offset(u64),
    /// An element of a table of jump targets. The elements have a size in bytes, and are relative to the base. With the size 0 there is no table.
    Target {
        table: u64,
        base: u64,
        size: usize,
    },
}

use StackValue::{Chosen, Constant, Loaded, Offset, Stack, Target, Unknown};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StackState {
    registers: [StackValue; 16],
    /// The depth that the last instruction compared the stack pointer with.
    pub(super) compared: Option<i64>,
    /// The callee, if the last instruction but for padding was a call.
    pub(super) behind: Option<StackCallee>,
    /// The depth is the larger one of two, and one of them may be that of a path which control does not take.
    pub(super) is_doubtful: bool,
    /// The slot of the return address may have another content.
    pub(super) is_return_written: bool,
}

impl StackState {
    /// The state at the first instruction of a function.
    pub(super) fn at_entry(depth: i64) -> Self {
        let mut state = StackState {
            registers: [Unknown; 16],
            compared: None,
            behind: None,
            is_doubtful: false,
            is_return_written: false,
        };
        state.set(RSP, Stack { depth, dynamic: false });
        state
    }

    pub(super) fn get(&self, register: usize) -> StackValue {
        self.registers.get(register).copied().filter(|v| *v != Chosen).unwrap_or(Unknown)
    }

    /// The content of the register for the result of a function.
    pub(super) fn result(&self) -> StackValue {
        self.registers[0]
    }

    pub(super) fn set(&mut self, register: usize, value: StackValue) {
        // The stack pointer always holds a stack address: an unknown value keeps the depth before as a lower bound.
        let value = match (register, value) {
            (_, Stack { depth, dynamic }) => Stack { depth: depth.clamp(-DEEPEST, DEEPEST), dynamic },
            (RSP, _) => Stack { depth: self.depth().0, dynamic: true },
            _ => value,
        };
        if let Some(slot) = self.registers.get_mut(register) {
            *slot = value;
        }
    }

    /// The depth of the stack pointer, and whether an unknown amount is missing.
    pub(super) fn depth(&self) -> (i64, bool) {
        match self.get(RSP) {
            Stack { depth, dynamic } => (depth, dynamic),
            _ => (0, true),
        }
    }

    /// The join of two states. If the depth may not rise, a larger one is an unknown amount.
    pub(super) fn join(&self, other: &StackState, may_rise: bool) -> StackState {
        let mut joined = self.clone();
        joined.compared = None;
        joined.behind = self.behind.filter(|b| other.behind == Some(*b));
        joined.is_doubtful |= other.is_doubtful;
        joined.is_return_written |= other.is_return_written;
        for (register, (a, b)) in self.registers.iter().zip(&other.registers).enumerate() {
            let value = match (*a, *b) {
                (a, b) if a == b => a,
                (Stack { depth: a, dynamic: x }, Stack { depth: b, dynamic: y }) => match may_rise {
                    false => Stack { depth: a, dynamic: x || y || b > a },
                    true => Stack { depth: a.max(b), dynamic: x || y },
                },
                (Constant(_) | Chosen, Constant(_) | Chosen) => Chosen,
                _ => Unknown,
            };
            joined.set(register, value);
        }
        joined
    }

    /// The result of an instruction in its first operand, a register.
    pub(super) fn value(&self, decoded: &Decoded) -> StackValue {
        let register = |register: Register| {
            number(register).and_then(|n| self.registers.get(n)).copied().unwrap_or(Unknown)
        };
        let old = register(decoded.op0_register());
        let narrow = decoded.op0_register().is_gpr32();
        let source = match decoded.op1_kind() {
            OpKind::Register if decoded.op_count() == 2 => register(decoded.op1_register()),
            OpKind::Memory => self.load(decoded),
            kind if decoded.op_count() == 2 && is_immediate(kind) => Constant(decoded.immediate(1)),
            _ => Unknown,
        };
        let result = match decoded.mnemonic() {
            Mnemonic::Lea => match self.address(decoded) {
                Some(value) => value,
                None => Unknown,
            },
            Mnemonic::Mov => source,
            _ if decoded.condition_code() != ConditionCode::None => match (old, source) {
                (Constant(_) | Chosen, Constant(_) | Chosen) => Chosen,
                _ => Unknown,
            },
            Mnemonic::Movsxd => match source {
                Offset(_) => return source,
                _ => Unknown,
            },
            Mnemonic::Cdqe => {
                return if matches!(register(Register::RAX), Offset(_)) {
                    register(Register::RAX)
                } else {
                    Unknown
                };
            }
            Mnemonic::Xor | Mnemonic::Sub
                if decoded.op1_kind() == OpKind::Register
                    && decoded.op0_register() == decoded.op1_register() =>
            {
                Constant(0)
            }
            Mnemonic::Add => sum(old, source),
            Mnemonic::Sub => match (old, source) {
                (old, Constant(n)) => sum(old, Constant(n.wrapping_neg())),
                _ => Unknown,
            },
            Mnemonic::And => match (old, source) {
                (Stack { depth, dynamic }, Constant(mask)) if mask.wrapping_neg().is_power_of_two() => {
                    // The stack pointer is a multiple of 8.
                    let most = mask.wrapping_neg().min(1 << 32).saturating_sub(8);
                    Stack { depth: depth + most as i64, dynamic }
                }
                _ => Unknown,
            },
            _ => Unknown,
        };
        match (narrow, result) {
            (true, Constant(n)) => Constant(n & u64::from(u32::MAX)),
            (true, Offset(_)) => result,
            (true, _) => Unknown,
            (false, _) => result,
        }
    }

    /// The address of a memory operand; `None` where an index or an unknown register is added.
    fn address(&self, decoded: &Decoded) -> Option<StackValue> {
        if decoded.memory_base() == Register::RIP {
            return Some(Constant(decoded.ip_rel_memory_address()));
        }
        let displacement = Constant(decoded.memory_displacement64());
        match (number(decoded.memory_base()), decoded.memory_index()) {
            (Some(base), Register::None) => Some(sum(self.get(base), displacement)),
            (None, Register::None) => Some(displacement),
            (Some(base), index) if decoded.memory_index_scale() == 1 => {
                // gcc adds the base of a table to an offset so.
                let index = number(index).map_or(Unknown, |n| self.get(n));
                Some(sum(sum(self.get(base), index), displacement))
            }
            _ => None,
        }
    }

    /// The content of a memory operand.
    pub(super) fn load(&self, decoded: &Decoded) -> StackValue {
        let register = |register: Register| number(register).map_or(Constant(0), |n| self.get(n));
        let size = decoded.memory_size().size();
        if decoded.segment_prefix() != Register::None {
            return Unknown;
        }
        if decoded.memory_base() == Register::RIP {
            return if size == 8 { Loaded(decoded.ip_rel_memory_address()) } else { Unknown };
        }
        let (base, index) = (register(decoded.memory_base()), register(decoded.memory_index()));
        let is_scaled = decoded.memory_index_scale() != 1;
        let table = match (base, index) {
            (Constant(base), Constant(index)) if !is_scaled || index == 0 => {
                let address = base.wrapping_add(index).wrapping_add(decoded.memory_displacement64());
                let has_index = decoded.memory_index() != Register::None;
                if size == 8 && !has_index {
                    return Loaded(address);
                }
                address
            }
            (Constant(base), _) => base.wrapping_add(decoded.memory_displacement64()),
            (_, Constant(index)) if !is_scaled && decoded.memory_index() != Register::None => {
                index.wrapping_add(decoded.memory_displacement64())
            }
            // Code at a fixed address has the address of a table in the displacement.
            (Unknown, _) if decoded.memory_displacement64() as i64 >= FIRST => {
                decoded.memory_displacement64()
            }
            _ => return Unknown,
        };
        match size {
            4 => Offset(table),
            8 => Target { table, base: 0, size: 8 },
            _ => Unknown,
        }
    }
}

fn sum(a: StackValue, b: StackValue) -> StackValue {
    match (a, b) {
        (Constant(a), Constant(b)) => Constant(a.wrapping_add(b)),
        (Stack { depth, dynamic }, Constant(n)) | (Constant(n), Stack { depth, dynamic }) => {
            Stack { depth: depth.saturating_sub(n as i64), dynamic }
        }
        (Offset(table), Constant(base)) | (Constant(base), Offset(table)) => Target { table, base, size: 4 },
        (other, Constant(0)) | (Constant(0), other) => other,
        // Assembly computes the target of a jump from a label.
        (Unknown, Constant(base)) | (Constant(base), Unknown) => Target { table: base, base, size: 0 },
        _ => Unknown,
    }
}

pub(super) fn callee(value: StackValue) -> StackCallee {
    match value {
        Constant(address) => StackCallee::Address(address),
        Loaded(slot) => StackCallee::Slot(slot),
        _ => StackCallee::Unknown,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32
            | OpKind::Immediate32to64
            | OpKind::Immediate64
    )
}

/// The number in instructions of the general register that holds this one.
pub(super) fn number(register: Register) -> Option<usize> {
    let register = register.full_register();
    register.is_gpr64().then(|| register.number())
}

pub(super) fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}
