//! Formats of `printf` and `scanf`: how many arguments a constant string asks for.
//!
//! A call has values in all registers, and those that were left there by chance are no arguments. Where the format is a constant, the
//! number of its conversions bounds the arguments (C11 7.21.6.1).

use super::builder::{ConstraintBuilder, ValueKey};
use super::module::FlowModule;
use super::state::{RegisterState, SlotValue};
use super::walker::BlockWalker;
use crate::registers::{ARGUMENTS, Register};
use crate::relation::Callee;
use crate::summary::{Target, atom_flags};

/// Bytes of a format, at most. Of a longer one no number is said.
const MAX_FORMAT: usize = 4096;

impl BlockWalker<'_, '_, '_, '_> {
    /// The general registers that hold the address of a constant string, with its number of arguments.
    pub(super) fn formats(&self, callee: Callee, state: &RegisterState) -> Vec<(Register, u8)> {
        if !self.builder.recording || !matches!(callee, Callee::Direct { .. }) {
            return Vec::new();
        }
        let count = |register: &Register| {
            let (number, offset) = self.builder.place_in(state.get(*register))?;
            let string = self.module.constant_string(self.builder.target(number)?, offset)?;
            Some((*register, arguments_of(string)?))
        };
        let mut formats: Vec<(Register, u8)> = ARGUMENTS.iter().filter_map(count).collect();
        formats.sort_unstable();
        formats
    }
}

impl ConstraintBuilder {
    /// The place whose address a slot has: the number of its target, and bytes from there.
    fn place_in(&self, value: SlotValue) -> Option<(u32, i64)> {
        match value {
            SlotValue::Place(number, offset) => Some((number, offset)),
            SlotValue::Node(node, by) => match self.key(node)? {
                ValueKey::Place(number, offset) => Some((number, offset.checked_add(by)?)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl FlowModule<'_, '_> {
    /// The string at a place in data that nobody writes, without its end.
    fn constant_string(&self, target: Target, offset: i64) -> Option<&[u8]> {
        let (atom, offset) = self.place_of_target(target, offset)?;
        let of = self.atoms.get(atom.index())?;
        if of.has(atom_flags::WRITE) || self.is_code(of.section) {
            return None;
        }
        let data = self.tables.data(of.section).ok()?.get(usize::try_from(offset).ok()?..)?;
        let end = data.iter().take(MAX_FORMAT).position(|byte| *byte == 0)?;
        let is_relocated = !self.relas_of(of.section, offset, offset + end as u64 + 1).is_empty();
        data.get(..end).filter(|_| !is_relocated)
    }
}

/// The number of arguments that a format asks for, at most: one for each `%`, and one for each `*` of a width or precision. `None` if it numbers
/// its arguments, or if one is a `long double`, which is on the stack.
fn arguments_of(format: &[u8]) -> Option<u8> {
    if format.iter().any(|byte| matches!(byte, b'$' | b'L')) {
        return None;
    }
    u8::try_from(format.iter().filter(|byte| matches!(byte, b'%' | b'*')).count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_bound_the_arguments() {
        let cases: [(&[u8], Option<u8>); 6] = [
            (b"", Some(0)),
            (b"%s: %-*d\n", Some(3)),
            (b"100%%", Some(2)),
            (b"%2$s", None),
            (b"%Lf", None),
            (b"%[^%]", Some(2)),
        ];
        for (format, expected) in cases {
            assert_eq!(arguments_of(format), expected);
        }
        assert_eq!(arguments_of(&[b'%'; 256]), None);
    }
}
