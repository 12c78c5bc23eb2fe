//! What functions do whose code is not in the link, as far as addresses go.
//!
//! A [`Model`] says all that a function does; what has no model may do anything. Which function a model is of is said
//! where models are looked up: by provider (soname) and symbol, never by a bare name, since another library or the link
//! itself may define the same one.

/// All that a function does with addresses. What no effect says does not happen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    pub effects: Vec<Effect>,
}

/// An argument in a general register, from 0: rdi, rsi, rdx, rcx, r8, r9.
pub type Argument = u8;

/// What a function may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Returns memory that nothing else points to, one object a call site.
    ReturnsFresh,
    /// Returns an argument, or, if not `exact`, an address at an unknown distance from it.
    Returns { argument: Argument, exact: bool },
    /// Returns anything that escaped.
    ReturnsUnknown,
    /// Returns what the argument's memory holds.
    ReturnsContents(Argument),
    /// Copies memory from where `from` points to where `to` points, any number of bytes, byte 0 to byte 0 if `aligned`.
    Copies { from: Argument, to: Argument, aligned: bool },
    /// Stores `value` somewhere into the memory at `to`.
    Stores { value: Argument, to: Argument },
    /// Stores anything that escaped into the memory at the argument.
    StoresUnknown(Argument),
    /// The argument escapes.
    Escapes(Argument),
    /// Calls an argument with these arguments in its general registers, in order. If `returns`, what the callee returns is
    /// returned.
    Calls { function: Argument, arguments: [Passed; 3], returns: bool },
}

/// What a modelled function passes to a function that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// No address.
    Nothing,
    /// An argument of its own.
    Argument(Argument),
    /// An address somewhere in the object that an argument points to.
    Within(Argument),
    /// What the argument's memory holds.
    Contents(Argument),
    /// Anything that escaped.
    Unknown,
}

/// The registers of [`Argument`]s, by number.
pub const ARGUMENT_REGISTERS: [crate::relation::Register; 6] = [7, 6, 2, 1, 8, 9];

/// The register of the result.
pub const RESULT_REGISTER: crate::relation::Register = 0;
