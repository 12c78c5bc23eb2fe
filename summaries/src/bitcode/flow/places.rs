//! Constant folding of addresses: the global values in a constant, and the offsets from their beginnings.
//!
//! An unknown offset stands for any offset, and every operand of an expression of any form is a place. Constants that are only integers
//! are not evaluated.

use super::super::ir::constants::{Constant, ConstantKind};
use super::super::ir::function::{Body, ValueDefinition};
use super::super::ir::instruction::{binary, cast};
use super::super::ir::layout::Sizes;
use super::super::ir::types::Type;
use super::super::ir::{IrModule, TypeId, ValueId};

/// A place in a global value: the offset in bytes from its beginning, `None` if unknown.
pub(super) type GlobalPlace = (ValueId, Option<i64>);

/// The assumed offset of a basic block's label: in the function, and not at its entry.
pub(super) const LABEL: i64 = 1;

/// The maximum number of constants that one query visits.
const MAX_VISITS: usize = 1 << 16;

/// A module's constants, and those of a body if there is one.
#[derive(Clone, Copy)]
pub(super) struct ConstantValues<'m> {
    pub(super) module: &'m IrModule,
    pub(super) sizes: &'m Sizes,
    pub(super) body: Option<&'m Body>,
}

impl<'m> ConstantValues<'m> {
    pub(super) fn constant(self, id: ValueId) -> Option<&'m Constant> {
        match self.body.map(|b| (b, b.definition(id))) {
            Some((body, Some(ValueDefinition::Constant(index)))) => body.constants.all.get(index as usize),
            Some((_, Some(ValueDefinition::Module))) | None => self.module.constant(id),
            Some(_) => None,
        }
    }

    /// The value of an integer constant, if it is one.
    pub(super) fn integer(self, id: ValueId) -> Option<i64> {
        match self.constant(id)?.kind {
            ConstantKind::Integer(number) => Some(number),
            ConstantKind::Null => Some(0),
            _ => None,
        }
    }

    /// Bytes between the base and the element that the indices select in a type; `None` if the distance is not constant.
    pub(super) fn distance(self, source: Option<TypeId>, indices: &[ValueId]) -> Option<i64> {
        let types = &self.module.types;
        let (first, rest) = indices.split_first()?;
        let mut ty = source?;
        let scaled = |ty: TypeId, index: i64| {
            let size = i64::try_from(self.sizes.of(ty)?.alloc).ok()?;
            size.checked_mul(index)
        };
        let mut offset = match self.integer(*first)? {
            0 => 0,
            index => scaled(ty, index)?,
        };
        for index in rest {
            let index = self.integer(*index)?;
            let step = match types.get(ty)? {
                Type::Struct { elements, .. } => {
                    let at = usize::try_from(index).ok()?;
                    let field = i64::try_from(*self.sizes.fields(ty)?.get(at)?).ok()?;
                    ty = *elements.get(at)?;
                    field
                }
                Type::Array { element, .. } => {
                    ty = *element;
                    scaled(ty, index)?
                }
                // Elements of vectors may be packed closer than those of arrays.
                _ => return None,
            };
            offset = offset.checked_add(step)?;
        }
        Some(offset)
    }

    /// The places whose addresses are in a constant. `None` if the constant has too many parts.
    pub(super) fn places(self, id: ValueId) -> Option<Vec<GlobalPlace>> {
        let mut found = Vec::new();
        let mut open: Vec<GlobalPlace> = vec![(id, Some(0))];
        let mut visits = 0;
        while let Some((id, offset)) = open.pop() {
            visits += 1;
            if visits > MAX_VISITS {
                return None;
            }
            if self.module.global(id).is_some() {
                found.push((id, offset));
                continue;
            }
            let Some(constant) = self.constant(id) else { continue };
            let moved = |by: Option<i64>| offset.zip(by).and_then(|(o, by)| o.checked_add(by));
            match &constant.kind {
                ConstantKind::Cast { opcode, operand } => {
                    open.push((*operand, offset.filter(|_| cast::keeps_addresses(*opcode))));
                }
                ConstantKind::GetElementPtr { source, operands, .. } => {
                    if let Some((base, indices)) = operands.split_first() {
                        open.push((*base, moved(self.distance(*source, indices))));
                        open.extend(indices.iter().map(|i| (*i, None)));
                    }
                }
                ConstantKind::Binary { opcode: binary::ADD, left, right } => {
                    open.push((*left, moved(self.integer(*right))));
                    open.push((*right, moved(self.integer(*left))));
                }
                ConstantKind::Aggregate(all) => open.extend(all.iter().map(|id| (*id, offset))),
                ConstantKind::BlockAddress { function, .. } => open.push((*function, moved(Some(LABEL)))),
                ConstantKind::DsoLocalEquivalent(id) | ConstantKind::NoCfi(id) => open.push((*id, offset)),
                _ => constant.each_operand(|id| open.push((id, None))),
            }
        }
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}
