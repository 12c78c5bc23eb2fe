//! The IR of functions and initializers: types, constants, instructions and attributes of LLVM 14 to 22.
//!
//! A value is a number: first the module's global values in the order of [`super::module::Module::values`], then its constants, then the values of a
//! body ([`function`]). Bodies are read on demand, in any order and in parallel. Forward references stay numbers. Unknown parts are
//! noted, and a caller must not use a noted table. Source: LLVM, `LLVMBitCodes.h`, `BitcodeReader.cpp`. Metadata, names of values and types,
//! and use lists are skipped.

pub mod attributes;
mod call;
pub mod constants;
pub mod function;
pub mod instruction;
mod ir_module;
pub mod layout;
pub mod mentions;
mod parse;
mod record;
pub mod types;

pub use ir_module::{BodyPlace, Global, GlobalKind, IrModule};
pub use record::{TypeId, ValueId};

use super::codes::{block, module as code};
use super::container;
use super::error::{BitcodeError, BitcodeErrorKind, Result};
use super::stream::{Event, Info, Stream};
use attributes::AttributeList;
use function::Body;
use layout::DataLayout;
use record::{Record, short};
use types::Types;

/// The IR of a file of bitcode.
#[derive(Debug, Clone)]
pub struct Ir<'a> {
    bytes: &'a [u8],
    /// The order is that of [`super::file::BitcodeFile::modules`].
    pub modules: Vec<IrModule>,
}

/// Reads the bodies of a module, in any order.
#[derive(Debug)]
pub struct BodyReader<'i> {
    bytes: &'i [u8],
    module: &'i IrModule,
    info: Info,
}

impl Ir<'_> {
    /// A reader of the bodies of a module; each thread needs its own. `None` if there is no such module.
    ///
    /// # Errors
    /// The module's abbreviations are malformed.
    pub fn reader(&self, module: usize) -> Result<Option<BodyReader<'_>>> {
        let Some(module) = self.modules.get(module) else { return Ok(None) };
        let mut info = Info::default();
        if let Some(place) = module.info {
            let mut stream = Stream::within(self.bytes, place, &info);
            while !matches!(stream.next()?, Event::Leave | Event::End) {}
            info = stream.info();
        }
        Ok(Some(BodyReader { bytes: self.bytes, module, info }))
    }
}

impl BodyReader<'_> {
    /// The body with that index in [`IrModule::bodies`]; `None` if there is none.
    ///
    /// # Errors
    /// What is malformed.
    pub fn body(&self, index: usize) -> Result<Option<Body>> {
        let Some(at) = self.module.bodies.get(index) else { return Ok(None) };
        let mut stream = Stream::within(self.bytes, at.place, &self.info);
        function::read(&mut stream, self.module, at.function).map(Some)
    }
}

/// Read bitcode, raw or wrapped, without the bodies of its functions.
///
/// # Errors
/// What is malformed.
pub fn read(bytes: &[u8]) -> Result<Ir<'_>> {
    let wrapper = BitcodeError { at: 0, kind: BitcodeErrorKind::Wrapper };
    let range = container::unwrap(bytes).ok_or(wrapper)?;
    let bytes = bytes.get(range).unwrap_or_default();
    let mut stream = Stream::new(bytes)?;
    let mut ir = Ir { bytes, modules: Vec::new() };
    loop {
        match stream.next()? {
            Event::Enter(block::MODULE) => ir.modules.push(read_module(&mut stream)?),
            Event::Enter(_) => stream.skip_block(),
            Event::Leave | Event::Record(_) => {}
            Event::End => break,
        }
    }
    if ir.modules.is_empty() {
        return Err(stream.error(BitcodeErrorKind::NoModule));
    }
    Ok(ir)
}

