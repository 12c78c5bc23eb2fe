//! The words of value flow: what a function does with addresses, as inclusion constraints over its values.
//!
//! A value is what a register, a stack slot or a temporary may hold at some point of the function. Integers hold nothing:
//! only addresses are followed, and what depends on an address through arithmetic holds the same address at an unknown
//! offset. The relations between values are those of Andersen's analysis (assign, load, store, address), with byte
//! offsets; `None` is LLVM's `UnknownOffset`. A function that was not understood has no [`FunctionSummary`]: whatever it
//! refers to escapes, and so does whatever is passed to it.
//!
//! The constraints of a function say everything about the references of its atoms that are in
//! [`FunctionSummary::covered_references`]; every other reference keeps its target and lets it escape, as without value flow.

use serde::{Deserialize, Serialize};

use crate::ids::{AtomIdx, ValueIdx};
use crate::registers::Register;
use crate::summary::Target;

/// An address: what `value` holds, displaced by `offset` bytes; `None` is any displacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    pub value: ValueIdx,
    pub offset: Option<i64>,
}

/// What flows where. Every one only adds: a value holds the union of what its constraints say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Constraint {
    /// `to` holds the address of a symbol plus `offset`, or of a place in this module: then `offset` is from the start
    /// of the atom's *section*.
    Address { to: ValueIdx, target: Target, offset: i64 },
    /// `to` holds an address in the frame of the function: `offset` from the stack pointer at entry (that is where the
    /// return address lies, 8 bytes; stack parameters are above), or anywhere.
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
    /// What `from` holds escapes: code that we don't see may do anything with it.
    Escape { from: ValueIdx },
    /// `from` is used otherwise than by copying: the addresses of code that it holds escape.
    EscapeCode { from: ValueIdx },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Callee {
    /// A symbol, or the place at `offset` of the atom's section.
    Direct { target: Target, offset: i64 },
    /// It calls whatever the value holds.
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
    /// The registers that hold the address of a constant string, sorted, with the arguments that it asks for if it is a format. Only of
    /// calls of functions that the module does not define.
    pub formats: Vec<(Register, FormatArguments)>,
    /// What registers hold at the call, sorted by register: if the callees since then have preserved it, for there are some that
    /// preserve what others clobber. A register that is left out holds no address, or what this function's caller left there; of rax
    /// that is said, too. Unseen code is passed nothing in others than [`CONVENTIONAL`](crate::registers::CONVENTIONAL).
    pub actuals: Vec<(Register, ValueIdx)>,
    /// What the caller's frame holds at and above the callee's stack pointer at entry, sorted by offset from it: cells
    /// of 8 bytes. Offset 8 is the first stack parameter. Only cells that may hold an address.
    pub stack: Vec<(i32, ValueIdx)>,
    /// The frame is an object ([`FunctionSummary::frame`]) and the callee's stack pointer at entry points there, at
    /// this offset: what the object holds from there on is passed too. `Some(None)`: somewhere in it.
    pub stack_in_frame: Option<Option<i64>>,
    /// Values that hold what the callee returns or leaves in a register (rax, rcx, rdx, r8, xmm0 to xmm3), sorted by register.
    pub results: Vec<(Register, ValueIdx)>,
}

/// The arguments that a format of `printf` or `scanf` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FormatArguments {
    /// The number of arguments, at most.
    pub count: u8,
    /// A bit for each of the first 8 arguments that `printf` takes for a string (`%s`): it writes what is there, and not the address.
    pub strings: u8,
}

/// What a function does with addresses. There is one for every code atom that was understood; a cold part that runs in
/// the frame of its function has none of its own but is in [`FunctionSummary::parts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSummary {
    /// It is the atom that callers enter.
    pub atom: AtomIdx,
    /// Atoms that belong to it and are entered only from it (or that it belongs to): ascending, without `atom`.
    pub parts: Vec<AtomIdx>,
    /// Where calls may enter: (atom, bytes from the start of its section), ascending. An address of another place in
    /// the atoms is a label.
    pub entries: Vec<(AtomIdx, u64)>,
    /// The number of values that the function has.
    pub values: u32,
    /// What registers hold at entry, where anything depends on it, sorted by register.
    pub parameters: Vec<(Register, ValueIdx)>,
    /// What the stack holds at entry, where anything depends on it: cells of 8 bytes by offset from the stack pointer at
    /// entry (at least 8), sorted. Empty if the frame is an object.
    pub stack_parameters: Vec<(i32, ValueIdx)>,
    /// The frame is an object in memory: its address goes places. Stack parameters are in it at offset 8 and above.
    pub frame: bool,
    /// The values of registers on return, sorted by register: rax, rcx, rdx, r8, xmm0 to xmm3. A register that is `preserved` may be left
    /// out if nothing else is returned there.
    pub results: Vec<(Register, ValueIdx)>,
    /// The registers of [`PRESERVABLE`](crate::registers::PRESERVABLE) that may still hold their entry value on a return, a bit per register.
    /// On other returns they hold the values of `results`. Each caller finds its own value there.
    pub preserved: u64,
    /// Values that may hold anything if control enters at a label from outside (`__builtin_longjmp`).
    pub indirect_entry_values: Vec<ValueIdx>,
    /// What it has the address of and follows no further: only compared, or only accessed for what is no address.
    /// Sorted, without duplicates; none of what a constraint or a call names.
    pub address_taken_only: Vec<Target>,
    /// They are sorted and without duplicates.
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
        FunctionSummary {
            atom,
            parts: Vec::new(),
            entries: Vec::new(),
            values: 0,
            parameters: Vec::new(),
            stack_parameters: Vec::new(),
            frame: false,
            results: Vec::new(),
            preserved: 0,
            indirect_entry_values: Vec::new(),
            address_taken_only: Vec::new(),
            constraints: Vec::new(),
            call_sites: Vec::new(),
            covered_references: Vec::new(),
        }
    }

    /// What the constraints and the direct calls have the address of, in their order.
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
