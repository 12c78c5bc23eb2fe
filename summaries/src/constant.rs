//! The words of constants: which small integers a function tests, and what of it runs only if a test goes one way.
//!
//! An integer is followed if it stays the same for as long as anybody looks at it: what a register that passes arguments held when
//! the function was entered, or what a fixed place in memory holds if it turns out that nobody ever changes it. A test of such a
//! one with a constant is a [`Condition`]; [`FunctionConstants`] says which conditions must hold, or must not, for a call or a
//! store to be reached. Everything here only permits: what is not listed happens, passes anything, and stores anything.
//! Bytes are counted from the lowest; a processor that is little-endian stores that one first.

use serde::{Deserialize, Serialize};

use crate::ids::AtomIdx;
use crate::relation::Register;
use crate::summary::Target;

/// rdi, rsi, rdx, rcx, r8, r9: the registers of which functions are told constants.
pub const PARAMETERS: [Register; 6] = [7, 6, 2, 1, 8, 9];

/// A place of memory that an instruction accesses directly: these bytes and no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    pub target: Target,
    /// From the symbol, or from the start of the atom's *section*.
    pub offset: i64,
    /// 1 to 8 bytes are an integer; anything larger is told only so that others are seen to overlap.
    pub size: u32,
}

/// Where an integer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// All 8 bytes of one of [`PARAMETERS`], at entry.
    Parameter(Register),
    /// What memory holds there, with zeros above.
    Memory(Cell),
}

/// An integer of 8 bytes that is made from a source: its lowest `bytes`, extended, and then masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quantity {
    pub source: Source,
    /// 1 to 8.
    pub bytes: u8,
    /// The sign is extended over this many bytes, with zeros above; 0: zeros above `bytes`.
    pub signed: u8,
    pub mask: u64,
}

/// An integer of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Integer {
    Constant(u64),
    Of(Quantity),
}

/// How two integers are compared; the others are these turned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Comparison {
    Equal,
    /// Without signs.
    Below,
    BelowOrEqual,
    /// With signs.
    Less,
    LessOrEqual,
    /// The sign of the difference, cut to the size.
    Negative,
}

impl Comparison {
    /// Every one.
    pub const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::Below,
        Comparison::BelowOrEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Negative,
    ];
}

/// A test that decides a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Condition {
    pub quantity: Quantity,
    /// How many bytes of both are compared: 1, 2, 4 or 8.
    pub size: u8,
    pub comparison: Comparison,
    pub with: u64,
}

/// A condition, by its number in [`FunctionConstants::conditions`], holds or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Outcome {
    pub condition: u32,
    pub holds: bool,
}

/// What is known of a call site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pass {
    /// Of the instruction, as in [`crate::relation::CallSite`].
    pub section: u32,
    pub offset: u64,
    /// Control comes there only after each of these, once in every run of the function.
    pub needs: Vec<Outcome>,
    /// What registers of [`PARAMETERS`] hold at the call, sorted by register; one that is left out holds anything.
    pub actuals: Vec<(Register, Integer)>,
}

/// A direct store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Put {
    pub cell: Cell,
    /// `None` is anything.
    pub value: Option<Integer>,
    /// As [`Pass::needs`].
    pub needs: Vec<Outcome>,
}

/// What a function does with integers. There is one at most for each function that has a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionConstants {
    /// That of the function.
    pub atom: AtomIdx,
    pub conditions: Vec<Condition>,
    /// Sorted by (section, offset), without duplicates.
    pub passes: Vec<Pass>,
    /// Every direct store whose reference is in `direct`, sorted.
    pub puts: Vec<Put>,
    /// Every other access whose reference is in `direct`, sorted, without duplicates.
    pub gets: Vec<Cell>,
    /// References of the function's atoms, (section, offset) of the relocation or field, sorted: all that comes of the address are the
    /// accesses that `puts` and `gets` list.
    pub direct: Vec<(u32, u64)>,
}

/// What a data section holds in the beginning, in one piece of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub atom: AtomIdx,
    /// From the start of the section.
    pub offset: u64,
    #[serde(with = "crate::format::bytes")]
    pub bytes: Vec<u8>,
}

