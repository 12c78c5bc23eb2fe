//! GUIDs: how LLVM's summaries name a global value of any module, the low 64 bits of the MD5 of its identifier.
//!
//! The identifier of a local value has its source file before it. MD5 (RFC 1321) is a naming scheme here and guards nothing.

/// The GUID of an identifier.
pub fn guid(identifier: &[u8]) -> u64 {
    let [a, b, ..] = md5(identifier);
    u64::from(b) << 32 | u64::from(a)
}

/// The GUID of a global value. `producer_major` is LLVM's version: the mark between file and name was `:` before 18.
pub fn guid_of(name: &[u8], is_local: bool, source_file: &[u8], producer_major: Option<u32>) -> u64 {
    // A leading 1 says that the name is not mangled, and is no part of it.
    let name = name.strip_prefix(b"\x01").unwrap_or(name);
    if !is_local {
        return guid(name);
    }
    let file = if source_file.is_empty() { b"<unknown>" } else { source_file };
    let mark: &[u8] = if producer_major.is_some_and(|v| v < 18) { b":" } else { b";" };
    guid(&[file, mark, name].concat())
}

/// The four words of a digest.
fn md5(message: &[u8]) -> [u32; 4] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut blocks = message.chunks_exact(64);
    for block in &mut blocks {
        round(&mut state, block);
    }
    let mut last = blocks.remainder().to_vec();
    last.push(0x80);
    last.resize(if last.len() > 56 { 120 } else { 56 }, 0);
    last.extend_from_slice(&(message.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in last.chunks_exact(64) {
        round(&mut state, block);
    }
    state
}

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

fn round(state: &mut [u32; 4], block: &[u8]) {
    let word = |i: usize| {
        let field = block.get(i * 4..i * 4 + 4).and_then(|w| w.try_into().ok());
        u32::from_le_bytes(field.unwrap_or_default())
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for i in 0..64usize {
        let (mixed, at) = match i / 16 {
            0 => (b & c | !b & d, i),
            1 => (d & b | !d & c, 5 * i + 1),
            2 => (b ^ c ^ d, 3 * i + 5),
            _ => (c ^ (b | !d), 7 * i),
        };
        // RFC 1321: the integer part of 2^32 times the sine of i + 1 radians.
        let constant = ((i as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
        let shift = SHIFTS.get(i / 16).and_then(|row| row.get(i % 4)).copied().unwrap_or_default();
        let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word(at % 16));
        (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(shift)));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(message: &[u8]) -> String {
        md5(message).iter().flat_map(|w| w.to_le_bytes()).map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn digests_of_the_rfc() {
        // RFC 1321, A.5.
        for (message, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hex(message.as_bytes()), digest);
        }
    }

    #[test]
    fn guids_of_values() {
        assert_eq!(guid_of(b"printf", false, b"a.c", Some(19)), 7_383_291_119_112_528_047);
        assert_eq!(guid_of(b"\x01printf", false, b"a.c", Some(19)), 7_383_291_119_112_528_047);
        assert_eq!(guid_of(b"s", true, b"a.c", Some(19)), 12_859_985_728_976_346_645);
        assert_eq!(guid_of(b"s", true, b"a.c", Some(14)), guid(b"a.c:s"));
    }
}
