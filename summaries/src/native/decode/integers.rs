//! What an instruction does with integers, as far as constants and tests of them go.
//!
//! A handful of forms are told apart by what they do to the lowest bytes of a register and to the flags. Of every other
//! instruction the decoder's tables say which registers it writes, what memory it accesses, and whether it changes flags; what it
//! writes is not known any more. Registers that only form an address are told from those whose value goes elsewhere.

use super::effects::{Address, RSP, Segment, Slot, accesses, address_of, is_only_in_address, operand};
use crate::constant::Comparison;
use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, Instruction as Decoded, InstructionInfoFactory, Mnemonic, OpKind,
    Register,
};

/// Where an integer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Register(Slot),
    Memory(Address),
    /// Of the immediate, which a relocation may make an address.
    Constant(u64),
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// `to` takes the lowest `bytes` of `from`, extended by their sign over `signed` bytes (0: by zeros), and with zeros above. If
    /// `whole` is not 8, only as many bytes of the register are written.
    Move {
        to: Slot,
        from: From,
        bytes: u8,
        signed: u8,
        whole: u8,
    },
    /// The lowest `bytes` of `from` go to memory.
    Store {
        to: Address,
        from: From,
        bytes: u8,
    },
    /// `to` is masked, in all of its bytes if `bytes` is 4 or 8; the flags are those of a comparison of the result with 0.
    Mask {
        to: Slot,
        mask: u64,
        bytes: u8,
    },
    /// The flags are those of a comparison of the lowest `bytes` of `left`, masked, with `right`.
    Compare {
        left: From,
        mask: u64,
        right: From,
        bytes: u8,
    },
    /// `to` is `from` displaced: `lea`, and additions of constants to all of a register.
    Displace {
        to: Slot,
        from: Slot,
        by: i64,
    },
    Push {
        from: From,
    },
    Pop {
        to: Slot,
    },
    Leave,
    /// Anything else.
    Other,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Integers {
    pub(crate) act: Act,
    /// General registers that it reads for more than to form an address, a bit for each.
    pub(crate) reads: u16,
    /// General registers that it writes, or may.
    pub(crate) writes: u16,
    /// It changes flags that tests go by.
    pub(crate) flags: bool,
    /// Memory operands, with whether it reads and whether it writes there.
    pub(crate) accesses: Vec<(Address, bool, bool)>,
}

/// Decodes [`Integers`]; reused, since it keeps buffers.
pub(crate) struct IntegerDecoder(InstructionInfoFactory);

impl IntegerDecoder {
    pub(crate) fn new() -> Self {
        IntegerDecoder(InstructionInfoFactory::new())
    }

    /// What the instruction in `bytes` does, which lies at `offset` of its section; `None` if that can't be said.
    pub(crate) fn integers(&mut self, bytes: &[u8], offset: u64) -> Option<Integers> {
        let mut decoder = Decoder::with_ip(64, bytes, offset, DecoderOptions::NONE);
        let decoded = decoder.decode();
        if decoded.is_invalid() {
            return None;
        }
        let info = self.0.info(&decoded);
        let mut integers = Integers {
            act: act(&decoded).unwrap_or(Act::Other),
            reads: 0,
            writes: 0,
            flags: decoded.rflags_modified() != 0,
            accesses: Vec::new(),
        };
        for used in info.used_registers() {
            let full = used.register().full_register();
            if !full.is_gpr64() {
                continue;
            }
            let (reads, writes) = accesses(used.access());
            let bit = 1 << full.number();
            if reads && !is_only_in_address(&decoded, full) && !is_address_of_one(&decoded, full) {
                integers.reads |= bit;
            }
            if writes {
                integers.writes |= bit;
            }
        }
        let repeats = decoded.has_rep_prefix() || decoded.has_repne_prefix();
        for used in info.used_memory() {
            let (reads, writes) = accesses(used.access());
            if !reads && !writes {
                continue;
            }
            let mut address = address_of(&decoded, used)?;
            // With a bit number in a register it is some other place.
            let bits =
                matches!(decoded.mnemonic(), Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts);
            if repeats && decoded.is_string_instruction() || bits && decoded.op1_kind() == OpKind::Register {
                address.size = 0;
            }
            integers.accesses.push((address, reads, writes));
        }
        // No address is formed that is not accessed, but by `lea`; what computes with one reads it.
        if decoded.mnemonic() == Mnemonic::Lea && !matches!(integers.act, Act::Displace { .. }) {
            for register in [decoded.memory_base(), decoded.memory_index()] {
                if register.full_register().is_gpr64() {
                    integers.reads |= 1 << register.full_register().number();
                }
            }
        }
        Some(integers)
    }

