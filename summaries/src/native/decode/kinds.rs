//! Instruction classes: those that only move bytes, those outside the analysed registers, and those with more effects than the decoder's
//! tables list.

use iced_x86::{ConditionCode, CpuidFeature, FlowControl, Instruction as Decoded, Mnemonic, OpKind};

/// Instructions that combine or select pieces of 8 bytes or more.
pub(super) fn only_moves(decoded: &Decoded) -> bool {
    use Mnemonic::*;
    matches!(
        decoded.mnemonic(),
        Punpcklqdq
            | Punpckhqdq
            | Vpunpcklqdq
            | Vpunpckhqdq
            | Movhps
            | Movlps
            | Movhpd
            | Movlpd
            | Vmovhps
            | Vmovlps
            | Vmovhpd
            | Vmovlpd
            | Movlhps
            | Movhlps
            | Unpcklpd
            | Unpckhpd
            | Shufpd
            | Pinsrq
            | Pextrq
            | Vpinsrq
            | Vpextrq
            | Vinserti128
            | Vinsertf128
            | Vextracti128
            | Vextractf128
            | Vpbroadcastq
            | Movddup
            | Vmovddup
            | Vpermq
    ) || is_cmov(decoded)
        || decoded.mnemonic() == Xchg && decoded.op1_register().size() == 8
}

/// Whether the instruction works on the stack of the x87 unit, in MMX registers, or moves to or from mask registers. No calling convention
/// passes anything in the last two, and no compiler keeps addresses in any of them.
pub(super) fn leaves_registers(decoded: &Decoded) -> bool {
    use CpuidFeature::{FPU, FPU287, FPU387, FPU387SL_ONLY};
    use Mnemonic::{Kmovb, Kmovd, Kmovq, Kmovw};
    let is_x87 = |f: &CpuidFeature| matches!(f, &FPU | &FPU287 | &FPU387 | &FPU387SL_ONLY);
    let is_mmx = (0..decoded.op_count())
        .any(|n| decoded.op_kind(n) == OpKind::Register && decoded.op_register(n).is_mm());
    is_mmx
        || matches!(decoded.mnemonic(), Kmovb | Kmovw | Kmovd | Kmovq)
        || decoded.cpuid_features().iter().any(is_x87)
}

/// A conditional move of 64 bits.
pub(super) fn is_cmov(decoded: &Decoded) -> bool {
    let is_conditional = decoded.condition_code() != ConditionCode::None;
    is_conditional && decoded.op_count() == 2 && decoded.flow_control() == FlowControl::Next && {
        let size = decoded.op0_register().size();
        decoded.op0_kind() == OpKind::Register && size == 8
    }
}

/// Whether the decoder's tables do not list all effects of the instruction, or compilers do not generate it.
pub(super) fn is_strange(decoded: &Decoded) -> bool {
    use Mnemonic::*;
    decoded.is_privileged()
        || decoded.is_save_restore_instruction()
        || matches!(
            decoded.mnemonic(),
            Xsave
                | Xsave64
                | Xsavec
                | Xsavec64
                | Xsaveopt
                | Xsaveopt64
                | Xsaves
                | Xsaves64
                | Xrstor
                | Xrstor64
                | Xrstors
                | Xrstors64
                | Fxsave
                | Fxsave64
                | Fxrstor
                | Fxrstor64
                | Fsave
                | Fnsave
                | Frstor
                | Enter
                | Rdfsbase
                | Rdgsbase
                | Wrfsbase
                | Wrgsbase
                | Xbegin
                | Xabort
                | Xend
                | Rdsspq
                | Incsspq
                | Rstorssp
                | Saveprevssp
                | Xlatb
                | Movdir64b
                | Enqcmd
                | Enqcmds
                | Maskmovq
                | Maskmovdqu
                | Vmaskmovdqu
        )
}
