//! Instructions as the splitting of sections needs them: extents, control flow, and where the constant fields lie.
//!
//! This file is the only home of the decoder (iced-x86). It says what bytes mean to a processor in 64-bit mode and nothing
//! about what a compiler meant by them: an instruction that the decoder does not know, or that does not end where its
//! function ends, is an error and never a guess. What the registers hold is in [`Step`], for proofs of jump tables.

pub(crate) mod effects;
pub(crate) mod exposure;
mod kinds;
pub(crate) mod references;
pub(crate) mod stack;
pub(crate) mod stack_returns;
#[cfg(test)]
mod stack_tests;
mod stack_values;

use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction as Decoded,
    InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// Where control goes behind an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It goes on with the next instruction and nowhere else.
    Next,
    /// `jmp` to the place that [`Instruction::target`] says.
    Jump,
    /// `jcc`, `loop`, `jrcxz`, `xbegin`: to the target or the next instruction.
    Conditional,
    /// `call` of the place that [`Instruction::target`] says.
    Call,
    /// `call` through a register or memory.
    IndirectCall,
    /// `jmp` to the place that a register holds.
    JumpRegister,
    /// `jmp` to the place that memory holds.
    JumpMemory,
    /// `ret`, `ud2`, `hlt`, `int3` and their like: not to the next instruction.
    Stop,
}

/// What the displacement of an instruction means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// None that is 4 bytes or wider, or a branch of less than 4 bytes.
    None,
    /// A branch, direct, with a field of 32 bits.
    Branch,
    /// A RIP-relative memory operand. `access` says that memory is read or written there: `lea` only takes the address.
    RipRelative { access: bool },
    /// Any other displacement: absolute, or relative to registers.
    Displacement { registers: bool },
}

/// A decoded instruction; offsets are in bytes from the start of its section. A large section has a million: 16 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) offset: u32,
    /// The distance from its end to [`Instruction::target`], if it has one.
    distance: i32,
    pub(crate) len: u8,
    pub(crate) flow: Flow,
    /// What the field at [`Instruction::displacement`] means.
    pub(crate) field: Field,
    displacement: ConstantField,
    immediate: ConstantField,
    has_target: bool,
    /// The first byte is a `lock` prefix, over which code may jump.
    pub(crate) lock: bool,
}

/// Where a constant lies in an instruction of at most 15 bytes: its offset in the high half, its size in bytes in the low one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConstantField(u8);

impl ConstantField {
    fn new(offset: usize, size: usize) -> Self {
        ConstantField((offset as u8 & 15) << 4 | size as u8 & 15)
    }

    fn offset_and_size(self) -> (u8, u8) {
        (self.0 >> 4, self.0 & 15)
    }
}

impl Instruction {
    /// The offset of the first byte behind the instruction.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }

    /// Where a direct branch (of any width) or a RIP-relative operand leads if no relocation says otherwise.
    pub(crate) fn target(&self) -> Option<i64> {
        self.has_target.then(|| self.end() as i64 + i64::from(self.distance))
    }

    /// Offset in the instruction and size in bytes of the displacement or branch distance; size 0 if there is none.
    pub(crate) fn displacement(&self) -> (u8, u8) {
        self.displacement.offset_and_size()
    }

    /// The immediate's offset in the instruction and its size, in bytes, like the displacement's.
    pub(crate) fn immediate(&self) -> (u8, u8) {
        self.immediate.offset_and_size()
    }

