//! Response files: the words of a line in a file, where the line is longer than the system takes.

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
