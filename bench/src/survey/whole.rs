//! Comparison of two whole links: the plain file and the divided one are the same byte for byte, but for branch relaxation.
//!
//! A short jump (`jmp rel8`, opcode 0xEB) whose target is in another section of the divided object is a near one there (`jmp rel32`, 0xE9),
//! over three bytes of padding. Nothing else may differ: what is relaxed leads to the same address, and the plain bytes behind
//! it are padding. Left out: which functions the jumps belong to, as files without symbols have none.

/// What one whole link is beside the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// The same bytes, but for as many jumps that were relaxed.
    Same {
        relaxed: usize,
    },
    Differs,
    /// lld makes a file of neither of the two.
    Unlinked,
}

/// Compare the file of the plain link with that of the divided one.
pub(super) fn compare(plain: Option<&[u8]>, divided: Option<&[u8]>) -> Whole {
    match (plain, divided) {
        (None, None) => Whole::Unlinked,
        (Some(plain), Some(divided)) => {
            same(plain, divided).map_or(Whole::Differs, |relaxed| Whole::Same { relaxed })
        }
        _ => Whole::Differs,
    }
}

/// How many jumps were relaxed, if nothing else differs.
fn same(plain: &[u8], divided: &[u8]) -> Option<usize> {
    if plain.len() != divided.len() {
        return None;
    }
    let (mut at, mut relaxed) = (0, 0);
    while let Some(step) = plain.get(at..)?.iter().zip(divided.get(at..)?).position(|(a, b)| a != b) {
        at += step;
        let short: &[u8; 5] = plain.get(at..at + 5)?.try_into().ok()?;
        let near: &[u8; 5] = divided.get(at..at + 5)?.try_into().ok()?;
        if !is_relaxed(*short, *near) {
            return None;
        }
        at += 5;
        relaxed += 1;
    }
    Some(relaxed)
}

/// Whether `near` is the jump `short` after relaxation. Both begin at the same address.
fn is_relaxed(short: [u8; 5], near: [u8; 5]) -> bool {
    let [0xeb, bias, a, b, c] = short else { return false };
    let [0xe9, displacement @ ..] = near else { return false };
    let target = i32::from(bias.cast_signed()) + 2;
    // Bytes of what assemblers and compilers fill with: no-ops of any length, traps and zeros.
    let filler =
        |byte| matches!(byte, 0x00 | 0x0f | 0x1f | 0x2e | 0x40 | 0x44 | 0x66 | 0x80 | 0x84 | 0x90 | 0xcc);
    i32::from_le_bytes(displacement) + 5 == target && [a, b, c].into_iter().all(filler)
}
