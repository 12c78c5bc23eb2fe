//! What registers and cells of the frame hold at a point of a function, as integers.
//!
//! A value is told only if it is the same on every path, and made of something that stays the same while the function runs. A
//! register may be known in its lowest bytes alone. The frame is a set of *homes*: places that one instruction alone stores to,
//! so that whatever comes back there (a second return of `setjmp`) finds what it put.

use std::collections::BTreeMap;

use crate::constant::{Integer, Quantity, Source, cut, extend};
use crate::native::decode::effects::{RSP, Slot};
use crate::summary::Target;

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Anything,
    Constant(u64),
    Of(Quantity),
    /// An address in the frame: bytes from the stack pointer at entry.
    Frame(i64),
    /// The address of a symbol, from the global offset table, displaced.
    Address(Target, i64),
}

/// The lowest `bytes` of what is held, at least; 8 is all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) held: Held,
    pub(super) bytes: u8,
}

impl Value {
    pub(super) const ANYTHING: Value = Value { held: Held::Anything, bytes: 8 };

    pub(super) fn all(held: Held) -> Value {
        Value { held, bytes: 8 }
    }

    pub(super) fn source(source: Source) -> Value {
        Value::all(Held::Of(Quantity::of(source)))
    }

    pub(super) fn is_address(self) -> bool {
        matches!(self.held, Held::Frame(_) | Held::Address(..))
    }

    /// The lowest `bytes`, extended by their sign over `signed` bytes (0: by zeros).
    pub(super) fn part(self, bytes: u8, signed: u8) -> Value {
        if bytes > self.bytes {
            return Value::ANYTHING;
        }
        let held = match self.held {
            held @ (Held::Frame(_) | Held::Address(..)) if bytes == 8 => held,
            Held::Constant(value) if signed == 0 => Held::Constant(cut(value, bytes)),
            Held::Constant(value) => Held::Constant(cut(extend(value, bytes) as u64, signed)),
            Held::Of(q) => match extended(q, bytes, signed) {
                Some(quantity) => Held::Of(quantity),
                None => return Value::ANYTHING,
            },
            _ => return Value::ANYTHING,
        };
        Value::all(held)
    }

    /// All of it masked.
    pub(super) fn masked(self, mask: u64) -> Value {
        let held = match self.held {
            Held::Constant(value) => Held::Constant(value & mask),
            Held::Of(q) => Held::Of(Quantity { mask: q.mask & mask, ..q }),
            _ => return Value::ANYTHING,
        };
        Value { held, bytes: self.bytes }
    }

    /// The integer, if all of it is known.
    pub(super) fn integer(self) -> Option<Integer> {
        match self.held {
            Held::Constant(value) if self.bytes == 8 => Some(Integer::Constant(value)),
            Held::Of(quantity) if self.bytes == 8 => Some(Integer::Of(quantity)),
            _ => None,
        }
    }
}

/// The lowest `bytes` of a quantity, extended again.
fn extended(q: Quantity, bytes: u8, signed: u8) -> Option<Quantity> {
    let mask = cut(q.mask, bytes);
    match (q.signed, signed) {
        // Cut to what is there, or to fewer bytes of it.
        (0, 0) => Some(Quantity { bytes: q.bytes.min(bytes), mask: keep(q.mask, mask), ..q }),
        (0, to) if bytes <= q.bytes && q.mask == u64::MAX => Some(Quantity { bytes, signed: to, ..q }),
        // Zeros are above what there is, so that the sign is none.
        (0, _) if bytes > q.bytes && q.mask == u64::MAX => Some(q),
        (_, 0) if bytes <= q.bytes => Some(Quantity { bytes, signed: 0, mask: keep(q.mask, mask), ..q }),
        (over, 0) if bytes >= over => Some(q),
        (_, 0) if q.mask == u64::MAX => Some(Quantity { signed: bytes, ..q }),
        (_, to) if bytes <= q.bytes && q.mask == u64::MAX => Some(Quantity { bytes, signed: to, ..q }),
        (over, to) if bytes <= over && q.mask == u64::MAX => Some(Quantity { signed: to, ..q }),
        _ => None,
    }
}

/// A mask that lets all of the lowest bytes pass is none.
fn keep(before: u64, cut: u64) -> u64 {
    if before == u64::MAX { u64::MAX } else { cut }
}

/// A point of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) registers: [Value; 16],
    /// By offset in the frame: how many bytes lie there, and the value that they are the lowest of.
    pub(super) cells: BTreeMap<i64, (u8, Value)>,
}

impl State {
    /// Of which nothing is known.
    pub(super) fn unknown() -> State {
        State { registers: [Value::ANYTHING; 16], cells: BTreeMap::new() }
    }

    pub(super) fn get(&self, slot: Slot) -> Value {
        self.registers.get(usize::from(slot)).copied().unwrap_or(Value::ANYTHING)
    }

    pub(super) fn set(&mut self, slot: Slot, value: Value) {
        if let Some(place) = self.registers.get_mut(usize::from(slot)) {
            *place = value;
        }
    }

    pub(super) fn stack(&self) -> Option<i64> {
        match self.get(RSP).held {
            Held::Frame(offset) => Some(offset),
            _ => None,
        }
    }

    /// Forget cells that overlap these bytes.
    pub(super) fn clear(&mut self, offset: i64, size: i64) {
        self.cells
            .retain(|at, (bytes, _)| at + i64::from(*bytes) <= offset || offset.saturating_add(size) <= *at);
    }

