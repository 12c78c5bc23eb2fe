//! Lists of instructions: those that only move bytes, and those that do more than the decoder's tables say.

use iced_x86::{ConditionCode, FlowControl, Instruction as Decoded, Mnemonic, OpKind};

/// Instructions that put together or choose between pieces of 8 bytes or more.
pub(super) fn only_moves(decoded: &Decoded) -> bool {
    use Mnemonic::*;
    matches!(
        decoded.mnemonic(),
        Xchg | Punpcklqdq
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
            | Fld
            | Fst
            | Fstp
            | Fild
            | Fist
            | Fistp
            | Fisttp
            | Fxch
            | Fcmovb
            | Fcmove
            | Fcmovbe
            | Fcmovu
            | Fcmovnb
            | Fcmovne
            | Fcmovnbe
            | Fcmovnu
    ) || is_cmov(decoded)
}

/// A conditional move of 64 bits.
pub(super) fn is_cmov(decoded: &Decoded) -> bool {
    let is_conditional = decoded.condition_code() != ConditionCode::None;
    is_conditional && decoded.op_count() == 2 && decoded.flow_control() == FlowControl::Next && {
        let size = decoded.op0_register().size();
        decoded.op0_kind() == OpKind::Register && size == 8
    }
}

/// What the decoder's tables don't say all about, or what compilers don't make.
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
