//! Instruction semantics: the effect of an instruction on the addresses in registers and memory.
//!
//! A few forms are modelled because values pass through them unchanged or displaced by a constant. They are moves, `lea`, additions of
//! constants, pushes and pops, calls, jumps and string moves. For any other instruction the decoder's tables list the operands that it
//! reads and writes. Each written operand holds the join of all read ones, which is sound for any function of the operands. Instructions
//! that affect more than their operands (`syscall`, saved processor states) are [`InstructionEffect::System`] or
//! [`InstructionEffect::Unmodelled`].

use super::kinds::{is_strange, leaves_registers, only_moves};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction as Decoded, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register, UsedMemory,
};

use crate::registers::XMM0;

/// Something that holds values: 0 to 15 are the general registers by number, 16 to 47 the vector registers.
pub(crate) type RegisterId = u8;

/// The number of slots, which registers have in all.
pub(crate) const SLOTS: usize = 48;

/// The segment whose base is added to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment {
    None,
    /// The thread's control block, with thread-local storage below it (psABI, "ELF Handling For Thread-Local Storage").
    Fs,
    Gs,
}

impl Segment {
    fn of(register: Register) -> Segment {
        match register {
            Register::FS => Segment::Fs,
            Register::GS => Segment::Gs,
            _ => Segment::None,
        }
    }
}

/// A memory operand: registers, a displacement, and a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Option<RegisterId>,
    pub(crate) index: Option<RegisterId>,
    pub(crate) displacement: i64,
    /// RIP-relative: the displacement is the offset of the place in the section, unless a relocation says otherwise.
    pub(crate) relative: bool,
    pub(crate) segment: Segment,
    /// The size of the access in bytes; 0 if unknown.
    pub(crate) size: u32,
    /// The displacement field belongs to this operand, so that a relocation there applies to it.
    pub(crate) field: bool,
}

/// The source or the destination of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    Register(RegisterId),
    Memory(Address),
    /// A constant, or the value of the relocation at the immediate's field.
    Immediate,
}

/// The effect of an instruction that isn't modelled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) reads: Vec<RegisterId>,
    /// The slots that it writes, with whether all of the slot is written.
    pub(crate) writes: Vec<(RegisterId, bool)>,
    pub(crate) loads: Vec<Address>,
    pub(crate) stores: Vec<Address>,
    /// The immediate may be an address by a relocation.
    pub(crate) immediate: bool,
    /// Bytes are copied unchanged, in pieces of 8 or more or not at all: an address is not modified.
    pub(crate) moves: bool,
    /// It works in registers that are not analysed ([`leaves_registers`]): the values that it reads escape, and it writes unknown values.
    pub(crate) leaves: bool,
}

/// The effect of an instruction on registers and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstructionEffect {
    /// It does nothing that is analysed, to neither registers nor memory.
    Nothing,
    /// It writes flags only, and no flag is a bit of an operand. The memory is its operand, if it has one.
    Compare {
        with: Option<Address>,
        /// The constant operand, or 0.
        constant: u64,
    },
    /// A form of `nop`, which compilers align with.
    Padding,
    /// Memory is written with its own content: a barrier (`lock orq $0x0,(%rsp)`), if no relocation is added to the constant.
    Keep,
    /// All of the destination is overwritten.
    Move {
        to: Operand,
        from: Operand,
    },
    Lea {
        to: RegisterId,
        from: Address,
    },
    /// A constant is added to a 64-bit register.
    Add {
        to: RegisterId,
        by: i64,
    },
    /// The register gets a constant that does not depend on its content.
    Zero {
        to: RegisterId,
    },
    /// `and` with a constant: the register keeps its address, somewhere near.
    Align {
        to: RegisterId,
    },
    Push(Operand),
    Pop(RegisterId),
    /// `leave`: the same as `mov %rbp,%rsp; pop %rbp`.
    Leave,
    /// A call of a place in the code, by [`Instruction::target`](super::Instruction::target) or a relocation.
    Call,
    CallThrough(Operand),
    Jump,
    JumpThrough(Operand),
    Return,
    /// Control does not continue after the instruction.
    Stop,
    /// `movs`: bytes at `rsi` are copied to `rdi`; size 0 with a repeat prefix.
    StringMove {
        size: u32,
    },
    /// `stos`: the content of rax is stored at `rdi`; size 0 with a repeat prefix.
    StringStore {
        size: u32,
    },
    Other(Transfer),
    /// `syscall` and similar instructions: the values of all registers escape, and each then holds any escaped address.
    System,
    /// It saves or restores more than its operands, or its control flow is unknown.
    Unmodelled,
}