    fn set_fields(&mut self, constants: &ConstantOffsets, decoded: &Decoded) {
        let is_branch = decoded.op_count() > 0 && decoded.op0_kind() == OpKind::NearBranch64;
        if constants.has_displacement() {
            self.displacement =
                ConstantField::new(constants.displacement_offset(), constants.displacement_size());
        }
        if constants.has_immediate() {
            let immediate = ConstantField::new(constants.immediate_offset(), constants.immediate_size());
            *(if is_branch { &mut self.displacement } else { &mut self.immediate }) = immediate;
        }
        let has_memory = || decoded.op_kinds().any(|kind| kind == OpKind::Memory);
        self.field = match (is_branch, self.displacement.offset_and_size().1) {
            (true, 4) => Field::Branch,
            (true, _) => Field::None,
            (false, _) if decoded.memory_base() == Register::RIP => {
                Field::RipRelative { access: !matches!(decoded.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) }
            }
            (false, 4 | 8) if has_memory() => Field::Displacement {
                registers: decoded.memory_base() != Register::None
                    || decoded.memory_index() != Register::None,
            },
            _ => Field::None,
        };
    }

    /// Whether control may go from it to [`Instruction::target`] and not come back.
    pub(crate) fn is_jump(&self) -> bool {
        matches!(self.flow, Flow::Jump | Flow::Conditional)
    }

    /// Where the displacement lies in the section.
    pub(crate) fn displacement_at(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.displacement().0)
    }
}

/// Decode `bytes`, which begin at `offset` of their section, to the last byte. `Err` is the offset of what is no
/// instruction, or reaches over the end.
pub(crate) fn decode(bytes: &[u8], offset: u32, out: &mut Vec<Instruction>) -> Result<(), u64> {
    sweep(bytes, offset, out, true)
}

/// The same without the fields of the instructions: extents, control flow and targets alone, which takes less time.
pub(crate) fn decode_flow(bytes: &[u8], offset: u32, out: &mut Vec<Instruction>) -> Result<(), u64> {
    sweep(bytes, offset, out, false)
}

fn sweep(bytes: &[u8], offset: u32, out: &mut Vec<Instruction>, has_fields: bool) -> Result<(), u64> {
    let mut decoder = Decoder::with_ip(64, bytes, u64::from(offset), DecoderOptions::NONE);
    let mut decoded = Decoded::default();
    while decoder.can_decode() {
        let at = decoder.ip();
        decoder.decode_out(&mut decoded);
        let instruction = if decoded.is_invalid() { None } else { translate(&decoded, at, bytes, offset) };
        let mut instruction = instruction.ok_or(at)?;
        if has_fields {
            instruction.set_fields(&decoder.get_constant_offsets(&decoded), &decoded);
        }
        out.push(instruction);
    }
    Ok(())
}

/// The bytes that the instruction in `bytes` reads or writes where its displacement alone says, absolute or RIP-relative.
/// `None` if it only forms or hints the address, adds registers to it, or it is not known how many bytes.
pub(crate) fn direct_access_size(bytes: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let decoded = decoder.decode();
    let mut operands = (0..decoded.op_count()).filter(|i| decoded.op_kind(*i) == OpKind::Memory);
    let (operand, None) = (operands.next()?, operands.next()) else { return None };
    let direct = matches!(decoded.memory_base(), Register::None | Register::RIP)
        && decoded.memory_index() == Register::None
        && decoded.segment_prefix() == Register::None;
    // With the bit number in a register they access what is that many bits away.
    let bits = matches!(decoded.mnemonic(), Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts)
        && decoded.op1_kind() == OpKind::Register;
    if decoded.is_invalid() || !direct || bits {
        return None;
    }
    let mut info = InstructionInfoFactory::new();
    let access = info.info(&decoded).op_access(operand);
    let accessed = !matches!(access, OpAccess::None | OpAccess::NoMemAccess);
    let size = decoded.memory_size().size() as u64;
    (accessed && size > 0).then_some(size)
}

/// Whether `bytes` are nothing but what assemblers fill gaps with: forms of `nop`, and `int3`.
pub fn is_padding(bytes: &[u8]) -> bool {
    is_alignment(bytes, 1)
}

