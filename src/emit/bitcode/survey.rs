//! The limits of rewriting a file of bitcode: its modules, the types that a stub needs, and the values that must be
//! kept.
//!
//! A value can be dropped unless LLVM gives its name or linkage a meaning. A function can become a stub unless the
//! address of a block of its body is taken. A module with any unknown record is rejected.

use summaries::bitcode::codes::{block, constants, instruction, types as ty};
use summaries::bitcode::container;
use summaries::bitcode::file::{self, BitcodeFile};
use summaries::bitcode::linkage::Linkage;
use summaries::bitcode::module::{GlobalValue, ValueKind};
use summaries::bitcode::stream::{Event, Stream};
use summaries::bitcode::symbols::ValueAt;

use super::error::{Obstacle, RewriteError, Unsupported, ValueFate};

/// The first LLVM whose constants of inline assembly have the layout that stubs have.
const FIRST_PRODUCER: u32 = 14;

/// The types of a module that stubs need.
#[derive(Debug, Default)]
pub(super) struct Types {
    /// By type id: whether it is a function type.
    pub(super) functions: Vec<bool>,
    pub(super) void: Option<u64>,
    /// The type of functions without parameters or result.
    pub(super) void_function: Option<u64>,
    /// The opaque pointer type of address space 0.
    pub(super) opaque_pointer: Option<u64>,
    /// A typed pointer to a void function.
    pub(super) typed_pointer: Option<u64>,
    pub(super) typed: bool,
}

impl Types {
    fn add(&mut self, code: u32, ops: &[u64]) {
        if matches!(code, ty::NUMENTRY | ty::STRUCT_NAME) {
            return;
        }
        let id = self.functions.len() as u64;
        self.functions.push(code == ty::FUNCTION);
        let place = match (code, ops) {
            (ty::VOID, _) => &mut self.void,
            (ty::FUNCTION, [0, result]) if self.void == Some(*result) => &mut self.void_function,
            (ty::OPAQUE_POINTER, [0, ..]) => &mut self.opaque_pointer,
            (ty::POINTER, [to, space @ ..]) => {
                self.typed = true;
                if self.void_function != Some(*to) || space.first().is_some_and(|s| *s != 0) {
                    return;
                }
                &mut self.typed_pointer
            }
            _ => return,
        };
        place.get_or_insert(id);
    }
}

/// A file of bitcode, with the limits of its values.
#[derive(Debug)]
pub struct Survey<'a> {
    pub(super) file: BitcodeFile<'a>,
    pub(super) stream: &'a [u8],
    pub(super) types: Vec<Types>,
    /// The string tables in the order of the file. Each is for the modules between the last table and itself.
    pub(super) strtabs: Vec<&'a [u8]>,
    /// By module, the functions with a block whose address is taken, sorted.
    blocks_taken: Vec<Vec<u32>>,
}

impl<'a> Survey<'a> {
    /// Look through bitcode, raw or wrapped.
    ///
    /// # Errors
    /// The file is malformed, or no part of it can be rewritten.
    pub fn new(bytes: &'a [u8]) -> Result<Self, RewriteError> {
        let file = file::read(bytes)?;
        if let Some(what) = file.unknown.first() {
            return Err(Unsupported::Unknown(what.clone()).into());
        }
        for module in &file.modules {
            if let Some(what) = module.unknown.first() {
                return Err(Unsupported::Unknown(what.clone()).into());
            }
            if let Some(index) = module.summary.as_ref().filter(|index| !index.is_read()) {
                let what = index.unknown.first();
                let what = what.map_or_else(|| format!("summary version {}", index.version), String::clone);
                return Err(Unsupported::Unknown(what).into());
            }
        }
        let range = container::unwrap(bytes).unwrap_or_default();
        let stream = bytes.get(range).unwrap_or_default();
        let mut survey =
            Survey { file, stream, types: Vec::new(), strtabs: Vec::new(), blocks_taken: Vec::new() };
        survey.look()?;
        Ok(survey)
    }

