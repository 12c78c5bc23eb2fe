//! Constraint generation for LLVM's intrinsic functions (LLVM, "Language Reference", Intrinsic Functions).
//!
//! The arguments of an intrinsic that is not listed escape, and it may return any escaped address. A function gets no summary if it has
//! an intrinsic that does more than a call: it reads frames, creates code or resumes elsewhere. Their promises to the optimiser are
//! ignored.

use super::super::ir::ValueId;
use super::super::ir::instruction::{CallArgument, IrCall, IrInstruction};
use super::body::BodyBuilder;
use super::names::NotFollowed;
use crate::exposure::Exposure;
use crate::ids::ValueIdx;
use crate::relation::{Constraint, Place};

/// Intrinsics that neither keep nor return an address, nor store one.
const NOTHING: &[&[u8]] = &[
    b"assume",
    b"dbg.",
    b"debugtrap",
    b"donothing",
    b"experimental.noalias.scope.decl",
    b"fake.use",
    b"get.dynamic.area.offset",
    b"invariant.",
    b"is.constant",
    b"lifetime.",
    b"objectsize",
    b"prefetch",
    b"pseudoprobe",
    b"public.type.test",
    b"sideeffect",
    b"stackrestore",
    b"trap",
    b"type.test",
    b"ubsantrap",
    b"va_end",
];

/// Intrinsics that do nothing but return their first argument.
const IDENTITY: &[&[u8]] = &[
    b"expect",
    b"launder.invariant.group",
    b"ptr.annotation",
    b"ssa.copy",
    b"strip.invariant.group",
    b"threadlocal.address",
];

/// Intrinsics that only compute their result from their arguments.
const ARITHMETIC: &[&[u8]] = &[
    b"abs",
    b"acos",
    b"asin",
    b"atan",
    b"bitreverse",
    b"bswap",
    b"canonicalize",
    b"ceil",
    b"copysign",
    b"cos",
    b"ctlz",
    b"ctpop",
    b"cttz",
    // Not all that begins with `experimental.`, which may access memory.
    b"exp.",
    b"exp10.",
    b"exp2.",
    b"experimental.constrained.",
    b"fabs",
    b"floor",
    b"fma",
    b"fmuladd",
    b"fptosi.sat",
    b"fptoui.sat",
    b"frexp",
    b"fshl",
    b"fshr",
    b"is.fpclass",
    b"ldexp",
    b"llrint",
    b"llround",
    b"log",
    b"lrint",
    b"lround",
    b"maximum",
    b"maxnum",
    b"minimum",
    b"minnum",
    b"modf",
    b"nearbyint",
    b"pow",
    b"ptrmask",
    b"rint",
    b"round",
    b"sadd.",
    b"scmp",
    b"sin",
    b"smax",
    b"smin",
    b"smul.",
    b"sqrt",
    b"sshl.",
    b"ssub.",
    b"tan",
    b"trunc.",
    b"uadd.",
    b"ucmp",
    b"umax",
    b"umin",
    b"umul.",
    b"ushl.",
    b"usub.",
    b"vector.",
];

/// Arithmetic that gives back one of its arguments, or a sum.
const COPYING: &[&[u8]] = &[b"sadd.", b"smax", b"smin", b"uadd.", b"umax", b"umin"];

/// Arithmetic that can shift by a variable number of bits.
const FUNNEL_SHIFT: &[&[u8]] = &[b"fshl", b"fshr"];

/// Intrinsics whose effects cannot be expressed by constraints.
const NOT_FOLLOWED: &[&[u8]] = &[
    b"addressofreturnaddress",
    b"adjust.trampoline",
    b"call.preallocated",
    b"coro.",
    b"eh.dwarf.cfa",
    b"eh.return",
    b"eh.sjlj",
    b"eh.unwind.init",
    b"experimental.deoptimize",
    b"experimental.gc",
    b"experimental.guard",
    b"experimental.patchpoint",
    b"experimental.stackmap",
    b"frameaddress",
    b"icall.branch.funnel",
    b"init.trampoline",
    b"load.relative",
    b"localaddress",
    b"localescape",
    b"localrecover",
    b"read_",
    b"sponentry",
    b"swift.",
    b"type.checked.load.relative",
    b"write_register",
];

fn is_any(name: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|start| name.starts_with(start))
}