/// Decodes [`InstructionEffect`]s; reused, since it keeps buffers.
pub(crate) struct Effects(InstructionInfoFactory);

impl Effects {
    pub(crate) fn new() -> Self {
        Effects(InstructionInfoFactory::new())
    }

    /// The effect of the instruction in `bytes`, at `offset` of its section. Bytes that are not an instruction are strange.
    pub(crate) fn effect(&mut self, bytes: &[u8], offset: u64) -> InstructionEffect {
        let mut decoder = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE);
        let decoded = decoder.decode();
        if decoded.is_invalid() {
            return InstructionEffect::Unmodelled;
        }
        control(&decoded)
            .or_else(|| moves(&decoded))
            .or_else(|| arithmetic(&decoded))
            .unwrap_or_else(|| self.other(&decoded))
    }

    /// The registers that the instruction reads, a bit per slot, if the bytes are an instruction.
    pub(crate) fn reads(&mut self, bytes: &[u8]) -> Option<u64> {
        let decoded = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let used = self.0.info(&decoded).used_registers().iter().filter(|used| accesses(used.access()).0);
        let used = used.filter_map(|used| slot(used.register()));
        (!decoded.is_invalid()).then(|| used.fold(0, |all, slot| all | 1 << slot))
    }

    fn other(&mut self, decoded: &Decoded) -> InstructionEffect {
        if is_strange(decoded) {
            return InstructionEffect::Unmodelled;
        }
        let info = self.0.info(decoded);
        let mut transfer = Transfer::default();
        for used in info.used_registers() {
            let Some(slot) = slot(used.register()) else { continue };
            let (reads, writes) = accesses(used.access());
            if reads && !is_only_in_address(decoded, used.register()) && !transfer.reads.contains(&slot) {
                transfer.reads.push(slot);
            }
            if writes {
                transfer.writes.push((slot, is_whole(used.register(), used.access())));
            }
        }
        transfer.moves = only_moves(decoded);
        transfer.leaves = leaves_registers(decoded);
        // If there are several writes to parts of one slot, none writes the whole.
        let written: Vec<RegisterId> = transfer.writes.iter().map(|w| w.0).collect();
        for write in &mut transfer.writes {
            write.1 &= written.iter().filter(|s| **s == write.0).count() == 1;
        }
        let repeats = decoded.has_rep_prefix() || decoded.has_repne_prefix();
        for used in info.used_memory() {
            let (reads, writes) = accesses(used.access());
            let Some(mut address) = address_of(decoded, used) else { return InstructionEffect::Unmodelled };
            // The bit may be in memory outside of the operand.
            let far_bit =
                matches!(decoded.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
                    && decoded.op1_kind() == OpKind::Register;
            if repeats && decoded.is_string_instruction() || far_bit {
                address.size = 0;
            }
            if reads {
                transfer.loads.push(address);
            }
            if writes {
                transfer.stores.push(address);
            }
        }
        transfer.immediate = decoded.op_kinds().any(|k| immediate_bytes(k) >= 4);
        InstructionEffect::Other(transfer)
    }
}

/// Whether the instruction reads a register, as an operand or for an address.
pub(crate) fn reads(bytes: &[u8], register: RegisterId) -> bool {
    let decoded = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    let mut factory = InstructionInfoFactory::new();
    factory.info(&decoded).used_registers().iter().any(|used| {
        let full = used.register().full_register();
        full.is_gpr64() && full.number() == usize::from(register) && accesses(used.access()).0
    })
}

