//! The exposure of the operands of each instruction: see [`Exposure`].
//!
//! Instructions that copy are listed; every other one exposes its operands. A comparison of whole words copies nothing and exposes
//! nothing. A comparison or load of one or two bytes of memory exposes them.

use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction as Decoded, Mnemonic, OpKind, Register,
};

use super::effects::{immediate_bytes, is_twice_the_same};
use super::kinds::{leaves_registers, only_moves};
use crate::exposure::Exposure;

/// The exposure of the operands that the instruction in `bytes` reads; for `lea`, only that of the index.
pub(crate) fn exposure(bytes: &[u8]) -> Exposure {
    use Mnemonic::*;
    let decoded = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
    if decoded.flow_control() != FlowControl::Next || decoded.condition_code() != ConditionCode::None {
        return Exposure::Nothing;
    }
    let is_piece = decoded.op_kinds().any(|kind| kind == OpKind::Memory)
        && (1..=2).contains(&decoded.memory_size().size());
    let of_constant = |exposure: fn(i64) -> Exposure, else_: Exposure| match immediate(&decoded) {
        Some(constant) => exposure(constant).of_width(width(&decoded)),
        None => else_,
    };
    let else_everything = Exposure::Everything.of_width(width(&decoded));
    if leaves_registers(&decoded) && width(&decoded) >= 64 {
        return Exposure::Everything;
    }
    match decoded.mnemonic() {
        Mov if decoded.op0_kind() == OpKind::Memory => Exposure::Nothing,
        Lea => {
            let is_scaled = decoded.memory_index_scale() > 1 && decoded.memory_index() != Register::None;
            let is_doubled = decoded.memory_base() == decoded.memory_index();
            if is_scaled || is_doubled { Exposure::Code } else { Exposure::Nothing }
        }
        // These copy whole words; a copy of a piece exposes it.
        Mov | Cmp | Test | Add | Sub | Inc | Dec | Xadd | Cmpxchg if is_piece => Exposure::Code,
        Mov | Movsxd | Cmp | Xadd | Cmpxchg | Cdqe | Cdq | Cqo | Inc | Dec | Push | Pop | Lodsq | Nop => {
            Exposure::Nothing
        }
        Add if is_twice_the_same(&decoded) => Exposure::Code,
        Add => Exposure::Nothing,
        Sub if immediate(&decoded).is_some() => Exposure::Nothing,
        Test if is_twice_the_same(&decoded) => Exposure::Nothing,
        And | Test => of_constant(Exposure::of_mask, else_everything),
        Or | Xor => of_constant(Exposure::of_bits, Exposure::Code),
        Bt | Bts | Btr | Btc => else_everything,
        Shr | Sar => match immediate(&decoded) {
            Some(by) => Exposure::of_shift_right(width(&decoded), by),
            None => else_everything,
        },
        Shl | Sal | Rol | Ror | Rcl | Rcr | Shld | Shrd => of_constant(|_| Exposure::Code, else_everything),
        Shlx | Shrx | Sarx | Andn | Bextr | Bzhi | Pext | Pdep => else_everything,
        Pshufd | Vpshufd | Shufps | Vshufps if moves_pairs(&decoded) => Exposure::Nothing,
        Palignr | Vpalignr if immediate(&decoded) == Some(8) => Exposure::Nothing,
        Movd | Movq | Vmovd | Vmovq | Movaps | Movups | Movapd | Movupd | Movdqa | Movdqu | Vmovaps
        | Vmovups | Vmovapd | Vmovupd | Vmovdqa | Vmovdqu | Vmovdqa64 | Vmovdqu64 | Lddqu | Vlddqu
        | Movsd | Movss | Vmovsd | Vmovss | Movntdq | Movntps | Movntpd | Vmovntdq | Movnti | Vunpcklpd
        | Vunpckhpd | Vshufpd | Vbroadcastsd | Vbroadcastf128 | Vbroadcasti128 | Vperm2f128 | Vperm2i128
        | Vpermpd | Vpermilpd | Vmovlhps | Vmovhlps | Vzeroupper | Vzeroall => Exposure::Nothing,
        _ if only_moves(&decoded) => Exposure::Nothing,
        _ => Exposure::Code,
    }
}

/// Whether the 4-byte pieces that are combined come from whole words of 8.
fn moves_pairs(decoded: &Decoded) -> bool {
    let control = immediate(decoded).unwrap_or_default() as u8;
    [control & 15, control >> 4].iter().all(|pair| matches!(pair, 0b0100 | 0b1110))
}

fn immediate(decoded: &Decoded) -> Option<i64> {
    let number = (0..decoded.op_count()).find(|n| immediate_bytes(decoded.op_kind(*n)) > 0)?;
    Some(decoded.immediate(number) as i64)
}

/// The bits of the first operand.
fn width(decoded: &Decoded) -> u32 {
    let bytes = match decoded.op0_kind() {
        OpKind::Memory => decoded.memory_size().size(),
        _ => decoded.op0_register().size(),
    };
    8 * bytes as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_no_address() {
        let cases: [(&[u8], Exposure); 9] = [
            // shr $31,%eax; shr $28,%eax; sar $63,%rax
            (&[0xc1, 0xe8, 0x1f], Exposure::Nothing),
            (&[0xc1, 0xe8, 0x1c], Exposure::Nothing),
            (&[0x48, 0xc1, 0xf8, 0x3f], Exposure::Nothing),
            // shr $27,%eax; shr %eax; shr $31,%rax; shr $7,%al
            (&[0xc1, 0xe8, 0x1b], Exposure::Code),
            (&[0xd1, 0xe8], Exposure::Code),
            (&[0x48, 0xc1, 0xe8, 0x1f], Exposure::Code),
            (&[0xc0, 0xe8, 0x07], Exposure::Code),
            // shr %cl,%eax; shr %cl,%rax
            (&[0xd3, 0xe8], Exposure::Code),
            (&[0x48, 0xd3, 0xe8], Exposure::Everything),
        ];
        for (bytes, expected) in cases {
            assert_eq!(exposure(bytes), expected, "{bytes:x?}");
        }
    }
}
