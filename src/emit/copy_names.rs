//! The paths of copies, and the originals that messages and outputs should name.
//!
//! A copy is in a numbered folder of ours, under the basename of its original. [`crate::link`] restores the originals
//! in messages and files of the linker.

use std::path::Path;

use crate::paths::without_dots;

#[derive(Debug, Default)]
pub struct CopyNames {
    /// The parent of the numbered folders, with a trailing slash.
    pub(super) prefix: String,
    /// By folder number: the copy's basename, and the original's path.
    pub(super) originals: Vec<(String, String)>,
}

impl CopyNames {
    /// Replace each copy's path by that of its original. Other paths in its folder get the original's folder, because
    /// lld names native code of bitcode so.
    pub fn restore(&self, text: &[u8]) -> Vec<u8> {
        let prefix = self.prefix.as_bytes();
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while !prefix.is_empty()
            && let Some(at) = find(rest, prefix)
        {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let tail = &rest[prefix.len()..];
            let digits = tail.iter().take_while(|c| c.is_ascii_digit()).count();
            let number = std::str::from_utf8(&tail[..digits]).ok().and_then(|n| n.parse::<usize>().ok());
            let known = number.and_then(|n| self.originals.get(n));
            match known.filter(|_| tail.get(digits) == Some(&b'/')) {
                Some((base, original)) => match tail[digits + 1..].strip_prefix(base.as_bytes()) {
                    Some(behind) => {
                        out.extend_from_slice(original.as_bytes());
                        rest = behind;
                    }
                    None => {
                        out.extend_from_slice(folder(original).as_bytes());
                        rest = &tail[digits + 1..];
                    }
                },
                None => {
                    out.extend_from_slice(prefix);
                    rest = tail;
                }
            }
        }
        out.extend_from_slice(rest);
        out
    }
}

/// The folder of a file or archive as lld writes it before a name: with a slash, or empty.
fn folder(original: &str) -> String {
    let archive = original.split_once('(').filter(|_| original.ends_with(')'));
    let file = archive.map_or(original, |(archive, _)| archive);
    let mut path = without_dots(&Path::new(file).with_file_name("_"));
    path.pop();
    path
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