/// Whether `bytes` are [padding](is_padding) and fewer zeros than `align`, as linkers and compilers align code.
pub(crate) fn is_alignment(bytes: &[u8], align: u64) -> bool {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut zeros = 0;
    while decoder.can_decode() {
        let at = decoder.position();
        if bytes.get(at) == Some(&0) {
            zeros += 1;
            if zeros >= align || decoder.set_position(at + 1).is_err() {
                return false;
            }
            continue;
        }
        let decoded = decoder.decode();
        if decoded.is_invalid() || !matches!(decoded.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return false;
        }
    }
    true
}

/// The instruction as far as [`decode_flow`] says it, without its fields.
fn translate(decoded: &Decoded, at: u64, bytes: &[u8], base: u32) -> Option<Instruction> {
    // A branch has one operand. That of a far jump or of `enter` has two parts; neither is compiled code. 16-bit branches truncate the
    // instruction pointer, and an EIP-relative operand the address.
    let first = if decoded.op_count() == 0 { OpKind::Register } else { decoded.op0_kind() };
    let odd = matches!(
        first,
        OpKind::FarBranch16 | OpKind::FarBranch32 | OpKind::NearBranch16 | OpKind::NearBranch32
    );
    let has_second_immediate = || decoded.op_kinds().any(|kind| kind == OpKind::Immediate8_2nd);
    if odd || has_second_immediate() || decoded.memory_base() == Register::EIP {
        return None;
    }
    let branch = first == OpKind::NearBranch64;
    let rip = decoded.memory_base() == Register::RIP;
    let target = match (branch, rip) {
        (true, _) => Some(decoded.near_branch_target() as i64),
        (false, true) => Some(decoded.ip_rel_memory_address() as i64),
        _ => None,
    };
    let end = at.checked_add(decoded.len() as u64)?;
    let distance = target.map(|target: i64| i32::try_from(target.wrapping_sub(end as i64)));
    let none = ConstantField::new(0, 0);
    Some(Instruction {
        offset: u32::try_from(at).ok()?,
        distance: distance.unwrap_or(Ok(0)).ok()?,
        len: decoded.len() as u8,
        flow: flow(decoded, branch)?,
        field: Field::None,
        displacement: none,
        immediate: none,
        has_target: target.is_some(),
        lock: bytes.get((at - u64::from(base)) as usize) == Some(&0xf0),
    })
}

fn flow(decoded: &Decoded, branch: bool) -> Option<Flow> {
    Some(match decoded.flow_control() {
        FlowControl::Next if decoded.code() == Code::Hlt => Flow::Stop,
        FlowControl::Next => Flow::Next,
        FlowControl::UnconditionalBranch => Flow::Jump,
        FlowControl::ConditionalBranch => Flow::Conditional,
        FlowControl::XbeginXabortXend if branch => Flow::Conditional,
        FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::IndirectBranch if decoded.op0_kind() == OpKind::Register => Flow::JumpRegister,
        FlowControl::IndirectBranch => Flow::JumpMemory,
        FlowControl::Call if branch => Flow::Call,
        // syscall, vmcall...: they come back.
        FlowControl::Call => Flow::Next,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return | FlowControl::Exception => Flow::Stop,
        FlowControl::Interrupt if matches!(decoded.mnemonic(), Mnemonic::Int3) => Flow::Stop,
        FlowControl::Interrupt => Flow::Next,
    })
}

/// What an instruction does to the stack pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StackChange {
    /// It moves up by so many bytes. A call comes back with the stack pointer where it was.
    By(i64),
    /// `mov %rsp, %rbp`: rbp is the frame's from here on.
    Frame,
    Leave,
    Unknown,
}

