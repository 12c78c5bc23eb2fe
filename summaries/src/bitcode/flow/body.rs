//! Constraint generation for the body of a function: the effects of its instructions on addresses.
//!
//! Every value of the body that can hold an address is a value of the summary. A value computed from an address holds it at an unknown
//! offset. Local variables (`alloca`) lie in the frame, which is one object. A function with an instruction that is not modelled gets no
//! summary. A global value escapes if the function refers to it and no constraint names it. The analysis is flow-insensitive, and ignores
//! the conditions of branches.

use std::collections::BTreeMap;

use super::super::ir::constants::ConstantKind;
use super::super::ir::function::{Body, ValueDefinition};
use super::super::ir::instruction::{InstructionKind as Kind, IrInstruction, binary, cast};
use super::super::ir::types::Type;
use super::super::ir::{IrModule, TypeId, ValueId};
use super::abi::{self, ArgumentPlaces, Slot};
use super::names::{GlobalNames, NotFollowed};
use super::numbers;
use super::places::ConstantValues;
use crate::exposure::Exposure;
use crate::ids::{AtomIdx, ValueIdx};
use crate::registers::PRESERVABLE;
use crate::relation::{CallSite, Constraint, FunctionSummary, MOVABLE_ALIGNMENT, Place};

/// Bytes of a frame in which local variables are distinguished.
const FRAME: i64 = 1 << 17;

/// The search for an `and` passes through at most this many casts; a value behind more of them may have any bits.
const MAX_CASTS: usize = 8;

pub(super) struct BodyBuilder<'m> {
    pub(super) values: ConstantValues<'m>,
    pub(super) body: &'m Body,
    pub(super) names: &'m GlobalNames<'m>,
    pub(super) out: FunctionSummary,
    pub(super) section: u32,
    /// The values of parameters and instructions, by number from the body's first.
    local: Vec<Option<ValueIdx>>,
    constants: BTreeMap<ValueId, Option<ValueIdx>>,
    /// Global values that escape here without a constraint.
    pub(super) escaping: Vec<ValueId>,
    /// Global values that are compared, or passed to operations without effect on them.
    pub(super) compared: Vec<ValueId>,
    /// Bytes of the frame that are taken, downwards.
    taken: i64,
    pub(super) instruction: u32,
    pub(super) result: Option<ValueIdx>,
    pub(super) has_assembly: bool,
}

pub(super) struct BodySummary {
    pub(super) summary: FunctionSummary,
    /// Global values that escape in it, in addition to those of the summary.
    pub(super) escaping: Vec<ValueId>,
    /// Global values that are compared in it, or passed to operations without effect on them; ascending.
    pub(super) compared: Vec<ValueId>,
    /// The values of the summary that parameters and instructions are, by number from the body's first.
    pub(super) local: Vec<Option<ValueIdx>>,
    /// The values of the summary that constants are, of the body and of the module.
    pub(super) constants: BTreeMap<ValueId, Option<ValueIdx>>,
    /// There is assembly in it that has instructions of its own.
    pub(super) has_assembly: bool,
}

/// Summarise the body of the function whose atom is `atom`.
pub(super) fn summarise<'m>(
    values: ConstantValues<'m>,
    body: &'m Body,
    names: &'m GlobalNames<'m>,
    atom: AtomIdx,
    section: u32,
) -> Result<BodySummary, NotFollowed> {
    let locals = body.instructions.len().saturating_add(body.parameters as usize);
    let own_constants = body.constants.all.len();
    let mut builder = BodyBuilder {
        values,
        body,
        names,
        out: FunctionSummary::new(atom),
        section,
        local: vec![None; locals.saturating_add(own_constants)],
        constants: BTreeMap::new(),
        escaping: Vec::new(),
        compared: Vec::new(),
        taken: 0,
        instruction: 0,
        result: None,
        has_assembly: false,
    };
    builder.out.entries.push((atom, 0));
    builder.parameters()?;
    for (i, instruction) in body.instructions.iter().enumerate() {
        builder.instruction = i as u32;
        builder.instruction(instruction)?;
    }
    builder.results()?;
    let BodyBuilder { out: mut summary, escaping, mut compared, local, constants, has_assembly, .. } =
        builder;
    numbers::mark(&mut summary);
    compared.sort_unstable();
    compared.dedup();
    summary.constraints.sort_unstable();
    summary.constraints.dedup();
    Ok(BodySummary { summary, escaping, compared, local, constants, has_assembly })
}

