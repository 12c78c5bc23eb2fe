//! Linear sweep disassembly for the addresses of data and functions in code; bytes are not proved to be instructions.

use iced_x86::{Decoder, DecoderOptions, Instruction as Decoded, OpKind, Register};

/// Call `found` with the address of each instruction of `code`, which is at `address`, and the address of its RIP-relative operand. With
/// `absolute` the displacements and the immediate operands of 32 or 64 bits count too.
pub fn data_references(code: &[u8], address: u64, absolute: bool, found: &mut dyn FnMut(u64, u64)) {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut decoded = Decoded::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        if decoded.is_invalid() {
            continue;
        }
        for operand in 0..decoded.op_count() {
            match decoded.op_kind(operand) {
                OpKind::Memory if decoded.memory_base() == Register::RIP => {
                    found(decoded.ip(), decoded.ip_rel_memory_address());
                }
                OpKind::Memory if absolute && decoded.memory_displ_size() >= 4 => {
                    found(decoded.ip(), decoded.memory_displacement64());
                }
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 if absolute => {
                    found(decoded.ip(), decoded.immediate(operand));
                }
                _ => {}
            }
        }
    }
}

/// Call `found` with the target of each direct call of `code`, which is at `address`.
pub fn call_targets(code: &[u8], address: u64, found: &mut dyn FnMut(u64)) {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut decoded = Decoded::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        if decoded.is_call_near() {
            found(decoded.near_branch_target());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms() {
        // lea 0x10(%rip),%rax; mov $0x402000,%edi; jmp *0x403000(,%rax,8); call of the next instruction.
        let code = [
            &[0x48, 0x8d, 0x05, 0x10, 0, 0, 0][..],
            &[0xbf, 0x00, 0x20, 0x40, 0],
            &[0xff, 0x24, 0xc5, 0x00, 0x30, 0x40, 0],
            &[0xe8, 0, 0, 0, 0],
        ]
        .concat();
        let of = |absolute| {
            let mut list = Vec::new();
            data_references(&code, 0x1000, absolute, &mut |at, target| list.push((at, target)));
            list
        };
        assert_eq!(of(false), [(0x1000, 0x1017)]);
        assert_eq!(of(true), [(0x1000, 0x1017), (0x1007, 0x402000), (0x100c, 0x403000)]);
    }
}