    /// What the frame holds there.
    pub(super) fn cell(&self, offset: i64, size: u8) -> Value {
        match self.cells.get(&offset) {
            Some((bytes, value)) if size <= *bytes => value.part(size, 0),
            _ => Value::ANYTHING,
        }
    }

    /// Join what a path brings. `lost` is told what addresses are not known behind it. True if anything changed.
    pub(super) fn join(&mut self, other: &State, lost: &mut dyn FnMut(Value)) -> bool {
        let mut changed = false;
        for (mine, new) in self.registers.iter_mut().zip(&other.registers) {
            if mine == new {
                continue;
            }
            for value in [*mine, *new] {
                if value.is_address() {
                    lost(value);
                }
            }
            let bytes = mine.bytes.min(new.bytes);
            // Of the one more may be known than of the other.
            let joined = match mine.held == new.held {
                true => Value { held: mine.held, bytes },
                false => Value::ANYTHING,
            };
            changed |= joined != *mine;
            *mine = joined;
        }
        let before = self.cells.len();
        self.cells.retain(|at, cell| other.cells.get(at) == Some(cell));
        changed | (before != self.cells.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parameter() -> Value {
        Value::source(Source::Parameter(7))
    }

    /// What the processor has for a chain of moves from one register to the next.
    fn run(start: u64, moves: &[(u8, u8, u64)]) -> u64 {
        moves.iter().fold(start, |value, (bytes, signed, mask)| {
            let extended = match signed {
                0 => cut(value, *bytes),
                to => cut(extend(value, *bytes) as u64, *to),
            };
            extended & mask
        })
    }

    proptest! {
        #[test]
        fn a_chain_of_moves_has_the_value_that_it_has(
            start in prop_oneof![any::<u64>(), 0u64..4, Just(0x80), Just(0x8000), Just(0xffff_ffff)],
            moves in prop::collection::vec((0usize..4, 0usize..5, 0usize..4), 0..6),
        ) {
            const SIZES: [u8; 4] = [1, 2, 4, 8];
            const SIGNED: [u8; 5] = [0, 0, 2, 4, 8];
            const MASKS: [u64; 4] = [u64::MAX, u64::MAX, 0xff, 6];
            let moves: Vec<(u8, u8, u64)> = moves
                .into_iter()
                .map(|(b, s, m)| (SIZES[b], if SIGNED[s] > SIZES[b] { SIGNED[s] } else { 0 }, MASKS[m]))
                .collect();
            let told = moves.iter().fold(parameter(), |v, (b, s, m)| {
                let part = v.part(*b, *s);
                if *m == u64::MAX { part } else { part.masked(*m) }
            });
            match told.held {
                Held::Of(quantity) => prop_assert_eq!(quantity.value(start), run(start, &moves)),
                held => prop_assert_eq!(held, Held::Anything),
            }
        }
    }

    #[test]
    fn what_is_told_of_chains() {
        let is = |value: Value, bytes, signed| {
            let Held::Of(q) = value.held else { return false };
            (q.bytes, q.signed, q.mask) == (bytes, signed, u64::MAX)
        };
        assert!(is(parameter().part(4, 0), 4, 0));
        assert!(is(parameter().part(4, 0).part(1, 4), 1, 4));
        assert!(is(parameter().part(1, 4).part(4, 0), 1, 4));
        assert!(is(parameter().part(1, 0).part(4, 8), 1, 0));
        assert!(is(parameter().part(1, 4).part(4, 8), 1, 8));
        // Only the lowest byte is known: nothing is said of four.
        let low = Value { bytes: 1, ..parameter() };
        assert_eq!((low.part(4, 0), is(low.part(1, 0), 1, 0)), (Value::ANYTHING, true));
        assert_eq!(low.integer(), None);
    }

    #[test]
    fn joins_keep_what_is_the_same() {
        let mut lost = Vec::new();
        let (mut one, mut other) = (State::unknown(), State::unknown());
        one.set(7, parameter());
        other.set(7, parameter());
        one.set(6, Value::all(Held::Constant(1)));
        other.set(6, Value::all(Held::Constant(2)));
        one.set(0, Value::all(Held::Frame(-8)));
        one.cells.insert(-4, (4, parameter()));
        other.cells.insert(-4, (4, parameter()));
        one.cells.insert(-8, (4, parameter()));
        assert!(one.join(&other, &mut |v| lost.push(v)));
        assert_eq!((one.get(7), one.get(6), one.get(0)), (parameter(), Value::ANYTHING, Value::ANYTHING));
        assert_eq!((one.cells.len(), lost.len()), (1, 1));
        assert!(!one.join(&other, &mut |_| {}));
    }

    #[test]
    fn cells_that_overlap_go() {
        let mut state = State::unknown();
        state.cells.insert(-8, (4, parameter()));
        state.cells.insert(-4, (4, parameter()));
        assert_eq!(state.cell(-8, 4), parameter().part(4, 0));
        assert_eq!((state.cell(-8, 8), state.cell(-6, 2)), (Value::ANYTHING, Value::ANYTHING));
        state.clear(-5, 1);
        assert_eq!(state.cells.len(), 1);
        assert_eq!(state.cell(-4, 1), parameter().part(1, 0));
    }
}
