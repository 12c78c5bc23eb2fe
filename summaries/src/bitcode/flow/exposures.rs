//! The exposure of operands in IR: the operations that let an address escape because they do more than copy it.

use super::super::ir::types::Type;
use super::super::ir::{TypeId, ValueId};
use super::body::BodyBuilder;
use super::names::NotFollowed;
use crate::exposure::Exposure;
use crate::ids::ValueIdx;
use crate::relation::Constraint;

impl BodyBuilder<'_> {
    /// Notes that an operation uses the value other than by copying, as the exposure says.
    pub(super) fn expose(&mut self, from: ValueId, exposure: Exposure) -> Result<(), NotFollowed> {
        if exposure != Exposure::Nothing
            && let Some(from) = self.value(from)?
        {
            self.expose_value(from, exposure);
        }
        Ok(())
    }

    pub(super) fn expose_value(&mut self, from: ValueIdx, exposure: Exposure) {
        match exposure {
            Exposure::Nothing => {}
            Exposure::Code => self.push(Constraint::EscapeCode { from }),
            Exposure::Everything => self.push(Constraint::Escape { from }),
        }
    }

    /// The bits of an integer; 0 for any other type.
    pub(super) fn bits(&self, ty: Option<TypeId>) -> u32 {
        match ty.and_then(|ty| self.module().types.get(ty)) {
            Some(Type::Integer { bits }) => *bits,
            _ => 0,
        }
    }

    /// Whether a type has elements of so few bits that comparing them tells which bits an address has.
    pub(super) fn is_of_pieces(&self, ty: Option<TypeId>) -> bool {
        let element = match ty.and_then(|ty| self.module().types.get(ty)) {
            Some(Type::Vector { element, .. }) => Some(*element),
            _ => ty,
        };
        (1..=16).contains(&self.bits(element))
    }
}
