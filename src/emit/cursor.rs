//! A bounds-checked reader of little-endian numbers and LEB128 (DWARF 5, 7.6), and the writer of LEB128.

use crate::error::{Error, Result, Stage};

fn early() -> Error {
    Error::new(Stage::Emit, "the section ends early")
}

fn too_long() -> Error {
    Error::new(Stage::Emit, "the section has a number of more than 64 bits")
}

/// A place in a section, in bytes from its start.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'c> {
    bytes: &'c [u8],
    pub(super) at: u64,
}

impl<'c> Cursor<'c> {
    pub(super) fn new(bytes: &'c [u8], at: u64) -> Self {
        Cursor { bytes, at }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let at = usize::try_from(self.at).map_err(|_| early())?;
        let field = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).ok_or_else(early)?;
        self.at += N as u64;
        Ok(*field)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    pub(super) fn u32(&mut self) -> Result<u64> {
        Ok(u64::from(u32::from_le_bytes(self.take()?)))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    pub(super) fn uleb(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(too_long())
    }

    pub(super) fn sleb(&mut self) -> Result<i64> {
        let mut value = 0i64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let unused = 64u32.saturating_sub(shift + 7);
                return Ok(value << unused >> unused);
            }
        }
        Err(too_long())
    }

    pub(super) fn bytes(&mut self, count: u64) -> Result<&'c [u8]> {
        let end = self.at.checked_add(count).ok_or_else(early)?;
        let range = usize::try_from(self.at).ok().zip(usize::try_from(end).ok());
        let bytes = range.and_then(|(start, end)| self.bytes.get(start..end)).ok_or_else(early)?;
        self.at = end;
        Ok(bytes)
    }

    /// The bytes that are not read yet.
    pub(super) fn rest(&self) -> &'c [u8] {
        usize::try_from(self.at).ok().and_then(|at| self.bytes.get(at..)).unwrap_or(&[])
    }
}

pub(super) fn uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn sleb(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}