fn read_module(stream: &mut Stream<'_>) -> Result<IrModule> {
    let mut module = IrModule::default();
    let mut with_bodies = Vec::new();
    loop {
        match stream.next()? {
            Event::Enter(block::BLOCKINFO) => {
                // Bodies use the last one, but earlier blocks were read by an earlier one.
                if !module.bodies.is_empty() {
                    module.note("block information behind bodies".to_owned());
                }
                module.info = stream.place();
            }
            Event::Enter(block::TYPE_NEW) => module.types.read(stream)?,
            Event::Enter(block::PARAMATTR_GROUP) => module.attributes.read_groups(stream)?,
            Event::Enter(block::PARAMATTR) => module.attributes.read_lists(stream)?,
            Event::Enter(block::CONSTANTS) => module.constants.read(stream)?,
            Event::Enter(block::OPERAND_BUNDLE_TAGS) => bundle_tags(stream, &mut module)?,
            Event::Enter(block::FUNCTION) => {
                match (with_bodies.get(module.bodies.len()), stream.place()) {
                    (Some(function), Some(place)) => {
                        module.bodies.push(BodyPlace { function: *function, place });
                    }
                    _ => module.note("a body without a function".to_owned()),
                }
                stream.skip_block();
            }
            Event::Enter(_) => stream.skip_block(),
            Event::Leave if stream.is_in(block::MODULE) => {}
            Event::Leave | Event::End => break,
            Event::Record(code) if stream.is_in(block::MODULE) => {
                record(stream, code, &mut module, &mut with_bodies)?;
            }
            Event::Record(_) => {}
        }
    }
    if module.bodies.len() != with_bodies.len() {
        module.note(format!("{} bodies of {} functions", module.bodies.len(), with_bodies.len()));
    }
    let values = module.values();
    let mut outside = false;
    let mut see = |id: ValueId| outside |= id.0 >= values;
    module.globals.iter().for_each(|g| g.each_operand(&mut see));
    module.constants.all.iter().for_each(|c| c.each_operand(&mut see));
    if outside {
        module.note("an operand that is no value".to_owned());
    }
    Ok(module)
}

fn bundle_tags(stream: &mut Stream<'_>, module: &mut IrModule) -> Result<()> {
    stream.each_record(|stream, _| {
        module.bundle_tags.push(stream.operands().iter().map(|c| *c as u8).collect());
        Ok(())
    })
}

/// A record of the module; `with_bodies` are the functions with bodies, in their order.
fn record(
    stream: &Stream<'_>,
    code: u32,
    module: &mut IrModule,
    with_bodies: &mut Vec<ValueId>,
) -> Result<()> {
    match code {
        code::DATALAYOUT => {
            let text: Vec<u8> = stream.operands().iter().map(|c| *c as u8).collect();
            module.layout = DataLayout::parse(&text);
        }
        code::GLOBALVAR | code::FUNCTION | code::ALIAS | code::IFUNC => {
            if !module.constants.all.is_empty() {
                module.note("a global value behind constants".to_owned());
            }
            let bodies = with_bodies.len() as u32;
            let found = global(stream.operands(), code, bodies, &module.types);
            let global = found.ok_or_else(|| short(stream, code))?;
            if let GlobalKind::Function { body: Some(_), .. } = global.kind {
                with_bodies.push(ValueId(module.globals.len() as u32));
            }
            module.globals.push(global);
        }
        code::ALIAS_OLD => module.note(format!("module record {code}")),
        _ => {}
    }
    Ok(())
}

/// The record of a global value, whose first two operands are its name. Positions are those of [`super::module`].
fn global(operands: &[u64], code: u32, bodies: u32, types: &Types) -> Option<Global> {
    let operands = operands.get(2..)?;
    let at = |i: usize| operands.get(i).copied().unwrap_or_default();
    let id = |i: usize| u32::try_from(*operands.get(i)?).ok().map(ValueId);
    // 0 for none.
    let optional = |i: usize| match u32::try_from(at(i)).ok()?.checked_sub(1) {
        None => Some(None),
        Some(id) => Some(Some(ValueId(id))),
    };
    let mut ty = Record::new(operands, 0).ty()?;
    // The type of a typed pointer is that of its pointee.
    let named = |ty: TypeId| match types.get(ty) {
        Some(types::Type::Pointer { pointee: Some(pointee), .. }) => *pointee,
        _ => ty,
    };
    let mut address_space = at(1) as u32;
    let kind = match code {
        code::GLOBALVAR => {
            // Bit 1 says that the type is that of the contents; the address space follows it.
            if at(1) & 2 == 0 {
                ty = named(ty);
            }
            address_space = (at(1) >> 2) as u32;
            GlobalKind::Variable { initializer: optional(2)? }
        }
        code::FUNCTION => {
            ty = named(ty);
            address_space = at(16) as u32;
            GlobalKind::Function {
                calling_convention: at(1) as u32,
                attributes: AttributeList(u32::try_from(at(4)).ok()?),
                prologue: optional(10)?,
                prefix: optional(13)?,
                personality: optional(14)?,
                body: (*operands.get(2)? == 0).then_some(bodies),
            }
        }
        code::ALIAS => GlobalKind::Alias { aliasee: id(2)? },
        _ => GlobalKind::Ifunc { resolver: id(2)? },
    };
    Some(Global { ty, address_space, kind })
}
