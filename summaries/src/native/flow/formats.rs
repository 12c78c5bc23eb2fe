//! Format string analysis for `printf` and `scanf`: the number and kinds of arguments of a constant format.
//!
//! All registers have values at a call, and some are left over from earlier code. The conversions of a constant format determine the
//! registers that are arguments, and the arguments that are strings (C11 7.21.6.1).

use super::builder::{ConstraintBuilder, ValueKey};
use super::module::FlowModule;
use super::state::SlotValue;
use super::walk::Walk;
use crate::registers::{ARGUMENTS, Register};
use crate::relation::{Callee, FormatArguments};
use crate::summary::{Target, atom_flags};

/// The maximum length of a format in bytes; a longer one is not analysed.
const MAX_FORMAT: usize = 4096;

impl Walk<'_, '_, '_, '_> {
    /// The general registers that hold the address of a constant string, with the arguments of that string as a format.
    pub(super) fn formats(&mut self, callee: Callee) -> Vec<(Register, FormatArguments)> {
        if !self.builder.recording || !matches!(callee, Callee::Direct { .. }) {
            return Vec::new();
        }
        let count = |register: &Register| {
            let value = self.get(*register);
            let (number, offset) = self.builder.place_in(value)?;
            let string = self.module.constant_string(self.builder.target(number)?, offset)?;
            Some((*register, arguments_of(string)?))
        };
        let mut formats: Vec<(Register, FormatArguments)> = ARGUMENTS.iter().filter_map(count).collect();
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
    /// The constant string at a place, without its final zero.
    fn constant_string(&self, target: Target, offset: i64) -> Option<&[u8]> {
        // Another module's definition may prevail over that of a global symbol.
        let Target::Atom(atom) = target else { return None };
        let offset = u64::try_from(offset).ok()?;
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

/// The arguments of a format. `None` if it numbers them, has a `long double` (which is on the stack), makes `scanf` allocate memory (`m`),
/// or has an unknown conversion.
fn arguments_of(format: &[u8]) -> Option<FormatArguments> {
    let mut kinds: Vec<bool> = Vec::new();
    let mut rest = format.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            continue;
        }
        let mut longs = 0;
        loop {
            match rest.next()? {
                b'*' => kinds.push(false),
                b'l' => longs += 1,
                // glibc takes these for a `long double`.
                b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' if longs > 1 => return None,
                b'-' | b'+' | b' ' | b'#' | b'\'' | b'.' | b'0'..=b'9' => {}
                b'h' | b'j' | b'z' | b't' => {}
                b'%' => break,
                b's' => {
                    kinds.push(true);
                    break;
                }
                b'[' => {
                    kinds.push(false);
                    // A bracket in the first position is in the set.
                    if rest.next()? == b'^' {
                        rest.next()?;
                    }
                    while rest.next()? != b']' {}
                    break;
                }
                b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a'
                | b'A' | b'c' | b'p' | b'n' | b'b' | b'B' => {
                    kinds.push(false);
                    break;
                }
                _ => return None,
            }
        }
    }
    let count = u8::try_from(kinds.len()).ok()?;
    let strings = (0u8..8).zip(kinds).fold(0, |strings, (n, is)| strings | u8::from(is) << n);
    Some(FormatArguments { count, strings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_ask_for_arguments() {
        type Case = (&'static [u8], Option<(u8, u8)>);
        let cases: [Case; 14] = [
            (b"", Some((0, 0))),
            (b"%s: %-*d\n", Some((3, 0b1))),
            (b"100%%", Some((0, 0))),
            (b"%.*s%5.2lf%s", Some((4, 0b1010))),
            (b"%2$s", None),
            (b"%Lf", None),
            (b"%lla", None),
            (b"%qa", None),
            (b"%ms", None),
            (b"%W", None),
            (b"%[]%s] %s", Some((2, 0b10))),
            (b"%[^]%] %lx", Some((2, 0))),
            (b"%", None),
            (b"%ls %y", None),
        ];
        for (format, expected) in cases {
            let expected = expected.map(|(count, strings)| FormatArguments { count, strings });
            assert_eq!(arguments_of(format), expected, "{}", String::from_utf8_lossy(format));
        }
        assert_eq!(arguments_of(&b"%d".repeat(256)), None);
    }
}