/// What the instruction in `bytes` does to the stack pointer.
pub(crate) fn stack_change(bytes: &[u8]) -> StackChange {
    let decoded = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    let to = decoded.op0_register();
    let constant = |n: i64| if to == Register::RSP { StackChange::By(n) } else { StackChange::By(0) };
    let by_constant = decoded.op_count() == 2
        && matches!(decoded.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
    match decoded.mnemonic() {
        Mnemonic::Sub if by_constant => constant(-(decoded.immediate(1) as i64)),
        Mnemonic::Add if by_constant => constant(decoded.immediate(1) as i64),
        Mnemonic::Mov if to == Register::RBP && decoded.op1_register() == Register::RSP => StackChange::Frame,
        Mnemonic::Leave => StackChange::Leave,
        Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq if to != Register::RSP => {
            StackChange::By(decoded.stack_pointer_increment().into())
        }
        Mnemonic::Cmp | Mnemonic::Test => StackChange::By(0),
        _ if decoded.is_call_near() || decoded.is_call_near_indirect() => StackChange::By(0),
        _ if to.full_register() == Register::RSP => StackChange::Unknown,
        Mnemonic::Ret => StackChange::By(0),
        _ if decoded.is_stack_instruction() => StackChange::Unknown,
        _ => StackChange::By(0),
    }
}

/// A general register, by its number in the encoding (0 is rax, 4 is rsp).
pub(crate) type Gpr = u8;

/// What an instruction does to general registers, as far as computing the target of a jump goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A RIP-relative `lea`: the address that the displacement means.
    Address { to: Gpr },
    /// `lea` of the sum of two registers.
    Sum { to: Gpr, a: Gpr, b: Gpr },
    /// A 32-bit load from `base` + `index`, sign-extended or not, without displacement. `plain` says that the index is not
    /// scaled, so that either register may hold the base.
    Load32 { to: Gpr, base: Gpr, index: Gpr, plain: bool },
    /// A load of 32 bits relative to the instruction pointer.
    LoadConstant32 { to: Gpr },
    /// `mov` from one 64-bit register to another.
    Move { to: Gpr, from: Gpr },
    /// `movsxd` from a register, or `cdqe`: the low half, with its sign.
    Extend { to: Gpr, from: Gpr },
    /// `add` of one 64-bit register to another.
    Add { to: Gpr, from: Gpr },
    /// A load of 64 bits, or `pop`, with the registers that it writes.
    Load64 { to: Gpr, written: u16 },
    /// A constant: `mov` of an immediate, `xor` of a register with itself.
    Constant { to: Gpr, value: u64 },
    /// A conditional move of 64 bits, from memory if from no register.
    Select { to: Gpr, from: Option<Gpr> },
    /// A call, through this register if it is through one: what the convention does not preserve is lost.
    Call { through: Option<Gpr> },
    /// A form of `nop`, which changes nothing.
    Padding,
    /// `jmp` to the place that this register holds.
    Jump { through: Gpr },
    /// Anything else: bits of the registers that it writes or may write.
    Other { written: u16 },
}

impl Step {
    /// The register that it computes; of a call, the one that its result comes back in.
    pub(crate) fn to(self) -> Option<Gpr> {
        match self {
            Step::Address { to }
            | Step::Sum { to, .. }
            | Step::Load32 { to, .. }
            | Step::LoadConstant32 { to }
            | Step::Move { to, .. }
            | Step::Extend { to, .. }
            | Step::Add { to, .. }
            | Step::Load64 { to, .. }
            | Step::Constant { to, .. }
            | Step::Select { to, .. } => Some(to),
            Step::Call { .. } => Some(0),
            Step::Padding | Step::Jump { .. } | Step::Other { .. } => None,
        }
    }

    /// Whether the register may hold something else behind it, at the next instruction.
    pub(crate) fn may_write(self, register: Gpr) -> bool {
        match self {
            Step::Load64 { to, written } => to == register || written & 1 << register != 0,
            Step::Other { written } => written & 1 << register != 0,
            Step::Call { .. } => true,
            _ => self.to() == Some(register),
        }
    }
}

/// Decodes [`Step`]s; reused, since it keeps buffers.
pub(crate) struct Steps(InstructionInfoFactory);