/// An intrinsic function of that name, without `llvm.`, is called.
pub(super) fn call<'m>(
    builder: &mut BodyBuilder<'m>,
    name: &[u8],
    call: &'m IrCall,
    instruction: &IrInstruction,
    to: Option<ValueIdx>,
) -> Result<(), NotFollowed> {
    let argument = |i: usize| match call.arguments.get(i) {
        Some(CallArgument::Value(value)) => Ok(*value),
        _ => Err(NotFollowed("an intrinsic function with too few arguments")),
    };
    if is_any(name, NOT_FOLLOWED) {
        return Err(NotFollowed("an intrinsic function that is more than a call"));
    }
    if is_any(name, NOTHING) {
        call.each_operand(|operand| builder.compare(operand));
        return Ok(());
    }
    if is_any(name, IDENTITY) {
        return builder.assign(argument(0)?, to, Some(0));
    }
    if is_any(name, ARITHMETIC) {
        for argument in &call.arguments {
            if let CallArgument::Value(value) = argument {
                if !is_any(name, COPYING) {
                    builder.expose(
                        *value,
                        if is_any(name, FUNNEL_SHIFT) { Exposure::Everything } else { Exposure::Code },
                    )?;
                }
                builder.assign(*value, to, None)?;
            }
        }
        return Ok(());
    }
    if name.starts_with(b"memcpy") || name.starts_with(b"memmove") {
        let size = builder.values.integer(argument(2)?).and_then(|n| u32::try_from(n).ok());
        return copy(builder, argument(0)?, argument(1)?, size.unwrap_or_default());
    }
    if name.starts_with(b"memset") {
        let byte = builder.fresh();
        builder.assign(argument(1)?, Some(byte), None)?;
        return builder.store(Some(byte), argument(0)?, 0);
    }
    if name.starts_with(b"va_copy") {
        return copy(builder, argument(0)?, argument(1)?, 24);
    }
    if name.starts_with(b"stacksave") {
        // An unknown place in the frame, like that of variables of unknown size.
        let stack = builder.frame(None);
        if let Some(to) = to {
            builder.push(Constraint::Assign { from: stack, to, offset: Some(0) });
        }
        return Ok(());
    }
    if name.starts_with(b"va_start") {
        let saved = builder.frame(None);
        return builder.store(Some(saved), argument(0)?, 0);
    }
    if name.starts_with(b"type.checked.load") {
        let (pointer, offset) = (builder.value(argument(0)?)?, builder.values.integer(argument(1)?));
        if let (Some(value), Some(to)) = (pointer, to) {
            builder.push(Constraint::Load { from: Place { value, offset }, to, size: 8 });
        }
        return Ok(());
    }
    if name.starts_with(b"masked.load") || name.starts_with(b"masked.gather") {
        let size = if name.starts_with(b"masked.load") { builder.size(instruction.ty) } else { 0 };
        builder.load(argument(0)?, to, size)?;
        for argument in call.arguments.iter().skip(1) {
            if let CallArgument::Value(value) = argument {
                builder.assign(*value, to, Some(0))?;
            }
        }
        return Ok(());
    }
    if name.starts_with(b"masked.store") || name.starts_with(b"masked.scatter") {
        let from = builder.value(argument(0)?)?;
        return builder.store(from, argument(1)?, 0);
    }
    if name.starts_with(b"eh.typeid.for") {
        let places = builder.values.places(argument(0)?);
        let places = places.ok_or(NotFollowed("a constant of very many parts"))?;
        builder.escaping.extend(places.into_iter().map(|p| p.0));
        return Ok(());
    }
    builder.unseen(call, to)
}

fn copy(builder: &mut BodyBuilder<'_>, to: ValueId, from: ValueId, size: u32) -> Result<(), NotFollowed> {
    match (builder.value(to)?, builder.value(from)?) {
        (Some(to), Some(from)) => {
            let (from, to) = (Place { value: from, offset: Some(0) }, Place { value: to, offset: Some(0) });
            builder.push(Constraint::Copy { from, to, size });
        }
        _ if builder.is_number(to) || builder.is_number(from) => {
            // A copy between known memory and unknown memory.
            let held = builder.fresh();
            builder.load(from, Some(held), 0)?;
            builder.store(Some(held), to, 0)?;
        }
        _ => {}
    }
    Ok(())
}