    fn look(&mut self) -> Result<(), RewriteError> {
        let mut stream = Stream::new(self.stream)?;
        let mut types = Types::default();
        let mut taken = Vec::new();
        let mut strtab = None;
        let (mut in_module, mut in_function) = (false, false);
        loop {
            match stream.next()? {
                Event::Enter(block::MODULE) => in_module = true,
                Event::Enter(block::BLOCKINFO | block::CONSTANTS | block::TYPE_NEW) => {}
                Event::Enter(block::STRTAB) => strtab = Some(None),
                Event::Record(_) if stream.is_in(block::STRTAB) => {
                    // The first blob counts, as in `file::read`.
                    strtab = strtab.map(|found| found.or(stream.blob()));
                }
                Event::Enter(block::FUNCTION) => in_function = true,
                Event::Enter(_) => stream.skip_block(),
                Event::Record(code) if stream.is_in(block::TYPE_NEW) => types.add(code, stream.operands()),
                Event::Record(constants::BLOCKADDRESS) if stream.is_in(block::CONSTANTS) => {
                    let function = stream.operands().get(1).and_then(|id| u32::try_from(*id).ok());
                    taken.extend(function);
                }
                // Instructions follow the constants.
                Event::Record(code)
                    if in_function
                        && stream.is_in(block::FUNCTION)
                        && code != instruction::DECLARE_BLOCKS =>
                {
                    stream.skip_block();
                    in_function = false;
                }
                Event::Record(_) => {}
                Event::Leave if in_function => in_function = stream.is_in(block::FUNCTION),
                Event::Leave if stream.innermost().is_none() && !in_module => {
                    let blob = strtab.take().flatten();
                    self.strtabs.push(blob.ok_or(Unsupported::Place("a string table"))?);
                }
                Event::Leave if stream.innermost().is_none() => {
                    in_module = false;
                    taken.sort_unstable();
                    taken.dedup();
                    self.blocks_taken.push(std::mem::take(&mut taken));
                    self.types.push(std::mem::take(&mut types));
                }
                Event::Leave => {}
                Event::End => return Ok(()),
            }
        }
    }

    pub fn file(&self) -> &BitcodeFile<'a> {
        &self.file
    }

    fn value(&self, at: ValueAt) -> Option<&GlobalValue<'a>> {
        self.file.modules.get(at.module as usize)?.values.get(at.value as usize)
    }

    /// The reason why an action is not possible for a value.
    pub fn forbids(&self, at: ValueAt, action: ValueFate) -> Option<Obstacle> {
        match action {
            ValueFate::Keep => None,
            ValueFate::Drop => self.keeps(at),
            ValueFate::Stub => self.keeps_body(at),
        }
    }

    /// The reason why a value can't be dropped.
    fn keeps(&self, at: ValueAt) -> Option<Obstacle> {
        let Some(value) = self.value(at) else { return Some(Obstacle::NoValue) };
        let by_name = value.name.starts_with(b"llvm.") && value.kind != ValueKind::Function;
        if value.linkage == Linkage::Appending || by_name {
            return Some(Obstacle::Special);
        }
        let types = self.types.get(at.module as usize);
        types.is_none().then_some(Obstacle::NoValue)
    }

    /// The reason why a value can't become a stub.
    fn keeps_body(&self, at: ValueAt) -> Option<Obstacle> {
        let Some(value) = self.value(at) else { return Some(Obstacle::NoValue) };
        let is_body = value.kind == ValueKind::Function && !value.is_declaration_for_linker();
        if !is_body {
            return Some(Obstacle::NoBody);
        }
        let taken = self.blocks_taken.get(at.module as usize);
        if taken.is_none_or(|taken| taken.binary_search(&at.value).is_ok()) {
            return Some(Obstacle::BlockAddress);
        }
        let producer = self.file.producer_major().unwrap_or_default();
        (producer < FIRST_PRODUCER).then_some(Obstacle::OldProducer)
    }
}
