//! Constant propagation to calls that may map memory at an address of the program's choice ([`crate::mapping`]).
//!
//! A call is harmless if it names the function directly and passes a constant that leaves the choice to the kernel. Any other use of the
//! function may call it with any address. Inline assembly is not covered. For initializers that hold such a function's address, the
//! caller uses [`of`].

use super::super::ir::ValueId;
use super::super::ir::function::Body;
use super::super::ir::instruction::{CallArgument, InstructionKind, IrCall};
use super::super::module::Module;
use super::places::ConstantValues;
use crate::mapping::{Mapping, mapping};

/// The name of a mapping function that the body may call with a chosen address, if there is one.
pub(super) fn chooses_a_place(
    module: &Module<'_>,
    values: ConstantValues<'_>,
    body: &Body,
) -> Option<&'static [u8]> {
    if (0..module.values.len()).all(|v| of(module, ValueId(v as u32)).is_none()) {
        return None;
    }
    let mut operands = Vec::new();
    for instruction in &body.instructions {
        operands.clear();
        instruction.kind.each_operand(|id| operands.push(id));
        if let InstructionKind::Call(call) = &instruction.kind
            && of(module, call.callee).is_some_and(|mapping| leaves_it_open(values, call, mapping))
            && let Some(callee) = operands.iter().position(|id| *id == call.callee)
        {
            operands.swap_remove(callee);
        }
        for operand in &operands {
            // A constant with too many parts may hold the address of any function.
            let Some(places) = values.places(*operand) else { return Some(b"what a constant holds") };
            if let Some(mapping) = places.into_iter().find_map(|(global, _)| of(module, global)) {
                return Some(mapping.name);
            }
        }
    }
    None
}

/// The kind of mapping that a global value makes, if it makes one.
pub(super) fn of(module: &Module<'_>, id: ValueId) -> Option<&'static Mapping> {
    mapping(module.values.get(id.0 as usize)?.name)
}

/// Whether the call leaves the place to the kernel.
fn leaves_it_open(values: ConstantValues<'_>, call: &IrCall, mapping: &Mapping) -> bool {
    let said = match call.arguments.get(mapping.argument) {
        Some(CallArgument::Value(value)) => values.integer(*value),
        _ => None,
    };
    said.is_some_and(|said| mapping.leaves_it_open(said as u64))
}
