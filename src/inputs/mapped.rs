//! The bytes of an input file: the one place where a file is mapped.
//!
//! Safe as long as nobody writes to an input during the link, which linkers themselves rely on; a file that
//! shrinks under us would raise SIGBUS. [`Mapped`] hides whether the bytes are mapped or were read.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// Bytes of a file, mapped where that is possible.
pub enum Mapped {
    Map(memmap2::Mmap),
    Read(Vec<u8>),
}

impl std::fmt::Debug for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapped({} bytes)", self.len())
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Mapped::Map(map) => map,
            Mapped::Read(bytes) => bytes,
        }
    }
}

impl Mapped {
    /// Map a regular file; read anything else (a pipe, an empty file) to its end.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if meta.is_file() && meta.len() > 0 {
            // SAFETY: the map is private and read-only. The file must not be truncated while we run; that
            // is the contract of every linker with its inputs, and pass 8 re-stats them.
            #[allow(unsafe_code)]
            let map = unsafe { memmap2::Mmap::map(&file) }?;
            return Ok(Mapped::Map(map));
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut file, &mut bytes)?;
        Ok(Mapped::Read(bytes))
    }
}