    /// The test of a conditional jump: a comparison and whether the jump is taken if it holds. `None` for flags that none of them has.
    pub(crate) fn test(bytes: &[u8]) -> Option<(Comparison, bool)> {
        let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
        let decoded = decoder.decode();
        if !decoded.is_jcc_short_or_near() {
            return None;
        }
        Some(match decoded.condition_code() {
            ConditionCode::e => (Comparison::Equal, true),
            ConditionCode::ne => (Comparison::Equal, false),
            ConditionCode::b => (Comparison::Below, true),
            ConditionCode::ae => (Comparison::Below, false),
            ConditionCode::be => (Comparison::BelowOrEqual, true),
            ConditionCode::a => (Comparison::BelowOrEqual, false),
            ConditionCode::l => (Comparison::Less, true),
            ConditionCode::ge => (Comparison::Less, false),
            ConditionCode::le => (Comparison::LessOrEqual, true),
            ConditionCode::g => (Comparison::LessOrEqual, false),
            ConditionCode::s => (Comparison::Negative, true),
            ConditionCode::ns => (Comparison::Negative, false),
            _ => return None,
        })
    }
}

/// The same of instructions with one operand, which is in memory, that are known to read no other register but rax and rdx.
fn is_address_of_one(decoded: &Decoded, full: Register) -> bool {
    use Mnemonic::*;
    let only = matches!(
        decoded.mnemonic(),
        Mul | Imul
            | Div
            | Idiv
            | Sete
            | Setne
            | Seta
            | Setae
            | Setb
            | Setbe
            | Setg
            | Setge
            | Setl
            | Setle
            | Sets
            | Setns
    );
    let in_address = [decoded.memory_base(), decoded.memory_index()].contains(&full);
    only && in_address && decoded.op_count() == 1 && !matches!(full, Register::RAX | Register::RDX)
}

