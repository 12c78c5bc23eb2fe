//! A copier of LLVM's bitstream with changes.
//!
//! Bits between changes are copied, with the abbreviations that are defined in them. The headers of blocks are
//! written again, because their padding depends on the place. The contents of a block begin at a multiple of 32 bits
//! in both streams.

use summaries::bitcode::stream::{Event, Stream};

use super::bits::{Bits, OpenBlock};
use super::error::{RewriteError, Unsupported};

/// Reads one bitstream and writes another.
#[derive(Debug)]
pub(super) struct BitstreamCopier<'a> {
    bytes: &'a [u8],
    stream: Stream<'a>,
    pub(super) out: Bits,
    /// The number of source bits that are copied or left out.
    done: u64,
    open: Vec<OpenBlock>,
}

type Result<T> = std::result::Result<T, RewriteError>;

impl<'a> BitstreamCopier<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        let stream = Stream::new(bytes)?;
        let mut out = Bits::default();
        let done = stream.at();
        out.copy(bytes, 0, done);
        Ok(BitstreamCopier { bytes, stream, out, done, open: Vec::new() })
    }

    /// The next event. One of the methods below has to take it, unless it is a record that is copied.
    pub(super) fn next(&mut self) -> Result<Event> {
        let event = self.stream.next()?;
        let moved = self.out.at().wrapping_sub(self.done) % 32;
        if matches!(event, Event::Record(_)) && self.stream.blob().is_some() && moved != 0 {
            // Its bytes would no longer be at a multiple of 32 bits.
            return Err(Unsupported::Place("a blob").into());
        }
        Ok(event)
    }

    pub(super) fn operands(&self) -> &[u64] {
        self.stream.operands()
    }

    /// The start of the last event in the source, in bits.
    pub(super) fn began(&self) -> u64 {
        self.stream.began()
    }

    /// Copy up to a place in the source.
    fn copy_to(&mut self, end: u64) {
        self.out.copy(self.bytes, self.done, end);
        self.done = end;
    }

    /// Copy the last event too: a record.
    pub(super) fn copy_record(&mut self) {
        self.copy_to(self.stream.at());
    }

    /// The last 32 bits of the last event, as a number.
    pub(super) fn fixed_at_end(&self) -> Option<u64> {
        let at = self.stream.at().checked_sub(32).filter(|at| *at >= self.stream.began())?;
        let start = (at / 8) as usize;
        let bytes = self.bytes.get(start..start.checked_add(5)?)?;
        let value = bytes.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        Some(value >> (at % 8) & u64::from(u32::MAX))
    }

    /// The width of abbreviation ids in the block that is being written.
    fn width(&self) -> u32 {
        self.open.last().map_or(2, OpenBlock::width)
    }

    /// Write the header of the current block. Returns its place in the output, in bits.
    pub(super) fn open(&mut self, block: u32) -> u64 {
        self.copy_to(self.stream.began());
        let at = self.out.at();
        let width = self.stream.innermost().map_or(2, |(width, _)| width);
        let outer = self.width();
        self.open.push(self.out.enter(outer, block, width));
        self.done = self.stream.at();
        at
    }

    /// Copy the current block. Returns its place in the output, in bits.
    pub(super) fn copy_block(&mut self, block: u32) -> Result<u64> {
        let end = self.stream.innermost().map_or(self.done, |(_, end)| end);
        let at = self.open(block);
        self.copy_to(end);
        self.stream.skip_block();
        // The end of the block is copied. Only its length is missing.
        let open = self.open.pop();
        if open.is_some_and(|open| !self.out.set_length(&open)) {
            return Err(Unsupported::Size.into());
        }
        Ok(at)
    }

    /// Leave out the current block. Returns the place in the output.
    pub(super) fn drop_block(&mut self) -> u64 {
        self.copy_to(self.stream.began());
        self.done = self.stream.innermost().map_or(self.done, |(_, end)| end);
        self.stream.skip_block();
        self.out.at()
    }

    /// Write a block in place of one that was left out.
    pub(super) fn write_block(
        &mut self,
        block: u32,
        width: u32,
        write: impl FnOnce(&mut Bits),
    ) -> Result<()> {
        let outer = self.width();
        let open = self.out.enter(outer, block, width);
        write(&mut self.out);
        if self.out.leave(&open) { Ok(()) } else { Err(Unsupported::Size.into()) }
    }

    /// End the current block, after these new records.
    pub(super) fn close(&mut self, records: &[(u32, &[u64])]) -> Result<()> {
        self.copy_to(self.stream.began());
        let width = self.width();
        for (code, operands) in records {
            self.out.record(width, *code, operands);
        }
        self.done = self.stream.at();
        match self.open.pop() {
            Some(open) if !self.out.leave(&open) => Err(Unsupported::Size.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn drop_record(&mut self) {
        self.copy_to(self.stream.began());
        self.done = self.stream.at();
    }

    pub(super) fn replace(&mut self, code: u32, operands: &[u64]) {
        self.drop_record();
        self.out.record(self.width(), code, operands);
    }
}