impl<'m> BodyBuilder<'m> {
    pub(super) fn module(&self) -> &'m IrModule {
        self.values.module
    }

    pub(super) fn fresh(&mut self) -> ValueIdx {
        let value = ValueIdx(self.out.values);
        self.out.values = self.out.values.saturating_add(1);
        value
    }

    pub(super) fn push(&mut self, constraint: Constraint) {
        self.out.constraints.push(constraint);
    }

    /// The value of an operand that can hold an address; `None` for other operands.
    pub(super) fn value(&mut self, id: ValueId) -> Result<Option<ValueIdx>, NotFollowed> {
        match self.body.definition(id) {
            Some(ValueDefinition::Module | ValueDefinition::Constant(_)) => self.constant(id),
            Some(ValueDefinition::Parameter(_) | ValueDefinition::Instruction(_)) => {
                if self.body.type_of(self.module(), id).is_some_and(|ty| self.holds_nothing(ty)) {
                    return Ok(None);
                }
                let at = id.0.checked_sub(self.body.first_parameter.0).map(|i| i as usize);
                let known = at.and_then(|at| self.local.get(at).copied());
                match known {
                    Some(Some(value)) => Ok(Some(value)),
                    Some(None) => {
                        let value = self.fresh();
                        if let Some(slot) = at.and_then(|at| self.local.get_mut(at)) {
                            *slot = Some(value);
                        }
                        Ok(Some(value))
                    }
                    None => Err(NotFollowed("an operand that is no value")),
                }
            }
            None => Err(NotFollowed("an operand that is no value")),
        }
    }

    /// Whether values of this type hold no address. A single bit may be a piece of an address, unlike the result of a scalar comparison.
    fn holds_nothing(&self, ty: TypeId) -> bool {
        let ty = self.module().types.get(ty);
        matches!(ty, Some(Type::Void | Type::Label | Type::Metadata | Type::Token))
    }

    /// The value that holds the addresses in a constant, made at its first use; `Ok(None)` if the constant holds no address.
    ///
    /// An address at an unknown offset needs two values, because only [`Constraint::Assign`] can add an unknown offset.
    fn constant(&mut self, id: ValueId) -> Result<Option<ValueIdx>, NotFollowed> {
        if let Some(known) = self.constants.get(&id) {
            return Ok(*known);
        }
        let places = self.values.places(id).ok_or(NotFollowed("a constant of very many parts"))?;
        let mut value = None;
        for (global, offset) in places {
            for target in self.names.targets(global) {
                let to = value.unwrap_or_else(|| self.fresh());
                value = Some(to);
                match offset {
                    Some(offset) => self.push(Constraint::Address { to, target, offset }),
                    None => {
                        let from = self.fresh();
                        self.push(Constraint::Address { to: from, target, offset: 0 });
                        self.push(Constraint::Assign { from, to, offset: None });
                    }
                }
            }
        }
        self.constants.insert(id, value);
        Ok(value)
    }

    /// `to` holds what an operand holds, at an offset from it; `None` is an unknown one.
    pub(super) fn assign(
        &mut self,
        from: ValueId,
        to: Option<ValueIdx>,
        offset: Option<i64>,
    ) -> Result<(), NotFollowed> {
        if let (Some(from), Some(to)) = (self.value(from)?, to)
            && !(from == to && offset == Some(0))
        {
            self.push(Constraint::Assign { from, to, offset });
        }
        Ok(())
    }

    pub(super) fn escape(&mut self, from: ValueId) -> Result<(), NotFollowed> {
        if let Some(from) = self.value(from)? {
            self.push(Constraint::Escape { from });
        }
        Ok(())
    }

    /// Notes the global values that an operand is; a comparison does not reveal their contents.
    pub(super) fn compare(&mut self, operand: ValueId) {
        let places = self.values.places(operand).unwrap_or_default();
        self.compared.extend(places.into_iter().map(|p| p.0));
    }

    /// The instruction that makes a value, if one does.
    fn defining_instruction(&self, value: ValueId) -> Option<&Kind> {
        let ValueDefinition::Instruction(index) = self.body.definition(value)? else { return None };
        self.body.instructions.get(index as usize).map(|i| &i.kind)
    }

    /// Whether a value consists of some bits of another, in any width. In IR a comparison of such a value takes one bit of a number
    /// (`(int)(x & 1) != 0`). A comparison of vectors takes one bit of each element, which may be a piece of a number.
    fn is_part(&self, mut value: ValueId) -> bool {
        for _ in 0..MAX_CASTS {
            if self.is_vector_of_numbers(value) {
                return true;
            }
            match self.defining_instruction(value) {
                Some(Kind::Binary { opcode: binary::AND | binary::SREM | binary::UREM, .. })
                | Some(Kind::Cast { opcode: cast::TRUNC, .. }) => return true,
                // Pointer differences are shifted to get a number of elements.
                Some(Kind::Binary { opcode: binary::ASHR | binary::LSHR | binary::SHL, left, .. }) => {
                    return !matches!(
                        self.defining_instruction(*left),
                        Some(Kind::Binary { opcode: binary::SUB, .. })
                    );
                }
                Some(Kind::Cast { operand, .. } | Kind::Freeze(operand)) => value = *operand,
                _ => return false,
            }
        }
        true
    }

    /// Whether a condition is a bit that was extracted from a number.
    fn is_bit(&self, condition: ValueId) -> bool {
        match self.defining_instruction(condition) {
            Some(Kind::Compare { left, right, .. }) => self.is_part(*left) || self.is_part(*right),
            _ => self.is_part(condition),
        }
    }

    fn is_vector_of_numbers(&self, value: ValueId) -> bool {
        let types = &self.module().types;
        match self.body.type_of(self.module(), value).and_then(|ty| types.get(ty)) {
            Some(Type::Vector { element, .. }) => !self.is_pointer(Some(*element)),
            _ => false,
        }
    }

    fn is_pointer(&self, ty: Option<TypeId>) -> bool {
        matches!(ty.and_then(|ty| self.module().types.get(ty)), Some(Type::Pointer { .. }))
    }

    pub(super) fn frame(&mut self, offset: Option<i64>) -> ValueIdx {
        self.out.frame = true;
        let to = self.fresh();
        self.push(Constraint::Frame { to, offset });
        to
    }

    /// The size in bytes of an access of this type; 0 if unknown.
    pub(super) fn size(&self, ty: Option<TypeId>) -> u32 {
        let size = ty.and_then(|ty| self.values.sizes.of(ty));
        size.and_then(|s| u32::try_from(s.store).ok()).unwrap_or_default()
    }

    /// Whether a pointer is a non-null constant made of integers only; its pointee is unknown.
    pub(super) fn is_number(&self, pointer: ValueId) -> bool {
        let Some(constant) = self.values.constant(pointer) else { return false };
        let empty = matches!(constant.kind, ConstantKind::Null | ConstantKind::Undef | ConstantKind::Poison);
        !empty && self.values.places(pointer).is_some_and(|places| places.is_empty())
    }

    pub(super) fn load(
        &mut self,
        pointer: ValueId,
        to: Option<ValueIdx>,
        size: u32,
    ) -> Result<(), NotFollowed> {
        match (self.value(pointer)?, to) {
            (Some(value), Some(to)) => {
                self.push(Constraint::Load { from: Place { value, offset: Some(0) }, to, size });
            }
            (None, Some(to)) if self.is_number(pointer) => self.push(Constraint::Unknown { to }),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        from: Option<ValueIdx>,
        pointer: ValueId,
        size: u32,
    ) -> Result<(), NotFollowed> {
        match (from, self.value(pointer)?) {
            (Some(from), Some(value)) => {
                self.push(Constraint::Store { from, to: Place { value, offset: Some(0) }, size });
            }
            (Some(from), None) if self.is_number(pointer) => self.push(Constraint::Escape { from }),
            _ => {}
        }
        Ok(())
    }

    fn parameters(&mut self) -> Result<(), NotFollowed> {
        let module = self.module();
        let function = self.names.function(self.body.function).ok_or(NotFollowed("no function"))?;
        let passing = abi::passing(module, function.attributes, function.convention)
            .ok_or(NotFollowed("parameters that are passed in a way of their own"))?;
        let ids = (0..self.body.parameters).map(|i| ValueId(self.body.first_parameter.0.saturating_add(i)));
        let ids: Vec<ValueId> = ids.collect();
        let types = ids.iter().map(|id| self.body.type_of(module, *id));
        let mut registers = Vec::new();
        match abi::arguments(module, self.values.sizes, types, &passing) {
            ArgumentPlaces::Each(slots) => {
                for (id, slot) in ids.iter().zip(slots) {
                    let Some(value) = self.value(*id)? else { continue };
                    match slot {
                        Slot::Register(register) => registers.push((register, value)),
                        Slot::Stack(offset) => {
                            let stack = self.frame(Some(i64::from(offset)));
                            let from = Place { value: stack, offset: Some(0) };
                            self.push(Constraint::Load { from, to: value, size: 8 });
                        }
                    }
                }
            }
            ArgumentPlaces::Any => {
                let any = self.fresh();
                registers.extend(abi::passed().map(|register| (register, any)));
                let stack = self.frame(None);
                self.push(Constraint::Load { from: Place { value: stack, offset: None }, to: any, size: 0 });
                if !passing.by_value.is_empty() {
                    self.push(Constraint::Assign { from: stack, to: any, offset: None });
                }
                for id in &ids {
                    if let Some(to) = self.value(*id)? {
                        self.push(Constraint::Assign { from: any, to, offset: Some(0) });
                    }
                }
            }
        }
        if let Some(address) = passing.result.and_then(|i| ids.get(i as usize)) {
            self.result = self.value(*address)?;
        }
        if function.variadic {
            // The argument area of `va_start`: all registers, saved in the frame next to the stack's arguments.
            let stack = self.frame(None);
            for register in abi::passed() {
                let known = registers.iter().find(|r| r.0 == register).map(|r| r.1);
                let value = known.unwrap_or_else(|| self.fresh());
                if known.is_none() {
                    registers.push((register, value));
                }
                let to = Place { value: stack, offset: None };
                self.push(Constraint::Store { from: value, to, size: 0 });
            }
        }
        registers.sort_unstable();
        self.out.parameters = registers;
        Ok(())
    }

    fn results(&mut self) -> Result<(), NotFollowed> {
        let module = self.module();
        let function = self.names.function(self.body.function).ok_or(NotFollowed("no function"))?;
        let mut registers = abi::results(module, self.values.sizes, function.result).to_vec();
        if registers.is_empty() && self.result.is_some() {
            registers.push(0);
        }
        if let Some(result) = self.result {
            self.out.results = registers.iter().map(|r| (*r, result)).collect();
        }
        let written = registers.iter().fold(0u64, |all, r| all | 1 << (r & 63));
        self.out.preserved = PRESERVABLE & !written;
        Ok(())
    }

    fn instruction(&mut self, instruction: &'m IrInstruction) -> Result<(), NotFollowed> {
        let to = match instruction.value {
            Some(id) => self.value(id)?,
            None => None,
        };
        match &instruction.kind {
            Kind::Unary { operand, .. } => {
                self.expose(*operand, Exposure::Code)?;
                self.assign(*operand, to, None)?;
            }
            Kind::Freeze(operand) => self.assign(*operand, to, Some(0))?,
            Kind::Binary { opcode, left, right } => self.binary(*opcode, *left, *right, to)?,
            Kind::Cast { opcode, operand, .. } => {
                let copies = match *opcode {
                    cast::TRUNC | cast::BITCAST => !self.is_of_pieces(instruction.ty),
                    opcode => opcode == cast::SEXT || cast::keeps_addresses(opcode),
                };
                if !copies {
                    self.expose(*operand, Exposure::Code)?;
                }
                self.assign(*operand, to, cast::keeps_addresses(*opcode).then_some(0))?;
            }
            Kind::GetElementPtr { source, operands, .. } => {
                let (base, indices) = operands.split_first().ok_or(NotFollowed("an address of nothing"))?;
                self.assign(*base, to, self.values.distance(*source, indices))?;
                // The index values are not addresses.
                if let Some(to) = to.filter(|_| self.is_number(*base)) {
                    self.push(Constraint::Unknown { to });
                }
                for index in indices {
                    self.assign(*index, to, None)?;
                }
            }
            Kind::Select { condition, if_true, if_false } => {
                self.compare(*condition);
                // Addresses may be put together from numbers.
                if self.is_bit(*condition) && !self.is_pointer(instruction.ty) {
                    self.assign(*condition, to, None)?;
                }
                self.assign(*if_true, to, Some(0))?;
                self.assign(*if_false, to, Some(0))?;
            }
            Kind::Phi { incoming } => {
                for (value, _) in incoming {
                    self.assign(*value, to, Some(0))?;
                }
            }
            Kind::ExtractValue { aggregate: a, .. } | Kind::ExtractElement { vector: a, .. } => {
                self.assign(*a, to, Some(0))?;
            }
            Kind::InsertValue { aggregate: a, element: b, .. }
            | Kind::InsertElement { vector: a, element: b, .. }
            | Kind::ShuffleVector { left: a, right: b, .. } => {
                self.assign(*a, to, Some(0))?;
                self.assign(*b, to, Some(0))?;
            }
            Kind::Compare { left, right, .. } => {
                for operand in [*left, *right] {
                    self.compare(operand);
                    if self.is_part(operand) {
                        self.assign(operand, to, None)?;
                    }
                }
            }
            Kind::Fence | Kind::Unreachable | Kind::Branch { .. } => {}
            Kind::ConditionalBranch { condition, .. } | Kind::Switch { condition, .. } => {
                self.compare(*condition);
            }
            // The targets are listed, and are in the function.
            Kind::IndirectBranch { .. } => {}
            Kind::Load { pointer, .. } => {
                self.load(*pointer, to, self.size(instruction.ty))?;
                if let Some(to) = to.filter(|_| self.is_of_pieces(instruction.ty)) {
                    self.expose_value(to, Exposure::Code);
                }
            }
            Kind::Store { pointer, value, value_type, .. } => {
                let size = self.size(value_type.or_else(|| self.body.type_of(self.module(), *value)));
                let from = self.value(*value)?;
                self.store(from, *pointer, size)?;
            }
            Kind::CompareExchange { pointer, expected, new } => {
                self.compare(*expected);
                let size = self.size(self.body.type_of(self.module(), *new));
                self.load(*pointer, to, size)?;
                let from = self.value(*new)?;
                self.store(from, *pointer, size)?;
            }
            Kind::AtomicRmw { pointer, value, operation } => {
                let size = self.size(self.body.type_of(self.module(), *value));
                self.load(*pointer, to, size)?;
                let mut from = self.value(*value)?;
                if *operation != 0 {
                    // The new value is computed from both operands.
                    let made = self.fresh();
                    // Only `add` of these copies.
                    if *operation != 1 {
                        self.expose_value(made, Exposure::Code);
                    }
                    self.assign(*value, Some(made), None)?;
                    if let Some(old) = to {
                        self.push(Constraint::Assign { from: old, to: made, offset: None });
                    }
                    from = Some(made);
                }
                self.store(from, *pointer, size)?;
            }
            Kind::Alloca { allocated, count, align_log2 } => {
                self.alloca(*allocated, *count, *align_log2, to)?;
            }
            Kind::Call(call) => self.call(call, instruction, to)?,
            Kind::Return(value) => {
                if let Some(value) = value
                    && self.value(*value)?.is_some()
                {
                    let result = match self.result {
                        Some(result) => result,
                        None => self.fresh(),
                    };
                    self.result = Some(result);
                    self.assign(*value, Some(result), Some(0))?;
                }
            }
            Kind::Resume(value) => self.escape(*value)?,
            Kind::LandingPad { clauses, .. } => {
                if let Some(to) = to {
                    self.push(Constraint::Unknown { to });
                }
                // Tables of exceptions name them.
                for clause in clauses {
                    let places = self.values.places(*clause);
                    let places = places.ok_or(NotFollowed("a constant of very many parts"))?;
                    self.escaping.extend(places.into_iter().map(|p| p.0));
                }
            }
            Kind::VaArg { .. } => return Err(NotFollowed("the instruction va_arg")),
            Kind::CatchSwitch { .. }
            | Kind::CatchPad { .. }
            | Kind::CleanupPad { .. }
            | Kind::CatchReturn { .. }
            | Kind::CleanupReturn { .. } => return Err(NotFollowed("exceptions of another system")),
        }
        Ok(())
    }

    fn binary(
        &mut self,
        opcode: u32,
        left: ValueId,
        right: ValueId,
        to: Option<ValueIdx>,
    ) -> Result<(), NotFollowed> {
        let by = |id: ValueId| self.values.integer(id);
        let (left_by, right_by) = match opcode {
            binary::ADD => (by(right), by(left)),
            binary::SUB => (by(right).and_then(i64::checked_neg), None),
            _ => (None, None),
        };
        let ty = self.body.type_of(self.module(), left);
        let (bits, constant) = (self.bits(ty), by(right));
        let exposure = match (opcode, constant) {
            (binary::ADD, _) if left != right => Exposure::Nothing,
            (binary::SUB, Some(_)) => Exposure::Nothing,
            (binary::AND, Some(mask)) => Exposure::of_mask(mask),
            (binary::OR | binary::XOR, Some(constant)) => Exposure::of_bits(constant),
            (binary::LSHR | binary::ASHR, Some(by)) => Exposure::of_shift_right(bits, by),
            (binary::AND | binary::SHL | binary::LSHR | binary::ASHR, None) => Exposure::Everything,
            _ => Exposure::Code,
        };
        for operand in [left, right] {
            self.expose(operand, exposure.of_width(bits))?;
        }
        self.assign(left, to, left_by)?;
        self.assign(right, to, right_by)
    }

    fn alloca(
        &mut self,
        allocated: Option<TypeId>,
        count: ValueId,
        align_log2: u64,
        to: Option<ValueIdx>,
    ) -> Result<(), NotFollowed> {
        self.out.frame = true;
        let size = allocated.and_then(|ty| self.values.sizes.of(ty)).map(|s| s.alloc);
        let bytes = self.values.integer(count).zip(size).and_then(|(n, size)| {
            let bytes = u64::try_from(n).ok()?.checked_mul(size)?.checked_next_multiple_of(16)?;
            i64::try_from(bytes).ok()
        });
        let below = bytes.and_then(|bytes| self.taken.checked_add(bytes.max(16)));
        let offset = match below {
            Some(below) if below <= FRAME && align_log2 < u64::from(MOVABLE_ALIGNMENT.ilog2()) => {
                self.taken = below;
                Some(-below)
            }
            _ => None,
        };
        if let Some(to) = to {
            self.push(Constraint::Frame { to, offset });
        }
        Ok(())
    }

    pub(super) fn site(&mut self, site: CallSite) {
        self.out.call_sites.push(site);
    }
}
