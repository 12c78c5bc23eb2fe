//! The body of a function: its constants and instructions, with their value ids.
//!
//! Ids continue those of the module: parameters, the function's constants, then each instruction of a type other than void. An unknown record makes
//! all later ids doubtful, so that the whole body is not understood. The same holds if the number of blocks is wrong or an operand is no
//! value. Of metadata only the attached types are read.

use super::super::codes::{METADATA_KIND_TYPE, block, instruction, metadata};
use super::super::error::Result;
use super::super::module::MAX_NOTES;
use super::super::stream::{Event, Stream};
use super::constants::Constants;
use super::instruction::{InstructionKind, IrInstruction};
use super::ir_module::IrModule;
use super::parse::{Context, ParsedRecord};
use super::record::{Record, short};
use super::record::{TypeId, ValueId};
use super::types::{Type, Types};

/// Blocks of a body that define no value.
const IN_FUNCTION: &[u32] = &[block::VALUE_SYMTAB, block::METADATA, block::USELIST];

/// The definition of a value in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueDefinition {
    /// A global value or a constant of the module.
    Module,
    /// The first one has number 0.
    Parameter(u32),
    /// It is an index into [`Body::constants`].
    Constant(u32),
    /// It is an index into [`Body::instructions`].
    Instruction(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The function, a global value.
    pub function: ValueId,
    /// The first value id after the module's.
    pub first_parameter: ValueId,
    pub parameters: u32,
    /// Their numbers follow those of the parameters.
    pub constants: Constants,
    /// The number of basic blocks in the body.
    pub blocks: u32,
    pub instructions: Vec<IrInstruction>,
    /// A type is attached to the function (`!type`), by which type tests know its address.
    pub has_type: bool,
    /// The instruction of each value after the constants.
    definitions: Vec<u32>,
    /// The reasons why the body is not understood; then its values must not be used.
    pub unknown: Vec<String>,
}

impl Body {
    /// Whether the whole body was understood.
    pub fn is_understood(&self) -> bool {
        self.unknown.is_empty()
    }

    /// The definition of a value; `None` if it is not in this body or its module.
    pub fn definition(&self, value: ValueId) -> Option<ValueDefinition> {
        let Some(local) = value.0.checked_sub(self.first_parameter.0) else {
            return Some(ValueDefinition::Module);
        };
        let Some(constant) = local.checked_sub(self.parameters) else {
            return Some(ValueDefinition::Parameter(local));
        };
        match (constant as usize).checked_sub(self.constants.all.len()) {
            None => Some(ValueDefinition::Constant(constant)),
            Some(index) => self.definitions.get(index).map(|i| ValueDefinition::Instruction(*i)),
        }
    }

    /// The type of a value, if it is known.
    pub fn type_of(&self, module: &IrModule, value: ValueId) -> Option<TypeId> {
        match self.definition(value)? {
            ValueDefinition::Module => module.type_of(value),
            ValueDefinition::Parameter(index) => parameter_type(module, self.function, index),
            ValueDefinition::Constant(index) => Some(self.constants.all.get(index as usize)?.ty),
            ValueDefinition::Instruction(index) => self.instructions.get(index as usize)?.ty,
        }
    }

    /// The number that the next value will have.
    fn next_value(&self) -> u32 {
        let own = self.constants.all.len().saturating_add(self.definitions.len());
        self.first_parameter.0.saturating_add(self.parameters).saturating_add(own as u32)
    }

    fn note(&mut self, what: String) {
        if self.unknown.len() < MAX_NOTES {
            self.unknown.push(what);
        }
    }

    fn add(&mut self, kind: InstructionKind, ty: Option<TypeId>, block: &mut u32, types: &Types) {
        let ends = kind.is_terminator();
        let value = defines(&kind, ty, types).then(|| ValueId(self.next_value()));
        if value.is_some() {
            self.definitions.push(self.instructions.len() as u32);
        }
        self.instructions.push(IrInstruction {
            block: *block,
            value,
            ty: ty.filter(|_| value.is_some()),
            kind,
        });
        if ends {
            *block = block.saturating_add(1);
        }
    }

