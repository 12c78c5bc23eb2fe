//! Symbol resolution of references: the targets of a global value are its symbol and the module's own definition.
//!
//! The second target is there only if another definition may prevail over it; a reference to both keeps both. `places` has the values of
//! bodies.

use crate::bitcode::ir::attributes::AttributeList;
use crate::bitcode::ir::{GlobalKind, IrModule, TypeId, ValueId};
use crate::bitcode::linkage::Linkage;
use crate::bitcode::module::{Module, ValueKind};
use crate::bitcode::symbols;
use crate::ids::{AtomIdx, SymbolIdx};
use crate::summary::Target;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotFollowed(pub(super) &'static str);

/// The type of a function, its attributes and its calling convention.
pub(super) struct IrFunction {
    pub(super) attributes: AttributeList,
    pub(super) convention: u32,
    pub(super) result: TypeId,
    pub(super) variadic: bool,
}

/// The global values of a module as targets of references.
pub(super) struct GlobalNames<'m> {
    pub(super) module: &'m Module<'m>,
    pub(super) ir: &'m IrModule,
    /// The elements are indexed by value id.
    pub(super) targets: Vec<Vec<Target>>,
}

impl<'m> GlobalNames<'m> {
    pub(super) fn new(module: &'m Module<'m>, ir: &'m IrModule, numbers: &GlobalNumbers<'_>) -> Self {
        let targets = (0..module.values.len()).map(|v| targets_of(module, numbers, v)).collect();
        GlobalNames { module, ir, targets }
    }

    /// The targets of a reference to a global value: the prevailing definition, and the module's own.
    pub(super) fn targets(&self, value: ValueId) -> Vec<Target> {
        self.targets.get(value.0 as usize).cloned().unwrap_or_default()
    }

    /// The name of an intrinsic function, without `llvm.`.
    pub(super) fn intrinsic(&self, value: ValueId) -> Option<&'m [u8]> {
        let value = self.module.values.get(value.0 as usize)?;
        value.name.strip_prefix(b"llvm.").filter(|_| value.is_intrinsic())
    }

    /// Whether it is a function, or a name of one.
    pub(super) fn is_function(&self, value: ValueId) -> bool {
        let base = symbols::base_object(self.module, value.0);
        let base = base.and_then(|base| self.module.values.get(base as usize));
        base.is_some_and(|base| base.kind == ValueKind::Function)
    }

    pub(super) fn function(&self, value: ValueId) -> Option<IrFunction> {
        let global = self.ir.global(value)?;
        let GlobalKind::Function { calling_convention, attributes, .. } = global.kind else { return None };
        let (result, _, variadic) = self.ir.types.function(global.ty)?;
        Some(IrFunction { attributes, convention: calling_convention, result, variadic })
    }
}

/// The numbering of one module of a file, by value id.
#[derive(Clone, Copy)]
pub(super) struct GlobalNumbers<'n> {
    pub(super) atoms: &'n [Option<AtomIdx>],
    pub(super) symbols: &'n [Option<SymbolIdx>],
}

impl GlobalNumbers<'_> {
    pub(super) fn atom(&self, value: usize) -> Option<AtomIdx> {
        self.atoms.get(value).copied().flatten()
    }
}

fn targets_of(module: &Module<'_>, numbers: &GlobalNumbers<'_>, value: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    let Some(of) = module.values.get(value) else { return targets };
    let symbol = numbers.symbols.get(value).copied().flatten();
    targets.extend(symbol.map(Target::Symbol));
    // Another definition may prevail over it, and this one be used all the same.
    let base = symbols::base_object(module, value as u32);
    // Of several strong definitions in COMDATs of one name the first prevails.
    let in_comdat = base.and_then(|b| module.values.get(b as usize)).is_some_and(|b| b.comdat.is_some());
    let has_rivals = !of.linkage.is_local() && (of.linkage != Linkage::External || in_comdat);
    if has_rivals && !matches!(of.kind, ValueKind::Ifunc { .. }) {
        let own = base.and_then(|b| numbers.atom(b as usize));
        targets.extend(own.map(Target::Atom));
    }
    targets
}
