//! The operand reader: the operands of a record in order; and the ids of values and types.
//!
//! `None` means that the record is too short for its code or a number does not fit. Values are relative to the next value id, modulo 2^32,
//! as LLVM writes them; a forward value comes with its type (LLVM, `getValueTypePair`).

use super::super::error::{BitcodeError, BitcodeErrorKind};
use super::super::stream::Stream;

/// The number of a value, within a module or one of its bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// The number of a type, within a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);
/// The operands of a record that are not taken yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'r> {
    operands: &'r [u64],
    /// The number that the next value will have.
    next_value: u32,
}

/// A record that is too short, at this place.
pub(super) fn short(stream: &Stream<'_>, code: u32) -> BitcodeError {
    stream.error(BitcodeErrorKind::ShortRecord { block: stream.block(), code })
}

impl<'r> Record<'r> {
    pub(super) fn new(operands: &'r [u64], next_value: u32) -> Self {
        Record { operands, next_value }
    }

    pub(super) fn left(&self) -> usize {
        self.operands.len()
    }

    /// The remaining operands, without taking them.
    pub(super) fn rest(&self) -> &'r [u64] {
        self.operands
    }

    pub(super) fn take(&mut self) -> Option<u64> {
        let (first, rest) = self.operands.split_first()?;
        self.operands = rest;
        Some(*first)
    }

    pub(super) fn take_many(&mut self, count: u64) -> Option<&'r [u64]> {
        let (taken, rest) = self.operands.split_at_checked(usize::try_from(count).ok()?)?;
        self.operands = rest;
        Some(taken)
    }

    /// A number of 32 bits: a block, a list, or a size in bits.
    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.take()?).ok()
    }

    pub(super) fn ty(&mut self) -> Option<TypeId> {
        self.small().map(TypeId)
    }

    /// A value by its own number.
    pub(super) fn absolute(&mut self) -> Option<ValueId> {
        self.small().map(ValueId)
    }

    /// A value by its distance from the next value id.
    pub(super) fn value(&mut self) -> Option<ValueId> {
        Some(ValueId(self.next_value.wrapping_sub(self.take()? as u32)))
    }

    /// A value by its signed distance.
    pub(super) fn signed_value(&mut self) -> Option<ValueId> {
        let distance = signed(self.take()?);
        Some(ValueId(self.next_value.wrapping_sub(distance as u32)))
    }

    /// A value by its distance, with its type if it is forward.
    pub(super) fn typed_value(&mut self) -> Option<(ValueId, Option<TypeId>)> {
        let value = self.value()?;
        let ty = if value.0 < self.next_value { None } else { Some(self.ty()?) };
        Some((value, ty))
    }
}

/// A number whose lowest bit is its sign (LLVM, `decodeSignRotatedValue`); the lowest bit alone is the least number.
pub(super) fn signed(number: u64) -> i64 {
    match (number & 1, number >> 1) {
        (0, half) => half as i64,
        (_, 0) => i64::MIN,
        (_, half) => (half as i64).wrapping_neg(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_signs() {
        assert_eq!([0, 2, 3, 5, 1].map(signed), [0, 1, -1, -2, i64::MIN]);
    }

    #[test]
    fn values_before_and_behind() {
        // 2 before 10; 1 behind it, of type 7; the distance is a word.
        let operands = [2, 0xffff_ffff, 7, 4, 7];
        let mut record = Record::new(&operands, 10);
        assert_eq!(record.typed_value(), Some((ValueId(8), None)));
        assert_eq!(record.typed_value(), Some((ValueId(11), Some(TypeId(7)))));
        assert_eq!(record.signed_value(), Some(ValueId(8)));
        assert_eq!(record.signed_value(), Some(ValueId(13)));
        assert_eq!(record.value(), None);
    }
}
