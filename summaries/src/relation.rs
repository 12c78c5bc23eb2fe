//! Value flow: the effects of a function on addresses, as inclusion constraints over its values.
//!
//! A value stands for the contents of a register, a stack slot or a temporary at some point of the function. Only addresses are modelled;
//! arithmetic on an address gives the same address at an unknown offset. The constraints are those of Andersen's analysis (assign, load,
//! store, address), with byte offsets; `None` is LLVM's `UnknownOffset`. A function that was not understood has no
//! [`FunctionSummary`]: its references and arguments escape.
//!
//! The constraints cover the references in [`FunctionSummary::covered_references`]. Every other reference keeps its target and lets
//! it escape, as without value flow.

use serde::{Deserialize, Serialize};

use crate::ids::{AtomIdx, ValueIdx};
use crate::registers::Register;
use crate::summary::Target;

/// An alignment in bytes. A number stored over low bytes of an address leads to another place of an object with this alignment or more: code
/// knows the low byte of the object's address. Compilers narrow a change of an address in memory to the bytes that change. So places in such
/// an object are not distinguished.
pub const MOVABLE_ALIGNMENT: u64 = 256;

/// The address in `value`, displaced by `offset` bytes; `None` is any displacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    pub value: ValueIdx,
    pub offset: Option<i64>,
}

/// A constraint on values. Constraints only add: a value holds the union of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Constraint {
    /// `to` holds the address of a symbol plus `offset`, or of a place in this module: then `offset` is from the start
    /// of the atom's *section*.
    Address { to: ValueIdx, target: Target, offset: i64 },
    /// `to` holds an address in the frame of the function: `offset` from the stack pointer at entry (the position of the return
    /// address of 8 bytes; stack parameters are above), or anywhere.
    Frame { to: ValueIdx, offset: Option<i64> },
    /// `to` holds what `from` holds, displaced.
    Assign { from: ValueIdx, to: ValueIdx, offset: Option<i64> },
    /// `to` holds what `size` bytes of memory at the place may hold; 0 is an unknown number of bytes.
    Load { from: Place, to: ValueIdx, size: u32 },
    /// `size` bytes of memory at the place may hold what `from` holds; 0 is an unknown number of bytes.
    Store { from: ValueIdx, to: Place, size: u32 },
    /// Memory from `from` on is copied to memory from `to` on, byte for byte; `size` bytes, 0 is an unknown number.
    Copy { from: Place, to: Place, size: u32 },
    /// `to` may hold anything that escaped.
    Unknown { to: ValueIdx },
    /// The addresses in `from` escape to external code.
    Escape { from: ValueIdx },
    /// `from` is used otherwise than by copying: the code addresses in it escape.
    EscapeCode { from: ValueIdx },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Callee {
    /// A symbol, or the place at `offset` of the atom's section.
    Direct { target: Target, offset: i64 },
    /// The callees are the addresses in the value.
    Indirect(ValueIdx),
}

/// A call, or a jump out of the function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSite {
    /// The instruction: ELF section index, and bytes from the start of the section.
    pub section: u32,
    pub offset: u64,
    pub callee: Callee,
    /// A jump through a register or memory that may also stay in the function: a target inside it is no call.
    pub jump: bool,
    /// al is zero, so that a callee with variable arguments finds none in vector registers (psABI 3.2.3).
    pub no_vectors: bool,
    /// The registers that hold the address of a constant string, sorted, with the arguments of the format that it may be. Only for
    /// calls of functions that the module does not define.
    pub formats: Vec<(Register, FormatArguments)>,
    /// The values of registers at the call, sorted by register, provided that earlier callees preserved them. A missing register holds
    /// no address, or the value from this function's caller, which is explicit for rax. External code gets only the
    /// [`CONVENTIONAL`](crate::registers::CONVENTIONAL) ones.
    pub actuals: Vec<(Register, ValueIdx)>,
    /// The caller's frame at and above the callee's stack pointer at entry, sorted by offset from it: cells of 8 bytes that may hold an
    /// address. Offset 8 is the first stack parameter.
    pub stack: Vec<(i32, ValueIdx)>,
    /// If the frame is an object ([`FunctionSummary::frame`]), the offset in it of the callee's stack pointer at entry; `Some(None)` if
    /// the offset is unknown. The object's contents from there on are passed too.
    pub stack_in_frame: Option<Option<i64>>,
    /// Values that the callee returns or leaves in a register (rax, rcx, rdx, r8, xmm0 to xmm3), sorted by register.
    pub results: Vec<(Register, ValueIdx)>,
}