/// The lowest `bytes` of a value, the rest zeros.
pub fn cut(value: u64, bytes: u8) -> u64 {
    match bytes {
        0 => 0,
        1..=7 => value & ((1 << (u32::from(bytes) * 8)) - 1),
        _ => value,
    }
}

/// The lowest `bytes` of a value, with their sign.
pub fn extend(value: u64, bytes: u8) -> i64 {
    let shift = 64 - u32::from(bytes.clamp(1, 8)) * 8;
    ((value << shift) as i64) >> shift
}

impl Quantity {
    /// All of a source.
    pub fn of(source: Source) -> Quantity {
        let bytes = match source {
            Source::Parameter(_) => 8,
            Source::Memory(cell) => cell.size.clamp(1, 8) as u8,
        };
        Quantity { source, bytes, signed: 0, mask: u64::MAX }
    }

    /// The integer, if the source is this.
    pub fn value(&self, source: u64) -> u64 {
        let extended = match self.signed {
            0 => cut(source, self.bytes),
            to => cut(extend(source, self.bytes) as u64, to),
        };
        extended & self.mask
    }
}

impl Condition {
    /// Whether it holds if the source of its quantity is this.
    pub fn holds(&self, source: u64) -> bool {
        let (left, right) = (self.quantity.value(source), self.with);
        let (low, other) = (cut(left, self.size), cut(right, self.size));
        let (signed, with) = (extend(left, self.size), extend(right, self.size));
        match self.comparison {
            Comparison::Equal => low == other,
            Comparison::Below => low < other,
            Comparison::BelowOrEqual => low <= other,
            Comparison::Less => signed < with,
            Comparison::LessOrEqual => signed <= with,
            Comparison::Negative => extend(left.wrapping_sub(right), self.size) < 0,
        }
    }
}

impl FunctionConstants {
    /// What is known of the call at this place.
    pub fn pass(&self, section: u32, offset: u64) -> Option<&Pass> {
        let found = self.passes.binary_search_by_key(&(section, offset), |p| (p.section, p.offset)).ok()?;
        self.passes.get(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(bytes: u8, signed: u8, mask: u64, size: u8, comparison: Comparison, with: u64) -> Condition {
        let quantity = Quantity { source: Source::Parameter(7), bytes, signed, mask };
        Condition { quantity, size, comparison, with }
    }

    #[test]
    fn bytes_are_cut_and_extended() {
        assert_eq!((cut(0x1234_5678_9abc_def0, 4), cut(u64::MAX, 8), cut(5, 0)), (0x9abc_def0, u64::MAX, 0));
        assert_eq!(
            (extend(0xff, 1), extend(0x7f, 1), extend(0x8000_0000, 4)),
            (-1, 127, i64::from(i32::MIN))
        );
        let of = |bytes, signed, mask| Quantity { source: Source::Parameter(7), bytes, signed, mask };
        // movsbl: the sign goes over 4 bytes, and the processor clears the others.
        assert_eq!(of(1, 4, u64::MAX).value(0x1_80), 0xffff_ff80);
        assert_eq!(of(4, 8, u64::MAX).value(0x8000_0000), 0xffff_ffff_8000_0000);
        assert_eq!(of(2, 0, 0xff0).value(0x12_3456), 0x450);
    }

    #[test]
    fn every_comparison_at_every_size() {
        let outcomes = |size, value, with| {
            Comparison::ALL.map(|c| condition(8, 0, u64::MAX, size, c, with).holds(value))
        };
        assert_eq!(outcomes(4, 0, 0), [true, false, true, false, true, false]);
        assert_eq!(outcomes(4, 1, 0), [false; 6]);
        // The upper half is not looked at; -1 is above everything without signs.
        assert_eq!(outcomes(4, 0xffff_ffff, 0), [false, false, false, true, true, true]);
        assert_eq!(outcomes(8, 0xffff_ffff, 0), [false; 6]);
        assert_eq!(outcomes(1, 0x1_00, 0), [true, false, true, false, true, false]);
        // The difference overflows: less, though its sign says otherwise.
        assert_eq!(outcomes(1, 0x80, 1), [false, false, false, true, true, false]);
    }
}
