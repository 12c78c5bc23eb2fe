//! A pull parser of LLVM's bitstream. Its events are: a block begins, a record, a block ends.
//!
//! Blocks are on an explicit stack, so that depth costs only the bits of headers. Abbreviations of BLOCKINFO are shared. Time and memory are
//! linear in the bytes: an operand takes a bit of the stream or is a literal of an abbreviation, and there are at most as many literals as bits.

use super::codes::abbreviation as id;
use super::codes::block::BLOCKINFO;
use super::codes::blockinfo::SETBID;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::abbreviation::{Abbreviation, AbbreviationOperand, char6};
use super::cursor::Cursor;
use super::error::{BitcodeErrorKind, Result};

/// First bytes of a bitstream of LLVM IR.
pub(super) const MAGIC: &[u8] = b"BC\xc0\xde";

/// More operands than any record has that is read here: blocks with arrays of data are skipped.
const MAX_OPERANDS: usize = 1 << 24;

/// Abbreviations for blocks of one id.
type Shared = Rc<Vec<Rc<Abbreviation>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block with this id; reading goes on inside.
    Enter(u32),
    Leave,
    /// A record with this code, whose operands are in [`Stream::operands`].
    Record(u32),
    End,
}

/// The position of the inside of a block, to read it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamPlace {
    block: u32,
    /// The width of abbreviation ids in bits.
    width: u32,
    /// The place of its first abbreviation id, in bits from the magic on.
    at: u64,
    /// It is a number of bits.
    end: u64,
}

/// Abbreviations that BLOCKINFO gave, by block id.
#[derive(Debug, Clone, Default)]
pub(super) struct Info(FxHashMap<u32, Shared>);

#[derive(Debug)]
struct Scope {
    block: u32,
    /// The width of abbreviation ids in bits.
    width: u32,
    /// The place in bits where it ends.
    end: u64,
    /// Its abbreviations by BLOCKINFO, when it began.
    given: Shared,
    own: Vec<Rc<Abbreviation>>,
    /// In BLOCKINFO: the block that is being described.
    describes: Option<u32>,
}

/// A bitstream, read from its beginning.
#[derive(Debug)]
pub struct Stream<'a> {
    cursor: Cursor<'a>,
    /// The start of the last event, in bits.
    began: u64,
    scopes: Vec<Scope>,
    /// The abbreviations of the last BLOCKINFO, by block id.
    info: FxHashMap<u32, Shared>,
    /// The abbreviations of the BLOCKINFO that is being read.
    new_info: FxHashMap<u32, Vec<Rc<Abbreviation>>>,
    /// Literals that may still be read.
    literals: u64,
    operands: Vec<u64>,
    blob: Option<&'a [u8]>,
}

impl StreamPlace {
    /// The bytes of the block, without its header.
    pub(super) fn size(&self) -> u64 {
        self.end.saturating_sub(self.at) / 8
    }
}

