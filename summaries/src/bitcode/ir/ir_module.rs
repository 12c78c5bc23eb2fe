//! A module of LLVM's IR without the bodies of its functions: types, global values, constants, and the positions of bodies.
//!
//! Each table notes its unknown parts, which a caller must check.

use super::attributes::{AttributeList, Attributes};
use super::constants::{Constant, Constants};
use super::layout::DataLayout;
use super::record::{TypeId, ValueId};
use super::types::Types;
use crate::bitcode::module::MAX_NOTES;
use crate::bitcode::stream::StreamPlace;

/// The kind and the operands of a global value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlobalKind {
    Variable {
        initializer: Option<ValueId>,
    },
    Function {
        calling_convention: u32,
        attributes: AttributeList,
        prologue: Option<ValueId>,
        prefix: Option<ValueId>,
        personality: Option<ValueId>,
        /// It is an index into [`IrModule::bodies`].
        body: Option<u32>,
    },
    Alias {
        aliasee: ValueId,
    },
    Ifunc {
        resolver: ValueId,
    },
}

/// A global value; its id is its place in [`IrModule::globals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Global {
    /// The type of the value itself, not of its address: of a variable's contents, or the function type.
    pub ty: TypeId,
    pub address_space: u32,
    pub kind: GlobalKind,
}

impl Global {
    /// Call `see` for every operand outside of its body.
    pub fn each_operand(&self, see: impl FnMut(ValueId)) {
        match self.kind {
            GlobalKind::Variable { initializer } => initializer.into_iter().for_each(see),
            GlobalKind::Function { prologue, prefix, personality, .. } => {
                [prologue, prefix, personality].into_iter().flatten().for_each(see);
            }
            GlobalKind::Alias { aliasee: id } | GlobalKind::Ifunc { resolver: id } => {
                [id].into_iter().for_each(see)
            }
        }
    }
}

/// The position of a function's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyPlace {
    /// The function, a global value.
    pub function: ValueId,
    pub(in crate::bitcode) place: StreamPlace,
}

#[derive(Debug, Clone, Default)]
pub struct IrModule {
    pub types: Types,
    pub layout: DataLayout,
    pub attributes: Attributes,
    pub globals: Vec<Global>,
    /// Their ids follow those of the global values.
    pub constants: Constants,
    /// Names of the tags of operand bundles.
    pub bundle_tags: Vec<Vec<u8>>,
    /// In the order of their functions.
    pub bodies: Vec<BodyPlace>,
    pub(super) info: Option<StreamPlace>,
    /// The reasons why its values are not understood.
    pub unknown: Vec<String>,
}

impl IrModule {
    /// Whether types, global values and constants were all understood. Bodies and attributes have their own notes.
    pub fn is_understood(&self) -> bool {
        self.unknown.is_empty() && self.types.unknown.is_empty() && self.constants.unknown.is_empty()
    }

    /// The number of values outside of bodies.
    pub fn values(&self) -> u32 {
        self.globals.len().saturating_add(self.constants.all.len()) as u32
    }

    /// A global value by its id.
    pub fn global(&self, value: ValueId) -> Option<&Global> {
        self.globals.get(value.0 as usize)
    }

    pub fn constant(&self, value: ValueId) -> Option<&Constant> {
        self.constants.all.get((value.0 as usize).checked_sub(self.globals.len())?)
    }

    /// The type of a global value's address or of a constant, if it is known.
    pub fn type_of(&self, value: ValueId) -> Option<TypeId> {
        match self.global(value) {
            Some(global) => self.types.pointer().filter(|_| global.address_space == 0),
            None => self.constant(value).map(|c| c.ty),
        }
    }

    pub(super) fn note(&mut self, what: String) {
        if self.unknown.len() < MAX_NOTES {
            self.unknown.push(what);
        }
    }
}