/// Whether both operands are one register.
pub(super) fn is_twice_the_same(decoded: &Decoded) -> bool {
    decoded.op_count() == 2
        && decoded.op_kinds().all(|kind| kind == OpKind::Register)
        && decoded.op0_register() == decoded.op1_register()
}

/// Whether the register is read only to form the operand's address.
pub(super) fn is_only_in_address(decoded: &Decoded, register: Register) -> bool {
    use Mnemonic::*;
    let implied = match decoded.mnemonic() {
        Cmpxchg | Mulx | Pcmpestri | Pcmpestrm | Vpcmpestri | Vpcmpestrm => true,
        Inc | Dec | Neg | Not => false,
        _ => decoded.op_count() < 2 && !leaves_registers(decoded),
    };
    let full = register.full_register();
    let in_address = [decoded.memory_base(), decoded.memory_index()].contains(&full);
    let is_operand =
        |n| decoded.op_kind(n) == OpKind::Register && decoded.op_register(n).full_register() == full;
    in_address && !implied && !(0..decoded.op_count()).any(is_operand)
}

pub(super) fn accesses(access: OpAccess) -> (bool, bool) {
    use OpAccess::*;
    match access {
        None | NoMemAccess => (false, false),
        Read | CondRead => (true, false),
        Write | CondWrite => (false, true),
        ReadWrite | ReadCondWrite => (true, true),
    }
}

/// Whether a write replaces the whole content of the slot. A write of a vector register may always leave a part.
fn is_whole(register: Register, access: OpAccess) -> bool {
    let always = matches!(access, OpAccess::Write | OpAccess::ReadWrite);
    always && register.is_gpr() && register.size() >= 4
}

/// The slot of a register; `None` for all but general and vector registers.
fn slot(register: Register) -> Option<RegisterId> {
    let register = register.full_register();
    if register.is_gpr64() {
        Some(register.number() as RegisterId)
    } else if register.is_vector_register() {
        Some(XMM0 + register.number() as RegisterId)
    } else {
        None
    }
}

pub(super) fn immediate_bytes(kind: OpKind) -> u32 {
    match kind {
        OpKind::Immediate8 | OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => 1,
        OpKind::Immediate16 => 2,
        OpKind::Immediate32 | OpKind::Immediate32to64 => 4,
        OpKind::Immediate64 => 8,
        _ => 0,
    }
}

/// The memory operand of an instruction that has one.
pub(super) fn operand(decoded: &Decoded) -> Option<Address> {
    let register = |r: Register| match r {
        Register::None | Register::RIP => Some(None),
        r if r.is_gpr64() => Some(Some(r.number() as RegisterId)),
        // 32-bit addresses, and the vectors of indices of a gather.
        _ => None,
    };
    let relative = decoded.is_ip_rel_memory_operand();
    Some(Address {
        base: register(decoded.memory_base())?,
        index: register(decoded.memory_index())?,
        displacement: match relative {
            true => decoded.ip_rel_memory_address() as i64,
            false => decoded.memory_displacement64() as i64,
        },
        relative,
        segment: Segment::of(decoded.memory_segment()),
        size: decoded.memory_size().size() as u32,
        field: true,
    })
}

/// The memory operand for a use of memory that may be implied; `None` if it has no such form. The instructions here use memory at most
/// one way.
pub(super) fn address_of(decoded: &Decoded, used: &UsedMemory) -> Option<Address> {
    // For an address relative to the instruction pointer the decoder gives no base; the operand has it.
    if decoded.op_kinds().any(|k| k == OpKind::Memory) {
        let address = operand(decoded)?;
        return Some(Address { size: used.memory_size().size() as u32, ..address });
    }
    let register = |r: Register| match r {
        Register::None => Some(None),
        r if r.is_gpr64() => Some(Some(r.number() as RegisterId)),
        _ => None,
    };
    Some(Address {
        base: register(used.base())?,
        index: register(used.index())?,
        displacement: used.displacement() as i64,
        relative: false,
        segment: Segment::of(used.segment()),
        size: used.memory_size().size() as u32,
        field: false,
    })
}

