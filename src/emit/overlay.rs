//! The sections of an object of which some have other contents than in the file, and some are new.
//!
//! Indices of sections stay what they are in the file; new ones come behind them. Safe because whoever reads a section asks for its
//! contents here first, and a header says how long they are.

use object::{U64, pod};

use super::input::{LE, Rela, Shdr};

/// The sections of the object as they are now.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) headers: Vec<Shdr>,
    /// By section: what stands in place of its contents in the file. The header says how long that is.
    pub(super) contents: Vec<Option<Contents>>,
}

#[derive(Debug)]
pub(super) enum Contents {
    Bytes(Vec<u8>),
    Relocations(Vec<Rela>),
}

impl Contents {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Contents::Bytes(bytes) => bytes,
            Contents::Relocations(relocations) => pod::bytes_of_slice(relocations),
        }
    }
}

impl Overlay {
    pub(super) fn push(&mut self, header: Shdr, contents: Contents) {
        let index = self.headers.len();
        self.headers.push(header);
        self.contents.push(None);
        self.set(index, header, contents);
    }

    pub(super) fn set(&mut self, index: usize, mut header: Shdr, contents: Contents) {
        header.sh_size = U64::new(LE, contents.bytes().len() as u64);
        if let (Some(old), Some(slot)) = (self.headers.get_mut(index), self.contents.get_mut(index)) {
            (*old, *slot) = (header, Some(contents));
        }
    }
}