    /// Note signs of a misread body.
    fn check(&mut self, blocks: u32) {
        if blocks != self.blocks {
            self.note(format!("{blocks} basic blocks in place of {}", self.blocks));
        }
        let values = self.next_value();
        let mut outside = false;
        let mut see = |id: ValueId| outside |= id.0 >= values;
        self.instructions.iter().for_each(|i| i.kind.each_operand(&mut see));
        self.constants.all.iter().for_each(|c| c.each_operand(&mut see));
        if outside {
            self.note("an operand that is no value".to_owned());
        }
    }
}

fn parameter_type(module: &IrModule, function: ValueId, index: u32) -> Option<TypeId> {
    let (_, parameters, _) = module.types.function(module.globals.get(function.0 as usize)?.ty)?;
    parameters.get(index as usize).copied()
}

/// Whether an instruction is of a type other than void.
fn defines(kind: &InstructionKind, ty: Option<TypeId>, types: &Types) -> bool {
    use InstructionKind as Kind;
    match kind {
        Kind::Call(_) => !matches!(ty.and_then(|t| types.get(t)), Some(Type::Void)),
        // The only terminator with a value.
        Kind::CatchSwitch { .. } => true,
        Kind::Store { .. } | Kind::Fence => false,
        kind => !kind.is_terminator(),
    }
}

/// Read the body of `function`, whose block has just been entered.
pub(super) fn read(stream: &mut Stream<'_>, module: &IrModule, function: ValueId) -> Result<Body> {
    let ty = module.globals.get(function.0 as usize).map(|g| g.ty);
    let parameters = ty.and_then(|ty| module.types.function(ty)).map(|(_, parameters, _)| parameters.len());
    let mut body = Body {
        function,
        first_parameter: ValueId(module.values()),
        parameters: parameters.unwrap_or_default() as u32,
        constants: Constants::default(),
        blocks: 0,
        instructions: Vec::new(),
        has_type: false,
        definitions: Vec::new(),
        unknown: Vec::new(),
    };
    if parameters.is_none() {
        body.note("a function without a function type".to_owned());
    }
    let (mut bundles, mut block) = (Vec::new(), 0);
    loop {
        match stream.next()? {
            Event::Enter(block::CONSTANTS) => {
                if !body.instructions.is_empty() {
                    body.note("constants behind instructions".to_owned());
                }
                body.constants.read(stream)?;
            }
            Event::Enter(block::METADATA_ATTACHMENT) => body.has_type |= attaches_type(stream)?,
            Event::Enter(inner) => {
                if !IN_FUNCTION.contains(&inner) {
                    body.note(format!("block {inner}"));
                }
                stream.skip_block();
            }
            Event::Leave | Event::End => break,
            Event::Record(code @ instruction::DECLARE_BLOCKS) => {
                body.blocks = Record::new(stream.operands(), 0).small().ok_or_else(|| short(stream, code))?;
            }
            Event::Record(code) => {
                let context = Context { types: &module.types, type_of: |value| body.type_of(module, value) };
                let record = Record::new(stream.operands(), body.next_value());
                let parsed = context.parse(code, record, &mut bundles).ok_or_else(|| short(stream, code))?;
                match parsed {
                    ParsedRecord::Instruction(kind, ty) => body.add(kind, ty, &mut block, &module.types),
                    ParsedRecord::Bundle(bundle) => bundles.push(bundle),
                    ParsedRecord::Nothing => {}
                    ParsedRecord::Unknown => body.note(format!("function record {code}")),
                }
            }
        }
    }
    let unknown = body.constants.unknown.clone();
    unknown.into_iter().for_each(|what| body.note(what));
    body.check(block);
    Ok(body)
}

/// Whether a type is attached to the function itself, by the block of attachments that has just been entered. Attachments of an
/// instruction begin with its number, so that they have an odd number of operands.
fn attaches_type(stream: &mut Stream<'_>) -> Result<bool> {
    let mut found = false;
    stream.each_record(|stream, code| {
        let operands = stream.operands();
        let has_type = || operands.iter().step_by(2).any(|kind| *kind == METADATA_KIND_TYPE);
        found |= code == metadata::ATTACHMENT && operands.len().is_multiple_of(2) && has_type();
        Ok(())
    })?;
    Ok(found)
}