fn whole_or_memory(decoded: &Decoded, number: u32) -> Option<Operand> {
    match decoded.op_kind(number) {
        OpKind::Register => {
            let register = decoded.op_register(number);
            let wide = register.is_gpr64() || register.is_gpr32() || register.is_vector_register();
            slot(register).filter(|_| wide).map(Operand::Register)
        }
        OpKind::Memory => operand(decoded).map(Operand::Memory),
        kind if immediate_bytes(kind) > 0 => Some(Operand::Immediate),
        _ => None,
    }
}

fn control(decoded: &Decoded) -> Option<InstructionEffect> {
    let near = decoded.op_kinds().next() == Some(OpKind::NearBranch64);
    Some(match decoded.flow_control() {
        FlowControl::Next if decoded.code() == Code::Hlt => InstructionEffect::Stop,
        FlowControl::Next => return None,
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if near => {
            // `loop` also decrements the counter, and compilers do not generate it.
            match decoded.is_loop() || decoded.is_loopcc() {
                true => InstructionEffect::Unmodelled,
                false => InstructionEffect::Jump,
            }
        }
        FlowControl::Call if near => InstructionEffect::Call,
        FlowControl::IndirectCall => {
            whole_or_memory(decoded, 0).map_or(InstructionEffect::Unmodelled, InstructionEffect::CallThrough)
        }
        FlowControl::IndirectBranch => {
            whole_or_memory(decoded, 0).map_or(InstructionEffect::Unmodelled, InstructionEffect::JumpThrough)
        }
        FlowControl::Return => match decoded.mnemonic() {
            Mnemonic::Ret if decoded.op_count() == 0 => InstructionEffect::Return,
            _ => InstructionEffect::Unmodelled,
        },
        FlowControl::Exception => InstructionEffect::Stop,
        // A debugger, or a handler of its signal, continues after it.
        FlowControl::Interrupt if decoded.mnemonic() == Mnemonic::Int3 => InstructionEffect::Nothing,
        FlowControl::Call | FlowControl::Interrupt => InstructionEffect::System,
        _ => InstructionEffect::Unmodelled,
    })
}

/// Moves that leave nothing of the destination and change nothing of the source.
fn moves(decoded: &Decoded) -> Option<InstructionEffect> {
    use Mnemonic::*;
    let operand_of = |n| whole_or_memory(decoded, n);
    let vector_or_memory = |n| match decoded.op_kind(n) {
        OpKind::Memory => true,
        _ => decoded.op_register(n).is_vector_register() || decoded.op_register(n).is_gpr(),
    };
    Some(match decoded.mnemonic() {
        Nop => InstructionEffect::Padding,
        Endbr64 | Pause | Lfence | Mfence | Sfence | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchnta
        | Prefetchw | Cld | Clc | Stc | Cmc | Vzeroupper => InstructionEffect::Nothing,
        Mov if decoded.op1_kind() == OpKind::Register || decoded.op1_kind() == OpKind::Memory => {
            // A store of a part of a register stores its value; a load into a part does not define the whole register.
            let (to, from) = match decoded.op0_kind() {
                OpKind::Memory => (operand_of(0)?, Operand::Register(slot(decoded.op1_register())?)),
                _ => (operand_of(0)?, operand_of(1)?),
            };
            InstructionEffect::Move { to, from }
        }
        Mov => InstructionEffect::Move { to: operand_of(0)?, from: Operand::Immediate },
        Movzx | Movsx | Movsxd if decoded.op1_kind() == OpKind::Memory => {
            InstructionEffect::Move { to: operand_of(0)?, from: operand_of(1)? }
        }
        Movaps | Movups | Movapd | Movupd | Movdqa | Movdqu | Vmovaps | Vmovups | Vmovapd | Vmovupd
        | Vmovdqa | Vmovdqu | Movq | Vmovq | Movd | Vmovd | Lddqu | Vlddqu | Movntdq | Movntps | Movntpd
        | Vmovntdq | Vmovntps | Vmovntpd | Movnti
            if decoded.op_count() == 2
                && vector_or_memory(0)
                && vector_or_memory(1)
                && !decoded.has_op_mask() =>
        {
            // Between a general and a vector register, too; mm registers were filtered by `vector_or_memory`.
            InstructionEffect::Move { to: operand_of(0)?, from: operand_of(1)? }
        }
        // String instructions go down from there on.
        Std => InstructionEffect::Unmodelled,
        Push | Pop | Leave if !decoded.stack_pointer_increment().unsigned_abs().is_multiple_of(8) => {
            InstructionEffect::Unmodelled
        }
        Push => operand_of(0).map_or(InstructionEffect::Unmodelled, InstructionEffect::Push),
        Pop => match operand_of(0) {
            Some(Operand::Register(to)) => InstructionEffect::Pop(to),
            _ => InstructionEffect::Unmodelled,
        },
        Leave => InstructionEffect::Leave,
        Stosb | Stosw | Stosd | Stosq => {
            let size = if repeats(decoded) { 0 } else { decoded.memory_size().size() as u32 };
            InstructionEffect::StringStore { size }
        }
        Movsb | Movsw | Movsq => string_move(decoded),
        Movsd if decoded.is_string_instruction() => string_move(decoded),
        _ => return None,
    })
}