/// A general register that is not the second byte of one, and its size.
fn general(register: Register) -> Option<(Slot, u8)> {
    let second = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
    (register.is_gpr() && !second).then(|| (register.full_register().number() as Slot, register.size() as u8))
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// An operand, and its size in bytes; of an immediate 0.
fn from(decoded: &Decoded, number: u32) -> Option<(From, u8)> {
    match decoded.op_kind(number) {
        OpKind::Register => {
            let (slot, size) = general(decoded.op_register(number))?;
            Some((From::Register(slot), size))
        }
        OpKind::Memory => {
            let size = decoded.memory_size().size();
            let size = u8::try_from(size).ok().filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
            Some((From::Memory(operand(decoded)?), size))
        }
        kind if is_immediate(kind) => Some((From::Constant(decoded.immediate(number)), 0)),
        _ => None,
    }
}

/// What of a register of this size is written: a write of 4 bytes clears the upper ones.
fn whole(size: u8) -> u8 {
    if size >= 4 { 8 } else { size }
}

fn act(decoded: &Decoded) -> Option<Act> {
    use Mnemonic::*;
    if decoded.has_lock_prefix() {
        return None;
    }
    let register = |n: u32| match decoded.op_kind(n) {
        OpKind::Register => general(decoded.op_register(n)),
        _ => None,
    };
    Some(match decoded.mnemonic() {
        Mov => match (register(0), from(decoded, 1)?) {
            (Some((to, size)), (from, _)) => {
                Act::Move { to, from, bytes: size, signed: 0, whole: whole(size) }
            }
            (None, (from, _)) => {
                let (From::Memory(to), bytes) = self::from(decoded, 0)? else { return None };
                Act::Store { to, from, bytes }
            }
        },
        Movzx => {
            let ((to, size), (from, bytes)) = (register(0)?, from(decoded, 1)?);
            Act::Move { to, from, bytes, signed: 0, whole: whole(size) }
        }
        Movsx | Movsxd => {
            let ((to, size), (from, bytes)) = (register(0)?, from(decoded, 1)?);
            Act::Move { to, from, bytes, signed: size, whole: whole(size) }
        }
        Cdqe => Act::Move { to: 0, from: From::Register(0), bytes: 4, signed: 8, whole: 8 },
        Cwde => Act::Move { to: 0, from: From::Register(0), bytes: 2, signed: 4, whole: 8 },
        Xor | Sub if register(0).is_some_and(|r| r.1 >= 4) && register(0) == register(1) => {
            Act::Move { to: register(0)?.0, from: From::Constant(0), bytes: 8, signed: 0, whole: 8 }
        }
        And if register(0).is_some() && is_immediate(decoded.op1_kind()) => {
            let (to, bytes) = register(0)?;
            Act::Mask { to, mask: decoded.immediate(1), bytes }
        }
        Cmp => {
            let ((left, size), (right, other)) = (from(decoded, 0)?, from(decoded, 1)?);
            let right = (!matches!(right, From::Memory(_))).then_some(right)?;
            Act::Compare { left, mask: u64::MAX, right, bytes: size.max(other) }
        }
        Test => {
            let (left, bytes) = from(decoded, 0)?;
            let mask = match from(decoded, 1)? {
                (From::Constant(mask), _) => mask,
                (right, _) if right == left => u64::MAX,
                _ => return None,
            };
            Act::Compare { left, mask, right: From::Constant(0), bytes }
        }
        Lea => {
            let (to, 8) = register(0)? else { return None };
            let address = operand(decoded)?;
            let plain = address.index.is_none() && !address.relative && address.segment == Segment::None;
            Act::Displace { to, from: address.base.filter(|_| plain)?, by: address.displacement }
        }
        Add | Sub if is_immediate(decoded.op1_kind()) => {
            let (to, 8) = register(0)? else { return None };
            let by = decoded.immediate(1) as i64;
            let by = if decoded.mnemonic() == Add { by } else { by.checked_neg()? };
            Act::Displace { to, from: to, by }
        }
        // Others push less, or segments.
        Push if decoded.stack_pointer_increment() == -8 => Act::Push { from: from(decoded, 0)?.0 },
        Pop if decoded.stack_pointer_increment() == 8 => match register(0)? {
            (RSP, _) => return None,
            (to, _) => Act::Pop { to },
        },
        Leave if decoded.stack_pointer_increment() == 0 || decoded.code() == iced_x86::Code::Leaveq => {
            Act::Leave
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Integers {
        IntegerDecoder::new().integers(bytes, 0).unwrap()
    }

    #[test]
    fn moves_and_what_they_leave() {
        let constant =
            |to, value, bytes, whole| Act::Move { to, from: From::Constant(value), bytes, signed: 0, whole };
        let register = |to, from, bytes, signed, whole| Act::Move {
            to,
            from: From::Register(from),
            bytes,
            signed,
            whole,
        };
        let cases: [(&[u8], Act); 17] = [
            (&[0xbf, 5, 0, 0, 0], constant(7, 5, 4, 8)),
            (&[0x48, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff], constant(7, u64::MAX, 8, 8)),
            (&[0xbf, 0xff, 0xff, 0xff, 0xff], constant(7, 0xffff_ffff, 4, 8)),
            (&[0x31, 0xff], constant(7, 0, 8, 8)),
            (&[0x45, 0x31, 0xc0], constant(8, 0, 8, 8)),
            (&[0x40, 0xb7, 1], constant(7, 1, 1, 1)),    // mov $1,%dil
            (&[0x66, 0xbf, 1, 0], constant(7, 1, 2, 2)), // mov $1,%di
            (&[0x89, 0xf7], register(7, 6, 4, 0, 8)),    // mov %esi,%edi
            (&[0x48, 0x89, 0xf7], register(7, 6, 8, 0, 8)),
            (&[0x0f, 0xb6, 0xc8], register(1, 0, 1, 0, 8)), // movzbl %al,%ecx
            (&[0x0f, 0xb6, 0xcc], Act::Other),              // movzbl %ah,%ecx
            (&[0x0f, 0xbe, 0xc8], register(1, 0, 1, 4, 8)), // movsbl %al,%ecx
            (&[0x48, 0x63, 0xc7], register(0, 7, 4, 8, 8)), // movslq %edi,%rax
            (&[0x48, 0x98], register(0, 0, 4, 8, 8)),
            (&[0x31, 0xf7], Act::Other),       // xor %esi,%edi
            (&[0x66, 0x31, 0xff], Act::Other), // xor %di,%di
            (&[0x83, 0xe0, 2], Act::Mask { to: 0, mask: 2, bytes: 4 }),
        ];
        for (bytes, act) in cases {
            assert_eq!(of(bytes).act, act, "{bytes:x?}");
        }
        // A conditional move may leave what was there: it writes, and that is all that is said.
        let cmov = of(&[0x0f, 0x44, 0xfe]);
        assert_eq!((cmov.act, cmov.writes), (Act::Other, 1 << 7));
    }

    #[test]
    fn comparisons() {
        let register =
            |slot, mask, right, bytes| Act::Compare { left: From::Register(slot), mask, right, bytes };
        let zero = From::Constant(0);
        let cases: [(&[u8], Act); 7] = [
            (&[0x85, 0xff], register(7, u64::MAX, zero, 4)),
            (&[0x40, 0x84, 0xff], register(7, u64::MAX, zero, 1)),
            (&[0x40, 0xf6, 0xc7, 2], register(7, 2, zero, 1)),
            (&[0x83, 0xff, 0xff], register(7, u64::MAX, From::Constant(u64::from(u32::MAX)), 4)),
            (&[0x48, 0x83, 0xff, 0xff], register(7, u64::MAX, From::Constant(u64::MAX), 8)),
            (&[0x39, 0xf7], register(7, u64::MAX, From::Register(6), 4)),
            (&[0x85, 0xf7], Act::Other),
        ];
        for (bytes, act) in cases {
            let found = of(bytes);
            assert!(found.flags);
            match (found.act, act) {
                (
                    Act::Compare { left, mask, right: From::Constant(a), bytes: n },
                    Act::Compare { left: l, mask: m, right: From::Constant(b), bytes: k },
                ) => {
                    let cut = crate::constant::cut;
                    assert_eq!((left, mask, cut(a, n), n), (l, m, cut(b, k), k));
                }
                (found, act) => assert_eq!(found, act, "{bytes:x?}"),
            }
        }
        // cmpl $0,8(%rip): its memory operand is the left side.
        let memory = of(&[0x83, 0x3d, 8, 0, 0, 0, 0]);
        assert!(matches!(memory.act, Act::Compare { left: From::Memory(a), bytes: 4, .. } if a.relative));
        assert_eq!(memory.accesses.len(), 1);
    }

    #[test]
    fn tests_of_jumps() {
        let test = |code: u8| IntegerDecoder::test(&[0x70 | code, 0]);
        assert_eq!(test(4), Some((Comparison::Equal, true)));
        assert_eq!(test(5), Some((Comparison::Equal, false)));
        assert_eq!(test(2), Some((Comparison::Below, true)));
        assert_eq!(test(7), Some((Comparison::BelowOrEqual, false)));
        assert_eq!(test(12), Some((Comparison::Less, true)));
        assert_eq!(test(15), Some((Comparison::LessOrEqual, false)));
        assert_eq!(test(9), Some((Comparison::Negative, false)));
        assert_eq!((test(0), test(10)), (None, None));
        assert_eq!(IntegerDecoder::test(&[0xeb, 0]), None);
        // jrcxz looks at no flags.
        assert_eq!(IntegerDecoder::test(&[0xe3, 0]), None);
    }

    #[test]
    fn what_is_read_and_written() {
        // mov %rbp,-8(%rbp): the one is the address, the other is put there.
        assert_eq!(of(&[0x48, 0x89, 0x6d, 0xf8]).reads, 1 << 5);
        assert_eq!(of(&[0x89, 0x7d, 0xf8]).reads, 1 << 7);
        // lea -8(%rbp),%rdi forms an address; add %rsi,-8(%rbp) doesn't.
        assert_eq!(of(&[0x48, 0x8d, 0x7d, 0xf8]).act, Act::Displace { to: 7, from: 5, by: -8 });
        assert_eq!(of(&[0x48, 0x8d, 0x7c, 0x05, 0xf8]).reads, 1 << 5 | 1);
        assert_eq!(of(&[0x48, 0x01, 0x75, 0xf8]).reads, 1 << 6);
        // rep stos writes an unknown number of bytes, through what it reads.
        let stos = of(&[0xf3, 0x48, 0xab]);
        assert_eq!((stos.accesses[0].0.size, stos.reads & 1 << 7), (0, 1 << 7));
        // inc leaves the carry but changes the others.
        assert!(of(&[0xff, 0xc7]).flags && !of(&[0x89, 0xf7]).flags);
        assert_eq!(of(&[0x48, 0x83, 0xec, 8]).act, Act::Displace { to: RSP, from: RSP, by: -8 });
    }
}