/// The arguments of a format of `printf` or `scanf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FormatArguments {
    /// The number of arguments, at most.
    pub count: u8,
    /// A bit for each of the first 8 arguments that `printf` takes for a string (`%s`): it prints the contents, not the address.
    pub strings: u8,
}

/// The effects of a function on addresses. Every analysed code atom has one, except cold parts that run in the frame of their function:
/// these are in [`FunctionSummary::parts`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FunctionSummary {
    /// It is the atom that callers enter.
    pub atom: AtomIdx,
    /// Atoms that belong to it and are entered only from it (or that it belongs to): ascending, without `atom`.
    pub parts: Vec<AtomIdx>,
    /// The entries for calls: (atom, bytes from the start of its section), ascending. Other addresses in the atoms are
    /// labels.
    pub entries: Vec<(AtomIdx, u64)>,
    /// The number of values that the function has.
    pub values: u32,
    /// The used contents of registers at entry, sorted by register.
    pub parameters: Vec<(Register, ValueIdx)>,
    /// The used contents of the stack at entry: cells of 8 bytes by offset from the stack pointer at entry (at least 8), sorted. Empty if the
    /// frame is an object.
    pub stack_parameters: Vec<(i32, ValueIdx)>,
    /// The frame is an object in memory, because its address is stored or passed. Stack parameters are in it at offset 8 and above.
    pub frame: bool,
    /// The values of registers on return, sorted by register: rax, rcx, rdx, r8, xmm0 to xmm3. A register that is `preserved` may be left
    /// out if nothing else is returned there.
    pub results: Vec<(Register, ValueIdx)>,
    /// A bit for each register of [`PRESERVABLE`](crate::registers::PRESERVABLE) that holds its entry value on every return. The bit of rax may
    /// be set if only some returns keep it; on others rax has the value of `results`. Each caller finds its own value there.
    pub preserved: u64,
    /// Values that may be anything if control enters at a label from outside (`__builtin_longjmp`).
    pub indirect_entry_values: Vec<ValueIdx>,
    /// Targets whose addresses are only compared, or only used to access other contents than addresses. Sorted, without
    /// duplicates, and without targets of constraints and calls.
    pub address_taken_only: Vec<Target>,
    /// They are in no particular order, without duplicates.
    pub constraints: Vec<Constraint>,
    /// They are sorted by section and then offset.
    pub call_sites: Vec<CallSite>,
    /// References of the function's atoms that the constraints and call sites account for: (section, offset) of the
    /// relocation or field, sorted.
    pub covered_references: Vec<(u32, u64)>,
}

impl FunctionSummary {
    /// A function that does nothing and has no value.
    pub fn new(atom: AtomIdx) -> Self {
        FunctionSummary { atom, ..FunctionSummary::default() }
    }

    /// The targets of the constraints and the direct calls, in their order.
    pub fn named(&self) -> impl Iterator<Item = Target> + '_ {
        let addresses = self.constraints.iter().filter_map(|c| match c {
            Constraint::Address { target, .. } => Some(*target),
            _ => None,
        });
        let calls = self.call_sites.iter().filter_map(|s| match s.callee {
            Callee::Direct { target, .. } => Some(target),
            Callee::Indirect(_) => None,
        });
        addresses.chain(calls)
    }
}