impl Steps {
    pub(crate) fn new() -> Self {
        Steps(InstructionInfoFactory::new())
    }

    /// What the instruction in `bytes` does. Bytes that are no instruction may write every register.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
        let decoded = decoder.decode();
        if decoded.is_invalid() {
            return Step::Other { written: u16::MAX };
        }
        known(&decoded, || self.written(&decoded))
            .unwrap_or_else(|| Step::Other { written: self.written(&decoded) })
    }

    fn written(&mut self, decoded: &Decoded) -> u16 {
        let info = self.0.info(decoded);
        let writes = |a| {
            matches!(a, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
        };
        let registers = info.used_registers().iter().filter(|r| writes(r.access()));
        registers.filter_map(|r| full(r.register())).fold(0, |mask, r| mask | (1 << r))
    }
}

/// The number of the 64-bit register that holds this general register.
fn full(register: Register) -> Option<Gpr> {
    let register = register.full_register();
    register.is_gpr64().then(|| register.number() as Gpr)
}

fn wide(register: Register) -> Option<Gpr> {
    register.is_gpr64().then(|| register.number() as Gpr)
}

fn known(decoded: &Decoded, written: impl FnOnce() -> u16) -> Option<Step> {
    let (to, kind) = (decoded.op0_register(), decoded.op1_kind());
    let two_registers = decoded.op0_kind() == OpKind::Register && kind == OpKind::Register;
    let from = || decoded.op1_register();
    let memory = kind == OpKind::Memory && decoded.segment_prefix() == Register::None;
    match decoded.mnemonic() {
        Mnemonic::Lea if decoded.memory_base() == Register::RIP => Some(Step::Address { to: wide(to)? }),
        Mnemonic::Lea
            if decoded.memory_index_scale() == 1
                && decoded.memory_displacement64() == 0
                && decoded.memory_index() != Register::None =>
        {
            let (a, b) = (wide(decoded.memory_base())?, wide(decoded.memory_index())?);
            Some(Step::Sum { to: wide(to)?, a, b })
        }
        Mnemonic::Mov | Mnemonic::Movsxd if memory && decoded.memory_size().size() == 4 => {
            if decoded.memory_base() == Register::RIP {
                return Some(Step::LoadConstant32 { to: full(to)? });
            }
            if decoded.memory_displacement64() != 0 {
                return None;
            }
            let (base, index) = (wide(decoded.memory_base())?, wide(decoded.memory_index())?);
            Some(Step::Load32 { to: full(to)?, base, index, plain: decoded.memory_index_scale() == 1 })
        }
        Mnemonic::Mov if memory => Some(Step::Load64 { to: wide(to)?, written: written() }),
        Mnemonic::Mov if two_registers => Some(Step::Move { to: wide(to)?, from: wide(from())? }),
        Mnemonic::Mov if decoded.op0_kind() == OpKind::Register && is_immediate(kind) => {
            let value = match to.size() {
                4 => u64::from(decoded.immediate(1) as u32),
                8 => decoded.immediate(1),
                _ => return None,
            };
            Some(Step::Constant { to: full(to)?, value })
        }
        Mnemonic::Xor if two_registers && to == from() && to.size() >= 4 => {
            Some(Step::Constant { to: full(to)?, value: 0 })
        }
        Mnemonic::Movsxd if two_registers => Some(Step::Extend { to: wide(to)?, from: full(from())? }),
        Mnemonic::Nop => Some(Step::Padding),
        Mnemonic::Cdqe => Some(Step::Extend { to: 0, from: 0 }),
        Mnemonic::Add if two_registers => Some(Step::Add { to: wide(to)?, from: wide(from())? }),
        Mnemonic::Pop => Some(Step::Load64 { to: wide(to)?, written: written() }),
        _ if decoded.is_jmp_near_indirect() && decoded.op0_kind() == OpKind::Register => {
            Some(Step::Jump { through: wide(to)? })
        }
        _ if decoded.is_call_near() || decoded.is_call_near_indirect() => {
            let is_register = decoded.op0_kind() == OpKind::Register;
            Some(Step::Call { through: if is_register { wide(to) } else { None } })
        }
        _ if matches!(decoded.flow_control(), FlowControl::Next) && kinds::is_cmov(decoded) => {
            let from = if two_registers { Some(wide(from())?) } else { None };
            Some(Step::Select { to: wide(to)?, from })
        }
        _ => None,
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(kind, OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Instruction> {
        let mut out = Vec::new();
        decode(bytes, 0x100, &mut out).unwrap();
        out
    }

    #[test]
    fn instructions_are_small() {
        assert_eq!(size_of::<Instruction>(), 16);
    }

    #[test]
    fn fields_and_flow() {
        // call +0; jne +2; lea 0x10(%rip),%rax; mov $1,%eax; cmpb $5,4(%rip); jmp *%rax; ret
        let bytes = [
            0xe8, 0, 0, 0, 0, 0x75, 2, 0x48, 0x8d, 5, 0x10, 0, 0, 0, 0xb8, 1, 0, 0, 0, 0x80, 0x3d, 4, 0, 0,
            0, 5, 0xff, 0xe0, 0xc3,
        ];
        let found = all(&bytes);
        let facts: Vec<_> =
            found.iter().map(|i| (i.flow, i.field, i.displacement(), i.immediate(), i.target())).collect();
        assert_eq!(
            facts,
            [
                (Flow::Call, Field::Branch, (1, 4), (0, 0), Some(0x105)),
                (Flow::Conditional, Field::None, (1, 1), (0, 0), Some(0x109)),
                (Flow::Next, Field::RipRelative { access: false }, (3, 4), (0, 0), Some(0x11e)),
                (Flow::Next, Field::None, (0, 0), (1, 4), None),
                (Flow::Next, Field::RipRelative { access: true }, (2, 4), (6, 1), Some(0x11e)),
                (Flow::JumpRegister, Field::None, (0, 0), (0, 0), None),
                (Flow::Stop, Field::None, (0, 0), (0, 0), None),
            ]
        );
        // The long forms of thread-local access: data16 lea; data16 data16 rex.w call.
        let tls = [0x66, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0];
        let found = all(&tls);
        assert_eq!((found[0].displacement(), found[1].displacement()), ((4, 4), (4, 4)));
    }

    #[test]
    fn what_is_no_instruction() {
        let mut out = Vec::new();
        assert_eq!(decode(&[0x90, 0x06], 0, &mut out), Err(1));
        assert_eq!(decode(&[0xe8, 0, 0], 4, &mut out), Err(4));
        // A 16-bit displacement of a branch, an EIP-relative operand.
        assert_eq!(decode(&[0x67, 0x8d, 5, 0, 0, 0, 0], 0, &mut out), Err(0));
    }

    #[test]
    fn direct_accesses() {
        let cases: [(&[u8], Option<u64>); 14] = [
            (&[0x8b, 0x05, 0, 0, 0, 0], Some(4)),              // mov 0(%rip),%eax
            (&[0x80, 0x3d, 0, 0, 0, 0, 5], Some(1)),           // cmpb $5,0(%rip)
            (&[0x66, 0x0f, 0x7f, 0x05, 0, 0, 0, 0], Some(16)), // movdqa %xmm0,0(%rip)
            (&[0xff, 0x25, 0, 0, 0, 0], Some(8)),              // jmp *0(%rip)
            (&[0xff, 0x35, 0, 0, 0, 0], Some(8)),              // push 0(%rip)
            (&[0x8b, 0x04, 0x25, 0, 0, 0, 0], Some(4)),        // mov 0,%eax
            (&[0x48, 0x8d, 0x05, 0, 0, 0, 0], None),           // lea 0(%rip),%rax
            (&[0x0f, 0x18, 0x0d, 0, 0, 0, 0], None),           // prefetcht0 0(%rip)
            (&[0x0f, 0x1f, 0x05, 0, 0, 0, 0], None),           // nopl 0(%rip)
            (&[0x8b, 0x04, 0x8d, 0, 0, 0, 0], None),           // mov 0(,%rcx,4),%eax
            (&[0x8b, 0x80, 0, 0, 0, 0], None),                 // mov 0(%rax),%eax
            (&[0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0], None),     // mov %fs:0,%eax
            (&[0x0f, 0xa3, 0x05, 0, 0, 0, 0], None),           // bt %eax,0(%rip)
            (&[0x0f, 0xba, 0x25, 0, 0, 0, 0, 3], Some(4)),     // btl $3,0(%rip)
        ];
        for (bytes, size) in cases {
            assert_eq!(direct_access_size(bytes), size, "{bytes:x?}");
        }
    }

    #[test]
    fn padding() {
        assert!(is_padding(&[]));
        assert!(is_padding(&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x66, 0x90, 0xcc, 0x90]));
        assert!(!is_padding(&[0, 0]));
        assert!(!is_padding(&[0xc3]));
        assert!(!is_padding(&[0x0f, 0x1f]));
    }

    #[test]
    fn alignment() {
        assert!(is_alignment(&[], 1));
        assert!(is_alignment(&[0x90; 40], 1));
        assert!(is_alignment(&[0; 15], 16) && !is_alignment(&[0; 16], 16));
        assert!(is_alignment(&[0x0f, 0x1f, 0x40, 0, 0, 0, 0, 0xcc], 4));
        assert!(!is_alignment(&[0x0f, 0x1f, 0x40, 0, 0, 0, 0, 0xcc], 3));
        assert!(!is_alignment(&[0, 0, 1], 16));
        assert!(!is_alignment(&[0xc3, 0, 0], 16));
    }

    #[test]
    fn steps() {
        let mut steps = Steps::new();
        let mut step = |bytes: &[u8]| steps.step(bytes);
        assert_eq!(step(&[0x48, 0x8d, 0x15, 0, 0, 0, 0]), Step::Address { to: 2 });
        assert_eq!(step(&[0x48, 0x63, 0x04, 0x82]), Step::Load32 { to: 0, base: 2, index: 0, plain: false });
        assert_eq!(step(&[0x8b, 0x04, 0x02]), Step::Load32 { to: 0, base: 2, index: 0, plain: true });
        assert_eq!(step(&[0x48, 0x63, 0x05, 0, 0, 0, 0]), Step::LoadConstant32 { to: 0 });
        assert_eq!(step(&[0x48, 0x98]), Step::Extend { to: 0, from: 0 });
        assert_eq!(step(&[0x48, 0x01, 0xd0]), Step::Add { to: 0, from: 2 });
        assert_eq!(step(&[0x3e, 0xff, 0xe0]), Step::Jump { through: 0 });
        assert_eq!(step(&[0x4c, 0x01, 0xfa]), Step::Add { to: 2, from: 15 });
        assert_eq!(step(&[0x01, 0xd0]), Step::Other { written: 1 });
        assert_eq!(step(&[0x48, 0x8b, 0x44, 0x24, 8]), Step::Load64 { to: 0, written: 1 });
        assert_eq!(step(&[0x31, 0xc0]), Step::Constant { to: 0, value: 0 });
        assert_eq!(step(&[0xb0, 1]), Step::Other { written: 1 });
        assert_eq!(step(&[0x48, 0xf7, 0xf1]), Step::Other { written: 0b101 });
        assert_eq!(step(&[0xff, 0xd0]), Step::Call { through: Some(0) });
        assert_eq!(step(&[0xff, 0x10]), Step::Call { through: None });
    }
}