fn repeats(decoded: &Decoded) -> bool {
    decoded.has_rep_prefix() || decoded.has_repne_prefix()
}

fn string_move(decoded: &Decoded) -> InstructionEffect {
    let override_ = matches!(decoded.memory_segment(), Register::FS | Register::GS);
    match override_ {
        true => InstructionEffect::Unmodelled,
        false => InstructionEffect::StringMove {
            size: if repeats(decoded) { 0 } else { decoded.memory_size().size() as u32 },
        },
    }
}

fn arithmetic(decoded: &Decoded) -> Option<InstructionEffect> {
    use Mnemonic::*;
    let to = decoded.op0_register();
    let register = decoded.op_count() > 0 && decoded.op0_kind() == OpKind::Register;
    let constant = decoded.op_count() == 2 && immediate_bytes(decoded.op1_kind()) > 0;
    let wide = |r: Register| slot(r).filter(|_| r.is_gpr64());
    let same = is_twice_the_same(decoded);
    Some(match decoded.mnemonic() {
        // They write flags only; a load for a comparison defines no value.
        Cmp | Ucomiss | Ucomisd | Comiss | Comisd => {
            let reads = decoded.op_kinds().any(|kind| kind == OpKind::Memory);
            let constant = if constant { decoded.immediate(1) } else { 0 };
            InstructionEffect::Compare { with: operand(decoded).filter(|_| reads), constant }
        }
        Test if same => InstructionEffect::Compare { with: None, constant: 0 },
        // `lea` only reads the registers of the address, and its relocation is a value. No other operand form is possible.
        Lea => match (operand(decoded), slot(to).filter(|_| to.size() >= 4)) {
            // The segment applies to accesses only.
            (Some(from), Some(to)) => {
                InstructionEffect::Lea { to, from: Address { segment: Segment::None, ..from } }
            }
            _ => InstructionEffect::Unmodelled,
        },
        Add if register && constant => {
            InstructionEffect::Add { to: wide(to)?, by: decoded.immediate(1) as i64 }
        }
        Sub if register && constant => {
            InstructionEffect::Add { to: wide(to)?, by: (decoded.immediate(1) as i64).checked_neg()? }
        }
        Inc if register => InstructionEffect::Add { to: wide(to)?, by: 1 },
        Dec if register => InstructionEffect::Add { to: wide(to)?, by: -1 },
        And if register && constant => InstructionEffect::Align { to: wide(to)? },
        Or | Add | Sub | Xor
            if constant && decoded.op0_kind() == OpKind::Memory && decoded.immediate(1) == 0 =>
        {
            InstructionEffect::Keep
        }
        // The short form of a move of -1.
        Or if register && constant && to.size() >= 4 && decoded.immediate(1) as i32 == -1 => {
            InstructionEffect::Zero { to: slot(to)? }
        }
        Xor | Sub if same && to.is_gpr() && to.size() >= 4 => InstructionEffect::Zero { to: slot(to)? },
        Pxor | Xorps | Xorpd if same && to.is_vector_register() => InstructionEffect::Zero { to: slot(to)? },
        _ => return None,
    })
}