impl<'a> Stream<'a> {
    /// A stream that is read from the magic on.
    ///
    /// # Errors
    /// Without a magic.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        if !bytes.starts_with(MAGIC) {
            return Err(cursor.error(BitcodeErrorKind::Magic));
        }
        cursor.seek(32);
        let literals = cursor.end();
        Ok(Stream {
            cursor,
            began: 32,
            scopes: Vec::new(),
            info: FxHashMap::default(),
            new_info: FxHashMap::default(),
            literals,
            operands: Vec::new(),
            blob: None,
        })
    }

    /// A stream inside a block that another reader of the same bytes has found: events go on to the block's [`Event::Leave`].
    /// Work is bounded by the block's own size.
    pub(super) fn within(bytes: &'a [u8], place: StreamPlace, info: &Info) -> Self {
        let StreamPlace { block, width, at, end } = place;
        let mut cursor = Cursor::new(bytes);
        cursor.seek(at);
        cursor.set_end(end);
        let given = info.0.get(&block).cloned().unwrap_or_default();
        Stream {
            cursor,
            began: at,
            scopes: vec![Scope { block, width, end, given, own: Vec::new(), describes: None }],
            info: info.0.clone(),
            new_info: FxHashMap::default(),
            literals: end.saturating_sub(at),
            operands: Vec::new(),
            blob: None,
        }
    }

    /// The position of the block that has just been entered.
    pub(super) fn place(&self) -> Option<StreamPlace> {
        let scope = self.scopes.last()?;
        Some(StreamPlace { block: scope.block, width: scope.width, at: self.cursor.at(), end: scope.end })
    }

    pub(super) fn info(&self) -> Info {
        Info(self.info.clone())
    }

    pub fn operands(&self) -> &[u64] {
        &self.operands
    }

    /// The blob of the last record, if it has one.
    pub fn blob(&self) -> Option<&'a [u8]> {
        self.blob
    }

    /// Whether the innermost block has this id.
    pub fn is_in(&self, block: u32) -> bool {
        self.scopes.last().is_some_and(|s| s.block == block)
    }

    /// The id of the innermost block; no block has the largest.
    pub(super) fn block(&self) -> u32 {
        self.scopes.last().map_or(u32::MAX, |s| s.block)
    }

    pub(super) fn error(&self, kind: BitcodeErrorKind) -> super::error::BitcodeError {
        self.cursor.error(kind)
    }

    /// Leave the innermost block without reading the rest of it.
    pub fn skip_block(&mut self) {
        if let Some(scope) = self.scopes.pop() {
            self.cursor.seek(scope.end);
            self.restore_end();
        }
    }

    /// The start of the last event, in bits from the first byte of the magic: its abbreviation id.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// The current position in bits: after the last event, or after a block's header.
    pub fn at(&self) -> u64 {
        self.cursor.at()
    }

    /// The width of abbreviation ids (1 to 32) of the innermost block, and its end, both in bits.
    pub fn innermost(&self) -> Option<(u32, u64)> {
        self.scopes.last().map(|s| (s.width, s.end))
    }

    /// The next event. Abbreviation definitions and block information are processed on the way.
    ///
    /// # Errors
    /// What is malformed.
    #[expect(clippy::should_implement_trait, reason = "an event borrows nothing and fails: no iterator")]
    pub fn next(&mut self) -> Result<Event> {
        loop {
            self.began = self.cursor.at();
            let Some(width) = self.scopes.last().map(|s| s.width) else {
                return self.top_level();
            };
            match self.cursor.fixed(width)? {
                id::END_BLOCK => return self.leave(),
                id::ENTER_SUBBLOCK => return self.enter(),
                id::DEFINE => self.define()?,
                id => {
                    let code = self.record(id)?;
                    self.note_block_info(code)?;
                    return Ok(Event::Record(code));
                }
            }
        }
    }

    /// Call `see` for each record of the block that has just been entered, to its end. Inner blocks are skipped.
    pub(super) fn each_record(&mut self, mut see: impl FnMut(&mut Self, u32) -> Result<()>) -> Result<()> {
        loop {
            match self.next()? {
                Event::Enter(_) => self.skip_block(),
                Event::Leave | Event::End => return Ok(()),
                Event::Record(code) => see(self, code)?,
            }
        }
    }

    fn top_level(&mut self) -> Result<Event> {
        // A few bytes of padding may follow the last block, less than a block's header has.
        if self.cursor.left() <= 64 {
            return Ok(Event::End);
        }
        match self.cursor.fixed(2)? {
            id::ENTER_SUBBLOCK => self.enter(),
            _ => Err(self.error(BitcodeErrorKind::TopLevel)),
        }
    }

    fn enter(&mut self) -> Result<Event> {
        let block = self.cursor.vbr(8)?;
        let width = self.cursor.vbr(4)?;
        self.cursor.align32()?;
        let words = self.cursor.fixed(32)?;
        if !(1..=32).contains(&width) {
            return Err(self.error(BitcodeErrorKind::AbbreviationWidth(width)));
        }
        let end = self.cursor.at().saturating_add(words * 32);
        if end > self.cursor.end() {
            return Err(self.error(BitcodeErrorKind::BlockTooLong));
        }
        if self.scopes.is_empty() {
            // Each module has its own.
            self.info.clear();
        }
        // No known block has an id that large.
        let block = u32::try_from(block).unwrap_or(u32::MAX);
        let given = self.info.get(&block).cloned().unwrap_or_default();
        self.cursor.set_end(end);
        if block == BLOCKINFO {
            self.new_info.clear();
        }
        self.scopes.push(Scope { block, width: width as u32, end, given, own: Vec::new(), describes: None });
        Ok(Event::Enter(block))
    }

    fn leave(&mut self) -> Result<Event> {
        self.cursor.align32()?;
        let Some(scope) = self.scopes.pop() else { return Ok(Event::End) };
        if self.cursor.at() != scope.end {
            return Err(self.error(BitcodeErrorKind::BlockEnd));
        }
        self.restore_end();
        if scope.block == BLOCKINFO {
            // A later one replaces the first, as in LLVM's reader.
            self.info = self.new_info.drain().map(|(block, list)| (block, Rc::new(list))).collect();
        }
        Ok(Event::Leave)
    }

    fn restore_end(&mut self) {
        self.cursor.set_end(self.scopes.last().map_or(u64::MAX, |s| s.end));
    }

    fn define(&mut self) -> Result<()> {
        let abbreviation = Rc::new(Abbreviation::read(&mut self.cursor)?);
        let bad = self.error(BitcodeErrorKind::BadBlockInfo);
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if scope.block == BLOCKINFO {
            let block = scope.describes.ok_or(bad)?;
            self.new_info.entry(block).or_default().push(abbreviation);
        } else {
            scope.own.push(abbreviation);
        }
        Ok(())
    }

    /// Note the block that BLOCKINFO describes next. Names of blocks and records are ignored.
    fn note_block_info(&mut self, code: u32) -> Result<()> {
        let bad = self.error(BitcodeErrorKind::BadBlockInfo);
        if let Some(scope) = self.scopes.last_mut()
            && scope.block == BLOCKINFO
            && code == SETBID
        {
            let block = self.operands.first().and_then(|b| u32::try_from(*b).ok());
            scope.describes = Some(block.ok_or(bad)?);
        }
        Ok(())
    }

    /// Read a record's operands; gives its code.
    fn record(&mut self, id: u64) -> Result<u32> {
        self.operands.clear();
        self.blob = None;
        if id == id::UNABBREVIATED {
            let code = self.cursor.vbr(6)?;
            let count = self.cursor.vbr(6)?;
            self.check_count(count, 6)?;
            for _ in 0..count {
                let operand = self.cursor.vbr(6)?;
                self.operands.push(operand);
            }
            return Ok(code_of(code));
        }
        let abbreviation = self.abbreviation(id)?;
        let mut code = None;
        let mut operands = abbreviation.operands.iter();
        while let Some(operand) = operands.next() {
            let value = match operand {
                AbbreviationOperand::Literal(value) => {
                    self.literals = self.literals.checked_sub(1).ok_or_else(|| self.too_much())?;
                    *value
                }
                AbbreviationOperand::Array => {
                    let count = self.cursor.vbr(6)?;
                    let element = operands.next().copied().unwrap_or(AbbreviationOperand::Char6);
                    self.array(count, element)?;
                    continue;
                }
                AbbreviationOperand::Blob => {
                    let length = self.cursor.vbr(6)?;
                    self.cursor.align32()?;
                    self.blob = Some(self.cursor.bytes(length)?);
                    self.cursor.align32()?;
                    continue;
                }
                scalar => self.scalar(*scalar)?,
            };
            match code {
                None => code = Some(value),
                Some(_) => self.push(value)?,
            }
        }
        Ok(code_of(code.unwrap_or_default()))
    }

    fn array(&mut self, count: u64, element: AbbreviationOperand) -> Result<()> {
        let width = match element {
            AbbreviationOperand::Fixed(width) | AbbreviationOperand::Vbr(width) => width,
            _ => 6,
        };
        self.check_count(count, width)?;
        for _ in 0..count {
            let value = self.scalar(element)?;
            self.operands.push(value);
        }
        Ok(())
    }

    #[inline]
    fn scalar(&mut self, operand: AbbreviationOperand) -> Result<u64> {
        match operand {
            AbbreviationOperand::Fixed(width) => self.cursor.fixed(width),
            AbbreviationOperand::Vbr(width) => self.cursor.vbr(width),
            AbbreviationOperand::Char6 => Ok(char6(self.cursor.fixed(6)?)),
            AbbreviationOperand::Literal(value) => Ok(value),
            AbbreviationOperand::Array | AbbreviationOperand::Blob => {
                Err(self.error(BitcodeErrorKind::BadAbbreviation))
            }
        }
    }

    fn push(&mut self, value: u64) -> Result<()> {
        self.check_count(1, 0)?;
        self.operands.push(value);
        Ok(())
    }

    /// Whether as many further operands of at least `width` bits each can be present.
    fn check_count(&self, count: u64, width: u32) -> Result<()> {
        if count.saturating_mul(u64::from(width)) > self.cursor.left() {
            return Err(self.error(BitcodeErrorKind::Truncated));
        }
        if count > (MAX_OPERANDS.saturating_sub(self.operands.len())) as u64 {
            return Err(self.error(BitcodeErrorKind::LongRecord(MAX_OPERANDS)));
        }
        Ok(())
    }

    fn too_much(&self) -> super::error::BitcodeError {
        self.error(BitcodeErrorKind::TooMuchWork)
    }

    fn abbreviation(&self, id: u64) -> Result<Rc<Abbreviation>> {
        let index = usize::try_from(id - id::FIRST).unwrap_or(usize::MAX);
        let found = self.scopes.last().and_then(|scope| {
            let given = &scope.given;
            given.get(index).or_else(|| scope.own.get(index.checked_sub(given.len())?))
        });
        found.cloned().ok_or_else(|| self.error(BitcodeErrorKind::UnknownAbbreviation(id)))
    }
}

/// A code that does not fit is unknown, like all large ones.
fn code_of(code: u64) -> u32 {
    u32::try_from(code).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStep<'s> {
    /// A block with this id begins.
    Enter(u32),
    Leave,
    /// A record, with the length of its blob if it has one.
    Record {
        code: u32,
        operands: &'s [u64],
        blob: Option<usize>,
    },
}

/// Show every block and record of a bitstream, in order, without skipping a block.
///
/// # Errors
/// What is malformed.
pub fn walk(bytes: &[u8], mut see: impl FnMut(StreamStep<'_>)) -> Result<()> {
    let mut stream = Stream::new(bytes)?;
    loop {
        match stream.next()? {
            Event::Enter(block) => see(StreamStep::Enter(block)),
            Event::Leave => see(StreamStep::Leave),
            Event::Record(code) => {
                let blob = stream.blob().map(<[u8]>::len);
                see(StreamStep::Record { code, operands: stream.operands(), blob });
            }
            Event::End => return Ok(()),
        }
    }
}
