//! Stubs: traps that replace functions.
//!
//! A stub is `ud2`, behind an `endbr64` if the original has one. In one byte it is `into`, which is invalid in 64-bit mode
//! (Intel SDM, "INT n"). So a stub is never larger than the original, and running it raises SIGILL.

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const UD2: [u8; 2] = [0x0f, 0x0b];
const INTO: u8 = 0xce;

/// The bytes of a stub: at most six.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    bytes: [u8; 6],
    len: u8,
}

/// Whether code begins with the trap of a stub.
pub(crate) fn is_stub(code: &[u8]) -> bool {
    let code = code.strip_prefix(&ENDBR64).unwrap_or(code);
    code.starts_with(&UD2) || code.first() == Some(&INTO)
}

impl Code {
    /// The stub of a function of these bytes. It is empty for an empty function.
    pub(super) fn of(original: &[u8]) -> Self {
        let has_endbr = original.starts_with(&ENDBR64) && original.len() > ENDBR64.len();
        let (prefix, room): (&[u8], usize) = match has_endbr {
            true => (&ENDBR64, original.len() - ENDBR64.len()),
            false => (&[], original.len()),
        };
        let trap: &[u8] = match room {
            0 => &[],
            1 => &[INTO],
            _ => &UD2,
        };
        let mut code = Code { bytes: [0; 6], len: 0 };
        for (slot, byte) in code.bytes.iter_mut().zip(prefix.iter().chain(trap)) {
            *slot = *byte;
            code.len += 1;
        }
        code
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The size of the stub's code in bytes.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.len)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_larger_than_what_it_replaces() {
        let endbr = |rest: &[u8]| [&ENDBR64[..], rest].concat();
        let cases: &[(Vec<u8>, Vec<u8>)] = &[
            (vec![], vec![]),
            (vec![0xc3], vec![INTO]),
            (vec![0x31, 0xc0], UD2.to_vec()),
            (vec![0x31, 0xc0, 0xc3], UD2.to_vec()),
            (endbr(&[]), UD2.to_vec()),
            (endbr(&[0xc3]), endbr(&[INTO])),
            (endbr(&[0x31, 0xc0]), endbr(&UD2)),
            (endbr(&[0x31, 0xc0, 0xc3]), endbr(&UD2)),
        ];
        for (original, want) in cases {
            assert_eq!(Code::of(original).bytes(), want, "{original:x?}");
        }
    }
}
