//! Damage to a file: of its bytes anywhere, and of fields of an ELF object where it is one.

use crate::link_programs::SplitMix64;

/// Offsets of the fields of an ELF header, section header, symbol and relocation, with their sizes.
const HEADER: &[(usize, usize)] = &[
    (4, 1),
    (5, 1),
    (6, 1),
    (16, 2),
    (18, 2),
    (32, 8),
    (40, 8),
    (48, 4),
    (52, 2),
    (58, 2),
    (60, 2),
    (62, 2),
];
const SECTION: &[(usize, usize)] =
    &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];
const SYMBOL: &[(usize, usize)] = &[(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)];
const RELOCATION: &[(usize, usize)] = &[(0, 8), (8, 4), (12, 4), (16, 8)];

pub(crate) fn damage(original: &[u8], rng: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        match rng.below(9) {
            0 => bytes.truncate(rng.below(original.len() + 1)),
            1 | 2 => {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
            3 => {
                let at = rng.below(bytes.len());
                bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b' ', b';', b'{', b'*']);
            }
            4 => {
                let (a, b) = (rng.below(bytes.len() / 8 + 1) * 8, rng.below(bytes.len() / 8 + 1) * 8);
                if a + 8 <= bytes.len() && b + 8 <= bytes.len() {
                    for i in 0..8 {
                        bytes.swap(a + i, b + i);
                    }
                }
            }
            _ => field(&mut bytes, original, rng),
        }
    }
    bytes
}

fn word(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)))
}

/// Where an ELF file begins in the original: itself, or a member of an archive.
fn elf_start(original: &[u8], rng: &mut SplitMix64) -> Option<usize> {
    let starts: Vec<usize> =
        original.windows(4).enumerate().filter(|(_, w)| w == b"\x7fELF").map(|(at, _)| at).collect();
    (!starts.is_empty()).then(|| *rng.pick(&starts))
}

/// Change a field of a header, a section header, a symbol or a relocation.
fn field(bytes: &mut [u8], original: &[u8], rng: &mut SplitMix64) {
    let Some(start) = elf_start(original, rng) else { return };
    let mut place = || -> Option<(usize, usize)> {
        let table = start + word(original, start + 40, 8)?;
        let count = word(original, start + 60, 2)?;
        let section = table + rng.below(count) * 64;
        let (kind, offset, size) = (
            word(original, section + 4, 4)?,
            word(original, section + 24, 8)?,
            word(original, section + 32, 8)?,
        );
        let (at, fields) = match (rng.below(8), kind) {
            (0, _) => (start, HEADER),
            (1..=5, 2 | 11) => (start + offset + rng.below(size / 24) * 24, SYMBOL),
            (1..=5, 4) => (start + offset + rng.below(size / 24) * 24, RELOCATION),
            _ => (section, SECTION),
        };
        let (field, width) = *rng.pick(fields);
        Some((at + field, width))
    };
    let Some((at, width)) = place() else { return };
    let old = word(original, at, width).unwrap_or(0);
    let values = [
        0,
        1,
        2,
        3,
        4,
        7,
        0xff,
        0xfff1,
        0xfff2,
        0xffff,
        usize::MAX,
        original.len(),
        old.wrapping_add(1),
        old.wrapping_sub(1),
        old.wrapping_mul(2),
        old ^ 0x10,
    ];
    let value = *rng.pick(&values);
    for i in 0..width {
        if let Some(byte) = bytes.get_mut(at + i) {
            *byte = (value >> (8 * i)) as u8;
        }
    }
}
