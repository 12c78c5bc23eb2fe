//! Calling convention: the registers and stack slots of arguments and results, by the System V psABI and LLVM's code generation.
//!
//! Only types without classification have a known place: integers and pointers of at most 64 bits, floating-point numbers and vectors of
//! at most 128. In a call or function with another type, each argument may be in any place ([`ArgumentPlaces::Any`]). A function with a
//! convention of its own is not analysed. Stack slots of arguments by value have no places; they are somewhere in the caller's frame.

use super::super::ir::attributes::{AttributeList, kind};
use super::super::ir::layout::Sizes;
use super::super::ir::types::{FloatKind, Type};
use super::super::ir::{IrModule, TypeId};
use crate::registers::{
    self, ARGUMENTS, PASSED, RAX, RCX, RDX, Register, VECTOR_ARGUMENTS, XMM0, XMM1, XMM2, XMM3,
};

/// All registers in which a result may be returned.
const RESULTS: [Register; 7] = [RAX, RCX, RDX, XMM0, XMM1, XMM2, XMM3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Register(Register),
    /// A cell of 8 bytes, by its offset from the stack pointer at entry.
    Stack(i32),
}

/// The places of the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ArgumentPlaces {
    Each(Vec<Slot>),
    /// Each may be in any of [`passed`] and anywhere on the stack.
    Any,
}

/// The registers in which anything is passed, ascending.
pub(super) fn passed() -> impl Iterator<Item = Register> {
    (0..64).filter(|r| registers::has(PASSED, *r))
}

/// The passing of the parameters of a function or call, in addition to their types.
#[derive(Debug, Default)]
pub(super) struct ParameterPassing {
    /// By value: a copy on the stack. Parameter numbers.
    pub(super) by_value: Vec<u32>,
    /// The address of the result, which is returned too.
    pub(super) result: Option<u32>,
}

/// The passing that the attributes specify; `None` if arguments are passed in a way that is not modelled.
pub(super) fn passing(module: &IrModule, list: AttributeList, convention: u32) -> Option<ParameterPassing> {
    // C, fast, cold, preserve_most, preserve_all, x86_64_sysv: all pass as C does.
    if !matches!(convention, 0 | 8 | 9 | 14 | 15 | 78) || !module.attributes.unknown.is_empty() {
        return None;
    }
    // Floating-point numbers are passed in general registers; `None` for its callers too, who have the same attribute.
    if module.attributes.has_key(list, b"use-soft-float")? {
        return None;
    }
    let mut found = ParameterPassing::default();
    for passing in module.attributes.passing(list)? {
        match passing.kind {
            kind::BY_VAL => found.by_value.push(passing.parameter),
            kind::STRUCT_RET => found.result = Some(passing.parameter),
            kind::IN_REG => {}
            _ => return None,
        }
    }
    Some(found)
}

enum ParameterClass {
    General,
    Vector,
    Other,
}

fn class(module: &IrModule, sizes: &Sizes, ty: TypeId) -> ParameterClass {
    match module.types.get(ty) {
        Some(Type::Pointer { address_space: 0, .. }) => ParameterClass::General,
        Some(Type::Integer { bits: ..=64 }) => ParameterClass::General,
        Some(Type::Float(FloatKind::Single | FloatKind::Double)) => ParameterClass::Vector,
        Some(Type::Vector { scalable: false, element, .. })
            if sizes.of(ty).is_some_and(|s| s.alloc == 16) && is_lane(module, *element) =>
        {
            ParameterClass::Vector
        }
        _ => ParameterClass::Other,
    }
}

/// Whether a vector of these is one register of 16 bytes. Of bits each is an argument of its own, and one of 128 bits is passed as two
/// integers are.
fn is_lane(module: &IrModule, element: TypeId) -> bool {
    matches!(
        module.types.get(element),
        Some(
            Type::Pointer { address_space: 0, .. }
                | Type::Integer { bits: 8 | 16 | 32 | 64 }
                | Type::Float(FloatKind::Single | FloatKind::Double)
        )
    )
}

/// The places of arguments of these types; `None` in the list is an unknown type. With an unknown type, or an argument by value, any
/// argument may be anywhere.
pub(super) fn arguments(
    module: &IrModule,
    sizes: &Sizes,
    types: impl Iterator<Item = Option<TypeId>>,
    passing: &ParameterPassing,
) -> ArgumentPlaces {
    let (mut general, mut vector, mut stack) = (ARGUMENTS.into_iter(), VECTOR_ARGUMENTS.into_iter(), 8);
    let mut slots = Vec::new();
    if !passing.by_value.is_empty() {
        return ArgumentPlaces::Any;
    }
    for ty in types {
        let register = match ty.map(|ty| class(module, sizes, ty)) {
            Some(ParameterClass::General) => general.next(),
            Some(ParameterClass::Vector) => vector.next(),
            Some(ParameterClass::Other) | None => return ArgumentPlaces::Any,
        };
        slots.push(match register {
            Some(register) => Slot::Register(register),
            None if ty.is_some_and(|ty| sizes.of(ty).is_none_or(|s| s.alloc > 8)) => {
                return ArgumentPlaces::Any;
            }
            None => {
                let slot = Slot::Stack(stack);
                stack += 8;
                slot
            }
        });
    }
    ArgumentPlaces::Each(slots)
}

/// The registers in which a result of this type is, ascending.
pub(super) fn results(module: &IrModule, sizes: &Sizes, ty: TypeId) -> &'static [Register] {
    match module.types.get(ty) {
        Some(Type::Void) => &[],
        _ => match class(module, sizes, ty) {
            ParameterClass::General => &[RAX],
            ParameterClass::Vector => &[XMM0],
            ParameterClass::Other => &RESULTS,
        },
    }
}
