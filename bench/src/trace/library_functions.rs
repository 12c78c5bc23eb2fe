//! What a code address outside the traced program is called: functions of shared libraries, by the symbol that the program's
//! own relocations name, and by the dynamic symbols of the library that the address lies in.
//!
//! The first is exact for IFUNCs too, whose implementations have names that nobody calls them by: the slot that the
//! dynamic linker filled holds the implementation's address.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;
use object::{Object, ObjectSegment, ObjectSymbol};

use super::program::TracedProgram;

/// Names by address, in one process.
#[derive(Debug, Default)]
pub(super) struct LibraryFunctions {
    known: BTreeMap<u64, BTreeSet<String>>,
}

impl LibraryFunctions {
    /// The names of `address`; empty for code that is no function of a library.
    pub(super) fn names(
        &mut self,
        address: u64,
        program: &TracedProgram,
        pid: Pid,
        bias: u64,
        memory: &File,
    ) -> BTreeSet<String> {
        if let Some(names) = self.known.get(&address) {
            return names.clone();
        }
        let mut names = in_library(address, pid).unwrap_or_default();
        for (slot, name) in &program.slots {
            if read_word(memory, slot.wrapping_add(bias)) == Some(address) {
                names.insert(name.clone());
            }
        }
        self.known.insert(address, names.clone());
        names
    }
}

pub(super) fn read_word(memory: &File, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, address).ok()?;
    Some(u64::from_le_bytes(word))
}

/// Dynamic symbols at `address` of the file that is mapped there.
fn in_library(address: u64, pid: Pid) -> Option<BTreeSet<String>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    // start-end permissions offset device inode path
    let (start, offset, path) = maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        let path = words.nth(2)?;
        (start..end).contains(&address).then(|| (start, offset, path.to_owned()))
    })?;
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let at = address.checked_sub(start)?.checked_add(offset)?;
    let address = file.segments().find_map(|s| {
        let (from, size) = s.file_range();
        (from..from.saturating_add(size)).contains(&at).then(|| s.address() + (at - from))
    })?;
    let here = file.dynamic_symbols().filter(|s| s.address() == address && !s.is_undefined());
    Some(here.filter_map(|s| s.name().ok().map(str::to_owned)).collect())
}
