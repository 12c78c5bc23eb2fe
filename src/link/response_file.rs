//! Response files: the words of a line in a file, in the one syntax that all linkers of the GNU family read alike.
//!
//! Each word is quoted, with a backslash before quotes and backslashes, so that any byte but NUL comes through. Left out: reading them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The line in the syntax that all GNU-like linkers read: one quoted word a line.
pub fn response_file(line: &[OsString]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in line {
        out.push(b'"');
        for &byte in word.as_bytes() {
            if byte == b'"' || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.extend_from_slice(b"\"\n");
    }
    out
}
